/* talk: every node calls every other and sends it messages, with all lengths and all kinds of
 * errors, and checks what comes back. */
#include "check.h"

enum { REVERSE = 1, REFUSE = 2, HUGE_ANSWER = 3, SILENT = 4, NEGATIVE = 5, COUNT = 10, COUNTED = 11, KEPT = 12,
	LONGEST = 3000001 };

static uint32_t counted, wrong;
static uint8_t *bytes, *answer;

static const size_t lengths[] = { 0, 1, 71, 72, 73, 76, 77, 80, 81, 95, 96, 97, 1000, 2044, 2047, 2048, 2049, 4096,
	4097, 65536, 524287, 524288, 524289, 1048577, LONGEST };
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static int reverse(struct funet_message *m, void *argument)
{
	static uint8_t b[LONGEST];
	for (size_t i = 0; i < m->length; i++)
		b[i] = ((const uint8_t *)m->bytes)[m->length - 1 - i];
	wrong += funet_progress(f) != FUNET_HANDLER || funet_barrier(f, NULL) != FUNET_HANDLER ||
		funet_call(f, 0, REVERSE, b, 0, b, 0, NULL, NULL) != FUNET_HANDLER ||
		funet_send(f, 0, COUNT, b, 1, NULL) != FUNET_HANDLER || funet_close(f, NULL) != FUNET_HANDLER ||
		funet_reply(m, COUNTED, b, 0) != FUNET_HANDLER || argument != NULL;
	return funet_answer(m, b, m->length);
}

static int refuse(struct funet_message *m, void *argument)
{
	uint32_t code = 0;
	(void)argument;
	memcpy(&code, m->bytes, m->length < 4 ? m->length : 4);
	wrong += funet_refuse(m, 255, "no code of a program") != FUNET_ARGUMENT;
	return funet_refuse(m, code, "no 300 of that, and a text that is much longer than what travels, which is 72 bytes");
}

static int huge_answer(struct funet_message *m, void *argument)
{
	(void)argument;
	wrong += funet_answer(m, bytes, (size_t)FUNET_MAX_BYTES + 1) != FUNET_LONG;
	return 0;
}

static int silent(struct funet_message *m, void *argument)
{
	return argument == &f && m->source < funet_nodes(f) ? 0 : -1;
}

static int negative(struct funet_message *m, void *argument)
{
	(void)m;
	(void)argument;
	return -5;
}

/* Checks a message, and replies with its length. */
static int count(struct funet_message *m, void *argument)
{
	uint32_t length = (uint32_t)m->length;
	(void)argument;
	wrong += m->handler != COUNT || !same(m->bytes, m->length, m->source + (int)length) ||
		funet_answer(m, m->bytes, 1) != FUNET_HANDLER;
	return funet_reply(m, COUNTED, &length, sizeof length);
}

static int is_counted(struct funet_message *m, void *argument)
{
	uint32_t length = 0;
	(void)argument;
	memcpy(&length, m->bytes, m->length < 4 ? m->length : 4);
	wrong += m->length != 4 || funet_reply(m, COUNTED, NULL, 0) != FUNET_HANDLER;
	counted += length + 1;
	return 0;
}

static int has_counted(void *sum) { return counted == *(uint32_t *)sum; }

