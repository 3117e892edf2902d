// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP NCF: network namespaces, their connections, and what /proc/net shows
 *
 * /proc/net/tcp_ncf has a line per socket, as cc_flows.c describes;
 * /proc/net/ncf_signals has how many packets with NCF's option came, by
 * what became of them: to root alone, since who makes up signals would learn
 * from it what a connection has in flight.
 */
#include <linux/jhash.h>
#include <linux/once.h>
#include <linux/proc_fs.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

#include "ncf.h"

#define NCF_PROC_NAME		"tcp_ncf"
#define NCF_PROC_SIGNALS	"ncf_signals"

static unsigned int ncf_net_id __read_mostly;

struct ncf_net *ncf_net(const struct net *net)
{
	return net_generic(net, ncf_net_id);
}

/* Seeded, so that nobody can make all connections share a list */
static u32 ncf_ends_hash(const struct ncf_ends *ends)
{
	static u32 seed __read_mostly;
	u32 ports = (__force u32)ends->local_port << 16 |
		    (__force u32)ends->remote_port;

	net_get_random_once(&seed, sizeof(seed));
	return jhash_3words((__force u32)ends->local,
			    (__force u32)ends->remote, ports, seed) >>
	       (32 - NCF_HASH_BITS);
}

static bool ncf_ends_equal(const struct ncf_ends *a, const struct ncf_ends *b)
{
	return a->local == b->local && a->remote == b->remote &&
	       a->local_port == b->local_port &&
	       a->remote_port == b->remote_port;
}

/**
 * ncf_flow_find() - look a connection up
 * @nn: its network namespace
 * @ends: its addresses and ports
 *
 * The caller is in an RCU read-side critical section.
 */
struct ncf_flow *ncf_flow_find(const struct ncf_net *nn,
			       const struct ncf_ends *ends)
{
	struct ncf_flow *flow;

	hlist_for_each_entry_rcu(flow, &nn->by_ends[ncf_ends_hash(ends)],
				 by_ends)
		if (ncf_ends_equal(&flow->ends, ends))
			return flow;
	return NULL;
}

/**
 * ncf_flow_add() - make the record of a connection
 * @sk: a TCP socket, locked
 *
 * Return: NULL if there is no memory for it, or may be no record.
 */
struct ncf_flow *ncf_flow_add(struct sock *sk)
{
	struct ncf_net *nn = ncf_net(sock_net(sk));
	struct ncf_flow *flow;

	if (!cc_flow_may_have(sk))
		return NULL;
	flow = kzalloc_obj(*flow, GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT);
	if (!flow)
		return NULL;
	spin_lock_init(&flow->lock);
	flow->sk = sk;
	flow->params = nn->params;
	flow->ends = (struct ncf_ends) {
		.local = sk->sk_rcv_saddr,
		.remote = sk->sk_daddr,
		.local_port = inet_sk(sk)->inet_sport,
		.remote_port = sk->sk_dport,
	};
	cc_flow_add(&nn->flows, &flow->flow, sk);
	spin_lock_bh(&nn->flows.lock);
	hlist_add_head_rcu(&flow->by_ends,
			   &nn->by_ends[ncf_ends_hash(&flow->ends)]);
	spin_unlock_bh(&nn->flows.lock);
	return flow;
}

/**
 * ncf_flow_remove() - end what ncf_flow_add() began
 * @sk: a TCP socket, locked
 * @flow: its record
 */
void ncf_flow_remove(struct sock *sk, struct ncf_flow *flow)
{
	struct ncf_net *nn = ncf_net(sock_net(sk));

	/* From here on nobody looks at the socket through the record. */
	spin_lock_bh(&flow->lock);
	flow->gone = true;
	spin_unlock_bh(&flow->lock);
	spin_lock_bh(&nn->flows.lock);
	hlist_del_rcu(&flow->by_ends);
	spin_unlock_bh(&nn->flows.lock);
	cc_flow_remove(&nn->flows, &flow->flow);
	kfree_rcu(flow, flow.rcu);
}

#ifdef CONFIG_PROC_FS
static void *ncf_seq_start(struct seq_file *seq, loff_t *pos)
	__acquires(RCU)
{
	return cc_seq_start(&ncf_net(seq_file_net(seq))->flows, *pos);
}

static void *ncf_seq_next(struct seq_file *seq, void *v, loff_t *pos)
{
	return cc_seq_next(&ncf_net(seq_file_net(seq))->flows, v, pos);
}

static void ncf_seq_stop(struct seq_file *seq, void *v)
	__releases(RCU)
{
	cc_seq_stop();
}

