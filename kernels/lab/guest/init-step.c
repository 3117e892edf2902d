// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

#include "init-step.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init-child.h"
#include "init-port.h"
#include "init-read.h"
#include "init-trial.h"
#include "util.h"

struct netns {
	const char *name;
	int fd;
	struct netns *next;
};

static struct netns *namespaces;
static struct child *scheduled; /* `at` programs not yet started, by due time */

static void *allocate(int line, size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		fail(line, "out of memory");
	return memory;
}

static int64_t number(int line, const char *what, const char *text)
{
	int64_t value;

	if (!parse_int64(text, &value))
		fail(line, "%s is not a whole number: %s", what, text);
	return value;
}

/* "-" means none. */
static const char *optional(const char *field)
{
	return strcmp(field, "-") ? field : NULL;
}

/* -- network namespaces ------------------------------------------------------------ */

static int open_own_netns(int line)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail(line, "/proc/self/ns/net: %s", strerror(errno));
	return fd;
}

static struct netns *add_netns(int line, const char *name, int fd)
{
	struct netns *ns = allocate(line, sizeof(*ns));

	ns->name = name;
	ns->fd = fd;
	ns->next = namespaces;
	namespaces = ns;
	return ns;
}

/* Descriptor of the namespace called @name; "-" is the one lab-init started in. */
static int netns(int line, const char *name)
{
	for (const struct netns *ns = namespaces; ns; ns = ns->next)
		if (!strcmp(ns->name, name))
			return ns->fd;
	if (!strcmp(name, "-"))
		return add_netns(line, "-", open_own_netns(line))->fd;
	fail(line, "no network namespace %s", name);
}

static void enter(int line, int fd)
{
	if (setns(fd, CLONE_NEWNET) < 0)
		fail(line, "setns: %s", strerror(errno));
}

/*
 * netns NAME [ROWS]: like `ip netns add`, with the loopback interface up.
 *
 * Each namespace gets a small table of TCP connections of its own. The sampler
 * lists all connections and so walks the whole table, and the global table has
 * thousands of empty rows. A node with thousands of connections needs more rows:
 * each of its packets walks one of them. The kernel derives the limit on
 * connections in TIME_WAIT from the table's size, so set that limit back to its
 * usual order.
 */
static void step_netns(int line, char **field, int count)
{
	int root = netns(line, "-");
	char path[256];
	int fd;

	set_sysctl(line, "net/ipv4/tcp_child_ehash_entries", count > 1 ? field[1] : "64");
	snprintf(path, sizeof(path), NETNS_DIR "/%s", field[0]);
	fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
	if (fd < 0)
		fail(line, "cannot make %s: %s", path, strerror(errno));
	close(fd);
	if (unshare(CLONE_NEWNET) < 0)
		fail(line, "unshare: %s", strerror(errno));
	if (mount("/proc/self/ns/net", path, "none", MS_BIND, NULL) < 0)
		fail(line, "cannot bind %s: %s", path, strerror(errno));
	add_netns(line, field[0], open_own_netns(line));
	set_sysctl(line, "net/ipv4/tcp_max_tw_buckets", "4096");
	link_up(line, "lo");
	enter(line, root);
}

/* -- settings ---------------------------------------------------------------------- */

