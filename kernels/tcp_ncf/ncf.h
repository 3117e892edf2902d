/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* TCP NCF: see ncf_main.c */
#ifndef _TCP_NCF_H
#define _TCP_NCF_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include <net/tcp.h>

#include "cc_flows.h"

#define NCF_WAITING	128	/* signals of a connection at most */
#define NCF_HASH_BITS	10

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
};

/* What a signal states, and the packet that it is about */
struct ncf_signal {
	u32 seq;
	u32 capacity_kbps;
	u32 queue_bytes;
	u16 flows;
	bool mice_crowded;
};

/* What became of a packet with NCF's option */
enum ncf_verdict {
	NCF_ACCEPTED,
	NCF_MALFORMED,
	NCF_CHECKSUM,
	NCF_NO_FLOWS,		/* N is 0 */
	NCF_UNKNOWN,		/* no connection of NCF's has these ends */
	NCF_NOT_ESTABLISHED,
	NCF_STALE,		/* about data that was acknowledged */
	NCF_AHEAD,		/* about data that was not sent */
	NCF_REPLAYED,		/* not after the last one */
	NCF_TOO_MANY,
	NCF_VERDICTS,
};

struct ncf_ends {
	__be32 local;
	__be32 remote;
	__be16 local_port;
	__be16 remote_port;
};

/* A connection, beyond icsk_ca_priv. Signals are written to it in softirq, by
 * whoever received them, and read by the socket's owner: hence the lock.
 */
struct ncf_flow {
	struct cc_flow flow;
	struct hlist_node by_ends;
	struct ncf_ends ends;
	const struct sock *sk;
	const struct ncf_params *params;

	spinlock_t lock;	/* of the members below, up to @refused */
	bool gone;		/* the socket is no longer NCF's */
	bool any;		/* @last_seq is that of a signal */
	u8 first;		/* of those that wait */
	u8 waiting;
	u32 last_seq;
	struct ncf_signal signals[NCF_WAITING];
	u32 accepted;
	u32 refused;

	bool reacted;		/* what follows is of the last reaction */
	u64 last_us;
	struct ncf_signal last;
	u32 reactions;
};

/* icsk_ca_priv */
struct ncf {
	struct ncf_flow *flow;	/* NULL: no memory, plain NewReno */
};

/* What the module keeps for a network namespace */
struct ncf_net {
	struct cc_flows flows;
	struct hlist_head by_ends[1 << NCF_HASH_BITS]; /* under @flows.lock */
	atomic64_t verdicts[NCF_VERDICTS];
	struct ncf_params *params;	/* @own, or the module's own */
	struct ncf_params own;
	struct ctl_table_header *sysctls;
};

/* ncf_net.c */
struct ncf_net *ncf_net(const struct net *net);
struct ncf_flow *ncf_flow_add(struct sock *sk);
void ncf_flow_remove(struct sock *sk, struct ncf_flow *flow);
struct ncf_flow *ncf_flow_find(const struct ncf_net *nn,
			       const struct ncf_ends *ends);
int ncf_net_register(void);
void ncf_net_unregister(void);

/* ncf_hook.c */
int ncf_hook_register(struct net *net);
void ncf_hook_unregister(struct net *net);
bool ncf_signal_next(struct ncf_flow *flow, const struct tcp_sock *tp,
		     bool acknowledged, struct ncf_signal *signal);

/* ncf_law.c */
bool ncf_law_due(const struct ncf_flow *flow, const struct ncf_signal *signal,
		 u64 now_us, u32 srtt_us);
u64 ncf_law_ssthresh(const struct ncf_params *params,
		     const struct ncf_signal *signal, u32 srtt_us,
		     u64 ssthresh);

/* ncf_params.c */
int ncf_params_register(struct net *net, struct ncf_net *nn);
void ncf_params_unregister(struct ncf_net *nn);

#endif /* _TCP_NCF_H */
