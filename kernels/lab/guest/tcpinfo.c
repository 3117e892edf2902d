// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

#include "tcpinfo.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(offsetof(struct tcpinfo, bytes_acked) == 120, "as in linux/tcp.h");
_Static_assert(offsetof(struct tcpinfo, bytes_sent) == 200, "as in linux/tcp.h");
_Static_assert(offsetof(struct tcpinfo, received_ce) == 248, "as in linux/tcp.h");
_Static_assert(sizeof(struct tcpinfo) == 280, "as in linux/tcp.h");

int tcpinfo_read(int fd, struct tcpinfo *info)
{
	socklen_t length = sizeof(*info);

	memset(info, 0, sizeof(*info));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length) < 0)
		return -errno;
	return length;
}

void tcpinfo_ecn(struct text *t, const struct tcpinfo *info, size_t length)
{
	static const char *const modes[] = { "off", "rfc3168", "accecn", "pending" };
	bool ecn = info->options & TCPI_OPT_ECN;
	/* Linux 6.18 and 6.19 have other fields in the place of the mode: 0 of any connection */
	bool accecn = length >= TCPINFO_ECN_MODE_END && (info->ecn_mode || !ecn);
	const char *mode = ecn ? "ecn" : "off";

	text_field(t, "ecn");
	text_puts(t, "{");
	text_field_json(t, "mode", accecn ? modes[info->ecn_mode] : mode);
	text_field_u64(t, "options", info->options);
	text_field(t, "ecn_seen");
	text_puts(t, info->options & TCPI_OPT_ECN_SEEN ? "true" : "false");
	if (accecn) {
		text_field_u64(t, "accecn_option_seen", info->accecn_opt_seen);
		text_field_u64(t, "accecn_fail_mode", info->accecn_fail_mode);
	}
	text_puts(t, "}");
}
