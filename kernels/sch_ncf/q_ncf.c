// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* tc's part of NCF: sets the parameters of sch_ncf and prints them
 *
 * tc loads q_ncf.so from the folder that TC_LIB_DIR names, else from its own.
 * It offers its functions to such files, but no package has the header that
 * declares them: they are declared here, as iproute2 has had them since 5.0.
 */
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ncf_user.h"

/* -- of iproute2 -------------------------------------------------------------------- */

struct qdisc_util {
	struct qdisc_util *next;
	const char *id;
	int (*parse_qopt)(const struct qdisc_util *util, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev);
	int (*print_qopt)(const struct qdisc_util *util, FILE *f, struct rtattr *opt);
	int (*print_xstats)(const struct qdisc_util *util, FILE *f, struct rtattr *xstats);
	int (*parse_copt)(const struct qdisc_util *util, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev);
	int (*print_copt)(const struct qdisc_util *util, FILE *f, struct rtattr *opt);
	int (*has_block)(const struct qdisc_util *util, struct rtattr *opt, bool *has);
};

enum output { PRINT_FP = 1, PRINT_JSON = 2, PRINT_ANY = 4 };
enum color { COLOR_NONE = 6 };

int addattr_l(struct nlmsghdr *n, int size, int type, const void *data, int length);
struct rtattr *addattr_nest(struct nlmsghdr *n, int size, int type);
int addattr_nest_end(struct nlmsghdr *n, struct rtattr *nest);
int parse_rtattr_flags(struct rtattr *tb[], int max, struct rtattr *rta, int length,
		       unsigned short flags);
int get_u32(uint32_t *value, const char *text, int base);
int get_size(unsigned int *bytes, const char *text);
int get_rate64(uint64_t *bytes_per_second, const char *text);
int print_color_lluint(enum output output, enum color color, const char *key, const char *format,
		       unsigned long long value);

/* -- parameters ---------------------------------------------------------------------- */

static int read_number(uint64_t *value, const char *text)
{
	uint32_t number;
	int error = get_u32(&number, text, 10);

	*value = number;
	return error;
}

static int read_size(uint64_t *value, const char *text)
{
	unsigned int bytes;
	int error = get_size(&bytes, text);

	*value = bytes;
	return error;
}

static const struct parameter {
	const char *name;
	int (*read)(uint64_t *value, const char *text);
	size_t size; /* bytes, on the way to the kernel */
} parameters[TCA_NCF_MAX + 1] = {
	[TCA_NCF_LIMIT] = { "limit", read_size, 4 },
	[TCA_NCF_CAPACITY] = { "capacity", get_rate64, 8 },
	[TCA_NCF_QUEUES] = { "queues", read_number, 4 },
	[TCA_NCF_MICE_SHARE] = { "mice_share", read_number, 4 },
	[TCA_NCF_MICE_THRESHOLD] = { "mice_threshold", read_number, 4 },
	[TCA_NCF_ELEPHANTS_THRESHOLD] = { "elephants_threshold", read_number, 4 },
	[TCA_NCF_RHO] = { "rho", read_number, 4 },
	[TCA_NCF_WINDOW_BIT] = { "window_bit", read_number, 4 },
	[TCA_NCF_GAP] = { "gap", read_number, 4 },
	[TCA_NCF_SWEEP] = { "sweep", read_number, 4 },
	[TCA_NCF_BOTTLENECK] = { "bottleneck", read_number, 4 },
	[TCA_NCF_QUANTUM] = { "quantum", read_size, 4 },
};

static int explain(void)
{
	fputs("Usage: ... ncf [ limit BYTES ] [ capacity RATE ] [ queues 1 | 2 ]\n"
	      "               [ mice_share PERCENT ] [ mice_threshold PERCENT ]\n"
	      "               [ elephants_threshold PERCENT ] [ rho PACKETS ]\n"
	      "               [ window_bit BIT ] [ gap TICKS ] [ sweep WINDOWS ]\n"
	      "               [ bottleneck NUMBER ] [ quantum BYTES ]\n",
	      stderr);
	return -1;
}

