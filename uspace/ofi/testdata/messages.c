/* messages.c: two nodes check the rules of messages over libfabric's provider funet. Each check
 * says what does not hold, and ends the program. The last line says that all did. */
#include "node.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Messages of all lengths arrive whole, with tag, data and source, in the order of sending. */
static void lengths(void)
{
	static const size_t sizes[] = { 0, 1, 8, 56, 57, 64, 65, 255, 256, 1000, 1024, 1025, 4096, 5000, 100000, 3000000 };
	enum { N = sizeof sizes / sizeof sizes[0] };
	static char contexts[N];
	for (int late = 0; late < 2; late++) {
		barrier();
		for (int i = 0; i < N; i++) {
			uint8_t *b = malloc(sizes[i] + 1);
			if (me == 0) {
				memset(b, i + 1, sizes[i]);
				struct iovec piece = { b, sizes[i] };
				struct fi_msg_tagged m = { .msg_iov = &piece, .iov_count = 1, .addr = node[1], .tag = (uint64_t)i << 40,
					.context = &contexts[i], .data = (uint64_t)i << 50 | 7 };
				POST(fi_tsendmsg(ep, &m, FI_REMOTE_CQ_DATA | FI_COMPLETION | (i % 2 == 0 ? FI_DELIVERY_COMPLETE : 0)));
				struct fi_cq_tagged_entry e = completion(tx, &contexts[i], NULL);
				REQUIRE(e.flags == (FI_TAGGED | FI_SEND), "flags %llx", (unsigned long long)e.flags);
			} else {
				if (late)
					usleep(2000);
				fi_addr_t from;
				memset(b, 0, sizes[i] + 1);
				POST(fi_trecv(ep, b, sizes[i], NULL, FI_ADDR_UNSPEC, 5, UINT64_MAX >> 4, &contexts[i]));
				struct fi_cq_tagged_entry e = completion(rx, &contexts[i], &from);
				REQUIRE(e.flags == (FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA) && e.len == sizes[i] && from == node[0],
					"message %d of %zu bytes", i, e.len);
				REQUIRE(e.tag == (uint64_t)i << 40 && e.data == ((uint64_t)i << 50 | 7), "message %d", i);
				for (size_t j = 0; j < sizes[i]; j++)
					REQUIRE(b[j] == i + 1, "byte %zu of %zu is %u", j, sizes[i], b[j]);
				REQUIRE(b[sizes[i]] == 0, "a byte behind");
			}
			free(b);
		}
	}
}

/* Pieces are gathered and scattered. Injected memory may change at once. Without FI_COMPLETION no
 * completion is written, but counted. */
static void pieces(void)
{
	char a[100], b[50], c[200], context;
	barrier();
	uint64_t before = fi_cntr_read(me == 0 ? sent : got);
	if (me == 0) {
		memset(a, 'a', sizeof a);
		memset(b, 'b', sizeof b);
		struct iovec v[3] = { { a, sizeof a }, { NULL, 0 }, { b, sizeof b } };
		POST(fi_sendv(ep, v, NULL, 3, node[1], &context));
		POST(fi_inject(ep, a, sizeof a, node[1]));
		POST(fi_injectdata(ep, b, sizeof b, 99, node[1]));
		memset(c, 'x', sizeof c);
		OK(fi_cntr_wait(sent, before + 3, 10000));
		REQUIRE(fi_cq_read(tx, c, 1) == -FI_EAGAIN, "a completion that nobody asked for");
		REQUIRE(fi_inject(ep, c, 257, node[1]) == -FI_EMSGSIZE, "more than inject_size");
	} else {
		struct iovec v[2] = { { a, 70 }, { c, 200 } };
		POST(fi_recvv(ep, v, NULL, 2, FI_ADDR_UNSPEC, &context));
		REQUIRE(completion(rx, &context, NULL).len == 150, "gathered");
		for (int i = 0; i < 150; i++)
			REQUIRE((i < 70 ? a[i] : c[i - 70]) == (i < 100 ? 'a' : 'b'), "byte %d", i);
		POST(fi_recv(ep, c, sizeof c, NULL, node[0], &context));
		REQUIRE(completion(rx, &context, NULL).len == 100 && c[99] == 'a', "injected");
		POST(fi_recv(ep, c, sizeof c, NULL, node[0], &context));
		struct fi_cq_tagged_entry e = completion(rx, &context, NULL);
		REQUIRE(e.len == 50 && e.data == 99 && e.flags == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA), "with data");
		OK(fi_cntr_wait(got, before + 3, 10000));
	}
}

