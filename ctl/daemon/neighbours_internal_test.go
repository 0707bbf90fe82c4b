package daemon

// This file tests who may have memory with whom, and how much of it there is.

import (
	"errors"
	"os"
	"testing"

	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
)

// Rule: memory is for two ports of one user in one user namespace, both of which the daemon knows;
// and nobody has more than his part of it.
func TestNeighbourRules(t *testing.T) {
	s := newNeighbours()
	enter := func(node uint16, id uint32, uid, account uint32, space string) {
		s.ports[place{1, node}] = &neighbour{id: id, owner: peer{uid: uid, account: account}, space: space}
	}
	enter(0, 10, 1000, 1000, "a")
	for node, c := range []struct {
		what    string
		uid     uint32
		account uint32
		space   string
		want    error
	}{
		{"the same", 1000, 1000, "a", nil},
		{"another user", 1001, 1001, "a", attach.ErrForbidden},
		{"another of the user's numbers", 100_000, 1000, "a", attach.ErrForbidden},
		{"another namespace", 1000, 1000, "b", attach.ErrForbidden},
		{"an unknown namespace", 1000, 1000, "", attach.ErrForbidden},
	} {
		at := uint16(1 + node)
		enter(at, uint32(20+node), c.uid, c.account, c.space)
		of := &pair{account: c.account}
		key, mine, err := s.reserve(place{1, 0}, place{1, at}, of)
		if !errors.Is(err, c.want) || (err == nil) != (mine == of) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if err != nil {
			continue
		}
		if _, _, err := s.reserve(place{1, at}, place{1, 0}, of); !errors.Is(err, attach.ErrBusy) {
			t.Errorf("while it is being made: %v", err)
		}
		if err := s.made(key, mine); err != nil {
			t.Error(err)
		}
		if again, mine, err := s.reserve(place{1, at}, place{1, 0}, of); again != key || mine != nil || err != nil {
			t.Errorf("when it is there: %v, %v", again, err)
		}
	}
	if ended := s.leave(place{1, 1}, 20); len(ended) != 1 || len(s.pairs) != 0 {
		t.Errorf("%d pairs end with a port, and %d are left", len(ended), len(s.pairs))
	}
	enter(7, 30, 1000, 1000, "a")
	key, mine, err := s.reserve(place{1, 0}, place{1, 7}, &pair{account: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if ended := s.leave(place{1, 7}, 30); len(ended) != 0 {
		t.Error("a pair is given back that is not counted yet")
	}
	if err := s.made(key, mine); !errors.Is(err, attach.ErrBusy) {
		t.Errorf("one of the two has ended while it was made: %v", err)
	}
	s.abandon(key, mine)

	for i := range uint32(mostNeighbours) {
		s.pairs[ports.PairOf(10, 100+i)] = &pair{account: 1000, made: true}
	}
	enter(8, 40, 1000, 1000, "a")
	if _, _, err := s.reserve(place{1, 8}, place{1, 0}, &pair{account: 1000}); !errors.Is(err, attach.ErrFull) {
		t.Errorf("more than a process has neighbours: %v", err)
	}
	for i := range uint32(mostShared/4*3 - mostNeighbours) {
		s.pairs[ports.Pair{1000 + i, 1 << 20}] = &pair{account: 1000, made: true}
	}
	enter(9, 41, 1000, 1000, "a")
	if _, _, err := s.reserve(place{1, 8}, place{1, 9}, &pair{account: 1000}); !errors.Is(err, attach.ErrFull) {
		t.Errorf("more than a user's part: %v", err)
	}
	enter(8, 40, 7, 7, "a")
	enter(9, 41, 7, 7, "a")
	if _, _, err := s.reserve(place{1, 8}, place{1, 9}, &pair{account: 7}); err != nil {
		t.Errorf("another user: %v", err)
	}
}

// Rule: of a process that the daemon does not see nothing is known.
func TestUserSpace(t *testing.T) {
	if own := userSpace(int32(os.Getpid())); own == "" || own != userSpace(int32(os.Getppid())) {
		t.Errorf("the namespaces of this process and its parent are %q and %q", own, userSpace(int32(os.Getppid())))
	}
	if s := userSpace(0) + userSpace(1<<30); s != "" {
		t.Errorf("that of nobody is %q", s)
	}
}
