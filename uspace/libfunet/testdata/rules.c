/* rules: what a program with a library of Go in it may do: threads, signals, fork, an environment
 * that it sets itself, an event loop. Its place is in the variables P_... instead of FUNET_... */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ECHO = 1, KEPT = 2, THREADS = 8, CALLS = 300 };

static volatile sig_atomic_t signals_seen, deep, answered;

/* A handler that was installed without SA_ONSTACK, and needs more than Go's own signal stack. */
static void on_alarm(int signal)
{
	volatile char b[60000];
	stack_t now;
	(void)signal;
	for (size_t i = 0; i < sizeof b; i += 1024)
		b[i] = (char)i;
	if (sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_ONSTACK && now.ss_size >= 256 << 10)
		deep++;
	signals_seen++;
}

static int echo(struct funet_message *m, void *argument)
{
	(void)argument;
	return funet_answer(m, m->bytes, m->length);
}

/* A thread that calls the other node. */
static void *caller(void *argument)
{
	int me = (int)(uintptr_t)argument, other = 1 - funet_node(f);
	uint8_t b[3000], answer[3000];
	size_t length;
	for (int i = 0; i < CALLS; i++) {
		size_t n = (size_t)(me * 131 + i * 17) % sizeof b;
		fill(b, n, me + i);
		CHECK(0, funet_call(f, other, ECHO, b, n, answer, sizeof answer, &length, &patient));
		CHECK(n, length);
		CHECK(1, same(answer, n, me + i));
		answered++;
	}
	CHECK(FUNET_NODE, funet_send(f, 9, ECHO, b, 1, NULL)); /* errors are of the thread */
	return NULL;
}

static void threads(void)
{
	struct itimerval every = { { 0, 500 }, { 0, 500 } };
	pthread_t t[THREADS];
	CHECK(0, setitimer(ITIMER_REAL, &every, NULL));
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(0, pthread_create(&t[i], NULL, caller, (void *)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(0, pthread_join(t[i], NULL));
	CHECK(0, funet_barrier(f, &patient));
	while (signals_seen < 20)
		CHECK(0, funet_run(f, &(struct funet_until){ 1, NULL }));
	every.it_value.tv_usec = every.it_interval.tv_usec = 0;
	CHECK(0, setitimer(ITIMER_REAL, &every, NULL));
	CHECK(1, deep > 0);
}

/* A child can use nothing, and ends by exit. */
static void children(void)
{
	int status = 0;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		CHECK(FUNET_FORKED, funet_send(f, 0, ECHO, "x", 1, NULL));
		CHECK(FUNET_FORKED, funet_node(f));
		CHECK(FUNET_FORKED, funet_close(f, NULL));
		exit(7);
	}
	CHECK(pid, waitpid(pid, &status, 0));
	CHECK(7, WEXITSTATUS(status));
}

/* An event loop with the endpoint's descriptor. Node 1 sends, and node 0 sleeps in poll(2). */
static void loop(void)
{
	enum { MESSAGES = 50 };
	struct funet_message m[4];
	uint8_t memory[64];
	if (funet_node(f) == 1) {
		for (uint32_t i = 0; i < MESSAGES; i++) {
			CHECK(0, funet_send(f, 0, KEPT, &i, sizeof i, &patient));
			CHECK(0, funet_run(f, &(struct funet_until){ 1, NULL }));
		}
	} else {
		struct pollfd p = { funet_fd(f), POLLIN, 0 };
		CHECK(1, p.fd >= 0);
		for (int got = 0; got < MESSAGES;) {
			int n = funet_poll(f, m, 4, memory, sizeof memory, &now_);
			CHECK(1, n >= 0);
			got += n;
			if (n == 0 && funet_arm(f) == 1) {
				CHECK(1, poll(&p, 1, 60000) == 1 || errno == EINTR);
				CHECK(0, funet_disarm(f));
			}
		}
	}
	CHECK(0, funet_barrier(f, &patient));
}

int main(void)
{
	static const char *names[] = { "SOCKET", "GID", "NODE", "NODES", "TOKEN" };
	struct sigaction a = { .sa_handler = on_alarm };
	char from[32], to[32];
	children(); /* of a program that has not called yet */
	CHECK(FUNET_PLACE, funet_open(&f, NULL, NULL));
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		(void)snprintf(from, sizeof from, "P_%s", names[i]);
		(void)snprintf(to, sizeof to, "FUNET_%s", names[i]);
		if (getenv(from) != NULL)
			CHECK(0, setenv(to, getenv(from), 1));
	}
	CHECK(0, sigaction(SIGALRM, &a, NULL));
	CHECK(0, funet_open(&f, NULL, &patient));
	CHECK(0, funet_serve(f, ECHO, echo, NULL));
	CHECK(0, funet_collect(f, KEPT));
	CHECK(0, funet_barrier(f, &patient));
	threads();
	children();
	CHECK(0, funet_barrier(f, &patient));
	loop();
	CHECK(0, funet_close(f, &patient));
	puts("rules");
	return 0;
}
