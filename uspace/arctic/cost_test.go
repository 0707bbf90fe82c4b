package arctic_test

// This file says what the format costs: no allocation, and the benchmarks.

import (
	"fmt"
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// encodeTrain writes a frame of count times the packet p into b.
func encodeTrain(b []byte, h *arctic.Header, p []byte, count int) int {
	h.Encode(b)
	n := arctic.HeaderSize
	for range count {
		n = arctic.PutPacket(b, n, p)
	}
	arctic.Seal(b, n)
	return n
}

// wirePacket is a packet of train(1, words) in wire form.
func wirePacket(words int) []byte {
	p := train(1, words).Packets[0]
	b := append(make([]byte, arctic.PacketHeaderSize), p.Payload...)
	p.Header.Encode(b)
	return b
}

// Rule: encoding and decoding do not allocate, and neither does refusing
// (doc.go: pure; Parse's errors carry no detail for that reason).
func TestNothingAllocates(t *testing.T) {
	f := train(40, 8)
	b := make([]byte, 4096)
	p := wirePacket(8)
	good := base()
	block := blockFrame(1408)
	goodBlock := compose(block)
	bad := append(refusals(), blockRefusals()...)
	sum := uint64(0)
	for name, run := range map[string]func(){
		"encode": func() {
			f.Header.Encode(b)
			n := arctic.PutReject(b, arctic.HeaderSize, arctic.Reject{Reason: arctic.ReasonQueueFull})
			for range 40 {
				f.Packets[0].Header.Encode(p)
				n = arctic.PutPacket(b, n, p)
			}
			arctic.Seal(b, n)
		},
		"parse and walk": func() {
			f, err := arctic.Parse(good)
			if err != nil {
				panic(err)
			}
			h := f.Header()
			f.DecodeHeader(&h)
			sum += uint64(h.Sequence)
			for i := range f.Rejects() {
				sum += f.Reject(i).Bits
			}
			train := f.Train()
			for range f.Packets() {
				var p arctic.Packet
				p, train = arctic.Next(train)
				sum += uint64(p.Header().Type) + uint64(len(p.Payload()))
			}
		},
		"encode a block": func() {
			block.Header.Encode(b)
			n := arctic.PutPacket(b, arctic.HeaderSize,
				goodBlock[arctic.HeaderSize:][:arctic.PacketHeaderSize+arctic.WordSize])
			arctic.Seal(b, arctic.PutBlock(b, n, block.Block))
		},
		"parse a block": func() {
			f, err := arctic.Parse(goodBlock)
			if err != nil {
				panic(err)
			}
			var x arctic.Transfer
			p, _ := arctic.Next(f.Train())
			if !p.Transfer(&x) || len(f.Block()) != len(block.Block) {
				panic("not a block")
			}
		},
		"refuse": func() {
			for i := range bad {
				if _, err := arctic.Parse(bad[i].b); err == nil {
					panic("accepted: " + bad[i].name)
				}
			}
		},
	} {
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, count := range []int{1, 40} {
		b.Run(fmt.Sprintf("packets=%d", count), func(b *testing.B) {
			h := train(0, 0).Header
			p := wirePacket(5)
			buf := make([]byte, 4096)
			b.SetBytes(int64(encodeTrain(buf, &h, p, count)))
			b.ReportAllocs()
			for b.Loop() {
				encodeTrain(buf, &h, p, count)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, count := range []int{1, 40} {
		b.Run(fmt.Sprintf("packets=%d", count), func(b *testing.B) {
			wire := compose(train(count, 5))
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := arctic.Parse(wire); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
