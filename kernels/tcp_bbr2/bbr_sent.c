// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP BBR: what was in flight, and lost, when a packet was sent
 *
 * BBR compares the packets lost since a packet was sent with those that were in
 * flight with it. The core keeps neither number with a packet. So the module
 * notes both when a packet is sent (xmit_hook.c), in two rings of the connection
 * (bbr_ring.c): one for what is sent for the first time, one for what is sent
 * again.
 *
 * Without the hook, or for packets that no ring holds, both are estimated:
 * each packet carries tp->delivered of when it was sent, and a log of the last
 * losses says what tp->lost was at that time. What was delivered since then,
 * and what was lost, is about what was in flight; packets that were delivered
 * out of order before it was sent make the estimate low by as many.
 *
 * The core reports losses only by tp->lost, so bbr_sync_losses() looks for a
 * change before anything that depends on them: first in cong_control(),
 * ssthresh(), set_state() and at CA_EVENT_LOSS.
 *
 * All functions need the socket locked.
 */
#include <linux/math.h>
#include <net/tcp.h>

#include "bbr.h"

/* How many packets of the retransmission queue are looked at for one ACK,
 * beyond those that were just marked lost
 */
#define BBR_WALK	1024U

/* Returns false if a flow of this kind cannot go on without the hook: packets
 * would be ECT(0), and the response is that of ECT(1).
 */
bool bbr_sent_continue(struct sock *sk)
{
	return xmit_hook_enable(sk) || !bbr_flow(sk)->law->ect1;
}

bool bbr_sent_begin(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);

	f->seen_lost = tcp_sk(sk)->lost;
	bbr_ring_init(&f->sent);
	bbr_ring_init(&f->sent_again);
	return bbr_sent_continue(sk);
}

/* With all data acknowledged there is nothing to look up: connections that do
 * not send should not keep memory.
 */
void bbr_sent_rest(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);

	if (tcp_sk(sk)->packets_out)
		return;
	bbr_ring_clear(&f->sent);
	bbr_ring_clear(&f->sent_again);
}

void bbr_sent_end(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);

	xmit_hook_disable(sk);
	/* Only those who hold the socket's lock read them. */
	bbr_ring_clear(&f->sent);
	bbr_ring_clear(&f->sent_again);
}

/* The fork's core counts the same, after a packet was sent but before it is in
 * packets_out or retrans_out.
 */
static void bbr_sent_note(struct bbr_flow *f, const struct tcp_sock *tp,
			  const struct sk_buff *skb)
{
	const struct tcphdr *th = tcp_hdr(skb);
	u32 payload = skb->len - __tcp_hdrlen(th);
	struct bbr_sent sent;

	if (!payload)
		return;
	sent.seq = ntohl(th->seq);
	sent.end = sent.seq + payload;
	sent.in_flight = tcp_packets_in_flight(tp) + skb_shinfo(skb)->gso_segs;
	sent.lost = tp->lost;
	bbr_ring_add(before(sent.seq, tp->snd_nxt) ? &f->sent_again : &f->sent,
		     &sent, tp->snd_una);
}

void xmit_hook_packet(struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);

	if (!f)
		return;
	bbr_sent_note(f, tp, skb);
	/* With RFC 3168 the core makes only new data ECT. */
	if (f->ect_all && tcp_ecn_mode_rfc3168(tp))
		INET_ECN_xmit(sk);
	if (f->law->ect1 && (f->law->ect1_any_ecn || tcp_ecn_mode_accecn(tp)))
		xmit_hook_ect1(sk);
}

/* The last time that the byte before @end was sent; NULL if that is not known */
static const struct bbr_sent *bbr_sent_find(const struct bbr_flow *f, u32 end,
					    bool again)
{
	return bbr_ring_find(again ? &f->sent_again : &f->sent, end);
}

/* tp->lost when tp->delivered was @delivered */
static u32 bbr_lost_then(const struct sock *sk, u32 delivered)
{
	const struct bbr_flow *f = bbr_flow(sk);
	u32 oldest = f->losses > BBR_LOSS_LOG ? f->losses - BBR_LOSS_LOG : 0;
	u32 lost = tcp_sk(sk)->lost;
	const struct bbr_loss *one;
	u32 number;

	/* From the youngest back to the first one after that count */
	for (number = f->losses; number > oldest; number--) {
		one = &f->loss_log[(number - 1) % BBR_LOSS_LOG];
		if (!after(one->delivered, delivered))
			break;
		lost = one->lost;
	}
	return lost;
}

/* In flight with a packet of which the ring has a burst: one that was cut in
 * two was sent with those before it only.
 */
static u32 bbr_sent_in_flight(const struct sock *sk,
			      const struct bbr_sent *sent, u32 end)
{
	u32 behind = DIV_ROUND_UP(sent->end - end, tcp_sk(sk)->mss_cache);

	return sent->in_flight > behind ? sent->in_flight - behind : 1;
}

