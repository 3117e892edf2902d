// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/* Queues over rtnetlink, as `tc -s -j qdisc show dev NAME` shows them. */

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

/* -- each kind's own statistics, as its catalog entry lays them out ------------------- */

static const struct {
	const char *name;
	int type;
	size_t size;
} types[] = {
	{ "u8", U8, 1 },   { "u16", U16, 2 }, { "u32", U32, 4 },	 { "s32", S32, 4 },
	{ "u64", U64, 8 }, { "s64", S64, 8 }, { "share32", SHARE32, 4 }, { "share64", SHARE64, 8 },
};

/* Put a member of this type at @end, as a compiler does; false if there is no such type. */
static bool place_field(struct field *field, const char *type, size_t *end)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		size_t size = types[i].size;

		if (strcmp(types[i].name, type) != 0)
			continue;
		field->type = types[i].type;
		field->offset = (uint16_t)((*end + size - 1) / size * size);
		*end = field->offset + size;
		return true;
	}
	return false;
}

struct layout *layout_parse(char *text)
{
	struct layout *layout = calloc(1, sizeof(*layout));
	size_t end = 0;

	if (!layout)
		die("out of memory");
	layout->kind = strsep(&text, ",");
	for (char *name; (name = strsep(&text, ","));) {
		char *type = strchr(name, ':');
		struct field *field;

		if (!type)
			return NULL;
		*type++ = '\0';
		layout->fields = realloc(layout->fields, (layout->count + 1) * sizeof(*field));
		if (!layout->fields)
			die("out of memory");
		field = &layout->fields[layout->count++];
		field->name = name;
		if (!place_field(field, type, &end))
			return NULL;
	}
	return layout;
}

static void own_statistics(const struct sample *sample, const char *kind, const void *data,
			   size_t size)
{
	for (const struct layout *layout = sample->layouts; layout; layout = layout->next)
		if (!strcmp(layout->kind, kind))
			text_fields(sample->out, layout->fields, layout->count, data, size);
}

/* -- statistics of every queue --------------------------------------------------------- */

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

static void text_statistics(const struct sample *sample, const char *kind,
			    const struct nlattr *stats, size_t length)
{
	struct gnet_stats_basic basic = { 0 };
	struct text *t = sample->out;
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
		own_statistics(sample, kind, data, size);
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
		text_statistics(sample, kind, stats, size);
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
