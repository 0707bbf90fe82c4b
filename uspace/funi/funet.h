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
 * handler sets. Then waits end with -EINTR when that is not 0, at which they look at least every FUNI_NAP milliseconds, and
 * with no other signal.
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
 * Lives. A node in C takes no part in joining a job again (funet run --restart): what it sends to a node in Go of a later life comes back
 * (FUNET_LIFE, -EHOSTUNREACH). A job that goes on without a node has no such nodes in C.
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
#define FUNET_CALL_SHORT 76     /* of a call, and of its answer, that fit a packet */
#define FUNET_CALLS 256    /* calls under way */
#define FUNET_PIECE_BYTES 76
#define FUNET_WINDOW 32 /* tagged messages of a node that nobody has received; more wait there */
#define FUNET_NUMBER 0x3fffffffu /* numbers of tagged messages count on from 0 after it */
#define FUNET_TAGGED_SHORT 72   /* bytes of a tagged message that fits a packet */
#define FUNET_MAX_BYTES (1 << 26) /* of a message */
#define FUNET_ANY UINT32_MAX /* node */
#define FUNET_ERROR_TEXT 72 /* bytes of an error's text that travel */

/* Types of packets, those of uspace/am/types.go. Bytes of a message lie in its words as in memory; those that fill up the last word
 * are 0, and bits 9:8 of the word with the handler say how many they are. */
enum funet_type {
	FUNET_PROBE = 14,  /* request without meaning */
	FUNET_ROUND = 15,  /* barrier: call number, 0, round, 0, 0 */
	FUNET_BYTES = 18,  /* handler 7:0, padding 9:8; bytes */
	FUNET_PART = 19,   /* transfer into memory that was granted; its argument is the key */
	FUNET_READY = 20,  /* request: id; handler 7:0, kind 18:16; length in bytes; two words of the kind */
	FUNET_GRANT = 21,  /* reply, later request: id; key; address; 0 */
	FUNET_TAKEN = 22,  /* reply, later request: id; status */
	FUNET_ABORT = 23,  /* request: key */
	FUNET_CALL = 24,   /* request: ticket; handler 7:0, padding 9:8; bytes */
	FUNET_ANSWER = 25, /* reply: ticket; padding 9:8, status 31:16; bytes, of an error code and text */
	/* Tagged messages, all requests (uspace/am/tags.go). */
	FUNET_TAGGED = 26, /* number 31:2, space of the tag 1:0; tag; padding 9:8, form 17:16; bytes, or send, length, and maybe an offer, which C does not take */
	FUNET_TOLD = 28,   /* receive; form 17:16, space of the tag 18; send, bytes wanted, how many messages were received */
	FUNET_PIECE = 29   /* receive; offset in bytes; FUNET_PIECE_BYTES bytes, the last piece fewer */
};

/* Forms of FUNET_TAGGED and of FUNET_TOLD. */
enum funet_form {
	FUNET_FORM_SHORT = 0, FUNET_FORM_LONG = 1, FUNET_FORM_VOID = 2, /* the message of that number has come back */
	FUNET_FORM_RECEIVED = 0, FUNET_FORM_GRANT = 1, FUNET_FORM_ABORT = 2
};

/* Kinds of long messages. */
enum funet_kind {
	FUNET_KIND_BYTES = 0,
	FUNET_KIND_REPLY = 1,
	FUNET_KIND_CALL = 2,   /* ticket */
	FUNET_KIND_ANSWER = 3, /* ticket, status */
	FUNET_KIND_TAGGED = 4  /* never on the wire: those have packets of their own */
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
	FUNET_LIFE = 8,       /* the message was for a process that was the node before */
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
	uint8_t *large;  /* one that does not fit a packet, or NULL */
	uint32_t answer[FUNET_CALL_SHORT / 4];
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
#define FUNET_LANDINGS 256 /* long messages that arrive at a time; the others wait at their senders */
#define FUNET_KEPT 65536 /* messages that wait here for memory or for who receives them; more are refused */
#define FUNET_CHUNK (1 << 20) /* bytes of a transfer */
#define FUNET_HOLD 5000 /* milliseconds that memory is left alone whose message was given up */
#define FUNET_ASKED_MOST 8 /* messages that a node is told of, and has not granted memory for */
#define FUNET_PAGE 4096    /* granule of memory */
#define FUNET_BASE 0xc0000000u /* where the library's segments begin */

/* A piece of the memory that the card may use. Pieces are in order of address; those of one segment cover it. */
struct funet_piece {
	struct funet_piece *next;
	uint32_t address, bytes;
	uint8_t *memory;
	uint32_t segment; /* base of its segment */
	int used, adopted; /* adopted: it is the program's own */
	int64_t until; /* not 0: it is free from that time on; late packets may be written there until then */
};

/* A long message of ours that is under way. */
struct funet_sending {
	struct funet_sending *next;
	const uint8_t *bytes;
	size_t length, issued; /* bytes of which transfers have been asked for */
	uint32_t node, id, number, kind, tag, sequence; /* tag: or ticket */
	uint32_t key, to;  /* what was granted: key, address; 0: nothing yet. Tagged: their receive, 1 */
	uint32_t from;     /* address of bytes; 0: they are copied, through staging */
	struct funet_piece *staging;
	uint64_t marks[2]; /* requests sent when the halves of staging were */
	int asked, ended, result;
	int kept;     /* the struct is freed when it has ended */
	uint8_t *copy; /* of a reply: freed, too */
	uint32_t *under_way; /* NULL, or what counts it */
	int given_up; /* by the program: the receiver has yet to be told */
};

/* A long message that was announced to us, and waits for memory or for who receives it. */
struct funet_arrival {
	struct funet_arrival *next;
	uint32_t node, id, number, kind;
	uint32_t tag, sequence, form; /* of a tagged one; ticket and status of a call */
	size_t length;
	const uint8_t *bytes; /* of a short one */
};

/* A wait for a tagged message. */
struct funet_receive_state {
	struct funet_receive_state *next;
	uint32_t node, tag, id;
	uint8_t *bytes;
	size_t room, length, want, got;
	uint32_t from, send; /* who sends it, and their number of it */
	int taken, ended, result;
	int granting; /* the sender has yet to be told that it is wanted */
};

/* What this node and another have sent each other, in one space of tags: numbers of messages. */
struct funet_pair {
	uint32_t sent, matched;     /* the next to the node; how many that has received */
	uint32_t next, taken, told; /* the next from the node; how many were received; what of that the node was told */
};

/* Memory that was granted for a message. */
struct funet_landing {
	uint32_t key, node, id, number, address;
	size_t length, missing;
	struct funet_piece *piece;
	int open;
	uint32_t kind, ticket, status;
};

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
	const volatile sig_atomic_t *stop; /* NULL, or what a signal's handler sets: see above */
	struct funi_return back;  /* the message of the last -EHOSTUNREACH */
	uint64_t unknown;         /* messages that were for nobody, and were dropped */
	uint32_t most;            /* bytes of memory for funet_alloc and for long messages, at most */
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
	uint64_t committed;    /* requests that were put into the send queue */
	struct funet_piece *pieces;
	uint32_t memory;       /* bytes of segments that there are */
	struct funet_sending *sendings;
	int sending_result;    /* of those of funet_post, until funet_flush */
	uint32_t ids;
	struct funet_arrival *waiting; /* for memory, in order */
	uint32_t kept;         /* announcements and messages in the three lists */
	struct funet_landing landings[FUNET_LANDINGS];
	uint32_t landing;      /* where the search for a free one begins */
	struct funet_receive_state *receivers;
	struct funet_arrival *unexpected, *early; /* tagged: in order, nobody receives them yet; before one that is missing */
	struct funet_pair *pairs; /* by space and node */
	int tells;                /* some node has to be told how many messages were received */
	uint32_t collectives;  /* number of the last collective operation */
	struct funet_barrier_state barrier;
};