/* Fills in what an ACK says about when its packet was sent. */
void bbr_sent_lookup(struct sock *sk, struct bbr_ack *ack)
{
	const struct rate_sample *rs = ack->rs;
	struct bbr_flow *f = bbr_flow(sk);
	const struct bbr_sent *sent;
	u32 lost = tcp_sk(sk)->lost;

	if (!rs->prior_mstamp || rs->delivered < 0)
		return; /* the ACK is of nothing with a sample */
	ack->lost = lost - bbr_lost_then(sk, rs->prior_delivered);
	ack->tx_in_flight = rs->delivered + ack->lost;
	WRITE_ONCE(f->shown.tx_estimate, ack->tx_in_flight);
	WRITE_ONCE(f->shown.lost_estimate, ack->lost);
	sent = bbr_sent_find(f, rs->last_end_seq, rs->is_retrans);
	if (sent) {
		ack->tx_in_flight = bbr_sent_in_flight(sk, sent,
						       rs->last_end_seq);
		ack->lost = lost - sent->lost;
	} else {
		f->sent_missed++;
	}
}

/* Losses */

/* The first one begins a round of its own, so that a round's data are those of
 * one round trip from there on.
 */
void bbr_note_loss(struct sock *sk)
{
	struct bbr_flow *f = bbr_flow(sk);

	if (!f->loss_in_round)
		f->loss_round_delivered = tcp_sk(sk)->delivered;
	f->loss_in_round = true;
	f->loss_in_cycle = true;
}

/* Marked lost, and not sent again yet */
static bool bbr_is_lost(const struct sk_buff *skb)
{
	return (TCP_SKB_CB(skb)->sacked &
		(TCPCB_LOST | TCPCB_SACKED_RETRANS)) == TCPCB_LOST;
}

/* What was in flight before losses passed the limit, where they passed it within
 * a burst: a part of the burst was safe too.
 */
static u32 bbr_safe_prefix(const struct bbr_flow *f, u32 in_flight, u32 lost,
			   u32 segments)
{
	u32 thresh = bbr_param(f, loss_thresh);
	u32 ahead, lost_ahead, budget;

	if (in_flight < segments || lost < segments)
		return BBR_UNSET;
	ahead = in_flight - segments;
	lost_ahead = lost - segments;
	budget = ((u64)ahead * thresh + BBR_ONE - 1) >> BBR_BITS;
	if (lost_ahead >= budget)
		return ahead;
	return ahead + ((budget - lost_ahead) << BBR_BITS) / (BBR_ONE - thresh);
}

/* Returns true if a lost packet shows that the probe went too far. */
static bool bbr_check_lost(struct sock *sk, const struct sk_buff *skb, u32 lost)
{
	const struct tcp_skb_cb *scb = TCP_SKB_CB(skb);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);
	const struct bbr_sent *sent;
	u32 since, in_flight;

	if (!scb->tx.delivered_mstamp)
		return false; /* was SACKed, then reneged */
	sent = bbr_sent_find(f, scb->end_seq, scb->sacked & TCPCB_RETRANS);
	if (sent) {
		since = lost - sent->lost;
		in_flight = bbr_sent_in_flight(sk, sent, scb->end_seq);
	} else {
		since = lost - bbr_lost_then(sk, scb->tx.delivered);
		in_flight = tp->delivered - scb->tx.delivered + since;
		in_flight -= min(in_flight, tp->sacked_out);
	}
	if (!bbr_too_high(f, in_flight, since))
		return false;
	in_flight = bbr_safe_prefix(f, in_flight, since, tcp_skb_pcount(skb));
	bbr_react_too_high(sk, in_flight, scb->tx.is_app_limited);
	return true;
}

/* From where to look for lost packets, backwards. Most are just below the
 * highest one that was SACKed; what is above it matters only if there is little,
 * or a timeout has marked it all.
 */
static struct sk_buff *bbr_walk_start(const struct sock *sk, u32 most)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct sk_buff *above = tp->sacked_out ? tp->highest_sack : NULL;

	if (above && (tp->snd_nxt - TCP_SKB_CB(above)->seq) / tp->mss_cache >
	    most)
		return skb_rb_prev(above);
	return tcp_rtx_queue_tail(sk);
}

/* The last @fresh packets that are marked lost: the core marks in the order in
 * which they were sent. They are found from behind, then checked in order.
 */
static void bbr_check_losses(struct sock *sk, u32 fresh)
{
	u32 lost = bbr_flow(sk)->seen_lost;
	u32 looked = 0, known = 0;
	u32 most = fresh < U32_MAX - BBR_WALK ? fresh + BBR_WALK : U32_MAX;
	struct sk_buff *first = NULL, *skb;

	for (skb = bbr_walk_start(sk, most); skb && known < fresh;
	     skb = skb_rb_prev(skb)) {
		if (looked++ == most) {
			/* Those before them count, but are not checked. */
			lost += fresh - known;
			break;
		}
		if (!bbr_is_lost(skb))
			continue;
		known += tcp_skb_pcount(skb);
		first = skb;
	}
	for (skb = first; skb && known; skb = skb_rb_next(skb)) {
		if (!bbr_is_lost(skb))
			continue;
		known -= min_t(u32, known, tcp_skb_pcount(skb));
		lost += tcp_skb_pcount(skb);
		if (bbr_check_lost(sk, skb, lost))
			return;
	}
}

void bbr_sync_losses(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr_flow *f = bbr_flow(sk);
	u32 fresh = tp->lost - f->seen_lost;
	struct bbr_loss *one;

	if (!fresh)
		return;
	bbr_note_loss(sk);
	if (f->probe_samples)
		bbr_check_losses(sk, fresh);
	one = &f->loss_log[f->losses++ % BBR_LOSS_LOG];
	one->delivered = tp->delivered;
	one->lost = f->seen_lost;
	f->seen_lost = tp->lost;
}
