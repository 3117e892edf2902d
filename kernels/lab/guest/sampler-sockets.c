// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * TCP sockets over sock_diag: what `ss -ti` shows. The request is for all connected
 * sockets of a namespace, as in a guest they belong to the flows (and to iperf3's
 * control connections, which a reader recognizes by their bytes), but for those with
 * given ports: the tens of thousands of connections of a flood would take all the time.
 */

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "sampler.h"
#include "tcpinfo.h"
#include "util.h"

#define BIT(n)	     (1U << (n))
#define EXTENSION(n) BIT((n)-1)

/* Connected, in any state. (More states would make the kernel walk more tables.) */
#define STATES                                                                                \
	(BIT(TCP_ESTABLISHED) | BIT(TCP_SYN_SENT) | BIT(TCP_FIN_WAIT1) | BIT(TCP_FIN_WAIT2) | \
	 BIT(TCP_CLOSE_WAIT) | BIT(TCP_LAST_ACK) | BIT(TCP_CLOSING))

/* A test of the kernel's filter: a socket is left out if this port is @port.no. */
struct test {
	struct inet_diag_bc_op is, port, leave_out;
};

struct request {
	struct nlmsghdr header;
	struct inet_diag_req body;
	struct nlattr filter;
	struct test tests[];
};

/* ss's words */
static const char *const states[] = {
	[TCP_ESTABLISHED] = "ESTAB",	[TCP_SYN_SENT] = "SYN-SENT",
	[TCP_SYN_RECV] = "SYN-RECV",	[TCP_FIN_WAIT1] = "FIN-WAIT-1",
	[TCP_FIN_WAIT2] = "FIN-WAIT-2", [TCP_TIME_WAIT] = "TIME-WAIT",
	[TCP_CLOSE] = "UNCONN",		[TCP_CLOSE_WAIT] = "CLOSE-WAIT",
	[TCP_LAST_ACK] = "LAST-ACK",	[TCP_LISTEN] = "LISTEN",
	[TCP_CLOSING] = "CLOSING",
};

#define INFO(member, type) FIELD(struct tcpinfo, member, type)

static const struct field info_fields[] = {
	INFO(ca_state, U8),
	INFO(options, U8),
	INFO(rto, U32),
	INFO(snd_mss, U32),
	INFO(rcv_mss, U32),
	INFO(unacked, U32),
	INFO(sacked, U32),
	INFO(lost, U32),
	INFO(retrans, U32),
	INFO(rcv_ssthresh, U32),
	INFO(rtt, U32),
	INFO(rttvar, U32),
	INFO(snd_ssthresh, U32),
	INFO(snd_cwnd, U32),
	INFO(rcv_rtt, U32),
	INFO(rcv_space, U32),
	INFO(total_retrans, U32),
	INFO(pacing_rate, U64),
	INFO(bytes_acked, U64),
	INFO(bytes_received, U64),
	INFO(segs_out, U32),
	INFO(segs_in, U32),
	INFO(notsent_bytes, U32),
	INFO(min_rtt, U32),
	INFO(data_segs_in, U32),
	INFO(data_segs_out, U32),
	INFO(delivery_rate, U64),
	INFO(busy_time, U64),
	INFO(rwnd_limited, U64),
	INFO(sndbuf_limited, U64),
	INFO(delivered, U32),
	INFO(delivered_ce, U32),
	INFO(bytes_sent, U64),
	INFO(bytes_retrans, U64),
	INFO(reord_seen, U32),
	INFO(snd_wnd, U32),
	INFO(rcv_wnd, U32),
	INFO(received_ce, U32),
	INFO(delivered_e1_bytes, U32),
	INFO(delivered_e0_bytes, U32),
	INFO(delivered_ce_bytes, U32),
	INFO(received_e1_bytes, U32),
	INFO(received_e0_bytes, U32),
	INFO(received_ce_bytes, U32),
};

/* Records that congestion controls report; one of ours may use either layout. */
static const struct field dctcp_fields[] = {
	NAMED("alpha", struct tcp_dctcp_info, dctcp_alpha, U32),
	NAMED("ab_ecn", struct tcp_dctcp_info, dctcp_ab_ecn, U32),
	NAMED("ab_tot", struct tcp_dctcp_info, dctcp_ab_tot, U32),
};

static const struct field bbr_fields[] = {
	NAMED("bbr_bw", struct tcp_bbr_info, bbr_bw_lo, U64), /* low and high half */
	NAMED("bbr_min_rtt", struct tcp_bbr_info, bbr_min_rtt, U32),
	NAMED("bbr_pacing_gain", struct tcp_bbr_info, bbr_pacing_gain, U32),
	NAMED("bbr_cwnd_gain", struct tcp_bbr_info, bbr_cwnd_gain, U32),
};

