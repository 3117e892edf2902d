// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP Prague: parameters
 *
 * They are the sysctls net.ipv4.prague_*, and the module parameters of the same
 * names, as cc_params.c describes. A new namespace starts with a copy of the
 * first one's.
 *
 * Receivers only send ACKs, which no parameter affects.
 */
#include <linux/moduleparam.h>

#include "cc_params.h"
#include "prague.h"

/* What no parameter expresses depends on the version itself: see
 * prague_version_of().
 */
static const struct prague_set {
	u32 rtt_transition;
	u32 alpha_mode;
	u32 cwnd_mode;
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
	[PRAGUE_VERSION_2024] = {
		.rtt_transition = 4,
		.alpha_mode = 1,
		.cwnd_mode = PRAGUE_MODE_SWITCH,
	},
};

/* The first namespace's set: what the module parameters read and write */
static struct prague_params prague_module_params __read_mostly = {
	.version = PRAGUE_VERSION_07,
	.rtt_target = 25000,
	.rtt_transition = 4,
	.alpha_mode = 0,
	.reduction = PRAGUE_REDUCTION_CWR,
	.cwnd_mode = PRAGUE_MODE_SWITCH,
	.cwnd_transit = 4,
	.rate_offset = 4,
	.burst_shift = 12,
	.max_tso_segs = 0,
	.segsize = PRAGUE_SEGSIZE_RTT,
	.segsize_min_mss = 150,
	.segsize_low_rate = 100000,
	.segsize_high_rate = 1000000,
	.ecn_fallback = PRAGUE_FALLBACK_OFF,
	.fallback_scaling = PRAGUE_SCALING_SPECIFIED,
};

static void prague_apply_set(void *set)
{
	struct prague_params *params = set;
	const struct prague_set *those = &prague_sets[params->version];

	WRITE_ONCE(params->rtt_transition, those->rtt_transition);
	WRITE_ONCE(params->alpha_mode, those->alpha_mode);
	WRITE_ONCE(params->cwnd_mode, those->cwnd_mode);
}

