/* funet.h: programs on FUNet in C and C++: messages of bytes that run handlers, calls with answers
 * and errors, barriers. It is above funi.h, and like it there is no library: everything is here,
 * for C11 and C++17 and later with GCC or Clang on Linux, little-endian.
 *
 *	static int greet(struct funet_message *m) // runs on the node that is called
 *	{
 *		return funet_answer(m, "hello", 5);
 *	}
 *
 *	static struct funet f;
 *	// The place and the card are from the environment: funet run, mpirun, srun.
 *	if (funet_open(&f, NULL) != 0 ||
 *	    funet_serve(&f, 1, greet, NULL) != 0 ||
 *	    funet_barrier(&f, -1) != 0 ||         // All nodes have the handlers.
 *	    (f.card.node == 0 &&
 *	     funet_call(&f, 1, 1, "hi", 2, buffer, sizeof buffer, &length, 1000) != 0) ||
 *	    funet_barrier(&f, -1) != 0 ||         // No node is called any more.
 *	    funet_close(&f, 1000) != 0)
 *		fprintf(stderr, "%s\n", f.error);
 *
 * The messages are those of the Go packages uspace/am and uspace/funet, so programs in C and Go may
 * be nodes of one job; a test has them talk. Numbers of handlers are 0 to 239 and mean the same on
 * all nodes.
 *
 * Results. Functions return 0 or more when they have done what they say. They return a positive
 * funi_status when the daemon refused, a positive code when a handler elsewhere returned an error
 * (funet_call), or a negative errno. Then f.error says in one line what failed and why. The same
 * negative numbers mean the same everywhere:
 *
 *	-ENOTCONN     the daemon is gone or has ended the context, funet_close was called, or the job
 *	              goes on without this node. Nothing can be done with the context any more.
 *	-EHOSTUNREACH a message could not be delivered, mostly because its node is gone: f.back says
 *	              which and why. It is told once, by whatever polls next, and nothing else of the
 *	              context changes: the program decides what that means.
 *	-EINTR        a signal was handled during a wait. The function can be called again, and goes
 *	              on where it was; but a message that funet_send waited for is given up.
 *	-ETIMEDOUT    the time given is over; as after -EINTR.
 *	-EDEADLK      a handler called what only the program may, see below.
 *	-ENOSYS       the node has no such handler. For a short message of funet_send, funet_post or
 *	              funet_reply it is told, once, by whatever polls next.
 *	-EINVAL, -EMSGSIZE  a number or a length is wrong, and nothing was done.
 *
 * Waits. Those with a parameter milliseconds end after that time; a negative number waits for ever,
 * 0 looks once. Others, which wait while a send queue is full or until a receiver has room for a
 * long message, wait as long as f.patience says, which is for ever at first. A signal that is
 * handled during a sleep ends a wait with -EINTR. One that comes just before a sleep, or while
 * there is always something to do, would not: a program that wants to be ended by signals has
 * f.stop point to the flag that its handler sets. Then waits end with -EINTR when that is not 0, at
 * which they look at least every FUNI_NAP milliseconds, and with no other signal.
 *
 * Handlers run inside functions that poll: funet_poll, and every function that waits. One that
 * handles a message of funet_send may call funet_reply, any number of times, to the node that sent
 * it, and nothing else that sends. One that handles a reply, or an answer, sends nothing. These
 * rules keep nodes that flood each other from waiting for each other for ever (funi.h); what breaks
 * them returns -EDEADLK. A handler returns 0, or a negative number, and then the function that
 * polls returns that, once, after it has handled what else has arrived.
 *
 * Messages do not arrive in the order in which they were sent, but tagged ones are received in it
 * (funet_send_tag). One that funet_send has taken is delivered once, or comes back (-EHOSTUNREACH).
 *
 * Before the peers are there. A message waits for a node that has yet to open its place, and comes
 * back if that takes too long (funi.h). But a handler must be registered before the first message
 * for it arrives: one that finds none is dropped and counted in f.unknown, and its sender is told
 * (-ENOSYS). So a program begins with its handlers and then a barrier, and ends with a barrier
 * before funet_close: what others still send to a node that has closed comes back to them.
 *
 * A message may come back that perhaps was delivered (FUNI_REASON_RESYNCHRONISED), or be lost when
 * more comes back than f.card can keep. Then the waits for it end here with -EHOSTUNREACH, and the
 * header itself tells the other nodes that may wait for this one. A node that is gone is noticed by
 * a message to it that comes back. So functions that wait send a node a probe now and then if they
 * wait for it, or if something else is awaited of it. A program that only calls funet_poll uses
 * funet_probe_awaited.
 *
 * Lives. A node in C takes no part in joining a job again (Options.Rejoin in Go, funet run
 * --restart). It refuses a node in Go that joins again: that process ends with am.ErrRejoin. And
 * where nodes in Go have gone on without it, funet_poll returns -ENOTCONN, also to a process that
 * was started anew in its place. As long as no node dies nodes in C and with Rejoin in Go work
 * together.
 *
 * A struct funet belongs to one thread at a time: it has no locks, and there is no way to have
 * several threads in it. A program with several threads gives one of them the network. For event
 * loops see funet_fd. */
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
#define FUNET_ANY_TAG UINT32_MAX /* any of the program's */
#define FUNET_ERROR_TEXT 72 /* bytes of an error's text that travel */

/* Types of packets, those of uspace/am/types.go. Bytes of a message lie in its words as in memory;
 * those that fill up the last word are 0, and bits 9:8 of the word with the handler say how many
 * they are. */
enum funet_type {
	FUNET_PROBE = 14,  /* request without meaning */
	FUNET_ROUND = 15,  /* barrier: call number, 0, round, 0, 0 */
	FUNET_BYTES = 18,  /* handler 7:0, padding 9:8; bytes */
	/* transfer into memory that was granted; its argument is the key, or that of a part in a slot
	 * of a lease */
	FUNET_PART = 19,
	/* request: id; handler 7:0, kind 18:16, FUNET_QUIET; length in bytes; two words of the kind */
	FUNET_READY = 20,
	/* reply, later request: id; key; address; address of the slots of the sender's lease, or 0 */
	FUNET_GRANT = 21,
	FUNET_TAKEN = 22,  /* reply, later request: id, or argument of parts; status */
	FUNET_ABORT = 23,  /* request: key */
	FUNET_CALL = 24,   /* request: ticket; handler 7:0, padding 9:8; bytes */
	/* reply, of a lost answer request: ticket; padding 9:8, status 31:16; bytes, of an error code
	 * and text */
	FUNET_ANSWER = 25,
	/* reply, later request: number of the handler that is not there; level of the message that was
	 * for it */
	FUNET_UNHANDLED = 31,
	FUNET_MEMBER = 27, /* who is a member of a job that goes on without nodes: enum funet_member */
	/* Tagged messages, all requests (uspace/am/tags.go). */
	/* number 31:2, space of the tag 1:0; tag; padding 9:8, form 17:16; bytes, or send, length, and
	 * maybe an offer, which C does not take */
	FUNET_TAGGED = 26,
	/* receive; form 17:16, space of the tag 18; send, bytes wanted, how many messages were
	 * received */
	FUNET_TOLD = 28,
	FUNET_PIECE = 29   /* receive; offset in bytes; FUNET_PIECE_BYTES bytes, the last piece fewer */
};

