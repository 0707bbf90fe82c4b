/* funi.h: FUNet for C and C++ programs: attach to the card of a daemon (funid) without privileges,
 * send, receive and transfer memory. There is no library: everything is here, for C11 and C++17 and
 * later with GCC or Clang on Linux, little-endian. It is for programs that want the queues of the
 * papers' machine. The library libfunet (funet.h) has messages of bytes, calls, windows and
 * operations of all nodes, on every card.
 *
 *	struct funi_context c;
 *	if (funi_attach_environment(&c, 0) != 0) // or funi_attach
 *		fprintf(stderr, "%s\n", c.error);
 *
 *	uint32_t *s = funi_send_reserve(&c, FUNI_REQUEST); // NULL: full; funi_wait
 *	s[0] = funi_header(node, type, 1);
 *	s[FUNI_PAYLOAD_WORD] = 42;
 *	funi_send_commit(&c, FUNI_REQUEST);
 *
 *	const uint32_t *r = funi_receive(&c, FUNI_REQUEST); // NULL: none; funi_wait
 *	... funi_release(&c, FUNI_REQUEST);
 *	funi_close(&c, 1000);
 *
 * The ABI is that of the Go package uspace/funi, whose documentation says what the words mean, and
 * the messages of the socket are those of uspace/attach; a test compares them.
 *
 * Functions return 0 (or more) when they have done what they say, a positive funi_status when the
 * daemon refused, or a negative errno; c.error then says why, in one line. -ENOTCONN means that the
 * daemon is gone or has ended the context, for good, and c.error has the card's reason (funi_why)
 * if it gave one. A context belongs to one thread at a time, and functions that do not wait say
 * nothing of the end of the daemon: their queues just stay as they are. funi_wait does.
 *
 * Types. A message has a type from 0 to 511, which means what the program says: the card only
 * carries it. So all 512 are free in a job whose programs all use funi.h alone. In a job with Go
 * programs on package am, or C programs on libfunet, those have types 0 to 31 and 256 to 495 for
 * themselves.
 *
 * Levels, and how to keep two nodes from waiting for each other for ever. A level has queues of its
 * own. While a receive queue is full the card takes no more messages of that level, and those who
 * send them wait. So:
 *   - What answers nothing is sent as FUNI_REQUEST. While that send queue is full the program goes
 *     on to receive, both levels, replies first.
 *   - What answers a request is sent as FUNI_REPLY. While that send queue is full the program goes
 *     on to receive replies, and no requests.
 *   - A reply is answered by nothing.
 * Then replies can always be received, so requests can always be answered.
 *
 * Order. A message arrives once, or comes back (perhaps both, where the peer fell silent or began
 * anew), and never twice. But messages do not arrive in the order in which they were sent, not even
 * those from one node to another at one level. One that was lost, or that a full queue turned away,
 * is sent again while later ones pass. A program for which the order matters numbers its messages.
 *
 * Messages that come back. What cannot be delivered comes back, each message and transfer once,
 * with a funi_reason (funi_returned). The ring has FUNI_RETURN_SLOTS places; what finds none is
 * only counted (funi_returns_lost).
 *
 * Before a peer attaches, messages to it wait at its card, if its daemon was told that the node
 * belongs to the job. `funet run` tells the daemon before it starts the programs. The messages wait
 * for the daemon's connect_timeout at most, from the first of them on; it is 30 s if not set. After
 * that, and after a peer has left, they come back, with FUNI_REASON_NO_CONTEXT. Nothing says when a
 * peer has attached: a first message that it answers does.
 *
 * Transfers. The receiver has all words of a transfer in its memory when it receives the notice.
 * Before that, words may be missing, as the parts arrive in any order. The notice has the type of
 * the transfer, and comes at the level at which the transfer was sent, among the messages of that
 * level. The sender may change the source again when the slot of the transfer has been given back:
 * when funi_unsent of that level is 0, or less than what was sent since. That does not say that the
 * notice has been received.
 *
 * Memory errors. FUNI_MERR in the register FUNI_CONTROL, with a funi_reason in page->fault, says
 * that the card found something wrong that this process wrote. With FUNI_REASON_QUEUE_SIZE or
 * FUNI_REASON_QUEUE_LAYOUT the queue registers describe no queues in the context's memory: the
 * queues stay halted until the owner of the card clears the bit, so close the context and attach
 * anew. funi.h writes them correctly; something else has written to the page. With another reason a
 * transfer asked for memory that is no segment with that right, or had no allowed length: it has
 * come back, and everything else goes on; the bit stays set and means nothing more.
 *
 * Slots. Each of the four queues has as many slots of 128 bytes as the program asked for, a power
 * of two; 0 asks for the daemon's default, 1024 unless its file says otherwise. One slot always
 * stays empty. All queues count in what the daemon lets the user have.
 *
 * Remote memory. A program may give keys to parts of its memory; whoever has one writes there, and
 * the program that owns it does nothing for that: see "remote memory" below, funi_attach_remote,
 * funi_sendmsg and example/keyed.c. Others may also read it and change it by atomic operations: see
 * "windows", funi_expose_window and example/structures.c. One message or write may go to many
 * nodes: see "chains", funi_multicast and example/chain.c.
 *
 * The end. funi_close waits until what this process has sent has arrived. It cannot know what
 * others still want to send it: their messages would come back to them. So a job ends with a
 * barrier: nobody closes before everybody has said that they have all they wait for.
 *
 * Signals: funi_wait, funi_attach, funi_attach_environment and funi_close return -EINTR when a
 * signal was handled while they slept, with SA_RESTART or without, and after SIGCONT (signal(7)):
 * whether to go on is the program's decision. So a handler that sets a flag, which the program
 * looks at whenever one of these returns, lets Ctrl-C end it. A signal that comes just before the
 * sleep does not end it; funi_wait without a timeout therefore returns 1 at least every FUNI_NAP
 * milliseconds, and a program that gives one gives a short one. Functions that ask the daemon
 * besides, for segments, go on after a signal: their answer would be taken for the next one's. They
 * take milliseconds, at most FUNI_ANSWER_SECONDS. */
#ifndef FUNI_H
#define FUNI_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "funi.h is for little-endian machines"
#endif

/* ---- memory shared with the card (uspace/funi/doc.go) ---- */

#define FUNI_ABI 2
#define FUNI_PAGE_SIZE 4096
#define FUNI_DOORBELLS_SIZE 4096
#define FUNI_MAX_CONTEXTS 65536
#define FUNI_NEAR_BELLS 2048 /* contexts whose bells are in the page */
#define FUNI_SHARED_QUEUES 6 /* number of queues that lie behind the register page */
#define FUNI_RETURN_SLOTS 64
/* words that say for which nodes the ring had no room: those whose numbers are the same modulo that
 * share one */
#define FUNI_LOST_NODES 64
#define FUNI_LOST_COUNT 0x1fffff
#define FUNI_LOST_ONE 0x200000
#define FUNI_LOST_SHIFT 22
/* instead of a funi_reason: it came back, or may have, and the return ring had no room to say
 * why */
#define FUNI_UNTOLD 256
#define FUNI_MIN_SLOTS 2
#define FUNI_MAX_SLOTS 65536
#define FUNI_SLOT_WORDS 32
#define FUNI_MAX_PAYLOAD_WORDS 21
#define FUNI_MAX_TYPE 511
#define FUNI_MAX_SEGMENTS 64
#define FUNI_THREAD_SLEEPS 0x80000000u /* of asleep */
#define FUNI_WAKE_ONCE 1 /* of wake: when the card has done something */
#define FUNI_WAKE_WRITES 2 /* also when it has written memory for another, see funi_watch */

/* Words of a slot. */
#define FUNI_PAYLOAD_WORD 1
#define FUNI_SOURCE_ADDRESS_WORD 1
#define FUNI_DESTINATION_ADDRESS_WORD 2
#define FUNI_ARGUMENT_WORD 3
#define FUNI_DATA_WORD 4
#define FUNI_LENGTH_WORD 4
#define FUNI_SOURCE_WORD 31

/* Words of a request block for remote memory (uspace/funi/remote.go), and what one may have. */
#define FUNI_REMOTE_AREA_WORD 1
#define FUNI_REMOTE_COOKIE_WORD 2
#define FUNI_REMOTE_KEY_WORD 4
#define FUNI_REMOTE_OFFSET_WORD 6
#define FUNI_REMOTE_SOURCE_WORD 8
#define FUNI_REMOTE_LENGTH_WORD 10
#define FUNI_REMOTE_COUNT_WORD 11
#define FUNI_REMOTE_DATA_WORD 12
#define FUNI_REMOTE_COUNTED 0x8000u
#define FUNI_MAX_REMOTE 65536          /* key slots, or areas */
#define FUNI_MAX_NOTIFICATIONS 1048576 /* in the ring */
#define FUNI_MAX_METADATA 11           /* words */
#define FUNI_MAX_REMOTE_BYTES 64       /* of data and metadata that fit a packet */
#define FUNI_NOTE_BYTES 64             /* of a notification, and of an area's early metadata */
#define FUNI_NOTE_METADATA_WORD 4
#define FUNI_NOTE_KIND_WORD 15
#define FUNI_OPERATE_ACK (1u << 8) /* bits of word 1 of an operation */
#define FUNI_OPERATE_FETCH (1u << 9)
#define FUNI_OPERATE_SILENT (1u << 10)
#define FUNI_TRAILER_NOTIFY 1u
#define FUNI_TRAILER_SET 2u
#define FUNI_TRAILER_ADD 4u
#define FUNI_MAX_REQUESTS 1024 /* operations that are not complete */
#define FUNI_MAX_ANSWER 32     /* bytes */
#define FUNI_MAX_ADDRESS ((UINT64_C(1) << 48) - 1)
#define FUNI_MAX_CHAINS 64         /* that a context is a member of */
#define FUNI_MAX_NEXT 4            /* nodes to which a member sends copies */
#define FUNI_MAX_NAMED 6           /* nodes that a funi_delivery names */
#define FUNI_MAX_MULTICAST_WORDS 17
#define FUNI_MAX_MULTICAST_BYTES 52 /* of a put along a chain */
#define FUNI_CHAIN_FIRST 0x80000000u /* bits of word 1 */
#define FUNI_CHAIN_LEAVES 0x40000000u
#define FUNI_MULTICAST_PUT 0x80000000u

/* Bits of a slot's header. */
#define FUNI_TRANSFER_BIT 0x80000000u
#define FUNI_MANY_BIT 0x40000000u
#define FUNI_MAX_SINGLE_WORDS 16
#define FUNI_MAX_TRANSFER_WORDS (1 << 24)

/* Headers of what cannot be sent: request blocks for remote memory of an operation that no card
 * has. */
#define FUNI_BAD_TYPE (FUNI_MANY_BIT | FUNI_MAX_TYPE << 21 | 1) /* above FUNI_MAX_TYPE */
/* more than FUNI_MAX_PAYLOAD_WORDS */
#define FUNI_BAD_WORDS (FUNI_MANY_BIT | FUNI_MAX_TYPE << 21 | 2)
/* no multiple of 4, more than FUNI_MAX_TRANSFER_WORDS, or more than FUNI_MAX_SINGLE_WORDS that are
 * not from memory to memory */
#define FUNI_BAD_TRANSFER (FUNI_MANY_BIT | FUNI_MAX_TYPE << 21 | 3)

enum funi_level { FUNI_REQUEST = 0, FUNI_REPLY = 1 };

/* FUNI_KEYED: the program may open key slots in it. */
enum funi_rights { FUNI_SOURCE = 1, FUNI_DESTINATION = 2, FUNI_KEYED = 4 };

enum funi_remote_operation {
	FUNI_REMOTE_PUT = 0, FUNI_OPEN_KEY_SLOT = 256, FUNI_CLOSE_KEY_SLOT = 257, FUNI_OPEN_AREA = 258,
	FUNI_CLOSE_AREA = 259,
	FUNI_RESET_AREA = 260, FUNI_SET_CHAIN = 261, FUNI_SUSPEND_WINDOW = 262, FUNI_RESUME_WINDOW = 263,
	FUNI_MULTICAST = 264,
	FUNI_OPERATE = 128 /* and a funi_operation */
};

/* Operations on windows (uspace/arctic/operation.go). */
enum funi_operation {
	FUNI_OP_PUT, FUNI_OP_GET, FUNI_OP_WRITE, FUNI_OP_READ, FUNI_OP_ADD, FUNI_OP_AND, FUNI_OP_OR, FUNI_OP_XOR,
	FUNI_OP_MIN, FUNI_OP_MAX,
	FUNI_OP_PROD, FUNI_OP_SWAP, FUNI_OP_COMPARE_SWAP, FUNI_OP_MASKED_SWAP, FUNI_OP_LOCK, FUNI_OP_UNLOCK
};

/* Types of elements. */
enum funi_element { FUNI_U8, FUNI_U16, FUNI_U32, FUNI_U64, FUNI_I8, FUNI_I16, FUNI_I32, FUNI_I64, FUNI_F32, FUNI_F64 };

/* What others may do with a window; and, besides, that it is opened as if funi_suspend had been
 * called at once. */
enum funi_window_rights { FUNI_MAY_READ = 1, FUNI_MAY_WRITE = 2, FUNI_MAY_OPERATE = 4, FUNI_MAY_NOTIFY = 8,
	FUNI_OPEN_ABSENT = 256 };

/* What an entry of the notification ring tells. */
enum funi_note_kind { FUNI_NOTE_AREA, FUNI_NOTE_COMPLETION, FUNI_NOTE_WINDOW, FUNI_NOTE_FAULT, FUNI_NOTE_BARRIER = 8 };

enum funi_register {
	FUNI_Q_MASK, FUNI_RPSQ_BASE, FUNI_RQSQ_BASE, FUNI_RPRQ_BASE, FUNI_RQRQ_BASE,
	FUNI_RPSQ_HEAD, FUNI_RPSQ_TAIL, FUNI_RQSQ_HEAD, FUNI_RQSQ_TAIL,
	FUNI_RPRQ_HEAD, FUNI_RPRQ_TAIL, FUNI_RQRQ_HEAD, FUNI_RQRQ_TAIL,
	FUNI_CONTROL, FUNI_GID, FUNI_TICKET, FUNI_REGISTERS
};

/* Bits of CNTL. */
enum funi_control {
	FUNI_MERR = 1 << 0, FUNI_RESET = 1 << 1, FUNI_CTXM = 1 << 2, FUNI_CTXR1 = 1 << 3, FUNI_CTXR1_PRIME = 1 << 4,
	FUNI_CTXR2 = 1 << 5, FUNI_DRAIN = 1 << 6, FUNI_CRQM = 1 << 7, FUNI_CRQR = 1 << 8, FUNI_CSQM = 1 << 9,
	FUNI_CSQR = 1 << 10
};

/* Why a message came back (uspace/arctic/reason.go). */
enum funi_reason {
	FUNI_REASON_UNKNOWN_KIND = 64, FUNI_REASON_NO_CONTEXT = 65, FUNI_REASON_DESTINATION = 66,
	FUNI_REASON_TRANSFER_FORM = 67, FUNI_REASON_SOURCE_NODE = 68, FUNI_REASON_REPLACED = 69, FUNI_REASON_JOB = 70,
	FUNI_REASON_SILENT = 128,
	FUNI_REASON_RESTARTED = 129, FUNI_REASON_DEPARTED = 130, FUNI_REASON_NO_ROUTE = 131,
	FUNI_REASON_SOURCE = 132, FUNI_REASON_TRANSFER_LENGTH = 133, FUNI_REASON_QUEUE_SIZE = 134,
	FUNI_REASON_QUEUE_LAYOUT = 135, FUNI_REASON_GIVEN_UP = 136,
	/* the cards have begun to count anew: it may have been delivered */
	FUNI_REASON_RESYNCHRONISED = 137,
	/* the host there has another key, or only one of the two has one */
	FUNI_REASON_KEY = 138,

	/* Of remote memory, from the receiver's card: */
	/* no such key slot there, or another key: which of the two is not told */
	FUNI_REASON_KEY_SLOT = 71,
	FUNI_REASON_RANGE = 72,           /* not within the key slot's memory */
	FUNI_REASON_AREA = 73,            /* no such area of the key slot */
	FUNI_REASON_NO_BUFFER = 74,       /* the area has no credit, and was opened to refuse then */
	FUNI_REASON_REMOTE_FORM = 75,
	FUNI_REASON_RIGHTS = 76,          /* the window does not permit it */
	/* another node has locked the window; or, when it is unlocked, has this one not */
	FUNI_REASON_LOCKED = 77,
	FUNI_REASON_ALIGNMENT = 78,       /* the address is no multiple of the element's size */
	FUNI_REASON_OPERATION = 79,       /* no such operation, or not on such elements */
	/* the node is no member of the chain, or expects another number of members behind it */
	FUNI_REASON_CHAIN = 83,
	/* the window has been suspended for longer than its host lets others wait */
	FUNI_REASON_WITHHELD = 85,
	/* and from this process's own: */
	/* the request block is none, or this card has no remote memory */
	FUNI_REASON_REMOTE_REQUEST = 139,
	/* it is open already, or not open, or there is not that much memory or credit */
	FUNI_REASON_NOT_OPENED = 140,
	/* where the answer of a get was to go is no memory of this process any more */
	FUNI_REASON_WINDOW = 141,
	FUNI_REASON_OPERAND = 142         /* a length or an element that no operation has */
};

/* A word that process and card both use. It is an ordinary integer, so that C and C++ have the same
 * type, and is touched only by these functions of GCC and Clang, which make every access whole and
 * keep all of them in one order. */
typedef uint32_t funi_word;

static inline uint32_t funi_load(const funi_word *w) { return __atomic_load_n(w, __ATOMIC_SEQ_CST); }
static inline void funi_store(funi_word *w, uint32_t v) { __atomic_store_n(w, v, __ATOMIC_SEQ_CST); }
static inline void funi_or(uint64_t *w, uint64_t bits) { (void)__atomic_fetch_or(w, bits, __ATOMIC_SEQ_CST); }