#define PRAGUE_PARAM_CALLING(member, list, min, max, function, desc)	\
static const struct cc_param prague_##member = {			\
	.name = #member,						\
	.offset = offsetof(struct prague_params, member),		\
	.words = list,							\
	.least = min,							\
	.most = max,							\
	.module_set = &prague_module_params,				\
	.written = function,						\
};									\
module_param_cb(prague_##member, &cc_param_ops,				\
		(void *)&prague_##member, 0644);			\
MODULE_PARM_DESC(prague_##member, desc)

#define PRAGUE_PARAM(member, list, min, max, desc)			\
	PRAGUE_PARAM_CALLING(member, list, min, max, NULL, desc)

#define PRAGUE_NUMBER(member, min, max, desc)				\
	PRAGUE_PARAM(member, NULL, min, max, desc " [" #min ".." #max "]")

/* One of a few words, or its number */
#define PRAGUE_CHOICE(member, list, desc)				\
	PRAGUE_PARAM(member, list, 0, ARRAY_SIZE(list) - 1, desc)

/* Writing the version also writes all parameters that differ between versions;
 * what is written after it (or follows it in the arguments of insmod) wins.
 */
static const char *const prague_versions[] = {
	[PRAGUE_VERSION_07] = "v0.7",
	[PRAGUE_VERSION_06] = "v0.6",
	[PRAGUE_VERSION_2024] = "l4steam-2024",
};

PRAGUE_PARAM_CALLING(version, prague_versions, 0,
		     ARRAY_SIZE(prague_versions) - 1, prague_apply_set,
		     "behaviour, and set of parameters: v0.7, v0.6 or l4steam-2024");

PRAGUE_NUMBER(rtt_target, 1, 100000, "virtual RTT in microseconds");

PRAGUE_NUMBER(rtt_transition, 0, UINT_MAX,
	      "rounds after slow start until RTT independence");

/* Read when a connection begins */
PRAGUE_NUMBER(alpha_mode, 0, 1,
	      "0: alpha starts at 0, the first mark halves; 1: at 1");

static const char *const prague_reductions[] = {
	[PRAGUE_REDUCTION_CWR]	 = "cwr",
	[PRAGUE_REDUCTION_ROUND] = "round",
};

PRAGUE_CHOICE(reduction, prague_reductions,
	      "when a mark reduces: cwr, at the mark; round, when its round ends");

PRAGUE_NUMBER(cwnd_mode, 0, 2, "0: window mode, 1: rate mode, 2: switch");

PRAGUE_NUMBER(cwnd_transit, 0, 65535,
	      "mode 2: rate mode up to this many packets of 1500 B");

PRAGUE_NUMBER(rate_offset, 0, 64,
	      "rate mode: the rate swings by this many 128ths");

PRAGUE_NUMBER(burst_shift, 0, 31,
	      "longest burst is 2^-this seconds of the pacing rate");

PRAGUE_NUMBER(max_tso_segs, 0, 65535,
	      "longest burst in packets, 0 for no such limit");

const char *const prague_segsizes[PRAGUE_SEGSIZES] = {
	[PRAGUE_SEGSIZE_RTT]	= "rtt",
	[PRAGUE_SEGSIZE_FIXED]	= "fixed",
	[PRAGUE_SEGSIZE_LINEAR]	= "linear",
	[PRAGUE_SEGSIZE_LOG]	= "log",
	[PRAGUE_SEGSIZE_EXP]	= "exp",
};

PRAGUE_CHOICE(segsize, prague_segsizes,
	      "segment size: rtt, fixed, linear, log or exp");

PRAGUE_NUMBER(segsize_min_mss, 64, 65535,
	      "least payload of a packet in bytes");

PRAGUE_NUMBER(segsize_low_rate, 0, UINT_MAX,
	      "linear, log, exp: bit/s up to which packets are smallest");

PRAGUE_NUMBER(segsize_high_rate, 0, UINT_MAX,
	      "linear, log, exp: bit/s from which packets are full-size");

static const char *const prague_fallbacks[] = {
	[PRAGUE_FALLBACK_OFF]	 = "off",
	[PRAGUE_FALLBACK_ON]	 = "on",
	[PRAGUE_FALLBACK_DETECT] = "detect",
};

PRAGUE_CHOICE(ecn_fallback, prague_fallbacks,
	      "classic ECN queues: off, on (detect and fall back) or detect");

static const char *const prague_scalings[] = {
	[PRAGUE_SCALING_SPECIFIED] = "specified",
	[PRAGUE_SCALING_PUBLISHED] = "published",
};

PRAGUE_CHOICE(fallback_scaling, prague_scalings,
	      "reference values of the detection: specified or published");

/* Sysctls */

static const struct cc_param *const prague_all[] = {
	&prague_version,
	&prague_rtt_target,
	&prague_rtt_transition,
	&prague_alpha_mode,
	&prague_reduction,
	&prague_cwnd_mode,
	&prague_cwnd_transit,
	&prague_rate_offset,
	&prague_burst_shift,
	&prague_max_tso_segs,
	&prague_segsize,
	&prague_segsize_min_mss,
	&prague_segsize_low_rate,
	&prague_segsize_high_rate,
	&prague_ecn_fallback,
	&prague_fallback_scaling,
};

/**
 * prague_params_register() - give a network namespace its parameters
 * @net: the namespace
 * @pn: what the module keeps for it
 *
 * Return: 0 or a negative errno.
 */
int prague_params_register(struct net *net, struct prague_net *pn)
{
	if (net_eq(net, &init_net)) {
		pn->params = &prague_module_params;
	} else {
		pn->own = prague_module_params;
		pn->params = &pn->own;
	}
	if (!IS_ENABLED(CONFIG_SYSCTL))
		return 0;
	pn->sysctls = cc_sysctls_register(net, "prague", prague_all,
					  ARRAY_SIZE(prague_all), pn->params);
	return pn->sysctls ? 0 : -ENOMEM;
}

/**
 * prague_params_unregister() - undo prague_params_register()
 * @pn: what the module keeps for a network namespace
 */
void prague_params_unregister(struct prague_net *pn)
{
	if (IS_ENABLED(CONFIG_SYSCTL))
		cc_sysctls_unregister(pn->sysctls);
}
