/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
#ifndef _TCP_PRAGUE_H
#define _TCP_PRAGUE_H

#include <net/tcp.h>

#include "cc_flows.h"
#include "compat.h"
#include "prague_math.h"
#include "xmit_hook.h"

/* Fixed-point fractions, in bits */
#define PRAGUE_ALPHA_BITS	24	/* alpha, and the marked fraction F */
#define PRAGUE_CWND_BITS	20	/* window, in packets */
#define PRAGUE_AI_BITS		40	/* increase per RTT, in packets */

#define PRAGUE_ALPHA_ONE	BIT(PRAGUE_ALPHA_BITS)
#define PRAGUE_CWND_ONE		BIT_ULL(PRAGUE_CWND_BITS)

#define PRAGUE_GAIN_SHIFT	4	/* alpha: g = 1/16 */
#define PRAGUE_HSRTT_SHIFT	7	/* long-term RTT: gain 1/128 */

#define PRAGUE_REF_MTU		1500	/* B: packet size AI is stated in */
#define PRAGUE_MIN_CWND		2	/* packets */
#define PRAGUE_MIN_RATE		12500	/* B/s: 100 kbit/s */

/* Limits that keep the arithmetic within 64 bits; where a product or quotient
 * is large, a comment bounds it by powers of two. At 100 Gbit/s and an RTT of
 * 2 s the window is 16.7 million packets of 1500 B, the rate 12.5 GB/s.
 */
#define PRAGUE_MAX_CWND		BIT(24)		/* packets */
#define PRAGUE_MAX_RATE		BIT_ULL(37)	/* B/s: 1.1 Tbit/s */
#define PRAGUE_MAX_SRTT		(BIT(26) - 1)	/* us/8: 8.4 s */

/* tp->srtt_us counts eighths of a microsecond */
#define PRAGUE_SRTT_PER_SEC	(8 * USEC_PER_SEC)

/* The parameters of a network namespace, as prague_params.c describes them.
 * They may be written while connections run, hence READ_ONCE().
 */
struct prague_params {
	u32 version;		/* enum prague_version */
	u32 rtt_target;		/* us: the virtual RTT */
	u32 rtt_transition;	/* rounds until RTT independence */
	u32 alpha_mode;		/* 1: alpha starts at 1 */
	u32 reduction;		/* enum prague_reduction */
	u32 cwnd_mode;		/* enum prague_cwnd_mode */
	u32 cwnd_transit;	/* packets of PRAGUE_REF_MTU */
	u32 rate_offset;	/* 1/128 of the rate */
	u32 burst_shift;	/* a burst lasts 2^-this seconds */
	u32 max_tso_segs;	/* packets in a burst; 0: no such limit */
	u32 segsize;		/* enum prague_segsize */
	u32 segsize_min_mss;	/* B of payload */
	u32 segsize_low_rate;	/* bit/s */
	u32 segsize_high_rate;	/* bit/s */
	u32 ecn_fallback;	/* enum prague_fallback */
	u32 fallback_scaling;	/* enum prague_scaling */
};

/* What this module keeps for a network namespace */
struct prague_net {
	struct prague_params *params;	/* @own, or the module's own */
	struct prague_params own;
	struct ctl_table_header *sysctls;
	struct cc_flows flows;		/* its connections */
};

/* One connection. "B with headers" is what a packet has from its IP header
 * on; a packet is one of @mss bytes of payload.
 */
struct prague {
	u64 frac_cwnd;		/* window: 2^-20 packets */
	u64 rate;		/* rate mode only: B/s with headers */
	u64 alpha_stamp;	/* us: end of the last round */
	u64 cwr_stamp;		/* us: last reduction for CE */
	u64 hsrtt;		/* long-term smoothed RTT: us/8, times 128 */
	u64 ai_rest;		/* remainder of the last increase's division */
	const struct prague_params *params;	/* of the network namespace */
	struct prague_flow *flow;	/* the part that does not fit here */
	u32 alpha;		/* 2^-28: times 16, to keep the remainder */
	u32 next_seq;		/* the round ends when this is acknowledged */
	u32 round;		/* rounds outside of slow start */
	u32 round_delivered;	/* tp->delivered at the round's start */
	u32 round_delivered_ce;	/* tp->delivered_ce at the round's start */
	u32 acked_ce;		/* tp->delivered_ce at the last ACK */
	u32 pmtu;		/* icsk_pmtu_cookie that @mss_max is of */
	u16 mss;		/* tp->mss_cache as this module wrote it */
	u16 mss_max;		/* ... as the path allows it */
	u16 burst;		/* packets: limit of one burst */
	u16 gso_set;		/* sk->sk_gso_max_segs as this module set it */
	u16 gso_max;		/* ... as the device allows it */
	u8 saw_ce:1,		/* a mark was ever fed back */
	   in_loss:1,		/* recovering: halved, and no increase */
	   rate_mode:1,		/* rate, not frac_cwnd, is in control */
	   paced:1;		/* this module switched pacing on */
};

