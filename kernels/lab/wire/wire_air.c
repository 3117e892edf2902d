// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* wire: Wi-Fi behind a port
 *
 * The port gains access to the air again and again, and sends several frames
 * each time, as an A-MPDU. A frame that does not arrive is sent again in the
 * next access, and those that have arrived after it wait for it, so that
 * frames arrive in order: losses cost time on the air.
 *
 * While an access sends, frames for the next one come from the queuing
 * discipline, and no more: the queue is there. Waiting times and losses are
 * drawn from the port's seed.
 */
#include <linux/bitops.h>
#include <linux/if_ether.h>
#include <linux/ktime.h>
#include <linux/math64.h>

#include "wire.h"

#define WIRE_FULL_FRAME	1514	/* bytes from the Ethernet header on */

/* Where a frame is. */
enum wire_sent { WIRE_FRESH, WIRE_ON_AIR, WIRE_LOST, WIRE_ARRIVED };

struct wire_air_cb {
	enum wire_sent sent;
};

static struct wire_air_cb *wire_air_cb(struct sk_buff *skb)
{
	return (struct wire_air_cb *)skb->cb;
}

static u64 wire_air_ns(const struct wire_air *air, unsigned int len)
{
	u64 bits = 8 * ((u64)len + air->header_bytes);

	return air->rate_bps ? div64_ul(bits * NSEC_PER_SEC, air->rate_bps) : 0;
}

/* Frames of full size that an access sends. */
static unsigned int wire_air_most(const struct wire_air *air)
{
	u64 frame_ns = wire_air_ns(air, WIRE_FULL_FRAME);

	return frame_ns ? max_t(u64, div64_u64(air->most_ns, frame_ns), 1) : 1;
}

static void wire_air_wait(struct wire_air *air, enum wire_access step, u64 ns)
{
	air->step = step;
	hrtimer_start(&air->timer, ns_to_ktime(ns), HRTIMER_MODE_REL_SOFT);
}

static void wire_air_contend(struct wire_air *air)
{
	u32 random = prandom_u32_state(&air->random);

	wire_air_wait(air, WIRE_CONTENDS,
		      mul_u64_u32_shr(air->backoff_ns, random, 32));
}

/* Close or open the queue above: frames for one access are here, or not. */
static void wire_air_close(struct wire_port *port)
{
	struct wire_air *air = &port->air;
	bool closed = air->rate_bps && air->fresh >= wire_air_most(air);

	if (closed == air->closed || (closed && !wire_has_queue(port)))
		return;
	WRITE_ONCE(air->closed, closed);
	if (closed)
		netif_stop_queue(port->dev);
	else if (!READ_ONCE(port->node->paused))
		netif_wake_queue(port->dev);
}

/* Send the first frames that have not arrived: lost ones first. */
static void wire_air_send(struct wire_port *port)
{
	struct wire_air *air = &port->air;
	unsigned int most = wire_air_most(air), count = 0;
	u64 ns = air->access_ns;
	struct sk_buff *skb;

	skb_queue_walk(&air->frames, skb) {
		struct wire_air_cb *cb = wire_air_cb(skb);

		if (cb->sent == WIRE_ARRIVED)
			continue;
		if (cb->sent == WIRE_LOST)
			air->again++;
		else
			air->fresh--;
		cb->sent = WIRE_ON_AIR;
		ns += wire_air_ns(air, skb->len) + air->frame_ns;
		if (++count == most)
			break;
	}
	air->accesses++;
	wire_air_wait(air, WIRE_SENDS, ns);
	wire_air_close(port);
}

static bool wire_air_loses(struct wire_air *air)
{
	u32 random;

	if (!air->loss_ppb)
		return false;
	random = prandom_u32_state(&air->random);
	return mul_u64_u32_shr(NSEC_PER_SEC, random, 32) < air->loss_ppb;
}

/* End an access; @arrived gets the frames that arrive, in order. */
static void wire_air_end(struct wire_air *air, struct sk_buff_head *arrived)
{
	struct sk_buff *skb;

	skb_queue_walk(&air->frames, skb) {
		struct wire_air_cb *cb = wire_air_cb(skb);

		if (cb->sent == WIRE_ON_AIR)
			cb->sent = wire_air_loses(air) ? WIRE_LOST :
							 WIRE_ARRIVED;
	}
	while ((skb = skb_peek(&air->frames)) &&
	       wire_air_cb(skb)->sent == WIRE_ARRIVED) {
		__skb_unlink(skb, &air->frames);
		__skb_queue_tail(arrived, skb);
	}
	if (skb)
		wire_air_contend(air);
	else
		air->step = WIRE_IDLE;
}

