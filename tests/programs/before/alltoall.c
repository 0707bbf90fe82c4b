/* alltoall: in every round each node of a job sends each other node a block of bytes, whose length
 * and content depend on the round and on both nodes. The receiver checks every byte and answers
 * with a checksum, which the sender checks. At the end node 0 prints what every node has received,
 * and how fast.
 *
 *	cc -O2 -I uspace/funi -o alltoall alltoall.c
 *	funet run -n 4 --lab -- ./alltoall BYTES ROUNDS SEED */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <signal.h>
#include <time.h>

#include "funi.h"

/* Types of messages. BLOCK is a transfer, whose argument is the block's length; CHECK is a reply.
 */
enum { OPTIONS = 1, BLOCK, CHECK, TOTAL, ENTER, LEAVE };

/* Addresses of the two segments. Each has a place for a block of every node. */
#define SEND_BASE 0x10000000u
#define RECEIVE_BASE 0x80000000u
#define MOST_BYTES (UINT64_C(1) << 30) /* of a segment */

struct total { /* what a node has received */
	uint64_t blocks, bytes, nanoseconds;
};

struct peer { /* what is known of a node */
	uint32_t arrived; /* rounds of which its block has arrived */
	uint32_t check;   /* of what it was sent in this round */
	int checked;      /* it has answered */
	int has_total;
	struct total total;
};

static struct funi_context card;
static struct peer *peers;
static uint32_t most, rounds, place; /* bytes of a block, bytes of its place */
static uint64_t seed;
static uint8_t *out, *in, *want; /* the segments, and what a block should be */
/* barriers: nodes that came to node 0, and those that it has ended */
static uint32_t entered, left;
static int has_options;

static volatile sig_atomic_t ended; /* by this signal */

static void note(int signal) { ended = signal; }

static int fail(const char *what, uint32_t node)
{
	if (ended)
		fprintf(stderr, "alltoall: interrupted\n");
	else
		fprintf(stderr, "alltoall: node %u: %s (node %u)\n", card.node, what, node);
	return -1;
}

static int64_t now(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

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
	return (uint32_t)(h >> 32 ^ h);
}

/* The beginning of what is random of a block. */
static uint64_t start_of(uint32_t round, uint32_t from, uint32_t to)
{
	uint64_t x = seed + ((uint64_t)round << 32) + ((uint64_t)from << 16) + to + 1;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	return x ^ x >> 29;
}

/* How many bytes a block has: from half of the most up to the most. */
static uint32_t length_of(uint32_t round, uint32_t from, uint32_t to)
{
	return most - (uint32_t)(start_of(round, from, to) % (most / 2 + 1));
}

/* Makes the content of a block. */
static void fill(uint8_t *b, uint32_t n, uint32_t round, uint32_t from, uint32_t to)
{
	uint64_t x = start_of(round, from, to) | 1;
	for (; n >= 8; n -= 8, b += 8) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		memcpy(b, &x, 8);
	}
	memcpy(b, &x, n);
}

/* Transfers are of whole 16 bytes. */
static uint32_t whole(uint32_t bytes) { return (bytes + 15) & ~UINT32_C(15); }

static int serve(enum funi_level l);

/* Waits until something has happened. What came back is an error, and so is a signal. */
static int wait_for_news(void)
{
	struct funi_return r;
	char text[80];
	if (ended)
		return fail("", 0);
	if (funi_returned(&card, &r)) {
		(void)snprintf(text, sizeof text, "a message came back for reason %u", r.reason);
		return fail(text, r.header & 0xffff);
	}
	int n = funi_wait(&card, 100);
	return n < 0 && n != -EINTR ? fail(card.error, card.node) : 0;
}

/* A slot for a request, from outside handlers: they run while the queue is full. */
static uint32_t *request_slot(void)
{
	uint32_t *s;
	while ((s = funi_send_reserve(&card, FUNI_REQUEST)) == NULL)
		if (serve(FUNI_REPLY) < 0 || serve(FUNI_REQUEST) < 0 || wait_for_news() < 0)
			return NULL;
	return s;
}

/* A slot for a reply, in a request's handler: only replies are handled meanwhile, or two nodes
 * could wait for each other. */
static uint32_t *reply_slot(void)
{
	uint32_t *s;
	while ((s = funi_send_reserve(&card, FUNI_REPLY)) == NULL)
		if (serve(FUNI_REPLY) < 0 || wait_for_news() < 0)
			return NULL;
	return s;
}

