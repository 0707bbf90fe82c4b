/* funet.h: programs on FUNet in C and C++: messages of bytes that run handlers, calls with answers and errors, barriers.
 * It is above funi.h, and like it there is no library: everything is here, for C11 and C++17 and later with GCC or Clang
 * on Linux, little-endian.
 *
 *	static int greet(struct funet_message *m) // runs on the node that is called
 *	{
 *		return funet_answer(m, "hello", 5);
 *	}
 *
 *	static struct funet f;
 *	if (funet_open(&f, NULL) != 0 ||          // place and card from the environment: funet run, mpirun, srun
 *	    funet_serve(&f, 1, greet, NULL) != 0 ||
 *	    funet_barrier(&f, -1) != 0 ||         // everybody has the handlers
 *	    (f.card.node == 0 && funet_call(&f, 1, 1, "hi", 2, buffer, sizeof buffer, &length, 1000) != 0) ||
 *	    funet_barrier(&f, -1) != 0 ||         // nobody is called any more
 *	    funet_close(&f, 1000) != 0)
 *		fprintf(stderr, "%s\n", f.error);
 *
 * The messages are those of the Go packages uspace/am and uspace/funet, so programs in C and Go may be nodes of one job; a
 * test has them talk. Numbers of handlers are 0 to 239 and mean the same on all nodes.
 *
 * Results. Functions return 0 or more when they have done what they say, a positive funi_status when the daemon
 * refused, a positive code when a handler elsewhere returned an error (funet_call), or a negative errno: then f.error says what
 * failed and why, in one line. The same negative numbers mean the same everywhere:
 *
 *	-ENOTCONN     the daemon is gone or has ended the context; nothing can be done with it any more
 *	-EHOSTUNREACH a message could not be delivered, mostly because its node is gone: f.back says which and why. It is told
 *	              once, by whatever polls next, and nothing else of the context changes: the program decides what
 *	              that means.
 *	-EINTR        a signal was handled during a wait. The function can be called again, and goes on where it was.
 *	-ETIMEDOUT    the time given is over; as after -EINTR
 *	-EDEADLK      a handler called what only the program may, see below
 *	-EINVAL, -EMSGSIZE  a number or a length is wrong, and nothing was done
 *
 * Waits. Those with a parameter milliseconds end after that time; a negative number waits for ever, 0 looks once.
 * Others, which wait only while a send queue is full, wait as long as f.patience says, which is for ever at first.
 * A signal that is handled during a sleep ends a wait with -EINTR. One that comes just before a sleep, or while there is always
 * something to do, would not: a program that wants to be ended by signals has f.stop point to the flag that its
 * handler sets, at which every wait looks at least every FUNI_NAP milliseconds.
 *
 * Handlers run inside functions that poll: funet_poll, and every function that waits. One that handles a message of funet_send
 * may call funet_reply, any number of times, to the node that sent it, and nothing else that sends. One that handles a
 * reply, or an answer, sends nothing. These rules keep nodes that flood each other from waiting for each other for ever (funi.h); what breaks
 * them returns -EDEADLK. A handler returns 0, or a negative number, and then the function that polls returns
 * that, once, after it has handled what else has arrived.
 *
 * Messages do not arrive in the order in which they were sent. One that funet_send has taken is delivered once, or
 * comes back (-EHOSTUNREACH). One for a node that has not yet opened its place waits there (funi.h).
 *
 * A struct funet belongs to one thread at a time: it has no locks, and there is no way to have several threads in it. A
 * program with several threads gives one of them the network. For event loops see funet_fd. */
#ifndef FUNET_H
#define FUNET_H

#include <signal.h>
#include <stdarg.h>

#include "funi.h"

#define FUNET_HANDLERS 240 /* numbers of handlers */
#define FUNET_SHORT 80     /* bytes of a message that fits a packet */
#define FUNET_CALL_BYTES 76     /* of a call, and of its answer */
#define FUNET_CALLS 256    /* calls under way */
#define FUNET_ERROR_TEXT 72 /* bytes of an error's text that travel */

/* Types of packets, those of uspace/am/types.go. Bytes of a message lie in its words as in memory; those that fill up the last word
 * are 0, and bits 9:8 of the word with the handler say how many they are. */
enum funet_type {
	FUNET_PROBE = 14,  /* request without meaning */
	FUNET_ROUND = 15,  /* barrier: call number, 0, round, 0, 0 */
	FUNET_BYTES = 18,  /* handler 7:0, padding 9:8; bytes */
	FUNET_CALL = 24,   /* request: ticket; handler 7:0, padding 9:8; bytes */
	FUNET_ANSWER = 25  /* reply: ticket; padding 9:8, status 31:16; bytes, of an error code and text */
};

