/* node.h: what the programs of the tests have in common: one of two nodes, or of NODES, with an
 * endpoint, and checks that say what does not hold and end the program. */
#ifndef NODES
#define NODES 2
#endif

#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *tx, *rx;
static struct fid_cntr *sent, *got, *written;
static struct fid_ep *ep;
static fi_addr_t node[NODES];
static unsigned me, peer;
static struct fi_info *offered;
static uint64_t selective; /* FI_SELECTIVE_COMPLETION, of sends */

#define REQUIRE(condition, ...) \
	do { \
		if (!(condition)) \
			fail(__LINE__, #condition, __VA_ARGS__); \
	} while (0)
#define OK(call) \
	do { \
		long result = (long)(call); \
		if (result != 0) \
			fail(__LINE__, #call, "%s", fi_strerror((int)-result)); \
	} while (0)
#define POST(call) \
	do { \
		long result; \
		while ((result = (long)(call)) == -FI_EAGAIN) \
			progress(); \
		if (result != 0) \
			fail(__LINE__, #call, "%s", fi_strerror((int)-result)); \
	} while (0)

static void fail(int line, const char *what, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	fprintf(stderr, "line %d: node %u: %s: ", line, me, what);
	vfprintf(stderr, format, list);
	fprintf(stderr, "\n");
	va_end(list);
	exit(1);
}

static void progress(void)
{
	struct fi_cq_tagged_entry none;
	(void)fi_cq_read(rx, &none, 0);
	(void)fi_cntr_read(sent);
}

/* Waits for a completion, which must be of the given context. */
static struct fi_cq_tagged_entry completion(struct fid_cq *cq, void *context, fi_addr_t *from)
{
	struct fi_cq_tagged_entry e;
	fi_addr_t ignored;
	ssize_t n;
	while ((n = fi_cq_readfrom(cq, &e, 1, from != NULL ? from : &ignored)) == -FI_EAGAIN)
		continue;
	if (n == -FI_EAVAIL) {
		struct fi_cq_err_entry bad = { 0 };
		(void)fi_cq_readerr(cq, &bad, 0);
		REQUIRE(0, "a completion: %s, %s, flags %llx", fi_strerror(bad.err),
			fi_cq_strerror(cq, bad.prov_errno, bad.err_data, NULL, 0), (unsigned long long)bad.flags);
	}
	REQUIRE(n == 1, "a completion: %s", fi_strerror((int)-n));
	REQUIRE(e.op_context == context, "another operation is complete");
	return e;
}

static struct fi_cq_err_entry failure(struct fid_cq *cq, void *context, int err)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry bad = { 0 };
	ssize_t n;
	while ((n = fi_cq_read(cq, &e, 1)) == -FI_EAGAIN)
		continue;
	REQUIRE(n == -FI_EAVAIL, "no failure");
	REQUIRE(fi_cq_readerr(cq, &bad, 0) == 1, "nothing to read");
	REQUIRE(bad.op_context == context && bad.err == err, "%s", fi_strerror(bad.err));
	return bad;
}

/* Both nodes have got here. Tags from 1 << 60 on are its own. */
static void barrier(void)
{
	static uint64_t turn = (uint64_t)1 << 60;
	char in, out = 0;
	turn++;
	/* first, so that nothing that the other sends afterwards completes before it */
	POST(fi_trecv(ep, &in, 1, NULL, node[peer], turn, 0, &turn));
	POST(fi_tinject(ep, &out, 1, node[peer], turn));
	(void)completion(rx, &turn, NULL);
}

static pid_t stopped; /* what resume lets go on */

/* Node 0 tells node 1 which process will stop. Between its last two polls it begins one
 * operation. */
static void will_stop(void)
{
	pid_t own = getpid();
	if (me == 0) {
		POST(fi_tinject(ep, &own, sizeof own, node[1], 98));
	} else {
		POST(fi_trecv(ep, &stopped, sizeof stopped, NULL, node[0], 98, 0, &stopped));
		(void)completion(rx, &stopped, NULL);
	}
	progress();
	barrier();
	progress();
}

/* Stops all threads of this process, until the other node lets it go on. */
static void stop(void) { OK(kill(getpid(), SIGSTOP)); }

/* Lets the other node go on, as soon as it has stopped. */
static void resume(void)
{
	char name[32], state = 0;
	snprintf(name, sizeof name, "/proc/%d/stat", (int)stopped);
	while (state != 'T') {
		FILE *f = fopen(name, "r");
		REQUIRE(f != NULL && fscanf(f, "%*d (%*[^)]) %c", &state) == 1, "%s", name);
		fclose(f);
		sched_yield();
	}
	OK(kill(stopped, SIGCONT));
}

static void start(void)
{
	const char *number = getenv("FUNET_NODE"); /* or NODE, of ranks that funet run has not started */
	me = (unsigned)atoi(number != NULL ? number : getenv("NODE"));
	peer = 1 - me;
}

static void open_all(uint64_t caps, int mr_mode)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	hints->fabric_attr->prov_name = strdup("funet");
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE | caps;
	hints->domain_attr->mr_mode = mr_mode;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->cq_data_size = 8;
	OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_av_open(domain, &(struct fi_av_attr){ .type = FI_AV_TABLE }, &av, NULL));
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD };
	OK(fi_cq_open(domain, &cq, &rx, NULL));
	OK(fi_cq_open(domain, &cq, &tx, NULL));
	OK(fi_cntr_open(domain, &(struct fi_cntr_attr){ .wait_obj = FI_WAIT_UNSPEC }, &sent, NULL));
	OK(fi_cntr_open(domain, &(struct fi_cntr_attr){ .wait_obj = FI_WAIT_UNSPEC }, &got, NULL));
	OK(fi_cntr_open(domain, &(struct fi_cntr_attr){ .wait_obj = FI_WAIT_UNSPEC }, &written, NULL));
	OK(fi_endpoint(domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_ep_bind(ep, &tx->fid, FI_TRANSMIT | selective));
	OK(fi_ep_bind(ep, &rx->fid, FI_RECV));
	OK(fi_ep_bind(ep, &sent->fid, FI_SEND));
	OK(fi_ep_bind(ep, &got->fid, FI_RECV));
	OK(fi_ep_bind(ep, &written->fid, FI_WRITE));
	OK(fi_enable(ep));
	uint16_t address[4];
	size_t length = sizeof address;
	OK(fi_getname(&ep->fid, address, &length));
	REQUIRE(length == sizeof address && address[2] == me, "node %u", address[2]);
	/* who knows the layout knows the other's address */
	for (uint16_t i = 0; i < NODES; i++) {
		address[2] = i;
		REQUIRE(fi_av_insert(av, address, 1, &node[i], 0, NULL) == 1 && node[i] == i, "address %u", i);
	}
	address[1]++;
	fi_addr_t none;
	REQUIRE(fi_av_insert(av, address, 1, &none, 0, NULL) == 0 && none == FI_ADDR_NOTAVAIL, "of another job");
	REQUIRE(fi_close(&domain->fid) == -FI_EBUSY && fi_close(&rx->fid) == -FI_EBUSY && fi_close(&av->fid) == -FI_EBUSY &&
		fi_close(&fabric->fid) == -FI_EBUSY, "closed while it was in use");
	offered = info;
	fi_freeinfo(hints);
}

static void close_all(void)
{
	OK(fi_close(&ep->fid));
	OK(fi_close(&sent->fid));
	OK(fi_close(&got->fid));
	OK(fi_close(&written->fid));
	OK(fi_close(&tx->fid));
	OK(fi_close(&rx->fid));
	OK(fi_close(&av->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(offered);
}
