// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void flow_path(const struct options *o, char *path, size_t size)
{
	snprintf(path, size, LAB_FLOW_DIR "/%d", o->port);
}

int64_t announce_start(const struct options *o)
{
	const char *planned = getenv("LAB_START_NS");
	struct text t = { 0 };
	int64_t start_ns;
	char path[64];
	int error;
	int fd;

	/* Reading the clock takes virtual time, so that is done only if needed. */
	if (!planned)
		start_ns = now_ns();
	else if (!parse_int64(planned, &start_ns))
		die("LAB_START_NS is not a whole number: %s", planned);
	flow_path(o, path, sizeof(path));
	text_s64(&t, start_ns);
	if (mkdir(LAB_FLOW_DIR, 0755) < 0 && errno != EEXIST)
		die_errno(errno, "cannot make " LAB_FLOW_DIR);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		die_errno(errno, "cannot open %s", path);
	error = write_all(fd, t.data, t.length);
	if (error)
		die_errno(-error, "cannot write %s", path);
	close(fd);
	free(t.data);
	return start_ns;
}

int64_t learn_start(const struct options *o)
{
	int64_t start_ns;
	char path[64];
	char *data;
	ssize_t length;

	flow_path(o, path, sizeof(path));
	length = read_whole(path, &data);
	if (length < 0)
		die_errno(-length, "cannot read the flow's start from %s", path);
	if (!parse_int64(data, &start_ns))
		die("the instant in %s is not a whole number: %s", path, data);
	free(data);
	return start_ns;
}

struct endpoint peer(const struct options *o)
{
	struct endpoint to = here(o);

	if (o->ipv6)
		inet_pton(AF_INET6, o->to, &to.v6.sin6_addr);
	else
		inet_pton(AF_INET, o->to, &to.v4.sin_addr);
	return to;
}

struct endpoint here(const struct options *o)
{
	if (o->ipv6)
		return (struct endpoint){
			.v6 = { .sin6_family = AF_INET6, .sin6_port = htons(o->port) },
			.length = sizeof(struct sockaddr_in6),
		};
	return (struct endpoint){
		.v4 = { .sin_family = AF_INET, .sin_port = htons(o->port) },
		.length = sizeof(struct sockaddr_in),
	};
}

int open_socket(const struct options *o, int type)
{
	return socket(o->ipv6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);
}

void set_congestion_control(int fd, const char *cc)
{
	char name[16] = "";
	socklen_t length = sizeof(name);

	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)) < 0)
		die_errno(errno, "congestion control %s", cc);
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) < 0)
		die_errno(errno, "reading back the congestion control");
	if (strncmp(name, cc, sizeof(name)))
		die("requested congestion control %s, got %.*s", cc, (int)sizeof(name), name);
}

void text_seconds(struct text *t, int64_t ns)
{
	int64_t part = ns % NSEC_PER_SEC;
	int digits = 9;

	while (digits > 1 && part % 10 == 0) {
		part /= 10;
		digits--;
	}
	text_printf(t, "%lld.%0*lld", (long long)(ns / NSEC_PER_SEC), digits, (long long)part);
}

void text_interval(struct text *t, int64_t end_ns)
{
	text_puts(t, t->length ? ",{" : "{");
	text_field(t, "end_s");
	text_seconds(t, end_ns);
}

void text_role(struct text *t, const char *role, const struct options *o, int64_t start_ns,
	       int64_t length_ns)
{
	text_puts(t, "{");
	text_field_json(t, "role", role);
	if (o->id)
		text_field_json(t, "flow", o->id);
	text_field_s64(t, "start_ns", start_ns);
	text_field(t, "seconds");
	text_seconds(t, length_ns);
}

void print_result(struct text *t, const struct text *intervals)
{
	int error;

	text_field(t, "intervals");
	text_puts(t, "[");
	text_add(t, intervals->data, intervals->length);
	text_puts(t, "]}\n");
	error = write_all(STDOUT_FILENO, t->data, t->length);
	if (!error && close(STDOUT_FILENO) < 0)
		error = -errno;
	if (error)
		die_errno(-error, "cannot write the result");
}
