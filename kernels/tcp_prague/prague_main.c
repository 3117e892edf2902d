// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague congestion control, for unpatched Linux >= 7.0
 *
 * A scalable congestion control for the L4S service (RFC 9330): it marks its
 * packets ECT(1) (RFC 9331), expects a queue that marks early and often, such
 * as a Dual-Queue Coupled AQM (RFC 9332), and reduces in proportion to the
 * marks that AccECN (RFC 9768) counts for it. The algorithm is that of
 * draft-briscoe-iccrg-prague-congestion-control, in the form of the Linux
 * implementation's version 0.7.
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
 * Loss. Halve once per recovery; restore what was halved on undo.
 *
 * Window and rate. W has a fraction, and paces the packets. Where the window
 * would be of four packets or less, it is too coarse: the pacing rate becomes
 * the variable that is increased and reduced, in the same proportions, and
 * the window follows from it. The rate then swings by 3 % to either side so
 * that the flow keeps probing.
 *
 * Bursts are limited to 1/4096 s of the pacing rate (but one packet), and
 * packets shrink, down to 150 B of payload, so that there are at least two in
 * a virtual RTT.
 *
 * What follows later has its place: other rules for the segment size in
 * prague_update_mss(), and the detection of a classic ECN queue, which lets
 * prague_enter_cwr() reduce more than alpha asks for. Its state will not fit
 * into icsk_ca_priv and needs an allocation.
 */
#include <linux/inet_diag.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <net/tcp.h>
#include <net/tcp_ecn.h>

#include "prague.h"

/* Fixed-point fractions, in bits */
#define PRAGUE_ALPHA_BITS	24	/* alpha, and the marked fraction F */
#define PRAGUE_CWND_BITS	20	/* window, in packets */
#define PRAGUE_AI_BITS		40	/* increase per RTT, in packets */

#define PRAGUE_ALPHA_ONE	BIT(PRAGUE_ALPHA_BITS)
#define PRAGUE_CWND_ONE		BIT_ULL(PRAGUE_CWND_BITS)

#define PRAGUE_GAIN_SHIFT	4	/* alpha: g = 1/16 */
#define PRAGUE_HSRTT_SHIFT	7	/* long-term RTT: gain 1/128 */
#define PRAGUE_DITHER_SHIFT	7	/* rate mode: swing in 1/128 ... */
#define PRAGUE_DITHER		4	/* ... of 4/128 = 3 % */

#define PRAGUE_REF_MTU		1500	/* B: packet size AI is stated in */
#define PRAGUE_MIN_MSS		150	/* B: least payload of a packet */
#define PRAGUE_MIN_CWND		2	/* packets */
#define PRAGUE_MIN_RATE		12500	/* B/s: 100 kbit/s */
#define PRAGUE_MAX_TARGET	100000	/* us: longest virtual RTT */

/* Limits that keep the arithmetic below within 64 bits. At 100 Gbit/s and an
 * RTT of 2 s the window is 16.7 million packets of 1500 B, the rate 12.5 GB/s.
 */
#define PRAGUE_MAX_CWND		BIT(24)		/* packets */
#define PRAGUE_MAX_RATE		BIT_ULL(37)	/* B/s: 1.1 Tbit/s */
#define PRAGUE_MAX_SRTT		(BIT(26) - 1)	/* us/8: 8.4 s */
#define PRAGUE_MAX_CREDIT	BIT(12)		/* packets, per ACK */

/* tp->srtt_us counts eighths of a microsecond */
#define PRAGUE_SRTT_PER_SEC	(8 * USEC_PER_SEC)

enum prague_cwnd_mode {
	PRAGUE_MODE_WINDOW,
	PRAGUE_MODE_RATE,
	PRAGUE_MODE_SWITCH,
};

