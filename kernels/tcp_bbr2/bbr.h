/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
#ifndef _TCP_BBR_H
#define _TCP_BBR_H

#include <linux/inet_diag.h>
#include <net/tcp.h>

#include "bbr_ring.h"
#include "cc_flows.h"
#include "cc_params.h"
#include "compat.h"
#include "xmit_hook.h"

/* Fixed-point fractions, in bits */
#define BBR_BW_BITS	24	/* bandwidth, in packets per microsecond */
#define BBR_BITS	8	/* gains, alpha, shares */

#define BBR_ONE		((u32)BIT(BBR_BITS))
#define BBR_UNSET	(~0U)	/* bounds, bandwidths and RTTs: none yet */

#define BBR_MIN_CWND	4U	/* packets */
#define BBR_KINDS	2	/* names of the congestion control in a module */

#define BBR_MIN_RTT_US		(10 * USEC_PER_SEC)	/* the filter's window */
#define BBR_PROBE_RTT_US	(5 * USEC_PER_SEC)	/* from one to the next */
#define BBR_PROBE_RTT_HOLD_US	(200 * USEC_PER_MSEC)

enum bbr_mode {
	BBR_STARTUP,	/* grow until the pipe is full */
	BBR_DRAIN,	/* drain the queue that this made */
	BBR_PROBE_BW,	/* cycle through the phases below */
	BBR_PROBE_RTT,	/* shrink to see the path without a queue */
};

enum bbr_phase {
	BBR_DOWN,	/* drain, and leave headroom */
	BBR_CRUISE,	/* send at the estimated bandwidth */
	BBR_REFILL,	/* fill the pipe again, in one round trip */
	BBR_UP,		/* probe for more */
};

/* Which ACKs tell about the last probe for bandwidth */
enum bbr_acks {
	BBR_ACKS_INIT,		/* not probing */
	BBR_ACKS_REFILLING,	/* sending at the estimate to fill the pipe */
	BBR_ACKS_STARTING,	/* probing, no feedback yet */
	BBR_ACKS_FEEDBACK,	/* feedback of the probe comes in */
	BBR_ACKS_STOPPING,	/* stopped probing, still getting feedback */
};

/* The parameters of one name of the congestion control in a network namespace;
 * bbr_params.c describes them. They may be written while connections run, hence
 * READ_ONCE(): bbr_param().
 */
struct bbr_params {
	u32 ecn_gate;		/* enum bbr_gate */
	u32 ecn_max_rtt_us;	/* 0: any */
	u32 ecn_alpha_gain;
	u32 ecn_alpha_init;
	u32 ecn_factor;
	u32 ecn_thresh;
	u32 ecn_reprobe_gain;	/* 0: none */
	u32 beta;
	u32 loss_thresh;
	u32 full_loss_cnt;
	u32 full_ecn_cnt;
	u32 inflight_headroom;
	u32 bw_probe_pif_gain;
	u32 bw_probe_cwnd_gain;
	u32 bw_probe_exit;	/* enum bbr_exit */
	u32 bw_probe_reno_gain;	/* 0: no bound from it */
	u32 bw_probe_max_rounds;
	u32 bw_probe_rand_rounds;
	u32 bw_probe_base_us;
	u32 bw_probe_rand_us;
};

/* Whether marks are responded to */
enum bbr_gate {
	BBR_GATE_CLOSED,
	BBR_GATE_OPEN,
	BBR_GATE_ROUTE,		/* if the route has the feature ecn */
};

/* What ends a probe that meets neither loss nor marks */
enum bbr_exit {
	BBR_EXIT_QUEUE,		/* more in flight than the path should hold */
	BBR_EXIT_PLATEAU,	/* bandwidth no longer grows */
};

/* What differs between the versions and is no parameter */
struct bbr_law {
	u16 startup_gain;	/* 2^-8: pacing */
	u16 startup_cwnd_gain;	/* 2^-8 */
	u16 down_gain;		/* 2^-8: pacing */
	u16 plateau_gain;	/* 2^-8: growth that the plateau of a probe lacks */
	u8 plateau_rounds;	/* ... for so many rounds */
	bool v3;		/* bundle of smaller ones: README.md has a table */
	bool sample_fills;	/* the pipe is full by samples, not by the filter */
	bool rto_keeps_cwnd;	/* a timeout's bound is at least the window */
	bool ect1;		/* sends ECT(1) ... */
	bool ect1_any_ecn;	/* ... also without AccECN */
};

/* One name of the congestion control: "bbr2", "bbr2_l4s" ... */
struct bbr_kind {
	struct tcp_congestion_ops ops;
	const char *name;
	struct bbr_law law;
};

#define BBR_LOSS_LOG	32

/* Before @delivered was exceeded, tp->lost was @lost. */
struct bbr_loss {
	u32 delivered;
	u32 lost;
};

