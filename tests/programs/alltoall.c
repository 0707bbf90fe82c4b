//go:build ignore

/* alltoall: in every round each node of a job sends each other node a block of bytes, whose length
 * and content depend on the round and on both nodes. The receiver checks every byte and answers
 * with a checksum, which the sender checks. At the end node 0 prints what every node has received,
 * and how fast.
 *
 *	cc -O2 -I uspace/funi -o alltoall alltoall.c
 *	funet run -n 4 --lab -- ./alltoall BYTES ROUNDS SEED */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>

#include "funet.h"

enum { BLOCK, CHECK }; /* handlers; the first word of a message is the round */
/* rounds that a node begins before all have checked its blocks of the first of them */
enum { AHEAD = 2 };

static struct options {
	uint32_t most, rounds; /* bytes of a block */
	uint64_t seed;
} o;

struct total { /* what a node has received */
	uint64_t blocks, bytes, nanoseconds;
};

static struct place { /* of the blocks of a round */
	uint8_t **block; /* for each node */
	uint32_t *check; /* of what it was sent; 0: it has answered */
	uint32_t unanswered, under_way;
} places[AHEAD];

static struct funet f;
static struct total total;
static uint8_t *want; /* what a block should be */

static volatile sig_atomic_t ended; /* by this signal */

static void note(int signal) { ended = signal; }

/* The checksum of a block: the steps of FNV-1a, with eight bytes at a time. */
static uint32_t checksum(const uint8_t *b, size_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325), word = 0;
	for (; n >= 8; n -= 8, b += 8) {
		memcpy(&word, b, 8);
		h = (h ^ word) * UINT64_C(0x100000001b3);
	}
	for (; n > 0; n--)
		h = (h ^ *b++) * UINT64_C(0x100000001b3);
	return (uint32_t)(h >> 32 ^ h) | 1;
}

/* Makes a block of a round, and returns its length: from half of the most up to the most, and the
 * round. */
static uint32_t fill(uint8_t *b, uint32_t round, uint32_t from, uint32_t to)
{
	uint64_t x = o.seed + ((uint64_t)round << 32) + ((uint64_t)from << 16) + to + 1;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	x ^= x >> 29;
	uint32_t length = o.most - (uint32_t)(x % (o.most / 2 + 1)), n = length;
	memcpy(b, &round, 4);
	b += 4;
	for (x |= 1; n >= 8; n -= 8, b += 8) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		memcpy(b, &x, 8);
	}
	memcpy(b, &x, n);
	return length + 4;
}

/* A block: its sender gets the round and the checksum. */
static int take_block(struct funet_message *m)
{
	uint32_t answer[2] = { 0, checksum(m->bytes, m->length) };
	memcpy(answer, m->bytes, m->length < 4 ? m->length : 4);
	if (m->length != fill(want, answer[0], m->source, f.card.node) || memcmp(m->bytes, want, m->length) != 0)
		return funet_fail(&f, -EBADMSG, "other bytes arrived than node %u sent", m->source);
	total.blocks++;
	total.bytes += m->length - 4;
	return funet_reply(m, CHECK, answer, sizeof answer);
}

static int take_check(struct funet_message *m)
{
	uint32_t answer[2] = { 0, 0 };
	memcpy(answer, m->bytes, m->length < sizeof answer ? m->length : sizeof answer);
	struct place *p = &places[answer[0] % AHEAD];
	if (answer[1] == 0 || answer[1] != p->check[m->source])
		return funet_fail(&f, -EBADMSG, "another checksum than that of the block for node %u", m->source);
	p->check[m->source] = 0;
	p->unanswered--;
	return 0;
}

static int is_free(void *place) { return ((struct place *)place)->unanswered + ((struct place *)place)->under_way == 0; }

static int all_done(void *p)
{
	return is_free(p) && is_free((struct place *)p + 1) && total.blocks == (uint64_t)o.rounds * (f.card.nodes - 1);
}