struct prague {
	u64 frac_cwnd;		/* window: 2^-20 packets of mss + headers */
	u64 rate;		/* rate mode only: B/s with IP headers */
	u64 alpha_stamp;	/* us: end of the last round */
	u64 cwr_stamp;		/* us: last reduction for CE */
	u64 hsrtt;		/* long-term smoothed RTT: us/8, times 128 */
	u64 ai_rest;		/* remainder of the last division for AI */
	u64 loss_window;	/* before a loss: 2^-20 B with IP headers */
	u64 loss_rate;		/* before a loss: B/s with IP headers */
	u32 alpha;		/* 2^-28, i.e. times 16 to keep the rest */
	u32 next_seq;		/* the round ends when this is acknowledged */
	u32 round;		/* rounds outside of slow start */
	u32 round_delivered;	/* tp->delivered, _ce at the round's start */
	u32 round_delivered_ce;
	u32 acked_ce;		/* tp->delivered_ce at the last ACK */
	u16 mss;		/* tp->mss_cache as this module knows it */
	u16 mss_max;		/* ... as the path allows it */
	u16 burst;		/* packets: limit of one burst */
	u16 gso_max;		/* sk->sk_gso_max_segs as the device allows */
	u16 gso_set;		/* ... as this module set it */
	u8 saw_ce:1,		/* a mark was ever fed back */
	   in_loss:1,		/* recovering: halved, and no increase */
	   rate_mode:1,		/* rate, not frac_cwnd, is in control */
	   paced:1;		/* this module switched pacing on */
};

static unsigned int prague_burst_shift __read_mostly = 12;
static unsigned int prague_max_tso_segs __read_mostly;
static unsigned int prague_rtt_transition __read_mostly = 4;
static unsigned int prague_rtt_target __read_mostly = 25000;
static unsigned int prague_alpha_mode __read_mostly;
static unsigned int prague_cwnd_mode __read_mostly = PRAGUE_MODE_SWITCH;
static unsigned int prague_cwnd_transit __read_mostly = 4;

