package card

// This file is how a card waits with its program, as package wait says: it spins while the
// process has a processor to itself, yields now and then, and sleeps beside a process that computes,
// in poll(2) on its sockets, which a frame ends.
//
// A program that lets the card run now and then, between pieces of work, does not wait, and neither
// yields nor sleeps.

import "github.com/funet/funet/uspace/wait"

// waiting follows a step in vain, and a look at the clock.
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
			k.wait.Sleep(k.sockfds, d)
		}
		k.wait.Slept(k.wall())
	}
}
