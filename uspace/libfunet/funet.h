/* funet.h: programs on FUNet in C and C++, and in any language that loads a library.
 *
 *	cc -o program program.c $(pkg-config --cflags --libs funet)
 *	funet run -n 4 ./program
 *
 * The library libfunet is the Go packages uspace/funet and uspace/rma behind C functions. So a
 * program in C has what a program in Go has, on the same cards, and both may be nodes of one job.
 *
 *	static int greet(struct funet_message *m, void *argument) // runs on the node that is called
 *	{
 *		return funet_answer(m, "hello", 5);
 *	}
 *
 *	struct funet *f;
 *	char answer[80];
 *	size_t length;
 *	if (funet_open(&f, NULL, NULL) != 0 ||          // The place is from the environment.
 *	    funet_serve(f, 1, greet, NULL) != 0 ||
 *	    funet_barrier(f, NULL) != 0 ||              // All nodes have the handler.
 *	    funet_call(f, 1, 1, "hi", 2, answer, sizeof answer, &length, NULL) != 0 ||
 *	    funet_barrier(f, NULL) != 0 ||              // No node is called any more.
 *	    funet_close(f, NULL) != 0)
 *		fprintf(stderr, "%s\n", funet_error());
 *
 * Results. Functions return 0, or a count, and a negative enum funet_code if they fail. Then
 * funet_error says in one line what failed, why, and what to do.
 *
 * Handles. A struct funet, funet_pending or funet_cancellation is never complete: its pointer is a
 * number that the library checks. One that was closed or ended is refused (FUNET_ARGUMENT).
 *
 * Waits. A function with a parameter until ends with FUNET_TIMEOUT or FUNET_CANCELLED when that
 * says so. NULL waits for ever. The threads of the program run on meanwhile; a signal does not end
 * a wait, but its handler may call funet_cancel.
 *
 * Progress. Messages are handled, and calls answered, while a thread of the process is in a
 * function that waits, or calls funet_poll or funet_progress. One-sided operations of others are
 * carried out all the time, unless the process has a card of its own on interfaces of its own.
 *
 * Handlers run one at a time, in a thread that waits. A handler may answer or reply, and look at
 * its message. Everything else that it calls returns FUNET_HANDLER. It must return: it may neither
 * longjmp nor throw. It returns 0, or a negative number: to a call that is an error of the handler
 * (funet_refuse says more), and of a message it makes the endpoint unusable.
 *
 * Messages have no order, except tagged ones. A message that was sent is delivered once, or its
 * sender is told: by the function that sent it, or later by the next function that sends or waits
 * (FUNET_UNREACHABLE, FUNET_NO_HANDLER), or by funet_options.failed. Before its end a program calls
 * funet_barrier, if others may still send to it.
 *
 * Memory that is passed in is used where it lies, until the function returns, or until the call or
 * the operation that it began is complete. The library keeps no pointer longer, and gives out none
 * but those of funet_allocate and funet_error.
 *
 * Threads. Any thread may call any function, except where it is said. The library runs Go, which
 * has some threads of its own, and these rules:
 *	- Signal handlers need SA_ONSTACK. funet_open adds it to those that exist. They may call
 *	  funet_cancel and nothing else of the library.
 *	- Go installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGPIPE and SIGURG. They call the
 *	  handler that was there before for what is not Go's.
 *	- A thread that is in the library must not be cancelled by pthread_cancel.
 *	- A child of fork can use nothing of it (FUNET_FORKED) until it has called exec.
 *	- A library that was loaded by dlopen stays loaded after dlclose.
 *	- musl is not supported, and the sanitizers instrument the program only.
 *
 * Strings are UTF-8. Numbers in memory that nodes share are little-endian. */
#ifndef FUNET_H
#define FUNET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	FUNET_HANDLERS = 240,       /* numbers of handlers: 0 to 239, the same on all nodes */
	FUNET_SHORT = 80,           /* bytes of a message that one packet holds */
	FUNET_MAX_BYTES = 1 << 26,  /* of a message, a call or an answer */
	FUNET_MAX_TAGGED = 1 << 30, /* bytes of a message with a tag */
	FUNET_MAX_CALLS = 4096,     /* calls in flight; further ones wait */
	FUNET_FIRST_CODE = 256      /* codes of programs' own errors are at least this (funet_refuse) */
};

