/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* The parts of lab-init; lab-init.c says what it is. */
#ifndef LAB_INIT_H
#define LAB_INIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "text.h"

#define TRIAL_DIR    "/trial"
#define TOOLS_DIR    "/lab/bin"
#define NETNS_DIR    "/run/netns"
#define SEARCH_PATH  TOOLS_DIR ":/usr/sbin:/usr/bin:/sbin:/bin"
#define NO_TIME	     (-1LL) /* an instant that is not known or never comes */
#define MAX_FIELDS   256
#define STDERR_SHOWN 2048 /* bytes of a child's last words in the status line */

enum kind { RUN, DAEMON, AT };

/* A program to run and, once started, the child that runs it. */
struct child {
	enum kind kind;
	int line;	      /* of the script */
	int netns;	      /* descriptor of its network namespace */
	char **argv;	      /* ends with NULL */
	const char *in_path;  /* below the trial's folder; NULL: none */
	const char *out_path; /* likewise */
	const char *err_path;
	int64_t due_ns; /* when it is to start, AT only */

	pid_t pid; /* 0: not started, or ended */
	int out;   /* what it wrote so far, in memory */
	int err;
	int64_t start_ns; /* when it started; NO_TIME: not yet */
	bool ended;
	bool killed; /* by us, at the end */
	int wait_status;
	struct child *next;
};

/* -- lab-init.c: the end, and what is known about the trial ------------------- */

extern int64_t t0_ns; /* start instant, NO_TIME before the start instruction */

/* The trial has failed: say so in the status file and power off. */
void fail(int line, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* Append one line to the status file; not being able to is the end of the trial. */
void status_line(const struct text *line);

/* -- init-child.c: children ----------------------------------------------------- */

/* Block the signals that wait_until() takes. Once, before the first child. */
void children_prepare(void);

/* Start @child, which must stay where it is. Fails the trial if it cannot. */
void child_start(struct child *child);

/* Wait until some child has ended (true) or @until_ns has come (false). */
bool wait_until(int64_t until_ns);

/*
 * For all that have ended since the last call, in the order they were started:
 * write their outputs to the trial's folder and a line to the status file. Fails
 * the trial if a child failed or a file cannot be written.
 */
void finish_ended(void);

/* Let all children end by themselves for a while, then stop them; finish them. */
void stop_all(void);

/* Kill all children at once and leave their last words in the trial's folder. */
void kill_all(void);

/* The first child of this kind that still runs, or NULL. */
const struct child *first_running(enum kind kind);

/* -- init-step.c: instructions ---------------------------------------------------- */

/* Execute the instruction in the @count fields of script line @line. */
void step(int line, char **fields, int count);

#endif