/* What an answer says of its call, and what funet_call returns. Programs' own codes are FUNET_FIRST_CODE and more. */
enum funet_status {
	FUNET_DONE = 0,
	FUNET_ERROR = 1,      /* the handler returned an error without a code */
	FUNET_NO_HANDLER = 2, /* the node has no such handler */
	FUNET_PANICKED = 3,   /* the handler, in Go, panicked */
	FUNET_MEMORY = 4,     /* no memory for the message at present */
	FUNET_LEAVING = 5,    /* the node is about to leave */
	FUNET_LOST = 6,       /* the handler has run, and its answer was lost */
	FUNET_LONG = 7,       /* the answer is too long */
	FUNET_FIRST_CODE = 256
};

struct funet;

struct funet_message { /* as its handler sees it; valid until that returns */
	struct funet *f;
	uint32_t source;     /* the node that sent it; the cards vouch for it */
	const uint8_t *bytes; /* begins on a word */
	size_t length;
	void *argument;      /* of funet_handle, funet_serve */
	/* The rest is not the handler's. */
	enum funi_level level;
	int serves; /* it answers a call */
	uint32_t status;
	size_t answered; /* bytes of the answer */
	uint32_t answer[FUNET_CALL_BYTES / 4];
};

typedef int (*funet_handler)(struct funet_message *m);

struct funet_entry {
	funet_handler run;
	void *argument;
	int serves; /* it answers calls */
};

enum funet_progress { FUNET_FREE, FUNET_ASKED, FUNET_ANSWERED };

struct funet_request { /* a call of ours */
	uint32_t number; /* the upper 20 bits of its ticket */
	enum funet_progress progress;
	uint32_t node;
	int result;
	void *answer;
	size_t room, length;
	char text[FUNET_ERROR_TEXT + 1]; /* of an error */
};

#define FUNET_UNTOLD 64
#define FUNET_ROUNDS 16 /* of a barrier of 65536 nodes */

struct funet_barrier_state {
	uint32_t number; /* of the call under way, or the last */
	int open;        /* a call is under way, maybe one that ended with an error */
	uint32_t round;
	int told; /* the node of the round has been told */
	uint32_t heard[FUNET_ROUNDS][2];
};

struct funet {
	struct funi_context card; /* card.node and card.nodes: which node this is, and of how many */
	int patience;             /* milliseconds that functions wait that have no time of their own; negative: for ever */
	const volatile sig_atomic_t *stop; /* NULL, or what a signal's handler sets: while it is not 0 waits return -EINTR */
	struct funi_return back;  /* the message of the last -EHOSTUNREACH */
	uint64_t unknown;         /* messages that were for nobody, and were dropped */
	char error[1200];
	/* The rest is the header's. */
	struct funet_entry handlers[FUNET_HANDLERS];
	int running[2]; /* a handler of the level runs */
	int failed;     /* what a handler has returned */
	struct funet_request calls[FUNET_CALLS];
	uint32_t next;  /* place of the next call */
	uint32_t lost;  /* messages that came back and were only counted, as last told */
	struct {
		uint32_t node, ticket;
	} untold[FUNET_UNTOLD]; /* answers that came back, whose callers have yet to be told */
	int untolds;
	struct funet_barrier_state barrier;
};

struct funet_options { /* all 0: everything from the environment */
	const char *socket;   /* of the daemon; NULL: the place in the job is in the environment, and the rest is not looked at */
	uint16_t gid, node;
	const uint8_t *token; /* FUNI_TOKEN_SIZE bytes */
	uint32_t slots;       /* of each queue, a power of two; 0: the daemon's default. Looked at in any case */
};

/* ---- errors ---- */

/* Says in f->error what failed, and returns the code. */
__attribute__((format(printf, 3, 4))) static inline int funet_fail(struct funet *f, int code, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	(void)vsnprintf(f->error, sizeof f->error, format, list);
	va_end(list);
	return code;
}

/* Takes over what funi.h says. */
static inline int funet_card_fails(struct funet *f, int code)
{
	(void)snprintf(f->error, sizeof f->error, "%s", f->card.error);
	return code;
}

/* Why a message came back, in words. */
static inline const char *funet_reason(uint32_t reason)
{
	switch (reason) {
	case FUNI_REASON_NO_CONTEXT: return "the node has left, or never came";
	case FUNI_REASON_SILENT: return "its host does not answer";
	case FUNI_REASON_RESTARTED: return "its card was started anew";
	case FUNI_REASON_DEPARTED: return "its card has ended";
	case FUNI_REASON_NO_ROUTE: return "no route leads there";
	case FUNI_REASON_JOB: return "another job is there";
	case FUNI_REASON_SOURCE: return "its memory was withdrawn";
	case FUNI_REASON_DESTINATION: return "the memory there is not for that";
	case FUNI_REASON_GIVEN_UP: return "it was given up";
	default: return "the card refuses it";
	}
}

/* Whether the reason says that the node is not there any more. */
static inline int funet_gone(uint32_t reason)
{
	return reason == FUNI_REASON_NO_CONTEXT || reason == FUNI_REASON_SILENT || reason == FUNI_REASON_RESTARTED ||
	       reason == FUNI_REASON_DEPARTED || reason == FUNI_REASON_NO_ROUTE;
}

/* ---- time ---- */

