// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * A small sender and receiver of paced UDP with a scalable congestion control: an example of a
 * sender in a folder of one's own, by the contract of docs/exec.md.
 *
 *   udp-l4s send --address IPV4 --port P --seconds S --cc scalable --codepoint WORD --json FILE
 *   udp-l4s receive --address IPV4 --port P --json FILE
 *
 * The receiver reports every 2 ms, and at the first mark after none, how many packets came, how
 * many of them with CE, and when the newest was sent. Once per round trip the sender reacts: the
 * share of marked packets enters a moving average alpha with weight 1/16, and a round trip with
 * marks lowers the rate by alpha/2, as DCTCP does (RFC 8257 sections 3.3 and 3.5). Without marks
 * the rate rises by a packet per round trip; it doubles until the first mark or loss. A round trip
 * with losses lowers it by 30 %. This is no Prague: it has no window, no fall-back for classic
 * queues and no independence of the RTT.
 *
 * It sleeps between packets: in virtual time a program that spins never lets time pass. The socket
 * is connected, so that Linux gives each packet its own IP identification, by which captures are
 * compared.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	PAYLOAD = 1200, /* bytes, as QUIC's packets before it has looked for a larger MTU */
	ECN_BITS = 3,
	CE = 3,
	CANNOT = 127, /* exit code for what this sender cannot do */
};

#define NS_PER_S	1000000000LL
#define REPORT_EVERY_NS 2000000LL
#define AT_ONCE_NS \
	250000LL /* packets of this time leave together, so that fast rates need few timers */
#define FIRST_RATE   125000.0 /* bytes per second */
#define LEAST_RATE   12500.0
#define MOST_RATE    1.25e8
#define FIRST_RTT_NS 100000000.0
#define SILENT_NS    (3 * NS_PER_S) /* without any report the receiver is not there */
#define GAIN	     (1.0 / 16)
#define LOSS_FACTOR  0.7

struct packet {
	uint64_t number; /* from 1 */
	int64_t sent_ns;
};

struct report {
	uint64_t highest; /* number of the newest packet */
	uint64_t received;
	uint64_t ce;
	int64_t sent_ns; /* when the newest packet was sent */
};

static const char *const codepoints[] = { "not-ect", "ect1", "ect0" };

struct options {
	bool sends;
	struct sockaddr_in address;
	double seconds;
	int ecn;
	const char *json;
};

struct sender {
	int fd;
	double rate; /* bytes per second */
	double alpha;
	double rtt_ns; /* smoothed */
	int64_t least_rtt_ns;
	bool doubling;
	uint64_t sent;
	uint64_t reports;
	uint64_t lost;
	uint64_t round_ends; /* the round trip ends when this packet has been reported */
	struct report seen;  /* at the end of the last round trip */
	struct report newest;
	int64_t heard_ns;
	double most_rate;
};

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

