package proc

/*
#include <signal.h>

static unsigned long long ignored;

// The Go runtime takes most signals before any of its code can look, so that what was ignored is known only before it runs.
__attribute__((constructor)) static void look(void) {
	struct sigaction sa;
	for (int s = 1; s < 32; s++)
		if (sigaction(s, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			ignored |= 1ull << (s - 1);
}

static unsigned long long ignored_at_start(void) { return ignored; }
*/
import "C"

import "sync"

// ignoredAtStart are the signals that this process was started with ignored. Signal n is bit n-1.
var ignoredAtStart = sync.OnceValue(func() uint64 { return uint64(C.ignored_at_start()) })
