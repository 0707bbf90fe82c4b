/* watch: node 1 sleeps until a number in its memory, which others write, is as large as the
 * argument says. */
#include "funi.h"

static struct funi_context c;

static int fail(const char *what, int code)
{
	printf("%s: %d %s\n", what, code, c.error);
	return 1;
}

int main(int argc, char **argv)
{
	const uint64_t last = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	const int waits = argc == 3 && strcmp(argv[1], "wait") == 0;
	struct funi_remote_sizes sizes = { 1, 1, 4 };
	uint64_t *word;
	uint32_t handle;
	void *memory;
	int n;

	if ((n = funi_attach_environment_remote(&c, 0, &sizes)) != 0)
		return fail("attaching", n);
	if ((n = funi_register_segment(&c, 0x10000, 4096, FUNI_KEYED, &memory)) != 0)
		return fail("a segment", n);
	if ((n = funi_expose_window_as(&c, memory, 4096, 0, FUNI_MAY_WRITE, 0, UINT64_C(0x575700010000), &handle)) != 0)
		return fail("exposing", n);
	word = (uint64_t *)memory;
	if (funi_watch(&c, 1) != 0 || funi_watch(&c, 1) != 1 || funi_watch(&c, 0) != 1 || funi_watch(&c, 1) != 0)
		return fail("funi_watch does not say what was set before", 0);
	while (__atomic_load_n(word, __ATOMIC_SEQ_CST) < last) {
		if (waits) {
			if ((n = funi_wait(&c, 30000)) != 1)
				return fail("not woken", n);
			continue;
		}
		struct pollfd p = { funi_fd(&c), POLLIN, 0 };
		if ((n = funi_arm(&c)) < 0 || (n == 1 && (poll(&p, 1, 30000) != 1 || funi_woken(&c) != 0)))
			return fail("not woken", n);
	}
	if ((n = funi_close(&c, 1000)) != 0)
		return fail("closing", n);
	printf("seen\n");
	return 0;
}
