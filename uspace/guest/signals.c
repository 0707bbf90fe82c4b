/* signals.c: what happens when the library is loaded, and handlers of signals. */
#define _GNU_SOURCE
#include "guest.h"

#include <pthread.h>
#include <signal.h>

static sigset_t before; /* signals that were blocked before */

static void child(void) { atomic_store_explicit(&guest_forked, 1, memory_order_relaxed); }

/* Go's threads take over the blocked signals of the thread that loads the library, as Go's
 * constructor comes between these two. So handlers of the program run on threads of the program
 * only. The stacks of Go's threads for that are small, and nobody can give them others. SIGURG is
 * Go's own; it unblocks those of faults itself.
 *
 * A linker takes this file from the static library after that of Go's constructor: nothing but Go
 * refers to what is here. */
__attribute__((constructor(101))) static void block_signals(void)
{
	sigset_t all;
	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGURG);
	(void)pthread_sigmask(SIG_BLOCK, &all, &before);
}

__attribute__((constructor)) static void loaded(void)
{
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_atfork(NULL, NULL, child); /* Go's threads are there, and no child has them */
}

void guest_on_stack(void)
{
	struct sigaction a;
	for (int s = 1; s < NSIG; s++)
		if (sigaction(s, NULL, &a) == 0 && a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN &&
		    (a.sa_flags & SA_ONSTACK) == 0) {
			a.sa_flags |= SA_ONSTACK;
			(void)sigaction(s, &a, NULL);
		}
}
