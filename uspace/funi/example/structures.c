/* structures: a lock-free queue and a hash table in the memory of node 0, which all other nodes of
 * a job use at once. Each of them puts numbers into the queue, takes as many out, and counts in the
 * table the numbers that it has taken. At last everybody's numbers were each taken once. Node 0
 * only exposes the memory: the cards do everything else.
 *
 *	cc -O2 -o structures -I.. structures.c
 *	funet run -n 3 ./structures
 *
 * Any node may be ../../rma/example instead, which is this program in Go, and says how the two
 * structures work. */
#define PROGRAM "structures"
#include "node.h"

/* types of messages: where the structures are; a node has done its part */
enum { KEY = 1, DONE = 2 };

enum {
	BASE = 0x10000,
	NUMBERS = 500, /* of each node */
	MOST = 8,      /* nodes */

	PLACES = 64, /* of the queue */
	PUT_IN = 0,  /* offsets of the two counts */
	TAKEN_OUT = 8,
	FIRST_PLACE = 16,
	QUEUE_BYTES = FIRST_PLACE + 8 * PLACES,

	ENTRIES = 4096, /* of the table */
	ENTRY_BYTES = 16,
	TABLE_BYTES = ENTRIES * ENTRY_BYTES
};

static const uint64_t full = UINT64_C(1) << 32;

static uint64_t key; /* of the window */

/* Carries out an operation on words of 64 bits at an address of the window, and waits for what they
 * were: a funi_reason, 0 for none; -1: it cannot. */
static int operate(enum funi_operation operation, uint64_t address, const uint64_t *operands, uint32_t bytes,
	uint64_t *was)
{
	const struct funi_target t = { 0, key, address };
	uint32_t handle, reason = 0;
	int code;
	if (ended || (code = funi_atomic(&card, &t, operation, FUNI_U64, operands, bytes, &handle)) != 0)
		return fail(card.error);
	while ((code = funi_await(&card, handle, was, bytes, 30000)) == -EINTR && !ended)
		;
	if (code != -EREMOTEIO && code != 0)
		return fail(card.error);
	(void)funi_message_status(&card, handle, &reason);
	return (int)reason;
}

static int read_words(uint64_t address, uint64_t *words, uint32_t n)
{
	return operate(FUNI_OP_READ, address, NULL, n * 8, words) == 0 ? 0 : fail(card.error);
}

/* Writes a number where another is; *was: what was there. */
static int exchange(uint64_t address, uint64_t is, uint64_t to, uint64_t *was)
{
	const uint64_t operands[2] = { is, to };
	return operate(FUNI_OP_COMPARE_SWAP, address, operands, 8, was) == 0 ? 0 : fail(card.error);
}

/* Puts a number into the queue (put), or takes the oldest out. *done: 0: it is full, or empty. */
static int change_queue(int put, uint32_t *v, int *done)
{
	const uint64_t count = put ? PUT_IN : TAKEN_OUT;
	uint64_t n, is, was;
	for (*done = 0;;) {
		if (read_words(count, &n, 1))
			return 1;
		const uint64_t place = FIRST_PLACE + n % PLACES * 8, round = n / PLACES;
		if (read_words(place, &is, 1))
			return 1;
		const uint64_t next = put ? round << 33 | full | *v : (round + 1) << 33;
		const int possible = put ? is == round << 33 : is >> 32 == (round << 1 | 1);
		/* somebody has done so, and not counted it */
		const int ahead = is >> 33 > round || (put && is >> 32 == (round << 1 | 1));
		if (!possible && !ahead)
			return 0;
		if (!ahead) {
			if (exchange(place, is, next, &was))
				return 1;
			*done = was == is;
		}
		if ((*done || ahead) && exchange(count, n, n + 1, &was))
			return 1;
		if (*done) {
			if (!put)
				*v = (uint32_t)is;
			return 0;
		}
	}
}

static uint64_t entry(uint64_t k, uint64_t i)
{
	return QUEUE_BYTES + ((k * UINT64_C(0x9e3779b97f4a7c15) >> 52) + i) % ENTRIES * ENTRY_BYTES;
}

/* Adds 1 to the count of a key of the table, which is not 0. */
static int count_up(uint64_t k)
{
	const uint64_t one = 1;
	uint64_t was;
	for (uint64_t i = 0; i < ENTRIES; i++) {
		if (exchange(entry(k, i), 0, k, &was))
			return 1;
		if (was == 0 || was == k)
			return operate(FUNI_OP_ADD, entry(k, i) + 8, &one, 8, &was) == 0 ? 0 : fail(card.error);
	}
	return fail("the table is full");
}

