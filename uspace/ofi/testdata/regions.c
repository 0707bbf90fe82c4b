/* regions.c: two nodes check the rules of reads, writes and atomic operations over libfabric's
 * provider funet, with both ways of naming regions. The last line says that all rules hold. */
#define _GNU_SOURCE
#include "node.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <math.h>
#include <sys/mman.h>

enum { BYTES = 3 << 20 };

static struct fid_mr *mr;
static char *region, *local;
static uint64_t base, key; /* of the other's region */

static void *finished(struct fid_cq *cq, uint64_t flags, void *context)
{
	struct fi_cq_tagged_entry e = completion(cq, context, NULL);
	REQUIRE(e.flags == flags, "flags %llx instead of %llx", (unsigned long long)e.flags, (unsigned long long)flags);
	return context;
}

static void expose(int made)
{
	region = calloc(1, BYTES + 24);
	local = calloc(1, BYTES);
	uint64_t named[2], access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	OK(fi_mr_reg(domain, region + 16, BYTES, access, 0, 7, 0, &mr, NULL));
	REQUIRE(made || fi_mr_key(mr) == 7, "key %llu", (unsigned long long)fi_mr_key(mr));
	struct fid_mr *other;
	if (!made) {
		REQUIRE(fi_mr_reg(domain, local, 8, access, 0, 7, 0, &other, NULL) == -FI_ENOKEY, "a key twice");
		for (uint64_t k = 1 << 16; k != 0; k <<= 47) /* MPICH has keys with the highest bit */
			REQUIRE(fi_mr_reg(domain, local, 8, access, 0, k, 0, &other, NULL) == -FI_EKEYREJECTED, "key %llx",
				(unsigned long long)k);
	}
	REQUIRE(fi_close(&domain->fid) == -FI_EBUSY, "closed while it was in use");
	named[0] = made ? (uint64_t)(uintptr_t)(region + 16) : 0;
	named[1] = fi_mr_key(mr);
	POST(fi_tinject(ep, named, sizeof named, node[peer], 99));
	POST(fi_trecv(ep, named, sizeof named, NULL, node[peer], 99, 0, &mr));
	(void)completion(rx, &mr, NULL);
	base = named[0];
	key = named[1];
	barrier();
}

/* What is written can be read, at any place and in any length. Nothing else changes. */
static void transfers(void)
{
	static const size_t sizes[] = { 1, 8, 52, 53, 64, 65, 256, 4097, 100000, 2000000 };
	char c;
	for (size_t i = 0; me == 0 && i < sizeof sizes / sizeof sizes[0]; i++) {
		size_t n = sizes[i], at = 1000 * i + i;
		memset(local, (int)i + 1, n);
		POST(fi_write(ep, local, n, NULL, node[1], base + at, key, &c));
		(void)finished(tx, FI_RMA | FI_WRITE, &c);
		memset(local, 0, n);
		struct iovec v[2] = { { local, n / 3 }, { local + n / 3, n - n / 3 } };
		struct fi_rma_iov place = { base + at, n, key };
		struct fi_msg_rma m = { .msg_iov = v, .iov_count = 2, .addr = node[1], .rma_iov = &place, .rma_iov_count = 1,
			.context = &c };
		POST(fi_readmsg(ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE));
		(void)finished(tx, FI_RMA | FI_READ, &c);
		for (size_t j = 0; j < n; j++)
			REQUIRE(local[j] == (char)(i + 1), "byte %zu of %zu", j, n);
	}
	barrier();
	if (me == 1) {
		for (size_t j = 0; j < 16; j++)
			REQUIRE(region[j] == 0, "a byte before the region");
		REQUIRE(region[16 + 9009] == 10 && region[16 + 1001] == 2 && region[16 + 1009] == 0, "not where it belongs");
	}
	barrier();
	/* Data comes with a write, when all of it is there. */
	if (me == 0) {
		for (size_t n = 8; n <= 200; n += 64) {
			memset(local, (int)n, n);
			POST(fi_inject_writedata(ep, local, n, n << 40, node[1], base, key));
			memset(local, 0, n);
			barrier();
		}
		memset(local, 9, 1000000);
		POST(fi_writedata(ep, local, 1000000, NULL, 5, node[1], base, key, &c));
		(void)finished(tx, FI_RMA | FI_WRITE, &c);
	} else {
		for (uint64_t n = 8; n <= 200; n += 64) {
			struct fi_cq_tagged_entry e = completion(rx, NULL, NULL);
			REQUIRE(e.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) && e.data == n << 40 &&
				region[16] == (char)n && region[16 + n - 1] == (char)n, "%llx", (unsigned long long)e.data);
			barrier();
		}
		REQUIRE(completion(rx, NULL, NULL).data == 5 && region[16 + 999999] == 9, "the long one");
	}
	barrier();
}

