// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* wire: network devices, and the way of a frame from one to another */
#include <linux/etherdevice.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/rtnetlink.h>
#include <net/sch_generic.h>

#include "wire.h"

#define WIRE_LIMIT	60000	/* as netem has it in the published experiments */

struct wire_cb {
	u64 due_ns;
};

/* Changed under RTNL. */
static LIST_HEAD(wire_networks);

static struct wire_cb *wire_cb(struct sk_buff *skb)
{
	return (struct wire_cb *)skb->cb;
}

/* -- the way of a frame ----------------------------------------------------- */

static struct wire_port *wire_find(const struct wire_port *from, const u8 *addr)
{
	struct wire_port *port;

	list_for_each_entry_rcu(port, &from->network->ports, on_network)
		if (port != from && ether_addr_equal(port->dev->dev_addr, addr))
			return netif_running(port->dev) ? port : NULL;
	return NULL;
}

/* When a frame that @from sends at @at_ns arrives. The kernel cuts what TCP
 * sends at once into frames just before they come here: what is late is all of
 * it, as in a host whose device cuts it.
 */
static u64 wire_arrival(struct wire_port *from, u64 at_ns)
{
	u64 jitter_ns = READ_ONCE(from->jitter_ns);

	if (jitter_ns) {
		spin_lock(&from->lock);
		if (!from->more)
			at_ns += mul_u64_u32_shr(jitter_ns,
						 prandom_u32_state(&from->random),
						 32);
		at_ns = max(at_ns, from->left_ns);
		from->left_ns = at_ns;
		from->more = netdev_xmit_more();
		spin_unlock(&from->lock);
	}
	if (READ_ONCE(from->path.acts)) {
		spin_lock(&from->lock);
		at_ns = wire_path_due(from, at_ns);
		spin_unlock(&from->lock);
		return at_ns;
	}
	return max(at_ns + READ_ONCE(from->delay_ns),
		   READ_ONCE(from->path.last_ns));
}

/* Frames from several senders may be under way, so the last in is not always
 * the last out; but it nearly always is.
 */
static bool wire_post(struct wire_port *to, struct sk_buff *skb, u64 due_ns,
		      unsigned long limit)
{
	struct sk_buff_head *inbox = &to->inbox;
	struct sk_buff *before;
	bool full;

	wire_cb(skb)->due_ns = due_ns;
	spin_lock(&to->lock);
	full = skb_queue_len(inbox) >= limit;
	if (!full) {
		skb_queue_reverse_walk(inbox, before)
			if (wire_cb(before)->due_ns <= due_ns)
				break;
		__skb_queue_after(inbox, before, skb);
		if (skb_peek(inbox) == skb)
			hrtimer_start(&to->timer, ns_to_ktime(due_ns),
				      HRTIMER_MODE_ABS_SOFT);
	}
	spin_unlock(&to->lock);
	return !full;
}

static enum hrtimer_restart wire_due(struct hrtimer *timer)
{
	struct wire_port *port = container_of(timer, struct wire_port, timer);
	struct sk_buff_head *inbox = &port->inbox;
	u64 now_ns = ktime_get_ns();
	struct sk_buff *skb;

	for (;;) {
		spin_lock(&port->lock);
		skb = skb_peek(inbox);
		if (skb && wire_cb(skb)->due_ns > now_ns) {
			hrtimer_start(timer, ns_to_ktime(wire_cb(skb)->due_ns),
				      HRTIMER_MODE_ABS_SOFT);
			skb = NULL;
		}
		if (skb)
			__skb_unlink(skb, inbox);
		spin_unlock(&port->lock);
		if (!skb)
			return HRTIMER_NORESTART;
		dev_sw_netstats_rx_add(port->dev, skb->len + ETH_HLEN);
		rcu_read_lock();
		if (!wire_node_hold(port->node, skb) && !wire_relay(port, skb))
			netif_receive_skb(skb);
		rcu_read_unlock();
	}
}

/* Cut what ties the frame to the node that sent it. */
static void wire_cut(struct sk_buff *skb)
{
	skb_orphan(skb);
	skb_scrub_packet(skb, true);
	/* scrubbing keeps a departure time, for namespaces of one host */
	skb_set_delivery_time(skb, 0, SKB_CLOCK_REALTIME);
	skb_clear_hash(skb);
}

