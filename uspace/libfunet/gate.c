/* gate.c: the functions of funet.h. Each checks that the process may call, and crosses into Go with
 * numbers; see doc.go. */
#define _GNU_SOURCE
#include "gate.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <linux/membarrier.h>
#include <sys/syscall.h>

#include "_cgo_export.h"

/* ---- what a thread has ---- */

static _Thread_local char text[1024];
static _Thread_local uint32_t refused;

void libfunet_tell(const char *why, size_t length, uint32_t refusal)
{
	length = length < sizeof text ? length : sizeof text - 1;
	memcpy(text, why, length);
	text[length] = 0;
	refused = refusal;
}

static int of_child(void)
{
	static const char why[] = "funet: a child of fork cannot use the library; call exec first";
	libfunet_tell(why, sizeof why - 1, 0);
	return FUNET_FORKED;
}

/* Returns 0 if the thread may cross. */
static inline int enter(void)
{
	return __builtin_expect(guest_enter() == 0, 1) ? 0 : of_child();
}

/* ---- what C answers itself ---- */

enum { INDICES = 1 << INDEX_BITS };

static struct {
	_Atomic uintptr_t handle;
	uint32_t node, nodes;
} places[INDICES];

static struct {
	_Atomic uintptr_t handle;
	int fd;
} signals[INDICES];

static uint32_t at(uintptr_t handle) { return (uint32_t)(handle >> KIND_BITS) % INDICES; }

void libfunet_place(uint32_t index, uintptr_t handle, uint32_t node, uint32_t nodes)
{
	places[index].node = node;
	places[index].nodes = nodes;
	atomic_store(&places[index].handle, handle);
}

void libfunet_signal(uint32_t index, uintptr_t handle, int fd)
{
	signals[index].fd = fd;
	atomic_store(&signals[index].handle, handle);
}

static int stale(void)
{
	static const char why[] = "funet: the handle was closed, or is none";
	libfunet_tell(why, sizeof why - 1, 0);
	return FUNET_ARGUMENT;
}

const char *funet_error(void) { return text; }
uint32_t funet_refusal(void) { return refused; }

int funet_node(struct funet *f)
{
	uintptr_t h = (uintptr_t)f;
	if (guest_child())
		return of_child();
	return h != 0 && atomic_load(&places[at(h)].handle) == h ? (int)places[at(h)].node : stale();
}

int funet_nodes(struct funet *f)
{
	uintptr_t h = (uintptr_t)f;
	if (guest_child())
		return of_child();
	return h != 0 && atomic_load(&places[at(h)].handle) == h ? (int)places[at(h)].nodes : stale();
}

/* A signal handler may call it: it touches neither Go nor errors that it does not make. */
int funet_cancel(struct funet_cancellation *cancel)
{
	static const uint64_t one = 1;
	uintptr_t h = (uintptr_t)cancel;
	if (guest_child())
		return FUNET_FORKED;
	if (h == 0 || atomic_load(&signals[at(h)].handle) != h)
		return FUNET_ARGUMENT;
	return write(signals[at(h)].fd, &one, sizeof one) == sizeof one ? 0 : FUNET_FAILED;
}

/* ---- what the Go side calls ---- */

/* The handler that runs in this thread, the innermost. */
static _Thread_local struct inside {
	uint64_t token;
	struct libfunet_short *answer;
} inside;

int libfunet_handler(uintptr_t run, uintptr_t argument, uintptr_t bytes, size_t length, uint32_t source,
	uint32_t handler, uint64_t token, struct libfunet_short *answer)
{
	struct funet_message m = { (const void *)bytes, length, (int32_t)source, handler, token };
	struct inside outer = inside;
	inside = (struct inside){ token, answer };
	int code = ((funet_handler)run)(&m, (void *)argument);
	inside = outer;
	return code;
}

void libfunet_failed(uintptr_t run, uintptr_t argument, int code, const char *why, size_t length)
{
	char line[sizeof text];
	struct inside outer = inside;
	length = length < sizeof line ? length : sizeof line - 1;
	memcpy(line, why, length);
	line[length] = 0;
	inside = (struct inside){ 1, NULL }; /* of no message */
	((void (*)(enum funet_code, const char *, void *))run)((enum funet_code)code, line, (void *)argument);
	inside = outer;
}