/* Nanoseconds of a clock that nobody sets, where the program lets the headers show it (strict C needs _POSIX_C_SOURCE). */
static inline int64_t funet_now(void)
{
#ifdef CLOCK_MONOTONIC
	struct timespec t = { 0, 0 };
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
#else
	return funi_clock();
#endif
}

/* When a wait of so many milliseconds ends. */
static inline int64_t funet_until(int milliseconds)
{
	return milliseconds < 0 ? INT64_MAX : funet_now() + (int64_t)milliseconds * 1000000;
}

/* ---- receiving ---- */

static inline int funet_service(struct funet *f, enum funi_level l, int most);

/* The bytes of a message, words of payload from a word on, whose word with the padding is given: 0 if it is malformed. */
static inline int funet_content(const uint32_t *slot, uint32_t from, uint32_t second, const uint8_t **bytes, size_t *length)
{
	uint32_t words = funi_words(slot[0]) - from, padding = second >> 8 & 3;
	if (funi_words(slot[0]) < from || padding > 4 * words)
		return 0;
	*bytes = (const uint8_t *)(slot + FUNI_PAYLOAD_WORD + from);
	*length = 4 * (size_t)words - padding;
	return 1;
}

/* Composes a message of one or two words and bytes. */
static inline void funet_compose(uint32_t *slot, uint32_t node, uint32_t type, const uint32_t *first, uint32_t n, const void *bytes,
				 size_t length)
{
	uint32_t words = (uint32_t)(length + 3) / 4;
	slot[0] = funi_header((uint16_t)node, type, n + words);
	memcpy(slot + FUNI_PAYLOAD_WORD, first, 4 * (size_t)n);
	slot[FUNI_PAYLOAD_WORD + n - 1] |= (4 * words - (uint32_t)length) << 8;
	if (words > 0) {
		slot[FUNI_PAYLOAD_WORD + n + words - 1] = 0;
		memcpy(slot + FUNI_PAYLOAD_WORD + n, bytes, length);
	}
}

/* A slot for a reply, for a request's handler. While the queue is full replies are handled, and nothing else. */
static inline uint32_t *funet_reply_slot(struct funet *f)
{
	uint32_t *s;
	while ((s = funi_send_reserve(&f->card, FUNI_REPLY)) == NULL)
		if (funet_service(f, FUNI_REPLY, 256) == 0) {
			int n = funi_wait(&f->card, 10);
			if (n < 0 && n != -EINTR) {
				(void)funet_card_fails(f, n);
				break;
			}
		}
	return s;
}


/* Calls the handler of a message. */
static inline int funet_run(struct funet *f, const struct funet_entry *h, struct funet_message *m, enum funi_level l, const uint32_t *slot)
{
	m->f = f;
	m->source = slot[FUNI_SOURCE_WORD];
	m->argument = h->argument;
	m->level = l;
	m->serves = h->serves;
	m->status = FUNET_DONE;
	m->answered = 0;
	f->running[l]++;
	int code = h->run(m);
	f->running[l]--;
	return code;
}

/* A message of bytes. */
static inline void funet_received(struct funet *f, enum funi_level l, const uint32_t *slot)
{
	uint32_t first = slot[FUNI_PAYLOAD_WORD], number = first & 0xff;
	struct funet_message m;

	if (number >= FUNET_HANDLERS || f->handlers[number].run == NULL || f->handlers[number].serves ||
	    !funet_content(slot, 1, first, &m.bytes, &m.length)) {
		f->unknown++;
		return;
	}
	int code = funet_run(f, &f->handlers[number], &m, l, slot);
	if (code != 0 && f->failed == 0)
		f->failed = funet_fail(f, code < 0 ? code : -code, "handler %u returned %d for a message of node %u", number, code, m.source);
}

/* Makes an error the answer. */
__attribute__((format(printf, 4, 0))) static inline void funet_put_error(struct funet_message *m, uint32_t status, uint32_t code,
									    const char *format, va_list list)
{
	char text[FUNET_ERROR_TEXT + 1];
	int n = vsnprintf(text, sizeof text, format, list);
	size_t length = n < 0 ? 0 : n < FUNET_ERROR_TEXT ? (size_t)n : FUNET_ERROR_TEXT;
	if (n > FUNET_ERROR_TEXT) /* no half character at the end, UTF-8 */
		while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
			length--;
	m->status = status;
	m->answer[0] = code;
	memcpy(m->answer + 1, text, length);
	m->answered = 4 + length;
}

/* Answers a call with an error: a code of the program's, FUNET_FIRST_CODE or more, and a text, of which FUNET_ERROR_TEXT
 * bytes travel. It returns the code, which the handler returns. */
__attribute__((format(printf, 3, 4))) static inline int funet_refuse(struct funet_message *m, int code, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	funet_put_error(m, FUNET_ERROR, (uint32_t)code, format, list);
	va_end(list);
	return code;
}

/* Answers a call with bytes, at most FUNET_CALL_BYTES, which are copied. The last answer counts; without one it has no bytes. It
 * returns 0, or what is wrong, which the handler returns: then the caller gets that. */
