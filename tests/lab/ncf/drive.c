// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * Drive sch_ncf, built with tests' clock and depths, packet by packet:
 *
 *   drive ROUTER HOST... <STEPS >OUTCOMES
 *
 * ROUTER has a port p1, p2, ... to each HOST, whose own port is called the same.
 * All are network namespaces. Steps:
 *
 *   reset                        new queuing disciplines: nothing is known
 *   flows NUMBER                 of elephants at the port where the next packet leaves
 *   packet NS BYTES PORT FRAME   time, depth of its queue, port it leaves by, hex
 *
 * Each packet becomes a line: the number of the queue that it joined, then all
 * frames that hosts got, as HOST:FRAME.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOSTS	   8
#define FRAME_SIZE 2048
#define PARAMETERS "/sys/module/sch_ncf/parameters/"
#define QUEUE	   "ncf limit 250000 capacity 200mbit sweep 0"

static int hosts;
static int ways_out[HOSTS]; /* of the router */
static int ways_in[HOSTS];  /* of the hosts */
static FILE *tc;

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "drive: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, ": %s\n", strerror(errno));
	va_end(args);
	exit(1);
}

static int packet_socket(const char *port, int protocol)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons((uint16_t)protocol),
		.sll_ifindex = (int)if_nametoindex(port),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	int on = 1;

	setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on));
	if (fd < 0 || !at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		die("no packets at %s", port);
	return fd;
}

static void enter(const char *node)
{
	char path[256];
	int ns;

	snprintf(path, sizeof(path), "/run/netns/%s", node);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
		die("cannot enter %s", node);
	close(ns);
}

static void set(const char *name, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die("cannot set %s to %s", name, value);
	close(fd);
}

static void print_queue(void)
{
	char value[16] = "";
	int fd = open(PARAMETERS "test_queue", O_RDONLY);

	if (fd < 0 || read(fd, value, sizeof(value) - 1) < 0)
		die("cannot read the queue");
	close(fd);
	value[strcspn(value, "\n")] = '\0';
	fputs(value, stdout);
}

/* Virtual time passes only when nothing is left to do. */
static void settle(void)
{
	usleep(1000);
}

static void reset(void)
{
	for (int port = 1; port <= hosts; port++) {
		fprintf(tc, "qdisc del dev p%d root\n", port);
		fprintf(tc, "qdisc add dev p%d root handle 1: " QUEUE "\n", port);
	}
	fflush(tc);
	settle();
}

static size_t from_hex(const char *hex, uint8_t *frame)
{
	size_t size = 0;

	while (size < FRAME_SIZE && sscanf(&hex[2 * size], "%2hhx", &frame[size]) == 1)
		size++;
	return size;
}

/* The tag of a VLAN, which the kernel takes out of a frame that arrives; 0: none */
static uint32_t tag_of(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		struct tpacket_auxdata aux;

		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		if (aux.tp_status & TP_STATUS_VLAN_VALID)
			return (uint32_t)ETHERTYPE_VLAN << 16 | aux.tp_vlan_tci;
	}
	return 0;
}

static void print_frame(const uint8_t *frame, size_t size, uint32_t tag)
{
	for (size_t i = 0; i < size; i++) {
		if (i == 2 * ETH_ALEN && tag)
			printf("%08x", tag);
		printf("%02x", frame[i]);
	}
}

static void print_received(int host)
{
	uint8_t control[256], frame[FRAME_SIZE];
	struct iovec piece = { frame, sizeof(frame) };
	struct sockaddr_ll from;
	struct msghdr message = { .msg_name = &from, .msg_iov = &piece, .msg_iovlen = 1 };
	ssize_t size;

	for (;;) {
		message.msg_namelen = sizeof(from);
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		size = recvmsg(ways_in[host], &message, MSG_DONTWAIT);
		if (size < 0)
			return;
		if (from.sll_pkttype == PACKET_OUTGOING)
			continue;
		printf(" %d:", host + 1);
		print_frame(frame, (size_t)size, tag_of(&message));
	}
}

static void packet(const char *now, const char *depth, int port, const char *hex)
{
	uint8_t frame[FRAME_SIZE];
	size_t size = from_hex(hex, frame);

	set("test_now", now);
	set("test_depth", depth);
	set("test_armed", "1");
	if (send(ways_out[port - 1], frame, size, 0) < 0)
		die("cannot send a packet of %zu bytes", size);
	usleep(1);
	print_queue();
	/* the packet itself first, then what else there is */
	print_received(port - 1);
	for (int host = 0; host < hosts; host++)
		print_received(host);
	putchar('\n');
}

static void step(char *line)
{
	char *word = strtok(line, " \n");

	if (!strcmp(word, "reset")) {
		reset();
	} else if (!strcmp(word, "flows")) {
		set("test_flows", strtok(NULL, " \n"));
	} else {
		const char *now = strtok(NULL, " \n");
		const char *depth = strtok(NULL, " \n");
		const char *port = strtok(NULL, " \n");

		packet(now, depth, atoi(port), strtok(NULL, " \n"));
	}
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t size = 0;
	char port[16];

	hosts = argc - 2;
	if (hosts < 1 || hosts > HOSTS)
		return 2;
	for (int host = 0; host < hosts; host++) {
		snprintf(port, sizeof(port), "p%d", host + 1);
		enter(argv[2 + host]);
		ways_in[host] = packet_socket(port, ETH_P_ALL);
	}
	enter(argv[1]);
	for (int host = 0; host < hosts; host++) {
		snprintf(port, sizeof(port), "p%d", host + 1);
		ways_out[host] = packet_socket(port, 0);
	}
	tc = popen("tc -force -batch - 2>/dev/null", "w"); /* there is nothing to delete at first */
	if (!tc)
		die("cannot start tc");
	while (getline(&line, &size, stdin) > 0)
		step(line);
	pclose(tc);
	return 0;
}
