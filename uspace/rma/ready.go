package rma

// This file waits for windows that are not open yet.

import (
	"errors"
	"fmt"
	"time"
)

// Ready asks the node's card again after firstPause; the pause doubles up to lastPause.
const (
	firstPause = time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// Ready lets the card run until the owner of a target's window has exposed it. Now is the card's
// clock, in nanoseconds. Ready sends one packet after 1 ms, 2 ms and so on, up to one each 100 ms.
// The window need not permit anything. Errors are that the node cannot be reached, and those of
// drive, which ends the wait.
func (e *Endpoint) Ready(t Target, now func() int64) error {
	for n := 0; ; n++ {
		id, err := e.Get(t, nil, With{})
		if err == nil {
			_, err = e.Wait(id)
		}
		again, err := Absence(err, n)
		if again == 0 {
			return err
		}
		for until := now() + int64(again); now() < until; {
			if err := e.step(); err != nil {
				return fmt.Errorf("waiting for a window of node %d, which is not there: %w", t.Node, err)
			}
		}
	}
}

// Absence interprets the error of a get of no bytes, for a process that waits for a window. It
// returns the time after which to ask again, when n attempts have failed before. It returns 0 and
// nil if the window is there, and 0 and an error if that cannot be found out.
func Absence(err error, n int) (again time.Duration, _ error) {
	switch {
	case err == nil, errors.Is(err, ErrRights), errors.Is(err, ErrRange), errors.Is(err, ErrLocked),
		errors.Is(err, ErrAbsent):
		return 0, nil
	case errors.Is(err, ErrKey):
		return min(firstPause<<min(n, 10), lastPause), nil
	}
	return 0, err
}
