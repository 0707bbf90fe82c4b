package link_test

// This file is the hostile network: frames that nobody sent, in the middle of traffic.

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// FuzzArrive: whatever frames arrive, no step panics, the books balance, each line comes back once,
// and what two cards exchange in whose names nothing was forged is delivered once, also if its
// frames are sent again (doc.go). Cards 0 and 1 talk while frames arrive at card 0 that claim to
// come from card 1: any bytes, recorded frames with other bytes and a right checksum, and with
// other numbers in their headers. Frames of any card are sent again as they were. Card 2 is the
// other peer. The script is taken in pieces of 24 bytes, whose first says what it is.
func FuzzArrive(f *testing.F) {
	piece := func(op byte, b ...byte) []byte { return append(append([]byte{op}, b...), make([]byte, 23-len(b))...) }
	many := func(pieces ...[]byte) (s []byte) {
		for _, p := range pieces {
			s = append(s, p...)
		}
		return s
	}
	f.Add(uint64(1), piece(0, 1, 5, 0, 0, 0, 0, 1))
	f.Add(uint64(2), many(piece(1, 0, 0, 15, 2), piece(1, 3, 0, 28, 255), piece(1, 9, 0, 2, 9)))
	f.Add(uint64(3), many(piece(2, 5, 0, 0, 0, 0, 0, 255, 255), piece(2, 7, 0, 1, 0, 0, 0, 0, 1),
		piece(2, 9, 0, 255, 255, 255, 127)))
	f.Add(uint64(4), many(piece(3, 5), piece(3, 50), piece(3, 100), piece(3, 200)))
	f.Add(uint64(5), many(piece(2, 30, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 255, 255, 255, 255, 7), piece(4, 2),
		piece(2, 1, 0, 3), piece(5), piece(3, 1)))
	f.Add(uint64(6), many(piece(6, 1, 0, 1, 0, 0, 0, 64, 255), piece(6, 2, 0, 2, 0, 0, 0, 3, 255),
		piece(6, 3, 0, 0, 0, 0, 0, 1, 255)))
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		var frames []arctic.Frame
		kind := []string{"native", "thesis", "timed", "train 1"}[seed/2%4]
		b := newBed(t, setup{cards: 3, tune: func(c *link.Config) {
			if tune := cardConfigs[kind]; tune != nil {
				tune(c)
			}
			quick(c)
		}, net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond,
			Faults: networks[[]string{"clean", "all"}[seed%2]]}, wrap: capture(&frames)})
		b.liar = 1
		b.reasons = []arctic.Reason{arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted}
		full := false
		b.judge = func(_ int, m *message) arctic.Reason {
			if full = !full; full && m.rejected == 0 {
				return arctic.ReasonQueueFull
			}
			return arctic.ReasonNone
		}
		busy := func() {
			for i := range 3 {
				for l := range arctic.Level(arctic.Levels) {
					if b.own[i].out < 4 {
						b.put(b.own[i], (i+1)%3, uint16((i+1)%3), l, 3, nil)
						b.put(b.own[i], (i+2)%3, uint16((i+2)%3), l, 3, nil)
					}
				}
				if kind != "timed" && b.own[i].out < 6 && len(b.blocks) < 1000 {
					b.put(b.own[i], (i+1)%3, uint16((i+1)%3), arctic.Request, 0, pattern(2048, int(b.now)))
				}
			}
			if b.touched {
				b.step(b.now)
			}
			b.step(min(b.next(), b.now+int64(time.Millisecond)))
		}
		for range 30 {
			busy()
		}
		if len(script) > 100*24 {
			script = script[:100*24]
		}
		for ; len(script) >= 24; script = script[24:] {
			switch op := script[0] % 8; {
			case op == 4:
				b.pass(time.Duration(script[1]) * time.Millisecond)
			case op == 5:
				for _, c := range b.cards {
					c.ParkQuiet()
				}
			default:
				if raw := hostile(script[:24], frames); raw != nil {
					b.inject(raw)
				}
			}
			busy()
			busy()
			b.checked()
		}
		b.net.SetFaults(wire.Faults{})
		b.idle(time.Minute)
		b.pass(time.Second)
		b.checked()
		b.reasons = nil
		exactlyOnce(b, newTraffic(b, 20, [2]int{0, 2}, [2]int{2, 0}))
	})
}

// hostile makes a frame for card 0 from a piece of script. Op 0 is any bytes behind the header of a
// recorded frame. Op 1 is a recorded frame with other bytes. Op 3 is one of any card as it was. Ops
// 2, 4 and 5 are ones with other numbers, and 6 and 7 ones with rejects besides. nil: there is no
// frame to begin with.
func hostile(s []byte, frames []arctic.Frame) []byte {
	var own []arctic.Frame
	for _, f := range frames {
		if h := f.Header(); s[0]%8 == 3 || h.SourceCard == 1 && h.DestinationCard == 0 {
			own = append(own, f)
		}
	}
	if len(own) == 0 {
		return nil
	}
	at := int(binary.LittleEndian.Uint16(s[1:])) % len(own)
	f := own[at]
	for f.Header().Hello && (s[0]%8 == 2 || s[0]%8 >= 6) { // it has no numbers; the next may
		if at++; at == len(own) {
			return nil
		}
		f = own[at]
	}
	switch s[0] % 8 {
	case 0:
		raw := append(append([]byte(nil), f[:arctic.EthernetSize+2]...), s[1:]...)
		return append(raw, f[min(len(f), len(raw)):]...)
	case 1:
		raw := append([]byte(nil), f...)
		for i := 3; i+1 < len(s) && i < 5+2*int(s[0]>>4); i += 2 {
			raw[arctic.EthernetSize+int(s[i])%(len(raw)-arctic.EthernetSize)] ^= s[i+1]
		}
		arctic.Seal(raw, len(raw))
		if g, err := arctic.Parse(raw); err == nil && g.Header().SourceCard != 1 {
			return nil // in another's name
		}
		return raw
	case 3:
		return f
	}
	change := func(h *arctic.Header) {
		h.Sequence += binary.LittleEndian.Uint32(s[3:])
		h.Age += binary.LittleEndian.Uint16(s[7:])
		for l := range h.Acks {
			h.Acks[l] += binary.LittleEndian.Uint32(s[9+4*l:])
			h.Selective[l] ^= binary.LittleEndian.Uint64(s[13+l:])
		}
		h.Bye = s[22]&1 != 0
		if s[22]&2 != 0 {
			h.GID = (h.GID + uint16(s[23])) & arctic.MaxGID
		}
	}
	var rejects []arctic.Reject
	if s[0]%8 >= 6 {
		change = func(*arctic.Header) {}
		for i := range min(int(s[23]%9), arctic.MaxRejects-f.Rejects()) {
			h := f.Header()
			rejects = append(rejects, arctic.Reject{Sequence: h.Acks[i&1] + binary.LittleEndian.Uint32(s[3:]) +
				uint32(i/2), Level: arctic.Level(i & 1),
				Reason: arctic.Reason(1 + (int(s[7])+i)%127), Bits: binary.LittleEndian.Uint64(s[8:]) >> i})
		}
	}
	return edited(f, change, rejects...)
}
