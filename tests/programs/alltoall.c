//go:build ignore

/* alltoall: in every round each node of a job sends each other node a block of bytes, whose length
 * and content depend on the round and on both nodes. The receiver checks every byte and answers
 * with a checksum, which the sender checks. At the end node 0 prints what every node has received,
 * and how fast. It is the same program as alltoall/main.go, and both may be nodes of one job.
 *
 *	cc -O2 -o alltoall alltoall.c $(pkg-config --cflags --libs funet)
 *	funet run -n 4 --lab -- ./alltoall BYTES ROUNDS SEED */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <funet.h>

enum { BLOCK }; /* the handler of calls */

static struct funet *f;
static struct funet_cancellation *cancel;
static struct funet_until until = { -1, NULL };

static struct options { uint64_t most, rounds, seed; } o; /* those of node 0 */
static struct total { uint64_t blocks, bytes, ns; } own, *totals;
static uint64_t *arrived; /* rounds whose block has arrived, by node */
static uint8_t **blocks, *expected;
static struct funet_pending **calls;

static volatile sig_atomic_t ended; /* by this signal */

static void note(int signal)
{
	ended = signal;
	(void)funet_cancel(cancel);
}

static int fail(const char *why)
{
	fprintf(stderr, "alltoall: %s\n", ended ? "interrupted" : why);
	return ended ? 128 + ended : 1;
}

static void *room(size_t bytes)
{
	void *b = calloc(bytes, 1);
	if (b == NULL)
		exit(fail("not enough memory for blocks of that size"));
	return b;
}

static uint32_t checksum(const uint8_t *b, size_t n) /* CRC-32, as of IEEE 802.3 */
{
	uint32_t c = UINT32_MAX;
	for (; n > 0; n--) {
		c ^= *b++;
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1) * UINT32_C(0xedb88320);
	}
	return ~c;
}

/* Makes the block of a round, and returns its length: half of the most up to the most. */
static size_t fill(uint8_t *b, uint64_t round, int from, int to)
{
	uint64_t x = (o.seed + (round << 32) + ((uint64_t)from << 16) + (uint64_t)to + 1) * UINT64_C(0x9e3779b97f4a7c15);
	x ^= x >> 29;
	size_t length = o.most - x % (o.most / 2 + 1), n = length;
	for (x |= 1; n >= 8; n -= 8, b += 8) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		memcpy(b, &x, 8);
	}
	memcpy(b, &x, n);
	return length;
}

static int take_block(struct funet_message *m, void *argument)
{
	(void)argument;
	size_t n = fill(expected, arrived[m->source]++, m->source, funet_node(f));
	if (n != m->length || memcmp(expected, m->bytes, n) != 0)
		return funet_refuse(m, FUNET_FIRST_CODE, "other bytes came than should");
	own.blocks++;
	own.bytes += n;
	uint32_t sum = checksum(expected, n);
	return funet_answer(m, &sum, sizeof sum);
}

/* Sends a block to every other node, and waits until all have checked them. */
static int play(uint64_t round)
{
	int nodes = funet_nodes(f), node = funet_node(f);
	uint32_t sum = 0;
	int code = 0;
	for (int i = 1; i < nodes && code == 0; i++) {
		int to = (node + i) % nodes;
		code = funet_start_call(f, to, BLOCK, blocks[to], fill(blocks[to], round, node, to), &calls[to]);
	}
	for (int i = 1; i < nodes && code == 0; i++) {
		int to = (node + i) % nodes;
		code = funet_finish(calls[to], &sum, sizeof sum, NULL, &until);
		if (code == 0 && sum != checksum(blocks[to], fill(blocks[to], round, node, to)))
			return fail("another checksum came than that of the block");
	}
	return code == 0 ? 0 : fail(funet_error());
}

static int run(void)
{
	int nodes = funet_nodes(f), node = funet_node(f);
	if (funet_broadcast(f, 0, &o, sizeof o, &until) != 0)
		return fail(funet_error());
	if (o.most == 0 || o.most > FUNET_MAX_BYTES || o.rounds == 0)
		return fail("use at least one round of 1 to 2^26 bytes");
	for (int i = 0; i <= nodes; i++)
		*(i < nodes ? &blocks[i] : &expected) = (uint8_t *)room(o.most);
	if (funet_barrier(f, &until) != 0) /* all know the options */
		return fail(funet_error());
	struct timespec a, b;
	(void)clock_gettime(CLOCK_MONOTONIC, &a);
	for (uint64_t round = 0; round < o.rounds; round++)
		if (play(round) != 0)
			return 1;
	if (funet_barrier(f, &until) != 0)
		return fail(funet_error());
	(void)clock_gettime(CLOCK_MONOTONIC, &b);
	own.ns = (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000 + (uint64_t)b.tv_nsec - (uint64_t)a.tv_nsec;
	if (funet_gather(f, 0, &own, sizeof own, totals, &until) != 0 || funet_barrier(f, &until) != 0)
		return fail(funet_error());
	struct total sum = { 0, 0, 1 };
	for (int i = 0; node == 0 && i < nodes; i++) {
		sum.blocks += totals[i].blocks;
		sum.bytes += totals[i].bytes;
		sum.ns = totals[i].ns > sum.ns ? totals[i].ns : sum.ns;
		printf("node %d: %" PRIu64 " blocks, %" PRIu64 " bytes, all as they were sent\n", i, totals[i].blocks,
			totals[i].bytes);
	}
	if (node == 0)
		printf("%d nodes, %" PRIu64 " rounds: %" PRIu64 " blocks, %" PRIu64 " bytes in %.6f s, %.1f MB/s\n", nodes,
			o.rounds, sum.blocks, sum.bytes, (double)sum.ns / 1e9, (double)sum.bytes / (double)sum.ns * 1e3);
	return 0;
}

int main(int argc, char **argv)
{
	o.most = argc > 1 ? strtoull(argv[1], NULL, 10) : 65536;
	o.rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
	o.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	(void)funet_cancel_new(&cancel);
	until.cancel = cancel;
	(void)signal(SIGINT, note);
	(void)signal(SIGTERM, note);
	if (funet_open(&f, NULL, &until) != 0)
		return fail(funet_error());
	size_t nodes = (size_t)funet_nodes(f);
	totals = (struct total *)room(nodes * sizeof *totals);
	arrived = (uint64_t *)room(nodes * sizeof *arrived);
	blocks = (uint8_t **)room(nodes * sizeof *blocks);
	calls = (struct funet_pending **)room(nodes * sizeof *calls);
	int code = 0;
	if (funet_serve(f, BLOCK, take_block, NULL) != 0 || funet_barrier(f, &until) != 0 || (code = run()) != 0)
		code = ended ? 128 + ended : code != 0 ? code : fail(funet_error());
	return funet_close(f, &until) != 0 && code == 0 ? fail(funet_error()) : code;
}
