/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* TCP Prague: arithmetic without sockets
 *
 * Integers only. prague_math.c also compiles outside the kernel, where a test
 * compares it with floating point over its whole range.
 */
#ifndef _TCP_PRAGUE_MATH_H
#define _TCP_PRAGUE_MATH_H

#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/types.h>
#else
#include "prague_user.h"
#endif

#define PRAGUE_LOG_BITS		24	/* fraction of a logarithm, in bits */
#define PRAGUE_LOG_ONE		((u32)BIT(PRAGUE_LOG_BITS))

/* Delays have fractions of a microsecond, so that means with a small gain are
 * not rounded off.
 */
#define PRAGUE_DELAY_BITS	8

enum prague_segsize {
	PRAGUE_SEGSIZE_RTT,
	PRAGUE_SEGSIZE_FIXED,
	PRAGUE_SEGSIZE_LINEAR,
	PRAGUE_SEGSIZE_LOG,
	PRAGUE_SEGSIZE_EXP,
	PRAGUE_SEGSIZES,
};

/* How segments of a size between @least and @most follow a rate */
struct prague_sizing {
	enum prague_segsize scheme;
	u32 low_rate;	/* bit/s: segments grow from here */
	u32 high_rate;	/* bit/s: segments are full-size from here */
	u32 least;	/* B: at @low_rate and below */
	u32 most;	/* B: at @high_rate and above */
};

u32 prague_log2(u64 value);
u32 prague_size_by_rate(const struct prague_sizing *sizing, u64 rate);
s32 prague_score_term(u64 delay, u32 reference, bool published);

#endif /* _TCP_PRAGUE_MATH_H */
