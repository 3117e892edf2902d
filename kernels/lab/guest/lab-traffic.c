// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * lab-traffic: sends and receives the flows of a trial (docs/guest.md).
 *
 * The files traffic-*.c have a kind of traffic each; here is the command line.
 */

#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "traffic.h"

const char *program = "lab-traffic";

static const struct role {
	const char *name;
	void (*run)(const struct options *o);
	bool sends;
	const char *usage;
} roles[] = {
	{ "send", send_bulk, true, "--cc NAME [--bytes N] [--flow ID]" },
	{ "receive", receive_bulk, false, "[--bytes N] [--ipv6]" },
	{ "pace", pace, true, "(--size N | --syn) --frames RATE/BITS --codepoint 0-3 [--flow ID]" },
	{ "count", count, false, "(--size N | --syn) [--ipv6]" },
	{ "request", request, true,
	  "(--size N --every-ns N | --schedule FILE) --cc NAME [--answer] [--flow ID]" },
	{ "answer", answer, false, "[--size N] [--answer | --reply N] [--ipv6]" },
	{ "pages", serve_pages, true,
	  "--size N --objects N --connections N --reply N --every-ns N --cc NAME [--flow ID]" },
};

static void usage(void)
{
	struct text t = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		text_printf(&t, "\n  lab-traffic %s%s --port P --seconds S [--interval S] %s",
			    roles[i].name, roles[i].sends ? " --to ADDRESS" : "", roles[i].usage);
	die("usage:%.*s", (int)t.length, t.data);
}

static int64_t whole_number(const char *option, const char *text, int64_t least, int64_t most)
{
	int64_t value;

	if (!parse_int64(text, &value) || value < least || value > most)
		die("--%s takes a whole number from %lld to %lld, not %s", option, (long long)least,
		    (long long)most, text);
	return value;
}

static int64_t duration(const char *option, const char *text)
{
	int64_t ns;

	if (!parse_seconds(text, &ns) || !ns)
		die("--%s takes seconds, not %s", option, text);
	return ns;
}

/* RATE/BITS, both whole numbers */
static void fraction(const char *option, char *text, struct options *o)
{
	char *slash = strchr(text, '/');

	if (!slash)
		die("--%s takes RATE/BITS, not %s", option, text);
	*slash = 0;
	o->rate = whole_number(option, text, 1, INT64_MAX);
	o->frame_bits = whole_number(option, slash + 1, 1, INT32_MAX);
}

static void parse_options(struct options *o, int argc, char **argv)
{
	enum {
		TO,
		PORT,
		CC,
		SECONDS,
		INTERVAL,
		FLOW,
		BYTES,
		SIZE,
		FRAMES,
		CODEPOINT,
		EVERY,
		SYN,
		ANSWER,
		REPLY,
		OBJECTS,
		CONNECTIONS,
		SCHEDULE,
		IPV6
	};
	static const struct option known[] = {
		[TO] = { "to", required_argument, NULL, TO },
		[PORT] = { "port", required_argument, NULL, PORT },
		[CC] = { "cc", required_argument, NULL, CC },
		[SECONDS] = { "seconds", required_argument, NULL, SECONDS },
		[INTERVAL] = { "interval", required_argument, NULL, INTERVAL },
		[FLOW] = { "flow", required_argument, NULL, FLOW },
		[BYTES] = { "bytes", required_argument, NULL, BYTES },
		[SIZE] = { "size", required_argument, NULL, SIZE },
		[FRAMES] = { "frames", required_argument, NULL, FRAMES },
		[CODEPOINT] = { "codepoint", required_argument, NULL, CODEPOINT },
		[EVERY] = { "every-ns", required_argument, NULL, EVERY },
		[SYN] = { "syn", no_argument, NULL, SYN },
		[ANSWER] = { "answer", no_argument, NULL, ANSWER },
		[REPLY] = { "reply", required_argument, NULL, REPLY },
		[OBJECTS] = { "objects", required_argument, NULL, OBJECTS },
		[CONNECTIONS] = { "connections", required_argument, NULL, CONNECTIONS },
		[SCHEDULE] = { "schedule", required_argument, NULL, SCHEDULE },
		[IPV6] = { "ipv6", no_argument, NULL, IPV6 },
		{ 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		const char *name = option <= IPV6 ? known[option].name : "";

		switch (option) {
		case TO:
			o->to = optarg;
			break;
		case PORT:
			o->port = whole_number(name, optarg, 1, 65535);
			break;
		case CC:
			o->cc = optarg;
			break;
		case SECONDS:
			o->seconds_ns = duration(name, optarg);
			break;
		case INTERVAL:
			o->interval_ns = duration(name, optarg);
			break;
		case FLOW:
			o->id = optarg;
			break;
		case BYTES:
			o->bytes = whole_number(name, optarg, 1, INT64_MAX);
			break;
		case SIZE:
			o->size = whole_number(name, optarg, 1, INT64_MAX);
			break;
		case FRAMES:
			fraction(name, optarg, o);
			break;
		case CODEPOINT:
			o->codepoint = whole_number(name, optarg, 0, 3);
			break;
		case EVERY:
			o->every_ns = whole_number(name, optarg, 1, INT64_MAX);
			break;
		case SYN:
			o->syn = true;
			break;
		case ANSWER:
			o->answer = true;
			break;
		case REPLY:
			o->reply = whole_number(name, optarg, 1, INT32_MAX);
			break;
		case OBJECTS:
			o->objects = whole_number(name, optarg, 1, INT32_MAX);
			break;
		case CONNECTIONS:
			o->connections = whole_number(name, optarg, 1, INT32_MAX);
			break;
		case SCHEDULE:
			o->schedule = optarg;
			break;
		case IPV6:
			o->ipv6 = true;
			break;
		default:
			usage();
		}
	}
	if (optind != argc || !o->port || !o->seconds_ns)
		usage();
}

/* What a role needs beyond port and time. */
static void check(const struct role *role, struct options *o)
{
	bool paced = role->run == pace || role->run == count;
	bool pages = role->run == serve_pages;
	bool sized = pages || (role->run == request && !o->schedule) ||
		     (role->run == answer && (o->answer || o->reply));
	struct in6_addr address;

	if (role->sends && !o->to)
		usage();
	if ((role->run == send_bulk || role->run == request || pages) && !o->cc)
		usage();
	if ((paced && !o->size == !o->syn) || (sized && !o->size))
		usage();
	if ((role->run == pace && !o->rate) ||
	    (role->run == request && !o->every_ns == !o->schedule) || (o->answer && o->reply) ||
	    (pages && (!o->every_ns || !o->reply || !o->objects || !o->connections)))
		usage();
	if (role->run == answer && o->answer)
		o->reply = o->size;
	if (role->run == pace && o->size > 65507)
		die("a UDP packet has at most 65507 bytes, not %lld", (long long)o->size);
	if (role->sends)
		o->ipv6 = inet_pton(AF_INET6, o->to, &address) == 1;
	if (role->sends && !o->ipv6 && inet_pton(AF_INET, o->to, &address) != 1)
		die("--to takes an IP address, not %s", o->to);
}

int main(int argc, char **argv)
{
	struct options o = { .interval_ns = NSEC_PER_SEC };

	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(roles); i++) {
		if (strcmp(argv[1], roles[i].name))
			continue;
		parse_options(&o, argc - 1, argv + 1);
		check(&roles[i], &o);
		exact_sleeps();
		roles[i].run(&o);
	}
	usage();
}
