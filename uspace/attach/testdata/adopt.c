/* adopt: a node makes memory of its own segments, transfers from one to the other, and has them
 * back. It prints one line for each thing that is refused, and for each that went well. */
#define _GNU_SOURCE 1
#include "funi.h"

#include <sys/wait.h>

static struct funi_context card;
static size_t page;

static void print(const char *what, int code) { printf("%s: %d %s\n", what, code, code != 0 ? card.error : ""); }

static uint8_t byte(size_t i, unsigned salt) { return (uint8_t)(i * 131 >> 4 ^ salt); }

static void fill(uint8_t *m, size_t n, unsigned salt)
{
	for (size_t i = 0; i < n; i++)
		m[i] = byte(i, salt);
}

static void compare(const char *what, const uint8_t *m, size_t n, unsigned salt)
{
	for (size_t i = 0; i < n; i++)
		if (m[i] != byte(i, salt)) {
			printf("%s: byte %zu is %u\n", what, i, m[i]);
			exit(1);
		}
}

static uint8_t *map(size_t bytes, int protection, int how, int fd)
{
	void *p = mmap(NULL, bytes, protection, how, fd, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return (uint8_t *)p;
}

/* Tries memory that is none to adopt, and looks that it is as it was. */
static void refuse(const char *what, void *memory, size_t bytes)
{
	int code = funi_adopt(&card, 0x1000, memory, bytes, FUNI_SOURCE);
	char *why = strstr(card.error, ": "), *end = why != NULL ? strchr(why, ';') : NULL;
	if (end != NULL)
		*end = 0;
	printf("%s: %d%s\n", what, code, why != NULL ? why : "");
}

static void refusals(void)
{
	const int ours = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
	uint8_t *m = map(8 * page, both, ours, -1), *stack = (uint8_t *)__builtin_frame_address(0);
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	fill(m, 8 * page, 1);
	refuse("nothing", m, 0);
	refuse("half a page", m, page / 2);
	refuse("from within a page", m + 16, page);
	refuse("to the end of all", (void *)(UINTPTR_MAX - page + 1), page);
	refuse("the stack", (void *)((uintptr_t)stack & ~(page - 1)), page);
	refuse("far up the stack", (void *)(((uintptr_t)stack - 40 * page) & ~(page - 1)), 64 * page);
	refuse("a file", map(page, both, MAP_PRIVATE, file), page);
	refuse("shared memory", map(page, both, MAP_SHARED | MAP_ANONYMOUS, -1), page);
	refuse("what cannot be written", map(page, PROT_READ, ours, -1), page);
	(void)munmap(m + 4 * page, page);
	refuse("a hole", m, 8 * page);
	(void)mprotect(m + page, page, PROT_READ);
	refuse("one page of four that cannot be written", m, 4 * page);
	(void)mprotect(m + page, page, both);
	if (mlock(m + 2 * page, page) != 0)
		perror("mlock");
	refuse("one page of four that is locked", m, 4 * page);
	(void)munlock(m + 2 * page, page);
	(void)madvise(m, page, MADV_DONTFORK);
	refuse("memory that no child has", m, page);
	(void)madvise(m, page, MADV_DOFORK);
	compare("refused memory", m, 4 * page, 1);
	int code = funi_adopt(&card, 8, m, page, FUNI_SOURCE); /* the daemon refuses this address */
	printf("a bad address: %d\n", code);
	compare("what the daemon refused", m, 4 * page, 1);
}

int main(void)
{
	const uint32_t words = 1 << 16;
	const size_t bytes = (size_t)words * 4;
	page = (size_t)sysconf(_SC_PAGESIZE);
	int code = funi_attach_environment(&card, 0);
	if (code != 0) {
		print("attaching", code);
		return 1;
	}
	refusals();

	uint8_t *from = map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint8_t *to = (uint8_t *)aligned_alloc(page, bytes);
	uint8_t *small = (uint8_t *)aligned_alloc(page, page); /* among the rest of the heap */
	fill(from, bytes, 2);
	fill(to, bytes, 3);
	fill(small, page, 4);
	print("the source", funi_adopt(&card, 0x100000, from, bytes, FUNI_SOURCE));
	print("the destination", funi_adopt(&card, 0x200000, to, bytes, FUNI_DESTINATION));
	print("a page of the heap", funi_adopt(&card, 0x300000, small, page, FUNI_SOURCE | FUNI_DESTINATION));
	compare("the source", from, bytes, 2);
	compare("the destination", to, bytes, 3);
	refuse("what is adopted", from, bytes);

	uint32_t *s = funi_send_reserve(&card, FUNI_REQUEST);
	funi_transfer(s, (uint16_t)card.node, 1, 0x100000, 0x200000, 7, words);
	print("a transfer", funi_send_commit(&card, FUNI_REQUEST));
	struct funi_notice n = { 0, 0, 0 };
	const uint32_t *r;
	while ((r = funi_receive(&card, FUNI_REQUEST)) == NULL)
		if (funi_wait(&card, 10000) <= 0) {
			print("waiting", -1);
			return 1;
		}
	printf("the notice: %d", funi_is_notice(r, &n));
	printf(" %x %u %u\n", n.address, n.argument, n.words);
	funi_release(&card, FUNI_REQUEST);
	compare("what arrived", to, bytes, 2);

	while ((code = funi_disown(&card, 0x100000, from, bytes)) == FUNI_ERR_BUSY)
		(void)funi_wait(&card, 10);
	print("the source again", code);
	print("the destination again", funi_disown(&card, 0x200000, to, bytes));
	compare("the source again", from, bytes, 2);
	compare("the destination again", to, bytes, 2);
	print("what is none", funi_disown(&card, 0x200000, to, bytes) != 0);
	compare("what is none", to, bytes, 2);
	/* It is private again: what a child writes stays with the child. */
	pid_t child = fork();
	if (child == 0) {
		memset(from, 0, bytes);
		memset(to, 0, bytes);
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		return 1;
	compare("the source after a child", from, bytes, 2);
	compare("the destination after a child", to, bytes, 2);
	(void)munmap(from, bytes);
	free(to);
	/* What is adopted stays usable after the context, and can be freed. */
	if (funi_close(&card, 1000) != 0)
		return 1;
	compare("after the end", small, page, 4);
	free(small);
	for (size_t i = 0; i < 2000; i++)
		free(memset(malloc(i * 16 + 1), 5, i * 16 + 1));
	printf("the end\n");
	return 0;
}
