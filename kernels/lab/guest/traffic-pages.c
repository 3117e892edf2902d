// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * Pages of objects, as HTTP/1.1 loads them: several connections at once, on each of
 * them one object after the other.
 *
 * A page is begun every --every-ns, whatever became of those before. The sender is the
 * server, so that objects go where bulk flows go, and it also opens the connections: a
 * handshake takes a round trip, whoever begins it. The receiver answers each object
 * with --reply bytes, the request for the next. A page is loaded when the sender has
 * the answer to its last object. That is half a round trip after the receiver has the
 * object, and the first left half a round trip sooner than one that a client asks for.
 */

#include "traffic.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Times after its beginning, -1 while they are not known. */
struct page {
	int64_t begun_ns, handshake_ns, response_ns;
	int64_t unsent, loaded; /* objects */
};

struct line {
	struct page *page;
	int fd;
	bool established;
	int64_t objects; /* sent, or being sent */
	int64_t sent, received;
};

struct server {
	const struct options *o;
	struct loop loop;
	int64_t start_ns;
	struct page **pages;
	uint64_t begun;
	uint64_t opened, established, ended, failed;
	uint64_t unopened;   /* of @failed: there was no free port */
	struct tcpinfo info; /* of an established connection */
	int info_length;
	struct text intervals;
};

static void give_up(struct server *server, struct line *line)
{
	server->failed++;
	close(line->fd);
	free(line);
}

static void open_line(struct server *server, struct page *page)
{
	const struct options *o = server->o;
	struct line *line = calloc(1, sizeof(*line));
	struct endpoint to = peer(o);
	int one = 1;

	if (!line)
		die("out of memory");
	line->page = page;
	line->fd = open_socket(o, SOCK_STREAM | SOCK_NONBLOCK);
	if (line->fd < 0)
		die_errno(errno, "socket");
	server->opened++;
	set_congestion_control(line->fd, o->cc);
	setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(line->fd, &to.any, to.length) < 0 && errno != EINPROGRESS) {
		server->unopened += errno == EADDRNOTAVAIL;
		give_up(server, line);
		return;
	}
	loop_watch(&server->loop, line->fd, EPOLLOUT | EPOLLIN | EPOLLET, line);
}

static void begin_page(struct server *server)
{
	const struct options *o = server->o;
	struct page *page = calloc(1, sizeof(*page));

	server->pages = realloc(server->pages, (server->begun + 1) * sizeof(page));
	if (!page || !server->pages)
		die("out of memory");
	server->pages[server->begun++] = page;
	page->begun_ns = now_ns();
	page->handshake_ns = page->response_ns = -1;
	page->unsent = o->objects;
	for (int64_t i = 0; i < o->connections && i < o->objects; i++)
		open_line(server, page);
}

/* Count the objects that have been answered, and send the next; false without any. */
static bool next_object(const struct server *server, struct line *line)
{
	struct page *page = line->page;

	if (line->received < line->objects * server->o->reply)
		return true;
	if (line->objects && ++page->loaded == server->o->objects)
		page->response_ns = now_ns() - page->begun_ns;
	if (!page->unsent)
		return false;
	page->unsent--;
	line->objects++;
	return true;
}

static void advance(void *about, void *data, uint32_t events)
{
	struct server *server = about;
	struct line *line = data;
	int open;

	if (!line->established && events & (EPOLLERR | EPOLLHUP)) {
		give_up(server, line);
		return;
	}
	if (!line->established && events & EPOLLOUT) {
		line->established = true;
		if (line->page->handshake_ns < 0)
			line->page->handshake_ns = now_ns() - line->page->begun_ns;
		if (!server->established++)
			server->info_length = tcpinfo_read(line->fd, &server->info);
	}
	if (!line->established)
		return;
	open = discard(line->fd, &line->received);
	if (!next_object(server, line)) {
		server->ended++;
		close(line->fd);
		free(line);
	} else if (open <= 0 ||
		   !send_up_to(line->fd, line->objects * server->o->size, &line->sent)) {
		give_up(server, line);
	}
}

static void record(struct server *server, int64_t end_ns)
{
	struct text *t = &server->intervals;

	text_interval(t, end_ns);
	text_field_u64(t, "opened", server->opened);
	text_field_u64(t, "established", server->established);
	text_field_u64(t, "ended", server->ended);
	text_field_u64(t, "failed", server->failed);
	text_puts(t, "}");
}

static void report(const struct server *server)
{
	const struct options *o = server->o;
	struct text t = { 0 };

	text_role(&t, "requester", o, server->start_ns, o->seconds_ns);
	text_field_json(&t, "cc", o->cc);
	if (server->info_length > 0)
		tcpinfo_ecn(&t, &server->info, server->info_length);
	text_field_u64(&t, "opened", server->opened);
	text_field_u64(&t, "established", server->established);
	text_field_u64(&t, "ended", server->ended);
	text_field_u64(&t, "failed", server->failed);
	text_field_u64(&t, "unopened", server->unopened);
	text_field(&t, "requests");
	text_puts(&t, "[");
	for (uint64_t i = 0; i < server->begun; i++) {
		const struct page *page = server->pages[i];

		if (i)
			text_puts(&t, ",");
		text_request(&t, page->begun_ns - server->start_ns, page->handshake_ns,
			     page->response_ns, o->objects * o->size);
	}
	text_puts(&t, "]");
	print_result(&t, &server->intervals);
}

void serve_pages(const struct options *o)
{
	struct server server = { .o = o };
	int64_t end_ns = o->interval_ns;

	loop_prepare(&server.loop);
	server.start_ns = announce_start(o);
	sleep_until(server.start_ns);
	for (;;) {
		int64_t at_ns = now_ns() - server.start_ns;
		int64_t next_ns;

		while ((next_ns = (int64_t)server.begun * o->every_ns) <= at_ns &&
		       next_ns < o->seconds_ns)
			begin_page(&server);
		for (; end_ns <= at_ns && end_ns < o->seconds_ns; end_ns += o->interval_ns)
			record(&server, end_ns);
		if (at_ns >= o->seconds_ns)
			break;
		if (next_ns > end_ns)
			next_ns = end_ns;
		if (next_ns > o->seconds_ns)
			next_ns = o->seconds_ns;
		loop_wake_at(&server.loop, server.start_ns + next_ns);
		loop_wait(&server.loop, advance, &server);
	}
	record(&server, o->seconds_ns);
	report(&server);
	exit(0);
}
