/* times.h: the clock of the MPI programs, and how they print times. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Prints the percentiles of n times in nanoseconds, which it sorts. */
static void tell(const char *of, int64_t *took, long n)
{
	qsort(took, n, sizeof *took, ascending);
	printf("%s us: p50 %.3f p99 %.3f\n", of, took[n / 2] / 1e3, took[n * 99 / 100] / 1e3);
}