/* A parameter in a range; the range is part of its description */
#define PRAGUE_PARAM(param, least, most, desc)				\
static int param##_set(const char *val, const struct kernel_param *kp)	\
{									\
	return param_set_uint_minmax(val, kp, least, most);		\
}									\
static const struct kernel_param_ops param##_ops = {			\
	.set = param##_set,						\
	.get = param_get_uint,						\
};									\
module_param_cb(param, &param##_ops, &param, 0644);			\
MODULE_PARM_DESC(param, desc " [" #least ".." #most "]")

PRAGUE_PARAM(prague_burst_shift, 0, 31,
	     "longest burst is 2^-this seconds of the pacing rate");
PRAGUE_PARAM(prague_max_tso_segs, 0, 65535,
	     "longest burst in packets, 0 for no such limit");
PRAGUE_PARAM(prague_rtt_transition, 0, 4294967295,
	     "rounds after slow start until RTT independence (v0.6: 500)");
PRAGUE_PARAM(prague_rtt_target, 1, 100000,
	     "virtual RTT in microseconds");
PRAGUE_PARAM(prague_alpha_mode, 0, 1,
	     "0: alpha starts at 0, first mark halves; 1: at 1 (v0.6)");
PRAGUE_PARAM(prague_cwnd_mode, 0, 2,
	     "0: window mode, 1: rate mode, 2: switch");
PRAGUE_PARAM(prague_cwnd_transit, 0, 65535,
	     "mode 2: rate mode up to this many packets of 1500 B");

static struct tcp_congestion_ops prague_reno;

/* Units and conversions */

static u32 prague_target(void)
{
	return READ_ONCE(prague_rtt_target);
}

/* us/8, at least 1 */
static u32 prague_srtt(const struct sock *sk)
{
	return clamp(tcp_sk(sk)->srtt_us, 1U, (u32)PRAGUE_MAX_SRTT);
}

/* Virtual RTT in us/8 */
static u32 prague_vrtt(const struct sock *sk)
{
	return max(prague_srtt(sk), prague_target() << 3);
}

/* B: size of a full packet from its IP header on. Options that come and go,
 * such as AccECN's, take from the payload and leave the size as it is.
 */
static u32 prague_mtu(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return tcp_mss_to_mtu(sk, ca->mss);
}

static u64 prague_bound_cwnd(u64 frac_cwnd)
{
	return clamp(frac_cwnd, PRAGUE_MIN_CWND * PRAGUE_CWND_ONE,
		     PRAGUE_MAX_CWND * PRAGUE_CWND_ONE);
}

static u64 prague_bound_rate(u64 rate)
{
	return clamp(rate, PRAGUE_MIN_RATE, PRAGUE_MAX_RATE);
}

/* 2^-20 B; below 2^60 as the window is below 2^24 packets of 2^16 B */
static u64 prague_window(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return ca->frac_cwnd * prague_mtu(sk);
}

/* B/s. 2^60 * 2^23 / 2^20: the quotient stays below 2^63. */
static u64 prague_window_to_rate(struct sock *sk)
{
	u64 rate = mul_u64_u64_div_u64(prague_window(sk), PRAGUE_SRTT_PER_SEC,
				       (u64)prague_srtt(sk) <<
				       PRAGUE_CWND_BITS);

	return prague_bound_rate(rate);
}

static u64 prague_rate(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return ca->rate_mode ? ca->rate : prague_window_to_rate(sk);
}

/* The window that a rate fills in a long-term RTT.
 * 2^57 * 2^33 / 2^38: the quotient stays below 2^53.
 */
static u64 prague_rate_to_cwnd(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	u64 cwnd = mul_u64_u64_div_u64(ca->rate << PRAGUE_CWND_BITS, ca->hsrtt,
				       ((u64)PRAGUE_SRTT_PER_SEC <<
					PRAGUE_HSRTT_SHIFT) * prague_mtu(sk));

	return prague_bound_cwnd(cwnd + 1);
}

/* Packets: the window rounded up */
static u32 prague_cwnd(const struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	u32 cwnd = (ca->frac_cwnd + PRAGUE_CWND_ONE - 1) >> PRAGUE_CWND_BITS;

	return max(min(cwnd, tcp_sk(sk)->snd_cwnd_clamp), PRAGUE_MIN_CWND);
}

/* Whether the flow behaves as if its RTT were at least the target */
static bool prague_rtt_independent(const struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return ca->round >= READ_ONCE(prague_rtt_transition) &&
	       !tcp_in_slow_start(tcp_sk(sk));
}

/* Segment size, pacing, burst */

/* Use packets of another size and leave window and rate as they are in bytes.
 * 2^44 * 2^16: the product stays below 2^60.
 */
static void prague_set_mss(struct sock *sk, u16 mss)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 old_mtu = prague_mtu(sk);
	u32 new_mtu;

	ca->mss = mss;
	new_mtu = prague_mtu(sk);
	ca->frac_cwnd = prague_bound_cwnd(div_u64(ca->frac_cwnd * old_mtu,
						  new_mtu));
	if (tp->snd_ssthresh < TCP_INFINITE_SSTHRESH) {
		u64 ssthresh = div_u64((u64)tp->snd_ssthresh * old_mtu,
				       new_mtu);

		WRITE_ONCE(tp->snd_ssthresh,
			   clamp(ssthresh, PRAGUE_MIN_CWND,
				 TCP_INFINITE_SSTHRESH - 1));
	}
}

/* The core recomputes mss_cache when the path MTU or the route changes, or an
 * MTU probe succeeds. What it finds is a new maximum.
 */
static void prague_track_mss(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	u32 mss = tcp_sk(sk)->mss_cache;

	if (likely(mss == ca->mss))
		return;
	ca->mss_max = mss;
	prague_set_mss(sk, mss);
}

/* At least two packets in a virtual RTT: size = rate * vRTT / 2.
 *
 * mss_cache is written and icsk_pmtu_cookie left alone, so that
 * tcp_current_mss() takes it and does not go back to the path MTU.
 */
static void prague_update_mss(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	u32 headers = tcp_mss_to_mtu(sk, 0);
	u32 least = min(PRAGUE_MIN_MSS, ca->mss_max);
	/* 2^37 * 2^26: the product stays below 2^63 */
	u64 mtu = DIV_ROUND_UP_ULL(prague_rate(sk) * prague_vrtt(sk),
				   2 * PRAGUE_SRTT_PER_SEC);
	u16 mss = clamp(mtu, least + headers, ca->mss_max + headers) - headers;

	if (mss == ca->mss)
		return;
	prague_set_mss(sk, mss);
	tcp_sk(sk)->mss_cache = mss;
}

/* B/s with IP headers, as it is to appear on the wire */
static u64 prague_pacing_rate(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 packets, rate;

	if (ca->rate_mode) {
		u64 swing = (ca->rate * PRAGUE_DITHER) >> PRAGUE_DITHER_SHIFT;
		u32 since = tcp_stamp_us_delta(tp->tcp_mstamp,
					       ca->alpha_stamp);

		/* us against us/8: half a virtual RTT */
		if (since < prague_vrtt(sk) >> 4)
			return ca->rate + swing;
		return prague_bound_rate(ca->rate - swing);
	}

	/* After a reduction what is in flight drains at its own rate. */
	packets = max(ca->frac_cwnd >> PRAGUE_CWND_BITS,
		      tcp_packets_in_flight(tp));
	packets = min(packets, PRAGUE_MAX_CWND);
	/* 2^24 * 2^16 * 2^23: the product stays below 2^63 */
	rate = div_u64(packets * prague_mtu(sk) * PRAGUE_SRTT_PER_SEC,
		       prague_srtt(sk));
	rate = prague_bound_rate(rate);
	if (tcp_snd_cwnd(tp) < tp->snd_ssthresh / 2)
		rate <<= 1;
	return rate;
}

static void prague_update_pacing(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	u32 limit = READ_ONCE(prague_max_tso_segs) ?: U16_MAX;
	u32 mtu = prague_mtu(sk);
	u64 rate, burst;

	if (!tcp_sk(sk)->srtt_us)
		return;
	rate = prague_pacing_rate(sk);
	burst = div_u64(rate, mtu) >> READ_ONCE(prague_burst_shift);
	ca->burst = clamp(burst, 1, limit);

	/* The core paces payload. 2^38 * 2^16: the product is below 2^54. */
	rate = div_u64(rate * ca->mss, mtu);
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* Burst limit. The core takes the larger of this and its own idea, and then
 * the lesser of that and sk_gso_max_segs, so both are set. A new route sets
 * sk_gso_max_segs back to what the device can do.
 */
static u32 prague_min_tso_segs(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	if (sk->sk_gso_max_segs != ca->gso_set)
		ca->gso_max = sk->sk_gso_max_segs;
	ca->gso_set = min(ca->burst, ca->gso_max);
	sk->sk_gso_max_segs = ca->gso_set;
	return ca->gso_set;
}

/* Increase */

/* 2^-40 packets of 1500 B per RTT. The target is at most 100 ms, so that this
 * is one packet from there on for any target.
 */
static u64 prague_ai_per_rtt(const struct sock *sk)
{
	u32 target = prague_target();
	u32 srtt = prague_srtt(sk);
	u64 ratio;

	if (!prague_rtt_independent(sk) || srtt >= target << 3)
		return BIT_ULL(PRAGUE_AI_BITS);
	/* srtt is below 2^20 here, the ratio below 2^20 */
	ratio = div_u64((u64)srtt << (PRAGUE_AI_BITS / 2 - 3), target);
	return ratio * ratio;
}

/* frac_cwnd += credit * AI * 1500 / (frac_cwnd * mtu)
 *
 * 2^12 * 2^40 * 1500 < 2^63, and the remainder is below the divisor's 2^60.
 * The remainder is kept: at an RTT of 10 us and 10 Gbit/s a packet adds 1/50
 * of the smallest fraction.
 */
static void prague_increase_window(struct sock *sk, u32 credit)
{
	struct prague *ca = inet_csk_ca(sk);
	u64 gain = prague_ai_per_rtt(sk) * PRAGUE_REF_MTU *
		   min(credit, PRAGUE_MAX_CREDIT);

	gain = div64_u64_rem(ca->ai_rest + gain, prague_window(sk),
			     &ca->ai_rest);
	ca->frac_cwnd = prague_bound_cwnd(ca->frac_cwnd + gain);
}

/* rate += (credit * 1500 / vRTT) / packets in a vRTT */
static void prague_increase_rate(struct sock *sk, u32 credit)
{
	struct prague *ca = inet_csk_ca(sk);
	u32 vrtt = prague_vrtt(sk);
	/* 2^37 * 2^26 and 2^12 * 1500 * 2^23: below 2^63 and 2^46 */
	u64 packets = DIV64_U64_ROUND_UP(ca->rate * vrtt,
					 (u64)PRAGUE_SRTT_PER_SEC *
					 prague_mtu(sk));
	u64 gain = div64_u64((u64)min(credit, PRAGUE_MAX_CREDIT) *
			     PRAGUE_REF_MTU * PRAGUE_SRTT_PER_SEC,
			     packets * vrtt);

	ca->rate = prague_bound_rate(ca->rate + gain);
}

static void prague_increase(struct sock *sk, u32 credit)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!credit || ca->in_loss || !tcp_is_cwnd_limited(sk))
		return;
	if (ca->rate_mode) {
		prague_increase_rate(sk, credit);
		return;
	}
	if (tcp_in_slow_start(tp)) {
		credit = tcp_slow_start(tp, credit);
		ca->frac_cwnd = max(ca->frac_cwnd,
				    tcp_snd_cwnd(tp) * PRAGUE_CWND_ONE);
		ca->frac_cwnd = prague_bound_cwnd(ca->frac_cwnd);
		if (!credit)
			return;
	}
	prague_increase_window(sk, credit);
}

