/* check.h: what the programs of these tests have in common. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <funet.h>

static struct funet *f;
static const struct funet_until patient = { 60000, NULL }, now_ = { 0, NULL };

/* Ends the program unless a result is the one that is wanted. */
#define CHECK(want, got) check(__LINE__, #got, (long long)(want), (long long)(got))

static void check(int line, const char *what, long long want, long long got)
{
	if (want == got)
		return;
	fprintf(stderr, "node %d, line %d: %s is %lld, want %lld: %s\n", funet_node(f), line, what, got, want,
		funet_error());
	exit(1);
}

/* Bytes that depend on a number. */
static inline void fill(uint8_t *b, size_t n, int number)
{
	uint32_t salt = (uint32_t)number;
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(salt * 37 + i * 7 + (i >> 8) * 11 + (i >> 16) * 3);
}

static inline int same(const uint8_t *b, size_t n, int number)
{
	uint32_t salt = (uint32_t)number;
	for (size_t i = 0; i < n; i++)
		if (b[i] != (uint8_t)(salt * 37 + i * 7 + (i >> 8) * 11 + (i >> 16) * 3))
			return 0;
	return 1;
}
