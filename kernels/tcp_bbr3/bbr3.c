// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP BBR version 3: Google's ("bbr3"), and with ECT(1) on all packets and a
 * response to marks at any RTT ("bbr3_ect1"), as a study in ns-3 has it
 */
#include <linux/module.h>

#include "bbr.h"

#define BBR3_COMMON							\
	.ecn_alpha_gain = 16,						\
	.ecn_alpha_init = 256,						\
	.ecn_factor = 85,						\
	.ecn_thresh = 128,						\
	.ecn_reprobe_gain = 128,					\
	.beta = 76,							\
	.loss_thresh = 5,						\
	.full_loss_cnt = 6,						\
	.full_ecn_cnt = 2,						\
	.inflight_headroom = 38,					\
	.bw_probe_pif_gain = 320,					\
	.bw_probe_cwnd_gain = 576,					\
	.bw_probe_exit = BBR_EXIT_PLATEAU,				\
	.bw_probe_reno_gain = 256,					\
	.bw_probe_max_rounds = 63,					\
	.bw_probe_rand_rounds = 2,					\
	.bw_probe_base_us = 2 * USEC_PER_SEC,				\
	.bw_probe_rand_us = USEC_PER_SEC

struct bbr_params bbr_module_params[BBR_KINDS] = {
	{
		BBR3_COMMON,
		.ecn_gate = BBR_GATE_CLOSED,
		.ecn_max_rtt_us = 5000,
	}, {
		BBR3_COMMON,
		.ecn_gate = BBR_GATE_OPEN,
		.ecn_max_rtt_us = 0,
	},
};

#define BBR3_LAW							\
	.startup_gain = 710,						\
	.startup_cwnd_gain = 512,					\
	.down_gain = 232,						\
	.plateau_gain = 320,						\
	.plateau_rounds = 3,						\
	.v3 = true,							\
	.sample_fills = true,						\
	.rto_keeps_cwnd = true

struct bbr_kind bbr_kinds[BBR_KINDS] __read_mostly = {
	{
		.name = "bbr3",
		.law = { BBR3_LAW },
	}, {
		.name = "bbr3_ect1",
		.law = { BBR3_LAW, .ect1 = true, .ect1_any_ecn = true },
	},
};

const struct cc_param bbr_param_gate = {
	.name = "ecn_low",
	.offset = offsetof(struct bbr_params, ecn_gate),
	.least = BBR_GATE_CLOSED,
	.most = BBR_GATE_ROUTE,
	.module_set = &bbr_module_params[0],
};
module_param_cb(ecn_low, &cc_param_ops, (void *)&bbr_param_gate, 0644);
MODULE_PARM_DESC(ecn_low,
		 "ECN: respond to marks: 0: no, 1: yes, 2: if the route has the feature ecn [0..2]");

MODULE_DESCRIPTION("TCP BBR congestion control, version 3");
MODULE_VERSION("1.0");
MODULE_INFO(note, "parameters are those of bbr3 in the first network namespace; bbr3_ect1 has the sysctls net.ipv4.bbr3_ect1_*");
MODULE_ALIAS("tcp_bbr3_ect1");
