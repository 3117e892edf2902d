// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * lab-init: process 1 of a lab guest. It executes one trial's script and turns
 * the machine off.
 *
 * The kernel's command line sets these environment variables:
 *
 *   LAB_TRIAL   the trial's folder on the host, mounted at /trial
 *   LAB_TOOLS   a folder on the host to use instead of the guest's /lab/bin,
 *               which comes first in PATH (optional)
 *   LAB_SCRIPT  the script (default /trial/script)
 *
 * (The names have no dot: the kernel treats lab.trial=... as a module parameter
 * and drops it.) docs/guest.md describes the script, outputs and status file.
 *
 * Nothing here runs a shell, and nothing forks where a system call is enough: a
 * fork and exec costs the host 14 ms, a system call a few microseconds.
 *
 * All time limits are virtual time. Code that computes without sleeping takes no
 * virtual time and so is never stopped from here; the caller that runs the guest
 * sets a limit of wall time.
 *
 * The status file's last line, {"end":true,...}, is the only mark of a script
 * that reached its end. Any failure, including a full disk under the trial's
 * folder, either makes that line say "ok":false or leaves it out.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init-child.h"
#include "init-step.h"
#include "init-trial.h"
#include "util.h"

const char *program = "lab-init";

/* -- boot ------------------------------------------------------------------------- */

static void mount_at(const char *type, const char *target, const char *data)
{
	if (mkdir(target, 0755) < 0 && errno != EEXIST)
		fail(0, "cannot make mount point %s: %s", target, strerror(errno));
	if (mount("none", target, type, 0, data) < 0)
		fail(0, "cannot mount %s%s%s at %s: %s", type, data ? " of " : "", data ? data : "",
		     target, strerror(errno));
}

static void boot(void)
{
	const char *trial = getenv("LAB_TRIAL");
	const char *tools = getenv("LAB_TOOLS");

	umask(022);
	setenv("PATH", SEARCH_PATH, 1); /* where execvpe() looks */
	mount_at("devtmpfs", "/dev", NULL);
	mount_at("proc", "/proc", NULL);
	mount_at("sysfs", "/sys", NULL);
	mount_at("tmpfs", "/run", "mode=755");
	mount_at("tmpfs", "/tmp", "mode=1777");
	if (!trial || !*trial)
		fail(0, "LAB_TRIAL=FOLDER is not on the kernel's command line");
	mount_at("hostfs", TRIAL_DIR, trial);
	open_status(trial);
	if (tools && *tools)
		mount_at("hostfs", TOOLS_DIR, tools);
	if (mkdir(NETNS_DIR, 0755) < 0)
		fail(0, "cannot make " NETNS_DIR ": %s", strerror(errno));
}

/*
 * The kernel switches to high-resolution timers at its first ticks. Until then
 * /proc/net/psched reports a coarse clock, from which tc derives the default
 * burst of HTB: 14,100 bytes at 100 Mbit/s (one jiffy) instead of 1600, which
 * lets packets pass the queue under test in bursts of nine. No tick comes while
 * the script only computes, so let a few pass first.
 */
static void wait_for_timers(void)
{
	sleep_until(now_ns() + 20 * NSEC_PER_MSEC);
}

/* -- script ----------------------------------------------------------------------- */

/* Undo \\, \t and \n in place. Any other character after a backslash is an error. */
static void unescape(int line, char *field)
{
	char *to = field;

	for (const char *from = field; *from; from++) {
		char c = *from;

		if (c == '\\') {
			c = *++from;
			if (c == 't')
				c = '\t';
			else if (c == 'n')
				c = '\n';
			else if (c != '\\')
				fail(line, "a backslash must be followed by \\, t or n");
		}
		*to++ = c;
	}
	*to = '\0';
}

static void execute(char *script)
{
	char *fields[MAX_FIELDS + 1];
	char *next_line;

	for (int line = 1; script; script = next_line, line++) {
		int count = 0;
		char *rest = script;

		next_line = strchr(script, '\n');
		if (next_line)
			*next_line++ = '\0';
		if (!*script)
			continue;
		while (rest) {
			if (count == MAX_FIELDS)
				fail(line, "more than %d fields", MAX_FIELDS);
			fields[count++] = strsep(&rest, "\t");
		}
		for (int i = 0; i < count; i++)
			unescape(line, fields[i]);
		fields[count] = NULL;
		step(line, fields, count);
	}
}

int main(void)
{
	const char *path = getenv("LAB_SCRIPT");
	char *script;
	ssize_t length;

	if (getpid() != 1)
		die("runs only as process 1 of a lab guest");
	boot();
	wait_for_timers();
	exact_sleeps();
	children_prepare();
	if (!path || !*path)
		path = TRIAL_DIR "/script";
	length = read_whole(path, &script);
	if (length < 0)
		fail(0, "cannot read the script %s: %s", path, strerror(-length));
	if (strlen(script) != (size_t)length)
		fail(0, "the script %s contains a NUL byte", path);
	execute(script);
	stop_all();
	succeed();
}