static int find(const char *name)
{
	for (int type = 1; type <= TCA_NCF_MAX; type++)
		if (!strcmp(parameters[type].name, name))
			return type;
	return 0;
}

static int parse(const struct qdisc_util *util, int argc, char **argv, struct nlmsghdr *n,
		 const char *dev)
{
	struct rtattr *options = addattr_nest(n, 1024, TCA_OPTIONS | NLA_F_NESTED);

	(void)util;
	(void)dev;
	for (; argc > 0; argc -= 2, argv += 2) {
		int type = find(argv[0]);
		uint64_t value;
		uint32_t narrow;

		if (!type || argc < 2) {
			fprintf(stderr, "ncf: %s \"%s\"\n",
				type ? "no value for" : "unknown parameter", argv[0]);
			return explain();
		}
		if (parameters[type].read(&value, argv[1])) {
			fprintf(stderr, "ncf: \"%s\" is not a valid value for %s\n", argv[1],
				argv[0]);
			return -1;
		}
		narrow = (uint32_t)value;
		if (parameters[type].size == sizeof(value))
			addattr_l(n, 1024, type, &value, sizeof(value));
		else
			addattr_l(n, 1024, type, &narrow, sizeof(narrow));
	}
	addattr_nest_end(n, options);
	return 0;
}

/* -- output -------------------------------------------------------------------------- */

static void print(const char *name, unsigned long long value)
{
	char format[64];

	snprintf(format, sizeof(format), "%s %%llu ", name);
	print_color_lluint(PRINT_ANY, COLOR_NONE, name, format, value);
}

static bool value_of(uint64_t *value, const struct rtattr *attribute)
{
	uint32_t narrow;

	switch (RTA_PAYLOAD(attribute)) {
	case sizeof(narrow):
		memcpy(&narrow, RTA_DATA(attribute), sizeof(narrow));
		*value = narrow;
		return true;
	case sizeof(*value):
		memcpy(value, RTA_DATA(attribute), sizeof(*value));
		return true;
	default:
		return false;
	}
}

static int print_options(const struct qdisc_util *util, FILE *f, struct rtattr *options)
{
	struct rtattr *tb[TCA_NCF_MAX + 1];

	(void)util;
	(void)f;
	if (!options)
		return 0;
	parse_rtattr_flags(tb, TCA_NCF_MAX, RTA_DATA(options), (int)RTA_PAYLOAD(options),
			   NLA_F_NESTED);
	for (int type = 1; type <= TCA_NCF_MAX; type++) {
		uint64_t value;

		if (tb[type] && value_of(&value, tb[type]))
			print(parameters[type].name, value);
	}
	return 0;
}

static int print_statistics(const struct qdisc_util *util, FILE *f, struct rtattr *xstats)
{
	struct ncf_stats stats = { 0 };
	size_t size;

	(void)util;
	(void)f;
	if (!xstats)
		return 0;
	size = RTA_PAYLOAD(xstats);
	memcpy(&stats, RTA_DATA(xstats), size < sizeof(stats) ? size : sizeof(stats));
	print("elephants", stats.elephants);
	print("mice_crowded", stats.mice_crowded);
	print("mice_backlog", stats.mice_backlog);
	print("elephants_backlog", stats.elephants_backlog);
	print("mice_packets", stats.mice_packets);
	print("elephants_packets", stats.elephants_packets);
	print("mice_drops", stats.mice_drops);
	print("elephants_drops", stats.elephants_drops);
	print("signals", stats.signals);
	print("signals_held", stats.signals_held);
	print("signals_failed", stats.signals_failed);
	print("swept", stats.swept);
	return 0;
}

struct qdisc_util ncf_qdisc_util = {
	.id = "ncf",
	.parse_qopt = parse,
	.print_qopt = print_options,
	.print_xstats = print_statistics,
};
