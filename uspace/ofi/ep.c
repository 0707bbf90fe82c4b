//go:build libfabric

/* ep.c: endpoints, except for their transfers. An endpoint and its aliases share a core, and differ
 * in the flags of operations that have none of their own. */
#include "ofi.h"
#include "_cgo_export.h"

static struct ofi_ep *of(struct fid *fid) { return container_of(fid, struct ofi_ep, ep.fid); }

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct ofi_core *c = of(fid)->core;
	return guest_enter() == 0 ? ofi_go_cancel((uintptr_t)c, (uintptr_t)context) : -FI_EOPBADSTATE;
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *length)
{
	struct ofi_core *c = of(fid)->core;
	size_t n;
	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	switch (name) {
	case FI_OPT_MIN_MULTI_RECV:
		n = c->least;
		break;
	case FI_OPT_CM_DATA_SIZE:
		n = 0;
		break;
	default:
		return -FI_ENOPROTOOPT;
	}
	if (*length < sizeof n)
		return -FI_ETOOSMALL;
	memcpy(value, &n, sizeof n);
	*length = sizeof n;
	return 0;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t length)
{
	size_t n;
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (length != sizeof n)
		return -FI_EINVAL;
	memcpy(&n, value, sizeof n);
	of(fid)->core->least = n > 0 ? n : 1;
	return 0;
}

static int no_tx_context(struct fid_ep *ep, int index, struct fi_tx_attr *attr, struct fid_ep **tx, void *context)
{
	(void)ep, (void)index, (void)attr, (void)tx, (void)context;
	return -FI_ENOSYS;
}

static int no_rx_context(struct fid_ep *ep, int index, struct fi_rx_attr *attr, struct fid_ep **rx, void *context)
{
	(void)ep, (void)index, (void)attr, (void)rx, (void)context;
	return -FI_ENOSYS;
}

static ssize_t rx_left(struct fid_ep *ep)
{
	struct ofi_core *c = of(&ep->fid)->core;
	return !c->enabled || guest_enter() != 0 ? -FI_EOPBADSTATE : ofi_go_left(0);
}

static ssize_t tx_left(struct fid_ep *ep)
{
	struct ofi_core *c = of(&ep->fid)->core;
	return !c->enabled || guest_enter() != 0 ? -FI_EOPBADSTATE : ofi_go_left(1);
}

static struct fi_ops_ep ep_ops = {
	.size = sizeof ep_ops, .cancel = ep_cancel, .getopt = ep_getopt, .setopt = ep_setopt, .tx_ctx = no_tx_context,
	.rx_ctx = no_rx_context, .rx_size_left = rx_left, .tx_size_left = tx_left,
};

static int cm_getname(fid_t fid, void *to, size_t *length)
{
	struct ofi_core *c = of(fid)->core;
	struct ofi_address a = ofi_address_of(c->domain->place.gid, c->domain->place.node, (uint32_t)c->number);
	size_t room = *length;
	*length = sizeof a;
	if (room < sizeof a)
		return -FI_ETOOSMALL;
	memcpy(to, &a, sizeof a);
	return 0;
}

static int no_setname(fid_t fid, void *address, size_t length)
{
	(void)fid, (void)address, (void)length;
	return -FI_ENOSYS;
}

static int no_getpeer(struct fid_ep *ep, void *address, size_t *length)
{
	(void)ep, (void)address, (void)length;
	return -FI_ENOSYS;
}

static int no_connect(struct fid_ep *ep, const void *address, const void *parameter, size_t length)
{
	(void)ep, (void)address, (void)parameter, (void)length;
	return -FI_ENOSYS;
}

static int no_listen(struct fid_pep *pep)
{
	(void)pep;
	return -FI_ENOSYS;
}

static int no_accept(struct fid_ep *ep, const void *parameter, size_t length)
{
	(void)ep, (void)parameter, (void)length;
	return -FI_ENOSYS;
}

static int no_reject(struct fid_pep *pep, fid_t handle, const void *parameter, size_t length)
{
	(void)pep, (void)handle, (void)parameter, (void)length;
	return -FI_ENOSYS;
}

static int no_shutdown(struct fid_ep *ep, uint64_t flags)
{
	(void)ep, (void)flags;
	return -FI_ENOSYS;
}

