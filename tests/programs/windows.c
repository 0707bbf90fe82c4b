/* windows: what funi.h has for windows and chains, between nodes 0 (the owner) and 1 of a job:
 * puts, gets, notifications, signals, locks, a window that is suspended and one that is revoked,
 * and what is refused. Each line that fails is named. */
#define _POSIX_C_SOURCE 200809L
#include "funi.h"

#define CHECK(true) do { if (!(true)) return failed(__LINE__, #true); } while (0)

enum { BASE = 0x10000, BYTES = 1 << 18, HALF = 1 << 17, WAIT = 20000 };

static const uint64_t at = UINT64_C(0x7f0012345000); /* the address of the window's first byte */

static struct funi_context card;
static uint8_t *memory;

static int failed(int line, const char *what)
{
	fprintf(stderr, "windows: node %u: line %d: %s; %s\n", card.node, line, what, card.error);
	return 1;
}

/* Sends a message, which says how far this node is, to the other; or waits for the other's. */
static int tell(uint32_t step, uint64_t v)
{
	uint32_t *s;
	while ((s = funi_send_reserve(&card, FUNI_REQUEST)) == NULL)
		CHECK(funi_wait(&card, WAIT) > 0);
	s[0] = funi_header((uint16_t)(1 - card.node), step, 2);
	s[FUNI_PAYLOAD_WORD] = (uint32_t)v;
	s[FUNI_PAYLOAD_WORD + 1] = (uint32_t)(v >> 32);
	return funi_send_commit(&card, FUNI_REQUEST);
}

static int hear(uint32_t step, uint64_t *v)
{
	const uint32_t *s;
	while ((s = funi_receive(&card, FUNI_REQUEST)) == NULL)
		CHECK(funi_wait(&card, WAIT) > 0);
	CHECK(funi_type(s[0]) == step);
	if (v != NULL)
		*v = (uint64_t)s[FUNI_PAYLOAD_WORD + 1] << 32 | s[FUNI_PAYLOAD_WORD];
	funi_release(&card, FUNI_REQUEST);
	return 0;
}

