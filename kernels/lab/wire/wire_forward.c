// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* wire: forwarding for a node that would do nothing else with a frame
 *
 * A frame for a node that forwards it takes the node's own routes and
 * neighbours, which the port remembers per destination as long as the kernel
 * considers them valid. Its TTL is one less, and the devices count it.
 *
 * wire_pass() does so when a frame sets out for a node by which it leaves at
 * once, so that it crosses any number of such nodes without a stop.
 * wire_relay() does so when a frame has arrived, and hands it to whatever
 * queuing discipline the next port has.
 *
 * In all other cases the node gets the frame: whenever anything there could
 * hold, change, drop or see it on its way to that queue.
 */
#include <linux/etherdevice.h>
#include <linux/inetdevice.h>
#include <linux/ip.h>
#include <linux/netfilter.h>
#include <net/ip.h>
#include <net/neighbour.h>
#include <net/route.h>

#include "wire.h"

static void wire_hop_clear(struct wire_hop *hop)
{
	if (!hop->dst)
		return;
	neigh_release(hop->neigh);
	dst_release(hop->dst);
	hop->dst = NULL;
}

/**
 * wire_forget() - forget how to forward what arrives at a port
 * @port: the port
 */
void wire_forget(struct wire_port *port)
{
	for (int i = 0; i < WIRE_HOPS; i++)
		wire_hop_clear(&port->hops[i]);
}

static bool wire_hop_learn(struct wire_hop *hop, struct net *net, __be32 daddr)
{
	struct flowi4 to = { .daddr = daddr };
	struct neighbour *neigh;
	struct rtable *route;

	wire_hop_clear(hop);
	route = ip_route_output_key(net, &to);
	if (IS_ERR(route))
		return false;
	neigh = dst_neigh_lookup(&route->dst, &daddr);
	if (!neigh) {
		ip_rt_put(route);
		return false;
	}
	hop->daddr = daddr;
	hop->dst = &route->dst;
	hop->neigh = neigh;
	return true;
}

/* The port by which a packet of @len bytes to @daddr leaves; its next hop goes
 * into @addr. NULL: the node has to decide.
 */
static struct wire_port *wire_hop_to(struct wire_port *in, __be32 daddr,
				     unsigned int len, u8 *addr)
{
	struct wire_hop *hop = &in->hops[ntohl(daddr) % WIRE_HOPS];
	struct wire_port *out = NULL;
	bool known;

	spin_lock(&in->lock);
	known = hop->dst && hop->daddr == daddr && dst_check(hop->dst, 0) &&
		!hop->neigh->dead;
	if (!known)
		known = wire_hop_learn(hop, dev_net(in->dev), daddr);
	if (known && hop->dst->dev->netdev_ops == &wire_ops &&
	    READ_ONCE(hop->neigh->nud_state) & NUD_VALID &&
	    len <= dst_mtu(hop->dst)) {
		out = netdev_priv(hop->dst->dev);
		neigh_ha_snapshot(addr, hop->neigh, out->dev);
	}
	spin_unlock(&in->lock);
	return out;
}

static bool wire_filtered(const struct net *net)
{
#ifdef CONFIG_NETFILTER
	static const int hooks[] = {
		NF_INET_PRE_ROUTING, NF_INET_FORWARD, NF_INET_POST_ROUTING,
	};

	for (int i = 0; i < ARRAY_SIZE(hooks); i++)
		if (rcu_access_pointer(net->nf.hooks_ipv4[hooks[i]]))
			return true;
#endif
	return false;
}

static bool wire_seen(const struct net_device *dev)
{
#ifdef CONFIG_NET_XGRESS
	if (rcu_access_pointer(dev->tcx_ingress) ||
	    rcu_access_pointer(dev->tcx_egress))
		return true;
#endif
	return dev_nit_active_rcu(dev);
}

/* Would the node at most forward what arrives at @in? */
static bool wire_forwards(const struct wire_port *in)
{
	const struct wire_node *node = in->node;
	const struct in_device *inet = __in_dev_get_rcu(in->dev);

	return inet && IN_DEV_FORWARD(inet) &&
	       !(READ_ONCE(node->pause_ns) | READ_ONCE(node->packet_cost_ns)) &&
	       !wire_filtered(dev_net(in->dev)) && !wire_seen(in->dev);
}

static bool wire_leaves_at_once(const struct wire_port *out)
{
	return !(READ_ONCE(out->jitter_ns) | READ_ONCE(out->path.acts) |
		 READ_ONCE(out->air.rate_bps)) &&
	       !wire_has_queue(out) && !wire_seen(out->dev);
}

static struct iphdr *wire_ip_header(struct sk_buff *skb)
{
	struct iphdr *ip;

	if (eth_hdr(skb)->h_proto != htons(ETH_P_IP) ||
	    !pskb_may_pull(skb, ETH_HLEN + sizeof(*ip)) ||
	    skb_cow_head(skb, 0))
		return NULL;
	ip = (struct iphdr *)(skb->data + ETH_HLEN);
	if (ip->version != 4 || ip->ihl != 5 || ip->ttl <= 1)
		return NULL;
	return ip;
}

/* Prepare a frame for the port by which it leaves the node of @in. */
static struct wire_port *wire_forward(struct wire_port *in, struct sk_buff *skb,
				      bool at_once)
{
	u8 addr[ETH_ALEN];
	struct wire_port *out;
	struct iphdr *ip;

	if (!wire_forwards(in))
		return NULL;
	ip = wire_ip_header(skb);
	if (!ip)
		return NULL;
	out = wire_hop_to(in, ip->daddr, skb->len - ETH_HLEN, addr);
	if (!out || out == in || !netif_running(out->dev) ||
	    (at_once && !wire_leaves_at_once(out)))
		return NULL;
	ip_decrease_ttl(ip);
	skb->priority = rt_tos2priority(ip->tos);
	ether_addr_copy(eth_hdr(skb)->h_dest, addr);
	ether_addr_copy(eth_hdr(skb)->h_source, out->dev->dev_addr);
	IP_INC_STATS(dev_net(in->dev), IPSTATS_MIB_OUTFORWDATAGRAMS);
	return out;
}

/**
 * wire_pass() - forward a frame in place of a node that it would only cross
 * @in: port of the node to which the frame sets out
 * @skb: the frame, from its Ethernet header on
 *
 * Return: the port by which the frame leaves; NULL: it has to arrive.
 */
struct wire_port *wire_pass(struct wire_port *in, struct sk_buff *skb)
{
	struct wire_port *out = wire_forward(in, skb, true);

	if (out) {
		dev_sw_netstats_rx_add(in->dev, skb->len);
		dev_sw_netstats_tx_add(out->dev, 1, skb->len);
	}
	return out;
}

/**
 * wire_relay() - forward a frame in place of the node where it has arrived
 * @in: port of the node
 * @skb: the frame, from its IP header on
 *
 * Return: true if the frame is on its way.
 */
bool wire_relay(struct wire_port *in, struct sk_buff *skb)
{
	struct wire_port *out;

	__skb_push(skb, ETH_HLEN);
	out = wire_forward(in, skb, false);
	if (!out) {
		__skb_pull(skb, ETH_HLEN);
		return false;
	}
	skb->dev = out->dev;
	dev_queue_xmit(skb);
	return true;
}
