// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* NCF as a queuing discipline: mice and elephants apart, signals to elephants
 *
 * "Network-Assisted Congestion Feedback" (IEEE TNSM 2026), Algorithm 1 and
 * section IV; p4/ncf/README.md lists what the paper leaves open and what was
 * decided. This and the program there do the same to every packet.
 *
 * Two queues of bytes take turns (deficit round robin, equal quanta). Flows of
 * few packets and all that is no flow join the mice, the others the elephants.
 * A packet of an elephant that has payload and finds more than a threshold in its
 * queue makes a signal to its sender: see ncf_signals.c. With a single queue for both
 * ("NCF-1Q" in the paper) signals go to elephants all the same.
 */
#include <linux/module.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>

#include "ncf_flows.h"
#include "ncf_inputs.h"
#include "sch_ncf.h"

#define NCF_PERCENT	100

/* Queues */

static u32 ncf_percent(u32 bytes, u32 percent)
{
	return (u64)bytes * percent / NCF_PERCENT;
}

static void ncf_queues_size(struct ncf_sched *q)
{
	const struct ncf_params *params = &q->params;
	struct ncf_queue *mice = &q->queues[NCF_MICE];
	struct ncf_queue *elephants = &q->queues[NCF_ELEPHANTS];

	mice->limit = 0;
	if (params->queues == NCF_QUEUES)
		mice->limit = ncf_percent(params->limit, params->mice_share);
	elephants->limit = params->limit - mice->limit;
	mice->threshold = ncf_percent(mice->limit, params->mice_threshold);
	elephants->threshold = ncf_percent(elephants->limit,
					   params->elephants_threshold);
}

static int ncf_join(struct ncf_sched *q, struct Qdisc *sch,
		    enum ncf_queue_name name, struct sk_buff *skb,
		    struct sk_buff **to_free)
{
	struct ncf_queue *queue = &q->queues[name];
	u32 len = qdisc_pkt_len(skb);

	if (queue->bytes + len > queue->limit)
		return qdisc_drop(skb, sch, to_free);
	__qdisc_enqueue_tail(skb, &queue->packets);
	queue->bytes += len;
	qdisc_update_stats_at_enqueue(sch, len);
	return NET_XMIT_SUCCESS;
}

static struct sk_buff *ncf_leave(struct ncf_queue *queue)
{
	struct sk_buff *skb = __qdisc_dequeue_head(&queue->packets);

	queue->bytes -= qdisc_pkt_len(skb);
	queue->deficit -= qdisc_pkt_len(skb);
	return skb;
}

static struct sk_buff *ncf_dequeue(struct Qdisc *sch)
{
	struct ncf_sched *q = qdisc_priv(sch);
	struct ncf_queue *queue;
	struct sk_buff *skb;

	if (!q->queues[NCF_MICE].packets.qlen &&
	    !q->queues[NCF_ELEPHANTS].packets.qlen)
		return NULL;
	for (;;) {
		queue = &q->queues[q->turn];
		if (!queue->packets.qlen)
			queue->deficit = 0;
		else if (queue->deficit >= (s32)qdisc_pkt_len(queue->packets.head))
			break;
		q->turn = !q->turn;
		q->queues[q->turn].deficit += q->params.quantum;
	}
	skb = ncf_leave(queue);
	qdisc_update_stats_at_dequeue(sch, skb);
	return skb;
}

/* Packets */

static bool ncf_is_elephant(struct ncf_sched *q, const struct sk_buff *skb,
			    const struct ncf_packet *packet, u32 window)
{
	struct ncf_flow *flow = &q->flows.flows[packet->flow];
	u32 packets = skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;

	return ncf_flow_count(flow, window, max(packets, 1)) > q->params.rho;
}

static void ncf_signal_perhaps(struct ncf_sched *q, const struct sk_buff *skb,
			       struct ncf_flow *flow, u64 now_ns)
{
	const struct ncf_params *params = &q->params;
	const struct ncf_report report = {
		.flows = q->flows.elephants,
		.mice_crowded = q->mice_crowded,
		.bottleneck = params->bottleneck,
		.capacity = params->capacity,
		.queue_bytes = q->queues[NCF_ELEPHANTS].limit,
	};

	if (ncf_flow_signals(flow, now_ns, params->gap))
		ncf_signals_send(&q->signals, skb, &report);
	else
		q->stats.signals_held++;
}

static int ncf_enqueue(struct sk_buff *skb, struct Qdisc *sch,
		       struct sk_buff **to_free)
{
	struct ncf_sched *q = qdisc_priv(sch);
	struct ncf_packet packet = ncf_packet_of(skb);
	struct ncf_flow *flow = &q->flows.flows[packet.flow];
	enum ncf_queue_name name = NCF_ELEPHANTS;
	u64 now_ns = ncf_now();
	u32 window = now_ns >> q->params.window_bit;
	bool elephant, above;
	int result;

