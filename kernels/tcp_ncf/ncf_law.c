// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP NCF: Algorithm 2 of the paper, in bytes and integers
 *
 *	if change of N > tau or the last signal is older than sRTT:	line 13
 *		BDP = capacity * sRTT
 *		f = BDP / queue; if f > 1.2: f *= delta
 *		s = f * queue / N
 *		if the mice are crowded: s *= gamma
 *		if s > ssthresh:
 *			s = lambda * ssthresh + (1 - lambda) * BDP / N	line 22
 *		else:
 *			s = (1 - lambda) * ssthresh + lambda * BDP / N	line 24
 *		ssthresh = s
 *		cwnd = (s + cwnd) / 2
 *
 * As printed, delta and gamma only decide which of the two lines is taken: both
 * overwrite what they made. The mode "intended" has s in the place of BDP / N
 * there. Before the first signal ssthresh is infinite, and no average of it
 * makes sense: s is taken as it is.
 */
#include <linux/math64.h>

#include "ncf.h"

#define NCF_PERCENT	100
#define NCF_BDP_LIMIT	120	/* percent of the queue: line 16 */
#define NCF_US_PER_BYTE	8000	/* at 1 kbit/s */

/**
 * ncf_law_due() - is a signal one to react to?
 * @flow: the connection
 * @signal: the signal
 * @now_us: the time
 * @srtt_us: smoothed round-trip time
 */
bool ncf_law_due(const struct ncf_flow *flow, const struct ncf_signal *signal,
		 u64 now_us, u32 srtt_us)
{
	u32 before = flow->last.flows, now = signal->flows;
	u64 change = now > before ? now - before : before - now;

	return !flow->reacted || now_us - flow->last_us > srtt_us ||
	       change * NCF_PERCENT > (u64)READ_ONCE(flow->params->tau) * before;
}

static u64 ncf_law_share(u64 value, u32 percent)
{
	return div_u64(value * percent, NCF_PERCENT);
}

/**
 * ncf_law_ssthresh() - the slow start threshold after a signal
 * @params: parameters
 * @signal: the signal
 * @srtt_us: smoothed round-trip time
 * @ssthresh: threshold before, bytes; 0: infinite
 *
 * Return: bytes.
 */
u64 ncf_law_ssthresh(const struct ncf_params *params,
		     const struct ncf_signal *signal, u32 srtt_us, u64 ssthresh)
{
	u64 bdp = div_u64((u64)signal->capacity_kbps * srtt_us,
			  NCF_US_PER_BYTE);
	u64 fair = div_u64(bdp, signal->flows);
	u32 lambda = READ_ONCE(params->lambda);
	u64 share = fair;
	u64 towards;

	if (bdp > ncf_law_share(signal->queue_bytes, NCF_BDP_LIMIT))
		share = ncf_law_share(share, READ_ONCE(params->delta));
	if (signal->mice_crowded)
		share = ncf_law_share(share, READ_ONCE(params->gamma));
	if (!ssthresh)
		return share;
	towards = READ_ONCE(params->mode) == NCF_MODE_LITERAL ? fair : share;
	if (share <= ssthresh)
		lambda = NCF_PERCENT - lambda;
	return ncf_law_share(ssthresh, lambda) +
	       ncf_law_share(towards, NCF_PERCENT - lambda);
}
