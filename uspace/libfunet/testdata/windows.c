/* windows: each node has a window, on which all others put, get, compute, lock and signal; then a
 * put goes to all by a chain. Every outcome is checked, and what the window forbids. */
#include "check.h"

enum { BYTES = 200000, WORDS = 64, CHAIN = 5 };

static int node, nodes;

/* The window of a node: words, then a block of bytes for each node. */
static uint64_t *words;
static uint8_t *own; /* memory for puts and gets: two blocks */
static struct funet_target mine, *of;

static struct funet_target at(int n, uint64_t offset)
{
	struct funet_target t = of[n];
	t.address += offset;
	return t;
}

static uint64_t block(int n) { return WORDS * 8 + (uint64_t)n * BYTES; }

/* Bytes to a node and back, with a signal and a notification. */
static void move(int n)
{
	struct funet_target there = at(n, block(node)), word = at(n, 8);
	struct funet_with with = { FUNET_SIGNAL_ADD | FUNET_ACK, 0, 0, word, 3 };
	uint32_t id = 0;
	size_t length = 0;
	fill(own, BYTES, node + n);
	CHECK(0, funet_put(f, &there, own, BYTES, &with, &id, &patient));
	CHECK(0, funet_complete(f, id, NULL, 0, NULL, &patient));
	memset(own + BYTES, 0, BYTES);
	CHECK(0, funet_get(f, &there, own + BYTES, BYTES, NULL, &id, &patient));
	CHECK(0, funet_complete(f, id, NULL, 0, &length, &patient));
	CHECK(BYTES, length);
	CHECK(1, same(own + BYTES, BYTES, node + n));
	/* A few bytes may lie anywhere, and the owner is told. */
	there.address += BYTES - 8;
	with = (struct funet_with){ FUNET_NOTIFY, 0, (uint64_t)node + 100, { 0, 0, 0, 0 }, 0 };
	CHECK(0, funet_put(f, &there, "8 bytes", 8, &with, NULL, &patient));
	CHECK(FUNET_MEMORY, funet_get(f, &there, &length, 8, NULL, &id, &patient));
	CHECK(0, funet_quiet(f, &patient));
}

/* Numbers: each node adds to the words of each other. */
static void compute(int n)
{
	struct funet_target counter = at(n, 16), several = at(n, 256), swapped = at(n, 128 + 8 * (uint64_t)node);
	uint64_t old, v[4] = { 1, 2, 3, 4 }, answer[4];
	struct funet_with silent = { FUNET_SILENT, 0, 0, { 0, 0, 0, 0 }, 0 };
	uint32_t id, small = 1;
	for (int i = 0; i < 50; i++)
		CHECK(0, funet_fetch_add(f, &counter, 1, &old, &patient));
	CHECK(0, funet_apply(f, &several, FUNET_ADD, FUNET_U64, 4, v, &silent, NULL, &patient));
	CHECK(0, funet_quiet(f, &patient));
	CHECK(0, funet_apply(f, &several, FUNET_READ, FUNET_U64, 4, NULL, NULL, &id, &patient));
	CHECK(0, funet_complete(f, id, answer, sizeof answer, NULL, &patient));
	for (uint32_t i = 0; i < 4; i++)
		CHECK(0, answer[i] % (i + 1));
	CHECK(0, funet_swap(f, &swapped, 7, &old, &patient));
	CHECK(0, old);
	CHECK(0, funet_compare_swap(f, &swapped, 6, 8, &old, &patient));
	CHECK(7, old);
	CHECK(0, funet_compare_swap(f, &swapped, 7, 9, NULL, &patient));
	CHECK(0, funet_fetch(f, &swapped, &old, &patient));
	CHECK(9, old);
	CHECK(0, funet_apply(f, &swapped, FUNET_OR, FUNET_U32, 1, &(uint32_t){ 6 }, NULL, &id, &patient));
	CHECK(0, funet_complete(f, id, &small, sizeof small, NULL, &patient));
	CHECK(9, small);
	CHECK(FUNET_ARGUMENT, funet_apply(f, &several, FUNET_ADD, FUNET_U64, 5, v, NULL, &id, &patient));
	CHECK(FUNET_ARGUMENT, funet_complete(f, 12345678, NULL, 0, NULL, &now_));
}

