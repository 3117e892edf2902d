// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP NCF: NewReno that listens to the bottleneck
 *
 * "Network-Assisted Congestion Feedback" (IEEE TNSM 2026), Algorithm 2. The
 * bottleneck of sch_ncf (or p4/ncf) sends the number of elephants, the link's
 * capacity and the queue's size in packets that ncf_hook.c takes; ncf_law.c
 * makes a slow start threshold of them, and the window goes half the way there.
 * Everything else is NewReno's.
 *
 * In a recovery the window has just been cut, and signals change nothing.
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "ncf.h"

/* An ACK has just taken away from what is in flight; TCP keeps the most of a round
 * trip.
 */
static struct ncf_window ncf_window_of(const struct sock *sk,
				       const struct ncf_flow *flow,
				       u32 srtt_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return (struct ncf_window) {
		.mss = tp->mss_cache,
		.cwnd = tcp_snd_cwnd(tp),
		.ssthresh = tp->snd_ssthresh,
		.in_flight = max(tcp_packets_in_flight(tp), tp->max_packets_out),
		.largest = flow->largest,
		.may_grow = tcp_is_cwnd_limited(sk) &&
			    (!flow->grew_us ||
			     tp->tcp_mstamp - flow->grew_us > srtt_us),
	};
}

static void ncf_react(struct sock *sk, struct ncf_flow *flow,
		      const struct ncf_signal *signal)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 srtt_us = tp->srtt_us >> 3;
	struct ncf_window window;

	if (!srtt_us || inet_csk(sk)->icsk_ca_state >= TCP_CA_CWR ||
	    !ncf_law_due(flow->params, signal->flows, flow->last.flows,
			 tp->tcp_mstamp - flow->last_us, srtt_us))
		return;
	window = ncf_window_of(sk, flow, srtt_us);
	ncf_law_react(flow->params, signal, srtt_us, &window);
	WRITE_ONCE(tp->snd_ssthresh, window.ssthresh);
	if (window.cwnd > tcp_snd_cwnd(tp))
		flow->grew_us = tp->tcp_mstamp;
	tcp_snd_cwnd_set(tp, min(window.cwnd, tp->snd_cwnd_clamp));

	flow->last_us = tp->tcp_mstamp;
	WRITE_ONCE(flow->last.flows, signal->flows);
	WRITE_ONCE(flow->last.capacity_kbps, signal->capacity_kbps);
	WRITE_ONCE(flow->last.mice_crowded, signal->mice_crowded);
	WRITE_ONCE(flow->reactions, flow->reactions + 1);
}

static void ncf_in_ack_event(struct sock *sk, u32 flags)
{
	const struct ncf *ca = inet_csk_ca(sk);
	struct ncf_flow *flow = ca->flow;
	struct ncf_signal signal;
	bool endhost;

	if (!flow)
		return;
	flow->largest = max(flow->largest, tcp_snd_cwnd(tcp_sk(sk)));
	endhost = READ_ONCE(flow->params->endhost);
	while (ncf_signal_next(flow, tcp_sk(sk), endhost, &signal))
		ncf_react(sk, flow, &signal);
}

static void ncf_init(struct sock *sk)
{
	struct ncf *ca = inet_csk_ca(sk);

	ca->flow = ncf_flow_add(sk);
}

static void ncf_release(struct sock *sk)
{
	struct ncf *ca = inet_csk_ca(sk);

	if (ca->flow)
		ncf_flow_remove(sk, ca->flow);
	ca->flow = NULL;
}

static struct tcp_congestion_ops ncf_ops __read_mostly = {
	.init		= ncf_init,
	.release	= ncf_release,
	.in_ack_event	= ncf_in_ack_event,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.flags		= TCP_CONG_NON_RESTRICTED,
	.name		= "ncf",
	.owner		= THIS_MODULE,
};

static int __init ncf_register(void)
{
	int error;

	BUILD_BUG_ON(sizeof(struct ncf) > ICSK_CA_PRIV_SIZE);

	error = ncf_net_register();
	if (error)
		return error;
	error = tcp_register_congestion_control(&ncf_ops);
	if (error)
		ncf_net_unregister();
	return error;
}

static void __exit ncf_unregister(void)
{
	tcp_unregister_congestion_control(&ncf_ops);
	ncf_net_unregister();
}

module_init(ncf_register);
module_exit(ncf_unregister);

MODULE_AUTHOR("The l4sbench authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("NCF congestion control");
MODULE_VERSION("1.0");
