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
#define DUMP_TRIES  8		/* until a dump is consistent */

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

/* What is known of a dump so far. */
enum dump {
	DUMP_MORE, /* its end has not come */
	DUMP_DONE,
	DUMP_TORN, /* at its end: what it lists changed meanwhile */
};

/* The error in the message that ends a dump, 0 if it is complete. */
static int done_error(const struct nlmsghdr *message)
{
	int error = 0;

	if (message->nlmsg_len >= NLMSG_LENGTH(sizeof(error)))
		memcpy(&error, NLMSG_DATA(message), sizeof(error));
	return error;
}

static void refused(const struct source *source, int error)
{
	die_errno(-error, "the kernel refused a dump in %s", source->sample.node);
}

/* Parse one datagram. @torn is set by any message of a dump that is not consistent. */
static enum dump parse_answer(const struct source *source, const void *data, size_t length,
			      bool *torn)
{
	const struct nlmsghdr *message = data;

	for (; NLMSG_OK(message, length); message = NLMSG_NEXT(message, length)) {
		*torn |= message->nlmsg_flags & NLM_F_DUMP_INTR;
		if (message->nlmsg_type == NLMSG_DONE) {
			int error = done_error(message);

			if (error)
				refused(source, error);
			return *torn ? DUMP_TORN : DUMP_DONE;
		}
		if (message->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *error = NLMSG_DATA(message);

			refused(source, error->error);
		}
		source->parse(&source->sample, message);
	}
	return DUMP_MORE;
}

/*
 * The answer to a dump is data and, in a datagram of its own, its end. The kernel
 * prepares the next datagram while it hands over the one before, so recvmmsg()
 * gets both in one call.
 */
static enum dump dump_once(struct source *source)
{
	static char buffer[ANSWERS][ANSWER_SIZE];
	struct iovec pieces[ANSWERS];
	struct mmsghdr answers[ANSWERS];
	enum dump dump = DUMP_MORE;
	bool torn = false;

	if (send(source->fd, source->request, source->request->nlmsg_len, 0) < 0)
		die_errno(errno, "netlink request in %s", source->sample.node);
	while (dump == DUMP_MORE) {
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
		for (int i = 0; i < count && dump == DUMP_MORE; i++) {
			if (answers[i].msg_hdr.msg_flags & MSG_TRUNC)
				die("a netlink answer in %s is over %d bytes long",
				    source->sample.node, ANSWER_SIZE);
			dump = parse_answer(source, buffer[i], answers[i].msg_len, &torn);
		}
	}
	return dump;
}

void netlink_dump(struct source *source)
{
	struct text *out = source->sample.out;
	size_t before = out->length;

	for (int tries = 0; tries < DUMP_TRIES; tries++) {
		if (dump_once(source) == DUMP_DONE)
			return;
		out->length = before; /* of a torn dump, any line may be wrong or missing */
	}
	die("what a dump in %s lists changed during each of %d dumps", source->sample.node,
	    DUMP_TRIES);
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
