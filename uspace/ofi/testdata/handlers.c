/* handlers.c: prints what the C library's functions that install handlers of signals do, but for
 * SA_ONSTACK, and at the end how many handlers lack that. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>

static int lacking;

static void first(int number) { (void)number; }
static void second(int number) { (void)number; }

static const char *name(void (*handler)(int))
{
	return handler == SIG_DFL ? "default" : handler == SIG_IGN ? "ignore" : handler == SIG_ERR ? "error" :
		handler == SIG_HOLD ? "hold" : handler == first ? "first" : handler == second ? "second" : "another";
}

/* A function returned what was there before. */
static void after(const char *function, int number, void (*was)(int))
{
	struct sigaction a;
	sigset_t blocked;
	printf("%s(%d) returned %s", function, number, name(was));
	if (was == SIG_ERR)
		printf(", errno %d", errno);
	if (sigaction(number, NULL, &a) == 0 && sigprocmask(SIG_BLOCK, NULL, &blocked) == 0) {
		lacking += a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN && (a.sa_flags & SA_ONSTACK) == 0;
		printf("; now %s, flags 0x%x, itself in mask %d, blocked %d", name(a.sa_handler), a.sa_flags & ~SA_ONSTACK,
			sigismember(&a.sa_mask, number), sigismember(&blocked, number));
	}
	printf("\n");
}

#define TRY(function, number, handler) after(#function, number, function(number, handler))

int main(void)
{
	struct sigaction a = { .sa_handler = first, .sa_flags = SA_RESTART };
	(void)sigaction(SIGUSR1, &a, NULL);
	TRY(signal, SIGUSR1, second);
	TRY(signal, SIGUSR1, SIG_IGN);
	TRY(ssignal, SIGUSR1, first);
	(void)siginterrupt(SIGUSR1, 1);
	TRY(signal, SIGUSR1, second);
	(void)siginterrupt(SIGUSR1, 0);
	TRY(signal, SIGUSR1, first);
	TRY(sysv_signal, SIGUSR1, second);
	TRY(__sysv_signal, SIGUSR1, SIG_DFL);
	TRY(sigset, SIGUSR2, first);
	TRY(sigset, SIGUSR2, SIG_HOLD);
	TRY(sigset, SIGUSR2, second);
	TRY(sigset, SIGUSR2, SIG_IGN);
	TRY(signal, SIGRTMAX, first);
	TRY(signal, 0, first);
	TRY(signal, 1000, first);
	TRY(sigset, -1, first);
	TRY(signal, SIGKILL, first);
	TRY(signal, SIGUSR1, SIG_ERR);
	TRY(sysv_signal, SIGUSR1, SIG_ERR);
	a.sa_flags = SA_RESTART | SA_SIGINFO | SA_RESETHAND;
	if (sigaction(SIGUSR1, &a, NULL) != 0 || sigaction(1000, &a, NULL) == 0)
		return 1;
	after("sigaction", SIGUSR1, first);
	fprintf(stderr, "%d handlers lack it\n", lacking);
	return 0;
}
