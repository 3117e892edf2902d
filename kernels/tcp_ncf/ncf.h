/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* TCP NCF: see ncf_main.c */
#ifndef _TCP_NCF_H
#define _TCP_NCF_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include <net/tcp.h>

#include "cc_flows.h"
#include "ncf_law.h"

#define NCF_WAITING	128	/* signals of a connection at most */
#define NCF_HASH_BITS	10

/* What became of a packet with NCF's option */
enum ncf_verdict {
	NCF_ACCEPTED,
	NCF_MALFORMED,
	NCF_CHECKSUM,
	NCF_NO_FLOWS,		/* N is 0 */
	NCF_TOO_FAST,		/* more capacity than most_kbps */
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

	u64 last_us;		/* of the last reaction */
	struct ncf_signal last;	/* N is 0: there was none */
	u32 reactions;
	u64 grew_us;		/* when a signal last made the window larger */
	u32 largest;		/* that the window has been, packets */
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

/* ncf_params.c */
int ncf_params_register(struct net *net, struct ncf_net *nn);
void ncf_params_unregister(struct ncf_net *nn);

#endif /* _TCP_NCF_H */
