// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/* The sampler's netlink: dumps, attributes, fields. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sampler.h"
#include "util.h"

#define ANSWERS	    4		/* messages received by one system call */
#define ANSWER_SIZE (32 * 1024) /* the most that the kernel puts into a message */

int netlink_open(const char *node, int protocol)
{
	char path[256];
	int ns;
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", node);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0)
		die_errno(errno, "no network namespace %s", node);
	if (setns(ns, CLONE_NEWNET) < 0)
		die_errno(errno, "cannot enter network namespace %s", node);
	close(ns);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	if (fd < 0)
		die_errno(errno, "no netlink socket in %s", node);
	return fd;
}

/* Parse one datagram; false if it held the end of the dump. */
static bool parse_answer(const struct source *source, const void *data, size_t length)
{
	const struct nlmsghdr *message = data;

	for (; NLMSG_OK(message, length); message = NLMSG_NEXT(message, length)) {
		if (message->nlmsg_type == NLMSG_DONE)
			return false;
		if (message->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *error = NLMSG_DATA(message);

			die_errno(-error->error, "the kernel refused a dump in %s",
				  source->sample.node);
		}
		source->parse(&source->sample, message);
	}
	return true;
}

/*
 * The answer to a dump is data and, in a datagram of its own, its end. The kernel
 * prepares the next datagram while it hands over the one before, so recvmmsg()
 * gets both in one call.
 */
void netlink_dump(struct source *source)
{
	static char buffer[ANSWERS][ANSWER_SIZE];
	struct iovec pieces[ANSWERS];
	struct mmsghdr answers[ANSWERS];
	bool more = true;

	if (send(source->fd, source->request, source->request->nlmsg_len, 0) < 0)
		die_errno(errno, "netlink request in %s", source->sample.node);
	while (more) {
		int count;

		memset(answers, 0, sizeof(answers));
		for (int i = 0; i < ANSWERS; i++) {
			pieces[i] = (struct iovec){ buffer[i], sizeof(buffer[i]) };
			answers[i].msg_hdr.msg_iov = &pieces[i];
			answers[i].msg_hdr.msg_iovlen = 1;
		}
		count = recvmmsg(source->fd, answers, ANSWERS, MSG_WAITFORONE, NULL);
		if (count < 0)
			die_errno(errno, "netlink answer in %s", source->sample.node);
		for (int i = 0; i < count && more; i++) {
			if (answers[i].msg_hdr.msg_flags & MSG_TRUNC)
				die("a netlink answer in %s is over %d bytes long",
				    source->sample.node, ANSWER_SIZE);
			more = parse_answer(source, buffer[i], answers[i].msg_len);
		}
	}
}

const void *attribute(const struct nlattr *first, size_t length, uint16_t type, size_t *size)
{
	const char *at = (const char *)first;
	const char *end = at + length;

	while (at + NLA_HDRLEN <= end) {
		const struct nlattr *a = (const struct nlattr *)at;

		if (a->nla_len < NLA_HDRLEN || at + a->nla_len > end)
			break;
		if ((a->nla_type & NLA_TYPE_MASK) == type) {
			*size = a->nla_len - NLA_HDRLEN;
			return at + NLA_HDRLEN;
		}
		at += NLA_ALIGN(a->nla_len);
	}
	*size = 0;
	return NULL;
}

static const size_t type_sizes[] = {
	[U8] = 1,  [U16] = 2, [U32] = 4,     [S32] = 4,
	[U64] = 8, [S64] = 8, [SHARE32] = 4, [SHARE64] = 8,
};

static void text_value(struct text *t, int type, const void *data)
{
	uint64_t value = 0;
	int32_t number;

	memcpy(&value, data, type_sizes[type]); /* little endian, as UML on x86 is */
	switch (type) {
	case S32:
		memcpy(&number, data, sizeof(number));
		text_s64(t, number);
		break;
	case S64:
		text_s64(t, (int64_t)value);
		break;
	case SHARE32:
		text_printf(t, "%.9g", (double)value / UINT32_MAX);
		break;
	case SHARE64:
		text_printf(t, "%.9g", (double)value / (double)UINT64_MAX);
		break;
	default:
		text_u64(t, value);
	}
}

void text_fields(struct text *t, const struct field *fields, size_t count, const void *data,
		 size_t size)
{
	for (const struct field *f = fields; f < fields + count; f++) {
		if (f->offset + type_sizes[f->type] > size)
			continue;
		text_field(t, f->name);
		text_value(t, f->type, (const char *)data + f->offset);
	}
}

void begin_line(const struct sample *sample)
{
	struct text *t = sample->out;

	text_puts(t, "{\"t_ms\":");
	text_puts(t, sample->t_ms);
	text_field_json(t, "node", sample->node);
}
