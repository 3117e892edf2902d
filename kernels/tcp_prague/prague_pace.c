// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: from the window or the rate to packets
 *
 * All functions need the socket locked.
 */
#include <linux/math64.h>
#include <net/tcp.h>

#include "prague.h"

#define PRAGUE_MIN_MSS		150	/* B: least payload of a packet */
#define PRAGUE_DITHER_SHIFT	7	/* rate mode: swing in 1/128 ... */
#define PRAGUE_DITHER		4	/* ... of 4/128 = 3 % */

static unsigned int prague_burst_shift __read_mostly = 12;
PRAGUE_PARAM(prague_burst_shift, 0, 31,
	     "longest burst is 2^-this seconds of the pacing rate");

static unsigned int prague_max_tso_segs __read_mostly;
PRAGUE_PARAM(prague_max_tso_segs, 0, 65535,
	     "longest burst in packets, 0 for no such limit");

/* Window and rate */

/* B/s: what the window makes of the present RTT.
 * 2^60 * 2^23 / 2^20: the quotient stays below 2^63.
 */
u64 prague_window_to_rate(struct sock *sk)
{
	u64 rate = mul_u64_u64_div_u64(prague_window(sk), PRAGUE_SRTT_PER_SEC,
				       (u64)prague_srtt(sk) <<
				       PRAGUE_CWND_BITS);

	return prague_bound_rate(rate);
}

/* B/s: whichever of the two is in control */
u64 prague_rate(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return ca->rate_mode ? ca->rate : prague_window_to_rate(sk);
}

/* 2^-20 packets: what ca->rate makes of an RTT given in us/8, times 128.
 * 2^57 * 2^34 / 2^36: the quotient stays below 2^55.
 */
u64 prague_rate_to_cwnd(struct sock *sk, u64 rtt)
{
	const struct prague *ca = inet_csk_ca(sk);
	u64 cwnd = mul_u64_u64_div_u64(ca->rate << PRAGUE_CWND_BITS, rtt,
				       ((u64)PRAGUE_SRTT_PER_SEC <<
					PRAGUE_HSRTT_SHIFT) * prague_mtu(sk));

	return prague_bound_cwnd(cwnd + 1);
}

/* In rate mode the window must not follow the queue, hence a long-term RTT;
 * but where the RTT has dropped (the first had a lost SYN in it, say), twice
 * the present one is enough.
 */
u64 prague_rate_mode_cwnd(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return prague_rate_to_cwnd(sk, min(ca->hsrtt, (u64)prague_srtt(sk) <<
					   (PRAGUE_HSRTT_SHIFT + 1)));
}

/* Segment size */

/* Window and rate stay as they are in bytes.
 * 2^44 * 2^16: the product stays below 2^60.
 */
static void prague_set_mss(struct sock *sk, u16 mss)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 old_mtu = prague_mtu(sk);
	u32 new_mtu;
	u64 ssthresh;

	ca->mss = mss;
	new_mtu = prague_mtu(sk);
	ca->frac_cwnd = prague_bound_cwnd(div_u64(ca->frac_cwnd * old_mtu,
						  new_mtu));
	if (tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH)
		return;
	ssthresh = div_u64((u64)tp->snd_ssthresh * old_mtu, new_mtu);
	WRITE_ONCE(tp->snd_ssthresh, clamp(ssthresh, PRAGUE_MIN_CWND,
					   TCP_INFINITE_SSTHRESH - 1));
}

/* The core recomputes mss_cache when the path MTU or the route changes, or an
 * MTU probe succeeds. What it finds is a new maximum.
 */
void prague_track_mss(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	u32 mss = tcp_sk(sk)->mss_cache;

	if (likely(mss == ca->mss))
		return;
	ca->mss_max = mss;
	prague_set_mss(sk, mss);
}

/* At least two packets in a virtual RTT: size = rate * vRTT / 2. Rules that
 * size packets by the rate alone will have their place here.
 *
 * tcp_current_mss() takes mss_cache as it is while icsk_pmtu_cookie agrees
 * with the route, so it is written and the cookie left alone.
 */
void prague_update_mss(struct sock *sk)
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

/* Pacing */

/* B/s with headers: below 2^38 */
static u64 prague_pacing_rate(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 packets, rate;

	if (ca->rate_mode) {
		u64 swing = (ca->rate * PRAGUE_DITHER) >> PRAGUE_DITHER_SHIFT;
		u32 since = tcp_stamp_us_delta(tp->tcp_mstamp,
					       ca->alpha_stamp);

		/* Half a virtual RTT up, then down; us against us/8 */
		if (since < prague_vrtt(sk) / 16)
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

void prague_update_pacing(struct sock *sk)
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

/* The core takes the larger of this and its own idea of a burst, and then the
 * lesser of that and sk_gso_max_segs: to limit it, set both. A new route puts
 * sk_gso_max_segs back to what the device can do.
 */
u32 prague_min_tso_segs(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	if (sk->sk_gso_max_segs != ca->gso_set)
		ca->gso_max = sk->sk_gso_max_segs;
	ca->gso_set = min(ca->burst, ca->gso_max);
	sk->sk_gso_max_segs = ca->gso_set;
	return ca->gso_set;
}
