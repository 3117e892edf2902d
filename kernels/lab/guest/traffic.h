/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/*
 * The parts of lab-traffic: one kind of traffic per file, each with its sender and
 * its receiver, and what they share (traffic-shared.c).
 *
 * A flow's instants count in CLOCK_MONOTONIC from its planned start (LAB_START_NS
 * of its sender), which the receiver reads from /run/lab-flow/PORT.
 */
#ifndef LAB_TRAFFIC_H
#define LAB_TRAFFIC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "tcpinfo.h"
#include "text.h"
#include "util.h"

/* The command line; what was not given is 0 or NULL. */
struct options {
	const char *to;
	int port;
	const char *cc;
	const char *id;
	int64_t seconds_ns;
	int64_t interval_ns;
	int64_t bytes;		  /* send, receive: payload of the flow */
	int64_t size;		  /* payload of a packet, a request, a connection, an object */
	int64_t rate, frame_bits; /* pace: RATE / BITS frames a second */
	int codepoint;		  /* pace: the ECN field */
	int64_t every_ns;	  /* request, pages: from one connection, or page, to the next */
	bool syn;		  /* pace, count: SYNs instead of UDP */
	const char *schedule;	  /* request: file with a line `NS BYTES` for each connection */
	bool answer;		  /* request, answer: the receiver sends as much back */
	int64_t reply;		  /* pages, answer: bytes that the receiver sends for each @size */
	int64_t objects;	  /* pages: of each page */
	int64_t connections;	  /* pages: that load it */
	bool ipv6;		  /* packets are of IPv6: by --to, or by --ipv6 */
};

/* traffic-bulk.c: one TCP connection at full speed, or of a given size */
void send_bulk(const struct options *o) __attribute__((noreturn));
void receive_bulk(const struct options *o) __attribute__((noreturn));

/* traffic-paced.c: UDP packets or SYNs at a rate */
void pace(const struct options *o) __attribute__((noreturn));
void count(const struct options *o) __attribute__((noreturn));

/* traffic-requests.c: short TCP connections at a rate */
void request(const struct options *o) __attribute__((noreturn));
void answer(const struct options *o) __attribute__((noreturn));

/* traffic-pages.c: pages of objects on several TCP connections, at a rate */
void serve_pages(const struct options *o) __attribute__((noreturn));

/* traffic-connections.c */

/* It waits for connections and for an instant. */
struct loop {
	int epoll, timer;
};

void loop_prepare(struct loop *loop);
void loop_watch(const struct loop *loop, int fd, uint32_t events, void *data);
void loop_wake_at(const struct loop *loop, int64_t when_ns);

/* Wait once; @take gets every connection with an event, by the @data that it is watched with. */
void loop_wait(const struct loop *loop, void (*take)(void *about, void *data, uint32_t events),
	       void *about);

/* Send up to @size bytes in all, as far as there is room; false once the connection is broken. */
bool send_up_to(int fd, int64_t size, int64_t *sent);

/* Take what has arrived: 1, 0 at the end of the connection, or -1 once it is broken. */
int discard(int fd, int64_t *received);

/* A row of `requests`: times in ns, -1 for those that are not known. */
void text_request(struct text *t, int64_t begun_ns, int64_t handshake_ns, int64_t response_ns,
		  int64_t size);

/* traffic-shared.c */

/* The start instant of a sender, which is written where its receiver will read it. */
int64_t announce_start(const struct options *o);

/* The start instant of a receiver's flow. */
int64_t learn_start(const struct options *o);

/* An address with its port, of IPv4 or IPv6. */
struct endpoint {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t length;
};

/* The address of --to, and of a receiver. */
struct endpoint peer(const struct options *o);
struct endpoint here(const struct options *o);

/* A socket of the flow's version of IP; @type may have flags. */
int open_socket(const struct options *o, int type);

/* Request the congestion control by name, and verify that it is in use. */
void set_congestion_control(int fd, const char *cc);

/* Decimal seconds with at least one digit after the point. */
void text_seconds(struct text *t, int64_t ns);

/* Begin an object of `intervals`, with the time of its end since the start. */
void text_interval(struct text *t, int64_t end_ns);

/* Begin the result of a sender or receiver, and end it with its intervals: it is printed. */
void text_role(struct text *t, const char *role, const struct options *o, int64_t start_ns,
	       int64_t length_ns);
void print_result(struct text *t, const struct text *intervals);

#endif
