// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

#include "init-trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

int64_t t0_ns = NO_TIME;
static int status_fd = -1;
static void (*cleanup_after_failure)(void);

static void power_off(void) __attribute__((noreturn));
static void end(const char *reason) __attribute__((noreturn));

static void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	_exit(1); /* process 1 is gone: the kernel panics, which ends the guest too */
}

/* Write the last line. If it is lost, the trial counts as not ended. */
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
		fprintf(stderr, "lab-init: cannot write the status file; its end: %s", t.data);
	power_off();
}

const char *full_path(const char *file)
{
	static char path[4096];

	if (*file == '/')
		return file;
	snprintf(path, sizeof(path), TRIAL_DIR "/%s", file);
	return path;
}

/* Make the folders above @path. A failure shows when the file is opened. */
static void make_parents(const char *path)
{
	char folder[4096];

	snprintf(folder, sizeof(folder), "%s", path);
	for (char *c = folder + 1; *c; c++) {
		if (*c == '/') {
			*c = '\0';
			mkdir(folder, 0755);
			*c = '/';
		}
	}
}

int create_output(const char *file)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
	const char *path = full_path(file);
	int fd = open(path, flags, 0644);

	if (fd < 0 && errno == ENOENT) {
		make_parents(path);
		fd = open(path, flags, 0644);
	}
	return fd < 0 ? -errno : fd;
}

void open_status(const char *folder)
{
	status_fd = open(TRIAL_DIR "/status.jsonl", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (status_fd < 0)
		fail(0, "cannot write %s/status.jsonl: %s", folder, strerror(errno));
}

void status_line(const struct text *line)
{
	int error = write_all(status_fd, line->data, line->length);

	if (error)
		fail(0, "cannot write the status file: %s", strerror(-error));
}

void on_failure(void (*cleanup)(void))
{
	cleanup_after_failure = cleanup;
}

void fail(int line, const char *format, ...)
{
	static bool failing;
	char message[4096];
	size_t length = 0;
	va_list args;

	if (failing) /* failed again while cleaning up: keep the first reason */
		power_off();
	failing = true;
	if (line)
		length = snprintf(message, sizeof(message), "line %d: ", line);
	va_start(args, format);
	vsnprintf(message + length, sizeof(message) - length, format, args);
	va_end(args);
	fprintf(stderr, "lab-init: %s\n", message);
	if (cleanup_after_failure)
		cleanup_after_failure();
	end(message);
}

void succeed(void)
{
	end(NULL);
}
