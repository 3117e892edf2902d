// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * lab-traffic: one TCP flow at full speed, measured by TCP_INFO.
 *
 *   lab-traffic receive --port P --seconds S [--interval S]
 *   lab-traffic send --to ADDRESS --port P --cc NAME --seconds S [--interval S]
 *                    [--flow ID]
 *
 * It replaces iperf3 in the lab, where system calls are the largest cost: a call
 * takes two context switches of the host, a packet far less. So each side makes
 * one call that lasts:
 *
 *  - The sender hands the kernel 128 MiB at a time and sleeps inside sendmsg();
 *    the socket fills its buffer whenever the kernel finds room in it, as for
 *    any bulk sender.
 *  - The receiver sleeps inside recv(MSG_WAITALL | MSG_TRUNC). The kernel takes
 *    every segment off the queue the moment it arrives and discards it: by module
 *    lab_sink (kernels/lab/sink), for which nothing wakes, or without it by a
 *    thread of the kernel. The program wakes at the end.
 *
 * The network then sees a reader without delay. So is iperf3 in virtual time,
 * where it wakes for each segment and reads at no cost:
 *
 *  - ACKs. __tcp_ack_snd_check() acknowledges every second full segment as long
 *    as the window need not shrink for it, and with an empty queue
 *    tcp_cleanup_rbuf() acknowledges at once what came with PSH. Both see the
 *    same queue as under iperf3: empty.
 *  - Window. tcp_rcv_space_adjust() grows the buffer by the bytes read in the
 *    last round trip less those still in the queue. A reader that lets the queue
 *    fill up (a low-water mark of a round trip's data, or reading on a timer)
 *    gives a measurement near zero, and the window stays small.
 *
 * SO_RCVBUF is not set, as it would turn the buffer's tuning off. Nor is a low-water
 * mark: the window would be measured too small by it.
 *
 * A second thread sleeps until each interval's end, counted in CLOCK_MONOTONIC
 * from the flow's planned start (LAB_START_NS), and reads TCP_INFO there: no
 * figure depends on when a call returned or on the sizes of reads. The receiver
 * reads the start from /run/lab-flow/PORT, which the sender writes before it
 * connects. Formats: docs/guest.md.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tcpinfo.h"
#include "text.h"
#include "util.h"

#define SEND_PIECE  (128 * 1024) /* iperf3's write size */
#define SEND_PIECES 1024	 /* UIO_MAXIOV */
#define READ_MOST   (1 << 30)
#define SINK	    "lab_sink"

const char *program = "lab-traffic";

struct flow {
	bool sender;
	const char *to;
	int port;
	const char *cc;
	const char *id;
	int64_t seconds_ns;
	int64_t interval_ns;

	int fd;
	int64_t start_ns;
	_Atomic int64_t connect_ns;	/* when connect() was called */
	_Atomic int64_t established_ns; /* when it returned */
	atomic_bool stopping;

	struct text intervals; /* JSON of the intervals so far, */
	struct text rtt;       /* and of the smoothed RTT at their ends */
};

static void start_thread(struct flow *flow, void *(*body)(void *), pthread_t *thread)
{
	int error = pthread_create(thread, NULL, body, flow);

	if (error)
		die_errno(error, "pthread_create");
}

/* Decimal seconds with at least one digit after the point. */
static void text_seconds(struct text *t, int64_t ns)
{
	int64_t part = ns % NSEC_PER_SEC;
	int digits = 9;

	while (digits > 1 && part % 10 == 0) {
		part /= 10;
		digits--;
	}
	text_printf(t, "%lld.%0*lld", (long long)(ns / NSEC_PER_SEC), digits, (long long)part);
}

static void record_interval(struct flow *flow, int64_t end_ns, const struct tcpinfo *info)
{
	struct text *t = &flow->intervals;

	text_puts(t, t->length ? ",{" : "{");
	text_field(t, "end_s");
	text_seconds(t, end_ns);
	if (!flow->sender) {
		text_field_u64(t, "bytes_received", info->bytes_received);
	} else {
		text_field_u64(t, "bytes_acked", info->bytes_acked);
		text_field_u64(t, "retransmits", info->total_retrans);
		text_field_u64(t, "delivered", info->delivered);
		text_field_u64(t, "delivered_ce", info->delivered_ce);
		text_field_u64(t, "rtt_us", info->rtt);
		text_field_u64(t, "cwnd", info->snd_cwnd);
		text_puts(&flow->rtt, flow->rtt.length ? "," : "");
		text_u64(&flow->rtt, info->rtt);
	}
	text_puts(t, "}");
}

/* Sleep from interval to interval; @info gets the last TCP_INFO. Returns its length. */
static int measure(struct flow *flow, struct tcpinfo *info)
{
	int64_t end_ns = 0;
	int length;

	do {
		end_ns += flow->interval_ns;
		if (end_ns > flow->seconds_ns)
			end_ns = flow->seconds_ns;
		sleep_until(flow->start_ns + end_ns);
		length = tcpinfo_read(flow->fd, info);
		if (length < 0)
			die_errno(-length, "TCP_INFO");
		record_interval(flow, end_ns, info);
	} while (end_ns < flow->seconds_ns);
	return length;
}

static void print(const struct text *t)
{
	int error = write_all(STDOUT_FILENO, t->data, t->length);

	if (!error && close(STDOUT_FILENO) < 0)
		error = -errno;
	if (error)
		die_errno(-error, "cannot write the result");
}

static void report_end(struct flow *flow, struct text *t)
{
	text_field(t, "intervals");
	text_puts(t, "[");
	text_add(t, flow->intervals.data, flow->intervals.length);
	text_puts(t, "]}\n");
	print(t);
}

static void report_sender(struct flow *flow, const struct tcpinfo *info, int length)
{
	struct text t = { 0 };
	char cc[16] = "";
	socklen_t cc_length = sizeof(cc);

	getsockopt(flow->fd, IPPROTO_TCP, TCP_CONGESTION, cc, &cc_length);
	text_puts(&t, "{\"role\":\"sender\"");
	if (flow->id)
		text_field_json(&t, "flow", flow->id);
	text_field(&t, "cc");
	text_json(&t, cc, strnlen(cc, sizeof(cc)));
	text_field_u64(&t, "mss", info->snd_mss);
	text_field_s64(&t, "start_ns", flow->start_ns);
	text_field_s64(&t, "connect_ns", flow->connect_ns);
	text_field_s64(&t, "established_ns", flow->established_ns);
	text_field(&t, "seconds");
	text_seconds(&t, flow->seconds_ns);
	text_field_u64(&t, "bytes_acked", info->bytes_acked);
	text_field_u64(&t, "retransmits", info->total_retrans);
	text_field_u64(&t, "delivered", info->delivered);
	text_field_u64(&t, "delivered_ce", info->delivered_ce);
	text_field_u64(&t, "data_segs_out", info->data_segs_out);
	text_field_u64(&t, "segs_in", info->segs_in);
	tcpinfo_ecn(&t, info, length);
	text_field_u64(&t, "busy_us", info->busy_time);
	text_field_u64(&t, "rwnd_limited_us", info->rwnd_limited);
	text_field_u64(&t, "sndbuf_limited_us", info->sndbuf_limited);
	text_field(&t, "rtt_samples_us");
	text_puts(&t, "[");
	text_add(&t, flow->rtt.data, flow->rtt.length);
	text_puts(&t, "]");
	report_end(flow, &t);
}

static void report_receiver(struct flow *flow, const struct tcpinfo *info, int length)
{
	struct text t = { 0 };

	text_puts(&t, "{\"role\":\"receiver\"");
	text_field_s64(&t, "start_ns", flow->start_ns);
	text_field(&t, "seconds");
	text_seconds(&t, flow->seconds_ns);
	text_field_u64(&t, "bytes_received", info->bytes_received);
	text_field_u64(&t, "data_segs_in", info->data_segs_in);
	text_field_u64(&t, "segs_out", info->segs_out);
	tcpinfo_ecn(&t, info, length);
	report_end(flow, &t);
}

/* Request the congestion control by name, and verify that it is in use. */
static void set_congestion_control(struct flow *flow)
{
	char name[16] = "";
	socklen_t length = sizeof(name);

	if (setsockopt(flow->fd, IPPROTO_TCP, TCP_CONGESTION, flow->cc, strlen(flow->cc)) < 0)
		die_errno(errno, "congestion control %s", flow->cc);
	if (getsockopt(flow->fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) < 0)
		die_errno(errno, "reading back the congestion control");
	if (strncmp(name, flow->cc, sizeof(name)))
		die("requested congestion control %s, got %.*s", flow->cc, (int)sizeof(name), name);
}

static void flow_path(const struct flow *flow, char *path, size_t size)
{
	snprintf(path, size, LAB_FLOW_DIR "/%d", flow->port);
}

/* Write the start instant where the receiver of this port will read it. */
static void announce_start(const struct flow *flow)
{
	struct text t = { 0 };
	char path[64];
	int error;
	int fd;

	flow_path(flow, path, sizeof(path));
	text_s64(&t, flow->start_ns);
	if (mkdir(LAB_FLOW_DIR, 0755) < 0 && errno != EEXIST)
		die_errno(errno, "cannot make " LAB_FLOW_DIR);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		die_errno(errno, "cannot open %s", path);
	error = write_all(fd, t.data, t.length);
	if (error)
		die_errno(-error, "cannot write %s", path);
	close(fd);
	free(t.data);
}

static void learn_start(struct flow *flow)
{
	char path[64];
	char *data;
	ssize_t length;

	flow_path(flow, path, sizeof(path));
	length = read_whole(path, &data);
	if (length < 0)
		die_errno(-length, "cannot read the flow's start from %s", path);
	if (!parse_int64(data, &flow->start_ns))
		die("the instant in %s is not a whole number: %s", path, data);
	free(data);
}

/* The thread that connects and then feeds the socket until it is shut down. */
static void *send_all(void *data)
{
	static char piece[SEND_PIECE]; /* never written: one page of zeros */
	static struct iovec pieces[SEND_PIECES];
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = SEND_PIECES };
	struct flow *flow = data;
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(flow->port) };

	for (int i = 0; i < SEND_PIECES; i++)
		pieces[i] = (struct iovec){ .iov_base = piece, .iov_len = sizeof(piece) };
	inet_pton(AF_INET, flow->to, &to.sin_addr);

	sleep_until(flow->start_ns);
	flow->connect_ns = now_ns();
	if (connect(flow->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		die_errno(errno, "cannot connect to %s port %d", flow->to, flow->port);
	flow->established_ns = now_ns();

	while (sendmsg(flow->fd, &message, MSG_NOSIGNAL) >= 0 || errno == EINTR)
		;
	if (!flow->stopping)
		die_errno(errno, "the connection to %s port %d broke", flow->to, flow->port);
	return NULL;
}

static void run_sender(struct flow *flow)
{
	const char *start = getenv("LAB_START_NS");
	struct tcpinfo info;
	pthread_t thread;
	int length;

	flow->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (flow->fd < 0)
		die_errno(errno, "socket");
	set_congestion_control(flow);
	if (!start)
		flow->start_ns = now_ns();
	else if (!parse_int64(start, &flow->start_ns))
		die("LAB_START_NS is not a whole number: %s", start);
	announce_start(flow);
	start_thread(flow, send_all, &thread);
	length = measure(flow, &info);
	if (!flow->established_ns)
		die("%s port %d did not answer in time", flow->to, flow->port);
	flow->stopping = true;
	shutdown(flow->fd, SHUT_WR);
	report_sender(flow, &info, length);
	exit(0);
}

/* The thread that takes everything off the socket without looking at it. */
static void *drain(void *data)
{
	struct flow *flow = data;
	ssize_t n;
	/* MSG_TRUNC discards: the address range is checked, never touched. */
	void *nowhere = mmap(NULL, READ_MOST, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (nowhere == MAP_FAILED)
		die_errno(errno, "mmap");
	do
		n = recv(flow->fd, nowhere, READ_MOST, MSG_WAITALL | MSG_TRUNC);
	while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0 && !flow->stopping)
		die_errno(errno, "the connection on port %d broke", flow->port);
	return NULL;
}

static void run_receiver(struct flow *flow)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(flow->port) };
	struct tcpinfo info;
	pthread_t thread;
	int one = 1;
	int length;
	int fd;

	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die_errno(errno, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&here, sizeof(here)) < 0 || listen(fd, 1) < 0)
		die_errno(errno, "cannot listen on port %d", flow->port);
	flow->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	if (flow->fd < 0)
		die_errno(errno, "accept");
	close(fd);
	if (setsockopt(flow->fd, IPPROTO_TCP, TCP_ULP, SINK, strlen(SINK)) < 0 && errno != ENOENT)
		die_errno(errno, "module " SINK " does not take the connection");
	start_thread(flow, drain, &thread);
	learn_start(flow);
	length = measure(flow, &info);
	flow->stopping = true;
	report_receiver(flow, &info, length);
	/* Read what is still in flight too, so that no reset disturbs the other flows. */
	pthread_join(thread, NULL);
	exit(0);
}

