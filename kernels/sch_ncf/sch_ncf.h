/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* NCF as a queuing discipline: see ncf_main.c */
#ifndef _SCH_NCF_H
#define _SCH_NCF_H

#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <net/pkt_sched.h>

#include "ncf_flows.h"
#include "ncf_user.h"

enum ncf_queue_name {
	NCF_MICE,
	NCF_ELEPHANTS,
	NCF_QUEUES,
};

struct ncf_params {
	u32 limit;
	u64 capacity;		/* bytes per second */
	u32 queues;
	u32 mice_share;
	u32 mice_threshold;
	u32 elephants_threshold;
	u32 rho;
	u32 window_bit;
	u32 gap;
	u32 sweep;
	u32 bottleneck;
	u32 quantum;
};

struct ncf_queue {
	struct qdisc_skb_head packets;
	u32 bytes;
	u32 limit;		/* bytes */
	u32 threshold;		/* bytes */
	s32 deficit;		/* bytes that it may send in this round */
};

/* Signals on their way to the routing table, which must not be asked under the
 * queuing discipline's lock: they may leave by the same device.
 */
struct ncf_signals {
	struct sk_buff_head made;
	struct work_struct work;
	struct Qdisc *sch;
	u64 sent;
	u64 failed;
};

struct ncf_sched {
	struct ncf_params params;
	struct ncf_flows flows;
	struct ncf_queue queues[NCF_QUEUES];
	enum ncf_queue_name turn;
	bool mice_crowded;
	struct ncf_signals signals;
	struct ncf_stats stats;	/* but for what is elsewhere */
};

/* What a signal states of the bottleneck */
struct ncf_report {
	u32 flows;
	bool mice_crowded;
	u8 bottleneck;
	u64 capacity;		/* bytes per second */
	u32 queue_bytes;
};

void ncf_signals_init(struct ncf_signals *signals, struct Qdisc *sch);
void ncf_signals_stop(struct ncf_signals *signals);
void ncf_signals_send(struct ncf_signals *signals, const struct sk_buff *about,
		      const struct ncf_report *report);

#endif /* _SCH_NCF_H */
