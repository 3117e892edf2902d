// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP BBR: network namespaces, and /proc/net/<module> with their sockets
 *
 * Connections and the file are as cc_flows.c describes.
 */
#include <linux/math64.h>
#include <linux/proc_fs.h>
#include <linux/slab.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

#include "bbr.h"

/* What a module keeps for a network namespace: its connections, and for each
 * name of the congestion control the parameters
 */
struct bbr_net {
	struct cc_flows flows;
	struct bbr_params *params;	/* @own, or the module's own */
	struct bbr_params own[BBR_KINDS];
	struct ctl_table_header *sysctls[BBR_KINDS];
};

static unsigned int bbr_net_id __read_mostly;

static struct bbr_net *bbr_net(const struct net *net)
{
	return net_generic(net, bbr_net_id);
}

/**
 * bbr_flow_add() - make the record of a connection
 * @sk: a TCP socket, locked
 * @kind: the congestion control's name that it uses
 *
 * Return: false if there is no memory for it, or may be no record.
 */
bool bbr_flow_add(struct sock *sk, const struct bbr_kind *kind)
{
	struct bbr_net *bn = bbr_net(sock_net(sk));
	struct bbr *ca = inet_csk_ca(sk);
	struct bbr_flow *f;

	if (!cc_flow_may_have(sk))
		return false;
	f = kzalloc_obj(*f, GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT);
	if (!f)
		return false;
	memset(&ca->info, 0, sizeof(ca->info));
	ca->flow = f;
	f->law = &kind->law;
	f->params = &bn->params[kind - bbr_kinds];
	cc_flow_add(&bn->flows, &f->flow, sk);
	return true;
}

/* inet_diag prints payload per second, as it does for version 1. */
static void bbr_info_show(struct sock *sk, const struct bbr_flow *f)
{
	struct bbr *ca = inet_csk_ca(sk);
	u64 bw = (u64)bbr_bw(f) * tcp_sk(sk)->mss_cache;

	bw = mul_u64_u32_shr(bw, USEC_PER_SEC, BBR_BW_BITS);
	WRITE_ONCE(ca->info.bbr_bw_lo, (u32)bw);
	WRITE_ONCE(ca->info.bbr_bw_hi, bw >> 32);
	WRITE_ONCE(ca->info.bbr_min_rtt, f->min_rtt_us);
	WRITE_ONCE(ca->info.bbr_pacing_gain, f->pacing_gain);
	WRITE_ONCE(ca->info.bbr_cwnd_gain, f->cwnd_gain);
}

/**
 * bbr_flow_show() - copy what /proc and inet_diag print
 * @sk: a TCP socket, locked
 * @ack: the ACK that it processed last
 */
void bbr_flow_show(struct sock *sk, const struct bbr_ack *ack)
{
	struct bbr_flow *f = bbr_flow(sk);
	struct bbr_shown *shown = &f->shown;

	bbr_info_show(sk, f);
	WRITE_ONCE(shown->mss, tcp_sk(sk)->mss_cache);
	WRITE_ONCE(shown->max_bw, bbr_max_bw(f));
	WRITE_ONCE(shown->bw_lo, f->bw_lo);
	WRITE_ONCE(shown->inflight_lo, f->inflight_lo);
	WRITE_ONCE(shown->inflight_hi, f->inflight_hi);
	WRITE_ONCE(shown->min_rtt_us, f->min_rtt_us);
	WRITE_ONCE(shown->tx_in_flight, ack->tx_in_flight);
	WRITE_ONCE(shown->lost, ack->lost);
	WRITE_ONCE(shown->cycles, f->cycles);
	WRITE_ONCE(shown->missed, f->sent_missed);
	WRITE_ONCE(shown->pacing_gain, f->pacing_gain);
	WRITE_ONCE(shown->cwnd_gain, f->cwnd_gain);
	WRITE_ONCE(shown->alpha, f->alpha);
	WRITE_ONCE(shown->mode, f->mode);
	WRITE_ONCE(shown->phase, f->phase);
	WRITE_ONCE(shown->ecn_eligible, f->ecn_eligible);
}

/**
 * bbr_flow_remove() - end what bbr_flow_add() began
 * @sk: a TCP socket, locked
 */
void bbr_flow_remove(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);

	cc_flow_remove(&bbr_net(sock_net(sk))->flows, &ca->flow->flow);
	kfree_rcu(ca->flow, flow.rcu);
	ca->flow = NULL;
}

#ifdef CONFIG_PROC_FS
static void *bbr_seq_start(struct seq_file *seq, loff_t *pos)
	__acquires(RCU)
{
	return cc_seq_start(&bbr_net(seq_file_net(seq))->flows, *pos);
}

static void *bbr_seq_next(struct seq_file *seq, void *v, loff_t *pos)
{
	return cc_seq_next(&bbr_net(seq_file_net(seq))->flows, v, pos);
}

static void bbr_seq_stop(struct seq_file *seq, void *v)
	__releases(RCU)
{
	cc_seq_stop();
}

static const char *bbr_mode_name(enum bbr_mode mode)
{
	static const char *const names[] = {
		[BBR_STARTUP]	= "startup",
		[BBR_DRAIN]	= "drain",
		[BBR_PROBE_BW]	= "probe_bw",
		[BBR_PROBE_RTT]	= "probe_rtt",
	};

	return names[mode];
}

static const char *bbr_phase_name(enum bbr_mode mode, enum bbr_phase phase)
{
	static const char *const names[] = {
		[BBR_DOWN]	= "down",
		[BBR_CRUISE]	= "cruise",
		[BBR_REFILL]	= "refill",
		[BBR_UP]	= "up",
	};

	return mode == BBR_PROBE_BW ? names[phase] : "-";
}

