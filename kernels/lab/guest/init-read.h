/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/*
 * Settings of the machine and of the network namespace that lab-init is in, in
 * the words of the program that prints them elsewhere.
 */
#ifndef LAB_INIT_READ_H
#define LAB_INIT_READ_H

/*
 * Write to @file what `uname -a`, `sysctl NAME...`, `ethtool -k IFNAME` (offloads that
 * set_offloads() knows) or `grep -r "" FOLDER` prints, without starting it. Fails the trial if it
 * cannot.
 */
void read_facts(int line, const char *file, char **argv);

#endif