/* Calls one node in every way. */
static void call(int node)
{
	size_t length = 0;
	uint32_t code = 300;
	struct funet_pending *begun[50];
	for (size_t k = 0; k < LENGTHS; k++) {
		size_t n = lengths[k];
		fill(bytes, n, node);
		CHECK(0, funet_call(f, node, REVERSE, bytes, n, answer, n, &length, &patient));
		CHECK(n, length);
		for (size_t i = 0; i < n; i++)
			if (answer[i] != bytes[n - 1 - i])
				CHECK(bytes[n - 1 - i], answer[i]);
		if (n > 0)
			CHECK(FUNET_LONG, funet_call(f, node, REVERSE, bytes, n, answer, n - 1, &length, &patient));
		CHECK(n, length);
		CHECK(FUNET_NO_HANDLER, funet_call(f, node, 200, bytes, n, NULL, 0, NULL, &patient));
	}
	CHECK(FUNET_REFUSED, funet_call(f, node, REFUSE, &code, 4, answer, 9, NULL, &patient));
	CHECK(300, funet_refusal());
	CHECK(1, strstr(funet_error(), "no 300 of that, and a text") != NULL);
	CHECK(FUNET_LONG, funet_call(f, node, HUGE_ANSWER, bytes, 4, answer, 9, NULL, &patient));
	CHECK(0, funet_call(f, node, SILENT, bytes, 4, answer, 9, &length, &patient));
	CHECK(0, length);
	CHECK(FUNET_REFUSED, funet_call(f, node, NEGATIVE, bytes, 0, answer, 9, NULL, &patient));
	CHECK(1, funet_refusal());
	CHECK(FUNET_LONG, funet_call(f, node, REVERSE, bytes, (size_t)FUNET_MAX_BYTES + 1, answer, 8, NULL, &patient));
	CHECK(FUNET_ARGUMENT, funet_call(f, node, REVERSE, (void *)16, 4, answer, 8, NULL, &patient));
	CHECK(FUNET_ARGUMENT, funet_call(f, node, REVERSE, bytes, 4, (void *)16, 8, NULL, &patient));
	/* Many in flight, finished in another order, some given up. */
	for (uint32_t i = 0; i < 50; i++)
		CHECK(0, funet_start_call(f, node, REVERSE, &i, 4, &begun[i]));
	for (uint32_t i = 50; i-- > 0;)
		if (i % 7 == 0) {
			CHECK(0, funet_abandon(begun[i]));
		} else {
			CHECK(0, funet_finish(begun[i], answer, 4, &length, &patient));
			CHECK(4, length);
			CHECK(i, answer[3]);
		}
	CHECK(FUNET_ARGUMENT, funet_finish(begun[3], NULL, 0, NULL, &now_));
	CHECK(FUNET_ARGUMENT, funet_abandon(begun[7]));
}

/* Sends messages of all lengths to a node, to a handler and to an inbox. */
static uint32_t send_all(int node)
{
	uint32_t sum = 0;
	for (size_t k = 0; k < LENGTHS; k++) {
		size_t n = lengths[k];
		fill(bytes, n, funet_node(f) + (int)n);
		CHECK(0, funet_send(f, node, COUNT, bytes, n, &patient));
		CHECK(0, funet_send(f, node, KEPT, bytes, n, &patient));
		sum += (uint32_t)n + 1;
	}
	return sum;
}

/* Takes the messages of the inbox, with little memory, and more where one needs it. */
static void take_all(uint32_t want)
{
	struct funet_message m[8];
	size_t room = 5000;
	uint64_t sum = 0, told = 0;
	for (uint32_t taken = 0; taken < want;) {
		int n = funet_poll(f, m, 8, answer, room, &patient);
		if (n == FUNET_LONG) {
			CHECK(1, m[0].length > room && m[0].length <= LONGEST);
			room = m[0].length;
			continue;
		}
		CHECK(1, n > 0);
		for (int i = 0; i < n; i++) {
			CHECK(KEPT, m[i].handler);
			CHECK(0, (uintptr_t)m[i].bytes % 8);
			CHECK(1, same(m[i].bytes, m[i].length, m[i].source + (int)m[i].length));
			told += m[i].length;
		}
		taken += (uint32_t)n;
	}
	for (size_t k = 0; k < LENGTHS; k++)
		sum += lengths[k];
	CHECK(sum * (uint64_t)funet_nodes(f), told);
	CHECK(0, funet_poll(f, m, 8, answer, 9, &now_));
	CHECK(0, funet_poll(f, m, 8, answer, 9, &(struct funet_until){ 20, NULL }));
	CHECK(FUNET_ARGUMENT, funet_poll(f, m, 0, answer, 9, &now_));
	CHECK(FUNET_ARGUMENT, funet_poll(f, NULL, 1, answer, 9, &now_));
}