/* A message that is longer than its memory, a receive that is cancelled, one that waits for another
 * node only. */
static void unusual(void)
{
	char b[100], c1, c2;
	barrier();
	if (me == 0) {
		memset(b, 1, sizeof b);
		POST(fi_tinject(ep, b, 100, node[1], 1));
	} else {
		b[10] = 0;
		POST(fi_trecv(ep, b, 10, NULL, FI_ADDR_UNSPEC, 1, 0, &c1));
		struct fi_cq_err_entry e = failure(rx, &c1, FI_ETRUNC);
		REQUIRE(e.len == 10 && e.olen == 90 && b[9] == 1 && b[10] == 0 && e.tag == 1, "%zu of %zu", e.len, e.olen);
		POST(fi_trecv(ep, b, 10, NULL, FI_ADDR_UNSPEC, 2, 0, &c1));
		POST(fi_trecv(ep, b, 10, NULL, FI_ADDR_UNSPEC, 2, 0, &c2));
		OK(fi_cancel(&ep->fid, &c1));
		(void)failure(rx, &c1, FI_ECANCELED);
		REQUIRE(fi_cancel(&ep->fid, &c1) == -FI_ENOENT, "cancelled twice");
	}
	barrier();
	if (me == 0) {
		POST(fi_tinject(ep, b, 5, node[1], 2));
		POST(fi_tinject(ep, b, 6, node[1], 3));
		POST(fi_tinject(ep, b, 7, node[1], 3));
	} else {
		REQUIRE(completion(rx, &c2, NULL).len == 5, "the second receive");
		POST(fi_trecv(ep, b, 10, NULL, node[1], 3, 0, &c1)); /* of this node only */
		POST(fi_trecv(ep, b, 10, NULL, node[0], 3, 0, &c2));
		REQUIRE(completion(rx, &c2, NULL).len == 6, "directed");
		OK(fi_cancel(&ep->fid, &c1));
		(void)failure(rx, &c1, FI_ECANCELED);
		POST(fi_trecv(ep, b, 10, NULL, FI_ADDR_UNSPEC, 3, 0, &c2));
		REQUIRE(completion(rx, &c2, NULL).len == 7, "the last");
	}
}

/* A node sends to itself: short, long, before and after the receive. */
static void alone(void)
{
	static char from[50000], to[50000];
	char c1, c2;
	for (size_t n = 10; n <= sizeof from; n *= 10) {
		for (int late = 0; late < 2; late++) {
			memset(from, (int)n, sizeof from);
			memset(to, 0, sizeof to);
			if (!late)
				POST(fi_trecv(ep, to, n, NULL, node[me], 4, 0, &c1));
			POST(fi_tsend(ep, from, n, NULL, node[me], 4, &c2));
			if (late)
				POST(fi_trecv(ep, to, n, NULL, FI_ADDR_UNSPEC, 4, 0, &c1));
			fi_addr_t source;
			REQUIRE(completion(rx, &c1, &source).len == n && source == node[me], "to oneself");
			REQUIRE(memcmp(from, to, n) == 0, "%zu bytes to oneself", n);
		}
	}
}

