/* long: messages of all lengths, tagged messages and collective operations among all nodes, every
 * byte checked. The last line is how many bytes the node has checked.
 *
 *	long [messages | together]
 *
 * With nodes of the same job in Go there are messages only, or tagged messages and collective
 * operations. */
#include "funet.h"

enum { TAKE = 1, TAKEN = 2, ECHO = 3, ECHOED = 4 };

static struct funet f;
static uint64_t checked;
static uint32_t taken, wrong;

static const size_t lengths[] = { 0, 1, 71, 72, 73, 80, 81, 95, 96, 97, 1000, 2044, 2047, 2048, 2049, 4096, 65536,
	524287, 524288, 524289, 1048576, 1048577, 3000001 };
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static uint8_t byte(uint32_t salt, size_t i) { return (uint8_t)(salt * 37 + i * 7 + (i >> 8) * 11 + (i >> 16) * 3); }

static int fail(const char *what, int code)
{
	printf("node %u: %s: %d %s\n", f.card.node, what, code, f.error);
	return 1;
}

static void fill(uint8_t *b, size_t n, uint32_t salt)
{
	for (size_t i = 0; i < n; i++)
		b[i] = byte(salt, i);
}

static int same(const uint8_t *b, size_t n, uint32_t salt)
{
	for (size_t i = 0; i < n; i++)
		if (b[i] != byte(salt, i))
			return 0;
	checked += n;
	return 1;
}

static int take(struct funet_message *m)
{
	wrong += !same(m->bytes, m->length, m->source + (uint32_t)m->length);
	return funet_reply(m, TAKEN, NULL, 0);
}

static int is_taken(struct funet_message *m)
{
	taken += m->length == 0;
	return 0;
}

/* A message goes back whole, as a reply of any length. */
static int echo(struct funet_message *m) { return funet_reply(m, ECHOED, m->bytes, m->length); }

static int is_echoed(struct funet_message *m)
{
	wrong += m->level != FUNI_REPLY || !same(m->bytes, m->length, f.card.node + (uint32_t)m->length) ||
		funet_reply(m, TAKEN, NULL, 0) != -EDEADLK;
	taken++;
	return 0;
}

static int has_all(void *want) { return taken == *(uint32_t *)want; }

/* Every node sends every other node messages of all lengths: one after the other, and all at a
 * time. */
static int messages(void)
{
	uint32_t want = 0, under_way = 0;
	int code;
	/* memory of the heap, of the card, of the program's own that the card gets */
	for (int owned = 0; owned < 3; owned++) {
		uint8_t *b = (uint8_t *)(owned == 1 ? funet_alloc(&f,
			3000001) : owned == 0 ? malloc(3000001) : aligned_alloc(4096, 3002368));
		if (b == NULL || (owned == 2 && (code = funet_adopt(&f, b, 3002368)) != 0))
			return fail("memory", owned);
		for (size_t k = 0; k < LENGTHS; k++) {
			size_t n = lengths[k];
			fill(b, n, f.card.node + (uint32_t)n);
			if ((code = funet_send(&f, (f.card.node + 1) % f.card.nodes, ECHO, b, n)) != 0)
				return fail("sending what comes back", code);
			want++;
			for (uint32_t i = 1; i < f.card.nodes; i++, want++) {
				uint32_t to = (f.card.node + i) % f.card.nodes;
				code = k % 2 == 0 ? funet_send(&f, to, TAKE, b, n) : funet_post(&f, to, TAKE, b, n, &under_way);
				if (code != 0)
					return fail("sending", code);
			}
			if ((code = funet_flush(&f, 60000)) != 0 || under_way != 0)
				return fail("flushing", code);
			if (k % 2 == 0)
				memset(b, 0xee, n);
		}
		if (owned == 1)
			funet_free(&f, b);
		while (owned == 2 && (code = funet_disown(&f, b)) == FUNI_ERR_BUSY)
			if ((code = funet_poll(&f)) < 0)
				return fail("polling", code);
		if (owned == 2 && (code != 0 || funet_disown(&f, b) != -EINVAL || funet_adopt(&f, b + 1, 4096) != -EINVAL))
			return fail("having memory back", code);
		if (owned != 1)
			free(b);
	}
	code = funet_wait(&f, has_all, &want, 60000);
	if (code != 0 || wrong != 0)
		return fail("messages", code);
	return 0;
}

/* Everybody sends to node 0 in order, which receives from anybody and from each, in other orders.
 */
