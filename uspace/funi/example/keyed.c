/* keyed: two processes of a job, nodes 0 and 1. Node 1 gives a key to its memory; node 0 writes
 * there.
 *
 *	cc -O2 -o keyed -I.. keyed.c
 *	funet run -n 2 ./keyed
 *
 * Either node may be ../../rats/example instead, which is this program in Go.
 *
 * Node 1 sends node 0 a seed, in a message. With it node 0 sends messages that its card and the
 * other's put where the seed says; node 1 hears of each when all of it is there, looks at every
 * byte, and asks for the next. Then node 0 splits the seed and sends the two parts of one message,
 * of which node 1 hears once. At last node 1 takes the key back, and node 0 sees that it is good
 * for nothing. */
#define PROGRAM "keyed"
#include "node.h"

enum { SEED = 1, NEXT = 2, END = 3 };

#define BYTES (256 * 1024)
#define BASE 0x10000
#define PARTS 4000 /* bytes of the message in two parts */
#define FIRST 1000 /* of the first */

static const uint32_t sizes[] = { 0, 13, 64, 1000, 200000 };
enum { MESSAGES = sizeof sizes / sizeof sizes[0] };

static uint8_t *memory;

/* Waits until a request has come as far as it should. */
static int reaches(uint32_t handle, int state, uint32_t *reason)
{
	struct funi_return r;
	int is;
	while ((is = funi_message_status(&card, handle, reason)) != state) {
		if (is < 0 || is == FUNI_FAILED)
			return fail(is < 0 ? card.error : "a request was refused");
		if (funi_returned(&card, &r))
			return fail("a message came back");
		if (funi_message_status(&card, handle, reason) != state && wait_for_news())
			return 1;
	}
	return 0;
}

static uint8_t byte(uint32_t i, uint32_t size) { return (uint8_t)(i * 131 >> 4 ^ size); }

/* Sends bytes of memory with a ticket, the size of the whole message beside them. */
static int launch(const struct funi_ticket *t, uint32_t at, uint32_t bytes, uint32_t size)
{
	uint32_t handle;
	int code;
	while ((code = funi_sendmsg(&card, t, memory + at, bytes, &size, 1, &handle)) == -ENOBUFS)
		if (wait_for_news())
			return 1;
	return code != 0 ? fail(card.error) : reaches(handle, FUNI_SENT, NULL);
}

/* Node 0: it has a seed, and writes. */
static int writer(void)
{
	struct funi_seed seed, part;
	uint32_t words[FUNI_SEED_SIZE / 4], handle, reason = 0;

	if (receive(FUNI_REQUEST, SEED, words, FUNI_SEED_SIZE / 4))
		return 1;
	if (funi_decode_seed((const uint8_t *)words, sizeof words, &seed) != 0)
		return fail("this is no seed");
	for (int i = 0; i < MESSAGES; i++) {
		for (uint32_t n = 0; n < sizes[i]; n++)
			memory[n] = byte(n, sizes[i]);
		if (launch(&seed.ticket, 0, sizes[i], sizes[i]) || receive(FUNI_REPLY, NEXT, NULL, 0))
			return 1;
	}
	for (uint32_t n = 0; n < PARTS; n++)
		memory[n] = byte(n, PARTS);
	if (funi_split_seed(&seed, FIRST, &part) != 0)
		return fail("the seed cannot be split");
	if (launch(&seed.ticket, FIRST, PARTS - FIRST, PARTS) || launch(&part.ticket, 0, FIRST, PARTS) ||
		receive(FUNI_REPLY, NEXT, NULL, 0))
		return 1;
	if (funi_sendmsg(&card, &seed.ticket, NULL, 0, NULL, 0, &handle) != 0)
		return fail(card.error);
	if (reaches(handle, FUNI_FAILED, &reason))
		return 1;
	if (reason != FUNI_REASON_KEY_SLOT)
		return fail("another reason");
	if (tell(FUNI_REQUEST, 1, END, NULL, 0))
		return 1;
	printf("%d messages of up to %u bytes, and one of two parts; then the key was taken back\n", MESSAGES,
		(unsigned)sizes[MESSAGES - 1]);
	return 0;
}

/* Waits for the record of a message and looks at it. */
static int got(uint32_t size, uint16_t area)
{
	struct funi_notification n;
	while (!funi_get_notification_record(&card, &n))
		if (wait_for_news())
			return 1;
	if (n.area != area || n.source != 1 - card.node || n.words != 1 || n.metadata[0] != size)
		return fail("the record is of something else");
	for (uint32_t i = 0; i < size; i++)
		if (memory[i] != byte(i, size))
			return fail("wrong bytes arrived");
	return 0;
}

/* Node 1: the memory is its. */
static int owner(void)
{
	struct funi_seed seed;
	uint32_t words[FUNI_SEED_SIZE / 4], handle;
	uint64_t key;
	uint16_t area;

	if (funi_expose(&card, memory, BYTES, &key, NULL) != 0 || funi_open_area(&card, key, 4, 0, &area, &handle) != 0)
		return fail(card.error);
	seed = funi_make_seed(&card, key, area, BYTES, 0);
	funi_encode_seed(&seed, (uint8_t *)words);
	if (reaches(handle, FUNI_SENT, NULL) || tell(FUNI_REQUEST, 0, SEED, words, FUNI_SEED_SIZE / 4))
		return 1;
	for (int i = 0; i < MESSAGES; i++)
		if (got(sizes[i], area) || tell(FUNI_REPLY, 0, NEXT, NULL, 0))
			return 1;
	if (got(PARTS, area))
		return 1;
	if (funi_close_area(&card, area, NULL) != 0 || funi_revoke(&card, key, &handle) != 0)
		return fail(card.error);
	return reaches(handle, FUNI_SENT, NULL) || tell(FUNI_REPLY, 0, NEXT, NULL, 0) || receive(FUNI_REQUEST, END, NULL, 0);
}

static int run(void)
{
	const struct funi_remote_sizes remote = { 4, 4, 16 };
	void *segment;
	if (funi_attach_environment_remote(&card, 0, &remote) != 0)
		return fail(card.error);
	if (card.nodes != 2)
		return fail("run two nodes");
	if (funi_register_segment(&card, BASE, BYTES, card.node == 0 ? FUNI_SOURCE : FUNI_KEYED, &segment) != 0)
		return fail(card.error);
	memory = (uint8_t *)segment;
	if (card.node == 0 ? writer() : owner())
		return 1;
	return funi_close(&card, 10000) != 0 ? fail(card.error) : 0;
}

int main(void)
{
	catch_signals();
	return exit_code(run());
}
