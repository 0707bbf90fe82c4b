/* gone.c: node 1 ends without a word while node 0 waits for it. Each operation of node 0 ends with
 * an error, and so do later ones. */
#include "node.h"

#include <rdma/fi_rma.h>
#include <unistd.h>

static char memory[4 << 20];

static void ended(struct fid_cq *cq, void *context)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry bad = { 0 };
	ssize_t n;
	while ((n = fi_cq_sread(cq, &e, 1, NULL, 1000)) == -FI_EAGAIN)
		continue;
	REQUIRE(n == -FI_EAVAIL && fi_cq_readerr(cq, &bad, 0) == 1 && bad.op_context == context, "no failure of it");
	REQUIRE(bad.err == FI_EHOSTUNREACH || bad.err == FI_ECONNABORTED, "%s", fi_strerror(bad.err));
	REQUIRE(bad.err_data_size > 0, "no reason");
	printf("%.*s\n", (int)bad.err_data_size, (const char *)bad.err_data);
}

int main(void)
{
	char c1, c2;
	start();
	open_all(FI_RMA, 0);
	barrier();
	if (me == 1) { /* node 0 has got all */
		POST(fi_trecv(ep, memory, 1, NULL, node[0], 4, 0, &c1));
		(void)completion(rx, &c1, NULL);
		_exit(0);
	}
	POST(fi_tinject(ep, memory, 1, node[1], 4));
	POST(fi_trecv(ep, memory, 10, NULL, node[1], 5, 0, &c1));
	ended(rx, &c1);
	POST(fi_tsend(ep, memory, sizeof memory, NULL, node[1], 6, &c2));
	ended(tx, &c2);
	POST(fi_read(ep, memory, 10, NULL, node[1], 0, 7, &c2));
	ended(tx, &c2);
	POST(fi_tsend(ep, memory, 10, NULL, node[0], 6, &c2)); /* the others go on */
	(void)completion(tx, &c2, NULL);
	close_all();
	printf("all ended\n");
	return 0;
}
