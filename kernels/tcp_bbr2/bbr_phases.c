// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP BBR: modes, and the phases of PROBE_BW
 *
 * All functions need the socket locked.
 */
#include <linux/log2.h>
#include <linux/random.h>
#include <net/tcp.h>

#include "bbr.h"

#define BBR_FULL_BW_GAIN	320	/* 2^-8: growth by a quarter */
#define BBR_FULL_BW_ROUNDS	3

/* STARTUP and DRAIN */

static bool bbr_probes_for_plateau(const struct bbr_flow *f)
{
	return bbr_in_phase(f, BBR_UP) &&
	       bbr_param(f, bw_probe_exit) == BBR_EXIT_PLATEAU;
}

/* By samples: each that grows enough begins a new count of rounds. */
static void bbr_full_by_samples(struct bbr_flow *f, u32 bw)
{
	bool probe = bbr_probes_for_plateau(f);
	u32 gain = probe ? f->law->plateau_gain : BBR_FULL_BW_GAIN;
	u8 rounds = probe ? f->law->plateau_rounds : BBR_FULL_BW_ROUNDS;

	if (f->full_bw_now)
		return;
	if (bw >= (u64)f->full_bw * gain >> BBR_BITS) {
		bbr_reset_full_bw(f);
		f->full_bw = bw;
		return;
	}
	if (!f->round_start)
		return;
	f->full_bw_cnt++;
	f->full_bw_now = f->full_bw_cnt >= rounds;
	f->full_bw_reached |= f->full_bw_now;
}

/* By the filter, once a round */
static void bbr_full_by_filter(struct bbr_flow *f)
{
	if (f->full_bw_reached || !f->round_start)
		return;
	if (bbr_max_bw(f) >= (u64)f->full_bw * BBR_FULL_BW_GAIN >> BBR_BITS) {
		f->full_bw = bbr_max_bw(f);
		f->full_bw_cnt = 0;
		return;
	}
	f->full_bw_cnt++;
	f->full_bw_reached = f->full_bw_cnt >= BBR_FULL_BW_ROUNDS;
}

/* The pipe is full when bandwidth no longer grows by a quarter in three rounds
 * in which data was not short.
 */
void bbr_check_full_bw(struct sock *sk, const struct bbr_ack *ack)
{
	struct bbr_flow *f = bbr_flow(sk);

	if (ack->rs->is_app_limited)
		return;
	if (f->law->sample_fills)
		bbr_full_by_samples(f, ack->bw);
	else
		bbr_full_by_filter(f);
}

void bbr_check_drain(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);
	u32 target;

	if (f->mode != BBR_DRAIN &&
	    !(f->mode == BBR_STARTUP && f->full_bw_reached))
		return;
	target = bbr_inflight(sk, bbr_max_bw(f), BBR_ONE);
	if (f->mode == BBR_STARTUP) {
		f->mode = BBR_DRAIN;
		WRITE_ONCE(tp->snd_ssthresh, target); /* only to be shown */
		bbr_reset_signals(f);
	}
	if (bbr_at_departure(sk, tcp_packets_in_flight(tp)) <= target)
		bbr_start_down(sk);
}

/* PROBE_BW */

static void bbr_set_phase(struct bbr_flow *f, enum bbr_phase phase)
{
	f->mode = BBR_PROBE_BW;
	f->phase = phase;
	f->try_fast_path = false;
}

/* Flows must not probe at the same time, hence the random parts. */
void bbr_start_down(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);
	u32 rounds = bbr_param(f, bw_probe_rand_rounds);
	u32 wait_us = bbr_param(f, bw_probe_rand_us);

	bbr_reset_signals(f);
	f->up_cnt = BBR_UNSET;
	f->rounds_since_probe = rounds ? get_random_u32_below(rounds) : 0;
	f->probe_wait_us = bbr_param(f, bw_probe_base_us) +
			   (wait_us ? get_random_u32_below(wait_us) : 0);
	f->cycle_mstamp = tcp_sk(sk)->tcp_mstamp;
	f->acks = BBR_ACKS_STOPPING;
	bbr_start_round(sk);
	bbr_set_phase(f, BBR_DOWN);
}

