package attack

// This file lies to the hosts that take turns together (package turns), as a host does that is one
// of them and whose root forges the times in hellos.

import (
	"math"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/hello"
	"github.com/funet/funet/uspace/turns"
)

// lieFor is how long each kind of lie goes on. It is longer than a card's time counts after its
// last hello.
const lieFor = 4 * time.Second

func lies() Attack {
	return Attack{Name: "hub_time", Does: "a host that tells each other one another time, as fast as it can",
		Foreign: true, begin: (*player).openRaw, round: (*player).tellTimes}
}

// tellTimes sends a burst of hellos that tell a time. Those that find no room are lost.
func (p *player) tellTimes() (sent int) {
	r := p.raw
	var b [hello.Longest]byte
	kind := int(time.Since(p.start)/lieFor) % 4
	for range burst {
		to := rand.IntN(len(r.macs))
		m := hello.Message{Kind: hello.Announcement, Nonce: rand.Uint64(), Arrived: hello.NoQueue,
			Said: hello.Said{Card: uint16(p.c.Host), IsCard: true, Frames: arctic.Version}}
		from := [6]byte(r.own)
		switch kind {
		case 0: // to each host another one, for ever
			m.Time = uint64(time.Now().UnixNano()) + uint64(to)*uint64(turns.Turn)
		case 1: // jumps, near and far
			m.Time = rand.Uint64() >> rand.IntN(64)
		case 2: // as any card, in kinds that tell no time, and in others' names
			m.Card, m.Time = uint16(rand.IntN(8)), rand.Uint64()
			m.Kind = hello.Kind(rand.IntN(5))
			if rand.IntN(2) == 0 {
				from = [6]byte(r.macs[rand.IntN(len(r.macs))])
			}
		case 3: // repeated, and at the end of time
			m.Time = math.MaxUint64
		}
		m.To = uint16(rand.IntN(8))
		n := m.Put(b[:], [6]byte(r.macs[to]), from)
		if _, err := unix.Write(r.fd, b[:n]); err == nil {
			sent++
		}
	}
	return sent
}
