/* rejoin: node 1 is killed by itself, started again, and joins its job. */
#include "check.h"

#include <signal.h>

enum { ECHO = 1 };

static int echo(struct funet_message *m, void *argument)
{
	(void)argument;
	return funet_answer(m, m->bytes, m->length);
}

int main(void)
{
	struct funet_options options = { .rejoin = 1 };
	struct funet_event e[8];
	char answer[8];
	CHECK(0, funet_open(&f, &options, &patient));
	CHECK(0, funet_serve(f, ECHO, echo, NULL));
	int node = funet_node(f), first = getenv("FUNET_LIFE") == NULL || strcmp(getenv("FUNET_LIFE"), "0") == 0;
	CHECK(0, funet_agree(f, &patient));
	CHECK(0, first ? funet_barrier(f, &patient) : 0);
	/* Node 1 may leave this one only when the others have left that one. They see its end here, or
	 * have all that it has sent. */
	int again = first ? funet_barrier(f, &patient) : 0;
	CHECK(1, again == 0 || node != 1);
	if (node == 1 && first) {
		(void)raise(SIGKILL);
	} else if (node != 1) { /* the end, and then the beginning */
		for (uint32_t want = 0; want < 2;) {
			int n = funet_events(f, e, 8);
			CHECK(1, n >= 0);
			for (int i = 0; i < n; i++)
				if (e[i].node == 1 && (want == 1 || e[i].joined == 0)) {
					CHECK(want, e[i].joined);
					CHECK(want, e[i].life);
					want++;
				}
			CHECK(0, funet_run(f, &(struct funet_until){ 5, NULL }));
		}
	}
	CHECK(0, funet_agree(f, &patient));
	CHECK(1, funet_life(f, 1));
	CHECK(1, funet_present(f, 1));
	CHECK(0, funet_barrier(f, &patient));
	CHECK(0, funet_call(f, (node + 1) % 3, ECHO, "again", 6, answer, sizeof answer, NULL, &patient));
	CHECK(0, strcmp(answer, "again"));
	CHECK(0, funet_barrier(f, &patient));
	CHECK(0, funet_close(f, &patient));
	puts("rejoined");
	return 0;
}
