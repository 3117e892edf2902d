// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
//
// NCF on the wire: the constants that switch, routers and senders share. README.md shows the layout.

#ifndef NCF_WIRE_H
#define NCF_WIRE_H

#define NCF_OPTION_KIND   253    // RFC 3692-style experiment, RFC 4727
#define NCF_OPTION_LENGTH 16     // bytes
#define NCF_EXID          0x4e43 // "NC", an experiment identifier of RFC 6994
#define NCF_VERSION       1
#define NCF_MICE_CROWDED  0x1 // flag: the mice's queue is above its threshold (MQS in the paper)

#define NCF_TTL        64
#define NCF_IP_LENGTH  56 // bytes: IPv4 20, TCP 20, option 16
#define NCF_TCP_LENGTH 36
#define NCF_TCP_OFFSET 9 // words of 32 bit

#endif
