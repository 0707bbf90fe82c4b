/* chain: all nodes of a job are one chain, 0, 1, 2 and so on. Each sends messages along it and
 * writes into everybody's window, at the same time as the others; each message and each write comes
 * to every node once, and its sender hears so. At last the last node leaves, and who sends along
 * the chain hears who does not have it.
 *
 *	cc -O2 -o chain -I.. chain.c
 *	funet run -n 3 ./chain
 *
 * Any node may be ../../rma/example/chain instead, which is this program in Go. */
#define PROGRAM "chain"
#include "node.h"

/* Types of messages. JOINED: a node is a member. KEY: the key of everybody's window. READY: a node
 * has opened its window. BEGIN: all may begin. ROUND: a round of a node. DONE: a node has done its
 * part. LEAVE: the last node is to leave. LEFT: it has left. END: the end. */
enum { JOINED = 1, KEY, READY, BEGIN, ROUND, DONE, LEAVE, LEFT, END };

enum { BASE = 0x10000, ROUNDS = 50, MOST = 8, CHAIN = 5, BYTES = 8 * ROUNDS * MOST };

static volatile uint64_t *table; /* the window: a word for each round of each node */
static uint64_t key;
static uint32_t rounds[MOST]; /* of each node that have come */

static uint64_t value(uint32_t node, uint32_t round) { return (uint64_t)node << 32 | (round + 1); }

/* Checks a round that has come: it is the next of that node, and what it has written is there. */
static int check(const uint32_t *s)
{
	const uint32_t node = s[FUNI_PAYLOAD_WORD], round = s[FUNI_PAYLOAD_WORD + 1];
	if (node >= MOST || s[FUNI_SOURCE_WORD] != node || round != rounds[node])
		return fail("a round is not the next of its node");
	rounds[node]++;
	return table[node * ROUNDS + round] == value(node, round) ? 0 : fail("a round has come before what it has written");
}

/* Waits for a message of a type, and takes rounds meanwhile. */
static int hear(uint32_t type, uint32_t *words, uint32_t n)
{
	for (;;) {
		const uint32_t *s = next_message(FUNI_REQUEST);
		if (s == NULL)
			return 1;
		const uint32_t is = funi_type(s[0]);
		int code = 0;
		if (is == ROUND)
			code = check(s);
		else if (is != type || funi_words(s[0]) != n)
			code = fail("an unexpected message");
		else if (n > 0)
			memcpy(words, s + FUNI_PAYLOAD_WORD, n * sizeof *words);
		funi_release(&card, FUNI_REQUEST);
		if (code != 0 || is == type)
			return code;
	}
}

/* Waits for what was sent along the chain, and that it has come to all; or that it has not come to
 * the last, which has left. */
static int arrives(int code, uint32_t handle, int last_has_left)
{
	struct funi_delivery d;
	while (code == 0 && (code = funi_await(&card, handle, NULL, 0, 30000)) == -EINTR && !ended)
		code = 0;
	if (last_has_left && code == -EREMOTEIO)
		code = 0;
	if (ended || code != 0 || (code = funi_delivered(&card, handle, &d)) != 0)
		return fail(card.error);
	if (!last_has_left)
		return d.delivered == card.nodes && d.failed == 0 ? 0 : fail("a multicast has not come to all");
	if (d.delivered != card.nodes - 1 || d.failed != 1 || d.named != 1 || d.broken[0].node != card.nodes - 1 ||
		d.broken[0].reason != FUNI_REASON_CHAIN)
		return fail("who has left is not named");
	return 0;
}

/* Sends a message along the chain. */
static int send_along(uint32_t type, const uint32_t *words, uint32_t n, int last_has_left)
{
	uint32_t handle = 0;
	int code = funi_multicast(&card, 0, CHAIN, (uint16_t)card.nodes, type, words, n, &handle);
	return arrives(code, handle, last_has_left);
}

/* Writes a round of this node into everybody's window, and tells everybody. */
static int send_round(uint32_t round)
{
	const uint64_t v = value(card.node, round);
	const uint32_t words[2] = { card.node, round };
	uint32_t handle = 0;
	int code = funi_multicast_put(&card, 0, CHAIN, (uint16_t)card.nodes, key,
		8 * ((uint64_t)card.node * ROUNDS + round), &v, sizeof v, &handle);
	return arrives(code, handle, 0) || send_along(ROUND, words, 2, 0);
}

