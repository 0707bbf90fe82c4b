package virtni_test

// This file has many ports of one card, without a network.

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/virtni"
)

// manyPorts makes a card with n ports, the nodes 0 to n-1 of a group, each with a segment.
func manyPorts(t testing.TB, n int) (ports []*virtni.Port, memory [][]byte) {
	t.Helper()
	cfg := engine.Native()
	cfg.Incarnation, cfg.Routes = 1, make([]uint32, n) // every node is on card 0, this one
	card, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	now, limit := int64(0), int64(time.Minute)
	drive := func() error {
		now += int64(time.Microsecond)
		if card.Step(now); now > limit {
			return errLate
		}
		return nil
	}
	var interfaces []*funi.Interface
	for i := range n {
		m, err := funi.NewMemory(16)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.AddRemote(funi.RemoteSizes{KeySlots: 2, Areas: 1, Notifications: 8}); err != nil {
			t.Fatal(err)
		}
		p, err := funi.Initialize(m)
		if err != nil {
			t.Fatal(err)
		}
		x, err := card.Attach(m, 1, uint16(i), 1)
		if err != nil {
			t.Fatal(err)
		}
		s := funi.Segment{Base: base, Memory: make([]byte, 4096), Rights: funi.Keyed | funi.Source}
		if err := x.Register(s); err != nil {
			t.Fatal(err)
		}
		interfaces, memory = append(interfaces, p), append(memory, s.Memory)
	}
	if ports, err = virtni.Open(rand.NewChaCha8([32]byte{}), drive, interfaces...); err != nil {
		t.Fatal(err)
	}
	for i, p := range ports {
		if err := p.Use(funi.Segment{Base: base, Memory: memory[i], Rights: funi.Keyed | funi.Source}); err != nil {
			t.Fatal(err)
		}
	}
	return ports, memory
}

// Rule: a barrier of more members than a context has lines for answers tells each of them once
// (engine/barrier.go).
func TestBarrierOfManyPorts(t *testing.T) {
	ports, _ := manyPorts(t, 300)
	for round := range 3 {
		for i, p := range ports {
			for _, q := range ports[:i] {
				var n virtni.Notification
				if i%100 == 0 && q.Notification(&n) {
					t.Fatalf("round %d: %+v before port %d has reached it", round, n, i)
				}
			}
			if s, err := p.Barrier(7, len(ports)); s != funi.TriggerDone || err != nil {
				t.Fatalf("round %d, port %d: %v, %v", round, i, s, err)
			}
		}
		for i, p := range ports {
			var n virtni.Notification
			if err := p.Wait(&n); err != nil || n.Command != virtni.NotifyBarrier || n.Barrier != 7 || n.Err != nil {
				t.Fatalf("round %d, port %d: %+v, %v", round, i, n, err)
			}
			if p.Notification(&n) {
				t.Fatalf("round %d, port %d: one more: %+v", round, i, n)
			}
		}
	}
}

// Rule: a port reaches no memory but what the capability of a window opens (section 2.3.4), and
// ports of one card do not hear of each other's instructions.
func TestPortsApart(t *testing.T) {
	ports, memory := manyPorts(t, 20)
	var targets []virtni.Target
	for i, p := range ports {
		w, err := p.OpenWindow(memory[i][:64], windowOptions)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, w.Target(uint16(i)))
	}
	for i, p := range ports {
		for j := range ports {
			to := targets[j]
			v := virtni.VCI{Target: to, Addend: uint64(i + 1)}
			if err := p.FetchAndAdd(&v); err != nil {
				t.Fatal(err)
			}
			var n virtni.Notification
			if err := p.Wait(&n); err != nil || n.Err != nil || n.VPID != uint16(j) || n.Words[0] !=
				uint64((i+1)*(i+2)/2) {
				t.Fatalf("port %d at port %d: %+v, %v", i, j, n, err)
			}
			v.Capability = targets[i].Capability
			if i == j {
				continue
			}
			if err := p.FetchAndAdd(&v); err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(&n); err != nil || !errors.Is(n.Err, virtni.CodeCapability) {
				t.Fatalf("port %d at port %d with its own capability: %+v, %v", i, j, n, err)
			}
		}
	}
}
