//go:build libfabric

/* cntr.c: counters. Go adds to them; a read lets the card run unless the value has changed since
 * the last one. */
#include "ofi.h"
#include "_cgo_export.h"

static uint64_t cntr_read(struct fid_cntr *fid)
{
	struct ofi_cntr *c = container_of(fid, struct ofi_cntr, cntr);
	uint64_t value = LOAD(c->value);
	if (value == LOAD(c->seen) && guest_enter() == 0) {
		(void)ofi_go_poll(NO_QUEUE);
		value = LOAD(c->value);
	}
	STORE(c->seen, value);
	return value;
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	return LOAD(container_of(fid, struct ofi_cntr, cntr)->errors);
}

/* Lets threads that wait look again. */
static int changed(void)
{
	return guest_enter() == 0 ? ofi_go_interrupt() : -FI_EOPBADSTATE;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	ADD(container_of(fid, struct ofi_cntr, cntr)->value, value);
	return changed();
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	STORE(container_of(fid, struct ofi_cntr, cntr)->value, value);
	return changed();
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	ADD(container_of(fid, struct ofi_cntr, cntr)->errors, value);
	return changed();
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	STORE(container_of(fid, struct ofi_cntr, cntr)->errors, value);
	return changed();
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct ofi_cntr *c = container_of(fid, struct ofi_cntr, cntr);
	if (c->wait == FI_WAIT_NONE)
		return -FI_ENOSYS;
	if (LOAD(c->value) >= threshold)
		return 0;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	uint64_t errors = LOAD(c->errors);
	int err = ofi_go_wait_counter((uintptr_t)c, threshold, errors, timeout);
	if (LOAD(c->value) >= threshold)
		return 0;
	if (LOAD(c->errors) != errors)
		return -FI_EAVAIL;
	return err != 0 ? err : -FI_ETIMEDOUT;
}

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof cntr_ops, .read = cntr_read, .readerr = cntr_readerr, .add = cntr_add, .set = cntr_set,
	.wait = cntr_wait, .adderr = cntr_adderr, .seterr = cntr_seterr,
};

static int cntr_close(struct fid *fid)
{
	struct ofi_cntr *c = container_of(fid, struct ofi_cntr, cntr.fid);
	if (LOAD(c->users) != 0)
		return -FI_EBUSY;
	ADD(c->domain->users, -1);
	free(c);
	return 0;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
	return ofi_wait_object(fid, container_of(fid, struct ofi_cntr, cntr.fid)->wait, command, arg);
}

static struct fi_ops cntr_fid = {
	.size = sizeof cntr_fid, .close = cntr_close, .bind = ofi_no_bind, .control = cntr_control,
	.ops_open = ofi_no_ops_open,
};

int ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context)
{
	struct ofi_domain *d = container_of(domain, struct ofi_domain, domain);
	enum fi_wait_obj wait = attr != NULL ? attr->wait_obj : FI_WAIT_UNSPEC;
	if (attr != NULL && (attr->events != FI_CNTR_EVENTS_COMP || attr->flags != 0))
		return -FI_EINVAL;
	if (wait != FI_WAIT_NONE && wait != FI_WAIT_UNSPEC && wait != FI_WAIT_FD)
		return -FI_ENOSYS;
	struct ofi_cntr *c = calloc(1, sizeof *c);
	if (c == NULL)
		return -FI_ENOMEM;
	c->domain = d;
	c->wait = wait;
	c->cntr.fid = (struct fid){ FI_CLASS_CNTR, context, &cntr_fid };
	c->cntr.ops = &cntr_ops;
	ADD(d->users, 1);
	*cntr = &c->cntr;
	return 0;
}
