package rma_test

// This file holds the rules of the library (doc.go), between processes of clusters in virtual time.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
)

const (
	base       = 0x100000
	memorySize = 1 << 16
	// at is the address of the first byte of windows.
	at = 0x7000_0000_0000
)

var remote = funi.RemoteSizes{KeySlots: 8, Areas: 1, Notifications: 64}

// node is a process of a cluster, with memory that it may expose, send from and get to.
type node struct {
	*rma.Endpoint
	p      *sim.Process
	memory []byte
	there  []byte // another's, to look at
	number uint16
}

var errLate = errors.New("not in time")

func newNode(p *sim.Process) (*node, error) {
	n := &node{p: p, number: p.Context().Node()}
	var err error
	if n.memory, err = p.Segment(base, memorySize, funi.Keyed|funi.Source); err != nil {
		return nil, err
	}
	end := p.Now() + int64(time.Minute)
	drive := func() error {
		if p.Drive(); p.Now() > end {
			return errLate
		}
		return nil
	}
	if n.Endpoint, err = rma.New(p.Interface(), rand.NewChaCha8([32]byte{byte(n.number)}), drive); err != nil {
		return nil, err
	}
	return n, n.Use(funi.Segment{Base: base, Memory: n.memory, Rights: funi.Keyed | funi.Source})
}

// until drives the card until done.
func (n *node) until(what string, done func() bool) error {
	for end := n.p.Now() + int64(time.Minute); !done(); n.p.Drive() {
		if n.Poll(); n.p.Now() > end {
			return fmt.Errorf("node %d: not in time: %s", n.number, what)
		}
	}
	return nil
}

// run runs a program on each node of a cluster.
func run(t *testing.T, nodes int, net sim.EthernetConfig, program func(n *node) error) *sim.Cluster {
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
	return k
}

// owned runs a program on node 0 while node 1 has a window over its memory, which ends when the
// program has.
func owned(t *testing.T, o rma.Options, program func(n *node, w rma.Target, memory []byte) error) {
	t.Helper()
	var w *rma.Window
	var memory []byte
	over := false
	run(t, 2, sim.EthernetConfig{Seed: 1}, func(n *node) (err error) {
		if n.number == 1 {
			if w, err = n.Expose(n.memory[:4096], o); err != nil {
				return err
			}
			memory = n.memory
			return n.until("the other is done", func() bool { return over })
		}
		if err := n.until("the window", func() bool { return w != nil }); err != nil {
			return err
		}
		defer func() { over = true }()
		return program(n, w.Target(1), memory)
	})
}

// Rule: what is put can be got, of any length; operations answer what was there; and silent puts
// are there after Quiet (doc.go).
func TestOperations(t *testing.T) {
	owned(t, rma.Options{Address: at}, func(n *node, w rma.Target, there []byte) error {
		for _, size := range []int{0, 1, 8, 64, 65, 2000, 4096} {
			data, into := n.memory[:size], n.memory[8192:8192+size]
			for i := range data {
				data[i] = byte(size + i*3)
			}
			if id, err := n.Put(w, data, rma.With{}); err != nil || id != 0 {
				return fmt.Errorf("%d bytes: %d, %w", size, id, err)
			}
			if err := n.Quiet(); err != nil {
				return err
			}
			if !bytes.Equal(there[:size], data) {
				return fmt.Errorf("%d bytes are not there after Quiet", size)
			}
			id, err := n.Get(w, into, rma.With{})
			if err != nil {
				return err
			}
			if r, err := n.Wait(id); err != nil || r.Bytes != size || !bytes.Equal(into, data) {
				return fmt.Errorf("%d bytes: got %d, %w", size, r.Bytes, err)
			}
		}
		for i, c := range []struct {
			issue func() (rma.ID, error)
			was   uint64
		}{
			// what the puts left, which is not looked at
			{func() (rma.ID, error) { return n.Swap(w.At(8), 5) }, 0},
			{func() (rma.ID, error) { return n.Add(w.At(8), 7) }, 5},
			{func() (rma.ID, error) { return n.CompareSwap(w.At(8), 13, 1) }, 12},
			{func() (rma.ID, error) { return n.CompareSwap(w.At(8), 12, 20) }, 12},
			{func() (rma.ID, error) { return n.Read(w.At(8)) }, 20},
		} {
			id, err := c.issue()
			if err != nil {
				return err
			}
			r, err := n.Wait(id)
			if err != nil || i > 0 && r.Uint64() != c.was || r.Bytes != 8 {
				return fmt.Errorf("operation %d answers %d, want %d: %w", i, r.Uint64(), c.was, err)
			}
			if _, err := n.Wait(id); !errors.Is(err, rma.ErrID) {
				return fmt.Errorf("waiting again: %w", err)
			}
		}
		return nil
	})
}