/* One buffer takes many messages, until less than the least room is left. */
static void many(void)
{
	static char buffer[10000];
	char context, b[1000];
	size_t least = 1000;
	OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
	barrier();
	if (me == 0) {
		for (int i = 0; i < 20; i++) {
			memset(b, i, sizeof b);
			POST(fi_send(ep, b, (size_t)(900 - i), NULL, node[1], b));
			OK(fi_cntr_wait(sent, fi_cntr_read(sent), 10000));
			barrier();
		}
		return;
	}
	struct iovec v = { buffer, sizeof buffer };
	struct fi_msg m = { .msg_iov = &v, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &context };
	POST(fi_recvmsg(ep, &m, FI_MULTI_RECV));
	size_t used = 0;
	for (int i = 0; i < 20; i++) {
		struct fi_cq_tagged_entry e = completion(rx, &context, NULL);
		REQUIRE(e.len == (size_t)(900 - i) && e.buf == buffer + used && *(char *)e.buf == i, "message %d", i);
		used += e.len;
		REQUIRE(((e.flags & FI_MULTI_RECV) != 0) == (sizeof buffer - used < least), "given back after %zu bytes", used);
		if (e.flags & FI_MULTI_RECV) {
			used = 0;
			POST(fi_recvmsg(ep, &m, FI_MULTI_RECV));
		}
		barrier();
	}
	OK(fi_cancel(&ep->fid, &context));
	(void)failure(rx, &context, FI_ECANCELED);
}

/* A buffer of many messages stays before the receives that were posted after it, whatever is on its
 * way into it. It is given back when the last of its messages has come. */
static void many_first(void)
{
	static const size_t sizes[] = { 10, 3000, 0, 6500, 20 }; /* 490 bytes are left before the last */
	enum { N = sizeof sizes / sizeof sizes[0] };
	static char buffer[10000], other[100], b[N][6500];
	char context, behind;
	barrier();
	if (me == 0) {
		for (int i = 0; i < N; i++) {
			memset(b[i], i + 1, sizes[i]);
			POST(fi_send(ep, b[i], sizes[i], NULL, node[1], b[i]));
		}
		barrier();
		return;
	}
	struct iovec v[2] = { { buffer, sizeof buffer }, { other, sizeof other } };
	struct fi_msg m = { .msg_iov = v, .iov_count = 1, .addr = node[0], .context = &context };
	POST(fi_recvmsg(ep, &m, FI_MULTI_RECV));
	POST(fi_recv(ep, other, sizeof other, NULL, FI_ADDR_UNSPEC, &behind));
	int released = 0;
	for (int i = 0; i < N; i++) {
		struct fi_cq_tagged_entry e;
		ssize_t n;
		while ((n = fi_cq_read(rx, &e, 1)) == -FI_EAGAIN)
			continue;
		REQUIRE(n == 1, "a completion: %s", fi_strerror((int)-n));
		if (e.op_context == &behind) {
			REQUIRE(e.len == 20 && other[0] == N, "behind the buffer: %zu bytes", e.len);
			continue;
		}
		REQUIRE(e.op_context == &context && !released, "after the buffer was given back");
		released = (e.flags & FI_MULTI_RECV) != 0;
		size_t at = 0;
		int k = 0;
		while (k < N && e.len != sizes[k])
			at += sizes[k++];
		REQUIRE(k < N - 1 && e.buf == buffer + at, "%zu bytes at %td", e.len, (char *)e.buf - buffer);
		for (size_t j = 0; j < e.len; j++)
			REQUIRE(buffer[at + j] == k + 1, "byte %zu of message %d", j, k);
	}
	REQUIRE(released, "the buffer is not given back");
	m.iov_count = 2;
	REQUIRE(fi_recvmsg(ep, &m, FI_MULTI_RECV) == -FI_EINVAL, "a buffer in two pieces");
	barrier();
}

/* Opens an endpoint beside ep, with the same queues. */
static struct fid_ep *another(void)
{
	struct fid_ep *second;
	OK(fi_endpoint(domain, offered, &second, NULL));
	OK(fi_ep_bind(second, &av->fid, 0));
	OK(fi_ep_bind(second, &tx->fid, FI_TRANSMIT));
	OK(fi_ep_bind(second, &rx->fid, FI_RECV));
	OK(fi_enable(second));
	return second;
}

/* A message tells which endpoint of its node has sent it, and a receive takes those of one. A
 * receive in pieces ends with its endpoint, too. */
