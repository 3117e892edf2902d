// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP BBR: from the model of the path to pacing rate and window
 *
 * All functions need the socket locked.
 */
#include <linux/math64.h>
#include <net/tcp.h>

#include "bbr.h"

#define BBR_DRAIN_GAIN		88	/* 2^-8: 0.344 */
#define BBR_MARGIN_PERCENT	1	/* pacing below the bandwidth */
#define BBR_GOAL_RTT_SHIFT	9	/* bursts halve with each 512 us of RTT */
#define BBR_GOAL_BYTES		65536
#define BBR_ONE_SEGMENT_RATE	150000	/* B/s: 1.2 Mbit/s */

#define BBR_EXTRA_ROUNDS	5	/* window of the filter of extra_acked */
#define BBR_EXTRA_MAX_US	(100 * USEC_PER_MSEC)
#define BBR_EPOCH_MAX		BIT(20)	/* packets: longest epoch */

/* B/s of payload. The bandwidth is below 2^32, segments below 2^16, gains below
 * 2^10: the product stays below 2^50, times 2^20 for a second.
 */
u64 bbr_bytes_per_sec(const struct sock *sk, u32 bw, u32 gain)
{
	u64 rate = (u64)bw * tcp_sk(sk)->mss_cache * gain >> BBR_BITS;

	return mul_u64_u32_shr(rate, USEC_PER_SEC / 100 *
			       (100 - BBR_MARGIN_PERCENT), BBR_BW_BITS);
}

/* Packets: what the path holds without a queue, times a gain */
u32 bbr_bdp(const struct bbr_flow *f, u32 bw, u32 gain)
{
	u64 bdp;

	if (f->min_rtt_us == BBR_UNSET)
		return f->init_cwnd; /* no RTT yet: a cap as a start */
	/* 2^32 * 2^32 would not leave room for the gain. */
	bdp = mul_u64_u32_shr((u64)bw * f->min_rtt_us, gain, BBR_BITS);
	return (bdp + BIT_ULL(BBR_BW_BITS) - 1) >> BBR_BW_BITS;
}

/* Packets: the least burst that the core may send */
static u32 bbr_least_burst(const struct sock *sk)
{
	const struct bbr_flow *f = bbr_flow(sk);

	if (!f || f->law->v3)
		return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_min_tso_segs);
	return READ_ONCE(sk->sk_pacing_rate) < BBR_ONE_SEGMENT_RATE ? 1 : 2;
}

u32 bbr_min_tso_segs(struct sock *sk)
{
	return bbr_least_burst(sk);
}

/* Packets: the burst to expect from the core, larger on short paths */
static u32 bbr_goal(const struct sock *sk)
{
	const struct bbr_flow *f = bbr_flow(sk);
	u32 shift = f->min_rtt_us >> BBR_GOAL_RTT_SHIFT;
	u64 bytes = READ_ONCE(sk->sk_pacing_rate) >>
		    READ_ONCE(sk->sk_pacing_shift);

	if (shift < 32)
		bytes += BBR_GOAL_BYTES >> shift;
	bytes = min_t(u64, bytes, GSO_LEGACY_MAX_SIZE - 1 - MAX_TCP_HEADER);
	return max((u32)bytes / tcp_sk(sk)->mss_cache, bbr_least_burst(sk));
}

/* A window below a few bursts would leave the pipe empty between them. */
static u32 bbr_quantized(const struct sock *sk, u32 cwnd)
{
	const struct bbr_flow *f = bbr_flow(sk);

	cwnd = max3(cwnd, 3 * bbr_goal(sk), BBR_MIN_CWND);
	/* Gains of UP round to nothing when the window is small. */
	return bbr_in_phase(f, BBR_UP) ? cwnd + 2 : cwnd;
}

/* Packets in flight that suit a bandwidth and a gain */
u32 bbr_inflight(const struct sock *sk, u32 bw, u32 gain)
{
	return bbr_quantized(sk, bbr_bdp(bbr_flow(sk), bw, gain));
}

