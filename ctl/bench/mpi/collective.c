/* Collective operations of MPI: each is timed by itself at rank 0, and its result is verified at
 * every rank. Usage: collective WARMUP OPERATIONS BYTES, with BYTES a multiple of 8. Rank 0 prints
 * the percentiles of each. The ranks must be on two hosts, half of them on each. */

#include "times.h"

static int rank, size;

static void allreduce(int64_t *to, int64_t *from, long words)
{
	MPI_Allreduce(from, to, words, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(int64_t *to, int64_t *from, long words)
{
	MPI_Alltoall(from, words, MPI_INT64_T, to, words, MPI_INT64_T, MPI_COMM_WORLD);
}

static void bcast(int64_t *to, int64_t *from, long words)
{
	for (long i = 0; i < words && rank == 0; i++)
		to[i] = from[i];
	MPI_Bcast(to, words, MPI_INT64_T, 0, MPI_COMM_WORLD);
}

/* Each rank has n + rank in all words. So all have the sum, or word by word what the rank of the
 * block has, or what rank 0 has. */
static int64_t sum(int64_t n, long block) { return (void)block, size * n + size * (size - 1) / 2; }
static int64_t ranked(int64_t n, long block) { return n + block; }
static int64_t first(int64_t n, long block) { return (void)block, n; }

static const struct {
	const char *name;
	void (*run)(int64_t *to, int64_t *from, long words);
	int64_t (*want)(int64_t n, long block);
	int all; /* a block for each rank */
} operations[] = {
	{ "allreduce", allreduce, sum, 0 },
	{ "alltoall", alltoall, ranked, 1 },
	{ "bcast", bcast, first, 0 },
};

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	long warmup = argc == 4 ? atol(argv[1]) : -1, count = argc == 4 ? atol(argv[2]) : 0,
		words = argc == 4 ? atol(argv[3]) / 8 : 0;

	if (warmup < 0 || count < 1 || words < 1) {
		fprintf(stderr, "usage: mpirun -np N collective WARMUP OPERATIONS BYTES\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Comm mates; /* the ranks of this host, as MPI sees it */
	int half;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &mates);
	MPI_Comm_size(mates, &half);
	MPI_Comm_free(&mates);
	if (2 * half != size) {
		fprintf(stderr, "collective: MPI sees %d of %d ranks on the host of rank %d\n", half, size, rank);
		MPI_Abort(MPI_COMM_WORLD, 3);
	}
	int64_t *from = calloc(words * size, 8), *to = calloc(words * size, 8), *took = calloc(count, sizeof *took);

	if (!from || !to || !took) {
		fprintf(stderr, "collective: no memory\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
		for (int64_t n = -warmup; n < count; n++) {
			for (long i = 0; i < words * size; i++)
				from[i] = n + rank, to[i] = -1;
			/* a broadcast is not timed while those before are under way */
			MPI_Barrier(MPI_COMM_WORLD);
			int64_t start = now();

			operations[o].run(to, from, words);
			if (n >= 0)
				took[n] = now() - start;
			for (long i = 0; i < words * (operations[o].all ? size : 1); i++)
				if (to[i] != operations[o].want(n, i / words)) {
					fprintf(stderr, "collective: %s: rank %d has %ld at %ld\n",
						operations[o].name, rank, (long)to[i], i);
					MPI_Abort(MPI_COMM_WORLD, 3);
				}
		}
		if (rank == 0)
			tell(operations[o].name, took, count);
	}
	free(from);
	free(to);
	free(took);
	MPI_Finalize();
	return 0;
}
