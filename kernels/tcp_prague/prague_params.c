// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: module parameters
 *
 * All can be written at run time. They hold for the sockets of all network
 * namespaces, running ones included, except where a comment says otherwise.
 */
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "prague.h"

/* A number with a range, which is part of its description */
#define PRAGUE_PARAM(param, least, most, desc)				\
static int param##_set(const char *val, const struct kernel_param *kp)	\
{									\
	return param_set_uint_minmax(val, kp, least, most);		\
}									\
static const struct kernel_param_ops param##_ops = {			\
	.set = param##_set,						\
	.get = param_get_uint,						\
};									\
module_param_cb(param, &param##_ops, &(param), 0644);			\
MODULE_PARM_DESC(param, desc " [" #least ".." #most "]")

/* One of a few words, or its number */
struct prague_choice {
	unsigned int *value;
	const char *const *words;
	size_t count;
};

static int prague_choice_parse(const char *val,
			       const struct prague_choice *choice)
{
	int found = __sysfs_match_string(choice->words, choice->count, val);
	unsigned int number;

	if (found >= 0)
		return found;
	if (kstrtouint(val, 0, &number) || number >= choice->count)
		return -EINVAL;
	return number;
}

static int prague_choice_set(const char *val, const struct kernel_param *kp)
{
	const struct prague_choice *choice = kp->arg;
	int found = prague_choice_parse(val, choice);

	if (found < 0)
		return found;
	WRITE_ONCE(*choice->value, found);
	return 0;
}

static int prague_choice_get(char *buffer, const struct kernel_param *kp)
{
	const struct prague_choice *choice = kp->arg;

	return sysfs_emit(buffer, "%s\n", choice->words[*choice->value]);
}

static int prague_choice_number(char *buffer, const struct kernel_param *kp)
{
	const struct prague_choice *choice = kp->arg;

	return sysfs_emit(buffer, "%u\n", *choice->value);
}

static const struct kernel_param_ops prague_choice_ops = {
	.set = prague_choice_set,
	.get = prague_choice_get,
};

static const struct kernel_param_ops prague_number_ops = {
	.set = prague_choice_set,
	.get = prague_choice_number,
};

#define PRAGUE_CHOICE(param, list, param_ops, desc)			\
static struct prague_choice param##_choice = {				\
	.value = &(param),						\
	.words = list,							\
	.count = ARRAY_SIZE(list),					\
};									\
module_param_cb(param, param_ops, &param##_choice, 0644);		\
MODULE_PARM_DESC(param, desc)

unsigned int prague_rtt_target __read_mostly = 25000;
PRAGUE_PARAM(prague_rtt_target, 1, 100000,
	     "virtual RTT in microseconds");

unsigned int prague_rtt_transition __read_mostly = 4;
PRAGUE_PARAM(prague_rtt_transition, 0, UINT_MAX,
	     "rounds after slow start until RTT independence");

/* Read when a connection begins */
unsigned int prague_alpha_mode __read_mostly;
PRAGUE_PARAM(prague_alpha_mode, 0, 1,
	     "0: alpha starts at 0, the first mark halves; 1: at 1");

static const char *const prague_reductions[] = {
	[PRAGUE_REDUCTION_CWR]	 = "cwr",
	[PRAGUE_REDUCTION_ROUND] = "round",
};

unsigned int prague_reduction __read_mostly = PRAGUE_REDUCTION_CWR;
PRAGUE_CHOICE(prague_reduction, prague_reductions, &prague_choice_ops,
	      "when a mark reduces: cwr, at the mark; round, when its round ends");

unsigned int prague_cwnd_mode __read_mostly = PRAGUE_MODE_SWITCH;
PRAGUE_PARAM(prague_cwnd_mode, 0, 2,
	     "0: window mode, 1: rate mode, 2: switch");

unsigned int prague_cwnd_transit __read_mostly = 4;
PRAGUE_PARAM(prague_cwnd_transit, 0, 65535,
	     "mode 2: rate mode up to this many packets of 1500 B");

unsigned int prague_rate_offset __read_mostly = 4;
PRAGUE_PARAM(prague_rate_offset, 0, 64,
	     "rate mode: the rate swings by this many 128ths");

unsigned int prague_burst_shift __read_mostly = 12;
PRAGUE_PARAM(prague_burst_shift, 0, 31,
	     "longest burst is 2^-this seconds of the pacing rate");

unsigned int prague_max_tso_segs __read_mostly;
PRAGUE_PARAM(prague_max_tso_segs, 0, 65535,
	     "longest burst in packets, 0 for no such limit");

const char *const prague_segsizes[PRAGUE_SEGSIZES] = {
	[PRAGUE_SEGSIZE_RTT]	= "rtt",
	[PRAGUE_SEGSIZE_FIXED]	= "fixed",
	[PRAGUE_SEGSIZE_LINEAR]	= "linear",
	[PRAGUE_SEGSIZE_LOG]	= "log",
	[PRAGUE_SEGSIZE_EXP]	= "exp",
};

unsigned int prague_segsize __read_mostly = PRAGUE_SEGSIZE_RTT;
PRAGUE_CHOICE(prague_segsize, prague_segsizes, &prague_choice_ops,
	      "segment size: rtt, fixed, linear, log or exp");

unsigned int prague_segsize_min_mss __read_mostly = 150;
PRAGUE_PARAM(prague_segsize_min_mss, 64, 65535,
	     "least payload of a packet in bytes");

unsigned int prague_segsize_low_rate __read_mostly = 100000;
PRAGUE_PARAM(prague_segsize_low_rate, 0, UINT_MAX,
	     "linear, log, exp: bit/s up to which packets are smallest");

unsigned int prague_segsize_high_rate __read_mostly = 1000000;
PRAGUE_PARAM(prague_segsize_high_rate, 0, UINT_MAX,
	     "linear, log, exp: bit/s from which packets are full-size");

static const char *const prague_fallbacks[] = {
	[PRAGUE_FALLBACK_OFF]	 = "off",
	[PRAGUE_FALLBACK_ON]	 = "on",
	[PRAGUE_FALLBACK_DETECT] = "detect",
};

unsigned int prague_ecn_fallback __read_mostly = PRAGUE_FALLBACK_OFF;
PRAGUE_CHOICE(prague_ecn_fallback, prague_fallbacks, &prague_number_ops,
	      "classic ECN queues: 0 ignore, 1 detect and fall back, 2 detect");

static const char *const prague_scalings[] = {
	[PRAGUE_SCALING_SPECIFIED] = "specified",
	[PRAGUE_SCALING_PUBLISHED] = "published",
};

unsigned int prague_fallback_scaling __read_mostly = PRAGUE_SCALING_SPECIFIED;
PRAGUE_CHOICE(prague_fallback_scaling, prague_scalings, &prague_choice_ops,
	      "reference values of the detection: specified or published");

/* Sets of parameters. Writing prague_version writes all that differ between
 * versions; what is written after it (or stands behind it in the arguments of
 * insmod) holds over it. What no parameter says, slow start and pacing after a
 * reduction, goes by prague_version itself.
 */
static const char *const prague_versions[] = {
	[PRAGUE_VERSION_07] = "v0.7",
	[PRAGUE_VERSION_06] = "v0.6",
};

static const struct prague_set {
	unsigned int rtt_transition;
	unsigned int alpha_mode;
	unsigned int cwnd_mode;
} prague_sets[] = {
	[PRAGUE_VERSION_07] = {
		.rtt_transition = 4,
		.alpha_mode = 0,
		.cwnd_mode = PRAGUE_MODE_SWITCH,
	},
	[PRAGUE_VERSION_06] = {
		.rtt_transition = 500,
		.alpha_mode = 1,
		.cwnd_mode = PRAGUE_MODE_WINDOW,
	},
};

unsigned int prague_version __read_mostly = PRAGUE_VERSION_07;

static int prague_version_set(const char *val, const struct kernel_param *kp)
{
	int found = prague_choice_set(val, kp);
	const struct prague_set *set;

	if (found)
		return found;
	set = &prague_sets[prague_version];
	WRITE_ONCE(prague_rtt_transition, set->rtt_transition);
	WRITE_ONCE(prague_alpha_mode, set->alpha_mode);
	WRITE_ONCE(prague_cwnd_mode, set->cwnd_mode);
	return 0;
}

static const struct kernel_param_ops prague_version_ops = {
	.set = prague_version_set,
	.get = prague_choice_get,
};

PRAGUE_CHOICE(prague_version, prague_versions, &prague_version_ops,
	      "set of parameters: v0.7 or v0.6");
