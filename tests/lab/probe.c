// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * Numbered UDP packets through the lab's wires:
 *
 *   probe send ADDRESS COUNT EVERY_NS FIELD
 *   probe receive SECONDS
 *
 * FIELD is the IPv4 TOS or the IPv6 traffic class. The receiver prints a line for
 * each packet, in order of arrival: its number, its delay in ns, its field. Both
 * ends share one kernel, and so one clock.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define PORT 7000

struct probe {
	int64_t number;
	int64_t sent_ns;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int check(int result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
	return result;
}

static int send_probes(const char *address, long count, long every_ns, int field)
{
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int v6 = inet_pton(AF_INET6, address, &to6.sin6_addr) == 1;
	struct sockaddr *to = v6 ? (struct sockaddr *)&to6 : (struct sockaddr *)&to4;
	int64_t due_ns = now_ns();
	int fd;

	if (!v6 && inet_pton(AF_INET, address, &to4.sin_addr) != 1)
		return 2;
	fd = check(socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0), "socket");
	check(connect(fd, to, v6 ? sizeof(to6) : sizeof(to4)), "connect");
	check(setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TCLASS : IP_TOS, &field,
			 sizeof(field)),
	      "setsockopt");
	for (long i = 0; i < count; i++) {
		struct timespec due = { due_ns / 1000000000, due_ns % 1000000000 };
		struct probe probe = { .number = i };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		probe.sent_ns = now_ns();
		check(send(fd, &probe, sizeof(probe), 0), "send");
		/* a late machine sends on at the same pace: a burst would overflow queues that are not tested */
		due_ns = (probe.sent_ns > due_ns + every_ns ? probe.sent_ns : due_ns) + every_ns;
	}
	return 0;
}

static int field_of(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
			return *(uint8_t *)CMSG_DATA(c);
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
			int field;

			memcpy(&field, CMSG_DATA(c), sizeof(field));
			return field;
		}
	}
	return -1;
}

static int receive_probes(long seconds)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };
	int64_t end_us = now_ns() / 1000 + seconds * 1000000LL, left_us;
	int fd = check(socket(AF_INET6, SOCK_DGRAM, 0), "socket"), on = 1, room = 1 << 24;

	check(setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on)), "class");
	check(setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)), "tos");
	check(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)), "buffer");
	check(bind(fd, (struct sockaddr *)&at, sizeof(at)), "bind");
	while ((left_us = end_us - now_ns() / 1000) > 0) {
		struct timeval left = { left_us / 1000000, left_us % 1000000 };
		struct probe probe;
		struct iovec part = { &probe, sizeof(probe) };
		char control[256];
		struct msghdr message = { .msg_iov = &part,
					  .msg_iovlen = 1,
					  .msg_control = control,
					  .msg_controllen = sizeof(control) };

		check(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &left, sizeof(left)), "timeout");
		if (recvmsg(fd, &message, 0) == sizeof(probe))
			printf("%lld %lld %d\n", (long long)probe.number,
			       (long long)(now_ns() - probe.sent_ns), field_of(&message));
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "send"))
		return send_probes(argv[2], atol(argv[3]), atol(argv[4]), atoi(argv[5]));
	if (argc == 3 && !strcmp(argv[1], "receive"))
		return receive_probes(atol(argv[2]));
	return 2;
}
