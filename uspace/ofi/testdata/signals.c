/* signals.c: two nodes exchange messages while their main threads take 100,000 signals. The
 * handlers were installed without SA_ONSTACK after the provider was opened. Each must run on the
 * alternative stack, because it may interrupt a goroutine. */
#include "node.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

enum { SIGNALS = 100000, DEEP = 16 << 10 };

static atomic_int taken, elsewhere;

static void handler(int number)
{
	volatile char deep[DEEP]; /* more than a goroutine has to spare */
	stack_t now;
	for (int i = 0; i < DEEP; i += 64)
		deep[i] = (char)number;
	if (sigaltstack(NULL, &now) != 0 || (now.ss_flags & SS_ONSTACK) == 0 || deep[DEEP - 64] != (char)number)
		atomic_fetch_add(&elsewhere, 1);
	atomic_fetch_add(&taken, 1);
}

/* Sends the next signal when the last was taken. */
static void *sender(void *main_thread)
{
	for (int i = 0; i < SIGNALS; i++) {
		if (pthread_kill(*(pthread_t *)main_thread, i % 2 == 0 ? SIGUSR1 : SIGUSR2) != 0)
			fail(__LINE__, "pthread_kill", "signal %d", i);
		while (atomic_load(&taken) == i)
			(void)sched_yield();
	}
	return NULL;
}

int main(void)
{
	pthread_t self = pthread_self(), thread;
	struct sigaction a = { .sa_handler = handler, .sa_flags = SA_RESTART };
	char mine = 0, others = 0;
	int rounds = 0;
	start();
	open_all(0, 0);
	barrier();
	REQUIRE(sigaction(SIGUSR1, &a, NULL) == 0 && signal(SIGUSR2, handler) != SIG_ERR, "installing handlers");
	REQUIRE(pthread_create(&thread, NULL, sender, &self) == 0, "a thread");
	while (!mine || !others) { /* both nodes count the same rounds */
		char out = mine = atomic_load(&taken) == SIGNALS;
		POST(fi_trecv(ep, &others, 1, NULL, node[peer], 7, 0, &others));
		POST(fi_tsend(ep, &out, 1, NULL, node[peer], 7, &out));
		(void)completion(tx, &out, NULL);
		(void)completion(rx, &others, NULL);
		rounds++;
	}
	REQUIRE(pthread_join(thread, NULL) == 0, "the thread");
	REQUIRE(atomic_load(&elsewhere) == 0, "%d handlers ran on another stack", atomic_load(&elsewhere));
	close_all();
	printf("%d signals were taken, and messages exchanged: %s\n", SIGNALS, rounds > 1 ? "yes" : "no");
	return 0;
}
