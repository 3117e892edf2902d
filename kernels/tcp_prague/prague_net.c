// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: network namespaces, and /proc/net/tcp_prague with their sockets
 *
 * Connections and the file are as cc_flows.c describes.
 */
#include <linux/math64.h>
#include <linux/proc_fs.h>
#include <linux/slab.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

#include "prague.h"

#define PRAGUE_PROC_NAME	"tcp_prague"

static unsigned int prague_net_id __read_mostly;

static struct prague_net *prague_net(const struct net *net)
{
	return net_generic(net, prague_net_id);
}

/**
 * prague_flow_add() - make the record of a connection
 * @sk: a TCP socket, locked
 *
 * Return: false if there is no memory for it, or may be no record.
 */
bool prague_flow_add(struct sock *sk)
{
	struct prague_net *pn = prague_net(sock_net(sk));
	struct prague *ca = inet_csk_ca(sk);
	struct prague_flow *flow;

	if (!cc_flow_may_have(sk))
		return false;
	flow = kzalloc_obj(*flow, GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT);
	if (!flow)
		return false;
	ca->flow = flow;
	ca->params = pn->params;
	cc_flow_add(&pn->flows, &flow->flow, sk);
	return true;
}

/**
 * prague_flow_show() - copy what /proc prints into the record
 * @sk: a TCP socket, locked
 */
void prague_flow_show(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	struct prague_flow *flow = ca->flow;
	struct prague_shown *shown = &flow->shown;

	WRITE_ONCE(shown->frac_cwnd, ca->frac_cwnd);
	WRITE_ONCE(shown->rate, ca->rate);
	WRITE_ONCE(shown->srtt, prague_srtt(sk));
	WRITE_ONCE(shown->alpha, prague_alpha(sk));
	WRITE_ONCE(shown->mss, ca->mss);
	WRITE_ONCE(shown->mtu, prague_mtu(sk));
	WRITE_ONCE(shown->segsize, prague_scheme(sk));
	WRITE_ONCE(shown->rate_mode, ca->rate_mode);
	if (!flow->rtt_gain)
		return;
	WRITE_ONCE(shown->score, flow->score);
	WRITE_ONCE(shown->rtt_us, prague_fallback_rtt(flow));
	WRITE_ONCE(shown->mdev_us, prague_fallback_mdev(flow));
}

/**
 * prague_flow_remove() - end what prague_flow_add() began
 * @sk: a TCP socket, locked
 */
void prague_flow_remove(struct sock *sk)
{
	struct prague_net *pn = prague_net(sock_net(sk));
	struct prague *ca = inet_csk_ca(sk);

	cc_flow_remove(&pn->flows, &ca->flow->flow);
	kfree_rcu(ca->flow, flow.rcu);
	ca->flow = NULL;
}

#ifdef CONFIG_PROC_FS
static void *prague_seq_start(struct seq_file *seq, loff_t *pos)
	__acquires(RCU)
{
	return cc_seq_start(&prague_net(seq_file_net(seq))->flows, *pos);
}

static void *prague_seq_next(struct seq_file *seq, void *v, loff_t *pos)
{
	return cc_seq_next(&prague_net(seq_file_net(seq))->flows, v, pos);
}

static void prague_seq_stop(struct seq_file *seq, void *v)
	__releases(RCU)
{
	cc_seq_stop();
}

static int prague_seq_show(struct seq_file *seq, void *v)
{
	const struct prague_shown *shown;
	const struct prague_flow *flow;
	u32 mtu, rtt_us;
	u64 cwnd, rate;

	if (v == SEQ_START_TOKEN) {
		seq_puts(seq, "local remote segsize mode cwnd rate mss packet alpha score rtt_us mdev_us\n");
		return 0;
	}
	flow = hlist_entry(v, struct prague_flow, flow.node);
	shown = &flow->shown;
	mtu = READ_ONCE(shown->mtu);
	if (!mtu)
		return 0; /* not begun yet */
	cwnd = READ_ONCE(shown->frac_cwnd);
	cc_seq_ends(seq, &flow->flow);
	seq_printf(seq, "%s ", prague_segsizes[READ_ONCE(shown->segsize)]);
	if (READ_ONCE(shown->rate_mode)) {
		rate = READ_ONCE(shown->rate);
		seq_puts(seq, "rate ");
	} else {
		rate = prague_window_over(cwnd * mtu, READ_ONCE(shown->srtt));
		seq_puts(seq, "window ");
	}
	cc_seq_fraction(seq, cwnd, PRAGUE_CWND_BITS);
	seq_printf(seq, "%llu %u %u ", rate, READ_ONCE(shown->mss), mtu);
	cc_seq_fraction(seq, READ_ONCE(shown->alpha), PRAGUE_ALPHA_BITS);
	rtt_us = READ_ONCE(shown->rtt_us);
	if (!rtt_us) {
		seq_puts(seq, "- - -\n");
		return 0;
	}
	cc_seq_fraction(seq, READ_ONCE(shown->score), PRAGUE_LOG_BITS);
	seq_printf(seq, "%u %u\n", rtt_us, READ_ONCE(shown->mdev_us));
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

	cc_flows_init(&pn->flows);
	error = prague_params_register(net, pn);
	if (error)
		return error;
#ifdef CONFIG_PROC_FS
	if (!proc_create_net(PRAGUE_PROC_NAME, 0400, net->proc_net,
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
	cc_flows_exit(&prague_net(net)->flows);
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
