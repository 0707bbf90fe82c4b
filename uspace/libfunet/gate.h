/* gate.h: what the C and the Go side of the library give each other, besides exported functions. */
#ifndef GATE_H
#define GATE_H

#include "funet.h"
#include "guest.h"

/* The kinds of handles: the lowest bits of one. Above are an index of 8 bits and a serial
 * number. */
enum { KIND_BITS = 4, INDEX_BITS = 8, KIND_ENDPOINT = 1, KIND_CALL = 2, KIND_CANCEL = 3 };

/* Sets what funet_error and funet_refusal return in this thread. */
void libfunet_tell(const char *text, size_t length, uint32_t refusal);
/* Says which node a handle is; handle 0: none. */
void libfunet_place(uint32_t index, uintptr_t handle, uint32_t node, uint32_t nodes);
/* Says which eventfd(2) a handle of funet_cancel_new signals; handle 0: none. */
void libfunet_signal(uint32_t index, uintptr_t handle, int fd);

/* An answer that a handler gives without a crossing. */
struct libfunet_short {
	uint32_t length;
	uint32_t set; /* the handler has given one */
	uint8_t bytes[256];
};

/* Runs a handler of the program. answer is that of a call; 0: it is none. */
int libfunet_handler(uintptr_t run, uintptr_t argument, uintptr_t bytes, size_t length, uint32_t source,
	uint32_t handler, uint64_t token, struct libfunet_short *answer);
/* Asks a condition of the program. */
int libfunet_condition(uintptr_t done, uintptr_t argument);

#endif
