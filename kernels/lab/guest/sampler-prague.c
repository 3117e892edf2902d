// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * TCP Prague's state per socket, from /proc/net/tcp_prague, as sock_diag has no
 * record for it. kernels/tcp_prague/README.md describes the file: a line of
 * names, then one line per socket.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler.h"
#include "util.h"

#define PRAGUE_FILE "/proc/self/net/tcp_prague"
#define PIECE	    (16 * 1024)

struct prague {
	int fd;
	struct text content; /* as last read, and a NUL */
};

/* The columns after the two addresses, in order */
static const char *const names[] = {
	"prague_segsize", "prague_mode",  "prague_cwnd",  "prague_rate",   "prague_mss",
	"prague_packet",  "prague_alpha", "prague_score", "prague_rtt_us", "prague_mdev_us",
};
#define WORDS 2 /* columns that are words, not numbers */

struct prague *prague_open(void)
{
	int fd = open(PRAGUE_FILE, O_RDONLY | O_CLOEXEC);
	struct prague *prague;

	if (fd < 0)
		return NULL; /* the module is not loaded */
	prague = calloc(1, sizeof(*prague));
	if (!prague)
		die("out of memory");
	prague->fd = fd;
	return prague;
}

void prague_look(struct prague *prague)
{
	char piece[PIECE];
	off_t at = 0;
	ssize_t got;

	text_clear(&prague->content);
	while ((got = pread(prague->fd, piece, sizeof(piece), at)) > 0) {
		text_add(&prague->content, piece, (size_t)got);
		at += got;
	}
	if (got < 0)
		die_errno(errno, "cannot read %s", PRAGUE_FILE);
	text_add(&prague->content, "", 1);
}

/* Parse the port of an address such as [fd00::1]:5001; returns the text after it. */
static const char *port_of(const char *address, unsigned int *port)
{
	size_t length = strcspn(address, " \n");
	const char *end = address + length;
	const char *at = end;

	while (at > address && at[-1] != ':')
		at--;
	*port = (unsigned int)strtoul(at, NULL, 10);
	return *end == ' ' ? end + 1 : end;
}

static void write_columns(struct text *t, const char *at)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t length = strcspn(at, " \n");

		if (!length)
			return;
		if (*at != '-') { /* "-": no value */
			text_field(t, names[i]);
			if (i < WORDS)
				text_json(t, at, length);
			else
				text_add(t, at, length);
		}
		at += length;
		if (*at == ' ')
			at++;
	}
}

void prague_fields(struct text *t, const struct prague *prague, unsigned int lport,
		   unsigned int rport)
{
	const char *line = prague->content.data;

	while ((line = strchr(line, '\n')) && *++line) {
		unsigned int local;
		unsigned int remote;
		const char *at = port_of(line, &local);

		at = port_of(at, &remote);
		if (local == lport && remote == rport) {
			write_columns(t, at);
			return;
		}
	}
}
