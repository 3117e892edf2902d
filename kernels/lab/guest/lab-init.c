// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * lab-init: process 1 of a lab guest. It executes one trial's script and turns
 * the machine off.
 *
 * The kernel's command line hands over, as environment,
 *
 *   LAB_TRIAL   the trial's folder on the host, mounted at /trial
 *   LAB_TOOLS   a folder on the host to use instead of the guest's /lab/bin,
 *               which is searched before the usual PATH (optional)
 *   LAB_SCRIPT  the script (default /trial/script)
 *
 * (Names without a dot: the kernel takes lab.trial=... for a module's parameter
 * and drops it.) Script, outputs and status file are described in docs/guest.md.
 *
 * Nothing here runs a shell, and nothing forks that a system call can do, since
 * a fork and exec costs the host 14 ms and a system call some microseconds.
 *
 * All time limits are virtual time. Code that computes without ever sleeping
 * takes no virtual time and so is never stopped from here: whoever runs the
 * guest bounds it by a limit of wall time.
 *
 * The status file's last line, {"end":true,...}, is the only mark of a script
 * that came to its end: whatever goes wrong, a full disk under the trial's
 * folder included, either says "ok":false there or leaves the line out.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "init.h"
#include "util.h"

const char *program = "lab-init";

int64_t t0_ns = NO_TIME;
static int status_fd = -1;

static void power_off(void) __attribute__((noreturn));
static void end(const char *reason) __attribute__((noreturn));

static void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	_exit(1); /* process 1 is gone: the kernel panics, which ends the guest too */
}

/* The last line. Losing it is no silent loss: it is what makes a trial ended. */
static void end(const char *reason)
{
	struct text t = { 0 };

	text_puts(&t, "{\"end\":true");
	text_field(&t, "ok");
	text_puts(&t, reason ? "false" : "true");
	text_field_json(&t, "reason", reason ? reason : "");
	text_field(&t, "t0_ns");
	if (t0_ns == NO_TIME)
		text_puts(&t, "null");
	else
		text_s64(&t, t0_ns);
	text_puts(&t, "}\n");
	if (status_fd < 0 || write_all(status_fd, t.data, t.length) || close(status_fd) < 0)
		fprintf(stderr, "lab-init: the status file cannot be written; its end: %s", t.data);
	power_off();
}

void fail(int line, const char *format, ...)
{
	static bool failing;
	char message[4096];
	size_t length = 0;
	va_list args;

	if (failing) /* failed again while cleaning up: the first reason stands */
		power_off();
	failing = true;
	if (line)
		length = snprintf(message, sizeof(message), "line %d: ", line);
	va_start(args, format);
	vsnprintf(message + length, sizeof(message) - length, format, args);
	va_end(args);
	fprintf(stderr, "lab-init: %s\n", message);
	kill_all();
	end(message);
}

void status_line(const struct text *line)
{
	int error = write_all(status_fd, line->data, line->length);

	if (error)
		fail(0, "cannot write the status file: %s", strerror(-error));
}

/* -- boot ------------------------------------------------------------------------- */

static void mount_at(const char *type, const char *target, const char *data)
{
	if (mkdir(target, 0755) < 0 && errno != EEXIST)
		fail(0, "no mount point %s and cannot make it: %s", target, strerror(errno));
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
	status_fd = open(TRIAL_DIR "/status.jsonl", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (status_fd < 0)
		fail(0, "cannot write %s/status.jsonl: %s", trial, strerror(errno));
	if (tools && *tools)
		mount_at("hostfs", TOOLS_DIR, tools);
	if (mkdir(NETNS_DIR, 0755) < 0)
		fail(0, "cannot make " NETNS_DIR ": %s", strerror(errno));
}

/*
 * A kernel turns to high-resolution timers at its first ticks, and until then
 * /proc/net/psched tells tc of a coarse clock: HTB without a burst then gets
 * one of a whole jiffy, 14,100 bytes at 100 Mbit/s instead of 1600, and lets
 * packets pass the queue under test in bursts of nine. No tick comes while the
 * script only computes, so let some pass first.
 */
static void wait_for_timers(void)
{
	sleep_until(now_ns() + 20 * NSEC_PER_MSEC);
}

/* -- script ----------------------------------------------------------------------- */

/* Undo \\, \t and \n in place. Anything else behind a backslash is an error. */
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
				fail(line, "a backslash before neither \\, t nor n");
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
		die("is process 1 of a lab guest; it does nothing anywhere else");
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
		fail(0, "the script %s has a NUL byte in it", path);
	execute(script);
	stop_all();
	end(NULL);
}