/* Each node counts what the others do, and waits for the counts alone. */
static void count(void)
{
	struct funet_counts *counts;
	struct funet_target window, *all = calloc((size_t)nodes, sizeof *all);
	uint64_t others = (uint64_t)nodes - 1;
	CHECK(0, funet_allocate(f, 64, (void **)&counts));
	CHECK(FUNET_MEMORY, funet_expose(f, words, 64, &(struct funet_window){ .counts = (void *)all }, &window));
	CHECK(0, funet_expose(f, words, 8 * WORDS, &(struct funet_window){ .counts = counts }, &window));
	CHECK(0, funet_all_gather(f, &window, sizeof window, all, &patient));
	for (int i = 1; i < nodes; i++) {
		struct funet_with how = { FUNET_COUNT, 0, 0, { 0, 0, 0, 0 }, 0 }, silent = { FUNET_COUNT | FUNET_SILENT, 0, 0,
			{ 0, 0, 0, 0 }, 0 }, ack = { FUNET_COUNT | FUNET_ACK, 0, 0, { 0, 0, 0, 0 }, 0 };
		struct funet_target to = all[(node + i) % nodes];
		to.address += 320;
		uint64_t zero = 0;
		uint32_t id;
		size_t length = 1;
		CHECK(0, funet_put(f, &to, own, 100, &how, NULL, &patient));
		CHECK(0, funet_get(f, &to, own + BYTES, 100, &silent, NULL, &patient));
		CHECK(0, funet_apply(f, &to, FUNET_ADD, FUNET_U64, 1, &zero, &ack, &id, &patient));
		CHECK(0, funet_complete(f, id, &zero, 8, &length, &patient));
		CHECK(0, length);
		CHECK(0, funet_apply(f, &to, FUNET_ADD, FUNET_U64, 1, &zero, &how, &id, &patient));
		CHECK(0, funet_complete(f, id, &zero, 8, &length, &patient));
		CHECK(8, length);
		CHECK(0, funet_put(f, &to, own, 100, NULL, NULL, &patient)); /* which nobody counts */
	}
	CHECK(0, funet_await(f, &counts->reads, FUNET_EQUAL, others, &patient));
	CHECK(0, funet_await(f, &counts->fetches, FUNET_EQUAL, others, &patient));
	CHECK(0, funet_await(f, &counts->writes, FUNET_EQUAL, 2 * others, &patient));
	CHECK(0, funet_quiet(f, &patient));
	CHECK(0, funet_barrier(f, &patient));
	CHECK(1, counts->reads == others && counts->fetches == others && counts->writes == 2 * others);
	CHECK(0, funet_revoke(f, window.key));
	free(all);
}

/* A lock protects two words from everybody else. */
static void lock(int n)
{
	struct funet_target window = at(n, 0), first = at(n, 24), second = at(n, 32);
	uint64_t a, b;
	for (int i = 0; i < 10; i++) {
		CHECK(0, funet_lock(f, &window, &patient));
		CHECK(0, funet_fetch(f, &first, &a, &patient));
		CHECK(0, funet_fetch(f, &second, &b, &patient));
		CHECK(a, b);
		CHECK(0, funet_swap(f, &first, a + 1, NULL, &patient));
		CHECK(0, funet_swap(f, &second, b + 1, NULL, &patient));
		CHECK(0, funet_fence(f, n, &patient));
		CHECK(0, funet_unlock(f, &window));
	}
}

/* What a window forbids. */
static void refusals(int n)
{
	struct funet_target beyond = at(n, WORDS * 8 + (uint64_t)nodes * BYTES), other = at(n, 0);
	uint64_t old;
	CHECK(FUNET_RANGE, funet_fetch(f, &beyond, &old, &patient));
	other.key += 1 << 16;
	CHECK(FUNET_KEY, funet_fetch(f, &other, &old, &patient));
	CHECK(FUNET_TIMEOUT, funet_ready(f, &other, &(struct funet_until){ 20, NULL }));
	other.node = 70000;
	CHECK(FUNET_NODE, funet_fetch(f, &other, &old, &patient));
	CHECK(FUNET_ARGUMENT, funet_fetch(f, NULL, &old, &patient));
	CHECK(FUNET_ARGUMENT, funet_revoke(f, 1));
	CHECK(FUNET_TIMEOUT, funet_await(f, &words[63], FUNET_EQUAL, 1, &(struct funet_until){ 20, NULL }));
}

