// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * State of their own that congestion controls report. sock_diag has no room for
 * it, so a module lists its sockets in /proc/net/tcp_NAME: a line with the names
 * of the columns, among them local and remote (ADDRESS:PORT), then one line per
 * socket; "-" is no value. docs/add-a-thing.md describes the file.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler.h"
#include "util.h"

#define FOLDER "/proc/self/net"
#define PREFIX "tcp_"
#define PIECE  (16 * 1024)

struct own {
	char *name; /* what follows the prefix in the file's name */
	int fd;
	struct text content; /* as last read, with a NUL behind it */
	struct own *next;
};

static void read_file(struct own *own)
{
	char piece[PIECE];
	off_t at = 0;
	ssize_t got;

	text_clear(&own->content);
	while ((got = pread(own->fd, piece, sizeof(piece), at)) > 0) {
		text_add(&own->content, piece, (size_t)got);
		at += got;
	}
	if (got < 0)
		die_errno(errno, "cannot read " FOLDER "/" PREFIX "%s", own->name);
	text_add(&own->content, "", 1);
}

static struct own *open_file(int folder, const char *file)
{
	int fd = openat(folder, file, O_RDONLY | O_CLOEXEC);
	struct own *own = calloc(1, sizeof(*own));

	if (fd < 0)
		die_errno(errno, "cannot open " FOLDER "/%s", file);
	if (!own)
		die("out of memory");
	own->fd = fd;
	own->name = strdup(file + strlen(PREFIX));
	if (!own->name)
		die("out of memory");
	return own;
}

struct own *own_open(void)
{
	DIR *folder = opendir(FOLDER);
	struct own *found = NULL;
	struct dirent *entry;

	if (!folder)
		die_errno(errno, "cannot open " FOLDER);
	while ((entry = readdir(folder))) {
		struct own *own;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		own = open_file(dirfd(folder), entry->d_name);
		own->next = found;
		found = own;
	}
	closedir(folder);
	return found;
}

void own_read(struct own *own)
{
	for (; own; own = own->next)
		read_file(own);
}

/* The next word of a line and its length; NULL at the line's end. @at moves behind it. */
static const char *next_word(const char **at, size_t *length)
{
	const char *word = *at + strspn(*at, " ");

	*length = strcspn(word, " \n");
	*at = word + *length;
	return *length ? word : NULL;
}

static bool is_word(const char *word, size_t length, const char *wanted)
{
	return length == strlen(wanted) && memcmp(word, wanted, length) == 0;
}

/* The port at the end of an address such as [fd00::1]:5001 */
static unsigned int port_of(const char *address, size_t length)
{
	const char *at = address + length;

	while (at > address && at[-1] != ':')
		at--;
	return (unsigned int)strtoul(at, NULL, 10);
}

/* A decimal number as JSON has it; anything else becomes a string. */
static bool is_number(const char *word, size_t length)
{
	static const char digits[] = "0123456789";
	const char *at = word + (*word == '-');
	size_t whole = strspn(at, digits);

	if (!whole || (*at == '0' && whole > 1))
		return false;
	at += whole;
	if (*at == '.') {
		size_t fraction = strspn(at + 1, digits);

		if (!fraction)
			return false;
		at += 1 + fraction;
	}
	return at == word + length;
}

static bool is_of(const char *names, const char *line, unsigned int lport, unsigned int rport)
{
	unsigned int local = 0;
	unsigned int remote = 0;
	const char *name;
	const char *value;
	size_t name_length;
	size_t length;

	while ((name = next_word(&names, &name_length)) && (value = next_word(&line, &length))) {
		if (is_word(name, name_length, "local"))
			local = port_of(value, length);
		else if (is_word(name, name_length, "remote"))
			remote = port_of(value, length);
	}
	return local == lport && remote == rport;
}

static void write_values(struct text *t, const char *cc, const char *names, const char *line)
{
	const char *name;
	const char *value;
	size_t name_length;
	size_t length;

	while ((name = next_word(&names, &name_length)) && (value = next_word(&line, &length))) {
		char field[64];

		if (is_word(name, name_length, "local") || is_word(name, name_length, "remote") ||
		    is_word(value, length, "-"))
			continue;
		snprintf(field, sizeof(field), "%s_%.*s", cc, (int)name_length, name);
		text_field(t, field);
		if (is_number(value, length))
			text_add(t, value, length);
		else
			text_json(t, value, length);
	}
}

void own_fields(struct text *t, const struct own *own, unsigned int lport, unsigned int rport)
{
	for (; own; own = own->next) {
		const char *names = own->content.data;
		const char *line = names;

		while ((line = strchr(line, '\n')) && *++line) {
			if (is_of(names, line, lport, rport)) {
				write_values(t, own->name, names, line);
				break;
			}
		}
	}
}
