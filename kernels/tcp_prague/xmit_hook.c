// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* A hook before every packet of one TCP socket
 *
 * No operation of a congestion control is called when a packet is sent. Its
 * module may need that all the same: for the ECN codepoint, since
 * TCP_CONG_ECT_1_NEGOTIATION makes the core send the SYN and the SYN/ACK as
 * ECT(1), but nothing after them, and tcp_ecn_send() writes ECT(0) into the
 * socket's TOS (or traffic class) for each packet; or to note what was in
 * flight at that time. icsk_af_ops->queue_xmit() is called right after that,
 * so a hooked socket points icsk_af_ops at a copy of its own operations in
 * which only queue_xmit() differs: it calls the module's xmit_hook_packet()
 * first.
 *
 * - The copy is of the operations that a socket has when the hook begins
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
 *
 * The file is a part of several modules, each with copies of its own. A socket
 * that goes from one of them to another has its own operations in between.
 */
#include <linux/ipv6.h>
#include <linux/kmemleak.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <net/inet_connection_sock.h>
#include <net/inet6_connection_sock.h>
#include <net/ip.h>
#include <net/mptcp.h>

#include "xmit_hook.h"

/* Three kinds of TCP socket, and one to spare */
#define XMIT_HOOK_COPIES	4

struct xmit_hook_copy {
	const struct inet_connection_sock_af_ops *orig; /* NULL: unused */
	struct inet_connection_sock_af_ops ops;
};

static struct xmit_hook_copy *xmit_hook_copies __read_mostly;
static DEFINE_SPINLOCK(xmit_hook_lock); /* serialises filling a free slot */

static int xmit_hook_ip(struct sock *sk, struct sk_buff *skb, struct flowi *fl)
{
	xmit_hook_packet(sk, skb);
	return ip_queue_xmit(sk, skb, fl);
}

#if IS_ENABLED(CONFIG_IPV6)
static int xmit_hook_inet6(struct sock *sk, struct sk_buff *skb,
			   struct flowi *fl)
{
	xmit_hook_packet(sk, skb);
	return inet6_csk_xmit(sk, skb, fl);
}
#endif

/* The replacement for queue_xmit() of @orig, or NULL if that is unknown */
static typeof_member(struct inet_connection_sock_af_ops, queue_xmit)
xmit_hook_replacement(const struct inet_connection_sock_af_ops *orig)
{
	if (orig->queue_xmit == ip_queue_xmit)
		return xmit_hook_ip;
#if IS_ENABLED(CONFIG_IPV6)
	if (orig->queue_xmit == inet6_csk_xmit)
		return xmit_hook_inet6;
#endif
	return NULL;
}

static struct xmit_hook_copy *
xmit_hook_find(const struct inet_connection_sock_af_ops *orig)
{
	int i;

	for (i = 0; i < XMIT_HOOK_COPIES; i++) {
		/* Pairs with the release in xmit_hook_add() */
		if (smp_load_acquire(&xmit_hook_copies[i].orig) == orig)
			return &xmit_hook_copies[i];
	}
	return NULL;
}

static struct xmit_hook_copy *
xmit_hook_add(const struct inet_connection_sock_af_ops *orig)
{
	struct xmit_hook_copy *copy;

	/* init() runs in process context (setsockopt) and in softirq */
	spin_lock_bh(&xmit_hook_lock);
	copy = xmit_hook_find(orig);
	if (!copy) {
		copy = xmit_hook_find(NULL);
		if (copy) {
			copy->ops = *orig;
			copy->ops.queue_xmit = xmit_hook_replacement(orig);
			/* Pairs with the acquire in xmit_hook_find() */
			smp_store_release(&copy->orig, orig);
		}
	}
	spin_unlock_bh(&xmit_hook_lock);
	return copy;
}

static bool xmit_hook_is_copy(const struct inet_connection_sock_af_ops *ops)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (ops->queue_xmit == xmit_hook_inet6)
		return true;
#endif
	return ops->queue_xmit == xmit_hook_ip;
}

static const struct xmit_hook_copy *xmit_hook_current(const struct sock *sk)
{
	const struct inet_connection_sock_af_ops *ops =
		inet_csk(sk)->icsk_af_ops;

	return xmit_hook_is_copy(ops) ?
		       container_of(ops, struct xmit_hook_copy, ops) : NULL;
}

/**
 * xmit_hook_prepare() - allocate the copies
 *
 * Return: 0 or a negative errno.
 */
int xmit_hook_prepare(void)
{
	xmit_hook_copies = kcalloc(XMIT_HOOK_COPIES, sizeof(*xmit_hook_copies),
				   GFP_KERNEL);
	kmemleak_not_leak(xmit_hook_copies);
	return xmit_hook_copies ? 0 : -ENOMEM;
}

/**
 * xmit_hook_discard() - free the copies of a module that cannot be loaded
 *
 * No socket may have used the hook.
 */
void xmit_hook_discard(void)
{
	kfree(xmit_hook_copies);
}

/**
 * xmit_hook_enable() - call xmit_hook_packet() before the packets of a socket
 * @sk: a connecting or connected TCP socket, locked
 *
 * Return: false if this file does not know the socket's operations; the socket
 * is then unchanged.
 */
bool xmit_hook_enable(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct xmit_hook_copy *copy;

	if (xmit_hook_current(sk))
		return true;
	if (sk_is_mptcp(sk) || !xmit_hook_replacement(icsk->icsk_af_ops))
		return false;
	copy = xmit_hook_find(icsk->icsk_af_ops);
	if (!copy)
		copy = xmit_hook_add(icsk->icsk_af_ops);
	if (!copy)
		return false;
	/* tcp_setsockopt() and tcp_getsockopt() read it without the lock */
	WRITE_ONCE(icsk->icsk_af_ops, &copy->ops);
	return true;
}

/**
 * xmit_hook_disable() - restore a socket's own operations
 * @sk: a TCP socket, locked
 */
void xmit_hook_disable(struct sock *sk)
{
	const struct xmit_hook_copy *copy = xmit_hook_current(sk);

	if (copy)
		WRITE_ONCE(inet_csk(sk)->icsk_af_ops, copy->orig);
}
