/* mpi.c: ranks of MPI check messages of all lengths, probes, wildcards, collective operations and
 * windows. Rank 0 says at the end that all results were right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

#define REQUIRE(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "mpi.c:%d: rank %d: %s\n", __LINE__, rank, #condition); \
			MPI_Abort(MPI_COMM_WORLD, 1); \
		} \
	} while (0)

/* Each rank sends to the next, and receives from the one before. */
static void ring(int bytes)
{
	unsigned char *out = malloc((size_t)bytes + 1), *in = calloc(1, (size_t)bytes + 1);
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, n;
	MPI_Status status;
	memset(out, rank + 1, (size_t)bytes);
	MPI_Sendrecv(out, bytes, MPI_BYTE, next, 7, in, bytes, MPI_BYTE, before, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
	MPI_Get_count(&status, MPI_BYTE, &n);
	REQUIRE(n == bytes && status.MPI_TAG == 7 && status.MPI_SOURCE == before);
	for (int i = 0; i < bytes; i++)
		REQUIRE(in[i] == before + 1);
	free(out);
	free(in);
}

/* Rank 0 gets from any rank what it has probed. MPI_Ssend is not for MPI_Mprobe: Open MPI 4.1 loses
 * its answer, over any provider. */
static void probes(void)
{
	enum { EACH = 50 };
	int value[2];
	if (rank != 0) {
		for (int i = 0; i < EACH; i++) {
			value[0] = rank, value[1] = i;
			MPI_Send(value, 2, MPI_INT, 0, i % 3, MPI_COMM_WORLD);
		}
		return;
	}
	int *next = calloc((size_t)ranks, sizeof *next);
	for (int i = 0; i < EACH * (ranks - 1); i++) {
		MPI_Status status;
		int n, flag = 0;
		if (i % 2 == 0) {
			MPI_Message message;
			MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
			MPI_Get_count(&status, MPI_INT, &n);
			MPI_Mrecv(value, 2, MPI_INT, &message, MPI_STATUS_IGNORE);
		} else {
			while (!flag)
				MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
			MPI_Get_count(&status, MPI_INT, &n);
			MPI_Recv(value, 2, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		}
		REQUIRE(n == 2 && value[0] == status.MPI_SOURCE && value[1] == next[value[0]]++);
	}
	free(next);
}

static void synchronous(void)
{
	for (int from = 1; from < ranks; from++)
		for (int i = 0; i < 10; i++) {
			int value = i;
			if (rank == from)
				MPI_Ssend(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
			if (rank == 0)
				MPI_Recv(&value, 1, MPI_INT, from, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			REQUIRE(value == i);
		}
}

static void together(void)
{
	long sum = 0, mine = rank + 1;
	for (int i = 0; i < 100; i++) {
		MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		REQUIRE(sum == (long)ranks * (ranks + 1) / 2);
	}
	enum { BLOCK = 3000 };
	int *out = malloc(sizeof *out * (size_t)ranks * BLOCK), *in = malloc(sizeof *in * (size_t)ranks * BLOCK);
	for (int i = 0; i < ranks * BLOCK; i++)
		out[i] = rank << 20 | i;
	MPI_Alltoall(out, BLOCK, MPI_INT, in, BLOCK, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < ranks * BLOCK; i++)
		REQUIRE(in[i] == (i / BLOCK << 20 | (rank * BLOCK + i % BLOCK)));
	MPI_Bcast(out, ranks * BLOCK, MPI_INT, ranks - 1, MPI_COMM_WORLD);
	for (int i = 0; i < ranks * BLOCK; i++)
		REQUIRE(out[i] == ((ranks - 1) << 20 | i));
	free(out);
	free(in);
}

/* All ranks count in a window of rank 0, put into the next one's, and get what the one before has
 * put. */
static void windows(void)
{
	enum { N = 1 << 15, EACH = 100 };
	long *window, *local = malloc(N * sizeof *local), one = 1, old;
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	MPI_Win w;
	MPI_Win_allocate((MPI_Aint)(2 * N * sizeof *window), sizeof *window, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &w);
	memset(window, 0, 2 * N * sizeof *window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, w);
	for (int i = 0; i < EACH; i++) {
		MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, w);
		MPI_Win_flush(0, w);
	}
	for (int i = 0; i < N; i++)
		local[i] = (long)rank << 32 | i;
	MPI_Put(local, N, MPI_LONG, next, N, N, MPI_LONG, w);
	MPI_Win_flush_all(w);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < N; i++)
		REQUIRE(window[N + i] == ((long)before << 32 | i));
	memset(local, 0, N * sizeof *local);
	MPI_Get(local, N, MPI_LONG, next, N, N, MPI_LONG, w);
	MPI_Win_flush_all(w);
	for (int i = 0; i < N; i++)
		REQUIRE(local[i] == ((long)rank << 32 | i));
	MPI_Win_unlock_all(w);
	MPI_Barrier(MPI_COMM_WORLD);
	REQUIRE(rank != 0 || window[0] == (long)EACH * ranks);
	MPI_Win_free(&w);
	free(local);
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 0, 1, 8, 100, 1000, 4000, 70000, 2000000 };
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		for (int times = 0; times < 3; times++)
			ring(sizes[i]);
	probes();
	MPI_Barrier(MPI_COMM_WORLD); /* rank 0 has probed for any tag */
	synchronous();
	together();
	windows();
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks: all results are right\n", ranks);
	MPI_Finalize();
	return 0;
}
