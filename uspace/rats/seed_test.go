package rats_test

// This file holds the rules of seeds (seed.go; HPL-95-86, sections 2.5 and 3.2).

import (
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/rats"
)

func drawSeed(t *rapid.T) rats.Seed {
	s := rats.Seed{Protocol: rapid.Uint8().Draw(t, "protocol"), Ticket: rats.Ticket{
		Node: rapid.Uint16().Draw(t, "node"), Area: rapid.Uint16().Draw(t, "area"), Key: rapid.Uint64().Draw(t, "key"),
		Offset: rapid.Uint32().Draw(t, "offset"), Count: rapid.Uint32().Draw(t, "count"),
	}}
	s.Size = uint32(rapid.Uint64Range(0, min(1<<32-1, 1<<32-uint64(s.Offset))).Draw(t, "size"))
	return s
}

// Rule: a seed comes back from its bytes and from its text as it was, and one that was changed in a
// bit or cut off is none.
func TestSeedsTravel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawSeed(t)
		b := want.Encode()
		if got, err := rats.DecodeSeed(b[:]); err != nil || got != want {
			t.Fatalf("%+v came back as %+v, %v", want, got, err)
		}
		text := want.String()
		if got, err := rats.ParseSeed(text); err != nil || got != want {
			t.Fatalf("%q came back as %+v, %v", text, got, err)
		}
		b[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got, err := rats.DecodeSeed(b[:]); !errors.Is(err, rats.ErrSeed) {
			t.Fatalf("changed, it is %+v", got)
		}
		n := rapid.IntRange(0, len(text)-1).Draw(t, "cut")
		if got, err := rats.ParseSeed(text[:n]); !errors.Is(err, rats.ErrSeed) {
			t.Fatalf("cut off, it is %+v", got)
		}
	})
	for _, text := range []string{"", "seed", " ", "????????????????????????????????????????????"} {
		if _, err := rats.ParseSeed(text); !errors.Is(err, rats.ErrSeed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzSeed: any bytes are a seed or none, and one encodes to the same bytes.
func FuzzSeed(f *testing.F) {
	s := rats.Seed{Protocol: 1, Ticket: rats.Ticket{Node: 2, Area: 3, Key: 4, Offset: 5, Size: 6, Count: 7}}
	b := s.Encode()
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := rats.DecodeSeed(b)
		if err != nil {
			return
		}
		if got := s.Encode(); string(got[:]) != string(b) {
			t.Fatalf("% x encodes to % x", b, got)
		}
	})
}

// Rule: however a seed is split, again and again, the shares sum up to its share, and the parts are
// its memory. The members' packets may come in any order, and in any number that their messages can
// have. The counter is 0 when the last packet has come and never before (2.5).
func TestSplitShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rats.Seed{Ticket: rats.Ticket{Offset: 100, Size: uint32(rapid.IntRange(1, 2000).Draw(t, "size"))}}
		seeds := []rats.Seed{whole}
		for range rapid.IntRange(0, 30).Draw(t, "splits") {
			i := rapid.IntRange(0, len(seeds)-1).Draw(t, "which")
			n, err := seeds[i].Split(uint32(rapid.IntRange(0, int(seeds[i].Size)+1).Draw(t, "bytes")))
			if err == nil {
				seeds = append(seeds, n)
			} else if !errors.Is(err, rats.ErrSplit) {
				t.Fatal(err)
			}
		}
		var deltas []uint32
		memory := make([]int, whole.Size)
		for _, s := range seeds {
			for i := range s.Size {
				memory[s.Offset-100+i]++
			}
			// A packet has at least a byte, but for the last, and all but the last 64 of data at
			// most.
			packets := rapid.IntRange(1, int(s.Size)/arctic.MaxRemoteBytes+2).Draw(t, "packets")
			left := s.Count
			for range packets - 1 {
				deltas = append(deltas, 1)
				left--
			}
			deltas = append(deltas, left)
		}
		for i, n := range memory {
			if n != 1 {
				t.Fatalf("byte %d is in %d parts", i, n)
			}
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		r.Shuffle(len(deltas), func(i, j int) { deltas[i], deltas[j] = deltas[j], deltas[i] })
		counter := uint32(0)
		for i, d := range deltas {
			if counter += d; (counter == 0) != (i == len(deltas)-1) {
				t.Fatalf("the counter is %#x after %d of %d packets", counter, i+1, len(deltas))
			}
		}
	})
}

// Rule: a part has at least a byte and leaves one, and a share that is too small is not split
// (ErrSplit); then nothing changes.
func TestSplitIsRefused(t *testing.T) {
	for _, c := range []struct{ size, count, bytes uint32 }{{10, 0, 0}, {10, 0, 10}, {10, 0, 11}, {1, 0, 1}, {0, 0, 0},
		{10, 5, 5}, {1000, 19, 500}} {
		s := rats.Seed{Ticket: rats.Ticket{Size: c.size, Count: c.count}}
		was := s
		if n, err := s.Split(c.bytes); !errors.Is(err, rats.ErrSplit) || s != was {
			t.Errorf("%+v: %+v and %+v, %v", c, s, n, err)
		}
	}
	s := rats.Seed{Ticket: rats.Ticket{Size: 10, Count: 6}}
	if n, err := s.Split(5); err != nil || n.Count != 3 || s.Count != 3 || n.Offset != 0 || s.Offset != 5 {
		t.Errorf("%+v and %+v, %v", s, n, err)
	}
}
