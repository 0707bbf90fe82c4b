//go:build ignore

/* alltoall: in every round each node of a job sends each other node a block of bytes, whose length and content
 * depend on the round and on both nodes. The receiver checks every byte and answers with a checksum, which the
 * sender checks. At the end node 0 prints what every node has received, and how fast.
 *
 *	cc -O2 -I uspace/funi -o alltoall alltoall.c
 *	funet run -n 4 --lab -- ./alltoall BYTES ROUNDS SEED */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>

#include "funet.h"

enum { BLOCK, CHECK }; /* handlers */

struct options {
	uint32_t most, rounds; /* bytes of a block */
	uint64_t seed;
};

struct total { /* what a node has received */
	uint64_t blocks, bytes, nanoseconds;
};

struct peer { /* what is known of a node */
	uint8_t *block;   /* for it */
	uint32_t arrived; /* rounds of which its block has arrived */
	uint32_t check;   /* of what it was sent in this round */
	int checked;      /* it has answered */
};

static struct funet f;
static struct options o;
static struct peer *peers;
static struct total total;
static uint8_t *want;       /* what a block should be */
static uint32_t unanswered; /* blocks of this round */

static volatile sig_atomic_t ended; /* by this signal */

static void note(int signal) { ended = signal; }

/* The checksum of a block: the steps of FNV-1a, with eight bytes at a time. */
static uint32_t checksum(const uint8_t *b, size_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325), word;
	for (; n > 0; n -= n < 8 ? n : 8, b += 8) {
		word = 0;
		memcpy(&word, b, n < 8 ? n : 8);
		h = (h ^ word) * UINT64_C(0x100000001b3);
	}
	return (uint32_t)(h >> 32 ^ h);
}

/* Makes a block of a round, and returns its length: from half of the most up to the most. */
static uint32_t fill(uint8_t *b, uint32_t round, uint32_t from, uint32_t to)
{
	uint64_t x = o.seed + ((uint64_t)round << 32) + ((uint64_t)from << 16) + to + 1;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	x ^= x >> 29;
	uint32_t length = o.most - (uint32_t)(x % (o.most / 2 + 1)), n = length;
	for (x |= 1; n >= 8; n -= 8, b += 8) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		memcpy(b, &x, 8);
	}
	memcpy(b, &x, n);
	return length;
}

/* A block: its sender gets the checksum. A node's next block comes after that. */
static int take_block(struct funet_message *m)
{
	struct peer *p = &peers[m->source];
	if (m->length != fill(want, p->arrived, m->source, f.card.node) || memcmp(m->bytes, want, m->length) != 0)
		return funet_fail(&f, -EBADMSG, "other bytes arrived than node %u sent", m->source);
	uint32_t sum = checksum(m->bytes, m->length);
	p->arrived++;
	total.blocks++;
	total.bytes += m->length;
	return funet_reply(m, CHECK, &sum, sizeof sum);
}

static int take_check(struct funet_message *m)
{
	struct peer *p = &peers[m->source];
	if (p->checked || m->length != sizeof p->check || memcmp(m->bytes, &p->check, m->length) != 0)
		return funet_fail(&f, -EBADMSG, "another checksum than that of the block for node %u", m->source);
	p->checked = 1;
	unanswered--;
	return 0;
}

static int all_checked(void *nothing) { return nothing == NULL && unanswered == 0; }

static int all_arrived(void *nothing) { return nothing == NULL && total.blocks == (uint64_t)o.rounds * (f.card.nodes - 1); }

/* Sends a block to every other node, and waits until all have checked them. */
static int play(uint32_t round)
{
	int code;
	unanswered = f.card.nodes - 1;
	for (uint32_t i = 1; i < f.card.nodes; i++) {
		uint32_t node = (f.card.node + i) % f.card.nodes;
		struct peer *p = &peers[node];
		uint32_t length = fill(p->block, round, f.card.node, node);
		p->check = checksum(p->block, length);
		p->checked = 0;
		if ((code = funet_post(&f, node, BLOCK, p->block, length)) != 0)
			return code;
	}
	return (code = funet_wait(&f, all_checked, NULL, -1)) != 0 ? code : funet_flush(&f, -1);
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
		printf("node %u: %" PRIu64 " blocks, %" PRIu64 " bytes, all as they were sent\n", i, all[i].blocks, all[i].bytes);
	}
	if (code == 0 && f.card.node == 0)
		printf("%u nodes, %u rounds: %" PRIu64 " blocks, %" PRIu64 " bytes in %.6f s, %.1f MB/s\n", f.card.nodes, o.rounds, sum.blocks,
		       sum.bytes, (double)sum.nanoseconds / 1e9, (double)sum.bytes / (double)sum.nanoseconds * 1e3);
	free(all);
	return code;
}

static int run(void)
{
	int code = funet_broadcast(&f, 0, &o, sizeof o, -1); /* all use the options of node 0 */
	if (code != 0)
		return code;
	if (f.card.nodes < 2 || o.most == 0 || o.most > FUNET_MAX_BYTES || o.rounds == 0)
		return funet_fail(&f, -EINVAL, "use at least two nodes, and at least one round of 1 to 2^26 bytes");
	peers = (struct peer *)calloc(f.card.nodes, sizeof *peers);
	want = (uint8_t *)malloc(o.most);
	for (uint32_t i = 0; i < f.card.nodes; i++)
		if (peers == NULL || want == NULL || (peers[i].block = (uint8_t *)funet_alloc(&f, o.most)) == NULL)
			return funet_fail(&f, -ENOMEM, "not enough memory for blocks of so many bytes");
	if ((code = funet_barrier(&f, -1)) != 0) /* nobody sends before all can receive */
		return code;
	int64_t begin = funet_now();
	for (uint32_t round = 0; round < o.rounds && code == 0; round++)
		code = play(round);
	if (code != 0 || (code = funet_wait(&f, all_arrived, NULL, -1)) != 0)
		return code;
	total.nanoseconds = (uint64_t)(funet_now() - begin);
	return (code = report()) != 0 ? code : funet_barrier(&f, -1); /* nobody leaves while another still needs it */
}

int main(int argc, char **argv)
{
	struct funet_options options;
	memset(&options, 0, sizeof options);
	options.memory = UINT32_C(1) << 30;
	(void)signal(SIGINT, note);
	(void)signal(SIGTERM, note);
	o.most = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 65536;
	o.rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 100;
	o.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	int code = funet_open(&f, &options);
	f.stop = &ended;
	if (code == 0 && (code = funet_handle(&f, BLOCK, take_block, NULL)) == 0 && (code = funet_handle(&f, CHECK, take_check, NULL)) == 0 &&
	    (code = run()) == 0)
		code = funet_close(&f, 2000);
	if (code != 0)
		fprintf(stderr, ended ? "alltoall: interrupted\n" : "alltoall: node %u: %s\n", f.card.node, f.error);
	return code == 0 ? 0 : ended ? 128 + ended : 1;
}
