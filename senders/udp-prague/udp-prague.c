// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * A sender and receiver of paced UDP with Prague, by the contract of docs/exec.md.
 *
 * Every packet is acknowledged with totals: how many packets came, how many of them with CE, how
 * many are missing. The law is that of draft-briscoe-iccrg-prague-congestion-control-04 as
 * L4STeam's UDP Prague applies it: alpha is the average share of marks with weight 1/16, once per
 * virtual RTT of at least 25 ms; a mark lowers the window by alpha/2 and a loss by half, each at
 * most once per virtual RTT; every unmarked packet raises it by (RTT / virtual RTT)^2 packets per
 * window. Until the first mark or loss every packet raises it by itself. There is no fall-back for
 * classic queues.
 *
 * It sleeps between packets: in virtual time a program that spins never lets time pass. The socket
 * is connected, so that Linux gives each packet its own IP identification, by which captures are
 * compared.
 */
#include <errno.h>
#include <netdb.h>
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
	PAYLOAD = 1400,	   /* bytes, which fit the MTU with either IP */
	LEAST_PACKETS = 2, /* window: with less the acknowledgements' clock could stop */
	ECN_BITS = 3,
	CE = 3,
	CANNOT = 127, /* exit code for what this sender cannot do */
};

#define NS_PER_S       1000000000LL
#define VIRTUAL_RTT_NS 25e6
#define AT_ONCE_NS     250000LL /* packets of this time leave together: the draft's longest burst */
#define FIRST_RTT_NS   100e6
#define FIRST_PACKETS  10 /* RFC 6928 */
#define MOST_PACKETS   1e5
#define SILENT_NS      (3 * NS_PER_S) /* without an acknowledgement the receiver is not there */
#define LOG_EVERY_NS   10000000LL
#define GAIN	       (1.0 / 16)

struct packet {
	uint64_t number; /* from 1 */
	int64_t sent_ns;
};

struct ack {
	uint64_t received;
	uint64_t ce;
	uint64_t missing;
	int64_t sent_ns; /* when the newest packet was sent */
};

struct options {
	bool sends, by_rate;
	struct addrinfo *address;
	double seconds;
	int ecn;
	const char *json, *qlog;
};

/* A reaction, which does not repeat before a round trip and a virtual one are over. */
struct round {
	uint64_t sent; /* packets when it began */
	int64_t at_ns;
};

struct sender {
	int fd;
	bool by_rate, slow_start;
	double window; /* packets, with a fraction */
	double rtt_ns; /* smoothed */
	double alpha;
	uint64_t sent, lost;
	struct ack seen;     /* the newest */
	struct ack averaged; /* when alpha was updated */
	struct round alpha_round, mark_round, loss_round;
	int64_t begun_ns, heard_ns, logged_ns, least_rtt_ns;
	FILE *log;
};

static const char *const codepoints[] = { "not-ect", "ect1", "ect0" };
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
	fputs("udp-prague: ", stderr);
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

static int place_of(const char *word, const char *const *words, int count, const char *what)
{
	for (int place = 0; place < count; place++)
		if (!strcmp(word, words[place]))
			return place;
	leave(CANNOT, "%s is not one of its %s", word, what);
}

static struct options parse(int argc, char **argv)
{
	static const char *const ccs[] = { "prague", "prague-rate" };
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
					.ai_socktype = SOCK_DGRAM };
	const char *address = NULL, *port = NULL, *cc = NULL, *codepoint = NULL;
	struct options found = { 0 };

	if (argc < 2 || (strcmp(argv[1], "send") && strcmp(argv[1], "receive")))
		leave(CANNOT, "expected send or receive, then options");
	found.sends = !strcmp(argv[1], "send");
	for (int i = 2; i < argc; i += 2) {
		const char *name = argv[i], *value = argv[i + 1];

		if (value == NULL)
			die("%s needs a value", name);
		if (!strcmp(name, "--address"))
			address = value;
		else if (!strcmp(name, "--port"))
			port = value;
		else if (!strcmp(name, "--seconds"))
			found.seconds = strtod(value, NULL);
		else if (!strcmp(name, "--codepoint"))
			codepoint = value;
		else if (!strcmp(name, "--cc"))
			cc = value;
		else if (!strcmp(name, "--json"))
			found.json = value;
		else if (!strcmp(name, "--qlog"))
			found.qlog = value;
		else
			die("unknown option %s", name);
	}
	if (!address || !port || !found.json)
		die("send and receive need --address, --port and --json");
	if (found.sends && (!cc || !codepoint || !(found.seconds > 0)))
		die("send needs --seconds, --cc and --codepoint, too");
	if (getaddrinfo(address, port, &hints, &found.address))
		die("%s, port %s is no address", address, port);
	if (found.sends) {
		found.by_rate = place_of(cc, ccs, 2, "congestion controls");
		found.ecn = place_of(codepoint, codepoints, 3, "codepoints");
	}
	return found;
}

