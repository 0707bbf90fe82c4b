/* begun: sends and receives that are begun and finished in another order, errors that belong to no
 * call, polls of one thread while others work and while the endpoint is closed, and paths. */
#include "check.h"

#include <pthread.h>

enum { KEPT = 1, FAILING = 2, NOBODYS = 3, SENDS = 40, LONGEST = 200000, ROUNDS = 3000, LINES = 500 };

static int node, nodes, next, before;
static uint8_t *out[SENDS], *in[SENDS];

static size_t length_of(int i) { return (size_t)(i * i * i) * 3 % LONGEST; }

/* Messages to the next node, some long, finished from the last one on. */
static void sends(void)
{
	static uint8_t memory[(LONGEST + 8) * 4];
	struct funet_pending *p[SENDS];
	struct funet_message m[4];
	int got = 0;
	for (int i = 0; i < SENDS; i++) {
		fill(out[i], length_of(i), i);
		CHECK(0, funet_start_send(f, next, KEPT, out[i], length_of(i), &p[i], &patient));
	}
	while (got < SENDS) {
		int n = funet_poll(f, m, 4, memory, sizeof memory, &patient);
		CHECK(1, n > 0);
		for (int k = 0; k < n; k++) {
			int i = 0;
			while (i < SENDS && (length_of(i) != m[k].length || !same(m[k].bytes, m[k].length, i)))
				i++;
			CHECK(1, i < SENDS);
			CHECK(before, m[k].source);
		}
		got += n;
	}
	for (int i = SENDS - 1; i >= 0; i--) {
		CHECK(0, funet_finish(p[i], NULL, 0, NULL, &patient));
		CHECK(FUNET_ARGUMENT, funet_finish(p[i], NULL, 0, NULL, &patient));
	}
	CHECK(FUNET_NODE, funet_start_send(f, nodes, KEPT, out[0], 1, &p[0], &patient));
	CHECK(FUNET_ARGUMENT, funet_start_send(f, next, KEPT, out[0], 1, NULL, &patient));
}

/* Receives that are begun first, and one that nothing is sent for. */
static void tags(void)
{
	struct funet_pending *p[SENDS], *q[SENDS], *none;
	struct funet_received what;
	for (int i = 0; i < SENDS; i++)
		CHECK(0, funet_start_receive(f, i % 2 == 0 ? before : FUNET_ANY_NODE, 7, in[i], LONGEST, &p[i], &patient));
	CHECK(0, funet_start_receive(f, before, 8, out[0], 8, &none, &patient));
	CHECK(FUNET_TIMEOUT, funet_finish_receive(none, NULL, &now_));
	CHECK(0, funet_barrier(f, &patient));
	for (int i = 0; i < SENDS; i++) {
		fill(out[i], length_of(i), i + node);
		CHECK(0, funet_start_send_tag(f, next, 7, out[i], length_of(i), &q[i], &patient));
	}
	for (int i = SENDS - 1; i >= 0; i--) {
		CHECK(0, funet_finish_receive(p[i], &what, &patient));
		CHECK(length_of(i), what.length);
		CHECK(before, what.source);
		CHECK(1, what.tag == 7 && same(in[i], what.length, i + before));
		CHECK(0, funet_finish(q[i], NULL, 0, NULL, &patient));
	}
	CHECK(FUNET_TIMEOUT, funet_finish_receive(none, &what, &(struct funet_until){ 20, NULL }));
	CHECK(0, funet_abandon(none));
	CHECK(FUNET_ARGUMENT, funet_finish_receive(none, &what, &patient));
	CHECK(FUNET_TAG, funet_start_send_tag(f, next, UINT32_C(1) << 31, out[0], 1, &q[0], &patient));
	CHECK(FUNET_NODE, funet_start_receive(f, nodes, 7, in[0], 1, &p[0], &patient));
}

static struct {
	int handlers, undelivered, others;
} told;

static void failed(enum funet_code code, const char *text, void *argument)
{
	told.handlers += code == FUNET_CLOSED && strstr(text, "it returned -9") != NULL && argument == &told;
	told.undelivered += code == FUNET_NO_HANDLER;
	told.others += funet_progress(f) != FUNET_HANDLER || (code != FUNET_CLOSED && code != FUNET_NO_HANDLER);
}

static int fails(struct funet_message *m, void *argument)
{
	(void)m;
	(void)argument;
	return -9;
}

static int all_told(void *unused)
{
	(void)unused;
	return told.handlers == 1 && told.undelivered == 1;
}

/* A handler that fails, and a message that nobody handles: the endpoint lives on. */
static void errors(void)
{
	CHECK(0, funet_send(f, next, FAILING, "x", 1, &patient));
	CHECK(0, funet_send(f, next, NOBODYS, "x", 1, &patient));
	CHECK(0, funet_wait(f, all_told, NULL, &patient));
	CHECK(0, funet_barrier(f, &patient));
	CHECK(0, told.others);
}

