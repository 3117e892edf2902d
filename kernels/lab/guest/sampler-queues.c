// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/* Queues over rtnetlink: what `tc -s -j qdisc show dev NAME` shows. */

#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "sampler.h"
#include "util.h"

struct request {
	struct nlmsghdr header;
	struct tcmsg body;
};

/* -- each kind's own statistics, under tc's names ------------------------------------ */

/* struct tc_dualpi2_xstats of Linux 6.17, newer than Debian's headers */
struct dualpi2_stats {
	uint32_t prob;
	uint32_t delay_c;
	uint32_t delay_l;
	uint32_t packets_in_c;
	uint32_t packets_in_l;
	uint32_t maxq;
	uint32_t ecn_mark;
	uint32_t step_marks;
	int32_t credit;
	uint32_t memory_used;
	uint32_t max_memory_used;
	uint32_t memory_limit;
};

/* struct tc_fq_qd_stats of Linux 6.7; an older kernel's is shorter */
struct fq_stats {
	uint64_t gc_flows;
	uint64_t highprio_packets;
	uint64_t tcp_retrans;
	uint64_t throttled;
	uint64_t flows_plimit;
	uint64_t pkts_too_long;
	uint64_t allocation_errors;
	int64_t time_next_delayed_flow;
	uint32_t flows;
	uint32_t inactive_flows;
	uint32_t throttled_flows;
	uint32_t unthrottle_latency_ns;
	uint64_t ce_mark;
	uint64_t horizon_drops;
	uint64_t horizon_caps;
	uint64_t fastpath_packets;
};

#define DUALPI2(name, member, type) NAMED(name, struct dualpi2_stats, member, type)

static const struct field dualpi2_fields[] = {
	DUALPI2("prob", prob, SHARE32),
	DUALPI2("delay-c", delay_c, U32),
	DUALPI2("delay-l", delay_l, U32),
	DUALPI2("pkts-in-c", packets_in_c, U32),
	DUALPI2("pkts-in-l", packets_in_l, U32),
	DUALPI2("maxq", maxq, U32),
	DUALPI2("ecn-mark", ecn_mark, U32),
	DUALPI2("step-mark", step_marks, U32),
	DUALPI2("credit", credit, S32),
	DUALPI2("memory-used", memory_used, U32),
	DUALPI2("max-memory-used", max_memory_used, U32),
	DUALPI2("memory-limit", memory_limit, U32),
};

#define CODEL(member) FIELD(struct tc_codel_xstats, member, U32)

static const struct field codel_fields[] = {
	CODEL(count),	 CODEL(lastcount),	CODEL(ldelay),	CODEL(maxpacket),
	CODEL(ecn_mark), CODEL(drop_overlimit), CODEL(ce_mark),
};

#define FQ_CODEL(name, member) NAMED(name, struct tc_fq_codel_xstats, qdisc_stats.member, U32)

static const struct field fq_codel_fields[] = {
	FQ_CODEL("maxpacket", maxpacket),
	FQ_CODEL("drop_overlimit", drop_overlimit),
	FQ_CODEL("new_flow_count", new_flow_count),
	FQ_CODEL("ecn_mark", ecn_mark),
	FQ_CODEL("ce_mark", ce_mark),
	FQ_CODEL("memory_used", memory_usage),
	FQ_CODEL("drop_overmemory", drop_overmemory),
	FQ_CODEL("new_flows_len", new_flows_len),
	FQ_CODEL("old_flows_len", old_flows_len),
};

#define FQ(name, member, type) NAMED(name, struct fq_stats, member, type)

static const struct field fq_fields[] = {
	FQ("flows", flows, U32),
	FQ("inactive", inactive_flows, U32),
	FQ("throttled", throttled_flows, U32),
	FQ("gc", gc_flows, U64),
	FQ("flows_plimit", flows_plimit, U64),
	FQ("ce_mark", ce_mark, U64),
	FQ("horizon_drops", horizon_drops, U64),
	FQ("horizon_caps", horizon_caps, U64),
	FQ("fastpath", fastpath_packets, U64),
};

#define PIE(name, member, type) NAMED(name, struct tc_pie_xstats, member, type)

static const struct field pie_fields[] = {
	PIE("prob", prob, SHARE64),	 PIE("delay", delay, U32),
	PIE("pkts_in", packets_in, U32), PIE("overlimit", overlimit, U32),
	PIE("dropped", dropped, U32),	 PIE("maxq", maxq, U32),
	PIE("ecn_mark", ecn_mark, U32),
};

#define RED(member) FIELD(struct tc_red_xstats, member, U32)