/* What cannot be, and waits in vain. */
static void refusals(uint32_t sum)
{
	struct funet_cancellation *cancel;
	struct funet_until until = { -1, NULL };
	int nodes = funet_nodes(f);
	uint32_t other = sum + 1;
	CHECK(FUNET_NUMBER, funet_handle(f, COUNT, count, NULL));
	CHECK(FUNET_NUMBER, funet_serve(f, REVERSE, reverse, NULL));
	CHECK(FUNET_NUMBER, funet_collect(f, FUNET_HANDLERS));
	CHECK(FUNET_ARGUMENT, funet_handle(f, 20, NULL, NULL));
	CHECK(FUNET_NODE, funet_send(f, nodes, COUNT, bytes, 1, NULL));
	CHECK(FUNET_NODE, funet_send(f, -1, COUNT, bytes, 5000, NULL));
	CHECK(FUNET_NUMBER, funet_send(f, 0, 240, bytes, 1, NULL));
	CHECK(FUNET_LONG, funet_send(f, 0, COUNT, bytes, (size_t)FUNET_MAX_BYTES + 1, NULL));
	CHECK(FUNET_ARGUMENT, funet_send(NULL, 0, COUNT, bytes, 1, NULL));
	CHECK(FUNET_ARGUMENT, funet_node((struct funet *)77));
	CHECK(FUNET_TIMEOUT, funet_wait(f, has_counted, &other, &now_));
	CHECK(FUNET_TIMEOUT, funet_wait(f, has_counted, &other, &(struct funet_until){ 30, NULL }));
	CHECK(0, funet_run(f, &(struct funet_until){ 30, NULL }));
	CHECK(0, funet_cancel_new(&cancel));
	until.cancel = cancel;
	CHECK(0, funet_wait(f, has_counted, &sum, &until));
	CHECK(0, funet_cancel(cancel));
	CHECK(FUNET_CANCELLED, funet_wait(f, has_counted, &other, &until));
	CHECK(FUNET_CANCELLED, funet_receive(f, FUNET_ANY_NODE, FUNET_ANY_TAG, bytes, 1, NULL, &until));
	CHECK(0, funet_cancel_free(cancel));
	CHECK(FUNET_ARGUMENT, funet_cancel(cancel));
	CHECK(FUNET_ARGUMENT, funet_run(f, &until));
}

int main(void)
{
	uint32_t sum = 0;
	bytes = malloc(LONGEST);
	answer = malloc(LONGEST + 64);
	CHECK(FUNET_ARGUMENT, funet_open(NULL, NULL, NULL));
	CHECK(0, funet_open(&f, NULL, &patient));
	CHECK(0, funet_serve(f, REVERSE, reverse, NULL));
	CHECK(0, funet_serve(f, REFUSE, refuse, NULL));
	CHECK(0, funet_serve(f, HUGE_ANSWER, huge_answer, NULL));
	CHECK(0, funet_serve(f, SILENT, silent, &f));
	CHECK(0, funet_serve(f, NEGATIVE, negative, NULL));
	CHECK(0, funet_handle(f, COUNT, count, NULL));
	CHECK(0, funet_handle(f, COUNTED, is_counted, NULL));
	CHECK(0, funet_collect(f, KEPT));
	int nodes = funet_nodes(f), node = funet_node(f);
	for (int i = 0; i < 20; i++)
		CHECK(0, funet_barrier(f, &patient));
	for (int i = 1; i < nodes; i++)
		call((node + i) % nodes);
	CHECK(0, funet_barrier(f, &patient));
	for (int i = 0; i < nodes; i++) /* also to itself */
		sum += send_all((node + i) % nodes);
	take_all(LENGTHS * (uint32_t)nodes);
	CHECK(0, funet_wait(f, has_counted, &sum, &patient));
	refusals(sum);
	CHECK(0, wrong);
	CHECK(0, funet_barrier(f, &patient));
	CHECK(0, funet_close(f, &patient));
	CHECK(FUNET_ARGUMENT, funet_call(f, 0, COUNT, bytes, 1, NULL, 0, NULL, &patient));
	CHECK(FUNET_ARGUMENT, funet_close(f, &patient));
	CHECK(FUNET_ARGUMENT, funet_node(f));
	puts("talked");
	free(bytes);
	free(answer);
	return 0;
}