/* Stores v if the word is as expected; otherwise 0. */
static inline int funi_exchange(funi_word *w, uint32_t expected, uint32_t v)
{
	return __atomic_compare_exchange_n(w, &expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

#ifdef __cplusplus
#define FUNI_ASSERT(true, why) static_assert(true, why)
#else
#define FUNI_ASSERT(true, why) _Static_assert(true, why)
#endif

struct funi_line { /* a word with a cache line of its own */
	funi_word word;
	uint32_t pad[15];
};

struct funi_return { /* a message that came back: entry of the return ring */
	uint32_t reason;
	uint32_t level;
	uint32_t header; /* as it was sent */
	uint32_t word;   /* first payload word, or the argument of a transfer */
	uint32_t pad[4];
};

struct funi_page {
	struct funi_line reg[FUNI_REGISTERS];
	struct funi_line return_head, return_tail, returns_lost;
	funi_word asleep;
	uint32_t pad0;
	funi_word fault;
	uint32_t pad1;
	funi_word version;
	uint32_t pad2;
	funi_word wake;
	uint32_t pad3;
	funi_word gone;
	uint32_t pad4[3];
	funi_word looks; /* 1: this process looks at the doorbells' sleeps when it rings */
	uint32_t pad10[3];
	char why[256]; /* the context ended, if the card says so; read it when gone is not 0 */
	/* of the notification ring, since the context was attached */
	struct funi_line notes_head, notes_tail;
	uint32_t key_slots, pad5, areas, pad6, notifications, pad7[3];
	uint64_t completed; /* operations on windows, since the context was attached */
	funi_word written;  /* what others wrote into this process's memory, see funi_watch */
	/* of the returns that were lost, those of operations on windows and of multicasts */
	funi_word operations_lost;
	uint32_t pad8[4];
	funi_word lost_to[FUNI_LOST_NODES]; /* which of them: uspace/funi/lost.go */
	uint64_t trigger;
	funi_word by_trigger; /* 1: this process issues requests by triggers */
	uint32_t pad9[13];
	struct funi_return returns[FUNI_RETURN_SLOTS];
};

struct funi_doorbells {
	uint64_t summary;
	funi_word sleeps; /* not 0: the card's thread sleeps; take it away and wake the thread */
	uint32_t pad0[13];
	uint64_t bells[FUNI_NEAR_BELLS / 64];
};

FUNI_ASSERT(sizeof(struct funi_page) == FUNI_PAGE_SIZE, "the register page is a page");
FUNI_ASSERT(offsetof(struct funi_doorbells, bells) == 64, "the summary has a line of its own");

#if defined MAP_ANONYMOUS /* which strict C hides */
#define FUNI_MAP_ANONYMOUS MAP_ANONYMOUS
#elif defined __MAP_ANONYMOUS
#define FUNI_MAP_ANONYMOUS __MAP_ANONYMOUS
#else
#define FUNI_MAP_ANONYMOUS 0x20
#endif

#if defined O_PATH && defined O_CLOEXEC /* the same */
#define FUNI_OPEN_FOLDER (O_PATH | O_CLOEXEC)
#elif defined __O_PATH && defined __O_CLOEXEC
#define FUNI_OPEN_FOLDER (__O_PATH | __O_CLOEXEC)
#else
#define FUNI_OPEN_FOLDER O_RDONLY
#endif

/* ---- messages of the socket (uspace/attach) ---- */

#define FUNI_DEFAULT_SOCKET "/run/funet/funid.sock"
#define FUNI_MAGIC 0x494e5546u
#define FUNI_PROTOCOL 1
#define FUNI_MAX_MESSAGE 65536
#define FUNI_ANSWER_BIT 0x8000
#define FUNI_TOKEN_SIZE 32
#define FUNI_ANSWER_SECONDS 10 /* how long the daemon may take for an answer */

enum funi_kind {
	FUNI_KIND_ATTACH = 1, FUNI_KIND_SEGMENT = 2, FUNI_KIND_UNSEGMENT = 3, FUNI_KIND_JOB = 4,
	FUNI_KIND_STATUS = 5, FUNI_KIND_ADMIN = 6, FUNI_KIND_INFO = 7, FUNI_KIND_DETACH = 8
};

enum funi_status {
	FUNI_DONE, FUNI_ERR_MALFORMED, FUNI_ERR_VERSION, FUNI_ERR_KIND, FUNI_ERR_FORBIDDEN, FUNI_ERR_TOKEN,
	FUNI_ERR_QUOTA, FUNI_ERR_TAKEN, FUNI_ERR_GROUP, FUNI_ERR_NODE, FUNI_ERR_ROUTE, FUNI_ERR_SLOTS,
	FUNI_ERR_ATTACHED, FUNI_ERR_NOT_ATTACHED, FUNI_ERR_SEGMENT, FUNI_ERR_OVERLAP,
	FUNI_ERR_TOO_MANY_SEGMENTS, FUNI_ERR_NO_SEGMENT, FUNI_ERR_BUSY, FUNI_ERR_FULL, FUNI_ERR_COMMAND,
	FUNI_ERR_STOPPING, FUNI_ERR_INTERNAL, FUNI_ERR_NO_TOKEN,
	FUNI_ERR_INTERFACE, FUNI_ERR_HOST, FUNI_ERR_KEY
};

/* Descriptors of the answer to an attach request. */
enum funi_descriptor {
	FUNI_MEMORY_DESCRIPTOR, FUNI_DOORBELLS_DESCRIPTOR, FUNI_CARD_DESCRIPTOR, FUNI_PROCESS_DESCRIPTOR,
	FUNI_ATTACH_DESCRIPTORS
};

struct funi_message { /* header of every message */
	uint32_t magic;
	uint16_t version, kind;
	uint32_t length; /* of the whole message */
	uint32_t status;
};

struct funi_attach_request {
	struct funi_message header;
	uint16_t gid, node;
	uint32_t slots;
	/* key slots, areas, notifications: one more than the exponent of each power of two; or 0 */
	uint8_t remote[8];
	uint8_t token[FUNI_TOKEN_SIZE];
};

struct funi_attach_answer {
	struct funi_message header;
	uint32_t abi, context;
	uint16_t gid, node;
	uint32_t nodes, slots;
	uint8_t remote[4];
	uint64_t memory;
	uint32_t incarnation, zero;
};

struct funi_segment_message { /* request and answer */
	struct funi_message header;
	uint32_t base, rights;
	uint64_t bytes;
};

struct funi_unsegment_request {
	struct funi_message header;
	uint32_t base, zero;
};

struct funi_detach_request {
	struct funi_message header;
	uint32_t linger, zero; /* milliseconds */
};

/* ---- a context ---- */

struct funi_queue {
	uint32_t *slots;
	uint32_t head, tail;
	uint32_t told;        /* receive: tail as last stored */
	uint64_t committed;   /* send: slots, since the context was attached */
	funi_word *own, *its; /* our index, the card's */
};

struct funi_waiter {
	int idle, contended;
	int64_t since, until;
};

/* How much remote memory a context can open: each a power of two up to FUNI_MAX_REMOTE,
 * notifications up to FUNI_MAX_NOTIFICATIONS, or all 0 for none. The sum of the credits of all
 * areas that are open is at most notifications. */
struct funi_remote_sizes {
	uint32_t key_slots, areas, notifications;
};

#define FUNI_REMEMBERED 1024 /* requests whose handles are known */

struct funi_asked { /* a request that was committed */
	uint32_t handle, reason, in_slot;
	uint16_t node;
	int lost;    /* it may have come back, and the return ring had no room to tell */
	uint64_t at; /* slots committed up to it */
	int operation; /* 1: its completion is awaited, 2: it has come */
	uint8_t answer[FUNI_MAX_ANSWER];
};

struct funi_numbers { /* that are free; the one that has been free longest is taken first */
	uint16_t *free;
	uint32_t slots, first, n;
};

struct funi_key_slot {
	uint64_t key;
	uint32_t credit; /* notifications that may be unread */
	int open;
};

struct funi_part { /* a segment */
	uint8_t *memory;
	uint64_t bytes;
	uint32_t base, rights;
};

struct funi_remote { /* what the program knows of its remote memory */
	struct funi_remote_sizes sizes;
	struct funi_key_slot *keys;
	struct funi_numbers key_slots, areas;
	struct funi_part parts[FUNI_MAX_SEGMENTS];
	uint32_t segments, next;
	const uint32_t *ring;
	uint32_t *credits;       /* of the areas that are open */
	uint32_t credit;         /* of all areas and windows */
	uint32_t looked;         /* notifications up to which completions were noted */
	/* of those, completions that wait for a notification before them to be taken */
	uint32_t behind;
	/* funi_reason of the first operation without a handle that has failed, for funi_quiet */
	uint32_t failed;
	uint64_t issued, refused; /* operations; of them those that came back */
	uint64_t up_to;           /* how many slots were committed up to the last operation */
	uint32_t lost, lost_to[FUNI_LOST_NODES]; /* returns, as funi_hear_lost has seen them */
	uint32_t operations_lost, unsettled;     /* and of operations; of them those not known yet */
	uint32_t life;           /* tells this process from others that were the node, for locks */
	struct funi_asked asked[FUNI_REMEMBERED];
};

struct funi_context {
	struct funi_page *page;
	struct funi_doorbells *bells;
	uint32_t mask; /* slots of a queue minus one */
	struct funi_queue send[2], receive[2];
	uint32_t returns, lost, notes;
	uint32_t seen[12]; /* by funi_wait; see funi_published */
	/* by triggers: the last turn, its command, where the slots begin that were not issued, how many
	 * notifications were given back, barriers reached and not passed, and the head of the request
	 * send queue */
	uint32_t turn, asked, issued, given, barriers;
	funi_word unissued;
	struct funi_remote *remote; /* NULL: none */
	struct funi_waiter wait;
	int socket, card, process;
	uint32_t gid, node, nodes, slots, context, incarnation;
	uint64_t memory;
	char error[1200];
};

/* Why the card has ended the context, or NULL: it has not, or did not say. It is the page's, until
 * funi_close. */
static inline const char *funi_why(struct funi_context *c)
{
	if (c->page == NULL || funi_load(&c->page->gone) == 0 || c->page->why[0] == 0)
		return NULL;
	return c->page->why;
}

static inline int funi_fail(struct funi_context *c, int code, const char *what)
{
	const char *ended = code == -ENOTCONN ? funi_why(c) : NULL;
	if (ended != NULL) {
		(void)snprintf(c->error, sizeof c->error, "%s: the context has ended: %.*s", what, (int)sizeof c->page->why - 1,
			ended);
		return code;
	}
	const char *why = code == -ENOTCONN ? "the daemon is gone or has ended the context; attach again" :
		code == -EAGAIN || code == -ETIMEDOUT ? "the daemon does not answer; its log may say why" :
		code == -EMFILE ? "too many open files; raise the limit (ulimit -n)" :
		code == -EPROTO ? "the other side is none, or another version of FUNet" :
		code == FUNI_ERR_VERSION ? "run the same version of FUNet on both sides" : code < 0 ? strerror(-code) : "";
	(void)snprintf(c->error, sizeof c->error, "%s: %s", what, why);
	return code;
}

/* ---- sending and receiving ---- */

#if defined __has_attribute
#if __has_attribute(warning)
#define FUNI_WARNING(text) __attribute__((warning(text), noinline, unused))
#endif
#endif
#ifndef FUNI_WARNING
#define FUNI_WARNING(text) __attribute__((noinline, unused))
#endif

/* Called where the compiler sees that a header will be refused. */
FUNI_WARNING("a message has a type up to 511 and at most 21 words, a transfer a multiple of 4 words up to 2^24; funi_send_commit will refuse it")
static void funi_warn_of_header(void) { __asm__ volatile(""); }

/* Header of a message of the given number of payload words, at most 21, of a type up to 511. With
 * more it is FUNI_BAD_TYPE or FUNI_BAD_WORDS, which funi_send_commit refuses to send. */
static inline uint32_t funi_header(uint16_t node, uint32_t type, uint32_t words)
{
	if (__builtin_constant_p(type > FUNI_MAX_TYPE || words > FUNI_MAX_PAYLOAD_WORDS) &&
	    (type > FUNI_MAX_TYPE || words > FUNI_MAX_PAYLOAD_WORDS))
		funi_warn_of_header();
	if (type > FUNI_MAX_TYPE)
		return FUNI_BAD_TYPE;
	if (words > FUNI_MAX_PAYLOAD_WORDS)
		return FUNI_BAD_WORDS;
	return type << 21 | words << 16 | node;
}

static inline uint32_t funi_type(uint32_t header) { return header >> 21 & FUNI_MAX_TYPE; }
static inline uint32_t funi_words(uint32_t header)
{
	uint32_t n = header >> 16 & 31;
	return n > FUNI_MAX_PAYLOAD_WORDS ? FUNI_MAX_PAYLOAD_WORDS : n;
}

/* Rings and wakes the card if it asks for it; something has just been stored. */
static inline void funi_rouse(struct funi_context *c, uint32_t asleep)
{
	uint32_t bell = (asleep & ~FUNI_THREAD_SLEEPS) - 1;
	if (bell < FUNI_NEAR_BELLS) { /* the card does not let others sleep */
		funi_or(&c->bells->bells[bell / 64], UINT64_C(1) << bell % 64);
		funi_or(&c->bells->summary, UINT64_C(1) << bell / 64);
	}
	int wake = asleep & FUNI_THREAD_SLEEPS ?
	    funi_exchange(&c->page->asleep, asleep, asleep & ~FUNI_THREAD_SLEEPS) :
	    asleep != 0 && funi_load(&c->bells->sleeps) != 0 && funi_exchange(&c->bells->sleeps, 1, 0);
	if (wake) {
		uint64_t one = 1;
		while (write(c->card, &one, sizeof one) < 0 && errno == EINTR)
			;
	}
}

/* The slot for the next message, of FUNI_SLOT_WORDS words, or NULL when the queue is
 * full. Fill in word 0 (funi_header) and the payload, or use funi_transfer; commit. */
static inline uint32_t *funi_send_reserve(struct funi_context *c, enum funi_level l)
{
	struct funi_queue *q = &c->send[l & 1];
	if (((q->head + 1) & c->mask) == q->tail) {
		q->tail = funi_load(q->its) & c->mask;
		if (((q->head + 1) & c->mask) == q->tail)
			return NULL;
	}
	return q->slots + (size_t)q->head * FUNI_SLOT_WORDS;
}

/* Why a slot with that header cannot be sent. */
static inline int funi_refuse(struct funi_context *c, uint32_t header)
{
	(void)snprintf(c->error, sizeof c->error, "sending: %s",
		       header == FUNI_BAD_TYPE  ? "types are 0 to 511" :
		       header == FUNI_BAD_WORDS ? "a message has at most 21 words" :
						  "a transfer has a multiple of 4 words, at most 2^24 from memory to memory and 16 otherwise");
	return -EINVAL;
}

/* Sends the slot that funi_send_reserve returned. -EINVAL, and nothing is sent: the header is that
 * of a message or transfer that cannot be sent (funi_header, funi_transfer). The slot stays
 * reserved: compose another in it. */
static inline int funi_send_commit(struct funi_context *c, enum funi_level l)
{
	struct funi_queue *q = &c->send[l & 1];
	const uint32_t header = q->slots[(size_t)q->head * FUNI_SLOT_WORDS];
	if (header >> 21 == (FUNI_MANY_BIT | FUNI_MAX_TYPE << 21) >> 21)
		return funi_refuse(c, header);
	q->head = (q->head + 1) & c->mask;
	q->committed++;
	funi_store(q->own, q->head);
	uint32_t asleep = funi_load(&c->page->asleep);
	if (asleep != 0)
		funi_rouse(c, asleep);
	return 0;
}

/* How many slots of the level the card has not yet given back. The source of a transfer
 * is read until its slot is. */
static inline uint32_t funi_unsent(struct funi_context *c, enum funi_level l)
{
	struct funi_queue *q = &c->send[l & 1];
	q->tail = funi_load(q->its) & c->mask;
	return (q->head - q->tail) & c->mask;
}

static inline void funi_give_slots(struct funi_context *c, struct funi_queue *q)
{
	q->told = q->tail;
	funi_store(q->own, q->tail);
	uint32_t asleep = funi_load(&c->page->asleep);
	if (asleep & FUNI_THREAD_SLEEPS)
		funi_rouse(c, asleep);
}

/* The oldest message of the level, or NULL. It is the program's until funi_release. Word
 * FUNI_SOURCE_WORD is the node that sent it. */
static inline const uint32_t *funi_receive(struct funi_context *c, enum funi_level l)
{
	struct funi_queue *q = &c->receive[l & 1];
	if (q->head == q->tail) {
		q->head = funi_load(q->its) & c->mask;
		if (q->head == q->tail) {
			if (((q->tail - q->told) & c->mask) > c->mask >> 4)
				funi_give_slots(c, q);
			return NULL;
		}
	}
	return q->slots + (size_t)q->tail * FUNI_SLOT_WORDS;
}

/* Gives the slot that funi_receive returned back. */
static inline void funi_release(struct funi_context *c, enum funi_level l)
{
	struct funi_queue *q = &c->receive[l & 1];
	q->tail = (q->tail + 1) & c->mask;
	if ((q->tail & c->mask >> 1) == 0)
		funi_give_slots(c, q);
}

/* Notes that an operation on a window is complete. */
static inline void funi_complete(struct funi_remote *r, uint32_t handle, uint32_t reason, const uint32_t *answer)
{
	struct funi_asked *m = &r->asked[handle % FUNI_REMEMBERED];
	if (m->handle != handle || m->operation != 1) { /* nobody has its handle */
		if (r->failed == 0)
			r->failed = reason;
		return;
	}
	m->operation = 2;
	m->reason = reason;
	if (answer != NULL)
		memcpy(m->answer, answer, sizeof m->answer);
}

/* Notes what may have come back when the return ring had no room to tell. Of operations the card
 * counts how many: funi_look finds out which. */
static inline void funi_hear_lost(struct funi_context *c)
{
	struct funi_remote *r = c->remote;
	const uint32_t lost = funi_load(&c->page->returns_lost.word), operations = funi_load(&c->page->operations_lost);
	uint8_t more[FUNI_LOST_NODES];
	if (lost == r->lost)
		return;
	for (int n = 0; n < FUNI_LOST_NODES; n++) {
		const uint32_t now = funi_load(&c->page->lost_to[n]);
		more[n] = now != r->lost_to[n];
		r->lost_to[n] = now;
	}
	/* a count may be where it was */
	const int many = funi_load(&c->page->returns_lost.word) - r->lost > FUNI_LOST_COUNT;
	r->lost = lost;
	funi_store(&c->page->return_tail.pad[0], lost);
	for (int i = 0; i < FUNI_REMEMBERED; i++) {
		struct funi_asked *m = &r->asked[i];
		const uint32_t w = r->lost_to[m->node % FUNI_LOST_NODES];
		if (m->handle != 0 && m->operation == 0 &&
		    (many || (more[m->node % FUNI_LOST_NODES] &&
			((w & FUNI_LOST_ONE) == 0 || w >> FUNI_LOST_SHIFT == m->node / FUNI_LOST_NODES))))
			m->lost = 1;
	}
	r->refused += operations - r->operations_lost;
	r->unsettled += operations - r->operations_lost;
	r->operations_lost = operations;
}

/* Notes what came back of remote memory, up to the first message that is the program's. */
static inline void funi_take_back(struct funi_context *c)
{
	if (c->remote == NULL)
		return;
	funi_hear_lost(c);
	while (c->returns != funi_load(&c->page->return_head.word)) {
		const struct funi_return r = c->page->returns[c->returns % FUNI_RETURN_SLOTS];
		const uint32_t type = r.header >> 21 & FUNI_MAX_TYPE;
		struct funi_asked *m = &c->remote->asked[r.word % FUNI_REMEMBERED];
		if (r.header >> 30 != 1)
			return;
		funi_store(&c->page->return_tail.word, ++c->returns);
		if ((type >= FUNI_OPERATE && type <= (uint32_t)FUNI_OPERATE + FUNI_OP_UNLOCK) || type == FUNI_MULTICAST) {
			c->remote->refused++;
			funi_complete(c->remote, r.word, r.reason, NULL);
		} else if (r.word != 0 && m->handle == r.word)
			m->reason = r.reason;
	}
}

/* Takes the oldest message that came back: 1, or 0 if there is none. What comes back of remote
 * memory is noted for funi_message_status instead. */
static inline int funi_returned(struct funi_context *c, struct funi_return *r)
{
	funi_take_back(c);
	if (c->returns == funi_load(&c->page->return_head.word))
		return 0;
	*r = c->page->returns[c->returns % FUNI_RETURN_SLOTS];
	funi_store(&c->page->return_tail.word, ++c->returns);
	return 1;
}

/* How many messages came back that did not fit the return ring. */
static inline uint32_t funi_returns_lost(struct funi_context *c)
{
	return funi_load(&c->page->returns_lost.word) - c->lost;
}

/* ---- transfers: words from a segment here to a segment there ---- */

/* Composes a transfer in a reserved slot: a number of words, a multiple of 4, of up to 2^24 from
 * source to destination. Both are addresses in segments. A transfer of up to 16 words may have
 * source 0: then the data goes to the words from FUNI_DATA_WORD on. Or it may have destination 0:
 * then a message of the argument and the data emerges. With 0 words only the notice travels.
 * Another number of words gives FUNI_BAD_TRANSFER, and a type above 511 FUNI_BAD_TYPE, which
 * funi_send_commit refuses. */
static inline void funi_transfer(uint32_t *slot, uint16_t node, uint32_t type, uint32_t source, uint32_t destination,
				 uint32_t argument, uint32_t words)
{
	int single = words <= FUNI_MAX_SINGLE_WORDS;
	int bad = words % 4 != 0 || words > FUNI_MAX_TRANSFER_WORDS || (!single && (source == 0 || destination == 0));
	slot[0] = funi_header(node, type, single ? words : 0);
	if (__builtin_constant_p(bad) && bad)
		funi_warn_of_header();
	if (bad)
		slot[0] = FUNI_BAD_TRANSFER;
	else if (type <= FUNI_MAX_TYPE)
		slot[0] |= single ? FUNI_TRANSFER_BIT : FUNI_TRANSFER_BIT | FUNI_MANY_BIT;
	if (!single)
		slot[FUNI_LENGTH_WORD] = words;
	slot[FUNI_SOURCE_ADDRESS_WORD] = source;
	slot[FUNI_DESTINATION_ADDRESS_WORD] = destination;
	slot[FUNI_ARGUMENT_WORD] = argument;
}

struct funi_notice { /* a transfer has arrived: all of it is in this process's memory */
	uint32_t address, argument, words;
};

/* Reads the notice in a received slot: 1, or 0 if it is a message. */
static inline int funi_is_notice(const uint32_t *slot, struct funi_notice *n)
{
	if (!(slot[0] & FUNI_TRANSFER_BIT))
		return 0;
	n->address = slot[FUNI_DESTINATION_ADDRESS_WORD];
	n->argument = slot[FUNI_ARGUMENT_WORD];
	n->words = slot[0] & FUNI_MANY_BIT ? slot[FUNI_LENGTH_WORD] : slot[0] >> 16 & 31;
	return 1;
}

/* ---- waiting ---- */

/* The policy of package uspace/wait, whose documentation has the rules and their reasons; a test
 * runs both in virtual time. Looks in vain before a yield; times in nanoseconds. */
#define FUNI_LOOKS 500
#define FUNI_AWAKE 50000
#define FUNI_SOMEONE_RAN 2000
#define FUNI_SOMEONE_COMPUTES 1000000
#define FUNI_SHARING 200000000

/* Counts a look in vain; not 0: ask funi_next. */
static inline int funi_tired(struct funi_waiter *w)
{
	if (++w->idle < (w->contended ? 1 : FUNI_LOOKS))
		return 0;
	w->idle = 0;
	return 1;
}

/* What to do at a time: not 0 to sleep, 0 to yield. The clock may go back. */
static inline int funi_next(struct funi_waiter *w, int64_t now)
{
	if (w->since == 0)
		w->since = now;
	return (now < w->until && w->until - now <= FUNI_SHARING) || now - w->since > FUNI_AWAKE || now < w->since;
}

/* When a yield began and ended. */
static inline void funi_yielded(struct funi_waiter *w, int64_t began, int64_t ended)
{
	int64_t took = ended - began;
	if (took > FUNI_SOMEONE_COMPUTES) {
		w->until = ended + FUNI_SHARING; /* another has the processor, and does not yield */
		w->contended = 0;
	} else if (took > FUNI_SOMEONE_RAN) {
		w->contended = 1;
		w->since += took;
	} else {
		w->contended = 0;
	}
}

/* When a sleep ended: one looks for half as long again before the next. */
static inline void funi_slept(struct funi_waiter *w, int64_t now)
{
	w->since = now - FUNI_AWAKE / 2;
}

static inline int64_t funi_clock(void)
{
	struct timespec t = { 0, 0 };
	(void)timespec_get(&t, TIME_UTC);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Asks the card to wake this process once, or takes that back. */
static inline void funi_set_wake(struct funi_context *c, uint32_t once)
{
	funi_store(&c->page->wake, (funi_load(&c->page->wake) & FUNI_WAKE_WRITES) | once);
}

/* Has funi_wait and funi_arm heed what others write into this process's memory, too, or no longer:
 * bytes that are put without a notification, elements, signals. Returns what was set before, 0 or
 * 1. Look at the memory after the call, and wait while it is not as you want it; funi_wait returns
 * 1 after each write, or several, and for a long one perhaps before all of it is there:
 *
 *	int was = funi_watch(&c, 1);
 *	while (n >= 0 && __atomic_load_n(word, __ATOMIC_SEQ_CST) != wanted)
 *		n = funi_wait(&c, -1);
 *	funi_watch(&c, was);
 */
static inline int funi_watch(struct funi_context *c, int on)
{
	uint32_t was = funi_load(&c->page->wake);
	funi_store(&c->page->wake, on ? was | FUNI_WAKE_WRITES : was & ~(uint32_t)FUNI_WAKE_WRITES);
	return (was & FUNI_WAKE_WRITES) != 0;
}

static inline uint64_t *funi_answer_word(struct funi_context *c)
{
	return (uint64_t *)(void *)&c->page->reg[FUNI_GID].pad[7];
}

static inline void funi_published(struct funi_context *c, uint32_t now[12])
{
	static const int r[5] = { FUNI_RPSQ_TAIL, FUNI_RQSQ_TAIL, FUNI_RPRQ_HEAD, FUNI_RQRQ_HEAD, FUNI_CONTROL };
	for (int i = 0; i < 5; i++)
		now[i] = funi_load(&c->page->reg[r[i]].word);
	now[5] = funi_load(&c->page->return_head.word);
	now[6] = funi_load(&c->page->returns_lost.word);
	now[7] = funi_load(&c->page->gone);
	now[8] = funi_load(&c->page->notes_head.word);
	now[9] = (uint32_t)__atomic_load_n(&c->page->completed, __ATOMIC_SEQ_CST);
	now[10] = funi_load(&c->page->written);
	now[11] = (uint32_t)(__atomic_load_n(funi_answer_word(c), __ATOMIC_SEQ_CST) >> 32);
}

static inline int funi_news(struct funi_context *c)
{
	uint32_t now[12];
	funi_published(c, now);
	if (now[7] != 0)
		return -ENOTCONN;
	int news = memcmp(now, c->seen, sizeof now) != 0 || now[5] != c->returns || now[8] != c->notes;
	for (int l = 0; l < 2 && c->receive[l].its != NULL; l++)
		news |= (funi_load(c->receive[l].its) & c->mask) != c->receive[l].tail;
	memcpy(c->seen, now, sizeof now);
	return news;
}

/* How long funi_wait sleeps at a time without a timeout, in milliseconds. */
#define FUNI_NAP 200

/* funi_wait that issues nothing. */
static inline int funi_wait_only(struct funi_context *c, int milliseconds)
{
	int news;
	c->wait.idle = 0;
	while ((news = funi_news(c)) == 0) {
		if (!funi_tired(&c->wait))
			continue;
		int64_t at = funi_clock();
		if (funi_next(&c->wait, at))
			break;
		(void)sched_yield(); /* the card may want the processor */
		funi_yielded(&c->wait, at, funi_clock());
	}
	if (news == 0) {
		funi_set_wake(c, FUNI_WAKE_ONCE);
		if ((news = funi_news(c)) == 0) {
			struct pollfd p[2] = { { c->socket, 0, 0 }, { c->process, POLLIN, 0 } };
			int n = poll(p, 2, milliseconds < 0 ? FUNI_NAP : milliseconds);
			uint64_t count;
			if (n < 0)
				news = -errno;
			else if (n == 0)
				news = milliseconds < 0;
			else if (p[0].revents & (POLLHUP | POLLERR))
				news = -ENOTCONN;
			else
				news = read(c->process, &count, sizeof count) >= 0 || errno == EAGAIN ? 1 : -errno;
		}
		funi_set_wake(c, 0);
		funi_slept(&c->wait, funi_clock());
	}
	if (news != 0)
		c->wait.since = 0;
	return news < 0 ? funi_fail(c, news, "waiting") : news;
}

static inline void funi_issue_waiting(struct funi_context *c);

/* Blocks until a message, a return or a notification waits, or the card or others have done
 * something since the last call. The card may have given slots of a send queue back or changed
 * CNTL. Others may have written memory that is watched (funi_watch). It returns 1 then, and perhaps
 * although nothing has happened; without a timeout it returns at least every FUNI_NAP milliseconds.
 * 0 after the given milliseconds, unless they are negative: 0 looks and does not sleep; -EINTR
 * after a signal, after which it can be called again; -ENOTCONN when the daemon is gone or has
 * ended the context. */
static inline int funi_wait(struct funi_context *c, int milliseconds)
{
	funi_issue_waiting(c);
	return funi_wait_only(c, milliseconds);
}

/* ---- event loops ----
 *
 * A program that waits for other descriptors too (epoll, poll, a loop of another library) sleeps by
 * this rule:
 *
 *	for (;;) {
 *		take everything: funi_receive of both levels, funi_returned,
 *			funi_get_notification_record, until there is nothing
 *
 *		int n = funi_arm(&c);   // < 0: the context has ended
 *		if (n == 0)
 *			continue;       // something has come meanwhile
 *
 *		wait until one of the descriptors can be read
 *		if (funi_woken(&c) < 0) // whatever ended the wait
 *			the context has ended
 *	}
 *
 * The card wakes the process once for each funi_arm, when a message or a return arrives or slots of
 * a send queue are free again, or others have written memory that is watched. example/epoll.c is
 * such a program. */

/* The descriptor that can be read (POLLIN, POLLHUP) when the card wakes the process, or the daemon
 * has ended it. It is the context's: neither read nor close it. -1 when the context is not
 * attached. */
static inline int funi_fd(const struct funi_context *c) { return c->process; }

/* Asks the card to wake the process: 1, and then the program may sleep. 0 if something waits to be
 * taken already, or the card has done something since the last call of it or of funi_wait: then the
 * program looks again. -ENOTCONN when the context has ended. */
static inline int funi_arm(struct funi_context *c)
{
	funi_set_wake(c, FUNI_WAKE_ONCE);
	int news = funi_news(c);
	if (news == 0)
		return 1;
	funi_set_wake(c, 0);
	return news > 0 ? 0 : funi_fail(c, news, "waiting");
}

/* Ends what funi_arm began, after the wait, whatever ended it: 0, or -ENOTCONN when the daemon is
 * gone or has ended the context. It does not wait. */
static inline int funi_woken(struct funi_context *c)
{
	char wakes[512]; /* of 8 bytes each */
	ssize_t n = read(c->process, wakes, sizeof wakes);
	int error = n < 0 ? errno : 0;
	funi_set_wake(c, 0);
	if (n == 0 || funi_load(&c->page->gone) != 0)
		return funi_fail(c, -ENOTCONN, "waiting");
	return n > 0 || error == EAGAIN || error == EINTR ? 0 : funi_fail(c, -error, "waiting");
}

/* ---- attaching ---- */

static inline struct funi_message funi_message_header(uint16_t kind, size_t length)
{
	struct funi_message m = { FUNI_MAGIC, FUNI_PROTOCOL, kind, (uint32_t)length, FUNI_DONE };
	return m;
}

/* Receives the answer to a request of the kind: of exactly size bytes, at most 2048, with
 * the given number of descriptors. A signal ends the wait for an attachment, which then is none. */
static inline int funi_answer(struct funi_context *c, const char *what, uint16_t kind, void *answer, size_t size,
	int *fds,
			      int descriptors)
{
	union {
		struct funi_message header;
		char bytes[2048];
	} b;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FUNI_ATTACH_DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec v = { &b, sizeof b };
	struct msghdr m;
	int got = 0, all[FUNI_ATTACH_DESCRIPTORS], code = 0;
	ssize_t n;

	memset(&m, 0, sizeof m);
	m.msg_iov = &v;
	m.msg_iovlen = 1;
	m.msg_control = &control;
	m.msg_controllen = sizeof control;
	while ((n = recvmsg(c->socket, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR && kind != FUNI_KIND_ATTACH)
		m.msg_controllen = sizeof control;
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return funi_fail(c, -ENOTCONN, what);
	if (n < 0)
		return funi_fail(c, -errno, what);
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h != NULL; h = CMSG_NXTHDR(&m, h))
		if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
			for (size_t i = 0; i < (h->cmsg_len - CMSG_LEN(0)) / sizeof(int) && got < FUNI_ATTACH_DESCRIPTORS; i++)
				memcpy(&all[got++], CMSG_DATA(h) + i * sizeof(int), sizeof(int));
	/* the process has no room for them, or a security module denies them */
	if (m.msg_flags & MSG_CTRUNC && got < descriptors)
		code = funi_fail(c, -EMFILE, what);
	else if ((size_t)n < sizeof b.header || m.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || b.header.magic != FUNI_MAGIC ||
	    b.header.length != (uint32_t)n || !(b.header.kind & FUNI_ANSWER_BIT))
		code = funi_fail(c, -EPROTO, what);
	else if (b.header.version != FUNI_PROTOCOL)
		code = funi_fail(c, FUNI_ERR_VERSION, what);
	else if (b.header.status != FUNI_DONE) {
		(void)snprintf(c->error, sizeof c->error, "%s: %.*s", what, (int)(n - (ssize_t)sizeof b.header),
			       b.bytes + sizeof b.header);
		code = b.header.status > INT32_MAX ? FUNI_ERR_INTERNAL : (int)b.header.status;
	} else if (b.header.kind != (kind | FUNI_ANSWER_BIT) || (size_t)n != size || got != descriptors)
		code = funi_fail(c, -EPROTO, what);
	if (code != 0) {
		while (got > 0)
			(void)close(all[--got]);
		return code;
	}
	memcpy(answer, &b, size);
	if (descriptors > 0)
		memcpy(fds, all, sizeof(int) * (size_t)descriptors);
	return 0;
}

/* Sends a request. */
static inline int funi_request(struct funi_context *c, const char *what, const void *request, size_t length)
{
	ssize_t n;
	while ((n = send(c->socket, request, length, MSG_NOSIGNAL)) < 0 && errno == EINTR)
		;
	return n >= 0 ? 0 : funi_fail(c, errno == EPIPE || errno == ECONNRESET ? -ENOTCONN : -errno, what);
}

/* Sends a request and receives its answer. */
static inline int funi_ask(struct funi_context *c, const char *what, const void *request, size_t length, void *answer,
			   size_t size, int *fds, int descriptors)
{
	const struct funi_message *sent = (const struct funi_message *)request;
	int code = funi_request(c, what, request, length);
	return code != 0 ? code : funi_answer(c, what, sent->kind, answer, size, fds, descriptors);
}

/* Maps sealed memory of exactly that size: NULL if it is not. */
static inline void *funi_map_sealed(int fd, uint64_t bytes)
{
	struct stat st;
	/* 1: seals, 2: no shrinking, 4: no growing */
	int seals = fcntl(fd, 1024 + 10 /* F_GET_SEALS */);
	void *p = MAP_FAILED;
	if (seals > 0 && (seals & 7) == 7 && fstat(fd, &st) == 0 && (uint64_t)st.st_size == bytes)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* funi_map_sealed; it closes the descriptor. */
static inline void *funi_map(int fd, uint64_t bytes)
{
	void *p = funi_map_sealed(fd, bytes);
	(void)close(fd);
	return p;
}

/* Gives back what the process has of the context; the daemon ends it when it sees that. */
static inline void funi_release_all(struct funi_context *c)
{
	if (c->page != NULL)
		(void)munmap(c->page, c->memory);
	if (c->bells != NULL)
		(void)munmap(c->bells, FUNI_DOORBELLS_SIZE);
	const int fd[3] = { c->socket, c->card, c->process };
	for (int i = 0; i < 3; i++)
		if (fd[i] >= 0)
			(void)close(fd[i]);
	if (c->remote != NULL) {
		free(c->remote->keys);
		free(c->remote->key_slots.free);
		free(c->remote->areas.free);
		free(c->remote->credits);
		free(c->remote);
	}
	c->remote = NULL;
	c->page = NULL;
	c->bells = NULL;
	c->socket = c->card = c->process = -1;
}

/* Numbers 0 to slots - 1, all free; -ENOMEM. */
static inline int funi_fill_numbers(struct funi_numbers *s, uint32_t slots)
{
	s->free = (uint16_t *)calloc(slots, sizeof *s->free);
	s->slots = s->n = slots;
	for (uint32_t i = 0; s->free != NULL && i < slots; i++)
		s->free[i] = (uint16_t)i;
	return s->free != NULL ? 0 : -ENOMEM;
}

/* How a size of remote memory travels: 0, or one more than the exponent of a power of two. -1: it
 * is none. */
static inline int funi_remote_size(uint32_t n, uint32_t most)
{
	int e = 0;
	for (; n >> e != 0; e++)
		;
	return n > most || (n & (n - 1)) != 0 ? -1 : e;
}

/* Makes what the program keeps of its remote memory, whose sizes are the daemon's answer. -ENOMEM,
 * -EPROTO. */
static inline int funi_start_remote(struct funi_context *c, const struct funi_attach_answer *a, const uint8_t asked[3],
	uint64_t queues)
{
	if (memcmp(a->remote, asked, 3) != 0 || a->remote[3] != 0)
		return -EPROTO;
	struct funi_remote *r = a->remote[0] != 0 ? (struct funi_remote *)calloc(1, sizeof *r) : NULL;
	if (r == NULL)
		return a->remote[0] != 0 ? -ENOMEM : 0;
	c->remote = r;
	r->sizes.key_slots = UINT32_C(1) << a->remote[0] >> 1;
	r->sizes.areas = UINT32_C(1) << a->remote[1] >> 1;
	r->sizes.notifications = UINT32_C(1) << a->remote[2] >> 1;
	r->ring = (const uint32_t *)((const char *)c->page + queues);
	r->keys = (struct funi_key_slot *)calloc(r->sizes.key_slots, sizeof *r->keys);
	r->credits = (uint32_t *)calloc(r->sizes.areas, sizeof *r->credits);
	if (getrandom(&r->life, sizeof r->life, 0) != (ssize_t)sizeof r->life)
		return -errno;
	return r->keys == NULL || r->credits == NULL ? -ENOMEM :
		funi_fill_numbers(&r->key_slots, r->sizes.key_slots) != 0 ? -ENOMEM : funi_fill_numbers(&r->areas,
			r->sizes.areas);
}

/* Sets modes and waits until the card has halted for them. */
static inline int funi_halt(struct funi_context *c, uint32_t modes)
{
	uint32_t ready = modes << 1; /* each ready bit is the one above its mode */
	int64_t begin = funi_clock(), took;
	funi_store(&c->page->reg[FUNI_CONTROL].word, modes);
	for (;;) {
		uint32_t asleep = funi_load(&c->page->asleep);
		if (asleep != 0)
			funi_rouse(c, asleep);
		if ((funi_load(&c->page->reg[FUNI_CONTROL].word) & ready) == ready)
			return 0;
		int n = funi_wait(c, -1);
		took = funi_clock() - begin;
		if (n < 0)
			return n;
		if ((took < 0 || took > (int64_t)FUNI_ANSWER_SECONDS * 1000000000) &&
		    (funi_load(&c->page->reg[FUNI_CONTROL].word) & ready) != ready)
			return funi_fail(c, -ETIMEDOUT, "starting the queues");
	}
}

/* Ends the modes of funi_halt. */
static inline void funi_go(struct funi_context *c)
{
	funi_store(&c->page->reg[FUNI_CONTROL].word, 0);
	uint32_t asleep = funi_load(&c->page->asleep);
	if (asleep != 0)
		funi_rouse(c, asleep);
}

/* Starts the queues (thesis 3.2.1): halts the card, writes the queue registers. */
static inline int funi_start(struct funi_context *c)
{
	static const int base[4] = { FUNI_RPSQ_BASE, FUNI_RQSQ_BASE, FUNI_RPRQ_BASE, FUNI_RQRQ_BASE };
	funi_store(&c->page->looks, 1);
	int code = funi_halt(c, FUNI_CSQM | FUNI_CRQM);
	if (code != 0)
		return code;
	c->mask = c->slots - 1;
	funi_store(&c->page->reg[FUNI_Q_MASK].word, c->mask);
	for (int i = 0; i < 4; i++) {
		int l = i % 2 == 0 ? FUNI_REPLY : FUNI_REQUEST, head = FUNI_RPSQ_HEAD + 2 * i;
		struct funi_queue *q = i < 2 ? &c->send[l] : &c->receive[l];
		uint32_t at = (uint32_t)i * c->slots * FUNI_SLOT_WORDS * 4;
		funi_store(&c->page->reg[base[i]].word, at);
		funi_store(&c->page->reg[head].word, 0);
		funi_store(&c->page->reg[head + 1].word, 0);
		q->slots = (uint32_t *)((char *)c->page + FUNI_PAGE_SIZE + at);
		q->own = &c->page->reg[i < 2 ? head : head + 1].word;
		q->its = &c->page->reg[i < 2 ? head + 1 : head].word;
	}
	c->notes = funi_load(&c->page->notes_head.word);
	c->returns = funi_load(&c->page->return_head.word);
	c->lost = funi_load(&c->page->returns_lost.word);
	funi_store(&c->page->return_tail.word, c->returns);
	if (c->remote != NULL) {
		c->remote->lost = c->lost;
		c->remote->operations_lost = funi_load(&c->page->operations_lost);
		memcpy(c->remote->lost_to, c->page->lost_to, sizeof c->remote->lost_to);
	}
	funi_go(c);
	return 0;
}

/* ---- triggers (uspace/funi/trigger.go; Froening's thesis, section 4.2.7) ---- */

/* Commands. The parameter of FUNI_TRIGGER_ISSUE is how many committed slots of the request send
 * queue to issue, 1 to FUNI_MAX_ISSUE. FUNI_TRIGGER_NOTES_READ gives as many notifications back. */
#define FUNI_TRIGGER_ISSUE 0
#define FUNI_TRIGGER_POINTERS 1
#define FUNI_TRIGGER_NOTES_READ 2
#define FUNI_TRIGGER_BARRIER 4 /* see funi_barrier */
#define FUNI_MAX_ISSUE 31
#define FUNI_MAX_BARRIERS 32
#define FUNI_MAX_MEMBERS 65536

/* Answers. After FUNI_TRIGGER_FULL try again; after FUNI_TRIGGER_PARTIAL, with the rest, when the
 * card has given slots back. */
#define FUNI_TRIGGER_DONE 0
#define FUNI_TRIGGER_PARTIAL 1
#define FUNI_TRIGGER_FULL 2
#define FUNI_TRIGGER_INVALID 3
#define FUNI_TRIGGER_BURST 4
#define FUNI_TRIGGER_FORBIDDEN 5
#define FUNI_TRIGGER_DISABLED 6

/* From now on requests are issued by triggers: funi_send_commit only prepares them, and so do the
 * functions of remote memory (funi_put, funi_atomic and others), each one virtual communication
 * instruction. funi_vci_issue issues them. With remote memory every function that waits issues what
 * was prepared, and gives back the notifications that were read. -EBUSY: slots that were sent have
 * not come back yet. Errors are also those of funi_wait. */
static inline int funi_issue_by_trigger(struct funi_context *c)
{
	struct funi_queue *q = &c->send[FUNI_REQUEST];
	int code;
	if (funi_unsent(c, FUNI_REQUEST) + funi_unsent(c, FUNI_REPLY) != 0)
		return funi_fail(c, -EBUSY, "issuing by triggers while slots are unsent");
	if ((code = funi_halt(c, FUNI_CSQM)) != 0)
		return code;
	funi_store(&c->page->by_trigger, 1);
	c->turn = (uint32_t)(__atomic_load_n(funi_answer_word(c), __ATOMIC_SEQ_CST) >> 32);
	c->issued = q->head;
	c->given = c->notes;
	q->own = &c->unissued;
	funi_go(c);
	return 0;
}

/* Stores a trigger. Wait for its answer before the next one. */
static inline void funi_trigger(struct funi_context *c, uint32_t command, uint32_t parameter)
{
	c->asked = command;
	__atomic_store_n(&c->page->trigger, (uint64_t)++c->turn << 32 | (uint64_t)command << 28 | (parameter & 0xffffff),
		__ATOMIC_SEQ_CST);
	uint32_t asleep = funi_load(&c->page->asleep);
	if (asleep != 0)
		funi_rouse(c, asleep);
}

/* The card's answer to the last trigger, or -EAGAIN while there is none. count becomes how many
 * slots it has taken, or notifications. */
static inline int funi_trigger_answer(struct funi_context *c, uint32_t *count)
{
	uint64_t answer = __atomic_load_n(funi_answer_word(c), __ATOMIC_SEQ_CST);
	int status = (int)(answer >> 28 & 0xf);
	*count = 0;
	if ((uint32_t)(answer >> 32) != c->turn)
		return -EAGAIN;
	if (status <= FUNI_TRIGGER_PARTIAL)
		*count = (uint32_t)(answer & 0xffffff);
	if (c->asked == FUNI_TRIGGER_ISSUE)
		c->issued = (c->issued + *count) & c->mask;
	if (c->asked == FUNI_TRIGGER_NOTES_READ)
		c->given += *count;
	c->asked = FUNI_TRIGGER_POINTERS; /* what was answered is counted once */
	return status;
}

/* How many slots are committed and not issued, as far as answers were looked at. */
static inline uint32_t funi_unissued(struct funi_context *c)
{
	return (c->send[FUNI_REQUEST].head - c->issued) & c->mask;
}

/* How many notifications were read and not given back by a trigger. */
static inline uint32_t funi_ungiven(struct funi_context *c)
{
	uint32_t count;
	if (c->send[FUNI_REQUEST].own != &c->unissued)
		return 0;
	/* else a process that finds no room would sleep although it has some now */
	(void)funi_trigger_answer(c, &count);
	return c->notes - c->given;
}

/* Issues what waits, or gives notifications back, if the last trigger was answered. */
static inline void funi_issue_waiting(struct funi_context *c)
{
	uint32_t count;
	if (c->remote == NULL || c->send[FUNI_REQUEST].own != &c->unissued || funi_trigger_answer(c, &count) == -EAGAIN)
		return;
	if ((count = funi_unissued(c)) > 0)
		funi_trigger(c, FUNI_TRIGGER_ISSUE, count < FUNI_MAX_ISSUE ? count : FUNI_MAX_ISSUE);
	else if ((count = funi_ungiven(c)) > 0)
		funi_trigger(c, FUNI_TRIGGER_NOTES_READ, count & 0xffffff);
}

/* Waits for the answer to the last trigger, and returns it as funi_trigger_answer does. Errors are
 * those of funi_wait. */
static inline int funi_trigger_await(struct funi_context *c, uint32_t *count)
{
	int status, n;
	while ((status = funi_trigger_answer(c, count)) == -EAGAIN) {
		if ((n = funi_wait_only(c, -1)) < 0 && n != -EINTR)
			return n;
		(void)sched_yield(); /* if a message waits funi_wait_only does not sleep */
	}
	return status;
}

/* Issues the next n prepared instructions, 1 to FUNI_MAX_ISSUE, and waits for the card's answer,
 * which it returns: FUNI_TRIGGER_DONE and so on. accepted becomes how many the card has taken; the
 * others can be issued later. Errors are those of funi_wait. */
static inline int funi_vci_issue(struct funi_context *c, uint32_t n, uint32_t *accepted)
{
	int status = funi_trigger_await(c, accepted);
	*accepted = 0;
	if (status < 0 || n > funi_unissued(c))
		return status < 0 ? status : FUNI_TRIGGER_INVALID;
	funi_trigger(c, FUNI_TRIGGER_ISSUE, n);
	return funi_trigger_await(c, accepted);
}

/* Says that the process has reached a barrier of the nodes 0 to members-1, and returns the card's
 * answer. When all have reached it, each gets a notification, FUNI_NOTE_BARRIER (funi_notified).
 * FUNI_TRIGGER_FORBIDDEN: it has reached this one and not passed it. Errors are those of funi_wait,
 * and -EOPNOTSUPP without remote memory. The Go package uspace/virtni says what is promised. */
static inline int funi_barrier(struct funi_context *c, uint32_t number, uint32_t members)
{
	uint32_t count;
	if (c->remote == NULL)
		return funi_fail(c, -EOPNOTSUPP, "reaching a barrier without remote memory");
	if (number >= FUNI_MAX_BARRIERS || members < 1 || members > FUNI_MAX_MEMBERS)
		return FUNI_TRIGGER_INVALID;
	int status = funi_trigger_await(c, &count);
	if (status < 0)
		return status;
	c->barriers++;
	funi_trigger(c, FUNI_TRIGGER_BARRIER, number | (members - 1) << 5);
	if ((status = funi_trigger_await(c, &count)) > 0)
		c->barriers--;
	return status;
}

/* Connects a socket to a path, however long. One that an address has no room for (unix(7)) is
 * reached through its folder. */
static inline int funi_connect(int fd, const char *path)
{
	struct sockaddr_un to;
	const char *name = strrchr(path, '/');
	char folder[4096];
	int dir = -1, code;

	memset(&to, 0, sizeof to);
	to.sun_family = AF_UNIX;
	if (strlen(path) < sizeof to.sun_path)
		memcpy(to.sun_path, path, strlen(path));
	else if (name == NULL || strlen(path) >= sizeof folder || strlen(name) + 32 > sizeof to.sun_path)
		return -ENAMETOOLONG;
	else {
		memcpy(folder, path, (size_t)(name - path));
		folder[name - path] = 0;
		if ((dir = open(name == path ? "/" : folder, FUNI_OPEN_FOLDER)) < 0)
			return -errno;
		(void)snprintf(to.sun_path, sizeof to.sun_path, "/proc/self/fd/%d%s", dir, name);
	}
	code = connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ? -errno : 0;
	if (dir >= 0)
		(void)close(dir);
	return code;
}

static inline int funi_attach_socket(struct funi_context *c, const char *path, uint16_t gid, uint16_t node,
				     const uint8_t token[FUNI_TOKEN_SIZE], uint32_t slots, const struct funi_remote_sizes *sizes)
{
	struct timeval patience = { FUNI_ANSWER_SECONDS, 0 };
	struct funi_attach_request r = { funi_message_header(FUNI_KIND_ATTACH, sizeof r), gid, node, slots, { 0 }, { 0 } };
	struct funi_attach_answer a;
	const uint32_t remote[3] = { sizes->key_slots, sizes->areas, sizes->notifications };
	int fds[FUNI_ATTACH_DESCRIPTORS] = { -1, -1, -1, -1 };

	memset(&a, 0, sizeof a);
	memcpy(r.token, token, sizeof r.token);
	for (int i = 0; i < 3; i++) {
		int e = funi_remote_size(remote[i], i < 2 ? FUNI_MAX_REMOTE : FUNI_MAX_NOTIFICATIONS);
		if (e < 0 || (e == 0) != (remote[0] == 0))
			return funi_fail(c, -EINVAL,
				"key slots and areas are powers of two up to 65536, notifications one up to 1048576, or all three are 0");
		r.remote[i] = (uint8_t)e;
	}
	c->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->socket < 0 || setsockopt(c->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
	    setsockopt(c->socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0)
		return funi_fail(c, -errno, path);
	int code = funi_connect(c->socket, path);
	if (code != 0)
		return funi_fail(c, code, path);
	code = funi_ask(c, "attaching", &r, sizeof r, &a, sizeof a, fds, FUNI_ATTACH_DESCRIPTORS);
	if (code != 0)
		return code;
	c->card = fds[FUNI_CARD_DESCRIPTOR];
	c->process = fds[FUNI_PROCESS_DESCRIPTOR];
	c->memory = a.memory;
	c->page = (struct funi_page *)funi_map(fds[FUNI_MEMORY_DESCRIPTOR], a.memory);
	c->bells = (struct funi_doorbells *)funi_map(fds[FUNI_DOORBELLS_DESCRIPTOR], FUNI_DOORBELLS_SIZE);
	uint64_t queues = FUNI_PAGE_SIZE + (uint64_t)FUNI_SHARED_QUEUES * a.slots * FUNI_SLOT_WORDS * 4;
	uint64_t memory = queues + ((uint64_t)remote[1] + remote[2]) * FUNI_NOTE_BYTES;
	if (a.slots < FUNI_MIN_SLOTS || a.slots > FUNI_MAX_SLOTS || (a.slots & (a.slots - 1)) != 0 || a.memory != memory ||
	    c->page == NULL || c->bells == NULL)
		return funi_fail(c, -EPROTO, "mapping the card's memory");
	if (a.abi != FUNI_ABI || funi_load(&c->page->version) != FUNI_ABI)
		return funi_fail(c, FUNI_ERR_VERSION, "attaching to a card of another ABI");
	if ((code = funi_start_remote(c, &a, r.remote, queues)) != 0)
		return funi_fail(c, code, "making the tables of remote memory");
	c->gid = a.gid;
	c->node = a.node;
	c->nodes = a.nodes;
	c->slots = a.slots;
	c->context = a.context;
	c->incarnation = a.incarnation;
	return funi_start(c);
}

/* Attaches as a node of a group, with queues of the given number of slots, a power of two; 0 is the
 * daemon's default. The context needs funi_close only if this returns 0. After -EINTR, a
 * signal, nothing is attached, and it can be called again. */
static inline int funi_attach(struct funi_context *c, const char *socket, uint16_t gid, uint16_t node,
			      const uint8_t token[FUNI_TOKEN_SIZE], uint32_t slots);

/* funi_attach of a context that can open remote memory, which counts in what the daemon lets the
 * user have. Each notification and each area counts 64 bytes. The memory that the card may come to
 * need counts as well: 64 bytes for a key slot, 20 for an area and 4 for a notification. Chains and
 * answers count some 210 KiB. Each operation that may be under way counts some 230 bytes; there may
 * be as many as notifications, at most 1024. -EINVAL: the sizes are not valid. */
static inline int funi_attach_remote(struct funi_context *c, const char *socket, uint16_t gid, uint16_t node,
				     const uint8_t token[FUNI_TOKEN_SIZE], uint32_t slots, const struct funi_remote_sizes *sizes)
{
	memset(c, 0, sizeof *c);
	c->socket = c->card = c->process = -1;
	int code = funi_attach_socket(c, socket, gid, node, token, slots, sizes);
	if (code != 0)
		funi_release_all(c);
	return code;
}

static inline int funi_attach(struct funi_context *c, const char *socket, uint16_t gid, uint16_t node,
			      const uint8_t token[FUNI_TOKEN_SIZE], uint32_t slots)
{
	const struct funi_remote_sizes none = { 0, 0, 0 };
	return funi_attach_remote(c, socket, gid, node, token, slots, &none);
}

/* Where a process's number and the number of processes are, the first that is set. They are of the
 * starter, funet run or a program that it started (`funet run --once`). uspace/attach has the same
 * list; a test compares them. */
static inline const char *const *funi_places(void)
{
	static const char *const places[] = {
		"FUNET_NODE", "FUNET_NODES",
		"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", /* mpirun of Open MPI */
		"PMI_RANK", "PMI_SIZE",                         /* MPICH, and others that speak PMI */
		"PMIX_RANK", "",                                /* PMIx, which does not say how many */
		"SLURM_PROCID", "SLURM_NTASKS",                 /* srun of Slurm */
		NULL
	};
	return places;
}

struct funi_place { /* of a process in a job */
	char socket[4096]; /* of the daemon: a path, at most PATH_MAX */
	uint16_t gid, node;
	uint32_t nodes; /* processes that were started for the group; 0: nobody says how many */
	uint8_t token[FUNI_TOKEN_SIZE];
};

/* Reads the number in a variable of the environment, in decimal digits, up to most, into n. */
static inline int funi_number(struct funi_context *c, const char *variable, uint32_t most, uint32_t *n)
{
	const char *s = getenv(variable), *at = s != NULL ? s : "";
	char text[200], said[21];
	uint64_t v = 0;

	memset(said, 0, sizeof said);
	for (; *at >= '0' && *at <= '9' && v <= most; at++)
		v = v * 10 + (uint64_t)(*at - '0');
	*n = (uint32_t)v;
	if (s != NULL && at != s && *at == 0 && v <= most)
		return 0;
	for (size_t i = 0; s != NULL && i + 1 < sizeof said && s[i] != 0; i++)
		said[i] = s[i] < ' ' || s[i] > '~' ? '?' : s[i]; /* one line, whatever it is */
	(void)snprintf(text, sizeof text, "reading %s=\"%s\", a number up to %u; start the program with funet run",
		variable, said,
		       (unsigned)most);
	return funi_fail(c, -EINVAL, text);
}

/* Reads FUNET_SOCKET: the path of a daemon's socket (FUNI_DEFAULT_SOCKET if it is not there), or a
 * list of paths with colons between them. A node takes that at its number modulo their number. */
static inline void funi_socket(struct funi_place *p)
{
	const char *at = getenv("FUNET_SOCKET");
	uint32_t n = 1, skip;

	for (const char *c = at; c != NULL && *c != 0; c++)
		n += *c == ':';
	for (skip = p->node % n; skip > 0; skip--)
		at = strchr(at, ':') + 1;
	if (at == NULL || strcspn(at, ":") == 0)
		at = FUNI_DEFAULT_SOCKET;
	(void)snprintf(p->socket, sizeof p->socket, "%.*s", (int)strcspn(at, ":"), at);
}

/* Reads the place of this process from the environment: FUNET_SOCKET (funi_socket), FUNET_GID,
 * FUNET_TOKEN, and number and number of processes from the first pair of funi_places that has a
 * number. -EINVAL if one is missing or none, but for the number of processes, which may be missing;
 * c->error says which. */
static inline int funi_environment(struct funi_context *c, struct funi_place *p)
{
	const char *const *place = funi_places(), *at, *digits = "0123456789abcdefABCDEF";
	const char *hex = getenv("FUNET_TOKEN"), *nodes;
	uint32_t gid, node;

	while (*place != NULL && ((at = getenv(place[0])) == NULL || *at == 0))
		place += 2;
	if (*place == NULL)
		place = funi_places();
	memset(p, 0, sizeof *p);
	if (funi_number(c, "FUNET_GID", UINT16_MAX, &gid) != 0 || funi_number(c, place[0], UINT16_MAX, &node) != 0)
		return -EINVAL;
	nodes = getenv(place[1]);
	if (nodes != NULL && *nodes != 0 && funi_number(c, place[1], 2 * UINT16_MAX + 1, &p->nodes) != 0)
		return -EINVAL;
	p->gid = (uint16_t)gid;
	p->node = (uint16_t)node;
	funi_socket(p);
	size_t length = hex != NULL ? strlen(hex) : 0;
	for (size_t i = 0; i < length && length == 2 * sizeof p->token && (at = strchr(digits, hex[i])) != NULL; i++) {
		p->token[i / 2] = (uint8_t)(p->token[i / 2] << 4 | (at - digits < 16 ? at - digits : at - digits - 6));
		if (i + 1 == length)
			return 0;
	}
	return funi_fail(c, -EINVAL,
		"reading FUNET_TOKEN, which is 64 hexadecimal digits; start the program with funet run");
}

/* Attaches with what `funet run` puts into the environment, or mpirun or srun beside it
 * (funi_environment). -EINVAL if it does not say it; FUNI_ERR_NODE if another number of
 * processes was started than the group has members. */
static inline int funi_attach_environment(struct funi_context *c, uint32_t slots);

/* funi_attach_environment of a context that can open remote memory, as funi_attach_remote says. */
static inline int funi_attach_environment_remote(struct funi_context *c, uint32_t slots,
	const struct funi_remote_sizes *sizes)
{
	struct funi_place p;

	memset(c, 0, sizeof *c);
	c->socket = c->card = c->process = -1;
	int code = funi_environment(c, &p);
	if (code == 0)
		code = funi_attach_remote(c, p.socket, p.gid, p.node, p.token, slots, sizes);
	if (code == 0 && p.nodes != 0 && p.nodes != c->nodes) {
		uint32_t members = c->nodes;
		funi_release_all(c);
		(void)snprintf(c->error, sizeof c->error, "the group has %u nodes, and %u processes were started for it",
			members, p.nodes);
		return FUNI_ERR_NODE;
	}
	return code;
}

static inline int funi_attach_environment(struct funi_context *c, uint32_t slots)
{
	const struct funi_remote_sizes none = { 0, 0, 0 };
	return funi_attach_environment_remote(c, slots, &none);
}

/* ---- segments ---- */

/* Notes a segment for funi_expose and funi_sendmsg, which are told pointers; the daemon allows no
 * more than there is room for. */
static inline void funi_note_segment(struct funi_context *c, uint32_t base, void *memory, uint64_t bytes,
	uint32_t rights)
{
	const struct funi_part part = { (uint8_t *)memory, bytes, base, rights };
	if (c->remote != NULL && c->remote->segments < FUNI_MAX_SEGMENTS)
		c->remote->parts[c->remote->segments++] = part;
}

/* And forgets it. */
static inline void funi_forget_segment(struct funi_context *c, uint32_t base)
{
	for (uint32_t i = 0; c->remote != NULL && i < c->remote->segments; i++)
		if (c->remote->parts[i].base == base) {
			c->remote->parts[i] = c->remote->parts[--c->remote->segments];
			return;
		}
}

static inline int funi_ask_segment(struct funi_context *c, uint32_t base, uint64_t bytes, uint32_t rights, int *fd)
{
	struct funi_segment_message r = { funi_message_header(FUNI_KIND_SEGMENT, sizeof r), base, rights, bytes }, a;
	return funi_ask(c, "registering a segment", &r, sizeof r, &a, sizeof a, fd, 1);
}

static inline int funi_end_segment(struct funi_context *c, uint32_t base)
{
	struct funi_unsegment_request r = { funi_message_header(FUNI_KIND_UNSEGMENT, sizeof r), base, 0 };
	struct funi_message a;
	int code = funi_ask(c, "ending a segment", &r, sizeof r, &a, sizeof a, NULL, 0);
	if (code == 0)
		funi_forget_segment(c, base);
	return code;
}

/* Registers new memory, all 0, as a segment at base, an address of the context's own 32-bit space:
 * a multiple of 16 other than 0, as is the size. rights are funi_rights. It is the daemon's memory,
 * as the card of another process can use no other; funi_adopt puts it in the place of memory that
 * the program has. */
static inline int funi_register_segment(struct funi_context *c, uint32_t base, uint64_t bytes, uint32_t rights,
	void **memory)
{
	int fd, code = funi_ask_segment(c, base, bytes, rights, &fd);
	if (code == 0 && (*memory = funi_map(fd, bytes)) == NULL)
		code = funi_fail(c, -EPROTO, "mapping a segment");
	if (code == 0)
		funi_note_segment(c, base, *memory, bytes, rights);
	return code;
}

/* Ends it and unmaps the memory. FUNI_ERR_BUSY while the card needs it. */
static inline int funi_unregister_segment(struct funi_context *c, uint32_t base, void *memory, uint64_t bytes)
{
	int code = funi_end_segment(c, base);
	if (code == 0)
		(void)munmap(memory, bytes);
	return code;
}

/* Why pages of such flags of /proc/PID/smaps cannot be replaced by the daemon's, or NULL: what the
 * program has asked of them would be lost. */
static inline const char *funi_unlike_ours(const char *flags)
{
	static const char usual[] = "rd wr mr mw me ac nr sd hg nh";
	char flag[8];
	int n;
	for (; sscanf(flags, "%7s%n", flag, &n) == 1; flags += n)
		if (strstr(usual, flag) == NULL)
			return "it is locked, of huge pages, not for children, or the like";
	return NULL;
}

/* Why memory is not whole pages of ordinary private memory, or NULL. */
static inline const char *funi_unsuitable(const void *memory, uint64_t bytes)
{
	uintptr_t at = (uintptr_t)memory, end = at + bytes, page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned long low, high = 0, inode;
	char line[1024], mode[5];
	int is = 0, path;
	const char *why = NULL;

	if (bytes == 0 || end < at || at % page != 0 || bytes % page != 0)
		return "it does not begin and end on a page";
	if ((uintptr_t)line >= at && (uintptr_t)line < end)
		return "it is the stack";
	FILE *maps = fopen("/proc/self/smaps", "re");
	if (maps == NULL)
		return "/proc/self/smaps, which says what memory it is, cannot be read";
	while (why == NULL && at < end && fgets(line, sizeof line, maps) != NULL) {
		if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu %n", &low, &high, mode, &inode, &path) == 4) {
			is = low <= at && at < high;
			if (is && (memcmp(mode, "rw-p", 4) != 0 || inode != 0))
				why = "it is shared, a file's, or not to be read and written";
			else if (is && strncmp(line + path, "[stack", 6) == 0)
				why = "it is the stack";
		} else if (is && strncmp(line, "VmFlags:", 8) == 0) {
			why = funi_unlike_ours(line + 8);
			at = high;
			is = 0;
		}
	}
	(void)fclose(maps);
	return why != NULL ? why : at < end ? "nothing is mapped there" : NULL;
}

/* Registers memory that the program has as a segment: the daemon's memory takes its place, with its
 * content, so pointers into it stay valid. It must be whole pages (sysconf(_SC_PAGESIZE)) of
 * ordinary private memory, from mmap with MAP_PRIVATE | MAP_ANONYMOUS or from aligned_alloc; files,
 * shared memory, the stack, locked memory and huge pages are refused with -EINVAL, and nothing has
 * changed then. Otherwise it is like funi_register_segment, and counts as much.
 *
 * No other thread may touch the memory during the call. After a fork parent and child share it,
 * where they had a copy each. End it with funi_disown, and before the memory is freed. */
static inline int funi_adopt(struct funi_context *c, uint32_t base, void *memory, uint64_t bytes, uint32_t rights)
{
	const char *why = funi_unsuitable(memory, bytes);
	if (why != NULL) {
		(void)snprintf(c->error, sizeof c->error,
			       "adopting %llu bytes at %p: %s; use whole pages from mmap or aligned_alloc, or funi_register_segment",
			       (unsigned long long)bytes, memory, why);
		return -EINVAL;
	}
	int fd, code = funi_ask_segment(c, base, bytes, rights, &fd);
	if (code != 0)
		return code;
	void *copy = funi_map_sealed(fd, bytes);
	if (copy != NULL) {
		memcpy(copy, memory, bytes);
		(void)munmap(copy, bytes);
	}
	if (copy == NULL || mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		code = funi_fail(c, copy == NULL ? -EPROTO : -errno, "mapping a segment");
		(void)funi_end_segment(c, base);
	}
	if (code == 0)
		funi_note_segment(c, base, memory, bytes, rights);
	(void)close(fd);
	return code;
}

/* Ends a segment that funi_adopt made: the memory is the program's alone again, with its content.
 * FUNI_ERR_BUSY while the card needs it; then it stays what it is. Until it returns no other thread
 * may touch the memory. */
static inline int funi_disown(struct funi_context *c, uint32_t base, void *memory, uint64_t bytes)
{
	const int how = MAP_PRIVATE | FUNI_MAP_ANONYMOUS;
	void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how, -1, 0);
	if (copy == MAP_FAILED)
		return funi_fail(c, -errno, "ending a segment");
	int code = funi_end_segment(c, base);
	if (code == 0) {
		memcpy(copy, memory, bytes);
		if (mmap(memory, bytes, PROT_READ | PROT_WRITE, how | MAP_FIXED, -1, 0) == MAP_FAILED)
			code = funi_fail(c, -errno, "giving the memory of a segment back");
		else
			memcpy(memory, copy, bytes);
	}
	(void)munmap(copy, bytes);
	return code;
}

/* ---- remote memory: keys, messages that the sender places, notification records ----
 *
 * The receiver registers memory with the right FUNI_KEYED and gives a key to a part of it
 * (funi_expose). It opens an area, which counts what comes there (funi_open_area), and makes a seed
 * of both (funi_make_seed): 32 bytes, or 43 letters, that any means may carry to a sender, a
 * message for instance. Whoever has the seed has a ticket, and funi_sendmsg with it writes into
 * that memory, where the ticket says. The receiver's card does that, in any order and without
 * copies; the program hears of it once, when all is there, from funi_get_notification_record, with
 * up to 11 words that the sender has put beside the message.
 *
 *	struct funi_remote_sizes sizes = { 16, 16, 64 };
 *	funi_attach_environment_remote(&c, 0, &sizes); // both
 *
 *	// the receiver
 *	funi_register_segment(&c, 0x10000, size, FUNI_KEYED, &memory);
 *	funi_expose(&c, memory, size, &key, NULL);
 *	funi_open_area(&c, key, 4, 0, &area, NULL);
 *	seed = funi_make_seed(&c, key, area, size, 0);
 *	funi_seed_text(&seed, text); // the text travels by a message
 *
 *	while (!funi_get_notification_record(&c, &record))
 *		funi_wait(&c, 100);
 *	// memory begins with hello
 *
 *	// the sender
 *	funi_parse_seed(text, &seed);
 *	funi_sendmsg(&c, &seed.ticket, "hello", 5, NULL, 0, &handle);
 *
 * Rules:
 *   - Everything here uses the send queue FUNI_REQUEST, and the card takes it from there in order:
 *     what is sent after a funi_expose tells of a key that is good already. -ENOBUFS: that queue,
 *     or a table, is full, and nothing has happened; go on after a funi_wait, or close something.
 *   - A message of up to 64 bytes, metadata included, may lie anywhere, and is the program's again
 *     when funi_sendmsg has returned. A longer one lies in a segment with FUNI_SOURCE, and stays as
 *     it is until its status is FUNI_SENT. A message has at most 2^26 bytes.
 *   - Credit is how many records of an area may be unread. What would be one more waits at its
 *     sender, or comes back with FUNI_REASON_NO_BUFFER, as the area was opened. Credit bounds
 *     records, and not memory: what a sender may overwrite, and when, is between the programs.
 *     Somebody may write as long as the key is open.
 *   - A key is 48 random bits and the number of its key slot. Each holder's can be revoked only if
 *     each has one of its own.
 *   - What was refused comes back: funi_message_status says FUNI_FAILED and why, once the program
 *     has called funi_returned until that returned 0. Some of a long message may have been written
 *     then. More than FUNI_RETURN_SLOTS at once are only counted (funi_returns_lost): then all to
 *     that node that may be among them have failed, for reason FUNI_UNTOLD.
 *   - One message of a group of senders: split the seed (funi_split_seed), a part for each; there
 *     is one record, when all parts are there. When a member dies before that, funi_close_area, or
 *     funi_revoke and begin anew: its rest may be under way.
 *
 * The Go package uspace/rats is the same; seeds of one are the other's. */

enum funi_message_state {
	FUNI_PENDING, /* the card has not taken it: the memory of a long message must stay as it is */
	FUNI_COPIED,  /* it is in the send queue: its memory is the program's again */
	/* the card needs nothing of it any more: it will be delivered once, or come back */
	FUNI_SENT,
	FUNI_FAILED,  /* it came back */
	FUNI_COMPLETE /* of an operation on a window: it was carried out */
};

#define FUNI_SEED_SIZE 32
#define FUNI_SEED_TEXT 44 /* with the zero byte at the end */
#define FUNI_SEED_VERSION 1

struct funi_ticket { /* where one message goes, and what it counts */
	uint16_t node, area;
	uint64_t key;
	uint32_t offset, size; /* in the key's memory, in bytes; a message may have that many */
	/* 0: complete by itself; or a member's share of its group (funi_split_seed) */
	uint32_t count;
};

struct funi_seed { /* a ticket that travels, and what it is good for, which the programs say */
	struct funi_ticket ticket;
	uint8_t protocol;
};

/* all of a message, or of a group's, is there; or of a put with a notification; or another wants a
 * suspended window */
struct funi_notification {
	/* FUNI_NOTE_AREA, FUNI_NOTE_WINDOW, FUNI_NOTE_BARRIER or FUNI_NOTE_FAULT: then resume the
	 * window with key_slot (funi_resume) */
	enum funi_note_kind kind;
	/* area: FUNI_NOTE_AREA; FUNI_NOTE_BARRIER: the barrier */
	uint16_t key_slot, area;
	uint32_t reason;  /* FUNI_NOTE_BARRIER: why it will not be passed (enum funi_reason), or 0 */
	/* the node that sent the packet with which it was complete; the card vouches for it */
	uint16_t source;
	uint32_t words;  /* of metadata */
	uint32_t metadata[FUNI_MAX_METADATA];
	uint64_t tag;     /* FUNI_NOTE_WINDOW: what the put said */
	/* of the first byte of the put's last packet, or that is wanted, as the window counts */
	uint64_t address;
};

static inline int funi_remote_fail(struct funi_context *c, int code, const char *what)
{
	(void)snprintf(c->error, sizeof c->error, "%s: %s", what,
		       code == -EOPNOTSUPP ? "the context has no remote memory; attach with funi_attach_remote" :
		       code == -EFAULT     ? "the memory is in no segment that has the right for it; register it" :
		       code == -EMSGSIZE   ? "it is longer than its ticket, an operation or a chain allows, or has more than 11 words of metadata" :
		       code == -ENOBUFS    ? "no room; let the card run (funi_wait), or close what is not needed" :
		       code == -ENOENT     ? "no such key, area or handle, or one of more than 1024 requests ago" :
		       code == -EINVAL     ? "an address beyond 48 bits, rights that there are not, or an operation, key or chain that is none" : strerror(-code));
	return code;
}

/* The address of memory that lies in one segment with the right, or 0. */
static inline uint32_t funi_address(struct funi_context *c, const void *memory, uint64_t bytes, uint32_t right)
{
	for (uint32_t i = 0; i < c->remote->segments; i++) {
		const struct funi_part *p = &c->remote->parts[i];
		uintptr_t at = (uintptr_t)memory - (uintptr_t)p->memory;
		if ((p->rights & right) != 0 && at < p->bytes && bytes <= p->bytes - at)
			return p->base + (uint32_t)at;
	}
	return 0;
}

static inline void funi_give_number(struct funi_numbers *s, uint16_t v)
{
	s->free[(s->first + s->n++) & (s->slots - 1)] = v;
}

/* How many slots of requests the card has given back since the context was attached. */
static inline uint64_t funi_retired(struct funi_context *c)
{
	uint32_t left = funi_unsent(c, FUNI_REQUEST);
	return c->send[FUNI_REQUEST].committed - left;
}

/* Reserves a slot and a handle for a request block, and composes what all have. NULL: full. */
static inline uint32_t *funi_begin_block(struct funi_context *c, uint32_t operation, uint16_t node)
{
	uint32_t h = c->remote->next + 1 != 0 ? c->remote->next + 1 : FUNI_REMEMBERED; /* 0 is none */
	const struct funi_asked *m = &c->remote->asked[h % FUNI_REMEMBERED];
	uint32_t *s = funi_send_reserve(c, FUNI_REQUEST);
	if (s == NULL || (m->handle != 0 && (m->at > funi_retired(c) || m->operation == 1)))
		return NULL;
	memset(s, 0, FUNI_REMOTE_DATA_WORD * sizeof *s);
	s[0] = FUNI_MANY_BIT | operation << 21 | node;
	s[FUNI_REMOTE_COOKIE_WORD] = h;
	return s;
}

static inline void funi_end_block(struct funi_context *c, const uint32_t *slot, uint32_t in_slot, uint32_t *handle)
{
	const uint32_t h = slot[FUNI_REMOTE_COOKIE_WORD];
	struct funi_asked *m = &c->remote->asked[h % FUNI_REMEMBERED];
	(void)funi_send_commit(c, FUNI_REQUEST);
	m->handle = c->remote->next = h;
	m->reason = 0;
	m->operation = m->lost = 0;
	m->node = (uint16_t)slot[0];
	m->in_slot = in_slot;
	m->at = c->send[FUNI_REQUEST].committed;
	if (handle != NULL)
		*handle = h;
}

static inline void funi_put_key(uint32_t *slot, uint64_t key)
{
	slot[FUNI_REMOTE_KEY_WORD] = (uint32_t)key;
	slot[FUNI_REMOTE_KEY_WORD + 1] = (uint32_t)(key >> 32);
}

/* Makes a number the next that is taken: 0 if it is not free. */
static inline int funi_want_number(struct funi_numbers *s, uint16_t v)
{
	for (uint32_t i = 0; i < s->n; i++) {
		uint16_t *at = &s->free[(s->first + i) & (s->slots - 1)], *first = &s->free[s->first];
		if (*at == v) {
			*at = *first;
			*first = v;
			return 1;
		}
	}
	return 0;
}

/* Opens a key slot with a key; *key: 0: a new one. */
static inline int funi_open_key_slot(struct funi_context *c, const void *memory, uint32_t bytes, uint64_t at,
	uint32_t rights, uint32_t credit,
				     uint64_t *key, uint32_t *handle)
{
	const char *what = "exposing memory";
	uint32_t address, *s;
	uint64_t secret = 0;
	if (c->remote == NULL)
		return funi_remote_fail(c, -EOPNOTSUPP, what);
	struct funi_numbers *free = &c->remote->key_slots;
	if (bytes == 0 || (address = funi_address(c, memory, bytes, FUNI_KEYED)) == 0)
		return funi_remote_fail(c, -EFAULT, what);
	if (free->n == 0 || (*key != 0 && !funi_want_number(free, (uint16_t)*key)) ||
		(s = funi_begin_block(c, FUNI_OPEN_KEY_SLOT, 0)) == NULL)
		return funi_remote_fail(c, -ENOBUFS, what);
	uint16_t n = free->free[free->first];
	if (*key == 0) {
		if (getrandom(&secret, 6, 0) != 6)
			return funi_remote_fail(c, -errno, what);
		*key = secret << 16 | n;
	}
	funi_put_key(s, *key);
	s[FUNI_REMOTE_OFFSET_WORD] = address;
	s[FUNI_REMOTE_LENGTH_WORD] = bytes;
	s[FUNI_REMOTE_AREA_WORD] = rights;
	s[FUNI_REMOTE_COUNT_WORD] = credit;
	s[FUNI_REMOTE_DATA_WORD] = (uint32_t)at;
	s[FUNI_REMOTE_DATA_WORD + 1] = (uint32_t)(at >> 32);
	free->first = (free->first + 1) & (free->slots - 1);
	free->n--;
	c->remote->keys[n].key = *key;
	c->remote->keys[n].open = 1;
	c->remote->keys[n].credit = credit;
	c->remote->credit += credit;
	funi_end_block(c, s, 1, handle);
	return 0;
}

/* Gives a new key to memory in a segment with FUNI_KEYED. -EFAULT, -ENOBUFS, -EOPNOTSUPP, and
 * errors of getrandom(2). In this and what follows the handle is for funi_message_status; NULL:
 * nobody asks. */
static inline int funi_expose(struct funi_context *c, const void *memory, uint32_t bytes, uint64_t *key,
	uint32_t *handle)
{
	*key = 0;
	return funi_open_key_slot(c, memory, bytes, 0, 0, 0, key, handle);
}

/* Takes a key back. When the status of the handle is FUNI_SENT nobody who has it can write any
 * more. -ENOENT, -ENOBUFS. */
static inline int funi_revoke(struct funi_context *c, uint64_t key, uint32_t *handle)
{
	const uint16_t n = (uint16_t)key;
	uint32_t *s;
	if (c->remote == NULL || n >= c->remote->sizes.key_slots || !c->remote->keys[n].open ||
		c->remote->keys[n].key != key)
		return funi_remote_fail(c, -ENOENT, "revoking a key");
	if ((s = funi_begin_block(c, FUNI_CLOSE_KEY_SLOT, 0)) == NULL)
		return funi_remote_fail(c, -ENOBUFS, "revoking a key");
	funi_put_key(s, key);
	c->remote->keys[n].open = 0;
	c->remote->credit -= c->remote->keys[n].credit;
	funi_give_number(&c->remote->key_slots, n);
	funi_end_block(c, s, 1, handle);
	return 0;
}

/* Opens an area that counts for a key, with a credit, from 1 on. Its status is FUNI_FAILED with
 * FUNI_REASON_NOT_OPENED when there is no such key, or all areas together would have more credit
 * than the context has notifications. returns: not 0: what finds no credit comes back to its
 * sender. */
static inline int funi_open_area(struct funi_context *c, uint64_t key, uint32_t credit, int returns, uint16_t *area,
	uint32_t *handle)
{
	const char *what = "opening an area";
	uint32_t *s;
	*area = 0;
	if (c->remote == NULL)
		return funi_remote_fail(c, -EOPNOTSUPP, what);
	struct funi_numbers *free = &c->remote->areas;
	if (free->n == 0 || (s = funi_begin_block(c, FUNI_OPEN_AREA, 0)) == NULL)
		return funi_remote_fail(c, -ENOBUFS, what);
	*area = free->free[free->first];
	free->first = (free->first + 1) & (free->slots - 1);
	free->n--;
	funi_put_key(s, key);
	s[FUNI_REMOTE_AREA_WORD] = (uint32_t)*area << 16;
	s[FUNI_REMOTE_LENGTH_WORD] = credit;
	s[FUNI_REMOTE_COUNT_WORD] = returns != 0;
	c->remote->credits[*area] = credit;
	c->remote->credit += credit;
	funi_end_block(c, s, 1, handle);
	return 0;
}

static inline int funi_end_area(struct funi_context *c, uint32_t operation, uint16_t area, uint32_t *handle,
	const char *what)
{
	uint32_t *s;
	if (c->remote == NULL || area >= c->remote->sizes.areas)
		return funi_remote_fail(c, -ENOENT, what);
	if ((s = funi_begin_block(c, operation, 0)) == NULL)
		return funi_remote_fail(c, -ENOBUFS, what);
	s[FUNI_REMOTE_AREA_WORD] = (uint32_t)area << 16;
	funi_end_block(c, s, 1, handle);
	return 0;
}

/* Closes an area that funi_open_area has opened, once. What comes for it is refused, and its
 * records have to be read before its number is opened again. */
static inline int funi_close_area(struct funi_context *c, uint16_t area, uint32_t *handle)
{
	int code = funi_end_area(c, FUNI_CLOSE_AREA, area, handle, "closing an area");
	if (code == 0) {
		c->remote->credit -= c->remote->credits[area];
		funi_give_number(&c->remote->areas, area);
	}
	return code;
}

/* Makes the counter of an open area 0. What is under way still counts. */
static inline int funi_reset_area(struct funi_context *c, uint16_t area, uint32_t *handle)
{
	return funi_end_area(c, FUNI_RESET_AREA, area, handle, "resetting an area");
}

/* A seed for messages to the first bytes of a key's memory, each complete by itself. */
static inline struct funi_seed funi_make_seed(const struct funi_context *c, uint64_t key, uint16_t area, uint32_t size,
	uint8_t protocol)
{
	const struct funi_seed s = { { (uint16_t)c->node, area, key, 0, size, 0 }, protocol };
	return s;
}

/* CRC-32C (Castagnoli), bit by bit: seeds are short. */
static inline uint32_t funi_seed_sum(const uint8_t *b, size_t n)
{
	uint32_t sum = UINT32_MAX;
	for (size_t i = 0; i < n; i++) {
		sum ^= b[i];
		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (UINT32_C(0x82f63b78) & (0 - (sum & 1)));
	}
	return ~sum;
}

/* The seed's bytes: version, protocol, node (2), area (2), zero (2), key (8), offset (4), size (4),
 * count (4), CRC-32C of these (4). */
static inline void funi_encode_seed(const struct funi_seed *s, uint8_t b[FUNI_SEED_SIZE])
{
	const struct funi_ticket *t = &s->ticket;
	b[0] = FUNI_SEED_VERSION;
	b[1] = s->protocol;
	memcpy(b + 2, &t->node, 2);
	memcpy(b + 4, &t->area, 2);
	memset(b + 6, 0, 2);
	memcpy(b + 8, &t->key, 8);
	memcpy(b + 16, &t->offset, 4);
	memcpy(b + 20, &t->size, 4);
	memcpy(b + 24, &t->count, 4);
	uint32_t sum = funi_seed_sum(b, 28);
	memcpy(b + 28, &sum, 4);
}

/* Reads a seed: 0, or -EBADMSG: the bytes are none, were changed, or are of another version of
 * FUNet. Whether the receiver has such a key only its card knows. */
static inline int funi_decode_seed(const uint8_t *b, size_t n, struct funi_seed *s)
{
	struct funi_ticket *t = &s->ticket;
	uint32_t sum;
	if (n != FUNI_SEED_SIZE)
		return -EBADMSG;
	memcpy(&sum, b + 28, 4);
	if (b[0] != FUNI_SEED_VERSION || (b[6] | b[7]) != 0 || sum != funi_seed_sum(b, 28))
		return -EBADMSG;
	s->protocol = b[1];
	memcpy(&t->node, b + 2, 2);
	memcpy(&t->area, b + 4, 2);
	memcpy(&t->key, b + 8, 8);
	memcpy(&t->offset, b + 16, 4);
	memcpy(&t->size, b + 20, 4);
	memcpy(&t->count, b + 24, 4);
	return (uint64_t)t->offset + t->size > UINT64_C(1) << 32 ? -EBADMSG : 0;
}

static inline const char *funi_seed_letters(void) { return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"; }

/* The seed as text: 43 letters, digits, - and _, and a zero byte. Whoever reads it can write. */
static inline void funi_seed_text(const struct funi_seed *s, char text[FUNI_SEED_TEXT])
{
	uint8_t b[FUNI_SEED_SIZE + 1];
	funi_encode_seed(s, b);
	b[FUNI_SEED_SIZE] = 0;
	for (unsigned i = 0; i < FUNI_SEED_TEXT - 1; i++) {
		unsigned at = 6 * i / 8, low = (unsigned)b[at] << 8 | b[at + 1];
		text[i] = funi_seed_letters()[low >> (10 - 6 * i % 8) & 63];
	}
	text[FUNI_SEED_TEXT - 1] = 0;
}

/* funi_decode_seed of a text, in which ends of lines count for nothing. */
static inline int funi_parse_seed(const char *text, struct funi_seed *s)
{
	uint8_t b[FUNI_SEED_SIZE];
	uint32_t bits = 0, n = 0, letters = 0;
	for (; *text != 0; text++) {
		if (*text == '\r' || *text == '\n')
			continue;
		const char *at = strchr(funi_seed_letters(), *text);
		if (at == NULL || ++letters >= FUNI_SEED_TEXT)
			return -EBADMSG;
		bits = bits << 6 | (uint32_t)(at - funi_seed_letters());
		if ((n += 6) >= 8) {
			n -= 8;
			b[(6 * letters - n) / 8 - 1] = (uint8_t)(bits >> n);
			bits &= (1u << n) - 1;
		}
	}
	return letters != FUNI_SEED_TEXT - 1 || bits != 0 ? -EBADMSG : funi_decode_seed(b, sizeof b, s);
}

/* Takes the first bytes of the seed's memory off it, and makes part a seed for them: there is one
 * record when a message has come with each. -EINVAL, and nothing has changed: a part has at least a
 * byte and leaves one, and each needs a larger share of the count than the packets that fill it.
 * (Otherwise the counter could be 0 before all is there.) */
static inline int funi_split_seed(struct funi_seed *s, uint32_t bytes, struct funi_seed *part)
{
	struct funi_ticket *t = &s->ticket;
	uint64_t whole = t->count != 0 ? t->count : UINT64_C(1) << 32;
	if (bytes == 0 || bytes >= t->size)
		return -EINVAL;
	uint64_t least = bytes / FUNI_MAX_REMOTE_BYTES + 3, rest = (t->size - bytes) / FUNI_MAX_REMOTE_BYTES + 3;
	if (least + rest > whole)
		return -EINVAL;
	uint64_t share = least + (whole - least - rest) / 2;
	*part = *s;
	part->ticket.size = bytes;
	part->ticket.count = (uint32_t)share;
	t->offset += bytes;
	t->size -= bytes;
	t->count = (uint32_t)(whole - share);
	return 0;
}

static inline int funi_send_keyed(struct funi_context *c, const struct funi_ticket *t, uint32_t offset,
	const void *data, size_t length,
				  const uint32_t *metadata, uint32_t words, uint32_t counted, uint32_t *handle)
{
	const char *what = counted ? "sending a message" : "writing";
	const size_t most = (size_t)FUNI_MAX_TRANSFER_WORDS * 4;
	uint32_t source = 0, *s;
	if (c->remote == NULL)
		return funi_remote_fail(c, -EOPNOTSUPP, what);
	if (words > FUNI_MAX_METADATA || length > most || (uint64_t)offset + length > t->size)
		return funi_remote_fail(c, -EMSGSIZE, what);
	const int in_slot = length + words * 4 <= FUNI_MAX_REMOTE_BYTES;
	if (!in_slot && (source = funi_address(c, data, length, FUNI_SOURCE)) == 0)
		return funi_remote_fail(c, -EFAULT, what);
	if ((s = funi_begin_block(c, FUNI_REMOTE_PUT, t->node)) == NULL)
		return funi_remote_fail(c, -ENOBUFS, what);
	funi_put_key(s, t->key);
	s[FUNI_REMOTE_AREA_WORD] = (uint32_t)t->area << 16 | counted | words;
	s[FUNI_REMOTE_OFFSET_WORD] = t->offset + offset;
	s[FUNI_REMOTE_SOURCE_WORD] = source;
	s[FUNI_REMOTE_LENGTH_WORD] = (uint32_t)length;
	s[FUNI_REMOTE_COUNT_WORD] = t->count;
	if (words > 0)
		memcpy(s + FUNI_REMOTE_DATA_WORD, metadata, words * sizeof *s);
	if (in_slot && length > 0) {
		/* what the last word has beyond the data */
		s[FUNI_REMOTE_DATA_WORD + words + (length - 1) / 4] = 0;
		memcpy(s + FUNI_REMOTE_DATA_WORD + words, data, length);
	}
	funi_end_block(c, s, (uint32_t)in_slot, handle);
	return 0;
}

/* Launches a message to where the ticket says, with up to 11 words for its record. -EMSGSIZE: it is
 * longer than the ticket's size, or has more words. -EFAULT: it does not fit a packet, and lies in
 * no segment with FUNI_SOURCE. -ENOBUFS, -EOPNOTSUPP. */
static inline int funi_sendmsg(struct funi_context *c, const struct funi_ticket *t, const void *data, size_t length,
	const uint32_t *metadata,
			       uint32_t words, uint32_t *handle)
{
	return funi_send_keyed(c, t, 0, data, length, metadata, words, FUNI_REMOTE_COUNTED, handle);
}

/* Writes data at an offset from the ticket's, of which no record tells. Otherwise it is
 * funi_sendmsg. */
static inline int funi_write_remote(struct funi_context *c, const struct funi_ticket *t, uint32_t offset,
	const void *data, size_t length,
				    uint32_t *handle)
{
	return funi_send_keyed(c, t, offset, data, length, NULL, 0, 0, handle);
}

/* Why a request failed, or 0. taken: the card had given its slot back before it was heard what came
 * back. */
static inline uint32_t funi_failure(const struct funi_asked *m, int taken)
{
	return m->reason != 0 ? m->reason : m->lost && taken ? FUNI_UNTOLD : 0;
}

/* How far a message or another request has come: a funi_message_state, with the funi_reason of
 * FUNI_FAILED in reason, which may be NULL; call funi_returned until it returns 0 before. -ENOENT:
 * a handle is good for the next 1024 requests. */
static inline int funi_message_status(struct funi_context *c, uint32_t handle, uint32_t *reason)
{
	const struct funi_asked *m = c->remote != NULL ? &c->remote->asked[handle % FUNI_REMEMBERED] : NULL;
	if (m == NULL || handle == 0 || m->handle != handle)
		return funi_remote_fail(c, -ENOENT, "looking for a handle");
	const int taken = m->at <= funi_retired(c);
	funi_hear_lost(c);
	const uint32_t why = funi_failure(m, taken);
	if (reason != NULL)
		*reason = why;
	if (m->operation != 0 && why == 0)
		return m->operation == 2 ? FUNI_COMPLETE : FUNI_PENDING;
	return why != 0 ? FUNI_FAILED : taken ? FUNI_SENT : m->in_slot != 0 ? FUNI_COPIED : FUNI_PENDING;
}

/* The entry of the notification ring that has a number. */
static inline const uint32_t *funi_note(const struct funi_remote *r, uint32_t n)
{
	return r->ring + (size_t)(n & (r->sizes.notifications - 1)) * (FUNI_NOTE_BYTES / 4);
}

/* Gives the card back the completions that are the oldest entries of the ring. */
static inline void funi_pass_completions(struct funi_context *c)
{
	const uint32_t was = c->notes;
	for (; c->notes != c->remote->looked && funi_note(c->remote,
		c->notes)[FUNI_NOTE_KIND_WORD] == FUNI_NOTE_COMPLETION; c->notes++)
		c->remote->behind--;
	if (c->notes != was)
		funi_store(&c->page->notes_tail.word, c->notes);
}

/* How many operations are not complete. */
static inline uint64_t funi_operating(const struct funi_context *c)
{
	return c->remote->issued - c->remote->refused - __atomic_load_n(&c->page->completed, __ATOMIC_SEQ_CST);
}

/* Notes the completions that have come since. When the card has no operation any more, those of
 * which nothing was heard have come back. */
static inline void funi_look(struct funi_context *c)
{
	struct funi_remote *r = c->remote;
	const int settled = r->unsettled > 0 && funi_retired(c) >= r->up_to && funi_operating(c) == 0;
	const uint32_t head = funi_load(&c->page->notes_head.word);
	for (; r->looked != head; r->looked++) {
		const uint32_t *e = funi_note(r, r->looked);
		if (e[FUNI_NOTE_KIND_WORD] != FUNI_NOTE_COMPLETION)
			continue;
		r->behind++;
		funi_complete(r, e[0], e[1] >> 24, e + FUNI_NOTE_METADATA_WORD);
	}
	for (int i = 0; settled && i < FUNI_REMEMBERED; i++)
		if (r->asked[i].operation == 1) {
			funi_complete(r, r->asked[i].handle, FUNI_UNTOLD, NULL);
			r->unsettled--;
		}
	if (settled && r->unsettled > 0) {
		r->unsettled = 0;
		funi_complete(r, 0, FUNI_UNTOLD, NULL); /* of one without a handle */
	}
	funi_pass_completions(c);
}

/* Takes the oldest notification: 1, or 0 if there is none. Its area, or window, has one more credit
 * then. */
static inline int funi_notified(struct funi_context *c, struct funi_notification *n)
{
	if (c->remote == NULL)
		return 0;
	funi_look(c);
	if (c->notes == c->remote->looked)
		return 0;
	const uint32_t *e = funi_note(c->remote, c->notes);
	memset(n, 0, sizeof *n);
	uint32_t kind = e[FUNI_NOTE_KIND_WORD];
	n->kind = kind == FUNI_NOTE_WINDOW || kind == FUNI_NOTE_FAULT || kind == FUNI_NOTE_BARRIER ?
		(enum funi_note_kind)kind : FUNI_NOTE_AREA;
	n->key_slot = (uint16_t)(e[0] >> 16);
	n->source = (uint16_t)e[1];
	if (n->kind == FUNI_NOTE_BARRIER) {
		n->area = (uint16_t)e[0];
		n->reason = e[1] >> 24;
		c->barriers--;
	} else if (n->kind != FUNI_NOTE_AREA) {
		n->tag = (uint64_t)e[3] << 32 | e[2];
		n->address = (uint64_t)e[5] << 32 | e[4];
	} else {
		n->area = (uint16_t)e[0];
		n->words = e[1] >> 16 & 15;
		if (n->words > FUNI_MAX_METADATA)
			n->words = FUNI_MAX_METADATA;
		memcpy(n->metadata, e + FUNI_NOTE_METADATA_WORD, n->words * sizeof *e);
	}
	funi_store(&c->page->notes_tail.word, ++c->notes);
	funi_pass_completions(c);
	return 1;
}

/* funi_notified, by its name in Rats; in a program without windows all are of areas. */
static inline int funi_get_notification_record(struct funi_context *c,
	struct funi_notification *n) { return funi_notified(c, n); }

/* ---- windows: memory that others read, write and change by atomic operations ----
 *
 * A window is memory with a key, as funi_expose makes it, but with an address that its owner
 * chooses for its first byte, and with rights. Whoever has a funi_target, of node, key and address,
 * operates on it, and the owner has no part in that: the cards do it all.
 *
 *	// the owner
 *	funi_register_segment(&c, 0x10000, size, FUNI_KEYED, &memory);
 *	funi_expose_window(&c, memory, size, 0, FUNI_MAY_READ | FUNI_MAY_WRITE | FUNI_MAY_OPERATE, 0,
 *			   &key, NULL); // the key travels by a message
 *
 *	// another
 *	struct funi_target t = { node, key, 8 };
 *	uint64_t one = 1, was;
 *	funi_atomic(&c, &t, FUNI_OP_ADD, FUNI_U64, &one, sizeof one, &handle);
 *	funi_await(&c, handle, &was, sizeof was, 1000);
 *
 * Rules:
 *   - Each operation is carried out once, or fails with a funi_reason. With FUNI_REASON_SILENT,
 *     _RESTARTED, _DEPARTED, _RESYNCHRONISED, _GIVEN_UP and _WINDOW it may have been carried out
 *     all the same.
 *   - With a handle the program asks what became of it: funi_await, or funi_message_status after
 *     funi_notified. With NULL for the handle a put or a lone atomic operation is silent:
 *     funi_quiet waits for all, and tells the first failure of a silent one.
 *   - Operations are not ordered: who wants the second to come after the first awaits the first, or
 *     funi_quiet. The notification or signal of a put comes when all its data is there.
 *   - Elements are atomic, also with the owner's own atomic instructions. Bytes of puts and gets
 *     are not.
 *   - -ENOBUFS: the send queue is full, or as many operations are under way as the ring has room
 *     for beside the credits of areas and windows (1024 at most); go on after funi_wait and
 *     funi_notified. A program that never takes its notifications has none left.
 *   - A window has one lock (funi_lock). While a node has it, operations of others fail with
 *     FUNI_REASON_LOCKED. What a dead node has locked is free when the owner calls funi_suspend and
 *     funi_resume.
 *
 * The Go package uspace/rma is the same; example/structures.c is a queue and a hash table. */

struct funi_target {
	uint16_t node;
	uint64_t key, address;
};

struct funi_trailer { /* what a put does when all its data is there */
	int notify;   /* tells the owner of the window, which has FUNI_MAY_NOTIFY, with the tag */
	uint64_t tag;
	/* FUNI_TRAILER_SET or FUNI_TRAILER_ADD: changes a word of 64 bits at the same node by value; 0:
	 * none */
	int signal;
	uint64_t signal_key, signal_address, value;
};

/* Whether a window can be so. */
static inline int funi_is_window(uint32_t bytes, uint64_t address, uint32_t rights, uint32_t notifications)
{
	rights &= ~(uint32_t)FUNI_OPEN_ABSENT;
	return rights != 0 && (rights & ~15u) == 0 && address <= FUNI_MAX_ADDRESS &&
		(uint64_t)bytes <= FUNI_MAX_ADDRESS + 1 - address &&
	       (notifications == 0 || (rights & FUNI_MAY_NOTIFY) != 0);
}

/* Opens a window over memory in a segment with FUNI_KEYED, with an address of its first byte for
 * others, of 48 bits, funi_window_rights, and how many notifications of puts may be unread. When
 * the status of the handle is FUNI_SENT others may use it; with FUNI_OPEN_ABSENT among the rights
 * their operations wait for funi_resume from the start, so that memory can be filled before anybody
 * sees it. Its end is funi_revoke: when the status of that is FUNI_SENT nobody changes or reads the
 * memory any more. Errors as funi_expose has them, and -EINVAL. */
static inline int funi_expose_window(struct funi_context *c, const void *memory, uint32_t bytes, uint64_t address,
	uint32_t rights,
				     uint32_t notifications, uint64_t *key, uint32_t *handle)
{
	*key = 0;
	if (!funi_is_window(bytes, address, rights, notifications))
		return funi_remote_fail(c, -EINVAL, "exposing a window");
	return funi_open_key_slot(c, memory, bytes, address, rights, notifications, key, handle);
}

/* funi_expose_window with a key that was agreed on, whose lower 16 bits are the number of a key
 * slot: members of a chain have windows with the same key. It is as secret as whoever agreed on it,
 * and not 0. -ENOBUFS also if that key slot has a key, or is none of the context's. */
static inline int funi_expose_window_as(struct funi_context *c, const void *memory, uint32_t bytes, uint64_t address,
	uint32_t rights,
					uint32_t notifications, uint64_t key, uint32_t *handle)
{
	if (key == 0 || !funi_is_window(bytes, address, rights, notifications))
		return funi_remote_fail(c, -EINVAL, "exposing a window");
	return funi_open_key_slot(c, memory, bytes, address, rights, notifications, &key, handle);
}

static inline int funi_change_window(struct funi_context *c, uint32_t operation, uint64_t key, uint32_t *handle,
	const char *what)
{
	const uint16_t n = (uint16_t)key;
	uint32_t *s;
	if (c->remote == NULL || n >= c->remote->sizes.key_slots || !c->remote->keys[n].open ||
		c->remote->keys[n].key != key)
		return funi_remote_fail(c, -ENOENT, what);
	if ((s = funi_begin_block(c, operation, 0)) == NULL)
		return funi_remote_fail(c, -ENOBUFS, what);
	funi_put_key(s, key);
	funi_end_block(c, s, 1, handle);
	return 0;
}

/* Has operations on a window wait at their senders, until funi_resume or funi_revoke, or fail with
 * FUNI_REASON_WITHHELD when it takes too long (the daemon's connect_timeout, 30 s as a rule). Of
 * the first of them a window with credit (notifications) tells by a notification (FUNI_NOTE_FAULT),
 * which has to be read as all have: completions of this process's own operations come in the same
 * ring. -ENOENT, -ENOBUFS. */
static inline int funi_suspend(struct funi_context *c, uint64_t key, uint32_t *handle)
{
	return funi_change_window(c, FUNI_SUSPEND_WINDOW, key, handle, "suspending a window");
}

/* Ends that, and whoever had locked the window has it no more. -ENOENT, -ENOBUFS. */
static inline int funi_resume(struct funi_context *c, uint64_t key, uint32_t *handle)
{
	return funi_change_window(c, FUNI_RESUME_WINDOW, key, handle, "resuming a window");
}

/* Whether there is room for another operation: 0, -EOPNOTSUPP or -ENOBUFS. None leaves while others
 * came back untold. */
static inline int funi_may_operate(struct funi_context *c)
{
	if (c->remote == NULL)
		return -EOPNOTSUPP;
	funi_look(c);
	const uint64_t open = funi_operating(c);
	return open >= FUNI_MAX_REQUESTS || c->remote->unsettled > 0 ||
		open + c->remote->behind + c->remote->credit + funi_ungiven(c) + c->barriers >=
		c->remote->sizes.notifications ? -ENOBUFS : 0;
}

/* Reserves and begins the block of an operation; NULL, and why in code. */
static inline uint32_t *funi_begin_operation(struct funi_context *c, const struct funi_target *t, uint32_t operation,
	uint32_t flags, int told,
					     const char *what, int *code)
{
	*code = c->remote != NULL && t->address > FUNI_MAX_ADDRESS ? -EINVAL : funi_may_operate(c);
	uint32_t *s = *code == 0 ? funi_begin_block(c, FUNI_OPERATE + operation, t->node) : NULL;
	if (s == NULL) {
		*code = funi_remote_fail(c, *code != 0 ? *code : -ENOBUFS, what);
		return NULL;
	}
	s[FUNI_REMOTE_AREA_WORD] = flags | (told ? 0 : FUNI_OPERATE_SILENT);
	s[3] = (uint32_t)(t->address >> 32);
	funi_put_key(s, t->key);
	s[FUNI_REMOTE_OFFSET_WORD] = (uint32_t)t->address;
	return s;
}

static inline void funi_end_operation(struct funi_context *c, const uint32_t *slot, uint32_t in_slot, uint32_t *handle)
{
	uint32_t h;
	funi_end_block(c, slot, in_slot, &h);
	c->remote->asked[h % FUNI_REMEMBERED].operation = handle != NULL;
	c->remote->issued++;
	c->remote->up_to = c->send[FUNI_REQUEST].committed;
	if (handle != NULL)
		*handle = h;
}

/* Composes a trailer at the data of a block, and returns how many words it has: 0, 3, 6 or 8. */
static inline uint32_t funi_put_trailer(uint32_t *w, const struct funi_trailer *t)
{
	uint32_t n = 1;
	if (t == NULL || (!t->notify && t->signal == 0))
		return 0;
	w[0] = t->notify ? FUNI_TRAILER_NOTIFY : 0;
	if (t->notify) {
		w[n++] = (uint32_t)t->tag;
		w[n++] = (uint32_t)(t->tag >> 32);
	}
	if (t->signal != 0) {
		w[0] |= (uint32_t)t->signal | (uint32_t)(t->signal_address >> 32) << 16;
		w[n++] = (uint32_t)t->signal_key;
		w[n++] = (uint32_t)(t->signal_key >> 32);
		w[n++] = (uint32_t)t->signal_address;
		w[n++] = (uint32_t)t->value;
		w[n++] = (uint32_t)(t->value >> 32);
	}
	return n;
}

/* Writes data to a target; trailer: NULL, or what to do when it is there. Up to 64 bytes, less the
 * trailer's 12, 24 or 32, are copied at once; more lies in a segment with FUNI_SOURCE and stays as
 * it is until the put is complete. -EMSGSIZE: more than 2^26 bytes; -EFAULT, -EINVAL, -ENOBUFS,
 * -EOPNOTSUPP. */
static inline int funi_put(struct funi_context *c, const struct funi_target *t, const void *data, size_t length,
	const struct funi_trailer *trailer,
			   uint32_t *handle)
{
	const char *what = "putting";
	uint32_t w[8], source = 0, *s;
	int code;
	if (trailer != NULL && trailer->signal != 0 &&
		((trailer->signal != FUNI_TRAILER_SET && trailer->signal != FUNI_TRAILER_ADD) ||
							trailer->signal_address > FUNI_MAX_ADDRESS))
		return funi_remote_fail(c, -EINVAL, what);
	const uint32_t words = funi_put_trailer(w, trailer);
	const int in_slot = length + words * 4 <= FUNI_MAX_REMOTE_BYTES;
	if (length > (size_t)FUNI_MAX_TRANSFER_WORDS * 4)
		return funi_remote_fail(c, -EMSGSIZE, what);
	if (c->remote != NULL && !in_slot && (source = funi_address(c, data, length, FUNI_SOURCE)) == 0)
		return funi_remote_fail(c, -EFAULT, what);
	if ((s = funi_begin_operation(c, t, FUNI_OP_PUT, FUNI_OPERATE_ACK | words << 4, handle != NULL, what,
		&code)) == NULL)
		return code;
	s[FUNI_REMOTE_SOURCE_WORD] = source;
	s[FUNI_REMOTE_LENGTH_WORD] = (uint32_t)length;
	memcpy(s + FUNI_REMOTE_DATA_WORD, w, words * sizeof *w);
	if (in_slot && length > 0) {
		/* what the last word has beyond the data */
		s[FUNI_REMOTE_DATA_WORD + words + (length - 1) / 4] = 0;
		memcpy(s + FUNI_REMOTE_DATA_WORD + words, data, length);
	}
	funi_end_operation(c, s, (uint32_t)in_slot, handle);
	return 0;
}

/* Reads bytes of a target into memory of a segment with FUNI_KEYED, where they are when the
 * operation is complete. Errors as funi_put has them. */
static inline int funi_get(struct funi_context *c, const struct funi_target *t, void *into, size_t length,
	uint32_t *handle)
{
	const char *what = "getting";
	uint32_t address = 0, *s;
	int code;
	if (length > (size_t)FUNI_MAX_TRANSFER_WORDS * 4)
		return funi_remote_fail(c, -EMSGSIZE, what);
	if (c->remote != NULL && length > 0 && (address = funi_address(c, into, length, FUNI_KEYED)) == 0)
		return funi_remote_fail(c, -EFAULT, what);
	if ((s = funi_begin_operation(c, t, FUNI_OP_GET, 0, handle != NULL, what, &code)) == NULL)
		return code;
	s[FUNI_REMOTE_SOURCE_WORD] = address;
	s[FUNI_REMOTE_LENGTH_WORD] = (uint32_t)length;
	funi_end_operation(c, s, 0, handle);
	return 0;
}

static inline uint32_t funi_element_bytes(enum funi_element e)
{
	return e == FUNI_F32 ? 4 : e == FUNI_F64 ? 8 : 1u << (e & 3);
}

/* Carries out FUNI_OP_WRITE to FUNI_OP_MASKED_SWAP on elements of that many bytes together at a
 * target, each atomically. Operands are those of all elements, for FUNI_OP_COMPARE_SWAP first all
 * that are compared, for FUNI_OP_MASKED_SWAP the masks second; FUNI_OP_READ has none (NULL). What
 * the elements were is what funi_await answers, but for FUNI_OP_WRITE. Several elements, at most 4,
 * can only be read, written, added to and swapped, and are integers of 32 or 64 bits. -EINVAL:
 * something else; otherwise as funi_put. */
static inline int funi_atomic(struct funi_context *c, const struct funi_target *t, enum funi_operation operation,
	enum funi_element element,
			      const void *operands, uint32_t bytes, uint32_t *handle)
{
	const char *what = "operating";
	const uint32_t twice = operation == FUNI_OP_COMPARE_SWAP || operation == FUNI_OP_MASKED_SWAP ? 2 : 1;
	const uint32_t given = operation == FUNI_OP_READ ? 0 : bytes * twice;
	const uint32_t fetch = operation == FUNI_OP_READ ? 0 :
		operation != FUNI_OP_WRITE && handle != NULL ? FUNI_OPERATE_FETCH : FUNI_OPERATE_ACK;
	uint32_t *s;
	int code;
	if (operation < FUNI_OP_WRITE || operation > FUNI_OP_MASKED_SWAP || element > FUNI_F64 || bytes == 0 ||
		bytes > FUNI_MAX_ANSWER ||
	    bytes % funi_element_bytes(element) != 0)
		return funi_remote_fail(c, -EINVAL, what);
	if ((s = funi_begin_operation(c, t, operation, (uint32_t)element | fetch, handle != NULL, what, &code)) == NULL)
		return code;
	s[FUNI_REMOTE_LENGTH_WORD] = bytes;
	if (given > 0) {
		s[FUNI_REMOTE_DATA_WORD + (given - 1) / 4] = 0;
		memcpy(s + FUNI_REMOTE_DATA_WORD, operands, given);
	}
	funi_end_operation(c, s, 1, handle);
	return 0;
}

/* Waits for something to happen until the given milliseconds are over since begin. */
static inline int funi_wait_until(struct funi_context *c, int64_t begin, int milliseconds, const char *what)
{
	const int64_t over = (funi_clock() - begin) / 1000000;
	if (milliseconds >= 0 && over >= milliseconds)
		return funi_fail(c, -ETIMEDOUT, what);
	const int n = funi_wait(c, milliseconds < 0 ||
		milliseconds - over > FUNI_NAP ? FUNI_NAP : (int)(milliseconds - over));
	return n < 0 ? n : 0;
}

/* Waits until a request is done, at most the given milliseconds, for ever if negative: an operation
 * is complete, or another request has the status FUNI_SENT. answer: NULL, or where that many first
 * bytes of what an operation on elements answers go, at most FUNI_MAX_ANSWER. -EREMOTEIO: it has
 * failed, and funi_message_status has the funi_reason; -ENOENT: no such handle, or one of more than
 * 1024 requests ago; -ETIMEDOUT, -EINTR and -ENOTCONN, as funi_wait. */
static inline int funi_await(struct funi_context *c, uint32_t handle, void *answer, uint32_t bytes, int milliseconds)
{
	const char *what = "awaiting an operation";
	const int64_t begin = funi_clock();
	if (c->remote == NULL || handle == 0)
		return funi_remote_fail(c, c->remote == NULL ? -EOPNOTSUPP : -ENOENT, what);
	const struct funi_asked *m = &c->remote->asked[handle % FUNI_REMEMBERED];
	for (;;) {
		/* before looking at what came back: that is told first */
		const int taken = m->at <= funi_retired(c);
		funi_take_back(c);
		funi_look(c);
		if (m->handle != handle)
			return funi_remote_fail(c, -ENOENT, what);
		if (funi_failure(m, taken) != 0) {
			(void)snprintf(c->error, sizeof c->error,
				"%s: it was refused or nobody knows, for reason %u (enum funi_reason, or FUNI_UNTOLD)", what,
				funi_failure(m, taken));
			return -EREMOTEIO;
		}
		if (m->operation == 2 && answer != NULL)
			memcpy(answer, m->answer, bytes < FUNI_MAX_ANSWER ? bytes : FUNI_MAX_ANSWER);
		if (m->operation == 2 || (m->operation == 0 && taken))
			return 0;
		int n = funi_wait_until(c, begin, milliseconds, what);
		if (n < 0)
			return n;
	}
}

/* Waits until all operations are complete, at most the given milliseconds, for ever if negative.
 * -EREMOTEIO: one without a handle has failed since the last time; c->error has the funi_reason of
 * the first. Otherwise as funi_await. */
static inline int funi_quiet(struct funi_context *c, int milliseconds)
{
	const char *what = "waiting for all operations";
	const int64_t begin = funi_clock();
	if (c->remote == NULL)
		return 0;
	for (;;) {
		/* before looking: an operation is told before it is counted */
		const int open = funi_operating(c) > 0;
		funi_take_back(c);
		funi_look(c);
		if ((!open || funi_operating(c) == 0) && c->remote->unsettled == 0)
			break;
		int n = funi_wait_until(c, begin, milliseconds, what);
		if (n < 0)
			return n;
	}
	funi_look(c);
	if (c->remote->failed == 0)
		return 0;
	(void)snprintf(c->error, sizeof c->error,
		"%s: one without a handle has failed, for reason %u (enum funi_reason, or FUNI_UNTOLD)", what,
		c->remote->failed);
	c->remote->failed = 0;
	return -EREMOTEIO;
}

/* Locks, or unlocks, and waits for it. */
static inline int funi_change_lock(struct funi_context *c, const struct funi_target *t, uint32_t operation,
	int64_t begin, int milliseconds)
{
	const struct funi_target all = { t->node, t->key, 0 };
	const char *what = operation == FUNI_OP_LOCK ? "locking a window" : "unlocking a window";
	uint32_t handle, *s;
	int code, n;
	while ((s = funi_begin_operation(c, &all, operation, FUNI_OPERATE_ACK, 1, what, &code)) == NULL) {
		if (code != -ENOBUFS)
			return code;
		funi_take_back(c);
		if ((n = funi_wait_until(c, begin, milliseconds, what)) < 0)
			return n;
	}
	s[FUNI_REMOTE_DATA_WORD] = c->remote->life;
	funi_end_operation(c, s, 1, &handle);
	return funi_await(c, handle, NULL, 0, milliseconds);
}

/* Locks the window of a target for this node, and waits until it has that, at most the given
 * milliseconds, for ever if negative. -ETIMEDOUT: another has it still, or its host does not
 * answer, and then this node may have it. -EREMOTEIO and others as funi_await. */
static inline int funi_lock(struct funi_context *c, const struct funi_target *t, int milliseconds)
{
	const int64_t begin = funi_clock();
	for (int pause = 1;; pause = pause < 64 ? 2 * pause : 64) {
		int n = funi_change_lock(c, t, FUNI_OP_LOCK, begin, milliseconds);
		if (n != -EREMOTEIO || c->remote->asked[c->remote->next % FUNI_REMEMBERED].reason != FUNI_REASON_LOCKED)
			return n;
		for (int i = 0; i < pause; i++)
			if ((n = funi_wait_until(c, begin, milliseconds, "locking a window")) < 0)
				return n;
	}
}

/* Ends the lock, when all operations of this process are complete. -EREMOTEIO: this process has not
 * locked the window, or its host has failed; otherwise as funi_await. A failure of a silent
 * operation, which funi_quiet would tell, stays to be told. */
static inline int funi_unlock(struct funi_context *c, const struct funi_target *t, int milliseconds)
{
	const int64_t begin = funi_clock();
	while (c->remote != NULL && funi_operating(c) > 0) {
		funi_take_back(c);
		funi_look(c);
		int n = funi_operating(c) > 0 ? funi_wait_until(c, begin, milliseconds, "unlocking a window") : 0;
		if (n < 0)
			return n;
	}
	return funi_change_lock(c, t, FUNI_OP_UNLOCK, begin, milliseconds);
}

/* ---- chains: one message, or one write, to many nodes ----
 *
 * A chain is a tree of nodes: each says from which node it takes copies and to which nodes its card
 * sends them on. Whoever sends along it sends one copy, to the first member; the cards of the
 * members do the rest, and answer the sender.
 *
 *	// Nodes 0, 1 and 2 make chain 5. Of node 0: node 1, and 2 members from there on.
 *	struct funi_chain at = { .number = 5, .first = 1, .nexts = 1, .next = { { 1, 2 } } };
 *
 *	// Of node 1.
 *	struct funi_chain at = { .number = 5, .parent = 0, .nexts = 1, .next = { { 2, 1 } } };
 *
 *	// Of node 2.
 *	struct funi_chain at = { .number = 5, .parent = 1 };
 *
 *	// Of each of them.
 *	funi_join(&c, &at, NULL);
 *	... funi_receive: a message of that type from the sender ...
 *
 *	// Any node of the job.
 *	funi_multicast(&c, 0, 5, 3, type, words, 2, &handle);
 *	funi_await(&c, handle, NULL, 0, -1);
 *	funi_delivered(&c, handle, &d);
 *
 * Rules:
 *   - Without a failure every member has it, once: a message in its request queue, from the node
 *     that has sent along the chain, or data in its window (funi_multicast_put), which all members
 *     have opened with the same key (funi_expose_window_as).
 *   - A member that refuses is named with the funi_reason, and who comes after it has it neither.
 *     Of one whose card was lost while its copy was under way (FUNI_REASON_SILENT, RESTARTED,
 *     DEPARTED, RESYNCHRONISED, KEY), and of those after it, nobody knows: they are doubtful, and
 *     so are those of which nothing was heard. Each member is counted once.
 *   - A member takes copies from its parent only, and only if they are to reach as many members as
 *     it knows of. So no copy goes round in a loop.
 *   - A member has room for 4 multicasts of a chain at once; more wait at who sends them, and no
 *     other chain with them.
 *   - A multicast counts as an operation: -ENOBUFS, funi_await, funi_quiet and NULL for the handle
 *     as with windows. The context has remote memory, if only one key slot, area and notification
 *     more than it uses.
 *   - Multicasts are not ordered: who wants the second to come after the first awaits the first.
 *
 * The Go package uspace/rma is the same; example/chain.c is a program. */

struct funi_next { /* a node that a member sends copies to */
	uint16_t node, members; /* from there on, that node included */
};

struct funi_chain { /* what a member knows of a chain */
	uint16_t number; /* below FUNI_MAX_CHAINS */
	/* the first member, which takes what any node of the job sends along the chain */
	int first;
	uint16_t parent; /* of another member: the node from which it takes copies */
	uint32_t nexts;  /* of next */
	struct funi_next next[FUNI_MAX_NEXT];
};

struct funi_broken { /* where a chain is broken */
	uint16_t node;
	uint32_t reason; /* funi_reason */
};

struct funi_delivery { /* what a multicast has come to */
	uint32_t delivered, failed; /* members that have it, and that do not */
	uint32_t doubtful;          /* members of which nobody knows */
	/* nodes in broken, at most FUNI_MAX_NAMED, which did not take it, or may not have */
	uint32_t named;
	struct funi_broken broken[FUNI_MAX_NAMED];
};

/* Makes this node a member of a chain, in place of what it was of that before. When the status of
 * the handle is FUNI_SENT the card takes multicasts along it; it is FUNI_FAILED with
 * FUNI_REASON_NOT_OPENED if two next nodes are the same or have no members. -EINVAL: numbers beyond
 * the bounds; -ENOBUFS, -EOPNOTSUPP. */
static inline int funi_join(struct funi_context *c, const struct funi_chain *chain, uint32_t *handle)
{
	const char *what = "joining a chain";
	uint32_t *s;
	if (c->remote == NULL)
		return funi_remote_fail(c, -EOPNOTSUPP, what);
	if (chain->number >= FUNI_MAX_CHAINS || chain->nexts > FUNI_MAX_NEXT)
		return funi_remote_fail(c, -EINVAL, what);
	if ((s = funi_begin_block(c, FUNI_SET_CHAIN, 0)) == NULL)
		return funi_remote_fail(c, -ENOBUFS, what);
	s[FUNI_REMOTE_AREA_WORD] = chain->number | chain->nexts << 16 | (chain->first ? FUNI_CHAIN_FIRST : 0);
	s[FUNI_REMOTE_COUNT_WORD] = chain->first ? 0 : chain->parent;
	for (uint32_t i = 0; i < FUNI_MAX_NEXT; i++)
		s[FUNI_REMOTE_DATA_WORD + i] = i < chain->nexts ? chain->next[i].node | (uint32_t)chain->next[i].members << 16 : 0;
	funi_end_block(c, s, 1, handle);
	return 0;
}

/* Ends being a member; what the card has taken before, it sends on. The status of the handle is
 * FUNI_FAILED with FUNI_REASON_NOT_OPENED if it was none. -EINVAL, -ENOBUFS, -EOPNOTSUPP. */
static inline int funi_leave(struct funi_context *c, uint16_t number, uint32_t *handle)
{
	const char *what = "leaving a chain";
	uint32_t *s;
	if (c->remote == NULL)
		return funi_remote_fail(c, -EOPNOTSUPP, what);
	if (number >= FUNI_MAX_CHAINS)
		return funi_remote_fail(c, -EINVAL, what);
	if ((s = funi_begin_block(c, FUNI_SET_CHAIN, 0)) == NULL)
		return funi_remote_fail(c, -ENOBUFS, what);
	s[FUNI_REMOTE_AREA_WORD] = number | FUNI_CHAIN_LEAVES;
	memset(s + FUNI_REMOTE_DATA_WORD, 0, FUNI_MAX_NEXT * sizeof *s);
	funi_end_block(c, s, 1, handle);
	return 0;
}

/* Sends along a chain from its first member on what stands in data, of that many bytes. */
static inline int funi_send_along(struct funi_context *c, uint16_t first, uint16_t chain, uint16_t members,
	uint32_t flags, const struct funi_target *t,
				  const void *data, size_t length, uint32_t *handle, const char *what)
{
	uint32_t h, *s;
	int code = funi_may_operate(c);
	if (code == 0 && (s = funi_begin_block(c, FUNI_MULTICAST, first)) == NULL)
		code = -ENOBUFS;
	if (code != 0)
		return funi_remote_fail(c, code, what);
	s[FUNI_REMOTE_AREA_WORD] = chain | flags;
	if (t != NULL) {
		s[3] = (uint32_t)(t->address >> 32);
		funi_put_key(s, t->key);
		s[FUNI_REMOTE_OFFSET_WORD] = (uint32_t)t->address;
	}
	s[FUNI_REMOTE_LENGTH_WORD] = (uint32_t)length;
	s[FUNI_REMOTE_COUNT_WORD] = members;
	if (length > 0) {
		/* what the last word has beyond the data */
		s[FUNI_REMOTE_DATA_WORD + (length - 1) / 4] = 0;
		memcpy(s + FUNI_REMOTE_DATA_WORD, data, length);
	}
	h = s[FUNI_REMOTE_COOKIE_WORD];
	memset(c->remote->asked[h % FUNI_REMEMBERED].answer, 0, FUNI_MAX_ANSWER);
	funi_end_operation(c, s, 1, handle);
	return 0;
}

/* Sends a message of a type up to 511 and of up to FUNI_MAX_MULTICAST_WORDS words along a chain
 * that begins at a node and has that many members, each of which finds it in its request queue,
 * from this node. -EINVAL: no such chain or type; -EMSGSIZE, -ENOBUFS, -EOPNOTSUPP. */
static inline int funi_multicast(struct funi_context *c, uint16_t first, uint16_t chain, uint16_t members,
	uint32_t type, const uint32_t *words,
				 uint32_t n, uint32_t *handle)
{
	const char *what = "sending along a chain";
	if (chain >= FUNI_MAX_CHAINS || members == 0 || type > FUNI_MAX_TYPE || n > FUNI_MAX_MULTICAST_WORDS)
		return funi_remote_fail(c, n > FUNI_MAX_MULTICAST_WORDS ? -EMSGSIZE : -EINVAL, what);
	return funi_send_along(c, first, chain, members, type << 16, NULL, words, n * sizeof *words, handle, what);
}

/* Writes up to FUNI_MAX_MULTICAST_BYTES bytes into the window with a key of each member of a chain,
 * at an address that the window has. Errors as funi_multicast has them. */
static inline int funi_multicast_put(struct funi_context *c, uint16_t first, uint16_t chain, uint16_t members,
	uint64_t key, uint64_t address,
				     const void *data, size_t length, uint32_t *handle)
{
	const char *what = "putting along a chain";
	const struct funi_target t = { first, key, address };
	if (chain >= FUNI_MAX_CHAINS || members == 0 || address > FUNI_MAX_ADDRESS || length > FUNI_MAX_MULTICAST_BYTES)
		return funi_remote_fail(c, length > FUNI_MAX_MULTICAST_BYTES ? -EMSGSIZE : -EINVAL, what);
	return funi_send_along(c, first, chain, members, FUNI_MULTICAST_PUT, &t, data, length, handle, what);
}

/* What a multicast has come to for which funi_await has returned 0 or -EREMOTEIO: 0, -EINPROGRESS
 * if it is not complete, or -ENOENT. */
static inline int funi_delivered(struct funi_context *c, uint32_t handle, struct funi_delivery *d)
{
	const struct funi_asked *m = c->remote != NULL ? &c->remote->asked[handle % FUNI_REMEMBERED] : NULL;
	uint32_t w[FUNI_MAX_ANSWER / 4];
	memset(d, 0, sizeof *d);
	if (m == NULL || handle == 0 || m->handle != handle)
		return funi_remote_fail(c, -ENOENT, "looking for a handle");
	if (m->operation == 1)
		return funi_remote_fail(c, -EINPROGRESS, "asking for what is not complete");
	memcpy(w, m->answer, sizeof w);
	d->delivered = w[0] & 0xffff;
	d->failed = w[0] >> 16;
	d->named = w[1] & 0xffff;
	d->doubtful = w[1] >> 16;
	for (uint32_t i = 0; i < d->named && i < FUNI_MAX_NAMED; i++) {
		d->broken[i].node = (uint16_t)w[2 + i];
		d->broken[i].reason = w[2 + i] >> 16 & 0xff;
	}
	return 0;
}

/* ---- ULTRA paths (uspace/funi/path.go; Froening's thesis, section 3.5) ---- */

/* A path leads from one process to another. One store sends a line of up to 7 words of 64 bits, one
 * load receives it, once and in order. Both processes open their end, within 5 seconds. Ends for
 * one node are joined in the order in which they are opened. Receiver, then sender:
 *
 *	funi_ultra_open(&c, &p, 1, memory, 64, NULL);   // from node 1, 64 slices
 *	while ((n = funi_ultra_receive(&p, words)) == -EAGAIN)
 *		funi_wait(&c, 1000);                    // with funi_watch(&c, 1)
 *
 *	funi_ultra_open(&c, &p, 0, memory, 0, NULL);    // to node 0
 *	while ((n = funi_ultra_send(&p, words, 2)) == -EAGAIN)
 *		funi_wait(&c, 1000);
 */
#define FUNI_OPEN_PATH 272
#define FUNI_CLOSE_PATH 273
#define FUNI_PATH_WORDS 7
#define FUNI_MIN_SLICES 32
#define FUNI_MAX_SLICES 16384

enum funi_path_state { FUNI_PATH_OPENING, FUNI_PATH_OPEN, FUNI_PATH_ENDED };

struct funi_path {
	struct funi_context *c;
	uint64_t *words;
	uint32_t address, slices;
	uint32_t turn, flags, taken; /* of an end that sends; flags: whether a line awaits its answer */
	uint32_t next, told;         /* of an end that receives */
};

/* The size of the memory of an end with that many slices, or 0: no end has so many. */
static inline uint64_t funi_path_bytes(uint32_t slices)
{
	if (slices != 0 && (slices < FUNI_MIN_SLICES || slices > FUNI_MAX_SLICES || (slices & (slices - 1)) != 0))
		return 0;
	return (32 + (uint64_t)slices * 8) * 8;
}

/* Opens the end of a path to a node: one that receives, with that many slices, or with 0 one that
 * sends. memory, of funi_path_bytes on a multiple of 64 in a segment with FUNI_KEYED, is the path's
 * until the status of the handle of funi_ultra_close is FUNI_SENT, or FUNI_FAILED: the path had
 * ended. The status of this handle is FUNI_FAILED if there is no room for the end. -EINVAL,
 * -EFAULT, -ENOBUFS, -EOPNOTSUPP. */
static inline int funi_ultra_open(struct funi_context *c, struct funi_path *p, uint16_t node, void *memory,
	uint32_t slices, uint32_t *handle)
{
	const uint64_t bytes = funi_path_bytes(slices);
	uint32_t address, *s;
	memset(p, 0, sizeof *p);
	if (c->remote == NULL)
		return funi_remote_fail(c, -EOPNOTSUPP, "opening a path");
	if (bytes == 0 || (uintptr_t)memory % 64 != 0)
		return funi_remote_fail(c, -EINVAL, "opening a path");
	if ((address = funi_address(c, memory, bytes, FUNI_KEYED)) == 0)
		return funi_remote_fail(c, -EFAULT, "opening a path");
	if ((s = funi_begin_block(c, FUNI_OPEN_PATH, node)) == NULL)
		return funi_remote_fail(c, -ENOBUFS, "opening a path");
	memset(memory, 0, bytes);
	p->c = c;
	p->words = (uint64_t *)memory;
	p->address = address;
	p->slices = slices;
	s[FUNI_REMOTE_SOURCE_WORD] = address;
	s[FUNI_REMOTE_LENGTH_WORD] = slices;
	funi_end_block(c, s, 1, handle);
	return 0;
}

/* Closes an end. What is under way still arrives. The other end hears of it when it sends, or
 * within seconds. -ENOBUFS. */
static inline int funi_ultra_close(struct funi_path *p, uint32_t *handle)
{
	uint32_t *s = funi_begin_block(p->c, FUNI_CLOSE_PATH, 0);
	if (s == NULL)
		return funi_remote_fail(p->c, -ENOBUFS, "closing a path");
	s[FUNI_REMOTE_SOURCE_WORD] = p->address;
	funi_end_block(p->c, s, 1, handle);
	return 0;
}

/* The state of an end, and the funi_reason for which it has ended. */
static inline enum funi_path_state funi_ultra_state(struct funi_path *p, uint32_t *reason)
{
	uint64_t w = __atomic_load_n(&p->words[16], __ATOMIC_ACQUIRE);
	*reason = (uint32_t)(w >> 8 & 0xff);
	return (enum funi_path_state)(w & 0xff);
}

static inline void funi_ultra_store(struct funi_path *p, uint32_t n)
{
	uint32_t asleep;
	__atomic_store_n(&p->words[7], (uint64_t)++p->turn << 32 | n, __ATOMIC_SEQ_CST);
	p->flags = 1 | n << 8;
	if ((asleep = funi_load(&p->c->page->asleep)) != 0)
		funi_rouse(p->c, asleep);
}

/* Whether the card has taken the last line: 0, or -EAGAIN: not yet, or the path was full and the
 * line has been stored again. -ECONNRESET: the path has ended. -EINVAL: the card does not take
 * it. */
static inline int funi_ultra_taken(struct funi_path *p)
{
	uint32_t reason;
	uint64_t answer = __atomic_load_n(&p->words[8], __ATOMIC_ACQUIRE);
	if (p->flags == 0)
		return 0;
	if ((uint32_t)(answer >> 32) == p->turn && (answer & 0xff) == 0) {
		p->flags = 0;
		p->taken++;
		return 0;
	}
	if (funi_ultra_state(p, &reason) == FUNI_PATH_ENDED)
		return -ECONNRESET;
	if ((uint32_t)(answer >> 32) == p->turn) {
		if ((answer & 0xff) == 2)
			return -EINVAL;
		funi_ultra_store(p, p->flags >> 8);
	}
	return -EAGAIN;
}

/* Stores a line of n words, 1 to 7; 0: it is the last of the path. -EAGAIN: the path is not open
 * yet, or the card has not taken the line before; see funi_ultra_taken. */
static inline int funi_ultra_send(struct funi_path *p, const uint64_t *words, uint32_t n)
{
	uint32_t reason;
	int code = n > FUNI_PATH_WORDS ? -EINVAL : funi_ultra_taken(p);
	if (code == 0 && p->taken == 0 && p->turn == 0)
		switch (funi_ultra_state(p, &reason)) {
		case FUNI_PATH_OPENING:
			code = -EAGAIN;
			break;
		case FUNI_PATH_ENDED:
			code = -ECONNRESET;
			break;
		default:
			break;
		}
	if (code != 0)
		return code;
	for (uint32_t i = 0; i < n; i++)
		__atomic_store_n(&p->words[7 - n + i], words[i], __ATOMIC_RELAXED);
	funi_ultra_store(p, n);
	return 0;
}

/* 0: the target's card has all lines; otherwise as funi_ultra_taken. */
static inline int funi_ultra_flushed(struct funi_path *p)
{
	uint32_t reason;
	int code = funi_ultra_taken(p);
	if (code != 0 || (uint32_t)__atomic_load_n(&p->words[9], __ATOMIC_ACQUIRE) == p->taken)
		return code;
	return funi_ultra_state(p, &reason) == FUNI_PATH_ENDED ? -ECONNRESET : -EAGAIN;
}

/* Copies the next line, whose length it returns; 0: it was the last. -EAGAIN: it is not there;
 * -ECONNRESET: the path has ended, and nothing is left of it. */
static inline int funi_ultra_receive(struct funi_path *p, uint64_t words[FUNI_PATH_WORDS])
{
	uint64_t *slice = p->words + 32 + (uint64_t)(p->next & (p->slices - 1)) * 8;
	uint64_t status = __atomic_load_n(&slice[7], __ATOMIC_ACQUIRE);
	uint32_t n = (uint32_t)(status >> 16 & 0xffff), reason;
	if (status >> 63 == 0 || (uint16_t)status != (uint16_t)p->next) {
		if (funi_ultra_state(p, &reason) != FUNI_PATH_ENDED)
			return -EAGAIN;
		status = __atomic_load_n(&slice[7], __ATOMIC_ACQUIRE); /* it may have come before the end */
		return status >> 63 != 0 && (uint16_t)status == (uint16_t)p->next ? -EAGAIN : -ECONNRESET;
	}
	if (n > FUNI_PATH_WORDS)
		n = FUNI_PATH_WORDS;
	for (uint32_t i = 0; i < n; i++)
		words[i] = slice[i];
	if (++p->next - p->told >= p->slices / 4) {
		p->told = p->next;
		__atomic_store_n(&p->words[24], (uint64_t)p->next, __ATOMIC_RELEASE);
	}
	return (int)n;
}

/* ---- the end ---- */

/* Waits until everything sent has arrived, at most the given number of milliseconds, and discards
 * meanwhile what the program has not received. Then it ends the context, whatever it returns.
 * FUNI_ERR_BUSY: something was left undelivered. -EINTR: a signal ended the wait. Memory of
 * segments stays mapped. */
static inline int funi_close(struct funi_context *c, uint32_t linger)
{
	struct funi_detach_request r = { funi_message_header(FUNI_KIND_DETACH, sizeof r), linger, 0 };
	struct funi_message a;
	struct pollfd p[2] = { { c->socket, POLLIN, 0 }, { c->process, POLLIN, 0 } };
	int most = linger < 1000000000 ? (int)linger : 1000000000;
	int code = funi_request(c, "detaching", &r, sizeof r);

	while (code == 0 && p[0].revents == 0) {
		uint64_t count;
		struct funi_return back;
		funi_set_wake(c, FUNI_WAKE_ONCE);
		for (int l = 0; l < 2; l++)
			while (funi_receive(c, (enum funi_level)l) != NULL)
				funi_release(c, (enum funi_level)l);
		while (funi_returned(c, &back))
			;
		int n = poll(p, 2, most + FUNI_ANSWER_SECONDS * 1000);
		if (n == 0)
			code = funi_fail(c, -ETIMEDOUT, "detaching");
		else if (n < 0 ||
			 (n > 0 && p[1].revents != 0 && read(c->process, &count, sizeof count) < 0 && errno != EAGAIN))
			code = funi_fail(c, -errno, "detaching");
	}
	if (code == 0)
		code = funi_answer(c, "detaching", FUNI_KIND_DETACH, &a, sizeof a, NULL, 0);
	funi_release_all(c);
	return code;
}

#endif /* FUNI_H */
