/* port: nodes 0 and 1 put into each other's window by triggers, add to a word of node 0, and meet at a
 * barrier in each round. */
#include "funi.h"

#define KEY 0x766e69000000ull /* of key slot 0; both are alone */

static struct funi_context c;

static int fail(const char *what, int code)
{
	printf("%s: %d %s\n", what, code, c.error);
	return 1;
}

/* Issues the instruction that was prepared with the given code. */
static int issue(int code)
{
	uint32_t accepted;
	int status;
	if (code != 0)
		return code;
	while ((status = funi_vci_issue(&c, 1, &accepted)) >= 0 && accepted == 0)
		if (status > FUNI_TRIGGER_FULL)
			return -status;
	return status < 0 ? status : 0;
}

/* Waits for a notification of a kind; others that come before it are counted. */
static int await(enum funi_note_kind kind, uint32_t *early, struct funi_notification *n)
{
	if (early[kind] > 0) {
		early[kind]--;
		return 0;
	}
	for (;;) {
		while (funi_notified(&c, n)) {
			if (n->kind == kind)
				return (int)n->reason;
			early[n->kind]++;
		}
		int code = funi_wait(&c, 30000);
		if (code <= 0 && code != -EINTR)
			return code == 0 ? -ETIMEDOUT : code;
	}
}

int main(int argc, char **argv)
{
	const uint32_t rounds = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	const struct funi_remote_sizes sizes = { 1, 1, 16 };
	uint32_t early[16] = { 0 }, h = 0, accepted;
	uint64_t *memory, one = 1, was;
	void *segment;
	struct funi_notification n;
	int code;

	if ((code = funi_attach_environment_remote(&c, 0, &sizes)) != 0)
		return fail("attaching", code);
	if ((code = funi_issue_by_trigger(&c)) != 0)
		return fail("issuing by triggers", code);
	if ((code = funi_register_segment(&c, 0x10000, 4096, FUNI_KEYED | FUNI_SOURCE, &segment)) != 0)
		return fail("registering", code);
	memory = (uint64_t *)segment;
	if ((code = funi_expose_window_as(&c, memory, 64, 0, FUNI_MAY_READ | FUNI_MAY_WRITE | FUNI_MAY_OPERATE |
		FUNI_MAY_NOTIFY, 4, KEY, &h)) != 0 || (code = funi_await(&c, h, NULL, 0, 30000)) != 0)
		return fail("exposing", code);
	if ((code = funi_vci_issue(&c, 1, &accepted)) != FUNI_TRIGGER_INVALID)
		return fail("issuing nothing", code);
	const struct funi_target other = { (uint16_t)(1 - c.node), KEY, 8 }, sum = { 0, KEY, 0 };
	for (uint64_t i = 0; i < rounds; i++) {
		if ((code = funi_barrier(&c, 3, 2)) != FUNI_TRIGGER_DONE)
			return fail("reaching the barrier", code);
		if ((code = await(FUNI_NOTE_BARRIER, early, &n)) != 0)
			return fail("passing the barrier", code);
		const struct funi_trailer tell = { 1, i, 0, 0, 0, 0 };
		while ((code = funi_put(&c, &other, &i, sizeof i, &tell, NULL)) == -ENOBUFS)
			if ((code = funi_wait(&c, 30000)) < 0 && code != -EINTR) /* which gives notifications back */
				return fail("waiting for room", code);
		if ((code = issue(code)) != 0)
			return fail("putting", code);
		if ((code = await(FUNI_NOTE_WINDOW, early, &n)) != 0)
			return fail("hearing of the other's put", code);
		if (__atomic_load_n(&memory[1], __ATOMIC_SEQ_CST) != i)
			return fail("another number than the round", (int)memory[1]);
		while ((code = funi_atomic(&c, &sum, FUNI_OP_ADD, FUNI_U64, &one, sizeof one, &h)) == -ENOBUFS)
			if ((code = funi_wait(&c, 30000)) < 0 && code != -EINTR)
				return fail("waiting for room", code);
		if (code != 0 || (code = funi_await(&c, h, &was, sizeof was, 30000)) != 0)
			return fail("adding", code);
		if (was < i || was > 2 * i + 1)
			return fail("another sum than there can be", (int)was);
	}
	if ((code = funi_quiet(&c, 30000)) != 0)
		return fail("the rest", code);
	if ((code = funi_barrier(&c, 0, 2)) != FUNI_TRIGGER_DONE || (code = await(FUNI_NOTE_BARRIER, early, &n)) != 0)
		return fail("the last barrier", code);
	if (c.node == 0 && memory[0] != 2 * (uint64_t)rounds)
		return fail("the sum", (int)memory[0]);
	if ((code = funi_close(&c, 1000)) != 0)
		return fail("closing", code);
	printf("passed %u\n", rounds);
	return 0;
}
