/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* wire: Ethernet between the network namespaces of the lab
 *
 * A port is a network device. Ports of the same name, each in a namespace of
 * its own, are on one network, which carries a frame to the port that has its
 * destination address. A namespace with ports is a node.
 *
 * A frame takes the path of this module only: there are no queuing disciplines
 * for delay and jitter, no bridge, and one timer per receiving port. All
 * settings are sysctls, below net.wire of the node's namespace; docs/guest.md
 * lists them.
 */
#ifndef _LAB_WIRE_H
#define _LAB_WIRE_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/prandom.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>

#define WIRE_HOPS	8	/* destinations that a port remembers */
#define WIRE_SETTINGS	6
#define WIRE_PATH_SETTINGS	13
#define WIRE_THINNED	256	/* counters of ACKs, which connections may share */
#define WIRE_AIR_SETTINGS	9

/* Values of the setting spread_model. */
enum wire_model { WIRE_WALK, WIRE_UNIFORM, WIRE_NORMAL };

/* Values of the setting ecn. */
enum wire_ecn { WIRE_PASS, WIRE_BLEACH, WIRE_ECT0 };

/* Steps of an access to the air. */
enum wire_access { WIRE_IDLE, WIRE_CONTENDS, WIRE_SENDS };

struct dst_entry;
struct neighbour;
struct wire_port;

/**
 * struct wire_network - ports of one name, in all namespaces
 * @list: in the list of networks
 * @ports: its ports, read under RCU
 * @name: their name
 */
struct wire_network {
	struct list_head list;
	struct list_head ports;
	char name[IFNAMSIZ];
};

/**
 * struct wire_node - a namespace with ports: a host, which may pause
 * @ports: its ports, read under RCU
 * @lock: protects what follows
 * @pause_ns: length of a pause; 0: it never pauses
 * @pause_every_ns: mean time from the start of a pause to that of the next
 * @pause_seed: seed of the times between pauses
 * @packet_cost_ns: time in which the node handles one frame, one at a time
 * @pauses: number of pauses so far
 * @paused: a pause has begun and not ended
 * @holds: frames that arrive wait in @held
 * @random: generator of the times between pauses
 * @pause_timer: when the pause begins or ends
 * @work_timer: when the first frame in @held has been handled
 * @held: frames that have arrived, in order
 * @table: sysctls
 * @sysctls: their registration
 */
struct wire_node {
	struct list_head ports;
	/* Settings change and frames arrive in process and softirq context. */
	spinlock_t lock;
	unsigned long pause_ns;
	unsigned long pause_every_ns;
	unsigned long pause_seed;
	unsigned long packet_cost_ns;
	unsigned long pauses;
	bool paused;
	bool holds;
	struct rnd_state random;
	struct hrtimer pause_timer;
	struct hrtimer work_timer;
	struct sk_buff_head held;
	struct ctl_table table[WIRE_SETTINGS];
	struct ctl_table_header *sysctls;
};

/**
 * struct wire_hop - how a node forwards to one destination
 * @daddr: the destination
 * @dst: its route, with a reference; NULL: this entry is unused
 * @neigh: the next hop, with a reference
 */
struct wire_hop {
	__be32 daddr;
	struct dst_entry *dst;
	struct neighbour *neigh;
};

/**
 * struct wire_path - what a path does to frames beyond their delay
 * @acts: it does anything; read without the lock
 * @spread_ns: by how much their delay differs from the port's: bound of a walk
 *	       and of uniform values, standard deviation of normal ones
 * @model: how it differs, enum wire_model
 * @every_ns: time from one step of a walk to the next
 * @overtake: frames may arrive before those that left earlier
 * @loss_enter_ppb: probability of a first loss, in parts per 10^9
 * @loss_leave_ppb: probability that a loss was the last one in a row
 * @ecn: what happens to the ECN field, enum wire_ecn
 * @mark_ppb: probability that a frame with ECT gets CE, in parts per 10^9
 * @thin: of so many pure ACKs of a connection in a row one passes; 0, 1: all
 * @lost: number of lost frames
 * @rewritten: number of frames whose ECN field was changed by @ecn
 * @marked: number of frames that got CE
 * @thinned: number of pure ACKs that did not pass
 * @losing: the last frame was lost
 * @walk_ns: where the walk is
 * @step_at_ns: when it goes on
 * @last_ns: no frame arrives earlier, unless frames may overtake
 * @delays: generator of delays
 * @losses: generator of losses
 * @marks: generator of marks
 * @held_back: pure ACKs that did not pass since the last one, by connection
 */
struct wire_path {
	bool acts;
	unsigned long spread_ns;
	unsigned long model;
	unsigned long every_ns;
	unsigned long overtake;
	unsigned long loss_enter_ppb;
	unsigned long loss_leave_ppb;
	unsigned long ecn;
	unsigned long mark_ppb;
	unsigned long thin;
	unsigned long lost;
	unsigned long rewritten;
	unsigned long marked;
	unsigned long thinned;
	bool losing;
	s64 walk_ns;
	u64 step_at_ns;
	u64 last_ns;
	struct rnd_state delays;
	struct rnd_state losses;
	struct rnd_state marks;
	u16 held_back[WIRE_THINNED];
};

