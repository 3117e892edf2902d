// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* wire: what the path behind a port does to frames beyond their delay
 *
 * It may delay them by more or less than the delay, in order or not, lose them,
 * change their ECN field, mark them, and thin out ACKs. Delays, losses and marks
 * are drawn from the port's seed, each from a generator of its own: other losses
 * leave the delays as they are.
 */
#include <linux/bitops.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/jhash.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/tcp.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/tcp.h>

#include "wire.h"

#define WIRE_STEPS    10 /* steps of a walk from the middle to its bound */
#define WIRE_UNIFORMS 12 /* their sum has a standard deviation of 1 */

/* -- delay ------------------------------------------------------------------ */

/* A walk goes up or down by a step at fixed instants, and turns at its bounds.
 */
static s64 wire_walk(struct wire_path *path, u64 at_ns)
{
	s64 bound_ns = path->spread_ns, step_ns = bound_ns / WIRE_STEPS;

	while (path->every_ns && path->step_at_ns <= at_ns) {
		bool up = prandom_u32_state(&path->delays) & 1;
		s64 next_ns = path->walk_ns + (up ? step_ns : -step_ns);

		if (abs(next_ns) > bound_ns)
			next_ns = path->walk_ns - (up ? step_ns : -step_ns);
		path->walk_ns = next_ns;
		path->step_at_ns += path->every_ns;
	}
	return path->walk_ns;
}

static s64 wire_uniform(struct wire_path *path)
{
	u32 random = prandom_u32_state(&path->delays);

	return (s64)mul_u64_u32_shr(2 * path->spread_ns, random, 32) -
	       (s64)path->spread_ns;
}

static s64 wire_normal(struct wire_path *path)
{
	s64 sum = -((s64)WIRE_UNIFORMS / 2 << 32), size_ns;

	for (int i = 0; i < WIRE_UNIFORMS; i++)
		sum += prandom_u32_state(&path->delays);
	size_ns = mul_u64_u64_shr(path->spread_ns, abs(sum), 32);
	return sum < 0 ? -size_ns : size_ns;
}

static s64 wire_deviation(struct wire_path *path, u64 at_ns)
{
	if (!path->spread_ns)
		return 0;
	switch (path->model) {
	case WIRE_UNIFORM:
		return wire_uniform(path);
	case WIRE_NORMAL:
		return wire_normal(path);
	default:
		return wire_walk(path, at_ns);
	}
}

/**
 * wire_path_due() - when a frame arrives at the end of the path
 * @port: port by which it leaves, locked
 * @at_ns: when it leaves
 */
u64 wire_path_due(struct wire_port *port, u64 at_ns)
{
	struct wire_path *path = &port->path;
	s64 delay_ns = port->delay_ns + wire_deviation(path, at_ns);
	u64 due_ns = at_ns + max_t(s64, delay_ns, 0);

	lockdep_assert_held(&port->lock);
	if (path->overtake)
		return due_ns;
	path->last_ns = max(path->last_ns, due_ns);
	return path->last_ns;
}

/**
 * wire_path_shorten() - keep the order of frames when the delay gets shorter
 * @port: the port
 * @delay_ns: its delay so far
 *
 * Frames that leave from now on arrive after those that are under way.
 */
void wire_path_shorten(struct wire_port *port, unsigned long delay_ns)
{
	struct wire_path *path = &port->path;

	spin_lock_bh(&port->lock);
	if (!path->overtake)
		path->last_ns = max(path->last_ns, ktime_get_ns() + delay_ns);
	spin_unlock_bh(&port->lock);
}

/* -- loss ------------------------------------------------------------------- */

/* Is something drawn that has this probability? */
static bool wire_drawn(struct rnd_state *state, unsigned long ppb)
{
	return mul_u64_u32_shr(NSEC_PER_SEC, prandom_u32_state(state), 32) < ppb;
}

/* The model of Gilbert: a frame is lost in the bad one of two states, which may
 * change before each frame.
 */
static bool wire_loses(struct wire_path *path)
{
	unsigned long change_ppb;

	if (!path->loss_enter_ppb) {
		path->losing = false;
		return false;
	}
	change_ppb = path->losing ? path->loss_leave_ppb : path->loss_enter_ppb;
	if (wire_drawn(&path->losses, change_ppb))
		path->losing = !path->losing;
	if (path->losing)
		path->lost++;
	return path->losing;
}

