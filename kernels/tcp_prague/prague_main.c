// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague congestion control, for unpatched Linux >= 7.0
 *
 * A scalable congestion control for the L4S service (RFC 9330): it marks its
 * packets ECT(1) (RFC 9331), expects a queue that marks early and often, such
 * as a Dual-Queue Coupled AQM (RFC 9332), and reduces in proportion to the
 * marks that AccECN (RFC 9768) counts for it. The algorithm is that of
 * draft-briscoe-iccrg-prague-congestion-control, in the form of the Linux
 * implementation's version 0.7. (prague_version selects earlier ones; what is
 * said here holds for 0.7.)
 *
 * Rounds and alpha. A round ends when the data outstanding at its start is
 * acknowledged, and lasts at least one virtual RTT (25 ms). alpha is an
 * average of the marked fraction F of each round:
 *
 *	alpha += (F - alpha) / 16
 *
 * Congestion experienced. At the first mark of a window, and at most once
 * in a virtual RTT:
 *
 *	W -= W * alpha / 2
 *
 * The first mark of a connection halves the window and ends slow start.
 *
 * Increase. For each packet delivered without a mark:
 *
 *	W += (srtt / 25 ms)^2 / W	where srtt < 25 ms
 *	W += 1 / W			elsewhere
 *
 * so that a flow adds one packet of 1500 B per 25 ms to what it sends in
 * 25 ms, whatever its RTT. Together with the reductions this settles near
 *
 *	rate = (1 / p - 1) Mbit/s	for marking probability p, RTT <= 25 ms
 *
 * Loss. Halve once per recovery, and at each timeout for which the core asks
 * for a new ssthresh; restore what was halved on undo.
 *
 * Window and rate. W has a fraction, and determines the pacing rate. A window
 * of four packets or less is too coarse: the pacing rate then becomes the
 * variable that is increased and reduced, in the same proportions, and the
 * window follows from it. The rate swings by 3 % to either side so that the
 * flow keeps probing.
 *
 * Bursts are limited to 1/4096 s of the pacing rate, or one packet. Packets
 * shrink at low rates, by one of several schemes: see prague_size.c. A queue
 * that marks as in RFC 3168 can be detected by its delay, and then gets larger
 * reductions: see prague_fallback.c.
 */
#include <linux/inet_diag.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <net/tcp.h>
#include <net/tcp_ecn.h>

#include "prague.h"

static struct tcp_congestion_ops prague_reno;

/* The core calls some functions before init(): for the ACK of the SYN, and when
 * a SYN is lost. They have no state then, and do nothing.
 */
static bool prague_began(const struct sock *sk)
{
	return prague_flow(sk);
}

/* prague_enter_cwr() and prague_enter_loss() make the reductions. */
static u32 prague_ssthresh(struct sock *sk)
{
	if (prague_began(sk))
		prague_fallback_gain(sk);
	return tcp_sk(sk)->snd_ssthresh;
}

static void prague_set_state(struct sock *sk, u8 new_state)
{
	struct prague *ca = inet_csk_ca(sk);

	if (!prague_began(sk) || new_state == inet_csk(sk)->icsk_ca_state)
		return;
	switch (new_state) {
	case TCP_CA_Open:
		ca->in_loss = 0;
		break;
	case TCP_CA_CWR:
		prague_enter_cwr(sk);
		break;
	case TCP_CA_Recovery:
		prague_enter_loss(sk);
		break;
	case TCP_CA_Loss:
		/* A timeout that follows marks in one window: the core raises
		 * no CA_EVENT_LOSS then.
		 */
		if (!ca->in_loss && prague_version_of(sk) == PRAGUE_VERSION_07)
			prague_enter_loss(sk);
		break;
	default:
		break;
	}
}

static void prague_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_LOSS && prague_began(sk))
		prague_enter_loss(sk);
}

static void prague_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	if (sample->rtt_us > 0 && prague_began(sk))
		prague_fallback_sample(sk, sample->rtt_us);
}

static u32 prague_undo_cwnd(struct sock *sk)
{
	if (prague_began(sk))
		return prague_undo(sk);
	return tcp_snd_cwnd(tcp_sk(sk));
}

