package virtni_test

// This file has the rules of ports (doc.go), between processes of clusters in virtual time.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/virtni"
)

const (
	base       = 0x100000
	memorySize = 1 << 16
	at         = 0x7000_0000_0000 // address of the first byte of windows
)

var (
	remote        = funi.RemoteSizes{KeySlots: 8, Areas: 1, Notifications: 64}
	errLate       = errors.New("not in time")
	windowOptions = rma.Options{Address: at}
)

// node is a process of a cluster with a port.
type node struct {
	*virtni.Port
	p      *sim.Process
	memory []byte
	number uint16
	limit  time.Duration // of virtual time, in all
}

func newNode(p *sim.Process) (*node, error) {
	n := &node{p: p, number: p.Context().Node(), limit: 20 * time.Second}
	var err error
	if n.memory, err = p.Segment(base, memorySize, funi.Keyed|funi.Source); err != nil {
		return nil, err
	}
	begin := p.Now()
	drive := func() error {
		if p.Drive(); p.Now() > begin+int64(n.limit) {
			return errLate
		}
		return nil
	}
	ports, err := virtni.Open(rand.NewChaCha8([32]byte{byte(n.number)}), drive, p.Interface())
	if err != nil {
		return nil, err
	}
	n.Port = ports[0]
	return n, n.Use(funi.Segment{Base: base, Memory: n.memory, Rights: funi.Keyed | funi.Source})
}

// until lets the card run until done.
func (n *node) until(what string, done func() bool) error {
	if err := n.Until(done); err != nil {
		return fmt.Errorf("node %d: %s: %w", n.number, what, err)
	}
	return nil
}

// next waits for a notification and verifies what it is.
func (n *node) next(c virtni.Command) (x virtni.Notification, err error) {
	if err = n.Wait(&x); err == nil && x.Command != c {
		err = fmt.Errorf("node %d: a notification of %v, want %v: %+v", n.number, x.Command, c, x)
	}
	return x, err
}

