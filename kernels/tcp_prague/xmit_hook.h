/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* A hook before every packet of one TCP socket: see xmit_hook.c */
#ifndef _XMIT_HOOK_H
#define _XMIT_HOOK_H

#include <net/inet_ecn.h>
#include <net/inet_sock.h>

/* Of the module: runs before each packet of a hooked socket. The TCP header is
 * written and at the start of @skb; the socket is locked.
 */
void xmit_hook_packet(struct sock *sk, const struct sk_buff *skb);

bool xmit_hook_enable(struct sock *sk);
void xmit_hook_disable(struct sock *sk);
int xmit_hook_prepare(void);
void xmit_hook_discard(void);

/* Send the packet as ECT(1). One that the core sends as Not-ECT, because
 * AccECN feedback failed, stays Not-ECT.
 */
static inline void xmit_hook_ect1(struct sock *sk)
{
	if (inet_sk(sk)->tos & INET_ECN_MASK)
		__INET_ECN_xmit(sk, true);
}

#endif /* _XMIT_HOOK_H */
