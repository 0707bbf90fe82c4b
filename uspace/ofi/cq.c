//go:build libfabric

/* cq.c: completion queues. Go writes entries into a ring; a read that finds some does not cross. An
 * empty ring makes one crossing, which lets the card run, and is looked at again. */
#include "ofi.h"
#include "_cgo_export.h"

#include <stdio.h>

/* Bytes of an entry in each format. */
static const size_t sizes[] = {
	[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
	[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
	[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
	[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
};

static inline struct ofi_entry *entry(struct ofi_cq *cq, uint64_t at) { return &cq->ring[at & (cq->size - 1)]; }

/* The mutex of readers, if there may be several. */
static inline void lock(struct ofi_cq *cq)
{
	if (!cq->domain->alone)
		pthread_mutex_lock(&cq->mutex);
}

static inline void unlock(struct ofi_cq *cq)
{
	if (!cq->domain->alone)
		pthread_mutex_unlock(&cq->mutex);
}

/* Copies up to count completions, to the first error. */
static ssize_t take(struct ofi_cq *cq, void *buf, size_t count, fi_addr_t *source)
{
	if (LOAD(cq->head) == LOAD(cq->tail))
		return -FI_EAGAIN;
	ssize_t n = 0;
	lock(cq);
	uint64_t tail = cq->tail, head = LOAD(cq->head);
	for (; n < (ssize_t)count && tail != head; n++, tail++) {
		struct ofi_entry *e = entry(cq, tail);
		if (e->error != 0)
			break;
		/* each format begins like the one before */
		struct fi_cq_tagged_entry whole = { (void *)(uintptr_t)e->context, e->flags, e->length,
			(void *)(uintptr_t)e->buffer, e->data, e->tag };
		memcpy((char *)buf + (size_t)n * sizes[cq->format], &whole, sizes[cq->format]);
		if (source != NULL)
			source[n] = e->source;
	}
	if (n == 0)
		n = tail != head && count > 0 ? -FI_EAVAIL : tail == head ? -FI_EAGAIN : 0;
	STORE(cq->tail, tail);
	unlock(cq);
	return n;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source)
{
	struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq);
	ssize_t n = take(cq, buf, count, source);
	if (n != -FI_EAGAIN)
		return n;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	int err = ofi_go_poll(cq->number);
	n = take(cq, buf, count, source);
	return n == -FI_EAGAIN && err != 0 ? err : n;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count) { return cq_readfrom(fid, buf, count, NULL); }

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq);
	ssize_t n = -FI_EAGAIN;
	(void)flags;
	lock(cq);
	struct ofi_entry *e = entry(cq, cq->tail);
	if (LOAD(cq->head) != cq->tail && e->error != 0) {
		void *data = buf->err_data;
		size_t room = data != NULL ? buf->err_data_size : 0;
		snprintf(cq->text, sizeof cq->text, "%s", e->text != 0 ? (char *)(uintptr_t)e->text : "");
		free((void *)(uintptr_t)e->text);
		*buf = (struct fi_cq_err_entry){ .op_context = (void *)(uintptr_t)e->context, .flags = e->flags,
			.len = e->length, .buf = (void *)(uintptr_t)e->buffer, .data = e->data, .tag = e->tag,
			.olen = e->excess, .err = e->error, .prov_errno = e->reason, .err_data = cq->text,
			.err_data_size = strlen(cq->text) };
		if (room > 0) { /* the program has memory for it */
			buf->err_data_size = buf->err_data_size < room ? buf->err_data_size : room;
			memcpy(data, cq->text, buf->err_data_size);
			buf->err_data = data;
		}
		STORE(cq->tail, cq->tail + 1);
		n = 1;
	}
	unlock(cq);
	return n;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source, const void *cond,
	int timeout)
{
	struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq);
	(void)cond; /* a hint */
	if (cq->wait == FI_WAIT_NONE)
		return -FI_ENOSYS;
	ssize_t n = take(cq, buf, count, source);
	if (n != -FI_EAGAIN)
		return n;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	int err = ofi_go_wait_queue(cq->number, timeout);
	n = take(cq, buf, count, source);
	return n == -FI_EAGAIN && err != 0 ? err : n;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq);
	if (cq->wait == FI_WAIT_NONE)
		return -FI_ENOSYS;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	STORE(cq->signalled, 1);
	return ofi_go_interrupt();
}

