/* SPDX-License-Identifier: GPL-2.0-only */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* The kernel's definitions that ncf_law.c uses, for tests outside of it */
#ifndef _TCP_NCF_LAW_USER_H
#define _TCP_NCF_LAW_USER_H

#include <stdbool.h>

#define READ_ONCE(value)	(value)
#define min(one, other)		((one) < (other) ? (one) : (other))
#define max(one, other)		((one) > (other) ? (one) : (other))

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

#endif /* _TCP_NCF_LAW_USER_H */
