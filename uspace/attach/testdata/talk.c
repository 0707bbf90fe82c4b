/* talk: every node calls every other and sends it messages, with all lengths and all kinds of
 * errors, and checks what comes back.
 *
 *	talk [calls]
 *
 * With an argument it only calls, as nodes of the same job in Go do. The last line is how many
 * messages and calls were checked. */
#include "funet.h"

enum { REVERSE = 1, REFUSE = 2, HUGE_ANSWER = 3, SILENT = 4, NEGATIVE = 5, COUNT = 10, COUNTED = 11 };

static struct funet f;
static uint32_t checks, counted, wrong;

static uint8_t byte(uint32_t node, size_t i) { return (uint8_t)(node * 31 + i * 7 + 1); }

static int fail(const char *what, int code)
{
	printf("node %u: %s: %d %s\n", f.card.node, what, code, f.error);
	return 1;
}

static int reverse(struct funet_message *m)
{
	static uint8_t b[1 << 21];
	for (size_t i = 0; i < m->length; i++)
		b[i] = m->bytes[m->length - 1 - i];
	wrong += funet_poll(&f) != -EDEADLK || funet_call(&f, 0, REVERSE, b, 0, b, 0, NULL, 0) != -EDEADLK ||
		funet_reply(m, COUNTED, b, 0) != -EDEADLK;
	return funet_answer(m, b, m->length);
}

static int refuse(struct funet_message *m)
{
	uint32_t code = 0;
	memcpy(&code, m->bytes, m->length < 4 ? m->length : 4);
	return funet_refuse(m, (int)code, "no %u of that, and a text that is much longer than what travels: %s", code,
		"\xc3\xa4\xc3\xb6\xc3\xbc");
}

static int huge_answer(struct funet_message *m)
{
	return funet_answer(m, &m, FUNET_MAX_BYTES + 1);
}

static int silent(struct funet_message *m) { return m->argument == &f ? 0 : -EIO; }

static int negative(struct funet_message *m) { return m->length == 0 ? -EACCES : -EIO; }

/* A message of the length that its first byte says, each byte after it the next number; it is
 * answered by the sum. */
static int count(struct funet_message *m)
{
	uint32_t sum = (uint32_t)m->length;
	for (size_t i = 0; i < m->length; i++) {
		sum += m->bytes[i];
		wrong += m->bytes[i] != byte(m->source, i);
	}
	return funet_reply(m, COUNTED, &sum, sizeof sum);
}

static int is_counted(struct funet_message *m)
{
	uint32_t sum = 0;
	memcpy(&sum, m->bytes, m->length < 4 ? m->length : 4);
	wrong += m->length != 4 || m->level != FUNI_REPLY || funet_send(&f, 0, COUNT, NULL, 0) != -EDEADLK ||
		funet_reply(m, COUNTED, NULL, 0) != -EDEADLK;
	counted += sum;
	return 0;
}

/* Calls one node with requests and answers of more than a packet. */
static int call_long(uint32_t node)
{
	static uint8_t b[1 << 21], answer[1 << 21];
	size_t length = 0;
	int got;
	for (size_t n = FUNET_CALL_SHORT + 1; n < sizeof b; n = n * 5 - 3) {
		for (size_t i = 0; i < n; i++)
			b[i] = byte(node, i + n);
		if ((got = funet_call(&f, node, REVERSE, b, n, answer, sizeof answer, &length, 30000)) != 0 || length != n)
			return fail("a long call", got);
		for (size_t i = 0; i < n; i++)
			if (answer[i] != b[n - 1 - i])
				return fail("a wrong long answer", (int)i);
		if ((got = funet_call(&f, node, 200, b, n, answer, sizeof answer, &length, 30000)) != FUNET_NO_HANDLER)
			return fail("no handler for a long call", got);
		if ((got = funet_call(&f, node, REVERSE, b, n, answer, n - 1, &length, 30000)) != -EMSGSIZE || length != n)
			return fail("no room for a long answer", got);
		checks++;
	}
	return 0;
}

static int has_counted(void *sum) { return counted == *(uint32_t *)sum; }