/* What is not allowed changes nothing, and says why. */
static void refusals(void)
{
	char c;
	uint64_t before = fi_cntr_readerr(written);
	if (me == 0) {
		POST(fi_write(ep, local, 8, NULL, node[1], base, key + 1, &c));
		REQUIRE(failure(tx, &c, FI_EKEYREJECTED).prov_errno == FI_EKEYREJECTED, "a wrong key");
		POST(fi_write(ep, local, 16, NULL, node[1], base + BYTES - 8, key, &c));
		(void)failure(tx, &c, FI_EKEYREJECTED);
		REQUIRE(fi_cntr_readerr(written) == before + 2, "%llu errors", (unsigned long long)fi_cntr_readerr(written));
		REQUIRE(fi_inject_write(ep, local, 257, node[1], base, key) == -FI_EMSGSIZE, "more than inject_size");
	}
	barrier();
}

/* Both nodes add to a word, and exchange others. */
static void atomics(void)
{
	enum { N = 500 };
	uint64_t one = 1, old, expected = 0, operands[4] = { 1, 2, 3, 4 }, olds[4];
	double half = 0.5, was;
	char c;
	size_t count;
	OK(fi_atomicvalid(ep, FI_UINT64, FI_SUM, &count));
	REQUIRE(count == 4 && fi_atomicvalid(ep, FI_FLOAT_COMPLEX, FI_SUM, &count) == -FI_EOPNOTSUPP &&
		fi_compare_atomicvalid(ep, FI_INT32, FI_MSWAP, &count) == 0 &&
		fi_atomicvalid(ep, FI_DOUBLE, FI_BOR, &count) == -FI_EOPNOTSUPP,
		"what is offered");
	uint64_t *words = (uint64_t *)(region + 16); /* of this node */
	memset(words, 0, 100);
	barrier();
	for (int i = 0; i < N; i++) { /* each on both */
		for (int to = 0; to < 2; to++) {
			if (to != (int)me) {
				POST(fi_fetch_atomic(ep, &one, 1, NULL, &old, NULL, node[to], base, key, FI_UINT64, FI_SUM, &c));
				(void)finished(tx, FI_ATOMIC | FI_READ, &c);
				REQUIRE(old >= expected, "it went back");
				expected = old + 1;
			}
		}
	}
	REQUIRE(expected == N, "%llu", (unsigned long long)expected);
	POST(fi_atomic(ep, operands, 4, NULL, node[peer], base + 8, key, FI_UINT64, FI_SUM, &c));
	(void)finished(tx, FI_ATOMIC | FI_WRITE, &c);
	POST(fi_fetch_atomic(ep, NULL, 4, NULL, olds, NULL, node[peer], base + 8, key, FI_UINT64, FI_ATOMIC_READ, &c));
	(void)finished(tx, FI_ATOMIC | FI_READ, &c);
	REQUIRE(memcmp(olds, operands, sizeof olds) == 0, "four at once");
	uint64_t compare = 1, swap = 77;
	POST(fi_compare_atomic(ep, &swap, 1, NULL, &compare, NULL, &old, NULL, node[peer], base + 8, key, FI_UINT64,
		FI_CSWAP, &c));
	(void)finished(tx, FI_ATOMIC | FI_READ, &c);
	REQUIRE(old == 1, "compared with %llu", (unsigned long long)old);
	uint64_t done = fi_cntr_read(written);
	POST(fi_inject_atomic(ep, &half, 1, node[peer], base + 48, key, FI_DOUBLE, FI_SUM));
	OK(fi_cntr_wait(written, done + 1, 10000));
	POST(fi_fetch_atomic(ep, &half, 1, NULL, &was, NULL, node[peer], base + 48, key, FI_DOUBLE, FI_SUM, &c));
	(void)finished(tx, FI_ATOMIC | FI_READ, &c);
	barrier();
	REQUIRE(words[0] == N && words[1] == 77 && words[4] == 4, "%llu, %llu, %llu", (unsigned long long)words[0],
		(unsigned long long)words[1], (unsigned long long)words[4]);
	memcpy(&was, &words[6], sizeof was);
	REQUIRE(was == 1, "halves make %f", was);
	barrier();
}

