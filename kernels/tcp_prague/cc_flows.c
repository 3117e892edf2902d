// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* The connections of a network namespace, for a file in /proc/net
 *
 * The part of a connection's state that does not fit into icsk_ca_priv is in a
 * record of its own. The records of a network namespace are in a list, which
 * costs a lock when a connection begins and when it ends.
 *
 * The file has a line of names, then one line per socket; "-" is no value.
 * module.yml describes the columns to l4sbench. The reader walks the list under
 * RCU and reads records alone, never sockets: what it prints of a connection is
 * copied into the record at the end of each ACK.
 */
#include <linux/inet.h>
#include <net/ipv6.h>

#include "cc_flows.h"

#define CC_PARTS	1000000	/* six digits behind the point */

static void cc_end_set(struct cc_end *end, const struct sock *sk, bool local)
{
	const struct inet_sock *inet = inet_sk(sk);

	end->port = ntohs(local ? inet->inet_sport : inet->inet_dport);
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		end->v6 = local ? sk->sk_v6_rcv_saddr : sk->sk_v6_daddr;
		return;
	}
#endif
	end->v4 = local ? inet->inet_rcv_saddr : inet->inet_daddr;
}

void cc_flows_init(struct cc_flows *flows)
{
	spin_lock_init(&flows->lock);
	INIT_HLIST_HEAD(&flows->head);
}

/* When the network namespace ends, after its last socket */
void cc_flows_exit(const struct cc_flows *flows)
{
	WARN_ON(!hlist_empty(&flows->head));
}

/**
 * cc_flow_add() - name a connection and put it into the list
 * @flows: those of its network namespace
 * @flow: its record
 * @sk: its socket, locked
 */
void cc_flow_add(struct cc_flows *flows, struct cc_flow *flow,
		 const struct sock *sk)
{
	flow->ipv6 = sk->sk_family == AF_INET6;
	cc_end_set(&flow->local, sk, true);
	cc_end_set(&flow->remote, sk, false);
	/* Connections begin in softirq and in process context. */
	spin_lock_bh(&flows->lock);
	hlist_add_head_rcu(&flow->node, &flows->head);
	spin_unlock_bh(&flows->lock);
}

/**
 * cc_flow_remove() - take a connection out of the list
 * @flows: those of its network namespace
 * @flow: its record, to be freed after a grace period
 */
void cc_flow_remove(struct cc_flows *flows, struct cc_flow *flow)
{
	spin_lock_bh(&flows->lock);
	hlist_del_rcu(&flow->node);
	spin_unlock_bh(&flows->lock);
}

void *cc_seq_start(struct cc_flows *flows, loff_t pos)
	__acquires(RCU)
{
	rcu_read_lock();
	return seq_hlist_start_head_rcu(&flows->head, pos);
}

void *cc_seq_next(struct cc_flows *flows, void *v, loff_t *pos)
{
	return seq_hlist_next_rcu(v, &flows->head, pos);
}

void cc_seq_stop(void)
	__releases(RCU)
{
	rcu_read_unlock();
}

static void cc_seq_end(struct seq_file *seq, const struct cc_end *end,
		       bool ipv6)
{
	if (ipv6)
		seq_printf(seq, "[%pI6c]:%u ", &end->v6, end->port);
	else
		seq_printf(seq, "%pI4:%u ", &end->v4, end->port);
}

void cc_seq_ends(struct seq_file *seq, const struct cc_flow *flow)
{
	cc_seq_end(seq, &flow->local, flow->ipv6);
	cc_seq_end(seq, &flow->remote, flow->ipv6);
}

/* A number of which @bits are behind the point */
void cc_seq_fraction(struct seq_file *seq, u64 value, int bits)
{
	u64 rest = value & (BIT_ULL(bits) - 1);

	seq_printf(seq, "%llu.%06llu ", value >> bits,
		   (rest * CC_PARTS) >> bits);
}
