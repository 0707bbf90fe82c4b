package arctic_test

// This file compares what is predicted of frames with what Parse says of them.

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// numbered is a frame with one packet and the given numbers, of a series that the other arguments
// say.
func numbered(h arctic.Header, words []uint32, kind arctic.Kind) []byte {
	b := make([]byte, 1514)
	h.Encode(b)
	p := make([]byte, arctic.MaxPacketSize)
	wire := arctic.PacketHeader{Level: h.Level, Kind: kind, Route: h.Route, GID: h.GID, Length: uint8(len(words)),
		Type: 5, Destination: 7, Source: 8}
	wire.Encode(p)
	arctic.PutWords(p[arctic.PacketHeaderSize:], words)
	n := arctic.PutPacket(b, arctic.HeaderSize, p[:arctic.PacketHeaderSize+len(words)*arctic.WordSize])
	arctic.Seal(b, n)
	return b[:n]
}

func anyHeader(t *rapid.T) arctic.Header {
	h := arctic.Header{To: [6]byte{2, 1}, From: [6]byte{2, 2}, SourceCard: 3, DestinationCard: 4, GID: 5, Route: 4,
		Epoch: 77, Tag: 99,
		Level: rapid.SampledFrom(arctic.ByPriority[:]).Draw(t, "level")}
	someNumbers(t, &h)
	return h
}

func someNumbers(t *rapid.T, h *arctic.Header) {
	h.Sequence, h.Age = rapid.Uint32().Draw(t, "sequence"), rapid.Uint16().Draw(t, "age")
	for l := range h.Acks {
		h.Acks[l], h.Selective[l] = rapid.Uint32().Draw(t, "ack"), rapid.Uint64().Draw(t, "selective")
	}
}

// Rule: a template writes the same as Encode of the same header, whatever its numbers.
func TestTemplate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := anyHeader(t)
		var made arctic.Template
		made.Set(&h)
		someNumbers(t, &h)
		got, want := make([]byte, arctic.HeaderSize), make([]byte, arctic.HeaderSize)
		for i := range got {
			got[i] = byte(i) // of an earlier frame
		}
		made.Put(got, &h)
		h.Encode(want)
		if string(got) != string(want) {
			t.Fatalf("got  %x\nwant %x", got, want)
		}
	})
}

// Rule: a frame that matches is one that Parse accepts, with one packet and nothing else, and has
// the header of Parse's frame. One that differs from the expected one in its numbers and its
// payload only does match; one that differs in anything else, or is damaged, does not.
func TestPrediction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := anyHeader(t)
		words := rapid.SliceOfN(rapid.Uint32(), 1, arctic.MaxPayloadWords).Draw(t, "words")
		expected := numbered(h, words, arctic.KindMessage)
		f, err := arctic.Parse(expected)
		if err != nil {
			t.Fatal(err)
		}
		var x arctic.Prediction
		if x.Match(expected) != nil {
			t.Fatal("a frame matches where none is expected")
		}
		x.Expect(f, &h)
		someNumbers(t, &h)
		for i := range words {
			words[i] = rapid.Uint32().Draw(t, "word")
		}
		next := numbered(h, words, arctic.KindMessage)
		padded := append(next[:len(next):len(next)], make([]byte, rapid.IntRange(0, 20).Draw(t, "padding"))...)
		m := x.Match(padded)
		if string(m) != string(next) {
			t.Fatal("the next frame of the series does not match")
		}
		if got := x.Header; got != h {
			t.Fatalf("header %+v, want %+v", got, h)
		}
		parsed, err := arctic.Parse(padded)
		if err != nil || parsed.Header() != h || arctic.Packet(parsed.Train()).Header() != x.First {
			t.Fatalf("Parse says %v of a frame that matches", err)
		}
		// Whatever is changed in it, and however well: what matches is the same series.
		forged := append([]byte{}, next...)
		at := rapid.IntRange(0, len(forged)-1).Draw(t, "at")
		forged[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if x.Match(forged) != nil {
			t.Fatalf("a frame with a bit of byte %d changed matches", at)
		}
		arctic.Seal(forged, len(forged))
		numbers := at >= 30 && at < 32 || at >= 40 && at < 68 || at >= arctic.HeaderSize+arctic.PacketHeaderSize
		// those of length and checksum are as they were again
		if at != 16 && at != 17 && at < 76 || at >= 80 {
			if got := x.Match(forged) != nil; got != numbers {
				t.Fatalf("byte %d was changed: matches %v, want %v", at, got, numbers)
			}
		}
		if cut := next[:rapid.IntRange(0, len(next)-1).Draw(t, "cut")]; x.Match(cut) != nil {
			t.Fatal("a frame that is cut short matches")
		}
	})
}

// Rule: no successor is expected of a frame with anything but one packet: with rejects, a block,
// several packets or none, or of a goodbye.
func TestUnpredictable(t *testing.T) {
	h := arctic.Header{GID: 5, Route: 4, Epoch: 77, Tag: 99}
	plain := numbered(h, []uint32{1, 2}, arctic.KindMessage)
	packet := plain[arctic.HeaderSize:]
	for name, make := range map[string]func(b []byte) int{
		"reject": func(b []byte) int {
			return arctic.PutPacket(b, arctic.PutReject(b, arctic.HeaderSize,
				arctic.Reject{Reason: arctic.ReasonQueueFull, Bits: 1}), packet)
		},
		"two packets": func(b []byte) int {
			return arctic.PutPacket(b, arctic.PutPacket(b, arctic.HeaderSize, packet), packet)
		},
		"none": func(b []byte) int {
			none := h
			none.Tag = 0
			none.Encode(b)
			return arctic.HeaderSize
		},
		"goodbye": func(b []byte) int { arctic.SetBye(b); return arctic.PutPacket(b, arctic.HeaderSize, packet) },
	} {
		b := append([]byte{}, plain...)
		b = append(b, b...)
		h.Encode(b)
		n := make(b)
		arctic.Seal(b, n)
		f, err := arctic.Parse(b[:n])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var x arctic.Prediction
		first, _ := arctic.Parse(plain)
		x.Expect(first, &h)
		header := f.Header()
		x.Expect(f, &header)
		if x.Match(b[:n]) != nil || x.Match(plain) != nil {
			t.Errorf("after a frame with %s one matches", name)
		}
	}
}
