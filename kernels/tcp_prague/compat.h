/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* TCP Prague: differences between the kernels it is built for
 *
 * No other file may depend on a version. README.md lists the tested kernels.
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
