// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * Short TCP connections, opened at given instants whatever became of those before.
 *
 * Each carries a given payload. With --answer the receiver then sends as much back
 * and the sender closes: a request and its response, whose times are reported one by
 * one. Without, the sender closes at once and the receiver after it: connections of
 * a flood, which are only counted, and given up where there is no answer. With
 * --schedule, a workload, instants and sizes are those of a file, and a connection is
 * complete when the receiver has closed it. A receiver with --reply answers after
 * every --size bytes: objects of pages (traffic-pages.c).
 */

#include "traffic.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_WAKES_NS 50000 /* with less between two connections several are opened at once */
#define BACKLOG	      65535
#define MOST_AT_ONCE  58000 /* of the ports 1024 to 65535, some of which are in TIME_WAIT */
#define ALL_PORTS     (1024U | 65535U << 16)
#define FLOOD_WAIT_NS (900 * NSEC_PER_MSEC) /* less than until a SYN is sent again: RFC 6298 */

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51 /* since Linux 6.3 */
#endif

/* One connection; at the sender also its times after its opening, -1 while they are not known. */
struct connection {
	int fd;
	bool established, shut;
	int64_t size; /* payload to send */
	int64_t sent, received;
	int64_t begun_ns, handshake_ns, response_ns;
	TAILQ_ENTRY(connection) of_flood; /* in order of opening */
};

TAILQ_HEAD(connections, connection);

/* A connection to come, of a workload. */
struct planned {
	int64_t at_ns, size;
};

struct side {
	const struct options *o;
	struct loop loop;
	bool each;		 /* every connection is reported */
	struct planned *planned; /* of a workload, in order */
	uint64_t planned_number;
	int64_t start_ns;
	struct connection **all;  /* the sender's, in order of their numbers */
	struct connections flood; /* without @each: those that are not established yet */
	uint64_t opened, established, ended, failed;
	uint64_t unopened; /* of @failed: there was no free port */
	uint64_t bytes_received;
	struct tcpinfo info; /* of an established connection */
	int info_length;
	struct text intervals;
};

static void end(struct connection *connection)
{
	close(connection->fd);
	connection->fd = -1;
}

static bool push(struct connection *connection)
{
	return send_up_to(connection->fd, connection->size, &connection->sent);
}

static int pull(struct connection *connection)
{
	return discard(connection->fd, &connection->received);
}

/* -- the sender ------------------------------------------------------------------- */

static void give_up(struct side *side, struct connection *connection, bool no_port)
{
	side->unopened += no_port;
	side->failed++;
	if (!side->each)
		free(connection);
}

static void open_next(struct side *side)
{
	const struct options *o = side->o;
	struct connection *connection = calloc(1, sizeof(*connection));
	struct endpoint to = peer(o);
	uint32_t ports = ALL_PORTS;
	int one = 1;

	if (!connection)
		die("out of memory");
	side->opened++;
	connection->begun_ns = now_ns();
	connection->handshake_ns = connection->response_ns = -1;
	connection->size = side->planned ? side->planned[side->opened - 1].size : o->size;
	if (side->each) {
		side->all = realloc(side->all, side->opened * sizeof(*side->all));
		if (!side->all)
			die("out of memory");
		side->all[side->opened - 1] = connection;
	}
	if (side->opened - side->ended - side->failed > MOST_AT_ONCE) {
		/* connect() would look at nearly every port, for each of a flood's attempts */
		connection->fd = -1;
		give_up(side, connection, true);
		return;
	}
	connection->fd = open_socket(o, SOCK_STREAM | SOCK_NONBLOCK);
	if (connection->fd < 0)
		die_errno(errno, "socket");
	if (side->opened == 1)
		set_congestion_control(connection->fd, o->cc);
	else
		setsockopt(connection->fd, IPPROTO_TCP, TCP_CONGESTION, o->cc, strlen(o->cc));
	if (side->each)
		setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	else /* or the kernel tries all even ports before any odd one, again each time */
		setsockopt(connection->fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, &ports, sizeof(ports));
	if (connect(connection->fd, &to.any, to.length) < 0 && errno != EINPROGRESS) {
		bool no_port = errno == EADDRNOTAVAIL;

		end(connection);
		give_up(side, connection, no_port);
		return;
	}
	if (!side->each)
		TAILQ_INSERT_TAIL(&side->flood, connection, of_flood);
	loop_watch(&side->loop, connection->fd, EPOLLOUT | EPOLLIN | EPOLLET, connection);
}