	elephant = packet.kind != NCF_OTHER &&
		   ncf_is_elephant(q, skb, &packet, window);
	if (!elephant && q->params.queues == NCF_QUEUES)
		name = NCF_MICE;
	above = ncf_depth(q, name) > q->queues[name].threshold;
	if (packet.kind != NCF_OTHER)
		ncf_flow_follow(&q->flows, flow, packet.kind, elephant);
	q->stats.swept += ncf_flows_sweep(&q->flows, window, q->params.sweep);
	if (name == NCF_MICE)
		q->mice_crowded = above;
	else if (elephant && above && packet.kind == NCF_TCP)
		ncf_signal_perhaps(q, skb, flow, now_ns);

	result = ncf_join(q, sch, name, skb, to_free);
	if (elephant) {
		q->stats.elephants_packets++;
		q->stats.elephants_drops += result != NET_XMIT_SUCCESS;
	} else {
		q->stats.mice_packets++;
		q->stats.mice_drops += result != NET_XMIT_SUCCESS;
	}
	return result;
}

/* Settings */

static const struct ncf_params ncf_defaults = {
	.limit = 250000,
	.capacity = 25000000,
	.queues = NCF_QUEUES,
	.mice_share = 20,
	.mice_threshold = 50,
	.elephants_threshold = 75,
	.rho = 12,
	.window_bit = 25,
	.gap = 16,
	.sweep = 64,
	.bottleneck = 1,
	.quantum = 1514,
};

/* Where attributes of 32 bits go */
static const size_t ncf_offsets[TCA_NCF_MAX + 1] = {
	[TCA_NCF_LIMIT] = offsetof(struct ncf_params, limit),
	[TCA_NCF_QUEUES] = offsetof(struct ncf_params, queues),
	[TCA_NCF_MICE_SHARE] = offsetof(struct ncf_params, mice_share),
	[TCA_NCF_MICE_THRESHOLD] = offsetof(struct ncf_params, mice_threshold),
	[TCA_NCF_ELEPHANTS_THRESHOLD] =
		offsetof(struct ncf_params, elephants_threshold),
	[TCA_NCF_RHO] = offsetof(struct ncf_params, rho),
	[TCA_NCF_WINDOW_BIT] = offsetof(struct ncf_params, window_bit),
	[TCA_NCF_GAP] = offsetof(struct ncf_params, gap),
	[TCA_NCF_SWEEP] = offsetof(struct ncf_params, sweep),
	[TCA_NCF_BOTTLENECK] = offsetof(struct ncf_params, bottleneck),
	[TCA_NCF_QUANTUM] = offsetof(struct ncf_params, quantum),
};

/* A packet must not overflow the count of bytes. */
static const struct netlink_range_validation ncf_limits = {
	.min = 1,
	.max = S32_MAX,
};

/* A quantum of a small packet or more: dequeue must not go round for long. */
static const struct netlink_range_validation ncf_quanta = {
	.min = 64,
	.max = 1 << 20,
};

/* Counters stop at 255, so a rho of 255 or more would be out of reach. */
static const struct nla_policy ncf_policy[TCA_NCF_MAX + 1] = {
	[TCA_NCF_LIMIT] = NLA_POLICY_FULL_RANGE(NLA_U32, &ncf_limits),
	[TCA_NCF_CAPACITY] = NLA_POLICY_MIN(NLA_U64, 1),
	[TCA_NCF_QUEUES] = NLA_POLICY_RANGE(NLA_U32, 1, NCF_QUEUES),
	[TCA_NCF_MICE_SHARE] = NLA_POLICY_RANGE(NLA_U32, 1, 99),
	[TCA_NCF_MICE_THRESHOLD] = NLA_POLICY_RANGE(NLA_U32, 0, NCF_PERCENT),
	[TCA_NCF_ELEPHANTS_THRESHOLD] = NLA_POLICY_RANGE(NLA_U32, 0,
							 NCF_PERCENT),
	[TCA_NCF_RHO] = NLA_POLICY_RANGE(NLA_U32, 0, 254),
	[TCA_NCF_WINDOW_BIT] = NLA_POLICY_RANGE(NLA_U32, 16, 34),
	[TCA_NCF_GAP] = { .type = NLA_U32 },
	[TCA_NCF_SWEEP] = { .type = NLA_U32 },
	[TCA_NCF_BOTTLENECK] = NLA_POLICY_RANGE(NLA_U32, 0, U8_MAX),
	[TCA_NCF_QUANTUM] = NLA_POLICY_FULL_RANGE(NLA_U32, &ncf_quanta),
};

