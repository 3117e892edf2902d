// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP BBR: reaction to losses and marks
 *
 * Upper bounds, inflight_hi and bw_hi, are what probing has shown to be safe;
 * they last from one probe to the next. Lower bounds, inflight_lo and bw_lo,
 * follow losses and marks of the moment, and are given up when the flow probes.
 *
 * All functions need the socket locked.
 */
#include <linux/math64.h>
#include <net/tcp.h>

#include "bbr.h"

#define BBR_MAX_LOSS_EVENTS	15
#define BBR_MAX_UP_ROUNDS	30	/* growth of 2^30 packets per round */

/* True if marks are to be responded to, whatever the RTT */
bool bbr_gate_open(const struct sock *sk)
{
	const struct bbr_flow *f = bbr_flow(sk);
	const struct dst_entry *dst;

	/* Version 3 responds only where ECN was negotiated. */
	if (f->law->v3 && !tcp_ecn_mode_any(tcp_sk(sk)))
		return false;
	switch (bbr_param(f, ecn_gate)) {
	case BBR_GATE_CLOSED:
		return false;
	case BBR_GATE_OPEN:
		return true;
	default:
		dst = __sk_dst_get(sk);
		return dst && dst_feature(dst, RTAX_FEATURE_ECN);
	}
}

/* True while the flow raises what is in flight: losses do not bound it then. */
bool bbr_probing(const struct bbr_flow *f)
{
	return f->mode == BBR_STARTUP || bbr_in_phase(f, BBR_REFILL) ||
	       bbr_in_phase(f, BBR_UP);
}

void bbr_reset_signals(struct bbr_flow *f)
{
	f->loss_in_round = false;
	f->ecn_in_round = false;
	f->loss_in_cycle = false;
	f->ecn_in_cycle = false;
	f->bw_latest = 0;
	f->inflight_latest = 0;
}

/* Too much in flight */

/* True if more than 2 % of what was in flight with a packet were lost */
bool bbr_too_high(const struct bbr_flow *f, u32 in_flight, u32 lost)
{
	return in_flight && lost > (u64)in_flight * bbr_param(f, loss_thresh) >>
					   BBR_BITS;
}

static bool bbr_sample_too_high(const struct bbr_flow *f,
				const struct bbr_ack *ack)
{
	const struct rate_sample *rs = ack->rs;
	u32 most, thresh = bbr_param(f, ecn_thresh);

	if (ack->lost && bbr_too_high(f, ack->tx_in_flight, ack->lost))
		return true;
	if (!f->ecn_eligible || !thresh || rs->delivered <= 0 ||
	    rs->delivered_ce <= 0)
		return false;
	most = (u64)rs->delivered * thresh >> BBR_BITS;
	return f->law->v3 ? rs->delivered_ce > most : rs->delivered_ce >= most;
}

/* Once per probe: what was in flight is the bound until the next one. */
void bbr_react_too_high(struct sock *sk, u32 in_flight, bool app_limited)
{
	struct bbr_flow *f = bbr_flow(sk);
	u32 least;

	f->prev_probe_too_high = true;
	f->probe_samples = false;
	/* A flow that is short of data does not know what is too much. */
	if (!app_limited) {
		least = (u64)bbr_target_inflight(sk) *
			(BBR_ONE - bbr_param(f, beta)) >> BBR_BITS;
		f->inflight_hi = max(in_flight, least);
	}
	if (bbr_in_phase(f, BBR_UP))
		bbr_start_down(sk);
}

/* Lower bounds */

void bbr_reset_lower_bounds(struct bbr_flow *f)
{
	f->bw_lo = BBR_UNSET;
	f->inflight_lo = BBR_UNSET;
}