static int owner(void)
{
	uint64_t key, narrow, word;
	uint32_t h;
	struct funi_notification n;
	CHECK(funi_expose_window(&card, memory, HALF, at, 0, 0, &key, NULL) == -EINVAL);
	CHECK(funi_expose_window(&card, memory, HALF, FUNI_MAX_ADDRESS - HALF + 2, FUNI_MAY_READ, 0, &key,
		NULL) == -EINVAL);
	CHECK(funi_expose_window(&card, memory, HALF, at, FUNI_MAY_READ, 1, &key, NULL) == -EINVAL);
	CHECK(funi_expose_window(&card, memory, HALF, at, FUNI_OPEN_ABSENT, 0, &key, NULL) == -EINVAL);
	CHECK(funi_expose_window(&card, memory, HALF, at,
		FUNI_MAY_READ | FUNI_MAY_WRITE | FUNI_MAY_OPERATE | FUNI_MAY_NOTIFY, 2, &key, &h) == 0);
	CHECK(funi_await(&card, h, NULL, 0, WAIT) == 0 && funi_message_status(&card, h, NULL) == FUNI_SENT);
	CHECK(funi_expose_window(&card, memory + HALF, 64, 0, FUNI_MAY_READ, 0, &narrow, NULL) == 0);
	CHECK(tell(1, key) == 0 && tell(2, narrow) == 0);

	/* more than may be unread: they come in as they are taken */
	for (uint64_t tag = 0; tag < 5; tag++) {
		while (!funi_notified(&card, &n))
			CHECK(funi_wait(&card, WAIT) > 0);
		CHECK(n.kind == FUNI_NOTE_WINDOW && n.source == 1 && n.key_slot == (uint16_t)key &&
			n.tag == tag + (UINT64_C(1) << 40));
		for (int i = 0; i < 10000; i++)
			CHECK(memory[1024 + i] == (uint8_t)(i + (int)tag));
		CHECK(tell(3, tag) == 0);
	}
	CHECK(hear(4, NULL) == 0);
	memcpy(&word, memory + 8, 8);
	CHECK(word == 5 * 7); /* the signals */
	CHECK(funi_suspend(&card, key, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == 0);
	CHECK(tell(5, 0) == 0 && hear(6, NULL) == 0);
	while (!funi_notified(&card, &n))
		CHECK(funi_wait(&card, WAIT) > 0);
	CHECK(n.kind == FUNI_NOTE_FAULT && n.source == 1 && n.key_slot == (uint16_t)key && n.address == at + 16);
	memcpy(&word, memory + 16, 8);
	CHECK(word == 0);
	CHECK(funi_resume(&card, key, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == 0);
	CHECK(hear(7, NULL) == 0);
	memcpy(&word, memory + 16, 8);
	CHECK(word == 9);

	/* Opened absent: what others want of it waits from the start. */
	uint64_t absent;
	CHECK(funi_expose_window(&card, memory + HALF + 64, 64, 0, FUNI_MAY_WRITE | FUNI_MAY_NOTIFY | FUNI_OPEN_ABSENT, 1,
		&absent, &h) == 0);
	CHECK(funi_await(&card, h, NULL, 0, WAIT) == 0 && tell(14, absent) == 0);
	while (!funi_notified(&card, &n))
		CHECK(funi_wait(&card, WAIT) > 0);
	CHECK(n.kind == FUNI_NOTE_FAULT && n.source == 1 && n.key_slot == (uint16_t)absent && n.address == 8);
	CHECK(hear(15, NULL) == 0); /* it has waited in vain */
	memcpy(&word, memory + HALF + 64 + 8, 8);
	CHECK(word == 0);
	CHECK(funi_resume(&card, absent, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == 0 && hear(16, NULL) == 0);
	memcpy(&word, memory + HALF + 64 + 8, 8);
	CHECK(word == 99);

	/* This node and the other lock in turn. */
	const struct funi_target own = { 0, key, 0 };
	CHECK(hear(8, NULL) == 0);                                 /* the other has the lock */
	CHECK(funi_lock(&card, &own, 50) == -ETIMEDOUT);
	CHECK(funi_unlock(&card, &own, WAIT) == -EREMOTEIO);
	CHECK(tell(9, 0) == 0);
	CHECK(funi_lock(&card, &own, WAIT) == 0 && tell(10, 0) == 0 && hear(11, NULL) == 0);
	CHECK(funi_unlock(&card, &own, WAIT) == 0);

	CHECK(funi_revoke(&card, key, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == 0 && tell(12, 0) == 0);
	CHECK(funi_revoke(&card, key, &h) == -ENOENT && funi_suspend(&card, key, &h) == -ENOENT && hear(13, NULL) == 0);
	return 0;
}

static int user(void)
{
	uint64_t key, narrow, v, tag;
	uint32_t h, more[16], reason, words[8];
	CHECK(hear(1, &key) == 0 && hear(2, &narrow) == 0);
	struct funi_target t = { 0, key, at };
	struct funi_trailer both = { 1, 0, FUNI_TRAILER_ADD, key, at + 8, 7 };
	for (tag = 0; tag < 5; tag++) {
		uint8_t *data = memory + 10000 * tag;
		for (int i = 0; i < 10000; i++)
			data[i] = (uint8_t)(i + (int)tag);
	}
	/* A put of many packets, with a notification and a signal behind its data; the next when that
	 * has been looked at. */
	t.address = at + 1024;
	for (tag = 0; tag < 5; tag++) {
		both.tag = tag + (UINT64_C(1) << 40);
		CHECK(funi_put(&card, &t, memory + 10000 * tag, 10000, &both, &h) == 0);
		CHECK(funi_await(&card, h, NULL, 0, WAIT) == 0 && funi_message_status(&card, h, NULL) == FUNI_COMPLETE);
		CHECK(hear(3, &v) == 0 && v == tag);
	}
	CHECK(tell(4, 0) == 0 && hear(5, NULL) == 0);

	/* Suspended: it waits. */
	v = 9;
	t.address = at + 16;
	CHECK(funi_atomic(&card, &t, FUNI_OP_ADD, FUNI_U64, &v, 8, &h) == 0 &&
		funi_await(&card, h, &v, 8, 100) == -ETIMEDOUT);
	CHECK(funi_message_status(&card, h, NULL) == FUNI_PENDING && tell(6, 0) == 0);
	CHECK(funi_await(&card, h, &v, 8, WAIT) == 0 && v == 0 && tell(7, 0) == 0);

	/* Never there so far: so it is with a put, too. */
	struct funi_target absent = { 0, 0, 8 };
	CHECK(hear(14, &absent.key) == 0);
	v = 99;
	CHECK(funi_put(&card, &absent, &v, 8, NULL, &h) == 0 && funi_await(&card, h, NULL, 0, 100) == -ETIMEDOUT &&
		tell(15, 0) == 0);
	CHECK(funi_await(&card, h, NULL, 0, WAIT) == 0 && tell(16, 0) == 0);

	/* Gets, of much and of little; several elements; types. */
	t.address = at + 1024;
	CHECK(funi_get(&card, &t, memory + HALF, 10000, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == 0);
	CHECK(memcmp(memory + HALF, memory + 40000, 10000) == 0);
	const uint32_t three[3] = { 5, UINT32_MAX, 7 };
	t.address = at + 64;
	CHECK(funi_atomic(&card, &t, FUNI_OP_WRITE, FUNI_U32, three, 12, NULL) == 0 && funi_quiet(&card, WAIT) == 0);
	CHECK(funi_atomic(&card, &t, FUNI_OP_ADD, FUNI_U32, three, 12, &h) == 0 &&
		funi_await(&card, h, words, 12, WAIT) == 0 && memcmp(words, three, 12) == 0);
	CHECK(funi_atomic(&card, &t, FUNI_OP_READ, FUNI_U32, NULL, 12, &h) == 0 &&
		funi_await(&card, h, words, 12, WAIT) == 0);
	CHECK(words[0] == 10 && words[1] == UINT32_MAX - 1 && words[2] == 14);
	float real = 1.5f;
	CHECK(funi_atomic(&card, &t, FUNI_OP_WRITE, FUNI_F32, &real, 4, NULL) == 0 && funi_quiet(&card, WAIT) == 0);
	CHECK(funi_atomic(&card, &t, FUNI_OP_PROD, FUNI_F32, &real, 4, &h) == 0 &&
		funi_await(&card, h, &real, 4, WAIT) == 0 && real == 1.5f);
	CHECK(funi_atomic(&card, &t, FUNI_OP_READ, FUNI_F32, NULL, 4, &h) == 0 &&
		funi_await(&card, h, &real, 4, WAIT) == 0 && real == 2.25f);
	const uint16_t mask[2] = { 0xabcd, 0xff00 };
	t.address = at + 80;
	CHECK(funi_atomic(&card, &t, FUNI_OP_MASKED_SWAP, FUNI_U16, mask, 2, &h) == 0 &&
		funi_await(&card, h, words, 2, WAIT) == 0);
	CHECK(funi_get(&card, &t, memory + HALF, 2, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == 0 &&
		memory[HALF] == 0 && memory[HALF + 1] == 0xab);

	/* As many as the ring has room for; the next when one is complete. */
	uint32_t n = 0;
	int code;
	while ((code = funi_put(&card, &t, words, 4, NULL, &more[n])) == 0 && n < 15)
		n++;
	CHECK(code == 0 || code == -ENOBUFS);
	for (uint32_t i = 0; i < n; i++)
		CHECK(funi_await(&card, more[i], NULL, 0, WAIT) == 0);
	CHECK(funi_quiet(&card, WAIT) == 0);
	for (int i = 0; i < 3000; i++) /* handles come around; nothing is asked of them */
		while ((code = funi_put(&card, &t, &i, 4, NULL, i % 2 ? &h : NULL)) != 0)
			CHECK(code == -ENOBUFS && funi_wait(&card, WAIT) >= 0);
	CHECK(funi_quiet(&card, WAIT) == 0 && funi_await(&card, more[0], NULL, 0, 0) == -ENOENT);

	/* What is refused: here, and there. */
	uint8_t own[100] = { 0 };
	t.address = at + HALF - 4;
	CHECK(funi_put(&card, &t, own, 65, NULL, &h) == -EFAULT && funi_get(&card, &t, own, 8, &h) == -EFAULT);
	CHECK(funi_atomic(&card, &t, FUNI_OP_GET, FUNI_U8, NULL, 8, &h) == -EINVAL &&
		funi_atomic(&card, &t, FUNI_OP_ADD, FUNI_U64, own, 12, &h) == -EINVAL);
	CHECK(funi_atomic(&card, &t, FUNI_OP_ADD, FUNI_U64, own, 40, &h) == -EINVAL);
	CHECK(funi_put(&card, &t, own, 8, NULL, NULL) == 0 && funi_quiet(&card, WAIT) == -EREMOTEIO &&
		strstr(card.error, "72") != NULL);
	CHECK(funi_quiet(&card, WAIT) == 0); /* it is told once */
	CHECK(funi_put(&card, &t, own, 8, NULL, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == -EREMOTEIO);
	CHECK(funi_message_status(&card, h, &reason) == FUNI_FAILED && reason == FUNI_REASON_RANGE);
	t.address = at + 1;
	CHECK(funi_atomic(&card, &t, FUNI_OP_ADD, FUNI_U64, own, 8, &h) == 0 &&
		funi_await(&card, h, NULL, 0, WAIT) == -EREMOTEIO);
	CHECK(funi_message_status(&card, h, &reason) == FUNI_FAILED && reason == FUNI_REASON_ALIGNMENT);
	struct funi_target other = { 0, narrow, 0 };
	CHECK(funi_put(&card, &other, own, 8, NULL, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == -EREMOTEIO);
	CHECK(funi_message_status(&card, h, &reason) == FUNI_FAILED && reason == FUNI_REASON_RIGHTS);
	other.address = FUNI_MAX_ADDRESS + 1;
	CHECK(funi_put(&card, &other, own, 8, NULL, &h) == -EINVAL);
	both.signal = 3;
	CHECK(funi_put(&card, &t, own, 8, &both, &h) == -EINVAL);

	/* Chains: what is refused here, by this card, and by the other node, which is a member of none.
	 */
	const struct funi_chain beyond = { FUNI_MAX_CHAINS, 1, 0, 0, { { 0, 0 } } },
		wide = { 5, 1, 0, FUNI_MAX_NEXT + 1, { { 0, 0 } } };
	const struct funi_chain twice = { 5, 1, 0, 2, { { 0, 1 }, { 0, 1 } } };
	struct funi_delivery d;
	uint32_t long_one[FUNI_MAX_MULTICAST_WORDS + 1] = { 0 };
	CHECK(funi_join(&card, &beyond, &h) == -EINVAL && funi_join(&card, &wide, &h) == -EINVAL &&
		funi_leave(&card, FUNI_MAX_CHAINS, &h) == -EINVAL);
	CHECK(funi_join(&card, &twice, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == -EREMOTEIO);
	CHECK(funi_message_status(&card, h, &reason) == FUNI_FAILED && reason == FUNI_REASON_NOT_OPENED);
	CHECK(funi_leave(&card, 5, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == -EREMOTEIO);
	CHECK(funi_multicast(&card, 0, 5, 1, 1, long_one, FUNI_MAX_MULTICAST_WORDS + 1, &h) == -EMSGSIZE);
	CHECK(funi_multicast(&card, 0, 5, 1, FUNI_MAX_TYPE + 1, NULL, 0, &h) == -EINVAL &&
		funi_multicast(&card, 0, 5, 0, 1, NULL, 0, &h) == -EINVAL);
	CHECK(funi_multicast(&card, 0, FUNI_MAX_CHAINS, 1, 1, NULL, 0, &h) == -EINVAL);
	CHECK(funi_multicast_put(&card, 0, 5, 1, key, at, own, FUNI_MAX_MULTICAST_BYTES + 1, &h) == -EMSGSIZE);
	CHECK(funi_multicast_put(&card, 0, 5, 1, key, FUNI_MAX_ADDRESS + 1, own, 1, &h) == -EINVAL);
	CHECK(funi_multicast(&card, 0, 5, 3, 1, long_one, FUNI_MAX_MULTICAST_WORDS, &h) == 0 &&
		funi_await(&card, h, NULL, 0, WAIT) == -EREMOTEIO);
	CHECK(funi_message_status(&card, h, &reason) == FUNI_FAILED && reason == FUNI_REASON_CHAIN &&
		funi_delivered(&card, h, &d) == 0);
	CHECK(d.delivered == 0 && d.failed == 3 && d.named == 1 && d.broken[0].node == 0 &&
		d.broken[0].reason == FUNI_REASON_CHAIN);
	CHECK(funi_multicast_put(&card, 0, 5, 1, key, at, own, FUNI_MAX_MULTICAST_BYTES, NULL) == 0 &&
		funi_quiet(&card, WAIT) == -EREMOTEIO);
	CHECK(strstr(card.error, "83") != NULL && funi_quiet(&card, WAIT) == 0 && funi_delivered(&card, 0, &d) == -ENOENT);
	CHECK(funi_expose_window_as(&card, memory, 64, 0, FUNI_MAY_READ, 0, 0, &h) == -EINVAL);
	CHECK(funi_expose_window_as(&card, memory, 64, 0, FUNI_MAY_READ, 0, UINT64_C(77) << 16 | 0xfff0, &h) == -ENOBUFS);

	/* Locks. */
	t.address = at;
	CHECK(funi_lock(&card, &t, WAIT) == 0 && tell(8, 0) == 0 && hear(9, NULL) == 0);
	CHECK(funi_put(&card, &t, own, 4, NULL, NULL) == 0 && funi_unlock(&card, &t, WAIT) == 0);
	CHECK(hear(10, NULL) == 0);
	CHECK(funi_put(&card, &t, own, 4, NULL, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == -EREMOTEIO);
	CHECK(funi_message_status(&card, h, &reason) == FUNI_FAILED && reason == FUNI_REASON_LOCKED);
	CHECK(tell(11, 0) == 0 && hear(12, NULL) == 0);
	CHECK(funi_put(&card, &t, own, 4, NULL, &h) == 0 && funi_await(&card, h, NULL, 0, WAIT) == -EREMOTEIO);
	CHECK(funi_message_status(&card, h, &reason) == FUNI_FAILED && reason == FUNI_REASON_KEY_SLOT);
	return tell(13, 0);
}

int main(void)
{
	const struct funi_remote_sizes remote = { 4, 1, 16 };
	void *segment;
	CHECK(funi_attach_environment_remote(&card, 0, &remote) == 0);
	CHECK(funi_register_segment(&card, BASE, BYTES, FUNI_SOURCE | FUNI_KEYED, &segment) == 0);
	memory = (uint8_t *)segment;
	if (card.node == 0 ? owner() : user())
		return 1;
	CHECK(funi_close(&card, 10000) == 0);
	return 0;
}
