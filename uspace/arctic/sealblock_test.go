package arctic_test

// This file compares SealBlock with PutBlock and Seal.

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: a block that is copied and summed at once makes the frame that PutBlock and Seal make,
// which Parse accepts, and touches nothing behind it.
func TestSealBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := make([]byte, arctic.TransferAlign*rapid.IntRange(1,
			arctic.MaxBlock(arctic.MaxFrame)/arctic.TransferAlign).Draw(t, "units"))
		seed := rapid.Uint32().Draw(t, "seed")
		for i := range data {
			seed = seed*1664525 + 1013904223
			data[i] = byte(seed >> 24)
		}
		fresh := bytes.Repeat([]byte{0x5a}, arctic.MaxFrame+100)
		h := arctic.Header{To: [6]byte{1}, From: [6]byte{2}, GID: 7, Sequence: seed, Tag: 9}
		h.Encode(fresh)
		n := arctic.HeaderSize
		var packet [arctic.MaxPacketSize]byte
		words := arctic.PutTransfer(packet[arctic.PacketHeaderSize:],
			&arctic.Transfer{Form: arctic.Block, Address: 0x1000})
		p := arctic.PacketHeader{GID: 7, Kind: arctic.KindTransfer, Length: uint8(words)}
		p.Encode(packet[:])
		n = arctic.PutPacket(fresh, n, packet[:arctic.PacketHeaderSize+words*arctic.WordSize])

		want := bytes.Clone(fresh)
		end := arctic.PutBlock(want, n, data)
		arctic.Seal(want, end)
		if got := arctic.SealBlock(fresh, n, data); got != end || !bytes.Equal(fresh, want) {
			t.Fatalf("a frame of %d bytes, want %d, or other bytes", got, end)
		}
		if f, err := arctic.Parse(fresh[:end]); err != nil || !bytes.Equal(f.Block(), data) {
			t.Fatalf("%v", err)
		}
	})
}
