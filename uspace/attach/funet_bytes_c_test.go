package attach_test

// This file has programs on funet.h and programs in Go send each other long messages.

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
)

// Lengths and handlers of long.c.
var longLengths = []int{0, 1, 71, 72, 73, 80, 81, 95, 96, 97, 1000, 2044, 2047, 2048, 2049, 4096, 65536, 524287, 524288,
	524289, 1048576, 1048577, 3000001}

const (
	takeBytes = 1 + iota
	takenBytes
	echoBytes
	echoedBytes
)

// longBytes are those that long.c sends.
func longBytes(node, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte((node+n)*37 + i*7 + i>>8*11 + i>>16*3)
	}
	return b
}

// goLong is a node of long.c in Go, as far as messages go.
func goLong(d *daemon, node uint16) error {
	c, err := attach.Open(d.config(node))
	if err != nil {
		return err
	}
	defer c.Close(5 * time.Second)
	e, err := am.New(c.Interface(), int(node), members, c.Drive, uint64(node))
	if err != nil {
		return err
	}
	if err := e.UseMemory(am.Memory{Segment: c.Segment, Now: c.Now, Limit: 16 << 20}); err != nil {
		return err
	}
	taken, want := 0, 0
	for number, h := range map[uint32]am.BytesHandler{
		takeBytes: func(m *am.Message, b []byte) error {
			if !bytes.Equal(b, longBytes(m.Source, len(b))) {
				return fmt.Errorf("other bytes came, %d of them", len(b))
			}
			return m.ReplyBytes(takenBytes, nil)
		},
		takenBytes: func(*am.Message, []byte) error { taken++; return nil },
		echoBytes:  func(m *am.Message, b []byte) error { return m.ReplyBytes(echoedBytes, b) },
		echoedBytes: func(_ *am.Message, b []byte) error {
			taken++
			if !bytes.Equal(b, longBytes(int(node), len(b))) {
				return fmt.Errorf("other bytes came back, %d of them", len(b))
			}
			return nil
		},
	} {
		if err := e.HandleBytes(number, h); err != nil {
			return err
		}
	}
	if err := e.Barrier(); err != nil {
		return err
	}
	for range 3 {
		for _, n := range longLengths {
			b := longBytes(int(node), n)
			if err := e.SendBytes((int(node)+1)%members, echoBytes, b); err != nil {
				return err
			}
			for i := 1; i < members; i++ {
				if err := e.SendBytes((int(node)+i)%members, takeBytes, b); err != nil {
					return err
				}
			}
			want += members
		}
	}
	if err := e.Wait(func() bool { return taken == want }); err != nil {
		return err
	}
	return e.Barrier()
}

// Rule: nodes in Go and in C send each other messages and replies of any length.
func TestCAndGoLong(t *testing.T) {
	program := compile(t, "testdata/long.c")
	d := start(t, "")
	ends := make(chan error, members)
	for node := range uint16(members) {
		go func() {
			if node%3 == 0 {
				err := goLong(d, node)
				if err != nil {
					err = fmt.Errorf("node %d, in Go: %w", node, err)
				}
				ends <- err
				return
			}
			out, err := d.member(program, node, "messages").CombinedOutput()
			if err != nil {
				err = fmt.Errorf("node %d: %w: %s", node, err, out)
			}
			ends <- err
		}()
	}
	for range members {
		if err := await(t, "a node ends", ends); err != nil {
			t.Error(err)
		}
	}
}
