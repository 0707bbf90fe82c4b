package arctic_test

// This file holds the rules of frames with a block: one frame by its bytes, the limits
// from inside, and every way to break it (doc.go; design idea 7).

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// goldenBlockHex has one field of doc.go's tables a line, in their order. Its checksum
// was computed bit by bit, without Go's hash/crc32.
const goldenBlockHex = `
02a0a1a2a3a4                     0 destination address
02b0b1b2b3b4                     6 source address
88b5                             12 EtherType, network order
06                               14 version
08                               15 flags: level request (0), block (8)
6200                             16 length: 112 - 14 = 98
a305                             18 GID 0x5a3
01efcd2b                         20 route 0x2bcdef01
0201                             24 source card 0x0102
0403                             26 destination card 0x0304
01                               28 packets
00                               29 rejects
0605                             30 age 0x0506
1413121124232221                 32 epoch 0x2122232411121314
34333231                         40 sequence 0x31323334
00000000                         44 request acknowledgment
0000000000000000                 48 request selective bits
00000000                         56 reply acknowledgment
0000000000000000                 60 reply selective bits
9897969594939291                 68 tag 0x9192939495969798
7e404dd8                         76 CRC-32C 0xd84d407e
01efcd2b                         80 word 0: P 0, K2 0, route 0x2bcdef01
341261b4                         84 word 1: GID 0x5a3, length 1, destination 0x1234
78560540                         88 word 2: K1:K0 1, type 5, source 0x5678
37efcdab                         92 word 3: address 0xabcdef30, at once (4), form block (3)
000102030405060708090a0b0c0d0e0f 96 block`

func goldenBlock() []byte { return unhex(goldenBlockHex) }

func goldenBlockFrame() frame {
	return frame{
		Header: arctic.Header{
			To: [6]byte{0x02, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4}, From: [6]byte{0x02, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4},
			GID: 0x5a3, Route: 0x2bcdef01, SourceCard: 0x0102, DestinationCard: 0x0304,
			Epoch: 0x2122232411121314, Sequence: 0x31323334, Age: 0x0506,
			Tag: 0x9192939495969798,
		},
		Packets: []packet{{
			Header: arctic.PacketHeader{Kind: arctic.KindTransfer, Route: 0x2bcdef01, GID: 0x5a3, Length: 1, Type: 5,
				Destination: 0x1234, Source: 0x5678},
			Payload: []byte{0x37, 0xef, 0xcd, 0xab},
		}},
		Block: []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	}
}

// Rule: the packet and its block stand where doc.go's tables have them.
func TestGoldenBlock(t *testing.T) {
	if got, want := compose(goldenBlockFrame()), goldenBlock(); !bytes.Equal(got, want) {
		t.Fatalf("encoded\n% x, want\n% x", got, want)
	}
	f := mustParse(t, goldenBlock())
	same(t, "golden frame", goldenBlockFrame(), takeApart(f))
	p, rest := arctic.Next(f.Train())
	var x arctic.Transfer
	if !p.Transfer(&x) || len(rest) != 0 || x.Form != arctic.Block || !x.AtOnce || x.Address != 0xabcdef30 ||
		x.Data != nil {
		t.Fatalf("the packet is %+v with %d bytes behind it", x, len(rest))
	}
}

// Rule: a block is a positive multiple of 16 bytes up to MaxBlock, behind rejects or
// not, with a bye or not, with padding or not (doc.go).
func TestParseAcceptsBlocks(t *testing.T) {
	for _, size := range []int{16, 32, 1408, 8960, arctic.MaxBlock(math.MaxInt)} {
		for _, rejects := range []int{0, 1, arctic.MaxRejects} {
			want := blockFrame(size)
			want.Header.Bye = rejects == 1
			for range rejects {
				want.Rejects = append(want.Rejects, arctic.Reject{Reason: arctic.ReasonQueueFull, Bits: 1})
			}
			b := compose(want)
			if len(b) > arctic.EthernetSize+math.MaxUint16 {
				continue // MaxBlock is without rejects
			}
			same(t, "frame", want, takeApart(mustParse(t, append(b, 1, 2, 3))))
		}
	}
}

// Rule: MaxBlock is the longest block that a frame of a given size has room for, and
// that the frame's length field can say.
func TestMaxBlock(t *testing.T) {
	const before, longest = 80 + 12 + 4, 14 + 1<<16 - 1
	for _, c := range []struct{ size, want int }{
		{-1, 0}, {0, 0}, {before, 0}, {before + 15, 0}, {before + 16, 16}, {before + 31, 16}, {before + 32, 32},
		{1514, 1408}, {9014, 8912}, {longest - 1, 65440}, {longest, 65440}, {longest + 100, 65440},
		{math.MaxInt, 65440},
	} {
		if got := arctic.MaxBlock(c.size); got != c.want {
			t.Errorf("MaxBlock(%d) is %d, want %d", c.size, got, c.want)
		}
	}
	for size := before; size < before+100; size++ {
		n := arctic.MaxBlock(size)
		if f := compose(blockFrame(n)); len(f) > size || len(f)+arctic.TransferAlign <= size {
			t.Errorf("a frame with a block of %d bytes has %d bytes of %d", n, len(f), size)
		}
	}
}

