package layers_test

// This file holds the rules of frames with a block, in the layer.

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/gopacket"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/arctic/layers"
)

// sampleBlock is a layer with a block that composes to a good frame with fix.
func sampleBlock() *layers.FUNet {
	payload := make([]byte, arctic.MaxPayloadWords*arctic.WordSize)
	words := arctic.PutTransfer(payload, &arctic.Transfer{Form: arctic.Block, Address: 0x1000})
	f := sample()
	f.Packets = []layers.Packet{{
		PacketHeader: arctic.PacketHeader{Kind: arctic.KindTransfer, GID: 7, Destination: 3, Source: 2},
		Payload:      payload[:words*arctic.WordSize],
	}}
	f.Block = bytes.Repeat([]byte("four"), 8)
	return f
}

// Rule: what the layer composes is a frame with a block for Parse, and its length counts
// the block (doc.go; FixLengths).
func TestSerializeBlock(t *testing.T) {
	want := sampleBlock()
	b := write(t, want, fix)
	f, err := arctic.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(f) != len(b) || !bytes.Equal(f.Block(), want.Block) || int(want.Length) != len(b)-arctic.EthernetSize {
		t.Fatalf("block % x of a frame of %d bytes, length %d; want % x and %d", f.Block(), len(f), want.Length,
			want.Block, len(b))
	}
}

// Rule: an encrypted frame keeps its flags, also that it has a block, whose bytes are ciphertext.
func TestEncryptedBlock(t *testing.T) {
	for _, block := range [][]byte{nil, {}} {
		f := sample()
		f.Sealed, f.Packets, f.Rejects, f.Block = true, nil, nil, block
		f.MAC, f.Ciphertext = make([]byte, 16), []byte("ciphertext of it")
		b := write(t, f, fix)
		var got layers.FUNet
		if err := got.DecodeFromBytes(b[arctic.EthernetSize:], gopacket.NilDecodeFeedback); err != nil {
			t.Fatal(err)
		}
		if (got.Block == nil) != (block == nil) || !bytes.Equal(got.Ciphertext, f.Ciphertext) {
			t.Errorf("%+v of %+v", got, f)
		}
		if again := write(t, &got, fix); !bytes.Equal(again, b) {
			t.Errorf("composed again: % x, want % x", again, b)
		}
	}
}

// Rule: a tool can compose what a card refuses, and the layer refuses it as Parse does (doc.go).
func TestBlockRefusedAsByParse(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(f *layers.FUNet)
		want   error
	}{
		{"nothing", func(*layers.FUNet) {}, nil},
		{"no packet", func(f *layers.FUNet) { f.Packets = nil }, arctic.ErrBlock},
		{"two packets", func(f *layers.FUNet) { f.Packets = append(f.Packets, f.Packets[0]) }, arctic.ErrBlock},
		{"a message", func(f *layers.FUNet) { f.Packets[0].Kind = arctic.KindMessage }, arctic.ErrBlock},
		{"another form", func(f *layers.FUNet) { f.Packets[0].Payload[0] = 1 }, arctic.ErrBlock},
		{"two words", func(f *layers.FUNet) { f.Packets[0].Payload = make([]byte, 8) }, arctic.ErrBlock},
		{"empty", func(f *layers.FUNet) { f.Block = []byte{} }, arctic.ErrLength},
		{"not a multiple of 16", func(f *layers.FUNet) { f.Block = f.Block[:20] }, arctic.ErrLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sampleBlock()
			c.damage(f)
			b := write(t, f, fix)
			_, parsed := arctic.Parse(b)
			var again layers.FUNet
			decoded := again.DecodeFromBytes(b[arctic.EthernetSize:], gopacket.NilDecodeFeedback)
			if !errors.Is(parsed, c.want) || !errors.Is(decoded, c.want) {
				t.Fatalf("Parse: %v; layer: %v; want %v", parsed, decoded, c.want)
			}
		})
	}
}

// Rule: one value decodes frame after frame: the block of one is not that of the next,
// and nothing is allocated (gopacket.DecodingLayer).
func TestDecodeBlockAgain(t *testing.T) {
	block, plain := write(t, sampleBlock(), fix)[arctic.EthernetSize:], write(t, sample(), fix)[arctic.EthernetSize:]
	var f layers.FUNet
	if n := testing.AllocsPerRun(100, func() {
		for _, b := range [][]byte{block, plain} {
			if err := f.DecodeFromBytes(b, gopacket.NilDecodeFeedback); err != nil {
				t.Fatal(err)
			}
		}
		if f.Block != nil {
			t.Fatal("the block of another frame")
		}
	}); n != 0 {
		t.Errorf("%v allocations for two frames, want 0", n)
	}
}
