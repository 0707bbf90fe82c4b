package rma

// This file implements locks. A window has one lock. While a node holds it, operations of other
// nodes on the window fail with ErrLocked, so the lock protects changes of several operations. The
// card of the window's owner keeps the lock; the process there takes no part.
//
// A node that dies with a lock keeps it until one of two events: the owner of the window resumes
// (Endpoint.Resume) or revokes the window, or the next process of that node locks it itself.

import (
	"errors"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// TryLock locks the window of a target, if it is free. It returns false and no error if another
// node holds the lock. Errors are those of operations, and of drive.
func (e *Endpoint) TryLock(t Target) (bool, error) {
	err := e.lock(t, arctic.RemoteLock)
	if errors.Is(err, ErrLocked) {
		return false, nil
	}
	return err == nil, err
}

// Lock waits for the lock of the window of a target, and takes it. It tries again after 1, 2, 4 to
// 256 turns of the card. Errors are those of operations, and of drive, which ends the wait.
func (e *Endpoint) Lock(t Target) error {
	for turns := 1; ; turns = min(2*turns, 256) {
		had, err := e.TryLock(t)
		if had || err != nil {
			return err
		}
		for range turns {
			if err := e.step(); err != nil {
				return err
			}
		}
	}
}

// Unlock releases the lock. When it returns, operations issued before on the window are complete.
// Errors are ErrLocked if this process does not hold the lock, those of operations, and of drive.
func (e *Endpoint) Unlock(t Target) error {
	if err := e.Fence(t.Node); err != nil {
		return err
	}
	return e.lock(t, arctic.RemoteUnlock)
}

func (e *Endpoint) lock(t Target, op arctic.Operation) error {
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: op, Key: uint64(t.Key),
		Operands: e.life[:], Ack: true}}
	id, err := e.issue("locking", t, &o, With{}, false)
	if err != nil {
		return err
	}
	_, err = e.Wait(id)
	return err
}