static void bbr_start_cruise(struct bbr_flow *f)
{
	if (f->inflight_lo != BBR_UNSET)
		f->inflight_lo = min(f->inflight_lo, f->inflight_hi);
	bbr_set_phase(f, BBR_CRUISE);
}

void bbr_start_refill(struct sock *sk, u8 up_rounds)
{
	struct bbr_flow *f = bbr_flow(sk);

	bbr_reset_lower_bounds(f);
	f->up_rounds = up_rounds;
	f->up_acks = 0;
	f->stopped_risky = false;
	f->acks = BBR_ACKS_REFILLING;
	bbr_start_round(sk);
	bbr_set_phase(f, BBR_REFILL);
}

static void bbr_start_up(struct sock *sk, const struct bbr_ack *ack)
{
	struct bbr_flow *f = bbr_flow(sk);

	f->probe_samples = true; /* one reaction per probe */
	f->acks = BBR_ACKS_STARTING;
	f->cycles++;
	bbr_start_round(sk);
	f->cycle_mstamp = tcp_sk(sk)->tcp_mstamp;
	if (f->law->sample_fills) {
		bbr_reset_full_bw(f);
		f->full_bw = ack->bw;
	}
	bbr_set_phase(f, BBR_UP);
	bbr_raise_slope(sk);
}

/* As often as a Reno flow of this size would reach the top of its sawtooth */
static bool bbr_reno_would_probe(const struct sock *sk)
{
	const struct bbr_flow *f = bbr_flow(sk);
	u32 gain = bbr_param(f, bw_probe_reno_gain);
	u32 rounds = bbr_param(f, bw_probe_max_rounds);

	if (gain)
		rounds = min_t(u64, rounds, (u64)bbr_target_inflight(sk) *
					    gain >> BBR_BITS);
	return f->rounds_since_probe >= rounds;
}

static bool bbr_check_probe_time(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);
	u32 gain = bbr_param(f, ecn_reprobe_gain);
	u64 growth;

	/* Marks without loss have ended: who made them may have left. */
	if (gain && f->ecn_eligible && f->ecn_in_cycle && !f->loss_in_cycle &&
	    inet_csk(sk)->icsk_ca_state == TCP_CA_Open) {
		growth = (u64)f->inflight_hi * gain >> BBR_BITS;
		bbr_start_refill(sk, growth ? ilog2(growth) : 0);
		return true;
	}
	if (bbr_elapsed(sk, f->cycle_mstamp, f->probe_wait_us) ||
	    bbr_reno_would_probe(sk)) {
		bbr_start_refill(sk, 0);
		return true;
	}
	return false;
}

/* True if the probe has filled the pipe, without losses or marks */
static bool bbr_probe_full(struct sock *sk, const struct bbr_ack *ack,
			   u32 in_flight)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);

	if (bbr_param(f, bw_probe_exit) == BBR_EXIT_QUEUE)
		return bbr_elapsed(sk, f->cycle_mstamp, f->min_rtt_us) &&
		       in_flight >= bbr_inflight(sk, bbr_max_bw(f),
						 bbr_param(f,
							   bw_probe_pif_gain));
	/* Not the pipe, but inflight_hi holds the bandwidth down. */
	if (tp->is_cwnd_limited && tcp_snd_cwnd(tp) >= f->inflight_hi) {
		bbr_reset_full_bw(f);
		f->full_bw = ack->bw;
		return false;
	}
	return f->full_bw_now;
}

static void bbr_check_up(struct sock *sk, const struct bbr_ack *ack,
			 u32 in_flight)
{
	struct bbr_flow *f = bbr_flow(sk);

	/* The last probe met losses here: stop, and watch the feedback. */
	if (f->prev_probe_too_high && in_flight >= f->inflight_hi)
		f->stopped_risky = true;
	else if (!bbr_probe_full(sk, ack, in_flight))
		return;
	f->prev_probe_too_high = false;
	bbr_start_down(sk);
}