// Rule: failures have their reasons, those of silent puts at Quiet, once; nothing changes.
func TestFailures(t *testing.T) {
	owned(t, rma.Options{Address: at, Rights: funi.RightWrite}, func(n *node, w rma.Target, there []byte) error {
		wrong := w
		wrong.Key ^= 1 << 40
		for what, c := range map[string]struct {
			t    rma.Target
			size int
			want error
		}{
			"a wrong key":       {wrong, 8, rma.ErrKey},
			"behind the window": {w.At(4096), 1, rma.ErrRange},
			"across its end":    {w.At(4000), 200, rma.ErrRange},
			"before it":         {rma.Target{Node: 1, Key: w.Key, Address: at - 1}, 1, rma.ErrRange},
			"a node without":    {rma.Target{Node: 7, Key: w.Key, Address: at}, 1, rma.ErrUnreachable},
		} {
			if _, err := n.Put(c.t, n.memory[:c.size], rma.With{}); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			err := n.Quiet()
			var e *rma.Error
			if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Node != c.t.Node || e.Operation != arctic.RemotePut {
				return fmt.Errorf("%s: %w, want %w", what, err, c.want)
			}
			if err := n.Quiet(); err != nil {
				return fmt.Errorf("%s: told twice: %w", what, err)
			}
		}
		id, err := n.Add(w, 1)
		if err != nil {
			return err
		}
		if _, err := n.Wait(id); !errors.Is(err, rma.ErrRights) {
			return fmt.Errorf("adding where only writing is permitted: %w", err)
		}
		if _, err := n.Put(rma.Target{Node: 1, Address: arctic.MaxAddress + 1}, nil, rma.With{}); !errors.Is(err,
			rma.ErrTooLong) {
			return fmt.Errorf("an address of 49 bits: %w", err)
		}
		if _, err := n.PutNow(w, n.memory[:65], rma.With{}); !errors.Is(err, rma.ErrTooLong) {
			return fmt.Errorf("65 bytes at once: %w", err)
		}
		if _, err := n.Put(w, make([]byte, 65), rma.With{}); !errors.Is(err, rma.ErrMemory) {
			return fmt.Errorf("65 bytes of memory that the card does not know: %w", err)
		}
		if _, err := n.Get(w, make([]byte, 8), rma.With{}); !errors.Is(err, rma.ErrMemory) {
			return fmt.Errorf("a get to memory that the card does not know: %w", err)
		}
		if _, err := n.Apply(w, arctic.RemoteGet, arctic.Uint8, nil, 8, rma.With{}); !errors.Is(err, rma.ErrTooLong) {
			return fmt.Errorf("a get by Apply: %w", err)
		}
		if slices.ContainsFunc(there, func(b byte) bool { return b != 0 }) {
			return errors.New("memory changed")
		}
		return nil
	})
}