#define FUNET_ANY_NODE (-1)       /* a message of any node */
#define FUNET_ANY_TAG UINT32_MAX  /* with any tag */
#define FUNET_MAX_TAG 0x7fffffffu /* the largest tag of a program */

/* What functions return when they fail. */
enum funet_code {
	FUNET_FAILED = -1,       /* for the reason that funet_error names */
	FUNET_ARGUMENT = -2,     /* a closed handle, impossible memory, a number out of range */
	FUNET_TIMEOUT = -3,      /* the time of until is over */
	FUNET_CANCELLED = -4,    /* funet_cancel was called, or funet_abandon */
	FUNET_CLOSED = -5,       /* the endpoint is closed or unusable; funet_error tells why */
	FUNET_HANDLER = -6,      /* a handler called what waits or sends */
	FUNET_FORKED = -7,       /* a child of fork called */
	FUNET_PLACE = -8,        /* neither environment nor options give a place in a job */
	FUNET_NODE = -9,         /* no such node */
	FUNET_LONG = -10,        /* more bytes than are allowed, or than the memory for them holds */
	FUNET_NUMBER = -11,      /* no such handler number, or it is registered already */
	FUNET_NO_HANDLER = -12,  /* the node has no handler of that number */
	FUNET_UNREACHABLE = -13, /* the node is gone */
	FUNET_LEFT = -14,        /* it has left a job that it may join again; or funet_agree is due */
	FUNET_EXPELLED = -15,    /* the other nodes consider this process dead */
	FUNET_MEMORY = -16,      /* no memory for it there, or here */
	FUNET_REFUSED = -17,     /* the handler of a call failed (funet_refusal) */
	FUNET_TAG = -18,         /* no such tag */
	FUNET_TRUNCATED = -19,   /* a tagged message was longer than the memory for it */
	FUNET_ABORTED = -20,     /* its sender gave it up */
	FUNET_LENGTHS = -21,     /* the nodes gave a collective operation different lengths */
	FUNET_ROOT = -22,        /* no such root */
	FUNET_PANIC = -23,       /* a mistake of the library, which is of no more use */
	/* Of operations on windows. */
	FUNET_KEY = -24,         /* no such window, or another key (funet_ready) */
	FUNET_RANGE = -25,       /* not within the window */
	FUNET_RIGHTS = -26,      /* the window does not permit it */
	FUNET_ABSENT = -27,      /* the window was suspended for too long */
	FUNET_LOCKED = -28,      /* another node has locked the window */
	FUNET_UNREAD = -29,      /* notifications are unread (funet_notified) */
	FUNET_WINDOWS = -30,     /* no room for windows; see funet_options.windows */
	FUNET_PATH = -31         /* the path has ended, or no end of it was opened in time */
};

/* The error of the calling thread's last function that failed, as one line. It is valid until the
 * thread's next call. */
const char *funet_error(void);

/* ---- waits ---- */

struct funet_cancellation; /* ends waits */

/* Says how long a function may wait. */
struct funet_until {
	int64_t milliseconds;        /* negative: for ever; 0: not at all */
	struct funet_cancellation *cancel; /* NULL: none */
};

int funet_cancel_new(struct funet_cancellation **cancel);
/* Ends all waits that have the handle, and later ones, with FUNET_CANCELLED. A signal handler may
 * call it. */
int funet_cancel(struct funet_cancellation *cancel);
int funet_cancel_free(struct funet_cancellation *cancel);

/* ---- the endpoint ---- */

struct funet; /* a process's place in a job */

