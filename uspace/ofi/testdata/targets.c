/* targets.c: node 1 counts what node 0 does to its regions (FI_RMA_EVENT), over libfabric's provider
 * funet and with both ways of naming regions. The last line says that all rules hold. */
#define _GNU_SOURCE
#include "node.h"

#include <poll.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

enum { BYTES = 1 << 20, PATIENCE = 20000 };

/* Of a region, of the endpoint for all regions, and of what was expected so far. */
static struct fid_cntr *changes, *writes, *reads;
static uint64_t changed, wrote, read_;
static struct fid_mr *mr, *plain; /* plain has no counter of its own */
static struct fid_ep *target;
static char *region, *local, *elsewhere;
static uint64_t base, key, plain_base, plain_key; /* of node 1 */

static struct fid_cntr *counter(enum fi_wait_obj wait)
{
	struct fid_cntr *c;
	OK(fi_cntr_open(domain, &(struct fi_cntr_attr){ .wait_obj = wait }, &c, NULL));
	return c;
}

/* What may be bound to what. The target has an endpoint of its own, as an OpenSHMEM's has. */
static void bindings(void)
{
	REQUIRE((offered->caps & FI_RMA_EVENT) != 0 && (offered->rx_attr->caps & FI_RMA_EVENT) != 0, "not offered");
	changes = counter(FI_WAIT_UNSPEC);
	writes = counter(FI_WAIT_FD);
	reads = counter(FI_WAIT_UNSPEC);
	OK(fi_endpoint(domain, offered, &target, NULL));
	OK(fi_ep_bind(target, &av->fid, 0));
	OK(fi_ep_bind(target, &tx->fid, FI_TRANSMIT));
	OK(fi_ep_bind(target, &rx->fid, FI_RECV));
	OK(fi_ep_bind(target, &writes->fid, FI_REMOTE_WRITE));
	OK(fi_ep_bind(target, &reads->fid, FI_REMOTE_READ));
	OK(fi_enable(target));
	REQUIRE(fi_close(&writes->fid) == -FI_EBUSY, "closed while it was in use");
	struct fid_ep *other;
	OK(fi_endpoint(domain, offered, &other, NULL));
	REQUIRE(fi_ep_bind(other, &reads->fid, FI_REMOTE_WRITE) == -FI_EBUSY, "two counters of a domain");
	OK(fi_ep_bind(other, &writes->fid, FI_REMOTE_WRITE));
	OK(fi_close(&other->fid));

	region = calloc(1, BYTES);
	elsewhere = calloc(1, BYTES);
	local = calloc(1, BYTES);
	uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	OK(fi_mr_reg(domain, region, BYTES, access, 0, 7, FI_RMA_EVENT, &mr, NULL));
	REQUIRE(fi_mr_bind(mr, &changes->fid, FI_REMOTE_READ) == -FI_EBADFLAGS, "a counter of reads");
	OK(fi_mr_bind(mr, &changes->fid, FI_REMOTE_WRITE));
	REQUIRE(fi_mr_bind(mr, &writes->fid, FI_REMOTE_WRITE) == -FI_EINVAL, "two counters");
	OK(fi_mr_enable(mr));
	OK(fi_mr_reg(domain, elsewhere, BYTES, access, 0, 8, 0, &plain, NULL));
}

static void exchange(int made)
{
	uint64_t named[4] = { made ? (uintptr_t)region : 0, fi_mr_key(mr), made ? (uintptr_t)elsewhere : 0, fi_mr_key(plain) };
	POST(fi_tinject(ep, named, sizeof named, node[peer], 99));
	POST(fi_trecv(ep, named, sizeof named, NULL, node[peer], 99, 0, &mr));
	(void)completion(rx, &mr, NULL);
	base = named[0];
	key = named[1];
	plain_base = named[2];
	plain_key = named[3];
	barrier();
}

/* Waits for a counter by its descriptor. */
static void sleep_for(struct fid_cntr *c, uint64_t value)
{
	int fd;
	OK(fi_control(&c->fid, FI_GETWAIT, &fd));
	while (fi_cntr_read(c) < value) {
		struct fid *fid = &c->fid;
		if (fi_trywait(fabric, &fid, 1) == 0) {
			struct pollfd p = { .fd = fd, .events = POLLIN };
			REQUIRE(poll(&p, 1, PATIENCE) == 1, "it sleeps on at %llu of %llu", (unsigned long long)fi_cntr_read(c),
				(unsigned long long)value);
		}
	}
}

/* Node 1 sees that an operation of node 0 has counted. */
static void counts(uint64_t by_region, uint64_t by_writes, uint64_t by_reads)
{
	changed += by_region;
	wrote += by_writes;
	read_ += by_reads;
	if (me == 0)
		return;
	if (by_region != 0)
		OK(fi_cntr_wait(changes, changed, PATIENCE));
	if (by_writes != 0 && wrote % 2 != 0)
		sleep_for(writes, wrote);
	while (fi_cntr_read(writes) < wrote || fi_cntr_read(reads) < read_)
		continue;
}