static void two_endpoints(void)
{
	struct fid_ep *second = another();
	uint16_t address[4];
	size_t length = sizeof address;
	fi_addr_t other[2], again, from;
	char b, c1, c2;
	OK(fi_getname(&second->fid, address, &length));
	for (uint16_t i = 0; i < 2; i++) {
		address[2] = i;
		REQUIRE(fi_av_insert(av, address, 1, &other[i], 0, NULL) == 1, "address %u", i);
	}
	REQUIRE(fi_av_insert(av, address, 1, &again, 0, NULL) == 1 && again != other[1], "node 1 again");
	barrier();
	if (me == 1) {
		for (int i = 0; i < 3; i++) {
			POST(fi_trecv(ep, &b, 1, NULL, node[0], 6, 0, &c1));
			POST(fi_trecv(ep, &c2, 1, NULL, other[0], 6, 0, &c2));
			barrier();
			struct fi_cq_tagged_entry e;
			for (int n = 0; n < 2; n++) {
				while (fi_cq_readfrom(rx, &e, 1, &from) == -FI_EAGAIN)
					continue;
				REQUIRE((e.op_context == &c1 && b == 1 && from == node[0]) ||
					(e.op_context == &c2 && c2 == 2 && from == other[0]), "from %d", (int)from);
			}
			barrier();
		}
		for (int i = 0; i < 3; i++) {
			POST(fi_tinject(second, &b, 1, node[0], 7));
			barrier();
		}
	} else {
		for (int i = 0; i < 3; i++) {
			barrier();
			for (b = 2; b > 0; b--)
				POST(fi_tinject(b == 2 ? second : ep, &b, 1, node[1], 6));
			barrier();
		}
		fi_addr_t known[] = { other[1], again, FI_ADDR_NOTAVAIL };
		for (int i = 0; i < 3; i++) {
			POST(fi_trecv(ep, &b, 1, NULL, FI_ADDR_UNSPEC, 7, 0, &c1));
			(void)completion(rx, &c1, &from);
			REQUIRE(from == known[i], "from %d, not %d", (int)from, (int)known[i]);
			if (i < 2)
				OK(fi_av_remove(av, &known[i], 1, 0));
			barrier();
		}
		REQUIRE(fi_trecv(ep, &b, 1, NULL, again, 7, 0, &c1) == -FI_EINVAL, "an address that was removed");
	}
	barrier();
	struct iovec v[2] = { { &c1, 1 }, { &c2, 1 } };
	POST(fi_trecvv(second, v, NULL, 2, FI_ADDR_UNSPEC, 8, 0, &c1));
	OK(fi_close(&second->fid));
	if (me == 1) {
		second = another(); /* of the same number */
		POST(fi_tinject(ep, "x", 1, other[1], 8));
		POST(fi_trecv(second, &b, 1, NULL, node[1], 8, 0, &c2));
		REQUIRE(completion(rx, &c2, NULL).len == 1 && b == 'x', "a receive of a closed endpoint");
		OK(fi_close(&second->fid));
	}
}

/* fi_getinfo takes addresses as fi_av_straddr writes them: its own as the source, any of the job as
 * the destination. */
static void names(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fi_info *hints = fi_allocinfo(), *info = NULL;
		uint16_t address[4];
		char name[64];
		size_t length = sizeof address;
		OK(fi_av_lookup(av, node[i], address, &length));
		length = sizeof name;
		(void)fi_av_straddr(av, address, name, &length);
		hints->fabric_attr->prov_name = strdup("funet");
		OK(fi_getinfo(FI_VERSION(1, 17), name, "9228", 0, hints, &info));
		REQUIRE(info->dest_addrlen == sizeof address && memcmp(info->dest_addr, address, sizeof address) == 0,
			"the destination of %s", name);
		fi_freeinfo(info);
		info = NULL;
		int err = fi_getinfo(FI_VERSION(1, 17), name, NULL, FI_SOURCE, hints, &info);
		REQUIRE(i == me ? err == 0 && info->dest_addr == NULL : err == -FI_ENODATA, "%s as the source: %s", name,
			fi_strerror(-err));
		fi_freeinfo(info);
		name[strlen(name) - 2] = '\0'; /* without its endpoint */
		REQUIRE(fi_getinfo(FI_VERSION(1, 17), name, NULL, 0, hints, &info) == -FI_ENODATA, "%s is no address", name);
		fi_freeinfo(hints);
	}
}

