//go:build libfabric

/* eq.c: event queues. Nothing but insertions of addresses and the program itself writes events. */
#include "ofi.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

int ofi_eq_add(struct ofi_eq *eq, uint32_t event, const void *bytes, size_t size, int error)
{
	if (size > sizeof eq->ring->bytes)
		return -FI_EINVAL;
	int err = 0;
	pthread_mutex_lock(&eq->mutex);
	if (eq->head - eq->tail < eq->size) {
		struct ofi_event *e = &eq->ring[eq->head++ % eq->size];
		e->event = event;
		e->size = (uint32_t)size;
		e->error = error;
		memcpy(e->bytes, bytes, size);
		pthread_cond_broadcast(&eq->some);
	} else {
		eq->overrun = 1;
		err = -FI_EAGAIN;
	}
	pthread_mutex_unlock(&eq->mutex);
	return err;
}

/* Takes the next event, or looks at it with FI_PEEK. The mutex is held. */
static ssize_t take(struct ofi_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	if (eq->head == eq->tail)
		return eq->overrun ? -FI_EOVERRUN : -FI_EAGAIN;
	struct ofi_event *e = &eq->ring[eq->tail % eq->size];
	if (e->error)
		return -FI_EAVAIL;
	if (len < e->size)
		return -FI_ETOOSMALL;
	*event = e->event;
	memcpy(buf, e->bytes, e->size);
	if ((flags & FI_PEEK) == 0)
		eq->tail++;
	return (ssize_t)e->size;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct ofi_eq *eq = container_of(fid, struct ofi_eq, eq);
	pthread_mutex_lock(&eq->mutex);
	ssize_t n = take(eq, event, buf, len, flags);
	pthread_mutex_unlock(&eq->mutex);
	return n;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
{
	struct ofi_eq *eq = container_of(fid, struct ofi_eq, eq);
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	if (timeout > 0) {
		int64_t ns = until.tv_nsec + (int64_t)timeout % 1000 * 1000000;
		until.tv_sec += timeout / 1000 + (time_t)(ns / 1000000000);
		until.tv_nsec = ns % 1000000000;
	}
	pthread_mutex_lock(&eq->mutex);
	ssize_t n;
	while ((n = take(eq, event, buf, len, flags)) == -FI_EAGAIN && timeout != 0) {
		int err = timeout < 0 ? pthread_cond_wait(&eq->some, &eq->mutex) :
					pthread_cond_timedwait(&eq->some, &eq->mutex, &until);
		if (err == ETIMEDOUT)
			timeout = 0;
	}
	pthread_mutex_unlock(&eq->mutex);
	return n;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct ofi_eq *eq = container_of(fid, struct ofi_eq, eq);
	ssize_t n = -FI_EAGAIN;
	pthread_mutex_lock(&eq->mutex);
	if (eq->head != eq->tail && eq->ring[eq->tail % eq->size].error) {
		void *data = buf->err_data;
		size_t size = buf->err_data_size;
		memcpy(buf, eq->ring[eq->tail % eq->size].bytes, sizeof *buf);
		buf->err_data = data;
		buf->err_data_size = size < buf->err_data_size ? size : 0;
		if ((flags & FI_PEEK) == 0)
			eq->tail++;
		n = sizeof *buf;
	}
	pthread_mutex_unlock(&eq->mutex);
	return n;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
	struct ofi_eq *eq = container_of(fid, struct ofi_eq, eq);
	(void)flags;
	int err = ofi_eq_add(eq, event, buf, len, 0);
	return err != 0 ? err : (ssize_t)len;
}

static const char *eq_strerror(struct fid_eq *fid, int reason, const void *data, char *buf, size_t len)
{
	(void)fid, (void)data;
	const char *text = fi_strerror(reason);
	if (buf == NULL || len == 0)
		return text;
	snprintf(buf, len, "%s", text);
	return buf;
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof eq_ops, .read = eq_read, .readerr = eq_readerr, .write = eq_write, .sread = eq_sread,
	.strerror = eq_strerror,
};

static int eq_close(struct fid *fid)
{
	struct ofi_eq *eq = container_of(fid, struct ofi_eq, eq.fid);
	if (LOAD(eq->users) != 0)
		return -FI_EBUSY;
	ADD(eq->fabric->users, -1);
	pthread_mutex_destroy(&eq->mutex);
	pthread_cond_destroy(&eq->some);
	free(eq->ring);
	free(eq);
	return 0;
}

static struct fi_ops eq_fid = {
	.size = sizeof eq_fid, .close = eq_close, .bind = ofi_no_bind, .control = ofi_no_control,
	.ops_open = ofi_no_ops_open,
};

int ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
{
	size_t size = attr != NULL && attr->size != 0 ? attr->size : QUEUE;
	if (attr != NULL && attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC)
		return -FI_ENOSYS;
	if (size > MOST_QUEUE)
		return -FI_EINVAL;
	struct ofi_eq *e = calloc(1, sizeof *e);
	if (e == NULL || (e->ring = calloc(size, sizeof *e->ring)) == NULL) {
		free(e);
		return -FI_ENOMEM;
	}
	e->size = size;
	e->fabric = container_of(fabric, struct ofi_fabric, fabric);
	pthread_mutex_init(&e->mutex, NULL);
	pthread_cond_init(&e->some, NULL);
	e->eq.fid = (struct fid){ FI_CLASS_EQ, context, &eq_fid };
	e->eq.ops = &eq_ops;
	ADD(e->fabric->users, 1);
	*eq = &e->eq;
	return 0;
}