// blockRefusals lists every way in which a frame with a block can be broken. All have
// the right checksum.
func blockRefusals() (list []damaged) {
	add := func(want error, f frame, name string) { list = append(list, damaged{name, compose(f), want}) }
	with := func(change func(f *frame)) frame {
		f := blockFrame(32)
		change(&f)
		return f
	}
	first := func(change func(p *packet)) frame { return with(func(f *frame) { change(&f.Packets[0]) }) }

	add(arctic.ErrBlock, with(func(f *frame) { f.Packets = nil }), "block behind no packet")
	add(arctic.ErrBlock, with(func(f *frame) { f.Packets, f.Block = nil, []byte{} }), "flag alone")
	add(arctic.ErrBlock, with(func(f *frame) {
		f.Packets = nil
		f.Rejects = []arctic.Reject{{Reason: arctic.ReasonQueueFull}}
	}), "block behind a reject")
	add(arctic.ErrBlock, with(func(f *frame) { f.Packets = append(f.Packets, f.Packets[0]) }),
		"two packets of form Block")
	add(arctic.ErrBlock, with(func(f *frame) { f.Packets = append(train(1, 1).Packets, f.Packets...) }),
		"a message before it")
	for kind := range arctic.Kind(arctic.Kinds) {
		if kind != arctic.KindTransfer {
			add(arctic.ErrBlock, first(func(p *packet) { p.Header.Kind = kind }),
				fmt.Sprintf("packet of kind %d", kind))
		}
	}
	for _, form := range []arctic.Form{arctic.Single, arctic.Part, arctic.Last} {
		add(arctic.ErrBlock, first(func(p *packet) { p.Payload[0] = byte(form) | 0x30 }),
			fmt.Sprintf("packet of form %d", form))
	}
	for _, words := range []int{0, 2, 5, arctic.MaxPayloadWords} {
		add(arctic.ErrBlock, first(func(p *packet) {
			p.Payload = append(p.Payload, make([]byte, 100)...)[:words*arctic.WordSize]
			p.Header.Length = uint8(words)
		}), fmt.Sprintf("packet of %d words", words))
	}
	for _, size := range []int{0, 1, 4, 15, 17, 31, 1420} {
		add(arctic.ErrLength, with(func(f *frame) { f.Block = make([]byte, size) }),
			fmt.Sprintf("block of %d bytes", size))
	}
	add(arctic.ErrTrain, with(func(f *frame) { f.Header.Hello = true }), "hello with a block")
	add(arctic.ErrTrain, first(func(p *packet) { p.Header.GID++ }), "packet of another group")
	// The form without the flag is a packet like any other, and what follows it is none.
	add(arctic.ErrLength, with(func(f *frame) {
		f.Packets[0].Payload = append(f.Packets[0].Payload, f.Block...)
		f.Block = nil
	}), "block without the flag")
	return list
}

// Rule: a remote write of five words with the flag for it names a block, and no other remote write
// does (remote.go).
func TestRemoteBlocks(t *testing.T) {
	for _, size := range []int{16, 32, 1392, arctic.MaxRemoteBlock(math.MaxInt)} {
		want := remoteBlockFrame(size)
		f := mustParse(t, append(compose(want), 1, 2, 3))
		same(t, "frame", want, takeApart(f))
		p, rest := arctic.Next(f.Train())
		h := p.Header()
		var x arctic.Remote
		if !p.Remote(&h, &x) || len(rest) != 0 || !x.Block || len(f.Block()) != size {
			t.Fatalf("the packet is %+v with %d bytes behind it and a block of %d", x, len(rest), len(f.Block()))
		}
	}
	for name, change := range map[string]func(p *packet){
		"without the flag": func(p *packet) { p.Header.Type &^= 1 << 11 },
		"of four words":    func(p *packet) { p.Payload, p.Header.Length = p.Payload[:16], 4 },
		"with metadata":    func(p *packet) { p.Payload, p.Header.Length = append(p.Payload, 0, 0, 0, 0), 6 },
	} {
		bent := remoteBlockFrame(16)
		change(&bent.Packets[0])
		if f, err := arctic.Parse(compose(bent)); f != nil || !errors.Is(err, arctic.ErrBlock) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Rule: MaxRemoteBlock is the longest block of a remote write that a frame has room for.
func TestMaxRemoteBlock(t *testing.T) {
	for size := range 300 {
		n := arctic.MaxRemoteBlock(size)
		if n == 0 {
			if len(compose(remoteBlockFrame(16))) <= size {
				t.Fatalf("none in %d bytes", size)
			}
			continue
		}
		if l := len(compose(remoteBlockFrame(n))); l > size || l+arctic.TransferAlign <= size {
			t.Fatalf("a frame with a block of %d bytes has %d bytes of %d", n, l, size)
		}
	}
}

// Rule: a frame with a block has exactly one packet, a transfer of one word and of form
// Block, and Parse says what else it has (doc.go).
func TestParseRefusesBlocks(t *testing.T) {
	for _, d := range blockRefusals() {
		if f, err := arctic.Parse(d.b); f != nil || !errors.Is(err, d.want) {
			t.Errorf("%s: error %v, want %v", d.name, err, d.want)
		}
	}
}

// Rule: a packet of form Block in a frame without the flag is for the card to answer:
// the frame is one, and has no block (Packet.Transfer).
func TestBlockPacketWithoutItsBlock(t *testing.T) {
	want := blockFrame(16)
	want.Block = nil
	for range 2 {
		f := mustParse(t, compose(want))
		same(t, "frame", want, takeApart(f))
		if f.Block() != nil {
			t.Fatal("there is a block")
		}
		want.Packets = append(want.Packets, want.Packets[0], train(1, 2).Packets[0])
	}
}
