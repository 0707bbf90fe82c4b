package arctic_test

// This file holds the properties of encoding and decoding, over all field values.

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: a packet header decodes to what was encoded (doc.go, the packet; thesis
// 5.2.2: three network header words).
func TestPacketHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawPacketHeader(t)
		var b [arctic.PacketHeaderSize]byte
		want.Encode(b[:])
		same(t, "packet header", want, arctic.Packet(b[:]).Header())
	})
}

// Rule: the fields take up all 96 bits of the header words, so any three words
// decode to a header that encodes to the same words (doc.go, the packet).
func TestPacketHeaderHasNoSpareBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), arctic.PacketHeaderSize, arctic.PacketHeaderSize).Draw(t, "words")
		h := arctic.Packet(want).Header()
		got := make([]byte, arctic.PacketHeaderSize)
		h.Encode(got)
		if !bytes.Equal(got, want) {
			t.Fatalf("% x decodes to %+v, which encodes to % x", want, h, got)
		}
	})
}

// Rule: a field above its limit loses its upper bits and touches no other field
// (PacketHeader.Encode).
func TestPacketHeaderKeepsToItsBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		over := arctic.PacketHeader{
			Level:       arctic.Level(rapid.Byte().Draw(t, "level")),
			Kind:        arctic.Kind(rapid.Byte().Draw(t, "kind")),
			Route:       rapid.Uint32().Draw(t, "route"),
			GID:         rapid.Uint16().Draw(t, "gid"),
			Length:      rapid.Byte().Draw(t, "length"),
			Type:        rapid.Uint16().Draw(t, "type"),
			Destination: rapid.Uint16().Draw(t, "destination"),
			Source:      rapid.Uint16().Draw(t, "source"),
		}
		want := over
		want.Level &= 1
		want.Kind &= 7
		want.Route &= arctic.MaxRoute
		want.GID &= arctic.MaxGID
		want.Length &= 31
		want.Type &= arctic.MaxType
		var b [arctic.PacketHeaderSize]byte
		over.Encode(b[:])
		same(t, "packet header", want, arctic.Packet(b[:]).Header())
	})
}

// Rule: what the encoders write, Parse accepts, and every accessor gives back
// what was written (doc.go, the frame). Ethernet's padding, whatever its bytes,
// is neither part of the frame nor a reason to refuse it (doc.go, length).
func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawFrame(t)
		wire := compose(want)
		padding := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "padding")
		f, err := arctic.Parse(append(bytes.Clone(wire), padding...))
		if err != nil {
			t.Fatalf("Parse refused what was encoded: %v\n% x", err, wire)
		}
		if !bytes.Equal(f, wire) {
			t.Fatalf("Parse returned % x, want the frame without its padding % x", []byte(f), wire)
		}
		same(t, "frame", want, takeApart(f))
	})
}

// Rule: encoding writes every byte of the header and of rejects, so a buffer need
// not be cleared between frames (Header.Encode, PutReject, Seal).
func TestEncodeOverwritesUsedBuffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFrame(t)
		f.Packets, f.Block = nil, nil
		want := compose(f)
		used := rapid.SliceOfN(rapid.Byte(), len(want), len(want)).Draw(t, "used buffer")
		f.Header.Encode(used)
		n := arctic.HeaderSize
		if f.Header.Hello {
			n = arctic.PutGreeting(used, &f.Greeting)
			_, _, mac := arctic.GreetingMAC(used)
			copy(mac, f.MAC[:])
		}
		for _, r := range f.Rejects {
			n = arctic.PutReject(used, n, r)
		}
		arctic.Seal(used, n)
		if !bytes.Equal(used, want) {
			t.Fatalf("in a used buffer % x, in a fresh one % x", used, want)
		}
	})
}

// Rule: words travel little-endian, four bytes each, and come back as they were
// (doc.go); bytes behind them are left alone (PutWords, Words).
func TestWordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Uint32(), 0, arctic.MaxPayloadWords).Draw(t, "words")
		b := bytes.Repeat([]byte{0xee}, len(want)*arctic.WordSize+1)
		arctic.PutWords(b, want)
		for i, w := range want {
			if got := b[i*4 : i*4+4]; !bytes.Equal(got, []byte{byte(w), byte(w >> 8), byte(w >> 16), byte(w >> 24)}) {
				t.Fatalf("word %d, %#x, is on the wire as % x", i, w, got)
			}
		}
		if b[len(b)-1] != 0xee {
			t.Fatal("PutWords wrote behind the last word")
		}
		got := make([]uint32, len(want))
		arctic.Words(got, b)
		same(t, "words", want, got)
	})
}

// Rule: SetBye gives the frame that Header.Bye would have given (SetBye; doc.go,
// flags), whether or not it said so before.
func TestSetBye(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFrame(t)
		f.Header.Defer = false
		got := compose(f)
		arctic.SetBye(got)
		arctic.Seal(got, len(got))
		f.Header.Bye = true
		if want := compose(f); !bytes.Equal(got, want) {
			t.Fatalf("SetBye gives % x, the header's Bye % x", got, want)
		}
	})
}

// Rule: SetDefer gives the frame that Header.Defer would have given, and only such frames may be
// deferred; what Defer makes of one is a frame again, no longer than before, and may not be
// deferred (doc.go, defer).
func TestDefer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFrame(t)
		b := compose(f)
		may := arctic.Frame(b).MayDefer()
		if want := f.Header.Defer && len(f.Packets) > 0; may != want {
			t.Fatalf("a frame with %d packets and defer %t: MayDefer is %t", len(f.Packets), f.Header.Defer, may)
		}
		if !may {
			return
		}
		f.Header.Defer = false
		same := compose(f)
		arctic.SetDefer(same)
		if arctic.Seal(same, len(same)); !bytes.Equal(same, b) {
			t.Fatalf("SetDefer gives % x, the header's Defer % x", same, b)
		}
		n := arctic.Defer(b)
		got := mustParseRapid(t, b[:n])
		want := arctic.Header{To: f.Header.From, From: f.Header.To, Level: f.Header.Level, Defer: true,
			GID: f.Header.GID, Route: uint32(f.Header.SourceCard), SourceCard: f.Header.DestinationCard,
			DestinationCard: f.Header.SourceCard, Epoch: f.Header.Epoch, Sequence: f.Header.Sequence}
		if h := got.Header(); h != want || got.MayDefer() || n > len(same) {
			t.Fatalf("the deferral of %d bytes is %+v, want %+v", n, h, want)
		}
	})
}