/* What an ACK says */
struct bbr_ack {
	const struct rate_sample *rs;
	u32 bw;			/* sample, 2^-24 packets/us; 0: none */
	u32 tx_in_flight;	/* when the packet was sent, with it */
	u32 lost;		/* since then */
	bool ece;		/* has marks */
	bool of_tlp;		/* acknowledges a tail loss probe */
};

/* What /proc shows: the state at the end of the last ACK */
struct bbr_shown {
	u32 mss;
	u32 max_bw;
	u32 bw_lo;
	u32 inflight_lo;
	u32 inflight_hi;
	u32 min_rtt_us;
	u32 tx_in_flight;
	u32 tx_estimate;
	u32 lost;
	u32 lost_estimate;
	u32 cycles;
	u32 missed;
	u16 pacing_gain;
	u16 cwnd_gain;
	u16 alpha;
	u8 mode;
	u8 phase;
	bool ecn_eligible;
};

/* The state of a connection. Only functions that run with the socket locked
 * may follow the pointer to it, which inet_diag does not; /proc finds the
 * record in the list instead, under RCU, and reads only @flow and @shown.
 */
struct bbr_flow {
	struct cc_flow flow;
	const struct bbr_law *law;
	const struct bbr_params *params;
	struct bbr_shown shown;

	/* Packets as they were sent, and when losses were noted (bbr_sent.c) */
	struct bbr_ring sent;		/* for the first time */
	struct bbr_ring sent_again;
	u32 sent_missed;		/* how many were not found */
	u32 seen_lost;			/* tp->lost when last compared */
	u32 losses;			/* how many were ever logged */
	struct bbr_loss loss_log[BBR_LOSS_LOG];

	/* Times are tp->tcp_mstamp, in us, as jiffies may be 10 ms long. */
	u64 min_rtt_stamp;
	u64 probe_rtt_min_stamp;
	u64 probe_rtt_done_stamp;	/* 0: still too much in flight */
	u64 cycle_mstamp;		/* start of a cycle, or of UP */
	u64 ack_epoch_mstamp;
	u32 min_rtt_us;
	u32 probe_rtt_min_us;
	u32 next_rtt_delivered;		/* a round ends with this */
	u32 loss_round_delivered;	/* ... and a round for losses with this */
	u32 init_cwnd;
	u32 prior_cwnd;			/* before recovery, or PROBE_RTT */

	/* Is the pipe full? */
	u32 full_bw;
	u8 full_bw_cnt;
	bool full_bw_reached;
	bool full_bw_now;

	/* Data ACKed beyond what the bandwidth explains */
	u32 ack_epoch_acked;
	u32 extra_acked[2];
	u8 extra_acked_rounds;
	u8 extra_acked_index;

	/* Latest delivery, bounds */
	u32 bw_latest;
	u32 inflight_latest;
	u32 bw_lo;
	u32 inflight_lo;
	u32 bw_hi[2];			/* the cycle before, this one */
	u32 inflight_hi;
	u32 undo_bw_lo;
	u32 undo_inflight_lo;
	u32 undo_inflight_hi;

	/* Probing for bandwidth */
	u32 up_cnt;			/* packets that raise inflight_hi by 1 */
	u32 up_acks;
	u32 probe_wait_us;
	u32 cycles;			/* how many probes began */
	u8 up_rounds;
	u8 rounds_since_probe;
	bool probe_samples;		/* samples are of a probe */
	bool prev_probe_too_high;
	bool stopped_risky;

	/* ECN */
	u32 alpha_delivered;		/* counters at the last update */
	u32 alpha_delivered_ce;
	u32 ack_delivered_ce;		/* ... and at the last ACK */
	u16 alpha;
	u8 startup_ecn_rounds;
	bool ecn_eligible;
	bool ect_all;			/* ECT(0) also on retransmissions, ACKs */

	u32 tlp_high_seq;		/* of an unfinished tail loss probe */
	bool tlp_noted;
	bool tlp_repaired;

	u16 pacing_gain;
	u16 cwnd_gain;
	u8 mode;			/* enum bbr_mode */
	u8 phase;			/* enum bbr_phase */
	u8 acks;			/* enum bbr_acks */
	u8 prev_ca_state;
	u8 loss_events;			/* ACKs with losses in this round */
	bool round_start;
	bool loss_round_start;
	bool loss_in_round;
	bool ecn_in_round;
	bool loss_in_cycle;
	bool ecn_in_cycle;
	bool probe_rtt_round_done;
	bool idle_restart;
	bool try_fast_path;
	bool has_seen_rtt;
	bool paced;			/* this module switched pacing on */
};

/* What is in icsk_ca_priv: inet_diag reads it without the socket's lock. */
struct bbr {
	struct bbr_flow *flow;
	struct tcp_bbr_info info;
};

/* NULL before init(): the core calls some functions before it, for the ACK of
 * the SYN, and when a SYN is lost.
 */
static inline struct bbr_flow *bbr_flow(const struct sock *sk)
{
	const struct bbr *ca = inet_csk_ca(sk);

	return ca->flow;
}

#define bbr_param(flow, member)	READ_ONCE((flow)->params->member)

