/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The l4sbench authors */
/* Child processes of lab-init: starting them, waiting for them, keeping their output. */
#ifndef LAB_INIT_CHILD_H
#define LAB_INIT_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TOOLS_DIR   "/lab/bin"
#define SEARCH_PATH TOOLS_DIR ":/usr/sbin:/usr/bin:/sbin:/bin"

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
	int64_t due_ns; /* planned start, AT only */

	pid_t pid; /* 0: not started, or ended */
	int out;   /* what it has written so far, in memory */
	int err;
	int64_t start_ns; /* when it started; NO_TIME: not yet */
	bool ended;
	bool killed; /* by us, at the end */
	int wait_status;
	struct child *next;
};

/*
 * Block the signals that wait_until() waits for, and have all children killed
 * if the trial fails. Call once, before the first child.
 */
void children_prepare(void);

/* Start @child, which must stay at its address. Fails the trial if it cannot. */
void child_start(struct child *child);

/* Wait until a child has ended (true) or @until_ns has come (false). */
bool wait_until(int64_t until_ns);

/*
 * For all that have ended since the last call, in the order they were started:
 * write their outputs to the trial's folder and a line to the status file. Fails
 * the trial if a child failed or a file cannot be written.
 */
void finish_ended(void);

/* Give all children time to end by themselves, then stop them; finish them. */
void stop_all(void);

/* The first child of this kind that is still running, or NULL. */
const struct child *first_running(enum kind kind);

#endif
