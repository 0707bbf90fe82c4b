/* load: loads the library at run time, uses it, unloads it, and loads it again. It says what the
 * library says without a place. The argument is the path of the library. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include <funet.h>

static const char *path;

typedef int (*opens)(struct funet **, const struct funet_options *, const struct funet_until *);

/* A thread that comes into the library for the first time, and ends. */
static void *use(void *argument)
{
	struct funet *f;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return argument;
	}
	opens open = (opens)dlsym(library, "funet_open");
	const char *(*error)(void) = (const char *(*)(void))dlsym(library, "funet_error");
	if (open == NULL || error == NULL || open(&f, NULL, NULL) != FUNET_PLACE)
		return argument;
	printf("%s\n", error());
	(void)dlclose(library);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;
	void *failed = NULL;
	path = argc > 1 ? argv[1] : "libfunet.so.1";
	for (int i = 0; i < 20 && failed == NULL; i++)
		if (pthread_create(&t, NULL, use, argv) != 0 || pthread_join(t, &failed) != 0)
			return 1;
	return failed != NULL;
}