/* What /proc shows of a connection: its state at the end of the last ACK. The
 * reader does not lock the socket, so the values may be of different ACKs.
 */
struct prague_shown {
	u64 frac_cwnd;		/* window: 2^-20 packets */
	u64 rate;		/* rate mode only: B/s with headers */
	u32 srtt;		/* us/8 */
	u32 alpha;		/* 2^-24 */
	u32 rtt_us;		/* fallback: mean RTT, 0 while not detecting */
	u32 mdev_us;		/* ... its mean deviation */
	s32 score;		/* ... of a classic queue: 2^-24 */
	u16 mss;		/* B of payload */
	u16 mtu;		/* B with headers */
	u8 segsize;		/* enum prague_segsize */
	bool rate_mode;
};

/* The part of its state that is allocated. Only functions that run with the
 * socket locked may follow the pointer to it, which inet_diag does not. /proc
 * finds the record in the list instead, under RCU, and reads nothing else.
 */
struct prague_flow {
	struct cc_flow flow;
	struct prague_shown shown;
	u64 loss_window;	/* before a loss: 2^-20 B with headers */
	u64 loss_rate;		/* before a loss: B/s with headers */
	u64 rtt_sum;		/* mean RTT: 2^-8 us, times 2^rtt_gain */
	u64 mdev_sum;		/* its mean deviation: 2^-8 us, times twice that */
	s32 score;		/* of a classic queue: 2^-24 */
	u8 rtt_gain;		/* 0: no RTT yet */
};

/* One name of the congestion control: "prague", "prague-log" ... */
struct prague_kind {
	struct tcp_congestion_ops ops;
	int segsize;		/* enum prague_segsize; -1: the parameter's */
};

enum prague_version {
	PRAGUE_VERSION_07,
	PRAGUE_VERSION_06,
	PRAGUE_VERSION_2024,	/* of the studies of 2024 and 2025 */
};

enum prague_cwnd_mode {
	PRAGUE_MODE_WINDOW,
	PRAGUE_MODE_RATE,
	PRAGUE_MODE_SWITCH,
};

enum prague_reduction {
	PRAGUE_REDUCTION_CWR,
	PRAGUE_REDUCTION_ROUND,
};

enum prague_fallback {
	PRAGUE_FALLBACK_OFF,
	PRAGUE_FALLBACK_ON,
	PRAGUE_FALLBACK_DETECT,
};

enum prague_scaling {
	PRAGUE_SCALING_SPECIFIED,
	PRAGUE_SCALING_PUBLISHED,
};

extern const char *const prague_segsizes[PRAGUE_SEGSIZES];

/* The parameters that hold for a socket once prague_init() has run */
static inline const struct prague_params *prague_params(const struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return ca->params;
}

static inline struct prague_flow *prague_flow(const struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return ca->flow;
}

/* What no parameter expresses depends on the version: README.md has a table. */
static inline enum prague_version prague_version_of(const struct sock *sk)
{
	return READ_ONCE(prague_params(sk)->version);
}

/* 2^-24: alpha. inet_diag reads it without the lock. */
static inline u32 prague_alpha(const struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return READ_ONCE(ca->alpha) >> PRAGUE_GAIN_SHIFT;
}

/* The scheme for the segment size of a socket */
static inline enum prague_segsize prague_scheme(const struct sock *sk)
{
	const struct tcp_congestion_ops *ops =
		READ_ONCE(inet_csk(sk)->icsk_ca_ops);
	const struct prague_kind *kind =
		container_of(ops, struct prague_kind, ops);

	return kind->segsize >= 0 ? kind->segsize :
				    READ_ONCE(prague_params(sk)->segsize);
}