u32 bbr_target_inflight(const struct sock *sk)
{
	u32 inflight = bbr_inflight(sk, bbr_bw(bbr_flow(sk)), BBR_ONE);

	return min(inflight, tcp_snd_cwnd(tcp_sk(sk)));
}

u32 bbr_probe_rtt_cwnd(const struct bbr_flow *f)
{
	return max(bbr_bdp(f, bbr_bw(f), BBR_ONE / 2), BBR_MIN_CWND);
}

/* Packets: inflight_hi less what other flows need to come in */
u32 bbr_with_headroom(const struct bbr_flow *f)
{
	u32 headroom;

	if (f->inflight_hi == BBR_UNSET)
		return BBR_UNSET;
	headroom = (u64)f->inflight_hi * bbr_param(f, inflight_headroom) >>
		   BBR_BITS;
	headroom = max(headroom, 1U);
	return f->inflight_hi > headroom + BBR_MIN_CWND ?
		       f->inflight_hi - headroom : BBR_MIN_CWND;
}

/* Packets in the network when the next one leaves, which pacing may delay */
u32 bbr_at_departure(const struct sock *sk, u32 in_flight)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct bbr_flow *f = bbr_flow(sk);
	u64 departs = max(tp->tcp_wstamp_ns, tp->tcp_clock_cache);
	u64 us = div_u64(departs - tp->tcp_clock_cache, NSEC_PER_USEC);
	u64 delivered = (u64)bbr_bw(f) * us >> BBR_BW_BITS;

	if (f->pacing_gain > BBR_ONE)
		in_flight += bbr_goal(sk);
	return delivered < in_flight ? in_flight - delivered : 0;
}

/* Pacing */

static void bbr_pacing_from_rtt(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);
	u32 rtt_us = USEC_PER_MSEC; /* a guess until there is a sample */
	u64 bw;

	if (tp->srtt_us) {
		rtt_us = max(tp->srtt_us >> 3, 1U);
		f->has_seen_rtt = true;
	}
	bw = div_u64((u64)tcp_snd_cwnd(tp) << BBR_BW_BITS, rtt_us);
	bw = min_t(u64, bw, BBR_UNSET);
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(u64, bbr_bytes_per_sec(sk, bw, f->law->startup_gain),
			 READ_ONCE(sk->sk_max_pacing_rate)));
}

void bbr_init_pacing(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);

	f->paced = cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE,
			   SK_PACING_NEEDED) == SK_PACING_NONE;
	bbr_pacing_from_rtt(sk);
}

/* Until the pipe is full the rate only grows: early samples are too low. */
void bbr_set_pacing(struct sock *sk, u32 bw, u32 gain)
{
	struct bbr_flow *f = bbr_flow(sk);
	u64 rate = min_t(u64, bbr_bytes_per_sec(sk, bw, gain),
			 READ_ONCE(sk->sk_max_pacing_rate));

	if (!f->has_seen_rtt && tcp_sk(sk)->srtt_us)
		bbr_pacing_from_rtt(sk);
	if (f->full_bw_reached || rate > READ_ONCE(sk->sk_pacing_rate))
		WRITE_ONCE(sk->sk_pacing_rate, rate);
}

void bbr_update_gains(struct bbr_flow *f)
{
	const struct bbr_law *law = f->law;

	switch (f->mode) {
	case BBR_STARTUP:
		f->pacing_gain = law->startup_gain;
		f->cwnd_gain = law->startup_cwnd_gain;
		break;
	case BBR_DRAIN:
		f->pacing_gain = BBR_DRAIN_GAIN;
		f->cwnd_gain = law->startup_cwnd_gain;
		break;
	case BBR_PROBE_RTT:
		f->pacing_gain = BBR_ONE;
		f->cwnd_gain = BBR_ONE;
		break;
	default:
		f->pacing_gain = f->phase == BBR_UP ? BBR_ONE * 5 / 4 :
				 f->phase == BBR_DOWN ? law->down_gain :
							BBR_ONE;
		f->cwnd_gain = f->phase == BBR_UP ?
				       bbr_param(f, bw_probe_cwnd_gain) :
				       2 * BBR_ONE;
	}
}

/* Aggregation of ACKs */

