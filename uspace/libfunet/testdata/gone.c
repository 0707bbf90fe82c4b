/* gone: node 1 is killed in a handler. Everything that waits for it ends with an error that names
 * it, and the rest goes on. The launcher's SIGTERM is ignored meanwhile. */
#include "check.h"

#include <signal.h>

enum { DIE = 1, ECHO = 2 };

static int die(struct funet_message *m, void *argument)
{
	(void)m;
	(void)argument;
	return raise(SIGKILL);
}

static int echo(struct funet_message *m, void *argument)
{
	(void)argument;
	return funet_answer(m, m->bytes, m->length);
}

int main(void)
{
	char answer[8] = "";
	struct funet_pending *call;
	(void)signal(SIGTERM, SIG_IGN);
	CHECK(0, funet_open(&f, NULL, &patient));
	CHECK(0, funet_serve(f, DIE, die, NULL));
	CHECK(0, funet_serve(f, ECHO, echo, NULL));
	CHECK(0, funet_barrier(f, &patient));
	if (funet_node(f) == 1)
		return funet_run(f, &patient);
	CHECK(0, funet_start_call(f, 1, DIE, "now", 4, &call));
	CHECK(FUNET_UNREACHABLE, funet_finish(call, answer, sizeof answer, NULL, &patient));
	CHECK(1, strstr(funet_error(), "node 1") != NULL);
	CHECK(FUNET_UNREACHABLE, funet_receive(f, 1, 5, answer, sizeof answer, NULL, &patient));
	CHECK(FUNET_UNREACHABLE, funet_barrier(f, &patient));
	CHECK(0, funet_call(f, 0, ECHO, "self", 5, answer, sizeof answer, NULL, &patient));
	CHECK(0, strcmp(answer, "self"));
	(void)funet_close(f, &patient);
	puts("told");
	return 0;
}