/* -- ECN -------------------------------------------------------------------- */

/* The codepoint that the path makes of @codepoint. */
static u8 wire_codepoint(struct wire_path *path, u8 codepoint)
{
	u8 next = codepoint;

	if (path->ecn == WIRE_BLEACH)
		next = INET_ECN_NOT_ECT;
	else if (path->ecn == WIRE_ECT0 && codepoint == INET_ECN_ECT_1)
		next = INET_ECN_ECT_0;
	path->rewritten += next != codepoint;
	if (!path->mark_ppb || !(next == INET_ECN_ECT_0 || next == INET_ECN_ECT_1))
		return next;
	if (!wire_drawn(&path->marks, path->mark_ppb))
		return next;
	path->marked++;
	return INET_ECN_CE;
}

static void wire_rewrite(struct wire_path *path, struct sk_buff *skb)
{
	bool v4 = eth_hdr(skb)->h_proto == htons(ETH_P_IP);
	bool v6 = eth_hdr(skb)->h_proto == htons(ETH_P_IPV6);
	size_t size = v4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
	u8 field, codepoint, next;
	void *header;

	if (!(v4 || v6) || !pskb_may_pull(skb, ETH_HLEN + size))
		return;
	header = skb->data + ETH_HLEN;
	field = v4 ? ipv4_get_dsfield(header) : ipv6_get_dsfield(header);
	codepoint = field & INET_ECN_MASK;
	if (skb_ensure_writable(skb, ETH_HLEN + size))
		return;
	next = wire_codepoint(path, codepoint);
	if (next == codepoint)
		return;
	header = skb->data + ETH_HLEN;
	/* IPv4 has a checksum of its own, which the first of these adapts; the
	 * checksum of TCP does not cover the field.
	 */
	if (v4)
		ipv4_change_dsfield(header, (u8)~INET_ECN_MASK, next);
	else
		ipv6_change_dsfield(header, (u8)~INET_ECN_MASK, next);
	if (v6 && skb->ip_summed == CHECKSUM_COMPLETE)
		skb->ip_summed = CHECKSUM_NONE;
}

/* -- ACKs ------------------------------------------------------------------- */

/* Where the TCP header of a frame begins, and where its packet ends; 0: it is
 * no TCP.
 */
static unsigned int wire_tcp_at(struct sk_buff *skb, unsigned int *end)
{
	const struct ipv6hdr *ipv6;
	const struct iphdr *ip;

	if (eth_hdr(skb)->h_proto == htons(ETH_P_IP) &&
	    pskb_may_pull(skb, ETH_HLEN + sizeof(*ip))) {
		ip = (struct iphdr *)(skb->data + ETH_HLEN);
		*end = ETH_HLEN + ntohs(ip->tot_len);
		return ip->protocol == IPPROTO_TCP ? ETH_HLEN + ip->ihl * 4 : 0;
	}
	if (eth_hdr(skb)->h_proto == htons(ETH_P_IPV6) &&
	    pskb_may_pull(skb, ETH_HLEN + sizeof(*ipv6))) {
		ipv6 = (struct ipv6hdr *)(skb->data + ETH_HLEN);
		*end = ETH_HLEN + sizeof(*ipv6) + ntohs(ipv6->payload_len);
		return ipv6->nexthdr == IPPROTO_TCP ? ETH_HLEN + sizeof(*ipv6) : 0;
	}
	return 0;
}

static bool wire_has_sack(const u8 *option, const u8 *end)
{
	while (option < end && *option != TCPOPT_EOL) {
		if (*option == TCPOPT_SACK)
			return true;
		if (*option == TCPOPT_NOP) {
			option++;
			continue;
		}
		if (option + 1 >= end || option[1] < 2)
			return false;
		option += option[1];
	}
	return false;
}

/* Does a frame nothing but acknowledge what came in order? ACKs with a SACK
 * option report a loss, which no device that thins ACKs out holds back.
 */
static bool wire_only_acks(struct sk_buff *skb, u32 *connection)
{
	unsigned int end, at = wire_tcp_at(skb, &end);
	const struct tcphdr *tcp;
	unsigned int size;

	if (!at || !pskb_may_pull(skb, at + sizeof(*tcp)))
		return false;
	size = ((struct tcphdr *)(skb->data + at))->doff * 4;
	if (size < sizeof(*tcp) || !pskb_may_pull(skb, at + size))
		return false;
	tcp = (struct tcphdr *)(skb->data + at);
	*connection = jhash_1word((u32)ntohs(tcp->source) << 16 | ntohs(tcp->dest), 0);
	return tcp->ack && !(tcp->syn || tcp->fin || tcp->rst) &&
	       at + size == end &&
	       !wire_has_sack((u8 *)(tcp + 1), (u8 *)tcp + size);
}

