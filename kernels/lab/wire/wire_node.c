// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* wire: nodes, which may pause, and whose work takes time
 *
 * A host pauses when its hypervisor or an interrupt takes its CPU. While a node
 * pauses it neither takes nor sends: frames that arrive wait, in order, and
 * queuing disciplines of its ports are stopped. All that waits goes on when
 * the pause ends.
 *
 * The time from the end of a pause to the start of the next is uniform from 0
 * to twice its mean, drawn from a seed.
 */
#include <linux/math64.h>
#include <linux/rculist.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "wire.h"

static unsigned int wire_net_id __read_mostly;

/**
 * wire_node_of() - the node that a namespace is
 * @net: the namespace
 */
struct wire_node *wire_node_of(const struct net *net)
{
	return net_generic(net, wire_net_id);
}

/* -- frames that wait ------------------------------------------------------- */

static void wire_work_start(struct wire_node *node)
{
	hrtimer_start(&node->work_timer, ns_to_ktime(node->packet_cost_ns),
		      HRTIMER_MODE_REL_SOFT);
}

/**
 * wire_node_hold() - let a frame wait if its node is not ready for it
 * @node: the node
 * @skb: a frame that has arrived there
 *
 * Return: false if the node takes it at once; it is still the caller's then.
 */
bool wire_node_hold(struct wire_node *node, struct sk_buff *skb)
{
	struct wire_port *port;
	bool holds, full;

	if (likely(!READ_ONCE(node->holds)))
		return false;
	port = netdev_priv(skb->dev);
	spin_lock(&node->lock);
	holds = node->holds;
	full = holds && skb_queue_len(&node->held) >= READ_ONCE(port->limit);
	if (full) {
		port->drops++;
		kfree_skb(skb);
	} else if (holds) {
		__skb_queue_tail(&node->held, skb);
		if (!node->paused && skb_queue_len(&node->held) == 1)
			wire_work_start(node);
	}
	spin_unlock(&node->lock);
	return holds;
}

static enum hrtimer_restart wire_work(struct hrtimer *timer)
{
	struct wire_node *node = container_of(timer, struct wire_node,
					      work_timer);
	struct sk_buff *skb = NULL;

	spin_lock(&node->lock);
	if (!node->paused) {
		skb = __skb_dequeue(&node->held);
		if (!skb_queue_empty(&node->held))
			wire_work_start(node);
	}
	spin_unlock(&node->lock);
	if (skb)
		netif_receive_skb(skb);
	return HRTIMER_NORESTART;
}

/* -- pauses ----------------------------------------------------------------- */

static void wire_queues(struct wire_node *node, bool stop)
{
	struct wire_port *port;

	rcu_read_lock();
	list_for_each_entry_rcu(port, &node->ports, on_node) {
		struct netdev_queue *queue = netdev_get_tx_queue(port->dev, 0);

		/* a device without a queue would drop what it cannot send */
		if (stop && wire_has_queue(port))
			netif_tx_stop_queue(queue);
		else if (!stop && !READ_ONCE(port->air.closed))
			netif_tx_wake_queue(queue);
	}
	rcu_read_unlock();
}

/* End a pause, if there is one; @released gets frames that need not wait. */
static void wire_resume(struct wire_node *node, struct sk_buff_head *released)
{
	bool costs = node->packet_cost_ns;

	lockdep_assert_held(&node->lock);
	node->paused = false;
	node->holds = costs;
	if (!costs)
		skb_queue_splice_tail_init(&node->held, released);
	else if (!skb_queue_empty(&node->held))
		wire_work_start(node);
}

static void wire_release(struct wire_node *node, struct sk_buff_head *released)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(released)))
		netif_receive_skb(skb);
	wire_queues(node, false);
}

static u64 wire_gap_ns(struct wire_node *node)
{
	u64 most_ns = 2 * (u64)(node->pause_every_ns - node->pause_ns);

	return mul_u64_u32_shr(most_ns, prandom_u32_state(&node->random), 32);
}

static enum hrtimer_restart wire_pause(struct hrtimer *timer)
{
	struct wire_node *node = container_of(timer, struct wire_node,
					      pause_timer);
	struct sk_buff_head released;
	bool begins;

	__skb_queue_head_init(&released);
	spin_lock(&node->lock);
	begins = !node->paused;
	if (begins) {
		node->paused = true;
		node->holds = true;
		node->pauses++;
		hrtimer_add_expires_ns(timer, node->pause_ns);
	} else {
		wire_resume(node, &released);
		hrtimer_add_expires_ns(timer, wire_gap_ns(node));
	}
	spin_unlock(&node->lock);
	if (begins)
		wire_queues(node, true);
	else
		wire_release(node, &released);
	return HRTIMER_RESTART;
}

