// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * Dumps as lab-sampler takes them, from a kernel that is played here:
 *
 *   netlink ANSWER...
 *
 * Each ANSWER is what one request gets: a line that the parser will write, or
 * "line!" in a message with NLM_F_DUMP_INTR, separated by commas and ended by
 * "=ERROR", the error in the message that ends the dump. Prints what is sampled.
 */

#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler.h"
#include "util.h"

const char *program = "netlink";

struct message {
	struct nlmsghdr header;
	char payload[64];
};

static void reply(int fd, uint16_t type, uint16_t flags, const void *payload, size_t size)
{
	struct message message = {
		.header.nlmsg_len = (uint32_t)NLMSG_LENGTH(size),
		.header.nlmsg_type = type,
		.header.nlmsg_flags = NLM_F_MULTI | flags,
	};

	memcpy(message.payload, payload, size);
	if (send(fd, &message, message.header.nlmsg_len, 0) < 0)
		die("cannot answer");
}

/* Await a request and answer it. */
static void answer(int fd, char *lines)
{
	char *end = strrchr(lines, '=');
	char request[64];
	int error = -atoi(end + 1);

	*end = '\0';
	if (recv(fd, request, sizeof(request), 0) <= 0)
		die("no request");
	for (char *line; (line = strsep(&lines, ","));) {
		char *torn = strchr(line, '!');

		if (torn)
			*torn = '\0';
		if (*line)
			reply(fd, NLMSG_MIN_TYPE, torn ? NLM_F_DUMP_INTR : 0, line,
			      strlen(line) + 1);
	}
	reply(fd, NLMSG_DONE, 0, &error, sizeof(error));
}

static void parse(const struct sample *sample, const struct nlmsghdr *message)
{
	text_puts(sample->out, NLMSG_DATA(message));
	text_puts(sample->out, "\n");
}

int main(int argc, char **argv)
{
	struct nlmsghdr request = { .nlmsg_len = sizeof(request) };
	struct text text = { 0 };
	struct source source = {
		.sample = { .out = &text, .node = "here" },
		.request = &request,
		.parse = parse,
	};
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) < 0)
		die("no sockets");
	source.fd = fds[0];
	if (!fork()) {
		for (int i = 1; i < argc; i++)
			answer(fds[1], argv[i]);
		return 0;
	}
	close(fds[1]);
	text_puts(&text, "before\n");
	netlink_dump(&source);
	return write_all(1, text.data, text.length) ? 1 : 0;
}
