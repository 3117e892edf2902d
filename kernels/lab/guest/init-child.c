// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The l4sbench authors
/*
 * Children of lab-init.
 *
 * A child's output goes to memory first, and to the trial's folder when the child
 * has ended. Programs such as tc do not check whether their output was written;
 * lab-init does, so a file in the trial's folder is whole or the trial failed.
 */

#include "init-child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "init-trial.h"
#include "util.h"

#define GRACE_NS	(2 * NSEC_PER_SEC) /* at the end, for children to end by themselves */
#define KILL_GRACE_NS	(1 * NSEC_PER_SEC) /* between SIGTERM and SIGKILL */
#define DEFAULT_SLACK	50000UL		   /* ns; the kernel's default for a process */
#define FAILED_TO_START 127
#define STACK_SIZE	(64 * 1024) /* of a child before exec */
#define MOST_OPEN	(1 << 20)   /* two files of memory per child */
#define STDERR_SHOWN	2048	    /* bytes of a child's stderr in its status line */

static struct child *children; /* all that were started, in that order */
static sigset_t before;	       /* the signal mask that children start with */
static struct rlimit files;    /* the limit of open files that children start with */

/* PATH and two instants: T0 in LAB_T0_NS, the child's planned start in LAB_START_NS. */
static char **environment(const struct child *child)
{
	static char t0[40], start[40];
	static char *env[] = {
		"PATH=" SEARCH_PATH, "HOME=/root", "LC_ALL=C", "TERM=linux", t0, start, NULL,
	};
	int n = 4;

	env[4] = env[5] = NULL;
	if (t0_ns != NO_TIME) {
		snprintf(t0, sizeof(t0), "LAB_T0_NS=%lld", (long long)t0_ns);
		env[n++] = t0;
	}
	if (child->kind == AT) {
		snprintf(start, sizeof(start), "LAB_START_NS=%lld", (long long)child->due_ns);
		env[n++] = start;
	}
	return env;
}

/* Input of a child before exec, and its error if it does not get that far. */
struct birth {
	const struct child *child;
	int in;
	char **env;
	int error; /* errno */
};

/*
 * The child until exec. It shares our memory and has its own stack, so it makes
 * system calls and changes nothing but its birth's error.
 */
static int become(void *data)
{
	struct birth *birth = data;
	const struct child *child = birth->child;

	if (setns(child->netns, CLONE_NEWNET) == 0 && dup2(birth->in, STDIN_FILENO) >= 0 &&
	    dup2(child->out, STDOUT_FILENO) >= 0 && dup2(child->err, STDERR_FILENO) >= 0) {
		setsid();
		prctl(PR_SET_TIMERSLACK, DEFAULT_SLACK, 0, 0, 0);
		sigprocmask(SIG_SETMASK, &before, NULL);
		prlimit(0, RLIMIT_NOFILE, &files, NULL);
		execvpe(child->argv[0], child->argv, birth->env);
	}
	birth->error = errno;
	_exit(FAILED_TO_START);
}

static int memory_file(int line, const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0)
		fail(line, "memfd_create: %s", strerror(errno));
	return fd;
}

/* Like vfork(), without a copy of our memory, which exec would discard at once. */
void child_start(struct child *child)
{
	static char stack[STACK_SIZE] __attribute__((aligned(16)));
	const char *in_path = child->in_path ? full_path(child->in_path) : "/dev/null";
	struct birth birth = { .child = child, .env = environment(child) };
	struct child **end = &children;

	birth.in = open(in_path, O_RDONLY | O_CLOEXEC);
	if (birth.in < 0)
		fail(child->line, "cannot read %s: %s", in_path, strerror(errno));
	child->out = memory_file(child->line, "stdout");
	child->err = memory_file(child->line, "stderr");
	child->start_ns = now_ns();
	child->pid = clone(become, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
	if (child->pid < 0)
		fail(child->line, "clone: %s", strerror(errno));
	close(birth.in);
	if (birth.error) {
		waitpid(child->pid, NULL, 0);
		fail(child->line, "cannot run %s: %s", child->argv[0], strerror(birth.error));
	}
	while (*end)
		end = &(*end)->next;
	*end = child;
}

/* Record which children have ended; ignore orphans that they left to us. */
static bool reap(void)
{
	bool found = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (struct child *c = children; c; c = c->next) {
			if (c->pid != pid)
				continue;
			c->pid = 0;
			c->ended = true;
			c->wait_status = status;
			found = true;
		}
	}
	return found;
}

