// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* Has q_ncf.c turn parameters into attributes and print these, as tc does
 *
 * usage: tc_values [PARAMETER VALUE]...   values are plain numbers
 *
 * An attribute of two bytes comes last, which no kernel sends.
 */
#include <stdlib.h>

#include "q_ncf.c"

static char message[2048] __attribute__((aligned(8)));

int addattr_l(struct nlmsghdr *n, int size, int type, const void *data, int length)
{
	struct rtattr *attribute = (void *)((char *)n + NLMSG_ALIGN(n->nlmsg_len));

	if (NLMSG_ALIGN(n->nlmsg_len) + RTA_SPACE(length) > (size_t)size)
		abort();
	attribute->rta_type = type;
	attribute->rta_len = RTA_LENGTH(length);
	if (length)
		memcpy(RTA_DATA(attribute), data, length);
	n->nlmsg_len = NLMSG_ALIGN(n->nlmsg_len) + RTA_SPACE(length);
	return 0;
}

struct rtattr *addattr_nest(struct nlmsghdr *n, int size, int type)
{
	struct rtattr *nest = (void *)((char *)n + NLMSG_ALIGN(n->nlmsg_len));

	addattr_l(n, size, type, NULL, 0);
	return nest;
}

int addattr_nest_end(struct nlmsghdr *n, struct rtattr *nest)
{
	nest->rta_len = (char *)n + n->nlmsg_len - (char *)nest;
	return 0;
}

int parse_rtattr_flags(struct rtattr *tb[], int max, struct rtattr *rta, int length,
		       unsigned short flags)
{
	memset(tb, 0, (max + 1) * sizeof(*tb));
	for (; RTA_OK(rta, length); rta = RTA_NEXT(rta, length))
		if ((rta->rta_type & ~flags) <= max)
			tb[rta->rta_type & ~flags] = rta;
	return 0;
}

int get_u32(uint32_t *value, const char *text, int base)
{
	*value = strtoul(text, NULL, base);
	return 0;
}

int get_size(unsigned int *bytes, const char *text)
{
	return get_u32(bytes, text, 10);
}

int get_rate64(uint64_t *bytes_per_second, const char *text)
{
	*bytes_per_second = strtoull(text, NULL, 10);
	return 0;
}

int print_color_lluint(enum output output, enum color color, const char *key, const char *format,
		       unsigned long long value)
{
	(void)output;
	(void)color;
	(void)key;
	return printf(format, value);
}

int main(int argc, char **argv)
{
	struct nlmsghdr *n = (void *)message;
	uint16_t odd = 7;

	n->nlmsg_len = NLMSG_HDRLEN;
	if (ncf_qdisc_util.parse_qopt(&ncf_qdisc_util, argc - 1, argv + 1, n, "dev"))
		return 1;
	addattr_l(n, sizeof(message), TCA_NCF_QUANTUM, &odd, sizeof(odd));
	struct rtattr *options = NLMSG_DATA(n);

	options->rta_len = message + n->nlmsg_len - (char *)options;
	return ncf_qdisc_util.print_qopt(&ncf_qdisc_util, stdout, options);
}
