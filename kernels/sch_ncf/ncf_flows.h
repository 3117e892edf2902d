/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* NCF: flows at a bottleneck, see ncf_flows.c */
#ifndef _NCF_FLOWS_H
#define _NCF_FLOWS_H

#include <linux/skbuff.h>
#include <linux/types.h>

#define NCF_FLOWS		65536	/* identifiers */
#define NCF_WINDOWS		3	/* that count: this one and two before */
#define NCF_ELEPHANTS_MAX	0xffff
#define NCF_TICK_BITS		16	/* signals are timed in 2^16 ns */

enum ncf_kind {
	NCF_OTHER,		/* not followed */
	NCF_UDP,
	NCF_TCP,
	NCF_TCP_BARE,		/* without payload: an ACK or SYN */
	NCF_TCP_END,		/* with FIN or RST */
};

enum ncf_state {
	NCF_NOT_COUNTED,
	NCF_COUNTED,
	NCF_ENDED,		/* not counted again before it was a mouse */
};

struct ncf_flow {
	u32 window;		/* of the last packet */
	u32 signalled;		/* tick of the last signal */
	u8 packets[NCF_WINDOWS];
	u8 state;
};

struct ncf_flows {
	struct ncf_flow *flows;
	u32 elephants;		/* N in the paper */
	u32 swept;		/* where the search for silent ones goes on */
};

/* What a packet is, and where its flow's record is */
struct ncf_packet {
	enum ncf_kind kind;
	u16 flow;
};

int ncf_flows_init(struct ncf_flows *flows);
void ncf_flows_reset(struct ncf_flows *flows);
void ncf_flows_free(struct ncf_flows *flows);

struct ncf_packet ncf_packet_of(const struct sk_buff *skb);
u32 ncf_flow_count(struct ncf_flow *flow, u32 window, u32 packets);
void ncf_flow_follow(struct ncf_flows *flows, struct ncf_flow *flow,
		     enum ncf_kind kind, bool elephant);
bool ncf_flow_signals(struct ncf_flow *flow, u64 now_ns, u32 gap);
u32 ncf_flows_sweep(struct ncf_flows *flows, u32 window, u32 silent);

void ncf_flows_prepare(void);

#endif /* _NCF_FLOWS_H */
