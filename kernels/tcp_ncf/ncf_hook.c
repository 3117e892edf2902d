// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP NCF: signals
 *
 * They are taken where a host gets its packets, before TCP: whatever carries
 * NCF's option ends here. It counts only if it is well formed, for a connection
 * of NCF's that is established, and about a byte that this connection has in
 * flight, beyond that of the last signal: somebody who does not see the packets
 * would have to guess that byte, and a copy of a signal says nothing new. Who
 * only acknowledges has none in flight: signals about ACKs change nothing.
 *
 * A signal waits at its connection for the next ACK, as the window is only to be
 * written there; with endhost=1 for the ACK of the packet that it is about,
 * which is when a receiver's echo would have come.
 */
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/unaligned.h>
#include <net/ip.h>
#include <net/tcp.h>

#include "ncf.h"
#include "ncf_wire.h"

#ifndef CONFIG_NETFILTER
#error "this module needs a kernel with CONFIG_NETFILTER"
#endif

#define NCF_OPTIONS_MAX	40	/* bytes that a TCP header has for them */
#define NCF_EXID_END	4	/* bytes of an option up to its identifier's end */

/* Where NCF's option begins; negative if it is not there */
static int ncf_option_find(const u8 *options, int size)
{
	int length;

	for (int at = 0; at < size; at += length) {
		if (options[at] == TCPOPT_EOL)
			break;
		length = 1;
		if (options[at] == TCPOPT_NOP)
			continue;
		if (at + 1 >= size)
			break;
		if (options[at] == NCF_OPTION_KIND &&
		    at + NCF_EXID_END <= size &&
		    get_unaligned_be16(&options[at + 2]) == NCF_EXID)
			return at;
		length = options[at + 1];
		if (length < 2)
			break;
	}
	return -1;
}

/* All but the option: as the queue makes it */
static bool ncf_headers_fit(const struct tcphdr *tcp, int tcp_length)
{
	__be32 word = tcp_flag_word(tcp) & ~htonl(0xffff); /* not the window */

	return tcp_length == NCF_TCP_LENGTH && !tcp->urg_ptr &&
	       word == (htonl((u32)NCF_TCP_OFFSET << 28) | TCP_FLAG_ACK);
}

static enum ncf_verdict ncf_option_read(const struct ncf_params *params,
					const struct ncf_option *option,
					struct ncf_signal *signal)
{
	signal->flows = ntohs(option->flows);
	signal->capacity_kbps = ntohl(option->capacity_kbps);
	signal->queue_bytes = ntohl(option->queue_bytes);
	signal->mice_crowded = option->flags & NCF_MICE_CROWDED;
	if (option->length != NCF_OPTION_LENGTH ||
	    (option->flags & ~NCF_MICE_CROWDED) != NCF_VERSION << 4 ||
	    !signal->capacity_kbps || !signal->queue_bytes)
		return NCF_MALFORMED;
	if (signal->capacity_kbps > READ_ONCE(params->most_kbps))
		return NCF_TOO_FAST;
	return signal->flows ? NCF_ACCEPTED : NCF_NO_FLOWS;
}

static bool ncf_checksum_fits(struct sk_buff *skb, int offset)
{
	const struct iphdr *ip = ip_hdr(skb);
	int length = skb->len - offset;

	return skb_csum_unnecessary(skb) ||
	       !tcp_v4_check(length, ip->saddr, ip->daddr,
			     skb_checksum(skb, offset, length, 0));
}

/* Keep a signal for its connection, which is locked. */
static enum ncf_verdict ncf_signal_keep(struct ncf_flow *flow,
					const struct ncf_signal *signal)
{
	const struct tcp_sock *tp = tcp_sk(flow->sk);
	u32 una = READ_ONCE(tp->snd_una);
	int at = (flow->first + flow->waiting) % NCF_WAITING;

	if (flow->gone)
		return NCF_UNKNOWN;
	if (READ_ONCE(flow->sk->sk_state) != TCP_ESTABLISHED)
		return NCF_NOT_ESTABLISHED;
	if (before(signal->seq, una))
		return NCF_STALE;
	if (!before(signal->seq, READ_ONCE(tp->snd_nxt)))
		return NCF_AHEAD;
	if (flow->any && !before(flow->last_seq, una) &&
	    !after(signal->seq, flow->last_seq))
		return NCF_REPLAYED;
	if (flow->waiting == NCF_WAITING)
		return NCF_TOO_MANY;
	flow->any = true;
	flow->last_seq = signal->seq;
	flow->signals[at] = *signal;
	WRITE_ONCE(flow->waiting, flow->waiting + 1);
	return NCF_ACCEPTED;
}

