// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* Reno under another name, which reports two counters of each connection in
 * /proc/net/tcp_mine
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <net/inet_hashtables.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

struct mine {
	u32 acks;	/* that delivered something */
	u32 most;	/* packets: the largest window so far */
};

static void mine_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct mine *mine = inet_csk_ca(sk);

	if (sample->pkts_acked)
		mine->acks++;
	mine->most = max(mine->most, tcp_snd_cwnd(tcp_sk(sk)));
}

static struct tcp_congestion_ops mine_ops = {
	.name		= "mine",
	.owner		= THIS_MODULE,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.pkts_acked	= mine_pkts_acked,
};

static void mine_show_sock(struct seq_file *seq, const struct sock *sk)
{
	const struct inet_sock *inet = inet_sk(sk);
	const struct mine *mine = inet_csk_ca(sk);
	bool open = inet_csk(sk)->icsk_ca_state == TCP_CA_Open;

	seq_printf(seq, "%pI4:%u %pI4:%u %s %u %u\n",
		   &inet->inet_rcv_saddr, ntohs(inet->inet_sport),
		   &inet->inet_daddr, ntohs(inet->inet_dport),
		   open ? "open" : "recovering", mine->acks, mine->most);
}

/* A line of names, then one per socket of the network namespace */
static int mine_show(struct seq_file *seq, void *v)
{
	struct net *net = seq_file_single_net(seq);
	struct inet_hashinfo *table = net->ipv4.tcp_death_row.hashinfo;
	struct hlist_nulls_node *node;
	unsigned int i;
	struct sock *sk;

	seq_puts(seq, "local remote phase acks most\n");
	for (i = 0; i <= table->ehash_mask; i++) {
		spin_lock_bh(inet_ehash_lockp(table, i));
		sk_nulls_for_each(sk, node, &table->ehash[i].chain)
			if (sk_fullsock(sk) && net_eq(sock_net(sk), net) &&
			    inet_csk(sk)->icsk_ca_ops == &mine_ops)
				mine_show_sock(seq, sk);
		spin_unlock_bh(inet_ehash_lockp(table, i));
	}
	return 0;
}

static int __net_init mine_net_init(struct net *net)
{
	if (!proc_create_net_single("tcp_mine", 0444, net->proc_net, mine_show,
				    NULL))
		return -ENOMEM;
	return 0;
}

static void __net_exit mine_net_exit(struct net *net)
{
	remove_proc_entry("tcp_mine", net->proc_net);
}

static struct pernet_operations mine_net_ops = {
	.init	= mine_net_init,
	.exit	= mine_net_exit,
};

static int __init mine_init(void)
{
	int error = register_pernet_subsys(&mine_net_ops);

	if (error)
		return error;
	error = tcp_register_congestion_control(&mine_ops);
	if (error)
		unregister_pernet_subsys(&mine_net_ops);
	return error;
}

static void __exit mine_exit(void)
{
	tcp_unregister_congestion_control(&mine_ops);
	unregister_pernet_subsys(&mine_net_ops);
}

module_init(mine_init);
module_exit(mine_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Reno that counts ACKs");
