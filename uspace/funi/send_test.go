package funi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Rule: the card reads of a block what the process has composed (send.go).
func TestSendBlockRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := funi.SendRequest{UserTag: rapid.Uint64().Draw(t, "user tag"), APITag: rapid.Uint32().Draw(t, "API tag"),
			Cookie: rapid.Uint32().Draw(t, "cookie"), Ack: rapid.Bool().Draw(t, "ack")}
		want.Silent = want.Ack && rapid.Bool().Draw(t, "silent")
		var data []byte
		if rapid.Bool().Draw(t, "in memory") {
			want.Source = rapid.Uint32Min(1).Draw(t, "source")
			want.Length = rapid.IntRange(0, arctic.MaxSendBytes).Draw(t, "length")
		} else {
			data = rapid.SliceOfN(rapid.Byte(), 0, arctic.MaxFastSend).Draw(t, "data")
			want.Data = data
		}
		if !want.Valid() {
			t.Fatalf("not valid: %+v", want)
		}
		s := stale()
		s.SetSend(9, &want)
		var got funi.SendRequest
		ok := funi.ReadSend(&s, &got)
		if want.Source == 0 {
			want.Data, want.Length = nil, len(data)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); !ok || diff != "" || s.Header().Node() != 9 ||
			s.Header().Operation() != funi.Send || !s.Header().Remote() {
			t.Fatalf("accepted %v: %s", ok, diff)
		}
		var b [arctic.MaxFastSend]byte
		arctic.PutWords(b[:], s[funi.RemoteDataWord:funi.RemoteDataWord+arctic.MaxFastSend/arctic.WordSize])
		if string(b[:len(data)]) != string(data) {
			t.Fatalf("the slot has %v of %v", b, data)
		}
	})
}

// Rule: a block of OpenReceive is read as it was composed, and refused if no card could take it
// (Receive.Valid).
func TestReceiveBlock(t *testing.T) {
	for _, want := range []funi.Receive{{Credit: 1}, {Mode: funi.ReceiveRing, Base: 64, Bytes: 64, Credit: 9},
		{Mode: funi.ReceiveRing, Base: 8, Bytes: funi.MaxReceiveRing, Credit: 9},
		{Mode: funi.ReceivePosted, Base: 16, Bytes: 16, Credit: 1},
		{Mode: funi.ReceivePosted, Base: 16, Bytes: funi.MaxPosted * funi.PostedBytes, Credit: 1 << 20}} {
		s := stale()
		s.SetOpenReceive(&want, 5)
		var got funi.Receive
		if ok := funi.ReadReceive(&s, &got); !ok || got != want || s.Header().Operation() != funi.OpenReceive {
			t.Errorf("%+v was read as %+v, %v", want, got, ok)
		}
		bend := s
		bend[funi.RemoteCountWord] = 0
		if funi.ReadReceive(&bend, &got) {
			t.Errorf("no credit: %+v", got)
		}
	}
}

// Rule: whatever the order in which messages of a ring are done, room is given back in the order of
// the ring, each unit once, and all of it in the end (RingReader).
func TestRingReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const units = 64
		r := funi.NewRingReader(units * funi.ReceiveUnit)
		write, read := 0, 0 // of the card
		var open []funi.Message
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			n := rapid.IntRange(1, units/2).Draw(t, "units")
			at, skipped := write%units, 0
			if at+n > units {
				skipped = units - at
			}
			if skipped+n <= units-1-(write-read) && rapid.Bool().Draw(t, "arrives") {
				m := funi.Message{First: uint32(at), Offset: uint32((at + skipped) % units),
					Next: uint32((write + skipped + n) % units)}
				open = append(open, m)
				write += skipped + n
				continue
			}
			if len(open) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "done")
			m := open[i]
			open = append(open[:i], open[i+1:]...)
			read += int(r.Done(&m))
			oldest := write
			for _, o := range open { // what is not done keeps its room
				oldest = min(oldest, read+int((o.First-uint32(read))%units))
			}
			if read != oldest {
				t.Fatalf("up to %d is given back, and what is not done begins at %d", read, oldest)
			}
		}
		for len(open) > 0 {
			read += int(r.Done(&open[len(open)-1]))
			open = open[:len(open)-1]
		}
		if read != write {
			t.Fatalf("%d units of %d are given back", read, write)
		}
	})
}