static enum ncf_verdict ncf_signal_judge(struct ncf_net *nn,
					 struct sk_buff *skb, int offset,
					 const struct tcphdr *tcp,
					 const struct ncf_option *option)
{
	const struct iphdr *ip = ip_hdr(skb);
	const struct ncf_ends ends = {
		.local = ip->daddr,
		.remote = ip->saddr,
		.local_port = tcp->dest,
		.remote_port = tcp->source,
	};
	struct ncf_signal signal = { .seq = ntohl(tcp->seq) };
	enum ncf_verdict verdict;
	struct ncf_flow *flow;

	if (!option || !ncf_headers_fit(tcp, skb->len - offset))
		return NCF_MALFORMED;
	verdict = ncf_option_read(nn->params, option, &signal);
	if (verdict != NCF_ACCEPTED)
		return verdict;
	if (!ncf_checksum_fits(skb, offset))
		return NCF_CHECKSUM;
	flow = ncf_flow_find(nn, &ends);
	if (!flow)
		return NCF_UNKNOWN;
	spin_lock(&flow->lock);
	verdict = ncf_signal_keep(flow, &signal);
	if (verdict == NCF_ACCEPTED)
		WRITE_ONCE(flow->accepted, flow->accepted + 1);
	else
		WRITE_ONCE(flow->refused, flow->refused + 1);
	spin_unlock(&flow->lock);
	return verdict;
}

/* Runs in softirq or with BHs off, under RCU. */
static unsigned int ncf_hook(void *priv, struct sk_buff *skb,
			     const struct nf_hook_state *state)
{
	const struct ncf_option *option = NULL;
	struct ncf_net *nn = ncf_net(state->net);
	const struct iphdr *ip = ip_hdr(skb);
	u8 options_copy[NCF_OPTIONS_MAX] __aligned(4);
	const struct tcphdr *tcp;
	struct tcphdr tcp_copy;
	enum ncf_verdict verdict;
	const u8 *options;
	int offset, size, at;

	if (ip->protocol != IPPROTO_TCP)
		return NF_ACCEPT;
	offset = skb_network_offset(skb) + ip_hdrlen(skb);
	tcp = skb_header_pointer(skb, offset, sizeof(tcp_copy), &tcp_copy);
	if (!tcp || tcp->doff * 4 <= sizeof(*tcp))
		return NF_ACCEPT;
	size = tcp->doff * 4 - sizeof(*tcp);
	options = skb_header_pointer(skb, offset + sizeof(*tcp), size,
				     options_copy);
	if (!options)
		return NF_ACCEPT;
	at = ncf_option_find(options, size);
	if (at < 0)
		return NF_ACCEPT;
	if (at == 0 && size == NCF_OPTION_LENGTH)
		option = (const struct ncf_option *)options;
	verdict = ncf_signal_judge(nn, skb, offset, tcp, option);
	atomic64_inc(&nn->verdicts[verdict]);
	return NF_DROP;
}

static const struct nf_hook_ops ncf_hook_ops = {
	.hook		= ncf_hook,
	.pf		= NFPROTO_IPV4,
	.hooknum	= NF_INET_LOCAL_IN,
	.priority	= NF_IP_PRI_FIRST,
};

int ncf_hook_register(struct net *net)
{
	return nf_register_net_hook(net, &ncf_hook_ops);
}

void ncf_hook_unregister(struct net *net)
{
	nf_unregister_net_hook(net, &ncf_hook_ops);
}

/**
 * ncf_signal_next() - take the oldest signal that waits
 * @flow: the connection
 * @tp: its socket, locked
 * @acknowledged: only if the packet that it is about was acknowledged
 * @signal: gets the signal
 *
 * Return: false if there is none.
 */
bool ncf_signal_next(struct ncf_flow *flow, const struct tcp_sock *tp,
		     bool acknowledged, struct ncf_signal *signal)
{
	bool found;

	if (!READ_ONCE(flow->waiting))
		return false;
	spin_lock_bh(&flow->lock);
	*signal = flow->signals[flow->first];
	found = flow->waiting &&
		(!acknowledged || before(signal->seq, tp->snd_una));
	if (found) {
		flow->first = (flow->first + 1) % NCF_WAITING;
		WRITE_ONCE(flow->waiting, flow->waiting - 1);
	}
	spin_unlock_bh(&flow->lock);
	return found;
}
