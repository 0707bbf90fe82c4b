/* pingpong: two nodes exchange messages, one at a time, and then node 0 sends many to node 1.
 *
 *	cc -O2 -o pingpong pingpong.c $(pkg-config --cflags --libs funet)
 *	funet run -n 2 ./pingpong [EXCHANGES [MESSAGES]]
 *	./pingpong EXCHANGES MESSAGES PEERS.YAML INTERFACE NODE	# as root, without a daemon
 *
 * Each word is checked. Node 0 prints the median round trip and the rate. The first Ctrl-C or
 * SIGTERM ends a node in order. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <funet.h>

enum { PING = 1, BATCH = 64, WORDS = 4 };

static struct funet *f;
static struct funet_cancellation *cancel;
static struct funet_until until = { -1, NULL };
static volatile sig_atomic_t ended; /* by this signal */

static struct funet_message messages[BATCH];
static uint64_t memory[BATCH * WORDS * sizeof(uint32_t) / sizeof(uint64_t)];

static void note(int signal)
{
	ended = signal;
	(void)funet_cancel(cancel);
}

static int64_t now(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int fail(const char *why)
{
	fprintf(stderr, "pingpong: node %d: %s\n", funet_node(f), ended ? "interrupted" : why);
	return 1;
}

/* Whether a message is the other node's, with the words that come after i. */
static int right(const struct funet_message *m, uint32_t i, uint32_t mask)
{
	const uint32_t *words = (const uint32_t *)m->bytes;
	if (m->source != 1 - funet_node(f) || m->length != WORDS * sizeof *words)
		return 0;
	for (uint32_t w = 0; w < WORDS; w++)
		if (words[w] != ((i * WORDS + w) ^ mask))
			return 0;
	return 1;
}

static void fill(uint32_t *words, uint32_t i, uint32_t mask)
{
	for (uint32_t w = 0; w < WORDS; w++)
		words[w] = (i * WORDS + w) ^ mask;
}

static int order(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* Node 0 sends, and node 1 answers with the complements. */
static int exchange(uint32_t exchanges, int64_t *trip)
{
	uint32_t words[WORDS];
	int node = funet_node(f);
	for (uint32_t i = 0; i < exchanges; i++) {
		int64_t start = now();
		fill(words, i, node == 0 ? 0 : UINT32_MAX);
		if (node == 0 && funet_send(f, 1, PING, words, sizeof words, &until) != 0)
			return fail(funet_error());
		if (funet_poll(f, messages, BATCH, memory, sizeof memory, &until) != 1)
			return fail(funet_error());
		if (!right(messages, i, node == 0 ? UINT32_MAX : 0))
			return fail("wrong words came");
		if (node == 1 && funet_send(f, 0, PING, words, sizeof words, &until) != 0)
			return fail(funet_error());
		trip[i] = now() - start;
	}
	return 0;
}

/* Node 0 sends as many as one call takes, and node 1 takes as many as there are. Messages have no
 * order, so node 1 adds up what they say. */
static int flood(uint32_t count)
{
	struct funet_outgoing out[BATCH];
	uint32_t words[BATCH][WORDS];
	uint64_t sum = 0, done = 0;
	while (done < count) {
		int n = count - done < BATCH ? (int)(count - done) : BATCH;
		if (funet_node(f) == 0) {
			for (int i = 0; i < n; i++) {
				fill(words[i], (uint32_t)done + (uint32_t)i, 0);
				out[i].bytes = words[i];
				out[i].length = sizeof words[i];
				out[i].node = 1;
				out[i].handler = PING;
			}
			if ((n = funet_send_many(f, out, n, &until)) < 0)
				return fail(funet_error());
		} else {
			if ((n = funet_poll(f, messages, BATCH, memory, sizeof memory, &until)) < 0)
				return fail(funet_error());
			for (int i = 0; i < n; i++) {
				uint32_t first = *(const uint32_t *)messages[i].bytes;
				if (!right(&messages[i], first / WORDS, 0))
					return fail("wrong words came");
				sum += first / WORDS;
			}
		}
		done += (uint64_t)n;
	}
	if (funet_node(f) == 1 && sum != (uint64_t)count * (count - 1) / 2)
		return fail("other messages came than were sent");
	return 0;
}

static int run(uint32_t exchanges, uint32_t count)
{
	int64_t *trip = (int64_t *)calloc(exchanges, sizeof *trip);
	if (trip == NULL || exchanges == 0 || count == 0 || funet_nodes(f) < 2 || funet_node(f) > 1)
		return fail("run two nodes, with at least one exchange and one message");
	if (funet_collect(f, PING) != 0 || funet_barrier(f, &until) != 0)
		return fail(funet_error());
	if (exchange(exchanges, trip) != 0)
		return 1;
	if (funet_barrier(f, &until) != 0)
		return fail(funet_error());
	int64_t start = now();
	if (flood(count) != 0)
		return 1;
	if (funet_barrier(f, &until) != 0)
		return fail(funet_error());
	int64_t took = now() - start;
	qsort(trip, exchanges, sizeof *trip, order);
	if (funet_node(f) == 0)
		printf("%u round trips, half of them within %.1f us; %u messages, %.2f million a second\n", exchanges,
			(double)trip[exchanges / 2] / 1e3, count, (double)count * 1e3 / (double)took);
	free(trip);
	return 0;
}

int main(int argc, char **argv)
{
	const struct funet_until second = { 1000, NULL };
	struct funet_options options;
	struct sigaction a;
	memset(&options, 0, sizeof options);
	memset(&a, 0, sizeof a);
	a.sa_handler = note;
	if (funet_cancel_new(&cancel) != 0 || sigaction(SIGINT, &a, NULL) != 0 || sigaction(SIGTERM, &a, NULL) != 0)
		return 1;
	until.cancel = cancel;
	if (argc > 5) {
		options.peers = argv[3];
		options.interfaces = argv[4];
		options.node = atoi(argv[5]);
	}
	if (funet_open(&f, &options, &until) != 0) {
		fprintf(stderr, "pingpong: %s\n", ended ? "interrupted" : funet_error());
		return ended ? 128 + ended : 1;
	}
	int code = run(argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 10000,
		argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 100000);
	if (funet_close(f, &second) != 0 && code == 0)
		code = fail(funet_error());
	return ended ? 128 + ended : code;
}