/* 3,000 messages that nobody expected, then their receives in another order of tags. */
static void unexpected(void)
{
	enum { N = 3000 };
	static uint32_t in[N];
	barrier();
	for (uint32_t i = 0; i < N && me == 0; i++)
		POST(fi_tinject(ep, &i, sizeof i, node[1], i % 10));
	barrier();
	for (uint32_t tag = 10; tag-- > 0 && me == 1;)
		for (uint32_t i = tag; i < N; i += 10) {
			POST(fi_trecv(ep, &in[i], sizeof in[i], NULL, FI_ADDR_UNSPEC, tag, 0, &in[i]));
			(void)completion(rx, &in[i], NULL);
			REQUIRE(in[i] == i, "message %u is %u", i, in[i]);
		}
}

/* An injected message counts as sent while nothing receives it, also if other sends wait for that
 * (FI_DELIVERY_COMPLETE, which MPICH gives its endpoint). */
static void injected(void)
{
	uint64_t before = FI_TRANSMIT, waits = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
	char c = 0;
	OK(fi_control(&ep->fid, FI_GETOPSFLAG, &before));
	before |= FI_TRANSMIT;
	barrier();
	if (me == 0) {
		uint64_t count = fi_cntr_read(sent);
		OK(fi_control(&ep->fid, FI_SETOPSFLAG, &waits));
		POST(fi_tinject(ep, &c, 1, node[1], 79));
		POST(fi_injectdata(ep, &c, 1, 5, node[1]));
		OK(fi_cntr_wait(sent, count + 2, 10000));
		OK(fi_control(&ep->fid, FI_SETOPSFLAG, &before));
	}
	barrier();
	if (me == 1) {
		POST(fi_trecv(ep, &c, 1, NULL, node[0], 79, 0, &c));
		(void)completion(rx, &c, NULL);
		POST(fi_recv(ep, &c, 1, NULL, node[0], &c));
		REQUIRE(completion(rx, &c, NULL).data == 5, "other data");
	}
}

/* 3,000 receives wait for their messages, and 3,000 sends for their receives. None of these calls
 * may wait for another, which MPI_Irecv and MPI_Isend must not. */
static void outstanding(void)
{
	enum { N = 3000, WORDS = 300 };
	static uint32_t in[N][WORDS], out[N][WORDS];
	for (uint32_t i = 0; i < N && me == 1; i++)
		OK(fi_trecv(ep, in[i], sizeof in[i], NULL, node[0], i, 0, in[i]));
	barrier();
	for (uint32_t i = 0; i < N && me == 0; i++) {
		out[i][0] = i;
		POST(fi_tinject(ep, out[i], sizeof out[i][0], node[1], i));
	}
	for (uint32_t i = 0; i < N && me == 1; i++) {
		(void)completion(rx, in[i], NULL);
		REQUIRE(in[i][0] == i, "message %u is %u", i, in[i][0]);
	}
	for (uint32_t i = 0; i < N && me == 0; i++)
		OK(fi_tsend(ep, out[i], sizeof out[i], NULL, node[1], i, NULL));
	barrier();
	for (uint32_t i = N; i-- > 0 && me == 1;) {
		POST(fi_trecv(ep, in[i], sizeof in[i], NULL, node[0], i, 0, in[i]));
		(void)completion(rx, in[i], NULL);
		REQUIRE(in[i][0] == i, "message %u is %u", i, in[i][0]);
	}
	barrier();
}

static void look(uint64_t tag, uint64_t flags, void *memory, size_t room, void *context)
{
	struct iovec v = { memory, room };
	struct fi_msg_tagged m = { .msg_iov = &v, .iov_count = room > 0, .addr = FI_ADDR_UNSPEC, .tag = tag,
		.context = context };
	OK(fi_trecvmsg(ep, &m, flags));
}

/* A claim for whose receive there is no room is kept. */
static void claim_without_room(const struct fi_msg_tagged *m)
{
	static char contexts[70000], b; /* more than may be under way */
	size_t n = 0;
	ssize_t err;
	while ((err = fi_trecv(ep, &b, 1, NULL, FI_ADDR_UNSPEC, 999, 0, &contexts[n])) == 0 && n < sizeof contexts - 1)
		n++;
	REQUIRE(err == -FI_EAGAIN, "%zu receives: %s", n, fi_strerror((int)-err));
	REQUIRE(fi_trecvmsg(ep, m, FI_CLAIM) == -FI_EAGAIN, "beyond %zu receives", n);
	for (size_t i = n; i-- > 0;) { /* the latest are found first */
		OK(fi_cancel(&ep->fid, &contexts[i]));
		(void)failure(rx, &contexts[i], FI_ECANCELED);
	}
}