static inline int funet_answer(struct funet_message *m, const void *bytes, size_t length)
{
	if (!m->serves)
		return funet_fail(m->f, -EDEADLK, "answering a message that is no call");
	if (length > FUNET_CALL_BYTES)
		return FUNET_LONG;
	if (length > 0)
		memcpy(m->answer, bytes, length);
	m->answered = length;
	return 0;
}

/* What the caller gets of what a handler returned. */
__attribute__((format(printf, 3, 4))) static inline void funet_outcome(struct funet_message *m, int code, const char *format, ...)
{
	uint32_t status = code > FUNET_DONE && code <= FUNET_LONG ? (uint32_t)code : (uint32_t)FUNET_ERROR;
	va_list list;
	va_start(list, format);
	if (code != 0 && (m->status != FUNET_ERROR || m->answer[0] != (uint32_t)code || code < FUNET_FIRST_CODE))
		funet_put_error(m, status, code >= FUNET_FIRST_CODE ? (uint32_t)code : status, format, list);
	va_end(list);
}

/* A call: its handler answers. */
static inline void funet_called(struct funet *f, enum funi_level l, const uint32_t *slot)
{
	uint32_t ticket = slot[FUNI_PAYLOAD_WORD], second = slot[FUNI_PAYLOAD_WORD + 1], number = second & 0xff;
	const struct funet_entry nobody = { NULL, NULL, 1 }, *h = number < FUNET_HANDLERS ? &f->handlers[number] : &nobody;
	struct funet_message m;

	memset(&m, 0, sizeof m);
	if (l != FUNI_REQUEST || !funet_content(slot, 2, second, &m.bytes, &m.length)) {
		f->unknown++;
		return;
	}
	if (h->run == NULL || !h->serves) {
		f->unknown++;
		funet_outcome(&m, FUNET_NO_HANDLER, "%s", "");
	} else {
		int code = funet_run(f, h, &m, l, slot);
		funet_outcome(&m, code, "%s", code < 0 ? strerror(-code) : "");
	}
	f->running[l]++;
	uint32_t first[2] = { ticket, m.status << 16 }, *s = funet_reply_slot(f);
	f->running[l]--;
	if (s != NULL) {
		funet_compose(s, slot[FUNI_SOURCE_WORD], FUNET_ANSWER, first, 2, m.answer, m.answered);
		(void)funi_send_commit(&f->card, FUNI_REPLY);
	}
}

/* The call of a ticket, or NULL: it has ended, or was never ours. */
static inline struct funet_request *funet_find(struct funet *f, uint32_t ticket)
{
	struct funet_request *c = (ticket & 0xfff) < FUNET_CALLS ? &f->calls[ticket & 0xfff] : NULL;
	return c != NULL && c->progress == FUNET_ASKED && c->number == ticket >> 12 ? c : NULL;
}

static inline void funet_end_call(struct funet_request *c, int result, const char *text, size_t length)
{
	if (length > FUNET_ERROR_TEXT)
		length = FUNET_ERROR_TEXT;
	for (size_t i = 0; i < length; i++)
		c->text[i] = (unsigned char)text[i] < ' ' ? '?' : text[i]; /* one line, whatever it is */
	c->text[length] = 0;
	c->result = result;
	c->progress = FUNET_ANSWERED;
}

/* An answer: bytes, or code and text of an error. */
static inline void funet_answered(struct funet *f, const uint32_t *slot)
{
	uint32_t second = slot[FUNI_PAYLOAD_WORD + 1], status = second >> 16, code = status;
	struct funet_request *c = funet_find(f, slot[FUNI_PAYLOAD_WORD]);
	const uint8_t *bytes;
	size_t length;

	if (!funet_content(slot, 2, second, &bytes, &length)) {
		f->unknown++;
		return;
	}
	if (c == NULL || c->node != slot[FUNI_SOURCE_WORD])
		return; /* cancelled, or not asked */
	if (status != FUNET_DONE) {
		if (length >= 4)
			memcpy(&code, bytes, 4);
		if (status != FUNET_ERROR || code < FUNET_FIRST_CODE || code > INT32_MAX)
			code = status <= FUNET_LONG ? status : (uint32_t)FUNET_ERROR;
		funet_end_call(c, (int)code, (const char *)bytes + (length >= 4 ? 4 : 0), length >= 4 ? length - 4 : 0);
		return;
	}
	c->length = length;
	if (length > c->room) {
		funet_end_call(c, -EMSGSIZE, "", 0);
		return;
	}
	if (length > 0)
		memcpy(c->answer, bytes, length);
	funet_end_call(c, 0, "", 0);
}

/* A node has told this one in a barrier. */
static inline void funet_told(struct funet *f, const uint32_t *slot)
{
	struct funet_barrier_state *b = &f->barrier;
	const uint32_t *w = slot + FUNI_PAYLOAD_WORD;
	if (funi_words(slot[0]) != 5 || w[1] != 0 || w[2] >= FUNET_ROUNDS || w[0] - b->number > 1)
		f->unknown++;
	else
		b->heard[w[2]][w[0] & 1] = w[0];
}