static const char *cq_strerror(struct fid_cq *fid, int reason, const void *data, char *buf, size_t len)
{
	(void)fid;
	const char *text = data != NULL ? data : fi_strerror(reason);
	if (buf == NULL || len == 0)
		return text;
	snprintf(buf, len, "%s", text);
	return buf;
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof cq_ops, .read = cq_read, .readfrom = cq_readfrom, .readerr = cq_readerr, .sread = cq_sread,
	.sreadfrom = cq_sreadfrom, .signal = cq_signal, .strerror = cq_strerror,
};

static int cq_close(struct fid *fid)
{
	struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq.fid);
	if (LOAD(cq->users) != 0)
		return -FI_EBUSY;
	if (guest_enter() == 0)
		ofi_go_close_queue(cq->number);
	ADD(cq->domain->users, -1);
	for (uint64_t at = cq->tail; at != cq->head; at++)
		if (entry(cq, at)->error != 0)
			free((void *)(uintptr_t)entry(cq, at)->text);
	pthread_mutex_destroy(&cq->mutex);
	free(cq->ring);
	free(cq);
	return 0;
}

int ofi_wait_object(struct fid *fid, enum fi_wait_obj wait, int command, void *arg)
{
	(void)fid;
	switch (command) {
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *)arg = wait;
		return 0;
	case FI_GETWAIT:
		if (wait != FI_WAIT_FD)
			return -FI_ENODATA;
		if (guest_enter() != 0)
			return -FI_EOPBADSTATE;
		int fd = ofi_go_fd();
		if (fd < 0)
			return fd;
		*(int *)arg = fd;
		return 0;
	}
	return -FI_ENOSYS;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	return ofi_wait_object(fid, container_of(fid, struct ofi_cq, cq.fid)->wait, command, arg);
}

static struct fi_ops cq_fid = {
	.size = sizeof cq_fid, .close = cq_close, .bind = ofi_no_bind, .control = cq_control,
	.ops_open = ofi_no_ops_open,
};

int ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
	struct ofi_domain *d = container_of(domain, struct ofi_domain, domain);
	static struct fi_cq_attr usual;
	if (attr == NULL)
		attr = &usual;
	if (attr->format > FI_CQ_FORMAT_TAGGED || attr->size > MOST_QUEUE)
		return -FI_EINVAL;
	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_FD)
		return -FI_ENOSYS;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	struct ofi_cq *q = calloc(1, sizeof *q);
	if (q == NULL)
		return -FI_ENOMEM;
	for (q->size = QUEUE; q->size < attr->size;)
		q->size *= 2;
	q->ring = calloc(q->size, sizeof *q->ring);
	int number = q->ring != NULL ? ofi_go_open_queue((uintptr_t)q) : -FI_ENOMEM;
	if (number < 0) {
		free(q->ring);
		free(q);
		return number;
	}
	q->number = (uint32_t)number;
	q->format = attr->format != FI_CQ_FORMAT_UNSPEC ? attr->format : FI_CQ_FORMAT_CONTEXT;
	q->wait = attr->wait_obj;
	q->domain = d;
	pthread_mutex_init(&q->mutex, NULL);
	q->cq.fid = (struct fid){ FI_CLASS_CQ, context, &cq_fid };
	q->cq.ops = &cq_ops;
	ADD(d->users, 1);
	*cq = &q->cq;
	return 0;
}

int ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < count; i++) {
			if (fids[i]->fclass == FI_CLASS_CQ) {
				struct ofi_cq *cq = container_of(fids[i], struct ofi_cq, cq.fid);
				if (LOAD(cq->head) != LOAD(cq->tail))
					return -FI_EAGAIN;
				int err = pass == 0 ? ofi_go_poll(cq->number) : 0;
				if (err != 0)
					return err;
			} else if (fids[i]->fclass == FI_CLASS_CNTR) {
				struct ofi_cntr *c = container_of(fids[i], struct ofi_cntr, cntr.fid);
				if (LOAD(c->value) != LOAD(c->seen))
					return -FI_EAGAIN;
				int err = pass == 0 ? ofi_go_poll(NO_QUEUE) : 0;
				if (err != 0)
					return err;
			} else if (fids[i]->fclass != FI_CLASS_EQ) {
				return -FI_ENOSYS;
			}
		}
	}
	return ofi_go_arm();
}
