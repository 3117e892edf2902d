// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* NCF: flows at a bottleneck
 *
 * A flow is what has one CRC-16 of the five-tuple, as on the switch: collisions
 * make one flow of two. Its packets are counted in windows; more than rho in
 * this one and the two before make an elephant. What is older is forgotten when
 * the flow's next packet comes, so that nobody has to clear counters.
 *
 * The number of elephants is that of flows whose last packet was an elephant's,
 * but for those that only acknowledge: they take no share of the link, so a flow
 * is counted from its first packet with payload on. A flow that ended by FIN or
 * RST leaves the number, and packets still under way do not bring it back: only
 * after it was a mouse can it be counted again. Flows that
 * fall silent without an end are looked for, two records with each packet.
 */
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/ip.h>

#include "ncf_flows.h"
#include "ncf_wire.h"

#define NCF_CRC_POLYNOMIAL	0xa001	/* CRC-16/ARC, reflected */
#define NCF_SWEEP_AT_ONCE	2

static u16 ncf_crc_table[256];

/* The kernel's crc16() is the same function, but not in every kernel. */
void __init ncf_flows_prepare(void)
{
	for (int byte = 0; byte < 256; byte++) {
		u16 crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? NCF_CRC_POLYNOMIAL : 0);
		ncf_crc_table[byte] = crc;
	}
}

static u16 ncf_crc(const void *data, size_t size)
{
	const u8 *byte = data;
	u16 crc = 0;

	while (size--)
		crc = crc >> 8 ^ ncf_crc_table[(crc ^ *byte++) & 0xff];
	return crc;
}

int ncf_flows_init(struct ncf_flows *flows)
{
	flows->flows = kvcalloc(NCF_FLOWS, sizeof(*flows->flows),
				GFP_KERNEL_ACCOUNT);
	return flows->flows ? 0 : -ENOMEM;
}

void ncf_flows_reset(struct ncf_flows *flows)
{
	memset(flows->flows, 0, NCF_FLOWS * sizeof(*flows->flows));
	flows->elephants = 0;
	flows->swept = 0;
}

void ncf_flows_free(struct ncf_flows *flows)
{
	kvfree(flows->flows);
	flows->flows = NULL;
}

struct ncf_tuple {
	__be32 saddr;
	__be32 daddr;
	u8 protocol;
	__be16 sport;
	__be16 dport;
} __packed;

/* Signals are no packets of the flow whose addresses they have: the switch's do
 * not pass its counters either.
 */
static bool ncf_is_signal(const struct sk_buff *skb, int offset)
{
	const struct ncf_option *option;
	struct ncf_option copy;

	option = skb_header_pointer(skb, offset, sizeof(copy), &copy);
	return option && option->kind == NCF_OPTION_KIND &&
	       option->length == NCF_OPTION_LENGTH &&
	       option->exid == htons(NCF_EXID);
}

static enum ncf_kind ncf_kind_of(const struct sk_buff *skb, int offset,
				 const struct iphdr *ip)
{
	const struct tcphdr *tcp;
	struct tcphdr copy;

	if (ip->protocol == IPPROTO_UDP)
		return NCF_UDP;
	tcp = skb_header_pointer(skb, offset, sizeof(copy), &copy);
	if (!tcp || (ip->tot_len == htons(NCF_IP_LENGTH) &&
		     tcp->doff == NCF_TCP_OFFSET &&
		     ncf_is_signal(skb, offset + sizeof(copy))))
		return NCF_OTHER;
	if (tcp->fin || tcp->rst)
		return NCF_TCP_END;
	if (tcp->doff >= sizeof(copy) / 4 &&
	    iph_totlen(skb, ip) == sizeof(*ip) + tcp->doff * 4)
		return NCF_TCP_BARE;
	return NCF_TCP;
}

/**
 * ncf_packet_of() - find out which flow a packet belongs to
 * @skb: a packet on its way out
 *
 * TCP and UDP over IPv4 are followed; IP options, fragments, IPv6, VLANs,
 * signals and everything else are not.
 */
