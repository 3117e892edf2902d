// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: the segment size
 *
 * Small segments keep the ACK clock and the marks frequent at low rates. There
 * are five schemes:
 *
 * rtt. At least two packets in a virtual RTT: size = rate * vRTT / 2. The size
 * follows the marks, so it does not change before the first, before RTT
 * independence, or in a recovery.
 *
 * fixed, linear, log, exp. The size that the path allows, or a function of the
 * pacing rate alone (prague_math.c). They need no mark, and act at the end of
 * every round, also in slow start and recoveries.
 *
 * The scheme is the parameter's, or, for a socket that runs "prague-log" and
 * the like, that of its name.
 *
 * Sizes are those of the payload without options that are not in every packet:
 * an AccECN option takes 12 B of it. tcp_current_mss() uses mss_cache as it is
 * while icsk_pmtu_cookie agrees with the route, so this file writes mss_cache
 * and leaves the cookie as it is.
 *
 * All functions need the socket locked.
 */
#include <linux/math64.h>
#include <net/tcp.h>

#include "prague.h"

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
	ca->frac_cwnd = prague_bound_cwnd(sk, div_u64(ca->frac_cwnd * old_mtu,
						      new_mtu));
	if (tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH)
		return;
	ssthresh = div_u64((u64)tp->snd_ssthresh * old_mtu, new_mtu);
	WRITE_ONCE(tp->snd_ssthresh, clamp(ssthresh, PRAGUE_MIN_CWND,
					   TCP_INFINITE_SSTHRESH - 1));
}

/* The core recomputes mss_cache when the path MTU or the route changes, or an
 * MTU probe succeeds. The result is a new maximum, even if it happens to be the
 * present size: the cookie has changed then. It also does so whenever the
 * peer's window is larger than ever before, which changes nothing.
 */
void prague_track_mss(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	u32 mss = tcp_sk(sk)->mss_cache;
	u32 pmtu = inet_csk(sk)->icsk_pmtu_cookie;

	if (likely(mss == ca->mss && pmtu == ca->pmtu))
		return;
	ca->pmtu = pmtu;
	if (mss == ca->mss_max) {
		tcp_sk(sk)->mss_cache = ca->mss;
		return;
	}
	ca->mss_max = mss;
	prague_set_mss(sk, mss);
}

static u16 prague_mss_by_rtt(struct sock *sk, u32 least, u32 most)
{
	u32 headers = tcp_mss_to_mtu(sk, 0);
	/* 2^37 * 2^26: the product stays below 2^63 */
	u64 mtu = DIV_ROUND_UP_ULL(prague_rate(sk) * prague_vrtt(sk),
				   2 * PRAGUE_SRTT_PER_SEC);

	return clamp(mtu, least + headers, most + headers) - headers;
}

/* Called at the end of a round */
void prague_update_mss(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	const struct prague_params *params = ca->params;
	struct prague_sizing sizing = {
		.scheme = prague_scheme(sk),
		.low_rate = READ_ONCE(params->segsize_low_rate),
		.high_rate = READ_ONCE(params->segsize_high_rate),
		.least = min(READ_ONCE(params->segsize_min_mss), ca->mss_max),
		.most = ca->mss_max,
	};
	struct tcp_sock *tp = tcp_sk(sk);
	bool slow_start;
	u16 mss;

	if (sizing.scheme != PRAGUE_SEGSIZE_RTT)
		mss = prague_size_by_rate(&sizing, 8 * prague_rate(sk));
	else if (ca->saw_ce && !ca->in_loss && prague_rtt_independent(sk))
		mss = prague_mss_by_rtt(sk, sizing.least, sizing.most);
	else
		return;
	if (mss == ca->mss)
		return;
	slow_start = tcp_in_slow_start(tp);
	prague_set_mss(sk, mss);
	tp->mss_cache = mss;
	if (ca->in_loss)
		return;
	/* The core counts packets in flight, not bytes: a window of few large
	 * packets becomes one of many small ones. That is no slow start.
	 */
	tcp_snd_cwnd_set(tp, prague_cwnd(sk));
	if (!slow_start && tcp_in_slow_start(tp))
		WRITE_ONCE(tp->snd_ssthresh, tcp_snd_cwnd(tp));
}
