package engine_test

// This file is the hostile network: frames that nobody sent, with correct
// checksums, in the middle of traffic.

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// FuzzHostileNetwork: whatever frames arrive, in whatever name, the card does not
// panic, its books balance, and genuine traffic with the peer in whose name nothing
// was sent goes through (engine doc.go; arctic Parse accepts any bytes). Cards 0
// and 1 talk while frames that claim to come from card 1 arrive at card 0; card 2
// is the other peer. The script is taken in pieces of 24 bytes; the first says
// whether the piece becomes a frame of its own or changes a captured one.
func FuzzHostileNetwork(f *testing.F) {
	piece := func(op byte, b ...byte) []byte { return append([]byte{op}, append(b, make([]byte, 24-1-len(b))...)...) }
	f.Add(uint64(1), piece(0, 1, 5, 0, 0, 0, 0, 1))
	f.Add(uint64(2), append(piece(1, 0, 0, 15, 2), piece(2, 0, 0, 28, 255)...))
	f.Add(uint64(3), append(piece(3, 0, 0, 0, 1, 1), piece(0, 0x82, 255, 255, 255, 255, 255, 255, 255, 255)...))
	f.Add(uint64(4), append(piece(4, 9, 9, 9, 9), piece(6, 1, 2, 3, 4, 5)...))
	f.Add(uint64(5), append(piece(8, 4, 0, 15, 8), piece(0, 0, 1, 0, 0, 0, 0, 0, 0x03, 0, 1)...))
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		var frames [][]byte
		b, m := transferBed(t, setup{cards: 3, slots: 16, tune: followedIf(seed%4 > 1), net: near,
			wrap: capture(&frames)})
		before := bytes.Clone(m[0].readOnly)
		b.net.SetFaults(networks[[]string{"clean", "all"}[seed%2]])
		check := func() {
			for i, c := range b.cards {
				if err := c.Check(); err != nil {
					t.Fatalf("card %d: %v\n%s", i, err, b.counters())
				}
			}
		}
		busy := func() { // drains and fills the queues of cards 0 and 1
			for i := range 2 {
				for l := range funi.Level(2) {
					b.send(i, l, 1-i, 1, 2, 3)
					request(b.proc[i], l, 1-i, funi.Transfer{Source: area, Destination: area, Words: 500})
					take(b.proc[i], l)
					take(b.proc[i], l)
				}
				b.proc[i].NextReturn()
			}
			for l := range funi.Level(2) {
				take(b.proc[2], l) // from forged frames, if any
			}
		}
		for range 20 {
			busy()
			b.step(b.next())
		}
		for ; len(script) >= 24; script = script[24:] {
			b.inject(hostile(script[:24], frames))
			busy()
			b.step(b.next())
			busy()
			b.step(b.next())
			check()
		}
		b.net.SetFaults(networks["clean"])
		b.until(time.Minute, "quiet cards reach zero in flight", func() bool {
			busyDrain(b)
			return b.ctx[0].Idle() && b.ctx[1].Idle() && b.ctx[2].Idle()
		})
		b.pass(time.Second) // frames of packets that came back may still arrive
		busyDrain(b)
		b.step(b.now)
		busyDrain(b)
		check()
		exactlyOnce(b, newTraffic(b, 20, 3, [2]int{0, 2}, [2]int{2, 0}))
		check()
		if !bytes.Equal(m[0].readOnly, before) {
			t.Fatal("memory without the right was written")
		}
	})
}

// followedIf is quick, with contexts that are followed or not.
func followedIf(is bool) func(*engine.Config) {
	return func(c *engine.Config) {
		if quick(c); is {
			followed(c)
		}
	}
}

// busyDrain takes everything that waits for any process.
func busyDrain(b *bed) {
	for _, p := range b.proc {
		for l := range funi.Level(2) {
			for _, ok := take(p, l); ok; _, ok = take(p, l) {
			}
		}
		for _, ok := p.NextReturn(); ok; _, ok = p.NextReturn() {
		}
	}
}

// hostile makes a frame in the name of card 1 for card 0 from a piece of script.
func hostile(s []byte, frames [][]byte) []byte {
	if s[0]%4 != 0 && len(frames) > 0 {
		// A captured frame from 1 to 0 with some bytes changed.
		var own [][]byte
		for _, f := range frames {
			if [6]byte(f[6:12]) == address(1) && [6]byte(f[0:6]) == address(0) {
				own = append(own, f)
			}
		}
		if len(own) > 0 {
			b := append([]byte(nil), own[int(binary.LittleEndian.Uint16(s[1:]))%len(own)]...)
			for i := 3; i+1 < len(s) && i < 3+2*int(s[0]>>4); i += 2 {
				b[arctic.EthernetSize+int(s[i])%(len(b)-arctic.EthernetSize)] ^= s[i+1]
			}
			if s[0]%4 == 1 {
				// keep to the name, to get past the first check
				binary.LittleEndian.PutUint16(b[24:], 1)
				binary.LittleEndian.PutUint16(b[26:], 0)
				b[14] = arctic.Version
				binary.LittleEndian.PutUint16(b[18:], gid)
			}
			arctic.Seal(b, len(b))
			return b
		}
	}
	h := arctic.Header{To: address(0), From: address(1), GID: gid, SourceCard: 1, Epoch: presentEpoch,
		Level: arctic.Level(s[1] & 1), Hello: s[1]&2 != 0, Bye: s[1]&4 != 0,
		Sequence: binary.LittleEndian.Uint32(s[2:]), Age: binary.LittleEndian.Uint16(s[6:]),
	}
	for l := range h.Acks {
		h.Acks[l] = binary.LittleEndian.Uint32(s[8+4*l:])
		h.Selective[l] = binary.LittleEndian.Uint64(s[12:])
	}
	if !h.Hello && s[22]%8 > 0 {
		h.Tag = jobTag
		if s[22] >= 0xf8 {
			h.Tag ^= 1 << (s[23] & 63) // another job
		}
	}
	b := make([]byte, 1514)
	h.Encode(b)
	n := arctic.HeaderSize
	if h.Hello {
		n = arctic.PutGreeting(b, &arctic.Greeting{Nonce: h.Selective[0], Echo: h.Selective[1], Incarnation: 2,
			Longest: uint32(h.Age), Flags: arctic.GreetingFlags(s[20])})
	} else {
		for i := range int(s[20] % 33) {
			n = arctic.PutReject(b, n, arctic.Reject{Sequence: h.Sequence + uint32(i%5), Level: arctic.Level(i & 1),
				Reason: arctic.Reason(1 + (int(s[21])+i)%127), Bits: h.Selective[0] >> i})
		}
		for i := range int(s[22] % 8) {
			p := arctic.PacketHeader{Level: h.Level, GID: gid, Kind: arctic.Kind(s[23] >> (i % 8) & 1),
				Length: s[23] % 22, Source: 1, Destination: uint16(s[1] >> 4)}
			var w [arctic.MaxPacketSize]byte
			p.Encode(w[:])
			// of a transfer: the address comes from the script
			if h.Sequence&1 != 0 && p.Length > 0 {
				copy(w[arctic.PacketHeaderSize:], s[8:12])
			}
			n = arctic.PutPacket(b, n, w[:arctic.PacketHeaderSize+int(p.Length)*arctic.WordSize])
		}
		if s[20] >= 0x80 {
			n = arctic.PutBlock(b, n, b[:16*min(int(s[21]%80), (len(b)-n)/16)])
		}
	}
	arctic.Seal(b, n)
	return b[:n]
}
