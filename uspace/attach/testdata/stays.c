/* stays: a node that only polls, until it is ended. */
#include "funet.h"

static struct funet f;

static int never(void *argument) { return argument == NULL; }

int main(void)
{
	int code = funet_open(&f, NULL);
	if (code == 0)
		code = funet_wait(&f, never, &f, -1);
	fprintf(stderr, "%d %s\n", code, f.error);
	return 1;
}
