//go:build libfabric

/* info.c: fi_getinfo. It compares the hints with what the provider offers, one by one. What cannot
 * be met is said in one line at FI_LOG_LEVEL=info. */
#include "ofi.h"
#include "_cgo_export.h"

#include <stdio.h>

#define REMOTE (FI_RMA | FI_ATOMIC)
#define DIRECTIONS (FI_SEND | FI_RECV)
#define REMOTE_DIRECTIONS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define CAPS_TX (FI_MSG | FI_TAGGED | FI_SEND | REMOTE | FI_READ | FI_WRITE | FI_FENCE)
#define CAPS_RX (FI_MSG | FI_TAGGED | FI_RECV | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | REMOTE | \
	FI_REMOTE_READ | FI_REMOTE_WRITE)
#define CAPS_DOMAIN (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define CAPS (CAPS_TX | CAPS_RX | CAPS_DOMAIN)
/* What is offered when it is asked for. */
#define CAPS_ASKED FI_RMA_EVENT
#define OFFERED (CAPS | CAPS_ASKED)
/* How regions are named. A program that takes all three gets them. With others the program chooses
 * keys below 2^16, and addresses are offsets. */
#define MADE (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

#define TX_FLAGS (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define RX_FLAGS (FI_COMPLETION | FI_MULTI_RECV)
#define ORDER FI_ORDER_SAS
/* Any numbers that no other provider has. */
#define PROTOCOL (1u << 31 | 0x4655) /* the highest bit: a provider's own */
#define PROTOCOL_VERSION 1

/* Says in one line why something is not offered, and returns from getinfo. */
#define REFUSE(...) \
	do { \
		FI_INFO(&ofi_provider, FI_LOG_CORE, __VA_ARGS__); \
		return -FI_ENODATA; \
	} while (0)

static int check_tx(const struct fi_tx_attr *a)
{
	if (a->caps & ~CAPS)
		REFUSE("tx_attr->caps %#llx: not offered\n", (unsigned long long)(a->caps & ~CAPS));
	if (a->op_flags & ~TX_FLAGS)
		REFUSE("tx_attr->op_flags %#llx: not offered\n", (unsigned long long)(a->op_flags & ~TX_FLAGS));
	if (a->msg_order & ~ORDER)
		REFUSE("tx_attr->msg_order %#llx: not kept\n", (unsigned long long)(a->msg_order & ~ORDER));
	if (a->comp_order != FI_ORDER_NONE)
		REFUSE("tx_attr->comp_order: completions have no order\n");
	if (a->inject_size > INJECT || a->size > QUEUE || a->iov_limit > PIECES || a->rma_iov_limit > 1)
		REFUSE("tx_attr: at most inject_size %d, size %d, iov_limit %d, rma_iov_limit 1\n", INJECT, QUEUE, PIECES);
	return 0;
}

static int check_rx(const struct fi_rx_attr *a)
{
	if (a->caps & ~OFFERED)
		REFUSE("rx_attr->caps %#llx: not offered\n", (unsigned long long)(a->caps & ~OFFERED));
	if (a->op_flags & ~RX_FLAGS)
		REFUSE("rx_attr->op_flags %#llx: not offered\n", (unsigned long long)(a->op_flags & ~RX_FLAGS));
	if (a->msg_order & ~ORDER)
		REFUSE("rx_attr->msg_order %#llx: not kept\n", (unsigned long long)(a->msg_order & ~ORDER));
	if (a->comp_order != FI_ORDER_NONE)
		REFUSE("rx_attr->comp_order: completions have no order\n");
	if (a->size > QUEUE || a->iov_limit > PIECES || a->total_buffered_recv > 0)
		REFUSE("rx_attr: at most size %d, iov_limit %d, total_buffered_recv 0\n", QUEUE, PIECES);
	return 0;
}

