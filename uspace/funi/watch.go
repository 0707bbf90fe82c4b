package funi

// This file lets a library answer an empty poll without running the card: it has the words that
// stay as they are while nothing comes, and compares them.

import (
	"sync/atomic"
	"unsafe"
)

// WatchWords is the most words of a Watch.
const WatchWords = 16

// Watch is a list of words in the memory of a process, with the value that each has while nothing
// has come. It may lie in memory of C: it has addresses and no pointers. Its owner ends the use of
// the words before their memory goes away.
type Watch struct {
	count uint32 // words that may be compared now; 0: none, so something may have come
	taken uint32 // words so far, between Begin and Arm
	words [WatchWords]watched
}

// watched is a word, its value while nothing has come, and the bits that matter.
type watched struct {
	at          uintptr
	value, mask uint32
}

// Begin begins another list. Until Arm the watch has no words.
func (w *Watch) Begin() {
	atomic.StoreUint32(&w.count, 0)
	w.taken = 0
}

// Add adds a word. Its memory is not moved by Go's collector: it is mapped, or a card holds it.
func (w *Watch) Add(at *uint32, value, mask uint32) {
	if w.taken < WatchWords {
		w.words[w.taken] = watched{uintptr(unsafe.Pointer(at)), value, mask}
	}
	w.taken++
}

// Arm ends the list. It returns false, and the watch has no words, if they were too many.
func (w *Watch) Arm() bool {
	if w.taken > WatchWords {
		return false
	}
	atomic.StoreUint32(&w.count, w.taken)
	return w.taken > 0
}

// Still reports whether the watch has words, and all have their values.
func (w *Watch) Still() bool {
	n := atomic.LoadUint32(&w.count)
	for _, x := range w.words[:min(n, WatchWords)] {
		if (atomic.LoadUint32(*(**uint32)(unsafe.Pointer(&x.at)))^x.value)&x.mask != 0 {
			return false
		}
	}
	return n > 0
}

// WatchQueues adds the words of the page that change when a message, a return or a notification
// comes. The end of the context, and what else is rare, shows in News only. The page stays where it
// is until the card is closed.
func (i *Interface) WatchQueues(w *Watch) {
	for l := range i.receive {
		q := &i.receive[l]
		w.Add(q.hd, q.tail, q.mask)
	}
	w.Add(&i.page[notesHead], i.notes, ^uint32(0))
	w.Add(&i.page[returnHead], i.returns, ^uint32(0))
}
