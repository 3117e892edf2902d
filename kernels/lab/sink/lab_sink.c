// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * lab_sink: a reader of TCP connections within the kernel, as an upper layer
 * protocol: setsockopt(fd, SOL_TCP, TCP_ULP, "lab_sink").
 *
 * It discards what arrives the moment it arrives, as a program would that always
 * sleeps in recv(), but without waking that program's thread for each segment.
 * TCP sees a reader: tcp_read_sock() measures the receive buffer and sends the
 * ACKs that recv() would. The end of the connection and errors are reported to
 * the program as always.
 */

#include <linux/module.h>
#include <net/tcp.h>

static int lab_sink_discard(read_descriptor_t *desc, struct sk_buff *skb,
			    unsigned int offset, size_t length)
{
	return length;
}

/* Called with the socket locked, as the queue of segments demands. */
static void lab_sink_data_ready(struct sock *sk)
{
	read_descriptor_t desc = { .count = 1 }; /* 0 would mean: enough */

	tcp_read_sock(sk, &desc, lab_sink_discard);
}

static int lab_sink_init(struct sock *sk)
{
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_data_ready = lab_sink_data_ready;
	write_unlock_bh(&sk->sk_callback_lock);
	lab_sink_data_ready(sk); /* what has arrived before */
	return 0;
}

/* TCP holds a reference to the module for as long as a socket uses it. */
static struct tcp_ulp_ops lab_sink_ops __read_mostly = {
	.name = "lab_sink",
	.owner = THIS_MODULE,
	.init = lab_sink_init,
};

static int __init lab_sink_register(void)
{
	return tcp_register_ulp(&lab_sink_ops);
}

static void __exit lab_sink_unregister(void)
{
	tcp_unregister_ulp(&lab_sink_ops);
}

module_init(lab_sink_register);
module_exit(lab_sink_unregister);

MODULE_AUTHOR("The l4sbench authors");
MODULE_DESCRIPTION("Discards what TCP connections receive");
MODULE_LICENSE("GPL");
MODULE_ALIAS_TCP_ULP("lab_sink");
