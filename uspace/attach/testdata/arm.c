/* arm: a node sends itself messages and looks at what arming and waking say at each step. */
#include "funi.h"

static struct funi_context c;

static int fail(const char *what, int code)
{
	printf("%s: %d %s\n", what, code, c.error);
	return 1;
}

static void send_word(void)
{
	uint32_t *s = funi_send_reserve(&c, FUNI_REQUEST);
	s[0] = funi_header((uint16_t)c.node, 1, 0);
	(void)funi_send_commit(&c, FUNI_REQUEST);
}

/* Arms as soon as there is nothing new. */
static int arm(void)
{
	int n;
	while ((n = funi_arm(&c)) == 0)
		;
	return n;
}

int main(void)
{
	struct pollfd p = { -1, POLLIN, 0 };
	int n;
	if ((n = funi_attach_environment(&c, 0)) != 0)
		return fail("attaching", n);
	p.fd = funi_fd(&c);
	for (int i = 0; i < 200; i++) {
		/* What has come before it is armed is not slept on, however often it is asked. */
		send_word();
		while ((funi_load(c.receive[FUNI_REQUEST].its) & c.mask) == c.receive[FUNI_REQUEST].tail)
			(void)sched_yield();
		for (int k = 0; k < 3; k++)
			if ((n = funi_arm(&c)) != 0)
				return fail("armed, and a message waits", n);
		if (funi_load(&c.page->wake) != 0)
			return fail("armed, though it said that it is not", 0);
		(void)funi_receive(&c, FUNI_REQUEST);
		funi_release(&c, FUNI_REQUEST);
		/* What comes afterwards wakes. */
		if ((n = arm()) != 1)
			return fail("not armed", n);
		send_word();
		if ((n = poll(&p, 1, 20000)) != 1)
			return fail("not woken", n);
		if ((n = funi_woken(&c)) != 0)
			return fail("woken", n);
		while (funi_receive(&c, FUNI_REQUEST) == NULL)
			if ((n = arm()) != 1 || poll(&p, 1, 20000) != 1 || funi_woken(&c) != 0)
				return fail("not woken again", n);
		funi_release(&c, FUNI_REQUEST);
	}
	if ((n = funi_woken(&c)) != 0) /* nothing to read: it does not wait */
		return fail("woken by nothing", n);
	printf("ready\n");
	fflush(stdout);
	while ((n = arm()) == 1 && poll(&p, 1, 20000) == 1 && (n = funi_woken(&c)) == 0)
		;
	return n == -ENOTCONN ? 0 : fail("the daemon is gone", n);
}
