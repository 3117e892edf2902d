// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP NCF: parameters
 *
 * They are the sysctls net.ipv4.ncf_*, and the module parameters of the same
 * names, as cc_params.c describes. A new namespace starts with a copy of the
 * first one's. Shares are percentages; the paper's tau is 30 here.
 */
#include <linux/moduleparam.h>

#include "cc_params.h"
#include "ncf.h"

/* The first namespace's set: what the module parameters read and write */
static struct ncf_params ncf_module_params __read_mostly = {
	.mode = NCF_MODE_INTENDED,
	.endhost = 0,
	.tau = 30,
	.delta = 80,
	.gamma = 95,
	.lambda = 70,
	.most_kbps = 100000000, /* the fastest port of a Tofino 1 */
};

#define NCF_PARAM(member, list, min, max, desc)				\
static const struct cc_param ncf_param_##member = {			\
	.name = #member,						\
	.offset = offsetof(struct ncf_params, member),			\
	.words = list,							\
	.least = min,							\
	.most = max,							\
	.module_set = &ncf_module_params,				\
};									\
module_param_cb(ncf_##member, &cc_param_ops,				\
		(void *)&ncf_param_##member, 0644);			\
MODULE_PARM_DESC(ncf_##member, desc)

static const char *const ncf_modes[] = {
	[NCF_MODE_INTENDED] = "intended",
	[NCF_MODE_LITERAL] = "literal",
};

NCF_PARAM(mode, ncf_modes, 0, ARRAY_SIZE(ncf_modes) - 1,
	  "lines 22 and 24 of Algorithm 2: intended or literal");
NCF_PARAM(endhost, NULL, 0, 1,
	  "1: a signal counts when the packet that it is about is acknowledged");
NCF_PARAM(tau, NULL, 0, 10000000,
	  "change of the number of flows that counts at once, percent");
NCF_PARAM(delta, NULL, 1, 100,
	  "share of the window that large BDPs get, percent");
NCF_PARAM(gamma, NULL, 1, 100,
	  "share of the window while mice are crowded, percent");
NCF_PARAM(lambda, NULL, 0, 100,
	  "weight against drastic changes, percent");
NCF_PARAM(most_kbps, NULL, 1, U32_MAX,
	  "largest capacity that signals may state, kbit/s");

static const struct cc_param *const ncf_all[] = {
	&ncf_param_mode,
	&ncf_param_endhost,
	&ncf_param_tau,
	&ncf_param_delta,
	&ncf_param_gamma,
	&ncf_param_lambda,
	&ncf_param_most_kbps,
};

/**
 * ncf_params_register() - give a network namespace its parameters
 * @net: the namespace
 * @nn: what the module keeps for it
 *
 * Return: 0 or a negative errno.
 */
int ncf_params_register(struct net *net, struct ncf_net *nn)
{
	if (net_eq(net, &init_net)) {
		nn->params = &ncf_module_params;
	} else {
		nn->own = ncf_module_params;
		nn->params = &nn->own;
	}
	if (!IS_ENABLED(CONFIG_SYSCTL))
		return 0;
	nn->sysctls = cc_sysctls_register(net, "ncf", ncf_all,
					  ARRAY_SIZE(ncf_all), nn->params);
	return nn->sysctls ? 0 : -ENOMEM;
}

/**
 * ncf_params_unregister() - undo ncf_params_register()
 * @nn: what the module keeps for a network namespace
 */
void ncf_params_unregister(struct ncf_net *nn)
{
	if (IS_ENABLED(CONFIG_SYSCTL))
		cc_sysctls_unregister(nn->sysctls);
}
