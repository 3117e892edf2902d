// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

void sleep_until(int64_t when_ns)
{
	struct timespec t = {
		.tv_sec = when_ns / NSEC_PER_SEC,
		.tv_nsec = when_ns % NSEC_PER_SEC,
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

void exact_sleeps(void)
{
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

static void message(const char *format, va_list args)
{
	fprintf(stderr, "%s: ", program);
	vfprintf(stderr, format, args);
}

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message(format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void die_errno(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message(format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(error));
	exit(1);
}

int write_all(int fd, const void *data, size_t length)
{
	const char *rest = data;

	while (length) {
		ssize_t n = write(fd, rest, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -ENOSPC;
		rest += n;
		length -= n;
	}
	return 0;
}

ssize_t read_whole(const char *path, char **data)
{
	struct stat st;
	ssize_t length = 0;
	ssize_t n;
	int fd;

	*data = NULL;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		goto failed;
	*data = malloc(st.st_size + 1);
	if (!*data)
		goto failed;
	while (length < st.st_size) {
		n = read(fd, *data + length, st.st_size - length);
		if (n < 0)
			goto failed;
		if (!n)
			break;
		length += n;
	}
	(*data)[length] = '\0';
	close(fd);
	return length;

failed:
	n = -errno;
	free(*data);
	*data = NULL;
	close(fd);
	return n;
}

bool parse_int64(const char *text, int64_t *value)
{
	char *end;

	if (*text != '-' && (*text < '0' || *text > '9'))
		return false;
	errno = 0;
	*value = strtoll(text, &end, 10);
	return !errno && end != text && !*end;
}

bool parse_seconds(const char *text, int64_t *ns)
{
	int64_t whole = 0;
	int64_t part = 0;
	int64_t unit = NSEC_PER_SEC;
	const char *c = text;

	for (; *c >= '0' && *c <= '9'; c++) {
		whole = whole * 10 + (*c - '0');
		if (whole > INT64_MAX / NSEC_PER_SEC / 10)
			return false;
	}
	if (c == text)
		return false;
	if (*c == '.') {
		for (c++; *c >= '0' && *c <= '9' && unit > 1; c++) {
			unit /= 10;
			part += (*c - '0') * unit;
		}
	}
	*ns = whole * NSEC_PER_SEC + part;
	return !*c;
}
