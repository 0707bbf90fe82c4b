//go:build libfabric

/* mr.c: memory regions. */
#include "ofi.h"
#include "_cgo_export.h"

struct ofi_mr {
	struct fid_mr mr;
	struct ofi_domain *domain;
	struct ofi_cntr *counter; /* of what others write there; NULL: none */
	uint64_t number;          /* in Go's table */
};

static int mr_close(struct fid *fid)
{
	struct ofi_mr *m = container_of(fid, struct ofi_mr, mr.fid);
	if (guest_enter() == 0) {
		int err = ofi_go_unregister(m->number);
		if (err != 0)
			return err;
	}
	if (m->counter != NULL)
		ADD(m->counter->users, -1);
	ADD(m->domain->users, -1);
	free(m);
	return 0;
}

/* The region is enabled already: it counts from now on. */
static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct ofi_mr *m = container_of(fid, struct ofi_mr, mr.fid);
	if (other->fclass != FI_CLASS_CNTR)
		return -FI_ENOSYS;
	struct ofi_cntr *c = container_of(other, struct ofi_cntr, cntr.fid);
	if (flags != FI_REMOTE_WRITE)
		return -FI_EBADFLAGS;
	if (m->counter != NULL || c->domain != m->domain)
		return -FI_EINVAL;
	if (!m->domain->counts) {
		FI_INFO(&ofi_provider, FI_LOG_MR, "binding a counter to a region: open the domain with FI_RMA_EVENT\n");
		return -FI_EOPNOTSUPP;
	}
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	int err = ofi_go_count_region(m->number, (uintptr_t)c);
	if (err == 0) {
		m->counter = c;
		ADD(c->users, 1);
	}
	return err;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)arg;
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops mr_fid = {
	.size = sizeof mr_fid, .close = mr_close, .bind = mr_bind, .control = mr_control,
	.ops_open = ofi_no_ops_open,
};

static int reg(struct fid *fid, const void *buf, size_t length, uint64_t access, uint64_t offset, uint64_t key,
	uint64_t flags, struct fid_mr **mr, void *context)
{
	struct ofi_domain *d = container_of(fid, struct ofi_domain, domain.fid);
	if (fid->fclass != FI_CLASS_DOMAIN || offset != 0 || length == 0 || buf == NULL)
		return -FI_EINVAL;
	if (flags & ~FI_RMA_EVENT)
		return -FI_EBADFLAGS;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	struct ofi_mr *m = calloc(1, sizeof *m);
	if (m == NULL)
		return -FI_ENOMEM;
	struct ofi_region x = { .address = (uintptr_t)buf, .length = length, .access = access, .key = key,
		.random = d->made, .base = d->made ? (uintptr_t)buf : 0, .domain = d, .context = (uintptr_t)context };
	int err = ofi_go_register((uintptr_t)&x);
	if (err != 0) {
		free(m);
		return err;
	}
	m->domain = d;
	m->number = x.number;
	m->mr.fid = (struct fid){ FI_CLASS_MR, context, &mr_fid };
	m->mr.mem_desc = m;
	m->mr.key = x.key;
	ADD(d->users, 1);
	*mr = &m->mr;
	return 0;
}

static int regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset, uint64_t key,
	uint64_t flags, struct fid_mr **mr, void *context)
{
	return count == 1 ? reg(fid, iov->iov_base, iov->iov_len, access, offset, key, flags, mr, context) : -FI_EINVAL;
}

static int regattr(struct fid *fid, const struct fi_mr_attr *a, uint64_t flags, struct fid_mr **mr)
{
	if (a->iface != FI_HMEM_SYSTEM)
		return -FI_ENOSYS;
	return regv(fid, a->mr_iov, a->iov_count, a->access, a->offset, a->requested_key, flags, mr, a->context);
}

struct fi_ops_mr ofi_mr_ops = { .size = sizeof(struct fi_ops_mr), .reg = reg, .regv = regv, .regattr = regattr };
