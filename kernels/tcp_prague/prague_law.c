// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: increase and reductions
 *
 * All functions need the socket locked.
 */
#include <linux/math64.h>
#include <net/tcp.h>

#include "prague.h"

#define PRAGUE_MAX_CREDIT	BIT(12)	/* packets: most that one ACK adds */

/* Increase */

/* 2^-40 packets of 1500 B per RTT. The target is at most 100 ms, so that this
 * is one packet from there on for any target.
 */
static u64 prague_ai_per_rtt(const struct sock *sk)
{
	u32 target = prague_target(sk);
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
	ca->frac_cwnd = prague_bound_cwnd(sk, ca->frac_cwnd + gain);
}

/* Other versions divide by whole packets, of whatever size, round to nearest,
 * and add at least 2^-20 for each packet.
 */
static void prague_increase_packets(struct sock *sk, u32 credit)
{
	struct prague *ca = inet_csk_ca(sk);
	u32 packets = tcp_snd_cwnd(tcp_sk(sk));
	u64 gain = prague_ai_per_rtt(sk) >> (PRAGUE_AI_BITS - PRAGUE_CWND_BITS);

	if (prague_version_of(sk) == PRAGUE_VERSION_06)
		packets = (ca->frac_cwnd + PRAGUE_CWND_ONE - 1) >>
			  PRAGUE_CWND_BITS;
	credit = min(credit, PRAGUE_MAX_CREDIT);
	gain = div_u64(gain * credit + packets / 2, packets);
	gain = max_t(u64, gain, credit);
	ca->frac_cwnd = prague_bound_cwnd(sk, ca->frac_cwnd + gain);
}

/* rate += (credit * 1500 / vRTT) / packets in a vRTT
 *
 * The remainder is kept: at 100 Gbit/s a packet adds 0.3 B/s.
 */
static void prague_increase_rate(struct sock *sk, u32 credit)
{
	struct prague *ca = inet_csk_ca(sk);
	u32 vrtt = prague_vrtt(sk);
	/* 2^37 * 2^26 and 2^12 * 1500 * 2^23: below 2^63 and 2^46. The
	 * remainder is below the divisor, hence below 2^56.
	 */
	u64 packets = DIV64_U64_ROUND_UP(ca->rate * vrtt,
					 (u64)PRAGUE_SRTT_PER_SEC *
					 prague_mtu(sk));
	u64 gain = (u64)min(credit, PRAGUE_MAX_CREDIT) * PRAGUE_REF_MTU *
		   PRAGUE_SRTT_PER_SEC;

	gain = div64_u64_rem(ca->ai_rest + gain, packets * vrtt, &ca->ai_rest);
	ca->rate = prague_bound_rate(ca->rate + gain);
}

/* Version 0.6 keeps the fractional window of before slow start, and returns to
 * it when slow start ends: with the first ACK that reports only marks, or finds
 * the flow limited by something else. That of 2024 forgets a reduction if the
 * ACK that brought the mark reports an unmarked packet as well.
 */
static u32 prague_slow_start(struct sock *sk, u32 credit)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u64 cwnd;

	credit = tcp_slow_start(tp, credit);
	cwnd = tcp_snd_cwnd(tp) * PRAGUE_CWND_ONE;
	switch (prague_version_of(sk)) {
	case PRAGUE_VERSION_06:
		return credit;
	case PRAGUE_VERSION_2024:
		break;
	default:
		cwnd = max(cwnd, ca->frac_cwnd);
	}
	ca->frac_cwnd = prague_bound_cwnd(sk, cwnd);
	return credit;
}

/* True if the path limits the flow, not the application. Pacing keeps a flow in
 * rate mode below its window most of the time: the rate limits it then.
 */
static bool prague_is_limited(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	bool app_limited = tcp_sk(sk)->app_limited;

	if (prague_version_of(sk) == PRAGUE_VERSION_2024)
		return !app_limited;
	return (ca->rate_mode && !app_limited) || tcp_is_cwnd_limited(sk);
}

/* Return: true if slow start has already set the number of packets */
bool prague_increase(struct sock *sk, u32 credit)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!credit || ca->in_loss || !prague_is_limited(sk))
		return false;
	if (ca->rate_mode) {
		prague_increase_rate(sk, credit);
		return false;
	}
	if (tcp_in_slow_start(tp)) {
		credit = prague_slow_start(sk, credit);
		if (!credit)
			return true;
	}
	if (prague_version_of(sk) == PRAGUE_VERSION_07)
		prague_increase_window(sk, credit);
	else
		prague_increase_packets(sk, credit);
	return false;
}

