/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/*
 * Sysctls, ports, neighbours and routes of the network namespace that lab-init is
 * in, by system calls: a program such as ip costs the host 7 ms for each start.
 * Addresses are of IPv4 or IPv6. Every function fails the trial if it cannot do
 * what it is for.
 */
#ifndef LAB_INIT_PORT_H
#define LAB_INIT_PORT_H

#include "text.h"

/* Write a sysctl, with slashes in @name. */
void set_sysctl(int line, const char *name, const char *value);

/* Give interface @ifname the hardware address @mac and @address (with /LENGTH); bring it up. */
void port_up(int line, const char *ifname, const char *mac, const char *address);

/* Bring interface @ifname up. */
void link_up(int line, const char *ifname);

/* @words: names of offloads, each with on or off, NULL at the end. One that is not there is off. */
void set_offloads(int line, const char *ifname, char **words);

/* Add a line per offload as `ethtool -k` prints it. */
void print_offloads(int line, const char *ifname, struct text *out);

/* Make a neighbour known for good. */
void add_neighbour(int line, const char *ifname, const char *address, const char *mac);

/* Add a route to @to (with /LENGTH) by way of the address @via. */
void add_route(int line, const char *to, const char *via);

#endif
