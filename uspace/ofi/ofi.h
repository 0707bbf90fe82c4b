/* ofi.h: the objects of the provider, which C and Go share. All lie in memory of C. Go writes the
 * rings of completion queues and the counters; C reads them. */
#ifndef OFI_H
#define OFI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "guest.h"

extern struct fi_provider ofi_provider;

/* The object whose field this is. libfabric's headers had it until version 2. */
#ifndef container_of
#define container_of(at, type, field) ((type *)((char *)(at) - offsetof(type, field)))
#endif

/* Words that several threads use are plain, so that cgo knows their types, and are used by
 * these. */
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)
#define ADD(x, n) __atomic_add_fetch(&(x), n, __ATOMIC_ACQ_REL)

/* Limits. A channel has 8 bits, of which one says whether a message has a tag. */
enum {
	ENDPOINTS = 127,        /* of a process */
	ADDRESSES = 1 << 20,    /* of an address vector */
	QUEUE = 1024,           /* operations promised each way; entries of a queue by default */
	MOST_QUEUE = 1 << 20,   /* entries of a queue */
	INJECT = 256,           /* bytes of a message or a write that are copied at once */
	PIECES = 4,             /* of memory that one message comes from or goes to */
	TEXT = 256,             /* bytes of an error's text */
	NO_QUEUE = 0            /* the number of no completion queue */
};
#define MOST_BYTES ((uint64_t)1 << 30) /* of a message */

/* An endpoint's address: what names it in every process of the job. It begins with what is no
 * family of addresses: other providers see it in a program's hints, and change one of IP there. */
struct ofi_address {
	uint16_t mark; /* MARK */
	uint16_t gid, node;
	uint8_t number; /* of the endpoint in its process */
	uint8_t zero;
};
enum { MARK = 0x4655 };

static inline struct ofi_address ofi_address_of(uint32_t gid, uint32_t node, uint32_t number)
{
	return (struct ofi_address){ .mark = MARK, .gid = (uint16_t)gid, .node = (uint16_t)node, .number = (uint8_t)number };
}

/* A place in the job, which Go reads from the environment. */
struct ofi_place {
	uint32_t gid, node, nodes;
	uint32_t known; /* the environment names a job */
};

struct ofi_fabric {
	struct fid_fabric fabric;
	int users;
};

/* The kinds of operations that a counter can count. Those of others come last. */
enum { SENDS, RECEIVES, READS, WRITES, REMOTE_READS, REMOTE_WRITES, COUNTED };

struct ofi_domain {
	struct fid_domain domain;
	struct ofi_fabric *fabric;
	struct ofi_place place;
	int users;
	int alone; /* one thread at a time uses its objects (FI_THREAD_DOMAIN) */
	int made; /* keys are the provider's, and addresses those of memory (FI_MR_BASIC's bits) */
	int counts; /* FI_RMA_EVENT: operations count at their targets */
	/* What counts the operations of others, and how many endpoints it is bound to. Go's lock
	 * guards these. */
	struct ofi_cntr *targets[COUNTED];
	int targeted[COUNTED];
};

struct ofi_event {
	uint32_t event;
	uint32_t size;
	uint8_t bytes[sizeof(struct fi_eq_err_entry)];
	int error; /* it is a struct fi_eq_err_entry */
};

struct ofi_eq {
	struct fid_eq eq;
	struct ofi_fabric *fabric;
	int users;
	pthread_mutex_t mutex;
	pthread_cond_t some;
	uint64_t size, head, tail;
	int overrun;
	struct ofi_event *ring;
};

struct ofi_av {
	struct fid_av av;
	struct ofi_domain *domain;
	struct ofi_eq *eq; /* NULL: insertions are complete when the call returns */
	enum fi_av_type type;
	int events; /* insertions are told to eq */
	int users;
	pthread_mutex_t mutex; /* of changes */
	uint64_t used, free;   /* entries from 0 on; the first of them that may be free */
	uint32_t *table; /* ADDRESSES of them: LIVE, endpoint number, node */
	/* Of each endpoint that a job can have, by node and number: 1 and the address that was inserted
	 * first, and lives; 0: none. */
	uint32_t *sources;
};
enum { LIVE = 1 << 31, NUMBER = 16, NUMBERS = 1 << 7 };

/* An entry of a queue's ring. */
struct ofi_entry {
	uint64_t context, flags, length, buffer, data, tag;
	uint64_t source;         /* an address of the endpoint's address vector */
	uint64_t excess;         /* bytes that did not fit */
	int32_t error, reason;   /* 0: the operation succeeded */
	uint64_t text;           /* of the error: a string of malloc, which the reader frees; 0: none */
};

