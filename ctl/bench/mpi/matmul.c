/* The matrix product of `funet matmul` between MPI processes: C = A x B, all three SIZE x SIZE and
 * in blocks of columns, one block a process. A process updates its block of C with panels of 32
 * columns of A, its own first, then those of the processes after it, which arrive, eight panels
 * ahead, while it works. MPI moves data only when it is called: between updates, after every POLL
 * of a column of C by a panel.
 * The product is computed twice, and the second time counts.
 * Usage: matmul SIZE POLL. Rank 0 prints the time and how far the product is from its own. */

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of uspace/apps/matmul.go. */
enum { panel_columns = 32, tile_rows = 512, ahead = 8 };

struct panel {
	int owner, first, columns;
};

static int rank, nodes, size, poll_every, undone;
static double *a;

/* first is the first column of a process's block. */
static int first(int of) { return (int)((int64_t)size * of / nodes); }

static int least(int x, int y) { return x < y ? x : y; }

/* memory is zero and begins at a cache line, as Go's does. */
static double *memory(size_t doubles)
{
	size_t bytes = (doubles * sizeof(double) + 64) / 64 * 64;
	double *m = aligned_alloc(64, bytes);

	if (!m) {
		fprintf(stderr, "matmul: no memory; use a smaller size\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	return memset(m, 0, bytes);
}

/* fill makes a column of a matrix from its number, so that any process can make any column. */
static void fill(int matrix, int j, double *col)
{
	uint64_t state = ((uint64_t)matrix << 32) + j;

	state *= UINT64_C(0x9e3779b97f4a7c15);
	for (int i = 0; i < size; i++) { /* splitmix64 */
		uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

		z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
		col[i] = (double)((z ^ (z >> 31)) >> 11) / (1ull << 52) - 1;
	}
}

/* add adds to a column of n doubles four columns of A, each times a double, as many as the columns
 * that are left allow. Four at a time, as gonum's Dgemv; the compiler makes vectors of the loops.
 */
static void add(int n, int columns, const double *restrict x, const double *restrict f, double *restrict y)
{
	for (; columns >= 4; columns -= 4, x += 4 * (size_t)size, f += 4) {
		const double *x1 = x + size, *x2 = x1 + size, *x3 = x2 + size;
		const double f0 = f[0], f1 = f[1], f2 = f[2], f3 = f[3];

		for (int i = 0; i < n; i++)
			y[i] += f0 * x[i] + f1 * x1[i] + f2 * x2[i] + f3 * x3[i];
	}
	for (; columns > 0; columns--, x += size, f++)
		for (int i = 0; i < n; i++)
			y[i] += *f * x[i];
}

/* update adds to C the part of some columns of A, from column j on. */
static void update(const double *panel, int j, int columns, int own, const double *b, double *c)
{
	for (int i = 0; i < size; i += tile_rows)
		for (int k = 0; k < own; k++) {
			size_t at = (size_t)k * size;

			add(least(tile_rows, size - i), columns, panel + i, b + at + j, c + at + i);
			if (++undone >= poll_every) {
				int there;

				undone = 0;
				MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
			}
		}
}

static void multiply(const double *b, double *c, double *into)
{
	int own = first(rank + 1) - first(rank), panels = 0, asked = 0, sent = 0;
	size_t room = (size_t)panel_columns * size;
	struct panel *list = calloc(size + 1, sizeof *list);
	MPI_Request arrived[ahead], *out = calloc((size_t)nodes * own + 1, sizeof *out);

	if (!list || !out)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (int d = 1; d < nodes; d++) {
		int of = (rank + d) % nodes, to = (rank - d + nodes) % nodes;

		for (int j = first(of); j < first(of + 1); j += panel_columns)
			list[panels++] = (struct panel){of, j, least(panel_columns, first(of + 1) - j)};
		/* What others need of this block, which they have room for when they say so. */
		for (int j = 0; j < own; j += panel_columns)
			MPI_Isend(a + (size_t)j * size, least(panel_columns, own - j) * size, MPI_DOUBLE, to, j / panel_columns,
				MPI_COMM_WORLD, &out[sent++]);
	}
	for (int next = 0; next <= panels; next++) {
		for (; asked < panels && asked < next + ahead; asked++) {
			struct panel *p = &list[asked];

			MPI_Irecv(into + asked % ahead * room, p->columns * size, MPI_DOUBLE, p->owner,
				(p->first - first(p->owner)) / panel_columns, MPI_COMM_WORLD, &arrived[asked % ahead]);
		}
		if (next == 0)
			for (int j = 0; j < own; j += panel_columns)
				update(a + (size_t)j * size, first(rank) + j, least(panel_columns, own - j), own, b, c);
		if (next < panels) {
			MPI_Wait(&arrived[next % ahead], MPI_STATUS_IGNORE);
			update(into + next % ahead * room, list[next].first, list[next].columns, own, b, c);
		}
	}
	MPI_Waitall(sent, out, MPI_STATUSES_IGNORE);
	free(list);
	free(out);
}

/* verify returns how far the product is from one that this process computes alone, relative to
 * the largest element; infinity when an element is no number. */
static double verify(const double *c)
{
	double *all = memory((size_t)size * size), *b = memory(size), *want = memory(size);
	double worst = 0, largest = 0;

	for (int l = 0; l < size; l++)
		fill(1, l, all + (size_t)l * size);
	for (int k = 0; k < size; k++) {
		fill(2, k, b);
		memset(want, 0, size * sizeof *want);
		add(size, size, all, b, want);
		for (int i = 0; i < size; i++) {
			double off = fabs(c[(size_t)k * size + i] - want[i]);

			if (!(off <= worst))
				worst = isnan(off) ? INFINITY : off;
			if (fabs(want[i]) > largest)
				largest = fabs(want[i]);
		}
	}
	free(all);
	free(b);
	free(want);
	return largest > 0 ? worst / largest : worst;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nodes);
	size = argc == 3 ? atoi(argv[1]) : 0;
	poll_every = argc == 3 ? atoi(argv[2]) : 0;
	if (size < 1 || size > 16384 || poll_every < 1) {
		fprintf(stderr, "usage: mpirun matmul SIZE POLL\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	int own = first(rank + 1) - first(rank), *counts = calloc(2 * nodes, sizeof *counts);
	double *b = memory((size_t)own * size), *c = memory((size_t)own * size);
	double *into = memory((size_t)ahead * panel_columns * size);
	double *product = rank == 0 ? memory((size_t)size * size) : NULL;

	a = memory((size_t)own * size);
	if (!counts)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (int of = 0; of < nodes; of++) {
		counts[of] = (first(of + 1) - first(of)) * size;
		counts[nodes + of] = first(of) * size;
	}
	for (int k = 0; k < own; k++) {
		fill(1, first(rank) + k, a + (size_t)k * size);
		fill(2, first(rank) + k, b + (size_t)k * size);
	}

	double seconds = 0;

	/* the second counts: the first finds memory and code cold */
	for (int run = 0; run < 2; run++) {
		memset(c, 0, (size_t)own * size * sizeof *c);
		MPI_Barrier(MPI_COMM_WORLD);
		double begin = MPI_Wtime();

		multiply(b, c, into);
		MPI_Barrier(MPI_COMM_WORLD);
		seconds = MPI_Wtime() - begin;
	}

	MPI_Gatherv(c, own * size, MPI_DOUBLE, product, counts, counts + nodes, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("seconds %.9f worst relative error %.3e\n", seconds, verify(product));
	MPI_Finalize();
	return 0;
}
