package funi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Rule: the card reads of a block what the process has composed (multicast.go).
func TestChainBlockRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := funi.Chain{Number: rapid.Uint16Range(0, funi.MaxChains-1).Draw(t, "number"),
			First: rapid.Bool().Draw(t, "first")}
		if !want.First {
			want.Parent = rapid.Uint16().Draw(t, "parent")
		}
		for _, node := range rapid.SliceOfNDistinct(rapid.Uint16(), 0, funi.MaxNext, rapid.ID[uint16]).Draw(t, "next") {
			want.Next = append(want.Next, funi.Next{Node: node,
				Members: rapid.Uint16Range(1, 16000).Draw(t, "members")})
		}
		s := stale()
		s.SetChain(&want, 5)
		var got funi.Chain
		var next [funi.MaxNext]funi.Next
		leaves, ok := funi.ReadChain(&s, &next, &got)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); !ok || leaves || diff != "" ||
			s.Header().Operation() != funi.SetChain || s[funi.RemoteCookieWord] != 5 {
			t.Fatalf("accepted %v, leaves %v: %s", ok, leaves, diff)
		}
		s.SetLeaveChain(want.Number, 6)
		if leaves, ok := funi.ReadChain(&s, &next, &got); !ok || !leaves || got.Number != want.Number {
			t.Fatalf("leaves %v, %v, %+v", leaves, ok, got)
		}
	})
}

// Rule: the same of a multicast, whose data stands behind it.
func TestMulticastBlockRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := funi.MulticastRequest{Chain: rapid.Uint16Range(0, funi.MaxChains-1).Draw(t, "chain"),
			Members: rapid.Uint16Range(1, arctic.MaxMembers).Draw(t, "members"),
			Cookie:  rapid.Uint32().Draw(t, "cookie"), Put: rapid.Bool().Draw(t, "put")}
		n := 0
		if want.Put {
			want.Key, want.Address = rapid.Uint64().Draw(t, "key"),
				rapid.Uint64Range(0, arctic.MaxAddress).Draw(t, "address")
			n = rapid.IntRange(0, arctic.MaxMulticastBytes).Draw(t, "bytes")
		} else {
			want.Message = rapid.Uint16Range(0, arctic.MaxMessageType).Draw(t, "type")
			n = rapid.IntRange(0, arctic.MaxMulticastWords).Draw(t, "words") * arctic.WordSize
		}
		want.Data = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data")
		if !want.Valid() {
			t.Fatalf("not valid: %+v", want)
		}
		s := stale()
		s.SetMulticast(9, &want)
		var got funi.MulticastRequest
		size, ok := funi.ReadMulticast(&s, &got)
		var data [arctic.MaxMulticastWords * arctic.WordSize]byte
		arctic.PutWords(data[:], s[funi.RemoteDataWord:funi.RemoteDataWord+arctic.MaxMulticastWords])
		got.Data = data[:size]
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); !ok || diff != "" || s.Header().Node() != 9 ||
			s.Header().Operation() != funi.Multicast {
			t.Fatalf("accepted %v: %s", ok, diff)
		}
	})
}

// Rule: what a completion says of a multicast is what the card has put there.
func TestDeliveryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := funi.Delivery{Delivered: rapid.IntRange(0, arctic.MaxMembers).Draw(t, "delivered"),
			Failed: rapid.IntRange(0, arctic.MaxMembers).Draw(t, "failed"),
			Named:  rapid.IntRange(0, arctic.MaxMembers).Draw(t, "named")}
		for i := range min(want.Named, funi.MaxNamed) {
			want.Broken[i] = funi.Broken{Node: rapid.Uint16().Draw(t, "node"),
				Reason: arctic.Reason(rapid.Uint8().Draw(t, "reason"))}
		}
		var n funi.Notification
		want.Put(&n.Answer)
		if got := n.Delivery(); got != want {
			t.Fatalf("%+v became %+v", want, got)
		}
	})
}

// Rule: whatever a process writes into a block, the card reads no chain or multicast that SetChain
// and SetMulticast could not have composed.
func FuzzChainBlocks(f *testing.F) {
	f.Add(uint32(3|2<<16), uint32(7), uint32(1|1<<16), uint32(2|1<<16), uint32(0), uint32(0))
	f.Add(uint32(1<<31|5), uint32(3), uint32(9), uint32(40), uint32(0), uint32(0))
	f.Fuzz(func(t *testing.T, area, count, a, b, c, d uint32) {
		var s funi.Slot
		s[funi.RemoteAreaWord], s[funi.RemoteCountWord] = area, count
		s[funi.RemoteDataWord], s[funi.RemoteDataWord+1], s[funi.RemoteDataWord+2],
			s[funi.RemoteDataWord+3] = a, b, c, d
		var chain funi.Chain
		var next [funi.MaxNext]funi.Next
		if leaves, ok := funi.ReadChain(&s, &next, &chain); ok && !leaves {
			var again funi.Slot
			again.SetChain(&chain, 0)
			if again[funi.RemoteAreaWord] != area || again[funi.RemoteCountWord] != count {
				t.Fatalf("%#x %#x read as %+v", area, count, chain)
			}
		}
		s[3], s[funi.RemoteKeyWord], s[funi.RemoteOffsetWord], s[funi.RemoteLengthWord] = a, b, c, d
		var m funi.MulticastRequest
		if size, ok := funi.ReadMulticast(&s, &m); ok {
			if m.Data = make([]byte, size); !m.Valid() {
				t.Fatalf("read %+v", m)
			}
		}
	})
}

// stale returns a slot that says something else.
func stale() (s funi.Slot) {
	for i := range s {
		s[i] = 0xdeadbeef
	}
	return s
}
