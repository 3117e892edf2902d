// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP BBR, versions 2 and 3, for unpatched Linux >= 7.0
 *
 * BBR measures the bandwidth and the round-trip time of a path, and paces at
 * that bandwidth with about one bandwidth-delay product (BDP) in flight. Since
 * version 2 it also responds to losses and to marks. The algorithm is that of
 * Google's versions 2 (alpha) and 3 for Linux, of L4STeam's variant of version
 * 2, and of draft-ietf-ccwg-bbr; README.md has a table of what differs.
 *
 * Model. bw_hi is the highest delivery rate of this cycle and the one before,
 * min_rtt the least RTT of 10 s. inflight_hi is what proved to be too much in
 * flight, if anything did; bw_lo and inflight_lo are lower for as long as
 * losses or marks say so. Bandwidth is min(bw_hi, bw_lo).
 *
 * Modes. STARTUP doubles the rate each round until bandwidth no longer grows,
 * or losses or marks become too many. DRAIN removes the queue that this made.
 * Then PROBE_BW goes through its phases:
 *
 *	DOWN	pace below the bandwidth until there is headroom
 *	CRUISE	pace at the bandwidth
 *	REFILL	one round trip without lower bounds, so that what UP meets is
 *		the path's and not what is left of a low estimate
 *	UP	pace at 1.25 of the bandwidth, and let inflight_hi grow by 1, 2,
 *		4 ... packets a round, until more than 2 % are lost, half are
 *		marked, or the pipe is full
 *
 * UP comes every 2 to 3 s, or as often as a Reno flow with this window would
 * probe if that is sooner, but at least every 63 rounds. PROBE_RTT halves what
 * is in flight for 200 ms where 5 s brought no new least RTT.
 *
 * Losses. In a round with losses bw_lo and inflight_lo fall to 0.7, but not
 * below what was delivered.
 *
 * Marks, where they are to be responded to. alpha is an average of the marked
 * share of rounds; in a round with marks inflight_lo falls by alpha / 3.
 *
 * Files: this one processes ACKs and has the operations; bbr_model.c goes from
 * the model to what is sent, bbr_bounds.c responds to losses and marks,
 * bbr_phases.c has modes and phases, bbr_sent.c knows what was in flight when a
 * packet was sent.
 */
#include <linux/inet_diag.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <net/tcp.h>

#include "bbr.h"

#define BBR_SNDBUF_EXPAND	3

/* FLAG_DSACK_TLP of net/ipv4/tcp_input.c: the ACK says that a tail loss probe and
 * what it repeated have both arrived
 */
#define BBR_ACK_NEEDLESS_TLP	BIT(17)

/* ACK processing */

static void bbr_update_round(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr_flow *f = bbr_flow(sk);

	f->round_start = rs->interval_us > 0 &&
			 !before(rs->prior_delivered, f->next_rtt_delivered);
	if (!f->round_start)
		return;
	bbr_start_round(sk);
	f->rounds_since_probe = min(f->rounds_since_probe + 1, U8_MAX);
	bbr_update_alpha(sk);
}

/* 2^-24 packets/us, rounded up; 0 if there is no sample */
static u32 bbr_sample_bw(const struct rate_sample *rs)
{
	if (rs->interval_us <= 0 || rs->delivered < 0)
		return 0;
	return min_t(u64, DIV64_U64_ROUND_UP((u64)rs->delivered << BBR_BW_BITS,
					     rs->interval_us), BBR_UNSET - 1);
}

/* in_ack_event() comes before the core decides on a tail loss probe. */
static void bbr_in_ack_event(struct sock *sk, u32 flags)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);

	if (!f)
		return;
	f->tlp_noted = tp->tlp_high_seq && tp->tlp_retrans;
	f->tlp_high_seq = tp->tlp_high_seq;
	f->tlp_repaired = false;
}

/* What undo_cwnd() restores */
static void bbr_save_bounds(struct bbr_flow *f)
{
	f->undo_bw_lo = f->bw_lo;
	f->undo_inflight_lo = f->inflight_lo;
	f->undo_inflight_hi = f->inflight_hi;
}

