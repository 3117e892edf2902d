// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * One TCP flow at full speed, measured by TCP_INFO.
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
 * A second thread sleeps until each interval's end and reads TCP_INFO there: no
 * figure depends on when a call returned or on the sizes of reads. A flow of a
 * given size ends sooner: at the receiver when all of it has arrived, at the sender
 * when the receiver has closed the connection for that.
 */

#include "traffic.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define SEND_PIECE  (128 * 1024) /* iperf3's write size */
#define SEND_PIECES 1024	 /* UIO_MAXIOV */
#define READ_MOST   (1 << 30)
#define SINK	    "lab_sink"

struct flow {
	const struct options *o;
	bool sender;
	int fd;
	int64_t start_ns;
	_Atomic int64_t connect_ns;	/* when connect() was called */
	_Atomic int64_t established_ns; /* when it returned */
	atomic_bool stopping;

	pthread_mutex_t lock;
	pthread_cond_t ended;
	int64_t completed_ns; /* when a flow of a given size had ended; under @lock */

	struct text intervals; /* JSON of the intervals so far, */
	struct text rtt;       /* and of the smoothed RTT at their ends */
};

static void prepare(struct flow *flow)
{
	pthread_condattr_t clock;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&flow->ended, &clock);
	pthread_mutex_init(&flow->lock, NULL);
}

static void start_thread(struct flow *flow, void *(*body)(void *), pthread_t *thread)
{
	int error = pthread_create(thread, NULL, body, flow);

	if (error)
		die_errno(error, "pthread_create");
}

static void complete(struct flow *flow)
{
	if (!flow->o->bytes)
		return;
	pthread_mutex_lock(&flow->lock);
	flow->completed_ns = now_ns();
	pthread_cond_signal(&flow->ended);
	pthread_mutex_unlock(&flow->lock);
}

/* Sleep until @when_ns, or until a flow of a given size has ended: when that was, or 0. */
static int64_t sleep_or_complete(struct flow *flow, int64_t when_ns)
{
	struct timespec t = {
		.tv_sec = when_ns / NSEC_PER_SEC,
		.tv_nsec = when_ns % NSEC_PER_SEC,
	};
	int64_t completed_ns;

	if (!flow->o->bytes) {
		sleep_until(when_ns);
		return 0;
	}
	pthread_mutex_lock(&flow->lock);
	while (!flow->completed_ns && !pthread_cond_timedwait(&flow->ended, &flow->lock, &t))
		;
	completed_ns = flow->completed_ns;
	pthread_mutex_unlock(&flow->lock);
	return completed_ns;
}

/* TCP counts the SYN and the FIN as a byte each. */
static uint64_t payload(const struct flow *flow, uint64_t counted)
{
	uint64_t most = flow->o->bytes;

	return most && counted > most ? most : counted;
}