/* Handles one message. */
static inline void funet_handle_slot(struct funet *f, enum funi_level l, const uint32_t *slot)
{
	uint32_t type = funi_type(slot[0]), words = funi_words(slot[0]);
	if (slot[0] & FUNI_TRANSFER_BIT || words == 0)
		f->unknown++;
	else if (type == FUNET_BYTES)
		funet_received(f, l, slot);
	else if (type == FUNET_CALL && words > 1)
		funet_called(f, l, slot);
	else if (type == FUNET_ANSWER && words > 1)
		funet_answered(f, slot);
	else if (type == FUNET_ROUND)
		funet_told(f, slot);
	else if (type != FUNET_PROBE)
		f->unknown++;
}

/* Handles messages of a level, at most so many, and returns how many. */
static inline int funet_service(struct funet *f, enum funi_level l, int most)
{
	const uint32_t *slot;
	int n = 0;
	for (; n < most && (slot = funi_receive(&f->card, l)) != NULL; n++) {
		funet_handle_slot(f, l, slot);
		funi_release(&f->card, l);
	}
	return n;
}

/* ---- what came back ---- */

/* What a message that came back asks for: 1 if that tells the program of it. */
static inline int funet_came_back(struct funet *f, const struct funi_return *r)
{
	uint32_t node = r->header & 0xffff, type = funi_type(r->header);
	struct funet_request *c = type == FUNET_CALL && r->level == FUNI_REQUEST ? funet_find(f, r->word) : NULL;
	int told = c != NULL && c->node == node;

	if (told)
		funet_end_call(c, -EHOSTUNREACH, funet_reason(r->reason), strlen(funet_reason(r->reason)));
	if (type == FUNET_ANSWER && r->level == FUNI_REPLY && !funet_gone(r->reason) && f->untolds < FUNET_UNTOLD) {
		f->untold[f->untolds].node = node;
		f->untold[f->untolds++].ticket = r->word;
	}
	for (int i = 0; funet_gone(r->reason) && i < FUNET_CALLS; i++)
		if (f->calls[i].progress == FUNET_ASKED && f->calls[i].node == node)
			funet_end_call(&f->calls[i], -EHOSTUNREACH, funet_reason(r->reason), strlen(funet_reason(r->reason)));
	return told;
}

/* Takes what came back: -EHOSTUNREACH if the program has to be told. */
static inline int funet_take_back(struct funet *f)
{
	struct funi_return r;
	uint32_t lost;
	int untold = 0;

	while (funi_returned(&f->card, &r))
		if (!funet_came_back(f, &r) && untold++ == 0)
			f->back = r;
	lost = funi_returns_lost(&f->card);
	if (lost != f->lost) { /* what they were is not known: any call may have been among them */
		untold += (int)(lost - f->lost);
		f->lost = lost;
		for (int i = 0; i < FUNET_CALLS; i++)
			if (f->calls[i].progress == FUNET_ASKED)
				funet_end_call(&f->calls[i], -EHOSTUNREACH, "too many messages came back", 27);
	}
	if (untold == 0)
		return 0;
	return funet_fail(f, -EHOSTUNREACH, "a message to node %u was not delivered: %s%s", f->back.header & 0xffff,
			  funet_reason(f->back.reason), untold > 1 ? ", and so were others" : "");
}

/* Tells callers that their answers came back, as far as there is room. */
static inline void funet_tell(struct funet *f)
{
	while (f->untolds > 0) {
		uint32_t *s = funi_send_reserve(&f->card, FUNI_REQUEST), first[2] = { 0, FUNET_LOST << 16 };
		if (s == NULL)
			return;
		first[0] = f->untold[--f->untolds].ticket;
		funet_compose(s, f->untold[f->untolds].node, FUNET_ANSWER, first, 2, NULL, 0);
		(void)funi_send_commit(&f->card, FUNI_REQUEST);
	}
}

/* ---- polling and waiting ---- */

/* Refuses what handlers may not do. */
static inline int funet_outside(struct funet *f, const char *what)
{
	if (f->running[FUNI_REQUEST] || f->running[FUNI_REPLY])
		return funet_fail(f, -EDEADLK, "%s in a handler, which may only reply to the message of funet_send that it handles", what);
	return 0;
}

/* Handles what has arrived, replies first, and does not wait. It returns how many messages that were, about a thousand at
 * most; or -EHOSTUNREACH, -ENOTCONN, or what a handler has returned. */
static inline int funet_poll(struct funet *f)
{
	int n = 0, some = 256, code = funet_outside(f, "polling");
	if (code != 0)
		return code;
	while (n < 1024 && some == 256) {
		n += funet_service(f, FUNI_REPLY, 1024);
		n += some = funet_service(f, FUNI_REQUEST, 256);
	}
	if (f->untolds > 0)
		funet_tell(f);
	if ((code = f->failed) != 0) {
		f->failed = 0;
		return code;
	}
	if ((code = funet_take_back(f)) != 0)
		return code;
	if (n == 0 && funi_load(&f->card.page->gone) != 0)
		return funet_card_fails(f, funi_fail(&f->card, -ENOTCONN, "polling"));
	return n;
}