// Rule: windows that are not possible are refused, and after Revoke nobody changes the memory.
func TestWindows(t *testing.T) {
	run(t, 1, sim.EthernetConfig{}, func(n *node) error {
		for what, c := range map[string]struct {
			memory []byte
			o      rma.Options
			want   error
		}{
			"foreign memory": {make([]byte, 8), rma.Options{}, rma.ErrMemory},
			"no memory":      {nil, rma.Options{}, rma.ErrMemory},
			"49 bits": {n.memory, rma.Options{Address: arctic.MaxAddress - memorySize + 2},
				rma.ErrWindow},
			"notifications without right": {n.memory, rma.Options{Rights: funi.RightRead, Notifications: 1},
				rma.ErrWindow},
			"all of the ring":        {n.memory, rma.Options{Notifications: 64}, rma.ErrFull},
			"counts of 16 bytes":     {n.memory, rma.Options{Counts: n.memory[:16]}, rma.ErrWindow},
			"counts not aligned":     {n.memory, rma.Options{Counts: n.memory[4:28]}, rma.ErrWindow},
			"counts of no segment":   {n.memory, rma.Options{Counts: make([]byte, 24)}, rma.ErrMemory},
			"a key beyond the table": {n.memory, rma.Options{Key: 1<<20 | 8}, rma.ErrFull},
		} {
			if _, err := n.Expose(c.memory, c.o); !errors.Is(err, c.want) {
				return fmt.Errorf("%s: %w, want %w", what, err, c.want)
			}
		}
		var all []*rma.Window
		for range remote.KeySlots {
			w, err := n.Expose(n.memory[:64], rma.Options{Notifications: 7})
			if err != nil {
				return err
			}
			all = append(all, w)
		}
		if _, err := n.Expose(n.memory, rma.Options{}); !errors.Is(err, rma.ErrFull) {
			return fmt.Errorf("one window too many: %w", err)
		}
		for _, w := range all {
			if err := n.Revoke(w); err != nil {
				return err
			}
			if err := n.Revoke(w); !errors.Is(err, rma.ErrWindow) {
				return fmt.Errorf("revoking again: %w", err)
			}
			if _, err := n.Put(w.Target(0), []byte{1}, rma.With{}); err != nil {
				return err
			}
			if err := n.Quiet(); !errors.Is(err, rma.ErrKey) || n.memory[0] != 0 {
				return fmt.Errorf("after Revoke: %w, byte %d", err, n.memory[0])
			}
		}
		w, err := n.Expose(n.memory, rma.Options{Key: 77<<16 | 3})
		if err != nil || w.Key != 77<<16|3 {
			return fmt.Errorf("a fixed key: %w", err)
		}
		return nil
	})
}

// Rule: with locks, read and write without atomics lose nothing; who has not the lock is kept out.
func TestLocks(t *testing.T) {
	const nodes, each = 4, 20
	var w *rma.Window
	var memory []byte
	left := nodes - 1
	run(t, nodes, sim.EthernetConfig{Seed: 2}, func(n *node) (err error) {
		if n.number == 0 {
			memory = n.memory
			if w, err = n.Expose(n.memory[:64], rma.Options{}); err != nil {
				return err
			}
			return n.until("the others are done", func() bool { return left == 0 })
		}
		if err := n.until("the window", func() bool { return w != nil }); err != nil {
			return err
		}
		to := w.Target(0)
		if err := n.Unlock(to); !errors.Is(err, rma.ErrLocked) {
			return fmt.Errorf("unlocking what it has not: %w", err)
		}
		for range each {
			if err := n.Lock(to); err != nil {
				return err
			}
			if had, err := n.TryLock(to); had || err != nil {
				return fmt.Errorf("locked twice: %v, %w", had, err)
			}
			id, err := n.Get(to, n.memory[:8], rma.With{})
			if err != nil {
				return err
			}
			if _, err := n.Wait(id); err != nil {
				return err
			}
			n.memory[0]++
			if _, err := n.Put(to, n.memory[:8], rma.With{}); err != nil {
				return err
			}
			if err := n.Unlock(to); err != nil {
				return err
			}
		}
		left--
		return n.Quiet()
	})
	if memory[0] != (nodes-1)*each {
		t.Errorf("%d increments are left of %d", memory[0], (nodes-1)*each)
	}
}

// Rule: what a dead process has locked is free when the owner resumes the window.
func TestResumeFreesLock(t *testing.T) {
	var w *rma.Window
	locked, freed := false, false
	run(t, 3, sim.EthernetConfig{Seed: 3}, func(n *node) (err error) {
		switch n.number {
		case 0:
			if w, err = n.Expose(n.memory[:64], rma.Options{}); err != nil {
				return err
			}
			if err := n.until("the lock", func() bool { return locked }); err != nil {
				return err
			}
			if err := n.Suspend(w); err != nil {
				return err
			}
			if err := n.Resume(w); err != nil {
				return err
			}
			return n.until("the other has it", func() bool { return freed })
		case 1:
			if err := n.until("the window", func() bool { return w != nil }); err != nil {
				return err
			}
			err := n.Lock(w.Target(0))
			locked = true
			return err
		}
		if err := n.until("the lock", func() bool { return locked }); err != nil {
			return err
		}
		defer func() { freed = true }()
		return n.Lock(w.Target(0))
	})
}

