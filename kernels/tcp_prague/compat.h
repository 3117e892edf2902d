/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* TCP Prague: where the kernels it is built for differ
 *
 * Nothing else in this folder may ask for a version. Tried: see README.md.
 */
#ifndef _TCP_PRAGUE_COMPAT_H
#define _TCP_PRAGUE_COMPAT_H

#include <net/tcp.h>

/* This, TCP_CONG_ECT_1_NEGOTIATION and TCP_CONG_NO_FALLBACK_RFC3168 came
 * together with AccECN.
 */
#ifndef TCP_CONG_NEEDS_ACCECN
#error "tcp_prague needs a kernel with AccECN: Linux 7.0 or later"
#endif

#endif /* _TCP_PRAGUE_COMPAT_H */