/* Sleeps until something happens, at most until the end of a wait. */
static inline int funet_rest(struct funet *f, int64_t end)
{
	int64_t left = end - funet_now();
	if (f->stop != NULL && *f->stop != 0)
		return funet_fail(f, -EINTR, "waiting: a signal has come");
	if (left <= 0)
		return funet_fail(f, -ETIMEDOUT, "waiting: nothing more has happened in the time given");
	int n = funi_wait(&f->card, left > (int64_t)FUNI_NAP * 1000000 ? FUNI_NAP : (int)((left + 999999) / 1000000));
	return n < 0 ? funet_card_fails(f, n) : 0;
}

/* A slot for a request. While the queue is full it polls. */
static inline int funet_request_slot(struct funet *f, uint32_t **slot)
{
	int64_t end = 0;
	while ((*slot = funi_send_reserve(&f->card, FUNI_REQUEST)) == NULL) {
		int n = funet_poll(f);
		if (n == 0) {
			end = end == 0 ? funet_until(f->patience) : end;
			n = funet_rest(f, end);
		}
		if (n < 0)
			return n;
	}
	return 0;
}

/* Sends a node a request without meaning, which comes back if the node is gone. */
static inline int funet_probe(struct funet *f, uint32_t node)
{
	uint32_t *s = funi_send_reserve(&f->card, FUNI_REQUEST);
	if (s == NULL)
		return 0; /* what fills the queue says the same */
	s[0] = funi_header((uint16_t)node, FUNET_PROBE, 1);
	s[FUNI_PAYLOAD_WORD] = 0;
	return funi_send_commit(&f->card, FUNI_REQUEST);
}

/* Waits until done says so of its argument. For what a node has yet to send it asks now and then whether that is there;
 * node f->card.nodes is none. */
static inline int funet_await(struct funet *f, int (*done)(void *), void *argument, uint32_t node, int64_t end)
{
	int64_t gap = INT64_C(200000000), probe = 0, now;
	int n = 0;
	while (!done(argument)) {
		if ((n = funet_poll(f)) < 0)
			return n;
		if (n > 0 || done(argument))
			continue;
		if (node < f->card.nodes) {
			now = funet_now();
			if (probe != 0 && now >= probe) {
				(void)funet_probe(f, node);
				gap = gap < INT64_C(5000000000) ? 2 * gap : gap;
			}
			if (probe == 0 || now >= probe)
				probe = now + gap;
		}
		if ((n = funet_rest(f, end)) < 0)
			return n;
	}
	return 0;
}

/* Polls until done(argument) is not 0, at most so many milliseconds: 0, or -ETIMEDOUT, -EINTR, and what funet_poll
 * returns. It cannot notice that a node is gone while nothing is under way to that node. */
static inline int funet_wait(struct funet *f, int (*done)(void *argument), void *argument, int milliseconds)
{
	int code = funet_outside(f, "waiting");
	return code != 0 ? code : funet_await(f, done, argument, f->card.nodes, funet_until(milliseconds));
}

/* ---- event loops ----
 *
 * The rule is that of funi.h: funet_poll until it returns 0, funet_arm, and, if that returns 1, wait for funet_fd and
 * other descriptors; then funet_woken. */

/* The descriptor that can be read when there may be something for funet_poll; neither read nor close it. */
static inline int funet_fd(const struct funet *f) { return funi_fd(&f->card); }

/* 1: sleep until funet_fd can be read; 0: poll again first; -ENOTCONN. */
static inline int funet_arm(struct funet *f)
{
	int n = f->untolds > 0 ? 0 : funi_arm(&f->card);
	return n < 0 ? funet_card_fails(f, n) : n;
}

/* After the sleep, whatever ended it: 0, or -ENOTCONN. */
static inline int funet_woken(struct funet *f)
{
	int n = funi_woken(&f->card);
	return n < 0 ? funet_card_fails(f, n) : n;
}

/* ---- messages ---- */

static inline int funet_enter(struct funet *f, uint32_t number, funet_handler run, void *argument, int serves)
{
	if (number >= FUNET_HANDLERS || run == NULL || f->handlers[number].run != NULL)
		return funet_fail(f, -EINVAL, "registering handler %u: numbers are 0 to 239, each once", number);
	f->handlers[number].run = run;
	f->handlers[number].argument = argument;
	f->handlers[number].serves = serves;
	return 0;
}

/* Registers a handler of messages, which funet_send and funet_reply name by its number, before the first can arrive. */
static inline int funet_handle(struct funet *f, uint32_t number, funet_handler run, void *argument)
{
	return funet_enter(f, number, run, argument, 0);
}

/* Registers a handler of calls. It answers with funet_answer and returns 0, or returns an error (funet_refuse): the caller gets
 * it, and no one else. A number is either's. */
