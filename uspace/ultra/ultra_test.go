package ultra_test

// This file holds the rules of the library (doc.go), between processes of clusters in virtual time.

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/ultra"
)

const (
	base       = 0x100000
	memorySize = 1 << 16
	slices     = 32
)

var remote = funi.RemoteSizes{KeySlots: 8, Areas: 1, Notifications: 64}

var errLate = errors.New("not in time")

// node is a process of a cluster. sends is the memory of an end that sends, receives that of one
// that receives.
type node struct {
	*ultra.Paths
	p               *sim.Process
	sends, receives []byte
	number          uint16
}

func newNode(p *sim.Process) (*node, error) {
	memory, err := p.Segment(base, memorySize, funi.Keyed)
	if err != nil {
		return nil, err
	}
	end := p.Now() + int64(time.Minute)
	drive := func() error {
		if p.Drive(); p.Now() > end {
			return errLate
		}
		return nil
	}
	n := &node{p: p, number: p.Context().Node(), sends: memory[:4096], receives: memory[4096:]}
	e, err := rma.New(p.Interface(), rand.NewChaCha8([32]byte{byte(n.number)}), drive)
	if err != nil {
		return nil, err
	}
	n.Paths = ultra.New(e, p.Interface(), drive)
	return n, e.Use(funi.Segment{Base: base, Memory: memory, Rights: funi.Keyed})
}

// run runs a program on each node of a cluster.
func run(t *testing.T, nodes int, net sim.EthernetConfig, program func(n *node) error) {
	t.Helper()
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: nodes, Net: net},
		func(p *sim.Process) error {
			n, err := newNode(p)
			if err != nil {
				return err
			}
			return program(n)
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	if err := k.Finish(time.Hour); err != nil {
		t.Fatal(err)
	}
}

// lossy loses, repeats and reorders frames.
var lossy = sim.EthernetConfig{Seed: 3, Faults: sim.Faults{Loss: 0.1, Duplicate: 0.1, Reorder: 0.2}}

// Rule: lines arrive once, in order and whole, and the receiver gets io.EOF behind the last, as
// often as it asks (doc.go).
func TestLines(t *testing.T) {
	const lines = 300
	run(t, 2, lossy, func(n *node) error {
		if n.number == 0 {
			s, err := n.OpenSender(1, n.sends)
			if err != nil {
				return err
			}
			for i := uint64(0); i < lines; {
				sent, err := s.Send([]uint64{i, 2 * i, 3 * i, 4, 5, 6, 7}[:1+i%7]...)
				if err != nil {
					return err
				}
				if sent {
					i++
				} else {
					n.p.Drive()
				}
			}
			if err := s.Flush(); err != nil {
				return err
			}
			return s.Close()
		}
		r, err := n.OpenReceiver(0, n.receives, slices)
		if err != nil {
			return err
		}
		var w [ultra.MaxWords]uint64
		for i := uint64(0); i < lines; i++ {
			size, err := r.Receive(&w)
			if err != nil || size != int(1+i%7) || w[0] != i || size > 2 && w[2] != 3*i {
				return fmt.Errorf("line %d: %d words, %x, %w", i, size, w, err)
			}
		}
		for range 3 {
			if _, err := r.Receive(&w); err != io.EOF {
				return fmt.Errorf("behind the last line: %w", err)
			}
			if _, _, err := r.Next(&w); err != io.EOF {
				return fmt.Errorf("behind the last line: %w", err)
			}
		}
		return r.Close()
	})
}

// Rule: the ends for one node are joined in the order in which they were opened, in both
// directions, and many lines go both ways (3.5.2).
func TestPathsAreJoinedInOrder(t *testing.T) {
	run(t, 2, lossy, func(n *node) error {
		other := 1 - n.number
		var to []*ultra.Sender
		var from []*ultra.Receiver
		for i := range 3 {
			s, err := n.OpenSender(other, n.sends[256*i:256*(i+1)])
			if err != nil {
				return err
			}
			size, _ := ultra.Bytes(slices)
			r, err := n.OpenReceiver(other, n.receives[size*i:size*(i+1)], slices)
			if err != nil {
				return err
			}
			to, from = append(to, s), append(from, r)
		}
		for i, s := range to {
			if err := s.Ready(); err != nil {
				return err
			}
			if sent, err := s.Send(uint64(i)); !sent || err != nil {
				return fmt.Errorf("path %d: %v, %w", i, sent, err)
			}
		}
		var w [ultra.MaxWords]uint64
		for i, r := range from {
			if _, err := r.Receive(&w); err != nil || w[0] != uint64(i) {
				return fmt.Errorf("path %d has the line of path %d: %w", i, w[0], err)
			}
		}
		for i := range to {
			if err := errors.Join(to[i].Close()); err != nil {
				return err
			}
		}
		for _, r := range from {
			if _, err := r.Receive(&w); err != io.EOF {
				return err
			}
			if err := r.Close(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Rule: a path whose other end is not opened in time fails, and says what to do; one whose other
// end closes early tells the sender so (Error).
func TestErrors(t *testing.T) {
	var open, closed bool
	run(t, 2, sim.EthernetConfig{Seed: 1}, func(n *node) error {
		if n.number == 1 {
			r, err := n.OpenReceiver(0, n.receives, slices)
			if err != nil {
				return err
			}
			if err := r.Ready(); err != nil {
				return err
			}
			for open = true; !closed; n.p.Drive() {
			}
			return r.Close()
		}
		s, err := n.OpenSender(1, n.sends)
		if err != nil {
			return err
		}
		if _, err := n.OpenSender(1, n.sends); !errors.Is(err, ultra.ErrFull) {
			return fmt.Errorf("a second end in the same memory: %w", err)
		}
		if _, err := n.OpenSender(1, make([]byte, 4096)); !errors.Is(err, rma.ErrMemory) {
			return fmt.Errorf("memory that is not in a segment: %w", err)
		}
		if _, err := n.OpenReceiver(1, n.receives, 33); !errors.Is(err, funi.ErrSlices) {
			return fmt.Errorf("33 slices: %w", err)
		}
		if _, err := n.OpenReceiver(1, n.receives[:100], 32); !errors.Is(err, funi.ErrLayout) {
			return fmt.Errorf("100 bytes: %w", err)
		}
		for _, words := range [][]uint64{nil, make([]uint64, 8)} {
			if _, err := s.Send(words...); !errors.Is(err, ultra.ErrLine) {
				return fmt.Errorf("%d words: %w", len(words), err)
			}
		}
		for !open {
			n.p.Drive()
		}
		closed = true
		var failed *ultra.Error
		for err = nil; err == nil; n.p.Drive() {
			_, err = s.Send(1)
		}
		if !errors.As(err, &failed) || !failed.Opened || failed.Reason != arctic.ReasonNoPath {
			return fmt.Errorf("after the other end was closed: %w", err)
		}
		if err := s.Close(); !errors.As(err, &failed) {
			return fmt.Errorf("closing it: %w", err)
		}
		late, err := n.OpenSender(1, n.sends)
		if err != nil {
			return err
		}
		if err := late.Ready(); !errors.As(err, &failed) || failed.Opened {
			return fmt.Errorf("the other end was not opened: %w", err)
		}
		if err := late.Close(); err != nil {
			return err
		}
		return nil
	})
}