static void finish(struct side *side, struct connection *connection, bool whole)
{
	if (whole)
		side->ended++;
	else
		side->failed++;
	end(connection);
	if (side->each)
		return;
	if (!connection->established)
		TAILQ_REMOVE(&side->flood, connection, of_flood);
	free(connection);
}

/* A flood does not wait: its attempts would soon have all ports. */
static void give_up_old(struct side *side)
{
	int64_t latest_ns = now_ns() - FLOOD_WAIT_NS;
	struct connection *oldest;

	while ((oldest = TAILQ_FIRST(&side->flood)) && oldest->begun_ns < latest_ns)
		finish(side, oldest, false);
}

static void advance(void *about, void *data, uint32_t events)
{
	struct side *side = about;
	struct connection *connection = data;
	const struct options *o = side->o;
	int open;

	if (connection->fd < 0)
		return;
	if (!connection->established && events & (EPOLLERR | EPOLLHUP)) {
		finish(side, connection, false);
		return;
	}
	if (!connection->established && events & EPOLLOUT) {
		connection->established = true;
		connection->handshake_ns = now_ns() - connection->begun_ns;
		if (!side->each)
			TAILQ_REMOVE(&side->flood, connection, of_flood);
		if (!side->established++)
			side->info_length = tcpinfo_read(connection->fd, &side->info);
	}
	if (!connection->established)
		return;
	if (!push(connection)) {
		finish(side, connection, false);
		return;
	}
	if (!side->each) {
		if (connection->sent == connection->size)
			finish(side, connection, true);
		return;
	}
	if (!o->answer && !connection->shut && connection->sent == connection->size) {
		connection->shut = true;
		shutdown(connection->fd, SHUT_WR);
	}
	open = pull(connection);
	if (o->answer ? connection->received >= connection->size : connection->shut && !open) {
		connection->response_ns = now_ns() - connection->begun_ns;
		finish(side, connection, true);
	} else if (open <= 0) {
		finish(side, connection, false);
	}
}

static void record_sender(struct side *side, int64_t end_ns)
{
	struct text *t = &side->intervals;

	text_interval(t, end_ns);
	text_field_u64(t, "opened", side->opened);
	text_field_u64(t, "established", side->established);
	text_field_u64(t, "ended", side->ended);
	text_field_u64(t, "failed", side->failed);
	text_puts(t, "}");
}

static void report_requests(const struct side *side, struct text *t)
{
	text_field(t, "requests");
	text_puts(t, "[");
	for (uint64_t i = 0; i < side->opened; i++) {
		const struct connection *one = side->all[i];

		if (i)
			text_puts(t, ",");
		text_request(t, one->begun_ns - side->start_ns, one->handshake_ns, one->response_ns,
			     one->size);
	}
	text_puts(t, "]");
}

static void report_sender(const struct side *side)
{
	struct text t = { 0 };

	text_role(&t, "requester", side->o, side->start_ns, side->o->seconds_ns);
	text_field_json(&t, "cc", side->o->cc);
	if (side->info_length > 0)
		tcpinfo_ecn(&t, &side->info, side->info_length);
	text_field_u64(&t, "opened", side->opened);
	text_field_u64(&t, "established", side->established);
	text_field_u64(&t, "ended", side->ended);
	text_field_u64(&t, "failed", side->failed);
	text_field_u64(&t, "unopened", side->unopened);
	if (side->each)
		report_requests(side, &t);
	print_result(&t, &side->intervals);
}