/* A number goes round by polls that do not wait; all find it that way. */
static void rounds(void)
{
	struct funet_message m;
	uint64_t number = 0, memory;
	if (node == 0)
		CHECK(0, funet_send(f, next, KEPT, &number, sizeof number, &patient));
	for (uint64_t i = 0; i < ROUNDS; i++) {
		int n;
		while ((n = funet_poll(f, &m, 1, &memory, sizeof memory, &now_)) == 0)
			;
		CHECK(1, n);
		memcpy(&number, m.bytes, sizeof number);
		CHECK(i + (node == 0), number);
		number += node == nodes - 1;
		if (i + 1 < ROUNDS || node != 0)
			CHECK(0, funet_send(f, next, KEPT, &number, sizeof number, &patient));
	}
}

/* Lines to the next node, and from the one before. */
static void paths(void)
{
	struct funet_path *to, *from;
	uint64_t line[FUNET_LINE];
	CHECK(FUNET_ARGUMENT, funet_open_receiver(f, before, 33, &from, &patient));
	CHECK(FUNET_NODE, funet_open_sender(f, nodes, &to, &patient));
	for (int again = 0; again < 2; again++) {
		CHECK(0, funet_open_sender(f, next, &to, &patient));
		CHECK(0, funet_open_receiver(f, before, 1024, &from, &patient));
		CHECK(FUNET_ARGUMENT, funet_send_line(to, line, 8, &patient));
		CHECK(FUNET_ARGUMENT, funet_send_line(from, line, 1, &patient));
		CHECK(FUNET_ARGUMENT, funet_receive_line(to, line, &patient));
		for (uint64_t i = 0; i < LINES; i++) {
			for (uint64_t k = 0; k < FUNET_LINE; k++)
				line[k] = i * 8 + k + (uint64_t)node * 1000000;
			CHECK(0, funet_send_line(to, line, 1 + (int)(i % FUNET_LINE), &patient));
		}
		CHECK(0, funet_flush_lines(to, &patient));
		for (uint64_t i = 0; i < LINES; i++) {
			CHECK(1 + i % FUNET_LINE, funet_receive_line(from, line, i % 2 ? &patient : NULL));
			for (uint64_t k = 0; k < 1 + i % FUNET_LINE; k++)
				CHECK(i * 8 + k + (uint64_t)before * 1000000, line[k]);
		}
		CHECK(FUNET_TIMEOUT, funet_receive_line(from, line, &now_));
		CHECK(0, funet_barrier(f, &patient));
		CHECK(0, funet_close_path(to, &patient));
		CHECK(0, funet_receive_line(from, line, &patient));
		CHECK(0, funet_close_path(from, &patient));
		CHECK(FUNET_ARGUMENT, funet_receive_line(from, line, &patient));
		CHECK(0, funet_barrier(f, &patient));
	}
}

/* Polls until the endpoint is closed. */
static void *polls(void *last)
{
	int n;
	while ((n = funet_progress(f)) >= 0)
		;
	*(int *)last = n;
	return NULL;
}

/* Handles of an endpoint that was closed are refused, also when there is another. */
static void ended(struct funet_path *path, struct funet_pending *old)
{
	struct funet_options options = { .windows = 4 };
	struct funet_pending *others[5 * SENDS];
	CHECK(FUNET_ARGUMENT, funet_close_path(path, &patient));
	CHECK(0, funet_open(&f, &options, &patient));
	for (int i = 0; i < 5 * SENDS; i++)
		CHECK(0, funet_start_receive(f, before, 9, in[i % SENDS], 8, &others[i], &patient));
	CHECK(FUNET_ARGUMENT, funet_finish_receive(old, NULL, &now_));
	CHECK(0, funet_close(f, &patient));
}

int main(void)
{
	struct funet_options options = { .windows = 4, .failed = failed, .argument = &told };
	struct funet_pending *old;
	struct funet_path *path;
	pthread_t thread;
	int last = 0;
	CHECK(0, funet_open(&f, &options, &patient));
	node = funet_node(f);
	nodes = funet_nodes(f);
	next = (node + 1) % nodes;
	before = (node + nodes - 1) % nodes;
	for (int i = 0; i < SENDS; i++) {
		out[i] = malloc(LONGEST);
		in[i] = malloc(LONGEST);
	}
	CHECK(0, funet_collect(f, KEPT));
	CHECK(0, funet_handle(f, FAILING, fails, NULL));
	CHECK(0, funet_barrier(f, &patient));
	sends();
	CHECK(0, funet_barrier(f, &patient));
	tags();
	CHECK(0, funet_barrier(f, &patient));
	errors();
	rounds();
	CHECK(0, funet_barrier(f, &patient));
	paths();
	CHECK(0, pthread_create(&thread, NULL, polls, &last));
	for (int i = 0; i < 100; i++)
		CHECK(0, funet_barrier(f, &patient));
	CHECK(0, funet_open_sender(f, next, &path, &patient));
	CHECK(0, funet_start_receive(f, before, 9, out[0], 8, &old, &patient));
	CHECK(0, funet_close(f, &patient));
	CHECK(0, pthread_join(thread, NULL));
	CHECK(1, last == FUNET_CLOSED || last == FUNET_ARGUMENT);
	ended(path, old);
	for (int i = 0; i < SENDS; i++) {
		free(out[i]);
		free(in[i]);
	}
	puts("begun and finished");
	return 0;
}
