// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* NCF: signals to the senders of elephants
 *
 * A signal is the packet that caused it without its payload and TCP options,
 * with addresses and ports turned round, and with NCF's option. Sequence and
 * ACK numbers stay, so that the sender knows it by a byte that it
 * has in flight.
 *
 * It leaves as a packet of this host's with the receiver's address, by the
 * route to the sender, in a work item of the softirq's.
 */
#include <linux/ip.h>
#include <linux/math64.h>
#include <linux/netdevice.h>
#include <linux/tcp.h>
#include <net/ip.h>
#include <net/route.h>
#include <net/tcp.h>

#include "ncf_wire.h"
#include "sch_ncf.h"

#define NCF_SIGNALS_AT_ONCE	256
#define NCF_BYTES_PER_KBIT	125

static void ncf_option_write(struct ncf_option *option,
			     const struct ncf_report *report)
{
	u64 kbps = div_u64(report->capacity, NCF_BYTES_PER_KBIT);

	option->kind = NCF_OPTION_KIND;
	option->length = NCF_OPTION_LENGTH;
	option->exid = htons(NCF_EXID);
	option->flags = NCF_VERSION << 4;
	if (report->mice_crowded)
		option->flags |= NCF_MICE_CROWDED;
	option->bottleneck = report->bottleneck;
	option->flows = htons(report->flows);
	option->capacity_kbps = htonl(min(kbps, U32_MAX));
	option->queue_bytes = htonl(report->queue_bytes);
}

static void ncf_tcp_write(struct tcphdr *tcp, const struct tcphdr *about)
{
	memset(tcp, 0, sizeof(*tcp));
	tcp->source = about->dest;
	tcp->dest = about->source;
	tcp->seq = about->seq;
	tcp->ack_seq = about->ack_seq;
	tcp->doff = NCF_TCP_OFFSET;
	tcp->ack = 1;
	tcp->window = about->window;
}

static void ncf_ip_write(struct iphdr *ip, const struct iphdr *about)
{
	memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = sizeof(*ip) / 4;
	ip->tot_len = htons(NCF_IP_LENGTH);
	ip->id = about->id;
	ip->frag_off = about->frag_off;
	ip->ttl = NCF_TTL;
	ip->protocol = IPPROTO_TCP;
	ip->saddr = about->daddr;
	ip->daddr = about->saddr;
	ip_send_check(ip);
}

static struct sk_buff *ncf_signal(const struct sk_buff *about,
				  const struct ncf_report *report)
{
	int offset = skb_network_offset(about);
	const struct tcphdr *about_tcp;
	const struct iphdr *about_ip;
	struct tcphdr tcp_copy;
	struct iphdr ip_copy;
	struct sk_buff *skb;
	struct tcphdr *tcp;
	struct iphdr *ip;

	about_ip = skb_header_pointer(about, offset, sizeof(ip_copy), &ip_copy);
	about_tcp = skb_header_pointer(about, offset + sizeof(ip_copy),
				       sizeof(tcp_copy), &tcp_copy);
	if (!about_ip || !about_tcp)
		return NULL;
	skb = alloc_skb(LL_MAX_HEADER + NCF_IP_LENGTH,
			GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, LL_MAX_HEADER);
	skb->protocol = htons(ETH_P_IP);
	skb_reset_network_header(skb);
	ip = skb_put(skb, sizeof(*ip));
	ncf_ip_write(ip, about_ip);
	skb_set_transport_header(skb, sizeof(*ip));
	tcp = skb_put(skb, sizeof(*tcp));
	ncf_tcp_write(tcp, about_tcp);
	ncf_option_write(skb_put(skb, NCF_OPTION_LENGTH), report);
	tcp->check = tcp_v4_check(NCF_TCP_LENGTH, ip->saddr, ip->daddr,
				  csum_partial(tcp, NCF_TCP_LENGTH, 0));
	return skb;
}

static bool ncf_signal_send(struct net *net, struct sk_buff *skb)
{
	const struct iphdr *ip = ip_hdr(skb);
	const struct tcphdr *tcp = tcp_hdr(skb);
	struct flowi4 to = {
		.flowi4_proto = IPPROTO_TCP,
		.flowi4_flags = FLOWI_FLAG_ANYSRC, /* the receiver's address */
		.saddr = ip->saddr,
		.daddr = ip->daddr,
		.fl4_sport = tcp->source,
		.fl4_dport = tcp->dest,
	};
	struct rtable *route = ip_route_output_key(net, &to);
	int result;

	if (IS_ERR(route)) {
		kfree_skb(skb);
		return false;
	}
	skb_dst_set(skb, &route->dst);
	result = ip_local_out(net, NULL, skb);
	return net_xmit_eval(result) == 0;
}

static void ncf_signals_work(struct work_struct *work)
{
	struct ncf_signals *signals = container_of(work, struct ncf_signals,
						   work);
	struct net *net = dev_net(qdisc_dev(signals->sch));
	struct sk_buff_head made;
	struct sk_buff *skb;

	__skb_queue_head_init(&made);
	spin_lock(&signals->made.lock);
	skb_queue_splice_init(&signals->made, &made);
	spin_unlock(&signals->made.lock);
	while ((skb = __skb_dequeue(&made))) {
		u64 *counter = ncf_signal_send(net, skb) ? &signals->sent :
							   &signals->failed;

		WRITE_ONCE(*counter, *counter + 1);
	}
}

/**
 * ncf_signals_init() - prepare for signals
 * @signals: those of a queuing discipline
 * @sch: the queuing discipline
 */
void ncf_signals_init(struct ncf_signals *signals, struct Qdisc *sch)
{
	skb_queue_head_init(&signals->made);
	INIT_WORK(&signals->work, ncf_signals_work);
	signals->sch = sch;
}

/**
 * ncf_signals_stop() - forget signals that have not left yet
 * @signals: those of a queuing discipline that nobody uses any more
 */
void ncf_signals_stop(struct ncf_signals *signals)
{
	cancel_work_sync(&signals->work);
	skb_queue_purge(&signals->made);
}

/**
 * ncf_signals_send() - send a signal to the sender of a packet
 * @signals: those of a queuing discipline, which is locked
 * @about: the packet, TCP over IPv4 without options
 * @report: what the signal states
 */
void ncf_signals_send(struct ncf_signals *signals, const struct sk_buff *about,
		      const struct ncf_report *report)
{
	struct sk_buff *skb = NULL;

	if (skb_queue_len_lockless(&signals->made) < NCF_SIGNALS_AT_ONCE)
		skb = ncf_signal(about, report);
	if (!skb) {
		WRITE_ONCE(signals->failed, signals->failed + 1);
		return;
	}
	spin_lock(&signals->made.lock);
	__skb_queue_tail(&signals->made, skb);
	spin_unlock(&signals->made.lock);
	queue_work(system_bh_wq, &signals->work);
}
