// Package wait is the one policy of waiting for messages: when a waiter looks again, when it lets
// another thread run, and when it sleeps. An embedded card, the card's thread of a daemon, a client
// of a daemon and a C program (funi.h) wait alike, because they wait for each other.
//
// The journey of a wait: the program looks at registers and rings, which costs tens of nanoseconds.
// A [Waiter] counts the looks in vain (Tired). After as many as the [Policy] says, it is given the
// time and answers what to do next (Next): look again, yield the processor, or sleep. The program
// does that, and tells the Waiter how long a yield took (Yielded). Finding something ends the wait
// (Found). The Waiter has no clock, and makes no system call of its own except in Sleep. So tests
// of the policy run in virtual time, and the same test drives the C functions of funi.h.
//
// # Rules
//
//  1. Spin first. A sleep costs tens of microseconds at its two ends, and a round trip takes a few.
//     So a waiter looks for some 10 us before anything else.
//  2. Then yield (sched_yield(2)), every 10 us. A yield costs half a microsecond where no other
//     thread wants the processor.
//  3. If the yield let another thread run, yield at every look, in the next wait too, until a yield
//     finds none. Threads that share a processor and wait for each other then pass it on within
//     microseconds. The time that others ran does not count as waiting in vain.
//  4. If the yield took as long as a time slice, another thread computes and does not yield. On
//     recent kernels a yield forfeits the rest of a time slice, so a thread that yields to such a
//     thread often is kept waiting for seconds. For 200 ms from then on, sleep in place of every
//     yield: a thread that sleeps more than it runs is run as soon as it wakes up. For the same
//     reason the thread of a daemon, which works for many, then sleeps after a single look. The
//     others look first all the same: an embedded card that slept at once had round trips of 40 us
//     there instead of 6. But two that wait for each other may come to share one processor, beside
//     somebody who computes on another. Then no look finds anything, and each keeps the other from
//     running: round trips of 80 us instead of 20. So an embedded card whose looks found nothing in
//     4 waits in a row sleeps after a single look, and tries all of them again in one wait of 128.
//  5. A waiter that has looked and yielded in vain for as long as the Policy says sleeps. After the
//     sleep it does so for half as long before the next sleep. An embedded card does not sleep for
//     this reason: its processor is the program's own, and no other thread asked for it.
//  6. A sleep is bounded, and each one in vain may be twice as long as the one before. An arrival
//     ends it. Before a sleep, a waiter notes that it is about to sleep, and looks once more. That
//     is the caller's part, because only the caller knows where to look.
//  7. A program that works between two looks does not wait: it neither yields nor sleeps. The time
//     from one call to the next shows whether it works (Called).
//
// # Constants
//
// The machine-independent constants were measured on Linux 6.18, on a virtual machine. A yield
// takes 0.5 us where no other thread wants the processor. It takes 2.8 us where another thread
// yields at once, and 3.8 us where that thread looks for 1 us first. Where that thread computes, a
// yield takes a time slice: 3 ms, or 0.1 ms for a thread with the shortest slice.
//
//	SomeoneRan       2 us     a longer yield let another thread run; between 0.5 and 2.8
//	SomeoneComputes  1 ms     a longer yield let one run that does not yield
//	Sharing        200 ms     how long rule 4 holds
//	AtWork           3 us     calls farther apart, on the average, are of a program that works; a
//	                          call in vain takes less than 0.1
//
// The differences between waiters are in their Policy, and nowhere else:
//
//	          looks  beside  sleeps after      a sleep    why
//	Embedded     32       8  only rule 4       1 ms       a look is 16 calls of Drive, some 2 us
//	                                                      beside others; timers of the program's
//	                                                      own may have to be served
//	Modelled     16      16  only rule 4       1 ms       a look is 16 calls that only read
//	                                                      registers: together longer than a round
//	                                                      trip
//	Daemon        8       1  200 us in vain    1 s        a look is 16 steps; its sleep delays
//	                                                      more people's messages than a client's
//	Client       32      32  50 us in vain     1 to 8 ms  a look is 16 calls of Drive; the card
//	                                                      goes on while it sleeps
//	C           500     500  50 us in vain     200 ms     a look reads eight words; funi_wait
//	                                                      returns after each sleep, as a signal
//	                                                      may have come
//
// A Waiter belongs to one goroutine at a time. Times are nanoseconds of any clock that does not go
// back. No time is 0.
package wait
