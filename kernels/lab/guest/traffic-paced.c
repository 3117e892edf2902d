// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * Packets at a rate that nothing changes: UDP, or SYNs as of a flood.
 *
 * The n-th packet leaves n intervals after the start, whenever those before it did.
 * Beyond MOST_WAKES packets a second several leave at once, as a wake of the
 * program costs far more than a packet. What a slow host has not sent at the end of
 * the flow does not leave, so that the result shows the rate that it had.
 *
 * The receiver's kernel counts for it, by packet sockets that keep nothing but
 * their statistics, one for each codepoint of the ECN field: the program sleeps
 * from interval to interval.
 */

#include "traffic.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_WAKES   20000 /* a second */
#define MOST_AT_ONCE 1024  /* UIO_MAXIOV */
#define MOST_PAYLOAD 65507
#define FIRST_PORT   1024 /* source ports of a flood, one after the other as hping3 takes them */
#define CODEPOINTS   4	  /* values of the ECN field */

static const char *const codepoints[CODEPOINTS] = { "not_ect", "ect1", "ect0", "ce" };

/* -- the sender ---------------------------------------------------------------- */

/* A SYN of IPv4 or IPv6: what precedes the TCP header depends on that. */
union syn {
	struct {
		struct iphdr ip;
		struct tcphdr tcp;
	} v4;
	struct {
		struct ip6_hdr ip;
		struct tcphdr tcp;
	} v6;
};

struct source {
	const struct options *o;
	int fd;
	int at_once;
	struct mmsghdr messages[MOST_AT_ONCE];
	struct iovec pieces[MOST_AT_ONCE][2];
	union syn syns[MOST_AT_ONCE];
	uint64_t numbers[MOST_AT_ONCE];
	struct endpoint to, from;
	uint64_t sent;
};

/* The Internet checksum (RFC 1071) of whole 16-bit words, added to @sum. */
static uint32_t add_words(uint32_t sum, const void *data, size_t length)
{
	const char *bytes = data;
	uint16_t word;

	for (size_t i = 0; i < length; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word)); /* of fields that have other types */
		sum += word;
	}
	return sum;
}

