/* unmapped.c: node 1 makes the memory of a region inaccessible, and keeps others off its addresses.
 * What node 0 does there ends with an error, and everything else goes on. */
#define _GNU_SOURCE
#include "node.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <sys/mman.h>

enum { BYTES = 1 << 20 };
static char local[200000];

int main(void)
{
	static const size_t sizes[] = { 8, 100, 5000, sizeof local };
	uint64_t one = 1, old;
	char *memory = NULL, c;
	start();
	open_all(FI_RMA | FI_ATOMIC, 0);
	if (me == 1) {
		struct fid_mr *mr;
		memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		REQUIRE(memory != MAP_FAILED, "no memory");
		memset(memory, 5, BYTES);
		OK(fi_mr_reg(domain, memory, BYTES, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
		REQUIRE(mprotect(memory, BYTES, PROT_NONE) == 0, "mprotect");
	}
	barrier();
	for (int i = 0; me == 0 && i < 4; i++) {
		POST(fi_read(ep, local, sizes[i], NULL, node[1], 0, 7, &c));
		(void)failure(tx, &c, FI_EKEYREJECTED);
		POST(fi_write(ep, local, sizes[i], NULL, node[1], 0, 7, &c));
		(void)failure(tx, &c, FI_EKEYREJECTED);
		POST(fi_fetch_atomic(ep, &one, 1, NULL, &old, NULL, node[1], 8, 7, FI_UINT64, FI_SUM, &c));
		(void)failure(tx, &c, FI_EKEYREJECTED);
	}
	barrier();
	if (me == 1)
		REQUIRE(mprotect(memory, BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect");
	barrier();
	if (me == 0) {
		POST(fi_read(ep, local, sizeof local, NULL, node[1], 0, 7, &c));
		(void)completion(tx, &c, NULL);
		REQUIRE(local[0] == 5 && local[sizeof local - 1] == 5, "%d, %d", local[0], local[sizeof local - 1]);
	}
	barrier();
	printf("all rules hold\n");
	return 0;
}
