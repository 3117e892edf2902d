/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/*
 * The trial as a whole: its start instant, its status file and its end. The
 * lowest part of lab-init: init-child, init-port, init-read, init-step and
 * lab-init build on it, in this order, and it calls none of them.
 */
#ifndef LAB_INIT_TRIAL_H
#define LAB_INIT_TRIAL_H

#include <stdint.h>

#include "text.h"

#define TRIAL_DIR "/trial"
#define NO_TIME	  (-1LL) /* an instant that is not known or never comes */

extern int64_t t0_ns; /* start instant; NO_TIME before the start instruction */

/* The path of @file in the guest: the trial's folder unless it is absolute. Valid until the next
 * call. */
const char *full_path(const char *file);

/* Create @file, and the folders above it as needed. Returns a descriptor or a negative errno. */
int create_output(const char *file);

/* Create the status file in TRIAL_DIR, which is @folder on the host. */
void open_status(const char *folder);

/* Append one line to the status file. Fails the trial if it cannot. */
void status_line(const struct text *line);

/* Have @cleanup called once if the trial fails, before the last status line. */
void on_failure(void (*cleanup)(void));

/* Fail the trial: write the reason to the status file and power off. */
void fail(int line, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* End a trial that went well: write the last status line and power off. */
void succeed(void) __attribute__((noreturn));

#endif
