package arctic_test

// This file damages a good frame in every way that Parse knows, and in every bit.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// Where things are in the frame of base, by the tables of doc.go.
const (
	atVersion, atFlags, atLength, atGID, atRoute = 14, 15, 16, 18, 20
	atPackets, atRejects                         = 28, 29
	atTag                                        = 68
	atReject, atPacket0, atPacket1, atPacket2    = 80, 112, 124, 140
	baseEnd                                      = 236
)

// base is a request frame of two rejects and of packets of 0, 1 and 21 words.
func base() []byte {
	f := train(3, 0)
	f.Rejects = []arctic.Reject{
		{Sequence: 8, Reason: arctic.ReasonQueueFull, Bits: 1},
		{Sequence: 9, Level: arctic.Reply, Reason: arctic.ReasonNoContext, Bits: 2},
	}
	f.Packets[1] = train(1, 1).Packets[0]
	f.Packets[2] = train(1, 21).Packets[0]
	return compose(f)
}

// damaged is a frame that Parse refuses with want, by the rule that name states.
type damaged struct {
	name string
	b    []byte
	want error
}

// refusals lists every way in which doc.go's format can be broken. Frames whose
// checksum is not the point have the right one.
func refusals() []damaged {
	var list []damaged
	raw := func(want error, b []byte, name string, args ...any) {
		list = append(list, damaged{fmt.Sprintf(name, args...), b, want})
	}
	sealed := func(want error, b []byte, name string, args ...any) {
		setChecksum(b)
		raw(want, b, name, args...)
	}
	with := func(at int, value byte) []byte {
		b := base()
		b[at] = value
		return b
	}
	flip := func(at int, bit int) []byte {
		b := base()
		b[at+bit/8] ^= 1 << (bit % 8)
		return b
	}
	length := func(n int) []byte {
		b := base()
		binary.LittleEndian.PutUint16(b[atLength:], uint16(n))
		return b
	}

	// Not a frame of this format.
	for _, n := range []int{0, 1, 12, 13} {
		raw(arctic.ErrForeign, base()[:n], "%d bytes have no EtherType", n)
	}
	sealed(arctic.ErrForeign, with(12, 0x08), "another EtherType")
	swapped := base()
	swapped[12], swapped[13] = swapped[13], swapped[12]
	sealed(arctic.ErrForeign, swapped, "EtherType in little-endian order")
	for n := arctic.EthernetSize; n < arctic.HeaderSize; n++ {
		raw(arctic.ErrShort, base()[:n], "cut to %d bytes, inside the header", n)
	}
	for _, v := range []byte{0, 1, 2, 3, 4, 5, arctic.VersionDirect + 1, 0x80 | arctic.Version, 255} {
		sealed(arctic.ErrVersion, with(atVersion, v), "version %d", v)
	}

	// Length: from the header to what arrived.
	for _, n := range []int{0, 1, 65} {
		sealed(arctic.ErrLength, length(n), "length %d is below the header's 66", n)
	}
	for _, n := range []int{baseEnd - 14 + 1, 0x8000, 0xffff} {
		sealed(arctic.ErrLength, length(n), "length %d is beyond the last byte", n)
	}
	raw(arctic.ErrLength, base()[:baseEnd-1], "last byte missing")
	raw(arctic.ErrLength, base()[:80], "all behind the header missing")
	raw(arctic.ErrChecksum, length(baseEnd-14-1), "length one less, checksum of the whole")

	// Reserved bits.
	for bit := 6; bit < 8; bit++ {
		sealed(arctic.ErrFlags, flip(atFlags, bit), "unknown flag, bit %d", bit)
	}
	sealed(arctic.ErrFlags, flip(atFlags, 5), "readable, but not sealed")
	sealed(arctic.ErrSealed, flip(atFlags, 4), "sealed")
	for bit := 11; bit < 16; bit++ {
		sealed(arctic.ErrFlags, flip(atGID, bit), "GID bit %d", bit)
	}
	for bit := 30; bit < 32; bit++ {
		sealed(arctic.ErrFlags, flip(atRoute, bit), "route bit %d", bit)
	}
	for at, bits := range map[int][2]int{atGID: {11, 16}, atRoute: {30, 32}} {
		for bit := bits[0]; bit < bits[1]; bit++ {
			b := compose(frame{})
			b[at+bit/8] ^= 1 << (bit % 8)
			sealed(arctic.ErrFlags, b, "only bit %d of the field at %d", bit, at)
		}
	}

	// A frame without packets is of no job.
	for bit := range 64 {
		for name, f := range map[string]frame{"nothing": {},
			"a reject": {Rejects: []arctic.Reject{{Reason: arctic.ReasonQueueFull}}},
			"a hello":  {Header: arctic.Header{Hello: true}}} {
			b := compose(f)
			b[atTag+bit/8] ^= 1 << (bit % 8)
			sealed(arctic.ErrFlags, b, "bit %d of the tag of %s", bit, name)
		}
	}

	// Counts.
	sealed(arctic.ErrTrain, compose(train(65, 0)), "65 packets")
	sealed(arctic.ErrTrain, with(atPackets, 255), "255 packets")
	sealed(arctic.ErrTrain, with(atRejects, 33), "33 rejects")
	many := frame{}
	for range 33 {
		many.Rejects = append(many.Rejects, arctic.Reject{Reason: arctic.ReasonQueueFull})
	}
	sealed(arctic.ErrTrain, compose(many), "33 rejects that are there")

	// A hello carries a greeting, and nothing else.
	hello := func(change func(b []byte)) []byte {
		b := compose(frame{Header: arctic.Header{Hello: true}, Greeting: arctic.Greeting{Nonce: 1, Incarnation: 1}})
		change(b)
		return b
	}
	sealed(arctic.ErrTrain, hello(func(b []byte) { b[atPackets] = 1 }), "hello with a packet")
	sealed(arctic.ErrTrain, hello(func(b []byte) { b[atRejects] = 1 }), "hello with a reject")
	sealed(arctic.ErrFlags, hello(func(b []byte) { b[atFlags] |= 1 << 3 }), "hello with a block")
	sealed(arctic.ErrSealed, hello(func(b []byte) { b[atFlags] |= 1 << 4 }), "sealed hello")
	sealed(arctic.ErrFlags, hello(func(b []byte) { clear(b[80:88]) }), "hello without a nonce")
	sealed(arctic.ErrFlags, hello(func(b []byte) { clear(b[104:108]) }), "hello without an incarnation")
	for _, n := range []int{80, 81, 135, 137} {
		sealed(arctic.ErrLength, resize(hello(func([]byte) {}), n), "hello of %d bytes", n)
	}

	// Rejects.
	sealed(arctic.ErrLength, resize(base(), 80), "two rejects, no room")
	sealed(arctic.ErrLength, resize(base(), 111), "two rejects, room for one and 15 bytes")
	for i := range 2 {
		at := atReject + i*arctic.RejectSize
		for _, v := range []byte{2, 3, 0x80, 255} {
			sealed(arctic.ErrFlags, with(at+4, v), "reject %d of level %d", i, v)
		}
		for _, v := range []byte{0, 128, 131, 255} {
			sealed(arctic.ErrFlags, with(at+5, v), "reject %d with reason %d, which does not travel", i, v)
		}
		for bit := range 16 {
			sealed(arctic.ErrFlags, flip(at+6, bit), "reject %d with reserved bit %d", i, bit)
		}
	}

	// The train: one level, group, route and pair of nodes.
	for i, at := range []int{atPacket0, atPacket1, atPacket2} {
		sealed(arctic.ErrTrain, flip(at, 31), "packet %d of the other level", i)
		for _, bit := range []int{0, 15, 29} {
			sealed(arctic.ErrTrain, flip(at, bit), "packet %d with another route, bit %d", i, bit)
		}
		for _, bit := range []int{21, 31} {
			sealed(arctic.ErrTrain, flip(at+4, bit), "packet %d of another group, bit %d", i, bit-21)
		}
		for _, bit := range []int{0, 15} {
			sealed(arctic.ErrTrain, flip(at+4, bit), "packet %d to another node, bit %d", i, bit)
			sealed(arctic.ErrTrain, flip(at+8, bit), "packet %d from another node, bit %d", i, bit)
		}
	}
	sealed(arctic.ErrTrain, flip(atFlags, 0), "reply frame of request packets")
	sealed(arctic.ErrTrain, flip(atGID, 10), "frame of another group than its packets")
	sealed(arctic.ErrTrain, flip(atRoute, 29), "frame of another route than its packets")

	// The end: packets end where the frame does.
	for words := 22; words < 32; words++ {
		b := compose(train(1, words))
		sealed(arctic.ErrPacket, b, "packet of %d payload words, all there", words)
	}
	sealed(arctic.ErrPacket, with(atPackets, 4), "one packet more than there are")
	sealed(arctic.ErrLength, with(atPackets, 2), "one packet less than there are")
	sealed(arctic.ErrLength, with(atPackets, 0), "no packets, but bytes")
	sealed(arctic.ErrPacket, resize(base(), atPacket2), "last packet missing")
	sealed(arctic.ErrPacket, resize(base(), atPacket2+11), "last packet cut in its header")
	sealed(arctic.ErrPacket, resize(base(), atPacket2+12), "last packet cut behind its header")
	sealed(arctic.ErrPacket, resize(base(), baseEnd-1), "last packet one byte short")
	sealed(arctic.ErrLength, resize(base(), baseEnd+1), "one byte behind the last packet, counted as frame")
	sealed(arctic.ErrLength, resize(base(), baseEnd+12), "a packet header behind the last packet")
	sealed(arctic.ErrLength, resize(compose(frame{}), 81), "one byte behind a header alone")
	sealed(arctic.ErrPacket, flip(atPacket2+6, 1), "last packet longer than the frame")
	sealed(arctic.ErrLength, flip(atPacket2+6, 0), "last packet shorter than the frame")
	return list
}

