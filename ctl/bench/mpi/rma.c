/* This program measures one-sided operations of MPI. Rank 0 operates on the memory of rank 1, which
 * only waits in MPI. Each put, get, fetch-and-add and swap of 8 bytes is timed until it is complete
 * at both ends. Blocks of 1 MiB are put and got, some under way at once.
 * Usage: rma WARMUP EXCHANGES BLOCKS DEPTH. Rank 0 prints the percentiles and the rates. */

#include <string.h>
#include "times.h"

enum { block = 1 << 20 };

static MPI_Win window;

static void one(const char *op, uint64_t *value, uint64_t *was)
{
	if (!strcmp(op, "put"))
		MPI_Put(value, 1, MPI_UINT64_T, 1, 0, 1, MPI_UINT64_T, window);
	else if (!strcmp(op, "get"))
		MPI_Get(was, 1, MPI_UINT64_T, 1, 0, 1, MPI_UINT64_T, window);
	else
		MPI_Fetch_and_op(value, was, MPI_UINT64_T, 1, 0, strcmp(op, "add") ? MPI_REPLACE : MPI_SUM, window);
	MPI_Win_flush(1, window);
}

int main(int argc, char **argv)
{
	static const char *const ops[] = { "put", "get", "add", "swap" };
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc != 5 || size != 2) {
		fprintf(stderr, "usage: mpirun -np 2 rma WARMUP EXCHANGES BLOCKS DEPTH\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	long warmup = atol(argv[1]), exchanges = atol(argv[2]), blocks = atol(argv[3]), depth = atol(argv[4]);

	if (warmup < 0 || exchanges < 1 || depth < 1 || blocks < depth) {
		fprintf(stderr, "rma: bad numbers\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	char *memory, *mine = calloc(depth, block);
	int64_t *took = calloc(exchanges, sizeof *took);

	if (!mine || !took) {
		fprintf(stderr, "rma: no memory\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Win_allocate(depth * (MPI_Aint)block, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	memset(memory, 0, depth * (size_t)block);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 1) {
		/* MPI moves on meanwhile */
		MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		MPI_Win_lock_all(0, window);
		for (int i = 0; i < 4; i++) {
			uint64_t value = 1, was = 0, added = 0;

			for (long n = 0; n < warmup + exchanges; n++) {
				int64_t start = now();

				one(ops[i], &value, &was);
				if (n >= warmup)
					took[n - warmup] = now() - start;
				if (!strcmp(ops[i], "add") && n > 0 && was != added + 1) {
					fprintf(stderr, "rma: addition %ld found %lu after %lu\n", n, (unsigned long)was,
						(unsigned long)added);
					MPI_Abort(MPI_COMM_WORLD, 3);
				}
				added = was;
			}
			tell(ops[i], took, exchanges);
		}
		for (int reads = 0; reads < 2; reads++) {
			int64_t start = now();

			for (long n = 0; n < blocks; n++) {
				MPI_Aint at = n % depth * (MPI_Aint)block;

				if (reads)
					MPI_Get(mine + at, block, MPI_BYTE, 1, at, block, MPI_BYTE, window);
				else
					MPI_Put(mine + at, block, MPI_BYTE, 1, at, block, MPI_BYTE, window);
				if (n % depth == depth - 1)
					MPI_Win_flush(1, window);
			}
			MPI_Win_flush(1, window);
			printf("%s Gbit/s: %.3f\n", reads ? "gets" : "puts", (double)blocks * block * 8 / (now() - start));
		}
		MPI_Win_unlock_all(window);
		MPI_Send(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
	}
	MPI_Win_free(&window);
	free(took);
	free(mine);
	MPI_Finalize();
	return 0;
}