static const struct field red_fields[] = {
	RED(marked),
	RED(early),
	RED(pdrop),
	RED(other),
};

#define KIND(name, table)                      \
	{                                      \
		name, table, ARRAY_SIZE(table) \
	}

static const struct {
	const char *name;
	const struct field *fields;
	size_t count;
} kinds[] = {
	KIND("dualpi2", dualpi2_fields),   KIND("codel", codel_fields),
	KIND("fq_codel", fq_codel_fields), KIND("fq", fq_fields),
	KIND("pie", pie_fields),	   KIND("red", red_fields),
};

static void own_statistics(struct text *t, const char *kind, const void *data, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i].name, kind))
			text_fields(t, kinds[i].fields, kinds[i].count, data, size);
}

/* -- statistics of every kind ----------------------------------------------------------- */

static const struct field queue_fields[] = {
	FIELD(struct gnet_stats_queue, drops, U32),
	FIELD(struct gnet_stats_queue, overlimits, U32),
	FIELD(struct gnet_stats_queue, requeues, U32),
	NAMED("backlog_bytes", struct gnet_stats_queue, backlog, U32),
	FIELD(struct gnet_stats_queue, qlen, U32),
};

/* A handle as tc writes it: "1:" for a queue, "1:3" for a class. */
static void text_handle(struct text *t, const char *name, uint32_t handle)
{
	text_field(t, name);
	if (handle == TC_H_ROOT)
		text_puts(t, "\"root\"");
	else if (TC_H_MIN(handle))
		text_printf(t, "\"%x:%x\"", TC_H_MAJ(handle) >> 16, TC_H_MIN(handle));
	else
		text_printf(t, "\"%x:\"", TC_H_MAJ(handle) >> 16);
}

static void text_statistics(struct text *t, const char *kind, const struct nlattr *stats,
			    size_t length)
{
	struct gnet_stats_basic basic = { 0 };
	uint64_t packets;
	const void *data;
	size_t size;

	data = attribute(stats, length, TCA_STATS_BASIC, &size);
	if (data)
		memcpy(&basic, data, size < sizeof(basic) ? size : sizeof(basic));
	packets = basic.packets;
	data = attribute(stats, length, TCA_STATS_PKT64, &size);
	if (data && size >= sizeof(packets)) /* sent once the count exceeds 32 bits */
		memcpy(&packets, data, sizeof(packets));
	text_field_u64(t, "bytes", basic.bytes);
	text_field_u64(t, "packets", packets);
	data = attribute(stats, length, TCA_STATS_QUEUE, &size);
	if (data)
		text_fields(t, queue_fields, ARRAY_SIZE(queue_fields), data, size);
	data = attribute(stats, length, TCA_STATS_APP, &size);
	if (data)
		own_statistics(t, kind, data, size);
}

static void parse_queue(const struct sample *sample, const struct nlmsghdr *message)
{
	const struct tcmsg *queue = NLMSG_DATA(message);
	const struct nlattr *first = (const void *)(queue + 1);
	struct text *t = sample->out;
	const char *kind;
	const struct nlattr *stats;
	size_t length;
	size_t size;

	if (message->nlmsg_len < NLMSG_LENGTH(sizeof(*queue)))
		die("an rtnetlink message is truncated");
	length = message->nlmsg_len - NLMSG_LENGTH(sizeof(*queue));
	kind = attribute(first, length, TCA_KIND, &size);
	if (!kind || !size || kind[size - 1])
		die("a queue without a kind");
	begin_line(sample);
	text_field_json(t, "ifname", sample->ifname);
	text_field_json(t, "kind", kind);
	text_handle(t, "handle", queue->tcm_handle);
	text_handle(t, "parent", queue->tcm_parent);
	stats = attribute(first, length, TCA_STATS2, &size);
	if (stats)
		text_statistics(t, kind, stats, size);
	text_puts(t, "}\n");
}

struct source *queues_of(const char *node, const char *ifname)
{
	struct source *source = calloc(1, sizeof(*source));
	struct request *request = calloc(1, sizeof(*request));

	if (!source || !request)
		die("out of memory");
	source->sample.node = node;
	source->sample.ifname = ifname;
	source->fd = netlink_open(node, NETLINK_ROUTE); /* enters the namespace */
	request->header.nlmsg_len = sizeof(*request);
	request->header.nlmsg_type = RTM_GETQDISC;
	request->header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	request->body.tcm_family = AF_UNSPEC;
	request->body.tcm_ifindex = if_nametoindex(ifname);
	if (!request->body.tcm_ifindex)
		die("no interface %s in %s", ifname, node);
	source->request = &request->header;
	source->parse = parse_queue;
	return source;
}