/* Version 3: a retransmission that mended a tail loss hides that loss from the
 * core's counters. The core calls ssthresh() for it, with tlp_high_seq cleared.
 * It clears that also for a DSACK, which says that nothing was lost; marks may
 * then call ssthresh() in the same ACK.
 *
 * The fork learns of the loss before ssthresh() saves the bounds, hence they are
 * saved again.
 */
static void bbr_check_tlp(struct sock *sk, struct bbr_ack *ack, u32 seq,
			  int flag)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);

	if (!f->law->v3 || !f->tlp_noted)
		return;
	ack->of_tlp = tp->tlp_high_seq && !before(seq, f->tlp_high_seq);
	if (!f->tlp_repaired || flag & BBR_ACK_NEEDLESS_TLP)
		return;
	bbr_note_loss(sk);
	if (f->probe_samples && bbr_too_high(f, f->inflight_latest + 1, 1))
		bbr_react_too_high(sk, f->inflight_latest + 1,
				   ack->rs->is_app_limited);
	bbr_save_bounds(f);
}

/* A flow that is short of data learns nothing from a sample below its
 * bandwidth. Returns true if this ACK then changes nothing, and sets @model to
 * false if it leaves the model as it is.
 */
static bool bbr_fast_path(struct sock *sk, const struct bbr_ack *ack,
			  bool *model)
{
	struct bbr_flow *f = bbr_flow(sk);
	u8 mode = f->mode;
	u32 min_rtt_us = f->min_rtt_us;

	if (!f->try_fast_path || !ack->rs->is_app_limited ||
	    ack->bw >= bbr_max_bw(f) || f->loss_in_round || f->ecn_in_round)
		return false;
	bbr_check_drain(sk);
	bbr_update_phase(sk, ack);
	bbr_update_min_rtt(sk, ack->rs);
	*model = false;
	return f->mode == mode && f->min_rtt_us == min_rtt_us &&
	       f->try_fast_path;
}

static void bbr_update_model(struct sock *sk, const struct bbr_ack *ack)
{
	struct bbr_flow *f = bbr_flow(sk);

	if (!f->law->v3)
		bbr_update_latest(sk, ack);
	bbr_update_signals(sk, ack);
	if (!f->law->v3)
		bbr_advance_latest(f, ack);
	bbr_update_aggregation(sk, ack);
	bbr_check_startup_loss(sk, ack);
	bbr_check_full_bw(sk, ack);
	bbr_check_drain(sk);
	bbr_update_phase(sk, ack);
	bbr_update_min_rtt(sk, ack->rs);
}

static void bbr_process_ack(struct sock *sk, const struct bbr_ack *ack)
{
	struct bbr_flow *f = bbr_flow(sk);
	bool model = true;

	bbr_update_round(sk, ack->rs);
	f->ecn_in_round |= ack->ece && (f->ecn_eligible || !f->law->v3);
	if (f->law->v3)
		bbr_update_latest(sk, ack);
	if (!bbr_fast_path(sk, ack, &model)) {
		if (model)
			bbr_update_model(sk, ack);
		bbr_update_gains(f);
		bbr_set_pacing(sk, bbr_bw(f), f->pacing_gain);
		bbr_set_cwnd(sk, ack);
		bbr_bound_cwnd(sk);
	}
	if (f->law->v3)
		bbr_advance_latest(f, ack);
	f->prev_ca_state = inet_csk(sk)->icsk_ca_state;
	f->loss_in_cycle |= ack->lost > 0;
	f->ecn_in_cycle |= ack->rs->delivered_ce > 0;
}

static void bbr_fall_back(struct sock *sk);

static void bbr_cong_control(struct sock *sk, u32 seq, int flag,
			     const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);
	struct bbr_ack ack = { .rs = rs };

	if (!f)
		return;
	/* IPV6_ADDRFORM gives a socket other operations. */
	if (unlikely(!bbr_sent_continue(sk))) {
		bbr_fall_back(sk);
		return;
	}
	/* The fork's core asks for each ACK. */
	tcp_rate_check_app_limited(sk);
	bbr_check_tlp(sk, &ack, seq, flag);
	bbr_sync_losses(sk);
	bbr_sent_lookup(sk, &ack);
	ack.bw = bbr_sample_bw(rs);
	ack.ece = tp->delivered_ce != f->ack_delivered_ce;
	f->ack_delivered_ce = tp->delivered_ce;
	bbr_process_ack(sk, &ack);
	bbr_flow_show(sk, &ack);
	bbr_sent_rest(sk);
}