static inline u32 bbr_max_bw(const struct bbr_flow *f)
{
	return max(f->bw_hi[0], f->bw_hi[1]);
}

/* 2^-24 packets/us: the bandwidth that the flow believes in */
static inline u32 bbr_bw(const struct bbr_flow *f)
{
	return min(bbr_max_bw(f), f->bw_lo);
}

static inline bool bbr_in_phase(const struct bbr_flow *f, enum bbr_phase phase)
{
	return f->mode == BBR_PROBE_BW && f->phase == phase;
}

/* A round ends when what is sent from now on is acknowledged. */
static inline void bbr_start_round(struct sock *sk)
{
	bbr_flow(sk)->next_rtt_delivered = tcp_sk(sk)->delivered;
}

static inline bool bbr_elapsed(const struct sock *sk, u64 stamp, u32 us)
{
	return (s64)(tcp_sk(sk)->tcp_mstamp - stamp) > us;
}

static inline void bbr_reset_full_bw(struct bbr_flow *f)
{
	f->full_bw = 0;
	f->full_bw_cnt = 0;
	f->full_bw_now = false;
}

/* bbr_model.c: from the model to what is sent */
u64 bbr_bytes_per_sec(const struct sock *sk, u32 bw, u32 gain);
u32 bbr_bdp(const struct bbr_flow *f, u32 bw, u32 gain);
u32 bbr_inflight(const struct sock *sk, u32 bw, u32 gain);
u32 bbr_target_inflight(const struct sock *sk);
u32 bbr_probe_rtt_cwnd(const struct bbr_flow *f);
u32 bbr_with_headroom(const struct bbr_flow *f);
u32 bbr_at_departure(const struct sock *sk, u32 in_flight);
u32 bbr_min_tso_segs(struct sock *sk);
void bbr_init_pacing(struct sock *sk);
void bbr_set_pacing(struct sock *sk, u32 bw, u32 gain);
void bbr_update_gains(struct bbr_flow *f);
void bbr_update_aggregation(struct sock *sk, const struct bbr_ack *ack);
void bbr_save_cwnd(struct sock *sk);
void bbr_set_cwnd(struct sock *sk, const struct bbr_ack *ack);
void bbr_bound_cwnd(struct sock *sk);

/* bbr_bounds.c: reaction to losses and marks */
bool bbr_gate_open(const struct sock *sk);
bool bbr_probing(const struct bbr_flow *f);
bool bbr_too_high(const struct bbr_flow *f, u32 in_flight, u32 lost);
void bbr_react_too_high(struct sock *sk, u32 in_flight, bool app_limited);
void bbr_reset_lower_bounds(struct bbr_flow *f);
void bbr_reset_signals(struct bbr_flow *f);
void bbr_update_latest(struct sock *sk, const struct bbr_ack *ack);
void bbr_update_signals(struct sock *sk, const struct bbr_ack *ack);
void bbr_advance_latest(struct bbr_flow *f, const struct bbr_ack *ack);
void bbr_raise_slope(struct sock *sk);
bool bbr_adapt_upper_bounds(struct sock *sk, const struct bbr_ack *ack);
void bbr_update_alpha(struct sock *sk);
void bbr_queue_in_startup(struct sock *sk);
void bbr_check_startup_loss(struct sock *sk, const struct bbr_ack *ack);

/* bbr_phases.c: modes and phases */
void bbr_check_full_bw(struct sock *sk, const struct bbr_ack *ack);
void bbr_check_drain(struct sock *sk);
void bbr_start_down(struct sock *sk);
void bbr_start_refill(struct sock *sk, u8 up_rounds);
void bbr_update_phase(struct sock *sk, const struct bbr_ack *ack);
void bbr_update_min_rtt(struct sock *sk, const struct rate_sample *rs);
void bbr_check_probe_rtt_done(struct sock *sk);

/* bbr_sent.c: in flight and lost when a packet was sent */
bool bbr_sent_begin(struct sock *sk);
bool bbr_sent_continue(struct sock *sk);
void bbr_sent_rest(struct sock *sk);
void bbr_sent_end(struct sock *sk);
void bbr_sent_lookup(struct sock *sk, struct bbr_ack *ack);
void bbr_note_loss(struct sock *sk);
void bbr_sync_losses(struct sock *sk);

/* bbr_params.c: parameters */
extern const struct cc_param bbr_param_gate;
extern const struct cc_param *const bbr_all_params[];
extern const size_t bbr_params_count;
extern struct bbr_params bbr_module_params[BBR_KINDS];

/* bbr_net.c: network namespaces and their connections */
bool bbr_flow_add(struct sock *sk, const struct bbr_kind *kind);
void bbr_flow_show(struct sock *sk, const struct bbr_ack *ack);
void bbr_flow_remove(struct sock *sk);
int bbr_net_register(void);
void bbr_net_unregister(void);

/* Of the module, bbr2.c or bbr3.c: its names */
extern struct bbr_kind bbr_kinds[BBR_KINDS];

#endif /* _TCP_BBR_H */
