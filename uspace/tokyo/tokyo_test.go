package tokyo_test

// This file holds the rules of the interface (doc.go; thesis, sections 2.1, 3.1 and 3.3), between
// processes of clusters in virtual time.

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/tokyo"
)

const (
	base       = 0x100000
	memorySize = 1 << 15
	virtual    = 0x7fff_0000_0000
	theType    = 77
)

var errLate = errors.New("not in time")

// node is a process of a cluster.
type node struct {
	*tokyo.Process
	p      *sim.Process
	memory []byte
	number uint16
}

// run runs a program on each node of a cluster.
func run(t *testing.T, nodes int, net sim.EthernetConfig, tune func(*tokyo.Options), program func(n *node) error) {
	t.Helper()
	left := nodes
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: funi.RemoteSizes{KeySlots: 2, Areas: 1,
		Notifications: 64}}, Nodes: nodes, Net: net}, func(p *sim.Process) (err error) {
		n := &node{p: p, number: p.Context().Node()}
		if n.memory, err = p.Segment(base, memorySize, funi.Keyed|funi.Source); err != nil {
			return err
		}
		end := p.Now() + int64(time.Minute)
		drive := func() error {
			if p.Drive(); p.Now() > end {
				return errLate
			}
			return nil
		}
		o := tokyo.Options{Node: n.number, Virtual: virtual, Type: theType,
			Segment: funi.Segment{Base: base, Memory: n.memory, Rights: funi.Keyed | funi.Source}}
		if tune != nil {
			tune(&o)
		}
		if n.Process, err = tokyo.Open(p.Interface(), rand.NewChaCha8([32]byte{byte(n.number)}), drive, o); err != nil {
			return err
		}
		if err := program(n); err != nil {
			return fmt.Errorf("node %d: %w", n.number, err)
		}
		left--
		return n.until("all are done", func() bool { return left == 0 })
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(time.Hour); err != nil {
		t.Fatal(err)
	}
}

// until drives the card until done.
func (n *node) until(what string, done func() bool) error {
	for end := n.p.Now() + int64(time.Minute); !done(); n.p.Drive() {
		if n.Poll(); n.p.Now() > end {
			return fmt.Errorf("not in time: %s", what)
		}
	}
	return nil
}

// Rule: an address is its two parts, and moves within the node.
func TestAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number, at := rapid.Uint16().Draw(t, "node"), rapid.Uint64Range(0, tokyo.MaxVirtual).Draw(t, "virtual")
		a := tokyo.NewAddress(number, at)
		if a.Node() != number || a.Virtual() != at {
			t.Fatalf("%v is not of %d and %#x", a, number, at)
		}
		more := rapid.Uint64().Draw(t, "bytes")
		if b := a.Plus(more); b.Node() != number || b.Virtual() != (at+more)&tokyo.MaxVirtual {
			t.Fatalf("%v plus %d is %v", a, more, b)
		}
	})
	if s := tokyo.NewAddress(3, 0xabc).String(); s != "3:0xabc" {
		t.Error(s)
	}
}

// Rule: who has no access ID accesses nothing; an introduction gives each the other's; then what is
// written is read, and words change atomically, whatever the network loses (sections 3.1, 3.3.1.1,
// 3.3.1.2, 2.2.2).
func TestAccess(t *testing.T) {
	const each = 200
	var owner *node
	done := 0
	run(t, 3, sim.EthernetConfig{Seed: 1, Faults: sim.Faults{Loss: 0.02}}, nil, func(n *node) error {
		if n.number == 0 {
			owner = n
			if err := n.until("the others are done", func() bool { return done == 2 }); err != nil {
				return err
			}
			// it never introduced itself: the others did
			for other := uint16(1); other < 3; other++ {
				if err := n.Write(tokyo.NewAddress(other, virtual+100), []byte("from the owner")); err != nil {
					return err
				}
			}
			if err := n.Quiet(); err != nil {
				return err
			}
			done++
			return nil
		}
		if err := n.until("the owner is there", func() bool { return owner != nil }); err != nil {
			return err
		}
		at, err := owner.Address(owner.memory[int(n.number)*8192:][:4096])
		if err != nil {
			return err
		}
		if err := n.Write(at, []byte{1}); !errors.Is(err, tokyo.ErrStranger) {
			return fmt.Errorf("without an access ID: %w", err)
		}
		for range 2 {
			if err := n.Introduce(0); err != nil {
				return err
			}
		}
		for _, size := range []int{1, 64, 65, 4096} {
			data, into := n.memory[4096:4096+size], n.memory[16384:16384+size]
			for i := range data {
				data[i] = byte(size + i + int(n.number))
			}
			if err := errors.Join(n.Write(at, data), n.Quiet(), n.Read(at, into)); err != nil ||
				!bytes.Equal(data, into) {
				return fmt.Errorf("%d bytes: other bytes, or %w", size, err)
			}
		}
		word := tokyo.NewAddress(0, virtual)
		for range each {
			if _, err := n.Add(word, 1); err != nil {
				return err
			}
			for {
				var was [8]byte
				copy(was[:], n.memory[:8])
				if err := n.Read(word.Plus(8), n.memory[:8]); err != nil {
					return err
				}
				v := uint64(n.memory[0]) | uint64(n.memory[1])<<8
				if is, err := n.CompareSwap(word.Plus(8), v, v+1); err != nil {
					return err
				} else if is == v {
					break
				}
			}
		}
		done++
		return n.until("the owner has written", func() bool {
			return bytes.Equal(n.memory[100:114], []byte("from the owner"))
		})
	})
	if owner.memory[0] != 2*each&0xff || owner.memory[8] != 2*each&0xff || owner.memory[9] != 2*each>>8 {
		t.Errorf("the words are % x, want twice %d", owner.memory[:16], 2*each)
	}
}