static bool wire_thins(struct wire_path *path, struct sk_buff *skb)
{
	u32 connection;
	u16 *count;

	if (path->thin <= 1 || !wire_only_acks(skb, &connection))
		return false;
	count = &path->held_back[connection % WIRE_THINNED];
	if (++*count >= path->thin) {
		*count = 0;
		return false;
	}
	path->thinned++;
	return true;
}

/**
 * wire_path_takes() - lose a frame, or change its ECN field
 * @port: port by which it leaves
 * @skb: the frame, from its Ethernet header on
 *
 * Return: true if it is lost, and gone.
 */
bool wire_path_takes(struct wire_port *port, struct sk_buff *skb)
{
	struct wire_path *path = &port->path;
	bool lost;

	spin_lock(&port->lock);
	lost = wire_thins(path, skb) || wire_loses(path);
	if (!lost && (path->ecn || path->mark_ppb))
		wire_rewrite(path, skb);
	/* so that other losses leave the delays of all others as they are */
	if (lost && path->model != WIRE_WALK)
		wire_deviation(path, 0);
	spin_unlock(&port->lock);
	if (lost)
		kfree_skb(skb);
	return lost;
}

/* -- settings --------------------------------------------------------------- */

static void wire_path_restart(struct wire_port *port)
{
	struct wire_path *path = &port->path;

	prandom_seed_state(&path->delays, ror64(port->seed, 16));
	prandom_seed_state(&path->losses, ror64(port->seed, 40));
	prandom_seed_state(&path->marks, ror64(port->seed, 8));
	path->walk_ns = 0;
	path->step_at_ns = ktime_get_ns() + path->every_ns;
}

static int wire_path_set(const struct ctl_table *table, int write, void *buffer,
			 size_t *lenp, loff_t *ppos)
{
	struct wire_port *port = table->extra1;
	struct wire_path *path = &port->path;
	int error = wire_set(table, write, buffer, lenp, ppos);

	if (error || !write)
		return error;
	spin_lock_bh(&port->lock);
	if (table->data == &path->spread_ns || table->data == &path->every_ns)
		wire_path_restart(port);
	path->acts = path->spread_ns || path->loss_enter_ppb || path->ecn ||
		     path->mark_ppb || path->thin > 1;
	spin_unlock_bh(&port->lock);
	return 0;
}

/**
 * wire_path_seed() - begin anew with the port's seed
 * @port: the port
 */
void wire_path_seed(struct wire_port *port)
{
	spin_lock_bh(&port->lock);
	wire_path_restart(port);
	spin_unlock_bh(&port->lock);
}

/**
 * wire_path_settings() - describe the settings of a path
 * @port: its port
 * @entry: first of its entries in the port's table of sysctls
 *
 * Return: the entry behind the last one.
 */
struct ctl_table *wire_path_settings(struct wire_port *port,
				     struct ctl_table *entry)
{
	struct wire_path *path = &port->path;
	const struct {
		const char *name;
		unsigned long *value;
		bool read_only;
	} settings[] = {
		{ "spread_ns", &path->spread_ns },
		{ "spread_model", &path->model },
		{ "spread_every_ns", &path->every_ns },
		{ "overtake", &path->overtake },
		{ "loss_enter_ppb", &path->loss_enter_ppb },
		{ "loss_leave_ppb", &path->loss_leave_ppb },
		{ "ecn", &path->ecn },
		{ "mark_ppb", &path->mark_ppb },
		{ "thin", &path->thin },
		{ "lost", &path->lost, true },
		{ "rewritten", &path->rewritten, true },
		{ "marked", &path->marked, true },
		{ "thinned", &path->thinned, true },
	};

	BUILD_BUG_ON(ARRAY_SIZE(settings) != WIRE_PATH_SETTINGS);
	for (int i = 0; i < ARRAY_SIZE(settings); i++)
		wire_setting(entry++, settings[i].name, settings[i].value, port,
			     settings[i].read_only ? NULL : wire_path_set);
	return entry;
}