static void parse_socket(const struct sample *sample, const struct nlmsghdr *message)
{
	const struct inet_diag_msg *socket = NLMSG_DATA(message);
	const struct nlattr *first = (const void *)(socket + 1);
	const char *state = NULL;
	struct text *t = sample->out;
	struct tcpinfo info = { 0 };
	size_t info_size;
	size_t length;
	size_t size;
	const void *data;

	if (message->nlmsg_len < NLMSG_LENGTH(sizeof(*socket)))
		die("a sock_diag message is truncated");
	length = message->nlmsg_len - NLMSG_LENGTH(sizeof(*socket));
	if (socket->idiag_state < ARRAY_SIZE(states))
		state = states[socket->idiag_state];
	data = attribute(first, length, INET_DIAG_INFO, &size);
	if (!data)
		return; /* a closed socket in FIN-WAIT-2, which the kernel keeps as TIME-WAIT */
	memcpy(&info, data, size < sizeof(info) ? size : sizeof(info));
	info_size = size;

	begin_line(sample);
	text_field_u64(t, "lport", ntohs(socket->id.idiag_sport));
	text_field_u64(t, "rport", ntohs(socket->id.idiag_dport));
	text_field_json(t, "state", state ? state : "UNKNOWN");
	data = attribute(first, length, INET_DIAG_CONG, &size);
	if (data) {
		text_field(t, "cc");
		text_json(t, data, strnlen(data, size));
	}
	text_fields(t, info_fields, ARRAY_SIZE(info_fields), &info, info_size);
	if (info_size >= TCPINFO_ECN_MODE_END) {
		text_field_u64(t, "ecn_mode", info.ecn_mode);
		text_field_u64(t, "accecn_opt_seen", info.accecn_opt_seen);
		text_field_u64(t, "accecn_fail_mode", info.accecn_fail_mode);
	}
	data = attribute(first, length, INET_DIAG_DCTCPINFO, &size);
	if (data)
		text_fields(t, dctcp_fields, ARRAY_SIZE(dctcp_fields), data, size);
	data = attribute(first, length, INET_DIAG_BBRINFO, &size);
	if (data)
		text_fields(t, bbr_fields, ARRAY_SIZE(bbr_fields), data, size);
	own_fields(t, sample->own, ntohs(socket->id.idiag_sport), ntohs(socket->id.idiag_dport));
	text_puts(t, "}\n");
}

/*
 * Fill the filter so that no socket with one of these ports, at either end, is
 * listed. A test that holds goes on to its jump, which leads past the end of the
 * filter: the socket is refused. Any other goes on to the next test.
 */
static void leave_out(struct request *request, const uint16_t *ports, size_t count)
{
	static const uint8_t sides[] = { INET_DIAG_BC_S_EQ, INET_DIAG_BC_D_EQ };
	size_t tests = count * ARRAY_SIZE(sides);
	size_t length = tests * sizeof(struct test);

	for (size_t i = 0; i < tests; i++) {
		struct test *test = &request->tests[i];
		size_t left = length - i * sizeof(*test) - offsetof(struct test, leave_out);

		test->is.code = sides[i % ARRAY_SIZE(sides)];
		test->is.yes = offsetof(struct test, leave_out);
		test->is.no = sizeof(*test);
		test->port.no = ports[i / ARRAY_SIZE(sides)];
		test->leave_out.code = INET_DIAG_BC_JMP;
		test->leave_out.yes = sizeof(test->leave_out);
		test->leave_out.no = left + sizeof(struct inet_diag_bc_op);
	}
	if (!length)
		return;
	request->filter.nla_type = INET_DIAG_REQ_BYTECODE;
	request->filter.nla_len = sizeof(request->filter) + length;
	request->header.nlmsg_len += request->filter.nla_len;
}

struct source *sockets_of(const char *node, const uint16_t *without, size_t count)
{
	struct source *source = calloc(1, sizeof(*source));
	struct request *request =
		calloc(1, sizeof(*request) + 2 * count * sizeof(request->tests[0]));

	if (!source || !request)
		die("out of memory");
	request->header.nlmsg_len = offsetof(struct request, filter);
	leave_out(request, without, count);
	request->header.nlmsg_type = TCPDIAG_GETSOCK; /* all families: iperf3's server is IPv6 */
	request->header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	/* VEGASINFO requests the congestion control's own record, whichever it is */
	request->body.idiag_ext = EXTENSION(INET_DIAG_INFO) | EXTENSION(INET_DIAG_CONG) |
				  EXTENSION(INET_DIAG_VEGASINFO);
	request->body.idiag_states = STATES;
	source->sample.node = node;
	source->fd = netlink_open(node, NETLINK_SOCK_DIAG);
	source->sample.own = own_open();
	source->request = &request->header;
	source->parse = parse_socket;
	return source;
}
