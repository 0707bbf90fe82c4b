// Command ofi is the provider "funet" of libfabric: a shared library of packages am and funet
// (-buildmode=c-shared), which libfabric loads. It is no program. MPI, OpenSHMEM and GASNet
// programs use it as they are. It is built with the tag libfabric, since it needs libfabric's
// headers (make ofi).
//
// The journey of a message: the program calls fi_tsend. A table of functions in C (msg.c) leads to
// one that checks the arguments, looks the address up in the endpoint's address vector (av.c), and
// crosses into Go with a struct ofi_operation (ofi.h). The exported function (operation.go) takes
// the lock of the process's endpoint, notes the operation, and starts a wide message of package am.
// It then lets the card run, and the frame leaves. A program that begins several operations between
// two polls has these share frames instead, which leave at the next poll (process.leave). When am
// completes the message, the completion is written into the ring of a completion queue, which is
// memory of C, and counted (queue.go). fi_cq_read finds it there without a crossing (cq.c).
//
// A receive mostly does not cross. It is left in a ring, from which Go takes it at the next poll or
// wait (posts.go).
//
// A completion queue that is empty makes one crossing, which lets the card run, and is looked at
// again. What waits, such as fi_cq_sread, waits in Go. A program that does neither for 4 ms while
// operations are under way is polled for (process.go), so progress is automatic.
//
// A read, a write or an atomic operation (rma.c, remote.go) is one or several of package rma, on a
// window: a memory region of the other process. The card of a direct port reaches all memory of its
// process, so a region is registered where it lies (region.go). Both ways of naming regions are
// offered: keys of the provider and addresses of memory, or keys below 2^16 of the program and
// offsets. A key of the second kind keeps nobody of the job out. Atomic operations that cards lack
// are loops of compare-and-swap (loop.go). With FI_RMA_EVENT regions are windows with counts, which
// the card raises; counters of libfabric follow them (target.go). On a daemon's card none of this
// is offered.
//
// Rules, besides those of package guest:
//
//   - All objects are memory of C. Go holds them by pointers, C holds Go's by numbers of tables.
//   - Memory of the program is Go's only while its operation is under way.
//   - The card of the process is opened with the first domain and closed when libfabric unloads the
//     provider. All domains, endpoints and queues share it. An endpoint's number is in the channel
//     of messages to it, and in the origin of messages from it.
//   - An address is 8 bytes: a mark, group, node, number of the endpoint. A fi_addr_t is an index
//     of a table in C, for both kinds of address vectors. fi_getinfo takes addresses as
//     fi_av_straddr writes them, funet://GROUP/NODE/ENDPOINT.
//   - A completion queue never overruns. Completions beyond its ring wait in Go, and until they are
//     read operations that would add more return -FI_EAGAIN. So do sends and receives beyond
//     65,536 each of a process, and others beyond 512.
//   - An operation with FI_FENCE returns -FI_EAGAIN while earlier ones of its endpoint to the node
//     are under way.
//   - With FI_RMA_EVENT a region counts from its registration on, and its counter from fi_mr_bind
//     on, so fi_mr_enable has nothing to do. A region belongs to no endpoint. So a counter that an
//     endpoint has for operations of others (FI_REMOTE_READ, FI_REMOTE_WRITE) counts those on all
//     regions of its domain, and a domain has one of each kind. An operation counts if its own
//     domain was opened with FI_RMA_EVENT, or the key that it uses says so: a provider's key does,
//     a program's does not.
//   - Operations of others on memory of a region that the program has unmapped fail with
//     FI_EKEYREJECTED. If the program unmaps it while the card sends it to another process, or
//     unmaps a buffer of its own operation, its card ends, and every operation of the process then
//     fails. The card touches that memory again when it is closed, which may end the process.
//   - fi_getinfo offers only what works, and says in a line of libfabric's log which hint it cannot
//     meet. Without a job in the environment it offers nothing, unless asked by name.
//
// Limits: 127 endpoints and 1,024 completion queues of a process; messages of 1 GiB; injected
// messages of 256 bytes; regions and buffers of 1.5 GiB of memory at a time, in units of 16 MiB and
// in 48 places; 4 elements of an atomic operation, none of them complex numbers. Data that comes
// with a write is told to the first endpoint of the region's domain, and its source as the first
// endpoint of its node in the address vector. A buffer of many messages is given back early while
// 1,024 completions wait.
package main

// main is never called; a library of Go has one nevertheless.
func main() {}
