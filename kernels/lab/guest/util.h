/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/*
 * What lab-init, lab-traffic and lab-sampler share: the clock, whole reads and
 * writes, numbers from the command line, the end with a message.
 *
 * Every function returns 0 or a count when it succeeded and a negative errno
 * when it did not, as in the kernel.
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

/* Where lab-traffic's sender leaves the start instant of its flow, by port. */
#define LAB_FLOW_DIR "/run/lab-flow"

/* The program's name, put before every message of die(). */
extern const char *program;

/* CLOCK_MONOTONIC in ns. */
int64_t now_ns(void);

/* Sleep until CLOCK_MONOTONIC reaches @when_ns; returns at once if it has. */
void sleep_until(int64_t when_ns);

/*
 * Let sleeps end on time: the kernel's default lets them end 50 us late, and in
 * virtual time, where nothing else wakes the machine, they always would.
 */
void exact_sleeps(void);

/* Print "PROGRAM: MESSAGE" on stderr and end with code 1. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* As die(), with ": " and the text of @error (an errno, positive) behind. */
void die_errno(int error, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* Write all of it, or fail: a short write is -ENOSPC. */
int write_all(int fd, const void *data, size_t length);

/* Read @path whole into fresh memory, a NUL behind it. Returns its length. */
ssize_t read_whole(const char *path, char **data);

/* Read a whole decimal number; false if @text is not one or does not fit. */
bool parse_int64(const char *text, int64_t *value);

/* Read decimal seconds such as "60" or "0.1" exactly into ns. */
bool parse_seconds(const char *text, int64_t *ns);

#endif