static void usage(void)
{
	die("usage:\n"
	    "  lab-traffic receive --port P --seconds S [--interval S]\n"
	    "  lab-traffic send --to ADDRESS --port P --cc NAME --seconds S [--interval S]"
	    " [--flow ID]");
}

static int whole_number(const char *option, const char *text, int64_t least, int64_t most)
{
	int64_t value;

	if (!parse_int64(text, &value) || value < least || value > most)
		die("--%s takes a whole number from %lld to %lld, not %s", option, (long long)least,
		    (long long)most, text);
	return value;
}

static int64_t duration(const char *option, const char *text)
{
	int64_t ns;

	if (!parse_seconds(text, &ns) || !ns)
		die("--%s takes seconds, not %s", option, text);
	return ns;
}

static void parse_options(struct flow *flow, int argc, char **argv)
{
	enum { TO, PORT, CC, SECONDS, INTERVAL, FLOW };
	static const struct option options[] = {
		[TO] = { "to", required_argument, NULL, TO },
		[PORT] = { "port", required_argument, NULL, PORT },
		[CC] = { "cc", required_argument, NULL, CC },
		[SECONDS] = { "seconds", required_argument, NULL, SECONDS },
		[INTERVAL] = { "interval", required_argument, NULL, INTERVAL },
		[FLOW] = { "flow", required_argument, NULL, FLOW },
		{ 0 },
	};
	struct in_addr address;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (option) {
		case TO:
			flow->to = optarg;
			break;
		case PORT:
			flow->port = whole_number("port", optarg, 1, 65535);
			break;
		case CC:
			flow->cc = optarg;
			break;
		case SECONDS:
			flow->seconds_ns = duration("seconds", optarg);
			break;
		case INTERVAL:
			flow->interval_ns = duration("interval", optarg);
			break;
		case FLOW:
			flow->id = optarg;
			break;
		default:
			usage();
		}
	}
	if (optind != argc || !flow->port || !flow->seconds_ns)
		usage();
	if (flow->sender && (!flow->to || !flow->cc))
		usage();
	if (flow->sender && inet_pton(AF_INET, flow->to, &address) != 1)
		die("--to takes an IPv4 address, not %s", flow->to);
}

int main(int argc, char **argv)
{
	struct flow flow = { .interval_ns = NSEC_PER_SEC };

	if (argc < 2 || (strcmp(argv[1], "send") && strcmp(argv[1], "receive")))
		usage();
	flow.sender = !strcmp(argv[1], "send");
	parse_options(&flow, argc - 1, argv + 1);
	exact_sleeps();
	if (flow.sender)
		run_sender(&flow);
	run_receiver(&flow);
}
