// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * rounds: a connection's life with congestion controls of a module that may go.
 *
 *   rounds ADDRESS PORT COUNT MODULE FILE NAME...
 *
 * In each round a socket is given one of the names, before or after it connects,
 * sends, is given the next name, and sends again; then it ends in one of these
 * ways, in turn: closed; reset; given another congestion control and closed;
 * dissolved by connect(AF_UNSPEC), connected again and closed. While it lives
 * the module must not unload. After each tenth round it is unloaded if nobody
 * uses it, and loaded again. Prints the rounds and how often it was unloaded.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prague/ends.h"

static int unloaded(const char *module)
{
	return !syscall(SYS_delete_module, module, O_NONBLOCK);
}

static void load(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		die(file);
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int count, names = argc - 6, gone = 0;

	signal(SIGPIPE, SIG_IGN);
	if (argc < 7 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		return 2;
	to.sin_port = htons(atoi(argv[2]));
	count = atoi(argv[3]);
	for (int round = 0; round < count; round++) {
		const char *first = argv[6 + round % names];
		const char *second = argv[6 + (round + 1) % names];
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (round & 4)
			give(fd, first);
		connect_to(fd, &to);
		if (!(round & 4))
			give(fd, first);
		send_some(fd);
		if (unloaded(argv[4])) {
			fprintf(stderr, "round %d: %s was unloaded in use\n", round, argv[4]);
			return 1;
		}
		give(fd, second);
		send_some(fd);
		end(fd, round, &to);
		if (round % 10 == 9 && unloaded(argv[4])) {
			load(argv[5]);
			gone++;
		}
	}
	printf("%d %d\n", count, gone);
	return 0;
}
