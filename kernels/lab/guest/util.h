/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/*
 * Shared by lab-init, lab-traffic and lab-sampler: the clock, whole reads and
 * writes, numbers from the command line, exit with a message.
 *
 * As in the kernel, functions that can fail return 0 or a count on success and a
 * negative errno on failure.
 */
#ifndef LAB_UTIL_H
#define LAB_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NSEC_PER_SEC  1000000000LL
#define NSEC_PER_MSEC 1000000LL
#define NSEC_PER_USEC 1000LL

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Where lab-traffic's sender writes the start instant of its flow, by port. */
#define LAB_FLOW_DIR "/run/lab-flow"

/* The program's name, which begins every message of die(). */
extern const char *program;

/* CLOCK_MONOTONIC in ns. */
int64_t now_ns(void);

/* Sleep until CLOCK_MONOTONIC reaches @when_ns; return at once if it has. */
void sleep_until(int64_t when_ns);

/*
 * Make sleeps end on time. By default the kernel may let them end 50 us late, and
 * in virtual time, where nothing else wakes the machine, they always would.
 */
void exact_sleeps(void);

/* Print "PROGRAM: MESSAGE" to stderr and exit with code 1. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Like die(), followed by ": " and the text of @error (a positive errno). */
void die_errno(int error, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* Write all @length bytes, or fail: a short write is -ENOSPC. */
int write_all(int fd, const void *data, size_t length);

/* Read all of @path into new memory and append a NUL. Returns its length. */
ssize_t read_whole(const char *path, char **data);

/* Parse a whole decimal number; false if @text is not one or does not fit. */
bool parse_int64(const char *text, int64_t *value);

/* Parse decimal seconds such as "60" or "0.1" exactly into ns. */
bool parse_seconds(const char *text, int64_t *ns);

#endif