// did waits for the completion of an instruction that was composed without an error.
func (n *node) did(err error) (x virtni.Notification, _ error) {
	if err != nil {
		return x, err
	}
	if x, err = n.next(virtni.NotifyCompletion); err == nil {
		err = x.Err
	}
	return x, err
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

// owned runs a program on node 0 while node 1 has a window over its memory, and then other, if it
// is not nil, on node 1.
func owned(t *testing.T, net sim.EthernetConfig, o rma.Options, program func(n *node, w virtni.Target,
	memory []byte) error, other func(n *node, w *virtni.Window) error) {
	t.Helper()
	var w *virtni.Window
	var memory []byte
	over := false
	o.Address = at
	run(t, 2, net, func(n *node) (err error) {
		if n.number == 1 {
			if w, err = n.OpenWindow(n.memory[:4096], o); err != nil {
				return err
			}
			memory = n.memory
			if other != nil {
				if err := other(n, w); err != nil {
					return err
				}
			}
			return n.until("the other is done", func() bool { return over })
		}
		defer func() { over = true }()
		if err := n.until("the window", func() bool { return w != nil }); err != nil {
			return err
		}
		return program(n, w.Target(1), memory)
	})
}

// networks are a good one, and one that loses and duplicates frames and delays them.
var networks = []sim.EthernetConfig{{Seed: 1}, {Seed: 2,
	Faults: sim.Faults{Loss: 0.05, Duplicate: 0.05, Reorder: 0.1}}}

// Rule: an instruction does nothing until it is issued, and Issue says how many the card has
// accepted (section 4.2.7).
func TestIssue(t *testing.T) {
	owned(t, sim.EthernetConfig{Seed: 1}, rma.Options{}, func(n *node, w virtni.Target, there []byte) error {
		for i := range uint64(3) {
			v := virtni.VCI{Target: w.At(8 * i), Ack: true, UserTag: 100 + i, APITag: uint32(i), Words: []uint64{i + 1}}
			if err := n.FastPut(&v); err != nil {
				return err
			}
			if v.Index != uint32(i) {
				return fmt.Errorf("instruction %d has index %d", i, v.Index)
			}
		}
		n.p.Sleep(int64(10 * time.Millisecond))
		var x virtni.Notification
		if n.Notification(&x) || n.Unissued() != 3 || binary.LittleEndian.Uint64(there) != 0 {
			return fmt.Errorf("before they are issued: %+v, %d unissued, %d there", x, n.Unissued(), there[0])
		}
		for _, c := range []struct {
			n, accepted int
			status      virtni.Status
		}{{0, 0, funi.TriggerInvalid}, {4, 0, funi.TriggerInvalid}, {2, 2, funi.TriggerDone},
			{2, 0, funi.TriggerInvalid}, {1, 1, funi.TriggerDone}} {
			if got, s, err := n.Issue(c.n); got != c.accepted || s != c.status || err != nil {
				return fmt.Errorf("issue of %d: %d, %v, %w", c.n, got, s, err)
			}
		}
		seen := map[uint32]bool{}
		for range 3 {
			x, err := n.did(nil)
			if err != nil || x.UserTag != 100+uint64(x.Index) || x.APITag != x.Index || x.VPID != 1 ||
				x.Of != virtni.CommandFastPut|1<<3|1 || seen[x.Index] {
				return fmt.Errorf("%+v, %w", x, err)
			}
			seen[x.Index] = true
		}
		if !bytes.Equal(there[:24], []byte{0: 1, 8: 2, 16: 3, 23: 0}) {
			return fmt.Errorf("there is %v", there[:24])
		}
		return nil
	}, nil)
}

// Rule: each instruction does what sections 2.4.1 and 4.2.3 say, whatever the network does. A
// fetch-and-add returns the new value, a compare-and-swap what it has stored, or else what was
// there.
func TestInstructions(t *testing.T) {
	for _, net := range networks {
		owned(t, net, rma.Options{}, func(n *node, w virtni.Target, there []byte) error {
			own, err := n.OpenWindow(n.memory[:8192], rma.Options{Rights: funi.RightRead})
			if err != nil {
				return err
			}
			for _, size := range []int{0, 8, 64, 72, 1992, 4096} {
				for i := range size {
					n.memory[i] = byte(size + 3*i)
				}
				clear(n.memory[4096:8192])
				v := virtni.VCI{Target: w, Origin: own, Bytes: size, Ack: true}
				if x, err := n.did(n.Put(&v)); err != nil || x.Of.Base() != virtni.CommandPut || !x.Of.Acknowledged() {
					return fmt.Errorf("put of %d bytes: %+v, %w", size, x, err)
				}
				if !bytes.Equal(there[:size], n.memory[:size]) {
					return fmt.Errorf("%d bytes are not there", size)
				}
				v = virtni.VCI{Target: w, Origin: own, Offset: 4096, Bytes: size}
				if x, err := n.did(n.Get(&v)); err != nil || x.Of != virtni.CommandGet {
					return fmt.Errorf("get of %d bytes: %+v, %w", size, x, err)
				}
				if !bytes.Equal(n.memory[4096:4096+size], there[:size]) {
					return fmt.Errorf("%d bytes did not come", size)
				}
			}
			v := virtni.VCI{Target: w, Words: []uint64{10, 20, 30}, Ack: true}
			if _, err := n.did(n.FastPut(&v)); err != nil {
				return err
			}
			for count := range 4 {
				v = virtni.VCI{Target: w, Count: count}
				err := n.FastGet(&v)
				if count == 0 {
					if !errors.Is(err, virtni.CodeCommand) {
						return fmt.Errorf("a fast get of no words: %w", err)
					}
					continue
				}
				x, err := n.did(err)
				if err != nil || x.Count != count || x.Words != [virtni.MaxWords]uint64(append(
					[]uint64{10, 20, 30}[:count:count], make([]uint64, virtni.MaxWords-count)...)) {
					return fmt.Errorf("fast get of %d words: %+v, %w", count, x, err)
				}
			}
			for want := uint64(15); want <= 30; want += 5 {
				x, err := n.did(n.FetchAndAdd(&virtni.VCI{Target: w, Addend: 5}))
				if err != nil || x.Count != 1 || x.Words[0] != want {
					return fmt.Errorf("fetch-and-add: %+v, want %d, %w", x, want, err)
				}
			}
			for _, c := range []struct{ compare, swap, result uint64 }{{30, 7, 7}, {30, 8, 7}, {7, 30, 30}} {
				x, err := n.did(n.CompareAndSwap(&virtni.VCI{Target: w, Compare: c.compare, Swap: c.swap}))
				if err != nil || x.Count != 1 || x.Words[0] != c.result {
					return fmt.Errorf("compare-and-swap %v: %+v, %w", c, x, err)
				}
			}
			return nil
		}, nil)
	}
}

// Rule: a misaligned put writes the enabled bytes of its word and no other, in any pattern, with
// the right to write alone, and does not lose what others do to the other bytes meanwhile (sections
// 2.4.1 and 4.2.3).
func TestMisalignedPut(t *testing.T) {
	owned(t, networks[1], rma.Options{Rights: funi.RightWrite}, func(n *node, w virtni.Target, there []byte) error {
		value := uint64(0x8877_6655_4433_2211)
		for enable := range 256 {
			for i := range 8 {
				there[i] = byte(0xa0 + i)
			}
			v := virtni.VCI{Target: w, Words: []uint64{value}, Enable: uint8(enable), Ack: true}
			if x, err := n.did(n.MisalignedPut(&v)); err != nil || x.Of != virtni.CommandMisalignedPut|1<<3 {
				return fmt.Errorf("enable %08b: %+v, %w", enable, x, err)
			}
			for i := range 8 {
				want := byte(0xa0 + i)
				if enable>>i&1 != 0 {
					want = byte(value >> (8 * i))
				}
				if there[i] != want {
					return fmt.Errorf("enable %08b: byte %d is %#x, want %#x", enable, i, there[i], want)
				}
			}
		}
		return nil
	}, nil)
}

// Rule: a put with Notify tells the process of the target, with the user tag, when it is there
// (section 2.3.4); and what cannot tell it is refused.
func TestSynchronisingPut(t *testing.T) {
	for _, net := range networks {
		owned(t, net, rma.Options{Notifications: 2}, func(n *node, w virtni.Target, _ []byte) error {
			for i := range uint64(20) {
				v := virtni.VCI{Target: w.At(8), UserTag: 7000 + i, Notify: true, Words: []uint64{i + 1}, Ack: true}
				if i%2 == 1 {
					v.Enable = 0x3c
					if _, err := n.did(n.MisalignedPut(&v)); err != nil {
						return err
					}
				} else if _, err := n.did(n.FastPut(&v)); err != nil {
					return err
				}
			}
			v := virtni.VCI{Target: w, Notify: true, Count: 1, Words: []uint64{1}, Enable: 0x81}
			for i, f := range []func(*virtni.VCI) error{n.Get, n.FastGet, n.FetchAndAdd, n.CompareAndSwap,
				n.MisalignedPut} {
				if err := f(&v); !errors.Is(err, virtni.ErrNotify) {
					return fmt.Errorf("instruction %d with Notify: %w", i, err)
				}
			}
			return nil
		}, func(n *node, w *virtni.Window) error {
			for i := range uint64(20) {
				x, err := n.next(virtni.NotifyRemoteAccess)
				if err != nil || x.VPID != 0 || x.UserTag != 7000+i || x.Window != w.Number() {
					return fmt.Errorf("notification %d: %+v, %w", i, x, err)
				}
			}
			return nil
		})
	}
}

// Rule: what is wrong with an instruction has the thesis's error code (section 4.2.6). What the
// port can see is refused when it is composed; the rest comes with the notification, or with Quiet.
func TestErrors(t *testing.T) {
	owned(t, sim.EthernetConfig{Seed: 1}, rma.Options{Rights: funi.RightRead}, func(n *node, w virtni.Target,
		_ []byte) error {
		own, err := n.OpenWindow(n.memory[:1024], rma.Options{})
		if err != nil {
			return err
		}
		wrong := w
		wrong.Capability ^= 1
		nobody := w
		nobody.VPID = 9
		for i, c := range []struct {
			do      func(*virtni.VCI) error
			v       virtni.VCI
			code    virtni.Code
			at      string // compose or complete
			because error
		}{
			{n.Put, virtni.VCI{Target: w, Bytes: 8}, virtni.CodeOriginWindow, "compose", nil},
			{n.Put, virtni.VCI{Target: w, Origin: own, Offset: 1024, Bytes: 8}, virtni.CodeOriginBounds, "compose",
				nil},
			{n.Put, virtni.VCI{Target: w, Origin: own, Offset: 4, Bytes: 8}, virtni.CodeOriginOffset, "compose", nil},
			{n.Put, virtni.VCI{Target: w, Origin: own, Bytes: 4}, virtni.CodeOriginLength, "compose", nil},
			{n.Put, virtni.VCI{Target: w.At(4), Origin: own, Bytes: 8}, virtni.CodeTargetOffset, "compose", nil},
			{n.FastPut, virtni.VCI{Target: w, Words: make([]uint64, 4)}, virtni.CodeCommand, "compose", nil},
			{n.FastGet, virtni.VCI{Target: w, Count: 4}, virtni.CodeCommand, "compose", nil},
			{n.MisalignedPut, virtni.VCI{Target: w.At(1), Words: make([]uint64, 1)}, virtni.CodeTargetOffset,
				"compose", nil},
			{n.FastGet, virtni.VCI{Target: w.At(1 << 48), Count: 1}, virtni.CodeTargetBounds, "compose", nil},
			{n.FastPut, virtni.VCI{Target: w, Words: make([]uint64, 1), Ack: true}, virtni.CodeTargetBounds,
				"complete", rma.ErrRights},
			{n.FetchAndAdd, virtni.VCI{Target: w}, virtni.CodeTargetBounds, "complete", rma.ErrRights},
			{n.FastGet, virtni.VCI{Target: w.At(4096), Count: 1}, virtni.CodeTargetBounds, "complete", rma.ErrRange},
			{n.FastGet, virtni.VCI{Target: w.At(4), Count: 1}, virtni.CodeTargetOffset, "complete", nil},
			{n.FastGet, virtni.VCI{Target: wrong, Count: 1}, virtni.CodeCapability, "complete", rma.ErrKey},
			{n.FastGet, virtni.VCI{Target: nobody, Count: 1}, virtni.CodeRoute, "complete", rma.ErrUnreachable},
		} {
			c.v.UserTag = uint64(i)
			err := c.do(&c.v)
			if (err != nil) != (c.at == "compose") {
				return fmt.Errorf("case %d, composing: %w", i, err)
			}
			if err == nil {
				var x virtni.Notification
				if x, err = n.next(virtni.NotifyCompletion); err != nil {
					return err
				}
				if err = x.Err; x.UserTag != uint64(i) {
					return fmt.Errorf("case %d: %+v", i, x)
				}
			}
			var e *virtni.Error
			if !errors.Is(err, c.code) || !errors.As(err, &e) || c.because != nil && !errors.Is(err, c.because) {
				return fmt.Errorf("case %d: %v, want code %d and %v", i, err, c.code, c.because)
			}
		}
		if err := n.FastPut(&virtni.VCI{Target: w, Words: make([]uint64, 1)}); err != nil {
			return err
		}
		if err := n.Quiet(); !errors.Is(err, virtni.CodeTargetBounds) {
			return fmt.Errorf("Quiet after a put without an acknowledgment: %w", err)
		}
		return n.Quiet()
	}, nil)
}

// Rule: while a port has the lock of a window, instructions of others fail with code 11 (section
// 2.3.4).
func TestLock(t *testing.T) {
	var w *virtni.Window
	stage := 0
	run(t, 3, sim.EthernetConfig{Seed: 3}, func(n *node) (err error) {
		if n.number == 2 {
			if w, err = n.OpenWindow(n.memory[:64], rma.Options{}); err != nil {
				return err
			}
			return n.until("the end", func() bool { return stage == 3 })
		}
		if err := n.until("the window", func() bool { return w != nil }); err != nil {
			return err
		}
		target := w.Target(2)
		if n.number == 0 {
			if err := n.Lock(target); err != nil {
				return err
			}
			stage = 1
			if err := n.until("the other's try", func() bool { return stage == 2 }); err != nil {
				return err
			}
			if _, err := n.did(n.FetchAndAdd(&virtni.VCI{Target: target, Addend: 1})); err != nil {
				return err
			}
			return n.Unlock(target)
		}
		if err := n.until("the lock", func() bool { return stage == 1 }); err != nil {
			return err
		}
		had, err := n.TryLock(target)
		if had || err != nil {
			return fmt.Errorf("two ports have the lock: %w", err)
		}
		_, err = n.did(n.FetchAndAdd(&virtni.VCI{Target: target, Addend: 1}))
		if !errors.Is(err, virtni.CodeTargetBounds) || !errors.Is(err, rma.ErrLocked) {
			return fmt.Errorf("an instruction on a locked window: %w", err)
		}
		if err := n.Unlock(target); !errors.Is(err, rma.ErrLocked) {
			return fmt.Errorf("unlocking another's window: %w", err)
		}
		stage = 2
		if err := n.Lock(target); err != nil {
			return err
		}
		x, err := n.did(n.FetchAndAdd(&virtni.VCI{Target: target, Addend: 1}))
		if stage = 3; err != nil || x.Words[0] != 2 {
			return fmt.Errorf("after the lock: %+v, %w", x, err)
		}
		return nil
	})
}

// Rule: no completion is lost: when as many as the queue has room for are not taken, composing
// fails with ErrUnread, and goes on when one was taken.
func TestUnread(t *testing.T) {
	owned(t, sim.EthernetConfig{Seed: 1}, rma.Options{}, func(n *node, w virtni.Target, _ []byte) error {
		composed, taken, refused := 0, 0, 0
		var x virtni.Notification
		for composed < 1000 {
			err := n.FetchAndAdd(&virtni.VCI{Target: w, Addend: 1, UserTag: uint64(composed)})
			switch {
			case err == nil:
				composed++
				continue
			case !errors.Is(err, virtni.ErrUnread):
				return err
			}
			refused++
			if x, err = n.did(nil); err != nil || x.UserTag >= uint64(composed) {
				return fmt.Errorf("%+v of %d: %w", x, composed, err)
			}
			taken++
		}
		for ; taken < composed; taken++ {
			if _, err := n.did(nil); err != nil {
				return err
			}
		}
		if n.Notification(&x) || refused == 0 {
			return fmt.Errorf("one more: %+v; refused %d", x, refused)
		}
		x, err := n.did(n.FastGet(&virtni.VCI{Target: w, Count: 1}))
		if err != nil || x.Words[0] != 1000 {
			return fmt.Errorf("%+v, %w", x, err)
		}
		return nil
	}, nil)
}

// Rule: Pointers says what the card has accepted, given back and been given back (section 4.2.5,
// status notification).
func TestPointers(t *testing.T) {
	owned(t, sim.EthernetConfig{Seed: 1}, rma.Options{}, func(n *node, w virtni.Target, _ []byte) error {
		before, err := n.Pointers()
		if err != nil {
			return err
		}
		const operations = 50
		for range operations {
			if _, err := n.did(n.FetchAndAdd(&virtni.VCI{Target: w, Addend: 1})); err != nil {
				return err
			}
		}
		after, err := n.Pointers()
		if err != nil || after.Issued-before.Issued != operations || after.Retired != after.Issued ||
			after.Notified-before.Notified != operations+1 || after.NotesRead < before.NotesRead {
			return fmt.Errorf("before %+v, after %d operations %+v, %w", before, operations, after, err)
		}
		return nil
	}, nil)
}

// Rule: the end of what drive waits for ends every call that waits, and the port goes on when drive
// lets it.
func TestDriveEnds(t *testing.T) {
	ended := errors.New("the program ends")
	k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: 2},
		func(p *sim.Process) error {
			end := false
			ports, err := virtni.Open(rand.NewChaCha8([32]byte{}), func() error {
				if p.Drive(); end {
					return ended
				}
				return nil
			}, p.Interface())
			if err != nil {
				return err
			}
			n := ports[0]
			if p.Context().Node() == 1 {
				p.Sleep(int64(time.Second))
				return nil
			}
			v := virtni.VCI{Target: virtni.Target{VPID: 1}, Count: 1}
			if err := n.FastGet(&v); err != nil {
				return err
			}
			end = true
			var x virtni.Notification
			_, _, issue := n.Issue(1)
			for i, err := range []error{issue, n.Wait(&x), n.Quiet(), n.Until(func() bool { return false })} {
				if !errors.Is(err, ended) {
					return fmt.Errorf("call %d: %w", i, err)
				}
			}
			end = false
			if err := n.Wait(&x); err != nil || !errors.Is(x.Err, virtni.CodeCapability) {
				return fmt.Errorf("after that: %+v, %w", x, err)
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

// Rule: an ordered instruction is carried out after those before it, also if packets are lost and
// overtake each other (VCI.Ordered); one that is not need not be.
func TestOrdered(t *testing.T) {
	net := sim.EthernetConfig{Seed: 3, Faults: sim.Faults{Loss: 0.1, Duplicate: 0.1, Reorder: 0.3}}
	for _, ordered := range []bool{true, false} {
		overtook := 0
		owned(t, net, windowOptions, func(n *node, w virtni.Target, memory []byte) error {
			for i := range uint64(300) {
				if err := n.FastPut(&virtni.VCI{Target: w, Words: []uint64{i}}); err != nil {
					return err
				}
				if _, _, err := n.Issue(1); err != nil { // in a frame of its own
					return err
				}
				x, err := n.did(n.FastGet(&virtni.VCI{Target: w, Count: 1, Ordered: ordered}))
				if err != nil {
					return err
				}
				if x.Words[0] != i {
					overtook++
				}
			}
			return n.Quiet()
		}, nil)
		if ordered != (overtook == 0) {
			t.Errorf("ordered %v: %d gets have overtaken a put", ordered, overtook)
		}
	}
}