/* A message is looked at, claimed and received later, or discarded. */
static void claims(void)
{
	static char b[20000];
	char c1, c2;
	barrier();
	if (me == 0) {
		for (size_t n = 10; n <= sizeof b; n *= 10) {
			memset(b, (int)n, sizeof b);
			for (int i = 0; i < 4; i++)
				POST(fi_tsend(ep, b, n + (size_t)i, NULL, node[1], n, NULL));
		}
		barrier();
		return;
	}
	for (size_t n = 10; n <= sizeof b; n *= 10) {
		struct fi_cq_tagged_entry e;
		struct fi_cq_err_entry bad;
		for (;;) { /* until it has come */
			look(n, FI_PEEK, NULL, 0, &c1);
			ssize_t found;
			while ((found = fi_cq_read(rx, &e, 1)) == -FI_EAGAIN)
				continue;
			if (found == 1)
				break;
			memset(&bad, 0, sizeof bad);
			REQUIRE(fi_cq_readerr(rx, &bad, 0) == 1 && bad.err == FI_ENOMSG, "%s", fi_strerror(bad.err));
		}
		REQUIRE(e.op_context == &c1 && e.len == n && e.tag == n, "seen: %zu bytes of tag %llu", e.len,
			(unsigned long long)e.tag);
		look(n, FI_PEEK | FI_CLAIM, NULL, 0, &c1);
		REQUIRE(completion(rx, &c1, NULL).len == n, "claimed");
		POST(fi_trecv(ep, b, sizeof b, NULL, node[0], n, 0, &c2)); /* the next */
		REQUIRE(completion(rx, &c2, NULL).len == n + 1, "not the claimed one");
		memset(b, 0, sizeof b);
		struct iovec v = { b, n };
		struct fi_msg_tagged m = { .msg_iov = &v, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = n, .context = &c1 };
		claim_without_room(&m);
		look(n, FI_CLAIM, b, n, &c1);
		e = completion(rx, &c1, NULL);
		REQUIRE(e.len == n && b[0] == (char)n && b[n - 1] == (char)n && b[n] == 0, "the claimed one: %zu bytes", e.len);
		REQUIRE(fi_trecvmsg(ep, &m, FI_CLAIM) == -FI_EINVAL, "claimed twice");
		do { /* the third is discarded when it is there */
			look(n, FI_PEEK | FI_CLAIM, NULL, 0, &c1);
			ssize_t found;
			while ((found = fi_cq_read(rx, &e, 1)) == -FI_EAGAIN)
				continue;
			if (found == 1)
				break;
			memset(&bad, 0, sizeof bad);
			REQUIRE(fi_cq_readerr(rx, &bad, 0) == 1 && bad.err == FI_ENOMSG, "%s", fi_strerror(bad.err));
		} while (1);
		look(n, FI_CLAIM | FI_DISCARD, NULL, 0, &c1);
		(void)completion(rx, &c1, NULL);
		POST(fi_trecv(ep, b, sizeof b, NULL, node[0], n, 0, &c2));
		REQUIRE(completion(rx, &c2, NULL).len == n + 3, "the last one");
	}
	barrier();
}

/* Completions that nobody reads delay operations, and lose nothing. */
static void unread(void)
{
	enum { N = 5000 };
	static uint64_t in[N];
	barrier();
	if (me == 0) {
		for (uint64_t i = 0; i < N; i++)
			POST(fi_inject(ep, &i, sizeof i, node[1]));
	} else {
		uint64_t posted = 0, done = 0;
		while (done < N) {
			ssize_t err = 0;
			while (posted < N && (err = fi_recv(ep, &in[posted], sizeof in[0], NULL, FI_ADDR_UNSPEC, &in[posted])) == 0)
				posted++;
			REQUIRE(err == 0 || err == -FI_EAGAIN, "%s", fi_strerror((int)-err));
			struct fi_cq_tagged_entry e[3];
			ssize_t n = fi_cq_read(rx, e, 3);
			REQUIRE(n == -FI_EAGAIN || n > 0, "%s", fi_strerror((int)-n));
			for (ssize_t i = 0; i < n; i++, done++)
				REQUIRE(e[i].op_context == &in[done] && in[done] == done, "message %llu", (unsigned long long)done);
		}
	}
	barrier();
}

