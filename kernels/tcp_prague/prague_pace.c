// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: from the window or the rate to packets
 *
 * All functions need the socket locked.
 */
#include <linux/math64.h>
#include <net/tcp.h>

#include "prague.h"

#define PRAGUE_OFFSET_SHIFT	7	/* prague_rate_offset is in 1/128 */

/* Window and rate */

/* B/s: a window of 2^-20 B with headers over an RTT of us/8.
 * 2^60 * 2^23 / 2^20: the quotient stays below 2^63.
 */
u64 prague_window_over(u64 window, u32 srtt)
{
	return prague_bound_rate(mul_u64_u64_div_u64(window,
						     PRAGUE_SRTT_PER_SEC,
						     (u64)srtt <<
						     PRAGUE_CWND_BITS));
}

/* B/s: the window over the present RTT */
u64 prague_window_to_rate(struct sock *sk)
{
	return prague_window_over(prague_window(sk), prague_srtt(sk));
}

/* B/s: whichever of the two is in control */
u64 prague_rate(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return ca->rate_mode ? ca->rate : prague_window_to_rate(sk);
}

/* 2^-20 packets: ca->rate times an RTT, given in us/8 times 128.
 * 2^57 * 2^34 / 2^36: the quotient stays below 2^55.
 */
u64 prague_rate_to_cwnd(struct sock *sk, u64 rtt)
{
	const struct prague *ca = inet_csk_ca(sk);
	u64 cwnd = mul_u64_u64_div_u64(ca->rate << PRAGUE_CWND_BITS, rtt,
				       ((u64)PRAGUE_SRTT_PER_SEC <<
					PRAGUE_HSRTT_SHIFT) * prague_mtu(sk));

	return prague_bound_cwnd(sk, cwnd + 1);
}

/* In rate mode the window must not follow the queue, hence the long-term RTT.
 * If the RTT has dropped since (the first may include a lost SYN), twice the
 * present one is enough.
 */
u64 prague_rate_mode_cwnd(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return prague_rate_to_cwnd(sk, min(ca->hsrtt, (u64)prague_srtt(sk) <<
					   (PRAGUE_HSRTT_SHIFT + 1)));
}

/* Pacing */

/* B/s with headers: below 2^38 */
static u64 prague_pacing_rate(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	enum prague_version version = prague_version_of(sk);
	u64 packets, rate;

	if (ca->rate_mode) {
		u64 swing = (ca->rate * READ_ONCE(ca->params->rate_offset)) >>
			    PRAGUE_OFFSET_SHIFT;
		u32 since = tcp_stamp_us_delta(tp->tcp_mstamp,
					       ca->alpha_stamp);

		/* Half a virtual RTT up, then down; us against us/8 */
		if (since < prague_vrtt(sk) / 16)
			return ca->rate + swing;
		return prague_bound_rate(ca->rate - swing);
	}

	if (version == PRAGUE_VERSION_06) {
		rate = prague_window_to_rate(sk);
	} else {
		/* After a reduction, packets in flight drain at their rate.
		 */
		packets = version == PRAGUE_VERSION_2024 ?
				  tcp_snd_cwnd(tp) :
				  ca->frac_cwnd >> PRAGUE_CWND_BITS;
		packets = max(packets, tcp_packets_in_flight(tp));
		packets = min(packets, PRAGUE_MAX_CWND);
		/* 2^24 * 2^16 * 2^23: the product stays below 2^63 */
		rate = div_u64(packets * prague_mtu(sk) * PRAGUE_SRTT_PER_SEC,
			       prague_srtt(sk));
		rate = prague_bound_rate(rate);
	}
	if (tcp_snd_cwnd(tp) < tp->snd_ssthresh / 2)
		rate <<= 1;
	return rate;
}

void prague_update_pacing(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	u32 limit = READ_ONCE(ca->params->max_tso_segs) ?: U16_MAX;
	u32 mtu = prague_mtu(sk);
	u64 rate, burst;

	if (!tcp_sk(sk)->srtt_us)
		return;
	rate = prague_pacing_rate(sk);
	burst = div_u64(rate, mtu) >> READ_ONCE(ca->params->burst_shift);
	if (prague_version_of(sk) == PRAGUE_VERSION_06)
		burst = max(burst, prague_core_burst(sk));
	ca->burst = clamp(burst, 1, limit);

	/* The core paces payload, which other versions leave as it is.
	 * 2^38 * 2^16: the product is below 2^54.
	 */
	if (prague_version_of(sk) == PRAGUE_VERSION_07)
		rate = div_u64(rate * ca->mss, mtu);
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* The core takes the larger of this and its own burst, and then the smaller of
 * that and sk_gso_max_segs: to limit bursts, set both. A new route resets
 * sk_gso_max_segs to the device's limit.
 */
u32 prague_burst(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	if (sk->sk_gso_max_segs != ca->gso_set)
		ca->gso_max = sk->sk_gso_max_segs;
	ca->gso_set = min(ca->burst, ca->gso_max);
	sk->sk_gso_max_segs = ca->gso_set;
	return ca->gso_set;
}
