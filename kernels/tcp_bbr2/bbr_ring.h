/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* TCP BBR: bursts as they were sent
 *
 * All functions are pure but for their ring's memory: tests call them outside of
 * the kernel.
 */
#ifndef _TCP_BBR_RING_H
#define _TCP_BBR_RING_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include "bbr_user.h"
#endif

/* A packet (or burst) as it was sent */
struct bbr_sent {
	u32 seq;
	u32 end;
	u32 in_flight;		/* packets, with this one */
	u32 lost;		/* tp->lost at that time */
};

#define BBR_RING_OWN	4U	/* bursts that need no allocation: 64 B */
#define BBR_RING_GROWTH	4U
#define BBR_RING_MOST	1024U	/* bursts: 16 KiB */

/* The bursts that are not acknowledged yet, in the order of sending: those with
 * a number from @oldest up to, but without, @head. Sizes are powers of two.
 */
struct bbr_ring {
	struct bbr_sent *entries;	/* @own, or allocated */
	u32 size;
	u64 head;		/* how many were ever put into it */
	u64 oldest;
	u64 run;		/* from this one on, none begins before another ends */
	u64 retry;		/* no memory: do not ask before this many */
	struct bbr_sent own[BBR_RING_OWN];
};

void bbr_ring_init(struct bbr_ring *ring);
void bbr_ring_clear(struct bbr_ring *ring);
void bbr_ring_add(struct bbr_ring *ring, const struct bbr_sent *sent, u32 una);
const struct bbr_sent *bbr_ring_find(const struct bbr_ring *ring, u32 end);

#endif /* _TCP_BBR_RING_H */