// Rule: notifications tell of puts when their data is there, with the tag, and no more than the
// window has credit for are under way; a signal counts them.
func TestNotificationsAndSignals(t *testing.T) {
	const puts = 50
	var w *rma.Window
	run(t, 3, sim.EthernetConfig{Seed: 4, Faults: sim.Faults{Loss: 0.02}}, func(n *node) (err error) {
		if n.number == 0 {
			if w, err = n.Expose(n.memory[:32768], rma.Options{Notifications: 3}); err != nil {
				return err
			}
			next := [3]uint64{}
			for range 2 * puts {
				var m rma.Notification
				if err := n.until("a notification", func() bool { return n.Notification(&m) }); err != nil {
					return err
				}
				i := m.Tag
				at := int(m.Node)*8192 + int(i%4)*2048
				if i != next[m.Node] || n.memory[at] != byte(i) || n.memory[at+1999] != byte(i) ||
					m.Window != uint16(w.Key) {
					return fmt.Errorf("notification %+v, want %d; bytes %d and %d", m, next[m.Node], n.memory[at],
						n.memory[at+1999])
				}
				next[m.Node]++
			}
			return n.until("all signals", func() bool { return n.memory[0] == 2*puts })
		}
		if err := n.until("the window", func() bool { return w != nil }); err != nil {
			return err
		}
		for i := range uint64(puts) {
			data := n.memory[i%4*2048:][:2000]
			data[0], data[1999] = byte(i), byte(i)
			with := rma.With{Ordered: true, Ack: true, Notify: true, Tag: i,
				Signal: &rma.Signal{Target: w.Target(0), Add: true, Value: 1}}
			id, err := n.Put(w.Target(0).At(uint64(n.number)*8192+i%4*2048), data, with)
			if err != nil {
				return err
			}
			if _, err := n.Wait(id); err != nil {
				return err
			}
		}
		return n.Quiet()
	})
}

// Rule: results are told once, by Next in the order of completion or by Wait, also when more
// operations are issued than there are records.
func TestNextAndWait(t *testing.T) {
	owned(t, rma.Options{}, func(n *node, w rma.Target, there []byte) error {
		sum := uint64(0)
		for range 3000 {
			id, err := n.Add(w, 1)
			if err != nil {
				return err
			}
			if id%3 == 0 {
				r, err := n.Wait(id)
				if err != nil {
					return err
				}
				sum += r.Uint64()
			}
			for r := (rma.Result{}); id%5 == 0 && n.Next(&r); {
				sum += r.Uint64()
			}
		}
		if err := n.Quiet(); err != nil {
			return err
		}
		for r := (rma.Result{}); n.Next(&r); {
			sum += r.Uint64()
		}
		if sum != 3000*2999/2 {
			return fmt.Errorf("the sum of the answers is %d, want %d", sum, 3000*2999/2)
		}
		return nil
	})
}

// Rule: a process that does not take notifications is told so where it waits for something else.
func TestUnreadNotifications(t *testing.T) {
	var w *rma.Window
	over := false
	run(t, 2, sim.EthernetConfig{Seed: 5}, func(n *node) (err error) {
		if n.number == 0 {
			if w, err = n.Expose(n.memory[:64], rma.Options{Notifications: 32}); err != nil {
				return err
			}
			if err := n.until("the other is done", func() bool { return over }); err != nil {
				return err
			}
			for range 100 {
				n.Poll()
				n.p.Drive()
			}
			if _, err = n.Put(w.Target(0), []byte{1}, rma.With{}); err == nil {
				err = n.Quiet()
			}
			if !errors.Is(err, rma.ErrUnread) {
				return fmt.Errorf("waiting with all of the ring unread: %w", err)
			}
			for m := (rma.Notification{}); n.Notification(&m); {
			}
			return n.Quiet()
		}
		if err := n.until("the window", func() bool { return w != nil }); err != nil {
			return err
		}
		for i := range 70 {
			if _, err := n.Put(w.Target(0), nil, rma.With{Notify: true, Tag: uint64(i)}); err != nil {
				return err
			}
		}
		err = n.Quiet() // what the process there has not taken is in the ring
		over = true
		return err
	})
}