struct funet_options { /* zero: as funet run, mpirun or srun say */
	const char *peers;      /* path of a peers file, for a card on interfaces of its own */
	const char *interfaces; /* of that card, separated by commas */
	int32_t node;           /* this process's number in the peers file */
	int32_t nodes;          /* that the program runs on; 0: all of the job */
	int64_t memory;         /* bytes for long messages; 0: what suits the card; negative: none */
	uint32_t rejoin;        /* not 0: nodes may die and join again (funet run --restart) */
	uint32_t windows;       /* that may be open here, up to 65,536; 0: no one-sided operations */
	uint32_t notifications; /* that may be unread, up to 2^20; 0: 256 */
	uint32_t zero;
	/* Takes errors that belong to no call: of a handler, and of a message that came back, or
	 * found no handler, after its function had returned. It runs as handlers do. NULL: the
	 * first error of a handler makes the endpoint unusable, and the next function that sends or
	 * waits returns the other. */
	void (*failed)(enum funet_code code, const char *text, void *argument);
	void *argument;
};

/* Takes this process's place in a job. options may be NULL. Waits at most until the time given. */
int funet_open(struct funet **f, const struct funet_options *options, const struct funet_until *until);
/* Waits until everything that was sent is delivered, a minute if until is NULL, and gives the place
 * back. The handle is refused afterwards. */
int funet_close(struct funet *f, const struct funet_until *until);
int funet_node(struct funet *f);  /* this process's number, from 0 */
int funet_nodes(struct funet *f); /* how many processes the job has */

/* ---- messages ---- */

/* Runs a handler on a node with the bytes, or puts them where that node polls (funet_collect). It
 * returns when bytes may be changed. A message of up to 2,048 bytes is under way then; a longer one
 * has been delivered. */
int funet_send(struct funet *f, int node, uint32_t handler, const void *bytes, size_t length,
	const struct funet_until *until);

struct funet_outgoing {
	const void *bytes;
	size_t length;
	int32_t node;
	uint32_t handler;
};

/* Sends several messages at the cost of one call; short ones to one node share frames. It returns
 * how many were sent; if that is fewer than n, funet_error tells why, and the failure is that of
 * the next one. A negative number: the first one failed. */
int funet_send_many(struct funet *f, const struct funet_outgoing *messages, int n, const struct funet_until *until);

struct funet_pending; /* what was begun; funet_finish or funet_abandon ends it */

/* Begins what funet_send does. bytes must not change until the end. until is for room to begin. */
int funet_start_send(struct funet *f, int node, uint32_t handler, const void *bytes, size_t length,
	struct funet_pending **send, const struct funet_until *until);

struct funet_message { /* valid until its handler returns, or as long as the memory of funet_poll */
	const void *bytes;
	size_t length;
	int32_t source;   /* the node that sent it, which the cards guarantee */
	uint32_t handler; /* the number */
	uint64_t token;   /* the library's */
};

/* Keeps messages with the handler number until funet_poll takes them, instead of running a handler.
 * A program that leaves 2^20 messages or 1 GiB unread while it waits for other things makes its
 * endpoint unusable (FUNET_CLOSED). */
int funet_collect(struct funet *f, uint32_t handler);

/* Takes up to n messages of funet_collect, waits for the first one, and runs handlers meanwhile.
 * The bytes are copied to memory, each message's to a multiple of 8. It returns how many messages
 * there are, 0 if the time is over. FUNET_LONG: memory is too small for the first message, whose
 * length is in messages[0]; it remains. */
int funet_poll(struct funet *f, struct funet_message *messages, int n, void *memory, size_t room,
	const struct funet_until *until);

/* A function of the program. argument is that of its registration. */
typedef int (*funet_handler)(struct funet_message *m, void *argument);

/* Runs a handler for messages with a number. Registration comes before the first message. */
int funet_handle(struct funet *f, uint32_t handler, funet_handler run, void *argument);
/* Within a handler of funet_handle: runs a handler on the node that sent the message. The bytes are
 * copied. */
int funet_reply(struct funet_message *m, uint32_t handler, const void *bytes, size_t length);

/* ---- calls ---- */

/* Runs a handler for calls with a number. It calls funet_answer or funet_refuse, or the answer has
 * no bytes. */
int funet_serve(struct funet *f, uint32_t handler, funet_handler run, void *argument);
int funet_answer(struct funet_message *m, const void *bytes, size_t length); /* they are copied */
/* Answers with an error, of a code of FUNET_FIRST_CODE or more, and a text of which 72 bytes
 * travel. */
