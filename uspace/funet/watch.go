package funet

// This file lets a library answer empty polls without a call (libfunet).

import (
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// Watch arms w, for a library whose caller polls, after a poll that found nothing. While w is still
// (funi.Watch.Still) a poll would find nothing either, and the library may answer it. Now and then
// it polls all the same, since timers do not show there. It returns false if a poll may have
// something to do. recall ends the use of w; it may be called by any goroutine, until Close has
// returned, and returns when nobody reads the words any more.
func (e *Endpoint) Watch(w *funi.Watch, recall func()) bool {
	if e.lock() != nil {
		return false
	}
	defer e.unlock()
	w.Begin()
	if e.stray != nil || e.armed || e.sweep != nil || !am.Still(e.am) {
		return false
	}
	e.recall = recall
	e.iface.WatchQueues(w)
	return e.carrier.Watch(w, recall)
}

// Skipped notes how many polls the library has answered since the last one (Watch).
func (e *Endpoint) Skipped(polls int) {
	if e.lock() == nil {
		e.carrier.Skipped(polls)
		e.unlock()
	}
}