static enum hrtimer_restart wire_air_due(struct hrtimer *timer)
{
	struct wire_air *air = container_of(timer, struct wire_air, timer);
	struct wire_port *port = container_of(air, struct wire_port, air);
	struct sk_buff_head arrived;
	struct sk_buff *skb;

	__skb_queue_head_init(&arrived);
	spin_lock(&port->lock);
	if (air->step == WIRE_CONTENDS)
		wire_air_send(port);
	else
		wire_air_end(air, &arrived);
	spin_unlock(&port->lock);
	rcu_read_lock();
	while ((skb = __skb_dequeue(&arrived)))
		wire_carry(port, skb);
	rcu_read_unlock();
	return HRTIMER_NORESTART;
}

/**
 * wire_air_queue() - let a frame wait for access to the air
 * @port: port by which it leaves
 * @skb: the frame, from its Ethernet header on
 */
void wire_air_queue(struct wire_port *port, struct sk_buff *skb)
{
	struct wire_air *air = &port->air;

	spin_lock(&port->lock);
	if (skb_queue_len(&air->frames) >= READ_ONCE(port->limit)) {
		port->drops++;
		spin_unlock(&port->lock);
		dev_core_stats_tx_dropped_inc(port->dev);
		kfree_skb(skb);
		return;
	}
	wire_air_cb(skb)->sent = WIRE_FRESH;
	__skb_queue_tail(&air->frames, skb);
	air->fresh++;
	wire_air_close(port);
	if (air->step == WIRE_IDLE)
		wire_air_contend(air);
	spin_unlock(&port->lock);
}

/**
 * wire_air_seed() - begin anew with the port's seed
 * @port: the port
 */
void wire_air_seed(struct wire_port *port)
{
	spin_lock_bh(&port->lock);
	prandom_seed_state(&port->air.random, ror64(port->seed, 24));
	spin_unlock_bh(&port->lock);
}

static int wire_air_set(const struct ctl_table *table, int write, void *buffer,
			size_t *lenp, loff_t *ppos)
{
	struct wire_port *port = table->extra1;
	int error = wire_set(table, write, buffer, lenp, ppos);

	if (error || !write)
		return error;
	spin_lock_bh(&port->lock);
	wire_air_close(port);
	spin_unlock_bh(&port->lock);
	return 0;
}

/**
 * wire_air_settings() - describe the settings of the air
 * @port: its port
 * @entry: first of its entries in the port's table of sysctls
 *
 * Return: the entry behind the last one.
 */
struct ctl_table *wire_air_settings(struct wire_port *port,
				    struct ctl_table *entry)
{
	struct wire_air *air = &port->air;
	const struct {
		const char *name;
		unsigned long *value;
		bool read_only;
	} settings[] = {
		{ "air_rate_bps", &air->rate_bps },
		{ "air_most_ns", &air->most_ns },
		{ "air_header_bytes", &air->header_bytes },
		{ "air_frame_ns", &air->frame_ns },
		{ "air_access_ns", &air->access_ns },
		{ "air_backoff_ns", &air->backoff_ns },
		{ "air_loss_ppb", &air->loss_ppb },
		{ "air_accesses", &air->accesses, true },
		{ "air_again", &air->again, true },
	};

	BUILD_BUG_ON(ARRAY_SIZE(settings) != WIRE_AIR_SETTINGS);
	for (int i = 0; i < ARRAY_SIZE(settings); i++)
		wire_setting(entry++, settings[i].name, settings[i].value, port,
			     settings[i].read_only ? NULL : wire_air_set);
	return entry;
}

/**
 * wire_air_init() - prepare a port, whose lock is ready
 * @port: the port
 */
void wire_air_init(struct wire_port *port)
{
	__skb_queue_head_init(&port->air.frames);
	hrtimer_setup(&port->air.timer, wire_air_due, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
	wire_air_seed(port);
}

/**
 * wire_air_exit() - undo wire_air_init()
 * @port: the port
 */
void wire_air_exit(struct wire_port *port)
{
	hrtimer_cancel(&port->air.timer);
	__skb_queue_purge(&port->air.frames);
}