struct ncf_packet ncf_packet_of(const struct sk_buff *skb)
{
	struct ncf_packet packet = { .kind = NCF_OTHER };
	int offset = skb_network_offset(skb);
	const struct iphdr *ip;
	const __be16 *ports;
	struct iphdr ip_copy;
	__be16 ports_copy[2];
	struct ncf_tuple tuple;

	if (skb->protocol != htons(ETH_P_IP) || skb_vlan_tag_present(skb))
		return packet;
	ip = skb_header_pointer(skb, offset, sizeof(ip_copy), &ip_copy);
	if (!ip || ip->version != 4 || ip->ihl != 5 || ip_is_fragment(ip) ||
	    (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP))
		return packet;
	offset += sizeof(*ip);
	ports = skb_header_pointer(skb, offset, sizeof(ports_copy), ports_copy);
	if (!ports)
		return packet;
	tuple = (struct ncf_tuple) {
		.saddr = ip->saddr,
		.daddr = ip->daddr,
		.protocol = ip->protocol,
		.sport = ports[0],
		.dport = ports[1],
	};
	packet.kind = ncf_kind_of(skb, offset, ip);
	packet.flow = ncf_crc(&tuple, sizeof(tuple));
	return packet;
}

/**
 * ncf_flow_count() - count packets of a flow
 * @flow: its record
 * @window: number of the present window
 * @packets: how many came
 *
 * Return: how many came in this window and the two before; at most 255 of each
 * are counted.
 */
u32 ncf_flow_count(struct ncf_flow *flow, u32 window, u32 packets)
{
	u32 passed = min(window - flow->window, NCF_WINDOWS);
	u8 *now = &flow->packets[window % NCF_WINDOWS];
	u32 sum = 0;

	for (u32 age = 0; age < passed; age++)
		flow->packets[(window - age) % NCF_WINDOWS] = 0;
	flow->window = window;
	*now = min(*now + packets, U8_MAX);
	for (int i = 0; i < NCF_WINDOWS; i++)
		sum += flow->packets[i];
	return sum;
}

/**
 * ncf_flow_follow() - keep the number of elephants
 * @flows: all flows
 * @flow: the record of a packet's flow
 * @kind: what the packet is
 * @elephant: whether the flow is one, now
 */
void ncf_flow_follow(struct ncf_flows *flows, struct ncf_flow *flow,
		     enum ncf_kind kind, bool elephant)
{
	enum ncf_state before = flow->state;

	if (kind == NCF_TCP_END) {
		flow->state = NCF_ENDED;
	} else if (!elephant) {
		flow->state = NCF_NOT_COUNTED;
	} else if (before == NCF_NOT_COUNTED && kind != NCF_TCP_BARE) {
		flow->state = NCF_COUNTED;
		flows->elephants = min(flows->elephants + 1, NCF_ELEPHANTS_MAX);
	}
	if (before == NCF_COUNTED && flow->state != NCF_COUNTED &&
	    flows->elephants)
		flows->elephants--;
}

/**
 * ncf_flow_signals() - may a signal go to a flow's sender?
 * @flow: its record
 * @now_ns: the time
 * @gap: signals of a flow are more than so many ticks apart
 */
bool ncf_flow_signals(struct ncf_flow *flow, u64 now_ns, u32 gap)
{
	u32 now = now_ns >> NCF_TICK_BITS;

	if (now - flow->signalled <= gap)
		return false;
	flow->signalled = now;
	return true;
}

/**
 * ncf_flows_sweep() - look for elephants that fell silent
 * @flows: all flows
 * @window: number of the present window
 * @silent: leave the number of elephants after so many windows; 0: never
 *
 * Return: how many left it.
 */
u32 ncf_flows_sweep(struct ncf_flows *flows, u32 window, u32 silent)
{
	u32 left = 0;

	for (int i = 0; silent && i < NCF_SWEEP_AT_ONCE; i++) {
		struct ncf_flow *flow = &flows->flows[flows->swept];

		flows->swept = (flows->swept + 1) % NCF_FLOWS;
		if (flow->state != NCF_COUNTED ||
		    window - flow->window <= silent)
			continue;
		ncf_flow_follow(flows, flow, NCF_OTHER, false);
		left++;
	}
	return left;
}
