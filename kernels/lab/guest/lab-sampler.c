// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * lab-sampler: samples what `ss -tin` and `tc -s -j qdisc` show, at fixed instants,
 * on every node of a lab guest.
 *
 *   lab-sampler --interval-ms N --seconds S [--offset-us N] [--t0 NS]
 *               [--sockets-of NS[,NS...]] [--without-ports PORT[,PORT...]]
 *               [--queues NS:IFNAME[,NS:IFNAME...]]
 *               [--layout KIND,NAME:TYPE[,...]]
 *               [--out-sockets FILE] [--out-queues FILE]
 *
 * One process samples all namespaces: a netlink socket always belongs to the
 * namespace it was opened in, so each is opened once. A tick then costs two system
 * calls per source; running ss and tc would cost six forks. Ticks are absolute:
 * T0 + offset + k * interval, and finally T0 + seconds. T0 is --t0, by default
 * LAB_T0_NS. Flows and timers of queues begin at round times, and CoDel's interval
 * is 100 ms too: trials whose offset is drawn do not all see the same phase of it.
 * Formats: docs/guest.md.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler.h"
#include "util.h"

#define FLUSH_AT   (64 * 1024) /* bytes of samples kept in memory before a write */
#define MOST_PORTS 2048

const char *program = "lab-sampler";

/* A file of samples, and the sources of its lines in the order of the options. */
struct output {
	const char *path;
	int fd;
	struct text text;
	struct source *sources;
	struct source **last;
};

static struct output sockets = { .last = &sockets.sources };
static struct output queues = { .last = &queues.sources };
static int64_t interval_ns;
static int64_t offset_ns; /* less than an interval */
static int64_t duration_ns;
static int64_t t0_ns = -1;
static struct layout *layouts;
static char t_ms[32]; /* of the current tick */

static void add(struct output *output, struct source *source)
{
	source->sample.out = &output->text;
	source->sample.t_ms = t_ms;
	*output->last = source;
	output->last = &source->next;
}

