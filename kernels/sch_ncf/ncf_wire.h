/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* NCF on the wire: what the queue sends and the sender reads
 *
 * p4/ncf/README.md has the layout; the values are those of p4/ncf/wire.h, which
 * a test compares.
 */
#ifndef _NCF_WIRE_H
#define _NCF_WIRE_H

#include <linux/build_bug.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/types.h>

#define NCF_OPTION_KIND		253	/* experiment, RFC 4727 */
#define NCF_OPTION_LENGTH	16	/* bytes */
#define NCF_EXID		0x4e43	/* "NC", RFC 6994 */
#define NCF_VERSION		1
#define NCF_MICE_CROWDED	0x1	/* flag: MQS in the paper */

#define NCF_TTL			64
#define NCF_IP_LENGTH		56	/* bytes: IPv4 20, TCP 20, option 16 */
#define NCF_TCP_LENGTH		36
#define NCF_TCP_OFFSET		9	/* words of 32 bit */

struct ncf_option {
	u8 kind;
	u8 length;
	__be16 exid;
	u8 flags;		/* the version in the high 4 bits */
	u8 bottleneck;		/* number; 0: none */
	__be16 flows;		/* elephants: N in the paper */
	__be32 capacity_kbps;
	__be32 queue_bytes;	/* size of the elephants' queue */
};

static_assert(sizeof(struct ncf_option) == NCF_OPTION_LENGTH);
static_assert(sizeof(struct tcphdr) + NCF_OPTION_LENGTH == NCF_TCP_LENGTH);
static_assert(sizeof(struct iphdr) + NCF_TCP_LENGTH == NCF_IP_LENGTH);

#endif /* _NCF_WIRE_H */