/* Calls one node in every way. */
static int call(uint32_t node)
{
	uint8_t b[100], answer[100];
	size_t length = 0;
	uint32_t code = 300;
	int64_t begun[50];
	int got;

	for (size_t n = 0; n <= FUNET_CALL_SHORT; n++) {
		for (size_t i = 0; i < n; i++)
			b[i] = byte(node, i + n);
		if ((got = funet_call(&f, node, REVERSE, b, n, answer, sizeof answer, &length, 20000)) != 0 || length != n)
			return fail("calling", got);
		for (size_t i = 0; i < n; i++)
			if (answer[i] != b[n - 1 - i])
				return fail("a wrong answer", (int)i);
		checks++;
	}
	got = funet_call(&f, node, REFUSE, &code, 4, answer, sizeof answer, &length, 20000);
	if (got != 300 || strstr(f.error, "no 300 of that, and a text") == NULL)
		return fail("a code of the program's", got);
	got = funet_call(&f, node, 200, b, 4, answer, sizeof answer, &length, 20000);
	if (got != FUNET_NO_HANDLER)
		return fail("no handler", got);
	got = funet_call(&f, node, HUGE_ANSWER, b, 4, answer, sizeof answer, &length, 20000);
	if (got != FUNET_LONG)
		return fail("an answer that is too long", got);
	got = funet_call(&f, node, SILENT, b, 4, answer, sizeof answer, &length, 20000);
	if (got != 0 || length != 0)
		return fail("an answer without bytes", got);
	got = funet_call(&f, node, NEGATIVE, b, 0, answer, sizeof answer, &length, 20000);
	if (got != FUNET_ERROR || strstr(f.error, "Permission denied") == NULL)
		return fail("an error without a code", got);
	got = funet_call(&f, node, REVERSE, b, 9, answer, 8, &length, 20000);
	if (got != -EMSGSIZE || length != 9)
		return fail("no room", got);
	if ((got = funet_call(&f, node, REVERSE, b, FUNET_MAX_BYTES + 1, answer, 8, &length, 20000)) != -EMSGSIZE)
		return fail("a call that is too long", got);
	/* Many under way, finished in another order, some given up. */
	for (uint32_t i = 0; i < 50; i++)
		if ((begun[i] = funet_start(&f, node, REVERSE, &i, 4, b + i, 4)) <= 0)
			return fail("beginning a call", (int)begun[i]);
	for (uint32_t i = 50; i-- > 0;)
		if (i % 7 == 0)
			funet_cancel(&f, begun[i]);
		else if ((got = funet_finish(&f, begun[i], &length, 20000)) != 0 || length != 4)
			return fail("finishing a call", got);
	if ((got = funet_finish(&f, begun[3], NULL, 0)) != -EINVAL ||
		(got = funet_finish(&f, begun[7], NULL, 0)) != -EINVAL)
		return fail("finishing it again", got);
	checks += 7;
	return 0;
}

int main(int argc, char **argv)
{
	uint8_t b[FUNET_SHORT + 1];
	uint32_t sum = 0;
	int only = argc > 1 && strcmp(argv[1], "calls") == 0, code = funet_open(&f, NULL);
	if (code != 0)
		return fail("opening", code);
	if ((code = funet_serve(&f, REVERSE, reverse, NULL)) != 0 || (code = funet_serve(&f, REFUSE, refuse, NULL)) != 0 ||
	    (code = funet_serve(&f, HUGE_ANSWER, huge_answer, NULL)) != 0 ||
		(code = funet_serve(&f, SILENT, silent, &f)) != 0 ||
	    (code = funet_serve(&f, NEGATIVE, negative, NULL)) != 0 || (code = funet_handle(&f, COUNT, count, NULL)) != 0 ||
	    (code = funet_handle(&f, COUNTED, is_counted, NULL)) != 0)
		return fail("registering", code);
	if (funet_handle(&f, COUNT, count, NULL) != -EINVAL || funet_serve(&f, COUNT, count, NULL) != -EINVAL ||
	    funet_handle(&f, FUNET_HANDLERS, count, NULL) != -EINVAL || funet_handle(&f, 20, NULL, NULL) != -EINVAL)
		return fail("registering what cannot be", 0);
	for (int i = 0; i < 20; i++)
		if ((code = funet_barrier(&f, 30000)) != 0)
			return fail("a barrier", code);
	for (uint32_t i = 1; i < f.card.nodes; i++)
		if (call((f.card.node + i) % f.card.nodes) != 0)
			return 1;
	for (uint32_t i = 1; i < f.card.nodes; i++)
		if (call_long((f.card.node + i) % f.card.nodes) != 0)
			return 1;
	if ((code = funet_barrier(&f, 30000)) != 0)
		return fail("a barrier", code);
	for (uint32_t i = 0; i < f.card.nodes && !only; i++) /* also to itself */
		for (size_t n = 0; n <= FUNET_SHORT; n++) {
			sum += (uint32_t)n;
			for (size_t k = 0; k < n; k++)
				sum += b[k] = byte(f.card.node, k);
			if ((code = funet_send(&f, i, COUNT, b, n)) != 0)
				return fail("sending", code);
			checks++;
		}
	if ((code = funet_wait(&f, has_counted, &sum, 30000)) != 0)
		return fail("waiting for all sums", code);
	if (funet_send(&f, f.card.nodes, COUNT, b, 1) != -EINVAL || funet_send(&f, 0, 240, b, 1) != -EINVAL)
		return fail("sending what cannot be", 0);
	if (funet_wait(&f, has_counted, &checks, 0) != -ETIMEDOUT || funet_wait(&f, has_counted, &checks, 30) != -ETIMEDOUT)
		return fail("waiting in vain", 0);
	if (wrong != 0 || (code = funet_barrier(&f, 30000)) != 0 || (code = funet_close(&f, 5000)) != 0)
		return fail("at the end", code);
	if (funet_call(&f, 0, COUNT, b, 1, NULL, 0, NULL, 10) != -ENOTCONN || funet_alloc(&f, 1) != NULL ||
		funet_close(&f, 0) != -ENOTCONN)
		return fail("after funet_close", 0);
	printf("%u\n", checks);
	return 0;
}
