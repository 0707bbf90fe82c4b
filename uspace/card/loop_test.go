package card_test

// This file tests a card that sleeps outside Drive, in an event loop, and sleeps that others end.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funi"
)

// sleepUntil sleeps in epoll_wait(2) until a descriptor is readable, or for much longer than
// anything takes.
func sleepUntil(fd int) error {
	outer, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(outer)
	if err := unix.EpollCtl(outer, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; {
		n, err := unix.EpollWait(outer, make([]unix.EpollEvent, 1), int(time.Until(end).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n == 0 {
			return fmt.Errorf("nothing makes the descriptor readable (%v)", err)
		}
		return nil
	}
}

// Rule: whatever happens between the last look and the sleep, a card that waits as Arm says wakes
// for each message and for each of the engine's times: everything is delivered and acknowledged
// with both cards in event loops.
func TestEventLoop(t *testing.T) {
	const messages = 1000
	l, configs := newLab(t)
	errs := make(chan error, 2)
	for host := range configs {
		go func() {
			errs <- l.Do(host, func() error {
				k, err := card.Open(configs[host])
				if err != nil {
					return err
				}
				fd, err := k.Fd()
				for sent, got := 0, 0; err == nil && (sent < messages || got < messages); {
					k.Drive()
					moved := false
					// The messages of a node are one ahead of those of the other.
					if s := k.Interface().Reserve(funi.Request); sent < messages && sent <= got+1 && s != nil {
						s.SetHeader(funi.NewHeader(uint16(1-host), 0, 1))
						k.Interface().Commit(funi.Request)
						sent, moved = sent+1, true
					}
					if k.Interface().Receive(funi.Request) != nil {
						k.Interface().Release(funi.Request)
						got, moved = got+1, true
						if got%100 == 0 {
							time.Sleep(time.Millisecond)
						}
					}
					if !moved && k.Arm() {
						if err = sleepUntil(fd); err != nil {
							err = fmt.Errorf("node %d after %d sent and %d received: %w", host, sent, got, err)
						}
						k.Disarm()
					}
				}
				return errors.Join(err, k.Close(patience))
			})
		}()
	}
	for range configs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Rule: a cancelled call ends while the card sleeps, whichever thread drives the card, and
// so does an event loop's sleep; a sleep alone would last as long as the engine has nothing to do.
func TestCancelEndsASleep(t *testing.T) {
	l, configs := newLab(t)
	c := configs[0]
	c.AnyThread = true
	var k *card.Card
	err := l.Do(0, func() (err error) {
		k, err = card.Open(c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := am.New(k.Interface(), 0, 2, k.Drive, 1)
	if err != nil {
		t.Fatal(err)
	}
	e.Wakes(k.Interrupt)
	k.SleepLong()
	fd, err := k.Fd()
	if err != nil {
		t.Fatal(err)
	}
	for name, sleep := range map[string]func() error{
		"Drive": func() error { return e.Wait(func() bool { return false }) },
		"an event loop": func() error {
			for {
				if _, err := e.Poll(); err != nil {
					return err
				}
				if k.Arm() {
					if err := sleepUntil(fd); err != nil {
						return err
					}
					k.Disarm()
				}
			}
		},
	} {
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			e.Bind(ctx)
			time.AfterFunc(5*time.Millisecond, cancel)
			if err := sleep(); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if err := k.Close(0); err != nil {
		t.Error(err)
	}
}

// Rule: a card that any thread drives is pinned to no processor.
func TestAnyThreadIsNotPinned(t *testing.T) {
	_, configs := newLab(t)
	configs[0].AnyThread, configs[0].CPU = true, 0
	if _, err := card.Open(configs[0]); !errors.Is(err, card.ErrThread) {
		t.Errorf("it was answered by %v", err)
	}
}