static u32 prague_min_tso_segs(struct sock *sk)
{
	if (prague_began(sk))
		return prague_burst(sk);
	return prague_core_burst(sk);
}

/* Rounds and alpha */

static void prague_start_round(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->next_seq = tp->snd_nxt;
	ca->round_delivered = tp->delivered;
	ca->round_delivered_ce = tp->delivered_ce;
	ca->alpha_stamp = tp->tcp_mstamp;
}

static void prague_update_alpha(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 delivered = tp->delivered - ca->round_delivered;
	u32 marked = tp->delivered_ce - ca->round_delivered_ce;
	u32 fraction = 0;

	/* Feedback includes marks of pure ACKs: limit it to what was delivered */
	if (delivered)
		fraction = div_u64((u64)min(marked, delivered) <<
				   PRAGUE_ALPHA_BITS, delivered);
	/* 16 alpha += F - alpha; diag reads it without the lock */
	WRITE_ONCE(ca->alpha,
		   min(ca->alpha - (ca->alpha >> PRAGUE_GAIN_SHIFT) + fraction,
		       PRAGUE_ALPHA_ONE << PRAGUE_GAIN_SHIFT));
}

static void prague_check_round(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (before(tp->snd_una, ca->next_seq))
		return;
	if (prague_rtt_independent(sk) &&
	    tcp_stamp_us_delta(tp->tcp_mstamp, ca->alpha_stamp) <
	    prague_target(sk))
		return;

	ca->hsrtt -= ca->hsrtt >> PRAGUE_HSRTT_SHIFT;
	ca->hsrtt += prague_srtt(sk);
	if (ca->saw_ce) {
		prague_update_alpha(sk);
		prague_fallback_update(sk);
		prague_end_round(sk, tp->delivered_ce != ca->round_delivered_ce);
	}
	prague_update_mss(sk);
	if (!tcp_in_slow_start(tp))
		ca->round++;
	prague_start_round(sk);
}

/* ACK processing */

static bool prague_wants_rate_mode(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	/* Slow start and what follows it are in window mode. */
	if (!prague_rtt_independent(sk))
		return false;
	switch (READ_ONCE(ca->params->cwnd_mode)) {
	case PRAGUE_MODE_WINDOW:
		return false;
	case PRAGUE_MODE_RATE:
		return true;
	default:
		return ca->saw_ce &&
		       (u64)tcp_snd_cwnd(tp) * prague_mtu(sk) <=
		       READ_ONCE(ca->params->cwnd_transit) * PRAGUE_REF_MTU;
	}
}

static void prague_choose_mode(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	bool rate_mode = prague_wants_rate_mode(sk);

	if (rate_mode != ca->rate_mode)
		ca->ai_rest = 0;
	/* The rate continues unbroken in both directions. */
	if (rate_mode && !ca->rate_mode)
		ca->rate = prague_window_to_rate(sk);
	else if (!rate_mode && ca->rate_mode)
		ca->frac_cwnd = prague_rate_to_cwnd(sk, (u64)prague_srtt(sk) <<
						    PRAGUE_HSRTT_SHIFT);
	ca->rate_mode = rate_mode;
	if (rate_mode)
		ca->frac_cwnd = prague_rate_mode_cwnd(sk);
}

/* At most one packet per ACK, so that the ACK clock never stops */
static void prague_update_cwnd(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_snd_cwnd(tp);
	u32 target = prague_cwnd(sk);

	if (cwnd < target) {
		tcp_snd_cwnd_set(tp, cwnd + 1);
	} else if (cwnd > target) {
		tcp_snd_cwnd_set(tp, cwnd - 1);
		if (!ca->in_loss || prague_version_of(sk) != PRAGUE_VERSION_07)
			WRITE_ONCE(tp->snd_ssthresh, cwnd - 1);
	}
}

static void prague_fall_back(struct sock *sk);