static int tags(void)
{
	enum { MOST = 200, EACH = 40 };
	static uint8_t b[4096];
	size_t length;
	uint32_t from, seen[64] = { 0 };
	int code;
	if (f.card.node != 0) {
		for (uint32_t i = 0; i < EACH; i++) {
			/* a long one waits for who receives it */
			size_t n = i * 5 % (i % 2 == 0 ? MOST : FUNET_TAGGED_SHORT);
			fill(b, n, f.card.node + i);
			if ((code = funet_send_tag(&f, 0, i % 2, b, n)) != 0)
				return fail("sending a tagged message", code);
		}
		return 0;
	}
	for (uint32_t i = 0; i < EACH / 2 * (f.card.nodes - 1); i++) {
		if ((code = funet_recv(&f, FUNET_ANY, 0, b, sizeof b, &length, &from, 60000)) != 0)
			return fail("receiving from anybody", code);
		uint32_t k = 2 * seen[from]++;
		if (length != k * 5 % MOST || !same(b, length, from + k))
			return fail("out of order", (int)from);
	}
	struct funet_received what;
	for (uint32_t k = 1; k < 5; k += 2) /* any tag is any of those that have come, or come first */
		if ((code = funet_receive(&f, 1, FUNET_ANY_TAG, b, sizeof b, &what, 60000)) != 0 || what.node != 1 ||
			what.tag != 1 ||
		    what.length != k * 5 % FUNET_TAGGED_SHORT || !same(b, what.length, 1 + k))
			return fail("receiving any tag", code);
	for (uint32_t n = f.card.nodes - 1; n > 0; n--)
		for (uint32_t k = n == 1 ? 5 : 1; k < EACH; k += 2) {
			code = funet_recv(&f, n, 1, b, 4096, &length, &from, 60000);
			if (code != 0 || from != n || length != k * 5 % FUNET_TAGGED_SHORT || !same(b, length, n + k))
				return fail("receiving from one", code);
		}
	return funet_recv(&f, 1, 1, b, 16, NULL, NULL, 20) == -ETIMEDOUT ? 0 : fail("receiving in vain", 0);
}

/* What cannot be sent or received. */
static int refusals(void)
{
	static uint8_t b[5000];
	size_t length = 0;
	int code, other = (int)(f.card.node ^ 1);
	if ((code = funet_send(&f, (uint32_t)other, 99, b, 3000)) != -ENOSYS)
		return fail("a long message without a handler", code);
	if ((code = funet_post(&f, (uint32_t)other, 99, b, 3000, NULL)) != 0 ||
		(code = funet_flush(&f, 60000)) != -ENOSYS || (code = funet_flush(&f, 0)) != 0)
		return fail("a posted message without a handler", code);
	if ((code = funet_send(&f, 0, TAKE, b, FUNET_MAX_BYTES + 1)) != -EMSGSIZE ||
		(code = funet_send_tag(&f, 0, 1u << 31, b, 1)) != -EINVAL ||
	    (code = funet_recv(&f, 77, 1, b, 1, NULL, NULL, 0)) != -EINVAL)
		return fail("what cannot be sent", code);
	for (int n = 10; n < 4000; n *= 20) { /* too long for the receiver, which has a part */
		if (f.card.node % 2 == 0) {
			code = funet_send_tag(&f, (uint32_t)other, 5, b, (size_t)n);
			if (code != 0)
				return fail("sending too much", code);
		} else if ((code = funet_recv(&f, (uint32_t)other, 5, b, 9, &length, NULL, 60000)) != -EMSGSIZE ||
			length != (size_t)n) {
			return fail("receiving too much", code);
		}
	}
	/* A message that is given up before it is received, and the next one that is not. */
	if (f.card.node % 2 == 0) {
		f.patience = 50;
		code = funet_send_tag(&f, (uint32_t)other, 6, b, 4000);
		f.patience = -1;
		if (code != -ETIMEDOUT)
			return fail("giving up", code);
		if ((code = funet_barrier(&f, 60000)) != 0)
			return fail("a barrier", code);
		fill(b, 4001, 9);
		if ((code = funet_send_tag(&f, (uint32_t)other, 7, b, 4001)) != 0)
			return fail("sending after giving up", code);
	} else {
		if ((code = funet_barrier(&f, 60000)) != 0)
			return fail("a barrier", code);
		if ((code = funet_recv(&f, (uint32_t)other, 6, b, sizeof b, &length, NULL, 60000)) != -ECANCELED)
			return fail("receiving what was given up", code);
		if ((code = funet_recv(&f, (uint32_t)other, 7, b, sizeof b, &length, NULL, 60000)) != 0 ||
			!same(b, length, 9) || length != 4001)
			return fail("receiving what comes then", code);
	}
	return 0;
}