// Rule: Parse refuses every frame that is not of doc.go's format, with the error
// of what is wrong, and returns no frame.
func TestParseRefuses(t *testing.T) {
	if len(base()) != baseEnd {
		t.Fatalf("base frame has %d bytes, want %d", len(base()), baseEnd)
	}
	mustParse(t, base())
	for _, d := range refusals() {
		t.Run(d.name, func(t *testing.T) {
			f, err := arctic.Parse(d.b)
			if !errors.Is(err, d.want) {
				t.Errorf("error %v, want %v", err, d.want)
			}
			if f != nil {
				t.Errorf("a frame of %d bytes came with the error", len(f))
			}
		})
	}
}

// Rule: one wrong bit is found, wherever it is behind the addresses (doc.go: the
// checksum covers bytes 14..75 and 80..end). In the EtherType it makes the frame
// someone else's; in the addresses, which Ethernet's own check and the switch
// answer for, and in padding it changes nothing but these.
func TestParseFindsEverySingleBit(t *testing.T) {
	const padding = 9
	good := append(golden(), make([]byte, padding)...)
	for bit := range len(good) * 8 {
		b := append([]byte(nil), good...)
		b[bit/8] ^= 1 << (bit % 8)
		f, err := arctic.Parse(b)
		switch at := bit / 8; {
		case at < 12:
			if err != nil {
				t.Fatalf("byte %d bit %d, an address: refused: %v", at, bit%8, err)
			}
			want := goldenFrame()
			if at < 6 {
				want.Header.To[at] ^= 1 << (bit % 8)
			} else {
				want.Header.From[at-6] ^= 1 << (bit % 8)
			}
			same(t, "frame with another address", want, takeApart(f))
		case at < 14:
			if !errors.Is(err, arctic.ErrForeign) {
				t.Fatalf("byte %d bit %d, the EtherType: error %v, want %v", at, bit%8, err, arctic.ErrForeign)
			}
		case at == atVersion && bit%8 == 0: // the other version
			if !errors.Is(err, arctic.ErrChecksum) {
				t.Fatalf("byte %d bit %d, the version: error %v, want %v", at, bit%8, err, arctic.ErrChecksum)
			}
		case at == atVersion:
			if !errors.Is(err, arctic.ErrVersion) {
				t.Fatalf("byte %d bit %d, the version: error %v, want %v", at, bit%8, err, arctic.ErrVersion)
			}
		case at == atLength || at == atLength+1:
			if !errors.Is(err, arctic.ErrLength) && !errors.Is(err, arctic.ErrChecksum) {
				t.Fatalf("byte %d bit %d, the length: error %v, want %v or %v", at, bit%8, err, arctic.ErrLength,
					arctic.ErrChecksum)
			}
		case at == atFlags && bit%8 == 4:
			if !errors.Is(err, arctic.ErrSealed) {
				t.Fatalf("the flag of sealed frames: error %v, want %v", err, arctic.ErrSealed)
			}
		case at < len(golden()):
			if !errors.Is(err, arctic.ErrChecksum) {
				t.Fatalf("byte %d bit %d: error %v, want %v", at, bit%8, err, arctic.ErrChecksum)
			}
		default:
			if err != nil {
				t.Fatalf("byte %d bit %d, padding: refused: %v", at, bit%8, err)
			}
			same(t, "frame with other padding", goldenFrame(), takeApart(f))
		}
	}
}