/* Sends a request of some words. */
static int request(uint32_t node, uint32_t type, const void *words, uint32_t n)
{
	uint32_t *s = request_slot();
	if (s == NULL)
		return -1;
	s[0] = funi_header((uint16_t)node, type, n);
	if (n > 0)
		memcpy(s + FUNI_PAYLOAD_WORD, words, 4 * (size_t)n);
	funi_send_commit(&card, FUNI_REQUEST);
	return 0;
}

/* Checks a block that has arrived, and answers with its checksum. A node's next block comes after
 * the answer, so the place is this one's until then. */
static int take_block(uint32_t node, const struct funi_notice *n)
{
	uint32_t round = peers[node].arrived, length = n->argument, sum, *s;
	uint8_t *block = in + (size_t)node * place;
	if (length != length_of(round, node, card.node) || n->address != RECEIVE_BASE + node * place ||
		n->words != whole(length) / 4)
		return fail("a block of another length or place than expected", node);
	fill(want, length, round, node, card.node);
	if (memcmp(block, want, length) != 0)
		return fail("other bytes arrived than should", node);
	sum = checksum(block, length);
	peers[node].arrived++;
	peers[card.node].total.blocks++;
	peers[card.node].total.bytes += length;
	if ((s = reply_slot()) == NULL)
		return -1;
	s[0] = funi_header((uint16_t)node, CHECK, 1);
	s[FUNI_PAYLOAD_WORD] = sum;
	funi_send_commit(&card, FUNI_REPLY);
	return 0;
}

/* Handles a message. */
static int handle(enum funi_level l, const uint32_t *m)
{
	uint32_t node = m[FUNI_SOURCE_WORD], type = funi_type(m[0]), words = funi_words(m[0]);
	const uint32_t *w = m + FUNI_PAYLOAD_WORD;
	struct funi_notice n;

	if (node >= card.nodes)
		return fail("a message of no node", node);
	if (funi_is_notice(m, &n))
		return type == BLOCK && l == FUNI_REQUEST ? take_block(node, &n) : fail("an unknown transfer", node);
	if (type == CHECK && words == 1 && l == FUNI_REPLY) {
		if (peers[node].checked || w[0] != peers[node].check)
			return fail("another checksum than that of the block", node);
		peers[node].checked = 1;
	} else if (type == OPTIONS && words == 4 && node == 0) {
		most = w[0];
		rounds = w[1];
		memcpy(&seed, w + 2, sizeof seed);
		has_options = 1;
	} else if (type == TOTAL && words == sizeof(struct total) / 4 && !peers[node].has_total) {
		memcpy(&peers[node].total, w, sizeof(struct total));
		peers[node].has_total = 1;
	} else if (type == ENTER && card.node == 0) {
		entered++;
	} else if (type == LEAVE && node == 0) {
		left++;
	} else {
		return fail("an unknown message", node);
	}
	return 0;
}

/* Handles what has arrived at a level: how many, or -1. */
static int serve(enum funi_level l)
{
	const uint32_t *m;
	int n = 0;
	for (; n < 256 && (m = funi_receive(&card, l)) != NULL; n++) {
		int code = handle(l, m);
		funi_release(&card, l);
		if (code < 0)
			return -1;
	}
	return n;
}

/* Handles what arrives until a word of the program, which handlers change, is at least so much. */
#define WAIT_UNTIL(condition)                                                                          \
	do {                                                                                           \
		int replies = serve(FUNI_REPLY), requests = replies < 0 ? -1 : serve(FUNI_REQUEST);    \
		if (requests < 0 || (!(condition) && replies + requests == 0 && wait_for_news() < 0)) \
			return -1;                                                                     \
	} while (!(condition))

/* Waits until all nodes are here: they tell node 0, which then tells them. */
static int barrier(void)
{
	static uint32_t number;
	number++;
	if (card.node != 0) {
		if (request(0, ENTER, NULL, 0) < 0)
			return -1;
		WAIT_UNTIL(left >= number);
		return 0;
	}
	WAIT_UNTIL(entered >= number * (card.nodes - 1));
	for (uint32_t i = 1; i < card.nodes; i++)
		if (request(i, LEAVE, NULL, 0) < 0)
			return -1;
	return 0;
}

/* Has all nodes use the options of node 0. */
static int agree(void)
{
	uint32_t w[4] = { most, rounds, (uint32_t)seed, (uint32_t)(seed >> 32) };
	if (card.node != 0) {
		WAIT_UNTIL(has_options);
		return 0;
	}
	for (uint32_t i = 1; i < card.nodes; i++)
		if (request(i, OPTIONS, w, 4) < 0)
			return -1;
	return 0;
}