/* All collective operations with one length. */
static int collectives(size_t n, int owned)
{
	uint32_t nodes = f.card.nodes, node = f.card.node;
	uint8_t *all = (uint8_t *)(owned ? funet_alloc(&f, n * nodes + 16) : malloc(n * nodes + 16));
	uint8_t *b = (uint8_t *)(owned ? funet_alloc(&f, n * nodes + 16) : malloc(n * nodes + 16));
	int code;
	if (all == NULL || b == NULL)
		return fail("memory", owned);
	for (uint32_t root = 0; root < nodes; root += 3) {
		if (node == root)
			fill(b, n, root);
		if ((code = funet_broadcast(&f, root, b, n, 60000)) != 0 || !same(b, n, root))
			return fail("a broadcast", code);
		fill(b, n, node);
		if ((code = funet_gather(&f, root, b, n, all, 60000)) != 0)
			return fail("a gather", code);
		for (uint32_t i = 0; i < nodes; i++)
			if (node == root && !same(all + i * n, n, i))
				return fail("gathered", (int)i);
		for (uint32_t i = 0; i < nodes; i++)
			fill(all + i * n, n, 100 + i);
		if ((code = funet_scatter(&f, root, all, b, n, 60000)) != 0 || !same(b, n, 100 + node))
			return fail("a scatter", code);
	}
	for (uint32_t i = 0; i < nodes; i++)
		fill(all + i * n, n, node * 16 + i);
	if ((code = funet_alltoall(&f, all, b, n, 60000)) != 0)
		return fail("an all-to-all", code);
	for (uint32_t i = 0; i < nodes; i++)
		if (!same(b + i * n, n, i * 16 + node))
			return fail("exchanged", (int)i);
	fill(b, n, node + 7);
	if ((code = funet_allgather(&f, b, n, all, 60000)) != 0)
		return fail("an all-gather", code);
	for (uint32_t i = 0; i < nodes; i++)
		if (!same(all + i * n, n, i + 7))
			return fail("gathered by all", (int)i);
	if (owned) {
		funet_free(&f, all);
		funet_free(&f, b);
	} else {
		free(all);
		free(b);
	}
	return 0;
}

static int reductions(size_t n)
{
	int64_t *v = (int64_t *)malloc(8 * n + 8), nodes = f.card.nodes, node = f.card.node;
	double *d = (double *)malloc(8 * n + 8);
	int code;
	if (v == NULL || d == NULL)
		return fail("memory", 0);
	for (int op = FUNET_SUM; op <= FUNET_MAX; op++)
		for (int scan = 0; scan < 2; scan++) {
			int64_t of = scan ? node + 1 : nodes; /* nodes that are combined */
			for (size_t i = 0; i < n; i++) {
				v[i] = (node - 1) * (int64_t)(i + 1);
				d[i] = (double)v[i] / 4;
			}
			code = scan ? funet_scan(&f, FUNET_INT64, (enum funet_operation)op, v, n, 60000) : funet_allreduce(&f,
				FUNET_INT64, (enum funet_operation)op, v, n, 60000);
			if (code == 0)
				code = scan ? funet_scan(&f, FUNET_DOUBLE, (enum funet_operation)op, d, n, 60000) : funet_allreduce(&f,
					FUNET_DOUBLE, (enum funet_operation)op, d, n, 60000);
			if (code != 0)
				return fail("a reduction", code);
			for (size_t i = 0; i < n; i++) {
				int64_t want = op == FUNET_SUM ? of * (of - 1) / 2 - of : op == FUNET_MIN ? -1 : of - 2;
				if (v[i] != want * (int64_t)(i + 1) || d[i] < (double)v[i] / 4 || d[i] > (double)v[i] / 4)
					return fail("a wrong result", op * 2 + scan);
				checked += 16;
			}
		}
	free(v);
	free(d);
	return 0;
}

int main(int argc, char **argv)
{
	int only = argc > 1 && strcmp(argv[1], "messages") == 0, together = argc > 1 && strcmp(argv[1], "together") == 0;
	int code = funet_open(&f, NULL);
	if (code != 0 || (code = funet_handle(&f, TAKE, take, NULL)) != 0 ||
		(code = funet_handle(&f, TAKEN, is_taken, NULL)) != 0 ||
	    (code = funet_handle(&f, ECHO, echo, NULL)) != 0 || (code = funet_handle(&f, ECHOED, is_echoed, NULL)) != 0 ||
	    (code = funet_barrier(&f, 60000)) != 0)
		return fail("opening", code);
	if (!together && messages() != 0)
		return 1;
	if (only) {
		if ((code = funet_barrier(&f, 60000)) != 0 || (code = funet_close(&f, 5000)) != 0)
			return fail("at the end", code);
		printf("%llu\n", (unsigned long long)checked);
		return 0;
	}
	if (tags() != 0 || funet_barrier(&f, 60000) != 0 || (!together && refusals() != 0))
		return 1;
	for (size_t n = 0; n < 200000; n = n < 72 ? n + 24 : n < 73 ? 73 : n * 30)
		if (collectives(n, 0) != 0 || collectives(n, 1) != 0)
			return 1;
	if (reductions(1) != 0 || reductions(5) != 0 || reductions(1000) != 0)
		return 1;
	if ((code = funet_barrier(&f, 60000)) != 0 || f.unknown != (together ? 0 : 2) || f.kept != 0 ||
		(code = funet_close(&f, 5000)) != 0)
		return fail("at the end", code != 0 ? code : (int)f.unknown);
	printf("%llu\n", (unsigned long long)checked);
	return 0;
}
