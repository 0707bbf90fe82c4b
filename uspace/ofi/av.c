//go:build libfabric

/* av.c: address vectors. A fi_addr_t is an index of a table, in both kinds. The table is written
 * under a mutex and read without one. */
#define _GNU_SOURCE
#include "ofi.h"

#include <stdio.h>
#include <sys/mman.h>

#define TABLE_BYTES ((size_t)ADDRESSES * sizeof(uint32_t))

/* Returns the place of an entry's endpoint in the table of sources. */
static uint32_t *source_of(const struct ofi_av *av, uint32_t entry)
{
	return &av->sources[(entry & 0xffff) * NUMBERS + ((entry & ~(uint32_t)LIVE) >> NUMBER)];
}

/* Makes an entry for an address, and returns its index, or FI_ADDR_NOTAVAIL. The mutex is held. */
static fi_addr_t insert_one(struct ofi_av *av, const struct ofi_address *a)
{
	const struct ofi_place *p = &av->domain->place;
	if (a->mark != MARK || a->gid != p->gid || a->node >= p->nodes || a->number >= ENDPOINTS || a->zero != 0)
		return FI_ADDR_NOTAVAIL;
	uint64_t at = av->free;
	while (at < av->used && (LOAD(av->table[at]) & LIVE) != 0)
		at++;
	if (at == ADDRESSES)
		return FI_ADDR_NOTAVAIL;
	if (at == av->used)
		av->used++;
	av->free = at + 1;
	STORE(av->table[at], LIVE | (uint32_t)a->number << NUMBER | a->node);
	uint32_t *source = source_of(av, av->table[at]);
	if (LOAD(*source) == 0)
		STORE(*source, (uint32_t)at + 1);
	return at;
}

/* Tells the event queue of an address that was not inserted. */
static void tell_error(struct ofi_av *av, size_t index, void *context)
{
	struct fi_eq_err_entry e = { .fid = &av->av.fid, .context = context, .data = index, .err = FI_EINVAL,
		.prov_errno = FI_EINVAL };
	(void)ofi_eq_add(av->eq, FI_AV_COMPLETE, &e, sizeof e, 1);
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *to, uint64_t flags, void *context)
{
	struct ofi_av *av = container_of(fid, struct ofi_av, av);
	int good = 0;
	int *errors = NULL;
	if (flags & ~(FI_MORE | FI_SYNC_ERR))
		return -FI_EBADFLAGS;
	if (av->events && av->eq == NULL)
		return -FI_ENOEQ;
	if (av->events && (flags & FI_SYNC_ERR) != 0)
		return -FI_EBADFLAGS;
	if ((flags & FI_SYNC_ERR) != 0 && context == NULL)
		return -FI_EINVAL;
	if ((flags & FI_SYNC_ERR) != 0)
		errors = context;
	pthread_mutex_lock(&av->mutex);
	for (size_t i = 0; i < count; i++) {
		struct ofi_address a;
		memcpy(&a, (const char *)addr + i * sizeof a, sizeof a);
		fi_addr_t at = insert_one(av, &a);
		if (to != NULL)
			to[i] = at;
		if (errors != NULL)
			errors[i] = at == FI_ADDR_NOTAVAIL ? FI_EINVAL : 0;
		if (at != FI_ADDR_NOTAVAIL)
			good++;
		else if (av->events)
			tell_error(av, i, context);
	}
	pthread_mutex_unlock(&av->mutex);
	if (!av->events)
		return good;
	struct fi_eq_entry done = { .fid = &av->av.fid, .context = context, .data = (uint64_t)good };
	return ofi_eq_add(av->eq, FI_AV_COMPLETE, &done, sizeof done, 0);
}