/* The count of a key. */
static int counted(uint64_t k, uint64_t *count)
{
	uint64_t words[2];
	*count = 0;
	for (uint64_t i = 0; i < ENTRIES; i++) {
		if (read_words(entry(k, i), words, 2))
			return 1;
		if (words[0] == k)
			*count = words[1];
		if (words[0] == k || words[0] == 0)
			return 0;
	}
	return 0;
}

/* Number i of a node. It is not 0. */
static uint32_t number(uint32_t node, uint32_t i) { return node << 16 | i; }

/* Node 0: it exposes the memory, tells everybody the key, and looks at the structures when all have
 * done their part. */
static int owner(void)
{
	void *memory;
	uint32_t handle, v, words[2];
	uint64_t count;
	int done;
	if (funi_register_segment(&card, BASE, QUEUE_BYTES + TABLE_BYTES, FUNI_KEYED, &memory) != 0)
		return fail(card.error);
	if (funi_expose_window(&card, memory, QUEUE_BYTES + TABLE_BYTES, 0,
		FUNI_MAY_READ | FUNI_MAY_OPERATE | FUNI_MAY_WRITE, 0, &key, &handle) != 0 ||
	    funi_await(&card, handle, NULL, 0, 10000) != 0)
		return fail(card.error);
	words[0] = (uint32_t)key;
	words[1] = (uint32_t)(key >> 32);
	for (uint32_t to = 1; to < card.nodes; to++)
		if (tell(FUNI_REQUEST, to, KEY, words, 2))
			return 1;
	for (uint32_t to = 1; to < card.nodes; to++)
		if (receive(FUNI_REQUEST, DONE, NULL, 0))
			return 1;
	if (change_queue(0, &v, &done))
		return 1;
	if (done)
		return fail("a number is left in the queue");
	for (uint32_t i = 0; i < (card.nodes - 1) * NUMBERS; i++) {
		if (counted(number(1 + i / NUMBERS, i % NUMBERS), &count))
			return 1;
		if (count != 1)
			return fail("a number was not taken once");
	}
	if (funi_revoke(&card, key, &handle) != 0 || funi_await(&card, handle, NULL, 0, 10000) != 0)
		return fail(card.error);
	for (uint32_t to = 1; to < card.nodes; to++)
		if (tell(FUNI_REQUEST, to, DONE, NULL, 0))
			return 1;
	for (uint32_t to = 1; to < card.nodes; to++)
		if (receive(FUNI_REQUEST, DONE, NULL, 0))
			return 1;
	printf("%u nodes have put %u numbers into the queue; each was taken once\n", card.nodes - 1,
		(card.nodes - 1) * NUMBERS);
	return 0;
}

/* Every other node. */
static int user(void)
{
	uint32_t words[2], in = 0, out = 0, last[MOST] = { 0 }, v;
	const uint64_t one = 1;
	uint64_t was;
	int done;
	if (receive(FUNI_REQUEST, KEY, words, 2))
		return 1;
	key = (uint64_t)words[1] << 32 | words[0];
	while (in < NUMBERS || out < NUMBERS) {
		if (in < NUMBERS) {
			v = number(card.node, in);
			if (change_queue(1, &v, &done))
				return 1;
			in += (uint32_t)done;
		}
		if (out == NUMBERS)
			continue;
		if (change_queue(0, &v, &done))
			return 1;
		if (!done)
			continue;
		out++;
		if (v >> 16 >= MOST || v < last[v >> 16])
			return fail("a number came out after one that was put in later");
		last[v >> 16] = v;
		if (count_up(v))
			return 1;
	}
	if (tell(FUNI_REQUEST, 0, DONE, NULL, 0) || receive(FUNI_REQUEST, DONE, NULL, 0))
		return 1;
	if (operate(FUNI_OP_ADD, 0, &one, 8, &was) != FUNI_REASON_KEY_SLOT)
		return fail("a key that was revoked is not refused as such");
	return tell(FUNI_REQUEST, 0, DONE, NULL, 0);
}

static int run(void)
{
	const struct funi_remote_sizes remote = { 1, 1, 16 };
	if (funi_attach_environment_remote(&card, 0, &remote) != 0)
		return fail(card.error);
	if (card.nodes < 2 || card.nodes > MOST)
		return fail("run 2 to 8 nodes");
	if (card.node == 0 ? owner() : user())
		return 1;
	return funi_close(&card, 10000) != 0 ? fail(card.error) : 0;
}

int main(void)
{
	catch_signals();
	return exit_code(run());
}