static void prague_cong_control(struct sock *sk, u32 ack, int flag,
				const struct rate_sample *rs)
{
	struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 marked = tp->delivered_ce - ca->acked_ce;
	bool settled;

	if (!prague_began(sk))
		return;
	/* Prague was set before the handshake ended, and it ended without
	 * AccECN; or IPV6_ADDRFORM gave the socket operations of a kind that
	 * xmit_hook.c cannot copy.
	 */
	if (unlikely(!tcp_ecn_mode_accecn(tp) || !xmit_hook_enable(sk))) {
		prague_fall_back(sk);
		return;
	}
	prague_track_mss(sk);
	ca->acked_ce = tp->delivered_ce;
	if (marked && !ca->saw_ce)
		prague_first_ce(sk);
	/* Marks of pure ACKs are not delivered packets */
	settled = prague_increase(sk, rs->acked_sacked -
				      min(marked, rs->acked_sacked));
	prague_check_round(sk);
	prague_choose_mode(sk);
	if (!settled)
		prague_update_cwnd(sk);
	prague_update_pacing(sk);
	prague_flow_show(sk);
}

static size_t prague_get_info(struct sock *sk, u32 ext, int *attr,
			      union tcp_cc_info *info)
{
	const struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct tcp_dctcp_info *dctcp = &info->dctcp;

