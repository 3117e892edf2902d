/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/*
 * struct tcp_info as Linux 7.3 fills it. The headers of Debian 12 and 13 declare
 * older, shorter ones, and cannot be included beside <netinet/tcp.h>, so the
 * layout is declared here under a name of its own. The kernel only ever appends
 * to it: a shorter answer leaves the rest zero.
 */
#ifndef LAB_TCPINFO_H
#define LAB_TCPINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

struct tcpinfo {
	uint8_t state;
	uint8_t ca_state;
	uint8_t retransmits;
	uint8_t probes;
	uint8_t backoff;
	uint8_t options;
	uint8_t snd_wscale : 4, rcv_wscale : 4;
	uint8_t delivery_rate_app_limited : 1, fastopen_client_fail : 2;

	uint32_t rto;
	uint32_t ato;
	uint32_t snd_mss;
	uint32_t rcv_mss;

	uint32_t unacked;
	uint32_t sacked;
	uint32_t lost;
	uint32_t retrans;
	uint32_t fackets;

	uint32_t last_data_sent;
	uint32_t last_ack_sent;
	uint32_t last_data_recv;
	uint32_t last_ack_recv;

	uint32_t pmtu;
	uint32_t rcv_ssthresh;
	uint32_t rtt; /* us, as all times below */
	uint32_t rttvar;
	uint32_t snd_ssthresh;
	uint32_t snd_cwnd;
	uint32_t advmss;
	uint32_t reordering;

	uint32_t rcv_rtt;
	uint32_t rcv_space;

	uint32_t total_retrans;

	uint64_t pacing_rate; /* B/s, as all rates */
	uint64_t max_pacing_rate;
	uint64_t bytes_acked;
	uint64_t bytes_received;
	uint32_t segs_out;
	uint32_t segs_in;

	uint32_t notsent_bytes;
	uint32_t min_rtt;
	uint32_t data_segs_in;
	uint32_t data_segs_out;

	uint64_t delivery_rate;

	uint64_t busy_time;
	uint64_t rwnd_limited;
	uint64_t sndbuf_limited;

	uint32_t delivered;
	uint32_t delivered_ce;

	uint64_t bytes_sent;
	uint64_t bytes_retrans;
	uint32_t dsack_dups;
	uint32_t reord_seen;

	uint32_t rcv_ooopack;
	uint32_t snd_wnd;
	uint32_t rcv_wnd;
	uint32_t rehash;

	uint16_t total_rto;
	uint16_t total_rto_recoveries;
	uint32_t total_rto_time;

	/* since Linux 7.0: AccECN */
	uint32_t received_ce;
	uint32_t delivered_e1_bytes;
	uint32_t delivered_e0_bytes;
	uint32_t delivered_ce_bytes;
	uint32_t received_e1_bytes;
	uint32_t received_e0_bytes;
	uint32_t received_ce_bytes;
	uint32_t ecn_mode : 2, accecn_opt_seen : 2, accecn_fail_mode : 4, options2 : 24;
};

/* The end of the 32 bits of AccECN flags, which as bit-fields have no offset. */
#define TCPINFO_ECN_MODE_END sizeof(struct tcpinfo)

/* Read TCP_INFO of socket @fd. Returns the number of bytes the kernel gave or -errno. */
int tcpinfo_read(int fd, struct tcpinfo *info);

/*
 * "ecn":{...}: what the connection negotiated, whatever was requested: mode
 * ("off", "rfc3168", "accecn", "pending"; "ecn" or "off" from a kernel that does
 * not distinguish the kinds), option bits and AccECN's own health flags.
 */
void tcpinfo_ecn(struct text *t, const struct tcpinfo *info, size_t length);

#endif
