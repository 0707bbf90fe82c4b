/* together: tagged messages and operations of all nodes, every byte checked. A node in Go may take
 * part: see tests/libfunet_test.go. */
#include "check.h"

static uint8_t *bytes, *all;
enum { ROOM = 200 << 10 };

/* Everybody sends to node 0 in order, which receives from anybody and from each, in other
 * orders. */
static void tags(int node, int nodes)
{
	enum { MOST = 200, SHORT = 72, EACH = 40 };
	static int seen[64];
	struct funet_received r;
	if (node != 0) {
		for (int i = 0; i < EACH; i++) {
			/* a long one waits for its receiver */
			size_t n = (size_t)(i * 5 % (i % 2 == 0 ? MOST : SHORT));
			fill(bytes, n, node + i);
			CHECK(0, funet_send_tag(f, 0, (uint32_t)i % 2, bytes, n, &patient));
		}
		return;
	}
	for (int i = 0; i < EACH / 2 * (nodes - 1); i++) {
		CHECK(0, funet_receive(f, FUNET_ANY_NODE, 0, bytes, ROOM, &r, &patient));
		int k = 2 * seen[r.source]++;
		CHECK(k * 5 % MOST, r.length);
		CHECK(1, same(bytes, r.length, r.source + k));
	}
	for (int k = 1; k < 5; k += 2) { /* any tag is that of the next one */
		CHECK(0, funet_receive(f, 1, FUNET_ANY_TAG, bytes, ROOM, &r, &patient));
		CHECK(1, r.tag);
		CHECK(1, same(bytes, r.length, 1 + k));
	}
	for (int n = nodes - 1; n > 0; n--)
		for (int k = n == 1 ? 5 : 1; k < EACH; k += 2) {
			CHECK(0, funet_receive(f, n, 1, bytes, ROOM, &r, &patient));
			CHECK(k * 5 % SHORT, r.length);
			CHECK(1, r.source == n && same(bytes, r.length, n + k));
		}
	CHECK(FUNET_TIMEOUT, funet_receive(f, 1, 1, bytes, 16, NULL, &(struct funet_until){ 20, NULL }));
}

/* What cannot be sent or received, and what is given up. */
static void refusals(int node, int nodes)
{
	struct funet_received r;
	int other = node ^ 1;
	CHECK(FUNET_TAG, funet_send_tag(f, 0, UINT32_C(1) << 31, bytes, 1, NULL));
	CHECK(FUNET_NODE, funet_send_tag(f, nodes, 1, bytes, 1, NULL));
	CHECK(FUNET_NODE, funet_receive(f, nodes, 1, bytes, 1, NULL, &now_));
	CHECK(FUNET_ARGUMENT, funet_receive(f, 0, 1, NULL, 1, NULL, &now_));
	if (other >= nodes) {
		CHECK(0, funet_barrier(f, &patient));
		return;
	}
	for (size_t n = 10; n < 4000; n *= 20)
		if (node % 2 == 0)
			CHECK(0, funet_send_tag(f, other, 5, bytes, n, &patient));
		else
			CHECK(FUNET_TRUNCATED, funet_receive(f, other, 5, bytes, 9, &r, &patient));
	if (node % 2 == 0) { /* given up before it is received, and the next one is not */
		CHECK(FUNET_TIMEOUT, funet_send_tag(f, other, 6, bytes, 40000, &(struct funet_until){ 50, NULL }));
		CHECK(0, funet_barrier(f, &patient));
		fill(bytes, 4001, 9);
		CHECK(0, funet_send_tag(f, other, 7, bytes, 4001, &patient));
		return;
	}
	CHECK(0, funet_barrier(f, &patient));
	CHECK(0, funet_receive(f, other, 7, bytes, ROOM, &r, &patient));
	CHECK(4001, r.length);
	CHECK(1, same(bytes, r.length, 9));
}