/* What waits: fi_cq_sread, fi_cntr_wait, their timeouts, and a descriptor. */
static void waiting(void)
{
	struct fi_cq_tagged_entry e;
	char c = 0, context;
	barrier();
	REQUIRE(fi_cq_sread(tx, &e, 1, NULL, 20) == -FI_EAGAIN, "a completion out of nothing");
	REQUIRE(fi_cntr_wait(got, fi_cntr_read(got) + 1, 20) == -FI_ETIMEDOUT, "a message out of nothing");
	for (int i = 0; i < 20; i++) {
		POST(fi_trecv(ep, &c, 1, NULL, node[peer], 77, 0, &context));
		if (me == 0)
			POST(fi_tinject(ep, &c, 1, node[1], 77));
		REQUIRE(fi_cq_sread(rx, &e, 1, NULL, 10000) == 1 && e.op_context == &context, "a wait");
		if (me == 1)
			POST(fi_tinject(ep, &c, 1, node[0], 77));
	}
	int fd;
	OK(fi_control(&rx->fid, FI_GETWAIT, &fd));
	for (int i = 0; i < 20; i++) {
		POST(fi_trecv(ep, &c, 1, NULL, node[peer], 78, 0, &context));
		if (me == 0)
			POST(fi_tinject(ep, &c, 1, node[1], 78));
		struct fid *list[] = { &rx->fid };
		ssize_t n;
		while ((n = fi_cq_read(rx, &e, 1)) == -FI_EAGAIN) {
			int err = fi_trywait(fabric, list, 1);
			REQUIRE(err == 0 || err == -FI_EAGAIN, "%s", fi_strerror(-err));
			if (err == 0)
				REQUIRE(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 10000) == 1, "it is silent");
		}
		REQUIRE(n == 1 && e.op_context == &context, "a message by descriptor");
		if (me == 1)
			POST(fi_tinject(ep, &c, 1, node[0], 78));
	}
}

/* The provider takes a mutex between its look at whether a receive may be left and the moment when
 * it is. A thread that sets held waits there until released. */
static _Thread_local int held;
static int inside, gone, released;

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*lock)(pthread_mutex_t *);
	if (lock == NULL)
		lock = (int (*)(pthread_mutex_t *))(uintptr_t)dlsym(RTLD_NEXT, "pthread_mutex_lock");
	if (held) {
		held = 0;
		__atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
		while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE))
			sched_yield();
	}
	return lock(mutex);
}

