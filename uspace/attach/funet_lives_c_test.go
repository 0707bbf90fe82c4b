package attach_test

// This file has a process in Go that joins its job again meet a node on funet.h.

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
)

// Rule: a node in C takes no part in joining again, and says so: a later life of a node in Go ends
// with ErrRejoin, and waits for nothing (funet.h).
func TestCRefusesToRejoin(t *testing.T) {
	d := start(t, "")
	stays := d.member(compile(t, "testdata/stays.c"), 1)
	if err := stays.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stays.Process.Kill()
		_ = stays.Wait()
	})
	ends := make(chan error, 1)
	go func() {
		c, err := attach.Open(d.config(0))
		if err != nil {
			ends <- err
			return
		}
		defer c.Close(0)
		e, err := am.New(c.Interface(), 0, members, c.Drive, 1)
		if err == nil {
			err = e.Rejoin(am.RejoinOptions{Life: 1, Now: func() int64 { return time.Now().UnixNano() }})
		}
		if err != nil {
			ends <- err
			return
		}
		if err = e.SendBytes(1, 1, nil); !errors.Is(err, am.ErrRejoin) {
			ends <- fmt.Errorf("sending to it gave %w, want that it is refused", err)
			return
		}
		ends <- nil
	}()
	if err := await(t, "the later life ends", ends); err != nil {
		t.Error(err)
	}
}
