// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP BBR version 2: Google's alpha ("bbr2"), and L4STeam's variant of it for
 * L4S ("bbr2_l4s")
 */
#include <linux/module.h>

#include "bbr.h"

#define BBR2_COMMON							\
	.ecn_alpha_gain = 16,						\
	.ecn_alpha_init = 256,						\
	.ecn_factor = 85,						\
	.ecn_thresh = 128,						\
	.ecn_reprobe_gain = 0,						\
	.beta = 76,							\
	.loss_thresh = 5,						\
	.full_loss_cnt = 8,						\
	.full_ecn_cnt = 2,						\
	.inflight_headroom = 38,					\
	.bw_probe_pif_gain = 320,					\
	.bw_probe_exit = BBR_EXIT_QUEUE,				\
	.bw_probe_reno_gain = 256,					\
	.bw_probe_max_rounds = 63,					\
	.bw_probe_rand_rounds = 2,					\
	.bw_probe_base_us = 2 * USEC_PER_SEC,				\
	.bw_probe_rand_us = USEC_PER_SEC

struct bbr_params bbr_module_params[BBR_KINDS] = {
	{
		BBR2_COMMON,
		.ecn_gate = BBR_GATE_CLOSED,
		.ecn_max_rtt_us = 5000,
		.bw_probe_cwnd_gain = 512,
	}, {
		BBR2_COMMON,
		.ecn_gate = BBR_GATE_OPEN,
		.ecn_max_rtt_us = 0,
		.bw_probe_cwnd_gain = 576,
	},
};

struct bbr_kind bbr_kinds[BBR_KINDS] __read_mostly = {
	{
		.name = "bbr2",
		.law = {
			.startup_gain = 739,
			.startup_cwnd_gain = 739,
			.down_gain = 192,
			.plateau_gain = 288,
			.plateau_rounds = 2,
		},
	}, {
		.name = "bbr2_l4s",
		.law = {
			.startup_gain = 739,
			.startup_cwnd_gain = 739,
			.down_gain = 232,
			.plateau_gain = 288,
			.plateau_rounds = 2,
			.sample_fills = true,
			.rto_keeps_cwnd = true,
			.ect1 = true,
		},
	},
};

const struct cc_param bbr_param_gate = {
	.name = "ecn_enable",
	.offset = offsetof(struct bbr_params, ecn_gate),
	.least = BBR_GATE_CLOSED,
	.most = BBR_GATE_OPEN,
	.module_set = &bbr_module_params[0],
};
module_param_cb(ecn_enable, &cc_param_ops, (void *)&bbr_param_gate, 0644);
MODULE_PARM_DESC(ecn_enable, "ECN: respond to marks [0..1]");

MODULE_DESCRIPTION("TCP BBR congestion control, version 2");
MODULE_VERSION("1.0");
MODULE_INFO(note, "parameters are those of bbr2 in the first network namespace; bbr2_l4s has the sysctls net.ipv4.bbr2_l4s_*");
MODULE_ALIAS("tcp_bbr2_l4s");
