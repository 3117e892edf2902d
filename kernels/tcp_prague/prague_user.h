/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* The kernel's definitions that prague_math.c uses, for tests outside of it */
#ifndef _TCP_PRAGUE_USER_H
#define _TCP_PRAGUE_USER_H

#include <stdbool.h>

#define BIT(place)	(1UL << (place))

typedef int s32;
typedef unsigned int u32;
typedef unsigned long long u64;

static inline int fls64(u64 value)
{
	return value ? 64 - __builtin_clzll(value) : 0;
}

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

#endif /* _TCP_PRAGUE_USER_H */