static void open_output(struct output *output, const char *what)
{
	if (!output->sources)
		return;
	if (!output->path)
		die("%s need an output file: --out-%s FILE", what, what);
	output->fd = open(output->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (output->fd < 0)
		die_errno(errno, "cannot write %s", output->path);
}

static void flush(struct output *output)
{
	int error = write_all(output->fd, output->text.data, output->text.length);

	if (error)
		die_errno(-error, "cannot write %s", output->path);
	text_clear(&output->text);
}

static void sample(struct output *output)
{
	for (struct source *source = output->sources; source; source = source->next) {
		own_read(source->sample.own);
		netlink_dump(source);
	}
	if (output->text.length >= FLUSH_AT)
		flush(output);
}

static void close_output(struct output *output)
{
	if (!output->sources)
		return;
	flush(output);
	if (close(output->fd) < 0)
		die_errno(errno, "cannot write %s", output->path);
}

static void run(void)
{
	int64_t at_ns = offset_ns < duration_ns ? offset_ns : duration_ns;

	for (;;) {
		sleep_until(t0_ns + at_ns);
		snprintf(t_ms, sizeof(t_ms), "%.15g", (double)at_ns / NSEC_PER_MSEC);
		sample(&sockets);
		sample(&queues);
		if (at_ns == duration_ns)
			break;
		at_ns += interval_ns;
		if (at_ns > duration_ns)
			at_ns = duration_ns;
	}
}

/* -- options ------------------------------------------------------------------------- */

static void usage(void)
{
	die("usage:\n"
	    "  lab-sampler --interval-ms N --seconds S [--offset-us N] [--t0 NS]\n"
	    "              [--sockets-of NS[,NS...]] [--without-ports PORT[,PORT...]]\n"
	    "              [--queues NS:IFNAME[,NS:IFNAME...]]\n"
	    "              [--layout KIND,NAME:TYPE[,...]]\n"
	    "              [--out-sockets FILE] [--out-queues FILE]");
}

/* Add the sockets of all nodes of one list, but for the ports of the other. */
static void add_all_sockets(char *nodes, char *ports)
{
	uint16_t without[MOST_PORTS];
	size_t count = 0;
	int64_t number;

	for (char *port; (port = strsep(&ports, ","));) {
		if (!parse_int64(port, &number) || number < 1 || number > UINT16_MAX)
			die("--without-ports takes ports, not %s", port);
		if (count == MOST_PORTS)
			die("--without-ports takes at most %d ports", MOST_PORTS);
		without[count++] = number;
	}
	for (char *node; (node = strsep(&nodes, ","));)
		add(&sockets, sockets_of(node, without, count));
}

static void add_all_queues(char *list)
{
	for (char *node; (node = strsep(&list, ","));) {
		char *ifname = strchr(node, ':');

		if (!ifname)
			die("--queues takes NODE:INTERFACE, not %s", node);
		*ifname++ = '\0';
		add(&queues, queues_of(node, ifname));
	}
}

static void add_layout(char *text)
{
	struct layout *layout = layout_parse(text);

	if (!layout)
		usage();
	layout->next = layouts;
	layouts = layout;
}

static void parse_options(int argc, char **argv)
{
	enum {
		INTERVAL,
		SECONDS,
		OFFSET,
		T0,
		SOCKETS,
		WITHOUT_PORTS,
		QUEUES,
		LAYOUT,
		OUT_SOCKETS,
		OUT_QUEUES,
	};
	static const struct option options[] = {
		[INTERVAL] = { "interval-ms", required_argument, NULL, INTERVAL },
		[SECONDS] = { "seconds", required_argument, NULL, SECONDS },
		[OFFSET] = { "offset-us", required_argument, NULL, OFFSET },
		[T0] = { "t0", required_argument, NULL, T0 },
		[SOCKETS] = { "sockets-of", required_argument, NULL, SOCKETS },
		[WITHOUT_PORTS] = { "without-ports", required_argument, NULL, WITHOUT_PORTS },
		[QUEUES] = { "queues", required_argument, NULL, QUEUES },
		[LAYOUT] = { "layout", required_argument, NULL, LAYOUT },
		[OUT_SOCKETS] = { "out-sockets", required_argument, NULL, OUT_SOCKETS },
		[OUT_QUEUES] = { "out-queues", required_argument, NULL, OUT_QUEUES },
		{ 0 },
	};
	const char *t0 = getenv("LAB_T0_NS");
	int64_t interval_ms = 0;
	int64_t offset_us = 0;
	char *nodes = NULL;
	char *ports = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (option) {
		case INTERVAL:
			if (!parse_int64(optarg, &interval_ms))
				usage();
			break;
		case SECONDS:
			if (!parse_seconds(optarg, &duration_ns))
				usage();
			break;
		case OFFSET:
			if (!parse_int64(optarg, &offset_us))
				usage();
			break;
		case T0:
			t0 = optarg;
			break;
		case SOCKETS:
			nodes = optarg;
			break;
		case WITHOUT_PORTS:
			ports = optarg;
			break;
		case QUEUES:
			add_all_queues(optarg);
			break;
		case LAYOUT:
			add_layout(optarg);
			break;
		case OUT_SOCKETS:
			sockets.path = optarg;
			break;
		case OUT_QUEUES:
			queues.path = optarg;
			break;
		default:
			usage();
		}
	}
	if (optind != argc || interval_ms <= 0 || !duration_ns)
		usage();
	interval_ns = interval_ms * NSEC_PER_MSEC;
	offset_ns = offset_us * NSEC_PER_USEC;
	if (offset_ns < 0 || offset_ns >= interval_ns)
		die("the offset is not within the interval of %lld ms", (long long)interval_ms);
	if (!t0)
		die("the start instant is missing: give --t0 or set LAB_T0_NS");
	if (!parse_int64(t0, &t0_ns))
		die("the start instant is not a whole number: %s", t0);
	add_all_sockets(nodes, ports);
	for (struct source *source = queues.sources; source; source = source->next)
		source->sample.layouts = layouts;
}

int main(int argc, char **argv)
{
	exact_sleeps();
	parse_options(argc, argv);
	open_output(&sockets, "sockets");
	open_output(&queues, "queues");
	run();
	close_output(&sockets);
	close_output(&queues);
	return 0;
}
