/* ultra: node 0 sends as many lines to node 1 as the argument says, on a path, and node 1 receives
 * them in order; both sleep while they wait. */
#include "funi.h"

static struct funi_context c;

static int fail(const char *what, int code)
{
	printf("%s: %d %s\n", what, code, c.error);
	return 1;
}

/* Waits unless the code says that nothing is to be waited for. */
static int again(int code)
{
	int n;
	if (code == -EAGAIN && (n = funi_wait(&c, 30000)) < 0 && n != -EINTR)
		return n;
	return code == -EAGAIN ? 0 : code;
}

static int sends(struct funi_path *p, uint64_t last)
{
	uint64_t line[FUNI_PATH_WORDS] = { 0 };
	int n;
	for (uint64_t i = 0; i <= last; i++) {
		const uint32_t words = i == last ? 0 : (uint32_t)(1 + i % FUNI_PATH_WORDS);
		for (uint32_t j = 0; j < words; j++)
			line[j] = i + ((uint64_t)j << 32);
		while ((n = funi_ultra_send(p, line, words)) == -EAGAIN)
			if ((n = again(n)) != 0)
				return n;
		if (n != 0)
			return n;
	}
	while ((n = funi_ultra_flushed(p)) == -EAGAIN)
		if ((n = again(n)) != 0)
			return n;
	return n;
}

static int receives(struct funi_path *p, uint64_t last)
{
	uint64_t line[FUNI_PATH_WORDS];
	int n;
	for (uint64_t i = 0; i <= last; i++) {
		while ((n = funi_ultra_receive(p, line)) == -EAGAIN)
			if ((n = again(n)) != 0)
				return n;
		if (n != (i == last ? 0 : (int)(1 + i % FUNI_PATH_WORDS)))
			return n < 0 ? n : -1000;
		for (int j = 0; j < n; j++)
			if (line[j] != i + ((uint64_t)j << 32))
				return -1001;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const uint64_t last = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
	const struct funi_remote_sizes sizes = { 4, 1, 16 };
	struct funi_path p;
	uint32_t handle;
	void *memory;
	int n;

	if ((n = funi_attach_environment_remote(&c, 0, &sizes)) != 0)
		return fail("attaching", n);
	if ((n = funi_register_segment(&c, 0x10000, 8192, FUNI_KEYED, &memory)) != 0)
		return fail("registering a segment", n);
	(void)funi_watch(&c, 1);
	if ((n = funi_ultra_open(&c, &p, (uint16_t)(1 - c.node), memory, c.node == 1 ? 64 : 0, NULL)) != 0)
		return fail("opening", n);
	if ((n = c.node == 1 ? receives(&p, last) : sends(&p, last)) != 0)
		return fail("lines", n);
	if ((n = funi_ultra_close(&p, &handle)) != 0)
		return fail("closing a path", n);
	if ((n = funi_close(&c, 1000)) != 0)
		return fail("closing", n);
	printf("done\n");
	return 0;
}