/**
 * struct wire_air - Wi-Fi behind a port: frames leave several at a time
 * @rate_bps: rate at which frames are sent in an access; 0: there is no Wi-Fi
 * @most_ns: time in which an access sends frames, at least one
 * @header_bytes: what each frame has around it on the air
 * @frame_ns: further time of each frame
 * @access_ns: time of an access beyond that of its frames
 * @backoff_ns: an access waits up to this long before it begins
 * @loss_ppb: probability that a frame does not arrive, in parts per 10^9
 * @accesses: number of accesses
 * @again: number of frames that were sent again
 * @step: where the access is, enum wire_access
 * @closed: the queue above waits, as frames for an access are here
 * @fresh: number of frames in @frames that were never sent
 * @frames: frames that have not arrived, and those that follow one, in order
 * @random: generator of waiting times and losses
 * @timer: when the step ends
 */
struct wire_air {
	unsigned long rate_bps;
	unsigned long most_ns;
	unsigned long header_bytes;
	unsigned long frame_ns;
	unsigned long access_ns;
	unsigned long backoff_ns;
	unsigned long loss_ppb;
	unsigned long accesses;
	unsigned long again;
	enum wire_access step;
	bool closed;
	unsigned int fresh;
	struct sk_buff_head frames;
	struct rnd_state random;
	struct hrtimer timer;
};

/**
 * struct wire_port - the private part of a port's network device
 * @dev: the device
 * @node: the node that it belongs to
 * @network: the network that it is on
 * @on_network: in the list of the network
 * @on_node: in the list of the node
 * @delay_ns: time that a frame takes after it has left the port
 * @jitter_ns: a frame leaves up to this much late, but never before another
 * @seed: seed of the jitter
 * @limit: number of frames from here that may be under way to a port, and of
 *	   frames that may wait here while the node pauses or works
 * @drops: frames that exceeded it
 * @random: generator of the jitter
 * @left_ns: when the last frame with jitter left
 * @more: the next frame leaves with the last one
 * @path: what else happens to its frames
 * @air: Wi-Fi that they take
 * @lock: protects @random, @left_ns, @more, @path, @air, @inbox, @timer and
 *	  @hops
 * @inbox: frames under way to this port, in order of arrival
 * @timer: when the first of them arrives
 * @hops: how the node forwards frames that arrive here
 * @table: sysctls
 * @sysctls: their registration
 */
struct wire_port {
	struct net_device *dev;
	struct wire_node *node;
	struct wire_network *network;
	struct list_head on_network;
	struct list_head on_node;
	unsigned long delay_ns;
	unsigned long jitter_ns;
	unsigned long seed;
	unsigned long limit;
	unsigned long drops;
	struct rnd_state random;
	u64 left_ns;
	bool more;
	struct wire_path path;
	struct wire_air air;
	/* Frames come from softirq and process context, and go in softirq. */
	spinlock_t lock;
	struct sk_buff_head inbox;
	struct hrtimer timer;
	struct wire_hop hops[WIRE_HOPS];
	struct ctl_table table[WIRE_SETTINGS + WIRE_PATH_SETTINGS +
			       WIRE_AIR_SETTINGS];
	struct ctl_table_header *sysctls;
};

extern const struct net_device_ops wire_ops;

/* wire_port.c */
bool wire_has_queue(const struct wire_port *port);
void wire_carry(struct wire_port *from, struct sk_buff *skb);

/* wire_node.c */
int wire_node_init(void);
void wire_node_exit(void);
struct wire_node *wire_node_of(const struct net *net);
bool wire_node_hold(struct wire_node *node, struct sk_buff *skb);
int wire_set(const struct ctl_table *table, int write, void *buffer,
	     size_t *lenp, loff_t *ppos);
void wire_setting(struct ctl_table *entry, const char *name,
		  unsigned long *value, void *owner, proc_handler *handler);

/* wire_path.c */
u64 wire_path_due(struct wire_port *port, u64 at_ns);
void wire_path_shorten(struct wire_port *port, unsigned long delay_ns);
bool wire_path_takes(struct wire_port *port, struct sk_buff *skb);
void wire_path_seed(struct wire_port *port);
struct ctl_table *wire_path_settings(struct wire_port *port,
				     struct ctl_table *entry);

/* wire_air.c */
void wire_air_init(struct wire_port *port);
void wire_air_exit(struct wire_port *port);
void wire_air_seed(struct wire_port *port);
void wire_air_queue(struct wire_port *port, struct sk_buff *skb);
struct ctl_table *wire_air_settings(struct wire_port *port,
				    struct ctl_table *entry);

/* wire_forward.c */
struct wire_port *wire_pass(struct wire_port *in, struct sk_buff *skb);
bool wire_relay(struct wire_port *in, struct sk_buff *skb);
void wire_forget(struct wire_port *port);

#endif