/* Reductions */

/* value - value * alpha / 2, rounded to nearest */
static u64 prague_less_alpha(const struct prague *ca, u64 value)
{
	u32 alpha = ca->alpha >> PRAGUE_GAIN_SHIFT;

	return value - ((mul_u64_u32_shr(value, alpha, PRAGUE_ALPHA_BITS) + 1)
			>> 1);
}

/* The first reduction ends slow start, however small it is. */
static void prague_leave_slow_start(struct tcp_sock *tp)
{
	if (tcp_in_slow_start(tp))
		WRITE_ONCE(tp->snd_ssthresh, tcp_snd_cwnd(tp));
}

/* Congestion experienced: the core enters TCP_CA_CWR at the first mark after
 * the data that was outstanding at the last one is acknowledged.
 */
static void prague_enter_cwr(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (prague_rtt_independent(sk) &&
	    tcp_stamp_us_delta(tp->tcp_mstamp, ca->cwr_stamp) <
	    prague_target())
		return;
	ca->cwr_stamp = tp->tcp_mstamp;
	prague_leave_slow_start(tp);
	if (ca->rate_mode)
		ca->rate = prague_bound_rate(prague_less_alpha(ca, ca->rate));
	else
		ca->frac_cwnd = prague_bound_cwnd(prague_less_alpha(ca,
								    ca->frac_cwnd));
}

