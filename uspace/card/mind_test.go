package card_test

// This file tests that a card notices an interface on which nothing works any more, and mends it.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/xdp"
)

const patience = time.Minute // far more than anything takes

// talk is a node that sends to another all the time, and that one, each with a card in native mode
// that never gives its peer up.
type talk struct {
	t        *testing.T
	mu       sync.Mutex
	told     []string
	received int
	fault    error         // of the receiving card
	changed  chan struct{} // told, received or fault has changed since until has looked
	jobs     chan func()   // for the receiving card's thread, which is in the namespace
}

func newTalk(t *testing.T) *talk {
	l, configs := newLab(t)
	k := &talk{t: t, changed: make(chan struct{}, 1), jobs: make(chan func())}
	ctx, end := context.WithCancel(context.Background())
	errs := make(chan error, 2)
	for host, c := range configs {
		c.Attach = xdp.AttachNative
		c.Tune = func(e *engine.Config) { e.PeerTimeout, e.ConnectTimeout = time.Hour, time.Hour }
		if host == 1 {
			c.Tell = func(line string) { k.change(func() { k.told = append(k.told, line) }) }
		}
		go func() { errs <- l.Do(host, func() error { return k.node(ctx, c) }) }()
	}
	t.Cleanup(func() {
		end()
		for range 2 {
			select {
			case err := <-errs:
				if err != nil && !strings.Contains(err.Error(), "undelivered") {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Fatal("a card is not closed")
			}
		}
	})
	return k
}

// node runs a card until the end.
func (k *talk) node(ctx context.Context, c card.Config) error {
	own, err := card.Open(c)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		own.Drive()
		i := own.Interface()
		if c.Node == 0 {
			if s := i.Reserve(funi.Request); s != nil {
				s.SetHeader(funi.NewHeader(1, 0, 1))
				i.Commit(funi.Request)
			}
			continue
		}
		for i.Receive(funi.Request) != nil {
			i.Release(funi.Request)
			k.change(func() { k.received++ })
		}
		select {
		case do := <-k.jobs:
			do()
		default:
		}
		fault := own.Fault(0)
		k.change(func() { k.fault = fault })
	}
	return own.Close(0)
}

// change has until look again.
func (k *talk) change(do func()) {
	k.mu.Lock()
	do()
	k.mu.Unlock()
	select {
	case k.changed <- struct{}{}:
	default: // it has not looked yet
	}
}

// until waits until it is so.
func (k *talk) until(what string, is func() bool) {
	k.t.Helper()
	for deadline := time.After(patience); ; {
		k.mu.Lock()
		so := is()
		k.mu.Unlock()
		if so {
			return
		}
		select {
		case <-k.changed:
		case <-deadline:
			k.mu.Lock()
			defer k.mu.Unlock()
			k.t.Fatalf("waited in vain: %s; %d received, fault %v, told:\n%s", what, k.received, k.fault,
				strings.Join(k.told, "\n"))
		}
	}
}

// flows waits for more messages.
func (k *talk) flows() {
	k.t.Helper()
	before := -1
	k.until("messages arrive", func() bool {
		if before < 0 {
			before = k.received
		}
		return k.received > before+1000
	})
}

// forget detaches the program of host 1, as a driver does that forgets it, and has another one take
// its place, if there is one.
func (k *talk) forget(instead *ebpf.Program) (taken link.Link) {
	k.t.Helper()
	detach := func() error {
		i, err := netlink.LinkByName("fu0")
		if err != nil {
			return err
		}
		it := new(link.Iterator)
		defer it.Close()
		for it.Next() {
			info, err := it.Link.Info()
			if err != nil {
				return err
			}
			if x := info.XDP(); x == nil || int(x.Ifindex) != i.Attrs().Index ||
				uint32(info.Program) != i.Attrs().Xdp.ProgId {
				continue
			}
			if err := it.Link.Detach(); err != nil || instead == nil {
				return err
			}
			taken, err = link.AttachXDP(link.XDPOptions{Program: instead, Interface: i.Attrs().Index,
				Flags: link.XDPDriverMode})
			return err
		}
		return fmt.Errorf("no program on the interface: %w", it.Err())
	}
	done := make(chan error, 1)
	select {
	case k.jobs <- func() { done <- detach() }:
	case <-time.After(patience):
		k.t.Fatal("the card's thread takes nothing any more")
	}
	if err := <-done; err != nil {
		k.t.Fatal(err)
	}
	return taken
}

// Rule: a process with a card of its own notices that the driver does not run the NIC program any
// more, has it attached anew, says so, and goes on.
func TestCardWhoseProgramIsForgotten(t *testing.T) {
	k := newTalk(t)
	k.flows()
	k.forget(nil)
	k.until("it is noticed", func() bool {
		return len(k.told) > 0 && strings.Contains(k.told[0], "is not run any more; attached it anew")
	})
	k.flows()
	k.until("no fault is left", func() bool { return k.fault == nil })
}

// Rule: when the present sockets cannot attach a NIC program that the driver no longer runs, the
// card's port is opened anew beside the running card. As long as that fails, Fault says why for the
// node behind the interface. Here it fails because another program has taken the interface. When it
// can be opened, everything goes on.
func TestCardWhoseInterfaceIsTaken(t *testing.T) {
	long.Test(t)
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	k := newTalk(t)
	k.flows()
	taken := k.forget(pass)
	k.until("the fault is told", func() bool {
		return errors.Is(k.fault, card.ErrInterface) && errors.Is(k.fault, xdp.ErrProgramAttached) &&
			strings.Contains(k.fault.Error(), "interface fu0 could not be opened again")
	})
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	k.until("it is opened again", func() bool {
		return k.fault == nil && strings.HasPrefix(k.told[len(k.told)-1],
			"interface fu0 is opened again: XDP generic, copy")
	})
	k.flows()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.told) != 3 {
		t.Errorf("told %d lines, want 3:\n%s", len(k.told), strings.Join(k.told, "\n"))
	}
}

// Rule: a card is closed while its interface is being opened again.
func TestCloseWithoutInterface(t *testing.T) {
	long.Test(t)
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	k := newTalk(t)
	k.flows()
	defer k.forget(pass).Close()
	k.until("the fault is told", func() bool { return k.fault != nil })
}
