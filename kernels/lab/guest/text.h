/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/*
 * Text that grows, in which JSON is assembled before one write. Running out of
 * memory ends the program.
 */
#ifndef LAB_TEXT_H
#define LAB_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
	char *data;
	size_t length;
	size_t size;
};

void text_add(struct text *t, const char *s, size_t length);
void text_puts(struct text *t, const char *s);
void text_printf(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Decimal numbers, without the cost of printf: the sampler writes thousands a second. */
void text_u64(struct text *t, uint64_t value);
void text_s64(struct text *t, int64_t value);

/*
 * A JSON string, quotes included. Control bytes are escaped, and bytes that are
 * not UTF-8 become U+FFFD: a program may write anything to stderr.
 */
void text_json(struct text *t, const char *s, size_t length);

/* ,"NAME":VALUE without the comma directly after an opening brace. */
void text_field(struct text *t, const char *name);
void text_field_u64(struct text *t, const char *name, uint64_t value);
void text_field_s64(struct text *t, const char *name, int64_t value);
void text_field_json(struct text *t, const char *name, const char *value);

/* Discard the content, keep the memory. */
void text_clear(struct text *t);

#endif
