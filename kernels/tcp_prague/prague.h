/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
#ifndef _TCP_PRAGUE_H
#define _TCP_PRAGUE_H

#include <linux/types.h>

struct sock;

/* prague_ect1.c: ECT(1) instead of ECT(0) on the packets of one socket. Both
 * are called with the socket locked; neither does harm when called again.
 */
bool prague_ect1_enable(struct sock *sk);
void prague_ect1_disable(struct sock *sk);

#endif /* _TCP_PRAGUE_H */