static int no_insert_service(struct fid_av *fid, const char *node, const char *service, fi_addr_t *to, uint64_t flags,
	void *context)
{
	(void)fid, (void)node, (void)service, (void)to, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static int no_insert_symmetric(struct fid_av *fid, const char *node, size_t nodes, const char *service, size_t services,
	fi_addr_t *to, uint64_t flags, void *context)
{
	(void)fid, (void)node, (void)nodes, (void)service, (void)services, (void)to, (void)flags, (void)context;
	return -FI_ENOSYS;
}

static int remove_one(struct ofi_av *av, fi_addr_t a)
{
	uint32_t e = ofi_entry_of(av, a);
	if ((e & LIVE) == 0)
		return -FI_EINVAL;
	STORE(av->table[a], 0);
	av->free = a < av->free ? a : av->free;
	uint32_t *source = source_of(av, e);
	if (LOAD(*source) != a + 1)
		return 0;
	uint64_t next = 0; /* it may have been inserted again */
	while (next < av->used && av->table[next] != e)
		next++;
	STORE(*source, next < av->used ? (uint32_t)next + 1 : 0);
	return 0;
}

static int av_remove(struct fid_av *fid, fi_addr_t *addr, size_t count, uint64_t flags)
{
	struct ofi_av *av = container_of(fid, struct ofi_av, av);
	int err = 0;
	if (flags != 0)
		return -FI_EBADFLAGS;
	pthread_mutex_lock(&av->mutex);
	for (size_t i = 0; i < count; i++) {
		int one = remove_one(av, addr[i]);
		err = err != 0 ? err : one;
	}
	pthread_mutex_unlock(&av->mutex);
	return err;
}

static int av_lookup(struct fid_av *fid, fi_addr_t addr, void *to, size_t *length)
{
	struct ofi_av *av = container_of(fid, struct ofi_av, av);
	uint32_t e = ofi_entry_of(av, addr);
	if ((e & LIVE) == 0)
		return -FI_EINVAL;
	struct ofi_address a = ofi_address_of(av->domain->place.gid, e & 0xffff, (e & ~(uint32_t)LIVE) >> NUMBER);
	memcpy(to, &a, *length < sizeof a ? *length : sizeof a);
	*length = sizeof a;
	return 0;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *length)
{
	struct ofi_address a;
	(void)fid;
	memcpy(&a, addr, sizeof a);
	int n = snprintf(buf, *length, "funet://%u/%u/%u", a.gid, a.node, a.number);
	*length = (size_t)n + 1;
	return buf;
}

static int no_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **set, void *context)
{
	(void)fid, (void)attr, (void)set, (void)context;
	return -FI_ENOSYS;
}

static struct fi_ops_av av_ops = {
	.size = sizeof av_ops, .insert = av_insert, .insertsvc = no_insert_service, .insertsym = no_insert_symmetric,
	.remove = av_remove, .lookup = av_lookup, .straddr = av_straddr, .av_set = no_set,
};

static int av_close(struct fid *fid)
{
	struct ofi_av *av = container_of(fid, struct ofi_av, av.fid);
	if (LOAD(av->users) != 0)
		return -FI_EBUSY;
	if (av->eq != NULL)
		ADD(av->eq->users, -1);
	ADD(av->domain->users, -1);
	pthread_mutex_destroy(&av->mutex);
	munmap(av->table, TABLE_BYTES);
	free(av->sources);
	free(av);
	return 0;
}

static int av_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct ofi_av *av = container_of(fid, struct ofi_av, av.fid);
	if (other->fclass != FI_CLASS_EQ || flags != 0)
		return -FI_EINVAL;
	if (av->eq != NULL)
		return -FI_EBUSY;
	av->eq = container_of(other, struct ofi_eq, eq.fid);
	ADD(av->eq->users, 1);
	return 0;
}

static struct fi_ops av_fid = {
	.size = sizeof av_fid, .close = av_close, .bind = av_bind, .control = ofi_no_control,
	.ops_open = ofi_no_ops_open,
};

int ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
	struct ofi_domain *d = container_of(domain, struct ofi_domain, domain);
	if (attr == NULL || attr->type > FI_AV_TABLE || attr->count > ADDRESSES)
		return -FI_EINVAL;
	if (attr->name != NULL || attr->rx_ctx_bits != 0)
		return -FI_ENOSYS;
	if (attr->flags & ~(uint64_t)FI_EVENT)
		return -FI_EBADFLAGS;
	struct ofi_av *a = calloc(1, sizeof *a);
	if (a == NULL)
		return -FI_ENOMEM;
	a->table = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	a->sources = calloc((size_t)d->place.nodes * NUMBERS, sizeof *a->sources);
	if (a->table == MAP_FAILED || a->sources == NULL) {
		if (a->table != MAP_FAILED)
			munmap(a->table, TABLE_BYTES);
		free(a->sources);
		free(a);
		return -FI_ENOMEM;
	}
	a->type = attr->type = attr->type != FI_AV_UNSPEC ? attr->type : FI_AV_MAP;
	a->events = (attr->flags & FI_EVENT) != 0;
	a->domain = d;
	pthread_mutex_init(&a->mutex, NULL);
	a->av.fid = (struct fid){ FI_CLASS_AV, context, &av_fid };
	a->av.ops = &av_ops;
	ADD(d->users, 1);
	*av = &a->av;
	return 0;
}
