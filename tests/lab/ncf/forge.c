// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * Send packets that look like NCF's signals to the sender of a TCP flow:
 *
 *   forge PORT KIND COUNT PER_MS [NUMBER]
 *
 * PORT is that of the router towards the sender, from where the flow's packets
 * come in. Each kind is what the sender must find wrong; "malformed" takes turns
 * between all ways to be so, "fuzz" changes any bytes behind the IP header of a
 * signal about data that is not in flight (NUMBER is the seed), "replayed" sends
 * copies of the last signal that left by the port, "bare" is about the last packet
 * without payload of a connection, and "valid", "growing" and
 * "vast" have nothing wrong, each about the next byte (NUMBER is the number of
 * elephants, which grows by one each time or does not; "vast" states the largest
 * capacity that counts). Prints how many were sent.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define ETHERNET   14
#define FRAME_SIZE 256
#define MOST_KBPS  100000000U /* that signals may state, by default */

struct option {
	uint8_t kind, length;
	uint16_t exid;
	uint8_t flags, bottleneck;
	uint16_t flows;
	uint32_t capacity_kbps, queue_bytes;
};

struct signal {
	struct ether_header eth;
	struct iphdr ip;
	struct tcphdr tcp;
	struct option option;
	uint8_t more[64];
} __attribute__((packed));

static uint64_t state;

static uint32_t draw(uint32_t below) /* xorshift */
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32) % below;
}

static uint32_t sum(const void *data, size_t size, uint32_t total)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < size; i++)
		total += i % 2 ? byte[i] : (uint32_t)byte[i] << 8;
	return total;
}

static uint16_t checksum(uint32_t total)
{
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return htons((uint16_t)~total);
}

static size_t tcp_size(const struct signal *s)
{
	return ntohs(s->ip.tot_len) - sizeof(s->ip);
}

static void finish(struct signal *s)
{
	uint32_t pseudo = sum(&s->ip.saddr, 8, IPPROTO_TCP + (uint32_t)tcp_size(s));

	s->ip.check = 0;
	s->ip.check = checksum(sum(&s->ip, sizeof(s->ip), 0));
	s->tcp.check = 0;
	s->tcp.check = checksum(sum(&s->tcp, tcp_size(s), pseudo));
}

/* A signal about a packet */
static struct signal answer(const uint8_t *frame, uint16_t flows)
{
	const struct ether_header *eth = (const void *)frame;
	const struct iphdr *ip = (const void *)(frame + ETHERNET);
	const struct tcphdr *tcp = (const void *)(frame + ETHERNET + sizeof(*ip));
	struct signal s = { .eth = *eth, .ip = *ip, .tcp = *tcp };

	memcpy(s.eth.ether_dhost, eth->ether_shost, ETH_ALEN);
	memcpy(s.eth.ether_shost, eth->ether_dhost, ETH_ALEN);
	s.ip.saddr = ip->daddr;
	s.ip.daddr = ip->saddr;
	s.ip.tos = 0;
	s.ip.ttl = 64;
	s.ip.tot_len = htons(sizeof(s.ip) + sizeof(s.tcp) + sizeof(s.option));
	s.tcp.source = tcp->dest;
	s.tcp.dest = tcp->source;
	s.tcp.doff = 9;
	s.tcp.res1 = s.tcp.fin = s.tcp.syn = s.tcp.rst = s.tcp.psh = s.tcp.urg = s.tcp.urg_ptr = 0;
	s.tcp.res2 = 0;
	s.tcp.ack = 1;
	s.option = (struct option){
		.kind = 253,
		.length = 16,
		.exid = htons(0x4e43),
		.flags = 1 << 4,
		.bottleneck = 1,
		.flows = htons(flows),
		.capacity_kbps = htonl(10300),
		.queue_bytes = htonl(20000),
	};
	return s;
}

static void shift(struct signal *s, uint32_t by)
{
	s->tcp.seq = htonl(ntohl(s->tcp.seq) + by);
}

static void grow(struct signal *s, int bytes)
{
	s->ip.tot_len = htons((uint16_t)(ntohs(s->ip.tot_len) + bytes));
}

#define WAYS 12

static void malform(struct signal *s, unsigned int way)
{
	switch (way % WAYS) {
	case 0:
		s->option.length = 15;
		break;
	case 1:
		s->option.length = 1;
		break;
	case 2:
		s->option.flags = 2 << 4;
		break;
	case 3:
		s->option.flags |= 0x4;
		break;
	case 4:
		s->option.capacity_kbps = 0;
		break;
	case 5:
		s->option.queue_bytes = 0;
		break;
	case 6: /* payload */
		grow(s, 2);
		break;
	case 7: /* the option ends with the header, before its own end */
		s->tcp.doff = 6;
		grow(s, -12);
		break;
	case 8: /* behind four that do nothing */
		memcpy(s->more, (uint8_t *)&s->option + 12, 4);
		memmove((uint8_t *)&s->option + 4, &s->option, 12);
		memset(&s->option, 1, 4);
		s->tcp.doff = 10;
		grow(s, 4);
		break;
	case 9:
		s->tcp.psh = 1;
		break;
	case 10:
		s->tcp.rst = 1;
		break;
	default:
		s->tcp.urg_ptr = htons(1);
	}
}