int funet_refuse(struct funet_message *m, uint32_t code, const char *text);

/* Runs a handler of funet_serve on a node, and stores its answer. *length is the answer's, also if
 * that is longer than room (FUNET_LONG). length may be NULL. A call that returns 0 was executed
 * once. */
int funet_call(struct funet *f, int node, uint32_t handler, const void *bytes, size_t length, void *answer,
	size_t room, size_t *answered, const struct funet_until *until);

/* Begins a call. bytes must not change until funet_finish or funet_abandon has returned, if they
 * are more than 76. Each call needs one of these two. */
int funet_start_call(struct funet *f, int node, uint32_t handler, const void *bytes, size_t length,
	struct funet_pending **call);
/* Waits for the answer, as funet_call does, or for the end of a send or a receive, which answers
 * nothing. After FUNET_TIMEOUT or FUNET_CANCELLED by until it is still in flight; otherwise the
 * handle is refused afterwards. */
int funet_finish(struct funet_pending *call, void *answer, size_t room, size_t *answered,
	const struct funet_until *until);
/* Gives it up. The handler of a call or of a message may run nevertheless. */
int funet_abandon(struct funet_pending *call);

/* The code of the error with which the calling thread's last call was refused (FUNET_REFUSED), or
 * 0. */
uint32_t funet_refusal(void);

/* ---- messages with tags ---- */

/* Sends bytes to a node with a tag, for its funet_receive (MPI_Send). A message of more than 72
 * bytes waits for that. Those of a thread with one tag are received in order. */
int funet_send_tag(struct funet *f, int node, uint32_t tag, const void *bytes, size_t length,
	const struct funet_until *until);

struct funet_received {
	uint64_t length;
	int32_t source;
	uint32_t tag;
};

/* Receives the next message of a node, or FUNET_ANY, with a tag, or FUNET_ANY (MPI_Recv). what may
 * be NULL. */
int funet_receive(struct funet *f, int source, uint32_t tag, void *memory, size_t room,
	struct funet_received *what, const struct funet_until *until);

/* Begin these two. bytes must not change, and memory not be used, until the end. Sends are received
 * in the order in which they were begun. until is for room to begin, of which there is enough for
 * 1,024 of each kind. */
int funet_start_send_tag(struct funet *f, int node, uint32_t tag, const void *bytes, size_t length,
	struct funet_pending **send, const struct funet_until *until);
int funet_start_receive(struct funet *f, int source, uint32_t tag, void *memory, size_t room,
	struct funet_pending **receive, const struct funet_until *until);
/* Is funet_finish for a receive, and says what came. what may be NULL. */
int funet_finish_receive(struct funet_pending *receive, struct funet_received *what, const struct funet_until *until);

/* ---- letting it run ---- */

/* Handles what has arrived, and does not wait. It returns how many messages were handled. */
int funet_progress(struct funet *f);
/* Handles messages until the time is over or the handle is cancelled, and returns 0 then. */
int funet_run(struct funet *f, const struct funet_until *until);
/* Handles messages until done returns not 0. It looks at what handlers have changed, and calls
 * nothing of the library. */
int funet_wait(struct funet *f, int (*done)(void *argument), void *argument, const struct funet_until *until);

/* For event loops: a descriptor that is readable when there is something to do, between an arm that
 * returned 1 and the disarm. It may be polled, also by an epoll instance, but not read.
 *
 *	while (funet_poll(f, m, 64, memory, sizeof memory, &now) == 0 && funet_arm(f) == 1) {
 *		epoll_wait(...);
 *		funet_disarm(f);
 *	}
 */
int funet_fd(struct funet *f);
int funet_arm(struct funet *f); /* 0: something has happened already */
int funet_disarm(struct funet *f);

/* ---- operations of all nodes ----
 *
 * All nodes call the same ones in the same order, with the same root and lengths, as in MPI. length
 * is bytes of one node. After an error the nodes are out of step, and none may be called again,
 * except after funet_agree. */

