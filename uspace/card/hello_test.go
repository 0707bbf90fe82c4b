package card_test

// This file tests how an embedded card says hello.

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vishvananda/netlink"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/port/hello"
)

// socketOn opens a packet socket on the interface of a host, for all that comes to it.
func socketOn(t *testing.T, l *lab.Lab, host int) (fd, index int) {
	t.Helper()
	err := l.Do(host, func() (err error) {
		i, err := netlink.LinkByName("fu0")
		if err != nil {
			return err
		}
		index = i.Attrs().Index
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
			0xb588); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0xb588, Ifindex: index})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd, index
}

// Rule: a card of one process answers hellos, and what they say of a peer is the peer's fault:
// another version, and a second host with the own number; where nothing was heard there is none.
func TestHello(t *testing.T) {
	l, configs := newLab(t)
	fd, index := socketOn(t, l, 1)
	to, from := [6]byte(l.Hosts()[0].Interfaces[0].MAC), [6]byte(l.Hosts()[1].Interfaces[0].MAC)
	send := func(m hello.Message) {
		t.Helper()
		b := make([]byte, hello.Size)
		m.Put(b, to, from)
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: index, Halen: 6}); err != nil {
			t.Error(err)
		}
	}
	err := l.Do(0, func() error {
		k, err := card.Open(configs[0])
		if err != nil {
			return err
		}
		defer k.Close(0)
		until := func(what string, so func() bool) {
			t.Helper()
			for end := time.Now().Add(30 * time.Second); !so(); k.Drive() {
				if time.Now().After(end) {
					t.Errorf("waited in vain: %s", what)
					return
				}
			}
		}
		if err := k.Fault(1); err != nil {
			t.Errorf("at first: %v", err)
		}
		send(hello.Message{Kind: hello.Question, Nonce: 77, Said: hello.Said{Frames: arctic.Version}})
		var answer hello.Message
		until("an answer", func() bool {
			var b [2048]byte
			n, _, err := unix.Recvfrom(fd, b[:], 0)
			if err != nil {
				return false
			}
			m, _, err := hello.Parse(b[:n])
			if err == nil && m.Kind == hello.Answer {
				answer = m
			}
			return answer.Nonce == 77
		})
		if !answer.IsCard || answer.Card != 0 || answer.Frames != arctic.Version || answer.Discovers ||
			answer.Arrived != 0 {
			t.Errorf("%+v", answer)
		}
		if err := k.Fault(1); err != nil {
			t.Errorf("before anything was wrong: %v", err)
		}
		send(hello.Message{Kind: hello.Question, Said: hello.Said{IsCard: true, Card: 1, Frames: arctic.Version + 1,
			FrameSize: 1514, Host: "other"}})
		until("its version is a fault", func() bool { return k.Fault(1) != nil })
		if err := k.Fault(1); err == nil || !strings.Contains(err.Error(), "other (") ||
			!strings.Contains(err.Error(), "version") {
			t.Error(err)
		}
		send(hello.Message{Kind: hello.Question, Said: hello.Said{IsCard: true, Card: 0, Incarnation: 1,
			Frames: arctic.Version, FrameSize: 1514}})
		until("the own number is a fault", func() bool {
			return k.Fault(0) != nil && strings.Contains(k.Fault(0).Error(), "card 0 is this host and")
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