/* Logical operations, and swaps under each comparison, as fi_atomic(3) defines them. */
static void comparisons(void)
{
	static const enum fi_op ops[] = { FI_LOR, FI_LAND, FI_LXOR, FI_CSWAP_NE, FI_CSWAP_LE, FI_CSWAP_LT, FI_CSWAP_GE,
		FI_CSWAP_GT };
	char c;
	size_t count;

#define EXPECT(op, type, old, compare, operand) \
	((op) == FI_LOR ? (type)((old) || (operand)) : (op) == FI_LAND ? (type)((old) && (operand)) : \
	(op) == FI_LXOR ? (type)(!(old) != !(operand)) : \
	((op) == FI_CSWAP_NE && (compare) != (old)) || ((op) == FI_CSWAP_LE && (compare) <= (old)) || \
	((op) == FI_CSWAP_LT && (compare) < (old)) || ((op) == FI_CSWAP_GE && (compare) >= (old)) || \
	((op) == FI_CSWAP_GT && (compare) > (old)) ? (operand) : (old))
#define EACH(type, code, ...) \
	do { \
		const type values[] = { __VA_ARGS__ }; \
		enum { N = sizeof values / sizeof values[0] }; \
		for (unsigned i = 0; i < sizeof ops / sizeof ops[0] * N * N; i++) { \
			enum fi_op op = ops[i / N / N]; \
			int compares = op >= FI_CSWAP_NE; \
			type old[2] = { values[i % N], values[(i + 1) % N] }, operand[2] = { values[i / N % N], values[i % N] }, \
			     compare[2] = { values[i / N % N], values[i / N % N] }, was[2], is[2]; \
			if (compares) \
				operand[0] = operand[1] = 9; \
			OK(compares ? fi_compare_atomicvalid(ep, code, op, &count) : fi_fetch_atomicvalid(ep, code, op, &count)); \
			POST(fi_atomic(ep, old, 2, NULL, node[peer], base, key, code, FI_ATOMIC_WRITE, &c)); \
			(void)finished(tx, FI_ATOMIC | FI_WRITE, &c); \
			if (compares) \
				POST(fi_compare_atomic(ep, operand, 2, NULL, compare, NULL, was, NULL, node[peer], base, key, code, op, &c)); \
			else \
				POST(fi_fetch_atomic(ep, operand, 2, NULL, was, NULL, node[peer], base, key, code, op, &c)); \
			(void)finished(tx, FI_ATOMIC | FI_READ, &c); \
			POST(fi_fetch_atomic(ep, NULL, 2, NULL, is, NULL, node[peer], base, key, code, FI_ATOMIC_READ, &c)); \
			(void)finished(tx, FI_ATOMIC | FI_READ, &c); \
			for (int j = 0; j < 2; j++) { \
				type want = EXPECT(op, type, old[j], compare[j], operand[j]); \
				REQUIRE(memcmp(&was[j], &old[j], sizeof was[j]) == 0 && memcmp(&is[j], &want, sizeof want) == 0, \
					"operation %d, element %d, turn %u: %f became %f, not %f", op, j, i, (double)old[j], (double)is[j], \
					(double)want); \
			} \
		} \
	} while (0)
	EACH(uint8_t, FI_UINT8, 0, 1, 200);
	EACH(int8_t, FI_INT8, 0, -1, 100);
	EACH(uint16_t, FI_UINT16, 0, 1, 60000);
	EACH(int16_t, FI_INT16, 0, -1, 300);
	EACH(uint32_t, FI_UINT32, 0, 1, 1u << 31);
	EACH(int32_t, FI_INT32, 0, -1, 1 << 20);
	EACH(uint64_t, FI_UINT64, 0, 1, (uint64_t)1 << 63);
	EACH(int64_t, FI_INT64, 0, -1, (int64_t)1 << 40);
	EACH(float, FI_FLOAT, 0, -1.5f, -0.0f, NAN);
	EACH(double, FI_DOUBLE, 0, -1.5, -0.0, NAN);
	REQUIRE(fi_atomicvalid(ep, FI_INT32, FI_CSWAP_LE, &count) == -FI_EOPNOTSUPP &&
		fi_compare_atomicvalid(ep, FI_INT32, FI_LOR, &count) == -FI_EOPNOTSUPP, "of another kind");
	/* Without the old value, and without a completion. */
	uint32_t seven = 7, old;
	uint64_t done = fi_cntr_read(written);
	POST(fi_inject_atomic(ep, &seven, 1, node[peer], base + 4, key, FI_UINT32, FI_LOR));
	OK(fi_cntr_wait(written, done + 1, 10000));
	POST(fi_fetch_atomic(ep, NULL, 1, NULL, &old, NULL, node[peer], base + 4, key, FI_UINT32, FI_ATOMIC_READ, &c));
	(void)finished(tx, FI_ATOMIC | FI_READ, &c);
	REQUIRE(old == 1, "%u", old);
	/* Both turn a bit of node 0 over, many times at once. None of it is lost: half of all turns find
	 * it set. */
	enum { TURNS = 50, ATONCE = 8 };
	uint32_t one = 1, set = 0, theirs, olds[ATONCE];
	barrier(); /* the other one has done with this region */
	memset(region, 0, 64);
	barrier();
	uint64_t there[2] = { base, key };
	if (me == 0) {
		there[0] = key == 7 ? 0 : (uint64_t)(uintptr_t)(region + 16);
		there[1] = fi_mr_key(mr);
	}
	for (int i = 0; i < TURNS; i++) {
		for (int j = 0; j < ATONCE; j++)
			POST(fi_fetch_atomic(ep, &one, 1, NULL, &olds[j], NULL, node[0], there[0] + 8, there[1], FI_UINT32, FI_LXOR, &c));
		for (int j = 0; j < ATONCE; j++)
			(void)finished(tx, FI_ATOMIC | FI_READ, &c);
		for (int j = 0; j < ATONCE; j++)
			set += olds[j];
	}
	POST(fi_tinject(ep, &set, sizeof set, node[peer], 97));
	POST(fi_trecv(ep, &theirs, sizeof theirs, NULL, node[peer], 97, 0, &c));
	(void)completion(rx, &c, NULL);
	REQUIRE(set + theirs == TURNS * ATONCE, "%u and %u turns found it set", set, theirs);
	barrier();
}