/* The first mark of a connection, when alpha has no history: halve. */
static void prague_first_ce(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	ca->saw_ce = 1;
	if (ca->alpha)
		return; /* prague_alpha_mode 1: TCP_CA_CWR has halved already */
	prague_leave_slow_start(tcp_sk(sk));
	ca->frac_cwnd = prague_bound_cwnd(ca->frac_cwnd >> 1);
}

/* Fast recovery or timeout, whichever comes first */
static void prague_enter_loss(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	if (ca->in_loss)
		return;
	ca->in_loss = 1;
	ca->loss_window = prague_window(sk);
	ca->loss_rate = prague_rate(sk);
	if (ca->rate_mode) {
		ca->rate = prague_bound_rate(ca->rate >> 1);
		ca->frac_cwnd = prague_rate_to_cwnd(sk);
	} else {
		ca->frac_cwnd = prague_bound_cwnd(ca->frac_cwnd >> 1);
	}
	/* After a timeout the core lets the window start again from here. */
	WRITE_ONCE(tcp_sk(sk)->snd_ssthresh, prague_cwnd(sk));
}

static u32 prague_undo_cwnd(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	u64 cwnd = div_u64(ca->loss_window, prague_mtu(sk));

	ca->in_loss = 0;
	ca->frac_cwnd = prague_bound_cwnd(max(ca->frac_cwnd, cwnd));
	if (ca->rate_mode)
		ca->rate = max(ca->rate, ca->loss_rate);
	return max(tcp_snd_cwnd(tcp_sk(sk)), prague_cwnd(sk));
}

