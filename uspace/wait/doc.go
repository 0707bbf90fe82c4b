// Package wait is the one policy of waiting: when whoever waits for a message looks again, when it
// lets another thread run, and when it sleeps. An embedded card, the card's thread of a daemon, a
// client of a daemon and a C program (funi.h) wait alike, because they wait for each other.
//
// The journey of a wait: who waits looks, at registers and rings, which costs tens of nanoseconds.
// A [Waiter] counts the looks in vain (Tired), and when there were as many as the [Policy] says, it
// answers, given the time, what to do next (Next): look again, yield the processor, or sleep. Who
// waits does that, and tells the Waiter how long a yield took (Yielded). Something found ends the
// wait (Found). The Waiter has no clock and makes no system call of its own but in Sleep; so tests
// of the policy run in virtual time, and the same test drives the C functions of funi.h.
//
// # Rules
//
//  1. Spin first. A sleep costs tens of microseconds at its two ends, a round trip takes a few; so
//     who waits looks for some 10 us before anything else.
//  2. Then yield (sched_yield(2)), every 10 us. A yield costs half a microsecond where nobody else
//     wants the processor.
//  3. If the yield let somebody run, yield at every look, and still so in the next wait, until a
//     yield finds nobody: threads that share a processor and wait for each other then pass it on
//     within microseconds. What others ran is not time waited in vain.
//  4. If the yield took as long as a time slice, somebody computes and does not yield. On recent
//     kernels a yield forfeits the rest of a time slice, so one who yields to such a thread often
//     is kept waiting for seconds. For 200 ms from then on sleep in the place of every yield: a
//     thread that sleeps more than it runs is run as soon as it wakes up. For the same reason the
//     thread of a daemon, which works for many, sleeps after a single look then. The others look
//     first all the same: an embedded card that slept at once had round trips of 40 us in the place
//     of 6 there.
//  5. Who has looked and yielded in vain for as long as the Policy says sleeps, and after the sleep
//     does so for half as long before the next. An embedded card does not sleep for that: its
//     processor is the program's own, and nobody else asked for it.
//  6. A sleep is bounded, and each one in vain may be twice as long as the one before; what comes
//     meanwhile ends it. Who is about to sleep says so, and looks once more, before it does: that
//     is the caller's part, as what it looks at is.
//  7. A program that works between two looks does not wait: it neither yields nor sleeps. What
//     tells is the time from one call to the next (Called).
//
// # Constants
//
// The machine-independent ones are measured on Linux 6.18, on a virtual machine. A yield takes 0.5
// us where no other thread wants the processor. It takes 2.8 us where another thread does that
// yields at once, and 3.8 us where that thread looks for 1 us first. Where that thread computes, a
// yield takes a time slice: 3 ms, or 0.1 ms for a thread with the shortest slice.
//
//	SomeoneRan       2 us     a longer yield let another thread run; between 0.5 and 2.8
//	SomeoneComputes  1 ms     a longer yield let one run that does not yield
//	Sharing        200 ms     how long rule 4 holds
//	AtWork           3 us     calls farther apart, on the average, are of a program that works; a
//	                          call in vain takes less than 0.1
//
// What differs between those who wait is in their Policy, and nowhere else:
//
//	          looks  beside  sleeps after      a sleep    why
//	Embedded     32      32  only rule 4       1 ms       a look is 16 calls of Drive; timers of
//	                                                      the program's own may have to be served
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
// back; 0 is none of them.
package wait