static uint16_t folded(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

static size_t syn_bytes(const struct options *o)
{
	return o->ipv6 ? sizeof(((union syn *)0)->v6) : sizeof(((union syn *)0)->v4);
}

/* The number of a SYN makes its source port and its sequence number; @pseudo is the
 * sum of the addresses, to which the checksum adds protocol and length. */
static struct tcphdr tcp_syn(const struct options *o, uint64_t number, uint32_t pseudo)
{
	struct tcphdr tcp = {
		.source = htons(FIRST_PORT + number % (65536 - FIRST_PORT)),
		.dest = htons(o->port),
		.seq = htonl((uint32_t)number * 2654435761u),
		.doff = sizeof(tcp) / 4,
		.syn = 1,
		.window = htons(512),
	};

	pseudo += htons(IPPROTO_TCP) + htons(sizeof(tcp));
	tcp.check = folded(add_words(pseudo, &tcp, sizeof(tcp)));
	return tcp;
}

static void make_syn4(union syn *syn, const struct source *source, uint64_t number)
{
	struct iphdr *ip = &syn->v4.ip;

	*ip = (struct iphdr){
		.version = 4,
		.ihl = sizeof(*ip) / 4,
		.tos = source->o->codepoint,
		.tot_len = htons(sizeof(syn->v4)),
		.ttl = 64,
		.protocol = IPPROTO_TCP,
		.saddr = source->from.v4.sin_addr.s_addr,
		.daddr = source->to.v4.sin_addr.s_addr,
	};
	syn->v4.tcp = tcp_syn(source->o, number, add_words(0, &ip->saddr, 2 * sizeof(ip->saddr)));
}

static void make_syn6(union syn *syn, const struct source *source, uint64_t number)
{
	struct ip6_hdr *ip = &syn->v6.ip;

	*ip = (struct ip6_hdr){
		.ip6_flow = htonl(6u << 28 | (uint32_t)source->o->codepoint << 20),
		.ip6_plen = htons(sizeof(syn->v6.tcp)),
		.ip6_nxt = IPPROTO_TCP,
		.ip6_hlim = 64,
		.ip6_src = source->from.v6.sin6_addr,
		.ip6_dst = source->to.v6.sin6_addr,
	};
	syn->v6.tcp =
		tcp_syn(source->o, number, add_words(0, &ip->ip6_src, 2 * sizeof(ip->ip6_src)));
}

/* The address that packets to the receiver come from. */
static struct endpoint own_address(const struct options *o, const struct endpoint *to)
{
	struct endpoint own = { .length = to->length };
	int fd = open_socket(o, SOCK_DGRAM);

	if (fd < 0 || connect(fd, &to->any, to->length) < 0 ||
	    getsockname(fd, &own.any, &own.length) < 0)
		die_errno(errno, "no way to the receiver");
	close(fd);
	return own;
}

/* Packets of UDP with the codepoint, or SYNs that are whole packets. */
static int open_sending(const struct options *o, const struct endpoint *to)
{
	int level = o->ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;
	int field = o->ipv6 ? IPV6_TCLASS : IP_TOS;
	int fd = o->syn ? socket(to->any.sa_family, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW)
			: open_socket(o, SOCK_DGRAM);

	if (fd < 0)
		die_errno(errno, "socket");
	if (!o->syn && setsockopt(fd, level, field, &o->codepoint, sizeof(int)) < 0)
		die_errno(errno, "the ECN field");
	if (!o->syn && connect(fd, &to->any, to->length) < 0)
		die_errno(errno, "cannot connect to %s port %d", o->to, o->port);
	return fd;
}

static void open_source(struct source *source)
{
	const struct options *o = source->o;
	static char payload[MOST_PAYLOAD];

	source->to = peer(o);
	source->from = own_address(o, &source->to);
	source->fd = open_sending(o, &source->to);
	if (o->ipv6 && o->syn)
		source->to.v6.sin6_port = 0; /* which a raw socket takes for a protocol */
	for (int i = 0; i < MOST_AT_ONCE; i++) {
		struct msghdr *header = &source->messages[i].msg_hdr;
		struct iovec *pieces = source->pieces[i];
		int64_t first = sizeof(*source->numbers);

		if (first > o->size)
			first = o->size;
		header->msg_iov = pieces;
		header->msg_iovlen = 1;
		if (o->syn) {
			pieces[0] = (struct iovec){ &source->syns[i], syn_bytes(o) };
		} else if (o->ipv6) {
			pieces[0] = (struct iovec){ &source->numbers[i], first };
			pieces[1] = (struct iovec){ payload, o->size - first };
			header->msg_iovlen = 2;
		} else {
			pieces[0] = (struct iovec){ payload, o->size };
		}
		if (o->syn) {
			header->msg_name = &source->to.any;
			header->msg_namelen = source->to.length;
		}
	}
}

/*
 * Write what packets differ in, of the next @number of them. UDP over IPv6 has no
 * identification by which captures know a packet again, so its payload has a number.
 */
static void make_next(struct source *source, int number)
{
	const struct options *o = source->o;

	for (int i = 0; i < number; i++) {
		uint64_t own = source->sent + i;

		if (o->syn && o->ipv6)
			make_syn6(&source->syns[i], source, own);
		else if (o->syn)
			make_syn4(&source->syns[i], source, own);
		else
			source->numbers[i] = htobe64(own);
	}
}

static volatile sig_atomic_t over;

static void on_end(int number)
{
	(void)number;
	over = 1;
}

/*
 * Have @over set at the end of the flow. A signal also ends a call that waits for room
 * in the socket, and costs nothing before: reading the clock takes virtual time.
 */
static void watch_end(int64_t end_ns)
{
	const struct sigaction action = { .sa_handler = on_end }; /* without SA_RESTART */
	const struct itimerspec end = {
		.it_value = { .tv_sec = end_ns / NSEC_PER_SEC, .tv_nsec = end_ns % NSEC_PER_SEC },
	};
	timer_t timer;

	if (sigaction(SIGALRM, &action, NULL) < 0 ||
	    timer_create(CLOCK_MONOTONIC, NULL, &timer) < 0 || /* of SIGALRM */
	    timer_settime(timer, TIMER_ABSTIME, &end, NULL) < 0)
		die_errno(errno, "a timer for the end of the flow");
}

/* An unreachable receiver (ICMP) is no reason to stop: nothing changes the rate. */
static void emit(struct source *source, int number)
{
	while (number && !over) {
		int sent;

		make_next(source, number);
		sent = sendmmsg(source->fd, source->messages, number, 0);

		if (sent < 0 && errno != ECONNREFUSED && errno != EINTR)
			die_errno(errno, "cannot send to %s", source->o->to);
		if (sent <= 0)
			continue;
		source->sent += sent;
		number -= sent;
	}
}

/* Headers count in a flow's rate, so the result names those of IPv6. */
static void text_version(struct text *t, const struct options *o)
{
	if (!o->ipv6)
		return;
	text_field(t, "ipv6");
	text_puts(t, "true");
}

static void record_sent(struct text *intervals, int64_t end_ns, const struct source *source)
{
	text_interval(intervals, end_ns);
	text_field_u64(intervals, "packets_sent", source->sent);
	text_puts(intervals, "}");
}

/* When packet @number leaves, after the start: exact, however large the number. */
static int64_t due_ns(const struct options *o, uint64_t number)
{
	return (__int128)number * o->frame_bits * NSEC_PER_SEC / o->rate;
}

void pace(const struct options *o)
{
	static struct source source;
	struct text intervals = { 0 };
	struct text t = { 0 };
	int64_t end_ns = o->interval_ns;
	int64_t start_ns;

	source.o = o;
	source.at_once = o->rate / o->frame_bits / MOST_WAKES + 1;
	if (source.at_once > MOST_AT_ONCE)
		die("%lld packets a second are too many", (long long)(o->rate / o->frame_bits));
	open_source(&source);
	start_ns = announce_start(o);
	watch_end(start_ns + o->seconds_ns);
	for (;;) {
		int64_t next_ns = over ? o->seconds_ns : due_ns(o, source.sent);

		while (end_ns <= next_ns && end_ns < o->seconds_ns) {
			record_sent(&intervals, end_ns, &source);
			end_ns += o->interval_ns;
		}
		if (next_ns >= o->seconds_ns)
			break;
		sleep_until(start_ns + next_ns);
		emit(&source, source.at_once);
	}
	record_sent(&intervals, o->seconds_ns, &source);
	text_role(&t, "pacer", o, start_ns, o->seconds_ns);
	text_version(&t, o);
	text_field_s64(&t, "payload", o->size);
	text_field_u64(&t, "packets_sent", source.sent);
	print_result(&t, &intervals);
	exit(0);
}

/* -- the receiver --------------------------------------------------------------- */

/* A packet socket that counts the flow's packets with one codepoint, and keeps nothing. */
static int counter(const struct options *o, int codepoint)
{
	/*
	 * Offsets are those of the IP header; a fragment has no port, and none is sent.
	 * Index register: the length of the header.
	 */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, o->ipv6 ? 6 : 9),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, o->syn ? IPPROTO_TCP : IPPROTO_UDP, 0, 10),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 1),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, o->ipv6 ? 0x30 : 3),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, o->ipv6 ? codepoint << 4 : codepoint, 0, 7),
		o->ipv6 ? (struct sock_filter)BPF_STMT(BPF_LDX | BPF_W | BPF_IMM,
						       sizeof(struct ip6_hdr))
			: (struct sock_filter)BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, o->port, 0, 4),
		BPF_JUMP(BPF_JMP | BPF_JA, o->syn ? 0 : 2, 0, 0),
		BPF_STMT(BPF_LD | BPF_B | BPF_IND, 13), /* the flags: what has no ACK is a SYN */
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x10, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog filter = { ARRAY_SIZE(code), code };
	struct sockaddr_ll all = { .sll_family = AF_PACKET,
				   .sll_protocol = htons(o->ipv6 ? ETH_P_IPV6 : ETH_P_IP) };
	int least = 0;
	int fd;

	/* Its filter must be there before the first packet is. */
	fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)) < 0 ||
	    bind(fd, (struct sockaddr *)&all, sizeof(all)) < 0)
		die_errno(errno, "cannot count packets to port %d", o->port);
	return fd;
}