static void bbr_adapt_lower_bounds(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);
	u32 cut, by_ecn = BBR_UNSET;

	if (bbr_probing(f))
		return;
	if (f->ecn_eligible && f->ecn_in_round && bbr_param(f, ecn_factor)) {
		if (f->inflight_lo == BBR_UNSET)
			f->inflight_lo = tcp_snd_cwnd(tcp_sk(sk));
		cut = BBR_ONE - (f->alpha * bbr_param(f, ecn_factor) >>
				 BBR_BITS);
		by_ecn = (u64)f->inflight_lo * cut >> BBR_BITS;
	}
	if (f->loss_in_round) {
		cut = BBR_ONE - bbr_param(f, beta);
		if (f->bw_lo == BBR_UNSET)
			f->bw_lo = bbr_max_bw(f);
		if (f->inflight_lo == BBR_UNSET)
			f->inflight_lo = tcp_snd_cwnd(tcp_sk(sk));
		f->bw_lo = max(f->bw_latest,
			       (u32)((u64)f->bw_lo * cut >> BBR_BITS));
		f->inflight_lo = max(f->inflight_latest,
				     (u32)((u64)f->inflight_lo * cut >>
					   BBR_BITS));
		f->bw_lo = max(f->bw_lo, 1U);
	}
	f->inflight_lo = min(f->inflight_lo, by_ecn);
}

static bool bbr_sample_valid(const struct rate_sample *rs)
{
	return rs->interval_us > 0 && rs->acked_sacked;
}

/* What the path delivered in this round, and whether the round ends */
void bbr_update_latest(struct sock *sk, const struct bbr_ack *ack)
{
	const struct rate_sample *rs = ack->rs;
	struct bbr_flow *f = bbr_flow(sk);

	f->loss_round_start = false;
	if (!bbr_sample_valid(rs))
		return;
	f->bw_latest = max(f->bw_latest, ack->bw);
	f->inflight_latest = max_t(u32, f->inflight_latest, rs->delivered);
	if (before(rs->prior_delivered, f->loss_round_delivered))
		return;
	f->loss_round_delivered = tcp_sk(sk)->delivered;
	f->loss_round_start = true;
}

/* Whether the path loses or marks; it follows bbr_update_latest(). */
void bbr_update_signals(struct sock *sk, const struct bbr_ack *ack)
{
	const struct rate_sample *rs = ack->rs;
	struct bbr_flow *f = bbr_flow(sk);

	if (!bbr_sample_valid(rs))
		return;
	if (!rs->is_app_limited || ack->bw >= bbr_max_bw(f))
		f->bw_hi[1] = max(f->bw_hi[1], ack->bw);
	f->loss_in_round |= rs->losses > 0;
	if (!f->loss_round_start)
		return;
	bbr_adapt_lower_bounds(sk);
	f->loss_in_round = false;
	f->ecn_in_round = false;
}

/* A new round for the latest delivery. If a probe mended a tail loss, what was
 * delivered before that loss still counts.
 */
void bbr_advance_latest(struct bbr_flow *f, const struct bbr_ack *ack)
{
	if (!f->loss_round_start || ack->of_tlp)
		return;
	f->bw_latest = ack->bw;
	f->inflight_latest = ack->rs->delivered;
}

/* Upper bounds */

/* inflight_hi grows by 1, 2, 4 ... packets in the rounds of a probe. */
void bbr_raise_slope(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);
	u32 growth = 1U << f->up_rounds;

	f->up_rounds = min(f->up_rounds + 1, BBR_MAX_UP_ROUNDS);
	f->up_cnt = max(tcp_snd_cwnd(tcp_sk(sk)) / growth, 1U);
}

static void bbr_raise_inflight_hi(struct sock *sk, const struct bbr_ack *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);
	u32 delta;

	if (!tp->is_cwnd_limited || tcp_snd_cwnd(tp) < f->inflight_hi) {
		if (!f->law->v3)
			f->up_acks = 0;
		return;
	}
	f->up_acks += ack->rs->acked_sacked;
	if (f->up_acks >= f->up_cnt) {
		delta = f->up_acks / f->up_cnt;
		f->up_acks -= delta * f->up_cnt;
		f->inflight_hi += delta;
		f->try_fast_path = false;
	}
	if (f->round_start)
		bbr_raise_slope(sk);
}

/* Feedback of a probe ends a round after it. */
static bool bbr_finish_probe(struct sock *sk, const struct bbr_ack *ack)
{
	struct bbr_flow *f = bbr_flow(sk);

	f->probe_samples = false;
	f->acks = BBR_ACKS_INIT;
	if (f->mode != BBR_PROBE_BW)
		return false;
	/* The sample of this cycle becomes that of the cycle before. */
	if (!ack->rs->is_app_limited && f->bw_hi[1]) {
		f->bw_hi[0] = f->bw_hi[1];
		f->bw_hi[1] = 0;
	}
	/* The probe stopped at the old bound and met nothing: go on. */
	if (f->stopped_risky && !f->prev_probe_too_high) {
		bbr_start_refill(sk, 0);
		return true;
	}
	return false;
}

