package rma

// This file is locks. A window has one lock. While a node has it, operations of others on the
// window fail with ErrLocked, so it guards what several operations change. The card of the window's
// owner keeps it: no process there has a part in it.
//
// A node that dies with a lock has it until the owner of the window resumes or revokes that
// (Endpoint.Resume), or until the process that becomes the node locks it itself.

import (
	"errors"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// TryLock locks the window of a target, if nobody has. false and no error: another has. Errors are
// those that operations have, and of drive.
func (e *Endpoint) TryLock(t Target) (bool, error) {
	err := e.lock(t, arctic.RemoteLock)
	if errors.Is(err, ErrLocked) {
		return false, nil
	}
	return err == nil, err
}

// Lock locks the window of a target when nobody has it. It asks again after 1, 2, 4 to 256 turns of
// the card. Errors are those that operations have, and of drive, which ends the wait.
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

// Unlock ends the lock. What was issued before on the window is complete when it returns. Errors
// are ErrLocked if this process has not locked it, those that operations have, and of drive.
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
