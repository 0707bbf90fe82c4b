/* A ping-pong between two MPI processes: every round trip is timed by itself, as in the other
 * peers. Usage: pingpong WARMUP EXCHANGES BYTES. Rank 0 prints the percentiles. */

#include "times.h"

int main(int argc, char **argv)
{
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (argc != 4 || size != 2) {
		fprintf(stderr, "usage: mpirun -np 2 pingpong WARMUP EXCHANGES BYTES\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	long warmup = atol(argv[1]), exchanges = atol(argv[2]), bytes = atol(argv[3]);
	char *message = calloc(bytes, 1);
	int64_t *took = calloc(exchanges, sizeof *took);

	if (exchanges < 1 || !message || !took) {
		fprintf(stderr, "pingpong: bad numbers, or no memory\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (long i = 0; i < warmup + exchanges; i++) {
		if (rank == 0) {
			int64_t start = now();

			MPI_Send(message, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(message, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (i >= warmup)
				took[i - warmup] = now() - start;
		} else {
			MPI_Recv(message, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(message, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
		}
	}
	if (rank == 0)
		tell("round trip", took, exchanges);
	free(took);
	free(message);
	MPI_Finalize();
	return 0;
}