/* An operation with FI_FENCE starts when all earlier ones to its node are complete. */
static void fences(void)
{
	enum { N = 20, LONG = 1 << 20 };
	static char message[LONG];
	char c, in;
	for (int i = 0; me == 0 && i < N; i++) {
		uint64_t number = fi_cntr_read(written);
		memset(local, i, LONG);
		POST(fi_write(ep, local, LONG, NULL, node[1], base, key, &c));
		struct iovec v = { local + i, 1 };
		struct fi_rma_iov place = { base + LONG, 1, key };
		struct fi_msg_rma write = { .msg_iov = &v, .iov_count = 1, .addr = node[1], .rma_iov = &place, .rma_iov_count = 1,
			.context = &in };
		POST(fi_writemsg(ep, &write, FI_COMPLETION | FI_FENCE));
		REQUIRE(fi_cntr_read(written) > number, "the write before is under way");
		(void)finished(tx, FI_RMA | FI_WRITE, &c);
		(void)finished(tx, FI_RMA | FI_WRITE, &in);
		/* a message to a node that has not asked for the one before */
		number = fi_cntr_read(sent);
		POST(fi_tsend(ep, message, LONG, NULL, node[1], 5, &c));
		struct fi_msg_tagged note = { .msg_iov = &v, .iov_count = 1, .addr = node[1], .tag = 6, .context = &in };
		if (i == 0)
			REQUIRE(fi_tsendmsg(ep, &note, FI_COMPLETION | FI_FENCE) == -FI_EAGAIN, "the send before is under way");
		POST(fi_tinject(ep, &c, 1, node[1], 4));
		POST(fi_tsendmsg(ep, &note, FI_COMPLETION | FI_FENCE));
		REQUIRE(fi_cntr_read(sent) >= number + 2, "the send before is under way");
		(void)completion(tx, &c, NULL);
		(void)completion(tx, &in, NULL);
		barrier();
	}
	for (int i = 0; me == 1 && i < N; i++) {
		POST(fi_trecv(ep, &in, 1, NULL, node[0], 4, 0, &in));
		(void)completion(rx, &in, NULL);
		POST(fi_trecv(ep, message, LONG, NULL, node[0], 5, 0, &c));
		(void)completion(rx, &c, NULL);
		POST(fi_trecv(ep, &in, 1, NULL, node[0], 6, 0, &in));
		(void)completion(rx, &in, NULL);
		REQUIRE(in == i && region[16] == i && region[16 + LONG - 1] == i && region[16 + LONG] == i, "%d", in);
		barrier();
	}
}

