//go:build libfabric

/* msg.c: messages and tagged messages. Each function checks its arguments, and crosses into Go with
 * one struct ofi_operation. */
#include "ofi.h"
#include "_cgo_export.h"

#define SEND_FLAGS (FI_MORE | FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | \
	FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA | FI_FENCE)
#define RECV_FLAGS (FI_MORE | FI_COMPLETION | FI_MULTI_RECV)
#define TAGGED_RECV_FLAGS (FI_MORE | FI_COMPLETION | FI_PEEK | FI_CLAIM | FI_DISCARD)

/* Sends to an address, with flags that were checked. */
static ssize_t post_send(struct fid_ep *fid, fi_addr_t to, struct ofi_operation *o, uint64_t tagged)
{
	struct ofi_core *c = container_of(fid, struct ofi_ep, ep)->core;
	if (!c->enabled)
		return -FI_EOPBADSTATE;
	uint32_t e = ofi_entry_of(c->av, to);
	if ((e & LIVE) == 0 || o->count > PIECES)
		return -FI_EINVAL;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	o->node = e & 0xffff;
	o->channel = (e & ~(uint32_t)LIVE) >> NUMBER | tagged;
	if ((o->flags & FI_FENCE) != 0 && ofi_go_owed((uintptr_t)c, o->node))
		return -FI_EAGAIN;
	return ofi_go_send((uintptr_t)c, (uintptr_t)o);
}