// Rule: a context without remote memory has no end.
func TestNone(t *testing.T) {
	k, err := sim.NewCluster(sim.ClusterOptions{Nodes: 1}, func(p *sim.Process) error {
		if _, err := rma.New(p.Interface(), rand.NewChaCha8([32]byte{}), nil); !errors.Is(err, rma.ErrNone) {
			return fmt.Errorf("without remote memory: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// Rule: an operation that takes long delays no others, however many there are, and what became of
// it is told (Next): records go to others when they are free, not in turn.
func TestLongOperationIsTold(t *testing.T) {
	var windows [2]*rma.Window
	ready, resume, over := false, false, false
	run(t, 2, sim.EthernetConfig{Seed: 1}, func(n *node) (err error) {
		if n.number == 1 {
			for i := range windows {
				if windows[i], err = n.Expose(n.memory[64*i:64*i+64], rma.Options{Address: at}); err != nil {
					return err
				}
			}
			if err := n.Suspend(windows[0]); err != nil {
				return err
			}
			ready = true
			if err := n.until("it may go on", func() bool { return resume }); err != nil {
				return err
			}
			if err := n.Resume(windows[0]); err != nil {
				return err
			}
			return n.until("the other is done", func() bool { return over })
		}
		defer func() { over = true }()
		if err := n.until("the windows", func() bool { return ready }); err != nil {
			return err
		}
		long, err := n.Add(windows[0].Target(1), 5)
		if err != nil {
			return err
		}
		r := rma.Result{}
		for i := range uint64(3 * funi.MaxRequests) {
			id, err := n.Add(windows[1].Target(1), 1)
			if err != nil {
				return err
			}
			if err := n.until("an answer", func() bool { return n.Next(&r) }); err != nil {
				return err
			}
			if r.ID != id || r.Err != nil || r.Uint64() != i {
				return fmt.Errorf("operation %d: %+v", i, r)
			}
		}
		resume = true
		if err := n.until("the answer that took long", func() bool { return n.Next(&r) }); err != nil {
			return err
		}
		if r.ID != long || r.Err != nil {
			return fmt.Errorf("the long operation, %d: %+v", long, r)
		}
		return nil
	})
}

// Rule: who wants a window that is not present waits, and its owner is told and brings it back: an
// owner may page its memory, and exposes what is not there yet.
func TestOwnerBringsWindowsBack(t *testing.T) {
	const rounds = 20
	var w *rma.Window
	done := 0
	run(t, 3, sim.EthernetConfig{Seed: 6, Faults: sim.Faults{Loss: 0.02}}, func(n *node) (err error) {
		if n.number == 0 {
			if w, err = n.Expose(n.memory[:64], rma.Options{Address: at, Notifications: 2, Absent: true}); err != nil {
				return err
			}
			for faults := 0; done < 2; n.p.Drive() {
				var m rma.Notification
				if !n.Notification(&m) {
					continue
				}
				if faults++; !m.Absent || m.Window != uint16(w.Key) || m.Address != at+8 {
					return fmt.Errorf("fault %d: %+v", faults, m)
				}
				if err := n.Resume(w); err != nil {
					return err
				}
				if faults < rounds/2 {
					if err := n.Suspend(w); err != nil {
						return err
					}
				}
			}
			if sum := n.memory[8]; sum != 2*rounds {
				return fmt.Errorf("the sum is %d, want %d", sum, 2*rounds)
			}
			return nil
		}
		if err := n.until("the window", func() bool { return w != nil }); err != nil {
			return err
		}
		for range rounds {
			id, err := n.Add(w.Target(0).At(8), 1)
			if err != nil {
				return err
			}
			if _, err := n.Wait(id); err != nil {
				return err
			}
		}
		done++
		return nil
	})
}

// Rule: Until returns when others have written what it waits for, or have read it if that counts,
// as soon as that is there: nothing but the write tells the process. It stops asking for writes
// afterwards, and ends with the error of drive.
func TestUntil(t *testing.T) {
	t.Run("written", func(t *testing.T) {
		waits(t, func(n *node, _ *rma.Window) bool { return binary.LittleEndian.Uint64(n.memory) == 5 },
			func(n *node, w rma.Target) error {
				_, err := n.Put(w, binary.LittleEndian.AppendUint64(nil, 5), rma.With{})
				return err
			})
	})
	t.Run("counted", func(t *testing.T) {
		waits(t, func(n *node, w *rma.Window) bool { return w.Counts() == rma.Counts{Reads: 1} },
			func(n *node, w rma.Target) error {
				_, err := n.Get(w, n.memory[:1000], rma.With{Silent: true, Count: true})
				return err
			})
	})
}

// waits has node 1 wait until what node 0 does to its window is done.
func waits(t *testing.T, done func(*node, *rma.Window) bool, do func(*node, rma.Target) error) {
	const naps = time.Second // of a process that looks in vain
	var w *rma.Window
	var began, saw int64
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote, IdleTime: naps}, Nodes: 2,
		Net: sim.EthernetConfig{Seed: 1}}, func(p *sim.Process) error {
		n, err := newNode(p)
		if err != nil {
			return err
		}
		if n.number == 1 {
			if w, err = n.Expose(n.memory[:4096], rma.Options{Counts: n.memory[4096:][:funi.CountsBytes]}); err != nil {
				return err
			}
			if err := n.Until(func() bool { return done(n, w) }); err != nil {
				return err
			}
			saw = p.Now()
			if p.Interface().Watch(false) {
				return errors.New("it asks for writes still")
			}
			if err := n.Until(func() bool { return !done(n, w) }); !errors.Is(err, errLate) {
				return fmt.Errorf("it ends with %v", err)
			}
			return nil
		}
		if err := n.until("the window", func() bool { return w != nil }); err != nil {
			return err
		}
		for p.Now() < int64(10*naps) {
			p.Drive()
		}
		began = p.Now()
		if err := do(n, w.Target(1)); err != nil {
			return err
		}
		return n.Quiet()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	if err := k.Finish(time.Hour); err != nil {
		t.Fatal(err)
	}
	if took := time.Duration(saw - began); took < 0 || took > naps/100 {
		t.Errorf("it saw %v after the beginning that it was done", took)
	}
}

// Rule (With.Count): each operation that asks for it counts once, also silent and masked ones, over
// a network that loses and doubles. The counts go on in the next window that has them.
func TestCountsOfWindows(t *testing.T) {
	const each = 60
	var w *rma.Window
	all := rma.Counts{Writes: 4 * each, Fetches: 2 * each, Reads: 2 * each}
	done := 0
	run(t, 3, sim.EthernetConfig{Seed: 5, Faults: sim.Faults{Loss: 0.05, Duplicate: 0.05}}, func(n *node) (err error) {
		if n.number == 2 {
			o := rma.Options{Counts: n.memory[8192:][:funi.CountsBytes]}
			if w, err = n.Expose(n.memory[:4096], o); err != nil {
				return err
			}
			if err := n.Until(func() bool { return w.Counts() == all }); err != nil {
				return fmt.Errorf("the counts are %v: %w", w.Counts(), err)
			}
			if err := n.until("the others", func() bool { return done == 2 }); err != nil {
				return err
			}
			if w.Counts() != all {
				return fmt.Errorf("the counts have become %v", w.Counts())
			}
			if err := n.Revoke(w); err != nil {
				return err
			}
			if w, err = n.Expose(n.memory[:64], o); err != nil || w.Counts() != all {
				return fmt.Errorf("another window has the counts %v: %w", w.Counts(), err)
			}
			return nil
		}
		if err := n.until("the window", func() bool { return w != nil }); err != nil {
			return err
		}
		to := w.Target(2)
		for i := range each {
			size := 1 + 37*i%2000
			with := rma.With{Count: true, Silent: true}
			if _, err := n.Put(to, n.memory[:size], with); err != nil {
				return err
			}
			if _, err := n.PutMasked(to, 1, 1, with); err != nil {
				return err
			}
			if _, err := n.Get(to, n.memory[4096:][:size], with); err != nil {
				return err
			}
			id, err := n.Apply(to, arctic.RemoteAdd, arctic.Uint64, make([]byte, 8), 0, rma.With{Count: true})
			if err != nil {
				return err
			}
			if _, err = n.Wait(id); err != nil {
				return err
			}
			if _, err := n.Add(to, 1); err != nil { // nobody asks that it be counted
				return err
			}
		}
		err = n.Quiet()
		done++
		return err
	})
}

// Rule (With.Silent): silent gets and operations have no ID and are not told; what was got is there
// after Quiet, and after Fence, and what was added is added once. A failure is Quiet's, once. A
// read that nobody is told is refused.
func TestSilent(t *testing.T) {
	owned(t, rma.Options{}, func(n *node, w rma.Target, there []byte) error {
		for i := range there[:4096] {
			there[i] = byte(i * 7)
		}
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(there[i:]) }
		silent := rma.With{Silent: true}
		one := binary.LittleEndian.AppendUint64(nil, 1)
		before, was := word(4000), bytes.Clone(there[:3000])
		const adds = 100
		for i := range adds {
			id, err := n.Apply(w.At(4000), arctic.RemoteAdd, arctic.Uint64, one, 0, silent)
			if err != nil || id != 0 {
				return fmt.Errorf("addition %d has ID %d: %w", i, id, err)
			}
		}
		for _, get := range []struct{ to, from, bytes int }{{0, 8, 8}, {100, 100, 2900}, {8192, 0, 0}} {
			clear(n.memory[get.to : get.to+get.bytes])
			if id, err := n.Get(w.At(uint64(get.from)), n.memory[get.to:get.to+get.bytes], silent); err !=
				nil || id != 0 {
				return fmt.Errorf("a get of %d bytes has ID %d: %w", get.bytes, id, err)
			}
		}
		if err := n.Quiet(); err != nil {
			return err
		}
		if got := word(4000); got != before+adds {
			return fmt.Errorf("%d was added, want %d", got-before, adds)
		}
		if !bytes.Equal(n.memory[:8], was[8:16]) || !bytes.Equal(n.memory[100:3000], was[100:]) {
			return errors.New("what was got is not there after Quiet")
		}
		clear(n.memory[:64])
		if _, err := n.Get(w, n.memory[:64], silent); err != nil {
			return err
		}
		if err := n.Fence(w.Node); err != nil {
			return err
		}
		if !bytes.Equal(n.memory[:64], was[:64]) {
			return errors.New("what was got is not there after Fence")
		}
		var r rma.Result
		if n.Next(&r) {
			return fmt.Errorf("a silent operation is told: %+v", r)
		}
		wrong := w
		wrong.Key++
		if _, err := n.Get(wrong, n.memory[:64], silent); err != nil {
			return err
		}
		if err := n.Quiet(); !errors.Is(err, rma.ErrKey) {
			return fmt.Errorf("a silent get with a wrong key: %w", err)
		}
		if _, err := n.Apply(w, arctic.RemoteRead, arctic.Uint64, nil, 8, silent); !errors.Is(err, rma.ErrSilent) {
			return fmt.Errorf("a silent read: %w", err)
		}
		return n.Quiet()
	})
}

// Rule: Fence and With.Ordered wait for operations on their own node, and not for one that another
// node's suspended window holds up; silent operations of both wait together (Fence).
func TestFenceOfOneNode(t *testing.T) {
	for name, silent := range map[string]bool{"told": false, "silent": true} {
		t.Run(name, func(t *testing.T) {
			windows := make([]*rma.Window, 3)
			held, over := false, false
			run(t, 3, sim.EthernetConfig{Seed: 1}, func(n *node) (err error) {
				if n.number > 0 {
					if windows[n.number], err = n.Expose(n.memory[:4096],
						rma.Options{Absent: n.number == 2}); err != nil {
						return err
					}
					if n.number == 1 {
						return n.until("the end", func() bool { return over })
					}
					if err := n.until("the others", func() bool { return held }); err != nil {
						return err
					}
					for end := n.p.Now() + int64(time.Second); n.p.Now() < end; {
						n.p.Drive()
					}
					if err := n.Resume(windows[2]); err != nil {
						return err
					}
					return n.until("the end", func() bool { return over })
				}
				defer func() { over = true }()
				if err := n.until("windows", func() bool {
					return windows[1] != nil && windows[2] != nil
				}); err != nil {
					return err
				}
				begin := n.p.Now()
				to1, to2 := windows[1].Target(1), windows[2].Target(2)
				held = true
				if _, err := n.Put(to2, []byte("late"), rma.With{Ack: !silent}); err != nil {
					return err
				}
				if _, err := n.Put(to1, []byte("soon"), rma.With{Ack: !silent}); err != nil {
					return err
				}
				if err := n.Fence(1); err != nil {
					return err
				}
				if soon := n.p.Now()-begin < int64(100*time.Millisecond); soon == silent {
					return fmt.Errorf("the fence of node 1 takes %v", time.Duration(n.p.Now()-begin))
				}
				if _, err := n.Put(to1, []byte("next"), rma.With{Ack: true, Ordered: true}); err != nil {
					return err
				}
				if soon := n.p.Now()-begin < int64(100*time.Millisecond); soon == silent {
					return fmt.Errorf("what is ordered after others of node 1 takes %v", time.Duration(n.p.Now()-begin))
				}
				if err := n.Fence(2); err != nil {
					return err
				}
				if took := n.p.Now() - begin; took < int64(time.Second) {
					return fmt.Errorf("the fence of node 2 does not wait: %v", time.Duration(took))
				}
				return n.Quiet()
			})
		})
	}
}
