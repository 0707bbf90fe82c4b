package card_test

// This file tests the system group over AF_XDP.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a packet for the system GID raises an event and is rejected until a context with
// that GID is there (thesis 3.3.2); then it arrives.
func TestSystemGroup(t *testing.T) {
	l, configs := newLab(t)
	arrived := make(chan struct{})
	errs := make(chan error, 2)
	// run opens a card and drives it until the function is done.
	run := func(host int, program func(k *card.Card) (done bool, err error)) {
		configs[host].System = true
		errs <- l.Do(host, func() error {
			k, err := card.Open(configs[host])
			if err != nil {
				return err
			}
			end := time.Now().Add(30 * time.Second)
			for done := false; !done && err == nil; k.Drive() {
				if done, err = program(k); err == nil && time.Now().After(end) {
					err = fmt.Errorf("host %d: not over after 30 s: %+v", host, k.Engine().Counters())
				}
			}
			return errors.Join(err, k.Close(2*time.Second))
		})
	}
	join := func(k *card.Card, node uint16) (*funi.Interface, error) {
		m, err := funi.NewMemory(16)
		if err != nil {
			return nil, err
		}
		i, err := funi.Initialize(m)
		if err == nil {
			_, err = k.Engine().Attach(m, engine.SystemGroup, node, 0)
		}
		return i, err
	}
	go func() {
		var system *funi.Interface
		run(0, func(k *card.Card) (bool, error) {
			if system == nil {
				var err error
				if system, err = join(k, 0); err != nil {
					return false, err
				}
				s := system.Reserve(funi.Request)
				s.SetHeader(funi.NewHeader(1, 0, 1))
				s[funi.PayloadWord] = 4711
				system.Commit(funi.Request)
			}
			select {
			case <-arrived:
				return true, nil
			default:
				return false, nil
			}
		})
	}()
	go func() {
		defer close(arrived)
		var system *funi.Interface
		run(1, func(k *card.Card) (done bool, err error) {
			if system != nil {
				s := system.Receive(funi.Request)
				if s != nil && s.Payload()[0] != 4711 {
					err = fmt.Errorf("got %#x", s.Payload()[0])
				}
				return s != nil, err
			}
			var count [8]byte
			switch n, err := unix.Read(k.SystemEvents(), count[:]); {
			case errors.Is(err, unix.EAGAIN):
				return false, nil
			case err != nil || n != 8 || binary.NativeEndian.Uint64(count[:]) == 0:
				return false, fmt.Errorf("reading the event: %d bytes %v: %w", n, count, err)
			}
			if k.Engine().Counters().RejectsSent == 0 {
				return false, errors.New("an event without a reject")
			}
			system, err = join(k, 1)
			return false, err
		})
	}()
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Rule: without Config.System there is no event to wait for.
func TestNoSystemGroup(t *testing.T) {
	l, configs := newLab(t)
	err := l.Do(0, func() error {
		k, err := card.Open(configs[0])
		if err != nil {
			return err
		}
		if fd := k.SystemEvents(); fd != -1 {
			err = fmt.Errorf("an eventfd %d", fd)
		}
		return errors.Join(err, k.Close(0))
	})
	if err != nil {
		t.Error(err)
	}
}
