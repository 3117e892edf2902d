// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: The l4sbench authors
/* How long does an idle user-mode Linux take to notice its input?
 *
 *	cc -O2 -o um-wakeup um-wakeup.c
 *	./um-wakeup ./linux [rounds [option of the kernel ...]]
 *
 * It boots the kernel with the host's root as its own, read-only, and this
 * program as init, which sends each byte of its console back. The parent
 * sends a byte, waits for it, and sends the next one up to 400 us later: while
 * the guest is on its way into the idle loop. Needs neither root nor a disk.
 *
 * A host that is busy answers late as well. So what counts is a guest that
 * sleeps (state S, not R) while its input is unread, twice, 1 ms apart.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define READY	0xff	/* no byte of a kernel message has the highest bit set */
#define END	0xfe
#define GAP_US	400
#define WAIT_MS	10000

static int guest(void)
{
	struct termios tty;
	unsigned char c = READY;

	tcgetattr(0, &tty);
	cfmakeraw(&tty);
	tcsetattr(0, TCSANOW, &tty);
	do {
		if (write(1, &c, 1) != 1)
			break;
	} while (read(0, &c, 1) == 1 && c != END);
	return reboot(RB_POWER_OFF);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int to, from;	/* ends of the pipes to and from the guest's console */
static pid_t linux_pid;

/* Is there input that the guest has not read, and does it sleep? */
static int sleeps_on_input(void)
{
	char path[64], state = 0;
	int unread = 0;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", linux_pid);
	stat = fopen(path, "r");
	if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
		exit(1);
	fclose(stat);
	ioctl(to, FIONREAD, &unread);
	return unread && state == 'S';
}

/* Wait until the guest has sent @wanted; kernel messages come in between.
 * Return whether it slept on its input before.
 */
static int expect(unsigned char wanted)
{
	struct pollfd pfd = { .fd = from, .events = POLLIN };
	int slept = 0, most = 0, waited_ms = 0;
	unsigned char c = 0;

	while (c != wanted) {
		if (poll(&pfd, 1, 1) == 1) {
			if (read(from, &c, 1) != 1)
				exit(1);
			continue;
		}
		if (++waited_ms > WAIT_MS) {
			fprintf(stderr, "no answer within %d ms\n", WAIT_MS);
			exit(1);
		}
		slept = sleeps_on_input() ? slept + 1 : 0;
		if (slept > most)
			most = slept;
	}
	return most > 1;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(int rounds)
{
	double *us = calloc(rounds, sizeof(*us)), start, lost_us = 0;
	int i, lost = 0;

	expect(READY);
	for (i = 0; i < rounds; i++) {
		unsigned char c = 0x80 | (i & 0x3f);

		start = now_us() + rand() % GAP_US;
		while (now_us() < start)
			;
		start = now_us();
		if (write(to, &c, 1) != 1)
			exit(1);
		if (expect(c)) {
			lost++;
			lost_us += now_us() - start;
		}
		us[i] = now_us() - start;
	}
	qsort(us, rounds, sizeof(*us), compare);
	printf("%d rounds: median %.0f us, 99 %% %.1f ms, most %.1f ms; ", rounds, us[rounds / 2],
	       us[(long)rounds * 99 / 100] / 1000, us[rounds - 1] / 1000);
	printf("slept on input %d times, for %.1f ms on average\n", lost,
	       lost ? lost_us / lost / 1000 : 0);
	free(us);
}

int main(int argc, char **argv)
{
	static char init[4096] = "init=";
	char *args[64] = {
		argv[1], "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"mem=64M", "quiet", "con0=fd:0,fd:1", "con=null", init,
	};
	int in[2], out[2], i, n = 10;
	unsigned char end = END;

	if (getpid() == 1)
		return guest();
	if (argc < 2) {
		fprintf(stderr, "usage: %s LINUX [ROUNDS [OPTION ...]]\n", argv[0]);
		return 2;
	}
	if (readlink("/proc/self/exe", init + 5, sizeof(init) - 6) < 0 || pipe(in) || pipe(out))
		return 1;
	for (i = 3; i < argc && n < 63; i++)
		args[n++] = argv[i];
	to = in[1];
	from = out[0];
	linux_pid = fork();
	if (linux_pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(to);
		close(from);
		execv(argv[1], args);
		_exit(127);
	}
	close(out[1]);
	measure(argc > 2 ? atoi(argv[2]) : 10000);
	if (write(to, &end, 1) != 1)
		return 1;
	waitpid(linux_pid, NULL, 0);
	return 0;
}
