/* guest.c: signal stacks of threads of C; see guest.h. */
#define _GNU_SOURCE
#include "guest.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>

atomic_int guest_forked;
_Thread_local int guest_crossed;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t stacks;

/* Bytes of a thread's alternative signal stack, and of the guard below it. Go's own for threads of
 * C has 32 KiB and no guard. */
enum { STACK = 256 << 10, GUARD = 64 << 10 };

static void free_stack(void *stack)
{
	stack_t now, none = { .ss_flags = SS_DISABLE };
	if (sigaltstack(NULL, &now) == 0 && now.ss_sp == (char *)stack + GUARD)
		(void)sigaltstack(&none, NULL);
	(void)munmap(stack, GUARD + STACK);
}

static void prepare(void) { (void)pthread_key_create(&stacks, free_stack); }

void guest_first(void)
{
	stack_t now;
	guest_crossed = 1;
	(void)pthread_once(&once, prepare);
	if (sigaltstack(NULL, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0)
		return;
	char *stack = mmap(NULL, GUARD + STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stack == MAP_FAILED)
		return; /* Go's will do */
	stack_t own = { .ss_sp = stack + GUARD, .ss_size = STACK };
	if (mprotect(own.ss_sp, STACK, PROT_READ | PROT_WRITE) != 0 || pthread_setspecific(stacks, stack) != 0 ||
	    sigaltstack(&own, NULL) != 0)
		(void)munmap(stack, GUARD + STACK);
}

int guest_in_handler(void)
{
	stack_t now;
	return sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK) != 0;
}
