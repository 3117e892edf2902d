// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * The parts that kinds of traffic with many connections share: one loop that waits
 * for all of them and for an instant, and payload, of which only the length matters.
 */

#include "traffic.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#define MOST_OPEN   (1 << 20)
#define MOST_EVENTS 256
#define PIECE	    (64 * 1024)

static char nothing[PIECE];

void loop_prepare(struct loop *loop)
{
	struct rlimit limit = { MOST_OPEN, MOST_OPEN };

	setrlimit(RLIMIT_NOFILE, &limit); /* the usual number will do for most */
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	loop->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (loop->epoll < 0 || loop->timer < 0)
		die_errno(errno, "epoll or timerfd");
	loop_watch(loop, loop->timer, EPOLLIN, NULL);
}

void loop_watch(const struct loop *loop, int fd, uint32_t events, void *data)
{
	struct epoll_event event = { .events = events, .data.ptr = data };

	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		die_errno(errno, "epoll_ctl");
}

void loop_wake_at(const struct loop *loop, int64_t when_ns)
{
	struct itimerspec t = {
		.it_value = { .tv_sec = when_ns / NSEC_PER_SEC, .tv_nsec = when_ns % NSEC_PER_SEC },
	};

	if (timerfd_settime(loop->timer, TFD_TIMER_ABSTIME, &t, NULL) < 0)
		die_errno(errno, "timerfd_settime");
}

void loop_wait(const struct loop *loop, void (*take)(void *about, void *data, uint32_t events),
	       void *about)
{
	struct epoll_event events[MOST_EVENTS];
	int n = epoll_wait(loop->epoll, events, MOST_EVENTS, -1);

	for (int i = 0; i < n; i++)
		if (events[i].data.ptr)
			take(about, events[i].data.ptr, events[i].events);
}

bool send_up_to(int fd, int64_t size, int64_t *sent)
{
	while (*sent < size) {
		int64_t left = size - *sent;
		ssize_t n =
			send(fd, nothing, left < PIECE ? left : PIECE, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		*sent += n;
	}
	return true;
}

int discard(int fd, int64_t *received)
{
	for (;;) {
		ssize_t n = recv(fd, NULL, PIECE, MSG_TRUNC | MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 1 : -1;
		if (!n)
			return 0;
		*received += n;
	}
}

void text_request(struct text *t, int64_t begun_ns, int64_t handshake_ns, int64_t response_ns,
		  int64_t size)
{
	text_puts(t, "[");
	text_s64(t, begun_ns);
	text_puts(t, ",");
	text_s64(t, handshake_ns);
	text_puts(t, ",");
	text_s64(t, response_ns);
	text_puts(t, ",");
	text_s64(t, size);
	text_puts(t, "]");
}
