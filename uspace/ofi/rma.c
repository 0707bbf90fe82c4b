//go:build libfabric

/* rma.c: reads, writes and atomic operations on regions of other processes. Each crosses into Go
 * with one struct ofi_remote. */
#include "ofi.h"
#include "_cgo_export.h"

#define FLAGS (FI_MORE | FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | \
	FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA | FI_FENCE)

static ssize_t post(struct fid_ep *fid, fi_addr_t to, struct ofi_remote *o)
{
	struct ofi_core *c = container_of(fid, struct ofi_ep, ep)->core;
	if (!c->enabled)
		return -FI_EOPBADSTATE;
	uint32_t e = ofi_entry_of(c->av, to);
	if ((e & LIVE) == 0 || o->count > PIECES || o->compares > PIECES || o->results > PIECES)
		return -FI_EINVAL;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	o->node = e & 0xffff;
	if ((o->flags & FI_FENCE) != 0 && ofi_go_owed((uintptr_t)c, o->node))
		return -FI_EAGAIN;
	return ofi_go_remote((uintptr_t)c, (uintptr_t)o);
}

#define TX(fid) (container_of(fid, struct ofi_ep, ep)->tx_flags)
#define PIECE(buf, len) struct iovec piece = { (void *)(uintptr_t)(buf), len }
#define REMOTE(kind_, flags_, context_, pieces_, count_, address_, key_, ...) \
	struct ofi_remote o = { .kind = kind_, .flags = flags_, .context = (uintptr_t)(context_), \
		.pieces = (uintptr_t)(pieces_), .count = count_, .address = address_, .key = key_, __VA_ARGS__ }

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr,
	uint64_t key, void *context)
{
	(void)desc;
	PIECE(buf, len);
	REMOTE(GET, TX(ep), context, &piece, 1, addr, key);
	return post(ep, from, &o);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t from,
	uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	REMOTE(GET, TX(ep), context, iov, count, addr, key);
	return post(ep, from, &o);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	if (flags & ~FLAGS || msg->rma_iov_count != 1)
		return flags & ~FLAGS ? -FI_EBADFLAGS : -FI_EINVAL;
	REMOTE(GET, flags, msg->context, msg->msg_iov, msg->iov_count, msg->rma_iov->addr, msg->rma_iov->key);
	return post(ep, msg->addr, &o);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t addr,
	uint64_t key, void *context)
{
	(void)desc;
	PIECE(buf, len);
	REMOTE(PUT, TX(ep), context, &piece, 1, addr, key);
	return post(ep, to, &o);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
	uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	REMOTE(PUT, TX(ep), context, iov, count, addr, key);
	return post(ep, to, &o);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	if (flags & ~FLAGS || msg->rma_iov_count != 1)
		return flags & ~FLAGS ? -FI_EBADFLAGS : -FI_EINVAL;
	REMOTE(PUT, flags, msg->context, msg->msg_iov, msg->iov_count, msg->rma_iov->addr, msg->rma_iov->key,
		.data = msg->data);
	return post(ep, msg->addr, &o);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t addr, uint64_t key)
{
	PIECE(buf, len);
	REMOTE(PUT, (TX(ep) & ~FI_COMPLETION) | FI_INJECT | QUIET, 0, &piece, 1, addr, key);
	return post(ep, to, &o);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
	uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	PIECE(buf, len);
	REMOTE(PUT, TX(ep) | FI_REMOTE_CQ_DATA, context, &piece, 1, addr, key, .data = data);
	return post(ep, to, &o);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to,
	uint64_t addr, uint64_t key)
{
	PIECE(buf, len);
	REMOTE(PUT, (TX(ep) & ~FI_COMPLETION) | FI_INJECT | FI_REMOTE_CQ_DATA | QUIET, 0, &piece, 1, addr, key,
		.data = data);
	return post(ep, to, &o);
}

struct fi_ops_rma ofi_rma_ops = {
	.size = sizeof(struct fi_ops_rma), .read = rma_read, .readv = rma_readv, .readmsg = rma_readmsg,
	.write = rma_write, .writev = rma_writev, .writemsg = rma_writemsg, .inject = rma_inject,
	.writedata = rma_writedata, .injectdata = rma_injectdata,
};