struct ofi_cq {
	struct fid_cq cq;
	struct ofi_domain *domain;
	enum fi_cq_format format;
	enum fi_wait_obj wait;
	int users;
	uint32_t number;        /* in Go's table */
	uint32_t signalled;  /* fi_cq_signal was called */
	pthread_mutex_t mutex;  /* of readers */
	uint64_t size;          /* of the ring, a power of 2 */
	uint64_t head;  /* Go's */
	uint64_t tail;  /* C's */
	struct ofi_entry *ring;
	char text[TEXT];        /* err_data of the last error that was read */
};

struct ofi_cntr {
	struct fid_cntr cntr;
	struct ofi_domain *domain;
	enum fi_wait_obj wait;
	int users;
	uint64_t value, errors;
	uint64_t seen; /* the value that was read last */
};

/* What all aliases of an endpoint share. */
struct ofi_core {
	struct ofi_domain *domain;
	struct ofi_av *av;
	struct ofi_cq *tx, *rx;
	struct ofi_cntr *counters[COUNTED];
	struct ofi_eq *eq;
	uint64_t caps;
	uint64_t least;      /* room of a FI_MULTI_RECV buffer below which it is given back */
	int selective_tx, selective_rx; /* completions are written for FI_COMPLETION only */
	int number;
	int enabled;
	int aliases;
};

struct ofi_ep {
	struct fid_ep ep;
	struct ofi_core *core;
	uint64_t tx_flags, rx_flags; /* of operations without flags */
};

/* A memory region that is made. */
struct ofi_region {
	uint64_t address, length, access;
	uint64_t base;    /* the address of the first byte for others */
	uint64_t random;  /* the key is the provider's; otherwise it is the program's */
	uint64_t key, number, context;
	struct ofi_domain *domain;
};

/* An operation on a region of another process, as it crosses into Go. Arrays are of struct
 * iovec. */
struct ofi_remote {
	uint64_t kind, context, flags, data, node, address, key;
	uint64_t pieces, count, compare, compares, result, results;
	uint64_t type, op, elements; /* of an atomic operation: enum fi_datatype, enum fi_op */
};
enum { PUT, GET, ATOMIC, FETCH, COMPARE };
enum { ELEMENTS = 4 }; /* of an atomic operation */

/* A send or receive, as it crosses into Go. */
struct ofi_operation {
	uint64_t context, flags, tag, ignore, data;
	uint64_t pieces;  /* a struct iovec array */
	uint64_t count;   /* of it */
	uint64_t node;    /* the other end; UINT64_MAX: any */
	uint64_t origin;  /* of a receive from a node: the number of the endpoint there */
	uint64_t channel; /* the destination's number, and 128 if there is a tag */
};
enum { TAGGED = 128 };

/* Receives that the program has posted and Go has not taken yet: their posting did not cross. Go
 * takes them, in order, when the program crosses next to poll, to wait, or for an operation that
 * has to do with receives (posts.go). */
enum { POSTS = 32 };
struct ofi_posts {
	uint32_t closed;        /* Go's: a receive has to cross */
	pthread_mutex_t mutex;  /* of threads that post */
	uint64_t head, tail;    /* C's and Go's */
	struct ofi_post {
		struct ofi_operation operation;
		struct iovec piece;
		uint64_t core; /* the endpoint's */
	} ring[POSTS];
};
extern struct ofi_posts ofi_posts;

#define QUIET (1ULL << 63) /* a flag: no completion unless it fails */

int ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	const struct fi_info *hints, struct fi_info **info);
int ofi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int ofi_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);
int ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
int ofi_eq_add(struct ofi_eq *eq, uint32_t event, const void *bytes, size_t size, int error);
int ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
int ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
int ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context);
int ofi_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int ofi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
	uint64_t flags);
int ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
int ofi_wait_object(struct fid *fid, enum fi_wait_obj wait, int command, void *arg);

/* Returns the entry of an address, or 0. */
static inline uint32_t ofi_entry_of(const struct ofi_av *av, fi_addr_t a)
{
	return a < ADDRESSES ? LOAD(av->table[a]) : 0;
}

extern struct fi_ops_msg ofi_msg_ops;
extern struct fi_ops_tagged ofi_tagged_ops;
extern struct fi_ops_rma ofi_rma_ops;
extern struct fi_ops_atomic ofi_atomic_ops;
extern struct fi_ops_mr ofi_mr_ops;

/* Operations that an object does not have. */
int ofi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int ofi_no_control(struct fid *fid, int command, void *arg);
int ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* What Go calls. */
void ofi_say(int warning, int subsystem, const char *text);

#endif