/* Returns when all nodes have called it; it may be called again after it has failed. */
int funet_barrier(struct funet *f, const struct funet_until *until);
int funet_broadcast(struct funet *f, int root, void *bytes, size_t length, const struct funet_until *until);
int funet_gather(struct funet *f, int root, const void *from, size_t length, void *to,
	const struct funet_until *until); /* only the root needs to */
int funet_scatter(struct funet *f, int root, const void *from, void *to, size_t length,
	const struct funet_until *until); /* only the root needs from */
int funet_all_gather(struct funet *f, const void *from, size_t length, void *to, const struct funet_until *until);
int funet_all_to_all(struct funet *f, const void *from, void *to, size_t length, const struct funet_until *until);

enum funet_element { /* the type of a number */
	FUNET_U8, FUNET_U16, FUNET_U32, FUNET_U64, FUNET_I8, FUNET_I16, FUNET_I32, FUNET_I64, FUNET_F32, FUNET_F64
};

enum funet_operation { /* what is done with numbers */
	FUNET_WRITE = 2, FUNET_READ = 3, FUNET_ADD = 4, FUNET_AND = 5, FUNET_OR = 6, FUNET_XOR = 7, FUNET_MIN = 8,
	FUNET_MAX = 9, FUNET_PROD = 10, FUNET_SWAP = 11, FUNET_COMPARE_SWAP = 12, FUNET_MASKED_SWAP = 13
};

/* Combine the nodes' numbers, of type FUNET_I64 or FUNET_F64, by FUNET_ADD, FUNET_MIN or FUNET_MAX,
 * element by element, in place: into the root's, into all nodes', and for each node into those of
 * the nodes up to it. */
int funet_reduce(struct funet *f, int root, enum funet_operation o, enum funet_element e, void *numbers,
	size_t count, const struct funet_until *until);
int funet_all_reduce(struct funet *f, enum funet_operation o, enum funet_element e, void *numbers, size_t count,
	const struct funet_until *until);
int funet_scan(struct funet *f, enum funet_operation o, enum funet_element e, void *numbers, size_t count,
	const struct funet_until *until);

/* ---- nodes that die and join again (funet_options.rejoin) ---- */

struct funet_event {
	int32_t node;
	uint32_t life;   /* how many processes were the node before the one that left or joined */
	uint32_t joined; /* 0: it left */
};

/* Stores up to n events that were not told yet, in order, and returns how many. It does not wait;
 * events arrive while a thread waits for something. */
int funet_events(struct funet *f, struct funet_event *events, int n);
int funet_life(struct funet *f, int node);    /* of its present process, as far as is known */
int funet_present(struct funet *f, int node); /* 1: messages can be sent to it */
/* Returns when all nodes are present and have called it. Operations of all nodes work again then,
 * until the next event. While they work it returns at once. */
int funet_agree(struct funet *f, const struct funet_until *until);

/* ---- windows: memory that other nodes use without this process (funet_options.windows) ---- */

/* Zeroed memory for windows, the data of puts and what gets read, until funet_close. */
int funet_allocate(struct funet *f, size_t bytes, void **memory);
/* Makes memory of the program such memory, until funet_close: a multiple of 16 bytes. A daemon's
 * card cannot use it (FUNET_FAILED). */
int funet_share(struct funet *f, void *memory, size_t bytes);

enum funet_rights { FUNET_MAY_READ = 1, FUNET_MAY_WRITE = 2, FUNET_MAY_OPERATE = 4, FUNET_MAY_NOTIFY = 8 };

/* What a window has counted of operations of others that asked for it (FUNET_COUNT), each once and
 * when all of it was there, or had been read. The card adds to it. */
struct funet_counts {
	uint64_t writes;  /* puts, and operations on numbers without an answer */
	uint64_t fetches; /* operations that changed numbers and answered the old ones */
	uint64_t reads;   /* gets, and FUNET_READ */
};

