// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* A FIFO that marks above half of its length, and reports two counters */
#include <linux/module.h>
#include <net/inet_ecn.h>
#include <net/pkt_sched.h>

static unsigned int limit = 60;
module_param(limit, uint, 0644);
MODULE_PARM_DESC(limit, "packets it holds");

struct mine_stats {
	u32 longest;	/* packets */
	u64 marked_late;
};

static int mine_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			struct sk_buff **to_free)
{
	struct mine_stats *stats = qdisc_priv(sch);

	if (sch->q.qlen >= limit)
		return qdisc_drop(skb, sch, to_free);
	if (sch->q.qlen >= limit / 2 && INET_ECN_set_ce(skb))
		stats->marked_late++;
	stats->longest = max(stats->longest, sch->q.qlen + 1);
	return qdisc_enqueue_tail(skb, sch);
}

static int mine_dump_stats(struct Qdisc *sch, struct gnet_dump *dump)
{
	struct mine_stats stats = {};
	const struct mine_stats *now = qdisc_priv(sch);

	stats.longest = now->longest;
	stats.marked_late = now->marked_late;
	return gnet_stats_copy_app(dump, &stats, sizeof(stats));
}

static struct Qdisc_ops mine_ops __read_mostly = {
	.id		= "mine",
	.priv_size	= sizeof(struct mine_stats),
	.enqueue	= mine_enqueue,
	.dequeue	= qdisc_dequeue_head,
	.peek		= qdisc_peek_head,
	.reset		= qdisc_reset_queue,
	.dump_stats	= mine_dump_stats,
	.owner		= THIS_MODULE,
};

static int __init mine_init(void)
{
	return register_qdisc(&mine_ops);
}

static void __exit mine_exit(void)
{
	unregister_qdisc(&mine_ops);
}

module_init(mine_init);
module_exit(mine_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A FIFO that marks above half of its length");