void bbr_update_phase(struct sock *sk, const struct bbr_ack *ack)
{
	struct bbr_flow *f = bbr_flow(sk);
	u32 in_flight;

	if (!f->full_bw_reached || bbr_adapt_upper_bounds(sk, ack) ||
	    f->mode != BBR_PROBE_BW)
		return;
	in_flight = bbr_at_departure(sk, ack->rs->prior_in_flight);
	switch (f->phase) {
	case BBR_DOWN:
		if (!bbr_check_probe_time(sk) &&
		    in_flight <= bbr_with_headroom(f) &&
		    in_flight <= bbr_inflight(sk, bbr_max_bw(f), BBR_ONE))
			bbr_start_cruise(f);
		break;
	case BBR_CRUISE:
		bbr_check_probe_time(sk);
		break;
	case BBR_REFILL:
		if (f->round_start)
			bbr_start_up(sk, ack);
		break;
	case BBR_UP:
		bbr_check_up(sk, ack, in_flight);
		break;
	}
}

/* PROBE_RTT */

static void bbr_leave_probe_rtt(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);

	bbr_reset_lower_bounds(f);
	if (!f->full_bw_reached) {
		f->mode = BBR_STARTUP;
		return;
	}
	/* Raising what is in flight may cause losses: wait with a probe. */
	bbr_start_down(sk);
	bbr_start_cruise(f);
}

void bbr_check_probe_rtt_done(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);

	if (!f->probe_rtt_done_stamp ||
	    !bbr_elapsed(sk, f->probe_rtt_done_stamp, 0))
		return;
	f->probe_rtt_min_stamp = tp->tcp_mstamp;
	tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), f->prior_cwnd));
	bbr_leave_probe_rtt(sk);
}

static void bbr_hold_probe_rtt(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);
	u32 in_flight = tcp_packets_in_flight(tp);

	/* Samples of this time say nothing about bandwidth. */
	tp->app_limited = (tp->delivered + in_flight) ? : 1;
	if (!f->probe_rtt_done_stamp) {
		if (in_flight > bbr_probe_rtt_cwnd(f))
			return;
		f->probe_rtt_done_stamp = tp->tcp_mstamp +
					  BBR_PROBE_RTT_HOLD_US;
		f->probe_rtt_round_done = false;
		bbr_start_round(sk);
		return;
	}
	if (f->round_start)
		f->probe_rtt_round_done = true;
	if (f->probe_rtt_round_done)
		bbr_check_probe_rtt_done(sk);
}

/* Two windows: of 10 s for the model, of 5 s for when to look anew. Version 2
 * takes an equal sample as a new one, so that a path whose RTT never varies is
 * never looked at.
 */
void bbr_update_min_rtt(struct sock *sk, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);
	bool expired = bbr_elapsed(sk, f->probe_rtt_min_stamp,
				   BBR_PROBE_RTT_US);

	if (rs->rtt_us >= 0 &&
	    (rs->rtt_us < f->probe_rtt_min_us ||
	     (!f->law->v3 && rs->rtt_us == f->probe_rtt_min_us) ||
	     (expired && !rs->is_ack_delayed))) {
		f->probe_rtt_min_us = rs->rtt_us;
		f->probe_rtt_min_stamp = tp->tcp_mstamp;
	}
	if (f->probe_rtt_min_us <= f->min_rtt_us ||
	    bbr_elapsed(sk, f->min_rtt_stamp, BBR_MIN_RTT_US)) {
		f->min_rtt_us = f->probe_rtt_min_us;
		f->min_rtt_stamp = f->probe_rtt_min_stamp;
	}
	if (expired && !f->idle_restart && f->mode != BBR_PROBE_RTT) {
		f->mode = BBR_PROBE_RTT;
		bbr_save_cwnd(sk);
		f->probe_rtt_done_stamp = 0;
		f->acks = BBR_ACKS_STOPPING;
		bbr_start_round(sk);
	}
	if (f->mode == BBR_PROBE_RTT)
		bbr_hold_probe_rtt(sk);
	if (rs->delivered > 0)
		f->idle_restart = false;
}