/* A @due_ns of 0 means at once: nothing on the way takes time. */
static void wire_send(struct wire_port *from, struct wire_port *to,
		      struct sk_buff *skb, u64 due_ns)
{
	skb->protocol = eth_type_trans(skb, to->dev);
	if (!due_ns) {
		dev_sw_netstats_rx_add(to->dev, skb->len + ETH_HLEN);
		if (!wire_node_hold(to->node, skb))
			netif_rx(skb);
		return;
	}
	if (wire_post(to, skb, due_ns, READ_ONCE(from->limit)))
		return;
	from->drops++;
	dev_core_stats_tx_dropped_inc(from->dev);
	kfree_skb(skb);
}

/* Without delay and jitter nobody asks for the time: reading it takes time. */
static u64 wire_now(const struct wire_port *from, u64 now_ns)
{
	if (now_ns || !(READ_ONCE(from->delay_ns) | READ_ONCE(from->jitter_ns) |
			READ_ONCE(from->path.acts)))
		return now_ns;
	return ktime_get_ns();
}

static void wire_flood(struct wire_port *from, struct sk_buff *skb)
{
	u64 due_ns = wire_arrival(from, wire_now(from, 0));
	struct wire_port *to;
	struct sk_buff *copy;

	list_for_each_entry_rcu(to, &from->network->ports, on_network) {
		if (to == from || !netif_running(to->dev))
			continue;
		copy = skb_copy(skb, GFP_ATOMIC);
		if (copy)
			wire_send(from, to, copy, due_ns);
	}
	consume_skb(skb);
}

/**
 * wire_carry() - send a frame on its way
 * @from: the port by which it leaves
 * @skb: the frame, from its Ethernet header on
 *
 * The caller is in an RCU read-side critical section.
 */
void wire_carry(struct wire_port *from, struct sk_buff *skb)
{
	struct wire_port *to, *out;
	u64 due_ns = 0;

	if (is_multicast_ether_addr(eth_hdr(skb)->h_dest)) {
		wire_flood(from, skb);
		return;
	}
	for (;;) {
		if (READ_ONCE(from->path.acts) && wire_path_takes(from, skb))
			return;
		due_ns = wire_arrival(from, wire_now(from, due_ns));
		to = wire_find(from, eth_hdr(skb)->h_dest);
		if (!to) {
			dev_core_stats_tx_dropped_inc(from->dev);
			kfree_skb(skb);
			return;
		}
		out = wire_pass(to, skb);
		if (!out)
			break;
		from = out;
	}
	wire_send(from, to, skb, due_ns);
}

static netdev_tx_t wire_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct wire_port *from = netdev_priv(dev);

	rcu_read_lock();
	dev_sw_netstats_tx_add(dev, 1, skb->len);
	wire_cut(skb);
	if (READ_ONCE(from->air.rate_bps))
		wire_air_queue(from, skb);
	else
		wire_carry(from, skb);
	rcu_read_unlock();
	return NETDEV_TX_OK;
}

/**
 * wire_has_queue() - does a queuing discipline hold what leaves a port?
 * @port: the port
 */
bool wire_has_queue(const struct wire_port *port)
{
	const struct Qdisc *queue;
	bool there;

	rcu_read_lock();
	queue = rcu_dereference(netdev_get_tx_queue(port->dev, 0)->qdisc);
	there = queue && queue->enqueue;
	rcu_read_unlock();
	return there;
}

/* -- devices ---------------------------------------------------------------- */

static struct wire_network *wire_network_get(const char *name)
{
	struct wire_network *network;

	ASSERT_RTNL();
	list_for_each_entry(network, &wire_networks, list)
		if (!strcmp(network->name, name))
			return network;
	network = kzalloc_obj(*network);
	if (!network)
		return NULL;
	strscpy(network->name, name);
	INIT_LIST_HEAD(&network->ports);
	list_add(&network->list, &wire_networks);
	return network;
}

static void wire_network_put(struct wire_network *network)
{
	ASSERT_RTNL();
	if (!list_empty(&network->ports))
		return;
	list_del(&network->list);
	kfree(network);
}