static inline int funet_serve(struct funet *f, uint32_t number, funet_handler run, void *argument)
{
	return funet_enter(f, number, run, argument, 1);
}

/* Refuses what cannot be sent. */
static inline int funet_check(struct funet *f, uint32_t node, uint32_t number, size_t length, size_t most)
{
	if (node >= f->card.nodes)
		return funet_fail(f, -EINVAL, "sending to node %u: the job has %u nodes", node, f->card.nodes);
	if (number >= FUNET_HANDLERS)
		return funet_fail(f, -EINVAL, "sending to handler %u: numbers are 0 to 239", number);
	if (length > most)
		return funet_fail(f, -EMSGSIZE, "sending %llu bytes to node %u: at most %llu", (unsigned long long)length, node,
				  (unsigned long long)most);
	return 0;
}

/* Runs a handler on a node with bytes. On return the bytes may be changed. While the send queue is full it polls. Not in
 * handlers. Errors of earlier messages keep this one from being sent. */
static inline int funet_send(struct funet *f, uint32_t node, uint32_t number, const void *bytes, size_t length)
{
	uint32_t *s;
	int code = funet_outside(f, "sending");
	if (code != 0 || (code = funet_check(f, node, number, length, FUNET_SHORT)) != 0 || (code = funet_request_slot(f, &s)) != 0)
		return code;
	funet_compose(s, node, FUNET_BYTES, &number, 1, bytes, length);
	return funi_send_commit(&f->card, FUNI_REQUEST);
}

/* Runs a handler on the node whose message is being handled. Only for messages of funet_send. While the send queue is full
 * replies are handled. */
static inline int funet_reply(struct funet_message *m, uint32_t number, const void *bytes, size_t length)
{
	struct funet *f = m->f;
	if (m->level != FUNI_REQUEST || m->serves || f->running[FUNI_REPLY])
		return funet_fail(f, -EDEADLK, "replying where nothing may be sent: to a reply, or to a call");
	int code = funet_check(f, m->source, number, length, FUNET_SHORT);
	uint32_t *s = code == 0 ? funet_reply_slot(f) : NULL;
	if (s == NULL)
		return code != 0 ? code : -ENOTCONN;
	funet_compose(s, m->source, FUNET_BYTES, &number, 1, bytes, length);
	return funi_send_commit(&f->card, FUNI_REPLY);
}

/* ---- calls ---- */

/* Begins a call, and does not wait for its answer, which goes to room bytes: a number for funet_finish, greater than 0, or an
 * error. -EAGAIN: FUNET_CALLS calls have begun and not been finished. Not in handlers. */
static inline int64_t funet_start(struct funet *f, uint32_t node, uint32_t number, const void *bytes, size_t length, void *answer, size_t room)
{
	uint32_t *s, first[2] = { 0, number };
	struct funet_request *c = NULL;
	int code = funet_outside(f, "calling");
	if (code != 0 || (code = funet_check(f, node, number, length, FUNET_CALL_BYTES)) != 0 || (code = funet_request_slot(f, &s)) != 0)
		return code;
	for (uint32_t i = 0; i < FUNET_CALLS && c == NULL; i++, f->next++)
		if (f->calls[f->next % FUNET_CALLS].progress == FUNET_FREE)
			c = &f->calls[f->next % FUNET_CALLS];
	if (c == NULL)
		return funet_fail(f, -EAGAIN, "calling node %u: %d calls are under way; finish one first", node, FUNET_CALLS);
	c->number = (c->number + 1) & 0xfffff;
	c->progress = FUNET_ASKED;
	c->node = node;
	c->answer = answer;
	c->room = room;
	c->length = 0;
	first[0] = c->number << 12 | (uint32_t)(c - f->calls);
	funet_compose(s, node, FUNET_CALL, first, 2, bytes, length);
	code = funi_send_commit(&f->card, FUNI_REQUEST);
	return code != 0 ? code : (int64_t)first[0] + 1;
}

/* Gives a call up: nothing is written for it afterwards. Its handler may run nevertheless. */
static inline void funet_cancel(struct funet *f, int64_t call)
{
	uint32_t place = (uint32_t)(call - 1) & 0xfff;
	if (call > 0 && place < FUNET_CALLS && f->calls[place].number == (uint32_t)(call - 1) >> 12)
		f->calls[place].progress = FUNET_FREE;
}

static inline int funet_is_answered(void *call) { return ((struct funet_request *)call)->progress != FUNET_ASKED; }

/* Waits for the answer of a call: 0, and the length of the answer if length is not NULL; a code of the handler's error, with its text in
 * f->error; -EMSGSIZE: the answer has length bytes, more than there is room; -EHOSTUNREACH: the node is gone, and may have executed the call.
 * After these the call has ended. After -ETIMEDOUT, -EINTR and what funet_poll returns of other messages it goes on. */
