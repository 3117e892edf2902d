// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: network namespaces, and /proc/net/tcp_prague with their sockets
 *
 * The part of a connection's state that does not fit into icsk_ca_priv is in a
 * record of its own. The records of a network namespace are in a list, which
 * costs a lock when a connection begins and when it ends, and nothing between.
 *
 * /proc/net/tcp_prague has a line of names, then one line per socket; "-" is
 * no value. module.yml describes the columns to l4sbench. The reader holds the
 * list's lock, so no socket that it prints can be freed: release must take the
 * record off the list first. It does not lock the sockets, so the values of a
 * line may be of different ACKs.
 */
#include <linux/inet.h>
#include <linux/math64.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <net/ipv6.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

#include "prague.h"

#define PRAGUE_PROC_NAME	"tcp_prague"
#define PRAGUE_PARTS		1000000	/* six digits behind the point */

static unsigned int prague_net_id __read_mostly;

static struct prague_net *prague_net(const struct net *net)
{
	return net_generic(net, prague_net_id);
}

/**
 * prague_flow_add() - make the record of a connection
 * @sk: a TCP socket, locked
 *
 * Return: false if there is no memory for it.
 */
bool prague_flow_add(struct sock *sk)
{
	struct prague_net *pn = prague_net(sock_net(sk));
	struct prague *ca = inet_csk_ca(sk);
	struct prague_flow *flow;

	flow = kzalloc_obj(*flow, GFP_ATOMIC | __GFP_NOWARN);
	if (!flow)
		return false;
	flow->sk = sk;
	ca->flow = flow;
	ca->params = pn->params;
	/* Connections begin in softirq and in process context. */
	spin_lock_bh(&pn->lock);
	hlist_add_head(&flow->node, &pn->flows);
	spin_unlock_bh(&pn->lock);
	return true;
}

/**
 * prague_flow_remove() - end what prague_flow_add() began
 * @sk: a TCP socket, locked
 */
void prague_flow_remove(struct sock *sk)
{
	struct prague_net *pn = prague_net(sock_net(sk));
	struct prague *ca = inet_csk_ca(sk);

	spin_lock_bh(&pn->lock);
	hlist_del(&ca->flow->node);
	spin_unlock_bh(&pn->lock);
	kfree(ca->flow);
	ca->flow = NULL;
}

#ifdef CONFIG_PROC_FS
static void *prague_seq_start(struct seq_file *seq, loff_t *pos)
{
	struct prague_net *pn = prague_net(seq_file_net(seq));

	spin_lock_bh(&pn->lock);
	return seq_hlist_start_head(&pn->flows, *pos);
}

static void *prague_seq_next(struct seq_file *seq, void *v, loff_t *pos)
{
	return seq_hlist_next(v, &prague_net(seq_file_net(seq))->flows, pos);
}

static void prague_seq_stop(struct seq_file *seq, void *v)
{
	spin_unlock_bh(&prague_net(seq_file_net(seq))->lock);
}

static void prague_seq_end(struct seq_file *seq, const struct sock *sk,
			   bool local)
{
	const struct inet_sock *inet = inet_sk(sk);
	u16 port = ntohs(local ? inet->inet_sport : inet->inet_dport);

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		seq_printf(seq, "[%pI6c]:%u ",
			   local ? &sk->sk_v6_rcv_saddr : &sk->sk_v6_daddr,
			   port);
		return;
	}
#endif
	seq_printf(seq, "%pI4:%u ",
		   local ? &inet->inet_rcv_saddr : &inet->inet_daddr, port);
}

/* A number of which @bits are behind the point */
static void prague_seq_fraction(struct seq_file *seq, u64 value, int bits)
{
	u64 rest = value & (BIT_ULL(bits) - 1);

	seq_printf(seq, "%llu.%06llu ", value >> bits,
		   (rest * PRAGUE_PARTS) >> bits);
}

static int prague_seq_show(struct seq_file *seq, void *v)
{
	struct prague_flow *flow;
	const struct prague *ca;
	struct sock *sk;

	if (v == SEQ_START_TOKEN) {
		seq_puts(seq, "local remote segsize mode cwnd rate mss packet alpha score rtt_us mdev_us\n");
		return 0;
	}
	flow = hlist_entry(v, struct prague_flow, node);
	sk = flow->sk;
	ca = inet_csk_ca(sk);
	prague_seq_end(seq, sk, true);
	prague_seq_end(seq, sk, false);
	seq_printf(seq, "%s %s ", prague_segsizes[prague_scheme(sk)],
		   ca->rate_mode ? "rate" : "window");
	prague_seq_fraction(seq, READ_ONCE(ca->frac_cwnd), PRAGUE_CWND_BITS);
	seq_printf(seq, "%llu %u %u ", prague_rate(sk), ca->mss,
		   prague_mtu(sk));
	prague_seq_fraction(seq, prague_alpha(sk), PRAGUE_ALPHA_BITS);
	if (!flow->rtt_gain) {
		seq_puts(seq, "- - -\n");
		return 0;
	}
	prague_seq_fraction(seq, READ_ONCE(flow->score), PRAGUE_LOG_BITS);
	seq_printf(seq, "%u %u\n", prague_fallback_rtt(flow),
		   prague_fallback_mdev(flow));
	return 0;
}

static const struct seq_operations prague_seq_ops = {
	.start	= prague_seq_start,
	.next	= prague_seq_next,
	.stop	= prague_seq_stop,
	.show	= prague_seq_show,
};
#endif /* CONFIG_PROC_FS */

static int __net_init prague_net_init(struct net *net)
{
	struct prague_net *pn = prague_net(net);
	int error;

	spin_lock_init(&pn->lock);
	INIT_HLIST_HEAD(&pn->flows);
	error = prague_params_register(net, pn);
	if (error)
		return error;
#ifdef CONFIG_PROC_FS
	if (!proc_create_net(PRAGUE_PROC_NAME, 0444, net->proc_net,
			     &prague_seq_ops, sizeof(struct seq_net_private))) {
		prague_params_unregister(pn);
		return -ENOMEM;
	}
#endif
	return 0;
}

static void __net_exit prague_net_exit(struct net *net)
{
	remove_proc_entry(PRAGUE_PROC_NAME, net->proc_net);
	prague_params_unregister(prague_net(net));
}

static struct pernet_operations prague_net_ops = {
	.init	= prague_net_init,
	.exit	= prague_net_exit,
	.id	= &prague_net_id,
	.size	= sizeof(struct prague_net),
};

int __init prague_net_register(void)
{
	return register_pernet_subsys(&prague_net_ops);
}

void prague_net_unregister(void)
{
	unregister_pernet_subsys(&prague_net_ops);
}
