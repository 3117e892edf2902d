/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* The parts of lab-sampler; lab-sampler.c describes the program. */
#ifndef LAB_SAMPLER_H
#define LAB_SAMPLER_H

#include <linux/netlink.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

/* The front of every line, when and where, and what else its parser needs. */
struct sample {
	struct text *out;
	const char *t_ms; /* since the start instant, as text */
	const char *node;
	const char *ifname;	      /* queues only */
	const struct layout *layouts; /* queues only */
	struct own *own;	      /* sockets only: NULL if no module reports any */
};

/* One netlink socket and the request that is sent through it at every tick. */
struct source {
	struct sample sample;
	int fd;
	int ifindex; /* queues only */
	struct nlmsghdr *request;
	void (*parse)(const struct sample *sample, const struct nlmsghdr *message);
	struct source *next;
};

/* A number to copy from one of the kernel's structures into a JSON field. */
struct field {
	const char *name;
	uint16_t offset;
	enum { U8, U16, U32, S32, U64, S64, SHARE32, SHARE64 } type; /* SHARE: of all ones */
};

/* The statistics that queues of a kind keep of their own: TCA_STATS_APP, under tc's names. */
struct layout {
	const char *kind;
	struct field *fields;
	size_t count;
	struct layout *next;
};

#define FIELD(struct_type, member, type)                     \
	{                                                    \
#member, offsetof(struct_type, member), type \
	}
#define NAMED(name, struct_type, member, type)            \
	{                                                 \
		name, offsetof(struct_type, member), type \
	}

/* -- sampler-netlink.c -------------------------------------------------------------- */

/* Open a netlink socket in network namespace @node. Ends the program if it cannot. */
int netlink_open(const char *node, int protocol);

/*
 * Send the request of @source and pass every message of the answer to its parser.
 * If the kernel reports that the dump is not consistent, discard its lines and
 * repeat it. Ends the program if the kernel refuses the dump, also at its end.
 */
void netlink_dump(struct source *source);

/* Payload of attribute @type among @length bytes at @first, or NULL; its size in @size. */
const void *attribute(const struct nlattr *first, size_t length, uint16_t type, size_t *size);

/* Append those of the @count @fields that are within the @size bytes at @data. */
void text_fields(struct text *t, const struct field *fields, size_t count, const void *data,
		 size_t size);

/* Begin a line: {"t_ms":...,"node":"..." */
void begin_line(const struct sample *sample);

/* -- sampler-own.c ------------------------------------------------------------------- */

/* The files /proc/net/tcp_* of the network namespace that was entered last. */
struct own *own_open(void);

/* Read them anew. */
void own_read(struct own *own);

/* Append the state that they have of the socket with these ports, if any. */
void own_fields(struct text *t, const struct own *own, unsigned int lport, unsigned int rport);

/* -- sampler-sockets.c, sampler-queues.c ---------------------------------------------- */

/* The sockets of a node, but for those with one of @count ports @without at either end. */
struct source *sockets_of(const char *node, const uint16_t *without, size_t count);
struct source *queues_of(const char *node, const char *ifname);

/* Read KIND,NAME:TYPE[,NAME:TYPE...], the members of a kind's statistics in their order. */
struct layout *layout_parse(char *text);

#endif
