/* calls: what `funet bench calls --c` measures of libfunet: calls of node 0 to node 1, or messages
 * by arrays from node 0 to node 1, or polls of node 1 that find nothing. Each is checked. A node
 * prints one JSON document.
 *
 *	calls calls|sends|polls BYTES COUNT WARMUP [CPU...]
 *
 * The CPUs, counted from 0, are those of the nodes; -1: any. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <funet.h>

enum { HANDLER = 0, BATCH = 64, MOST = 1024 };

static struct funet *f;
static size_t bytes;
static long count, warm;

static int64_t now(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *why)
{
	fprintf(stderr, "calls: %s\n", why);
	exit(1);
}

static int order(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static int answer(struct funet_message *m, void *argument)
{
	(void)argument;
	return funet_answer(m, m->bytes, m->length);
}

/* Calls, each timed. */
static void call(int64_t *trip)
{
	uint8_t request[MOST] = { 0 }, got[MOST];
	for (long i = -warm; i < count; i++) {
		size_t length = 0;
		int64_t start = now();
		memcpy(request, &i, 4);
		if (funet_call(f, 1, HANDLER, request, bytes, got, sizeof got, &length, NULL) != 0)
			fail(funet_error());
		if (length != bytes || memcmp(got, request, bytes) != 0)
			fail("a call brought other bytes back");
		if (i >= 0)
			trip[i] = now() - start;
	}
}

static void send_all(void)
{
	static uint8_t b[BATCH][MOST];
	struct funet_outgoing out[BATCH];
	for (long sent = 0; sent < warm + count;) {
		int n = warm + count - sent < BATCH ? (int)(warm + count - sent) : (int)BATCH;
		for (int i = 0; i < n; i++) {
			uint32_t number = (uint32_t)(sent + i);
			memcpy(b[i], &number, 4);
			out[i].bytes = b[i];
			out[i].length = bytes;
			out[i].node = 1;
			out[i].handler = HANDLER;
		}
		if ((n = funet_send_many(f, out, n, NULL)) < 0)
			fail(funet_error());
		sent += n;
	}
}

/* Takes all messages, and returns how many a second came after the first ones. They have no order,
 * so their numbers are added up. */
static double take_all(void)
{
	static uint64_t memory[BATCH * MOST / 8];
	struct funet_message m[BATCH];
	int64_t begin = 0, all = warm + count;
	uint64_t sum = 0;
	for (long got = 0; got < warm + count;) {
		int n = funet_poll(f, m, BATCH, memory, sizeof memory, NULL);
		if (n < 0)
			fail(funet_error());
		for (int i = 0; i < n; i++) {
			uint32_t number = 0;
			memcpy(&number, m[i].bytes, m[i].length < 4 ? m[i].length : 4);
			if (m[i].length != bytes || number >= all)
				fail("another message came than should");
			sum += number;
		}
		if (begin == 0 && got + n >= warm)
			begin = now();
		got += n;
	}
	int64_t took = now() - begin;
	if (sum != (uint64_t)all * (uint64_t)(all - 1) / 2)
		fail("other messages came than were sent");
	return (double)count * 1e9 / (double)took;
}

/* Polls in vain while node 0 sends nothing, and returns the nanoseconds that one took in the
 * median of pieces. Then a message comes, which a poll finds. */
static double poll_in_vain(void)
{
	enum { PIECES = 64 };
	const struct funet_until at_once = { 0, NULL };
	struct funet_message m;
	uint64_t memory[MOST / 8];
	int64_t took[PIECES];
	long each = (warm + count) / PIECES + 1;
	for (int i = 0; i < PIECES; i++) {
		int64_t begin = now();
		for (long k = 0; k < each; k++)
			if (funet_poll(f, &m, 1, memory, sizeof memory, &at_once) != 0)
				fail("a message came, or a poll failed");
		took[i] = now() - begin;
	}
	qsort(took, PIECES, sizeof took[0], order);
	if (funet_send(f, 0, HANDLER, &each, sizeof each, NULL) != 0)
		fail(funet_error());
	for (int n = 0; n == 0;)
		if ((n = funet_poll(f, &m, 1, memory, sizeof memory, &at_once)) < 0)
			fail(funet_error());
	return (double)took[PIECES / 2] / (double)each;
}

/* Waits for the message that says that node 1 has polled enough, and answers it. */
static void await_polls(void)
{
	struct funet_message m;
	uint64_t memory[MOST / 8];
	if (funet_poll(f, &m, 1, memory, sizeof memory, NULL) != 1 ||
		funet_send(f, 1, HANDLER, m.bytes, m.length, NULL) != 0)
		fail(funet_error());
}

int main(int argc, char **argv)
{
	cpu_set_t cpu;
	double rate = 0, p50 = 0, p99 = 0, poll = 0;
	if (argc < 5 || (bytes = strtoul(argv[2], NULL, 10)) < 4 || bytes > MOST || (count = atol(argv[3])) < 1 ||
		(warm = atol(argv[4])) < 1)
		fail("say what to do, with at least 4 bytes, one message and one before that");
	if (funet_open(&f, NULL, NULL) != 0)
		fail(funet_error());
	int node = funet_node(f), calls = strcmp(argv[1], "calls") == 0;
	if (argc > 5 + node && atoi(argv[5 + node]) >= 0) {
		CPU_ZERO(&cpu);
		CPU_SET((size_t)atoi(argv[5 + node]), &cpu);
		if (sched_setaffinity(0, sizeof cpu, &cpu) != 0)
			fail("no such processor");
	}
	if ((calls ? funet_serve(f, HANDLER, answer, NULL) : funet_collect(f, HANDLER)) != 0 || funet_barrier(f, NULL) != 0)
		fail(funet_error());
	if (calls && node == 0) {
		int64_t *trip = (int64_t *)calloc((size_t)count, sizeof *trip), begin = now();
		call(trip);
		rate = 2 * (double)count * 1e9 / (double)(now() - begin);
		qsort(trip, (size_t)count, sizeof *trip, order);
		p50 = (double)trip[count / 2] / 1e3;
		p99 = (double)trip[count - 1 - count / 100] / 1e3;
		free(trip);
	} else if (strcmp(argv[1], "polls") == 0) {
		if (node == 1)
			poll = poll_in_vain();
		else
			await_polls();
	} else if (!calls && node == 0) {
		send_all();
	} else if (!calls) {
		rate = take_all();
	}
	if (funet_barrier(f, NULL) != 0 || funet_close(f, NULL) != 0)
		fail(funet_error());
	printf("{\"rtt_p50_us\":%.3f,\"rtt_p99_us\":%.3f,\"msgs_per_s\":%.0f,\"empty_poll_ns\":%.2f}\n", p50, p99,
		rate, poll);
	return 0;
}