/* Returns true if it has decided what the flow does next. */
bool bbr_adapt_upper_bounds(struct sock *sk, const struct bbr_ack *ack)
{
	struct bbr_flow *f = bbr_flow(sk);

	if (f->round_start && f->acks == BBR_ACKS_STARTING)
		f->acks = BBR_ACKS_FEEDBACK;
	if (f->round_start && f->acks == BBR_ACKS_STOPPING &&
	    bbr_finish_probe(sk, ack))
		return true;
	if (bbr_sample_too_high(f, ack)) {
		if (f->probe_samples)
			bbr_react_too_high(sk, ack->tx_in_flight,
					   ack->rs->is_app_limited);
		return false;
	}
	if (f->inflight_hi == BBR_UNSET)
		return false;
	/* What was in flight is safe, in whatever phase. */
	f->inflight_hi = max(f->inflight_hi, ack->tx_in_flight);
	if (bbr_in_phase(f, BBR_UP))
		bbr_raise_inflight_hi(sk, ack);
	return false;
}

/* ECN */

static void bbr_check_startup_ecn(struct sock *sk, u32 ratio)
{
	struct bbr_flow *f = bbr_flow(sk);
	u32 thresh = bbr_param(f, ecn_thresh);
	u32 rounds = bbr_param(f, full_ecn_cnt);

	if (f->full_bw_reached || !f->ecn_eligible || !thresh || !rounds)
		return;
	f->startup_ecn_rounds =
		ratio >= thresh ? min(f->startup_ecn_rounds + 1, U8_MAX) : 0;
	if (f->startup_ecn_rounds >= rounds)
		bbr_queue_in_startup(sk);
}

/* At the start of a round. Both products lose their fractions on purpose: less
 * than 16/256 of marks add nothing, and alpha falls to 0.
 */
void bbr_update_alpha(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);
	u32 gain = bbr_param(f, ecn_alpha_gain);
	u32 longest = bbr_param(f, ecn_max_rtt_us);
	u32 delivered, marked, ratio, alpha;

	if (!f->ecn_eligible && bbr_gate_open(sk) &&
	    (!longest || f->min_rtt_us <= longest))
		f->ecn_eligible = true;
	if (f->law->v3 && !f->ecn_eligible)
		return;
	delivered = tp->delivered - f->alpha_delivered;
	marked = tp->delivered_ce - f->alpha_delivered_ce;
	if (!delivered)
		return;
	ratio = min_t(u64, div_u64((u64)marked << BBR_BITS, delivered),
		      U16_MAX);
	alpha = ((BBR_ONE - gain) * f->alpha >> BBR_BITS) +
		(gain * ratio >> BBR_BITS);
	f->alpha = min_t(u32, alpha, BBR_ONE);
	f->alpha_delivered = tp->delivered;
	f->alpha_delivered_ce = tp->delivered_ce;
	bbr_check_startup_ecn(sk, ratio);
}

/* STARTUP */

/* Losses or marks say that the pipe is full. */
void bbr_queue_in_startup(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);

	f->full_bw_reached = true;
	f->inflight_hi = bbr_inflight(sk, bbr_max_bw(f), BBR_ONE);
	if (f->law->v3)
		f->inflight_hi = max(f->inflight_hi, f->inflight_latest);
}

void bbr_check_startup_loss(struct sock *sk, const struct bbr_ack *ack)
{
	struct bbr_flow *f = bbr_flow(sk);
	u32 least = bbr_param(f, full_loss_cnt);

	if (f->full_bw_reached)
		return;
	if (ack->rs->losses && f->loss_events < BBR_MAX_LOSS_EVENTS)
		f->loss_events++;
	if (!f->loss_round_start)
		return;
	if (least && inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery &&
	    f->loss_events >= least && bbr_sample_too_high(f, ack))
		bbr_queue_in_startup(sk);
	f->loss_events = 0;
}
