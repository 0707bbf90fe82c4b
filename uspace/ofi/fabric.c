//go:build libfabric

/* fabric.c: the fabric and its domains. Opening a domain opens the card of the process; it stays
 * open until libfabric unloads the provider, since peers know the endpoints on it. */
#include "ofi.h"
#include "_cgo_export.h"

static int no_passive(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
	(void)fabric, (void)info, (void)pep, (void)context;
	return -FI_ENOSYS;
}

static int no_wait_set(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set)
{
	(void)fabric, (void)attr, (void)set;
	return -FI_ENOSYS;
}

static int domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, uint64_t flags,
	void *context)
{
	return flags == 0 ? ofi_domain(fabric, info, domain, context) : -FI_ENOSYS;
}

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof fabric_ops, .domain = ofi_domain, .passive_ep = no_passive, .eq_open = ofi_eq_open,
	.wait_open = no_wait_set, .trywait = ofi_trywait, .domain2 = domain2,
};

static int fabric_close(struct fid *fid)
{
	struct ofi_fabric *f = container_of(fid, struct ofi_fabric, fabric.fid);
	if (LOAD(f->users) != 0)
		return -FI_EBUSY;
	free(f);
	return 0;
}

static struct fi_ops fabric_fid = {
	.size = sizeof fabric_fid, .close = fabric_close, .bind = ofi_no_bind, .control = ofi_no_control,
	.ops_open = ofi_no_ops_open,
};

int ofi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	if (attr->name != NULL && strcmp(attr->name, ofi_provider.name) != 0)
		return -FI_ENODATA;
	struct ofi_fabric *f = calloc(1, sizeof *f);
	if (f == NULL)
		return -FI_ENOMEM;
	f->fabric.fid = (struct fid){ FI_CLASS_FABRIC, context, &fabric_fid };
	f->fabric.ops = &fabric_ops;
	f->fabric.api_version = attr->api_version;
	*fabric = &f->fabric;
	return 0;
}

static int domain_close(struct fid *fid)
{
	struct ofi_domain *d = container_of(fid, struct ofi_domain, domain.fid);
	if (LOAD(d->users) != 0)
		return -FI_EBUSY;
	ADD(d->fabric->users, -1);
	free(d);
	return 0;
}

static int no_scalable(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
	(void)domain, (void)info, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static int no_poll_set(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set)
{
	(void)domain, (void)attr, (void)set;
	return -FI_ENOSYS;
}

static int no_shared_tx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
{
	(void)domain, (void)attr, (void)stx, (void)context;
	return -FI_ENOSYS;
}

static int no_shared_rx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)
{
	(void)domain, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static int no_collective(struct fid_domain *domain, enum fi_collective_op op, struct fi_collective_attr *attr,
	uint64_t flags)
{
	(void)domain, (void)op, (void)attr, (void)flags;
	return -FI_EOPNOTSUPP;
}

static int endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags, void *context)
{
	return flags == 0 ? ofi_endpoint(domain, info, ep, context) : -FI_ENOSYS;
}

static struct fi_ops_domain domain_ops = {
	.size = sizeof domain_ops, .av_open = ofi_av_open, .cq_open = ofi_cq_open, .endpoint = ofi_endpoint,
	.scalable_ep = no_scalable, .cntr_open = ofi_cntr_open, .poll_open = no_poll_set, .stx_ctx = no_shared_tx,
	.srx_ctx = no_shared_rx, .query_atomic = ofi_query_atomic, .query_collective = no_collective,
	.endpoint2 = endpoint2,
};

static struct fi_ops domain_fid = {
	.size = sizeof domain_fid, .close = domain_close, .bind = ofi_no_bind, .control = ofi_no_control,
	.ops_open = ofi_no_ops_open,
};

int ofi_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	struct ofi_fabric *f = container_of(fabric, struct ofi_fabric, fabric);
	if (info->domain_attr != NULL && info->domain_attr->name != NULL &&
	    strcmp(info->domain_attr->name, ofi_provider.name) != 0)
		return -FI_ENODATA;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	struct ofi_domain *d = calloc(1, sizeof *d);
	if (d == NULL)
		return -FI_ENOMEM;
	int err = ofi_go_open((uintptr_t)&d->place);
	if (err != 0) {
		free(d);
		return err;
	}
	d->domain.fid = (struct fid){ FI_CLASS_DOMAIN, context, &domain_fid };
	d->domain.ops = &domain_ops;
	d->domain.mr = &ofi_mr_ops;
	d->fabric = f;
	d->counts = (info->caps & FI_RMA_EVENT) != 0;
	d->alone = info->domain_attr != NULL && info->domain_attr->threading == FI_THREAD_DOMAIN;
	d->made = info->domain_attr != NULL &&
		(info->domain_attr->mr_mode == FI_MR_BASIC || (info->domain_attr->mr_mode & FI_MR_PROV_KEY) != 0);
	ADD(f->users, 1);
	*domain = &d->domain;
	return 0;
}