/* Forms of FUNET_TAGGED and of FUNET_TOLD. */
enum funet_form {
	/* the message of that number has come back */
	FUNET_FORM_SHORT = 0, FUNET_FORM_LONG = 1, FUNET_FORM_VOID = 2,
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

/* Of FUNET_READY: its sender does not want to be told that the message was taken, only if it was
 * not. */
#define FUNET_QUIET (1u << 19)

/* The argument of a part in a slot: FUNET_PART_BIT; kind 30:28, slot 27:25, number 24:19, bytes
 * less one 18:8, handler 7:0. */
#define FUNET_PART_BIT (1u << 31)
/* bytes of a slot: of a message that leaves at once, with the words of its kind */
#define FUNET_EAGER 2048
#define FUNET_LEASE_SLOTS 8
#define FUNET_LEASE_BYTES (FUNET_LEASE_SLOTS * FUNET_EAGER)
/* bytes of all leases, at most; nor more than a quarter of f->most */
#define FUNET_LEASES (1 << 22)

/* What a FUNET_MEMBER is for, bits 7:0 of its first word (uspace/am/member.go). Those that are not
 * here are not for this header. */
enum funet_member {
	FUNET_HELLO = 0,   /* request of a later life: its number */
	FUNET_REFUSED = 2, /* reply: this node knows no lives */
	FUNET_STALE = 6,   /* reply: first word and type of a message that was for an earlier life */
	FUNET_FENCE = 7    /* reply: the others go on without this node */
};

/* What an answer says of its call, and what funet_call returns. Programs' own codes are
 * FUNET_FIRST_CODE and more. */
enum funet_status {
	FUNET_DONE = 0,
	FUNET_ERROR = 1,      /* the handler returned an error without a code */
	FUNET_NO_HANDLER = 2, /* the node has no such handler */
	FUNET_PANICKED = 3,   /* the handler, in Go, panicked */
	FUNET_MEMORY = 4,     /* no memory for the message: funet_options.memory, or the user's quota */
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

#define FUNET_CONTROLS 8192 /* messages of the header's own that wait for room in the send queue */
#define FUNET_HISTORY 512   /* of what was told last, and was sent last, a power of two */
/* long messages that arrive at a time; the others wait at their senders */
#define FUNET_LANDINGS 256
/* messages that wait here for memory or for who receives them; more are refused */
#define FUNET_KEPT 65536
#define FUNET_CHUNK (1 << 20) /* bytes of a transfer */
#define FUNET_HOLD 5000 /* milliseconds that memory is left alone whose message was given up */
/* ns for which a message waits for a daemon that gives no memory, as the user's quota is reached */
#define FUNET_HUNGER INT64_C(15000000000)
#define FUNET_ASK INT64_C(50000000)       /* ns until that daemon is asked again */
#define FUNET_ASKED_MOST 8 /* messages that a node is told of, and has not granted memory for */
#define FUNET_PAGE 4096    /* granule of memory */
#define FUNET_BASE 0xc0000000u /* where the library's segments begin */

/* A piece of the memory that the card may use. Pieces are in order of address; those of one segment
 * cover it. */
struct funet_piece {
	struct funet_piece *next;
	uint32_t address, bytes;
	uint8_t *memory;
	uint32_t segment; /* base of its segment */
	int used, adopted; /* adopted: it is the program's own */
	int parted; /* adopted, and the card has other pages of it than the program */
	/* not 0: it is free from that time on; late packets may be written there until then */
	int64_t until;
};

/* A long message of ours that is under way. */
struct funet_sending {
	struct funet_sending *next;
	const uint8_t *bytes;
	size_t length, issued; /* bytes of which transfers have been asked for */
	uint32_t node, id, number, kind, tag, sequence; /* tag: or ticket */
	/* what was granted: key, address; 0: nothing yet. Tagged: their receive, 1 */
	uint32_t key, to;
	uint32_t from;     /* address of bytes; 0: they are copied, through staging */
	struct funet_piece *staging;
	uint64_t marks[2]; /* requests sent when the halves of staging were */
	int asked, ended, result;
	int counted;  /* among those that the receiver has yet to grant memory for */
	int owes;     /* the receiver has to be told that it will not come */
	int kept;     /* the struct is freed when it has ended */
	uint8_t *copy; /* of a reply: freed, too */
	uint32_t *under_way; /* NULL, or what counts it */
	int given_up; /* by the program */
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
	uint32_t node, tag, space, id;
	uint8_t *bytes;
	size_t room, length, want, got;
	uint32_t from, send, came; /* who sends it, their number of it, and its tag */
	int taken, ended, result;
	int granting; /* the sender has yet to be told that it is wanted */
};

/* What this node and another have sent each other, in one space of tags: numbers of messages. */
struct funet_pair {
	uint32_t sent, matched;     /* the next to the node; how many that has received */
	/* the next from the node; how many were received; what of that the node was told */
	uint32_t next, taken, told;
};

/* Memory that was granted for a message. */
struct funet_landing {
	uint32_t key, node, id, number, address;
	size_t length, missing;
	struct funet_piece *piece;
	int open, quiet;
	uint32_t kind, ticket, status;
};

/* A message of the header's own that waits for room in the send queue. */
struct funet_control {
	uint32_t node, type, n, words[5];
};

/* What was told or sent, in case that it comes back unread: word is an id, an argument or a ticket.
 */
struct funet_record {
	uint32_t node, type, word, key;
};

/* What is known of a node. */
struct funet_peer {
	/* As a receiver of its messages. */
	struct funet_piece *leased; /* NULL: no lease */
	struct {
		uint32_t argument, left; /* of what arrives in a slot; words, 0: nothing */
	} slots[FUNET_LEASE_SLOTS];
	/* As a sender. */
	uint32_t lease; /* address of the slots there; 0: none */
	/* used: the argument that the slot was used with last */
	uint32_t number[FUNET_LEASE_SLOTS], used[FUNET_LEASE_SLOTS];
	uint32_t idle;  /* the slots, by bits */
	uint32_t asked; /* messages that it was told of, and has not granted memory for */
	uint32_t probed;
	int gone; /* something has come back that it is gone for, and nothing has come from it since */
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
	/* milliseconds that functions wait that have no time of their own; negative: for ever */
	int patience;
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
	int vain;       /* what came back last were probes only */
	struct funet_control *controls; /* in order */
	uint32_t control, control_room; /* how many, and how many there is room for */
	struct funet_record told[FUNET_HISTORY], sent[FUNET_HISTORY];
	uint32_t tolds, sents;
	struct funet_peer *peers;
	uint32_t leased;        /* bytes of leases */
	uint32_t probes;
	int64_t probe;         /* when the next landing's node is probed */
	uint64_t committed;    /* requests that were put into the send queue */
	struct funet_piece *pieces;
	uint32_t memory;       /* bytes of segments that there are */
	struct funet_sending *sendings, **last;
	int sending_result;    /* of those of funet_post, until funet_flush */
	uint32_t ids;
	struct funet_arrival *waiting; /* for memory, in order */
	int64_t ask;           /* when memory for the first is asked for again */
	/* since when there is none, and nothing that has any will end; 0: there is, or that */
	int64_t hungry;
	uint32_t kept;         /* announcements and messages in the three lists */
	struct funet_landing landings[FUNET_LANDINGS];
	uint32_t landing;      /* where the search for a free one begins */
	struct funet_receive_state *receivers;
	/* tagged: in order, nobody receives them yet; before one that is missing */
	struct funet_arrival *unexpected, *early;
	struct funet_pair *pairs; /* by space and node */
	int tells;                /* some node has to be told how many messages were received */
	uint32_t collectives;  /* number of the last collective operation */
	struct funet_barrier_state barrier;
};

struct funet_options { /* all 0: everything from the environment */
	/* of the daemon; NULL: the place in the job is in the environment, and the rest is not looked
	 * at */
	const char *socket;
	uint16_t gid, node;
	const uint8_t *token; /* FUNI_TOKEN_SIZE bytes */
	/* These are looked at in any case. */
	uint32_t slots;       /* of each queue, a power of two; 0: the daemon's default */
	/* bytes of f.most; 0: 128 MiB, which are taken as they are needed: a message of FUNET_MAX_BYTES
	 * and others arrive */
	uint32_t memory;
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
	case FUNI_REASON_RESYNCHRONISED: return "the cards have begun to count anew";
	case FUNI_REASON_KEY: return "its host has another key";
	case FUNI_REASON_REPLACED: return "another process is the node now";
	default: return "the card refuses it";
	}
}

/* Whether the reason says that the node is not there any more. */
static inline int funet_gone(uint32_t reason)
{
	return reason == FUNI_REASON_NO_CONTEXT || reason == FUNI_REASON_SILENT || reason == FUNI_REASON_RESTARTED ||
	       reason == FUNI_REASON_DEPARTED || reason == FUNI_REASON_NO_ROUTE;
}

/* Whether a message that came back for this reason may have been delivered nevertheless, to a node
 * that is there. */
static inline int funet_perhaps(uint32_t reason)
{
	return reason == FUNI_REASON_RESYNCHRONISED || reason == FUNI_REASON_GIVEN_UP;
}

/* ---- time ---- */

/* Nanoseconds of a clock that nobody sets, where the program lets the headers show it (strict C
 * needs _POSIX_C_SOURCE). */
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

/* When a wait of the given number of milliseconds ends. */
static inline int64_t funet_until(int milliseconds)
{
	return milliseconds < 0 ? INT64_MAX : funet_now() + (int64_t)milliseconds * 1000000;
}

/* ---- receiving ---- */

static inline int funet_service(struct funet *f, enum funi_level l, int most);

/* The bytes of a message, words of payload from a word on, whose word with the padding is given: 0
 * if it is malformed. */
static inline int funet_content(const uint32_t *slot, uint32_t from, uint32_t second, const uint8_t **bytes,
	size_t *length)
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

/* Composes a message of n words and bytes. The word with number at says how many bytes fill up the
 * last one. */
static inline void funet_compose(uint32_t *slot, uint32_t node, uint32_t type, const uint32_t *first, uint32_t n,
	uint32_t at,
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

/* How many messages the send queue of a level has room for. */
static inline uint32_t funet_room(struct funet *f, enum funi_level l) { return f->card.mask - funi_unsent(&f->card,
	l); }

/* Waits until there is room for the given number of replies, for a request's handler: 0, or what
 * has ended the context. Meanwhile replies are handled, and nothing else. */
static inline int funet_reply_room(struct funet *f, uint32_t slots)
{
	while (funet_room(f, FUNI_REPLY) < slots)
		if (funet_service(f, FUNI_REPLY, 256) == 0) {
			int n = funi_wait(&f->card, 10);
			if (n < 0 && n != -EINTR)
				return funet_card_fails(f, n);
		}
	return 0;
}

/* A slot for a reply, for a request's handler; NULL: the context has ended. */
static inline uint32_t *funet_reply_slot(struct funet *f)
{
	uint32_t *s = funi_send_reserve(&f->card, FUNI_REPLY);
	return s != NULL || funet_reply_room(f, 1) != 0 ? s : funi_send_reserve(&f->card, FUNI_REPLY);
}

/* ---- what the header itself has to say ----
 *
 * In a request's handler it is a reply. Elsewhere it is a request, which nothing waits for: where
 * there is no room for it, it is kept until the next poll. */

static inline void funet_fill(uint32_t *slot, uint32_t node, uint32_t type, const uint32_t *words, uint32_t n)
{
	slot[0] = funi_header((uint16_t)node, type, n);
	memcpy(slot + FUNI_PAYLOAD_WORD, words, 4 * (size_t)n);
}

/* Sends what was kept, as far as there is room. */
static inline void funet_say_kept(struct funet *f)
{
	uint32_t n = 0, *slot;
	for (; n < f->control && (slot = funi_send_reserve(&f->card, FUNI_REQUEST)) != NULL; n++) {
		funet_fill(slot, f->controls[n].node, f->controls[n].type, f->controls[n].words, f->controls[n].n);
		(void)funet_commit(f);
	}
	f->control -= n;
	if (n > 0)
		memmove(f->controls, f->controls + n, f->control * sizeof *f->controls);
}

/* Sends, or keeps, a message of words. More than FUNET_CONTROLS are dropped, and counted: no node
 * that keeps to the rules causes so many. */
static inline void funet_tell_words(struct funet *f, uint32_t node, uint32_t type, const uint32_t *words, uint32_t n)
{
	uint32_t *slot = NULL;
	if (f->running[FUNI_REQUEST] && !f->running[FUNI_REPLY]) {
		if ((slot = funet_reply_slot(f)) != NULL) {
			funet_fill(slot, node, type, words, n);
			(void)funi_send_commit(&f->card, FUNI_REPLY);
		}
		return;
	}
	if (f->control == 0 && (slot = funi_send_reserve(&f->card, FUNI_REQUEST)) != NULL) {
		funet_fill(slot, node, type, words, n);
		(void)funet_commit(f);
		return;
	}
	if (f->control == f->control_room) {
		uint32_t room = f->control_room == 0 ? 16 : 2 * f->control_room;
		void *larger = room <= FUNET_CONTROLS ? realloc(f->controls, room * sizeof *f->controls) : NULL;
		if (larger == NULL) {
			f->unknown++;
			return;
		}
		f->controls = (struct funet_control *)larger;
		f->control_room = room;
	}
	struct funet_control *c = &f->controls[f->control++];
	c->node = node;
	c->type = type;
	c->n = n;
	memcpy(c->words, words, 4 * (size_t)n);
}

/* Remembers what a node was told, in case that nothing says that it has come back. */
static inline void funet_note_told(struct funet *f, uint32_t node, uint32_t type, uint32_t word)
{
	struct funet_record *r = &f->told[f->tolds++ % FUNET_HISTORY];
	r->node = node;
	r->type = type;
	r->word = word;
}

/* Says what has become of a message. */
static inline void funet_settle(struct funet *f, uint32_t node, uint32_t word, uint32_t status)
{
	const uint32_t words[2] = { word, status };
	funet_note_told(f, node, FUNET_TAKEN, word);
	funet_tell_words(f, node, FUNET_TAKEN, words, 2);
}

/* Tells a node that an answer, or what became of a message, was lost. */
static inline void funet_tell_lost(struct funet *f, uint32_t node, uint32_t type, uint32_t word)
{
	const uint32_t words[2] = { word, type == FUNET_ANSWER ? (uint32_t)FUNET_LOST << 16 : (uint32_t)FUNET_LOST };
	funet_tell_words(f, node, type, words, 2);
}

/* Calls the handler of a message. */
static inline int funet_run(struct funet *f, const struct funet_entry *h, struct funet_message *m, enum funi_level l,
	const uint32_t *slot)
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

	if (!funet_content(slot, 1, first, &m.bytes, &m.length)) {
		f->unknown++;
		return;
	}
	if (number >= FUNET_HANDLERS || f->handlers[number].run == NULL || f->handlers[number].serves) {
		const uint32_t words[2] = { number, (uint32_t)l };
		f->unknown++;
		f->running[l]++;
		funet_tell_words(f, slot[FUNI_SOURCE_WORD], FUNET_UNHANDLED, words, 2);
		f->running[l]--;
		return;
	}
	int code = funet_run(f, &f->handlers[number], &m, l, slot);
	if (code != 0 && f->failed == 0)
		f->failed = funet_fail(f, code < 0 ? code : -code, "handler %u returned %d for a message of node %u", number,
			code, m.source);
}

/* Notes that a node has no handler for a message. */
static inline void funet_unhandled(struct funet *f, uint32_t node, uint32_t number)
{
	if (f->failed == 0)
		f->failed = funet_fail(f, -ENOSYS,
			"sending to handler %u on node %u: the node has no such handler; all nodes register theirs, and then a "
						   "barrier comes", number, node);
}

/* Makes an error the answer. */
__attribute__((format(printf, 4, 0))) static inline void funet_put_error(struct funet_message *m, uint32_t status,
	uint32_t code,
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

/* Answers a call with an error: a code of the program's, FUNET_FIRST_CODE or more, and a text, of
 * which FUNET_ERROR_TEXT bytes travel. It returns the code, which the handler returns. */
__attribute__((format(printf, 3, 4))) static inline int funet_refuse(struct funet_message *m, int code,
	const char *format, ...)
{
	va_list list;
	va_start(list, format);
	funet_put_error(m, FUNET_ERROR, (uint32_t)code, format, list);
	va_end(list);
	return code;
}

/* Answers a call with bytes, at most FUNET_MAX_BYTES, which are copied. The last answer counts;
 * without one it has no bytes. It returns 0, or what is wrong, which the handler returns: then the
 * caller gets that. */
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
__attribute__((format(printf, 3, 4))) static inline void funet_outcome(struct funet_message *m, int code,
	const char *format, ...)
{
	uint32_t status = code > FUNET_DONE && code <= FUNET_LIFE ? (uint32_t)code : (uint32_t)FUNET_ERROR;
	va_list list;
	va_start(list, format);
	if (code != 0 && (m->status != FUNET_ERROR || m->answer[0] != (uint32_t)code || code < FUNET_FIRST_CODE))
		funet_put_error(m, status, code >= FUNET_FIRST_CODE ? (uint32_t)code : status, format, list);
	va_end(list);
}

static inline void funet_begin(struct funet *f, struct funet_sending *s, uint32_t node, uint32_t number,
	enum funet_kind kind, uint32_t tag,
			       const void *bytes, size_t length);
static inline int funet_send_at_once(struct funet *f, enum funi_level l, uint32_t node, enum funet_kind kind,
	uint32_t number, uint32_t ticket,
				     const void *bytes, size_t length);

/* Begins a message whose bytes are a copy: it and they are freed when it has ended. */
static inline int funet_begin_copy(struct funet *f, uint32_t node, uint32_t number, enum funet_kind kind,
	uint32_t ticket, uint8_t *copy, size_t length)
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
static inline void funet_run_call(struct funet *f, const uint32_t *slot, uint32_t ticket, uint32_t number,
	const uint8_t *bytes, size_t length)
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
	if (m.status == FUNET_DONE && m.large != NULL) {
		int sent = funet_send_at_once(f, FUNI_REPLY, node, FUNET_KIND_ANSWER, 0, ticket, m.large, m.answered);
		if (sent == 0 && !funet_begin_copy(f, node, 0, FUNET_KIND_ANSWER, ticket, m.large, m.answered)) {
			m.large = NULL;
			funet_outcome(&m, FUNET_MEMORY, "%s", "no memory for the answer");
		} else if (sent != 0) {
			free(m.large);
		}
	} else {
		free(m.large);
		m.large = NULL;
	}
	if (m.large == NULL && (s = funet_reply_slot(f)) != NULL) {
		first[1] = m.status << 16;
		funet_note_told(f, node, FUNET_ANSWER, ticket);
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

/* A piece of at least the given number of bytes, or NULL: there is none, and the daemon gives no
 * more or f->most is reached. */
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
		if (f->memory + segment > f->most || (p = (struct funet_piece *)calloc(1, sizeof *p)) == NULL)
			return NULL;
		p->segment = p->address = FUNET_BASE + f->memory;
		p->bytes = (uint32_t)segment;
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

/* The piece in use in which the given number of bytes lie, or NULL. */
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
	return p == NULL || p->parted ? 0 : p->address + (uint32_t)((uintptr_t)bytes - (uintptr_t)p->memory);
}

/* New memory from which long messages are sent, and into which tagged ones are received, without
 * copying; or NULL, with f->error: more than f->most bytes, or than the daemon lets the user have.
 */
static inline void *funet_alloc(struct funet *f, size_t bytes)
{
	struct funet_piece *p = bytes <= FUNET_MAX_BYTES ? funet_take(f, bytes) : NULL;
	if (p == NULL)
		(void)funet_fail(f, -ENOMEM, "allocating %llu bytes: at most %u in all, and what the daemon gives%s%s",
			(unsigned long long)bytes,
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

/* Has long messages leave without copying from memory that the program has: whole pages of ordinary
 * private memory. See funi_adopt for what is refused, -EINVAL, and what changes. -ENOMEM: more than
 * f->most in all. A send from this memory may be given up (-ETIMEDOUT, -EINTR) while the card still
 * reads it. Then the program goes on with copies of these pages; no other thread may touch them
 * during the copying. Later messages from this memory are copied until funet_disown and a new
 * funet_adopt. */
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

/* Ends that, before the memory is freed, when nothing is sent from it any more: FUNI_ERR_BUSY while
 * the card needs it. */
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
 * The sender says that a message is ready. The receiver grants memory when it has some, and for a
 * tagged one when it is received; until then the message stays at its sender. The sender has its
 * card transfer the bytes there, rounded up to 16. When all have arrived the receiver runs the
 * handler, and says that they are taken. */

/* The address of the slots that a node may use, or 0: there is no memory for them. */
static inline uint32_t funet_lease(struct funet *f, uint32_t node)
{
	struct funet_peer *p = &f->peers[node];
	uint32_t most = f->most / 4 < FUNET_LEASES ? f->most / 4 : FUNET_LEASES;
	if (p->leased == NULL && f->leased + FUNET_LEASE_BYTES <= most &&
		(p->leased = funet_take(f, FUNET_LEASE_BYTES)) != NULL)
		f->leased += FUNET_LEASE_BYTES;
	return p->leased == NULL ? 0 : p->leased->address;
}

/* Tells the sender of a message of the memory that it was granted. */
static inline void funet_tell_grant(struct funet *f, const struct funet_landing *g)
{
	const uint32_t words[4] = { g->id, g->key, g->address, funet_lease(f, g->node) };
	funet_tell_words(f, g->node, FUNET_GRANT, words, 4);
}

/* Grants a message memory: 1, or 0 if there is none at present. */
static inline int funet_grant(struct funet *f, const struct funet_arrival *a)
{
	struct funet_landing *g = NULL;
	for (int i = 0; i < FUNET_LANDINGS && g == NULL; i++, f->landing++)
		if (!f->landings[f->landing % FUNET_LANDINGS].open)
			g = &f->landings[f->landing % FUNET_LANDINGS];
	if (g == NULL || (g->piece = funet_take(f, a->length)) == NULL)
		return 0;
	g->address = g->piece->address;
	g->key = ((g->key >> 8) + 1) << 9 >> 1 | (uint32_t)(g - f->landings);
	g->key = g->key != 0 ? g->key : 1 << 8; /* 0 is none */
	g->node = a->node;
	g->id = a->id;
	g->number = a->number;
	g->length = a->length;
	g->missing = (a->length + 15) & ~(size_t)15;
	g->kind = a->kind;
	g->quiet = a->form != 0;
	g->ticket = a->tag;
	g->status = a->sequence;
	g->open = 1;
	funet_tell_grant(f, g);
	return 1;
}

/* Ends a landing whose message will not come. Its memory is left alone for a time, as late packets
 * may be written there. */
static inline void funet_end_landing(struct funet_landing *g)
{
	g->open = 0;
	g->piece->until = funet_now() + INT64_C(1000000) * FUNET_HOLD;
}

/* Gives up the long messages that a node was sending, and tells it if it may be there after all. */
static inline void funet_forget_sender(struct funet *f, uint32_t node, int there)
{
	struct funet_arrival **at = &f->waiting, *a;
	for (int i = 0; i < FUNET_LANDINGS; i++)
		if (f->landings[i].open && f->landings[i].node == node) {
			funet_end_landing(&f->landings[i]);
			if (there)
				funet_tell_lost(f, node, FUNET_TAKEN, f->landings[i].id);
		}
	while ((a = *at) != NULL)
		if (a->node == node) {
			if (there)
				funet_tell_lost(f, node, FUNET_TAKEN, a->id);
			*at = a->next;
			f->kept--;
			free(a);
		} else {
			at = &a->next;
		}
}

/* Keeps what was announced at the end of a list. */
static inline int funet_keep(struct funet *f, struct funet_arrival **list, const struct funet_arrival *a,
	const uint8_t *bytes)
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
 * An envelope has a number, by which the receiver puts those of a node in order, and the bytes of a
 * short message. When a receive takes a long one its sender is told, and sends the bytes in pieces.
 */

static inline struct funet_pair *funet_pair_of(struct funet *f, uint32_t node, uint32_t space)
{
	return &f->pairs[(size_t)space * f->card.nodes + node];
}

/* Tells a node something of a space of tags, and how many messages were received; 0 if there is no
 * room. */
static inline int funet_say(struct funet *f, uint32_t node, uint32_t space, enum funet_form form, uint32_t first,
	uint32_t send, uint32_t want)
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
	r->came = a->tag;
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
	while (r != NULL && (r->taken || !(a->tag == r->tag || (r->tag == FUNET_ANY_TAG && a->tag >> 31 == 0)) ||
			     (r->node != FUNET_ANY && r->node != a->node)))
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
	if (l != FUNI_REQUEST || p == NULL || a.tag >> 31 != space || a.form > FUNET_FORM_VOID ||
		!funet_content(slot, 3, w[2], &a.bytes, &a.length) ||
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

/* Notes that the receiver of a message has answered what it was asked, or will not. */
static inline void funet_answered_ask(struct funet *f, struct funet_sending *s)
{
	f->peers[s->node].asked -= (uint32_t)s->counted;
	s->counted = 0;
}

static inline void funet_end_sending(struct funet *f, struct funet_sending *s, int result)
{
	funet_answered_ask(f, s);
	if (!s->ended)
		s->result = result;
	s->ended = 1;
}

/* Remembers what has left whole: of a message that was granted memory the key, of a tagged one the
 * receive. */
static inline void funet_note_sent(struct funet *f, const struct funet_sending *s)
{
	struct funet_record *r = &f->sent[f->sents++ % FUNET_HISTORY];
	r->node = s->node;
	r->type = s->kind == FUNET_KIND_TAGGED ? FUNET_PIECE : FUNET_PART;
	r->word = s->id;
	r->key = s->key;
}

/* Whether the message of an id has left whole for a key, lately: then a second grant of it says
 * nothing new. */
static inline int funet_has_sent_all(const struct funet *f, uint32_t node, uint32_t id, uint32_t key)
{
	for (int i = 0; i < FUNET_HISTORY; i++)
		if (f->sent[i].type != 0 && f->sent[i].node == node && f->sent[i].word == id && f->sent[i].key == key)
			return 1;
	return 0;
}

/* Tells the receiver of a tagged message that it will not come, or not all of it. */
static inline void funet_abort_tagged(struct funet *f, uint32_t node, uint32_t space, uint32_t receive)
{
	const uint32_t words[5] = { receive, (uint32_t)FUNET_FORM_ABORT << 16 | space << 18, 0, 0,
		funet_pair_of(f, node, space)->taken };
	funet_tell_words(f, node, FUNET_TOLD, words, 5);
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
		if ((s == NULL || w[3] > s->length) && !funet_has_sent_all(f, node, w[2], w[0])) {
			funet_abort_tagged(f, node, space, w[0]);
		} else if (s != NULL && s->to == 0) {
			s->key = w[0];
			s->to = 1;
			s->length = w[3];
			if (w[3] == 0 && !s->given_up) {
				funet_note_sent(f, s);
				funet_end_sending(f, s, 0);
			}
		}
	} else if (form == FUNET_FORM_ABORT) {
		while (r != NULL && (r->id != w[0] || !r->taken || r->ended || r->from != node))
			r = r->next;
		if (r != NULL)
			funet_end_receive(r, -ECANCELED);
	}
}

/* Sends an envelope when its turn has come, and pieces of a message that is wanted, into half of
 * the send queue. */
static inline void funet_push_tagged(struct funet *f, struct funet_sending *s)
{
	uint32_t space = s->tag >> 31, *slot;
	struct funet_pair *p = funet_pair_of(f, s->node, space);
	if (!s->asked) {
		for (const struct funet_sending *o = f->sendings; o != s; o = o->next)
			if (o->kind == FUNET_KIND_TAGGED && !o->asked && !o->ended && o->node == s->node && o->tag >> 31 == space)
				return; /* it is before this one */
		if (((p->sent - p->matched) & FUNET_NUMBER) >= FUNET_WINDOW ||
			(slot = funi_send_reserve(&f->card, FUNI_REQUEST)) == NULL)
			return;
		uint32_t words[5] = { p->sent << 2 | space, s->tag, FUNET_FORM_SHORT << 16, s->id, (uint32_t)s->length };
		if (s->length > FUNET_TAGGED_SHORT) {
			words[2] = FUNET_FORM_LONG << 16;
			funet_compose(slot, s->node, FUNET_TAGGED, words, 5, 2, NULL, 0);
		} else {
			funet_compose(slot, s->node, FUNET_TAGGED, words, 3, 2, s->bytes, s->length);
			funet_end_sending(f, s, 0);
		}
		s->asked = 1;
		s->sequence = p->sent;
		p->sent = (p->sent + 1) & FUNET_NUMBER;
		(void)funet_commit(f);
	}
	while (s->to != 0 && !s->ended) {
		size_t left = s->length - s->issued, n = left < FUNET_PIECE_BYTES ? left : FUNET_PIECE_BYTES,
		words = (n + 3) / 4;
		if (left == 0) {
			funet_note_sent(f, s);
			funet_end_sending(f, s, 0);
			return;
		}
		if (funi_unsent(&f->card, FUNI_REQUEST) > f->card.mask / 2 ||
			(slot = funi_send_reserve(&f->card, FUNI_REQUEST)) == NULL)
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
			r->granting = !funet_say(f, r->from, r->space, FUNET_FORM_GRANT, r->id, r->send, (uint32_t)r->want);
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
	a.form = w[1] & FUNET_QUIET;
	if (a.length == 0 || a.kind > FUNET_KIND_ANSWER) {
		f->unknown++;
	} else if (a.length > FUNET_MAX_BYTES) {
		funet_settle(f, a.node, a.id, FUNET_LONG);
	} else if (a.length > f->most) {
		funet_settle(f, a.node, a.id, FUNET_MEMORY);
	} else if (a.kind <= FUNET_KIND_REPLY && (a.number >= FUNET_HANDLERS || f->handlers[a.number].run == NULL ||
		f->handlers[a.number].serves)) {
		f->unknown++;
		funet_settle(f, a.node, a.id, FUNET_NO_HANDLER);
	} else if ((f->waiting != NULL || !funet_grant(f, &a)) && !funet_keep(f, &f->waiting, &a, NULL)) {
		funet_settle(f, a.node, a.id, FUNET_MEMORY);
	}
}

/* Does what a message is for that has arrived whole, and returns the status that its sender is
 * told. */
static inline uint32_t funet_arrived(struct funet *f, enum funi_level l, const uint32_t *slot, uint32_t kind,
	uint32_t number, const uint32_t words[2],
				     const uint8_t *bytes, size_t length)
{
	uint32_t node = slot[FUNI_SOURCE_WORD];
	if (kind == FUNET_KIND_CALL && l == FUNI_REQUEST) {
		funet_run_call(f, slot, words[0], number, bytes, length);
		return FUNET_DONE; /* the answer says what has become of it */
	}
	if (kind == FUNET_KIND_ANSWER) {
		struct funet_request *c = funet_find(f, words[0]);
		if (c != NULL && c->node == node)
			funet_complete(c, words[1], bytes, length);
		return FUNET_DONE;
	}
	if ((kind != FUNET_KIND_REPLY && (kind != FUNET_KIND_BYTES || l != FUNI_REQUEST)) || number >= FUNET_HANDLERS ||
	    f->handlers[number].run == NULL || f->handlers[number].serves) {
		f->unknown++;
		return FUNET_NO_HANDLER;
	}
	struct funet_message m;
	m.bytes = bytes;
	m.length = length;
	int code = funet_run(f, &f->handlers[number], &m, kind == FUNET_KIND_REPLY ? FUNI_REPLY : FUNI_REQUEST, slot);
	if (code != 0 && f->failed == 0)
		f->failed = funet_fail(f, code < 0 ? code : -code, "handler %u returned %d for a message of node %u", number,
			code, node);
	return FUNET_DONE;
}

/* Tells the sender of what has arrived at a level what has become of it. */
static inline void funet_took(struct funet *f, enum funi_level l, uint32_t node, uint32_t word, uint32_t status)
{
	f->running[l]++;
	funet_settle(f, node, word, status);
	f->running[l]--;
}

/* A part of a message has arrived in a slot of its sender's lease. */
static inline void funet_leased_came(struct funet *f, enum funi_level l, const uint32_t *slot,
	const struct funi_notice *n)
{
	uint32_t node = slot[FUNI_SOURCE_WORD], kind = n->argument >> 28 & 7,
	at = (n->argument >> 25 & (FUNET_LEASE_SLOTS - 1)) * FUNET_EAGER;
	uint32_t size = (n->argument >> 8 & (FUNET_EAGER - 1)) + 1,
		heads = kind == FUNET_KIND_CALL ? 4 : kind == FUNET_KIND_ANSWER ? 8 : 0;
	uint32_t words[2] = { 0, 0 };
	struct funet_peer *p = &f->peers[node];
	uint32_t *left = &p->slots[at / FUNET_EAGER].left, *argument = &p->slots[at / FUNET_EAGER].argument;
	if (p->leased == NULL) {
		f->unknown++;
		return;
	}
	if (*left == 0 || *argument != n->argument) {
		*argument = n->argument;
		*left = (size + 15) / 16 * 4;
	}
	if (n->words == 0 || n->words > *left || n->address < p->leased->address + at ||
		n->address - p->leased->address - at >= FUNET_EAGER) {
		f->unknown++;
		return;
	}
	*left -= n->words;
	if (*left > 0)
		return;
	uint32_t status = FUNET_NO_HANDLER;
	const uint8_t *bytes = p->leased->memory + at;
	if (size < heads) {
		f->unknown++;
	} else {
		memcpy(words, bytes, heads);
		status = funet_arrived(f, l, slot, kind, n->argument & 0xff, words, bytes + heads, size - heads);
	}
	funet_took(f, l, node, n->argument, status);
}

/* A transfer into memory that was granted has arrived. */
static inline void funet_landed(struct funet *f, enum funi_level l, const uint32_t *slot, const struct funi_notice *n)
{
	struct funet_landing *g = &f->landings[n->argument & 0xff];
	uint64_t size = (g->length + 15) & ~(size_t)15;

	if (n->argument & FUNET_PART_BIT) {
		funet_leased_came(f, l, slot, n);
		return;
	}
	if (l != FUNI_REQUEST || !g->open || g->key != n->argument || g->node != slot[FUNI_SOURCE_WORD] ||
		n->address < g->address ||
	    (uint64_t)(n->address - g->address) + (uint64_t)n->words * 4 > size || (uint64_t)n->words * 4 > g->missing) {
		f->unknown++;
		return;
	}
	g->missing -= (size_t)n->words * 4;
	if (g->missing > 0)
		return;
	/* The handler may have others arrive in this place: its words are kept here. */
	const struct funet_landing was = *g;
	const uint32_t words[2] = { was.ticket, was.status };
	g->open = 0;
	uint32_t status = funet_arrived(f, l, slot, was.kind, was.number, words, was.piece->memory, was.length);
	funet_give(f, was.piece);
	if (status != FUNET_DONE || !was.quiet)
		funet_took(f, l, was.node, was.id, status);
}

/* Memory that a receiver has granted: id, key, address, lease. */
static inline void funet_granted(struct funet *f, uint32_t node, const uint32_t *w, struct funet_sending *s)
{
	struct funet_peer *p = &f->peers[node];
	if (w[1] == 0 || w[1] >> 31 != 0 || w[2] == 0) {
		f->unknown++;
		return;
	}
	if (p->lease == 0 && s != NULL && w[3] % 64 == 0 && w[3] != 0) {
		p->lease = w[3];
		p->idle = (1 << FUNET_LEASE_SLOTS) - 1;
	}
	if (s != NULL && s->to == 0 && !s->ended) {
		funet_answered_ask(f, s);
		s->key = w[1];
		s->to = w[2];
	/* it was given up */
	} else if ((s == NULL || s->key != w[1]) && !funet_has_sent_all(f, node, w[0], w[1])) {
		funet_tell_words(f, node, FUNET_ABORT, w + 1, 1);
	}
}

/* What a receiver says of a message, by its id, or by the argument of its parts. */
static inline void funet_was_taken(struct funet *f, uint32_t node, const uint32_t *w, struct funet_sending *s)
{
	struct funet_peer *p = &f->peers[node];
	uint32_t slot = w[0] >> 25 & (FUNET_LEASE_SLOTS - 1);
	if (w[0] & FUNET_PART_BIT) {
		if (p->lease != 0 && p->used[slot] == w[0]) {
			p->idle |= 1u << slot;
			if (w[1] == FUNET_NO_HANDLER)
				funet_unhandled(f, node, w[0] & 0xff);
		}
	} else if (s != NULL && w[1] != FUNET_DONE) {
		s->owes = 0;
		funet_end_sending(f, s, w[1] == FUNET_LONG ? -EMSGSIZE : w[1] == FUNET_NO_HANDLER ? -ENOSYS :
					     w[1] == FUNET_LIFE || w[1] == FUNET_LOST ? -EHOSTUNREACH : -ENOMEM);
	}
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
	if (type == FUNET_READY && l == FUNI_REQUEST)
		funet_ready(f, slot);
	else if (type == FUNET_GRANT)
		funet_granted(f, node, w, s);
	else if (type == FUNET_TAKEN)
		funet_was_taken(f, node, w, s);
	else if (type == FUNET_ABORT && g->open && g->key == w[0] && g->node == node)
		funet_end_landing(g);
	f->running[l]--;
}

/* How many requests have been taken from the send queue so far: what those before it sent has been
 * read. */
static inline uint64_t funet_retired(struct funet *f) { return f->committed - funi_unsent(&f->card, FUNI_REQUEST); }

/* Whether the card has read all that it was asked to transfer. */
static inline int funet_is_read(struct funet *f, const struct funet_sending *s)
{
	return s->issued == 0 || funet_retired(f) >= (s->marks[0] > s->marks[1] ? s->marks[0] : s->marks[1]);
}

/* Asks for transfers of a message, as far as there is room. */
static inline void funet_transfer_more(struct funet *f, struct funet_sending *s)
{
	size_t whole = (s->length + 15) & ~(size_t)15, half = FUNET_CHUNK / 2;
	if (s->from == 0 && s->staging == NULL &&
		(s->staging = funet_take(f, whole < FUNET_CHUNK ? whole : FUNET_CHUNK)) == NULL) {
		s->owes = 1;
		funet_end_sending(f, s, -ENOMEM);
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

/* Goes on with one long message: announces it, transfers it, and notes when the card has read all
 * of it. */
static inline void funet_push(struct funet *f, struct funet_sending *s)
{
	const uint32_t words[5] = { s->id, s->number | s->kind << 16 | FUNET_QUIET, (uint32_t)s->length, s->tag,
		FUNET_DONE };
	uint32_t *slot;
	if (s->kind == FUNET_KIND_TAGGED) {
		funet_push_tagged(f, s);
		return;
	}
	if (!s->asked && f->peers[s->node].asked < FUNET_ASKED_MOST &&
		(slot = funi_send_reserve(&f->card, FUNI_REQUEST)) != NULL) {
		funet_fill(slot, s->node, FUNET_READY, words, 5);
		(void)funet_commit(f);
		s->asked = s->counted = 1;
		f->peers[s->node].asked++;
	}
	if (s->to != 0 && !s->ended)
		funet_transfer_more(f, s);
	if (s->to != 0 && !s->ended && s->issued >= s->length && funet_is_read(f, s)) {
		funet_note_sent(f, s);
		funet_end_sending(f, s, 0);
	}
}

/* Takes a message from the list of those under way, when the card no longer reads it. */
static inline void funet_unlink(struct funet *f, struct funet_sending *s)
{
	struct funet_sending **at = &f->sendings;
	while (*at != NULL && *at != s)
		at = &(*at)->next;
	if (*at != NULL) {
		*at = s->next;
		f->last = s->next == NULL ? at : f->last;
	}
	if (s->staging != NULL)
		funet_give(f, s->staging);
	s->staging = NULL;
}

/* Why a long message did not arrive. */
static inline const char *funet_why(int result)
{
	return result == -EHOSTUNREACH ? "the node is gone, or the message came back" :
	       result == -ENOSYS       ? "the node has no such handler" :
	       result == -EMSGSIZE     ? "the node has no room for that many bytes" :
					 "no memory for it, here or there; raise funet_options.memory (Options.Memory in Go), or the user's quota";
}

/* Ends a message of the list that is kept, when the card no longer reads it and the receiver knows
 * if it was given up. */
static inline void funet_retire(struct funet *f, struct funet_sending *s)
{
	struct funet_request *c;
	if (!funet_is_read(f, s))
		return;
	if (s->owes && s->to != 0 && s->kind == FUNET_KIND_TAGGED)
		funet_abort_tagged(f, s->node, s->tag >> 31, s->key);
	else if (s->owes && s->to != 0)
		funet_tell_words(f, s->node, FUNET_ABORT, &s->key, 1);
	if (s->result != 0 && !s->given_up && s->copy == NULL && f->sending_result == 0)
		f->sending_result = s->result;
	if (s->result != 0 && s->kind == FUNET_KIND_CALL && (c = funet_find(f, s->tag)) != NULL)
		funet_end_call(c, s->result, funet_why(s->result), strlen(funet_why(s->result)));
	if (s->result != 0 && s->kind == FUNET_KIND_ANSWER && !f->peers[s->node].gone)
		funet_tell_lost(f, s->node, FUNET_ANSWER, s->tag);
	if (s->result != 0 && s->kind == FUNET_KIND_REPLY && f->failed == 0)
		f->failed = funet_fail(f, s->result, "replying with %llu bytes to node %u: %s", (unsigned long long)s->length,
			s->node, funet_why(s->result));
	funet_answered_ask(f, s);
	funet_unlink(f, s);
	if (s->under_way != NULL)
		(*s->under_way)--;
	free(s->copy);
	free(s);
}

/* Probes a node. */
static inline int funet_probe(struct funet *f, uint32_t node);

/* Has the nodes asked, in turn, that memory was granted to, while others wait for it: if one is
 * gone its memory comes free. */
static inline void funet_probe_landing(struct funet *f)
{
	int64_t now = funet_now();
	if (now < f->probe)
		return;
	f->probe = now + INT64_C(200000000);
	for (int i = 0; i < FUNET_LANDINGS; i++, f->landing++)
		if (f->landings[f->landing % FUNET_LANDINGS].open) {
			(void)funet_probe(f, f->landings[f->landing++ % FUNET_LANDINGS].node);
			return;
		}
}

/* Grants the first message that waits its memory, or refuses it after FUNET_HUNGER in which there
 * was none and no message had any: 1, or 0 if it goes on waiting. The daemon is asked every
 * FUNET_ASK. */
static inline int funet_grant_waiting(struct funet *f)
{
	struct funet_arrival *a = f->waiting;
	int64_t now = funet_now();
	int granted = funet_grant(f, a), open = 0;
	for (int i = 0; i < FUNET_LANDINGS && !granted; i++)
		open |= f->landings[i].open;
	f->ask = 0;
	if (!granted && (open || f->hungry == 0 || now - f->hungry < FUNET_HUNGER)) {
		f->ask = now + FUNET_ASK;
		f->hungry = open ? 0 : f->hungry == 0 ? now : f->hungry;
		return 0;
	}
	f->hungry = 0;
	if (!granted)
		funet_settle(f, a->node, a->id, FUNET_MEMORY);
	f->waiting = a->next;
	funet_forget(f, a);
	return 1;
}

/* Goes on with everything that is under way, outside handlers. */
static inline void funet_advance(struct funet *f)
{
	struct funet_sending *s, *next;
	funet_say_kept(f);
	for (s = f->sendings; s != NULL; s = next) {
		next = s->next;
		if (!s->ended && !s->given_up)
			funet_push(f, s);
		if (s->kept && (s->ended || (s->given_up && (s->to != 0 || !s->asked))))
			funet_retire(f, s);
	}
	while (f->waiting != NULL && funet_now() >= f->ask && funet_grant_waiting(f))
		;
	if (f->waiting != NULL)
		funet_probe_landing(f);
	if (f->tells)
		funet_tell_tagged(f);
}

/* What nodes in Go tell each other in a job that goes on without nodes. A node in C takes no part
 * in that: it says so to one that joins again, which then ends with an error, and learns when
 * others have gone on without it. */
static inline void funet_member(struct funet *f, enum funi_level l, const uint32_t *slot, uint32_t words)
{
	const uint32_t *w = slot + FUNI_PAYLOAD_WORD;
	uint32_t what = w[0] & 0xff, node = slot[FUNI_SOURCE_WORD];
	if (words != 5)
		return;
	if (what == FUNET_HELLO && l == FUNI_REQUEST) {
		const uint32_t no[5] = { (uint32_t)FUNET_REFUSED | (w[1] & 31) << 10, 0, 0, 0, 0 };
		f->running[FUNI_REQUEST]++;
		funet_tell_words(f, node, FUNET_MEMBER, no, 5);
		f->running[FUNI_REQUEST]--;
	} else if (what == FUNET_STALE) {
		f->back.reason = FUNI_REASON_REPLACED;
		f->back.level = FUNI_REQUEST;
		f->back.header = funi_header((uint16_t)node, w[3] & FUNI_MAX_TYPE, 1);
		f->back.word = w[2];
		if (f->failed == 0)
			f->failed = funet_fail(f, -EHOSTUNREACH, "a message to node %u was not delivered: %s", node,
				funet_reason(FUNI_REASON_REPLACED));
	} else if (what == FUNET_FENCE && f->failed == 0) {
		f->failed = funet_fail(f, -ENOTCONN,
			"node %u says that the job goes on without this node; programs on funet.h do not join it again", node);
	}
}

/* Handles one message. */
static inline void funet_handle_slot(struct funet *f, enum funi_level l, const uint32_t *slot)
{
	uint32_t type = funi_type(slot[0]), words = funi_words(slot[0]);
	struct funi_notice n;
	if (slot[FUNI_SOURCE_WORD] >= f->card.nodes) {
		f->unknown++;
		return;
	}
	f->peers[slot[FUNI_SOURCE_WORD]].gone = 0;
	if (funi_is_notice(slot, &n)) {
		if (type == FUNET_PART)
			funet_landed(f, l, slot, &n);
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
	else if (type == FUNET_MEMBER)
		funet_member(f, l, slot, words);
	else if (type == FUNET_UNHANDLED && words >= 2)
		funet_unhandled(f, slot[FUNI_SOURCE_WORD], slot[FUNI_PAYLOAD_WORD] & 0xff);
	else if (type != FUNET_PROBE)
		f->unknown++;
}

/* Handles at most the given number of messages of a level, and returns how many it handled. */
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

/* to the program: not told; by what has failed; it need not know */
enum funet_came { FUNET_UNTOLD, FUNET_TOLD_SO, FUNET_OWN };

/* Tells a node, in a barrier, that this one has come to a round. */
static inline void funet_say_round(struct funet *f, uint32_t number, uint32_t round)
{
	const uint32_t words[5] = { number, 0, round, 0, 0 };
	funet_tell_words(f, (f->card.node + (UINT32_C(1) << round)) % f->card.nodes, FUNET_ROUND, words, 5);
}

/* Tells a node that a tagged message of a number will not come: it is not to wait for it. */
static inline void funet_say_void(struct funet *f, uint32_t node, uint32_t word)
{
	const uint32_t words[3] = { word, (word & 1) << 31, FUNET_FORM_VOID << 16 };
	funet_tell_words(f, node, FUNET_TAGGED, words, 3);
}

/* Has a node told again what it was told last of tagged messages. */
static inline void funet_tell_again(struct funet *f, uint32_t node)
{
	for (uint32_t space = 0; space < 2; space++) {
		struct funet_pair *p = funet_pair_of(f, node, space);
		if (p->taken != p->told || p->taken != 0)
			p->told = (p->taken - FUNET_WINDOW / 2) & FUNET_NUMBER;
	}
	f->tells = 1;
}

/* Ends what waits for a node that is gone: 1 if that tells the program of it. */
static inline int funet_departed(struct funet *f, uint32_t node, uint32_t reason)
{
	int told = 0;
	f->peers[node].gone = 1;
	for (struct funet_sending *s = f->sendings; s != NULL; s = s->next)
		if (s->node == node && !s->ended) {
			s->owes = 0;
			funet_end_sending(f, s, -EHOSTUNREACH);
			told |= !s->given_up;
		}
	for (struct funet_receive_state *w = f->receivers; w != NULL; w = w->next)
		if (!w->ended && (w->taken ? w->from == node : w->node == node))
			funet_end_receive(w, -EHOSTUNREACH);
	for (int i = 0; i < FUNET_CALLS; i++)
		if (f->calls[i].progress == FUNET_ASKED && f->calls[i].node == node)
			funet_end_call(&f->calls[i], -EHOSTUNREACH, funet_reason(reason), strlen(funet_reason(reason)));
	funet_forget_sender(f, node, reason == FUNI_REASON_SILENT || reason == FUNI_REASON_NO_ROUTE);
	return told;
}

/* Ends the message whose ready, part, envelope or piece has come back from a node that is there. */
static inline enum funet_came funet_sending_came_back(struct funet *f, const struct funi_return *r, uint32_t node,
	uint32_t type)
{
	struct funet_sending *s = f->sendings;
	for (; s != NULL; s = s->next)
		if (s->node == node && (s->kind == FUNET_KIND_TAGGED) == (type == FUNET_TAGGED || type == FUNET_PIECE) &&
		    (type == FUNET_READY    ? s->id == r->word :
		     type == FUNET_TAGGED   ? s->asked && s->sequence == r->word >> 2 && s->tag >> 31 == (r->word & 1) :
					      s->to != 0 && s->key == r->word))
			break;
	if (s == NULL || s->ended) { /* it has left, and the receiver waits for all of it */
		if (type == FUNET_PART)
			funet_tell_words(f, node, FUNET_ABORT, &r->word, 1);
		else if (type == FUNET_PIECE)
			funet_abort_tagged(f, node, 0, r->word);
		return FUNET_UNTOLD;
	}
	s->owes = type == FUNET_PART || type == FUNET_PIECE;
	funet_end_sending(f, s, -EHOSTUNREACH);
	return s->given_up ? FUNET_OWN : FUNET_TOLD_SO;
}

/* Does what a message asks for that came back. */
static inline enum funet_came funet_came_back(struct funet *f, const struct funi_return *r)
{
	uint32_t node = r->header & 0xffff, type = funi_type(r->header);
	int gone = funet_gone(r->reason), perhaps = funet_perhaps(r->reason), told = 0;
	struct funet_request *c = type == FUNET_CALL ? funet_find(f, r->word) : NULL;

	if (node >= f->card.nodes)
		return FUNET_UNTOLD;
	if (c != NULL && c->node == node) {
		funet_end_call(c, -EHOSTUNREACH, funet_reason(r->reason), strlen(funet_reason(r->reason)));
		told = 1;
	}
	if (gone) {
		told |= funet_departed(f, node, r->reason);
		if (type == FUNET_ANSWER || type == FUNET_GRANT || type == FUNET_TAKEN || type == FUNET_ABORT ||
			type == FUNET_TOLD || type == FUNET_MEMBER ||
		    type == FUNET_UNHANDLED)
			return FUNET_OWN; /* nobody waits for it any more */
		return told ? FUNET_TOLD_SO : FUNET_UNTOLD;
	}
	switch (type) {
	case FUNET_GRANT:
		for (int i = 0; perhaps && i < FUNET_LANDINGS; i++)
			if (f->landings[i].open && f->landings[i].node == node && f->landings[i].id == r->word)
				funet_tell_grant(f, &f->landings[i]);
		return perhaps ? FUNET_OWN : FUNET_UNTOLD;
	case FUNET_TAKEN:
	case FUNET_ANSWER:
		if (type == FUNET_ANSWER || perhaps)
			funet_tell_lost(f, node, type, r->word);
		return perhaps ? FUNET_OWN : FUNET_UNTOLD;
	case FUNET_ABORT:
		if (perhaps)
			funet_tell_words(f, node, FUNET_ABORT, &r->word, 1);
		return FUNET_OWN;
	case FUNET_UNHANDLED:
	case FUNET_MEMBER:
		/* who asks for it asks again, and who is not told that a handler is missing hears it of the
		 * next message */
		return FUNET_OWN;
	case FUNET_ROUND:
		for (uint32_t k = 0; perhaps && UINT32_C(1) << k < f->card.nodes; k++)
			if ((f->card.node + (UINT32_C(1) << k)) % f->card.nodes == node)
				funet_say_round(f, r->word, k);
		return perhaps ? FUNET_OWN : FUNET_UNTOLD;
	case FUNET_TOLD: {
		struct funet_receive_state *w = f->receivers;
		while (w != NULL && w->id != r->word)
			w = w->next;
		if (w != NULL && w->taken && !w->ended && w->got == 0 && w->from == node)
			w->granting = 1;
		else if (w == NULL && r->word != 0) /* that a message will not come, or is not wanted */
			funet_abort_tagged(f, node, 0, r->word);
		funet_tell_again(f, node);
		return FUNET_OWN;
	}
	case FUNET_TAGGED:
		funet_say_void(f, node, r->word);
		return funet_sending_came_back(f, r, node, type);
	case FUNET_PART:
		/* the slot is not used again: other parts may still be written there */
		if (r->word & FUNET_PART_BIT)
			return FUNET_UNTOLD;
		return funet_sending_came_back(f, r, node, type);
	case FUNET_READY:
	case FUNET_PIECE:
		return funet_sending_came_back(f, r, node, type);
	default:
		return told ? FUNET_TOLD_SO : FUNET_UNTOLD;
	}
}

/* Some messages came back of which nothing is known: any may have been among them. What waits here
 * ends, and who may wait for this node is told again what it was told last, or that it will not be.
 * Nodes that are known to be gone are not. */
static inline void funet_any_came_back(struct funet *f)
{
	const char *why = "too many messages came back";
	struct funet_record told[FUNET_HISTORY], sent[FUNET_HISTORY];
	struct funet_barrier_state *b = &f->barrier;
	for (int i = 0; i < FUNET_CALLS; i++)
		if (f->calls[i].progress == FUNET_ASKED)
			funet_end_call(&f->calls[i], -EHOSTUNREACH, why, strlen(why));
	for (struct funet_sending *s = f->sendings; s != NULL; s = s->next)
		if (!s->ended) {
			s->owes = !f->peers[s->node].gone;
			funet_end_sending(f, s, -EHOSTUNREACH);
		}
	for (struct funet_receive_state *w = f->receivers; w != NULL; w = w->next)
		if (!w->ended && !w->taken && w->node != FUNET_ANY)
			funet_end_receive(w, -EHOSTUNREACH);
		else if (!w->ended && w->taken && w->got == 0)
			w->granting = 1;
	memcpy(told, f->told, sizeof told);
	memcpy(sent, f->sent, sizeof sent);
	memset(f->told, 0, sizeof f->told); /* what is told now is not told a third time */
	memset(f->sent, 0, sizeof f->sent);
	for (int i = 0; i < FUNET_HISTORY; i++) {
		if (told[i].type != 0 && !f->peers[told[i].node].gone)
			funet_tell_lost(f, told[i].node, told[i].type, told[i].word);
		if (sent[i].type == FUNET_PART && !f->peers[sent[i].node].gone)
			funet_tell_words(f, sent[i].node, FUNET_ABORT, &sent[i].key, 1);
		else if (sent[i].type == FUNET_PIECE && !f->peers[sent[i].node].gone)
			funet_abort_tagged(f, sent[i].node, 0, sent[i].key);
	}
	for (int i = 0; i < FUNET_LANDINGS; i++)
		if (f->landings[i].open && !f->peers[f->landings[i].node].gone)
			funet_tell_grant(f, &f->landings[i]);
	for (uint32_t i = 0; i < 2 * f->card.nodes; i++) {
		const struct funet_pair *p = &f->pairs[i];
		uint32_t node = i % f->card.nodes, space = i / f->card.nodes;
		for (uint32_t n = p->matched; n != p->sent && !f->peers[node].gone; n = (n + 1) & FUNET_NUMBER)
			funet_say_void(f, node, n << 2 | space);
		if (space == 0 && !f->peers[node].gone)
			funet_tell_again(f, node);
	}
	for (uint32_t k = 0; UINT32_C(1) << k < f->card.nodes; k++) {
		if (b->number > 1 || (b->number == 1 && !b->open))
			funet_say_round(f, b->open ? b->number - 1 : b->number, k);
		if (b->open && (k < b->round || (k == b->round && b->told)))
			funet_say_round(f, b->number, k);
	}
}

/* Takes what came back: -EHOSTUNREACH if the program has to be told. */
static inline int funet_take_back(struct funet *f)
{
	struct funi_return r;
	uint32_t lost;
	int untold = 0, probes = 0;

	while (funi_returned(&f->card, &r))
		if (funet_came_back(f, &r) == FUNET_UNTOLD) {
			probes += funi_type(r.header) == FUNET_PROBE;
			if (untold++ == 0)
				f->back = r;
		}
	lost = funi_returns_lost(&f->card);
	if (lost != f->lost) {
		untold += (int)(lost - f->lost);
		f->lost = lost;
		funet_any_came_back(f);
	}
	f->vain = probes == untold;
	if (untold == 0)
		return 0;
	return funet_fail(f, -EHOSTUNREACH, "a message to node %u was not delivered: %s%s", f->back.header & 0xffff,
			  funet_reason(f->back.reason), untold > 1 ? ", and so were others" : "");
}

/* ---- polling and waiting ---- */

/* Refuses what needs a place in the job. */
static inline int funet_opened(struct funet *f, const char *what)
{
	return f->peers != NULL ? 0 : funet_fail(f, -ENOTCONN, "%s before funet_open or after funet_close", what);
}

/* Refuses what handlers may not do. */
static inline int funet_outside(struct funet *f, const char *what)
{
	if (funet_opened(f, what) != 0)
		return -ENOTCONN;
	if (f->running[FUNI_REQUEST] || f->running[FUNI_REPLY])
		return funet_fail(f, -EDEADLK,
			"%s in a handler, which may only reply to the message of funet_send that it handles", what);
	return 0;
}

/* Handles what has arrived, replies first, and does not wait. It returns how many messages that
 * were, about a thousand at most; or -EHOSTUNREACH, -ENOTCONN, or what a handler has returned. */
static inline int funet_poll(struct funet *f)
{
	int n = 0, some = 256, code = funet_outside(f, "polling");
	if (code != 0)
		return code;
	while (n < 1024 && some == 256) {
		n += funet_service(f, FUNI_REPLY, 1024);
		n += some = funet_service(f, FUNI_REQUEST, 256);
	}
	/* before what that asks for is sent: the program may sleep now */
	int back = f->failed == 0 ? funet_take_back(f) : 0;
	if (f->sendings != NULL || f->waiting != NULL || f->tells || f->control > 0)
		funet_advance(f);
	if (back != 0)
		return back;
	if ((code = f->failed) != 0) {
		f->failed = 0;
		return code;
	}
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

/* Waits until there is room for the given number of requests. Meanwhile it polls. */
static inline int funet_request_room(struct funet *f, uint32_t slots)
{
	int64_t end = 0;
	while (funet_room(f, FUNI_REQUEST) < slots) {
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

/* A slot for a request. */
static inline int funet_request_slot(struct funet *f, uint32_t **slot)
{
	int code = 0;
	*slot = funi_send_reserve(&f->card, FUNI_REQUEST);
	if (*slot == NULL && (code = funet_request_room(f, 1)) == 0)
		*slot = funi_send_reserve(&f->card, FUNI_REQUEST);
	return code;
}

/* Sends a node a request without meaning, which comes back if the node is gone. */
static inline int funet_probe(struct funet *f, uint32_t node)
{
	uint32_t *s = funi_send_reserve(&f->card, FUNI_REQUEST);
	if (s == NULL)
		return 0; /* what fills the queue says the same */
	s[0] = funi_header((uint16_t)node, FUNET_PROBE, 1);
	s[FUNI_PAYLOAD_WORD] = 0;
	f->peers[node].probed = f->probes;
	return funet_commit(f);
}

/* Probes all nodes that something is awaited of: of calls, of messages under way and of those that
 * are being received. What is awaited of a node that is gone ends when the probe has come back.
 * Functions that wait do that now and then; a program that only calls funet_poll, in an event loop,
 * does it itself when it has waited for long, for a second say. 0, or -EDEADLK in a handler. */
static inline int funet_probe_awaited(struct funet *f)
{
	int code = funet_outside(f, "probing");
	if (code != 0)
		return code;
	f->probes++;
	for (const struct funet_sending *s = f->sendings; s != NULL; s = s->next)
		if (f->peers[s->node].probed != f->probes)
			(void)funet_probe(f, s->node);
	for (const struct funet_receive_state *r = f->receivers; r != NULL; r = r->next) {
		uint32_t node = r->taken ? r->from : r->node;
		if (node < f->card.nodes && f->peers[node].probed != f->probes)
			(void)funet_probe(f, node);
	}
	for (int i = 0; i < FUNET_CALLS; i++)
		if (f->calls[i].progress == FUNET_ASKED && f->peers[f->calls[i].node].probed != f->probes)
			(void)funet_probe(f, f->calls[i].node);
	return 0;
}

/* Waits until done says so of its argument. Now and then it asks the nodes whether they are there
 * that something is awaited of, and the given one; node f->card.nodes is none. */
static inline int funet_await(struct funet *f, int (*done)(void *), void *argument, uint32_t node, int64_t end)
{
	int64_t gap = INT64_C(200000000), probe = 0, now;
	int n = 0;
	while (!done(argument)) {
		if ((n = funet_poll(f)) < 0)
			return n == -EHOSTUNREACH && f->vain && done(argument) ? 0 : n;
		if (n > 0 || done(argument))
			continue;
		now = funet_now();
		if (probe != 0 && now >= probe) {
			(void)funet_probe_awaited(f);
			if (node < f->card.nodes && f->peers[node].probed != f->probes)
				(void)funet_probe(f, node);
			gap = gap < INT64_C(5000000000) ? 2 * gap : gap;
		}
		if (probe == 0 || now >= probe)
			probe = now + gap;
		if ((n = funet_rest(f, end)) < 0)
			return n;
	}
	return 0;
}

/* Polls until done(argument) is not 0, at most the given number of milliseconds: 0, or -ETIMEDOUT,
 * -EINTR, and what funet_poll returns. It cannot notice that a node is gone while nothing is under
 * way to that node. */
static inline int funet_wait(struct funet *f, int (*done)(void *argument), void *argument, int milliseconds)
{
	int code = funet_outside(f, "waiting");
	return code != 0 ? code : funet_await(f, done, argument, f->card.nodes, funet_until(milliseconds));
}

/* ---- event loops ----
 *
 * The rule is that of funi.h: funet_poll until it returns 0, funet_arm, and, if that returns 1,
 * wait for funet_fd and other descriptors; then funet_woken. */

/* The descriptor that can be read when there may be something for funet_poll; neither read nor
 * close it. */
static inline int funet_fd(const struct funet *f) { return funi_fd(&f->card); }

/* 1: sleep until funet_fd can be read; 0: poll again first; -ENOTCONN. */
static inline int funet_arm(struct funet *f)
{
	int n = funet_opened(f, "sleeping");
	if (n != 0)
		return n;
	n = funi_arm(&f->card);
	return n < 0 ? funet_card_fails(f, n) : n;
}

/* After the sleep, whatever ended it: 0, or -ENOTCONN. */
static inline int funet_woken(struct funet *f)
{
	int n = funet_opened(f, "waking");
	if (n != 0)
		return n;
	n = funi_woken(&f->card);
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

/* Registers a handler of messages, which funet_send and funet_reply name by its number, before the
 * first can arrive. */
static inline int funet_handle(struct funet *f, uint32_t number, funet_handler run, void *argument)
{
	return funet_enter(f, number, run, argument, 0);
}

/* Registers a handler of calls. It answers with funet_answer and returns 0, or returns an error
 * (funet_refuse): the caller gets it, and no one else. A number is either's. */
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
static inline void funet_begin(struct funet *f, struct funet_sending *s, uint32_t node, uint32_t number,
	enum funet_kind kind, uint32_t tag,
			       const void *bytes, size_t length)
{
	memset(s, 0, sizeof *s);
	s->node = node;
	s->number = number;
	s->kind = kind;
	s->tag = tag;
	s->bytes = (const uint8_t *)bytes;
	s->length = length;
	s->id = ++f->ids & INT32_MAX;
	s->from = kind == FUNET_KIND_TAGGED ? 0 : funet_address(f, bytes, length);
	*f->last = s;
	f->last = &s->next;
	if (!f->running[FUNI_REQUEST]) /* else the next poll does it */
		funet_push(f, s);
}

/* Sends a message of more than FUNET_SHORT bytes at once: as transfers of 64 bytes, which travel
 * with their data, into a slot that the receiver has leased to this node. 1; 0 if there is none, or
 * the message is longer; or, and then nothing was sent, what is wrong. Requests and replies wait
 * for room in the send queue as such messages do. */
static inline int funet_send_at_once(struct funet *f, enum funi_level l, uint32_t node, enum funet_kind kind,
	uint32_t number, uint32_t ticket,
				     const void *bytes, size_t length)
{
	const uint32_t first[2] = { ticket, FUNET_DONE };
	size_t heads = kind == FUNET_KIND_CALL ? 4 : kind == FUNET_KIND_ANSWER ? 8 : 0, size = length + heads;
	uint32_t packets = (uint32_t)(size + 63) / 64, slot = 0;
	struct funet_peer *p = &f->peers[node];
	if (p->idle == 0 || size > FUNET_EAGER || packets > f->card.mask)
		return 0;
	int code = l == FUNI_REPLY ? funet_reply_room(f, packets) : funet_request_room(f, packets);
	if (code != 0 || p->idle == 0)
		return code;
	while ((p->idle >> slot & 1) == 0)
		slot++;
	p->idle &= ~(1u << slot);
	p->number[slot] = (p->number[slot] + 1) & 63;
	p->used[slot] = FUNET_PART_BIT | (uint32_t)kind << 28 | slot << 25 | p->number[slot] << 19 | (uint32_t)(size - 1) << 8 | number;
	for (size_t at = 0; at < size; at += 64) {
		size_t n = size - at < 64 ? size - at : 64, head = at == 0 ? heads : 0, whole = (n + 15) & ~(size_t)15;
		uint32_t *s = funi_send_reserve(&f->card, l);
		uint8_t *data = (uint8_t *)(s + FUNI_DATA_WORD);
		funi_transfer(s, (uint16_t)node, FUNET_PART, 0, p->lease + slot * FUNET_EAGER + (uint32_t)at, p->used[slot],
			(uint32_t)whole / 4);
		memset(data + whole - 16, 0, 16);
		memcpy(data, first, head);
		memcpy(data + head, (const uint8_t *)bytes + at + head - heads, n - head);
		(void)(l == FUNI_REQUEST ? funet_commit(f) : funi_send_commit(&f->card, l));
	}
	return 1;
}

static inline int funet_has_sent(void *sending) { return ((struct funet_sending *)sending)->ended; }

/* Has the program go on with copies of the pages of memory that was adopted, while the card still
 * reads them: 1, or 0 if that cannot be. */
static inline int funet_part(struct funet *f, const void *bytes, size_t length)
{
	struct funet_piece *p = funet_piece_of(f, bytes, length);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)bytes / page * page,
		to = ((uintptr_t)bytes + length + page - 1) / page * page;
	uint8_t *at = (uint8_t *)from, *copy = p != NULL && p->adopted ? (uint8_t *)malloc(to - from) : NULL;
	if (copy == NULL)
		return 0;
	memcpy(copy, at, to - from);
	int done = mmap(at, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | FUNI_MAP_ANONYMOUS | MAP_FIXED, -1,
		0) != MAP_FAILED;
	if (done) {
		memcpy(at, copy, to - from);
		p->parted = 1;
	}
	free(copy);
	return done;
}

/* Gives up a message that has not ended: what is left of it is kept until its receiver knows. The
 * card may still read the bytes, until the receiver's card has acknowledged them or has been silent
 * for too long, which is seconds. Memory that was adopted is parted from the card at once, page by
 * page. That of funet_alloc cannot be, as its pages are given out again: there the function waits.
 */
static inline void funet_give_up(struct funet *f, struct funet_sending *s)
{
	struct funet_sending *kept = (struct funet_sending *)malloc(sizeof *kept);
	int parted = kept != NULL && s->from != 0 && !funet_is_read(f, s) && funet_part(f, s->bytes, s->length);
	while (((s->from != 0 && !parted) || kept == NULL) && !funet_is_read(f, s))
		if (funi_wait(&f->card, 10) == -ENOTCONN)
			break;
	s->owes |= !s->ended;
	if (kept == NULL) {
		funet_answered_ask(f, s);
		funet_unlink(f, s);
		return;
	}
	*kept = *s;
	kept->kept = kept->given_up = 1;
	s->staging = NULL;
	s->counted = 0;
	funet_unlink(f, s);
	kept->next = NULL;
	*f->last = kept;
	f->last = &kept->next;
}

/* Waits until a long message has been read. */
static inline int funet_end(struct funet *f, struct funet_sending *s, int64_t end)
{
	int code = funet_await(f, funet_has_sent, s, s->node, end);
	if (!s->ended) {
		funet_give_up(f, s);
		return code;
	}
	if (!funet_is_read(f, s) || s->owes) {
		int result = s->result;
		funet_give_up(f, s);
		s->result = result;
	} else {
		funet_unlink(f, s);
	}
	if (s->result == 0)
		return code;
	return funet_fail(f, s->result, "sending %llu bytes to node %u: %s", (unsigned long long)s->length, s->node,
		funet_why(s->result));
}

/* Runs a handler on a node with bytes, at most FUNET_MAX_BYTES. On return the bytes may be changed.
 * Not in handlers.
 *
 * Up to FUNET_SHORT bytes are one packet, and up to FUNET_EAGER mostly leave at once, too, once the
 * receiver has granted memory for one such message: then it waits, and polls, only while the send
 * queue is full. A longer one is sent when the receiver has had room for it. The function returns
 * when all of it has left, after at most f->patience. A longer one is copied, unless it lies in
 * memory of funet_alloc or funet_adopt at a multiple of 16.
 *
 * Errors of earlier messages, which funet_poll returns, keep this one from being sent. Of one that
 * did not leave at once: -ENOSYS: the node has no such handler; -ENOMEM: no memory there, or here.
 * After -ETIMEDOUT and -EINTR it is given up, and no handler runs; with memory of funet_alloc that
 * can take as long as the receiver's host may be silent (funet_give_up). */
static inline int funet_send(struct funet *f, uint32_t node, uint32_t number, const void *bytes, size_t length)
{
	struct funet_sending sending;
	uint32_t *s;
	int code = funet_outside(f, "sending");
	if (code != 0 || (code = funet_check(f, node, number, length, FUNET_MAX_BYTES)) != 0)
		return code;
	if (length > FUNET_SHORT) {
		code = funet_send_at_once(f, FUNI_REQUEST, node, FUNET_KIND_BYTES, number, 0, bytes, length);
		if (code != 0)
			return code < 0 ? code : 0;
		funet_begin(f, &sending, node, number, FUNET_KIND_BYTES, 0, bytes, length);
		return funet_end(f, &sending, funet_until(f->patience));
	}
	if ((code = funet_request_slot(f, &s)) != 0)
		return code;
	funet_compose(s, node, FUNET_BYTES, &number, 1, 0, bytes, length);
	return funet_commit(f);
}

/* funet_send that does not wait for the receiver: the bytes must stay as they are until funet_flush
 * has returned 0. under_way is NULL, or counts such messages: it is one more until the bytes may be
 * changed. */
static inline int funet_post(struct funet *f, uint32_t node, uint32_t number, const void *bytes, size_t length,
	uint32_t *under_way)
{
	struct funet_sending *s;
	int code = funet_outside(f, "sending");
	if (length <= FUNET_SHORT)
		return funet_send(f, node, number, bytes, length);
	if (code != 0 || (code = funet_check(f, node, number, length, FUNET_MAX_BYTES)) != 0)
		return code;
	code = funet_send_at_once(f, FUNI_REQUEST, node, FUNET_KIND_BYTES, number, 0, bytes, length);
	if (code != 0)
		return code < 0 ? code : 0;
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

/* Waits until all that funet_post began has been read: 0, or the first error of one of them, once;
 * the others have ended then, too. */
static inline int funet_flush(struct funet *f, int milliseconds)
{
	int code = funet_outside(f, "flushing");
	if (code == 0)
		code = funet_await(f, funet_is_flushed, f, f->sendings != NULL ? f->sendings->node : f->card.nodes,
			funet_until(milliseconds));
	if (code != 0 || f->sending_result == 0)
		return code;
	code = f->sending_result;
	f->sending_result = 0;
	return funet_fail(f, code, "a message of funet_post did not arrive: %s", funet_why(code));
}

/* Runs a handler on the node whose message is being handled, with at most FUNET_MAX_BYTES bytes.
 * Only for messages of funet_send. While the send queue is full replies are handled. What does not
 * leave at once (funet_send) is copied, -ENOMEM, and leaves when the program polls; what becomes of
 * it then funet_poll says if it is an error. */
static inline int funet_reply(struct funet_message *m, uint32_t number, const void *bytes, size_t length)
{
	struct funet *f = m->f;
	if (m->level != FUNI_REQUEST || m->serves || f->running[FUNI_REPLY])
		return funet_fail(f, -EDEADLK, "replying where nothing may be sent: to a reply, or to a call");
	int code = funet_check(f, m->source, number, length, FUNET_MAX_BYTES);
	if (code == 0 && length > FUNET_SHORT) {
		if ((code = funet_send_at_once(f, FUNI_REPLY, m->source, FUNET_KIND_REPLY, number, 0, bytes, length)) != 0)
			return code < 0 ? code : 0;
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

/* Begins a call, and does not wait for its answer, which goes to room bytes: a number for
 * funet_finish, greater than 0, or an error. -EAGAIN: FUNET_CALLS calls have begun and not been
 * finished. The bytes, at most FUNET_MAX_BYTES, may be changed at once. Not in handlers. */
static inline int64_t funet_start(struct funet *f, uint32_t node, uint32_t number, const void *bytes, size_t length,
	void *answer, size_t room)
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
	uint32_t ticket = ((c->number + 1) & 0xfffff) << 12 | (uint32_t)(c - f->calls);
	if (length > FUNET_CALL_SHORT) {
		code = funet_send_at_once(f, FUNI_REQUEST, node, FUNET_KIND_CALL, number, ticket, bytes, length);
		if (code < 0)
			return code;
	}
	c->number = ticket >> 12;
	c->progress = FUNET_ASKED;
	c->node = node;
	c->answer = answer;
	c->room = room;
	c->length = 0;
	first[0] = ticket;
	if (length > FUNET_CALL_SHORT && code > 0)
		return (int64_t)ticket + 1;
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

/* The text of an error of a call that came without one. */
static inline const char *funet_says(int code)
{
	switch (code) {
	case -EHOSTUNREACH: return "the node is gone";
	case FUNET_NO_HANDLER: return "the node has no such handler";
	case FUNET_PANICKED: return "the handler panicked";
	case FUNET_MEMORY: return "no memory there; raise funet_options.memory (Options.Memory in Go), or the user's quota";
	case FUNET_LEAVING: return "the node is leaving";
	case FUNET_LOST: return "the answer was lost, and the handler may have run";
	case FUNET_LONG: return "the answer is too long";
	case FUNET_LIFE: return "another process is the node now";
	default: return "the handler gave no text";
	}
}

/* Waits for the answer of a call. 0: the answer has come, and *length is its length if length is
 * not NULL. A code: the handler's error, with its text in f->error. -EMSGSIZE: the answer has
 * *length bytes, more than there is room. -EHOSTUNREACH: the node is gone, and may have executed
 * the call. After these the call has ended. After -ETIMEDOUT, -EINTR and what funet_poll returns of
 * other messages it goes on. */
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
		return funet_fail(f, c->result, "calling node %u: its answer has %llu bytes, and there is room for %llu",
			c->node,
				  (unsigned long long)c->length, (unsigned long long)c->room);
	return c->result == 0 ? 0 : funet_fail(f, c->result, "calling node %u: error %d: %s", c->node, c->result,
		c->text[0] != 0 ? c->text : funet_says(c->result));
}

/* Calls a handler of funet_serve on a node and waits for its answer, of at most room bytes. Results
 * are those of funet_finish; but after any of them the call has ended. */
static inline int funet_call(struct funet *f, uint32_t node, uint32_t number, const void *bytes, size_t length,
	void *answer, size_t room,
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

/* Returns when all nodes have called it; all call it equally often. It is that of uspace/am
 * (barrier.go): in round k each node tells the node 2^k further on. -EINTR, -ETIMEDOUT, and after
 * other errors too: called again it goes on. */
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
		if ((code = funet_await(f, funet_has_heard, &r, from, end)) == -ETIMEDOUT)
			return funet_fail(f, code, "a barrier of %u nodes: node %u has not come, or waits for others", nodes, from);
		if (code != 0)
			return code;
	}
	b->open = 0;
	return 0;
}

/* ---- tagged messages ----
 *
 * Messages for which the receiver asks (MPI_Send, MPI_Recv). Those from one node with one tag are
 * received in the order in which they were sent. Tags are 0 to 2^31-1. */

/* Sends a node bytes that it receives with the same tag (MPI_Send). It returns when they may be
 * changed: with up to FUNET_TAGGED_SHORT bytes mostly at once, with more when the node receives
 * them and all have left. A node keeps FUNET_WINDOW messages of another that nobody has received;
 * the next wait. It is otherwise like funet_send, which is faster with many bytes: here they travel
 * in pieces of FUNET_PIECE_BYTES. */
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
static inline void funet_expect(struct funet *f, struct funet_receive_state *r, uint32_t node, uint32_t tag,
	void *bytes, size_t room)
{
	struct funet_receive_state **at = &f->receivers;
	memset(r, 0, sizeof *r);
	r->node = node;
	r->tag = tag;
	r->space = tag == FUNET_ANY_TAG ? 0 : tag >> 31;
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
	if (r->granting) { /* its sender waits */
		const uint32_t words[5] = { r->id, (uint32_t)FUNET_FORM_GRANT << 16 | r->space << 18, r->send, 0,
			funet_pair_of(f, r->from, r->space)->taken };
		funet_tell_words(f, r->from, FUNET_TOLD, words, 5);
	}
	r->granting = 0;
}

static inline int funet_has_come(void *receive) { return ((struct funet_receive_state *)receive)->ended; }

/* What was received. */
struct funet_received {
	uint32_t node, tag; /* of the message */
	size_t length;
};

/* Receives a tagged message of at most room bytes, from a node or from FUNET_ANY, with a tag or
 * FUNET_ANY_TAG (MPI_Recv, with its status): messages of one node in the order in which they were
 * sent. what may be NULL. -EMSGSIZE: the message has what->length bytes, and the first of them, as
 * many as there is room for, have been received; -ECANCELED: its sender has given it up. After
 * -ETIMEDOUT and -EINTR it can be called again; but a long message that had begun to arrive is
 * dropped. Not in handlers. */
static inline int funet_receive(struct funet *f, uint32_t node, uint32_t tag, void *bytes, size_t room,
	struct funet_received *what, int milliseconds)
{
	struct funet_receive_state r;
	int code = funet_outside(f, "receiving");
	if (code != 0)
		return code;
	if ((node >= f->card.nodes && node != FUNET_ANY) || (tag >> 31 != 0 && tag != FUNET_ANY_TAG))
		return funet_fail(f, -EINVAL, "receiving tag %u from node %u: the job has %u nodes, and tags are 0 to 2^31-1",
			tag, node, f->card.nodes);
	funet_expect(f, &r, node, tag, bytes, room);
	code = funet_await(f, funet_has_come, &r, node, funet_until(milliseconds));
	funet_expect_no_more(f, &r);
	if (!r.ended)
		return code;
	if (what != NULL) {
		what->node = r.from;
		what->tag = r.came;
		what->length = r.length;
	}
	if (r.result == 0)
		return 0;
	return funet_fail(f, r.result, "receiving from node %u: %s", r.taken ? r.from : node,
			  r.result == -EMSGSIZE	    ? "the message has more bytes than there is room" :
			  r.result == -EHOSTUNREACH ? "the node is gone" :
						      "the sender has given the message up");
}

/* funet_receive that says the length and the sender of the message, if the pointers are not NULL.
 */
static inline int funet_recv(struct funet *f, uint32_t node, uint32_t tag, void *bytes, size_t room, size_t *length,
	uint32_t *from, int milliseconds)
{
	struct funet_received what = { node, tag, 0 };
	int code = funet_receive(f, node, tag, bytes, room, &what, milliseconds);
	if (length != NULL)
		*length = what.length;
	if (from != NULL)
		*from = what.node;
	return code;
}

/* ---- collective operations ----
 *
 * As in MPI: all nodes call them in the same order, with the same root and lengths. They wait at
 * most the milliseconds given; signals end them only by f.stop. After an error of one, other nodes
 * may wait for this one in vain: the program ends, or the nodes agree otherwise on what to do. They
 * are those of the Go package uspace/collective: nodes in C and Go may call them together. */

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
			code = funet_fail(f, -EPROTO, "a collective operation: node %u calls another, or with another length",
				g->node);
	}
	if (g->begun && (!g->sending.ended || g->sending.owes || !funet_is_read(f, &g->sending)))
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
static inline int funet_exchange_one(struct funet *f, uint32_t tag, uint32_t node, const void *out, void *in,
	size_t bytes, int64_t end)
{
	struct funet_leg leg;
	memset(&leg, 0, sizeof leg);
	leg.node = node;
	leg.out = out;
	leg.in = in;
	leg.bytes = bytes;
	return funet_exchange(f, tag, &leg, 1, end);
}

static inline int funet_broadcast_as(struct funet *f, uint32_t tag, uint32_t root, void *bytes, size_t length,
	int64_t end)
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

/* The root, or everybody, exchanges blocks with all nodes, the farthest last: out and in have one
 * for each node, or are NULL. */
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

/* Blocks of a node's subtree in the binomial tree travel together, if they have at most this many
 * bytes each. */
#define FUNET_TREE_BYTES 4096

/* The size of a node's subtree, were the nodes a power of two. */
static inline uint32_t funet_span(uint32_t relative, uint32_t nodes)
{
	uint32_t bit = 1;
	while (relative != 0 ? (relative & bit) == 0 : bit < nodes)
		bit <<= 1;
	return bit;
}

/* Brings bytes of every node to the root, whose memory has a block for each, in order of their
 * numbers (MPI_Gather). */
static inline int funet_gather(struct funet *f, uint32_t root, const void *bytes, size_t length, void *all,
	int milliseconds)
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
		code = funet_exchange_one(f, tag, (relative + bit + root) % nodes, NULL, blocks + bit * length,
			(to - bit) * length, end);
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
static inline int funet_scatter(struct funet *f, uint32_t root, const void *all, void *bytes, size_t length,
	int milliseconds)
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
			code = funet_exchange_one(f, tag, (relative + bit + root) % nodes, blocks + bit * length, NULL,
				(to - bit) * length, end);
		}
	if (code == 0 && length > 0)
		memcpy(bytes, blocks, length);
	free(blocks);
	return code;
}

/* Sends a node bytes and receives others of another. */
static inline int funet_exchange_two(struct funet *f, uint32_t tag, uint32_t to, const void *out, uint32_t from,
	void *in, size_t bytes, int64_t end)
{
	struct funet_leg leg[2];
	memset(leg, 0, sizeof leg);
	leg[0].node = from;
	leg[0].in = in;
	leg[1].node = to;
	leg[1].out = out;
	leg[0].bytes = leg[1].bytes = bytes;
	return funet_exchange(f, tag, leg, 2, end);
}

/* Brings bytes of every node to all nodes, whose memory has a block for each, in order of their
 * numbers (MPI_Allgather). */
static inline int funet_allgather(struct funet *f, const void *bytes, size_t length, void *all, int milliseconds)
{
	int64_t end = funet_until(milliseconds);
	uint32_t tag, nodes = f->card.nodes, node = f->card.node;
	uint8_t *in = (uint8_t *)all, *blocks;
	int code = funet_collective(f, length, 0, &tag);
	if (code != 0)
		return code;
	if (length > FUNET_TREE_BYTES) { /* around the ring */
		memmove(in + node * length, bytes, length);
		for (uint32_t d = 0; d + 1 < nodes && code == 0; d++)
			code = funet_exchange_two(f, tag, (node + 1) % nodes, in + (node + nodes - d) % nodes * length,
				(node + nodes - 1) % nodes,
						  in + (node + nodes - d - 1) % nodes * length, length, end);
		return code;
	}
	if ((blocks = (uint8_t *)malloc(nodes * length + 1)) == NULL)
		return funet_fail(f, -ENOMEM, "an all-gather: no memory");
	if (length > 0)
		memcpy(blocks, bytes, length);
	/* as many as there are, of the nodes that follow */
	for (uint32_t d = 1; d < nodes && code == 0; d *= 2) {
		size_t n = (d < nodes - d ? d : nodes - d) * length;
		code = funet_exchange_two(f, tag, (node + nodes - d) % nodes, blocks, (node + d) % nodes, blocks + d * length,
			n, end);
	}
	if (code == 0 && length > 0) { /* this node's block is the first */
		memcpy(in + node * length, blocks, (nodes - node) * length);
		memcpy(in, blocks + (nodes - node) * length, node * length);
	}
	free(blocks);
	return code;
}

/* Every node has a block of the given number of bytes for every node, and gets one of each
 * (MPI_Alltoall). */
static inline int funet_alltoall(struct funet *f, const void *send, void *receive, size_t bytes, int milliseconds)
{
	uint32_t tag;
	int64_t end = funet_until(milliseconds);
	int code = funet_collective(f, bytes, 0, &tag);
	return code != 0 ? code : funet_with_all(f, tag, send, receive, bytes, end);
}

enum funet_operation { FUNET_SUM, FUNET_MIN, FUNET_MAX };
/* int64_t, double; other types are converted by the program */
enum funet_kind_of_value { FUNET_INT64, FUNET_DOUBLE };

/* Combines values with those of others: others first, as the order matters to doubles. Sums of
 * integers wrap around; a NaN stays. */
static inline void funet_combine(enum funet_kind_of_value kind, enum funet_operation op, void *values,
	const void *others, size_t n)
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

/* Combines n values of every node, int64_t (FUNET_INT64) or double (FUNET_DOUBLE), by FUNET_SUM,
 * FUNET_MIN or FUNET_MAX, and gives all nodes the result (MPI_Allreduce), in the place of their
 * own. The order depends on the number of nodes alone. */
static inline int funet_allreduce(struct funet *f, enum funet_kind_of_value kind, enum funet_operation op, void *values,
	size_t n, int milliseconds)
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

/* Gives every node the combination of the values of nodes 0 to itself (MPI_Scan), in the place of
 * its own. */
static inline int funet_scan(struct funet *f, enum funet_kind_of_value kind, enum funet_operation op, void *values,
	size_t n, int milliseconds)
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

/* Makes f ready, whose card is attached. */
static inline int funet_prepare(struct funet *f, uint32_t memory)
{
	f->patience = -1;
	f->last = &f->sendings;
	f->most = memory != 0 ? memory : UINT32_C(128) << 20;
	f->most = f->most < UINT32_C(1) << 30 ? f->most : UINT32_C(1) << 30;
	f->pairs = (struct funet_pair *)calloc(f->card.nodes, 2 * sizeof *f->pairs);
	f->peers = (struct funet_peer *)calloc(f->card.nodes, sizeof *f->peers);
	if (f->pairs == NULL || f->peers == NULL) {
		free(f->pairs);
		free(f->peers);
		return funet_fail(f, -ENOMEM, "opening: no memory");
	}
	/* Numbers of calls begin anywhere, so that a late answer to a process that was this node before
	 * is taken for none of ours. */
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

/* Takes this process's place in a job. o may be NULL: everything is in the environment. The context
 * needs funet_close only if this returns 0. Errors are those of funi_attach and
 * funi_attach_environment. */
static inline int funet_open(struct funet *f, const struct funet_options *o)
{
	uint32_t slots = o != NULL ? o->slots : 0;
	memset(f, 0, sizeof *f);
	int code = o == NULL || o->socket == NULL ? funi_attach_environment(&f->card, slots) :
						    funi_attach(&f->card, o->socket, o->gid, o->node, o->token, slots);
	if (code != 0)
		return funet_card_fails(f, code);
	if ((code = funet_prepare(f, o != NULL ? o->memory : 0)) != 0)
		(void)funi_close(&f->card, 0);
	return code;
}

/* Waits until what this process has sent has arrived, at most the given number of milliseconds, and
 * leaves the job: FUNI_ERR_BUSY if something was left undelivered, -EINTR after a signal. Whatever
 * it returns, f is not to be used any more. Messages that others still send to this node come back
 * to them: a barrier comes before. Memory of funet_alloc is gone. */
static inline int funet_close(struct funet *f, uint32_t milliseconds)
{
	int code = funet_outside(f, "closing");
	if (code != 0)
		return code;
	funet_say_kept(f);
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
	free(f->peers);
	free(f->controls);
	f->pairs = NULL;
	f->peers = NULL;
	f->controls = NULL;
	f->pieces = NULL;
	f->sendings = NULL;
	return code != 0 ? funet_card_fails(f, code) : 0;
}

#endif /* FUNET_H */