static int no_join(struct fid_ep *ep, const void *address, uint64_t flags, struct fid_mc **mc, void *context)
{
	(void)ep, (void)address, (void)flags, (void)mc, (void)context;
	return -FI_ENOSYS;
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof cm_ops, .setname = no_setname, .getname = cm_getname, .getpeer = no_getpeer,
	.connect = no_connect, .listen = no_listen, .accept = no_accept, .reject = no_reject, .shutdown = no_shutdown,
	.join = no_join,
};

static void release(int *users)
{
	ADD(*users, -1);
}

static int ep_close(struct fid *fid)
{
	struct ofi_ep *e = of(fid);
	struct ofi_core *c = e->core;
	free(e);
	if (ADD(c->aliases, -1) > 0)
		return 0;
	if (guest_enter() == 0)
		ofi_go_close_endpoint((uintptr_t)c);
	if (c->av != NULL)
		release(&c->av->users);
	if (c->tx != NULL)
		release(&c->tx->users);
	if (c->rx != NULL)
		release(&c->rx->users);
	for (int i = 0; i < COUNTED; i++)
		if (c->counters[i] != NULL)
			release(&c->counters[i]->users);
	if (c->eq != NULL)
		release(&c->eq->users);
	release(&c->domain->users);
	free(c);
	return 0;
}

static int bind_cq(struct ofi_core *c, struct ofi_cq *cq, uint64_t flags)
{
	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
		return -FI_EBADFLAGS;
	if ((flags & (FI_TRANSMIT | FI_RECV)) == 0 || cq->domain != c->domain ||
	    ((flags & FI_TRANSMIT) != 0 && c->tx != NULL) || ((flags & FI_RECV) != 0 && c->rx != NULL))
		return -FI_EINVAL;
	if (flags & FI_TRANSMIT) {
		c->tx = cq;
		c->selective_tx = (flags & FI_SELECTIVE_COMPLETION) != 0;
		ADD(cq->users, 1);
	}
	if (flags & FI_RECV) {
		c->rx = cq;
		c->selective_rx = (flags & FI_SELECTIVE_COMPLETION) != 0;
		ADD(cq->users, 1);
	}
	return 0;
}

static int bind_cntr(struct ofi_core *c, struct ofi_cntr *cntr, uint64_t flags)
{
	static const uint64_t kinds[COUNTED] = { FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE };
	uint64_t all = 0;
	for (int i = 0; i < COUNTED; i++) {
		all |= kinds[i];
		if ((flags & kinds[i]) != 0 && c->counters[i] != NULL)
			return -FI_EINVAL;
	}
	if (flags & ~all)
		return -FI_EBADFLAGS;
	if (cntr->domain != c->domain)
		return -FI_EINVAL;
	if ((flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0) {
		if (!c->domain->counts)
			FI_INFO(&ofi_provider, FI_LOG_EP_CTRL, "a counter for what others do counts nothing: "
				"the domain was opened without FI_RMA_EVENT\n");
		else if (guest_enter() != 0)
			return -FI_EOPBADSTATE;
		else if (ofi_go_target((uintptr_t)c, (uintptr_t)cntr, flags) != 0)
			return -FI_EBUSY;
	}
	for (int i = 0; i < COUNTED; i++)
		if (flags & kinds[i]) {
			c->counters[i] = cntr;
			ADD(cntr->users, 1);
		}
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct ofi_core *c = of(fid)->core;
	if (c->enabled)
		return -FI_EOPBADSTATE;
	switch (other->fclass) {
	case FI_CLASS_AV:
		if (c->av != NULL || container_of(other, struct ofi_av, av.fid)->domain != c->domain)
			return -FI_EINVAL;
		c->av = container_of(other, struct ofi_av, av.fid);
		ADD(c->av->users, 1);
		return 0;
	case FI_CLASS_EQ:
		if (c->eq != NULL)
			return -FI_EINVAL;
		c->eq = container_of(other, struct ofi_eq, eq.fid);
		ADD(c->eq->users, 1);
		return 0;
	case FI_CLASS_CQ:
		return bind_cq(c, container_of(other, struct ofi_cq, cq.fid), flags);
	case FI_CLASS_CNTR:
		return bind_cntr(c, container_of(other, struct ofi_cntr, cntr.fid), flags);
	}
	return -FI_ENOSYS;
}

static int enable(struct ofi_core *c)
{
	if (c->enabled)
		return 0;
	if (c->av == NULL)
		return -FI_ENOAV;
	if ((c->caps & FI_SEND) != 0 && c->tx == NULL && c->counters[SENDS] == NULL)
		return -FI_ENOCQ;
	if ((c->caps & FI_RECV) != 0 && c->rx == NULL && c->counters[RECEIVES] == NULL)
		return -FI_ENOCQ;
	c->enabled = 1;
	return 0;
}

/* Makes another endpoint of the core. */
static struct ofi_ep *alias(struct ofi_core *c, void *context);

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct ofi_ep *e = of(fid), *other;
	struct fi_alias *a = arg;
	uint64_t *flags = arg;
	switch (command) {
	case FI_ENABLE:
		return enable(e->core);
	case FI_ALIAS:
		if ((a->flags & FI_TRANSMIT) != 0 && (a->flags & FI_RECV) != 0)
			return -FI_EINVAL;
		if ((other = alias(e->core, fid->context)) == NULL)
			return -FI_ENOMEM;
		other->tx_flags = a->flags & FI_TRANSMIT ? a->flags & ~FI_TRANSMIT : e->tx_flags;
		other->rx_flags = a->flags & FI_RECV ? a->flags & ~FI_RECV : e->rx_flags;
		*a->fid = &other->ep.fid;
		return 0;
	case FI_GETOPSFLAG:
		if (((*flags & FI_TRANSMIT) != 0) == ((*flags & FI_RECV) != 0))
			return -FI_EINVAL;
		*flags = *flags & FI_TRANSMIT ? e->tx_flags : e->rx_flags;
		return 0;
	case FI_SETOPSFLAG:
		if (((*flags & FI_TRANSMIT) != 0) == ((*flags & FI_RECV) != 0))
			return -FI_EINVAL;
		if (*flags & FI_TRANSMIT)
			e->tx_flags = *flags & ~FI_TRANSMIT;
		else
			e->rx_flags = *flags & ~FI_RECV;
		return 0;
	}
	return -FI_ENOSYS;
}