static int wire_port_set(const struct ctl_table *table, int write, void *buffer,
			 size_t *lenp, loff_t *ppos)
{
	struct wire_port *port = table->extra1;
	unsigned long delay_ns = port->delay_ns;
	int error = wire_set(table, write, buffer, lenp, ppos);

	if (error || !write)
		return error;
	if (table->data == &port->seed) {
		prandom_seed_state(&port->random, port->seed);
		wire_path_seed(port);
		wire_air_seed(port);
	}
	if (port->delay_ns < delay_ns)
		wire_path_shorten(port, delay_ns);
	return 0;
}

static int wire_port_sysctls(struct wire_port *port)
{
	struct ctl_table *entry = port->table;
	char path[sizeof("net/wire/") + IFNAMSIZ];

	wire_setting(entry++, "delay_ns", &port->delay_ns, port, wire_port_set);
	wire_setting(entry++, "jitter_ns", &port->jitter_ns, port, wire_port_set);
	wire_setting(entry++, "seed", &port->seed, port, wire_port_set);
	wire_setting(entry++, "limit", &port->limit, port, wire_port_set);
	wire_setting(entry++, "drops", &port->drops, port, NULL);
	entry = wire_path_settings(port, entry);
	entry = wire_air_settings(port, entry);
	snprintf(path, sizeof(path), "net/wire/%s", port->dev->name);
	port->sysctls = register_net_sysctl_sz(dev_net(port->dev), path,
					       port->table, entry - port->table);
	return port->sysctls ? 0 : -ENOMEM;
}

static int wire_init(struct net_device *dev)
{
	struct wire_port *port = netdev_priv(dev);
	int error;

	port->dev = dev;
	port->node = wire_node_of(dev_net(dev));
	port->limit = WIRE_LIMIT;
	prandom_seed_state(&port->random, port->seed);
	spin_lock_init(&port->lock);
	__skb_queue_head_init(&port->inbox);
	wire_air_init(port);
	hrtimer_setup(&port->timer, wire_due, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS_SOFT);
	if (is_zero_ether_addr(dev->dev_addr))
		eth_hw_addr_random(dev);
	error = wire_port_sysctls(port);
	if (error)
		return error;
	port->network = wire_network_get(dev->name);
	if (!port->network) {
		unregister_net_sysctl_table(port->sysctls);
		return -ENOMEM;
	}
	list_add_tail_rcu(&port->on_network, &port->network->ports);
	list_add_tail_rcu(&port->on_node, &port->node->ports);
	return 0;
}

static void wire_uninit(struct net_device *dev)
{
	struct wire_port *port = netdev_priv(dev);

	list_del_rcu(&port->on_node);
	list_del_rcu(&port->on_network);
	synchronize_net();
	wire_air_exit(port);
	hrtimer_cancel(&port->timer);
	__skb_queue_purge(&port->inbox);
	wire_forget(port);
	wire_network_put(port->network);
	unregister_net_sysctl_table(port->sysctls);
}

const struct net_device_ops wire_ops = {
	.ndo_init = wire_init,
	.ndo_uninit = wire_uninit,
	.ndo_start_xmit = wire_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void wire_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &wire_ops;
	dev->max_mtu = ETH_MAX_MTU;
	dev->needs_free_netdev = true;
	dev->netns_immutable = true;
	dev->lltx = true;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->priv_flags |= IFF_NO_QUEUE;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	/* Nothing can be damaged under way, so nobody computes checksums. */
	dev->features = NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HIGHDMA |
			NETIF_F_HW_CSUM | NETIF_F_RXCSUM;
	dev->hw_features = dev->features;
}

static struct rtnl_link_ops wire_link_ops __read_mostly = {
	.kind = "wire",
	.priv_size = sizeof(struct wire_port),
	.setup = wire_setup,
};

static int __init wire_module_init(void)
{
	int error;

	BUILD_BUG_ON(sizeof(struct wire_cb) > sizeof_field(struct sk_buff, cb));
	error = wire_node_init();
	if (error)
		return error;
	error = rtnl_link_register(&wire_link_ops);
	if (error)
		wire_node_exit();
	return error;
}

static void __exit wire_module_exit(void)
{
	rtnl_link_unregister(&wire_link_ops);
	wire_node_exit();
}

module_init(wire_module_init);
module_exit(wire_module_exit);

MODULE_DESCRIPTION("Ethernet between the namespaces of the lab");
MODULE_LICENSE("GPL");
MODULE_ALIAS_RTNL_LINK("wire");