static inline int funet_finish(struct funet *f, int64_t call, size_t *length, int milliseconds)
{
	uint32_t place = (uint32_t)(call - 1) & 0xfff;
	struct funet_request *c = &f->calls[place % FUNET_CALLS];
	int code = funet_outside(f, "calling");
	if (code != 0)
		return code;
	if (call <= 0 || place >= FUNET_CALLS || c->number != (uint32_t)(call - 1) >> 12 || c->progress == FUNET_FREE)
		return funet_fail(f, -EINVAL, "waiting for a call that is not under way");
	code = funet_await(f, funet_is_answered, c, c->node, funet_until(milliseconds));
	if (code != 0)
		return code;
	c->progress = FUNET_FREE;
	if (length != NULL)
		*length = c->length;
	if (c->result == -EMSGSIZE)
		return funet_fail(f, c->result, "calling node %u: its answer has %llu bytes, and there is room for %llu", c->node,
				  (unsigned long long)c->length, (unsigned long long)c->room);
	return c->result == 0 ? 0 : funet_fail(f, c->result, "calling node %u: error %d: %s", c->node, c->result, c->text);
}

/* Calls a handler of funet_serve on a node and waits for its answer, of at most room bytes. Results are those of funet_finish; but
 * after any of them the call has ended. */
static inline int funet_call(struct funet *f, uint32_t node, uint32_t number, const void *bytes, size_t length, void *answer, size_t room,
			     size_t *answered, int milliseconds)
{
	int64_t call = funet_start(f, node, number, bytes, length, answer, room);
	if (call < 0)
		return (int)call;
	int code = funet_finish(f, call, answered, milliseconds);
	funet_cancel(f, call);
	return code;
}

/* ---- barrier ---- */

/* Done of a round: the word that a node tells is the number of this barrier. */
struct funet_round {
	const uint32_t *heard;
	uint32_t number;
};

static inline int funet_has_heard(void *round)
{
	const struct funet_round *r = (const struct funet_round *)round;
	return *r->heard == r->number;
}

/* Returns when all nodes have called it; all call it equally often. It is that of uspace/am (barrier.go): in round k
 * each node tells the node 2^k further on. -EINTR, -ETIMEDOUT, and after other errors too: called again it goes on. */
static inline int funet_barrier(struct funet *f, int milliseconds)
{
	struct funet_barrier_state *b = &f->barrier;
	uint32_t nodes = f->card.nodes, node = f->card.node, *s;
	int64_t end = funet_until(milliseconds);
	int code = funet_outside(f, "a barrier");

	if (code != 0)
		return code;
	if (!b->open) {
		b->open = 1;
		b->number++;
		b->round = 0;
		b->told = 0;
	}
	for (; UINT32_C(1) << b->round < nodes; b->round++, b->told = 0) {
		uint32_t step = UINT32_C(1) << b->round, from = (node + nodes - step) % nodes;
		struct funet_round r = { &b->heard[b->round][b->number & 1], b->number };
		if (!b->told) {
			if ((code = funet_request_slot(f, &s)) != 0)
				return code;
			s[0] = funi_header((uint16_t)((node + step) % nodes), FUNET_ROUND, 5);
			s[1] = b->number;
			s[2] = s[4] = s[5] = 0;
			s[3] = b->round;
			(void)funi_send_commit(&f->card, FUNI_REQUEST);
			b->told = 1;
		}
		if ((code = funet_await(f, funet_has_heard, &r, from, end)) != 0)
			return code;
	}
	b->open = 0;
	return 0;
}

/* ---- begin and end ---- */

/* Takes this process's place in a job. o may be NULL: everything is in the environment. The context needs funet_close only if
 * this returns 0. Errors are those of funi_attach and funi_attach_environment. */
static inline int funet_open(struct funet *f, const struct funet_options *o)
{
	uint32_t slots = o != NULL ? o->slots : 0;
	memset(f, 0, sizeof *f);
	f->patience = -1;
	int code = o == NULL || o->socket == NULL ? funi_attach_environment(&f->card, slots) :
						    funi_attach(&f->card, o->socket, o->gid, o->node, o->token, slots);
	if (code != 0)
		return funet_card_fails(f, code);
	/* Numbers of calls begin anywhere, so that a late answer to a process that was this node before is taken for none of ours. */
	uint64_t random = (uint64_t)funi_clock() ^ (uint64_t)getpid() << 40;
	for (int i = 0; i < FUNET_CALLS; i++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		f->calls[i].number = (uint32_t)(random >> 44);
	}
	return 0;
}

/* Waits until what this process has sent has arrived, at most so many milliseconds, and leaves the job: FUNI_ERR_BUSY if something was left
 * undelivered, -EINTR after a signal. Whatever it returns, f is not to be used any more. Messages that others still send to this
 * node come back to them: a barrier comes before. */
static inline int funet_close(struct funet *f, uint32_t milliseconds)
{
	int code = funet_outside(f, "closing");
	if (code == 0 && (code = funi_close(&f->card, milliseconds)) != 0)
		return funet_card_fails(f, code);
	return code;
}

#endif /* FUNET_H */