/* Sends a block to every other node, when all have checked those that were in the same place. */
static int play(uint32_t round)
{
	struct place *p = &places[round % AHEAD];
	int code = funet_wait(&f, is_free, p, -1);
	for (uint32_t i = 1; i < f.card.nodes && code == 0; i++) {
		uint32_t node = (f.card.node + i) % f.card.nodes, length = fill(p->block[node], round, f.card.node, node);
		p->check[node] = checksum(p->block[node], length);
		p->unanswered++;
		code = funet_post(&f, node, BLOCK, p->block[node], length, &p->under_way);
	}
	return code;
}

/* Brings what all nodes have received to node 0, which prints it. */
static int report(void)
{
	struct total *all = (struct total *)calloc(f.card.nodes, sizeof *all), sum = { 0, 0, 0 };
	int code = funet_gather(&f, 0, &total, sizeof total, all, -1);
	for (uint32_t i = 0; code == 0 && f.card.node == 0 && i < f.card.nodes; i++) {
		sum.blocks += all[i].blocks;
		sum.bytes += all[i].bytes;
		sum.nanoseconds = all[i].nanoseconds > sum.nanoseconds ? all[i].nanoseconds : sum.nanoseconds;
		printf("node %u: %" PRIu64 " blocks, %" PRIu64 " bytes, all as they were sent\n", i, all[i].blocks,
			all[i].bytes);
	}
	if (code == 0 && f.card.node == 0)
		printf("%u nodes, %u rounds: %" PRIu64 " blocks, %" PRIu64 " bytes in %.6f s, %.1f MB/s\n", f.card.nodes,
			o.rounds, sum.blocks, sum.bytes, (double)sum.nanoseconds / 1e9,
			(double)sum.bytes / (double)sum.nanoseconds * 1e3);
	free(all);
	return code;
}

static int run(void)
{
	int code = funet_broadcast(&f, 0, &o, sizeof o, -1); /* all use the options of node 0 */
	if (code != 0)
		return code;
	if (f.card.nodes < 2 || o.most == 0 || o.most > FUNET_MAX_BYTES - 4 || o.rounds == 0)
		return funet_fail(&f, -EINVAL, "use at least two nodes, and at least one round of 1 to 2^26-4 bytes");
	want = (uint8_t *)malloc(o.most + 4);
	for (int k = 0; k < AHEAD; k++) {
		places[k].block = (uint8_t **)calloc(f.card.nodes, sizeof *places[k].block);
		places[k].check = (uint32_t *)calloc(f.card.nodes, sizeof *places[k].check);
		for (uint32_t i = 0; i < f.card.nodes; i++)
			if (want == NULL || places[k].check == NULL || places[k].block == NULL ||
			    (places[k].block[i] = (uint8_t *)funet_alloc(&f, o.most + 4)) == NULL)
				return funet_fail(&f, -ENOMEM, "not enough memory for blocks of that size");
	}
	if ((code = funet_barrier(&f, -1)) != 0) /* nobody sends before all can receive */
		return code;
	int64_t begin = funet_now();
	for (uint32_t round = 0; round < o.rounds && code == 0; round++)
		code = play(round);
	if (code != 0 || (code = funet_wait(&f, all_done, places, -1)) != 0)
		return code;
	total.nanoseconds = (uint64_t)(funet_now() - begin);
	/* nobody leaves while another needs it */
	return (code = report()) != 0 ? code : funet_barrier(&f, -1);
}

int main(int argc, char **argv)
{
	const struct funet_options options = { NULL, 0, 0, NULL, 0, UINT32_C(1) << 30 };
	(void)signal(SIGINT, note);
	(void)signal(SIGTERM, note);
	o.most = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 65536;
	o.rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 100;
	o.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	int code = funet_open(&f, &options);
	f.stop = &ended;
	if (code == 0 && (code = funet_handle(&f, BLOCK, take_block, NULL)) == 0 &&
		(code = funet_handle(&f, CHECK, take_check, NULL)) == 0 &&
	    (code = run()) == 0)
		code = funet_close(&f, 2000);
	if (code != 0)
		fprintf(stderr, ended ? "alltoall: interrupted\n" : "alltoall: node %u: %s\n", f.card.node, f.error);
	return code == 0 ? 0 : ended ? 128 + ended : 1;
}
