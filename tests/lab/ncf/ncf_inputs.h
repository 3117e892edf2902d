/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* NCF: clock and depth as a test sets them, in place of the file of this name in
 * kernels/sch_ncf
 */
#ifndef _NCF_INPUTS_H
#define _NCF_INPUTS_H

#include <linux/moduleparam.h>

#include "sch_ncf.h"

static ullong test_now;
module_param(test_now, ullong, 0644);
MODULE_PARM_DESC(test_now, "time in ns");

static uint test_depth;
module_param(test_depth, uint, 0644);
MODULE_PARM_DESC(test_depth, "depth of the queue that a packet joins, bytes");

static int test_flows = -1;
module_param(test_flows, int, 0644);
MODULE_PARM_DESC(test_flows, "number of elephants where the next packet comes; -1: as it is");

static uint test_queue;
module_param(test_queue, uint, 0644);
MODULE_PARM_DESC(test_queue, "queue that the last packet noted joined");

/* Set around the packets of a vector, so that signals, which pass a queue on
 * their way back, leave the last queue as it is.
 */
static bool test_armed;
module_param(test_armed, bool, 0644);
MODULE_PARM_DESC(test_armed, "note the queue of the next packet");

static inline u64 ncf_now(void)
{
	return test_now;
}

static inline u32 ncf_depth(struct ncf_sched *q, enum ncf_queue_name name)
{
	if (!test_armed)
		return q->queues[name].bytes;
	test_armed = false;
	test_queue = name;
	if (test_flows >= 0)
		q->flows.elephants = test_flows;
	test_flows = -1;
	return test_depth;
}

#endif /* _NCF_INPUTS_H */