/* -- settings --------------------------------------------------------------- */

/* A setting has changed: begin anew, so that the order of changes is nothing. */
static void wire_node_restart(struct wire_node *node)
{
	struct sk_buff_head released;

	__skb_queue_head_init(&released);
	hrtimer_cancel(&node->pause_timer);
	spin_lock_bh(&node->lock);
	wire_resume(node, &released);
	prandom_seed_state(&node->random, node->pause_seed);
	if (node->pause_ns && node->pause_every_ns > node->pause_ns)
		hrtimer_start(&node->pause_timer, ns_to_ktime(wire_gap_ns(node)),
			      HRTIMER_MODE_REL_SOFT);
	spin_unlock_bh(&node->lock);
	local_bh_disable();
	wire_release(node, &released);
	local_bh_enable();
}

/**
 * wire_set() - read or write a setting
 * @table: its entry, in which extra1 is the owner and not a limit
 * @write: write it
 * @buffer: text
 * @lenp: length of the text
 * @ppos: position in it
 *
 * Return: 0 or an error.
 */
int wire_set(const struct ctl_table *table, int write, void *buffer,
	     size_t *lenp, loff_t *ppos)
{
	struct ctl_table plain = *table;

	plain.extra1 = NULL;
	return proc_doulongvec_minmax(&plain, write, buffer, lenp, ppos);
}

static int wire_node_set(const struct ctl_table *table, int write, void *buffer,
			 size_t *lenp, loff_t *ppos)
{
	int error = wire_set(table, write, buffer, lenp, ppos);

	if (!error && write)
		wire_node_restart(table->extra1);
	return error;
}

/**
 * wire_setting() - describe a setting
 * @entry: its entry in a table of sysctls
 * @name: its name
 * @value: its value
 * @owner: what @handler gets in extra1
 * @handler: reads and writes it; NULL: it is only read
 */
void wire_setting(struct ctl_table *entry, const char *name,
		  unsigned long *value, void *owner, proc_handler *handler)
{
	*entry = (struct ctl_table) {
		.procname = name,
		.data = value,
		.maxlen = sizeof(*value),
		.mode = handler ? 0644 : 0444,
		.proc_handler = handler ?: wire_set,
		.extra1 = owner,
	};
}

static int __net_init wire_net_init(struct net *net)
{
	struct wire_node *node = wire_node_of(net);
	struct ctl_table *entry = node->table;

	INIT_LIST_HEAD(&node->ports);
	spin_lock_init(&node->lock);
	__skb_queue_head_init(&node->held);
	hrtimer_setup(&node->pause_timer, wire_pause, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
	hrtimer_setup(&node->work_timer, wire_work, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
	wire_setting(entry++, "pause_ns", &node->pause_ns, node, wire_node_set);
	wire_setting(entry++, "pause_every_ns", &node->pause_every_ns, node,
		     wire_node_set);
	wire_setting(entry++, "pause_seed", &node->pause_seed, node,
		     wire_node_set);
	wire_setting(entry++, "packet_cost_ns", &node->packet_cost_ns, node,
		     wire_node_set);
	wire_setting(entry++, "pauses", &node->pauses, node, NULL);
	node->sysctls = register_net_sysctl_sz(net, "net/wire", node->table,
					       entry - node->table);
	return node->sysctls ? 0 : -ENOMEM;
}

static void __net_exit wire_net_exit(struct net *net)
{
	struct wire_node *node = wire_node_of(net);

	unregister_net_sysctl_table(node->sysctls);
	hrtimer_cancel(&node->pause_timer);
	hrtimer_cancel(&node->work_timer);
	__skb_queue_purge(&node->held);
}

static struct pernet_operations wire_net_ops = {
	.init = wire_net_init,
	.exit = wire_net_exit,
	.id = &wire_net_id,
	.size = sizeof(struct wire_node),
};

/**
 * wire_node_init() - prepare all namespaces
 *
 * Return: 0 or an error.
 */
int __init wire_node_init(void)
{
	return register_pernet_subsys(&wire_net_ops);
}

/**
 * wire_node_exit() - undo wire_node_init()
 */
void wire_node_exit(void)
{
	unregister_pernet_subsys(&wire_net_ops);
}
