/* rank.c: rank flood|deaf|serve|share. A rank that misuses the provider, or that another one
 * deceives (tests/attack/ranks.go), or that is measured beside those (tests/share). It says "ready"
 * when it begins. All but the last then say "did N" ten times a second.
 *
 *	flood   injects messages for the other rank as fast as the provider allows, and takes its
 *	deaf    rank 1 never calls the provider again, and rank 0 sends to it all the time
 *	serve   receives whatever comes, and opens a region; ends if memory beside these changes, or if
 *	        the provider loses its card
 *	share   rank 1 sends back what it gets. Rank 0 measures as victim.go does: for each line "window
 *	        NANOSECONDS" that it reads it says "window JSON" */
#include "node.h"

#include <rdma/fi_rma.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 256, GUARD = 64, RECEIVES = 256, LONG = 1 << 16, KEY = 7, REGION = 4096, TURN = 64 };

static uint64_t done, taken;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Tells what was done, ten times a second. */
static void say(void)
{
	static uint64_t last;
	if (now() - last < 100000000)
		return;
	last = now();
	printf("did %llu\n", (unsigned long long)done);
	fflush(stdout);
}

/* Reads what is complete; returns a context, or NULL. The other rank may do anything, so an
 * operation may fail. */
static void *next(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry bad = { 0 };
	ssize_t n = fi_cq_read(cq, &e, 1);
	if (n == 1)
		return e.op_context;
	if (n != -FI_EAVAIL || fi_cq_readerr(cq, &bad, 0) != 1)
		return NULL;
	REQUIRE(bad.err == FI_ETRUNC || bad.err == FI_EHOSTUNREACH || bad.err == FI_ECONNABORTED, "%s",
		fi_strerror(bad.err));
	return bad.op_context;
}

/* Sends short and long messages to a rank that takes none, and tries again when it is refused. */
static void press(void)
{
	static char bytes[LONG];
	for (;; say()) {
		for (int i = 0; i < TURN; i++, done++) {
			ssize_t code = fi_tsend(ep, bytes, done % 2 == 0 ? ROOM : LONG, NULL, node[peer], done, bytes);
			REQUIRE(code == 0 || code == -FI_EAGAIN, "%s", fi_strerror((int)-code));
		}
		while (next(tx) != NULL)
			continue;
	}
}

static struct {
	char before[GUARD], room[ROOM], after[GUARD];
} receives[RECEIVES];
static char region[3][REGION]; /* the region and what lies beside it */

static void post(void *at)
{
	ssize_t code = fi_trecv(ep, at, ROOM, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, at);
	OK(code);
}

static void untouched(const char *memory, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		REQUIRE(memory[i] == 0, "byte %zu beside a buffer was written", i);
}

/* Takes what has come, at most TURN messages. */
static void take(void)
{
	for (int i = 0; i < TURN; i++) {
		char *at = next(rx);
		if (at == NULL)
			return;
		untouched(at - GUARD, GUARD);
		untouched(at + ROOM, GUARD);
		post(at);
		taken++;
	}
}

/* Injects without end. */
static void flood(void)
{
	static const char bytes[ROOM];
	for (;; say(), take()) {
		for (int i = 0; i < TURN; i++, done++) {
			ssize_t code = fi_tinject(ep, bytes, sizeof bytes, node[peer], done);
			if (code == -FI_EAGAIN)
				break;
			OK(code);
		}
	}
}

/* Receives whatever comes. */
static void serve(void)
{
	for (;; say(), take()) {
		done = taken;
		untouched(region[0], REGION);
		untouched(region[2], REGION);
	}
}

/* A request and its answer, by number modulo OUTSTANDING. */
enum { OUTSTANDING = 16, TURNS = 5, SAMPLES = 1 << 22 };
static struct {
	uint64_t words[2], asked;
} open_requests[OUTSTANDING];
static uint32_t samples[SAMPLES]; /* nanoseconds of round trips, one after the other */
static size_t sampled;

static void expect(uint64_t number)
{
	void *at = &open_requests[number % OUTSTANDING];
	OK(fi_trecv(ep, at, 16, NULL, node[peer], number, 0, at));
}

/* Exchanges with so many requests under way until some time, and waits for the answers. */
static uint64_t exchange(uint64_t depth, uint64_t end)
{
	static uint64_t number; /* of the next request */
	uint64_t answered = number, begin = number;
	while (answered < number || now() < end) {
		for (; number - answered < depth && now() < end; number++) {
			uint64_t words[2] = { number, ~number };
			expect(number);
			open_requests[number % OUTSTANDING].asked = now();
			POST(fi_tinject(ep, words, sizeof words, node[peer], number));
		}
		if (answered == number || next(rx) == NULL)
			continue;
		/* answers come in the order of requests */
		uint64_t *words = open_requests[answered % OUTSTANDING].words;
		REQUIRE(words[0] == answered && words[1] == ~answered, "another answer than that to request %llu",
			(unsigned long long)answered);
		if (depth == 1 && sampled < SAMPLES)
			samples[sampled++] = (uint32_t)(now() - open_requests[answered % OUTSTANDING].asked);
		answered++;
	}
	return number - begin;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void measure(uint64_t length)
{
	uint64_t count[2] = { 0 }, took[2] = { 0 };
	sampled = 0;
	for (int turn = 0; turn < 2 * TURNS; turn++) {
		uint64_t begin = now();
		count[turn % 2] += exchange(turn % 2 == 0 ? 1 : OUTSTANDING, begin + length / (2 * TURNS));
		took[turn % 2] += now() - begin;
	}
	REQUIRE(sampled > 0, "no exchange within the window");
	qsort(samples, sampled, sizeof samples[0], by_size);
	printf("window {\"rate\":%.3f,\"p50\":%.3f,\"p99\":%.3f,\"longest\":%.3f,\"pipelined\":%.3f}\n",
		(double)count[0] * 1e9 / (double)took[0], samples[sampled / 2] / 1e3, samples[sampled * 99 / 100] / 1e3,
		samples[sampled - 1] / 1e3, (double)count[1] * 1e9 / (double)took[1]);
	fflush(stdout);
}

/* Sends back what it gets, without end. */
static void answer(void)
{
	for (uint64_t number = 0; number < OUTSTANDING; number++)
		expect(number);
	for (uint64_t number = 0;;) {
		if (next(rx) == NULL)
			continue;
		POST(fi_tinject(ep, open_requests[number % OUTSTANDING].words, 16, node[peer], number));
		expect(number + OUTSTANDING);
		number++;
	}
}

int main(int count, char **args)
{
	struct fid_mr *mr;
	if (count != 2)
		return 2;
	start();
	open_all(FI_RMA, 0);
	OK(fi_mr_reg(domain, region[1], REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
	int flooding = strcmp(args[1], "flood") == 0;
	for (int i = 0; i < RECEIVES && (flooding || strcmp(args[1], "serve") == 0); i++)
		post(receives[i].room);
	printf("ready\n");
	fflush(stdout);
	if (flooding)
		flood();
	if (strcmp(args[1], "serve") == 0)
		serve();
	if (strcmp(args[1], "share") == 0) {
		if (me == 1)
			answer();
		for (unsigned long long length; scanf(" window %llu", &length) == 1;)
			measure(length);
		return 0;
	}
	while (me == 1)
		pause();
	press();
	return 0;
}