// Rule: two that introduce themselves to each other at once both know each other.
func TestIntroducedAtOnce(t *testing.T) {
	for seed := range uint64(10) {
		run(t, 2, sim.EthernetConfig{Seed: seed, Faults: sim.Faults{Loss: 0.1}}, nil, func(n *node) error {
			if err := n.Introduce(1 - n.number); err != nil {
				return err
			}
			if _, err := n.Add(tokyo.NewAddress(1-n.number, virtual), 1); err != nil {
				return err
			}
			return n.until("the other has added", func() bool { return n.memory[0] == 1 })
		})
	}
}

// Rule: who is not accepted gets no access ID, and its own is not kept; the node that is nobody's
// cannot be introduced to.
func TestRefused(t *testing.T) {
	asked := false
	run(t, 2, sim.EthernetConfig{}, func(o *tokyo.Options) {
		o.Accept = func(node uint16) bool { return node != 1 }
	}, func(n *node) error {
		if n.number == 0 {
			if err := n.until("the other has asked", func() bool { return asked }); err != nil {
				return err
			}
			if n.Knows(1) {
				return errors.New("it knows who it has refused")
			}
			return nil
		}
		defer func() { asked = true }()
		if err := n.Introduce(0); !errors.Is(err, tokyo.ErrRefused) || n.Knows(0) {
			return fmt.Errorf("introduced: %v, %w", n.Knows(0), err)
		}
		if err := n.Introduce(9); !errors.Is(err, rma.ErrUnreachable) {
			return fmt.Errorf("to a node that there is not: %w", err)
		}
		n.Met(0, 1<<20) // a guess
		if err := errors.Join(n.Write(tokyo.NewAddress(0, virtual), []byte{1}), n.Quiet()); !errors.Is(err,
			rma.ErrKey) || n.Knows(0) {
			return fmt.Errorf("with a guessed access ID: knows %v, %w", n.Knows(0), err)
		}
		return nil
	})
}

// Rule: closed memory is nobody's, and its access ID is forgotten by who uses it.
func TestClosed(t *testing.T) {
	introduced, closed := false, false
	run(t, 2, sim.EthernetConfig{}, nil, func(n *node) error {
		if n.number == 0 {
			if err := n.until("the other knows it", func() bool { return introduced }); err != nil {
				return err
			}
			defer func() { closed = true }()
			return n.Close()
		}
		if err := n.Introduce(0); err != nil {
			return err
		}
		at := tokyo.NewAddress(0, virtual)
		if err := n.Read(at.Plus(memorySize), n.memory[:8]); !errors.Is(err, rma.ErrRange) {
			return fmt.Errorf("behind the memory: %w", err)
		}
		if err := n.Read(at, make([]byte, 8)); !errors.Is(err, rma.ErrMemory) {
			return fmt.Errorf("into memory that is not its own: %w", err)
		}
		introduced = true
		if err := n.until("the other has closed", func() bool { return closed }); err != nil {
			return err
		}
		if _, err := n.Add(at, 1); !errors.Is(err, rma.ErrKey) {
			return fmt.Errorf("to closed memory: %w", err)
		}
		if err := n.Write(at, nil); !errors.Is(err, tokyo.ErrStranger) {
			return fmt.Errorf("the access ID is still known: %w", err)
		}
		return nil
	})
}

// Rule: messages of other types are the program's, and introductions behind them are answered.
func TestOthersMessages(t *testing.T) {
	got := 0
	tune := func(o *tokyo.Options) {
		o.Others = func(l funi.Level, s *funi.Slot) {
			if l == funi.Request && s.Header().Type() == 5 && s[funi.PayloadWord] == 99 {
				got++
			}
		}
	}
	run(t, 2, sim.EthernetConfig{}, tune, func(n *node) error {
		s := n.p.Interface().Reserve(funi.Request)
		s.SetHeader(funi.NewHeader(1-n.number, 5, 1))
		s[funi.PayloadWord] = 99
		n.p.Interface().Commit(funi.Request)
		return errors.Join(n.Introduce(1-n.number), n.until("both messages", func() bool { return got == 2 }))
	})
}

// Rule: what cannot be a process is refused, and addresses are those of its own memory.
func TestOptions(t *testing.T) {
	run(t, 1, sim.EthernetConfig{}, nil, func(n *node) error {
		segment := funi.Segment{Base: base, Memory: n.memory, Rights: funi.Keyed}
		for what, o := range map[string]tokyo.Options{
			"no memory":           {Segment: funi.Segment{Rights: funi.Keyed}},
			"without the right":   {Segment: funi.Segment{Base: base, Memory: n.memory, Rights: funi.Source}},
			"49 bits":             {Segment: segment, Virtual: tokyo.MaxVirtual - memorySize + 2},
			"a type that is none": {Segment: segment, Virtual: virtual, Type: funi.MaxType + 1},
		} {
			if _, err := tokyo.Open(n.p.Interface(), rand.NewChaCha8([32]byte{}), nil, o); !errors.Is(err,
				tokyo.ErrOptions) {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		if a, err := n.Address(n.memory[10:20]); err != nil || a != tokyo.NewAddress(0, virtual+10) {
			return fmt.Errorf("%v, %w", a, err)
		}
		for what, b := range map[string][]byte{"others' memory": make([]byte, 8), "none": nil} {
			if _, err := n.Address(b); !errors.Is(err, tokyo.ErrElsewhere) {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		// its own memory needs no introduction
		return n.Write(tokyo.NewAddress(0, virtual), []byte{1})
	})
}