/* Somebody who listens, so that neither ICMP nor RST answers; nothing reaches the program. */
static void discard_packets(const struct options *o)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, 0) };
	struct sock_fprog filter = { ARRAY_SIZE(code), code };
	struct endpoint address = here(o);
	int fd = open_socket(o, o->syn ? SOCK_STREAM : SOCK_DGRAM);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) < 0 ||
	    bind(fd, &address.any, address.length) < 0 || (o->syn && listen(fd, 1) < 0))
		die_errno(errno, "cannot listen on port %d", o->port);
}

static void update(const int *counters, uint64_t *packets)
{
	for (int i = 0; i < CODEPOINTS; i++) {
		struct tpacket_stats since;
		socklen_t length = sizeof(since);

		if (getsockopt(counters[i], SOL_PACKET, PACKET_STATISTICS, &since, &length) < 0)
			die_errno(errno, "PACKET_STATISTICS");
		packets[i] += since.tp_packets;
	}
}

static void report_packets(struct text *t, const uint64_t *packets)
{
	text_field(t, "packets_received");
	for (int i = 0; i < CODEPOINTS; i++) {
		text_puts(t, i ? "," : "{");
		text_json(t, codepoints[i], strlen(codepoints[i]));
		text_puts(t, ":");
		text_u64(t, packets[i]);
	}
	text_puts(t, "}");
}

void count(const struct options *o)
{
	uint64_t packets[CODEPOINTS] = { 0 };
	struct pollfd first[CODEPOINTS];
	struct text intervals = { 0 };
	struct text t = { 0 };
	int counters[CODEPOINTS];
	int64_t end_ns = 0;
	int64_t start_ns;

	for (int i = 0; i < CODEPOINTS; i++) {
		counters[i] = counter(o, i);
		first[i] = (struct pollfd){ .fd = counters[i], .events = POLLIN };
	}
	discard_packets(o);
	while (poll(first, CODEPOINTS, -1) < 0)
		if (errno != EINTR)
			die_errno(errno, "poll");
	start_ns = learn_start(o);
	do {
		end_ns += o->interval_ns;
		if (end_ns > o->seconds_ns)
			end_ns = o->seconds_ns;
		sleep_until(start_ns + end_ns);
		update(counters, packets);
		text_interval(&intervals, end_ns);
		report_packets(&intervals, packets);
		text_puts(&intervals, "}");
	} while (end_ns < o->seconds_ns);
	text_role(&t, "counter", o, start_ns, o->seconds_ns);
	text_version(&t, o);
	text_field_s64(&t, "payload", o->size);
	report_packets(&t, packets);
	print_result(&t, &intervals);
	exit(0);
}