/* B/s of payload */
static void bbr_seq_bw(struct seq_file *seq, u32 bw, u32 mss)
{
	if (bw == BBR_UNSET)
		seq_puts(seq, "- ");
	else
		seq_printf(seq, "%llu ",
			   mul_u64_u32_shr((u64)bw * mss, USEC_PER_SEC,
					   BBR_BW_BITS));
}

static void bbr_seq_bound(struct seq_file *seq, u32 value)
{
	if (value == BBR_UNSET)
		seq_puts(seq, "- ");
	else
		seq_printf(seq, "%u ", value);
}

static int bbr_seq_show(struct seq_file *seq, void *v)
{
	const struct bbr_shown *shown;
	const struct bbr_flow *f;
	u32 mss, max_bw, bw_lo;
	u8 mode;

	if (v == SEQ_START_TOKEN) {
		seq_puts(seq, "local remote mode phase bw max_bw bw_lo inflight_lo inflight_hi min_rtt_us pacing_gain cwnd_gain alpha tx_inflight tx_estimate lost lost_estimate cycles missed\n");
		return 0;
	}
	f = hlist_entry(v, struct bbr_flow, flow.node);
	shown = &f->shown;
	mss = READ_ONCE(shown->mss);
	if (!mss)
		return 0; /* not begun yet */
	max_bw = READ_ONCE(shown->max_bw);
	bw_lo = READ_ONCE(shown->bw_lo);
	mode = READ_ONCE(shown->mode);
	cc_seq_ends(seq, &f->flow);
	seq_printf(seq, "%s %s ", bbr_mode_name(mode),
		   bbr_phase_name(mode, READ_ONCE(shown->phase)));
	bbr_seq_bw(seq, min(max_bw, bw_lo), mss);
	bbr_seq_bw(seq, max_bw, mss);
	bbr_seq_bw(seq, bw_lo, mss);
	bbr_seq_bound(seq, READ_ONCE(shown->inflight_lo));
	bbr_seq_bound(seq, READ_ONCE(shown->inflight_hi));
	bbr_seq_bound(seq, READ_ONCE(shown->min_rtt_us));
	cc_seq_fraction(seq, READ_ONCE(shown->pacing_gain), BBR_BITS);
	cc_seq_fraction(seq, READ_ONCE(shown->cwnd_gain), BBR_BITS);
	if (READ_ONCE(shown->ecn_eligible))
		cc_seq_fraction(seq, READ_ONCE(shown->alpha), BBR_BITS);
	else
		seq_puts(seq, "- ");
	seq_printf(seq, "%u %u %u %u ", READ_ONCE(shown->tx_in_flight),
		   READ_ONCE(shown->tx_estimate), READ_ONCE(shown->lost),
		   READ_ONCE(shown->lost_estimate));
	seq_printf(seq, "%u %u\n", READ_ONCE(shown->cycles),
		   READ_ONCE(shown->missed));
	return 0;
}

static const struct seq_operations bbr_seq_ops = {
	.start	= bbr_seq_start,
	.next	= bbr_seq_next,
	.stop	= bbr_seq_stop,
	.show	= bbr_seq_show,
};
#endif /* CONFIG_PROC_FS */

static void bbr_sysctls_unregister(struct bbr_net *bn)
{
	int i;

	for (i = 0; i < BBR_KINDS; i++) {
		if (bn->sysctls[i])
			cc_sysctls_unregister(bn->sysctls[i]);
		bn->sysctls[i] = NULL;
	}
}

/* A new namespace starts with a copy of the first one's parameters. */
static int bbr_params_register(struct net *net, struct bbr_net *bn)
{
	int i;

	if (net_eq(net, &init_net)) {
		bn->params = bbr_module_params;
	} else {
		memcpy(bn->own, bbr_module_params, sizeof(bn->own));
		bn->params = bn->own;
	}
	if (!IS_ENABLED(CONFIG_SYSCTL))
		return 0;
	for (i = 0; i < BBR_KINDS; i++) {
		bn->sysctls[i] =
			cc_sysctls_register(net, bbr_kinds[i].name,
					    bbr_all_params, bbr_params_count,
					    &bn->params[i]);
		if (!bn->sysctls[i]) {
			bbr_sysctls_unregister(bn);
			return -ENOMEM;
		}
	}
	return 0;
}

static int __net_init bbr_net_init(struct net *net)
{
	struct bbr_net *bn = bbr_net(net);
	int error;

	cc_flows_init(&bn->flows);
	error = bbr_params_register(net, bn);
	if (error)
		return error;
#ifdef CONFIG_PROC_FS
	if (!proc_create_net(KBUILD_MODNAME, 0400, net->proc_net, &bbr_seq_ops,
			     sizeof(struct seq_net_private))) {
		bbr_sysctls_unregister(bn);
		return -ENOMEM;
	}
#endif
	return 0;
}

static void __net_exit bbr_net_exit(struct net *net)
{
	remove_proc_entry(KBUILD_MODNAME, net->proc_net);
	bbr_sysctls_unregister(bbr_net(net));
	cc_flows_exit(&bbr_net(net)->flows);
}

static struct pernet_operations bbr_net_ops = {
	.init	= bbr_net_init,
	.exit	= bbr_net_exit,
	.id	= &bbr_net_id,
	.size	= sizeof(struct bbr_net),
};

int __init bbr_net_register(void)
{
	return register_pernet_subsys(&bbr_net_ops);
}

void bbr_net_unregister(void)
{
	unregister_pernet_subsys(&bbr_net_ops);
}