static void record_interval(struct flow *flow, int64_t end_ns, const struct tcpinfo *info)
{
	struct text *t = &flow->intervals;

	text_interval(t, end_ns);
	if (!flow->sender) {
		text_field_u64(t, "bytes_received", payload(flow, info->bytes_received));
	} else {
		text_field_u64(t, "bytes_acked", payload(flow, info->bytes_acked));
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

/*
 * Sleep from interval to interval; @info gets the last TCP_INFO, of @length bytes.
 * Returns when the flow ended, after its start.
 */
static int64_t measure(struct flow *flow, struct tcpinfo *info, int *length)
{
	int64_t end_ns = 0;
	int64_t completed_ns;

	do {
		end_ns += flow->o->interval_ns;
		if (end_ns > flow->o->seconds_ns)
			end_ns = flow->o->seconds_ns;
		completed_ns = sleep_or_complete(flow, flow->start_ns + end_ns);
		if (completed_ns)
			end_ns = completed_ns - flow->start_ns;
		*length = tcpinfo_read(flow->fd, info);
		if (*length < 0)
			die_errno(-*length, "TCP_INFO");
		record_interval(flow, end_ns, info);
	} while (!completed_ns && end_ns < flow->o->seconds_ns);
	return end_ns;
}

static void report_completion(struct flow *flow, struct text *t)
{
	if (!flow->o->bytes)
		return;
	text_field_s64(t, "bytes", flow->o->bytes);
	pthread_mutex_lock(&flow->lock);
	if (flow->completed_ns)
		text_field_s64(t, "completed_ns", flow->completed_ns);
	pthread_mutex_unlock(&flow->lock);
}

static void report_sender(struct flow *flow, int64_t length_ns, const struct tcpinfo *info,
			  int length)
{
	struct text t = { 0 };
	char cc[16] = "";
	socklen_t cc_length = sizeof(cc);

	getsockopt(flow->fd, IPPROTO_TCP, TCP_CONGESTION, cc, &cc_length);
	text_role(&t, "sender", flow->o, flow->start_ns, length_ns);
	text_field(&t, "cc");
	text_json(&t, cc, strnlen(cc, sizeof(cc)));
	text_field_u64(&t, "mss", info->snd_mss);
	text_field_s64(&t, "connect_ns", flow->connect_ns);
	text_field_s64(&t, "established_ns", flow->established_ns);
	report_completion(flow, &t);
	text_field_u64(&t, "bytes_acked", payload(flow, info->bytes_acked));
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
	print_result(&t, &flow->intervals);
}

static void report_receiver(struct flow *flow, int64_t length_ns, const struct tcpinfo *info,
			    int length)
{
	struct text t = { 0 };

	text_role(&t, "receiver", flow->o, flow->start_ns, length_ns);
	report_completion(flow, &t);
	text_field_u64(&t, "bytes_received", payload(flow, info->bytes_received));
	text_field_u64(&t, "data_segs_in", info->data_segs_in);
	text_field_u64(&t, "segs_out", info->segs_out);
	tcpinfo_ecn(&t, info, length);
	print_result(&t, &flow->intervals);
}

static struct iovec pieces[SEND_PIECES];

/* Hand the kernel @left bytes of zeros or, if that is 0, zeros without end: then it only fails. */
static int feed(int fd, int64_t left)
{
	static char piece[SEND_PIECE]; /* never written: one page of zeros */
	bool endless = !left;

	while (endless || left) {
		struct msghdr message = { .msg_iov = pieces, .msg_iovlen = SEND_PIECES };
		ssize_t sent;

		for (int i = 0; i < SEND_PIECES; i++)
			pieces[i] = (struct iovec){ .iov_base = piece, .iov_len = sizeof(piece) };
		if (!endless && left < (int64_t)SEND_PIECES * SEND_PIECE) {
			message.msg_iovlen = left / SEND_PIECE + 1;
			pieces[left / SEND_PIECE].iov_len = left % SEND_PIECE;
		}
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
		if (sent < 0 && errno != EINTR)
			return -errno;
		if (sent > 0 && !endless)
			left -= sent;
	}
	return 0;
}

/* The thread that connects and then feeds the socket until it is shut down, or all is sent. */
static void *send_all(void *data)
{
	struct flow *flow = data;
	struct endpoint to = peer(flow->o);
	ssize_t n = -1;
	char byte;
	int error;

	sleep_until(flow->start_ns);
	flow->connect_ns = now_ns();
	if (connect(flow->fd, &to.any, to.length) < 0)
		die_errno(errno, "cannot connect to %s port %d", flow->o->to, flow->o->port);
	flow->established_ns = now_ns();

	error = -feed(flow->fd, flow->o->bytes);
	if (!error) {
		shutdown(flow->fd, SHUT_WR);
		do
			n = recv(flow->fd, &byte, 1, 0);
		while (n > 0 || (n < 0 && errno == EINTR));
		error = n < 0 ? errno : 0;
	}
	if (error && !flow->stopping)
		die_errno(error, "the connection to %s port %d broke", flow->o->to, flow->o->port);
	if (!error)
		complete(flow);
	return NULL;
}

void send_bulk(const struct options *o)
{
	struct flow flow = { .o = o, .sender = true };
	struct tcpinfo info;
	pthread_t thread;
	int64_t length_ns;
	int length;

	prepare(&flow);
	flow.fd = open_socket(o, SOCK_STREAM);
	if (flow.fd < 0)
		die_errno(errno, "socket");
	set_congestion_control(flow.fd, o->cc);
	flow.start_ns = announce_start(o);
	start_thread(&flow, send_all, &thread);
	length_ns = measure(&flow, &info, &length);
	if (!flow.established_ns)
		die("%s port %d did not answer in time", o->to, o->port);
	flow.stopping = true;
	shutdown(flow.fd, SHUT_WR);
	report_sender(&flow, length_ns, &info, length);
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
		die_errno(errno, "the connection on port %d broke", flow->o->port);
	complete(flow);
	return NULL;
}

void receive_bulk(const struct options *o)
{
	struct flow flow = { .o = o };
	struct endpoint address = here(o);
	struct tcpinfo info;
	pthread_t thread;
	int64_t length_ns;
	int one = 1;
	int length;
	int fd;

	prepare(&flow);
	fd = open_socket(o, SOCK_STREAM);
	if (fd < 0)
		die_errno(errno, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &address.any, address.length) < 0 || listen(fd, 1) < 0)
		die_errno(errno, "cannot listen on port %d", o->port);
	flow.fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	if (flow.fd < 0)
		die_errno(errno, "accept");
	close(fd);
	if (setsockopt(flow.fd, IPPROTO_TCP, TCP_ULP, SINK, strlen(SINK)) < 0 && errno != ENOENT)
		die_errno(errno, "module " SINK " does not take the connection");
	start_thread(&flow, drain, &thread);
	flow.start_ns = learn_start(o);
	length_ns = measure(&flow, &info, &length);
	flow.stopping = true;
	report_receiver(&flow, length_ns, &info, length);
	/* Read what is still in flight too, so that no reset disturbs the other flows. */
	pthread_join(thread, NULL);
	exit(0);
}