/* Reductions */

/* value - value * alpha / 2, rounded to nearest */
static u64 prague_less_alpha(u64 value, u32 alpha)
{
	return value - ((mul_u64_u32_shr(value, alpha, PRAGUE_ALPHA_BITS) + 1)
			>> 1);
}

/* The first reduction ends slow start, however small it is. In other versions
 * than 0.7, that takes a decrement of the number of packets: see
 * prague_update_cwnd().
 */
static void prague_leave_slow_start(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_slow_start(tp) && prague_version_of(sk) == PRAGUE_VERSION_07)
		WRITE_ONCE(tp->snd_ssthresh, tcp_snd_cwnd(tp));
}

static void prague_reduce(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	u32 alpha = prague_fallback_alpha(sk);

	if (ca->rate_mode)
		ca->rate = prague_bound_rate(prague_less_alpha(ca->rate,
							       alpha));
	else
		ca->frac_cwnd =
			prague_bound_cwnd(sk, prague_less_alpha(ca->frac_cwnd,
								alpha));
}

/* Congestion experienced: the core enters TCP_CA_CWR at the first mark after
 * the data that was outstanding at the last one is acknowledged.
 */
void prague_enter_cwr(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (prague_rtt_independent(sk) &&
	    (READ_ONCE(ca->params->reduction) == PRAGUE_REDUCTION_ROUND ||
	     tcp_stamp_us_delta(tp->tcp_mstamp, ca->cwr_stamp) <
	     prague_target(sk)))
		return;
	ca->cwr_stamp = tp->tcp_mstamp;
	prague_leave_slow_start(sk);
	prague_reduce(sk);
}

/* Called at the end of a round, after alpha was updated */
void prague_end_round(struct sock *sk, bool marked)
{
	struct prague *ca = inet_csk_ca(sk);

	if (marked && !ca->in_loss && prague_rtt_independent(sk) &&
	    READ_ONCE(ca->params->reduction) == PRAGUE_REDUCTION_ROUND)
		prague_reduce(sk);
}

/* Halve at the first mark of a connection, when alpha has no history. */
void prague_first_ce(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	ca->saw_ce = 1;
	if (ca->alpha)
		return; /* prague_alpha_mode 1: TCP_CA_CWR has halved already */
	prague_leave_slow_start(sk);
	ca->frac_cwnd = prague_bound_cwnd(sk, ca->frac_cwnd >> 1);
}

/* Called for fast recovery, and for each timeout that the core has reduced for.
 * Undo returns to what was before the first of them.
 */
void prague_enter_loss(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	if (!ca->in_loss) {
		ca->in_loss = 1;
		ca->flow->loss_window = prague_window(sk);
		ca->flow->loss_rate = prague_rate(sk);
	}
	if (ca->rate_mode) {
		ca->rate = prague_bound_rate(ca->rate >> 1);
		ca->frac_cwnd = prague_rate_mode_cwnd(sk);
	} else {
		ca->frac_cwnd = prague_bound_cwnd(sk, ca->frac_cwnd >> 1);
	}
	/* After a timeout the core restarts the window towards this. */
	if (prague_version_of(sk) == PRAGUE_VERSION_07)
		WRITE_ONCE(tcp_sk(sk)->snd_ssthresh, prague_cwnd(sk));
}

/* Return: the window in packets */
u32 prague_undo(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	u64 cwnd = div_u64(ca->flow->loss_window, prague_mtu(sk));

	ca->in_loss = 0;
	if (prague_version_of(sk) == PRAGUE_VERSION_2024) {
		/* The rate, and the window that the long-term RTT needs for it */
		ca->rate = max(prague_rate(sk), ca->flow->loss_rate);
		ca->frac_cwnd = prague_rate_to_cwnd(sk, ca->hsrtt);
	} else {
		ca->frac_cwnd = prague_bound_cwnd(sk, max(ca->frac_cwnd, cwnd));
		if (ca->rate_mode)
			ca->rate = max(ca->rate, ca->flow->loss_rate);
	}
	return max(tcp_snd_cwnd(tcp_sk(sk)), prague_cwnd(sk));
}
