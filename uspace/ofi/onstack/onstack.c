/* onstack.c: a library to be preloaded (LD_PRELOAD), libfunet-onstack.so (make ofi). It adds
 * SA_ONSTACK to each handler of a signal that the program installs, by any function of the C
 * library that does that.
 *
 * A handler without SA_ONSTACK runs on the current stack of its thread. Within a crossing into Go
 * that is the small stack of a goroutine. Package guest corrects the handlers that exist when a
 * library in Go opens something. This library corrects those that come later. A thread without an
 * alternative stack runs its handlers where it did before. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

typedef int change(int, const struct sigaction *, struct sigaction *);

/* The sigaction of the C library, or of another library that is preloaded; NULL: not looked up. */
static _Atomic(change *) next;

/* The constructor below looks it up, but constructors of other libraries may come before. */
static change *looked_up(void)
{
	change *f = atomic_load_explicit(&next, memory_order_relaxed);
	if (f == NULL) {
		*(void **)&f = dlsym(RTLD_NEXT, "sigaction");
		atomic_store_explicit(&next, f, memory_order_relaxed);
	}
	return f;
}

__attribute__((constructor(101))) static void loaded(void) { (void)looked_up(); }

static int is_function(void (*handler)(int))
{
	return handler != SIG_DFL && handler != SIG_IGN && handler != SIG_ERR;
}

EXPORTED int sigaction(int number, const struct sigaction *to, struct sigaction *was)
{
	struct sigaction corrected;
	change *f = looked_up();

	if (f == NULL) {
		errno = ENOSYS;
		return -1;
	}
	if (to != NULL && is_function(to->sa_handler) && (to->sa_flags & SA_ONSTACK) == 0) {
		corrected = *to;
		corrected.sa_flags |= SA_ONSTACK;
		to = &corrected;
	}
	return f(number, to, was);
}

/* Signals whose handlers signal installs without SA_RESTART, as siginterrupt has asked for. */
static atomic_ulong interrupting;

static unsigned long bit(int number)
{
	return number > 0 && number <= (int)(8 * sizeof(unsigned long)) ? 1UL << (number - 1) : 0;
}

/* The functions below install handlers within the C library, past sigaction. So they are here anew,
 * as their manual pages have them. */

static sighandler_t install(int number, sighandler_t handler, int flags, int blocks_itself)
{
	struct sigaction to = { .sa_handler = handler, .sa_flags = flags }, was;

	(void)sigemptyset(&to.sa_mask);
	if (handler == SIG_ERR || (blocks_itself && sigaddset(&to.sa_mask, number) != 0)) {
		errno = EINVAL;
		return SIG_ERR;
	}
	return sigaction(number, &to, &was) == 0 ? was.sa_handler : SIG_ERR;
}

EXPORTED sighandler_t signal(int number, sighandler_t handler)
{
	return install(number, handler, atomic_load(&interrupting) & bit(number) ? 0 : SA_RESTART, 1);
}

EXPORTED sighandler_t bsd_signal(int number, sighandler_t handler) { return signal(number, handler); }
EXPORTED sighandler_t ssignal(int number, sighandler_t handler) { return signal(number, handler); }

EXPORTED sighandler_t sysv_signal(int number, sighandler_t handler)
{
	return install(number, handler, SA_RESETHAND | SA_NODEFER, 0);
}

/* What signal is in programs that ask for System V's (feature_test_macros(7)). */
EXPORTED sighandler_t __sysv_signal(int number, sighandler_t handler) { return sysv_signal(number, handler); }

EXPORTED int siginterrupt(int number, int interrupts)
{
	struct sigaction a;

	if (sigaction(number, NULL, &a) != 0)
		return -1;
	if (interrupts) {
		(void)atomic_fetch_or(&interrupting, bit(number));
		a.sa_flags &= ~SA_RESTART;
	} else {
		(void)atomic_fetch_and(&interrupting, ~bit(number));
		a.sa_flags |= SA_RESTART;
	}
	return sigaction(number, &a, NULL);
}

EXPORTED sighandler_t sigset(int number, sighandler_t handler)
{
	sigset_t one, blocked;
	sighandler_t was;

	(void)sigemptyset(&one);
	if (handler == SIG_ERR || sigaddset(&one, number) != 0) {
		errno = EINVAL;
		return SIG_ERR;
	}
	if (handler == SIG_HOLD) {
		struct sigaction a;
		if (sigprocmask(SIG_BLOCK, &one, &blocked) != 0 || sigaction(number, NULL, &a) != 0)
			return SIG_ERR;
		was = a.sa_handler;
	} else {
		was = install(number, handler, 0, 0);
		if (was == SIG_ERR || sigprocmask(SIG_UNBLOCK, &one, &blocked) != 0)
			return SIG_ERR;
	}
	return sigismember(&blocked, number) == 1 ? SIG_HOLD : was;
}
