/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* NCF: what sch_ncf and tc have in common */
#ifndef _NCF_USER_H
#define _NCF_USER_H

#include <linux/types.h>

/* Attributes within TCA_OPTIONS, u32 unless said otherwise */
enum {
	TCA_NCF_UNSPEC,
	TCA_NCF_LIMIT,		/* bytes, both queues */
	TCA_NCF_CAPACITY,	/* u64, bytes per second: what signals state */
	TCA_NCF_QUEUES,		/* 2, or 1 for mice and elephants together */
	TCA_NCF_MICE_SHARE,	/* percent of the limit */
	TCA_NCF_MICE_THRESHOLD,	/* percent of the mice's queue */
	TCA_NCF_ELEPHANTS_THRESHOLD, /* percent of the elephants' queue */
	TCA_NCF_RHO,		/* packets */
	TCA_NCF_WINDOW_BIT,	/* a window lasts 2^this ns */
	TCA_NCF_GAP,		/* units of 2^16 ns */
	TCA_NCF_SWEEP,		/* windows; 0: never */
	TCA_NCF_BOTTLENECK,
	TCA_NCF_QUANTUM,	/* bytes */
	__TCA_NCF_MAX,
};

#define TCA_NCF_MAX	(__TCA_NCF_MAX - 1)

/* TCA_STATS_APP; module.yml lists the members in this order */
struct ncf_stats {
	__u32 elephants;	/* flows now: N in the paper */
	__u32 mice_crowded;	/* 0 or 1: MQS in the paper */
	__u32 mice_backlog;	/* bytes */
	__u32 elephants_backlog;
	__u64 mice_packets;	/* that came, whether or not they fitted */
	__u64 elephants_packets;
	__u64 mice_drops;
	__u64 elephants_drops;
	__u64 signals;		/* sent */
	__u64 signals_held;	/* not made, as the flow's last was just before */
	__u64 signals_failed;	/* no memory, no route or too many at once */
	__u64 swept;		/* flows that fell silent without an end */
};

#endif /* _NCF_USER_H */