static FILE *open_file(const char *path)
{
	FILE *out = fopen(path, "w");

	if (out == NULL)
		die("cannot write %s: %s", path, strerror(errno));
	return out;
}

static void close_file(FILE *out, const char *path)
{
	if (fclose(out))
		die("cannot write %s: %s", path, strerror(errno));
}

/* Open a socket and set an option of its IP, which has other names in IPv6. */
static int open_socket(const struct addrinfo *address, int v4, int v6, int value)
{
	bool is_v6 = address->ai_family == AF_INET6;
	int fd = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? v6 : v4, &value,
				 sizeof(value)))
		die("cannot open a socket: %s", strerror(errno));
	return fd;
}

/* ---- receiver */
static int codepoint_of(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
		if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
		    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS))
			return *(unsigned char *)CMSG_DATA(c) & ECN_BITS;
	return 0;
}

static void receive(const struct options *options)
{
	int fd = open_socket(options->address, IP_RECVTOS, IPV6_RECVTCLASS, 1);
	uint64_t highest = 0;
	struct ack ack = { 0 };
	FILE *out;

	if (bind(fd, options->address->ai_addr, options->address->ai_addrlen))
		die("cannot listen: %s", strerror(errno));
	while (!ended) {
		struct packet packet;
		struct sockaddr_storage from;
		char control[CMSG_SPACE(sizeof(int))];
		struct iovec data = { .iov_base = &packet, .iov_len = sizeof(packet) };
		struct msghdr message = { .msg_name = &from,
					  .msg_namelen = sizeof(from),
					  .msg_iov = &data,
					  .msg_iovlen = 1,
					  .msg_control = control,
					  .msg_controllen = sizeof(control) };
		ssize_t size = recvmsg(fd, &message, 0);

		if (size < 0 && errno != EINTR)
			die("cannot receive: %s", strerror(errno));
		if (size < (ssize_t)sizeof(packet))
			continue;
		ack.received++;
		ack.ce += codepoint_of(&message) == CE;
		if (packet.number > highest)
			highest = packet.number;
		/* a packet that was only late is missing no longer */
		ack.missing = highest > ack.received ? highest - ack.received : 0;
		ack.sent_ns = packet.sent_ns;
		sendto(fd, &ack, sizeof(ack), 0, (struct sockaddr *)&from, message.msg_namelen);
	}
	out = open_file(options->json);
	fprintf(out,
		"{\"packets_received\": %llu, \"ce_packets\": %llu, \"missing_packets\": %llu}\n",
		(unsigned long long)ack.received, (unsigned long long)ack.ce,
		(unsigned long long)ack.missing);
	close_file(out, options->json);
}

/* ---- sender */
static double virtual_rtt_ns(const struct sender *s)
{
	return s->rtt_ns > VIRTUAL_RTT_NS ? s->rtt_ns : VIRTUAL_RTT_NS;
}

/* Begin a round if the last one is over. */
static bool begins(struct round *round, const struct sender *s, int64_t now)
{
	if (s->seen.received + s->seen.missing <= round->sent ||
	    now - round->at_ns < (int64_t)virtual_rtt_ns(s))
		return false;
	*round = (struct round){ .sent = s->sent, .at_ns = now };
	return true;
}

static void react(struct sender *s, const struct ack *ack, int64_t now)
{
	uint64_t received = ack->received - s->seen.received, ce = ack->ce - s->seen.ce;
	bool lost = ack->missing > s->seen.missing;
	double rtt_ns = (double)(now - ack->sent_ns), before_ns = s->rtt_ns, share;

	if (lost)
		s->lost += ack->missing - s->seen.missing;
	s->seen = *ack;
	s->rtt_ns += s->least_rtt_ns ? (rtt_ns - s->rtt_ns) / 8 : rtt_ns - s->rtt_ns;
	if (!s->least_rtt_ns || now - ack->sent_ns < s->least_rtt_ns)
		s->least_rtt_ns = now - ack->sent_ns;
	if (s->by_rate && !s->slow_start)
		s->window *= s->rtt_ns / before_ns; /* the rate stays */
	if (begins(&s->alpha_round, s, now) && ack->received > s->averaged.received) {
		share = (double)(ack->ce - s->averaged.ce) /
			(double)(ack->received - s->averaged.received);
		s->alpha += (share - s->alpha) * GAIN;
		s->averaged = *ack;
	}
	if (s->slow_start) {
		s->window += (double)(received - ce);
		s->slow_start = !lost && !ce;
	} else {
		share = s->rtt_ns / virtual_rtt_ns(s);
		s->window += (double)(received - ce) / s->window * share * share;
	}
	if (lost && begins(&s->loss_round, s, now)) {
		s->window /= 2;
		s->mark_round = s->loss_round;
	} else if (ce && begins(&s->mark_round, s, now)) {
		s->window *= 1 - s->alpha / 2;
	}
	if (s->window < LEAST_PACKETS && !s->by_rate)
		s->window = LEAST_PACKETS;
	if (s->window < 0.1)
		s->window = 0.1;
	if (s->window > MOST_PACKETS)
		s->window = MOST_PACKETS;
}

