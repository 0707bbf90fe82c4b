package card

// This file is how a card waits with its program, as package wait says. The card spins while the
// process has a processor to itself, and yields now and then. Beside a process that computes it
// sleeps in poll(2), on its sockets and on an eventfd. A frame ends the sleep on a socket, and
// Interrupt ends it by writing the eventfd.
//
// A program that lets the card run now and then, between pieces of work, does not wait, and neither
// yields nor sleeps.

import "github.com/funet/funet/uspace/wait"

// Interrupt ends the sleep in Drive that is under way, or the next one, and one that follows Arm.
// Any goroutine may call it, at any time.
func (k *Card) Interrupt() { k.alarm.Call() }

// waiting yields or sleeps if the program waits, after a step in vain and a look at the clock.
func (k *Card) waiting() {
	if !k.wait.Tired() {
		return
	}
	switch k.wait.Next(k.now) {
	case wait.Yield:
		wait.YieldProcessor()
		k.wait.Yielded(k.now, k.wall())
	case wait.Sleep:
		if d := min(k.wait.Nap(), k.next-k.now); d > 0 { // until the engine wants to run
			if k.neighbours.doze() {
				k.alarm.Sleep(&k.wait, k.sockfds, d)
			}
			k.neighbours.wake()
		}
		k.wait.Slept(k.wall())
	}
}
