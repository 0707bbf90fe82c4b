/* alone: node 0 of a job whose card is this program itself: it says what arrives and what comes
 * back, and looks at what is sent. */
#define _POSIX_C_SOURCE 200809L
#include "funet.h"

enum { SLOTS = 64, NODES = 4, TAKE = 1, SERVE = 2 };

static struct funi_page page __attribute__((aligned(4096)));
static uint8_t memory[1 << 20] __attribute__((aligned(4096)));
static uint32_t queues[4][SLOTS * FUNI_SLOT_WORDS];
static struct funet f;
static uint32_t taken;
static int line;

#define CHECK(true)                                                                          \
	do {                                                                                 \
		if (!(true)) {                                                               \
			printf("case in line %d: line %d: not " #true "; %s\n", line, __LINE__, f.error); \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

static int take(struct funet_message *m)
{
	taken++;
	return m->length > 0 ? 0 : -EINVAL;
}

static int answer(struct funet_message *m) { return funet_answer(m, m->bytes, m->length); }

/* Takes the node's place anew. */
static void begin(int at)
{
	line = at;
	if (f.last != NULL) {
		free(f.pairs);
		free(f.peers);
		free(f.controls);
	}
	memset(&f, 0, sizeof f);
	memset(&page, 0, sizeof page);
	f.card.page = &page;
	f.card.mask = SLOTS - 1;
	f.card.nodes = NODES;
	f.card.socket = f.card.card = f.card.process = -1;
	for (int i = 0; i < 4; i++) {
		int head = FUNI_RPSQ_HEAD + 2 * i;
		struct funi_queue *q = i < 2 ? &f.card.send[i % 2 == 0] : &f.card.receive[i % 2 == 0];
		q->slots = queues[i];
		q->own = &page.reg[i < 2 ? head : head + 1].word;
		q->its = &page.reg[i < 2 ? head + 1 : head].word;
	}
	CHECK(funet_prepare(&f, 0) == 0);
	f.patience = 100;
	f.pieces = (struct funet_piece *)calloc(1, sizeof *f.pieces);
	CHECK(f.pieces != NULL);
	f.pieces->address = f.pieces->segment = FUNET_BASE;
	f.pieces->bytes = f.memory = sizeof memory;
	f.pieces->memory = memory;
	taken = 0;
	CHECK(funet_handle(&f, TAKE, take, NULL) == 0 && funet_serve(&f, SERVE, answer, NULL) == 0);
}

/* A message of a node arrives. */
static uint32_t *arrives(enum funi_level l, uint32_t node, uint32_t type, uint32_t n, const uint32_t *words)
{
	funi_word *head = &page.reg[l == FUNI_REPLY ? FUNI_RPRQ_HEAD : FUNI_RQRQ_HEAD].word;
	uint32_t *slot = f.card.receive[l].slots + *head * FUNI_SLOT_WORDS;
	memset(slot, 0, 4 * FUNI_SLOT_WORDS);
	slot[0] = funi_header(0, type, n);
	if (n > 0)
		memcpy(slot + FUNI_PAYLOAD_WORD, words, 4 * (size_t)n);
	slot[FUNI_SOURCE_WORD] = node;
	*head = (*head + 1) % SLOTS;
	return slot;
}

/* A transfer of many words has arrived. */
static void lands(uint32_t node, uint32_t key, uint32_t address, uint32_t words)
{
	uint32_t *slot = arrives(FUNI_REQUEST, node, FUNET_PART, 0, NULL);
	slot[0] |= FUNI_TRANSFER_BIT | FUNI_MANY_BIT;
	slot[FUNI_DESTINATION_ADDRESS_WORD] = address;
	slot[FUNI_ARGUMENT_WORD] = key;
	slot[FUNI_LENGTH_WORD] = words;
}

/* The card takes the next message from the send queue; NULL: there is none. */
static uint32_t *leaves(enum funi_level l)
{
	funi_word *tail = &page.reg[l == FUNI_REPLY ? FUNI_RPSQ_TAIL : FUNI_RQSQ_TAIL].word;
	uint32_t *slot = f.card.send[l].slots + *tail * FUNI_SLOT_WORDS;
	if (*tail == *f.card.send[l].own)
		return NULL;
	*tail = (*tail + 1) % SLOTS;
	return slot;
}

/* It leaves for a node, and is of a type. */
static uint32_t *leaves_as(enum funi_level l, uint32_t node, uint32_t type)
{
	uint32_t *slot = leaves(l);
	CHECK(slot != NULL && (slot[0] & 0xffff) == node && funi_type(slot[0]) == type);
	return slot + FUNI_PAYLOAD_WORD;
}

static void comes_back(uint32_t reason, enum funi_level l, uint32_t node, uint32_t type, uint32_t word, int transfer)
{
	struct funi_return *r = &page.returns[page.return_head.word++ % FUNI_RETURN_SLOTS];
	r->reason = reason;
	r->level = (uint32_t)l;
	r->header = funi_header((uint16_t)node, type, 1) | (transfer ? FUNI_TRANSFER_BIT : 0);
	r->word = word;
}

static void overflows(void) { page.returns_lost.word += 3; }

/* A node says that a message is ready, and is granted memory: key and address. */
static void granted(uint32_t node, uint32_t id, uint32_t quiet, uint32_t grant[4])
{
	const uint32_t ready[5] = { id, TAKE | quiet, 3000, 0, 0 };
	(void)arrives(FUNI_REQUEST, node, FUNET_READY, 5, ready);
	CHECK(funet_poll(&f) == 1);
	memcpy(grant, leaves_as(FUNI_REPLY, node, FUNET_GRANT), 16);
	CHECK(grant[0] == id && grant[1] != 0 && grant[2] != 0 && grant[3] != 0);
}

/* This node tells node 1 of a message, and is granted memory or not. */
static uint8_t bytes[5000];

static uint32_t posted(uint32_t key)
{
	CHECK(funet_post(&f, 1, TAKE, bytes, 3000, NULL) == 0);
	uint32_t grant[4] = { leaves_as(FUNI_REQUEST, 1, FUNET_READY)[0], key, 0xc0010000, 0 };
	if (key != 0) {
		(void)arrives(FUNI_REPLY, 1, FUNET_GRANT, 4, grant);
		CHECK(funet_poll(&f) == 1);
		(void)leaves_as(FUNI_REQUEST, 1, FUNET_PART);
	}
	return grant[0];
}

int main(void)
{
	uint32_t grant[4], *w, id, got[8];

	/* A grant that has come back, perhaps unread, is told again. */
	begin(__LINE__);
	granted(1, 5, 0, grant);
	comes_back(FUNI_REASON_RESYNCHRONISED, FUNI_REPLY, 1, FUNET_GRANT, 5, 0);
	CHECK(funet_poll(&f) == 0);
	CHECK(memcmp(leaves_as(FUNI_REQUEST, 1, FUNET_GRANT), grant, 16) == 0 && leaves(FUNI_REQUEST) == NULL);

	/* That a message was taken, too; a quiet sender is not told that. */
	begin(__LINE__);
	for (uint32_t quiet = 0; quiet <= FUNET_QUIET; quiet += FUNET_QUIET) {
		granted(1, 5, quiet, grant);
		lands(1, grant[1], grant[2], 752);
		CHECK(funet_poll(&f) == 1 && taken == 1 + (quiet != 0));
		w = leaves(FUNI_REPLY);
		CHECK(quiet ? w == NULL : w != NULL && w[1] == 5 && w[2] == FUNET_DONE);
	}
	comes_back(FUNI_REASON_GIVEN_UP, FUNI_REPLY, 1, FUNET_TAKEN, 5, 0);
	CHECK(funet_poll(&f) == 0);
	w = leaves_as(FUNI_REQUEST, 1, FUNET_TAKEN);
	CHECK(w[0] == 5 && w[1] == FUNET_LOST);

	/* What there is no room for waits for room. */
	begin(__LINE__);
	granted(1, 5, 0, grant);
	for (int i = 0; i < SLOTS - 1; i++)
		CHECK(funet_send(&f, 2, TAKE, bytes, 1) == 0);
	comes_back(FUNI_REASON_RESYNCHRONISED, FUNI_REPLY, 1, FUNET_GRANT, 5, 0);
	CHECK(funet_poll(&f) == 0 && f.control == 1);
	for (int i = 0; i < SLOTS - 1; i++)
		(void)leaves_as(FUNI_REQUEST, 2, FUNET_BYTES);
	CHECK(leaves(FUNI_REQUEST) == NULL && funet_poll(&f) == 0 && f.control == 0);
	(void)leaves_as(FUNI_REQUEST, 1, FUNET_GRANT);

	/* After the return ring has overflowed all who may wait for this node are told, and what waits
	 * here ends. */
	begin(__LINE__);
	const uint32_t call[3] = { 77, SERVE, 1 };
	granted(1, 5, 0, grant);
	granted(2, 6, 0, grant);
	lands(2, grant[1], grant[2], 752);
	(void)arrives(FUNI_REQUEST, 3, FUNET_CALL, 3, call);
	CHECK(funet_poll(&f) == 2);
	(void)leaves_as(FUNI_REPLY, 2, FUNET_TAKEN);
	(void)leaves_as(FUNI_REPLY, 3, FUNET_ANSWER);
	(void)posted(0);
	overflows();
	CHECK(funet_poll(&f) == -EHOSTUNREACH);
	memset(got, 0, sizeof got);
	while ((w = leaves(FUNI_REQUEST)) != NULL) {
		got[0] += funi_type(w[0]) == FUNET_GRANT && (w[0] & 0xffff) == 1 && w[1] == 5;
		got[1] += funi_type(w[0]) == FUNET_TAKEN && (w[0] & 0xffff) == 2 && w[1] == 6 && w[2] == FUNET_LOST;
		got[2] += funi_type(w[0]) == FUNET_ANSWER && (w[0] & 0xffff) == 3 && w[1] == 77 &&
			w[2] == (uint32_t)FUNET_LOST << 16;
		got[3]++;
	}
	CHECK(got[0] == 1 && got[1] == 1 && got[2] == 1 && got[3] == 3);
	CHECK(funet_flush(&f, 1000) == -EHOSTUNREACH && f.sendings == NULL);
	CHECK(funet_poll(&f) == 0 && leaves(FUNI_REQUEST) == NULL);

	/* The memory that was granted to a node that is gone comes free, and what it had announced is
	 * forgotten. */
	begin(__LINE__);
	granted(1, 5, 0, grant);
	comes_back(FUNI_REASON_NO_CONTEXT, FUNI_REQUEST, 1, FUNET_PROBE, 0, 0);
	CHECK(funet_poll(&f) == -EHOSTUNREACH);
	for (int i = 0; i < FUNET_LANDINGS; i++)
		CHECK(!f.landings[i].open);
	CHECK(leaves(FUNI_REQUEST) == NULL);

	/* A second grant of a message that has left whole is no news; one of a message that has ended
	 * is refused. */
	begin(__LINE__);
	id = posted(512);
	CHECK(funet_flush(&f, 1000) == 0);
	const uint32_t twice[4] = { id, 512, 0xc0010000, 0 }, another[4] = { id, 1024, 0xc0010000, 0 };
	(void)arrives(FUNI_REQUEST, 1, FUNET_GRANT, 4, twice);
	CHECK(funet_poll(&f) == 1 && leaves(FUNI_REPLY) == NULL && leaves(FUNI_REQUEST) == NULL);
	(void)arrives(FUNI_REPLY, 1, FUNET_GRANT, 4, another);
	CHECK(funet_poll(&f) == 1 && leaves_as(FUNI_REQUEST, 1, FUNET_ABORT)[0] == 1024);

	/* The receiver of a message of which a part has come back does not wait for it, whether or not
	 * it has left whole. */
	begin(__LINE__);
	(void)posted(512);
	CHECK(funet_flush(&f, 1000) == 0);
	comes_back(FUNI_REASON_RESYNCHRONISED, FUNI_REQUEST, 1, FUNET_PART, 512, 1);
	CHECK(funet_poll(&f) == -EHOSTUNREACH && leaves_as(FUNI_REQUEST, 1, FUNET_ABORT)[0] == 512);

	/* Nor does the receiver of a tagged message whose pieces came back, or that was told so in
	 * vain. */
	begin(__LINE__);
	comes_back(FUNI_REASON_RESYNCHRONISED, FUNI_REQUEST, 1, FUNET_PIECE, 99, 0);
	comes_back(FUNI_REASON_RESYNCHRONISED, FUNI_REQUEST, 2, FUNET_TOLD, 98, 0);
	CHECK(funet_poll(&f) == -EHOSTUNREACH);
	w = leaves_as(FUNI_REQUEST, 1, FUNET_TOLD);
	CHECK(w[0] == 99 && w[1] == (uint32_t)FUNET_FORM_ABORT << 16);
	w = leaves_as(FUNI_REQUEST, 2, FUNET_TOLD);
	CHECK(w[0] == 98 && w[1] == (uint32_t)FUNET_FORM_ABORT << 16);

	/* Envelopes that nobody has received may be among what was lost: their numbers are made void.
	 */
	begin(__LINE__);
	for (int i = 0; i < 3; i++) {
		CHECK(funet_send_tag(&f, 3, 9, bytes, 4) == 0);
		CHECK(leaves_as(FUNI_REQUEST, 3, FUNET_TAGGED)[0] == (uint32_t)i << 2);
	}
	overflows();
	CHECK(funet_poll(&f) == -EHOSTUNREACH);
	for (int i = 0; i < 3; i++) {
		w = leaves_as(FUNI_REQUEST, 3, FUNET_TAGGED);
		CHECK(w[0] == (uint32_t)i << 2 && w[2] == (uint32_t)FUNET_FORM_VOID << 16);
	}

	/* A long tagged message that was asked for in vain is asked for again. */
	begin(__LINE__);
	const uint32_t envelope[5] = { 0, 9, (uint32_t)FUNET_FORM_LONG << 16, 4321, 400 };
	(void)arrives(FUNI_REQUEST, 2, FUNET_TAGGED, 5, envelope);
	CHECK(funet_poll(&f) == 1);
	struct funet_receive_state r;
	funet_expect(&f, &r, 2, FUNET_ANY_TAG, bytes, sizeof bytes);
	for (int i = 0; i < 2; i++) {
		CHECK(funet_poll(&f) == 0);
		w = leaves_as(FUNI_REQUEST, 2, FUNET_TOLD);
		CHECK(w[0] == r.id && w[1] == (uint32_t)FUNET_FORM_GRANT << 16 && w[2] == 4321 && w[3] == 400);
		while (leaves(FUNI_REQUEST) != NULL)
			;
		comes_back(FUNI_REASON_RESYNCHRONISED, FUNI_REQUEST, 2, FUNET_TOLD, r.id, 0);
	}
	f.receivers = NULL;

	/* A barrier goes on although the network has lost this node's word. */
	begin(__LINE__);
	CHECK(funet_barrier(&f, 0) == -ETIMEDOUT && leaves_as(FUNI_REQUEST, 1, FUNET_ROUND)[0] == 1);
	comes_back(FUNI_REASON_RESYNCHRONISED, FUNI_REQUEST, 1, FUNET_ROUND, 1, 0);
	CHECK(funet_poll(&f) == 0);
	w = leaves_as(FUNI_REQUEST, 1, FUNET_ROUND);
	CHECK(w[0] == 1 && w[2] == 0);
	overflows();
	CHECK(funet_poll(&f) == -EHOSTUNREACH);
	w = leaves_as(FUNI_REQUEST, 1, FUNET_ROUND);
	CHECK(w[0] == 1 && w[2] == 0 && leaves(FUNI_REQUEST) == NULL);

	/* Who waits asks all nodes that it waits for whether they are there. */
	begin(__LINE__);
	(void)posted(0);
	CHECK(funet_start(&f, 3, SERVE, bytes, 4, bytes, 4) > 0);
	(void)leaves_as(FUNI_REQUEST, 3, FUNET_CALL);
	CHECK(funet_flush(&f, 700) == -ETIMEDOUT);
	(void)leaves_as(FUNI_REQUEST, 1, FUNET_PROBE);
	(void)leaves_as(FUNI_REQUEST, 3, FUNET_PROBE);
	comes_back(FUNI_REASON_NO_CONTEXT, FUNI_REQUEST, 1, FUNET_PROBE, 0, 0);
	CHECK(funet_flush(&f, 1000) == -EHOSTUNREACH);

	/* A message that is given up before memory was granted for it does not come when that is. */
	begin(__LINE__);
	f.patience = 0;
	CHECK(funet_send(&f, 1, TAKE, bytes, 3000) == -ETIMEDOUT);
	const uint32_t late[4] = { leaves_as(FUNI_REQUEST, 1, FUNET_READY)[0], 512, 0xc0010000, 0 };
	(void)arrives(FUNI_REPLY, 1, FUNET_GRANT, 4, late);
	CHECK(funet_poll(&f) == 1 && leaves_as(FUNI_REQUEST, 1, FUNET_ABORT)[0] == 512 && f.sendings == NULL);

	/* One from memory that was adopted is given up at once, while the card still reads it: the
	 * program has the same bytes, and is not seen to change them. Later messages from there are
	 * copied. */
	begin(__LINE__);
	struct funet_piece *p = (struct funet_piece *)calloc(1, sizeof *p);
	uint8_t *shared = (uint8_t *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | FUNI_MAP_ANONYMOUS, -1, 0);
	CHECK(p != NULL && shared != MAP_FAILED);
	p->address = p->segment = FUNET_BASE + sizeof memory;
	p->bytes = 8192;
	p->memory = shared;
	p->used = p->adopted = 1;
	f.pieces->next = p;
	memset(shared, 7, 8192);
	const uint32_t at_once[4] = { (f.ids + 1) & INT32_MAX, 512, 0xc0010000, 0 };
	(void)arrives(FUNI_REPLY, 1, FUNET_GRANT, 4, at_once);
	f.patience = 0;
	CHECK(funet_send(&f, 1, TAKE, shared + 16, 3000) == -ETIMEDOUT && p->parted);
	(void)leaves_as(FUNI_REQUEST, 1, FUNET_READY);
	w = leaves_as(FUNI_REQUEST, 1, FUNET_PART);
	CHECK(w[0] == p->address + 16 && shared[16] == 7 && shared[8191] == 7 && funet_address(&f, shared + 16, 3000) == 0);
	CHECK(funet_poll(&f) == 0 && leaves_as(FUNI_REQUEST, 1, FUNET_ABORT)[0] == 512 && f.sendings == NULL);

	/* Lives: a node in Go that joins again is refused; that the others went on without this node
	 * ends it. */
	begin(__LINE__);
	const uint32_t hello[5] = { FUNET_HELLO, 35, 0, 0, 0 }, stale[5] = { FUNET_STALE, 1, TAKE, FUNET_BYTES, 0 },
		fence[5] = { FUNET_FENCE, 1, 0, 0, 0 };
	(void)arrives(FUNI_REQUEST, 2, FUNET_MEMBER, 5, hello);
	CHECK(funet_poll(&f) == 1 && leaves_as(FUNI_REPLY, 2, FUNET_MEMBER)[0] == (FUNET_REFUSED | 3 << 10));
	(void)arrives(FUNI_REPLY, 2, FUNET_MEMBER, 5, stale);
	CHECK(funet_poll(&f) == -EHOSTUNREACH && f.back.reason == FUNI_REASON_REPLACED);
	(void)arrives(FUNI_REPLY, 2, FUNET_MEMBER, 5, fence);
	CHECK(funet_poll(&f) == -ENOTCONN);

	/* Who sends to a handler that is not there hears it, whatever the length; an answer without a
	 * text says what its code means. */
	begin(__LINE__);
	const uint32_t nobody[2] = { 77 | 3 << 8, 0 }, missing[2] = { 77, FUNI_REPLY };
	for (int l = 0; l < 2; l++) {
		(void)arrives((enum funi_level)l, 1, FUNET_BYTES, 2, nobody);
		CHECK(funet_poll(&f) == 1 && f.unknown == (uint32_t)l + 1);
		CHECK(l == 0 || (funet_poll(&f) == 0 && leaves_as(FUNI_REQUEST, 1, FUNET_UNHANDLED)[1] == FUNI_REPLY));
		CHECK(l == 1 || (w = leaves_as(FUNI_REPLY, 1, FUNET_UNHANDLED), w[0] == 77 && w[1] == FUNI_REQUEST));
	}
	(void)arrives(FUNI_REPLY, 2, FUNET_UNHANDLED, 2, missing);
	CHECK(funet_poll(&f) == -ENOSYS && strstr(f.error, "handler 77 on node 2") != NULL && funet_poll(&f) == 0);
	f.peers[2].lease = 0xc0020000;
	f.peers[2].idle = (1 << FUNET_LEASE_SLOTS) - 1;
	CHECK(funet_send(&f, 2, 9, bytes, 100) == 0);
	const uint32_t parts[2] = { f.peers[2].used[0], FUNET_NO_HANDLER };
	(void)arrives(FUNI_REPLY, 2, FUNET_TAKEN, 2, parts);
	CHECK(parts[0] != 0 && funet_poll(&f) == -ENOSYS && strstr(f.error, "handler 9 on node 2") != NULL);
	const int64_t asked = funet_start(&f, 3, 5, bytes, 4, NULL, 0);
	const uint32_t none[2] = { (uint32_t)asked - 1, (uint32_t)FUNET_NO_HANDLER << 16 };
	(void)arrives(FUNI_REPLY, 3, FUNET_ANSWER, 2, none);
	CHECK(funet_finish(&f, asked, NULL, 100) == FUNET_NO_HANDLER && strstr(f.error, "no such handler") != NULL);

	/* A message that the daemon gives no memory for is refused in the end; one of all lengths is
	 * not refused at once. */
	begin(__LINE__);
	const uint32_t longest[5] = { 8, TAKE, FUNET_MAX_BYTES, 0, 0 };
	(void)arrives(FUNI_REQUEST, 1, FUNET_READY, 5, longest);
	CHECK(funet_poll(&f) == 1 && leaves(FUNI_REPLY) == NULL && f.waiting != NULL && f.ask != 0);
	f.ask = 0;
	CHECK(funet_poll(&f) == 0 && f.waiting != NULL && f.hungry != 0);
	f.ask = 0;
	f.hungry -= FUNET_HUNGER;
	CHECK(funet_poll(&f) == 0 && f.waiting == NULL && f.hungry == 0);
	w = leaves_as(FUNI_REQUEST, 1, FUNET_TAKEN);
	CHECK(w[0] == 8 && w[1] == FUNET_MEMORY);

	/* A barrier that times out names the node that it has not heard. */
	CHECK(funet_barrier(&f, 1) == -ETIMEDOUT && strstr(f.error, "node 3 has not come") != NULL);

	/* Without a place in a job nothing is done. */
	memset(&f, 0, sizeof f);
	CHECK(funet_call(&f, 1, SERVE, bytes, 4, NULL, 0, NULL, 100) == -ENOTCONN &&
		strstr(f.error, "after funet_close") != NULL);
	CHECK(funet_send(&f, 1, TAKE, bytes, 4) == -ENOTCONN && funet_post(&f, 1, TAKE, bytes, 4, NULL) == -ENOTCONN &&
		funet_poll(&f) == -ENOTCONN);
	CHECK(funet_barrier(&f, 0) == -ENOTCONN && funet_close(&f, 0) == -ENOTCONN && funet_arm(&f) == -ENOTCONN &&
		funet_flush(&f, 0) == -ENOTCONN);
	return 0;
}
