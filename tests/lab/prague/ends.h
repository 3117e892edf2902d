/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* What connections send, and the ways in which they end, for programs in the guest */
#ifndef ENDS_H
#define ENDS_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES 4096
#define ENDS 4

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void give(int fd, const char *name)
{
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)))
		die(name);
}

static void connect_to(int fd, const struct sockaddr_in *to)
{
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		die("connect");
}

static void send_some(int fd)
{
	static char data[BYTES];

	if (write(fd, data, sizeof(data)) != sizeof(data))
		die("write");
}

static void dissolve(int fd)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (connect(fd, &none, sizeof(none)))
		die("connect(AF_UNSPEC)");
}

/* Ways, in turn: closed; reset; given another congestion control and closed;
 * dissolved, connected again and closed.
 */
static void end(int fd, int way, const struct sockaddr_in *to)
{
	const struct linger reset = { 1, 0 };

	switch (way % ENDS) {
	case 1:
		if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
			die("SO_LINGER");
		break;
	case 2:
		give(fd, "cubic");
		break;
	case 3:
		dissolve(fd);
		connect_to(fd, to);
		send_some(fd);
		break;
	}
	close(fd);
}

#endif
