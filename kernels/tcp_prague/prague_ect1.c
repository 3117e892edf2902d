// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: ECT(1) on every packet of an established connection
 *
 * TCP_CONG_ECT_1_NEGOTIATION makes the core send the SYN and the SYN/ACK as
 * ECT(1), but nothing after them: tcp_ecn_send() writes ECT(0) into the
 * socket's TOS (or traffic class) for each packet, just before it passes the
 * packet to icsk_af_ops->queue_xmit(). That call is the only place where a
 * module can still correct the codepoint, so a Prague socket points
 * icsk_af_ops at a copy of its own operations in which only queue_xmit()
 * differs.
 *
 * - The copy is of the operations that a socket has when Prague starts on it
 *   (those of IPv4, IPv6, IPv4-mapped IPv6), if they transmit through
 *   ip_queue_xmit() or inet6_csk_xmit(). MPTCP saves and restores operations
 *   itself, and could take the copy for the original: its subflows are refused.
 * - Copies are shared and never change. Each socket that uses one holds a
 *   reference to the module. The core reads setsockopt(), a function of its
 *   own, from a copy without the socket's lock, maybe while the socket gives
 *   the copy up and the module is unloaded: so copies are not freed even then
 *   (512 B per load).
 * - Listeners are never changed (the core does not initialise congestion
 *   control on them), so children inherit the original.
 * - Other code writes icsk_af_ops too (IPV6_ADDRFORM, MPTCP, SMC): the original
 *   is restored only if the copy is still in place.
 * - A packet that the core sends as Not-ECT, because AccECN feedback failed,
 *   stays Not-ECT.
 */
#include <linux/ipv6.h>
#include <linux/kmemleak.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <net/inet_connection_sock.h>
#include <net/inet_ecn.h>
#include <net/inet6_connection_sock.h>
#include <net/ip.h>
#include <net/mptcp.h>

#include "prague.h"

/* Three kinds of TCP socket, and one to spare */
#define PRAGUE_AF_COPIES	4

struct prague_af_copy {
	const struct inet_connection_sock_af_ops *orig; /* NULL: unused */
	struct inet_connection_sock_af_ops ops;
};

static struct prague_af_copy *prague_af_copies __read_mostly;
static DEFINE_SPINLOCK(prague_af_lock); /* serialises filling a free slot */

static void prague_ect0_to_ect1(struct sock *sk)
{
	if (inet_sk(sk)->tos & INET_ECN_MASK)
		__INET_ECN_xmit(sk, true);
}

static int prague_ip_queue_xmit(struct sock *sk, struct sk_buff *skb,
				struct flowi *fl)
{
	prague_ect0_to_ect1(sk);
	return ip_queue_xmit(sk, skb, fl);
}

#if IS_ENABLED(CONFIG_IPV6)
static int prague_inet6_csk_xmit(struct sock *sk, struct sk_buff *skb,
				 struct flowi *fl)
{
	prague_ect0_to_ect1(sk);
	return inet6_csk_xmit(sk, skb, fl);
}
#endif

/* The replacement for queue_xmit() of @orig, or NULL if that is unknown */
static typeof_member(struct inet_connection_sock_af_ops, queue_xmit)
prague_queue_xmit(const struct inet_connection_sock_af_ops *orig)
{
	if (orig->queue_xmit == ip_queue_xmit)
		return prague_ip_queue_xmit;
#if IS_ENABLED(CONFIG_IPV6)
	if (orig->queue_xmit == inet6_csk_xmit)
		return prague_inet6_csk_xmit;
#endif
	return NULL;
}

static struct prague_af_copy *
prague_af_find(const struct inet_connection_sock_af_ops *orig)
{
	int i;

	for (i = 0; i < PRAGUE_AF_COPIES; i++) {
		/* Pairs with the release in prague_af_add() */
		if (smp_load_acquire(&prague_af_copies[i].orig) == orig)
			return &prague_af_copies[i];
	}
	return NULL;
}

static struct prague_af_copy *
prague_af_add(const struct inet_connection_sock_af_ops *orig)
{
	struct prague_af_copy *copy;

	/* init() runs in process context (setsockopt) and in softirq */
	spin_lock_bh(&prague_af_lock);
	copy = prague_af_find(orig);
	if (!copy) {
		copy = prague_af_find(NULL);
		if (copy) {
			copy->ops = *orig;
			copy->ops.queue_xmit = prague_queue_xmit(orig);
			/* Pairs with the acquire in prague_af_find() */
			smp_store_release(&copy->orig, orig);
		}
	}
	spin_unlock_bh(&prague_af_lock);
	return copy;
}

static bool prague_af_is_copy(const struct inet_connection_sock_af_ops *ops)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (ops->queue_xmit == prague_inet6_csk_xmit)
		return true;
#endif
	return ops->queue_xmit == prague_ip_queue_xmit;
}

static const struct prague_af_copy *prague_af_current(const struct sock *sk)
{
	const struct inet_connection_sock_af_ops *ops =
		inet_csk(sk)->icsk_af_ops;

	return prague_af_is_copy(ops) ?
		       container_of(ops, struct prague_af_copy, ops) : NULL;
}

/**
 * prague_ect1_prepare() - allocate the copies
 *
 * Return: 0 or a negative errno.
 */
int prague_ect1_prepare(void)
{
	prague_af_copies = kcalloc(PRAGUE_AF_COPIES, sizeof(*prague_af_copies),
				   GFP_KERNEL);
	kmemleak_not_leak(prague_af_copies);
	return prague_af_copies ? 0 : -ENOMEM;
}

/**
 * prague_ect1_enable() - send the packets of a socket as ECT(1)
 * @sk: a connecting or connected TCP socket, locked
 *
 * Return: false if this file does not know the socket's operations; the socket
 * is then unchanged and would send ECT(0).
 */
bool prague_ect1_enable(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct prague_af_copy *copy;

	if (prague_af_current(sk))
		return true;
	if (sk_is_mptcp(sk) || !prague_queue_xmit(icsk->icsk_af_ops))
		return false;
	copy = prague_af_find(icsk->icsk_af_ops);
	if (!copy)
		copy = prague_af_add(icsk->icsk_af_ops);
	if (!copy)
		return false;
	/* tcp_setsockopt() and tcp_getsockopt() read it without the lock */
	WRITE_ONCE(icsk->icsk_af_ops, &copy->ops);
	return true;
}

/**
 * prague_ect1_disable() - restore a socket's own operations
 * @sk: a TCP socket, locked
 */
void prague_ect1_disable(struct sock *sk)
{
	const struct prague_af_copy *copy = prague_af_current(sk);

	if (copy)
		WRITE_ONCE(inet_csk(sk)->icsk_af_ops, copy->orig);
}