static int check_ep(const struct fi_ep_attr *a)
{
	if (a->type != FI_EP_UNSPEC && a->type != FI_EP_RDM)
		REFUSE("ep_attr->type: FI_EP_RDM only\n");
	if (a->protocol != FI_PROTO_UNSPEC && a->protocol != PROTOCOL)
		REFUSE("ep_attr->protocol %#x: not spoken\n", a->protocol);
	if (a->protocol_version > PROTOCOL_VERSION)
		REFUSE("ep_attr->protocol_version: at most %d\n", PROTOCOL_VERSION);
	if (a->max_msg_size > MOST_BYTES)
		REFUSE("ep_attr->max_msg_size: at most %llu\n", (unsigned long long)MOST_BYTES);
	if (a->tx_ctx_cnt > 1 || a->rx_ctx_cnt > 1)
		REFUSE("ep_attr: no scalable endpoints and no shared contexts\n");
	if (a->max_order_raw_size > 0 || a->max_order_war_size > 0 || a->max_order_waw_size > 0)
		REFUSE("ep_attr: no order of remote writes and reads\n");
	if (a->auth_key_size > 0)
		REFUSE("ep_attr->auth_key: a job has one key, which the launcher gives it\n");
	return 0;
}

static int check_domain(const struct fi_domain_attr *a)
{
	if (a->name != NULL && strcmp(a->name, ofi_provider.name) != 0)
		REFUSE("domain_attr->name %s: it is %s\n", a->name, ofi_provider.name);
	if (a->cq_data_size > sizeof(uint64_t))
		REFUSE("domain_attr->cq_data_size: at most 8\n");
	if (a->caps & ~CAPS_DOMAIN)
		REFUSE("domain_attr->caps %#llx: not offered\n", (unsigned long long)(a->caps & ~CAPS_DOMAIN));
	if (a->threading > FI_THREAD_ENDPOINT || a->av_type > FI_AV_TABLE || a->resource_mgmt > FI_RM_ENABLED)
		REFUSE("domain_attr: an unknown threading, av_type or resource_mgmt\n");
	if (a->ep_cnt > ENDPOINTS || a->cq_cnt > QUEUE || a->cntr_cnt > QUEUE || a->tx_ctx_cnt > ENDPOINTS ||
	    a->rx_ctx_cnt > ENDPOINTS || a->max_ep_tx_ctx > 1 || a->max_ep_rx_ctx > 1 || a->max_ep_stx_ctx > 0 ||
	    a->max_ep_srx_ctx > 0)
		REFUSE("domain_attr: at most ep_cnt %d, cq_cnt and cntr_cnt %d, one context an endpoint, none shared\n",
			ENDPOINTS, QUEUE);
	if (a->auth_key_size > 0)
		REFUSE("domain_attr->auth_key: a job has one key, which the launcher gives it\n");
	return 0;
}

static int check_address(const void *address, size_t length, const struct ofi_place *place, int own)
{
	struct ofi_address a;
	if (address == NULL)
		return 0;
	if (length < sizeof a)
		REFUSE("an address of %zu bytes: they have %zu\n", length, sizeof a);
	memcpy(&a, address, sizeof a);
	if (a.mark != MARK)
		REFUSE("an address that is not one of this provider\n");
	if (a.gid != place->gid || a.node >= place->nodes || (own && a.node != place->node))
		REFUSE("the address of node %u of group %u: this is node %u of %u of group %u\n", a.node, a.gid, place->node,
			place->nodes, place->gid);
	return 0;
}

static int check(const struct fi_info *h, const struct ofi_place *place)
{
	int err = 0;
	if (h->caps & ~OFFERED)
		REFUSE("caps %#llx: not offered\n", (unsigned long long)(h->caps & ~OFFERED));
	if ((h->caps & FI_RMA_EVENT) != 0 && (h->caps & REMOTE) == 0)
		REFUSE("caps FI_RMA_EVENT: without FI_RMA and FI_ATOMIC there is nothing to count\n");
	if (h->addr_format != FI_FORMAT_UNSPEC)
		REFUSE("addr_format %u: addresses are of FI_FORMAT_UNSPEC, 8 bytes\n", h->addr_format);
	if (h->fabric_attr != NULL && h->fabric_attr->name != NULL &&
	    strcmp(h->fabric_attr->name, ofi_provider.name) != 0)
		REFUSE("fabric_attr->name %s: it is %s\n", h->fabric_attr->name, ofi_provider.name);
	if (h->tx_attr != NULL)
		err = check_tx(h->tx_attr);
	if (err == 0 && h->rx_attr != NULL)
		err = check_rx(h->rx_attr);
	if (err == 0 && h->ep_attr != NULL)
		err = check_ep(h->ep_attr);
	if (err == 0 && h->domain_attr != NULL)
		err = check_domain(h->domain_attr);
	if (err == 0)
		err = check_address(h->src_addr, h->src_addrlen, place, 1);
	if (err == 0)
		err = check_address(h->dest_addr, h->dest_addrlen, place, 0);
	return err;
}

