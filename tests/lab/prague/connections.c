// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * connections: opens and closes many TCP connections, in all the ways there are.
 *
 *   connections serve PORT                        reads whatever comes, until SIGTERM
 *   connections open ADDRESS PORT COUNT AT_ONCE   prints how many were opened
 *   connections rejoin ADDRESS PORT SECONDS       one socket connects, and again
 *                                                 after some seconds; prints its
 *                                                 congestion control each time
 *   connections become ADDRESS PORT SECONDS       an IPv6 socket connects to an
 *                                                 IPv4 address, sends, becomes an
 *                                                 IPv4 socket and sends on, each
 *                                                 for some seconds; prints its
 *                                                 family and congestion control
 *
 * Each connection of `open` runs the congestion control of its namespace, sends a few
 * segments, and ends in one of these ways, in turn: closed; reset; given
 * another congestion control and closed; dissolved by connect(AF_UNSPEC),
 * connected again and closed.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ends.h"

#define MOST 512

static void leave(int number)
{
	(void)number;
	_exit(0);
}

static void serve(unsigned short port)
{
	static struct pollfd fds[1 + 2 * MOST];
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	static char buffer[65536];
	int one = 1, used = 1;

	fds[0] = (struct pollfd){ socket(AF_INET, SOCK_STREAM, 0), POLLIN, 0 };
	if (setsockopt(fds[0].fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fds[0].fd, (struct sockaddr *)&any, sizeof(any)) || listen(fds[0].fd, MOST))
		die("listen");
	for (;;) {
		if (poll(fds, used, -1) < 0)
			die("poll");
		for (int i = used - 1; i > 0; i--) {
			if (!fds[i].revents || read(fds[i].fd, buffer, sizeof(buffer)) > 0)
				continue;
			close(fds[i].fd);
			fds[i] = fds[--used];
		}
		if (fds[0].revents && used <= 2 * MOST) {
			int fd = accept(fds[0].fd, NULL, NULL);

			if (fd >= 0)
				fds[used++] = (struct pollfd){ fd, POLLIN, 0 };
		}
	}
}

static void connect_and_send(int fd, const struct sockaddr_in *to)
{
	connect_to(fd, to);
	send_some(fd);
}

static void print_congestion_control(int fd)
{
	char name[16];
	socklen_t length = sizeof(name);

	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length))
		die("TCP_CONGESTION");
	printf("%.*s\n", (int)length, name);
}

static void rejoin(const struct sockaddr_in *to, unsigned int seconds)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	connect_and_send(fd, to);
	print_congestion_control(fd);
	sleep(seconds);
	dissolve(fd);
	connect_and_send(fd, to);
	print_congestion_control(fd);
	close(fd);
}

static void send_for(int fd, unsigned int seconds)
{
	for (unsigned int n = 0; n < 1000 * seconds; n++) {
		send_some(fd);
		usleep(1000);
	}
}

static void become(const struct sockaddr_in *to, unsigned int seconds)
{
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = to->sin_port };
	int fd = socket(AF_INET6, SOCK_STREAM, 0), family = AF_INET;
	socklen_t length = sizeof(family);

	mapped.sin6_addr.s6_addr[10] = 0xff;
	mapped.sin6_addr.s6_addr[11] = 0xff;
	memcpy(mapped.sin6_addr.s6_addr + 12, &to->sin_addr, 4);
	if (connect(fd, (struct sockaddr *)&mapped, sizeof(mapped)))
		die("connect");
	send_for(fd, seconds);
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &family, sizeof(family)))
		die("IPV6_ADDRFORM");
	send_for(fd, seconds);
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length))
		die("SO_DOMAIN");
	printf("%s\n", family == AF_INET ? "IPv4" : "IPv6");
	print_congestion_control(fd);
	close(fd);
}

int main(int argc, char **argv)
{
	int fds[MOST], count, at_once, opened = 0;
	struct sockaddr_in to = { .sin_family = AF_INET };

	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, leave);
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(atoi(argv[2]));
	if (argc < 5 || inet_pton(AF_INET, argv[2], &to.sin_addr) != 1)
		return 2;
	to.sin_port = htons(atoi(argv[3]));
	if (argc == 5 && !strcmp(argv[1], "rejoin")) {
		rejoin(&to, atoi(argv[4]));
		return 0;
	}
	if (argc == 5 && !strcmp(argv[1], "become")) {
		become(&to, atoi(argv[4]));
		return 0;
	}
	if (argc != 6)
		return 2;
	count = atoi(argv[4]);
	at_once = atoi(argv[5]);
	if (at_once < 1 || at_once > MOST)
		return 2;
	while (opened < count) {
		int now = count - opened < at_once ? count - opened : at_once;

		for (int i = 0; i < now; i++) {
			fds[i] = socket(AF_INET, SOCK_STREAM, 0);
			connect_and_send(fds[i], &to);
		}
		for (int i = 0; i < now; i++)
			end(fds[i], i, &to);
		opened += now;
	}
	printf("%d\n", opened);
	return 0;
}