/* Reductions are made in prague_enter_cwr() and prague_enter_loss(). */
static u32 prague_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

static void prague_set_state(struct sock *sk, u8 new_state)
{
	struct prague *ca = inet_csk_ca(sk);

	if (new_state == inet_csk(sk)->icsk_ca_state)
		return;
	switch (new_state) {
	case TCP_CA_Open:
		ca->in_loss = 0;
		break;
	case TCP_CA_CWR:
		prague_enter_cwr(sk);
		break;
	case TCP_CA_Recovery:
	case TCP_CA_Loss:
		prague_enter_loss(sk);
		break;
	default:
		break;
	}
}

static void prague_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_LOSS)
		prague_enter_loss(sk);
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

	/* Marks of pure ACKs are fed back as well: not more than all */
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
	    prague_target())
		return;

	ca->hsrtt += prague_srtt(sk);
	ca->hsrtt -= ca->hsrtt >> PRAGUE_HSRTT_SHIFT;
	if (ca->saw_ce)
		prague_update_alpha(sk);
	if (ca->saw_ce && !ca->in_loss && prague_rtt_independent(sk))
		prague_update_mss(sk);
	if (!tcp_in_slow_start(tp))
		ca->round++;
	prague_start_round(sk);
}

/* The whole */

static bool prague_wants_rate_mode(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	/* Until the first mark ends it, slow start is the window's. */
	if (!ca->saw_ce && tcp_in_slow_start(tp))
		return false;
	switch (READ_ONCE(prague_cwnd_mode)) {
	case PRAGUE_MODE_WINDOW:
		return false;
	case PRAGUE_MODE_RATE:
		return true;
	default:
		return ca->saw_ce &&
		       (u64)tcp_snd_cwnd(tp) * prague_mtu(sk) <=
		       READ_ONCE(prague_cwnd_transit) * PRAGUE_REF_MTU;
	}
}

static void prague_choose_mode(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	bool rate_mode = prague_wants_rate_mode(sk);

	if (rate_mode && !ca->rate_mode)
		ca->rate = prague_window_to_rate(sk);
	ca->rate_mode = rate_mode;
	if (rate_mode)
		ca->frac_cwnd = prague_rate_to_cwnd(sk);
}

/* One packet per ACK at most, so that the ACK clock is never cut off */
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
		if (!ca->in_loss)
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

	/* Prague was set before the handshake had its outcome. */
	if (unlikely(!tcp_ecn_mode_accecn(tp))) {
		prague_fall_back(sk);
		return;
	}
	prague_track_mss(sk);
	ca->acked_ce = tp->delivered_ce;
	if (marked && !ca->saw_ce)
		prague_first_ce(sk);
	/* A mark of a pure ACK is no delivered packet */
	prague_increase(sk, rs->acked_sacked - min(marked, rs->acked_sacked));
	prague_check_round(sk);
	prague_choose_mode(sk);
	prague_update_cwnd(sk);
	prague_update_pacing(sk);
}