/* Sends a block to every other node, and waits until all have checked them. */
static int play(uint32_t round)
{
	for (uint32_t i = 1; i < card.nodes; i++) {
		uint32_t node = (card.node + i) % card.nodes, length = length_of(round, card.node, node), *s;
		uint8_t *block = out + (size_t)node * place;
		fill(block, length, round, card.node, node);
		peers[node].check = checksum(block, length);
		peers[node].checked = 0;
		if ((s = request_slot()) == NULL)
			return -1;
		funi_transfer(s, (uint16_t)node, BLOCK, SEND_BASE + node * place, RECEIVE_BASE + card.node * place, length,
			whole(length) / 4);
		funi_send_commit(&card, FUNI_REQUEST);
	}
	for (uint32_t i = 1; i < card.nodes; i++) {
		struct peer *p = &peers[(card.node + i) % card.nodes];
		WAIT_UNTIL(p->checked);
	}
	/* The blocks may only change when the card no longer needs them. */
	WAIT_UNTIL(funi_unsent(&card, FUNI_REQUEST) == 0);
	return 0;
}

/* Brings what all nodes have received to node 0, which prints it. */
static int report(void)
{
	struct total *own = &peers[card.node].total, sum = { 0, 0, 0 };
	if (card.node != 0)
		return request(0, TOTAL, own, sizeof *own / 4);
	peers[0].has_total = 1;
	for (uint32_t i = 0; i < card.nodes; i++) {
		WAIT_UNTIL(peers[i].has_total);
		sum.blocks += peers[i].total.blocks;
		sum.bytes += peers[i].total.bytes;
		if (peers[i].total.nanoseconds > sum.nanoseconds)
			sum.nanoseconds = peers[i].total.nanoseconds;
		printf("node %u: %" PRIu64 " blocks, %" PRIu64 " bytes, all as they were sent\n", i, peers[i].total.blocks,
			peers[i].total.bytes);
	}
	printf("%u nodes, %u rounds: %" PRIu64 " blocks, %" PRIu64 " bytes in %.6f s, %.1f MB/s\n", card.nodes, rounds,
		sum.blocks,
	       sum.bytes, (double)sum.nanoseconds / 1e9, (double)sum.bytes / (double)sum.nanoseconds * 1e3);
	return 0;
}

static int run(int argc, char **argv)
{
	void *send, *receive;
	most = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 65536;
	rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 100;
	seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	if (most == 0 || most > MOST_BYTES || rounds == 0)
		return fail("use at least one round of at least one byte, and at most 2^30 bytes", card.node);
	if (funi_attach_environment(&card, 0) != 0)
		return fail(card.error, card.node);
	if (card.nodes < 2)
		return fail("run at least two nodes", card.node);
	if ((peers = calloc(card.nodes, sizeof *peers)) == NULL || agree() < 0)
		return -1;
	place = whole(most);
	if ((uint64_t)place * card.nodes > MOST_BYTES || (want = malloc(most)) == NULL)
		return fail("not enough memory for blocks of that size", card.node);
	if (funi_register_segment(&card, SEND_BASE, (uint64_t)place * card.nodes, FUNI_SOURCE, &send) != 0 ||
	    funi_register_segment(&card, RECEIVE_BASE, (uint64_t)place * card.nodes, FUNI_DESTINATION, &receive) != 0)
		return fail(card.error, card.node);
	out = send;
	in = receive;
	/* Nobody sends before all have memory that can be written. */
	if (barrier() < 0)
		return -1;
	int64_t begin = now();
	for (uint32_t round = 0; round < rounds; round++)
		if (play(round) < 0)
			return -1;
	/* The other nodes' last blocks may still be on the way. */
	for (uint32_t i = 0; i < card.nodes; i++)
		if (i != card.node)
			WAIT_UNTIL(peers[i].arrived == rounds);
	peers[card.node].total.nanoseconds = (uint64_t)(now() - begin);
	/* Nobody leaves while another still needs it. */
	if (report() < 0 || barrier() < 0)
		return -1;
	return funi_close(&card, 2000) == 0 ? 0 : fail(card.error, card.node);
}

int main(int argc, char **argv)
{
	struct sigaction end = { .sa_handler = note };
	(void)sigemptyset(&end.sa_mask);
	(void)sigaction(SIGINT, &end, NULL);
	(void)sigaction(SIGTERM, &end, NULL);
	return run(argc, argv) == 0 ? 0 : ended ? 128 + ended : 1;
}