/* A put that goes to all nodes from card to card. The chain is node 0, 1, 2 and so on. */
static void chain(void)
{
	struct funet_window how = { .key = 0x123456780002, .rights = FUNET_MAY_WRITE };
	struct funet_next next = { node + 1, (uint32_t)(nodes - node - 1) };
	struct funet_target all;
	struct funet_delivery d;
	uint64_t *memory;
	CHECK(0, funet_allocate(f, 4096, (void **)&memory));
	CHECK(0, funet_expose(f, memory, 4096, &how, &all));
	CHECK(0, funet_join(f, CHAIN, node == 0, node == 0 ? 0 : node - 1, &next, node + 1 < nodes));
	CHECK(0, funet_barrier(f, &patient));
	all.address = 8 * (uint64_t)node;
	uint64_t value = (uint64_t)node + 1;
	CHECK(0, funet_multicast(f, 0, CHAIN, (uint32_t)nodes, &all, &value, 8, &d, &patient));
	CHECK(nodes, d.delivered);
	for (int i = 0; i < nodes; i++)
		CHECK(0, funet_await(f, &memory[i], FUNET_EQUAL, (uint64_t)i + 1, &patient));
	CHECK(FUNET_RIGHTS, funet_fetch(f, &all, NULL, &patient));
	CHECK(0, funet_barrier(f, &patient));
	CHECK(0, funet_leave(f, CHAIN));
	CHECK(0, funet_revoke(f, how.key));
}

int main(void)
{
	struct funet_options options = { .windows = 4, .notifications = 64 };
	struct funet_window how = { .address = 0x10000, .notifications = 64,
		.rights = FUNET_MAY_READ | FUNET_MAY_WRITE | FUNET_MAY_OPERATE | FUNET_MAY_NOTIFY };
	struct funet_notification told[64];
	CHECK(0, funet_open(&f, &options, &patient));
	node = funet_node(f);
	nodes = funet_nodes(f);
	of = calloc((size_t)nodes, sizeof *of);
	CHECK(0, funet_allocate(f, WORDS * 8 + (size_t)nodes * BYTES, (void **)&words));
	CHECK(0, funet_allocate(f, 2 * BYTES, (void **)&own));
	CHECK(0, funet_expose(f, words, WORDS * 8 + (size_t)nodes * BYTES, &how, &mine));
	CHECK(FUNET_MEMORY, funet_expose(f, of, 16, NULL, &mine));
	CHECK(0, funet_all_gather(f, &mine, sizeof mine, of, &patient));
	CHECK(0, funet_barrier(f, &patient));
	for (int i = 1; i < nodes; i++) {
		move((node + i) % nodes);
		compute((node + i) % nodes);
	}
	CHECK(0, funet_barrier(f, &patient)); /* a lock keeps out all that others do */
	for (int i = 1; i < nodes; i++)
		lock((node + i) % nodes);
	CHECK(0, funet_barrier(f, &patient));
	CHECK(0, funet_await(f, &words[1], FUNET_AT_LEAST, 3 * (uint64_t)(nodes - 1), &patient));
	for (int got = 0; got < nodes - 1;) {
		int n = funet_notified(f, told, 64, &patient);
		CHECK(1, n > 0);
		for (int i = 0; i < n; i++, got++) {
			CHECK(told[i].node + 100, told[i].tag);
			CHECK(0, memcmp((uint8_t *)words + block(told[i].node) + BYTES - 8, "8 bytes", 8));
		}
	}
	CHECK(0, funet_notified(f, told, 64, &now_));
	CHECK(0, funet_barrier(f, &patient));
	CHECK(50 * (nodes - 1), words[2]);
	CHECK(10 * (nodes - 1), words[3]);
	CHECK(10 * (nodes - 1), words[4]);
	CHECK(4 * (nodes - 1), words[35]);
	refusals((node + 1) % nodes);
	CHECK(0, funet_barrier(f, &patient));
	count();
	chain();
	CHECK(0, funet_suspend(f, mine.key));
	CHECK(0, funet_resume(f, mine.key));
	CHECK(0, funet_revoke(f, mine.key));
	CHECK(FUNET_ARGUMENT, funet_revoke(f, mine.key));
	CHECK(0, funet_barrier(f, &patient));
	CHECK(0, funet_close(f, &patient));
	free(of);
	puts("windows");
	return 0;
}
