/* ofi.c: what make profile samples of the provider for libfabric. Two nodes exchange messages of 64
 * and tagged ones of 8 bytes, and node 0 writes and reads 8 bytes of node 1.
 * Usage: ofi EXCHANGES */
#include "../../../uspace/ofi/testdata/node.h"

#include <rdma/fi_rma.h>

static char out[64], in[64];

static void got_one(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry e;
	ssize_t n;
	while ((n = fi_cq_read(cq, &e, 1)) == -FI_EAGAIN)
		continue;
	REQUIRE(n == 1, "%s", fi_strerror((int)-n));
}

static void messages(void)
{
	got_one(rx);
	OK(fi_recv(ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, NULL));
}

static void tagged(void)
{
	OK(fi_trecv(ep, in, 8, NULL, node[peer], 5, 0, NULL));
	got_one(rx);
}

int main(int count, char **args)
{
	struct fid_mr *mr;
	long exchanges = count == 2 ? atol(args[1]) : 0;
	start();
	open_all(FI_RMA, 0);
	OK(fi_mr_reg(domain, in, sizeof in, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
	OK(fi_recv(ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, NULL));
	barrier();
	for (long i = 0; i < exchanges; i++) {
		if (me == 1)
			messages();
		POST(fi_inject(ep, out, sizeof out, node[peer]));
		if (me == 0)
			messages();
	}
	for (long i = 0; i < exchanges; i++) {
		if (me == 1)
			tagged();
		POST(fi_tinject(ep, out, 8, node[peer], 5));
		if (me == 0)
			tagged();
	}
	for (long i = 0; me == 0 && i < exchanges; i++) {
		POST(fi_write(ep, out, 8, NULL, node[1], 0, 7, NULL));
		got_one(tx);
		POST(fi_read(ep, out, 8, NULL, node[1], 0, 7, NULL));
		got_one(tx);
	}
	barrier();
	OK(fi_cancel(&ep->fid, NULL));
	OK(fi_close(&mr->fid));
	close_all();
	return 0;
}
