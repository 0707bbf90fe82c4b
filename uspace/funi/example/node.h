/* node.h: what the examples share: the node's card, errors, Ctrl-C, and messages of words. A
 * program defines PROGRAM, its name in errors, and includes this before anything else.
 *
 * SIGINT (Ctrl-C) and SIGTERM end a program: a handler notes them, and who waits looks. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>

#include "funi.h"

static struct funi_context card;

static volatile sig_atomic_t ended; /* by this signal */

static inline void note(int signal) { ended = signal; }

/* Notes SIGINT and SIGTERM from now on. */
static inline void catch_signals(void)
{
	struct sigaction end;
	memset(&end, 0, sizeof end);
	end.sa_handler = note;
	(void)sigemptyset(&end.sa_mask);
	(void)sigaddset(&end.sa_mask, SIGINT);
	(void)sigaddset(&end.sa_mask, SIGTERM);
	(void)sigaction(SIGINT, &end, NULL);
	(void)sigaction(SIGTERM, &end, NULL);
}

/* The exit code of a program; that of one that a signal ended is 128 and the signal's number. */
static inline int exit_code(int failed) { return !failed ? 0 : ended ? 128 + ended : 1; }

static inline int fail(const char *what)
{
	fprintf(stderr, PROGRAM ": node %u: %s\n", card.node, ended ? "interrupted" : what);
	return -1;
}

/* Waits for something to happen; a message that came back is an error, and so is a signal. */
static inline int wait_for_news(void)
{
	struct funi_return r;
	char text[100];
	if (funi_returned(&card, &r)) {
		(void)snprintf(text, sizeof text, "a message to node %u came back for reason %u", r.header & 0xffff, r.reason);
		return fail(text);
	}
	for (int i = 0; i < 300 && !ended; i++) {
		int n = funi_wait(&card, 100);
		if (n > 0 && !ended)
			return 0;
		if (n < 0 && n != -EINTR)
			return fail(card.error);
	}
	return fail("nothing has happened for 30 s");
}

/* Waits for room in a send queue. */
static inline uint32_t *reserve(enum funi_level l)
{
	uint32_t *s;
	while ((s = funi_send_reserve(&card, l)) == NULL)
		if (wait_for_news())
			return NULL;
	return s;
}

/* Sends a message of words to a node. */
static inline int tell(enum funi_level l, uint32_t node, uint32_t type, const uint32_t *words, uint32_t n)
{
	uint32_t *s = reserve(l);
	if (s == NULL)
		return -1;
	s[0] = funi_header((uint16_t)node, type, n);
	if (n > 0)
		memcpy(s + FUNI_PAYLOAD_WORD, words, n * sizeof *words);
	return funi_send_commit(&card, l);
}

/* Waits for the next message, which the caller releases. */
static inline const uint32_t *next_message(enum funi_level l)
{
	const uint32_t *s;
	while ((s = funi_receive(&card, l)) == NULL)
		if (wait_for_news())
			return NULL;
	return s;
}

/* Waits for a message of a type, and copies its words. */
static inline int receive(enum funi_level l, uint32_t type, uint32_t *words, uint32_t n)
{
	const uint32_t *s = next_message(l);
	if (s == NULL)
		return -1;
	if (funi_type(s[0]) != type || funi_words(s[0]) != n)
		return fail("an unexpected message");
	if (n > 0)
		memcpy(words, s + FUNI_PAYLOAD_WORD, n * sizeof *words);
	funi_release(&card, l);
	return 0;
}
