// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * Open files as a user without privileges:
 *
 *   nobody FILE...
 *
 * Prints a line for each: "open", or why it cannot be opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NOBODY 65534

int main(int argc, char **argv)
{
	if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0) {
		perror("nobody: cannot drop privileges");
		return 1;
	}
	for (int at = 1; at < argc; at++) {
		int fd = open(argv[at], O_RDONLY | O_CLOEXEC);

		printf("%s\n", fd < 0 ? strerror(errno) : "open");
		if (fd >= 0)
			close(fd);
	}
	return 0;
}
