package attach_test

// This file runs programs on funet.h, alone and with programs in Go in the same job.

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
)

// Handlers of talk.c.
const (
	reverseCall = 1 + iota
	refuseCall
	hugeCall
	silentCall
	negativeCall
)

// refusal is an error with a code of the program's own.
type refusal uint32

func (r refusal) Error() string { return fmt.Sprintf("no %d of that, and a text", uint32(r)) }
func (r refusal) Code() uint32  { return uint32(r) }

// goTalk is a node of talk.c in Go, as far as calls and barriers go.
func goTalk(d *daemon, node uint16) error {
	c, err := attach.Open(d.config(node))
	if err != nil {
		return err
	}
	defer c.Close(time.Second)
	e, err := am.New(c.Interface(), int(node), members, c.Drive, 1)
	if err != nil {
		return err
	}
	if err := e.UseMemory(am.Memory{Segment: c.Segment, Now: c.Now, Limit: 16 << 20}); err != nil {
		return err
	}
	for number, h := range map[uint32]am.CallHandler{
		reverseCall: func(_ *am.Message, b []byte) ([]byte, error) {
			answer := bytes.Clone(b)
			for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
				answer[i], answer[j] = answer[j], answer[i]
			}
			return answer, nil
		},
		refuseCall:   func(_ *am.Message, b []byte) ([]byte, error) { return nil, refusal(300) },
		hugeCall:     func(*am.Message, []byte) ([]byte, error) { return nil, fmt.Errorf("much: %w", am.ErrLong) },
		silentCall:   func(*am.Message, []byte) ([]byte, error) { return nil, nil },
		negativeCall: func(*am.Message, []byte) ([]byte, error) { return nil, errors.New("Permission denied") },
	} {
		if err := e.HandleCall(number, h); err != nil {
			return err
		}
	}
	for range 20 {
		if err := e.Barrier(); err != nil {
			return err
		}
	}
	for i := 1; i < members; i++ {
		if err := goCalls(e, (int(node)+i)%members); err != nil {
			return fmt.Errorf("calling node %d: %w", (int(node)+i)%members, err)
		}
	}
	for range 2 {
		if err := e.Barrier(); err != nil {
			return err
		}
	}
	return nil
}

// goCalls calls a node in every way.
func goCalls(e *am.Endpoint, node int) error {
	lengths := []int{77, 382, 1907, 2048, 9532, 47657, 238282, 1191407}
	for n := range am.ShortCall + 1 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		b, want := make([]byte, n), make([]byte, n)
		for i := range b {
			b[i] = byte(node + 3*i + n)
			want[n-1-i] = b[i]
		}
		answer, err := e.Call(nil, node, reverseCall, b)
		if err != nil || !bytes.Equal(answer, want) {
			return fmt.Errorf("%d bytes gave %x, %w", n, answer, err)
		}
	}
	for _, c := range []struct {
		handler, code uint32
		text          string
	}{{refuseCall, 300, "no 300 of that, and a text"}, {200, 2, ""}, {hugeCall, 7, ""},
		{negativeCall, am.CodeError, "Permission denied"}} {
		b := []byte{300 & 0xff, 300 >> 8}
		if c.handler == negativeCall {
			b = nil
		}
		_, err := e.Call(nil, node, c.handler, b)
		var remote *am.RemoteError
		if !errors.As(err, &remote) || remote.Code != c.code || !strings.HasPrefix(remote.Text, c.text) ||
			len(remote.Text) > am.MaxErrorText {
			return fmt.Errorf("handler %d gave %w, want code %d", c.handler, err, c.code)
		}
	}
	if answer, err := e.Call(nil, node, silentCall, nil); err != nil || len(answer) != 0 {
		return fmt.Errorf("an answer without bytes is %x, %w", answer, err)
	}
	return nil
}

// Rule: programs on funet.h call each other, also with errors, send messages and replies of every
// length, and meet in barriers; handlers that send what they may not are refused (funet.h).
func TestCTalks(t *testing.T) {
	program := compile(t, "testdata/talk.c")
	d := start(t, "")
	ends := make(chan error, members)
	for node := range uint16(members) {
		go func() {
			out, err := d.member(program, node).CombinedOutput()
			if want := fmt.Sprintln((members-1)*(77+7+7) + members*81); err != nil || string(out) != want {
				err = fmt.Errorf("node %d: %w, and it printed %q, want %q", node, err, out, want)
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

// Rule: a job may have nodes in Go and in C: they call each other, errors included, and meet in
// barriers.
func TestCAndGoTalk(t *testing.T) {
	program := compile(t, "testdata/talk.c")
	d := start(t, "")
	ends := make(chan error, members)
	for node := range uint16(members) {
		go func() {
			if node%3 == 0 {
				err := goTalk(d, node)
				if err != nil {
					err = fmt.Errorf("node %d, in Go: %w", node, err)
				}
				ends <- err
				return
			}
			out, err := d.member(program, node, "calls").CombinedOutput()
			if want := fmt.Sprintln((members - 1) * (77 + 7 + 7)); err != nil || string(out) != want {
				err = fmt.Errorf("node %d: %w, and it printed %q, want %q", node, err, out, want)
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

// Rule: messages of any length, tagged messages and collective operations arrive whole, the tagged
// ones in order, from memory of the program and from that of the card. Both sides hear of an
// operation that is refused or given up, and it disturbs nothing that follows (funet.h).
func TestCLong(t *testing.T) {
	program := compile(t, "testdata/long.c")
	d := start(t, "")
	ends := make(chan error, members)
	for node := range uint16(members) {
		go func() {
			out, err := d.member(program, node).CombinedOutput()
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
