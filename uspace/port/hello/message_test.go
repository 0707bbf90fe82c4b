package hello

// This file tests the bytes of a hello.

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func drawMessage(t *rapid.T) Message {
	name := rapid.StringMatching(`[!-~]{0,32}`)
	return Message{Kind: Kind(rapid.IntRange(1, 4).Draw(t, "kind")), Way: rapid.Uint8Range(0, 15).Draw(t, "way"),
		To:    rapid.Uint16().Draw(t, "to"),
		Nonce: rapid.Uint64().Draw(t, "nonce"), Queue: rapid.Uint16().Draw(t, "queue"),
		Arrived: rapid.Uint16().Draw(t, "arrived"),
		Time:    rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, "time"),
		Said: Said{Card: rapid.Uint16().Draw(t, "card"), Incarnation: rapid.Uint32().Draw(t, "incarnation"),
			IsCard:    rapid.Bool().Draw(t, "card?"),
			Discovers: rapid.Bool().Draw(t, "discovers"), FrameSize: rapid.Uint16().Draw(t, "frame"),
			Frames: rapid.Uint8().Draw(t, "frames"),
			Encap:  rapid.Uint8().Draw(t, "encap"), Cluster: name.Draw(t, "cluster"), Host: name.Draw(t, "host")}}
}

// Rule: what is composed is read again as it was, also with padding behind.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		from := [6]byte{2, 3, 4, 5, 6, 7}
		b := make([]byte, 300)
		n := m.Put(b, broadcast, from)
		got, who, err := Parse(b[:rapid.IntRange(n, len(b)).Draw(t, "length")])
		if err != nil || who != from {
			t.Fatal(err, who)
		}
		if d := cmp.Diff(m, got); d != "" {
			t.Fatal(d)
		}
	})
}

// Rule: a hello with one flipped bit is none, wherever the bit is behind the addresses.
func TestDamagedMessages(t *testing.T) {
	m := Message{Kind: Question, Said: Said{Card: 3, Cluster: "c", Host: "h"}, Time: 7}
	good := make([]byte, Longest)
	m.Put(good, broadcast, [6]byte{2})
	for bit := 12 * 8; bit < Longest*8; bit++ {
		b := append([]byte{}, good...)
		b[bit/8] ^= 1 << (bit % 8)
		if _, _, err := Parse(b); err == nil {
			t.Errorf("bit %d of byte %d is not missed", bit%8, bit/8)
		}
	}
	for n := range Longest {
		if _, _, err := Parse(good[:n]); err == nil {
			t.Errorf("%d bytes are a hello", n)
		}
	}
}

// Rule: what a later version adds behind is skipped.
func TestLongerMessages(t *testing.T) {
	b := make([]byte, Size+40)
	m := Message{Kind: Announcement, Said: Said{Card: 3, Host: "h"}}
	m.Put(b, broadcast, [6]byte{2})
	for i := Size; i < len(b); i++ {
		b[i] = byte(i)
	}
	binary.LittleEndian.PutUint16(b[lengthAt:], uint16(len(b)-before))
	binary.LittleEndian.PutUint32(b[crcAt:], sum(b))
	got, _, err := Parse(b)
	if err != nil || !cmp.Equal(got, m) {
		t.Fatal(got, err)
	}
}

// Rule: a hello that says that it tells a time, and is too short for one, tells none.
func TestTimeThatIsMissing(t *testing.T) {
	b := make([]byte, Size)
	(&Message{Kind: Announcement, Said: Said{Card: 3}}).Put(b, broadcast, [6]byte{2})
	b[flagsAt] |= timeFlag
	binary.LittleEndian.PutUint32(b[crcAt:], sum(b))
	if got, _, err := Parse(append(b, 1, 2, 3, 4, 5, 6, 7, 8)); err != nil || got.Time != 0 {
		t.Fatal(got, err)
	}
}

// Rule: names that come from elsewhere have nothing that a terminal or a log would obey.
func TestNames(t *testing.T) {
	b := make([]byte, Size)
	m := Message{Kind: Question, Said: Said{Host: "a\x1b[2J\nb\u202e", Cluster: strings.Repeat("x", 40)}}
	m.Put(b, broadcast, [6]byte{2})
	got, _, err := Parse(b)
	if err != nil || got.Host != "a?[2J?b?" || got.Cluster != strings.Repeat("x", MaxName) {
		t.Fatalf("%+v, %v", got, err)
	}
}

// Any bytes are a hello or none; what is one is composed to the same bytes, but for what is not
// read.
func FuzzParse(f *testing.F) {
	b := make([]byte, Size)
	(&Message{Kind: Answer, Said: Said{Card: 7, Cluster: "c", Host: "h", IsCard: true}}).Put(b, broadcast, [6]byte{2})
	f.Add(b, true)
	f.Add(b[:80], false)
	b = make([]byte, Longest)
	(&Message{Kind: Announcement, Said: Said{Card: 7, IsCard: true}, Time: 1 << 40}).Put(b, broadcast, [6]byte{2})
	f.Add(b, true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal && len(b) >= Size {
			n := before + int(binary.LittleEndian.Uint16(b[lengthAt:]))
			if n < Size || n > len(b) {
				n = Size
			}
			binary.LittleEndian.PutUint32(b[crcAt:], sum(b[:n]))
		}
		m, from, err := Parse(b)
		if err != nil {
			return
		}
		again := make([]byte, Longest)
		if got, _, err := Parse(again[:m.Put(again, broadcast, from)]); err != nil || !cmp.Equal(got, m) {
			t.Fatalf("%+v became %+v, %v", m, got, err)
		}
	})
}