static int carried_out(int code, uint32_t handle)
{
	return code != 0 || funi_await(&card, handle, NULL, 0, 30000) != 0 ? fail(card.error) : 0;
}

static int run(void)
{
	const uint16_t last = (uint16_t)(card.nodes - 1);
	struct funi_chain chain = { CHAIN, card.node == 0, 0, 0, { { 0, 0 } } };
	uint32_t handle, words[2];
	void *memory;
	int code = funi_register_segment(&card, BASE, BYTES, FUNI_KEYED, &memory);
	if (code != 0)
		return fail(card.error);
	table = (volatile uint64_t *)memory;
	if (card.node > 0)
		chain.parent = (uint16_t)(card.node - 1);
	if (card.node < last) {
		chain.nexts = 1;
		chain.next[0].node = (uint16_t)(card.node + 1);
		chain.next[0].members = (uint16_t)(last - card.node);
	}
	code = funi_join(&card, &chain, &handle);
	if (carried_out(code, handle))
		return 1;

	if (card.node == 0) {
		for (uint32_t i = 0; i < last; i++)
			if (hear(JOINED, NULL, 0))
				return 1;
		code = funi_expose_window(&card, memory, BYTES, 0, FUNI_MAY_WRITE, 0, &key, &handle);
		words[0] = (uint32_t)key;
		words[1] = (uint32_t)(key >> 32);
		if (carried_out(code, handle) || send_along(KEY, words, 2, 0) || hear(KEY, words, 2))
			return 1;
		for (uint32_t i = 0; i < last; i++)
			if (hear(READY, NULL, 0))
				return 1;
		if (send_along(BEGIN, NULL, 0, 0))
			return 1;
	} else {
		if (tell(FUNI_REQUEST, 0, JOINED, NULL, 0) || hear(KEY, words, 2))
			return 1;
		key = (uint64_t)words[1] << 32 | words[0];
		code = funi_expose_window_as(&card, memory, BYTES, 0, FUNI_MAY_WRITE, 0, key, &handle);
		if (carried_out(code, handle) || tell(FUNI_REQUEST, 0, READY, NULL, 0))
			return 1;
	}
	if (hear(BEGIN, NULL, 0))
		return 1;
	for (uint32_t round = 0; round < ROUNDS; round++)
		if (send_round(round))
			return 1;
	if (card.node != 0) {
		if (tell(FUNI_REQUEST, 0, DONE, NULL, 0) || hear(LEAVE, NULL, 0))
			return 1;
	} else {
		for (uint32_t i = 0; i < last; i++)
			if (hear(DONE, NULL, 0))
				return 1;
		if (send_along(LEAVE, NULL, 0, 0) || hear(LEAVE, NULL, 0))
			return 1;
	}
	for (uint32_t node = 0; node < card.nodes; node++) /* all rounds were delivered before */
		if (rounds[node] != ROUNDS)
			return fail("rounds are missing");
	if (card.node == last) {
		code = funi_leave(&card, CHAIN, &handle);
		return carried_out(code, handle) || tell(FUNI_REQUEST, 0, LEFT, NULL, 0) || hear(END, NULL, 0);
	}
	if (card.node != 0)
		return hear(END, NULL, 0);
	if (hear(LEFT, NULL, 0) || send_along(END, NULL, 0, 1) || hear(END, NULL, 0) || tell(FUNI_REQUEST, last, END, NULL, 0))
		return 1;
	printf("%u nodes have each sent %d messages and as many writes along a chain; each came to all of them once\n",
		card.nodes, (int)ROUNDS);
	return 0;
}

int main(void)
{
	const struct funi_remote_sizes sizes = { 1, 1, 16 };
	catch_signals();
	if (funi_attach_environment_remote(&card, 0, &sizes) != 0)
		return exit_code(fail(card.error));
	int failed = card.nodes < 2 || card.nodes > MOST ? fail("run 2 to 8 nodes") : run();
	if (funi_close(&card, failed ? 0 : 10000) != 0 && !failed)
		failed = fail(card.error);
	return exit_code(failed);
}
