package card

// This file lets a program look for what has come by itself, without a call (funi.Watch).

import "github.com/funet/funet/uspace/funi"

// Watch adds to w the words that change when the card has something to do, and arms it. It returns
// false if the card has something to do now, or the program works between its calls, so that timers
// would be late. The program may answer its own polls then while all words are as they are, but not
// for ever: timers do not show there (Skipped). recall takes the words back, before the memory of
// one goes away, and when something has happened that they do not show. It is called from any
// goroutine, and returns when nobody reads them any more. Before Close the owner takes them back by
// itself. Watch belongs to the card's goroutine.
func (k *Card) Watch(w *funi.Watch, recall func()) bool {
	k.relief.take()
	defer k.relief.give()
	if k.modelled != nil || k.leftover || k.lost != nil {
		return false
	}
	if k.looked != k.polls {
		k.looked, k.working = k.polls, k.wait.Called(k.wall(), k.polls)
	}
	if k.working {
		return false
	}
	k.recall.Store(&recall)
	for _, p := range k.live {
		p.WatchRings(w)
	}
	if k.neighbours != nil {
		k.neighbours.port.WatchRings(w)
	}
	if !w.Arm() || k.asked.Load() { // what asks recalls afterwards
		w.Begin()
		return false
	}
	return true
}

// Skipped notes that the program has found so many times that the words of Watch are as they were.
// The next call of Drive looks at timers.
func (k *Card) Skipped(times int) { k.polls = (k.polls + uint64(times)) | (glance - 1) }

// unwatch ends the use of the words of Watch. Any goroutine may call it.
func (k *Card) unwatch() {
	if f := k.recall.Load(); f != nil {
		(*f)()
	}
}