static int ncf_seq_show(struct seq_file *seq, void *v)
{
	const struct ncf_flow *flow;
	u32 reactions;

	if (v == SEQ_START_TOKEN) {
		seq_puts(seq, "local remote signals refused reactions flows capacity crowded\n");
		return 0;
	}
	flow = hlist_entry(v, struct ncf_flow, flow.node);
	reactions = READ_ONCE(flow->reactions);
	cc_seq_ends(seq, &flow->flow);
	seq_printf(seq, "%u %u %u ", READ_ONCE(flow->accepted),
		   READ_ONCE(flow->refused), reactions);
	if (reactions)
		seq_printf(seq, "%u %llu %u\n", READ_ONCE(flow->last.flows),
			   READ_ONCE(flow->last.capacity_kbps) * 1000ULL,
			   READ_ONCE(flow->last.mice_crowded));
	else
		seq_puts(seq, "- - -\n");
	return 0;
}

static const struct seq_operations ncf_seq_ops = {
	.start	= ncf_seq_start,
	.next	= ncf_seq_next,
	.stop	= ncf_seq_stop,
	.show	= ncf_seq_show,
};

static const char *const ncf_verdict_names[NCF_VERDICTS] = {
	[NCF_ACCEPTED]		= "accepted",
	[NCF_MALFORMED]		= "malformed",
	[NCF_CHECKSUM]		= "checksum",
	[NCF_NO_FLOWS]		= "no_flows",
	[NCF_TOO_FAST]		= "too_fast",
	[NCF_UNKNOWN]		= "unknown",
	[NCF_NOT_ESTABLISHED]	= "not_established",
	[NCF_STALE]		= "stale",
	[NCF_AHEAD]		= "ahead",
	[NCF_REPLAYED]		= "replayed",
	[NCF_TOO_MANY]		= "too_many",
};

static int ncf_signals_show(struct seq_file *seq, void *v)
{
	const struct ncf_net *nn = ncf_net(seq_file_single_net(seq));

	for (int i = 0; i < NCF_VERDICTS; i++)
		seq_printf(seq, "%s %lld\n", ncf_verdict_names[i],
			   atomic64_read(&nn->verdicts[i]));
	return 0;
}

static int ncf_proc_register(struct net *net)
{
	if (!proc_create_net(NCF_PROC_NAME, 0400, net->proc_net, &ncf_seq_ops,
			     sizeof(struct seq_net_private)))
		return -ENOMEM;
	if (proc_create_net_single(NCF_PROC_SIGNALS, 0400, net->proc_net,
				   ncf_signals_show, NULL))
		return 0;
	remove_proc_entry(NCF_PROC_NAME, net->proc_net);
	return -ENOMEM;
}

static void ncf_proc_unregister(struct net *net)
{
	remove_proc_entry(NCF_PROC_SIGNALS, net->proc_net);
	remove_proc_entry(NCF_PROC_NAME, net->proc_net);
}
#else
static int ncf_proc_register(struct net *net)
{
	return 0;
}

static void ncf_proc_unregister(struct net *net)
{
}
#endif /* CONFIG_PROC_FS */

static int __net_init ncf_net_init(struct net *net)
{
	struct ncf_net *nn = ncf_net(net);
	int error;

	cc_flows_init(&nn->flows);
	error = ncf_params_register(net, nn);
	if (error)
		return error;
	error = ncf_proc_register(net);
	if (error)
		goto params;
	error = ncf_hook_register(net);
	if (error)
		goto proc;
	return 0;
proc:
	ncf_proc_unregister(net);
params:
	ncf_params_unregister(nn);
	return error;
}

/* A grace period passes between this and the exit: no hook runs then. */
static void __net_exit ncf_net_pre_exit(struct net *net)
{
	ncf_hook_unregister(net);
}

static void __net_exit ncf_net_exit(struct net *net)
{
	ncf_proc_unregister(net);
	ncf_params_unregister(ncf_net(net));
	cc_flows_exit(&ncf_net(net)->flows);
}

static struct pernet_operations ncf_net_ops = {
	.init		= ncf_net_init,
	.pre_exit	= ncf_net_pre_exit,
	.exit		= ncf_net_exit,
	.id		= &ncf_net_id,
	.size		= sizeof(struct ncf_net),
};

int __init ncf_net_register(void)
{
	return register_pernet_subsys(&ncf_net_ops);
}

void ncf_net_unregister(void)
{
	unregister_pernet_subsys(&ncf_net_ops);
}
