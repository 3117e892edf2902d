/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* The kernel's definitions that bbr_ring.c uses, for tests outside of it: they
 * count comparisons, and decide if there is memory.
 */
#ifndef _TCP_BBR_USER_H
#define _TCP_BBR_USER_H

#include <stdbool.h>
#include <stdlib.h>

#define GFP_NOWAIT	0
#define __GFP_NOWARN	0
#define __GFP_ACCOUNT	0

#define max(one, other)	((one) > (other) ? (one) : (other))

typedef int s32;
typedef unsigned int u32;
typedef unsigned long long u64;

u64 bbr_user_compared;		/* how many sequence numbers */
u64 bbr_user_asked;		/* for memory, how often */
u64 bbr_user_bytes = -1ULL;	/* largest allocation that succeeds */

static inline bool before(u32 one, u32 other)
{
	bbr_user_compared++;
	return (s32)(one - other) < 0;
}

static inline bool after(u32 one, u32 other)
{
	return before(other, one);
}

static inline void *kmalloc_array(u32 count, u32 size, int flags)
{
	(void)flags;
	bbr_user_asked++;
	return (u64)count * size <= bbr_user_bytes ? malloc(count * size) : NULL;
}

static inline void kfree(void *memory)
{
	free(memory);
}

#endif /* _TCP_BBR_USER_H */