/* More regions than the card has segments. */
static void many(void)
{
	enum { N = 500 };
	static struct fid_mr *all[N];
	char *memory = calloc(N, 5000);
	for (int i = 0; i < N; i++)
		OK(fi_mr_reg(domain, memory + 5000 * i, 100, FI_REMOTE_READ, 0, (uint64_t)i + 100, 0, &all[i], NULL));
	for (int i = 0; i < N; i++)
		OK(fi_close(&all[i]->fid));
	free(memory);
}

/* Buffers in more places than the card has segments, beside a region that lies in two of them. */
static void places(void)
{
	enum { N = 60, UNIT = 16 << 20 };
	const size_t bytes = (size_t)(2 * N + 4) * UNIT;
	char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	REQUIRE(all != MAP_FAILED, "no addresses");
	char *first = (char *)(((uintptr_t)all + UNIT - 1) & -(uintptr_t)UNIT), *middle = first + UNIT - 8, c;
	struct fid_mr *mine;
	uint64_t named[2];
	region[16] = (char)(40 + me);
	barrier();
	POST(fi_read(ep, first, 8, NULL, node[peer], base, key, &c));
	(void)finished(tx, FI_RMA | FI_READ, &c);
	OK(fi_mr_reg(domain, middle, 16, FI_REMOTE_READ, 0, 8, 0, &mine, NULL));
	memset(middle, (int)(50 + me), 16);
	named[0] = key == 7 ? 0 : (uint64_t)(uintptr_t)middle;
	named[1] = fi_mr_key(mine);
	POST(fi_tinject(ep, named, sizeof named, node[peer], 98));
	POST(fi_trecv(ep, named, sizeof named, NULL, node[peer], 98, 0, &mine));
	(void)completion(rx, &mine, NULL);
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < N; i++)
			POST(fi_read(ep, first + (size_t)(2 * i + 3) * UNIT, 8, NULL, node[peer], base, key, &c));
		for (int i = 0; i < N; i++)
			(void)finished(tx, FI_RMA | FI_READ, &c);
		for (int i = 0; i < N; i++)
			REQUIRE(first[(size_t)(2 * i + 3) * UNIT] == (char)(40 + peer), "the one in place %d", i);
	}
	POST(fi_read(ep, local, 16, NULL, node[peer], named[0], named[1], &c));
	(void)finished(tx, FI_RMA | FI_READ, &c);
	REQUIRE(local[0] == (char)(50 + peer) && local[15] == (char)(50 + peer), "%d, %d", local[0], local[15]);
	barrier();
	OK(fi_close(&mine->fid));
	REQUIRE(munmap(all, bytes) == 0, "munmap");
}

/* A write has left when the call returns: its bytes arrive while the writer is stopped. */
static void leaving(void)
{
	char c;
	region[16] = 0;
	will_stop();
	if (me == 0) {
		local[0] = 7;
		POST(fi_write(ep, local, 1, NULL, node[1], base, key, &c));
		stop();
		(void)finished(tx, FI_RMA | FI_WRITE, &c);
	} else {
		while (*(volatile char *)&region[16] != 7)
			progress();
		resume();
	}
	barrier();
}

int main(void)
{
	start();
	for (int made = 0; made < 2; made++) {
		open_all(FI_RMA | FI_ATOMIC | FI_FENCE, made ? FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY : 0);
		expose(made);
		transfers();
		leaving();
		refusals();
		atomics();
		comparisons();
		fences();
		many();
		places();
		barrier();
		OK(fi_close(&mr->fid));
		barrier();
		if (me == 0) {
			char c;
			POST(fi_read(ep, local, 8, NULL, node[1], base, key, &c));
			(void)failure(tx, &c, FI_EKEYREJECTED);
		}
		barrier();
		close_all();
		free(region);
		free(local);
	}
	printf("all rules hold\n");
	return 0;
}
