// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* Calls BBR's operations in the order in which the core of TCP does
 *
 * The test appends this file to bbr_main.c. Reading the module's parameter
 * `checks` makes a socket for each case, and prints the bounds that remain.
 */
#define CHECK_TLP_END	1000	/* up to where a tail loss probe repeats data */

/* A TCP socket with BBR, locked. It is that of a process, since BBR serves no
 * socket of the kernel's, which has no reference to its network namespace.
 */
struct check {
	const struct tcp_congestion_ops *ops;
	const struct tcp_congestion_ops *before;
	struct socket *socket;
	struct sock *sk;
};

static void check_end(struct check *check)
{
	struct sock *sk = check->sk;

	if (bbr_flow(sk))
		check->ops->release(sk);
	inet_csk(sk)->icsk_ca_ops = check->before;
	memset(inet_csk(sk)->icsk_ca_priv, 0, ICSK_CA_PRIV_SIZE);
	release_sock(sk);
	sock_release(check->socket);
}

/* @prior_cwnd: the window before the recovery that the connection is in */
static int check_begin(struct check *check, u32 prior_cwnd)
{
	int error = sock_create(AF_INET, SOCK_STREAM, 0, &check->socket);
	struct sock *sk;

	if (error)
		return error;
	sk = check->socket->sk;
	check->sk = sk;
	check->ops = &bbr_kinds[0].ops;
	lock_sock(sk);
	check->before = inet_csk(sk)->icsk_ca_ops;
	inet_csk(sk)->icsk_ca_ops = check->ops;
	memset(inet_csk(sk)->icsk_ca_priv, 0, ICSK_CA_PRIV_SIZE);
	tcp_sk(sk)->prior_cwnd = prior_cwnd;
	check->ops->init(sk);
	if (bbr_flow(sk))
		return 0;
	check_end(check);
	return -ENOMEM;
}

/* BBR is chosen in a recovery, and cruises when a timeout comes. */
static int check_timeout(char *text)
{
	struct check check;
	struct bbr_flow *f;
	int size = check_begin(&check, 33);

	if (size)
		return size;
	f = bbr_flow(check.sk);
	f->mode = BBR_PROBE_BW;
	f->phase = BBR_CRUISE;
	tcp_snd_cwnd_set(tcp_sk(check.sk), 1);
	check.ops->set_state(check.sk, TCP_CA_Loss);
	size = sprintf(text, "timeout %u\n", f->inflight_lo);
	check_end(&check);
	return size;
}

/* An ACK with @flag, beyond a tail loss probe, for which the core calls
 * ssthresh(); then the core finds that it should not have.
 */
static int check_tlp(char *text, const char *name, int flag)
{
	struct rate_sample rs = { 0 };
	struct check check;
	struct tcp_sock *tp;
	struct bbr_flow *f;
	u32 inflight_hi;
	int size = check_begin(&check, 0);

	if (size)
		return size;
	tp = tcp_sk(check.sk);
	f = bbr_flow(check.sk);
	f->probe_samples = true;
	f->inflight_latest = 19;
	f->inflight_hi = 100;
	tp->tlp_high_seq = CHECK_TLP_END;
	tp->tlp_retrans = 1;
	check.ops->in_ack_event(check.sk, 0);
	tp->snd_una = CHECK_TLP_END + 1;
	tp->tlp_high_seq = 0;
	check.ops->ssthresh(check.sk);
	check.ops->cong_control(check.sk, CHECK_TLP_END + 1, flag, &rs);
	inflight_hi = f->inflight_hi;
	check.ops->undo_cwnd(check.sk);
	size = sprintf(text, "%s %u %u\n", name, inflight_hi, f->inflight_hi);
	check_end(&check);
	return size;
}

static int check_get(char *text, const struct kernel_param *param)
{
	int timeout, mended, needless;

	timeout = check_timeout(text);
	if (timeout < 0)
		return timeout;
	text += timeout;
	mended = check_tlp(text, "mended", 0);
	if (mended < 0)
		return mended;
	text += mended;
	needless = check_tlp(text, "needless", BBR_ACK_NEEDLESS_TLP);
	return needless < 0 ? needless : timeout + mended + needless;
}

module_param_call(checks, NULL, check_get, NULL, 0444);
