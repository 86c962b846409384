package proc

/*
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

// Below this a Go runtime with C threads reserves more addresses than it may, and dies before main, or later. Measured with
// go1.26 on linux/amd64: at 1.9 GiB one start in three fails, at 2.2 GiB none in fifty.
#define ENOUGH (2304ul << 20)

// The same of memory that is written to. Measured: at 170 MiB launch dies in the middle of a run, at 200 MiB never.
#define ENOUGH_DATA (256ul << 20)

// Flags of launch of which the value may be a plain word, as a command's name is.
static int takes_word(const char *flag) {
	static const char *const flags[] = {"--allow", "--device", "--plugin", "--json-file", "--state-dir"};
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (strcmp(flag, flags[i]) == 0)
			return 1;
	return 0;
}

extern char **environ;

// The kernel puts argc, the arguments, NULL and the environment into memory one after the other. Of the C libraries
// only
// glibc passes the arguments to a constructor, which runs before the Go runtime does.
static char **arguments(long *argc) {
	char **first = environ - 1;
	for (*argc = 0; (long)first[-1] != *argc; first--)
		++*argc;
	return first;
}

// too_small reports whether a limit is less than launch needs, and keeps it.
static int too_small(int what, rlim_t enough, rlim_t *is) {
	struct rlimit l;
	if (getrlimit(what, &l) != 0 || l.rlim_cur >= enough)
		return 0;
	*is = l.rlim_cur;
	return 1;
}

__attribute__((constructor)) static void small(void) {
	rlim_t is, enough = ENOUGH;
	const char *what = "addresses", *option = "-v";
	long i, argc;
	char **argv;
	if (getenv("LAUNCH_PLUGIN"))
		return;
	if (!too_small(RLIMIT_AS, ENOUGH, &is)) {
		if (!too_small(RLIMIT_DATA, ENOUGH_DATA, &is))
			return;
		enough = ENOUGH_DATA, what = "data", option = "-d";
	}
	argv = arguments(&argc);
	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *a = argv[i];
		if (strcmp(a, "-h") == 0 || strcmp(a, "--help") == 0)
			return;
		if (a[0] != '-' && a[strspn(a, "_abcdefghijklmnopqrstuvwxyz")] == 0 && !takes_word(argv[i - 1]))
			return; // a command of launch's: plan runs nothing
	}
	if (i + 1 >= argc)
		return;
	fprintf(stderr, "launch: note: %s are limited to %lu MiB (ulimit %s), and launch itself needs %lu: the program runs "
		"in place of launch: nothing is watched, and an out-of-memory is its end\n", what, (unsigned long)(is >> 20), option,
		(unsigned long)(enough >> 20));
	execvp(argv[i + 1], argv + i + 1);
	fprintf(stderr, "launch: cannot run %s: %s\n", argv[i + 1], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}
*/
import "C"
