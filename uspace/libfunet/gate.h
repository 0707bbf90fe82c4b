/* gate.h: what the C and the Go side of the library give each other, besides exported functions. */
#ifndef GATE_H
#define GATE_H

#include "funet.h"
#include "guest.h"

/* The kinds of handles: the lowest bits of one. Above are an index of 8 bits and a serial
 * number. */
enum { KIND_BITS = 4, INDEX_BITS = 8, KIND_ENDPOINT = 1, KIND_CALL = 2, KIND_CANCEL = 3, KIND_PATH = 4 };

/* Sets what funet_error and funet_refusal return in this thread. */
void libfunet_tell(const char *text, size_t length, uint32_t refusal);
/* Says which node a handle is; handle 0: none. */
void libfunet_place(uint32_t index, uintptr_t handle, uint32_t node, uint32_t nodes);
/* Says which eventfd(2) a handle of funet_cancel_new signals; handle 0: none. */
void libfunet_signal(uint32_t index, uintptr_t handle, int fd);

/* What C answers empty polls of an endpoint from. Go arms it at the end of a poll that found
 * nothing (watch.go). */
enum { MOST_SKIPPED = 127, WATCH_WORDS = 16 };

struct libfunet_watch { /* funi.Watch */
	_Atomic uint32_t count;
	uint32_t taken;
	struct {
		const _Atomic uint32_t *at;
		uint32_t value, mask;
	} words[WATCH_WORDS];
};

struct libfunet_still {
	struct libfunet_watch watch;
	_Atomic uint32_t budget;  /* polls that may still be answered until the next crossing */
	_Atomic uint32_t skipped; /* that were answered */
	_Atomic uint32_t unread;  /* the inbox has messages */
};

struct libfunet_still *libfunet_still(uint32_t index);
/* Says whether words can be taken back. */
int libfunet_can_recall(void);
/* Returns when no thread reads the words of a watch any more. */
void libfunet_recall(struct libfunet_still *s);

/* An answer that a handler gives without a crossing. */
struct libfunet_short {
	uint32_t length;
	uint32_t set; /* the handler has given one */
	uint8_t bytes[256];
};

/* Runs a handler of the program. answer is that of a call; 0: it is none. */
int libfunet_handler(uintptr_t run, uintptr_t argument, uintptr_t bytes, size_t length, uint32_t source,
	uint32_t handler, uint64_t token, struct libfunet_short *answer);
/* Runs the program's function for errors that belong to no call. */
void libfunet_failed(uintptr_t run, uintptr_t argument, int code, const char *text, size_t length);
/* Asks a condition of the program. */
int libfunet_condition(uintptr_t done, uintptr_t argument);

#endif