struct funet_options { /* all 0: everything from the environment */
	const char *socket;   /* of the daemon; NULL: the place in the job is in the environment, and the rest is not looked at */
	uint16_t gid, node;
	const uint8_t *token; /* FUNI_TOKEN_SIZE bytes */
	/* These are looked at in any case. */
	uint32_t slots;       /* of each queue, a power of two; 0: the daemon's default */
	uint32_t memory;      /* bytes of f.most; 0: 64 MiB */
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

/* Sends a request that was composed. */
static inline int funet_commit(struct funet *f)
{
	f->committed++;
	return funi_send_commit(&f->card, FUNI_REQUEST);
}

/* Composes a message of n words and bytes. The word with number at says how many bytes fill up the last one. */
static inline void funet_compose(uint32_t *slot, uint32_t node, uint32_t type, const uint32_t *first, uint32_t n, uint32_t at,
				 const void *bytes, size_t length)
{
	uint32_t words = (uint32_t)(length + 3) / 4;
	slot[0] = funi_header((uint16_t)node, type, n + words);
	memcpy(slot + FUNI_PAYLOAD_WORD, first, 4 * (size_t)n);
	slot[FUNI_PAYLOAD_WORD + at] |= (4 * words - (uint32_t)length) << 8;
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
	m->large = NULL;
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

/* Answers a call with bytes, at most FUNET_MAX_BYTES, which are copied. The last answer counts; without one it has no bytes. It
 * returns 0, or what is wrong, which the handler returns: then the caller gets that. */
static inline int funet_answer(struct funet_message *m, const void *bytes, size_t length)
{
	if (!m->serves)
		return funet_fail(m->f, -EDEADLK, "answering a message that is no call");
	if (length > FUNET_MAX_BYTES)
		return FUNET_LONG;
	free(m->large);
	m->large = length > FUNET_CALL_SHORT ? (uint8_t *)malloc(length) : NULL;
	if (length > FUNET_CALL_SHORT && m->large == NULL)
		return FUNET_MEMORY;
	if (length > 0)
		memcpy(m->large != NULL ? (void *)m->large : (void *)m->answer, bytes, length);
	m->answered = length;
	return 0;
}

/* What the caller gets of what a handler returned. */
__attribute__((format(printf, 3, 4))) static inline void funet_outcome(struct funet_message *m, int code, const char *format, ...)
{
	uint32_t status = code > FUNET_DONE && code <= FUNET_LIFE ? (uint32_t)code : (uint32_t)FUNET_ERROR;
	va_list list;
	va_start(list, format);
	if (code != 0 && (m->status != FUNET_ERROR || m->answer[0] != (uint32_t)code || code < FUNET_FIRST_CODE))
		funet_put_error(m, status, code >= FUNET_FIRST_CODE ? (uint32_t)code : status, format, list);
	va_end(list);
}

static inline void funet_begin(struct funet *f, struct funet_sending *s, uint32_t node, uint32_t number, enum funet_kind kind, uint32_t tag,
			       const void *bytes, size_t length);

/* Begins a message whose bytes are a copy: it and they are freed when it has ended. */
static inline int funet_begin_copy(struct funet *f, uint32_t node, uint32_t number, enum funet_kind kind, uint32_t ticket, uint8_t *copy, size_t length)
{
	struct funet_sending *s = copy != NULL ? (struct funet_sending *)malloc(sizeof *s) : NULL;
	if (s == NULL) {
		free(copy);
		return 0;
	}
	funet_begin(f, s, node, number, kind, ticket, copy, length);
	s->kept = 1;
	s->copy = copy;
	return 1;
}

/* Runs the handler of a call, and answers. */
static inline void funet_run_call(struct funet *f, const uint32_t *slot, uint32_t ticket, uint32_t number, const uint8_t *bytes, size_t length)
{
	const struct funet_entry nobody = { NULL, NULL, 1 }, *h = number < FUNET_HANDLERS ? &f->handlers[number] : &nobody;
	uint32_t node = slot[FUNI_SOURCE_WORD], first[2] = { ticket, 0 }, *s;
	struct funet_message m;

	memset(&m, 0, sizeof m);
	m.bytes = bytes;
	m.length = length;
	if (h->run == NULL || !h->serves) {
		f->unknown++;
		funet_outcome(&m, FUNET_NO_HANDLER, "%s", "");
	} else {
		int code = funet_run(f, h, &m, FUNI_REQUEST, slot);
		funet_outcome(&m, code, "%s", code < 0 ? strerror(-code) : "");
	}
	f->running[FUNI_REQUEST]++;
	if (m.status != FUNET_DONE) {
		free(m.large);
		m.large = NULL;
	} else if (m.large != NULL && !funet_begin_copy(f, node, 0, FUNET_KIND_ANSWER, ticket, m.large, m.answered)) {
		m.large = NULL;
		funet_outcome(&m, FUNET_MEMORY, "%s", "no memory for the answer");
	}
	if (m.large == NULL && (s = funet_reply_slot(f)) != NULL) {
		first[1] = m.status << 16;
		funet_compose(s, node, FUNET_ANSWER, first, 2, 1, m.answer, m.answered);
		(void)funi_send_commit(&f->card, FUNI_REPLY);
	}
	f->running[FUNI_REQUEST]--;
}

/* A call of one packet. */
static inline void funet_called(struct funet *f, enum funi_level l, const uint32_t *slot)
{
	const uint32_t *w = slot + FUNI_PAYLOAD_WORD;
	const uint8_t *bytes;
	size_t length;
	if (l != FUNI_REQUEST || !funet_content(slot, 2, w[1], &bytes, &length))
		f->unknown++;
	else
		funet_run_call(f, slot, w[0], w[1] & 0xff, bytes, length);
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

/* Completes a call with its answer: bytes, or code and text of an error. */
static inline void funet_complete(struct funet_request *c, uint32_t status, const uint8_t *bytes, size_t length)
{
	uint32_t code = status;
	if (status != FUNET_DONE) {
		if (length >= 4)
			memcpy(&code, bytes, 4);
		if (status != FUNET_ERROR || code < FUNET_FIRST_CODE || code > INT32_MAX)
			code = status <= FUNET_LIFE ? status : (uint32_t)FUNET_ERROR;
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

/* An answer of one packet. */
static inline void funet_answered(struct funet *f, const uint32_t *slot)
{
	const uint32_t *w = slot + FUNI_PAYLOAD_WORD;
	struct funet_request *c = funet_find(f, w[0]);
	const uint8_t *bytes;
	size_t length;
	if (!funet_content(slot, 2, w[1], &bytes, &length))
		f->unknown++;
	else if (c != NULL && c->node == slot[FUNI_SOURCE_WORD]) /* else cancelled, or not asked */
		funet_complete(c, w[1] >> 16, bytes, length);
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

/* ---- memory that the card may use ---- */

/* Joins a piece and those that follow and are free, too. */
static inline void funet_join(struct funet_piece *p)
{
	struct funet_piece *next;
	while ((next = p->next) != NULL && !p->used && !next->used && next->segment == p->segment) {
		p->bytes += next->bytes;
		p->next = next->next;
		free(next);
	}
}

/* Gives a piece back, and those whose time has come. */
static inline void funet_give(struct funet *f, struct funet_piece *p)
{
	if (p != NULL)
		p->used = 0;
	for (p = f->pieces; p != NULL; p = p->next) {
		if (p->until != 0 && funet_now() >= p->until) {
			p->until = 0;
			p->used = 0;
		}
		funet_join(p);
	}
}

/* A piece of at least so many bytes, or NULL: there is none, and the daemon gives no more or f->most is reached. */
static inline struct funet_piece *funet_take(struct funet *f, size_t bytes)
{
	uint64_t want = (bytes + FUNET_PAGE - 1) & ~(uint64_t)(FUNET_PAGE - 1), segment = 1 << 20;
	struct funet_piece **at, *p, *rest;
	void *memory = NULL;

	if (want == 0)
		want = FUNET_PAGE;
	funet_give(f, NULL);
	for (at = &f->pieces; *at != NULL && ((*at)->used || (*at)->bytes < want); at = &(*at)->next)
		;
	if (*at == NULL) {
		while (segment < want || (segment < f->memory && f->memory + 2 * segment <= f->most))
			segment *= 2;
		if (f->memory + segment > f->most || (p = (struct funet_piece *)malloc(sizeof *p)) == NULL)
			return NULL;
		p->next = NULL;
		p->segment = p->address = FUNET_BASE + f->memory;
		p->bytes = (uint32_t)segment;
		p->used = p->adopted = 0;
		p->until = 0;
		if (funi_register_segment(&f->card, p->address, segment, FUNI_SOURCE | FUNI_DESTINATION, &memory) != 0) {
			free(p);
			return NULL;
		}
		p->memory = (uint8_t *)memory;
		f->memory += (uint32_t)segment;
		*at = p;
	}
	p = *at;
	if (p->bytes > want && (rest = (struct funet_piece *)malloc(sizeof *rest)) != NULL) {
		*rest = *p;
		rest->address += (uint32_t)want;
		rest->memory += want;
		rest->bytes -= (uint32_t)want;
		p->next = rest;
		p->bytes = (uint32_t)want;
	}
	p->used = 1;
	return p;
}

/* The piece in use in which so many bytes lie, or NULL. */
static inline struct funet_piece *funet_piece_of(struct funet *f, const void *bytes, size_t length)
{
	uintptr_t b = (uintptr_t)bytes, m;
	struct funet_piece *p = f->pieces;
	for (; p != NULL; p = p->next)
		if (m = (uintptr_t)p->memory, p->used && b >= m && b - m <= p->bytes && length <= p->bytes - (b - m))
			return p;
	return NULL;
}

/* The address of bytes that the card can read or write where they are, in whole 16 bytes, or 0. */
static inline uint32_t funet_address(struct funet *f, const void *bytes, size_t length)
{
	struct funet_piece *p = (uintptr_t)bytes % 16 == 0 ? funet_piece_of(f, bytes, (length + 15) & ~(size_t)15) : NULL;
	return p == NULL ? 0 : p->address + (uint32_t)((uintptr_t)bytes - (uintptr_t)p->memory);
}

/* New memory from which long messages are sent, and into which tagged ones are received, without copying; or NULL, with f->error:
 * more than f->most bytes, or than the daemon lets the user have. */
static inline void *funet_alloc(struct funet *f, size_t bytes)
{
	struct funet_piece *p = bytes <= FUNET_MAX_BYTES ? funet_take(f, bytes) : NULL;
	if (p == NULL)
		(void)funet_fail(f, -ENOMEM, "allocating %llu bytes: at most %u in all, and what the daemon gives%s%s", (unsigned long long)bytes,
				 f->most, f->card.error[0] != 0 ? "; " : "", f->card.error);
	return p == NULL ? NULL : p->memory;
}

/* Gives back what funet_alloc returned, when nothing is sent from it any more. */
static inline void funet_free(struct funet *f, void *memory)
{
	struct funet_piece *p = memory != NULL ? funet_piece_of(f, memory, 1) : NULL;
	if (p != NULL && p->memory == (uint8_t *)memory && !p->adopted)
		funet_give(f, p);
}

/* Has long messages leave without copying from memory that the program has: whole pages of ordinary private memory. See
 * funi_adopt for what is refused, -EINVAL, and what changes. -ENOMEM: more than f->most in all. */
static inline int funet_adopt(struct funet *f, void *memory, size_t bytes)
{
	struct funet_piece **at = &f->pieces, *p = (struct funet_piece *)malloc(sizeof *p);
	int code = p == NULL || bytes > f->most - f->memory ? -ENOMEM : 0;
	if (code != 0)
		(void)funet_fail(f, code, "adopting %llu bytes: at most %u in all", (unsigned long long)bytes, f->most);
	else if ((code = funi_adopt(&f->card, FUNET_BASE + f->memory, memory, bytes, FUNI_SOURCE | FUNI_DESTINATION)) != 0)
		(void)funet_card_fails(f, code);
	if (code != 0) {
		free(p);
		return code;
	}
	memset(p, 0, sizeof *p);
	p->segment = p->address = FUNET_BASE + f->memory;
	p->bytes = (uint32_t)bytes;
	p->memory = (uint8_t *)memory;
	p->used = p->adopted = 1;
	f->memory += p->bytes;
	while (*at != NULL)
		at = &(*at)->next;
	*at = p;
	return 0;
}

/* Ends that, before the memory is freed, when nothing is sent from it any more: FUNI_ERR_BUSY while the card needs it. */
static inline int funet_disown(struct funet *f, void *memory)
{
	struct funet_piece **at = &f->pieces, *p;
	while ((p = *at) != NULL && (!p->adopted || p->memory != (uint8_t *)memory))
		at = &p->next;
	if (p == NULL)
		return funet_fail(f, -EINVAL, "ending the use of memory at %p, which was not adopted", memory);
	int code = funi_disown(&f->card, p->address, p->memory, p->bytes);
	if (code != 0)
		return funet_card_fails(f, code);
	*at = p->next;
	free(p);
	return 0;
}

/* ---- long messages: ready, grant, transfers, taken ----
 *
 * The sender says that a message is ready. The receiver grants memory when it has some, and for a tagged one when
 * it is received; until then the message stays at its sender. The sender has its card transfer the bytes there, rounded up to
 * 16. When all have arrived the receiver runs the handler, and says that they are taken. */

/* Sends a short message of words: as a reply in a request's handler, else as a request, if there is room for one. */
static inline int funet_tell_words(struct funet *f, uint32_t node, uint32_t type, const uint32_t *words, uint32_t n)
{
	enum funi_level l = f->running[FUNI_REQUEST] && !f->running[FUNI_REPLY] ? FUNI_REPLY : FUNI_REQUEST;
	uint32_t *s = l == FUNI_REPLY ? funet_reply_slot(f) : funi_send_reserve(&f->card, l);
	if (s == NULL)
		return 0;
	s[0] = funi_header((uint16_t)node, type, n);
	memcpy(s + FUNI_PAYLOAD_WORD, words, 4 * (size_t)n);
	(void)(l == FUNI_REPLY ? funi_send_commit(&f->card, l) : funet_commit(f));
	return 1;
}

/* Grants a message memory: 1, 0 if there is none at present, or no room to say so. */
static inline int funet_grant(struct funet *f, const struct funet_arrival *a)
{
	struct funet_landing *g = NULL;
	uint32_t words[4] = { a->id, 0, 0, 0 };

	if (!f->running[FUNI_REQUEST] && funi_send_reserve(&f->card, FUNI_REQUEST) == NULL)
		return 0;
	for (int i = 0; i < FUNET_LANDINGS && g == NULL; i++, f->landing++)
		if (!f->landings[f->landing % FUNET_LANDINGS].open)
			g = &f->landings[f->landing % FUNET_LANDINGS];
	if (g == NULL)
		return 0;
	if ((g->piece = funet_take(f, a->length)) == NULL)
		return 0;
	g->address = g->piece->address;
	g->key = ((g->key >> 8) + 1) << 9 >> 1 | (uint32_t)(g - f->landings);
	g->node = a->node;
	g->id = a->id;
	g->number = a->number;
	g->length = a->length;
	g->missing = (a->length + 15) & ~(size_t)15;
	g->kind = a->kind;
	g->ticket = a->tag;
	g->status = a->sequence;
	g->open = 1;
	words[1] = g->key;
	words[2] = g->address;
	return funet_tell_words(f, a->node, FUNET_GRANT, words, 4);
}

/* Says what has become of a message. */
static inline int funet_settle(struct funet *f, uint32_t node, uint32_t id, uint32_t status)
{
	const uint32_t words[2] = { id, status };
	return funet_tell_words(f, node, FUNET_TAKEN, words, 2);
}

/* Keeps what was announced at the end of a list. */
static inline int funet_keep(struct funet *f, struct funet_arrival **list, const struct funet_arrival *a, const uint8_t *bytes)
{
	struct funet_arrival *kept =
		f->kept < FUNET_KEPT ? (struct funet_arrival *)malloc(sizeof *kept + (bytes != NULL ? a->length : 0)) : NULL;
	if (kept == NULL)
		return 0;
	f->kept++;
	*kept = *a;
	kept->next = NULL;
	kept->bytes = bytes != NULL ? (const uint8_t *)(kept + 1) : NULL;
	if (bytes != NULL && a->length > 0)
		memcpy(kept + 1, bytes, a->length);
	while (*list != NULL)
		list = &(*list)->next;
	*list = kept;
	return 1;
}

static inline void funet_forget(struct funet *f, struct funet_arrival *a)
{
	f->kept--;
	free(a);
}

/* ---- tagged messages: envelopes, what is told, pieces ----
 *
 * An envelope has a number, by which the receiver puts those of a node in order, and the bytes of a short message. When a
 * receive takes a long one its sender is told, and sends the bytes in pieces. */

static inline struct funet_pair *funet_pair_of(struct funet *f, uint32_t node, uint32_t space)
{
	return &f->pairs[(size_t)space * f->card.nodes + node];
}

/* Tells a node something of a space of tags, and how many messages were received; 0 if there is no room. */
static inline int funet_say(struct funet *f, uint32_t node, uint32_t space, enum funet_form form, uint32_t first, uint32_t send, uint32_t want)
{
	struct funet_pair *p = funet_pair_of(f, node, space);
	uint32_t *s = funi_send_reserve(&f->card, FUNI_REQUEST);
	if (s == NULL)
		return 0;
	s[0] = funi_header((uint16_t)node, FUNET_TOLD, 5);
	s[1] = first;
	s[2] = (uint32_t)form << 16 | space << 18;
	s[3] = send;
	s[4] = want;
	s[5] = p->told = p->taken;
	(void)funet_commit(f);
	return 1;
}

/* Notes that a message of a node was received, or will never come. */
static inline void funet_note(struct funet *f, struct funet_pair *p)
{
	p->taken = (p->taken + 1) & FUNET_NUMBER;
	if (((p->taken - p->told) & FUNET_NUMBER) >= FUNET_WINDOW / 2)
		f->tells = 1;
}

/* Ends a wait for a tagged message, which may have been longer than there is room. */
static inline void funet_end_receive(struct funet_receive_state *r, int result)
{
	r->result = result == 0 && r->length > r->room ? -EMSGSIZE : result;
	r->ended = 1;
}

/* Gives a tagged message to who waits for it. */
static inline void funet_meet(struct funet *f, const struct funet_arrival *a, struct funet_receive_state *r)
{
	funet_note(f, funet_pair_of(f, a->node, a->tag >> 31));
	r->taken = 1;
	r->from = a->node;
	r->send = a->id;
	r->length = a->length;
	r->want = a->length < r->room ? a->length : r->room;
	r->granting = a->form == FUNET_FORM_LONG;
	f->tells |= r->granting;
	if (!r->granting) {
		if (r->want > 0)
			memcpy(r->bytes, a->bytes, r->want);
		funet_end_receive(r, 0);
	}
}

/* Who waits for a message, the first, or NULL. */
static inline struct funet_receive_state *funet_receiver(struct funet *f, const struct funet_arrival *a)
{
	struct funet_receive_state *r = f->receivers;
	while (r != NULL && (r->taken || a->tag != r->tag || (r->node != FUNET_ANY && r->node != a->node)))
		r = r->next;
	return r;
}

/* A tagged message whose turn it is: to the first that waits for it, or it is kept. */
static inline void funet_deliver(struct funet *f, const struct funet_arrival *a)
{
	struct funet_receive_state *r = funet_receiver(f, a);
	struct funet_pair *p = funet_pair_of(f, a->node, a->tag >> 31);
	p->next = (p->next + 1) & FUNET_NUMBER;
	if (a->form == FUNET_FORM_VOID)
		funet_note(f, p);
	else if (r != NULL)
		funet_meet(f, a, r);
	else if (!funet_keep(f, &f->unexpected, a, a->bytes) && f->failed == 0)
		f->failed = funet_fail(f, -ENOMEM, "no memory for a message of node %u", a->node);
}

/* Gives messages that are kept to those who wait for them. */
static inline void funet_match(struct funet *f)
{
	struct funet_arrival **at = &f->unexpected, *a;
	while ((a = *at) != NULL) {
		struct funet_receive_state *r = funet_receiver(f, a);
		if (r == NULL) {
			at = &a->next;
			continue;
		}
		funet_meet(f, a, r);
		*at = a->next;
		funet_forget(f, a);
	}
}

/* A tagged message that came early, of a pair and a number, or NULL. */
static inline struct funet_arrival **funet_early(struct funet *f, uint32_t node, uint32_t space, uint32_t number)
{
	struct funet_arrival **at = &f->early;
	while (*at != NULL && ((*at)->node != node || (*at)->tag >> 31 != space || (*at)->sequence != number))
		at = &(*at)->next;
	return *at != NULL ? at : NULL;
}

/* An envelope. */
static inline void funet_tagged(struct funet *f, enum funi_level l, const uint32_t *slot)
{
	const uint32_t *w = slot + FUNI_PAYLOAD_WORD;
	uint32_t space = w[0] & 3;
	struct funet_arrival a, **at;
	memset(&a, 0, sizeof a);
	a.node = slot[FUNI_SOURCE_WORD];
	a.tag = w[1];
	a.sequence = w[0] >> 2;
	a.form = w[2] >> 16 & 3;
	struct funet_pair *p = a.node < f->card.nodes && space <= 1 ? funet_pair_of(f, a.node, space) : NULL;
	if (l != FUNI_REQUEST || p == NULL || a.tag >> 31 != space || a.form > FUNET_FORM_VOID || !funet_content(slot, 3, w[2], &a.bytes, &a.length) ||
	    (a.form == FUNET_FORM_LONG && funi_words(slot[0]) != 5 && funi_words(slot[0]) != 6) ||
	    ((a.sequence - p->next) & FUNET_NUMBER) >= ((p->taken + FUNET_WINDOW - p->next) & FUNET_NUMBER) ||
	    funet_early(f, a.node, space, a.sequence) != NULL) {
		f->unknown++;
		return;
	}
	if (a.form == FUNET_FORM_LONG) {
		a.id = w[3];
		a.length = w[4];
		a.bytes = NULL;
	}
	if (a.sequence != p->next) {
		if (!funet_keep(f, &f->early, &a, a.bytes) && f->failed == 0)
			f->failed = funet_fail(f, -ENOMEM, "no memory for a message of node %u", a.node);
		return;
	}
	funet_deliver(f, &a);
	while ((at = funet_early(f, a.node, space, p->next)) != NULL) {
		struct funet_arrival *next = *at;
		*at = next->next;
		funet_deliver(f, next);
		funet_forget(f, next);
	}
}

/* A piece of a tagged message. */
static inline void funet_piece_came(struct funet *f, const uint32_t *slot)
{
	const uint32_t *w = slot + FUNI_PAYLOAD_WORD;
	struct funet_receive_state *r = f->receivers;
	size_t n = 4 * (size_t)(funi_words(slot[0]) - 2), left;
	while (r != NULL && (r->id != w[0] || !r->taken || r->ended || r->from != slot[FUNI_SOURCE_WORD]))
		r = r->next;
	if (r == NULL)
		return; /* given up */
	left = w[1] < r->want ? r->want - w[1] : 0;
	left = left < FUNET_PIECE_BYTES ? left : FUNET_PIECE_BYTES;
	if (left == 0 || w[1] % FUNET_PIECE_BYTES != 0 || n < left) {
		f->unknown++;
		return;
	}
	memcpy(r->bytes + w[1], w + 2, left);
	r->got += left;
	if (r->got >= r->want)
		funet_end_receive(r, 0);
}

static inline void funet_end_sending(struct funet_sending *s, int result)
{
	if (!s->ended)
		s->result = result;
	s->ended = 1;
}

/* What a node says of tagged messages. */
static inline void funet_is_told(struct funet *f, const uint32_t *slot)
{
	const uint32_t *w = slot + FUNI_PAYLOAD_WORD;
	uint32_t node = slot[FUNI_SOURCE_WORD], space = w[1] >> 18 & 3, form = w[1] >> 16 & 3;
	struct funet_pair *p = node < f->card.nodes && space <= 1 ? funet_pair_of(f, node, space) : NULL;
	struct funet_sending *s = f->sendings;
	struct funet_receive_state *r = f->receivers;
	if (p == NULL || funi_words(slot[0]) != 5) {
		f->unknown++;
		return;
	}
	if (((w[4] - p->matched) & FUNET_NUMBER) <= ((p->sent - p->matched) & FUNET_NUMBER))
		p->matched = w[4] & FUNET_NUMBER;
	if (form == FUNET_FORM_GRANT) {
		while (s != NULL && (s->kind != FUNET_KIND_TAGGED || s->id != w[2] || s->node != node || !s->asked || s->ended))
			s = s->next;
		if (s == NULL || w[3] > s->length) {
			(void)funet_say(f, node, space, FUNET_FORM_ABORT, w[0], 0, 0);
		} else if (s->to == 0) {
			s->key = w[0];
			s->to = 1;
			s->length = w[3];
			if (w[3] == 0 && !s->given_up)
				funet_end_sending(s, 0);
		}
	} else if (form == FUNET_FORM_ABORT) {
		while (r != NULL && (r->id != w[0] || !r->taken || r->ended || r->from != node))
			r = r->next;
		if (r != NULL)
			funet_end_receive(r, -ECANCELED);
	}
}

/* Sends an envelope when its turn has come, and pieces of a message that is wanted, into half of the send queue. */
static inline void funet_push_tagged(struct funet *f, struct funet_sending *s)
{
	uint32_t space = s->tag >> 31, *slot;
	struct funet_pair *p = funet_pair_of(f, s->node, space);
	if (!s->asked) {
		for (const struct funet_sending *o = f->sendings; o != s; o = o->next)
			if (o->kind == FUNET_KIND_TAGGED && !o->asked && !o->ended && o->node == s->node && o->tag >> 31 == space)
				return; /* it is before this one */
		if (((p->sent - p->matched) & FUNET_NUMBER) >= FUNET_WINDOW || (slot = funi_send_reserve(&f->card, FUNI_REQUEST)) == NULL)
			return;
		uint32_t words[5] = { p->sent << 2 | space, s->tag, FUNET_FORM_SHORT << 16, s->id, (uint32_t)s->length };
		if (s->length > FUNET_TAGGED_SHORT) {
			words[2] = FUNET_FORM_LONG << 16;
			funet_compose(slot, s->node, FUNET_TAGGED, words, 5, 2, NULL, 0);
		} else {
			funet_compose(slot, s->node, FUNET_TAGGED, words, 3, 2, s->bytes, s->length);
			funet_end_sending(s, 0);
		}
		s->asked = 1;
		s->sequence = p->sent;
		p->sent = (p->sent + 1) & FUNET_NUMBER;
		(void)funet_commit(f);
	}
	while (s->to != 0 && !s->ended) {
		size_t left = s->length - s->issued, n = left < FUNET_PIECE_BYTES ? left : FUNET_PIECE_BYTES, words = (n + 3) / 4;
		if (left == 0) {
			funet_end_sending(s, 0);
			return;
		}
		if (funi_unsent(&f->card, FUNI_REQUEST) > f->card.mask / 2 || (slot = funi_send_reserve(&f->card, FUNI_REQUEST)) == NULL)
			return;
		slot[0] = funi_header((uint16_t)s->node, FUNET_PIECE, 2 + (uint32_t)words);
		slot[1] = s->key;
		slot[2] = (uint32_t)s->issued;
		slot[2 + words] = 0;
		memcpy(slot + 3, s->bytes + s->issued, n);
		s->issued += n;
		(void)funet_commit(f);
	}
}

/* Says what there is to say of tagged messages. */
static inline void funet_tell_tagged(struct funet *f)
{
	f->tells = 0;
	for (struct funet_receive_state *r = f->receivers; r != NULL; r = r->next)
		if (r->granting) {
			r->granting = !funet_say(f, r->from, r->tag >> 31, FUNET_FORM_GRANT, r->id, r->send, (uint32_t)r->want);
			f->tells |= r->granting;
			if (!r->granting && r->want == 0)
				funet_end_receive(r, 0);
		}
	for (uint32_t i = 0; i < 2 * f->card.nodes; i++)
		if (((f->pairs[i].taken - f->pairs[i].told) & FUNET_NUMBER) >= FUNET_WINDOW / 2)
			f->tells |= !funet_say(f, i % f->card.nodes, i / f->card.nodes, FUNET_FORM_RECEIVED, 0, 0, 0);
}

/* ---- long messages, continued ---- */

/* A message is ready at its sender. */
static inline void funet_ready(struct funet *f, const uint32_t *slot)
{
	const uint32_t *w = slot + FUNI_PAYLOAD_WORD;
	struct funet_arrival a;
	memset(&a, 0, sizeof a);
	a.node = slot[FUNI_SOURCE_WORD];
	a.id = w[0];
	a.number = w[1] & 0xff;
	a.kind = w[1] >> 16 & 7;
	a.length = w[2];
	a.tag = w[3];
	a.sequence = w[4];
	if (a.node >= f->card.nodes || a.length == 0 || a.kind > FUNET_KIND_ANSWER) {
		f->unknown++;
	} else if (a.length > FUNET_MAX_BYTES) {
		(void)funet_settle(f, a.node, a.id, FUNET_LONG);
	} else if (a.length > f->most) {
		(void)funet_settle(f, a.node, a.id, FUNET_MEMORY);
	} else if (a.kind <= FUNET_KIND_REPLY && (a.number >= FUNET_HANDLERS || f->handlers[a.number].run == NULL || f->handlers[a.number].serves)) {
		f->unknown++;
		(void)funet_settle(f, a.node, a.id, FUNET_NO_HANDLER);
	} else if ((f->waiting != NULL || !funet_grant(f, &a)) && !funet_keep(f, &f->waiting, &a, NULL)) {
		(void)funet_settle(f, a.node, a.id, FUNET_MEMORY);
	}
}

/* A transfer into memory that was granted has arrived. */
static inline void funet_landed(struct funet *f, const uint32_t *slot, const struct funi_notice *n)
{
	struct funet_landing *g = &f->landings[n->argument & 0xff];
	uint64_t size = (g->length + 15) & ~(size_t)15;
	struct funet_message m;

	if (!g->open || g->key != n->argument || g->node != slot[FUNI_SOURCE_WORD] || n->address < g->address ||
	    (uint64_t)(n->address - g->address) + (uint64_t)n->words * 4 > size || (uint64_t)n->words * 4 > g->missing) {
		f->unknown++;
		return;
	}
	g->missing -= (size_t)n->words * 4;
	if (g->missing > 0)
		return;
	g->open = 0;
	struct funet_request *c = g->kind == FUNET_KIND_ANSWER ? funet_find(f, g->ticket) : NULL;
	int code = 0;
	m.bytes = g->piece->memory;
	m.length = g->length;
	if (g->kind == FUNET_KIND_CALL)
		funet_run_call(f, slot, g->ticket, g->number, m.bytes, m.length);
	else if (c != NULL && c->node == g->node)
		funet_complete(c, g->status, m.bytes, m.length);
	else if (g->kind <= FUNET_KIND_REPLY)
		code = funet_run(f, &f->handlers[g->number], &m, g->kind == FUNET_KIND_REPLY ? FUNI_REPLY : FUNI_REQUEST, slot);
	if (code != 0 && f->failed == 0)
		f->failed = funet_fail(f, code < 0 ? code : -code, "handler %u returned %d for a message of node %u", g->number, code, g->node);
	funet_give(f, g->piece);
	f->running[FUNI_REQUEST]++;
	(void)funet_settle(f, g->node, g->id, FUNET_DONE);
	f->running[FUNI_REQUEST]--;
}

/* Ready, grant, taken, abort. */
static inline void funet_long(struct funet *f, enum funi_level l, const uint32_t *slot, uint32_t type, uint32_t words)
{
	const uint32_t *w = slot + FUNI_PAYLOAD_WORD;
	uint32_t node = slot[FUNI_SOURCE_WORD];
	struct funet_sending *s = f->sendings;
	struct funet_landing *g = &f->landings[w[0] & 0xff];

	if (words < (type == FUNET_READY ? 5u : type == FUNET_GRANT ? 4u : type == FUNET_TAKEN ? 2u : 1u)) {
		f->unknown++;
		return;
	}
	while (s != NULL && (s->kind == FUNET_KIND_TAGGED || s->id != w[0] || s->node != node))
		s = s->next;
	f->running[l]++;
	if (type == FUNET_READY && l == FUNI_REQUEST) {
		funet_ready(f, slot);
	} else if (type == FUNET_GRANT && s != NULL && s->to == 0) {
		s->key = w[1];
		s->to = w[2];
	} else if (type == FUNET_GRANT && s == NULL && l == FUNI_REQUEST) {
		(void)funet_tell_words(f, node, FUNET_ABORT, w + 1, 1); /* it was given up */
	} else if (type == FUNET_TAKEN && s != NULL && w[1] != FUNET_DONE) {
		funet_end_sending(s, w[1] == FUNET_LONG ? -EMSGSIZE : w[1] == FUNET_NO_HANDLER ? -ENOSYS :
					     w[1] == FUNET_LIFE || w[1] == FUNET_LOST ? -EHOSTUNREACH : -ENOMEM);
	} else if (type == FUNET_ABORT && g->open && g->key == w[0] && g->node == node) {
		g->open = 0;
		g->piece->until = funet_now() + INT64_C(1000000) * FUNET_HOLD;
	}
	f->running[l]--;
}

/* How many requests have been taken from the send queue so far: what those before it sent has been read. */
static inline uint64_t funet_retired(struct funet *f) { return f->committed - funi_unsent(&f->card, FUNI_REQUEST); }

/* Asks for transfers of a message, as far as there is room. */
static inline void funet_transfer_more(struct funet *f, struct funet_sending *s)
{
	size_t whole = (s->length + 15) & ~(size_t)15, half = FUNET_CHUNK / 2;
	if (s->from == 0 && s->staging == NULL && (s->staging = funet_take(f, whole < FUNET_CHUNK ? whole : FUNET_CHUNK)) == NULL) {
		funet_end_sending(s, -ENOMEM);
		return;
	}
	while (s->issued < whole) {
		size_t at = s->issued, n = whole - at, side = at / half % 2;
		uint32_t from = s->from + (uint32_t)at, *slot;
		if (n > (s->from != 0 ? FUNET_CHUNK : half))
			n = s->from != 0 ? FUNET_CHUNK : half;
		if (s->from == 0 && at >= FUNET_CHUNK && funet_retired(f) < s->marks[side])
			return;
		if ((slot = funi_send_reserve(&f->card, FUNI_REQUEST)) == NULL)
			return;
		if (s->from == 0) {
			memcpy(s->staging->memory + side * half, s->bytes + at, at + n > s->length ? s->length - at : n);
			from = s->staging->address + (uint32_t)(side * half);
		}
		funi_transfer(slot, (uint16_t)s->node, FUNET_PART, from, s->to + (uint32_t)at, s->key, (uint32_t)n / 4);
		(void)funet_commit(f);
		s->marks[side] = f->committed;
		s->marks[1 - side] = s->marks[1 - side] > 0 ? s->marks[1 - side] : f->committed;
		s->issued += n;
	}
}

/* Goes on with one long message: announces it, transfers it, and notes when the card has read all of it. */
static inline void funet_push(struct funet *f, struct funet_sending *s)
{
	const uint32_t words[5] = { s->id, s->number | s->kind << 16, (uint32_t)s->length, s->tag, FUNET_DONE };
	int others = 0;
	if (s->kind == FUNET_KIND_TAGGED) {
		funet_push_tagged(f, s);
		return;
	}
	for (const struct funet_sending *o = f->sendings; o != NULL && !s->asked; o = o->next)
		others += o->kind != FUNET_KIND_TAGGED && o->node == s->node && o->asked && o->to == 0 && !o->ended;
	if (!s->asked && others < FUNET_ASKED_MOST)
		s->asked = funet_tell_words(f, s->node, FUNET_READY, words, 5);
	if (s->to != 0 && !s->ended)
		funet_transfer_more(f, s);
	if (s->to != 0 && !s->ended && s->issued >= s->length &&
	    funet_retired(f) >= (s->marks[0] > s->marks[1] ? s->marks[0] : s->marks[1]))
		funet_end_sending(s, 0);
}

/* Takes a message from the list of those under way, when the card no longer reads it. */
static inline void funet_unlink(struct funet *f, struct funet_sending *s)
{
	struct funet_sending **at = &f->sendings;
	while (*at != NULL && *at != s)
		at = &(*at)->next;
	if (*at != NULL)
		*at = s->next;
	if (s->staging != NULL)
		funet_give(f, s->staging);
	s->staging = NULL;
}

/* Whether the card has read all that it was asked to transfer. */
static inline int funet_is_read(struct funet *f, const struct funet_sending *s)
{
	return s->issued == 0 || funet_retired(f) >= (s->marks[0] > s->marks[1] ? s->marks[0] : s->marks[1]);
}

/* Why a long message did not arrive. */
static inline const char *funet_why(int result)
{
	return result == -EHOSTUNREACH ? "the node is gone, or the message came back" :
	       result == -ENOSYS       ? "the node has no such handler" :
	       result == -EMSGSIZE     ? "the node has no room for so many bytes" :
					 "there is no memory for it, here or there";
}

/* Ends a message of the list that is kept, when the card no longer reads it and the receiver knows if it was given up. */
static inline void funet_retire(struct funet *f, struct funet_sending *s)
{
	struct funet_request *c;
	int knows = s->to == 0 || (!s->given_up && s->result != -ENOMEM) || s->result == -EHOSTUNREACH;
	if (!funet_is_read(f, s))
		return;
	if (!knows && !(s->kind == FUNET_KIND_TAGGED ? funet_say(f, s->node, s->tag >> 31, FUNET_FORM_ABORT, s->key, 0, 0) :
						       funet_tell_words(f, s->node, FUNET_ABORT, &s->key, 1)))
		return;
	if (s->result != 0 && !s->given_up && s->copy == NULL && f->sending_result == 0)
		f->sending_result = s->result;
	if (s->result != 0 && s->kind == FUNET_KIND_CALL && (c = funet_find(f, s->tag)) != NULL)
		funet_end_call(c, s->result, funet_why(s->result), strlen(funet_why(s->result)));
	if (s->result != 0 && s->kind == FUNET_KIND_ANSWER && f->untolds < FUNET_UNTOLD) {
		f->untold[f->untolds].node = s->node;
		f->untold[f->untolds++].ticket = s->tag;
	}
	if (s->result != 0 && s->kind == FUNET_KIND_REPLY && f->failed == 0)
		f->failed = funet_fail(f, s->result, "replying with %llu bytes to node %u: %s", (unsigned long long)s->length, s->node, funet_why(s->result));
	funet_unlink(f, s);
	if (s->under_way != NULL)
		(*s->under_way)--;
	free(s->copy);
	free(s);
}

/* Goes on with everything that is under way, outside handlers. */
static inline void funet_advance(struct funet *f)
{
	struct funet_sending *s, *next;
	struct funet_arrival *a;
	for (s = f->sendings; s != NULL; s = next) {
		next = s->next;
		if (!s->ended && !s->given_up)
			funet_push(f, s);
		if (s->kept && (s->ended || (s->given_up && (s->to != 0 || !s->asked))))
			funet_retire(f, s);
	}
	while ((a = f->waiting) != NULL && funet_grant(f, a)) {
		f->waiting = a->next;
		funet_forget(f, a);
	}
	if (f->tells)
		funet_tell_tagged(f);
}

/* Handles one message. */
static inline void funet_handle_slot(struct funet *f, enum funi_level l, const uint32_t *slot)
{
	uint32_t type = funi_type(slot[0]), words = funi_words(slot[0]);
	struct funi_notice n;
	if (funi_is_notice(slot, &n)) {
		if (type == FUNET_PART)
			funet_landed(f, slot, &n);
		else
			f->unknown++;
	} else if (words == 0)
		f->unknown++;
	else if (type == FUNET_BYTES)
		funet_received(f, l, slot);
	else if (type == FUNET_CALL && words > 1)
		funet_called(f, l, slot);
	else if (type == FUNET_ANSWER && words > 1)
		funet_answered(f, slot);
	else if (type == FUNET_ROUND)
		funet_told(f, slot);
	else if (type >= FUNET_READY && type <= FUNET_ABORT)
		funet_long(f, l, slot, type, words);
	else if (type == FUNET_TAGGED && words >= 3)
		funet_tagged(f, l, slot);
	else if (type == FUNET_TOLD && words >= 5)
		funet_is_told(f, slot);
	else if (type == FUNET_PIECE && words >= 2)
		funet_piece_came(f, slot);
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
	if (type == FUNET_TAGGED && !funet_gone(r->reason) && node < f->card.nodes) { /* the node is not to wait for it */
		const uint32_t words[3] = { r->word, (r->word & 1) << 31, FUNET_FORM_VOID << 16 };
		(void)funet_tell_words(f, node, FUNET_TAGGED, words, 3);
	}
	for (struct funet_sending *s = f->sendings; s != NULL; s = s->next)
		if (s->node == node && !s->ended &&
		    (funet_gone(r->reason) || (type == FUNET_TAGGED && s->kind == FUNET_KIND_TAGGED && s->asked && s->sequence == r->word >> 2) ||
		     (type == FUNET_PIECE && s->kind == FUNET_KIND_TAGGED && s->to != 0 && s->key == r->word) || (type == FUNET_READY && s->id == r->word) || (type == FUNET_PART && s->to != 0 && s->key == r->word))) {
			funet_end_sending(s, -EHOSTUNREACH);
			told = 1;
		}
	for (struct funet_receive_state *w = f->receivers; w != NULL && funet_gone(r->reason); w = w->next)
		if (!w->ended && (w->taken ? w->from == node : w->node == node))
			funet_end_receive(w, -EHOSTUNREACH);
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
		funet_compose(s, f->untold[f->untolds].node, FUNET_ANSWER, first, 2, 1, NULL, 0);
		(void)funet_commit(f);
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
	if (f->sendings != NULL || f->waiting != NULL || f->tells)
		funet_advance(f);
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
	if (n == -EINTR && f->stop != NULL)
		return 0; /* the flag says whether that was one that matters */
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
	return funet_commit(f);
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

/* Begins a long message. The struct is the caller's, or kept until it has ended. */
static inline void funet_begin(struct funet *f, struct funet_sending *s, uint32_t node, uint32_t number, enum funet_kind kind, uint32_t tag,
			       const void *bytes, size_t length)
{
	struct funet_sending **at = &f->sendings;
	memset(s, 0, sizeof *s);
	s->node = node;
	s->number = number;
	s->kind = kind;
	s->tag = tag;
	s->bytes = (const uint8_t *)bytes;
	s->length = length;
	s->id = ++f->ids & INT32_MAX;
	s->from = kind == FUNET_KIND_TAGGED ? 0 : funet_address(f, bytes, length);
	while (*at != NULL)
		at = &(*at)->next;
	*at = s;
	if (!f->running[FUNI_REQUEST]) /* else the next poll does it */
		funet_push(f, s);
}

static inline int funet_has_sent(void *sending) { return ((struct funet_sending *)sending)->ended; }

/* Gives up a message that has not ended: what is left of it is kept until its receiver knows. It waits until the card no longer reads
 * the program's own memory. */
static inline void funet_give_up(struct funet *f, struct funet_sending *s)
{
	struct funet_sending *kept = (struct funet_sending *)malloc(sizeof *kept);
	while ((s->from != 0 || kept == NULL) && !funet_is_read(f, s))
		if (funi_wait(&f->card, 10) == -ENOTCONN)
			break;
	if (kept == NULL) {
		funet_unlink(f, s);
		return;
	}
	*kept = *s;
	kept->kept = kept->given_up = 1;
	s->staging = NULL;
	funet_unlink(f, s);
	kept->next = f->sendings;
	f->sendings = kept;
}

/* Waits until a long message has been read. */
static inline int funet_end(struct funet *f, struct funet_sending *s, int64_t end)
{
	int code = funet_await(f, funet_has_sent, s, s->node, end);
	if (!s->ended) {
		funet_give_up(f, s);
		return code;
	}
	if (!funet_is_read(f, s) || s->result == -ENOMEM) {
		int result = s->result;
		funet_give_up(f, s);
		s->result = result;
	} else {
		funet_unlink(f, s);
	}
	if (s->result == 0)
		return code;
	return funet_fail(f, s->result, "sending %llu bytes to node %u: %s", (unsigned long long)s->length, s->node, funet_why(s->result));
}

/* Runs a handler on a node with bytes, at most FUNET_MAX_BYTES. On return the bytes may be changed. While the send queue is full it
 * polls, and with more than FUNET_SHORT bytes until the receiver has had room for them and they have left, at most f->patience; they
 * are copied unless they are in memory of funet_alloc. Not in handlers. Errors of earlier messages keep this one from being sent;
 * -ENOSYS: the node has no such handler; -ENOMEM: no memory there, or here. */
static inline int funet_send(struct funet *f, uint32_t node, uint32_t number, const void *bytes, size_t length)
{
	struct funet_sending sending;
	uint32_t *s;
	int code = funet_outside(f, "sending");
	if (code != 0 || (code = funet_check(f, node, number, length, FUNET_MAX_BYTES)) != 0)
		return code;
	if (length > FUNET_SHORT) {
		funet_begin(f, &sending, node, number, FUNET_KIND_BYTES, 0, bytes, length);
		return funet_end(f, &sending, funet_until(f->patience));
	}
	if ((code = funet_request_slot(f, &s)) != 0)
		return code;
	funet_compose(s, node, FUNET_BYTES, &number, 1, 0, bytes, length);
	return funet_commit(f);
}

/* funet_send that does not wait for the receiver: the bytes must stay as they are until funet_flush has returned 0. under_way is NULL, or
 * counts such messages: it is one more until the bytes may be changed. */
static inline int funet_post(struct funet *f, uint32_t node, uint32_t number, const void *bytes, size_t length, uint32_t *under_way)
{
	struct funet_sending *s;
	int code = funet_outside(f, "sending");
	if (length <= FUNET_SHORT)
		return funet_send(f, node, number, bytes, length);
	if (code != 0 || (code = funet_check(f, node, number, length, FUNET_MAX_BYTES)) != 0)
		return code;
	if ((s = (struct funet_sending *)malloc(sizeof *s)) == NULL)
		return funet_fail(f, -ENOMEM, "sending %llu bytes to node %u: no memory", (unsigned long long)length, node);
	funet_begin(f, s, node, number, FUNET_KIND_BYTES, 0, bytes, length);
	s->kept = 1;
	s->under_way = under_way;
	if (under_way != NULL)
		(*under_way)++;
	return 0;
}

static inline int funet_is_flushed(void *argument)
{
	const struct funet_sending *s = ((struct funet *)argument)->sendings;
	while (s != NULL && (s->given_up || !s->kept || s->copy != NULL))
		s = s->next;
	return s == NULL;
}

/* Waits until all that funet_post began has been read: 0, or the first error of one of them, once; the others have ended then, too. */
static inline int funet_flush(struct funet *f, int milliseconds)
{
	int code = funet_outside(f, "flushing");
	if (code == 0)
		code = funet_await(f, funet_is_flushed, f, f->sendings != NULL ? f->sendings->node : f->card.nodes, funet_until(milliseconds));
	if (code != 0 || f->sending_result == 0)
		return code;
	code = f->sending_result;
	f->sending_result = 0;
	return funet_fail(f, code, "a message of funet_post did not arrive: %s", funet_why(code));
}

/* Runs a handler on the node whose message is being handled, with at most FUNET_MAX_BYTES bytes. Only for messages of funet_send. While
 * the send queue is full replies are handled. With more than FUNET_SHORT bytes they are copied, -ENOMEM, and leave when
 * the program polls; what becomes of them then funet_poll says if it is an error. */
static inline int funet_reply(struct funet_message *m, uint32_t number, const void *bytes, size_t length)
{
	struct funet *f = m->f;
	if (m->level != FUNI_REQUEST || m->serves || f->running[FUNI_REPLY])
		return funet_fail(f, -EDEADLK, "replying where nothing may be sent: to a reply, or to a call");
	int code = funet_check(f, m->source, number, length, FUNET_MAX_BYTES);
	if (code == 0 && length > FUNET_SHORT) {
		uint8_t *copy = (uint8_t *)malloc(length);
		if (copy != NULL)
			memcpy(copy, bytes, length);
		if (!funet_begin_copy(f, m->source, number, FUNET_KIND_REPLY, 0, copy, length))
			return funet_fail(f, -ENOMEM, "replying with %llu bytes: no memory", (unsigned long long)length);
		return 0;
	}
	uint32_t *s = code == 0 ? funet_reply_slot(f) : NULL;
	if (s == NULL)
		return code != 0 ? code : -ENOTCONN;
	funet_compose(s, m->source, FUNET_BYTES, &number, 1, 0, bytes, length);
	return funi_send_commit(&f->card, FUNI_REPLY);
}

/* ---- calls ---- */

/* Begins a call, and does not wait for its answer, which goes to room bytes: a number for funet_finish, greater than 0, or an
 * error. -EAGAIN: FUNET_CALLS calls have begun and not been finished. The bytes, at most FUNET_MAX_BYTES, may be changed at once. Not in
 * handlers. */
static inline int64_t funet_start(struct funet *f, uint32_t node, uint32_t number, const void *bytes, size_t length, void *answer, size_t room)
{
	uint32_t *s = NULL, first[2] = { 0, number };
	struct funet_request *c = NULL;
	uint8_t *copy = NULL;
	int code = funet_outside(f, "calling");
	if (code != 0 || (code = funet_check(f, node, number, length, FUNET_MAX_BYTES)) != 0 ||
	    (length <= FUNET_CALL_SHORT && (code = funet_request_slot(f, &s)) != 0))
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
	if (length <= FUNET_CALL_SHORT) {
		funet_compose(s, node, FUNET_CALL, first, 2, 1, bytes, length);
		(void)funet_commit(f);
		return (int64_t)first[0] + 1;
	}
	if ((copy = (uint8_t *)malloc(length)) != NULL)
		memcpy(copy, bytes, length);
	if (funet_begin_copy(f, node, number, FUNET_KIND_CALL, first[0], copy, length))
		return (int64_t)first[0] + 1;
	c->progress = FUNET_FREE;
	return funet_fail(f, -ENOMEM, "calling node %u with %llu bytes: no memory", node, (unsigned long long)length);
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
			(void)funet_commit(f);
			b->told = 1;
		}
		if ((code = funet_await(f, funet_has_heard, &r, from, end)) != 0)
			return code;
	}
	b->open = 0;
	return 0;
}

/* ---- tagged messages ----
 *
 * Messages for which the receiver asks (MPI_Send, MPI_Recv). Those from one node with one tag are received in the order in which they
 * were sent. Tags are 0 to 2^31-1. */

/* Sends a node bytes that it receives with the same tag (MPI_Send). It returns when they may be changed: with up to FUNET_TAGGED_SHORT bytes
 * mostly at once, with more when the node receives them and all have left. A node keeps FUNET_WINDOW messages of another that nobody has
 * received; the next wait. It is otherwise like funet_send, which is faster with many bytes: here they travel in pieces of
 * FUNET_PIECE_BYTES. */
static inline int funet_send_tag(struct funet *f, uint32_t node, uint32_t tag, const void *bytes, size_t length)
{
	struct funet_sending s;
	int code = funet_outside(f, "sending");
	if (code != 0 || (code = funet_check(f, node, 0, length, FUNET_MAX_BYTES)) != 0)
		return code;
	if (tag >> 31 != 0)
		return funet_fail(f, -EINVAL, "sending to node %u: tags are 0 to 2^31-1", node);
	funet_begin(f, &s, node, 0, FUNET_KIND_TAGGED, tag, bytes, length);
	return funet_end(f, &s, funet_until(f->patience));
}

/* Begins to wait for a tagged message. */
static inline void funet_expect(struct funet *f, struct funet_receive_state *r, uint32_t node, uint32_t tag, void *bytes, size_t room)
{
	struct funet_receive_state **at = &f->receivers;
	memset(r, 0, sizeof *r);
	r->node = node;
	r->tag = tag;
	r->id = ++f->ids & INT32_MAX;
	r->bytes = (uint8_t *)bytes;
	r->room = room;
	while (*at != NULL)
		at = &(*at)->next;
	*at = r;
	if (f->unexpected != NULL)
		funet_match(f);
}

/* Ends it, whether it has come or not. */
static inline void funet_expect_no_more(struct funet *f, struct funet_receive_state *r)
{
	struct funet_receive_state **at = &f->receivers;
	while (*at != NULL && *at != r)
		at = &(*at)->next;
	if (*at != NULL)
		*at = r->next;
	while (r->granting && !funet_say(f, r->from, r->tag >> 31, FUNET_FORM_GRANT, r->id, r->send, 0)) /* its sender waits */
		if (funi_wait(&f->card, 10) == -ENOTCONN)
			break;
	r->granting = 0;
}

static inline int funet_has_come(void *receive) { return ((struct funet_receive_state *)receive)->ended; }

/* Receives a tagged message of at most room bytes from a node, or from FUNET_ANY (MPI_Recv): its length and its sender, if the
 * pointers are not NULL. -EMSGSIZE: it has *length bytes, of which there were as many as there is room; -ECANCELED: its sender has given it
 * up. After -ETIMEDOUT and -EINTR it can be called again; but a long message that had begun to arrive is dropped. Not in
 * handlers. */
static inline int funet_recv(struct funet *f, uint32_t node, uint32_t tag, void *bytes, size_t room, size_t *length, uint32_t *from, int milliseconds)
{
	struct funet_receive_state r;
	int code = funet_outside(f, "receiving");
	if (code != 0)
		return code;
	if ((node >= f->card.nodes && node != FUNET_ANY) || tag >> 31 != 0)
		return funet_fail(f, -EINVAL, "receiving tag %u from node %u: the job has %u nodes, and tags are 0 to 2^31-1", tag, node, f->card.nodes);
	funet_expect(f, &r, node, tag, bytes, room);
	code = funet_await(f, funet_has_come, &r, node, funet_until(milliseconds));
	funet_expect_no_more(f, &r);
	if (!r.ended)
		return code;
	if (length != NULL)
		*length = r.length;
	if (from != NULL)
		*from = r.from;
	if (r.result == 0)
		return 0;
	return funet_fail(f, r.result, "receiving from node %u: %s", r.taken ? r.from : node,
			  r.result == -EMSGSIZE	    ? "the message has more bytes than there is room" :
			  r.result == -EHOSTUNREACH ? "the node is gone" :
						      "the sender has given the message up");
}

/* ---- collective operations ----
 *
 * As in MPI: all nodes call them in the same order, with the same root and lengths. They wait at most the milliseconds given;
 * signals end them only by f.stop. After an error of one, other nodes may wait for this one in vain: the program ends, or the nodes agree otherwise
 * on what to do. They are those of the Go package uspace/collective: nodes in C and Go may call them together. */

struct funet_leg { /* what is exchanged with a node: NULL: nothing that way */
	uint32_t node;
	const void *out;
	void *in;
	size_t bytes;
	/* Of funet_exchange. */
	struct funet_sending sending;
	struct funet_receive_state receive;
	int begun;
};

struct funet_legs {
	struct funet_leg *leg;
	size_t n;
};

static inline int funet_has_exchanged(void *argument)
{
	const struct funet_legs *l = (const struct funet_legs *)argument;
	for (size_t i = 0; i < l->n; i++)
		if ((l->leg[i].begun && !l->leg[i].sending.ended) || (l->leg[i].in != NULL && !l->leg[i].receive.ended))
			return 0;
	return 1;
}

/* Ends what was begun with a node: its error, or what is given. */
static inline int funet_end_leg(struct funet *f, struct funet_leg *g, int code)
{
	if (g->in != NULL) {
		funet_expect_no_more(f, &g->receive);
		if (code == 0 && (g->receive.result != 0 || g->receive.length != g->bytes))
			code = funet_fail(f, -EPROTO, "a collective operation: node %u calls another, or with another length", g->node);
	}
	if (g->begun && (!g->sending.ended || !funet_is_read(f, &g->sending)))
		funet_give_up(f, &g->sending);
	else if (g->begun)
		funet_unlink(f, &g->sending);
	if (code == 0 && g->begun && g->sending.result != 0)
		code = funet_fail(f, g->sending.result, "a collective operation with node %u: %s", g->node,
				  funet_why(g->sending.result));
	return code;
}

/* Exchanges bytes with several nodes at a time. */
static inline int funet_exchange(struct funet *f, uint32_t tag, struct funet_leg *leg, size_t n, int64_t end)
{
	struct funet_legs all = { leg, n };
	int code = 0;
	for (size_t i = 0; i < n; i++) {
		leg[i].begun = 0;
		if (leg[i].in != NULL)
			funet_expect(f, &leg[i].receive, leg[i].node, tag, leg[i].in, leg[i].bytes);
	}
	for (size_t i = 0; i < n; i++)
		if (leg[i].out != NULL) {
			funet_begin(f, &leg[i].sending, leg[i].node, 0, FUNET_KIND_TAGGED, tag, leg[i].out, leg[i].bytes);
			leg[i].begun = 1;
		}
	while (code == 0 && !funet_has_exchanged(&all)) {
		code = funet_await(f, funet_has_exchanged, &all, leg[0].node, end);
		if (code == -EINTR && f->stop == NULL)
			code = 0;
	}
	for (size_t i = 0; i < n; i++)
		code = funet_end_leg(f, &leg[i], code);
	return code;
}

/* Begins an operation: its tag. */
static inline int funet_collective(struct funet *f, size_t bytes, uint32_t root, uint32_t *tag)
{
	int code = funet_outside(f, "a collective operation");
	if (code == 0)
		code = funet_check(f, root, 0, bytes, FUNET_MAX_BYTES);
	if (code == 0)
		*tag = UINT32_C(1) << 31 | (++f->collectives & FUNET_NUMBER);
	return code;
}

/* One way with one node. */
static inline int funet_exchange_one(struct funet *f, uint32_t tag, uint32_t node, const void *out, void *in, size_t bytes, int64_t end)
{
	struct funet_leg leg;
	memset(&leg, 0, sizeof leg);
	leg.node = node;
	leg.out = out;
	leg.in = in;
	leg.bytes = bytes;
	return funet_exchange(f, tag, &leg, 1, end);
}

static inline int funet_broadcast_as(struct funet *f, uint32_t tag, uint32_t root, void *bytes, size_t length, int64_t end)
{
	uint32_t nodes = f->card.nodes, bit = 1, relative = (f->card.node + nodes - root) % nodes;
	int code = 0;
	for (; bit < nodes && (relative & bit) == 0; bit <<= 1)
		;
	if (relative != 0)
		code = funet_exchange_one(f, tag, (relative - bit + root) % nodes, NULL, bytes, length, end);
	for (bit >>= 1; bit > 0 && code == 0; bit >>= 1)
		if (relative + bit < nodes)
			code = funet_exchange_one(f, tag, (relative + bit + root) % nodes, bytes, NULL, length, end);
	return code;
}

/* Copies the root's bytes to all nodes (MPI_Bcast), along a binomial tree. */
static inline int funet_broadcast(struct funet *f, uint32_t root, void *bytes, size_t length, int milliseconds)
{
	int64_t end = funet_until(milliseconds);
	uint32_t tag;
	int code = funet_collective(f, length, root, &tag);
	return code != 0 ? code : funet_broadcast_as(f, tag, root, bytes, length, end);
}

/* How many nodes are talked to at a time. */
#define FUNET_LEGS 8

/* The root, or everybody, exchanges blocks with all nodes, the farthest last: out and in have one for each node, or are NULL. */
static inline int funet_with_all(struct funet *f, uint32_t tag, const void *out, void *in, size_t bytes, int64_t end)
{
	uint32_t node = f->card.node, nodes = f->card.nodes;
	const uint8_t *send = (const uint8_t *)out;
	uint8_t *receive = (uint8_t *)in;
	struct funet_leg leg[FUNET_LEGS];
	int code = 0;
	if (send != NULL && receive != NULL && bytes > 0)
		memmove(receive + node * bytes, send + node * bytes, bytes);
	/* Rounds: to the node that is so much further on, and from the one that is as much before. */
	for (uint32_t step = 1; step < nodes && code == 0;) {
		size_t n = 0;
		for (; step < nodes && n + 1 < FUNET_LEGS; step++) {
			uint32_t to = (node + step) % nodes, from = (node + nodes - step) % nodes;
			memset(&leg[n], 0, 2 * sizeof leg[n]);
			if (receive != NULL) {
				leg[n].node = from;
				leg[n].in = receive + from * bytes;
				leg[n++].bytes = bytes;
			}
			if (send != NULL) {
				leg[n].node = to;
				leg[n].out = send + to * bytes;
				leg[n++].bytes = bytes;
			}
		}
		code = funet_exchange(f, tag, leg, n, end);
	}
	return code;
}

/* Blocks of a node's subtree in the binomial tree travel together, if they have at most this many bytes each. */
#define FUNET_TREE_BYTES 4096

/* The size of a node's subtree, were the nodes a power of two. */
static inline uint32_t funet_span(uint32_t relative, uint32_t nodes)
{
	uint32_t bit = 1;
	while (relative != 0 ? (relative & bit) == 0 : bit < nodes)
		bit <<= 1;
	return bit;
}

/* Brings bytes of every node to the root, whose memory has a block for each, in order of their numbers (MPI_Gather). */
static inline int funet_gather(struct funet *f, uint32_t root, const void *bytes, size_t length, void *all, int milliseconds)
{
	int64_t end = funet_until(milliseconds);
	uint32_t tag, nodes = f->card.nodes, node = f->card.node;
	int code = funet_collective(f, length, root, &tag);
	if (code != 0)
		return code;
	if (length > FUNET_TREE_BYTES) {
		if (node != root)
			return funet_exchange_one(f, tag, root, bytes, NULL, length, end);
		memmove((uint8_t *)all + root * length, bytes, length);
		return funet_with_all(f, tag, NULL, all, length, end);
	}
	uint32_t relative = (node + nodes - root) % nodes, top = funet_span(relative, nodes);
	uint32_t subtree = top < nodes - relative ? top : nodes - relative;
	uint8_t *blocks = (uint8_t *)malloc(subtree * length + 1);
	if (blocks == NULL)
		return funet_fail(f, -ENOMEM, "a gather: no memory");
	if (length > 0)
		memcpy(blocks, bytes, length);
	for (uint32_t bit = 1; bit < top && relative + bit < nodes && code == 0; bit <<= 1) {
		uint32_t to = 2 * bit < subtree ? 2 * bit : subtree;
		code = funet_exchange_one(f, tag, (relative + bit + root) % nodes, NULL, blocks + bit * length, (to - bit) * length, end);
	}
	if (code == 0 && relative != 0)
		code = funet_exchange_one(f, tag, (relative - top + root) % nodes, blocks, NULL, subtree * length, end);
	if (code == 0 && relative == 0 && length > 0) { /* the root's block is the first */
		memcpy((uint8_t *)all + root * length, blocks, (nodes - root) * length);
		memcpy(all, blocks + (nodes - root) * length, root * length);
	}
	free(blocks);
	return code;
}

/* Brings every node its block of the root's memory (MPI_Scatter). */
static inline int funet_scatter(struct funet *f, uint32_t root, const void *all, void *bytes, size_t length, int milliseconds)
{
	int64_t end = funet_until(milliseconds);
	uint32_t tag, nodes = f->card.nodes, node = f->card.node;
	int code = funet_collective(f, length, root, &tag);
	if (code != 0)
		return code;
	if (length > FUNET_TREE_BYTES) {
		if (node != root)
			return funet_exchange_one(f, tag, root, NULL, bytes, length, end);
		memmove(bytes, (const uint8_t *)all + root * length, length);
		return funet_with_all(f, tag, all, NULL, length, end);
	}
	uint32_t relative = (node + nodes - root) % nodes, top = funet_span(relative, nodes);
	uint32_t subtree = top < nodes - relative ? top : nodes - relative;
	uint8_t *blocks = (uint8_t *)malloc(subtree * length + 1);
	if (blocks == NULL)
		return funet_fail(f, -ENOMEM, "a scatter: no memory");
	if (relative == 0 && length > 0) {
		memcpy(blocks, (const uint8_t *)all + root * length, (nodes - root) * length);
		memcpy(blocks + (nodes - root) * length, all, root * length);
	} else if (relative != 0) {
		code = funet_exchange_one(f, tag, (relative - top + root) % nodes, NULL, blocks, subtree * length, end);
	}
	for (uint32_t bit = top / 2; bit > 0 && code == 0; bit /= 2)
		if (bit < subtree) {
			uint32_t to = 2 * bit < subtree ? 2 * bit : subtree;
			code = funet_exchange_one(f, tag, (relative + bit + root) % nodes, blocks + bit * length, NULL, (to - bit) * length, end);
		}
	if (code == 0 && length > 0)
		memcpy(bytes, blocks, length);
	free(blocks);
	return code;
}

/* Every node has a block of so many bytes for every node, and gets one of each (MPI_Alltoall). */
static inline int funet_alltoall(struct funet *f, const void *send, void *receive, size_t bytes, int milliseconds)
{
	uint32_t tag;
	int64_t end = funet_until(milliseconds);
	int code = funet_collective(f, bytes, 0, &tag);
	return code != 0 ? code : funet_with_all(f, tag, send, receive, bytes, end);
}

enum funet_operation { FUNET_SUM, FUNET_MIN, FUNET_MAX };
enum funet_kind_of_value { FUNET_INT64, FUNET_DOUBLE };

/* Combines values with those of others: others first, as the order matters to doubles. Sums of integers wrap around; a NaN stays. */
static inline void funet_combine(enum funet_kind_of_value kind, enum funet_operation op, void *values, const void *others, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int64_t a, b;
		double x, y;
		memcpy(&a, (const uint8_t *)others + 8 * i, 8);
		memcpy(&b, (uint8_t *)values + 8 * i, 8);
		memcpy(&x, &a, 8);
		memcpy(&y, &b, 8);
		if (kind == FUNET_INT64) {
			a = op == FUNET_SUM ? (int64_t)((uint64_t)a + (uint64_t)b) : op == FUNET_MIN ? (a < b ? a : b) : (a > b ? a : b);
		} else {
			x = op == FUNET_SUM || x != x || y != y ? x + y : op == FUNET_MIN ? (x < y ? x : y) : (x > y ? x : y);
			memcpy(&a, &x, 8);
		}
		memcpy((uint8_t *)values + 8 * i, &a, 8);
	}
}

/* Combines n values of every node, of 8 bytes each, and gives all nodes the result (MPI_Allreduce), in the place of their own. The order
 * depends on the number of nodes alone. */
static inline int funet_allreduce(struct funet *f, enum funet_kind_of_value kind, enum funet_operation op, void *values, size_t n, int milliseconds)
{
	int64_t end = funet_until(milliseconds);
	uint32_t tag, node = f->card.node, nodes = f->card.nodes;
	size_t bytes = n > FUNET_MAX_BYTES / 8 ? FUNET_MAX_BYTES + 1 : 8 * n;
	int code = funet_collective(f, bytes, 0, &tag);
	void *other = code == 0 ? malloc(bytes + 1) : NULL;
	if (code == 0 && other == NULL)
		code = funet_fail(f, -ENOMEM, "a reduction: no memory");
	for (uint32_t bit = 1; bit < nodes && code == 0; bit <<= 1) {
		if (node & bit) {
			code = funet_exchange_one(f, tag, node - bit, values, NULL, bytes, end);
			break;
		}
		if (node + bit < nodes && (code = funet_exchange_one(f, tag, node + bit, NULL, other, bytes, end)) == 0)
			funet_combine(kind, op, values, other, n);
	}
	free(other);
	return code != 0 ? code : funet_broadcast_as(f, tag, 0, values, bytes, end);
}

/* Gives every node the combination of the values of nodes 0 to itself (MPI_Scan), in the place of its own. */
static inline int funet_scan(struct funet *f, enum funet_kind_of_value kind, enum funet_operation op, void *values, size_t n, int milliseconds)
{
	int64_t end = funet_until(milliseconds);
	uint32_t tag, node = f->card.node, nodes = f->card.nodes;
	size_t bytes = n > FUNET_MAX_BYTES / 8 ? FUNET_MAX_BYTES + 1 : 8 * n;
	int code = funet_collective(f, bytes, 0, &tag);
	uint8_t *other = code == 0 ? (uint8_t *)malloc(2 * bytes + 1) : NULL;
	if (code == 0 && other == NULL)
		code = funet_fail(f, -ENOMEM, "a scan: no memory");
	for (uint32_t step = 1; step < nodes && code == 0; step <<= 1) {
		struct funet_leg leg[2];
		size_t legs = 0;
		memset(leg, 0, sizeof leg);
		if (node >= step) {
			leg[legs].node = node - step;
			leg[legs].in = other;
			leg[legs++].bytes = bytes;
		}
		if (node + step < nodes) {
			memcpy(other + bytes, values, bytes);
			leg[legs].node = node + step;
			leg[legs].out = other + bytes;
			leg[legs++].bytes = bytes;
		}
		code = legs == 0 ? 0 : funet_exchange(f, tag, leg, legs, end);
		if (code == 0 && node >= step)
			funet_combine(kind, op, values, other, n);
	}
	free(other);
	return code;
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
	f->most = o != NULL && o->memory != 0 ? o->memory : UINT32_C(64) << 20;
	f->most = f->most < UINT32_C(1) << 30 ? f->most : UINT32_C(1) << 30;
	f->pairs = (struct funet_pair *)calloc(f->card.nodes, 2 * sizeof *f->pairs);
	if (f->pairs == NULL) {
		(void)funi_close(&f->card, 0);
		return funet_fail(f, -ENOMEM, "opening: no memory");
	}
	/* Numbers of calls begin anywhere, so that a late answer to a process that was this node before is taken for none of ours. */
	uint64_t random = (uint64_t)funi_clock() ^ (uint64_t)getpid() << 40;
	for (int i = 0; i < FUNET_CALLS; i++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		f->calls[i].number = (uint32_t)(random >> 44);
	}
	f->ids = (uint32_t)(random >> 33);
	for (int i = 0; i < FUNET_LANDINGS; i++)
		f->landings[i].key = (uint32_t)(random >> 40) & 0x7fffff00u;
	return 0;
}

/* Waits until what this process has sent has arrived, at most so many milliseconds, and leaves the job: FUNI_ERR_BUSY if something was left
 * undelivered, -EINTR after a signal. Whatever it returns, f is not to be used any more. Messages that others still send to this
 * node come back to them: a barrier comes before. Memory of funet_alloc is gone. */
static inline int funet_close(struct funet *f, uint32_t milliseconds)
{
	int code = funet_outside(f, "closing");
	if (code != 0)
		return code;
	code = funi_close(&f->card, milliseconds);
	struct funet_arrival **lists[3] = { &f->waiting, &f->unexpected, &f->early }, *a;
	for (int i = 0; i < 3; i++)
		while ((a = *lists[i]) != NULL) {
			*lists[i] = a->next;
			free(a);
		}
	for (struct funet_sending *s = f->sendings, *next; s != NULL; s = next) {
		next = s->next;
		if (s->kept) {
			free(s->copy);
			free(s);
		}
	}
	for (struct funet_piece *p = f->pieces, *next; p != NULL; p = next) {
		next = p->next;
		if (!p->adopted)
			(void)munmap(p->memory, p->bytes);
		free(p);
	}
	free(f->pairs);
	f->pairs = NULL;
	f->pieces = NULL;
	f->sendings = NULL;
	return code != 0 ? funet_card_fails(f, code) : 0;
}

#endif /* FUNET_H */