static struct fi_ops ep_fid = {
	.size = sizeof ep_fid, .close = ep_close, .bind = ep_bind, .control = ep_control,
	.ops_open = ofi_no_ops_open,
};

static struct ofi_ep *alias(struct ofi_core *c, void *context)
{
	struct ofi_ep *e = calloc(1, sizeof *e);
	if (e == NULL)
		return NULL;
	e->core = c;
	e->ep.fid = (struct fid){ FI_CLASS_EP, context, &ep_fid };
	e->ep.ops = &ep_ops;
	e->ep.cm = &cm_ops;
	e->ep.msg = &ofi_msg_ops;
	e->ep.tagged = &ofi_tagged_ops;
	e->ep.rma = &ofi_rma_ops;
	e->ep.atomic = &ofi_atomic_ops;
	ADD(c->aliases, 1);
	return e;
}

int ofi_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
	struct ofi_domain *d = container_of(domain, struct ofi_domain, domain);
	if (info == NULL || info->ep_attr == NULL || info->ep_attr->type != FI_EP_RDM || info->ep_attr->tx_ctx_cnt > 1 ||
	    info->ep_attr->rx_ctx_cnt > 1)
		return -FI_EINVAL;
	if ((info->caps & FI_RMA_EVENT) != 0 && !d->counts) {
		FI_INFO(&ofi_provider, FI_LOG_EP_CTRL, "FI_RMA_EVENT: open the domain with it, too\n");
		return -FI_EINVAL;
	}
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	struct ofi_core *c = calloc(1, sizeof *c);
	struct ofi_ep *e = c != NULL ? alias(c, context) : NULL;
	int number = e != NULL ? ofi_go_open_endpoint((uintptr_t)c) : -FI_ENOMEM;
	if (number < 0) {
		free(e);
		free(c);
		return number;
	}
	c->number = number;
	c->domain = d;
	c->caps = info->caps;
	c->least = 64;
	e->tx_flags = info->tx_attr != NULL ? info->tx_attr->op_flags : 0;
	e->rx_flags = info->rx_attr != NULL ? info->rx_attr->op_flags : 0;
	ADD(d->users, 1);
	*ep = &e->ep;
	return 0;
}