struct ofi_posts ofi_posts = { .closed = 1, .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Leaves a receive for the next crossing, and returns 1, if that makes no difference. Go closes the
 * ring before it looks into it for the last time and sleeps. Here the order is the reverse. */
static int leave(struct ofi_core *c, const struct ofi_operation *o)
{
	if (LOAD(ofi_posts.closed) || o->count != 1 || (o->flags & ~(FI_COMPLETION | FI_MORE)) != 0)
		return 0;
	pthread_mutex_lock(&ofi_posts.mutex);
	uint64_t head = ofi_posts.head;
	int room = head - LOAD(ofi_posts.tail) < POSTS;
	if (room) {
		struct ofi_post *p = &ofi_posts.ring[head % POSTS];
		p->operation = *o;
		p->piece = *(const struct iovec *)(uintptr_t)o->pieces;
		p->operation.pieces = (uintptr_t)&p->piece;
		p->core = (uintptr_t)c;
		(void)__atomic_exchange_n(&ofi_posts.head, head + 1, __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&ofi_posts.mutex);
	if (room && __atomic_load_n(&ofi_posts.closed, __ATOMIC_SEQ_CST))
		ofi_go_take_posts();
	return room;
}

static ssize_t post_receive(struct fid_ep *fid, fi_addr_t from, struct ofi_operation *o, uint64_t tagged)
{
	struct ofi_core *c = container_of(fid, struct ofi_ep, ep)->core;
	if (!c->enabled)
		return -FI_EOPBADSTATE;
	o->node = UINT64_MAX;
	if (from != FI_ADDR_UNSPEC && (c->caps & FI_DIRECTED_RECV) != 0) {
		uint32_t e = ofi_entry_of(c->av, from);
		if ((e & LIVE) == 0)
			return -FI_EINVAL;
		o->node = e & 0xffff;
		o->origin = (e & ~(uint32_t)LIVE) >> NUMBER;
	}
	if (o->count > PIECES || (o->count > 1 && (o->flags & FI_MULTI_RECV) != 0))
		return -FI_EINVAL;
	if (guest_enter() != 0)
		return -FI_EOPBADSTATE;
	o->channel = (uint64_t)c->number | tagged;
	if (leave(c, o))
		return 0;
	return ofi_go_receive((uintptr_t)c, (uintptr_t)o);
}

#define TX(fid) (container_of(fid, struct ofi_ep, ep)->tx_flags)
#define RX(fid) (container_of(fid, struct ofi_ep, ep)->rx_flags)
/* No completion says when an injected message has arrived, so it does not wait for its receive. */
#define INJECTED(fid) ((TX(fid) & ~(FI_COMPLETION | FI_DELIVERY_COMPLETE)) | FI_INJECT)
#define PIECE(buf, len) struct iovec piece = { (void *)(uintptr_t)(buf), len }
#define OPERATION(flags_, context_, pieces_, count_, ...) \
	struct ofi_operation o = { .flags = flags_, .context = (uintptr_t)(context_), .pieces = (uintptr_t)(pieces_), \
		.count = count_, __VA_ARGS__ }

/* ---- messages ---- */

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, void *context)
{
	(void)desc;
	PIECE(buf, len);
	OPERATION(RX(ep), context, &piece, 1);
	return post_receive(ep, from, &o, 0);
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t from,
	void *context)
{
	(void)desc;
	OPERATION(RX(ep), context, iov, count);
	return post_receive(ep, from, &o, 0);
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	if (flags & ~RECV_FLAGS)
		return -FI_EBADFLAGS;
	OPERATION(flags, msg->context, msg->msg_iov, msg->iov_count);
	return post_receive(ep, msg->addr, &o, 0);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, void *context)
{
	(void)desc;
	PIECE(buf, len);
	OPERATION(TX(ep), context, &piece, 1);
	return post_send(ep, to, &o, 0);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
	void *context)
{
	(void)desc;
	OPERATION(TX(ep), context, iov, count);
	return post_send(ep, to, &o, 0);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	if (flags & ~SEND_FLAGS)
		return -FI_EBADFLAGS;
	OPERATION(flags, msg->context, msg->msg_iov, msg->iov_count, .data = msg->data);
	return post_send(ep, msg->addr, &o, 0);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
	PIECE(buf, len);
	OPERATION(INJECTED(ep) | QUIET, 0, &piece, 1);
	return post_send(ep, to, &o, 0);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
	void *context)
{
	(void)desc;
	PIECE(buf, len);
	OPERATION(TX(ep) | FI_REMOTE_CQ_DATA, context, &piece, 1, .data = data);
	return post_send(ep, to, &o, 0);
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to)
{
	PIECE(buf, len);
	OPERATION(INJECTED(ep) | FI_REMOTE_CQ_DATA | QUIET, 0, &piece, 1, .data = data);
	return post_send(ep, to, &o, 0);
}

struct fi_ops_msg ofi_msg_ops = {
	.size = sizeof(struct fi_ops_msg), .recv = msg_recv, .recvv = msg_recvv, .recvmsg = msg_recvmsg,
	.send = msg_send, .sendv = msg_sendv, .sendmsg = msg_sendmsg, .inject = msg_inject, .senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

/* ---- tagged messages ---- */

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t tag,
	uint64_t ignore, void *context)
{
	(void)desc;
	PIECE(buf, len);
	OPERATION(RX(ep) & ~FI_MULTI_RECV, context, &piece, 1, .tag = tag, .ignore = ignore);
	return post_receive(ep, from, &o, TAGGED);
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t from,
	uint64_t tag, uint64_t ignore, void *context)
{
	(void)desc;
	OPERATION(RX(ep) & ~FI_MULTI_RECV, context, iov, count, .tag = tag, .ignore = ignore);
	return post_receive(ep, from, &o, TAGGED);
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	if (flags & ~TAGGED_RECV_FLAGS)
		return -FI_EBADFLAGS;
	if ((flags & FI_DISCARD) != 0 && (flags & (FI_PEEK | FI_CLAIM)) == 0)
		return -FI_EINVAL;
	OPERATION(flags, msg->context, msg->msg_iov, msg->iov_count, .tag = msg->tag, .ignore = msg->ignore);
	return post_receive(ep, msg->addr, &o, TAGGED);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag,
	void *context)
{
	(void)desc;
	PIECE(buf, len);
	OPERATION(TX(ep), context, &piece, 1, .tag = tag);
	return post_send(ep, to, &o, TAGGED);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
	uint64_t tag, void *context)
{
	(void)desc;
	OPERATION(TX(ep), context, iov, count, .tag = tag);
	return post_send(ep, to, &o, TAGGED);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	if (flags & ~SEND_FLAGS)
		return -FI_EBADFLAGS;
	OPERATION(flags, msg->context, msg->msg_iov, msg->iov_count, .tag = msg->tag, .data = msg->data);
	return post_send(ep, msg->addr, &o, TAGGED);
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t tag)
{
	PIECE(buf, len);
	OPERATION(INJECTED(ep) | QUIET, 0, &piece, 1, .tag = tag);
	return post_send(ep, to, &o, TAGGED);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
	uint64_t tag, void *context)
{
	(void)desc;
	PIECE(buf, len);
	OPERATION(TX(ep) | FI_REMOTE_CQ_DATA, context, &piece, 1, .tag = tag, .data = data);
	return post_send(ep, to, &o, TAGGED);
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to,
	uint64_t tag)
{
	PIECE(buf, len);
	OPERATION(INJECTED(ep) | FI_REMOTE_CQ_DATA | QUIET, 0, &piece, 1, .tag = tag,
		.data = data);
	return post_send(ep, to, &o, TAGGED);
}

struct fi_ops_tagged ofi_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged), .recv = tagged_recv, .recvv = tagged_recvv, .recvmsg = tagged_recvmsg,
	.send = tagged_send, .sendv = tagged_sendv, .sendmsg = tagged_sendmsg, .inject = tagged_inject,
	.senddata = tagged_senddata, .injectdata = tagged_injectdata,
};