	/* The inet_diag ABI has no record for Prague; DCTCP's has the same
	 * meaning. VEGASINFO requests the record of any congestion control.
	 */
	if (!(ext & (BIT(INET_DIAG_DCTCPINFO - 1) |
		     BIT(INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(dctcp, 0, sizeof(*dctcp));
	dctcp->dctcp_enabled = 1;
	dctcp->dctcp_ce_state = ca->saw_ce;
	/* DCTCP's alpha has 10 bits */
	dctcp->dctcp_alpha = prague_alpha(sk) >> (PRAGUE_ALPHA_BITS - 10);
	dctcp->dctcp_ab_ecn = tp->mss_cache *
			      (tp->delivered_ce - ca->round_delivered_ce);
	dctcp->dctcp_ab_tot = tp->mss_cache *
			      (tp->delivered - ca->round_delivered);
	*attr = INET_DIAG_DCTCPINFO;
	return sizeof(*dctcp);
}

/* All packets are ECT(1). */
void xmit_hook_packet(struct sock *sk, const struct sk_buff *skb)
{
	xmit_hook_ect1(sk);
}

/* Beginning and end */

/* The state of prague-reno: what it replaces */
struct prague_replaced {
	const struct tcp_congestion_ops *ops;
};

/* Without AccECN there is no count of marks: become a plain Reno. Without
 * ECT(1), as queues must not treat the flow as L4S either.
 */
static void prague_to_reno(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct prague_replaced *replaced = inet_csk_ca(sk);

	memset(icsk->icsk_ca_priv, 0, sizeof(icsk->icsk_ca_priv));
	replaced->ops = icsk->icsk_ca_ops;
	WRITE_ONCE(icsk->icsk_ca_ops, &prague_reno);
	INET_ECN_dontxmit(sk);
}

/* The next connection of the socket may have AccECN. */
static void prague_from_reno(struct sock *sk)
{
	const struct prague_replaced *replaced = inet_csk_ca(sk);

	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, replaced->ops);
}

static void prague_init(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	/* setsockopt() may come while AccECN is still being negotiated. */
	if ((!tcp_ecn_mode_accecn(tp) && !tcp_ecn_mode_pending(tp)) ||
	    !xmit_hook_enable(sk) || !prague_flow_add(sk)) {
		xmit_hook_disable(sk);
		prague_to_reno(sk);
		return;
	}

	ca->pmtu = inet_csk(sk)->icsk_pmtu_cookie;
	ca->mss = tp->mss_cache;
	ca->mss_max = ca->mss;
	ca->frac_cwnd = prague_bound_cwnd(sk, tcp_snd_cwnd(tp) *
					      PRAGUE_CWND_ONE);
	ca->hsrtt = (u64)prague_srtt(sk) << PRAGUE_HSRTT_SHIFT;
	if (READ_ONCE(ca->params->alpha_mode))
		ca->alpha = PRAGUE_ALPHA_ONE << PRAGUE_GAIN_SHIFT;
	ca->acked_ce = tp->delivered_ce;
	ca->cwr_stamp = tp->tcp_mstamp;
	prague_start_round(sk);

	ca->burst = 1;
	ca->gso_max = sk->sk_gso_max_segs;
	ca->gso_set = ca->gso_max;
	ca->paced = cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE,
			    SK_PACING_NEEDED) == SK_PACING_NONE;
	prague_update_pacing(sk);
	prague_flow_show(sk);
}

/* Restore everything that only Prague understands. */
static void prague_release(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	prague_flow_remove(sk);
	xmit_hook_disable(sk);
	if (tp->mss_cache == ca->mss)
		tp->mss_cache = ca->mss_max;
	if (sk->sk_gso_max_segs == ca->gso_set)
		sk->sk_gso_max_segs = ca->gso_max;
	if (ca->paced && sk->sk_max_pacing_rate == ~0UL)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED,
			SK_PACING_NONE);
}

static void prague_fall_back(struct sock *sk)
{
	prague_release(sk);
	prague_to_reno(sk);
}

static const struct tcp_congestion_ops prague_ops = {
	.init		= prague_init,
	.release	= prague_release,
	.cong_control	= prague_cong_control,
	.ssthresh	= prague_ssthresh,
	.undo_cwnd	= prague_undo_cwnd,
	.set_state	= prague_set_state,
	.cwnd_event	= prague_cwnd_event,
	.pkts_acked	= prague_pkts_acked,
	.min_tso_segs	= prague_min_tso_segs,
	.get_info	= prague_get_info,
	.flags		= TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN |
			  TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION |
			  TCP_CONG_NO_FALLBACK_RFC3168,
	.owner		= THIS_MODULE,
};

/* Not registered: it replaces prague on a socket, which keeps its reference to
 * the module.
 */
static struct tcp_congestion_ops prague_reno __read_mostly = {
	.release	= prague_from_reno,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "prague-reno",
};

/* A congestion control sees no socket options, but a socket (or route) chooses
 * one by name. So each scheme for the segment size has a name. The first is
 * "prague", which follows the parameter.
 */
static struct prague_kind prague_kinds[1 + PRAGUE_SEGSIZES] __read_mostly;

static int __init prague_register_kind(struct prague_kind *kind, int segsize)
{
	kind->segsize = segsize;
	kind->ops = prague_ops;
	if (segsize < 0)
		strscpy(kind->ops.name, "prague");
	else
		snprintf(kind->ops.name, sizeof(kind->ops.name), "prague-%s",
			 prague_segsizes[segsize]);
	return tcp_register_congestion_control(&kind->ops);
}

static int __init prague_register(void)
{
	int done, registered, error;

	BUILD_BUG_ON(sizeof(struct prague) > ICSK_CA_PRIV_SIZE);

	error = xmit_hook_prepare();
	if (error)
		return error;
	error = prague_net_register();
	if (error)
		goto discard;
	for (done = 0; done < ARRAY_SIZE(prague_kinds); done++) {
		error = prague_register_kind(&prague_kinds[done], done - 1);
		if (error)
			goto undo;
	}
	return 0;
undo:
	registered = done;
	while (done--)
		tcp_unregister_congestion_control(&prague_kinds[done].ops);
	prague_net_unregister();
	if (registered)
		return error; /* sockets may have used the hook */
discard:
	xmit_hook_discard();
	return error;
}

static void __exit prague_unregister(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(prague_kinds); i++)
		tcp_unregister_congestion_control(&prague_kinds[i].ops);
	prague_net_unregister();
}

module_init(prague_register);
module_exit(prague_unregister);

MODULE_AUTHOR("The l4sbench authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TCP Prague congestion control");
MODULE_VERSION("1.0");
MODULE_ALIAS("tcp_prague-rtt");
MODULE_ALIAS("tcp_prague-fixed");
MODULE_ALIAS("tcp_prague-linear");
MODULE_ALIAS("tcp_prague-log");
MODULE_ALIAS("tcp_prague-exp");
