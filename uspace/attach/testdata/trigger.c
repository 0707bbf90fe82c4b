/* trigger: node 1 issues by triggers as many messages to itself as the argument says, and receives
 * them in order. */
#include "funi.h"

static struct funi_context c;

static int fail(const char *what, int code)
{
	printf("%s: %d %s\n", what, code, c.error);
	return 1;
}

int main(int argc, char **argv)
{
	const uint32_t last = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	uint32_t sent = 0, received = 0, count;
	int n, status;

	if ((n = funi_attach_environment(&c, 0)) != 0)
		return fail("attaching", n);
	if ((n = funi_issue_by_trigger(&c)) != 0)
		return fail("issuing by triggers", n);
	while (received < last) {
		const uint32_t *m;
		uint32_t *s;
		if ((status = funi_trigger_answer(&c, &count)) > FUNI_TRIGGER_FULL)
			return fail("a trigger", status);
		for (; sent < last && (s = funi_send_reserve(&c, FUNI_REQUEST)) != NULL; sent++) {
			s[0] = funi_header(1, 5, 1);
			s[1] = sent;
			if ((n = funi_send_commit(&c, FUNI_REQUEST)) != 0)
				return fail("sending", n);
		}
		if (status != -EAGAIN && (count = funi_unissued(&c)) > 0)
			funi_trigger(&c, FUNI_TRIGGER_ISSUE, count < FUNI_MAX_ISSUE ? count : FUNI_MAX_ISSUE);
		for (; (m = funi_receive(&c, FUNI_REQUEST)) != NULL; received++, funi_release(&c, FUNI_REQUEST))
			if (m[FUNI_SOURCE_WORD] != 1 || m[1] != received)
				return fail("another message than the next", (int)m[1]);
		if ((n = funi_wait(&c, 30000)) < 0 && n != -EINTR)
			return fail("waiting", n);
	}
	funi_trigger(&c, 9, 1);
	while ((status = funi_trigger_answer(&c, &count)) == -EAGAIN)
		if ((n = funi_wait(&c, 30000)) < 0 && n != -EINTR)
			return fail("waiting", n);
	if (status != FUNI_TRIGGER_INVALID)
		return fail("a command that there is not", status);
	if ((n = funi_close(&c, 1000)) != 0)
		return fail("closing", n);
	printf("received %u\n", received);
	return 0;
}