struct funet_window { /* zero: read, write and operate, at address 0, by a random key */
	uint64_t address;       /* by which other nodes name the first byte, up to 48 bits */
	uint64_t key;           /* agreed on beforehand; its lower 16 bits are below options.windows */
	uint32_t rights;        /* enum funet_rights; 0: all but FUNET_MAY_NOTIFY */
	uint32_t notifications; /* that may be unread; further puts with one wait at their senders */
	uint32_t absent;        /* not 0: suspended from the beginning */
	uint32_t zero;
	struct funet_counts *counts; /* in memory of funet_allocate or funet_share; NULL: none */
};

struct funet_target { /* names bytes of a window; add to address for later ones */
	uint64_t key, address;
	int32_t node;
	uint32_t zero;
};

/* Opens a window over memory of funet_allocate or funet_share, and stores what other nodes need.
 * how may be NULL. */
int funet_expose(struct funet *f, void *memory, size_t bytes, const struct funet_window *how,
	struct funet_target *window);
int funet_revoke(struct funet *f, uint64_t key);  /* when it returns nothing changes the memory */
int funet_suspend(struct funet *f, uint64_t key); /* operations wait at their senders, up to 30 s */
int funet_resume(struct funet *f, uint64_t key);  /* they are carried out; a lock is gone */

enum { /* flags of funet_with */
	FUNET_ACK = 1,        /* a put: an ID, and its own completion; funet_apply: no answer */
	FUNET_SILENT = 2,     /* anything else: no ID and no answer; funet_quiet waits for it */
	FUNET_ORDERED = 4,    /* after all earlier operations on that node */
	FUNET_NOTIFY = 8,     /* a put: tell the owner when all data is there, with tag */
	FUNET_SIGNAL = 16,    /* a put: write value to the word at signal when all data is there */
	FUNET_SIGNAL_ADD = 32, /* the same, but add */
	FUNET_COUNT = 64      /* the window counts it; a long put or get takes a round trip more */
};

struct funet_with { /* how to carry an operation out */
	uint32_t flags, zero;
	uint64_t tag;
	struct funet_target signal; /* on the node of the put, in a window that may be operated on */
	uint64_t value;
};

/* Operations on windows of other nodes have no order among each other. Each is carried out once, or
 * fails. funet_put writes bytes; more than 40 must lie in memory of funet_allocate or funet_share,
 * and stay as they are until it is complete. funet_get reads bytes into such memory. funet_apply
 * does an operation on up to 4 numbers, atomically on each. operands are those of all numbers, as
 * the operation needs them: none for FUNET_READ, whose count says how many; all values to compare
 * and then all to write; or all values and then all masks. The answer is the old numbers.
 *
 * with and id may be NULL. *id names an operation that completes by itself (funet_complete), or is
 * 0: puts without FUNET_ACK and what is FUNET_SILENT. until is for room on the card. */
int funet_put(struct funet *f, const struct funet_target *to, const void *bytes, size_t length,
	const struct funet_with *with, uint32_t *id, const struct funet_until *until);
int funet_get(struct funet *f, const struct funet_target *from, void *memory, size_t length,
	const struct funet_with *with, uint32_t *id, const struct funet_until *until);
int funet_apply(struct funet *f, const struct funet_target *to, enum funet_operation o, enum funet_element e,
	int count, const void *operands, const struct funet_with *with, uint32_t *id, const struct funet_until *until);

/* Waits for an operation, and stores its answer if there is room. answer and length may be NULL. */
int funet_complete(struct funet *f, uint32_t id, void *answer, size_t room, size_t *length,
	const struct funet_until *until);
/* Waits for all operations of all threads; it returns the first failure of one without an ID. */
int funet_quiet(struct funet *f, const struct funet_until *until);
/* Waits for the operations on a node, so that later ones come after them. */
int funet_fence(struct funet *f, int node, const struct funet_until *until);

/* These wait for the old number of 64 bits, and store it; old may be NULL. */
int funet_fetch(struct funet *f, const struct funet_target *at, uint64_t *old, const struct funet_until *until);
int funet_fetch_add(struct funet *f, const struct funet_target *at, uint64_t value, uint64_t *old,
	const struct funet_until *until);
int funet_swap(struct funet *f, const struct funet_target *at, uint64_t value, uint64_t *old,
	const struct funet_until *until);
