// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* TCP BBR: parameters
 *
 * Each name of the congestion control has a set of its own in each network
 * namespace, as the sysctls net.ipv4.<name>_*: see cc_params.c. The module
 * parameters are those of the module's first name in the first namespace; they
 * have the names that Google's version 2 gave them. Shares and gains are in
 * 2^-8.
 */
#include <linux/moduleparam.h>

#include "bbr.h"

#define BBR_PARAM(member, min, max, desc)				\
static const struct cc_param bbr_param_##member = {			\
	.name = #member,						\
	.offset = offsetof(struct bbr_params, member),			\
	.least = min,							\
	.most = max,							\
	.module_set = &bbr_module_params[0],				\
};									\
module_param_cb(member, &cc_param_ops, (void *)&bbr_param_##member,	\
		0644);							\
MODULE_PARM_DESC(member, desc " [" #min ".." #max "]")

BBR_PARAM(ecn_max_rtt_us, 0, UINT_MAX,
	  "ECN: respond if the least RTT is at most this, us; 0: any");
BBR_PARAM(ecn_alpha_gain, 0, 256, "ECN: gain of alpha");
/* Read when a connection begins */
BBR_PARAM(ecn_alpha_init, 0, 256, "ECN: alpha at first");
BBR_PARAM(ecn_factor, 0, 256, "ECN: cut of inflight_lo per alpha");
BBR_PARAM(ecn_thresh, 0, 256, "ECN: marked share that is too much; 0: none");
BBR_PARAM(ecn_reprobe_gain, 0, 256,
	  "ECN: probe at once after marks, growing by this share; 0: no");
BBR_PARAM(beta, 0, 256, "loss: cut of bw_lo and inflight_lo");
BBR_PARAM(loss_thresh, 0, 255, "loss: lost share that is too much");
BBR_PARAM(full_loss_cnt, 0, 15,
	  "STARTUP: ends after so many ACKs with losses in a round; 0: no");
BBR_PARAM(full_ecn_cnt, 0, 255,
	  "STARTUP: ends after so many rounds with too many marks; 0: no");
BBR_PARAM(inflight_headroom, 0, 256, "CRUISE: share of inflight_hi left free");
BBR_PARAM(bw_probe_pif_gain, 256, 1023, "UP: ends with so much in flight");
BBR_PARAM(bw_probe_cwnd_gain, 256, 1023, "UP: gain of the window");
BBR_PARAM(bw_probe_exit, 0, 1,
	  "UP: 0: ends with a queue, 1: when bandwidth no longer grows");
BBR_PARAM(bw_probe_reno_gain, 0, 65535,
	  "UP: at the latest after so many times the BDP in rounds; 0: no");
BBR_PARAM(bw_probe_max_rounds, 1, 255, "UP: at the latest after these rounds");
BBR_PARAM(bw_probe_rand_rounds, 0, 255, "UP: up to so many rounds earlier");
BBR_PARAM(bw_probe_base_us, 0, 100000000, "UP: at the latest after this, us");
BBR_PARAM(bw_probe_rand_us, 0, 100000000, "UP: plus a random part, us");

const struct cc_param *const bbr_all_params[] = {
	&bbr_param_gate,
	&bbr_param_ecn_max_rtt_us,
	&bbr_param_ecn_alpha_gain,
	&bbr_param_ecn_alpha_init,
	&bbr_param_ecn_factor,
	&bbr_param_ecn_thresh,
	&bbr_param_ecn_reprobe_gain,
	&bbr_param_beta,
	&bbr_param_loss_thresh,
	&bbr_param_full_loss_cnt,
	&bbr_param_full_ecn_cnt,
	&bbr_param_inflight_headroom,
	&bbr_param_bw_probe_pif_gain,
	&bbr_param_bw_probe_cwnd_gain,
	&bbr_param_bw_probe_exit,
	&bbr_param_bw_probe_reno_gain,
	&bbr_param_bw_probe_max_rounds,
	&bbr_param_bw_probe_rand_rounds,
	&bbr_param_bw_probe_base_us,
	&bbr_param_bw_probe_rand_us,
};

const size_t bbr_params_count = ARRAY_SIZE(bbr_all_params);