/* All has counted that was done, and once. */
static void settled(void)
{
	barrier();
	if (me == 1) {
		uint64_t c = fi_cntr_read(changes), w = fi_cntr_read(writes), r = fi_cntr_read(reads);
		for (int i = 0; i < 1000; i++)
			progress();
		REQUIRE(c == changed && w == wrote && r == read_ && fi_cntr_read(changes) == changed &&
			fi_cntr_read(writes) == wrote && fi_cntr_read(reads) == read_, "%llu, %llu, %llu instead of %llu, %llu, %llu",
			(unsigned long long)c, (unsigned long long)w, (unsigned long long)r, (unsigned long long)changed,
			(unsigned long long)wrote, (unsigned long long)read_);
	} else {
		REQUIRE(fi_cntr_read(changes) + fi_cntr_read(writes) + fi_cntr_read(reads) == 0, "nobody has done anything here");
	}
	barrier();
}

static void done(void *context)
{
	if (me == 0)
		(void)completion(tx, context, NULL);
}

/* Bytes that are put are there when the put counts. */
static void puts_and_gets(void)
{
	static const size_t sizes[] = { 1, 8, 52, 64, 65, 200, 256, 4097, 100000, 1000000 };
	char c, *there = region;
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		size_t n = sizes[i];
		for (int turn = 0; turn < 5; turn++) {
			char value = (char)(10 * i + (size_t)turn + 1);
			if (turn == 2 && n > 256)
				continue;
			struct iovec v[2] = { { local, n / 2 }, { local + n / 2, n - n / 2 } };
			struct fi_rma_iov place = { base, n, key };
			struct fi_msg_rma two = { .msg_iov = v, .iov_count = 2, .addr = node[1], .rma_iov = &place, .rma_iov_count = 1,
				.context = &c };
			if (me == 0) {
				memset(local, value, n);
				switch (turn) {
				case 0:
					POST(fi_write(ep, local, n, NULL, node[1], base, key, &c));
					break;
				case 1:
					POST(fi_writemsg(ep, &two, FI_COMPLETION));
					break;
				case 2:
					POST(fi_inject_write(ep, local, n, node[1], base, key));
					break;
				case 3:
					POST(fi_writedata(ep, local, n, NULL, 5, node[1], base, key, &c));
					break;
				case 4:
					POST(fi_write(ep, local, n, NULL, node[1], plain_base, plain_key, &c));
				}
			}
			if (turn != 2)
				done(&c);
			counts(turn < 4, 1, 0);
			there = turn < 4 ? region : elsewhere;
			for (size_t j = 0; me == 1 && j < n; j++)
				REQUIRE(there[j] == value, "byte %zu of %zu, turn %d: %d instead of %d", j, n, turn, there[j], value);
			if (turn == 3 && me == 1)
				REQUIRE(completion(rx, NULL, NULL).data == 5, "no data");
			barrier(); /* the next turn writes there again */
			if (me == 0) {
				if (turn % 2 == 0)
					POST(fi_read(ep, local, n, NULL, node[1], base, key, &c));
				else
					POST(fi_readmsg(ep, &two, FI_COMPLETION));
			}
			done(&c);
			counts(0, 0, 1);
		}
	}
	settled();
}

/* Operations on elements count as what they do. */
static void atomics(void)
{
	uint64_t u[4] = { 1, 2, 3, 4 }, old[4];
	double d[4] = { 1, 2, 3, 4 }, was[4];
	int8_t b[2] = { 1, 0 }, bytes[2];
	char c;
	memset(region, 0, BYTES);
	barrier();
#define DO(call, changes_, writes_, reads_) \
	do { \
		if (me == 0) \
			POST(call); \
		done(&c); \
		counts(changes_, writes_, reads_); \
	} while (0)
	for (int i = 0; i < 20; i++) {
		DO(fi_atomic(ep, u, 4, NULL, node[1], base, key, FI_UINT64, FI_SUM, &c), 1, 1, 0);
		DO(fi_atomic(ep, u, 1, NULL, node[1], base, key, FI_UINT64, FI_ATOMIC_WRITE, &c), 1, 1, 0);
		DO(fi_atomic(ep, d, 4, NULL, node[1], base + 64, key, FI_DOUBLE, FI_SUM, &c), 1, 1, 0); /* in parts */
		DO(fi_atomic(ep, b, 2, NULL, node[1], base + 128, key, FI_INT8, FI_LXOR, &c), 1, 1, 0); /* loops */
		DO(fi_fetch_atomic(ep, u, 4, NULL, old, NULL, node[1], base, key, FI_UINT64, FI_SUM, &c), 1, 0, 1);
		DO(fi_fetch_atomic(ep, d, 4, NULL, was, NULL, node[1], base + 64, key, FI_DOUBLE, FI_MAX, &c), 1, 0, 1);
		REQUIRE(me == 1 || (was[3] == 4 * (i + 1) && was[2] == 3 * (i + 1)), "%f and %f", was[3], was[2]);
		DO(fi_fetch_atomic(ep, b, 2, NULL, bytes, NULL, node[1], base + 128, key, FI_INT8, FI_LXOR, &c), 1, 0, 1);
		DO(fi_fetch_atomic(ep, NULL, 4, NULL, old, NULL, node[1], base, key, FI_UINT64, FI_ATOMIC_READ, &c), 0, 0, 1);
		DO(fi_compare_atomic(ep, u, 1, NULL, u, NULL, old, NULL, node[1], base, key, FI_UINT64, FI_CSWAP, &c), 1, 0, 1);
		DO(fi_compare_atomic(ep, d, 2, NULL, d, NULL, was, NULL, node[1], base + 64, key, FI_DOUBLE, FI_CSWAP_LE, &c), 1,
			0, 1);
		/* what is refused does not count */
		if (me == 0) {
			POST(fi_write(ep, local, 16, NULL, node[1], base + BYTES - 8, key, &c));
			(void)failure(tx, &c, FI_EKEYREJECTED);
		}
	}
	settled();
}