/* Posts a receive, and returns NULL if it was left, for which it had to be held. */
static void *posting(void *context)
{
	static char c;
	held = 1;
	POST(fi_trecv(ep, &c, 0, NULL, node[peer], 79, 0, context));
	void *crossed = held ? context : NULL;
	held = 0;
	__atomic_store_n(&gone, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
	return crossed;
}

/* Sleeps on the descriptor, as far as the provider can tell. Then the thread that is held goes on.
 * When it has returned its receive is complete, although nobody has polled: its error can be read,
 * which does not poll. The message is longer than its memory. */
static void sleep_meanwhile(pthread_t thread, void **crossed, void *context)
{
	struct fid *list[] = { &rx->fid };
	struct fi_cq_err_entry bad = { 0 };
	while (fi_trywait(fabric, list, 1) == -FI_EAGAIN)
		(void)fi_cq_read(rx, NULL, 0);
	__atomic_store_n(&released, 1, __ATOMIC_RELEASE);
	REQUIRE(pthread_join(thread, crossed) == 0, "the thread");
	if (*crossed == NULL)
		REQUIRE(fi_cq_readerr(rx, &bad, 0) == 1 && bad.err == FI_ETRUNC && bad.op_context == context,
			"a receive waits for a poll");
}

/* One thread is about to leave a receive. Its message comes, and the thread that reads it sleeps.
 * Then the receive is left: it is received without a poll. */
static void sleeping(void)
{
	char c = 0, context, other;
	pthread_t thread;
	void *crossed = NULL;
	for (int left = 0; left < 5; left += crossed == NULL) {
		barrier();
		if (me == 0) {
			inside = gone = released = 0;
			REQUIRE(pthread_create(&thread, NULL, posting, &context) == 0, "a thread");
			while (!__atomic_load_n(&inside, __ATOMIC_ACQUIRE))
				sched_yield();
			POST(fi_trecv(ep, &c, 1, NULL, node[1], 81, 0, &other));
			POST(fi_tinject(ep, &c, 1, node[1], 80));
			if (__atomic_load_n(&gone, __ATOMIC_ACQUIRE)) /* it had to cross: no receive was left */
				(void)failure(rx, &context, FI_ETRUNC);
			(void)completion(rx, &other, NULL); /* the message with tag 79 came before */
			sleep_meanwhile(thread, &crossed, &context);
		} else {
			POST(fi_trecv(ep, &c, 1, NULL, node[0], 80, 0, &context));
			(void)completion(rx, &context, NULL);
			POST(fi_tinject(ep, &c, 1, node[0], 79));
			POST(fi_tinject(ep, &c, 1, node[0], 81));
		}
		/* Node 0 says whether another round follows. */
		if (me == 0)
			POST(fi_tinject(ep, crossed == NULL ? "l" : "c", 1, node[1], 82));
		else {
			POST(fi_trecv(ep, &c, 1, NULL, node[0], 82, 0, &context));
			(void)completion(rx, &context, NULL);
			crossed = c == 'l' ? NULL : &c;
		}
	}
	barrier();
}

/* A child of fork is refused, and ends. */
static void child(void)
{
	fflush(NULL);
	pid_t pid = fork();
	REQUIRE(pid >= 0, "fork");
	if (pid == 0) {
		struct fi_info *info = NULL;
		char c = 0;
		int refused = fi_tinject(ep, &c, 1, node[peer], 1) == -FI_EOPBADSTATE &&
			fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &info) != -FI_EOTHER;
		exit(refused ? 0 : 1);
	}
	int status;
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

/* A handler that interrupts a poll ends the process by exit. */
static void leave(int signal)
{
	(void)signal;
	exit(0);
}

static void interrupted(void)
{
	fflush(NULL);
	printf("all rules hold\n");
	fflush(NULL);
	struct sigaction a = { .sa_handler = leave, .sa_flags = SA_ONSTACK };
	(void)sigaction(SIGALRM, &a, NULL);
	ualarm(20000, 0);
	struct fi_cq_tagged_entry e;
	for (;;)
		(void)fi_cq_read(tx, &e, 1);
}

/* A message has left when the call that sends it returns, and takes those along that were to wait
 * for it: they arrive while the sender is stopped. */
static void leaving(void)
{
	char c = 1, in[2];
	struct iovec v = { &c, 1 };
	struct fi_msg_tagged m = { .msg_iov = &v, .iov_count = 1, .addr = node[1], .tag = 1, .context = &c };
	for (int more = 0; more < 2; more++) {
		will_stop();
		if (me == 0) {
			if (more)
				POST(fi_tsendmsg(ep, &m, FI_MORE | FI_INJECT));
			POST(fi_tinject(ep, &c, 1, node[1], 2));
			stop();
		} else {
			for (int i = 1 - more; i < 2; i++) {
				POST(fi_trecv(ep, &in[i], 1, NULL, node[0], (uint64_t)i + 1, 0, &in[i]));
				(void)completion(rx, &in[i], NULL);
			}
			resume();
		}
		barrier();
	}
}

int main(void)
{
	start();
	selective = FI_SELECTIVE_COMPLETION;
	open_all(FI_MULTI_RECV, 0);
	lengths();
	pieces();
	unusual();
	leaving();
	alone();
	many();
	many_first();
	two_endpoints();
	names();
	claims();
	unexpected();
	injected();
	outstanding();
	unread();
	waiting();
	sleeping();
	child();
	barrier();
	if (me == 1)
		interrupted();
	close_all();
	printf("all rules hold\n");
	return 0;
}
