// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors

#include "init-read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "init-port.h"
#include "init-trial.h"
#include "text.h"
#include "util.h"

/* Read a file of /proc or /sys, without its last newline, and end it with NUL. */
static void read_value(int line, const char *path, char *value, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, value, size - 1);

	if (length < 0)
		fail(line, "cannot read %s: %s", path, strerror(errno));
	close(fd);
	if (length && value[length - 1] == '\n')
		length--;
	value[length] = '\0';
}

static void print_kernel(struct text *out)
{
	struct utsname name;

	uname(&name);
	text_printf(out, "%s %s %s %s %s GNU/Linux\n", name.sysname, name.nodename, name.release,
		    name.version, name.machine);
}

static void print_sysctls(int line, char **names, struct text *out)
{
	char path[512], value[4096];

	for (; *names; names++) {
		size_t length = snprintf(path, sizeof(path), "/proc/sys/%s", *names);

		if (length >= sizeof(path))
			fail(line, "no sysctl %s", *names);
		for (char *c = path + strlen("/proc/sys/"); *c; c++)
			if (*c == '.')
				*c = '/';
		read_value(line, path, value, sizeof(value));
		text_printf(out, "%s = %s\n", *names, value);
	}
}

/* All files that can be read in a folder of /sys. */
static void print_files(int line, const char *folder, struct text *out)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, NULL, alphasort);
	char path[4096], value[4096];

	if (count < 0)
		fail(line, "cannot read %s: %s", folder, strerror(errno));
	for (int i = 0; i < count; i++) {
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		free(entries[i]);
		if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0444))
			continue;
		read_value(line, path, value, sizeof(value));
		text_printf(out, "%s:%s\n", path, value);
	}
	free(entries);
}

void read_facts(int line, const char *file, char **argv)
{
	struct text out = { 0 };
	int error;
	int fd;

	if (!strcmp(argv[0], "uname") && argv[1] && !strcmp(argv[1], "-a") && !argv[2])
		print_kernel(&out);
	else if (!strcmp(argv[0], "sysctl"))
		print_sysctls(line, argv + 1, &out);
	else if (!strcmp(argv[0], "ethtool") && argv[1] && !strcmp(argv[1], "-k") && argv[2] &&
		 !argv[3])
		print_offloads(line, argv[2], &out);
	else if (!strcmp(argv[0], "grep") && argv[1] && !strcmp(argv[1], "-r") && argv[2] &&
		 !*argv[2] && argv[3] && !argv[4])
		print_files(line, argv[3], &out);
	else
		fail(line, "cannot read what %s prints", argv[0]);
	fd = create_output(file);
	error = fd < 0 ? fd : write_all(fd, out.data, out.length);
	if (fd >= 0 && close(fd) < 0 && !error)
		error = -errno;
	if (error)
		fail(line, "cannot write %s: %s", file, strerror(-error));
	free(out.data);
}