/* Reads an address as fi_av_straddr writes it. */
static int parse_address(const char *text, struct ofi_address *a)
{
	unsigned gid, node, number;
	int length = 0;
	int read = sscanf(text, "funet://%5u/%5u/%3u%n", &gid, &node, &number, &length);
	if (read != 3 || text[length] != '\0' || gid > UINT16_MAX || node > UINT16_MAX || number >= ENDPOINTS)
		REFUSE("node %s: addresses are funet://GROUP/NODE/ENDPOINT, "
			"from fi_av_straddr\n", text);
	*a = ofi_address_of(gid, node, number);
	return 0;
}

/* Reports whether hints ask for this provider by its name. */
static int named(const struct fi_info *h)
{
	return h != NULL && h->fabric_attr != NULL && h->fabric_attr->prov_name != NULL &&
	       strcmp(h->fabric_attr->prov_name, ofi_provider.name) == 0;
}

/* The capabilities of a direction, or of the whole: all if none is asked for. A capability has all
 * its directions unless some are named. */
static uint64_t caps_of(uint64_t asked, uint64_t offered, int remote)
{
	uint64_t caps = asked != 0 ? asked : CAPS;
	if ((caps & (FI_MSG | FI_TAGGED)) != 0 && (caps & DIRECTIONS) == 0)
		caps |= DIRECTIONS;
	if ((caps & REMOTE) != 0 && (caps & REMOTE_DIRECTIONS) == 0)
		caps |= REMOTE_DIRECTIONS;
	if (!remote)
		caps &= ~(REMOTE | REMOTE_DIRECTIONS | FI_RMA_EVENT);
	return (caps | CAPS_DOMAIN) & offered;
}

/* How regions are named, as hints and the program's version of the interface have it. */
static int mr_mode_of(uint32_t version, const struct fi_info *h)
{
	int asked = h != NULL && h->domain_attr != NULL ? h->domain_attr->mr_mode : FI_MR_UNSPEC;
	if (FI_VERSION_LT(version, FI_VERSION(1, 5)))
		return asked == FI_MR_BASIC || asked == FI_MR_SCALABLE ? asked : FI_MR_SCALABLE;
	if (h == NULL || h->domain_attr == NULL)
		return MADE;
	return asked == FI_MR_BASIC || asked == FI_MR_SCALABLE ? asked : (asked & MADE) == MADE ? MADE : 0;
}

/* Makes the copy of an address that an info has. */
static int copy_address(const void *from, size_t length, void **to, size_t *to_length)
{
	if ((*to = malloc(length)) == NULL)
		return -FI_ENOMEM;
	memcpy(*to, from, length);
	*to_length = length;
	return 0;
}