/* Other operations */

/* Saves what undo_cwnd() restores. Losses of this ACK count first, as the fork
 * counts them one by one, before. Marks call it too, once per window.
 */
static u32 bbr_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);

	if (!f)
		return tp->snd_ssthresh;
	f->tlp_repaired = f->tlp_noted && !tp->tlp_high_seq &&
			  after(tp->snd_una, f->tlp_high_seq);
	bbr_sync_losses(sk);
	bbr_save_cwnd(sk);
	bbr_save_bounds(f);
	return tp->snd_ssthresh;
}

static u32 bbr_undo_cwnd(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);

	if (!f)
		return tcp_snd_cwnd(tcp_sk(sk));
	bbr_reset_full_bw(f);
	f->loss_in_round = false;
	f->bw_lo = max(f->bw_lo, f->undo_bw_lo);
	f->inflight_lo = max(f->inflight_lo, f->undo_inflight_lo);
	f->inflight_hi = max(f->inflight_hi, f->undo_inflight_hi);
	f->try_fast_path = false;
	return f->prior_cwnd;
}

static void bbr_set_state(struct sock *sk, u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);

	if (!f)
		return;
	bbr_sync_losses(sk);
	if (state == TCP_CA_Loss) {
		f->prev_ca_state = TCP_CA_Loss;
		bbr_reset_full_bw(f);
		/* The core has set the window to one packet. */
		if (!bbr_probing(f) && f->inflight_lo == BBR_UNSET)
			f->inflight_lo = f->law->rto_keeps_cwnd ?
						 max(tcp_snd_cwnd(tp),
						     f->prior_cwnd) :
						 f->prior_cwnd;
	} else if (f->prev_ca_state == TCP_CA_Loss) {
		tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), f->prior_cwnd));
		f->try_fast_path = false;
	}
}

static void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_LOSS && bbr_flow(sk))
		bbr_sync_losses(sk);
}

/* The first packet after an idle time: there is no need to probe. */
static void bbr_tx_start(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);

	if (!f || !tp->app_limited)
		return;
	f->idle_restart = true;
	f->ack_epoch_mstamp = tp->tcp_mstamp;
	f->ack_epoch_acked = 0;
	if (f->mode == BBR_PROBE_BW)
		bbr_set_pacing(sk, bbr_bw(f), BBR_ONE);
	else if (f->mode == BBR_PROBE_RTT)
		bbr_check_probe_rtt_done(sk);
}

static u32 bbr_sndbuf_expand(struct sock *sk)
{
	return BBR_SNDBUF_EXPAND;
}

static size_t bbr_get_info(struct sock *sk, u32 ext, int *attr,
			   union tcp_cc_info *info)
{
	const struct bbr *ca = inet_csk_ca(sk);

	/* VEGASINFO requests the record of any congestion control. */
	if (!(ext & (BIT(INET_DIAG_BBRINFO - 1) |
		     BIT(INET_DIAG_VEGASINFO - 1))))
		return 0;
	info->bbr = ca->info;
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}

/* Beginning and end */

/* Without memory, or without the ECT(1) that the response is made for: a plain
 * Reno, which suits ECT(0). Not registered; the socket keeps its reference to
 * the module.
 */
static struct tcp_congestion_ops bbr_reno __read_mostly = {
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "bbr-reno",
};