static u32 *ncf_attribute_of(struct ncf_params *params, int type)
{
	return (void *)params + ncf_offsets[type];
}

static int ncf_change(struct Qdisc *sch, struct nlattr *opt,
		      struct netlink_ext_ack *extack)
{
	struct ncf_sched *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_NCF_MAX + 1];
	struct ncf_params params = q->params;
	int error;

	error = nla_parse_nested(tb, TCA_NCF_MAX, opt, ncf_policy, extack);
	if (error)
		return error;
	for (int type = 1; type <= TCA_NCF_MAX; type++) {
		if (tb[type] && type == TCA_NCF_CAPACITY)
			params.capacity = nla_get_u64(tb[type]);
		else if (tb[type])
			*ncf_attribute_of(&params, type) = nla_get_u32(tb[type]);
	}
	sch_tree_lock(sch);
	q->params = params;
	ncf_queues_size(q);
	sch_tree_unlock(sch);
	return 0;
}

static int ncf_init(struct Qdisc *sch, struct nlattr *opt,
		    struct netlink_ext_ack *extack)
{
	struct ncf_sched *q = qdisc_priv(sch);
	int error;

	q->params = ncf_defaults;
	ncf_queues_size(q);
	ncf_signals_init(&q->signals, sch);
	error = ncf_flows_init(&q->flows);
	if (error)
		return error;
	return opt ? ncf_change(sch, opt, extack) : 0;
}

static void ncf_reset(struct Qdisc *sch)
{
	struct ncf_sched *q = qdisc_priv(sch);

	for (int i = 0; i < NCF_QUEUES; i++) {
		struct ncf_queue *queue = &q->queues[i];

		rtnl_kfree_skbs(queue->packets.head, queue->packets.tail);
		queue->packets.head = NULL;
		queue->packets.tail = NULL;
		queue->packets.qlen = 0;
		queue->bytes = 0;
		queue->deficit = 0;
	}
	q->mice_crowded = false;
	if (q->flows.flows)
		ncf_flows_reset(&q->flows);
}

/* Also after an init that failed */
static void ncf_destroy(struct Qdisc *sch)
{
	struct ncf_sched *q = qdisc_priv(sch);

	ncf_signals_stop(&q->signals);
	ncf_flows_free(&q->flows);
}

/* Reports */

static int ncf_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct ncf_sched *q = qdisc_priv(sch);
	struct nlattr *opts = nla_nest_start(skb, TCA_OPTIONS);
	int error = 0;

	if (!opts)
		return -EMSGSIZE;
	for (int type = 1; type <= TCA_NCF_MAX && !error; type++) {
		if (type == TCA_NCF_CAPACITY)
			error = nla_put_u64_64bit(skb, type, q->params.capacity,
						  TCA_NCF_UNSPEC);
		else
			error = nla_put_u32(skb, type,
					    *ncf_attribute_of(&q->params, type));
	}
	if (!error)
		return nla_nest_end(skb, opts);
	nla_nest_cancel(skb, opts);
	return error;
}

static int ncf_dump_stats(struct Qdisc *sch, struct gnet_dump *dump)
{
	struct ncf_sched *q = qdisc_priv(sch);
	struct ncf_stats stats;

	sch_tree_lock(sch);
	stats = q->stats;
	stats.elephants = q->flows.elephants;
	stats.mice_crowded = q->mice_crowded;
	stats.mice_backlog = q->queues[NCF_MICE].bytes;
	stats.elephants_backlog = q->queues[NCF_ELEPHANTS].bytes;
	sch_tree_unlock(sch);
	stats.signals = READ_ONCE(q->signals.sent);
	stats.signals_failed = READ_ONCE(q->signals.failed);
	return gnet_stats_copy_app(dump, &stats, sizeof(stats));
}

static struct Qdisc_ops ncf_ops __read_mostly = {
	.id		= "ncf",
	.priv_size	= sizeof(struct ncf_sched),
	.enqueue	= ncf_enqueue,
	.dequeue	= ncf_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= ncf_init,
	.reset		= ncf_reset,
	.destroy	= ncf_destroy,
	.change		= ncf_change,
	.dump		= ncf_dump,
	.dump_stats	= ncf_dump_stats,
	.owner		= THIS_MODULE,
};

static int __init ncf_register(void)
{
	ncf_flows_prepare();
	return register_qdisc(&ncf_ops);
}

static void __exit ncf_unregister(void)
{
	unregister_qdisc(&ncf_ops);
}

module_init(ncf_register);
module_exit(ncf_unregister);

MODULE_AUTHOR("The l4sbench authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("NCF: mice and elephants in two queues, signals to the senders of elephants");
MODULE_VERSION("1.0");
MODULE_ALIAS_NET_SCH("ncf");