/* Many at once: each counts once. */
static void flood(void)
{
	enum { N = 400, SIZE = 3000 };
	static char contexts[N];
	for (int i = 0; me == 0 && i < N; i++)
		POST(fi_write(ep, local, (size_t)(i * 37 % SIZE), NULL, node[1], base, key, &contexts[i]));
	for (int i = 0; me == 0 && i < N;) {
		struct fi_cq_tagged_entry e[16];
		ssize_t n = fi_cq_read(tx, e, 16);
		REQUIRE(n > 0 || n == -FI_EAGAIN, "%s", fi_strerror((int)-n));
		i += n > 0 ? (int)n : 0;
	}
	counts(N, N, 0);
	settled();
}

/* The key says that its region counts, to those who have not asked for counting. */
static void stranger(int made)
{
	struct fi_info *hints = fi_dupinfo(offered), *info;
	hints->caps &= ~FI_RMA_EVENT;
	hints->rx_attr->caps &= ~FI_RMA_EVENT;
	struct fid_domain *other;
	struct fid_cntr *c;
	struct fid_ep *from;
	struct fid_mr *uncounted;
	OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	REQUIRE((info->caps & FI_RMA_EVENT) == 0, "offered without being asked for");
	OK(fi_domain(fabric, info, &other, NULL));
	OK(fi_cntr_open(other, &(struct fi_cntr_attr){ .wait_obj = FI_WAIT_UNSPEC }, &c, NULL));
	OK(fi_mr_reg(other, local, 8, FI_REMOTE_WRITE, 0, 9, 0, &uncounted, NULL));
	REQUIRE(fi_mr_bind(uncounted, &c->fid, FI_REMOTE_WRITE) == -FI_EOPNOTSUPP, "it would not count");
	REQUIRE(fi_mr_bind(mr, &c->fid, FI_REMOTE_WRITE) == -FI_EINVAL, "of another domain");
	REQUIRE(fi_endpoint(other, offered, &from, NULL) == -FI_EINVAL, "the domain does not count");
	OK(fi_endpoint(other, info, &from, NULL));
	struct fid_av *names;
	struct fid_cq *q;
	uint16_t address[4];
	size_t length = sizeof address;
	fi_addr_t to;
	OK(fi_av_open(other, &(struct fi_av_attr){ .type = FI_AV_TABLE }, &names, NULL));
	OK(fi_cq_open(other, &(struct fi_cq_attr){ .format = FI_CQ_FORMAT_TAGGED }, &q, NULL));
	OK(fi_ep_bind(from, &names->fid, 0));
	OK(fi_ep_bind(from, &q->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(from));
	OK(fi_getname(&from->fid, address, &length));
	address[2] = (uint16_t)peer;
	REQUIRE(fi_av_insert(names, address, 1, &to, 0, NULL) == 1, "the address");
	if (me == 0) {
		POST(fi_write(from, local, 100000, NULL, to, base, key, c));
		(void)completion(q, c, NULL);
	}
	if (made)
		counts(1, 1, 0);
	settled();
	OK(fi_close(&from->fid));
	OK(fi_close(&uncounted->fid));
	OK(fi_close(&names->fid));
	OK(fi_close(&q->fid));
	OK(fi_close(&c->fid));
	OK(fi_close(&other->fid));
	fi_freeinfo(hints);
	fi_freeinfo(info);
}

int main(void)
{
	start();
	for (int made = 0; made < 2; made++) {
		open_all(FI_RMA | FI_ATOMIC | FI_RMA_EVENT, made ? FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY : 0);
		changed = wrote = read_ = 0;
		bindings();
		exchange(made);
		puts_and_gets();
		atomics();
		flood();
		stranger(made);
		OK(fi_close(&mr->fid));
		OK(fi_close(&plain->fid));
		OK(fi_close(&target->fid));
		OK(fi_close(&changes->fid));
		OK(fi_close(&writes->fid));
		OK(fi_close(&reads->fid));
		close_all();
		free(region);
		free(elsewhere);
		free(local);
	}
	printf("all rules hold\n");
	return 0;
}