/* The file of a workload: a line `NS BYTES` for each connection, in order of their instants. */
static void read_schedule(struct side *side)
{
	const char *path = side->o->schedule;
	char *data, *line, *rest;
	ssize_t length = read_whole(path, &data);

	if (length < 0)
		die_errno(-length, "cannot read %s", path);
	side->planned = calloc(length / 4 + 1, sizeof(*side->planned)); /* the shortest line */
	if (!side->planned)
		die("out of memory");
	for (line = strtok_r(data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct planned *planned = &side->planned[side->planned_number++];
		char *size = strchr(line, ' ');

		if (!size)
			die("%s: not an instant and a size: %s", path, line);
		*size++ = 0;
		if (!parse_int64(line, &planned->at_ns) || !parse_int64(size, &planned->size) ||
		    planned->size < 1)
			die("%s: not an instant and a size: %s %s", path, line, size);
	}
	free(data);
}

/* When the next connection is opened, after the start; without any, never. */
static int64_t next_opening(const struct side *side)
{
	if (!side->planned)
		return (int64_t)side->opened * side->o->every_ns;
	if (side->opened >= side->planned_number)
		return INT64_MAX;
	return side->planned[side->opened].at_ns;
}

void request(const struct options *o)
{
	struct side side = { 0 };
	int64_t end_ns = o->interval_ns;

	side.o = o;
	loop_prepare(&side.loop);
	TAILQ_INIT(&side.flood);
	side.each = o->answer || o->schedule;
	if (o->schedule)
		read_schedule(&side);
	side.start_ns = announce_start(o);
	sleep_until(side.start_ns);
	for (;;) {
		int64_t at_ns = now_ns() - side.start_ns;
		int64_t next_ns;

		give_up_old(&side);
		while ((next_ns = next_opening(&side)) <= at_ns && next_ns < o->seconds_ns)
			open_next(&side);
		for (; end_ns <= at_ns && end_ns < o->seconds_ns; end_ns += o->interval_ns)
			record_sender(&side, end_ns);
		if (at_ns >= o->seconds_ns)
			break;
		if (next_ns < at_ns + MOST_WAKES_NS)
			next_ns = at_ns + MOST_WAKES_NS;
		if (next_ns > end_ns)
			next_ns = end_ns;
		if (next_ns > o->seconds_ns)
			next_ns = o->seconds_ns;
		loop_wake_at(&side.loop, side.start_ns + next_ns);
		loop_wait(&side.loop, advance, &side);
	}
	record_sender(&side, o->seconds_ns);
	report_sender(&side);
	exit(0);
}

/* -- the receiver ------------------------------------------------------------------- */

static struct connection listener;

static void accept_all(struct side *side)
{
	int one = 1;
	int fd;

	while ((fd = accept4(listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct connection *connection = calloc(1, sizeof(*connection));

		if (!connection)
			die("out of memory");
		connection->fd = fd;
		side->opened++;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		loop_watch(&side->loop, fd, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, connection);
	}
}

static void serve(void *about, void *data, uint32_t events)
{
	struct side *side = about;
	struct connection *connection = data;
	const struct options *o = side->o;
	int64_t before;
	int open;

	(void)events;
	if (connection == &listener) {
		accept_all(side);
		return;
	}
	before = connection->received;
	open = pull(connection);
	side->bytes_received += connection->received - before;
	if (o->reply)
		connection->size = connection->received / o->size * o->reply;
	if (open > 0 && !push(connection))
		open = -1;
	if (open > 0)
		return;
	side->ended++;
	end(connection);
	free(connection);
}

static void record_receiver(struct side *side, int64_t end_ns)
{
	struct text *t = &side->intervals;

	text_interval(t, end_ns);
	text_field_u64(t, "accepted", side->opened);
	text_field_u64(t, "bytes_received", side->bytes_received);
	text_puts(t, "}");
}

static void listen_here(const struct options *o)
{
	struct endpoint address = here(o);
	int one = 1;

	listener.fd = open_socket(o, SOCK_STREAM | SOCK_NONBLOCK);
	if (listener.fd < 0)
		die_errno(errno, "socket");
	setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener.fd, &address.any, address.length) < 0 || listen(listener.fd, BACKLOG) < 0)
		die_errno(errno, "cannot listen on port %d", o->port);
}

void answer(const struct options *o)
{
	struct side side = { 0 };
	struct text t = { 0 };
	int64_t end_ns = o->interval_ns;

	side.o = o;
	loop_prepare(&side.loop);
	listen_here(o);
	loop_watch(&side.loop, listener.fd, EPOLLIN | EPOLLET, &listener);
	loop_wait(&side.loop, serve, &side); /* sleeps until the first connection is there */
	side.start_ns = learn_start(o);
	for (;;) {
		int64_t at_ns = now_ns() - side.start_ns;

		for (; end_ns <= at_ns && end_ns < o->seconds_ns; end_ns += o->interval_ns)
			record_receiver(&side, end_ns);
		if (at_ns >= o->seconds_ns)
			break;
		loop_wake_at(&side.loop,
			     side.start_ns + (end_ns < o->seconds_ns ? end_ns : o->seconds_ns));
		loop_wait(&side.loop, serve, &side);
	}
	record_receiver(&side, o->seconds_ns);
	text_role(&t, "answerer", o, side.start_ns, o->seconds_ns);
	text_field_u64(&t, "accepted", side.opened);
	text_field_u64(&t, "bytes_received", side.bytes_received);
	print_result(&t, &side.intervals);
	exit(0);
}
