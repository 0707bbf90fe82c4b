/* guest.h: what each function of a library in Go does first that a program in C calls. doc.go has
 * the rules, and what they are for. */
#ifndef GUEST_H
#define GUEST_H

#include <stdatomic.h>

extern atomic_int guest_forked;          /* this process is a child of fork */
extern _Thread_local int guest_crossed;  /* the thread has been in Go */

/* Gives a thread that crosses for the first time an alternative signal stack, if it has none. */
void guest_first(void);

/* Adds SA_ONSTACK to all handlers of signals that lack it. */
void guest_on_stack(void);

/* Reports whether the thread runs a handler of a signal on its alternative stack. It may have come
 * from within a crossing then, so it must not cross. */
int guest_in_handler(void);

/* Reports whether this process is a child of fork. */
static inline int guest_child(void)
{
	return __builtin_expect(atomic_load_explicit(&guest_forked, memory_order_relaxed), 0);
}

/* Returns 0 if the thread may cross, and -1 in a child of fork, which has none of Go's threads. */
static inline int guest_enter(void)
{
	if (guest_child())
		return -1;
	if (__builtin_expect(!guest_crossed, 0))
		guest_first();
	return 0;
}

#endif
