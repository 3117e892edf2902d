/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* NCF: the clock, and the depth that a packet finds
 *
 * Tests build the module with another file of this name, to give each packet
 * the time and depth of a vector.
 */
#ifndef _NCF_INPUTS_H
#define _NCF_INPUTS_H

#include <linux/timekeeping.h>

#include "sch_ncf.h"

static inline u64 ncf_now(void)
{
	return ktime_get_ns();
}

static inline u32 ncf_depth(struct ncf_sched *q, enum ncf_queue_name name)
{
	return q->queues[name].bytes;
}

#endif /* _NCF_INPUTS_H */