/* module PATH PARAMS */
static void step_module(int line, char **field, int count)
{
	const char *params = optional(field[1]);
	int fd;

	(void)count;
	fd = open(field[0], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail(line, "cannot read module %s: %s", field[0], strerror(errno));
	if (syscall(SYS_finit_module, fd, params ? params : "", 0) < 0)
		fail(line, "cannot load module %s (%s): %s", field[0], field[1], strerror(errno));
	close(fd);
}

/* sysctl NS PATH VALUE */
static void step_sysctl(int line, char **field, int count)
{
	(void)count;
	set_sysctl(line, field[1], field[2]);
}

/* port NS IFNAME MAC ADDRESS/LENGTH, of IPv4 or IPv6 as in neighbour and route */
static void step_port(int line, char **field, int count)
{
	(void)count;
	port_up(line, field[1], field[2], field[3]);
}

/* offloads NS IFNAME NAME on|off... */
static void step_offloads(int line, char **field, int count)
{
	(void)count;
	set_offloads(line, field[1], field + 2);
}

/* neighbour NS IFNAME ADDRESS MAC */
static void step_neighbour(int line, char **field, int count)
{
	(void)count;
	add_neighbour(line, field[1], field[2], field[3]);
}

/* route NS ADDRESS/LENGTH VIA */
static void step_route(int line, char **field, int count)
{
	(void)count;
	add_route(line, field[1], field[2]);
}

/* read NS FILE ARGV...: write what a program would print, without starting it. */
static void step_read(int line, char **field, int count)
{
	(void)count;
	read_facts(line, field[1], field + 2);
}

/* -- programs ----------------------------------------------------------------------- */

static struct child *new_child(int line, enum kind kind, const char *ns, char **argv, int argc)
{
	struct child *child = allocate(line, sizeof(*child));

	child->kind = kind;
	child->line = line;
	child->netns = netns(line, ns);
	child->argv = allocate(line, (argc + 1) * sizeof(*argv));
	memcpy(child->argv, argv, argc * sizeof(*argv));
	child->out = child->err = -1;
	child->start_ns = child->due_ns = NO_TIME;
	return child;
}

/* run NS TIMEOUT_MS STDIN STDOUT ARGV... */
static void step_run(int line, char **field, int count)
{
	struct child *child = new_child(line, RUN, field[0], field + 4, count - 4);
	int64_t limit_ms = number(line, "the time limit", field[1]);
	int64_t limit_ns;

	child->in_path = optional(field[2]);
	child->out_path = optional(field[3]);
	child_start(child);
	limit_ns = child->start_ns + limit_ms * NSEC_PER_MSEC;
	while (!child->ended && wait_until(limit_ns))
		;
	if (!child->ended)
		fail(line, "%s did not end within %lld ms of virtual time", child->argv[0],
		     (long long)limit_ms);
	finish_ended();
}

/* daemon NS STDOUT STDERR ARGV... */
static void step_daemon(int line, char **field, int count)
{
	struct child *child = new_child(line, DAEMON, field[0], field + 3, count - 3);

	child->out_path = optional(field[1]);
	child->err_path = optional(field[2]);
	child_start(child);
}

/* start LEAD_MS: T0 is the first whole second that is LEAD_MS away. */
static void step_start(int line, char **field, int count)
{
	int64_t lead_ns = number(line, "the lead", field[0]) * NSEC_PER_MSEC;

	(void)count;
	if (t0_ns != NO_TIME)
		fail(line, "a second start");
	t0_ns = (now_ns() + lead_ns + NSEC_PER_SEC - 1) / NSEC_PER_SEC * NSEC_PER_SEC;
}

/* at NS OFFSET_NS STDOUT STDERR ARGV...: schedule a program for wait to start. */
static void step_at(int line, char **field, int count)
{
	struct child *child = new_child(line, AT, field[0], field + 4, count - 4);
	struct child **place = &scheduled;

	if (t0_ns == NO_TIME)
		fail(line, "at before start");
	child->due_ns = t0_ns + number(line, "the offset", field[1]);
	child->out_path = optional(field[2]);
	child->err_path = optional(field[3]);
	while (*place && (*place)->due_ns <= child->due_ns)
		place = &(*place)->next;
	child->next = *place;
	*place = child;
}

static void start_due(int64_t now)
{
	while (scheduled && scheduled->due_ns <= now) {
		struct child *child = scheduled;

		scheduled = child->next;
		child->next = NULL;
		child_start(child);
	}
}

/* wait LIMIT_NS: start programs as they fall due, until all have ended. */
static void step_wait(int line, char **field, int count)
{
	int64_t limit_ns = number(line, "the limit", field[0]);
	const struct child *late;

	(void)count;
	if (t0_ns == NO_TIME)
		fail(line, "wait before start");
	limit_ns += t0_ns;
	for (;;) {
		int64_t now = now_ns();

		start_due(now);
		if (!scheduled && !first_running(AT))
			return;
		if (now >= limit_ns)
			break;
		if (scheduled && scheduled->due_ns < limit_ns)
			wait_until(scheduled->due_ns);
		else
			wait_until(limit_ns);
		finish_ended();
	}
	late = first_running(AT);
	if (!late)
		late = scheduled;
	fail(late->line, "%s was still %s at the time limit of line %d", late->argv[0],
	     late->pid ? "running" : "waiting to start", line);
}

/* -- dispatch ------------------------------------------------------------------------ */

#define MANY MAX_FIELDS

static const struct {
	const char *name;
	int least, most; /* fields after the name */
	bool inside;	 /* executed in the namespace that the first field names */
	void (*execute)(int line, char **field, int count);
} steps[] = {
	{ "netns", 1, 2, false, step_netns },	      { "module", 2, 2, false, step_module },
	{ "sysctl", 3, 3, true, step_sysctl },	      { "port", 4, 4, true, step_port },
	{ "offloads", 2, MANY, true, step_offloads }, { "neighbour", 4, 4, true, step_neighbour },
	{ "route", 3, 3, true, step_route },	      { "read", 3, MANY, true, step_read },
	{ "run", 5, MANY, false, step_run },	      { "daemon", 4, MANY, false, step_daemon },
	{ "start", 1, 1, false, step_start },	      { "at", 5, MANY, false, step_at },
	{ "wait", 1, 1, false, step_wait },
};

void step(int line, char **fields, int count)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		if (strcmp(steps[i].name, fields[0]))
			continue;
		if (count - 1 < steps[i].least || count - 1 > steps[i].most)
			fail(line, "%s does not take %d fields", fields[0], count - 1);
		if (steps[i].inside)
			enter(line, netns(line, fields[1]));
		steps[i].execute(line, fields + 1, count - 1);
		if (steps[i].inside)
			enter(line, netns(line, "-"));
		return;
	}
	fail(line, "unknown instruction %s", fields[0]);
}