/* ---- atomic operations ---- */

static size_t size_of(enum fi_datatype type)
{
	static const uint8_t sizes[FI_DATATYPE_LAST] = { [FI_INT8] = 1, [FI_UINT8] = 1, [FI_INT16] = 2, [FI_UINT16] = 2,
		[FI_INT32] = 4, [FI_UINT32] = 4, [FI_INT64] = 8, [FI_UINT64] = 8, [FI_FLOAT] = 4, [FI_DOUBLE] = 8 };
	return (unsigned)type < FI_DATATYPE_LAST ? sizes[type] : 0;
}

/* Turns counts of elements into bytes. Returns how many pieces there are, or PIECES + 1. */
static size_t bytes_of(struct iovec *to, const struct fi_ioc *from, size_t count, size_t size)
{
	if (count > PIECES)
		return PIECES + 1;
	for (size_t i = 0; i < count; i++)
		to[i] = (struct iovec){ from[i].addr, from[i].count * size };
	return count;
}

/* What the four kinds of calls have in common. Compare and result are NULL where there is none. */
static ssize_t atomic(struct fid_ep *ep, const struct fi_msg_atomic *m, const struct fi_ioc *compare, size_t compares,
	struct fi_ioc *result, size_t results, uint64_t flags, uint64_t kind)
{
	struct iovec operand[PIECES], compared[PIECES], into[PIECES];
	size_t size = size_of(m->datatype);
	if (size == 0 || !ofi_go_atomic_valid((uint32_t)m->datatype, (uint32_t)m->op, kind))
		return -FI_EOPNOTSUPP;
	if (m->rma_iov_count != 1)
		return -FI_EINVAL;
	REMOTE(kind, flags, m->context, operand, bytes_of(operand, m->msg_iov, m->iov_count, size), m->rma_iov->addr,
		m->rma_iov->key, .compare = (uintptr_t)compared, .compares = bytes_of(compared, compare, compares, size),
		.result = (uintptr_t)into, .results = bytes_of(into, result, results, size), .type = (uint64_t)m->datatype,
		.op = (uint64_t)m->op, .elements = m->rma_iov->count);
	return post(ep, m->addr, &o);
}

/* A description of an operation whose operands are an array. */
#define MESSAGE(iov, count, total) \
	struct fi_rma_ioc place = { addr, total, key }; \
	struct fi_msg_atomic m = { .msg_iov = iov, .iov_count = count, .addr = to, .rma_iov = &place, .rma_iov_count = 1, \
		.datatype = type, .op = op, .context = context }

static size_t total_of(const struct fi_ioc *iov, size_t count)
{
	size_t n = 0;
	for (size_t i = 0; i < count; i++)
		n += iov[i].count;
	return n;
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t to, uint64_t addr,
	uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc;
	struct fi_ioc operand = { (void *)(uintptr_t)buf, count };
	MESSAGE(&operand, 1, count);
	return atomic(ep, &m, NULL, 0, NULL, 0, TX(ep), ATOMIC);
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t to,
	uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc;
	MESSAGE(iov, count, total_of(iov, count));
	return atomic(ep, &m, NULL, 0, NULL, 0, TX(ep), ATOMIC);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *m, uint64_t flags)
{
	return flags & ~FLAGS ? -FI_EBADFLAGS : atomic(ep, m, NULL, 0, NULL, 0, flags & ~FI_REMOTE_CQ_DATA, ATOMIC);
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t to, uint64_t addr,
	uint64_t key, enum fi_datatype type, enum fi_op op)
{
	void *context = NULL;
	struct fi_ioc operand = { (void *)(uintptr_t)buf, count };
	MESSAGE(&operand, 1, count);
	return atomic(ep, &m, NULL, 0, NULL, 0, (TX(ep) & ~FI_COMPLETION) | FI_INJECT | QUIET, ATOMIC);
}

