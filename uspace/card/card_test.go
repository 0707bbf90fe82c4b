package card_test

// This file tests how a card is opened and closed, on a lab of two namespaces.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/xdp"
)

// newLab makes a lab of two hosts and the configurations of a card on each.
func newLab(t *testing.T) (*lab.Lab, [2]card.Config) {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	var configs [2]card.Config
	for host := range configs {
		c := card.Config{Interfaces: []string{"fu0"}, GID: 9, Node: uint16(host), Slots: 2,
			Attach: xdp.AttachGeneric, CPU: -1}
		for i, h := range l.Hosts() {
			c.Peers = append(c.Peers, card.Peer{Node: uint16(i), MAC: [6]byte(h.Interfaces[0].MAC)})
		}
		configs[host] = c
	}
	return l, configs
}

// TestCloseDiscards: Close waits for what was sent, not for a process that no longer
// receives: packets that it has not received, more than its queue holds, are discarded.
func TestCloseDiscards(t *testing.T) {
	const packets = 8 // one fits a queue of 2 slots, the others its FIFO
	l, configs := newLab(t)
	delivered := make(chan struct{})
	errs := make(chan error, 2)
	go func() {
		errs <- l.Do(0, func() error {
			k, err := card.Open(configs[0])
			if err != nil {
				return err
			}
			for range packets {
				s := k.Interface().Reserve(funi.Request)
				for ; s == nil; s = k.Interface().Reserve(funi.Request) {
					k.Drive()
				}
				s.SetHeader(funi.NewHeader(1, 0, 1))
				k.Interface().Commit(funi.Request)
			}
			err = k.Close(30 * time.Second) // until all are accepted
			close(delivered)
			return err
		})
	}()
	go func() {
		errs <- l.Do(1, func() error {
			k, err := card.Open(configs[1])
			if err != nil {
				return err
			}
			for {
				select {
				case <-delivered:
					return k.Close(2 * time.Second)
				default:
					k.Drive()
				}
			}
		})
	}()
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestToken: cards whose tokens differ are of different jobs, whatever their GID: what is sent
// comes back with the reason. Cards with the same token, or both without, are of one.
func TestToken(t *testing.T) {
	for _, c := range []struct {
		tokens [2]byte
		want   arctic.Reason
	}{
		{[2]byte{1, 2}, arctic.ReasonJob}, {[2]byte{0, 2}, arctic.ReasonJob}, {[2]byte{1, 0}, arctic.ReasonJob},
		{[2]byte{1, 1}, arctic.ReasonNone}, {[2]byte{0, 0}, arctic.ReasonNone},
	} {
		l, configs := newLab(t)
		for i := range configs {
			configs[i].Token[31] = c.tokens[i]
		}
		answered := make(chan struct{})
		errs := make(chan error, 2)
		go func() {
			defer close(answered)
			errs <- l.Do(0, func() error {
				k, err := card.Open(configs[0])
				if err != nil {
					return err
				}
				k.Interface().Reserve(funi.Request).SetHeader(funi.NewHeader(1, 0, 1))
				k.Interface().Commit(funi.Request)
				for end := time.Now().Add(30 * time.Second); time.Now().Before(end); k.Drive() {
					if r, ok := k.Interface().NextReturn(); ok {
						if r.Reason != c.want {
							t.Errorf("tokens %v: it came back because of %v", c.tokens, r.Reason)
						}
						return k.Close(0)
					}
					if k.Interface().Receive(funi.Request) != nil {
						if c.want != arctic.ReasonNone {
							t.Errorf("tokens %v: it was answered", c.tokens)
						}
						return k.Close(0)
					}
				}
				return errors.Join(fmt.Errorf("tokens %v: nothing came", c.tokens), k.Close(0))
			})
		}()
		go func() {
			errs <- l.Do(1, func() error {
				k, err := card.Open(configs[1])
				if err != nil {
					return err
				}
				for {
					select {
					case <-answered:
						return k.Close(0)
					default:
						k.Drive()
					}
					if k.Interface().Receive(funi.Request) != nil {
						k.Interface().Release(funi.Request)
						k.Interface().Reserve(funi.Request).SetHeader(funi.NewHeader(0, 0, 1))
						k.Interface().Commit(funi.Request)
					}
				}
			})
		}()
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
}

// TestCloseIsCancelled: the end of Config.Context ends Open, and the wait of Close for packets
// that nobody acknowledges, with its cause.
func TestCloseIsCancelled(t *testing.T) {
	l, configs := newLab(t)
	asked := errors.New("the user asked for it")
	err := l.Do(0, func() error {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		c := configs[0]
		c.Context, c.Tune = ctx, func(c *engine.Config) { c.ConnectTimeout = time.Hour }
		k, err := card.Open(c)
		if err != nil {
			return err
		}
		e, err := am.New(k.Interface(), 0, 2, k.Drive, 0)
		if err != nil {
			return errors.Join(err, k.Close(0))
		}
		if err := e.Request4(1, 0, 1, 2, 3, 4); err != nil { // to a node that is not there
			return errors.Join(err, k.Close(0))
		}
		time.AfterFunc(20*time.Millisecond, func() { cancel(asked) })
		if err := k.Close(time.Hour); !errors.Is(err, asked) {
			t.Errorf("closing: %v", err)
		}
		if _, err := card.Open(c); !errors.Is(err, asked) {
			t.Errorf("opening: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSegment: a segment of new memory is registered, as if the program had brought it;
// what is none is refused as funi.Segments does, whatever its size.
func TestSegment(t *testing.T) {
	l, configs := newLab(t)
	err := l.Do(0, func() error {
		k, err := card.Open(configs[0])
		if err != nil {
			return err
		}
		memory, err := k.Segment(0x1000, 4096, funi.Source)
		if len(memory) != 4096 || err != nil {
			t.Errorf("%d bytes, %v", len(memory), err)
		}
		for bytes, want := range map[int]error{16: funi.ErrOverlap, 0: funi.ErrSegment, -16: funi.ErrSegment,
			15: funi.ErrSegment, 1 << 40: funi.ErrSegment} {
			if _, err := k.Segment(0x1000, bytes, funi.Source); !errors.Is(err, want) {
				t.Errorf("%d bytes: %v", bytes, err)
			}
		}
		return errors.Join(k.Unregister(0x1000), k.Close(0))
	})
	if err != nil {
		t.Error(err)
	}
}

// TestOpenRefuses: what cannot be opened is an error that callers can tell, and leaves
// nothing on the interface: it can be opened afterwards.
func TestOpenRefuses(t *testing.T) {
	l, configs := newLab(t)
	costs, err := hwprofiles.Load("cm5")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(c *card.Config)
		want   error
	}{
		"group 0":            {func(c *card.Config) { c.GID = 0 }, card.ErrGID},
		"group 2048":         {func(c *card.Config) { c.GID = 2048 }, card.ErrGID},
		"node not listed":    {func(c *card.Config) { c.Node = 5 }, card.ErrNode},
		"slots":              {func(c *card.Config) { c.Slots = 3 }, funi.ErrSlots},
		"no interface":       {func(c *card.Config) { c.Interfaces = []string{"eth7"} }, xdp.ErrNoInterface},
		"zero-copy on veth":  {func(c *card.Config) { c.Bind = xdp.BindZeroCopy }, xdp.ErrNotSupported},
		"interface twice":    {func(c *card.Config) { c.Interfaces = []string{"fu0", "fu0"} }, xdp.ErrProgramAttached},
		"peer behind nobody": {func(c *card.Config) { c.Peers[1].Interface = "fu7" }, nil},
		"processor":          {func(c *card.Config) { c.CPU = 1 << 12 }, nil},
		"no parts":           {func(c *card.Config) { c.Profile = costs }, machine.ErrParts},
	} {
		config := configs[0]
		config.Peers = append([]card.Peer(nil), config.Peers...)
		c.change(&config)
		err := l.Do(0, func() error {
			k, err := card.Open(config)
			if err == nil {
				return errors.Join(errors.New("it was opened"), k.Close(0))
			}
			if c.want != nil && !errors.Is(err, c.want) {
				return err
			}
			if k, err = card.Open(configs[0]); err != nil {
				return err
			}
			return k.Close(0)
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