static size_t prague_get_info(struct sock *sk, u32 ext, int *attr,
			      union tcp_cc_info *info)
{
	const struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct tcp_dctcp_info *dctcp = &info->dctcp;

	/* The inet_diag ABI has no record for Prague; that of DCTCP means the
	 * same. Requests name VEGASINFO for any of them.
	 */
	if (!(ext & (BIT(INET_DIAG_DCTCPINFO - 1) |
		     BIT(INET_DIAG_VEGASINFO - 1))))
		return 0;
	memset(dctcp, 0, sizeof(*dctcp));
	dctcp->dctcp_enabled = 1;
	dctcp->dctcp_ce_state = ca->saw_ce;
	/* DCTCP's alpha has 10 bits */
	dctcp->dctcp_alpha = READ_ONCE(ca->alpha) >>
			     (PRAGUE_ALPHA_BITS + PRAGUE_GAIN_SHIFT - 10);
	dctcp->dctcp_ab_ecn = tp->mss_cache *
			      (tp->delivered_ce - ca->round_delivered_ce);
	dctcp->dctcp_ab_tot = tp->mss_cache *
			      (tp->delivered - ca->round_delivered);
	*attr = INET_DIAG_DCTCPINFO;
	return sizeof(*dctcp);
}

/* Beginning and end */

/* Without AccECN there is no count of marks: be a plain Reno. A queue must
 * not take it for L4S either, so no ECT(1).
 */
static void prague_to_reno(struct sock *sk)
{
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &prague_reno);
	INET_ECN_dontxmit(sk);
}

static void prague_init(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	/* A setsockopt() may come while AccECN is still being negotiated. */
	if ((!tcp_ecn_mode_accecn(tp) && !tcp_ecn_mode_pending(tp)) ||
	    !prague_ect1_enable(sk)) {
		prague_to_reno(sk);
		return;
	}

	ca->mss = tp->mss_cache;
	ca->mss_max = ca->mss;
	ca->frac_cwnd = prague_bound_cwnd(tcp_snd_cwnd(tp) * PRAGUE_CWND_ONE);
	ca->hsrtt = (u64)prague_srtt(sk) << PRAGUE_HSRTT_SHIFT;
	if (READ_ONCE(prague_alpha_mode))
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
}

/* Leave nothing behind that only Prague understands. */
static void prague_release(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	prague_ect1_disable(sk);
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

static struct tcp_congestion_ops prague __read_mostly = {
	.init		= prague_init,
	.release	= prague_release,
	.cong_control	= prague_cong_control,
	.ssthresh	= prague_ssthresh,
	.undo_cwnd	= prague_undo_cwnd,
	.set_state	= prague_set_state,
	.cwnd_event	= prague_cwnd_event,
	.min_tso_segs	= prague_min_tso_segs,
	.get_info	= prague_get_info,
	.flags		= TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN |
			  TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION |
			  TCP_CONG_NO_FALLBACK_RFC3168,
	.owner		= THIS_MODULE,
	.name		= "prague",
};

/* Not registered: a socket gets it in place of prague, and the reference to
 * the module with it.
 */
static struct tcp_congestion_ops prague_reno __read_mostly = {
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "prague-reno",
};

static int __init prague_register(void)
{
	BUILD_BUG_ON(sizeof(struct prague) > ICSK_CA_PRIV_SIZE);

	return tcp_register_congestion_control(&prague);
}

static void __exit prague_unregister(void)
{
	tcp_unregister_congestion_control(&prague);
}

module_init(prague_register);
module_exit(prague_unregister);

MODULE_AUTHOR("The l4sbench authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TCP Prague congestion control");
MODULE_VERSION("0.7");
