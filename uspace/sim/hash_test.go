package sim

// This file tests what a world's hash tells apart.

import (
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/topology"
)

// Rule: two runs that send the same frames have one hash, and another as soon as a frame has
// another byte, even if all lengths, times and headers are the same.
func TestHashTellsFramesApart(t *testing.T) {
	top, err := topology.Hypercube(8, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	hash := func(word byte) uint64 {
		w := NewWorld(Options{})
		a, err := w.NewArctic(top, ArcticConfig{})
		if err != nil {
			t.Fatal(err)
		}
		p := a.Port(0)
		b := p.Reserve()
		(&arctic.Header{Route: 1}).Encode(b)
		packet := make([]byte, arctic.PacketHeaderSize+arctic.WordSize)
		(&arctic.PacketHeader{Route: 1, Length: 1}).Encode(packet)
		packet[arctic.PacketHeaderSize] = word
		n := arctic.PutPacket(b, arctic.HeaderSize, packet)
		arctic.Seal(b, n)
		p.Commit(n)
		return w.Hash()
	}
	first := hash(1)
	if again := hash(1); again != first {
		t.Errorf("the same frame has the hashes %#x and %#x", first, again)
	}
	if hash(2) == first {
		t.Error("frames with other payloads have one hash")
	}
}
