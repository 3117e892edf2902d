// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

static void reserve(struct text *t, size_t more)
{
	size_t size = t->size ? t->size : 256;

	if (t->length + more <= t->size)
		return;
	while (size < t->length + more)
		size *= 2;
	t->data = realloc(t->data, size);
	if (!t->data)
		die("out of memory");
	t->size = size;
}

void text_add(struct text *t, const char *s, size_t length)
{
	reserve(t, length);
	memcpy(t->data + t->length, s, length);
	t->length += length;
}

void text_puts(struct text *t, const char *s)
{
	text_add(t, s, strlen(s));
}

void text_printf(struct text *t, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	reserve(t, length + 1);
	va_start(args, format);
	vsnprintf(t->data + t->length, length + 1, format, args);
	va_end(args);
	t->length += length;
}

void text_u64(struct text *t, uint64_t value)
{
	char digits[20];
	char *first = digits + sizeof(digits);

	do {
		*--first = '0' + value % 10;
		value /= 10;
	} while (value);
	text_add(t, first, digits + sizeof(digits) - first);
}

void text_s64(struct text *t, int64_t value)
{
	if (value < 0)
		text_puts(t, "-");
	text_u64(t, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

/* Length of the UTF-8 sequence at @s, at most @left bytes long; 0: not UTF-8. */
static size_t utf8_length(const unsigned char *s, size_t left)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : 4;
	uint32_t code;

	if (length == 1)
		return 1;
	if (length > left || (length == 4 && s[0] >> 3 != 30))
		return 0;
	code = s[0] & (0x7f >> length);
	for (size_t i = 1; i < length; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return length;
}

void text_json(struct text *t, const char *s, size_t length)
{
	text_puts(t, "\"");
	for (size_t i = 0; i < length;) {
		unsigned char c = s[i];
		size_t n = utf8_length((const unsigned char *)s + i, length - i);

		if (!n)
			text_puts(t, "\\ufffd");
		else if (c == '"' || c == '\\')
			text_printf(t, "\\%c", c);
		else if (c == '\n')
			text_puts(t, "\\n");
		else if (c == '\t')
			text_puts(t, "\\t");
		else if (c < ' ')
			text_printf(t, "\\u%04x", c);
		else
			text_add(t, s + i, n);
		i += n ? n : 1;
	}
	text_puts(t, "\"");
}

void text_field(struct text *t, const char *name)
{
	text_puts(t, t->length && t->data[t->length - 1] == '{' ? "\"" : ",\"");
	text_puts(t, name);
	text_puts(t, "\":");
}

void text_field_u64(struct text *t, const char *name, uint64_t value)
{
	text_field(t, name);
	text_u64(t, value);
}

void text_field_s64(struct text *t, const char *name, int64_t value)
{
	text_field(t, name);
	text_s64(t, value);
}

void text_field_json(struct text *t, const char *name, const char *value)
{
	text_field(t, name);
	text_json(t, value, strlen(value));
}

void text_clear(struct text *t)
{
	t->length = 0;
}
