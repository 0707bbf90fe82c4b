/* pingpong: two processes of a job, nodes 0 and 1, exchange messages and memory.
 *
 *	cc -O2 -o pingpong -I.. pingpong.c
 *	funet run -n 2 ./pingpong [EXCHANGES]
 *
 * Node 0 sends a request of four words, node 1 replies with their complements, so often;
 * then node 0 transfers 64 KiB into node 1's memory, and node 1, which has looked at every
 * byte, transfers it back. Every word is checked. Node 0 prints the median round trip. */
#define PROGRAM "pingpong"
#include "node.h"

#include <time.h>

enum { PING = 1, PONG = 2, THERE = 3, BACK = 4 };

#define BYTES (64 * 1024)
#define OURS 0x10000 /* what is sent */
#define THEIRS 0x40000 /* what is received */

static int64_t now(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Waits for a message of the type from the other node, which the caller releases. */
static const uint32_t *expect(enum funi_level l, uint32_t type)
{
	const uint32_t *s = next_message(l);
	if (s != NULL && (funi_type(s[0]) != type || s[FUNI_SOURCE_WORD] != 1 - card.node)) {
		(void)fail("an unexpected message");
		return NULL;
	}
	return s;
}

static int ping(uint32_t i)
{
	const uint32_t *r;
	uint32_t *s = reserve(FUNI_REQUEST);
	if (s == NULL)
		return 1;
	s[0] = funi_header(1, PING, 4);
	for (uint32_t w = 0; w < 4; w++)
		s[FUNI_PAYLOAD_WORD + w] = i * 4 + w;
	funi_send_commit(&card, FUNI_REQUEST);
	if ((r = expect(FUNI_REPLY, PONG)) == NULL)
		return 1;
	for (uint32_t w = 0; w < 4; w++)
		if (funi_words(r[0]) != 4 || r[FUNI_PAYLOAD_WORD + w] != ~(i * 4 + w))
			return fail("wrong words came back");
	funi_release(&card, FUNI_REPLY);
	return 0;
}

static int pong(void)
{
	const uint32_t *r = expect(FUNI_REQUEST, PING);
	uint32_t *s = r == NULL ? NULL : reserve(FUNI_REPLY);
	if (s == NULL)
		return 1;
	s[0] = funi_header((uint16_t)r[FUNI_SOURCE_WORD], PONG, 4);
	for (int w = 0; w < 4; w++)
		s[FUNI_PAYLOAD_WORD + w] = ~r[FUNI_PAYLOAD_WORD + w];
	funi_send_commit(&card, FUNI_REPLY);
	funi_release(&card, FUNI_REQUEST);
	return 0;
}

static uint8_t byte(uint32_t i, uint32_t type) { return (uint8_t)(i * 131 >> 4 ^ type); }

/* Transfers our memory to the other node, as a request. */
static int put(void *source, uint32_t type)
{
	uint8_t *memory = (uint8_t *)source;
	uint32_t *s = reserve(FUNI_REQUEST);
	if (s == NULL)
		return 1;
	for (uint32_t i = 0; i < BYTES; i++)
		memory[i] = byte(i, type);
	funi_transfer(s, (uint16_t)(1 - card.node), type, OURS, THEIRS, 7, BYTES / 4);
	funi_send_commit(&card, FUNI_REQUEST);
	return 0;
}

/* Waits for the other node's transfer and looks at it. */
static int got(const void *destination, uint32_t type)
{
	const uint8_t *memory = (const uint8_t *)destination;
	struct funi_notice n;
	const uint32_t *r = expect(FUNI_REQUEST, type);
	if (r == NULL)
		return 1;
	if (!funi_is_notice(r, &n) || n.address != THEIRS || n.argument != 7 || n.words != BYTES / 4)
		return fail("no notice of the transfer");
	funi_release(&card, FUNI_REQUEST);
	for (uint32_t i = 0; i < BYTES; i++)
		if (memory[i] != byte(i, type))
			return fail("wrong bytes arrived");
	return 0;
}

static int order(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static int run(uint32_t exchanges)
{
	void *ours, *theirs;
	if (exchanges == 0 || exchanges > 10000000)
		return fail("use 1 to 10000000 exchanges");
	int64_t *trip = (int64_t *)calloc(exchanges, sizeof *trip);
	if (trip == NULL || funi_attach_environment(&card, 0) != 0)
		return fail(trip == NULL ? "no memory" : card.error);
	if (card.nodes < 2 || card.node > 1)
		return fail("run two nodes");
	if (funi_register_segment(&card, OURS, BYTES, FUNI_SOURCE, &ours) != 0 ||
	    funi_register_segment(&card, THEIRS, BYTES, FUNI_DESTINATION, &theirs) != 0)
		return fail(card.error);

	/* Node 1 says that it is there; a message to a node that is not comes back. */
	if (card.node == 1 ? tell(FUNI_REQUEST, 0, BACK, NULL, 0) : receive(FUNI_REQUEST, BACK, NULL, 0))
		return 1;
	for (uint32_t i = 0; i < exchanges; i++) {
		int64_t start = now();
		if (ended)
			return fail("");
		if (card.node == 0 ? ping(i) : pong())
			return 1;
		trip[i] = now() - start;
	}
	if (card.node == 0 ? put(ours, THERE) || got(theirs, BACK) : got(theirs, THERE) || put(ours, BACK))
		return 1;
	if (funi_close(&card, 10000) != 0)
		return fail(card.error);
	qsort(trip, exchanges, sizeof *trip, order);
	if (card.node == 0)
		printf("%u round trips, half of them within %.1f us; 64 KiB there and back\n", exchanges,
		       (double)trip[exchanges / 2] / 1000);
	free(trip);
	return 0;
}

int main(int argc, char **argv)
{
	catch_signals();
	return exit_code(run(argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 10000));
}
