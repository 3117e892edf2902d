// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* Parameters of a congestion control
 *
 * Each network namespace has its own set, as the sysctls net.ipv4.<prefix>_*.
 * Module parameters are the set of the first namespace. All can be written at
 * any time, and running connections follow, except where a comment says
 * otherwise: hence READ_ONCE() and WRITE_ONCE().
 */
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>

#include "cc_params.h"

#define CC_TEXT_SIZE	16	/* the longest value, with its NUL */
#define CC_NAME_SIZE	48	/* the longest name of a sysctl, with its NUL */

static int cc_param_parse(const struct cc_param *param, void *set,
			  const char *text)
{
	u32 *value = set + param->offset;
	u32 number;
	int word = -1;

	if (param->words)
		word = __sysfs_match_string(param->words, param->most + 1,
					    text);
	if (word >= 0)
		number = word;
	else if (kstrtou32(text, 0, &number) || number < param->least ||
		 number > param->most)
		return -EINVAL;
	WRITE_ONCE(*value, number);
	if (param->written)
		param->written(set);
	return 0;
}

static void cc_param_print(const struct cc_param *param, const void *set,
			   char text[CC_TEXT_SIZE])
{
	u32 value = READ_ONCE(*(const u32 *)(set + param->offset));

	if (param->words)
		strscpy(text, param->words[value], CC_TEXT_SIZE);
	else
		snprintf(text, CC_TEXT_SIZE, "%u", value);
}

/* Module parameters */

static int cc_param_set(const char *val, const struct kernel_param *kp)
{
	const struct cc_param *param = kp->arg;

	return cc_param_parse(param, param->module_set, val);
}

static int cc_param_get(char *buffer, const struct kernel_param *kp)
{
	const struct cc_param *param = kp->arg;
	char text[CC_TEXT_SIZE];

	cc_param_print(param, param->module_set, text);
	return sysfs_emit(buffer, "%s\n", text);
}

const struct kernel_param_ops cc_param_ops = {
	.set = cc_param_set,
	.get = cc_param_get,
};

/* Sysctls */

static int cc_sysctl(const struct ctl_table *ctl, int write, void *buffer,
		     size_t *lenp, loff_t *ppos)
{
	char text[CC_TEXT_SIZE] = "";
	const struct ctl_table line = {
		.data = text,
		.maxlen = sizeof(text),
	};
	int error;

	if (!write)
		cc_param_print(ctl->extra1, ctl->data, text);
	error = proc_dostring(&line, write, buffer, lenp, ppos);
	if (error || !write)
		return error;
	return cc_param_parse(ctl->extra1, ctl->data, text);
}

/**
 * cc_sysctls_register() - give a network namespace the sysctls of a set
 * @net: the namespace
 * @prefix: what their names begin with
 * @params: the parameters
 * @count: how many there are
 * @set: the namespace's own set
 *
 * Return: NULL if there is no memory for them.
 */
struct ctl_table_header *
cc_sysctls_register(struct net *net, const char *prefix,
		    const struct cc_param *const *params, size_t count,
		    void *set)
{
	struct ctl_table *table = kcalloc(count, sizeof(*table), GFP_KERNEL);
	char (*names)[CC_NAME_SIZE] = kcalloc(count, sizeof(*names),
					      GFP_KERNEL);
	struct ctl_table_header *header;
	size_t i;

	if (!table || !names)
		goto free;
	for (i = 0; i < count; i++) {
		snprintf(names[i], sizeof(names[i]), "%s_%s", prefix,
			 params[i]->name);
		table[i].procname = names[i];
		table[i].data = set;
		table[i].mode = 0644;
		table[i].proc_handler = cc_sysctl;
		table[i].extra1 = (void *)params[i];
	}
	header = register_net_sysctl_sz(net, "net/ipv4", table, count);
	if (header)
		return header;
free:
	kfree(names);
	kfree(table);
	return NULL;
}

void cc_sysctls_unregister(struct ctl_table_header *header)
{
	const struct ctl_table *table = header->ctl_table_arg;
	const char *names = table->procname; /* of its first line: of all */

	unregister_net_sysctl_table(header);
	kfree(names);
	kfree(table);
}
