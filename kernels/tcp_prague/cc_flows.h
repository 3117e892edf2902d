/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* The connections of a network namespace, for a file in /proc/net */
#ifndef _CC_FLOWS_H
#define _CC_FLOWS_H

#include <linux/in6.h>
#include <linux/rculist.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <net/sock.h>

/* One end of a connection */
struct cc_end {
	union {
		__be32 v4;
		struct in6_addr v6;
	};
	u16 port;
};

/* What records of all congestion controls begin with. The list is walked under
 * RCU, so a record is freed after a grace period.
 */
struct cc_flow {
	struct hlist_node node;
	struct rcu_head rcu;
	struct cc_end local;
	struct cc_end remote;
	bool ipv6;
};

/* Records point into what is kept for a network namespace. A socket of the kernel
 * may have no reference to its namespace, and so outlive that.
 */
static inline bool cc_flow_may_have(const struct sock *sk)
{
	return sk->sk_net_refcnt;
}

struct cc_flows {
	spinlock_t lock;		/* of those who change @head */
	struct hlist_head head;
};

void cc_flows_init(struct cc_flows *flows);
void cc_flows_exit(const struct cc_flows *flows);
void cc_flow_add(struct cc_flows *flows, struct cc_flow *flow,
		 const struct sock *sk);
void cc_flow_remove(struct cc_flows *flows, struct cc_flow *flow);

void *cc_seq_start(struct cc_flows *flows, loff_t pos);
void *cc_seq_next(struct cc_flows *flows, void *v, loff_t *pos);
void cc_seq_stop(void);
void cc_seq_ends(struct seq_file *seq, const struct cc_flow *flow);
void cc_seq_fraction(struct seq_file *seq, u64 value, int bits);

#endif /* _CC_FLOWS_H */
