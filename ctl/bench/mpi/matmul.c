/* The matrix product of `funet matmul` between MPI processes: C = A x B, all three SIZE x SIZE and
 * in blocks of columns, one block a process. A process updates its block of C with one column of
 * A after another, its own first, and asks the owner for the next column while it works on the
 * last; own columns come the same way. It answers others in between, after every POLL updates.
 * Usage: matmul SIZE POLL. Rank 0 prints the time and how far the product is from its own. */

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ask_tag, column_tag };
enum { ask, column, pending }; /* places in waiting */

static int rank, nodes, size, poll_every;
static MPI_Request waiting[pending]; /* for the next question, for the column that was asked for */
static MPI_Request *answers;         /* by who asked; each has one question at a time */
static int asked, unanswered;
static double *a;

/* first is the first column of a process's block. */
static int first(int of) { return (int)((int64_t)size * of / nodes); }

static int owner(int j)
{
	int of = 0;

	while (first(of + 1) <= j)
		of++;
	return of;
}

static double *memory(size_t doubles)
{
	double *m = calloc(doubles + 1, sizeof *m);

	if (!m) {
		fprintf(stderr, "matmul: no memory; use a smaller size\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	return m;
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

/* update adds f times x to y: two doubles at a time and four pairs a turn, as gonum's Axpy does. */
static void update(double f, const double *x, double *y)
{
	typedef double pair __attribute__((vector_size(16), aligned(8), may_alias));
	const pair ff = {f, f};
	int i = 0;

	for (; i + 8 <= size; i += 8) {
		const pair *px = (const pair *)(x + i);
		pair *py = (pair *)(y + i);
		pair y0 = py[0] + ff * px[0], y1 = py[1] + ff * px[1];
		pair y2 = py[2] + ff * px[2], y3 = py[3] + ff * px[3];

		py[0] = y0, py[1] = y1, py[2] = y2, py[3] = y3;
	}
	for (; i < size; i++)
		y[i] += f * x[i];
}

/* listen takes the next question, when there is to be one. */
static void listen(void)
{
	if (unanswered)
		MPI_Irecv(&asked, 1, MPI_INT, MPI_ANY_SOURCE, ask_tag, MPI_COMM_WORLD, &waiting[ask]);
}

/* answer sends the column that was asked for. The one before has arrived, or there would be no
 * question. */
static void answer(int to)
{
	MPI_Wait(&answers[to], MPI_STATUS_IGNORE);
	MPI_Isend(a + (size_t)(asked - first(rank)) * size, size, MPI_DOUBLE, to, column_tag, MPI_COMM_WORLD, &answers[to]);
	unanswered--;
	listen();
}

/* serve looks once, or waits, for a question or the column. */
static void serve(int wait)
{
	MPI_Status s;
	int which, there = 1;

	if (wait)
		MPI_Waitany(pending, waiting, &which, &s);
	else
		MPI_Testany(pending, waiting, &which, &there, &s);
	if (there && which == ask)
		answer(s.MPI_SOURCE);
}

static void multiply(const double *b, double *c)
{
	int own = first(rank + 1) - first(rank), j = first(rank) % size, question;
	double *fetched = memory(size), *work = memory(size);
	MPI_Request sent = MPI_REQUEST_NULL;

	unanswered = own * nodes; /* each process asks once for each column */
	listen();
	for (int d = 0; d <= size; d++) {
		if (d > 0) {
			double *last = work;

			while (waiting[column] != MPI_REQUEST_NULL)
				serve(1);
			work = fetched;
			fetched = last;
		}
		if (d < size) {
			MPI_Wait(&sent, MPI_STATUS_IGNORE);
			question = (j + d) % size;
			MPI_Irecv(fetched, size, MPI_DOUBLE, owner(question), column_tag, MPI_COMM_WORLD, &waiting[column]);
			MPI_Isend(&question, 1, MPI_INT, owner(question), ask_tag, MPI_COMM_WORLD, &sent);
		}
		if (d > 0)
			for (int k = 0; k < own; k++) {
				update(b[(size_t)k * size + (j + d - 1) % size], work, c + (size_t)k * size);
				if (k % poll_every == poll_every - 1)
					serve(0);
			}
	}
	while (unanswered)
		serve(1);
	MPI_Wait(&sent, MPI_STATUS_IGNORE);
	MPI_Waitall(nodes, answers, MPI_STATUSES_IGNORE);
	free(fetched);
	free(work);
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
		for (int l = 0; l < size; l++)
			update(b[l], all + (size_t)l * size, want);
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
	double *product = rank == 0 ? memory((size_t)size * size) : NULL;

	a = memory((size_t)own * size);
	answers = calloc(nodes, sizeof *answers);
	if (!counts || !answers)
		MPI_Abort(MPI_COMM_WORLD, 2);
	waiting[ask] = waiting[column] = MPI_REQUEST_NULL;
	for (int of = 0; of < nodes; of++) {
		answers[of] = MPI_REQUEST_NULL;
		counts[of] = (first(of + 1) - first(of)) * size;
		counts[nodes + of] = first(of) * size;
	}
	for (int k = 0; k < own; k++) {
		fill(1, first(rank) + k, a + (size_t)k * size);
		fill(2, first(rank) + k, b + (size_t)k * size);
	}

	MPI_Barrier(MPI_COMM_WORLD);
	double begin = MPI_Wtime();

	multiply(b, c);
	MPI_Barrier(MPI_COMM_WORLD);
	double seconds = MPI_Wtime() - begin;

	MPI_Gatherv(c, own * size, MPI_DOUBLE, product, counts, counts + nodes, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("seconds %.9f worst relative error %.3e\n", seconds, verify(product));
	MPI_Finalize();
	return 0;
}