__attribute__((noreturn, format(printf, 2, 3))) static void leave(int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("udp-l4s: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(code);
}

#define die(...) leave(1, __VA_ARGS__)

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static double number(const char *name, const char *text, double least, double most)
{
	char *end;
	double value = strtod(text, &end);

	if (*text == '\0' || *end != '\0' || !(value >= least && value <= most))
		die("%s: %s is not a number from %g to %g", name, text, least, most);
	return value;
}

static int codepoint(const char *word)
{
	for (int code = 0; code < (int)(sizeof(codepoints) / sizeof(*codepoints)); code++)
		if (!strcmp(word, codepoints[code]))
			return code;
	leave(CANNOT, "it sends not-ect, ect1 or ect0, not %s", word);
}

static struct options parse(int argc, char **argv)
{
	struct options found = { .ecn = -1, .address = { .sin_family = AF_INET } };
	const char *cc = NULL;

	if (argc < 2 || (strcmp(argv[1], "send") && strcmp(argv[1], "receive")))
		leave(CANNOT, "expected send or receive, then options");
	found.sends = !strcmp(argv[1], "send");
	for (int i = 2; i < argc; i += 2) {
		const char *name = argv[i], *value = argv[i + 1];

		if (value == NULL)
			die("%s needs a value", name);
		if (!strcmp(name, "--address")) {
			if (inet_pton(AF_INET, value, &found.address.sin_addr) != 1)
				leave(CANNOT, "%s is not an IPv4 address", value);
		} else if (!strcmp(name, "--port")) {
			found.address.sin_port = htons((uint16_t)number(name, value, 1, 65535));
		} else if (!strcmp(name, "--seconds")) {
			found.seconds = number(name, value, 0.001, 1e6);
		} else if (!strcmp(name, "--codepoint")) {
			found.ecn = codepoint(value);
		} else if (!strcmp(name, "--cc")) {
			cc = value;
		} else if (!strcmp(name, "--json")) {
			found.json = value;
		} else {
			die("unknown option %s", name);
		}
	}
	if (found.sends && cc && strcmp(cc, "scalable"))
		leave(CANNOT, "its congestion control is scalable, not %s", cc);
	if (!found.address.sin_port || !found.address.sin_addr.s_addr || !found.json)
		die("send and receive need --address, --port and --json");
	if (found.sends && (!cc || found.ecn < 0 || found.seconds == 0))
		die("send needs --seconds, --cc and --codepoint, too");
	return found;
}

static FILE *open_json(const char *path)
{
	FILE *out = fopen(path, "w");

	if (out == NULL)
		die("cannot write %s: %s", path, strerror(errno));
	return out;
}

static void close_json(FILE *out, const char *path)
{
	if (fclose(out))
		die("cannot write %s: %s", path, strerror(errno));
}

/* ---- receiver */
static int codepoint_of(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
			return *(unsigned char *)CMSG_DATA(c) & ECN_BITS;
	return 0;
}

static void write_receiver(const uint64_t by_codepoint[4], const char *path)
{
	FILE *out = open_json(path);

	fprintf(out,
		"{\"packets_received\": {\"not_ect\": %llu, \"ect1\": %llu, \"ect0\": %llu, "
		"\"ce\": %llu}}\n",
		(unsigned long long)by_codepoint[0], (unsigned long long)by_codepoint[1],
		(unsigned long long)by_codepoint[2], (unsigned long long)by_codepoint[3]);
	close_json(out, path);
}

static void receive(const struct options *options)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
	uint64_t by_codepoint[4] = { 0 };
	struct report report = { 0 };
	int64_t reported_ns = 0;
	bool marked = false;

	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)) ||
	    bind(fd, (const struct sockaddr *)&options->address, sizeof(options->address)))
		die("cannot listen: %s", strerror(errno));
	while (!ended) {
		struct packet packet;
		struct sockaddr_in from;
		char control[CMSG_SPACE(sizeof(int))];
		struct iovec data = { .iov_base = &packet, .iov_len = sizeof(packet) };
		struct msghdr message = {
			.msg_name = &from,
			.msg_namelen = sizeof(from),
			.msg_iov = &data,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};
		ssize_t size = recvmsg(fd, &message, 0);
		int64_t now = now_ns();
		bool ce;

		if (size < 0 && errno != EINTR)
			die("cannot receive: %s", strerror(errno));
		if (size < (ssize_t)sizeof(packet))
			continue;
		ce = codepoint_of(&message) == CE;
		by_codepoint[codepoint_of(&message)]++;
		report.received++;
		report.ce += ce;
		if (packet.number > report.highest) {
			report.highest = packet.number;
			report.sent_ns = packet.sent_ns;
		}
		if (now - reported_ns < REPORT_EVERY_NS && (!ce || marked))
			continue;
		/* a report that is lost is made good by the next, as it has totals */
		sendto(fd, &report, sizeof(report), 0, (struct sockaddr *)&from, sizeof(from));
		reported_ns = now;
		marked = ce;
	}
	write_receiver(by_codepoint, options->json);
}