static void log_state(struct sender *s, uint64_t lost, int64_t now)
{
	double ms = (double)(now - s->begun_ns) / 1e6;

	if (s->log == NULL)
		return;
	for (; lost > 0; lost--)
		fprintf(s->log, "\x1e{\"time\":%.3f,\"name\":\"quic:packet_lost\",\"data\":{}}\n",
			ms);
	if (now - s->logged_ns < LOG_EVERY_NS)
		return;
	s->logged_ns = now;
	fprintf(s->log,
		"\x1e{\"time\":%.3f,\"name\":\"quic:recovery_metrics_updated\",\"data\":{"
		"\"smoothed_rtt\":%.3f,\"congestion_window\":%.0f,\"bytes_in_flight\":%llu}}\n",
		ms, s->rtt_ns / 1e6, s->window * PAYLOAD,
		(unsigned long long)(s->sent - s->seen.received - s->seen.missing) * PAYLOAD);
}

static void read_acks(struct sender *s)
{
	struct ack ack;

	while (recv(s->fd, &ack, sizeof(ack), MSG_DONTWAIT) == (ssize_t)sizeof(ack)) {
		uint64_t before = s->lost;

		s->heard_ns = now_ns();
		if (ack.received <= s->seen.received)
			continue;
		react(s, &ack, s->heard_ns);
		log_state(s, s->lost - before, s->heard_ns);
	}
}

static void write_sender(const struct sender *s, const char *path)
{
	FILE *out = open_file(path);

	fprintf(out, "{\"packets_sent\": %llu, \"ce_packets\": %llu, \"lost_packets\": %llu,\n",
		(unsigned long long)s->sent, (unsigned long long)s->seen.ce,
		(unsigned long long)s->lost);
	fprintf(out, " \"rtt_ms\": {\"least\": %.3f, \"smoothed\": %.3f},\n",
		(double)s->least_rtt_ns / 1e6, s->rtt_ns / 1e6);
	fprintf(out, " \"alpha\": %.4f, \"window_packets\": %.2f}\n", s->alpha, s->window);
	close_file(out, path);
}

/* Sleep until then, or until an acknowledgement comes. */
static void wait_until(struct sender *s, int64_t due_ns)
{
	int64_t left = due_ns - now_ns();
	struct timespec wait = { .tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S };
	struct pollfd readable = { .fd = s->fd, .events = POLLIN };

	if (left > 0)
		ppoll(&readable, 1, &wait, NULL);
	read_acks(s);
}

static bool is_open(const struct sender *s)
{
	uint64_t flying = s->sent - s->seen.received - s->seen.missing;

	return s->by_rate || (double)flying < s->window;
}

static void send_flow(const struct options *options)
{
	int64_t begun = now_ns(), ends = begun + (int64_t)(options->seconds * NS_PER_S),
		due = begun;
	struct sender s = { .by_rate = options->by_rate,
			    .slow_start = true,
			    .window = FIRST_PACKETS,
			    .rtt_ns = FIRST_RTT_NS,
			    .alpha = 1,
			    .begun_ns = begun,
			    .heard_ns = begun };
	char payload[PAYLOAD] = { 0 };

	s.fd = open_socket(options->address, IP_TOS, IPV6_TCLASS, options->ecn);
	if (connect(s.fd, options->address->ai_addr, options->address->ai_addrlen))
		die("cannot send: %s", strerror(errno));
	if (options->qlog) {
		s.log = open_file(options->qlog);
		fprintf(s.log, "\x1e{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\","
			       "\"serialization_format\":\"application/qlog+json-seq\","
			       "\"trace\":{\"vantage_point\":{\"type\":\"client\"}}}\n");
	}
	for (int64_t now = begun; !ended && now < ends; now = now_ns()) {
		if (now - s.heard_ns > SILENT_NS)
			die("the receiver has not answered for %g s", (double)SILENT_NS / NS_PER_S);
		for (; due <= now + AT_ONCE_NS && is_open(&s); read_acks(&s)) {
			struct packet packet = { .number = ++s.sent, .sent_ns = now };

			memcpy(payload, &packet, sizeof(packet));
			/* a full queue of the host is a loss as any other */
			(void)!send(s.fd, payload, sizeof(payload), 0);
			due += (int64_t)(s.rtt_ns / s.window);
		}
		if (due < now)
			due = now; /* a window that was closed is not made up for */
		wait_until(&s, is_open(&s) ? due : ends < now + NS_PER_S ? ends : now + NS_PER_S);
	}
	write_sender(&s, options->json);
	if (s.log)
		close_file(s.log, options->qlog);
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