/* Packets: the core's own least burst */
static inline u32 prague_core_burst(const struct sock *sk)
{
	return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_min_tso_segs);
}

/* us: the virtual RTT */
static inline u32 prague_target(const struct sock *sk)
{
	return READ_ONCE(prague_params(sk)->rtt_target);
}

/* us/8: the smoothed RTT, at least 1 */
static inline u32 prague_srtt(const struct sock *sk)
{
	return clamp(tcp_sk(sk)->srtt_us, 1U, (u32)PRAGUE_MAX_SRTT);
}

/* us/8: the RTT that the flow behaves as if it had */
static inline u32 prague_vrtt(const struct sock *sk)
{
	return max(prague_srtt(sk), prague_target(sk) << 3);
}

/* Version 0.6 keeps at least two packets in flight too, but its window, which
 * paces them, may be smaller.
 */
static inline u64 prague_bound_cwnd(const struct sock *sk, u64 frac_cwnd)
{
	u64 least = prague_version_of(sk) == PRAGUE_VERSION_06 ?
			    1 : PRAGUE_MIN_CWND * PRAGUE_CWND_ONE;

	return clamp(frac_cwnd, least, PRAGUE_MAX_CWND * PRAGUE_CWND_ONE);
}

static inline u64 prague_bound_rate(u64 rate)
{
	return clamp(rate, PRAGUE_MIN_RATE, PRAGUE_MAX_RATE);
}

/* B with headers: a full packet. Options that are not in every packet, such as
 * AccECN's, reduce the payload and do not change the size.
 */
static inline u32 prague_mtu(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return tcp_mss_to_mtu(sk, ca->mss);
}

/* 2^-20 B with headers: the window, at most 2^24 packets of 2^16 B, or 2^60 */
static inline u64 prague_window(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return ca->frac_cwnd * prague_mtu(sk);
}

/* Packets: the window rounded up */
static inline u32 prague_cwnd(const struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);
	u32 cwnd = (ca->frac_cwnd + PRAGUE_CWND_ONE - 1) >> PRAGUE_CWND_BITS;

	return max(min(cwnd, tcp_sk(sk)->snd_cwnd_clamp), PRAGUE_MIN_CWND);
}

/* True if increase, reductions and rounds follow the virtual RTT */
static inline bool prague_rtt_independent(const struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return ca->round >= READ_ONCE(ca->params->rtt_transition) &&
	       !tcp_in_slow_start(tcp_sk(sk));
}

/* prague_law.c: increase and reductions */
bool prague_increase(struct sock *sk, u32 credit);
void prague_enter_cwr(struct sock *sk);
void prague_end_round(struct sock *sk, bool marked);
void prague_first_ce(struct sock *sk);
void prague_enter_loss(struct sock *sk);
u32 prague_undo(struct sock *sk);

/* prague_pace.c: window to rate and back, pacing, bursts */
u64 prague_window_over(u64 window, u32 srtt);
u64 prague_window_to_rate(struct sock *sk);
u64 prague_rate(struct sock *sk);
u64 prague_rate_to_cwnd(struct sock *sk, u64 rtt);
u64 prague_rate_mode_cwnd(struct sock *sk);
void prague_update_pacing(struct sock *sk);
u32 prague_burst(struct sock *sk);

/* prague_size.c: the segment size */
void prague_track_mss(struct sock *sk);
void prague_update_mss(struct sock *sk);

/* prague_fallback.c: detection of classic ECN queues */
void prague_fallback_sample(struct sock *sk, u32 rtt_us);
void prague_fallback_gain(struct sock *sk);
void prague_fallback_update(struct sock *sk);
u32 prague_fallback_alpha(const struct sock *sk);
u32 prague_fallback_rtt(const struct prague_flow *flow);
u32 prague_fallback_mdev(const struct prague_flow *flow);

/* prague_params.c: module parameters and sysctls */
int prague_params_register(struct net *net, struct prague_net *pn);
void prague_params_unregister(struct prague_net *pn);

/* prague_net.c: network namespaces and their connections */
bool prague_flow_add(struct sock *sk);
void prague_flow_show(struct sock *sk);
void prague_flow_remove(struct sock *sk);
int prague_net_register(void);
void prague_net_unregister(void);

#endif /* _TCP_PRAGUE_H */