static void fuzz(struct signal *s)
{
	uint8_t *bytes = (uint8_t *)&s->tcp;
	static const int sizes[] = { 0, 0, 0, 4, 8, 24, -4, -12, -16 };

	shift(s, draw(2) ? 1U << 28 : -(1U << 28));
	grow(s, sizes[draw(sizeof(sizes) / sizeof(*sizes))]);
	s->tcp.doff = draw(4) ? 9 : draw(16);
	for (uint32_t n = draw(6); n; n--) {
		uint32_t at = 12 + draw((uint32_t)sizeof(*s) - ETHERNET - (uint32_t)sizeof(s->ip) - 12);

		bytes[at] = (uint8_t)draw(256);
	}
	finish(s);
	if (!draw(8))
		s->tcp.check ^= (uint16_t)(1 + draw(65535));
}

static bool spoil(struct signal *s, const char *kind, unsigned int number)
{
	if (!strcmp(kind, "malformed"))
		malform(s, number);
	else if (!strcmp(kind, "no_flows"))
		s->option.flows = 0;
	else if (!strcmp(kind, "unknown"))
		s->tcp.dest = htons((uint16_t)(ntohs(s->tcp.dest) + 1));
	else if (!strcmp(kind, "stale"))
		shift(s, -(1U << 28));
	else if (!strcmp(kind, "ahead"))
		shift(s, 1U << 28);
	else if (!strcmp(kind, "too_fast"))
		s->option.capacity_kbps = htonl(number % 2 ? MOST_KBPS + 1 : UINT32_MAX);
	else if (!strcmp(kind, "vast"))
		s->option.capacity_kbps = htonl(MOST_KBPS);
	else if (!strcmp(kind, "valid") || !strcmp(kind, "growing"))
		shift(s, number);
	else if (strcmp(kind, "checksum") && strcmp(kind, "fuzz") && strcmp(kind, "bare"))
		return false;
	if (!strcmp(kind, "growing"))
		s->option.flows = htons((uint16_t)(ntohs(s->option.flows) + number));
	finish(s);
	if (!strcmp(kind, "checksum"))
		s->tcp.check ^= htons(1);
	else if (!strcmp(kind, "fuzz"))
		fuzz(s);
	return true;
}

static bool is_signal(const uint8_t *frame, ssize_t size)
{
	const struct signal *s = (const void *)frame;

	return size == ETHERNET + 56 && s->option.kind == 253 && s->option.exid == htons(0x4e43);
}

/* Data of the flow or an ACK, but not its beginning or end */
static bool is_packet(const uint8_t *frame, ssize_t size, bool bare)
{
	const struct ether_header *eth = (const void *)frame;
	const struct iphdr *ip = (const void *)(frame + ETHERNET);
	const struct tcphdr *tcp = (const void *)(frame + ETHERNET + sizeof(*ip));

	if (eth->ether_type != htons(ETH_P_IP) || ip->protocol != IPPROTO_TCP || ip->ihl != 5)
		return false;
	if (!bare)
		return size > 200;
	return ntohs(ip->tot_len) == sizeof(*ip) + tcp->doff * 4U && tcp->ack &&
	       !(tcp->syn | tcp->fin | tcp->rst);
}

/* Take the last such packet that came in, or the last signal that went out; false:
 * there is no new one.
 */
static bool look(int fd, uint8_t *frame, bool signals, bool bare)
{
	uint8_t seen[FRAME_SIZE];
	struct sockaddr_ll from;
	socklen_t length = sizeof(from);
	bool found = false;
	ssize_t size;

	while ((size = recvfrom(fd, seen, sizeof(seen), MSG_DONTWAIT | MSG_TRUNC,
				(struct sockaddr *)&from, &length)) >= 0) {
		bool out = from.sll_pkttype == PACKET_OUTGOING;

		if (signals ? out && is_signal(seen, size) : !out && is_packet(seen, size, bare)) {
			memcpy(frame, seen, sizeof(seen));
			found = true;
		}
	}
	return found;
}

static int open_port(const char *port)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL), /* also what leaves */
		.sll_ifindex = (int)if_nametoindex(port),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0 || !at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0) {
		fprintf(stderr, "forge: no packets at %s: %s\n", port, strerror(errno));
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	uint8_t frame[FRAME_SIZE] = { 0 };
	bool bare, copies, known = false;
	int count, per_ms, fd, number;

	if (argc < 5)
		return 2;
	fd = open_port(argv[1]);
	copies = !strcmp(argv[2], "replayed");
	bare = !strcmp(argv[2], "bare");
	count = atoi(argv[3]);
	per_ms = atoi(argv[4]);
	number = argc > 5 ? atoi(argv[5]) : 2;
	state = 0x9e3779b97f4a7c15 ^ (uint64_t)number;
	for (int sent = 0; sent < count;) {
		known |= look(fd, frame, copies, bare);
		for (int i = 0; known && i < per_ms && sent < count; i++, sent++) {
			struct signal s = answer(frame, (uint16_t)number);

			if (copies)
				memcpy(&s, frame, sizeof(s));
			else if (!spoil(&s, argv[2], (unsigned int)sent))
				return 2;
			if (send(fd, &s, ETHERNET + ntohs(s.ip.tot_len), 0) < 0) {
				perror("forge: send");
				return 1;
			}
		}
		nanosleep(&ms, NULL);
	}
	printf("%d\n", count);
	return 0;
}
