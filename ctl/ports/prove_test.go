package ports

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/xdp"
)

func portOf(node int) bpf.Port { return bpf.Port{Job: job, Node: uint16(node)} }

// Rule (Prove): where ports work frames cross in both directions, and from the NIC; nothing is
// left, neither ports nor jobs nor links. Processes that have all ports are no reason to say that
// there can be none. Whoever is interrupted hears that.
func TestProve(t *testing.T) {
	b := newBed(t, 3, 2, xdp.AttachNative)
	h, before := b.hosts[0], b.links(0)
	prove := func(mode xdp.AttachMode) (p Proof, err error) {
		b.on(0, func() error {
			p, err = h.Prove(t.Context(), b.nics[0].Attrs().Index, mtu, mode)
			return nil
		})
		return p, err
	}
	p, err := prove(xdp.AttachNative)
	if err != nil || !p.NIC || p.Longest != mtu+ethernet {
		t.Fatalf("%+v, %v", p, err)
	}
	// the kernel takes its time to end ports of the first
	for until := time.Now().Add(patience); ; {
		p, err := prove(xdp.AttachGeneric)
		if err == nil && !p.NIC && p.Longest == mtu+ethernet {
			break
		}
		if !errors.Is(err, ErrFull) || time.Now().After(until) {
			t.Fatalf("generic: %+v, %v", p, err)
		}
	}
	jobs, ports, err := h.Held()
	if err != nil || len(jobs) != 1 || len(ports) != 0 {
		t.Errorf("jobs %v and ports %v are left, %v", jobs, ports, err)
	}
	for until := time.Now().Add(patience); b.links(0) != before; {
		if time.Now().After(until) {
			t.Fatalf("%d links are left, of %d", b.links(0), before)
		}
	}
	for node := range uint16(2) {
		for until := time.Now().Add(patience); ; { // places come after the links are gone
			_, err := b.make(0, node, memory(t))
			if err == nil {
				break
			}
			if !errors.Is(err, ErrFull) || time.Now().After(until) {
				t.Fatal(err)
			}
		}
	}
	if _, err := prove(xdp.AttachNative); !errors.Is(err, ErrFull) {
		t.Errorf("with one place left: %v", err)
	}
}

// Rule (Prove): frames that do not come are no proof, whatever the calls say.
func TestNothingProven(t *testing.T) {
	b := newBed(t, 4, 2, xdp.AttachNative)
	h := b.hosts[0]
	why := errors.New("enough")
	ctx, end := context.WithCancelCause(t.Context())
	end(why)
	frame := testFrame(job, 0, 1, 100)
	var ends [2]trial
	for i := range ends {
		m, err := h.newTrial(portOf(i), mtu, xdp.AttachNative)
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = m
		defer h.endTrial(m)
	}
	lost := func([]byte) error { return nil }
	if err := h.cross(ctx, frame, &ends[0], &ends[1], lost); !errors.Is(err, why) {
		t.Errorf("nothing was sent: %v", err)
	}
	changed := func(f []byte) error { return ends[0].send(testFrame(job, 0, 1, 100)) } // another
	if err := h.cross(ctx, frame, &ends[0], &ends[1], changed); !errors.Is(err, why) {
		t.Errorf("something else came: %v", err)
	}
	if err := h.cross(ctx, frame, &ends[0], &ends[1], ends[0].send); err != nil {
		t.Errorf("it was sent: %v", err)
	}
}