static ssize_t atomic_fetch(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
	void *result_desc, fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc, (void)result_desc;
	struct fi_ioc operand = { (void *)(uintptr_t)buf, count }, into = { result, count };
	MESSAGE(&operand, 1, count);
	return atomic(ep, &m, NULL, 0, &into, 1, TX(ep), FETCH);
}

static ssize_t atomic_fetchv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
	struct fi_ioc *result, void **result_desc, size_t results, fi_addr_t to, uint64_t addr, uint64_t key,
	enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc, (void)result_desc;
	MESSAGE(iov, count, total_of(result, results));
	return atomic(ep, &m, NULL, 0, result, results, TX(ep), FETCH);
}

static ssize_t atomic_fetchmsg(struct fid_ep *ep, const struct fi_msg_atomic *m, struct fi_ioc *result,
	void **result_desc, size_t results, uint64_t flags)
{
	(void)result_desc;
	return flags & ~FLAGS ? -FI_EBADFLAGS : atomic(ep, m, NULL, 0, result, results, flags & ~FI_REMOTE_CQ_DATA, FETCH);
}

static ssize_t atomic_compare(struct fid_ep *ep, const void *buf, size_t count, void *desc, const void *compare,
	void *compare_desc, void *result, void *result_desc, fi_addr_t to, uint64_t addr, uint64_t key,
	enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc, (void)compare_desc, (void)result_desc;
	struct fi_ioc operand = { (void *)(uintptr_t)buf, count }, compared = { (void *)(uintptr_t)compare, count },
		into = { result, count };
	MESSAGE(&operand, 1, count);
	return atomic(ep, &m, &compared, 1, &into, 1, TX(ep), COMPARE);
}

static ssize_t atomic_comparev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
	const struct fi_ioc *compare, void **compare_desc, size_t compares, struct fi_ioc *result, void **result_desc,
	size_t results, fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	(void)desc, (void)compare_desc, (void)result_desc;
	MESSAGE(iov, count, total_of(iov, count));
	return atomic(ep, &m, compare, compares, result, results, TX(ep), COMPARE);
}

static ssize_t atomic_comparemsg(struct fid_ep *ep, const struct fi_msg_atomic *m, const struct fi_ioc *compare,
	void **compare_desc, size_t compares, struct fi_ioc *result, void **result_desc, size_t results, uint64_t flags)
{
	(void)compare_desc, (void)result_desc;
	return flags & ~FLAGS ? -FI_EBADFLAGS :
		atomic(ep, m, compare, compares, result, results, flags & ~FI_REMOTE_CQ_DATA, COMPARE);
}

static int valid(enum fi_datatype type, enum fi_op op, size_t *count, uint64_t kind)
{
	if (size_of(type) == 0 || guest_enter() != 0 || !ofi_go_atomic_valid((uint32_t)type, (uint32_t)op, kind))
		return -FI_EOPNOTSUPP;
	if (count != NULL)
		*count = ELEMENTS;
	return 0;
}

static int write_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	(void)ep;
	return valid(type, op, count, ATOMIC);
}

static int fetch_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	(void)ep;
	return valid(type, op, count, FETCH);
}

static int compare_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	(void)ep;
	return valid(type, op, count, COMPARE);
}

int ofi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
	uint64_t flags)
{
	(void)domain;
	int err = valid(type, op, &attr->count,
		flags & FI_COMPARE_ATOMIC ? COMPARE : flags & FI_FETCH_ATOMIC ? FETCH : ATOMIC);
	attr->size = size_of(type);
	return err;
}

struct fi_ops_atomic ofi_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic), .write = atomic_write, .writev = atomic_writev, .writemsg = atomic_writemsg,
	.inject = atomic_inject, .readwrite = atomic_fetch, .readwritev = atomic_fetchv, .readwritemsg = atomic_fetchmsg,
	.compwrite = atomic_compare, .compwritev = atomic_comparev, .compwritemsg = atomic_comparemsg,
	.writevalid = write_valid, .readwritevalid = fetch_valid, .compwritevalid = compare_valid,
};
