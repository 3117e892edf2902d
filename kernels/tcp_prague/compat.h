/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* Differences between the kernels that our congestion controls are built for
 *
 * No other file may depend on a version. README.md lists the tested kernels.
 */
#ifndef _CC_COMPAT_H
#define _CC_COMPAT_H

#include <net/tcp.h>

/* This, TCP_CONG_ECT_1_NEGOTIATION and TCP_CONG_NO_FALLBACK_RFC3168 came
 * together with AccECN.
 */
#ifndef TCP_CONG_NEEDS_ACCECN
#error "this module needs a kernel with AccECN: Linux 7.0 or later"
#endif

#endif /* _CC_COMPAT_H */
