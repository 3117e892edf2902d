// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* Reno that asks the core for ECT(1), and does nothing about it itself
 *
 * For kernels with TCP_CONG_ECT_1_ESTABLISH. "ect1_off" clears the socket's
 * bit as soon as it is initialized, as a congestion control does that finds
 * that it must not use ECT(1) on a path.
 */
#include <linux/module.h>
#include <net/tcp.h>

static void ect1_off_init(struct sock *sk)
{
	tcp_sk(sk)->ecn_flags &= ~TCP_ECN_ECT_1;
}

static struct tcp_congestion_ops ect1 __read_mostly = {
	.flags		= TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN |
			  TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION |
			  TCP_CONG_ECT_1_ESTABLISH,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "ect1",
};

static struct tcp_congestion_ops ect1_off __read_mostly = {
	.flags		= TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN |
			  TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION |
			  TCP_CONG_ECT_1_ESTABLISH,
	.init		= ect1_off_init,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.owner		= THIS_MODULE,
	.name		= "ect1_off",
};

static int __init ect1_register(void)
{
	int err = tcp_register_congestion_control(&ect1);

	if (err)
		return err;
	err = tcp_register_congestion_control(&ect1_off);
	if (err)
		tcp_unregister_congestion_control(&ect1);
	return err;
}

static void __exit ect1_unregister(void)
{
	tcp_unregister_congestion_control(&ect1_off);
	tcp_unregister_congestion_control(&ect1);
}

module_init(ect1_register);
module_exit(ect1_unregister);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Reno that asks for ECT(1) on every packet");