static void bbr_init(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct bbr_kind *kind = container_of(icsk->icsk_ca_ops,
						   struct bbr_kind, ops);
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f;

	if (!bbr_flow_add(sk, kind)) {
		WRITE_ONCE(icsk->icsk_ca_ops, &bbr_reno);
		return;
	}
	if (!bbr_sent_begin(sk)) {
		bbr_sent_end(sk);
		bbr_flow_remove(sk);
		WRITE_ONCE(icsk->icsk_ca_ops, &bbr_reno);
		return;
	}
	f = bbr_flow(sk);
	f->min_rtt_us = tcp_min_rtt(tp);
	f->probe_rtt_min_us = f->min_rtt_us;
	f->min_rtt_stamp = tp->tcp_mstamp;
	f->probe_rtt_min_stamp = tp->tcp_mstamp;
	f->ack_epoch_mstamp = tp->tcp_mstamp;
	f->init_cwnd = min(tcp_snd_cwnd(tp), 127U);
	f->prior_cwnd = tp->prior_cwnd; /* set in the middle of a recovery */
	if (f->law->v3)
		bbr_start_round(sk);
	f->loss_round_delivered = tp->delivered + 1;
	bbr_reset_lower_bounds(f);
	f->inflight_hi = BBR_UNSET;
	f->undo_bw_lo = BBR_UNSET;
	f->undo_inflight_lo = BBR_UNSET;
	f->undo_inflight_hi = BBR_UNSET;
	f->up_cnt = BBR_UNSET;
	f->alpha = bbr_param(f, ecn_alpha_init);
	f->alpha_delivered = tp->delivered;
	f->alpha_delivered_ce = tp->delivered_ce;
	f->ack_delivered_ce = tp->delivered_ce;
	f->ect_all = f->law->v3 && bbr_gate_open(sk);
	WRITE_ONCE(tp->snd_ssthresh, TCP_INFINITE_SSTHRESH);
	bbr_update_gains(f);
	bbr_init_pacing(sk);
}

static void bbr_release(struct sock *sk)
{
	const struct bbr_flow *f = bbr_flow(sk);

	bbr_sent_end(sk);
	if (f->paced && sk->sk_max_pacing_rate == ~0UL)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED,
			SK_PACING_NONE);
	bbr_flow_remove(sk);
}

static void bbr_fall_back(struct sock *sk)
{
	bbr_release(sk);
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &bbr_reno);
}

static const struct tcp_congestion_ops bbr_ops = {
	.init			= bbr_init,
	.release		= bbr_release,
	.cong_control		= bbr_cong_control,
	.in_ack_event		= bbr_in_ack_event,
	.ssthresh		= bbr_ssthresh,
	.undo_cwnd		= bbr_undo_cwnd,
	.set_state		= bbr_set_state,
	.cwnd_event		= bbr_cwnd_event,
	.cwnd_event_tx_start	= bbr_tx_start,
	.min_tso_segs		= bbr_min_tso_segs,
	.sndbuf_expand		= bbr_sndbuf_expand,
	.get_info		= bbr_get_info,
	.flags			= TCP_CONG_NON_RESTRICTED,
	.owner			= THIS_MODULE,
};

static int __init bbr_register(void)
{
	int done, registered, error;

	BUILD_BUG_ON(sizeof(struct bbr) > ICSK_CA_PRIV_SIZE);
	/* What a connection costs that sends little */
	BUILD_BUG_ON(sizeof(struct bbr_flow) > 1024);

	error = xmit_hook_prepare();
	if (error)
		return error;
	error = bbr_net_register();
	if (error)
		goto discard;
	for (done = 0; done < BBR_KINDS; done++) {
		struct bbr_kind *kind = &bbr_kinds[done];

		kind->ops = bbr_ops;
		strscpy(kind->ops.name, kind->name);
		error = tcp_register_congestion_control(&kind->ops);
		if (error)
			goto undo;
	}
	return 0;
undo:
	registered = done;
	while (done--)
		tcp_unregister_congestion_control(&bbr_kinds[done].ops);
	bbr_net_unregister();
	if (registered)
		return error; /* sockets may have used the hook */
discard:
	xmit_hook_discard();
	return error;
}

static void __exit bbr_unregister(void)
{
	int i;

	for (i = 0; i < BBR_KINDS; i++)
		tcp_unregister_congestion_control(&bbr_kinds[i].ops);
	bbr_net_unregister();
}

module_init(bbr_register);
module_exit(bbr_unregister);

MODULE_AUTHOR("The l4sbench authors");
MODULE_LICENSE("GPL");