/* All operations on blocks of a length. */
static void collectives(size_t n, int node, int nodes)
{
	for (int root = 0; root < nodes; root += 2) {
		if (node == root)
			fill(bytes, n, root);
		CHECK(0, funet_broadcast(f, root, bytes, n, &patient));
		CHECK(1, same(bytes, n, root));
		fill(bytes, n, node);
		CHECK(0, funet_gather(f, root, bytes, n, node == root ? all : NULL, &patient));
		for (int i = 0; i < nodes && node == root; i++)
			CHECK(1, same(all + (size_t)i * n, n, i));
		for (int i = 0; i < nodes; i++)
			fill(all + (size_t)i * n, n, 100 + i);
		CHECK(0, funet_scatter(f, root, node == root ? all : NULL, bytes, n, &patient));
		CHECK(1, same(bytes, n, 100 + node));
	}
	for (int i = 0; i < nodes; i++)
		fill(all + (size_t)i * n, n, node * 16 + i);
	CHECK(0, funet_all_to_all(f, all, bytes, n, &patient));
	for (int i = 0; i < nodes; i++)
		CHECK(1, same(bytes + (size_t)i * n, n, i * 16 + node));
	fill(bytes, n, node + 7);
	CHECK(0, funet_all_gather(f, bytes, n, all, &patient));
	for (int i = 0; i < nodes; i++)
		CHECK(1, same(all + (size_t)i * n, n, i + 7));
}

static void reductions(size_t n, int node, int nodes)
{
	static const enum funet_operation operations[] = { FUNET_ADD, FUNET_MIN, FUNET_MAX };
	int64_t *v = malloc(8 * n);
	double *d = malloc(8 * n);
	for (int op = 0; op < 3; op++)
		for (int how = 0; how < 3; how++) { /* scan, reduce, all-reduce */
			enum funet_operation o = operations[op];
			int64_t of = how == 0 ? node + 1 : nodes; /* nodes that are combined */
			for (size_t i = 0; i < n; i++) {
				v[i] = (node - 1) * (int64_t)(i + 1);
				d[i] = (double)v[i] / 4;
			}
			CHECK(0, how == 0 ? funet_scan(f, o, FUNET_I64, v, n, &patient) :
				how == 1 ? funet_reduce(f, 1, o, FUNET_I64, v, n, &patient) :
				funet_all_reduce(f, o, FUNET_I64, v, n, &patient));
			CHECK(0, how == 0 ? funet_scan(f, o, FUNET_F64, d, n, &patient) :
				how == 1 ? funet_reduce(f, 1, o, FUNET_F64, d, n, &patient) :
				funet_all_reduce(f, o, FUNET_F64, d, n, &patient));
			for (size_t i = 0; i < n && (how != 1 || node == 1); i++) {
				int64_t want = op == 0 ? of * (of - 1) / 2 - of : op == 1 ? -1 : of - 2;
				CHECK(want * (int64_t)(i + 1), v[i]);
				CHECK(v[i], (int64_t)(d[i] * 4));
			}
		}
	free(v);
	free(d);
}

int main(int argc, char **argv)
{
	CHECK(0, funet_open(&f, NULL, &patient));
	int node = funet_node(f), nodes = funet_nodes(f);
	bytes = malloc((size_t)(ROOM * nodes));
	all = malloc((size_t)(ROOM * nodes));
	CHECK(0, funet_barrier(f, &patient));
	tags(node, nodes);
	CHECK(0, funet_barrier(f, &patient));
	if (argc == 1 || strcmp(argv[1], "mixed") != 0)
		refusals(node, nodes);
	for (size_t n = 0; n < ROOM; n = n < 72 ? n + 24 : n < 73 ? 73 : n * 30)
		collectives(n, node, nodes);
	reductions(1, node, nodes);
	reductions(1000, node, nodes);
	CHECK(FUNET_ARGUMENT, funet_scan(f, FUNET_XOR, FUNET_I64, bytes, 1, NULL));
	CHECK(FUNET_ARGUMENT, funet_scan(f, FUNET_ADD, FUNET_U8, bytes, 1, NULL));
	CHECK(FUNET_ROOT, funet_broadcast(f, nodes, bytes, 1, NULL));
	CHECK(0, funet_barrier(f, &patient));
	CHECK(0, funet_close(f, &patient));
	free(bytes);
	free(all);
	puts("together");
	return 0;
}