/* Data that came back beyond what the bandwidth explains must be in flight too,
 * or the flow would stall when ACKs come in bunches.
 */
void bbr_update_aggregation(struct sock *sk, const struct bbr_ack *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct rate_sample *rs = ack->rs;
	struct bbr_flow *f = bbr_flow(sk);
	u32 acked = rs->acked_sacked;
	u32 expected, extra;
	u64 elapsed_us;

	if (!acked || rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (f->round_start) {
		f->extra_acked_rounds = min(f->extra_acked_rounds + 1, 31);
		if (f->extra_acked_rounds >=
		    (f->full_bw_reached ? BBR_EXTRA_ROUNDS : 1)) {
			f->extra_acked_rounds = 0;
			f->extra_acked_index = !f->extra_acked_index;
			f->extra_acked[f->extra_acked_index] = 0;
		}
	}
	elapsed_us = tcp_stamp_us_delta(tp->delivered_mstamp,
					f->ack_epoch_mstamp);
	expected = min_t(u64, (u64)bbr_bw(f) * elapsed_us >> BBR_BW_BITS,
			 BBR_UNSET);
	if (f->ack_epoch_acked <= expected ||
	    f->ack_epoch_acked + acked >= BBR_EPOCH_MAX) {
		f->ack_epoch_acked = 0;
		f->ack_epoch_mstamp = tp->delivered_mstamp;
		expected = 0;
	}
	f->ack_epoch_acked = min_t(u32, f->ack_epoch_acked + acked,
				   BBR_EPOCH_MAX - 1);
	extra = min(f->ack_epoch_acked - expected, tcp_snd_cwnd(tp));
	f->extra_acked[f->extra_acked_index] =
		max(f->extra_acked[f->extra_acked_index], extra);
}

static u32 bbr_extra_acked(const struct bbr_flow *f)
{
	u64 most = (u64)bbr_bw(f) * BBR_EXTRA_MAX_US >> BBR_BW_BITS;

	return min_t(u64, max(f->extra_acked[0], f->extra_acked[1]), most);
}

/* Window */

/* Recovery and PROBE_RTT cut the window, which is restored after them. */
void bbr_save_cwnd(struct sock *sk)
{
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));
	struct bbr_flow *f = bbr_flow(sk);

	if (f->prev_ca_state < TCP_CA_Recovery && f->mode != BBR_PROBE_RTT)
		f->prior_cwnd = cwnd;
	else
		f->prior_cwnd = max(f->prior_cwnd, cwnd);
}

void bbr_set_cwnd(struct sock *sk, const struct bbr_ack *ack)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);
	u32 acked = ack->rs->acked_sacked;
	u32 cwnd = tcp_snd_cwnd(tp);
	u32 target;

	if (acked) {
		target = bbr_bdp(f, bbr_bw(f), f->cwnd_gain);
		target = bbr_quantized(sk, target + bbr_extra_acked(f));
		f->try_fast_path = false;
		if (f->full_bw_reached) {
			cwnd += acked;
			if (cwnd >= target) {
				cwnd = target;
				f->try_fast_path = true;
			}
		} else if (cwnd < target || cwnd < 2 * f->init_cwnd) {
			cwnd += acked;
		} else {
			f->try_fast_path = true;
		}
		cwnd = max(cwnd, BBR_MIN_CWND);
	}
	cwnd = min(cwnd, tp->snd_cwnd_clamp);
	if (f->mode == BBR_PROBE_RTT)
		cwnd = min(cwnd, bbr_probe_rtt_cwnd(f));
	tcp_snd_cwnd_set(tp, cwnd);
}

/* Losses and marks bound what is in flight, whatever the model says. */
void bbr_bound_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct bbr_flow *f = bbr_flow(sk);
	u32 cap = BBR_UNSET;

	if (f->mode == BBR_PROBE_RTT || bbr_in_phase(f, BBR_CRUISE))
		cap = bbr_with_headroom(f);
	else if (f->mode == BBR_PROBE_BW)
		cap = f->inflight_hi;
	cap = max(min(cap, f->inflight_lo), BBR_MIN_CWND);
	tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), cap));
}