static int fill(struct fi_info *i, uint32_t version, const struct fi_info *h, const struct ofi_place *place, int remote)
{
	int mr_mode = mr_mode_of(version, h);
	uint64_t asked = h != NULL ? h->caps : 0;
	i->caps = caps_of(asked, OFFERED, remote);
	i->addr_format = FI_FORMAT_UNSPEC;
	*i->tx_attr = (struct fi_tx_attr){
		.caps = caps_of(h != NULL && h->tx_attr != NULL && h->tx_attr->caps != 0 ? h->tx_attr->caps : asked, CAPS_TX,
			remote),
		.op_flags = h != NULL && h->tx_attr != NULL ? h->tx_attr->op_flags : 0,
		.msg_order = ORDER,
		.inject_size = INJECT,
		.size = QUEUE,
		.iov_limit = PIECES,
		.rma_iov_limit = 1,
	};
	*i->rx_attr = (struct fi_rx_attr){
		.caps = caps_of(h != NULL && h->rx_attr != NULL && h->rx_attr->caps != 0 ? h->rx_attr->caps : asked,
			CAPS_RX | CAPS_ASKED, remote),
		.op_flags = h != NULL && h->rx_attr != NULL ? h->rx_attr->op_flags : 0,
		.msg_order = ORDER,
		.size = QUEUE,
		.iov_limit = PIECES,
	};
	*i->ep_attr = (struct fi_ep_attr){
		.type = FI_EP_RDM,
		.protocol = PROTOCOL,
		.protocol_version = PROTOCOL_VERSION,
		.max_msg_size = MOST_BYTES,
		.mem_tag_format = h != NULL && h->ep_attr != NULL && h->ep_attr->mem_tag_format != 0 ?
			h->ep_attr->mem_tag_format : (uint64_t)0xaaaaaaaaaaaaaaaa,
		.tx_ctx_cnt = 1,
		.rx_ctx_cnt = 1,
	};
	const struct fi_domain_attr *d = h != NULL ? h->domain_attr : NULL;
	*i->domain_attr = (struct fi_domain_attr){
		.name = strdup(ofi_provider.name),
		.threading = d != NULL && d->threading != FI_THREAD_UNSPEC ? d->threading : FI_THREAD_SAFE,
		.control_progress = d != NULL && d->control_progress != FI_PROGRESS_UNSPEC ? d->control_progress :
			FI_PROGRESS_AUTO,
		.data_progress = d != NULL && d->data_progress != FI_PROGRESS_UNSPEC ? d->data_progress : FI_PROGRESS_AUTO,
		.resource_mgmt = FI_RM_ENABLED,
		.av_type = d != NULL ? d->av_type : FI_AV_UNSPEC,
		.mr_mode = mr_mode,
		.mr_key_size = mr_mode == FI_MR_BASIC || (mr_mode & FI_MR_PROV_KEY) != 0 ? sizeof(uint64_t) : sizeof(uint16_t),
		.mr_cnt = 1 << 16,
		.cq_data_size = sizeof(uint64_t),
		.cq_cnt = QUEUE,
		.cntr_cnt = QUEUE,
		.ep_cnt = ENDPOINTS,
		.tx_ctx_cnt = ENDPOINTS,
		.rx_ctx_cnt = ENDPOINTS,
		.max_ep_tx_ctx = 1,
		.max_ep_rx_ctx = 1,
		.mr_iov_limit = 1,
		.caps = CAPS_DOMAIN,
		.max_err_data = TEXT,
	};
	i->fabric_attr->name = strdup(ofi_provider.name);
	i->fabric_attr->prov_version = ofi_provider.version;
	i->fabric_attr->api_version = version;
	if (i->domain_attr->name == NULL || i->fabric_attr->name == NULL)
		return -FI_ENOMEM;
	if (place->known) {
		struct ofi_address own = ofi_address_of(place->gid, place->node, 0);
		if (copy_address(&own, sizeof own, &i->src_addr, &i->src_addrlen) != 0)
			return -FI_ENOMEM;
	}
	if (h != NULL && h->dest_addr != NULL)
		return copy_address(h->dest_addr, h->dest_addrlen, &i->dest_addr, &i->dest_addrlen);
	return 0;
}

int ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	const struct fi_info *hints, struct fi_info **info)
{
	struct ofi_place place = { 0 };
	if (guest_enter() != 0)
		REFUSE("a child of fork cannot use the library; call exec first\n");
	/* An endpoint that cannot be opened is offered only to those who ask for it by name. */
	ofi_go_place((uintptr_t)&place);
	if (!place.known && !named(hints))
		REFUSE("no job: start the program with funet run\n");
	if (!place.known)
		place.nodes = 1 << 16;
	/* A service alone would choose a port, which an endpoint here gets when it is opened. */
	(void)service;
	struct ofi_address address;
	int err = 0, given = node != NULL && (flags & FI_PROV_ATTR_ONLY) == 0, source = (flags & FI_SOURCE) != 0;
	if (given && (err = parse_address(node, &address)) == 0)
		err = check_address(&address, sizeof address, &place, source);
	if (err == 0 && hints != NULL)
		err = check(hints, &place);
	if (err != 0)
		return err;
	/* What the card can do is known when it is open, which only those who ask for it make it. */
	int remote = !place.known || (hints != NULL && hints->caps != 0 && (hints->caps & REMOTE) == 0) || ofi_go_reaches();
	if (!remote && hints != NULL && (hints->caps & REMOTE) != 0)
		REFUSE("FI_RMA and FI_ATOMIC: the daemon's card does not reach the memory of a process; use direct ports\n");
	struct fi_info *i = fi_allocinfo();
	if (i == NULL)
		return -FI_ENOMEM;
	err = fill(i, version, hints, &place, remote);
	if (err == 0 && given && !source) {
		free(i->dest_addr); /* of the hints */
		err = copy_address(&address, sizeof address, &i->dest_addr, &i->dest_addrlen);
	}
	if (err != 0) {
		fi_freeinfo(i);
		return err;
	}
	*info = i;
	return 0;
}
