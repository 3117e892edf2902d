/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* Parameters of a congestion control, per network namespace: see cc_params.c */
#ifndef _CC_PARAMS_H
#define _CC_PARAMS_H

#include <linux/moduleparam.h>
#include <linux/types.h>

struct ctl_table_header;
struct net;

/* A number within a range, or one of a few words. Sets of parameters are
 * structures of u32.
 */
struct cc_param {
	const char *name;
	size_t offset;			/* in the set */
	const char *const *words;	/* NULL: a number */
	u32 least;
	u32 most;
	void *module_set;		/* what the module parameter writes */
	void (*written)(void *set);	/* if not NULL: called after a write */
};

extern const struct kernel_param_ops cc_param_ops;

struct ctl_table_header *
cc_sysctls_register(struct net *net, const char *prefix,
		    const struct cc_param *const *params, size_t count,
		    void *set);
void cc_sysctls_unregister(struct ctl_table_header *header);

#endif /* _CC_PARAMS_H */