bool wait_until(int64_t until_ns)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	for (;;) {
		struct timespec left;
		int64_t left_ns;

		if (reap())
			return true;
		left_ns = until_ns - now_ns();
		if (left_ns <= 0)
			return false;
		left.tv_sec = left_ns / NSEC_PER_SEC;
		left.tv_nsec = left_ns % NSEC_PER_SEC;
		sigtimedwait(&mask, NULL, &left);
	}
}

const struct child *first_running(enum kind kind)
{
	for (const struct child *c = children; c; c = c->next)
		if (c->pid && c->kind == kind)
			return c;
	return NULL;
}

/* -- outputs -------------------------------------------------------------------- */

/* Write the content of memory file @from to @file. Returns 0 or a negative errno. */
static int save(int from, const char *file)
{
	static char buffer[64 * 1024];
	ssize_t n;
	off_t at = 0;
	int error = 0;
	int to = create_output(file);

	if (to < 0)
		return to;
	while (!error && (n = pread(from, buffer, sizeof(buffer), at)) != 0) {
		error = n < 0 ? -errno : write_all(to, buffer, n);
		at += n;
	}
	if (close(to) < 0 && !error)
		error = -errno;
	return error;
}

static void save_or_fail(const struct child *child, int from, const char *file)
{
	int error;

	if (!file)
		return;
	error = save(from, file);
	if (error)
		fail(child->line, "cannot write %s: %s", file, strerror(-error));
}

/* The last bytes that a child wrote to stderr, without the final newline. */
static ssize_t last_words(int fd, char *buffer, size_t size)
{
	off_t length = lseek(fd, 0, SEEK_END);
	off_t from = length > (off_t)size ? length - (off_t)size : 0;
	ssize_t n = pread(fd, buffer, size, from);

	while (n > 0 && buffer[n - 1] == '\n')
		n--;
	return n < 0 ? 0 : n;
}

/* Exit code as a shell reports it: 128 + signal if a signal ended the child. */
static int exit_code(const struct child *child)
{
	if (WIFSIGNALED(child->wait_status))
		return 128 + WTERMSIG(child->wait_status);
	return WEXITSTATUS(child->wait_status);
}

static void child_finish(struct child *child)
{
	static const char *const kinds[] = { "run", "daemon", "at" };
	char words[STDERR_SHOWN];
	ssize_t length = last_words(child->err, words, sizeof(words));
	bool ok = child->killed || child->wait_status == 0;
	struct text t = { 0 };

	save_or_fail(child, child->out, child->out_path);
	save_or_fail(child, child->err, child->err_path);
	close(child->out);
	close(child->err);
	child->out = child->err = -1;

	text_puts(&t, "{");
	text_field_s64(&t, "line", child->line);
	text_field_json(&t, "step", kinds[child->kind]);
	text_field_json(&t, "program", child->argv[0]);
	text_field(&t, "ok");
	text_puts(&t, ok ? "true" : "false");
	text_field_s64(&t, "exit", exit_code(child));
	if (child->killed) {
		text_field(&t, "killed");
		text_puts(&t, "true");
	}
	text_field_s64(&t, "start_ns", child->start_ns);
	text_field(&t, "stderr");
	text_json(&t, words, length);
	text_puts(&t, "}\n");
	status_line(&t);
	free(t.data);
	if (!ok)
		fail(child->line, "%s ended with code %d: %.*s", child->argv[0], exit_code(child),
		     (int)length, words);
}

void finish_ended(void)
{
	for (struct child **c = &children; *c;) {
		struct child *child = *c;

		if (!child->ended) {
			c = &child->next;
			continue;
		}
		*c = child->next;
		child_finish(child);
	}
}

/* -- the end ---------------------------------------------------------------------- */

static void signal_all(int signal)
{
	for (struct child *c = children; c; c = c->next) {
		if (!c->pid)
			continue;
		c->killed = true;
		kill(c->pid, signal);
	}
}

static void wait_for_all(int64_t until_ns)
{
	while (children && wait_until(until_ns))
		finish_ended();
}

void stop_all(void)
{
	wait_for_all(now_ns() + GRACE_NS);
	signal_all(SIGTERM);
	wait_for_all(now_ns() + KILL_GRACE_NS);
	signal_all(SIGKILL);
	wait_for_all(now_ns() + KILL_GRACE_NS);
}

/* Kill all children at once and keep what they wrote to stderr. */
static void kill_all(void)
{
	for (struct child *c = children; c; c = c->next) {
		if (c->pid)
			kill(c->pid, SIGKILL);
		if (c->err >= 0 && c->err_path)
			save(c->err, c->err_path);
	}
}

void children_prepare(void)
{
	const struct rlimit most = { MOST_OPEN, MOST_OPEN };
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, &before);
	prlimit(0, RLIMIT_NOFILE, &most, &files);
	on_failure(kill_all);
}
