/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* TCP NCF: Algorithm 2 without sockets
 *
 * ncf_law.c also compiles outside of the kernel, where a test compares it with
 * vectors and with a model.
 */
#ifndef _TCP_NCF_LAW_H
#define _TCP_NCF_LAW_H

#ifdef __KERNEL__
#include <linux/compiler.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>
#else
#include "law_user.h"
#endif

enum ncf_mode {
	NCF_MODE_INTENDED,	/* delta and gamma are part of the window */
	NCF_MODE_LITERAL,	/* lines 22 and 24 as printed */
};

/* Parameters of a network namespace; shares are percentages. */
struct ncf_params {
	u32 mode;
	u32 endhost;
	u32 tau;
	u32 delta;
	u32 gamma;
	u32 lambda;
	u32 most_kbps;	/* signals that state more are refused */
};

/* What a signal states, and the packet that it is about */
struct ncf_signal {
	u32 seq;
	u32 capacity_kbps;
	u32 queue_bytes;
	u16 flows;
	bool mice_crowded;
};

/* A connection's window, in packets */
struct ncf_window {
	u32 mss;	/* bytes of a packet */
	u32 cwnd;
	u32 ssthresh;
	u32 in_flight;	/* in the last round trip */
	u32 largest;	/* that cwnd has been */
	bool may_grow;
};

bool ncf_law_due(const struct ncf_params *params, u32 flows, u32 flows_before,
		 u64 since_us, u32 srtt_us);
void ncf_law_react(const struct ncf_params *params,
		   const struct ncf_signal *signal, u32 srtt_us,
		   struct ncf_window *window);

#endif /* _TCP_NCF_LAW_H */