int funet_compare_swap(struct funet *f, const struct funet_target *at, uint64_t compare, uint64_t value,
	uint64_t *old, const struct funet_until *until);

/* The one lock of a window: while a node has it, operations of others fail with FUNET_LOCKED. */
int funet_lock(struct funet *f, const struct funet_target *window, const struct funet_until *until);
int funet_try_lock(struct funet *f, const struct funet_target *window); /* 1: it has the lock now */
int funet_unlock(struct funet *f, const struct funet_target *window);

/* Waits until a window of another node is open. */
int funet_ready(struct funet *f, const struct funet_target *window, const struct funet_until *until);

enum funet_relation { FUNET_EQUAL, FUNET_DIFFERENT, FUNET_AT_LEAST, FUNET_AT_MOST };

/* Waits until a word of 64 bits in memory of a window, or a count, is so, as others write it. */
int funet_await(struct funet *f, const uint64_t *word, enum funet_relation r, uint64_t value,
	const struct funet_until *until);

struct funet_notification { /* all data of a put is there, or a node wants a suspended window */
	uint64_t tag;
	uint64_t address;      /* of the first byte of the put's last packet, or of what is wanted */
	int32_t node;          /* that put it */
	uint32_t window;       /* bits 15:0 of its key */
	uint32_t absent, zero; /* absent: it waits for funet_resume */
};

/* Takes up to n notifications, and waits for the first one. It returns how many, 0 if the time is
 * over. */
int funet_notified(struct funet *f, struct funet_notification *notifications, int n,
	const struct funet_until *until);

/* ---- chains: one copy for many nodes ---- */

enum { FUNET_CHAINS = 64, FUNET_MAX_NEXT = 4 }; /* numbers of chains; where a member sends copies */

struct funet_next {
	int32_t node;
	uint32_t members; /* behind it, itself included */
};

/* Makes the process a member of a chain: the first one, or one that takes copies from parent. */
int funet_join(struct funet *f, uint32_t chain, int first, int parent, const struct funet_next *next, int n);
int funet_leave(struct funet *f, uint32_t chain);

struct funet_delivery { /* members that have it, do not have it, and may have it */
	uint32_t delivered, failed, doubtful;
};

/* Writes up to 52 bytes to the window of each member, all of which have opened theirs with one key,
 * along the chain from its first member on. delivery may be NULL. */
int funet_multicast(struct funet *f, int first, uint32_t chain, uint32_t members,
	const struct funet_target *to, const void *bytes, size_t length, struct funet_delivery *delivery,
	const struct funet_until *until);

/* ---- paths: lines of words, one store and one load each (funet_options.windows) ----
 *
 * A path leads from one node to another. Both open their end, in either order, within 5 seconds of
 * each other. Ends for one node are joined in the order in which they are opened there. Lines
 * arrive once and in order. After the end of a path its functions return FUNET_PATH. One
 * thread at a time uses an end. Other threads wait while one opens, flushes or closes. */

enum { FUNET_LINE = 7 }; /* words of a line at most */

struct funet_path; /* an end of a path */

int funet_open_sender(struct funet *f, int node, struct funet_path **path, const struct funet_until *until);
/* lines is how many may be unread besides 16 in flight: a power of two from 32 to 16,384. */
int funet_open_receiver(struct funet *f, int node, uint32_t lines, struct funet_path **path,
	const struct funet_until *until);
/* Sends a line of n words, 1 to FUNET_LINE; waits for the path to open, and for room. */
int funet_send_line(struct funet_path *path, const uint64_t *words, int n, const struct funet_until *until);
/* Waits until the receiver's card has all lines. */
int funet_flush_lines(struct funet_path *path, const struct funet_until *until);
/* Waits for a line, and returns how many words it has; 0: the sender has closed its end. words has
 * room for FUNET_LINE. */
int funet_receive_line(struct funet_path *path, uint64_t *words, const struct funet_until *until);
/* Closes an end. That of a sender waits until the receiver's card has all lines. The handle is
 * refused afterwards, unless the time is over. */
int funet_close_path(struct funet_path *path, const struct funet_until *until);

#ifdef __cplusplus
}
#endif

#endif
