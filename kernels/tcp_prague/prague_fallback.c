// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: detection of classic ECN queues, and the fallback
 *
 * A queue without L4S marks rarely, and expects a cut of about a half in
 * response. Prague, which reduces in proportion to its marks, starves a classic
 * flow there. The RTT reveals such a queue: it is deep, and its depth varies.
 * (arXiv 1911.00710, in the form of the Linux implementation's version 0.6.)
 *
 * RTT. A mean and a mean deviation of the RTT of each ACK are kept, with gains
 * 2^-g and 2^-(g + 1). g is set whenever the core requests ssthresh, to
 * min(18, L + L / 2 + 1) with L = log2(ssthresh), all in integers: a memory of
 * about 2 ssthresh^1.5 samples, or a few saw-teeth of a classic flow.
 *
 * Score. Once per update of alpha, hence not before the first mark:
 *
 *	score += log2(mdev / 750 us) / 2
 *	score += log2((mean - min_rtt) / 2 ms) / 2	unless negative
 *
 * within 0 and 17, where min_rtt is the socket's. The logarithms have 24
 * binary digits behind the point, so no remainder has to be carried from one
 * update to the next.
 *
 * Fallback. Below a score of 8 the queue counts as L4S, above 9 as classic;
 * from 9 to 17 the score takes longer to fall below 8 again. From 8 to 9 the
 * share c of classic behaviour grows from 0 to 1. A reduction then is by
 *
 *	max(alpha, 0.625 c) / 2
 *
 * or 31 % in a classic queue, about as much as CUBIC's (30 %).
 *
 * Published scaling. When alpha got 24 binary digits instead of 20, the
 * logarithms of 750 us and 2 ms in Linux stayed in 2^-20, so that in effect
 * they were 2^(9.55 / 16) = 1.5 us and 1.6 us: every queue counted as classic.
 * The studies of 2024 and 2025 ran this. (L4STeam/linux, issue 38.)
 */
#include <linux/math64.h>
#include <net/tcp.h>

#include "prague.h"

#define PRAGUE_RTT_GAIN_SHIFT	18	/* most, and the start */
#define PRAGUE_REF_MDEV		750	/* us */
#define PRAGUE_REF_DEPTH	2000	/* us */
#define PRAGUE_SCORE_ONE	((s32)PRAGUE_LOG_ONE)
#define PRAGUE_SCORE_CLASSIC	8	/* classic from here on, in part */
#define PRAGUE_SCORE_MAX	17

static u64 prague_fallback_mean(const struct prague_flow *flow)
{
	return flow->rtt_sum >> flow->rtt_gain;
}

static u64 prague_fallback_deviation(const struct prague_flow *flow)
{
	return flow->mdev_sum >> (flow->rtt_gain + 1);
}

/* us, for /proc */
u32 prague_fallback_rtt(const struct prague_flow *flow)
{
	return prague_fallback_mean(flow) >> PRAGUE_DELAY_BITS;
}

u32 prague_fallback_mdev(const struct prague_flow *flow)
{
	return prague_fallback_deviation(flow) >> PRAGUE_DELAY_BITS;
}

static void prague_fallback_start(struct sock *sk, u32 rtt_us)
{
	struct prague_flow *flow = prague_flow(sk);
	u32 srtt_us = (tcp_sk(sk)->srtt_us >> 3) ?: rtt_us;

	flow->rtt_gain = PRAGUE_RTT_GAIN_SHIFT;
	flow->rtt_sum = (u64)srtt_us << (flow->rtt_gain + PRAGUE_DELAY_BITS);
	flow->mdev_sum = 1ULL << (flow->rtt_gain + 1 + PRAGUE_DELAY_BITS);
}

/* Called for each ACK with an RTT */
void prague_fallback_sample(struct sock *sk, u32 rtt_us)
{
	struct prague_flow *flow = prague_flow(sk);
	s64 error;
	u64 rtt;

	if (READ_ONCE(prague_params(sk)->ecn_fallback) == PRAGUE_FALLBACK_OFF)
		return;
	rtt = min(rtt_us, PRAGUE_MAX_SRTT >> 3);
	if (!flow->rtt_gain)
		prague_fallback_start(sk, rtt);
	rtt <<= PRAGUE_DELAY_BITS;
	error = rtt - prague_fallback_mean(flow);
	flow->rtt_sum += error;
	flow->mdev_sum += abs(error) - prague_fallback_deviation(flow);
}

/* Called when the core requests ssthresh: a window begins. */
void prague_fallback_gain(struct sock *sk)
{
	struct prague_flow *flow = prague_flow(sk);
	u32 log = ilog2(max(tcp_sk(sk)->snd_ssthresh, 2U));
	u8 gain = min(log + log / 2 + 1, PRAGUE_RTT_GAIN_SHIFT);

	if (!flow->rtt_gain || gain == flow->rtt_gain)
		return;
	if (gain > flow->rtt_gain) {
		flow->rtt_sum <<= gain - flow->rtt_gain;
		flow->mdev_sum <<= gain - flow->rtt_gain;
	} else {
		flow->rtt_sum >>= flow->rtt_gain - gain;
		flow->mdev_sum >>= flow->rtt_gain - gain;
	}
	flow->rtt_gain = gain;
}

/* Called when alpha was updated */
void prague_fallback_update(struct sock *sk)
{
	struct prague_flow *flow = prague_flow(sk);
	u64 least = (u64)tcp_min_rtt(tcp_sk(sk)) << PRAGUE_DELAY_BITS;
	u64 mean = prague_fallback_mean(flow);
	const struct prague_params *params = prague_params(sk);
	bool published = READ_ONCE(params->fallback_scaling) ==
			 PRAGUE_SCALING_PUBLISHED;
	s32 score = flow->score;

	if (READ_ONCE(params->ecn_fallback) == PRAGUE_FALLBACK_OFF ||
	    !flow->rtt_gain)
		return;
	score += prague_score_term(prague_fallback_deviation(flow),
				   PRAGUE_REF_MDEV, published);
	if (mean > least)
		score += max(0, prague_score_term(mean - least,
						  PRAGUE_REF_DEPTH, published));
	WRITE_ONCE(flow->score, clamp(score, 0, PRAGUE_SCORE_MAX *
						PRAGUE_SCORE_ONE));
}

/* 2^-24: the alpha for a reduction */
u32 prague_fallback_alpha(const struct sock *sk)
{
	u32 alpha = prague_alpha(sk);
	s32 classic = prague_flow(sk)->score -
		      PRAGUE_SCORE_CLASSIC * PRAGUE_SCORE_ONE;

	BUILD_BUG_ON(PRAGUE_LOG_BITS != PRAGUE_ALPHA_BITS);
	if (READ_ONCE(prague_params(sk)->ecn_fallback) != PRAGUE_FALLBACK_ON ||
	    classic <= 0)
		return alpha;
	/* 0.625 */
	return max(alpha, (u32)min(classic, PRAGUE_SCORE_ONE) / 8 * 5);
}