/* ---- sender */
static void end_of_round(struct sender *s)
{
	double received = (double)(s->newest.received - s->seen.received);
	double expected = (double)(s->newest.highest - s->seen.highest);
	double marks = (double)(s->newest.ce - s->seen.ce);
	double lost = expected > received ? expected - received : 0;

	if (received > 0)
		s->alpha += (marks / received - s->alpha) * GAIN;
	s->lost += (uint64_t)lost;
	if (marks > 0 || lost > 0)
		s->doubling = false;
	if (lost > 0)
		s->rate *= LOSS_FACTOR;
	else if (marks > 0)
		s->rate *= 1 - s->alpha / 2;
	else if (s->doubling)
		s->rate *= 2;
	else
		s->rate += PAYLOAD / (s->rtt_ns / NS_PER_S);
	if (s->rate < LEAST_RATE)
		s->rate = LEAST_RATE;
	if (s->rate > MOST_RATE)
		s->rate = MOST_RATE;
	if (s->rate > s->most_rate)
		s->most_rate = s->rate;
	s->seen = s->newest;
	s->round_ends = s->sent + 1;
}

static void read_reports(struct sender *s)
{
	struct report report;

	while (recv(s->fd, &report, sizeof(report), MSG_DONTWAIT) == (ssize_t)sizeof(report)) {
		int64_t now = now_ns(), rtt_ns = now - report.sent_ns;

		s->heard_ns = now;
		s->reports++;
		if (report.received < s->newest.received)
			continue;
		s->newest = report;
		s->rtt_ns = s->reports == 1 ? (double)rtt_ns
					    : s->rtt_ns + ((double)rtt_ns - s->rtt_ns) / 8;
		if (!s->least_rtt_ns || rtt_ns < s->least_rtt_ns)
			s->least_rtt_ns = rtt_ns;
		if (report.highest >= s->round_ends)
			end_of_round(s);
	}
}

static void write_sender(const struct sender *s, const char *path)
{
	FILE *out = open_json(path);

	fprintf(out,
		"{\"packets_sent\": %llu, \"reports\": %llu, \"ce_packets\": %llu, "
		"\"lost_packets\": %llu,\n",
		(unsigned long long)s->sent, (unsigned long long)s->reports,
		(unsigned long long)s->newest.ce, (unsigned long long)s->lost);
	fprintf(out, " \"rtt_ms\": {\"least\": %.3f, \"smoothed\": %.3f}, \"alpha\": %.4f,\n",
		(double)s->least_rtt_ns / 1e6, s->rtt_ns / 1e6, s->alpha);
	fprintf(out, " \"rate_mbps\": {\"last\": %.3f, \"most\": %.3f}}\n", s->rate * 8 / 1e6,
		s->most_rate * 8 / 1e6);
	close_json(out, path);
}

static void wait_until(struct sender *s, int64_t due_ns)
{
	int64_t left = due_ns - now_ns();
	struct timespec wait = { .tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S };
	struct pollfd readable = { .fd = s->fd, .events = POLLIN };

	if (left > 0)
		ppoll(&readable, 1, &wait, NULL);
	read_reports(s);
}

static void send_flow(const struct options *options)
{
	struct sender s = { .rate = FIRST_RATE,
			    .alpha = 1,
			    .rtt_ns = FIRST_RTT_NS,
			    .doubling = true,
			    .round_ends = 1 };
	int64_t begun = now_ns(), ends = begun + (int64_t)(options->seconds * NS_PER_S),
		due = begun;
	char payload[PAYLOAD] = { 0 };
	int tos = options->ecn;

	s.heard_ns = begun;
	s.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s.fd < 0 || setsockopt(s.fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)) ||
	    connect(s.fd, (const struct sockaddr *)&options->address, sizeof(options->address)))
		die("cannot send: %s", strerror(errno));
	while (!ended && due < ends) {
		int64_t now;

		wait_until(&s, due);
		now = now_ns();
		if (now - s.heard_ns > SILENT_NS)
			die("the receiver has not reported for %g s", (double)SILENT_NS / NS_PER_S);
		while (due <= now + AT_ONCE_NS && due < ends) {
			struct packet packet = { .number = ++s.sent, .sent_ns = now };

			memcpy(payload, &packet, sizeof(packet));
			/* a full queue of the host is a loss as any other; ECONNREFUSED shows in
			 * the reports */
			(void)!send(s.fd, payload, sizeof(payload), 0);
			due += (int64_t)(PAYLOAD / s.rate * NS_PER_S);
		}
	}
	write_sender(&s, options->json);
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	struct sigaction action = { .sa_handler = on_signal }; /* no SA_RESTART: recvmsg returns */

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (options.sends)
		send_flow(&options);
	else
		receive(&options);
	return 0;
}
