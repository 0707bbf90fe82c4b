/* pingpong: two processes of a job, nodes 0 and 1, exchange messages and memory.
 *
 *	cc -O2 -o pingpong -I.. pingpong.c
 *	funet run -n 2 ./pingpong [EXCHANGES]
 *
 * Node 0 sends a request of four words, node 1 replies with their complements, so often;
 * then node 0 transfers 64 KiB into node 1's memory, and node 1, which has looked at every
 * byte, transfers it back. Every word is checked. Node 0 prints the median round trip.
 *
 * SIGINT (Ctrl-C) and SIGTERM end it: a handler notes them, and who waits looks. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <time.h>

#include "funi.h"

enum { PING = 1, PONG = 2, THERE = 3, BACK = 4 };

#define BYTES (64 * 1024)
#define OURS 0x10000 /* what is sent */
#define THEIRS 0x40000 /* what is received */

static struct funi_context card;

static volatile sig_atomic_t ended; /* by this signal */

static void note(int signal) { ended = signal; }

static int fail(const char *what)
{
	fprintf(stderr, "pingpong: node %u: %s\n", card.node, ended ? "interrupted" : what);
	return 1;
}

static int64_t now(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Waits for something to happen; what came back is an error, and so is a signal. */
static int wait_for_news(void)
{
	struct funi_return r;
	char text[100];
	if (funi_returned(&card, &r)) {
		(void)snprintf(text, sizeof text, "a message to node %u came back for reason %u", r.header & 0xffff, r.reason);
		return fail(text);
	}
	for (int i = 0; i < 100 && !ended; i++) {
		int n = funi_wait(&card, 100);
		if (n > 0 && !ended)
			return 0;
		if (n < 0 && n != -EINTR)
			return fail(card.error);
	}
	return fail("nothing has happened for 10 s");
}

/* Waits for room in a send queue. */
static uint32_t *reserve(enum funi_level l)
{
	uint32_t *s;
	while ((s = funi_send_reserve(&card, l)) == NULL)
		if (wait_for_news())
			return NULL;
	return s;
}

/* Waits for a message of the type. */
static const uint32_t *receive(enum funi_level l, uint32_t type)
{
	const uint32_t *s;
	while ((s = funi_receive(&card, l)) == NULL)
		if (wait_for_news())
			return NULL;
	if (funi_type(s[0]) != type || s[FUNI_SOURCE_WORD] != 1 - card.node) {
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
	if ((r = receive(FUNI_REPLY, PONG)) == NULL)
		return 1;
	for (uint32_t w = 0; w < 4; w++)
		if (funi_words(r[0]) != 4 || r[FUNI_PAYLOAD_WORD + w] != ~(i * 4 + w))
			return fail("wrong words came back");
	funi_release(&card, FUNI_REPLY);
	return 0;
}

static int pong(void)
{
	const uint32_t *r = receive(FUNI_REQUEST, PING);
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
	const uint32_t *r = receive(FUNI_REQUEST, type);
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
	if (card.node == 1) {
		uint32_t *s = reserve(FUNI_REQUEST);
		if (s == NULL)
			return 1;
		s[0] = funi_header(0, BACK, 0);
		funi_send_commit(&card, FUNI_REQUEST);
	} else {
		if (receive(FUNI_REQUEST, BACK) == NULL)
			return 1;
		funi_release(&card, FUNI_REQUEST);
	}
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

/* The exit code of a program that a signal ended is 128 and the signal's number. */
int main(int argc, char **argv)
{
	struct sigaction end;
	memset(&end, 0, sizeof end);
	end.sa_handler = note;
	(void)sigemptyset(&end.sa_mask);
	(void)sigaction(SIGINT, &end, NULL);
	(void)sigaction(SIGTERM, &end, NULL);
	int code = run(argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 10000);
	return code != 0 && ended ? 128 + ended : code;
}
