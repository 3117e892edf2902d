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
 *
 * A signal may be a lie, or state a share that the flow never had: it makes the
 * window at most twice what was in flight, which slow start does in a round trip,
 * and ssthresh at most a multiple of the largest window that the flow has had.
 */
#include "ncf_law.h"

#define NCF_PERCENT	100
#define NCF_BDP_LIMIT	120	/* percent of the queue: line 16 */
#define NCF_US_PER_BYTE	8000	/* at 1 kbit/s */
#define NCF_INFINITE	0x7fffffffU /* TCP_INFINITE_SSTHRESH */
#define NCF_CWND_MIN	2ULL	/* packets */
#define NCF_GROWTH	2ULL	/* of what was in flight, by one signal */
#define NCF_REACH	64ULL	/* of the largest window, by one signal */

/**
 * ncf_law_due() - is a signal one to react to?
 * @params: parameters
 * @flows: number of elephants in the signal
 * @flows_before: in the signal of the last reaction; 0: there was none
 * @since_us: time since that reaction
 * @srtt_us: smoothed round-trip time
 */
bool ncf_law_due(const struct ncf_params *params, u32 flows, u32 flows_before,
		 u64 since_us, u32 srtt_us)
{
	u64 change = flows > flows_before ? flows - flows_before :
					    flows_before - flows;

	return !flows_before || since_us > srtt_us ||
	       change * NCF_PERCENT >
		       (u64)READ_ONCE(params->tau) * flows_before;
}

static u64 ncf_law_share(u64 value, u32 percent)
{
	return div_u64(value * percent, NCF_PERCENT);
}

/* In bytes; an @ssthresh of 0 is infinite. */
static u64 ncf_law_ssthresh(const struct ncf_params *params,
			    const struct ncf_signal *signal, u32 srtt_us,
			    u64 ssthresh)
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

/**
 * ncf_law_react() - the window and its threshold after a signal
 * @params: parameters
 * @signal: the signal
 * @srtt_us: smoothed round-trip time
 * @window: those before; gets those after
 */
void ncf_law_react(const struct ncf_params *params,
		   const struct ncf_signal *signal, u32 srtt_us,
		   struct ncf_window *window)
{
	u64 most = min(NCF_REACH * max(window->largest, window->cwnd),
		       NCF_INFINITE - 1ULL);
	u64 cwnd = window->cwnd;
	u64 ssthresh = 0;

	if (window->ssthresh < NCF_INFINITE)
		ssthresh = (u64)window->ssthresh * window->mss;
	ssthresh = ncf_law_ssthresh(params, signal, srtt_us, ssthresh);
	ssthresh = min(div_u64(ssthresh, window->mss), most);
	window->ssthresh = max(ssthresh, NCF_CWND_MIN);

	cwnd = (window->ssthresh + cwnd) / 2;
	if (cwnd > window->cwnd && window->may_grow)
		cwnd = min(cwnd, max(NCF_GROWTH * window->in_flight,
				     (u64)window->cwnd));
	else if (cwnd > window->cwnd)
		cwnd = window->cwnd;
	window->cwnd = max(cwnd, NCF_CWND_MIN);
}