int libfunet_condition(uintptr_t done, uintptr_t argument)
{
	return ((int (*)(void *))done)((void *)argument);
}

/* ---- empty polls ----
 *
 * A poll is answered here if no word has changed that changes with what comes. Go takes words back
 * before their memory goes away. A reader would pay as much for a lock as for all the words. So it
 * only notes that it reads, in a variable of its thread, and who takes words back has the kernel
 * put a barrier into all threads of the process (membarrier(2)) and looks at the notes. */

static _Thread_local struct reader {
	atomic_int reads;
	int listed;
	struct reader *next, **link;
} reader;

static struct reader *readers;
static pthread_mutex_t of_readers = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t end_of_reader;
static struct libfunet_still stills[INDICES];

static int barrier(int command) { return (int)syscall(SYS_membarrier, command, 0, 0); }

static void forget_reader(void *r)
{
	struct reader *gone = r;
	(void)pthread_mutex_lock(&of_readers);
	*gone->link = gone->next;
	if (gone->next != NULL)
		gone->next->link = gone->link;
	gone->listed = 0;
	(void)pthread_mutex_unlock(&of_readers);
}

static int can_recall;

static void prepare_readers(void)
{
	can_recall = pthread_key_create(&end_of_reader, forget_reader) == 0 &&
		barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

int libfunet_can_recall(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	(void)pthread_once(&once, prepare_readers);
	return can_recall;
}

struct libfunet_still *libfunet_still(uint32_t index) { return &stills[index]; }

void libfunet_recall(struct libfunet_still *s)
{
	atomic_store(&s->watch.count, 0);
	atomic_store(&s->budget, 0);
	(void)barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	(void)pthread_mutex_lock(&of_readers);
	for (struct reader *r = readers; r != NULL; r = r->next)
		while (atomic_load_explicit(&r->reads, memory_order_acquire))
			(void)sched_yield();
	(void)pthread_mutex_unlock(&of_readers);
}

/* Enters, for a thread that polls: from now on it may read words. */
static int enter_to_poll(void)
{
	int refusal = enter();
	if (refusal != 0 || reader.listed || !libfunet_can_recall() || pthread_setspecific(end_of_reader, &reader) != 0)
		return refusal;
	(void)pthread_mutex_lock(&of_readers);
	reader.next = readers;
	reader.link = &readers;
	if (readers != NULL)
		readers->link = &reader.next;
	readers = &reader;
	reader.listed = 1;
	(void)pthread_mutex_unlock(&of_readers);
	return 0;
}

/* Reports whether a poll of the endpoint would find nothing. */
static inline int still(uintptr_t h)
{
	struct libfunet_still *s = &stills[at(h)];
	uint32_t budget = atomic_load_explicit(&s->budget, memory_order_relaxed);
	if (budget == 0 || !reader.listed || inside.token != 0 || guest_child() ||
		atomic_load_explicit(&places[at(h)].handle, memory_order_relaxed) != h ||
		atomic_load_explicit(&s->unread, memory_order_relaxed))
		return 0;
	atomic_store_explicit(&reader.reads, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	uint32_t n = atomic_load_explicit(&s->watch.count, memory_order_acquire), changed = n == 0;
	for (uint32_t i = 0; i < n && i < WATCH_WORDS; i++)
		changed |= (atomic_load_explicit(s->watch.words[i].at, memory_order_relaxed) ^ s->watch.words[i].value) &
			s->watch.words[i].mask;
	atomic_store_explicit(&reader.reads, 0, memory_order_release);
	if (changed)
		return 0;
	atomic_store_explicit(&s->budget, budget - 1, memory_order_relaxed);
	atomic_store_explicit(&s->skipped, atomic_load_explicit(&s->skipped, memory_order_relaxed) + 1,
		memory_order_relaxed);
	return 1;
}

/* ---- what crosses ----
 *
 * The compiler compares each function with its declaration in funet.h, and what it passes on with
 * the function that cgo exports. A number that would lose bits is an error. */

#pragma GCC diagnostic error "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"

/* A function, and the exported one behind it. */
#define GATE_OF(name, behind, parameters, arguments) \
	int funet_##name parameters \
	{ \
		int refusal = enter(); \
		return refusal != 0 ? refusal : libfunet_##behind arguments; \
	}
#define GATE(name, parameters, arguments) GATE_OF(name, name, parameters, arguments)
#define N(pointer) ((uintptr_t)(pointer))
#define UNTIL until == NULL ? -1 : until->milliseconds, until == NULL ? 0 : N(until->cancel)

GATE(cancel_new, (struct funet_cancellation **cancel), (N(cancel)))
GATE(cancel_free, (struct funet_cancellation *cancel), (N(cancel)))
GATE(open, (struct funet **f, const struct funet_options *options, const struct funet_until *until),
	(N(f), N(options), UNTIL))
GATE(close, (struct funet *f, const struct funet_until *until), (N(f), UNTIL))
GATE(send, (struct funet *f, int node, uint32_t handler, const void *bytes, size_t length,
	const struct funet_until *until), (N(f), node, handler, N(bytes), length, UNTIL))
GATE(start_send, (struct funet *f, int node, uint32_t handler, const void *bytes, size_t length,
	struct funet_pending **send, const struct funet_until *until),
	(N(f), node, handler, N(bytes), length, N(send), UNTIL))
GATE(send_many, (struct funet *f, const struct funet_outgoing *messages, int n, const struct funet_until *until),
	(N(f), N(messages), n, UNTIL))
GATE(collect, (struct funet *f, uint32_t handler), (N(f), handler))

int funet_poll(struct funet *f, struct funet_message *messages, int n, void *memory, size_t room,
	const struct funet_until *until)
{
	if (until != NULL && until->milliseconds == 0 && n > 0 && messages != NULL && (memory != NULL || room == 0) &&
		still(N(f)))
		return 0;
	int refusal = enter_to_poll();
	return refusal != 0 ? refusal : libfunet_poll(N(f), N(messages), n, N(memory), room, UNTIL);
}

int funet_progress(struct funet *f)
{
	if (still(N(f)))
		return 0;
	int refusal = enter_to_poll();
	return refusal != 0 ? refusal : libfunet_progress(N(f));
}

GATE(handle, (struct funet *f, uint32_t handler, funet_handler run, void *argument),
	(N(f), handler, N(run), N(argument)))
GATE(reply, (struct funet_message *m, uint32_t handler, const void *bytes, size_t length),
	(m->token, handler, N(bytes), length))
GATE(serve, (struct funet *f, uint32_t handler, funet_handler run, void *argument),
	(N(f), handler, N(run), N(argument)))

/* A short answer stays in C until the handler returns. */
int funet_answer(struct funet_message *m, const void *bytes, size_t length)
{
	struct libfunet_short *s = inside.token == m->token ? inside.answer : NULL;
	int refusal = enter();
	if (refusal != 0)
		return refusal;
	if (s != NULL)
		s->set = length <= sizeof s->bytes && (bytes != NULL || length == 0);
	if (s == NULL || !s->set)
		return libfunet_answer(m->token, N(bytes), length);
	s->length = (uint32_t)length;
	if (length > 0)
		memcpy(s->bytes, bytes, length);
	return 0;
}

GATE(refuse, (struct funet_message *m, uint32_t code, const char *why),
	(m->token, code, N(why), why == NULL ? 0 : strlen(why)))
GATE(call, (struct funet *f, int node, uint32_t handler, const void *bytes, size_t length, void *answer,
	size_t room, size_t *answered, const struct funet_until *until),
	(N(f), node, handler, N(bytes), length, N(answer), room, N(answered), UNTIL))
GATE(start_call, (struct funet *f, int node, uint32_t handler, const void *bytes, size_t length,
	struct funet_pending **call), (N(f), node, handler, N(bytes), length, N(call)))
GATE(finish, (struct funet_pending *call, void *answer, size_t room, size_t *answered,
	const struct funet_until *until), (N(call), N(answer), room, N(answered), UNTIL))
GATE(abandon, (struct funet_pending *call), (N(call)))
GATE(send_tag, (struct funet *f, int node, uint32_t tag, const void *bytes, size_t length,
	const struct funet_until *until), (N(f), node, tag, N(bytes), length, UNTIL))
GATE(receive, (struct funet *f, int source, uint32_t tag, void *memory, size_t room,
	struct funet_received *what, const struct funet_until *until),
	(N(f), source, tag, N(memory), room, N(what), UNTIL))
GATE(start_send_tag, (struct funet *f, int node, uint32_t tag, const void *bytes, size_t length,
	struct funet_pending **send, const struct funet_until *until), (N(f), node, tag, N(bytes), length, N(send), UNTIL))
GATE(start_receive, (struct funet *f, int source, uint32_t tag, void *memory, size_t room,
	struct funet_pending **receive, const struct funet_until *until),
	(N(f), source, tag, N(memory), room, N(receive), UNTIL))
GATE(finish_receive, (struct funet_pending *receive, struct funet_received *what, const struct funet_until *until),
	(N(receive), N(what), UNTIL))
GATE(run, (struct funet *f, const struct funet_until *until), (N(f), UNTIL))
GATE(wait, (struct funet *f, int (*done)(void *argument), void *argument, const struct funet_until *until),
	(N(f), N(done), N(argument), UNTIL))
GATE(fd, (struct funet *f), (N(f)))
GATE(arm, (struct funet *f), (N(f)))
GATE(disarm, (struct funet *f), (N(f)))
GATE(barrier, (struct funet *f, const struct funet_until *until), (N(f), UNTIL))

GATE(broadcast, (struct funet *f, int root, void *bytes, size_t length, const struct funet_until *until),
	(N(f), root, N(bytes), length, UNTIL))
GATE(gather, (struct funet *f, int root, const void *from, size_t length, void *to,
	const struct funet_until *until), (N(f), root, N(from), length, N(to), UNTIL))
GATE(scatter, (struct funet *f, int root, const void *from, void *to, size_t length,
	const struct funet_until *until), (N(f), root, N(from), N(to), length, UNTIL))
GATE(all_gather, (struct funet *f, const void *from, size_t length, void *to, const struct funet_until *until),
	(N(f), N(from), length, N(to), UNTIL))
GATE(all_to_all, (struct funet *f, const void *from, void *to, size_t length, const struct funet_until *until),
	(N(f), N(from), N(to), length, UNTIL))
GATE(reduce, (struct funet *f, int root, enum funet_operation o, enum funet_element e, void *numbers,
	size_t count, const struct funet_until *until), (N(f), root, o, e, N(numbers), count, UNTIL))
GATE(all_reduce, (struct funet *f, enum funet_operation o, enum funet_element e, void *numbers, size_t count,
	const struct funet_until *until), (N(f), o, e, N(numbers), count, UNTIL))
GATE(scan, (struct funet *f, enum funet_operation o, enum funet_element e, void *numbers, size_t count,
	const struct funet_until *until), (N(f), o, e, N(numbers), count, UNTIL))

GATE(events, (struct funet *f, struct funet_event *events, int n), (N(f), N(events), n))
GATE(life, (struct funet *f, int node), (N(f), node))
GATE(present, (struct funet *f, int node), (N(f), node))
GATE(agree, (struct funet *f, const struct funet_until *until), (N(f), UNTIL))

GATE(allocate, (struct funet *f, size_t bytes, void **memory), (N(f), bytes, N(memory)))
GATE(share, (struct funet *f, void *memory, size_t bytes), (N(f), N(memory), bytes))
GATE(expose, (struct funet *f, void *memory, size_t bytes, const struct funet_window *how,
	struct funet_target *window), (N(f), N(memory), bytes, N(how), N(window)))
GATE(revoke, (struct funet *f, uint64_t key), (N(f), key))
GATE(suspend, (struct funet *f, uint64_t key), (N(f), key))
GATE(resume, (struct funet *f, uint64_t key), (N(f), key))
GATE(put, (struct funet *f, const struct funet_target *to, const void *bytes, size_t length,
	const struct funet_with *with, uint32_t *id, const struct funet_until *until),
	(N(f), N(to), N(bytes), length, N(with), N(id), UNTIL))
GATE(get, (struct funet *f, const struct funet_target *from, void *memory, size_t length,
	const struct funet_with *with, uint32_t *id, const struct funet_until *until),
	(N(f), N(from), N(memory), length, N(with), N(id), UNTIL))
GATE(apply, (struct funet *f, const struct funet_target *to, enum funet_operation o, enum funet_element e,
	int count, const void *operands, const struct funet_with *with, uint32_t *id, const struct funet_until *until),
	(N(f), N(to), o, e, count, N(operands), N(with), N(id), UNTIL))
GATE(complete, (struct funet *f, uint32_t id, void *answer, size_t room, size_t *length,
	const struct funet_until *until), (N(f), id, N(answer), room, N(length), UNTIL))
GATE(quiet, (struct funet *f, const struct funet_until *until), (N(f), UNTIL))
GATE(fence, (struct funet *f, int node, const struct funet_until *until), (N(f), node, UNTIL))
GATE_OF(fetch, element, (struct funet *f, const struct funet_target *at, uint64_t *old,
	const struct funet_until *until), (N(f), N(at), FUNET_READ, 0, 0, N(old), UNTIL))
GATE_OF(fetch_add, element, (struct funet *f, const struct funet_target *at, uint64_t value, uint64_t *old,
	const struct funet_until *until), (N(f), N(at), FUNET_ADD, value, 0, N(old), UNTIL))
GATE_OF(swap, element, (struct funet *f, const struct funet_target *at, uint64_t value, uint64_t *old,
	const struct funet_until *until), (N(f), N(at), FUNET_SWAP, value, 0, N(old), UNTIL))
GATE_OF(compare_swap, element, (struct funet *f, const struct funet_target *at, uint64_t compare, uint64_t value,
	uint64_t *old, const struct funet_until *until), (N(f), N(at), FUNET_COMPARE_SWAP, compare, value, N(old), UNTIL))
GATE(lock, (struct funet *f, const struct funet_target *window, const struct funet_until *until),
	(N(f), N(window), UNTIL))
GATE(try_lock, (struct funet *f, const struct funet_target *window), (N(f), N(window)))
GATE(unlock, (struct funet *f, const struct funet_target *window), (N(f), N(window)))
GATE(ready, (struct funet *f, const struct funet_target *window, const struct funet_until *until),
	(N(f), N(window), UNTIL))
GATE(await, (struct funet *f, const uint64_t *word, enum funet_relation r, uint64_t value,
	const struct funet_until *until), (N(f), N(word), r, value, UNTIL))
GATE(notified, (struct funet *f, struct funet_notification *notifications, int n,
	const struct funet_until *until), (N(f), N(notifications), n, UNTIL))
GATE(join, (struct funet *f, uint32_t chain, int begins, int parent, const struct funet_next *next, int n),
	(N(f), chain, begins, parent, N(next), n))
GATE(leave, (struct funet *f, uint32_t chain), (N(f), chain))
GATE(multicast, (struct funet *f, int from, uint32_t chain, uint32_t members,
	const struct funet_target *to, const void *bytes, size_t length, struct funet_delivery *delivery,
	const struct funet_until *until), (N(f), from, chain, members, N(to), N(bytes), length, N(delivery), UNTIL))

GATE(open_sender, (struct funet *f, int node, struct funet_path **path, const struct funet_until *until),
	(N(f), node, N(path), UNTIL))
GATE(open_receiver, (struct funet *f, int node, uint32_t lines, struct funet_path **path,
	const struct funet_until *until), (N(f), node, lines, N(path), UNTIL))
GATE(send_line, (struct funet_path *path, const uint64_t *words, int n, const struct funet_until *until),
	(N(path), N(words), n, UNTIL))
GATE(flush_lines, (struct funet_path *path, const struct funet_until *until), (N(path), UNTIL))
GATE(receive_line, (struct funet_path *path, uint64_t *words, const struct funet_until *until),
	(N(path), N(words), UNTIL))
GATE(close_path, (struct funet_path *path, const struct funet_until *until), (N(path), UNTIL))
