/* killed.c: killed PHASE VICTIM MICROSECONDS. Three nodes exchange messages, and do what the phase
 * is named for. So long after it began, the victim kills itself. What the others have under way
 * with the victim ends with an error, what they do with each other goes on, and they end. */
#define NODES 3
#include "node.h"

#include <pthread.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 1 << 19, WORDS = 64, PATIENCE = 60 };
enum kind { NOTE, NOTE_GOT, MESSAGE, GOT, WRITE, READ, ADD, KINDS };

/* What each node has of each other one. An operation's context is its flag in running. */
static struct {
	char running[KINDS];
	int gone;
	uint64_t note[2], noted[2]; /* the round, and whether the victim is gone */
	uint64_t old;
} with[NODES];

static const char *phase;
static unsigned victim;
static struct timespec rest;
static char *memory; /* the region: a word for each node, and then room for what each node writes */
static char local[NODES][2][BYTES];
static uint64_t rounds;
static int acting; /* all have regions */

static void *die(void *unused)
{
	(void)unused;
	nanosleep(&rest, NULL);
	kill(getpid(), SIGKILL);
	return NULL;
}

static void enters(const char *name)
{
	pthread_t thread;
	if (me == victim && strcmp(name, phase) == 0)
		REQUIRE(pthread_create(&thread, NULL, die, NULL) == 0, "no thread");
}

static int is(const char *name) { return strcmp(phase, name) == 0; }

/* Notes the end of an operation. */
static void ended(void *context, int err)
{
	for (unsigned n = 0; n < NODES; n++) {
		char *flag = context;
		if (flag < with[n].running || flag >= with[n].running + KINDS)
			continue;
		REQUIRE(*flag, "kind %d with node %u ended twice", (int)(flag - with[n].running), n);
		*flag = 0;
		if (err != 0) {
			REQUIRE(n == victim, "kind %d with node %u: %s", (int)(flag - with[n].running), n, fi_strerror(err));
			REQUIRE(err == FI_EHOSTUNREACH || err == FI_ECONNABORTED, "%s", fi_strerror(err));
			with[n].gone = 1;
		}
		return;
	}
	REQUIRE(0, "a completion of nothing");
}

static void look(struct fid_cq *cq, int milliseconds)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry bad = { 0 };
	ssize_t n = milliseconds ? fi_cq_sread(cq, &e, 1, NULL, milliseconds) : fi_cq_read(cq, &e, 1);
	if (n == 1)
		ended(e.op_context, 0);
	else if (n == -FI_EAVAIL && fi_cq_readerr(cq, &bad, 0) == 1)
		ended(bad.op_context, bad.err);
	else
		REQUIRE(n == -FI_EAGAIN || n == -FI_EAVAIL, "%s", fi_strerror((int)-n));
}

static void wait_all(void)
{
	time_t until = time(NULL) + PATIENCE;
	for (unsigned n = 0; n < NODES; n++) {
		for (int kind = 0; kind < KINDS; kind++) {
			while (with[n].running[kind]) {
				look(tx, 0);
				look(rx, 2);
				REQUIRE(time(NULL) < until, "round %llu: kind %d with node %u hangs", (unsigned long long)rounds, kind, n);
			}
		}
	}
}

#define START(n, kind, call) \
	do { \
		long code; \
		while ((code = (long)(call)) == -FI_EAGAIN) \
			progress(); \
		with[n].running[kind] = code == 0; \
		if (code != 0 && n == victim) \
			with[n].gone = 1; \
		else \
			REQUIRE(code == 0, "%s with node %u: %s", #call, n, fi_strerror((int)-code)); \
	} while (0)
#define FLAG(n, kind) (&with[n].running[kind])

/* Starts what the phase is about, with a node. */
static void act(unsigned n)
{
	size_t bytes = is("long") || is("close") ? BYTES : 1 + rounds % 500, half = BYTES / 2;
	char *out = local[n][0], *in = local[n][1];
	if (is("short") || is("long") || is("close")) {
		START(n, GOT, fi_trecv(ep, in, BYTES, NULL, node[n], 1, 0, FLAG(n, GOT)));
		START(n, MESSAGE, fi_tsend(ep, out, bytes, NULL, node[n], 1, FLAG(n, MESSAGE)));
	} else if (is("write")) {
		START(n, WRITE, fi_write(ep, out, half, NULL, node[n], WORDS * 8 + me * half, 7, FLAG(n, WRITE)));
	} else if (acting && is("read")) {
		START(n, READ, fi_read(ep, in, half, NULL, node[n], WORDS * 8 + me * half, 7, FLAG(n, READ)));
	} else if (acting && is("atomic")) {
		static const uint64_t one = 1;
		START(n, ADD, fi_fetch_atomic(ep, &one, 1, NULL, &with[n].old, NULL, node[n], me * 8, 7, FI_UINT64, FI_SUM,
			FLAG(n, ADD)));
	}
}

/* A round: all nodes meet, and what is under way with them ends. Returns whether all that are left
 * know that the victim is gone. */
static int meet(void)
{
	int known = with[victim].gone;
	rounds++;
	for (unsigned n = 0; n < NODES; n++) {
		if (n == me || with[n].gone)
			continue;
		if (acting)
			act(n);
		with[n].note[0] = rounds;
		with[n].note[1] = (uint64_t)known;
		START(n, NOTE_GOT, fi_trecv(ep, with[n].noted, 16, NULL, node[n], 2, 0, FLAG(n, NOTE_GOT)));
		START(n, NOTE, fi_tsend(ep, with[n].note, 16, NULL, node[n], 2, FLAG(n, NOTE)));
	}
	wait_all();
	for (unsigned n = 0; n < NODES; n++) {
		if (n == me || n == victim)
			continue;
		REQUIRE(with[n].noted[0] == rounds, "round %llu of node %u", (unsigned long long)with[n].noted[0], n);
		known = known && with[n].noted[1];
		if (acting && is("atomic"))
			REQUIRE(with[n].old == rounds - 2, "%llu additions", (unsigned long long)with[n].old);
		if (acting && is("long"))
			REQUIRE(local[n][1][0] == (char)n && local[n][1][BYTES - 1] == (char)n, "another message");
		if (acting && is("read"))
			REQUIRE(local[n][1][0] == (char)n && local[n][1][BYTES / 2 - 1] == (char)n, "other bytes");
	}
	return known;
}

int main(int count, char **args)
{
	struct fid_mr *mr;
	if (count != 4)
		return 2;
	start();
	phase = args[1];
	victim = (unsigned)atoi(args[2]);
	rest = (struct timespec){ atol(args[3]) / 1000000, atol(args[3]) % 1000000 * 1000 };
	enters("open");
	open_all(FI_RMA | FI_ATOMIC, 0);
	enters("connect");
	memory = calloc(1, WORDS * 8 + NODES * BYTES / 2);
	memset(memory + WORDS * 8, (int)me, NODES * BYTES / 2);
	for (unsigned n = 0; n < NODES; n++)
		memset(local[n][0], (int)me, BYTES);
	OK(fi_mr_reg(domain, memory, WORDS * 8 + NODES * BYTES / 2, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
	if (!is("open") && !is("connect")) {
		(void)meet();
		enters(phase);
	}
	acting = 1;
	if (is("close")) { /* with something under way to all */
		for (unsigned n = 0; n < NODES; n++)
			if (n != me)
				act(n);
	} else {
		while (!meet())
			continue;
		acting = 0; /* nobody uses a region after this */
		(void)meet();
	}
	OK(fi_close(&mr->fid));
	close_all();
	if (me == victim)
		pause();
	printf("survived\n");
	return 0;
}
