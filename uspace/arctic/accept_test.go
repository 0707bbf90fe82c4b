package arctic_test

// This file holds what Parse must accept: the limits from inside.

import (
	"bytes"
	"testing"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: a frame carries 0 to 64 packets of 0 to 21 words (doc.go; thesis 3.2.2),
// and the train walks to its end in their order.
func TestParseAcceptsTrains(t *testing.T) {
	for _, count := range []int{0, 1, 2, 63, arctic.MaxTrain} {
		for words := 0; words <= arctic.MaxPayloadWords; words++ {
			want := train(count, words)
			f := mustParse(t, compose(want))
			if f.Packets() != count || f.Rejects() != 0 {
				t.Fatalf("%d packets and %d rejects, want %d and 0", f.Packets(), f.Rejects(), count)
			}
			same(t, "frame", want, takeApart(f))
		}
	}
}

// Rule: packets of one train may differ in kind and type, and a kind that nobody
// knows is the card's to answer, not the format's to refuse (doc.go, K2:K0).
func TestParseAcceptsEveryKind(t *testing.T) {
	want := train(arctic.Kinds, 1)
	for i := range want.Packets {
		want.Packets[i].Header.Kind = arctic.Kind(i)
		want.Packets[i].Header.Type = arctic.MaxType - uint16(i)
	}
	same(t, "frame", want, takeApart(mustParse(t, compose(want))))
}

// Rule: a frame carries 0 to 32 rejects, with reasons 1 to 127 and either level,
// with packets and without (doc.go, the frame and the reject).
func TestParseAcceptsRejects(t *testing.T) {
	for _, count := range []int{0, 1, 31, arctic.MaxRejects} {
		for _, packets := range []int{0, 1, arctic.MaxTrain} {
			want := train(packets, 21)
			for i := range count {
				want.Rejects = append(want.Rejects, arctic.Reject{
					Sequence: uint32(i) - 1, Level: arctic.Level(i % 2), Reason: arctic.Reason(1 + i*126/31),
					Bits: ^uint64(0) >> i,
				})
			}
			same(t, "frame", want, takeApart(mustParse(t, compose(want))))
		}
	}
}

// Rule: the fullest frame without a train of several packets fits MinMTU exactly (MinMTU).
func TestFullestSinglePacketFitsMinMTU(t *testing.T) {
	f := train(1, arctic.MaxPayloadWords)
	for range arctic.MaxRejects {
		f.Rejects = append(f.Rejects, arctic.Reject{Reason: arctic.ReasonNoContext})
	}
	b := compose(f)
	mustParse(t, b)
	if got := len(b) - arctic.EthernetSize; got != arctic.MinMTU {
		t.Fatalf("Ethernet payload of %d bytes, MinMTU is %d", got, arctic.MinMTU)
	}
}

// Rule: hello and bye frames of either level may carry no packets and are frames (doc.go, flags).
func TestParseAcceptsFlags(t *testing.T) {
	for bits := range 8 {
		want := frame{Header: arctic.Header{Level: arctic.Level(bits & 1), Hello: bits&2 != 0, Bye: bits&4 != 0,
			Sequence: 1 << 31}}
		if want.Header.Hello {
			want.Greeting = arctic.Greeting{Nonce: 1, Incarnation: 1}
		}
		same(t, "frame", want, takeApart(mustParse(t, compose(want))))
	}
}

// Rule: what follows the frame is Ethernet's padding, of any length and content
// (doc.go, length): a frame that ends exactly there is accepted too.
func TestParseAcceptsPadding(t *testing.T) {
	for _, f := range []frame{{}, train(1, 0), train(64, 21)} {
		b := compose(f)
		for _, n := range []int{0, 1, 4, 46, 2000} {
			for _, fill := range []byte{0, 0xff} {
				got := mustParse(t, append(bytes.Clone(b), bytes.Repeat([]byte{fill}, n)...))
				if !bytes.Equal(got, b) {
					t.Fatalf("%d bytes of padding %#x: Parse returned %d bytes, want the frame's %d", n, fill,
						len(got), len(b))
				}
			}
		}
	}
}

// Rule: a packet that Next returns cannot be grown into the one behind it (Next:
// the packet is split off).
func TestNextBoundsThePacket(t *testing.T) {
	f := mustParse(t, golden())
	p, _ := arctic.Next(f.Train())
	if len(p) != arctic.PacketHeaderSize || cap(p) != len(p) {
		t.Fatalf("first packet has length %d and capacity %d, want %d for both", len(p), cap(p),
			arctic.PacketHeaderSize)
	}
}

// Rule: reasons below 64 are transient, the others permanent; each known one has
// words of its own (reason.go).
func TestReasons(t *testing.T) {
	seen := map[string]arctic.Reason{}
	for i := range 256 {
		r := arctic.Reason(i)
		if r.Permanent() != (i >= 64) {
			t.Errorf("reason %d: Permanent is %v", i, r.Permanent())
		}
		if other, ok := seen[r.String()]; ok {
			t.Errorf("reasons %d and %d are both called %q", other, r, r)
		}
		seen[r.String()] = r
	}
}

// Rule: a level is called what thesis 2.10 calls it (Level).
func TestLevelNames(t *testing.T) {
	if arctic.Request.String() != "request" || arctic.Reply.String() != "reply" {
		t.Fatalf("levels are called %q and %q", arctic.Request, arctic.Reply)
	}
}

// Rule: the numbers of the kinds are on the wire and never change (Kind).
func TestKindNumbers(t *testing.T) {
	for i, k := range []arctic.Kind{
		arctic.KindMessage, arctic.KindTransfer, arctic.KindRemote, arctic.KindResponse,
		arctic.KindSend, arctic.KindMulticast, arctic.KindForward, arctic.KindExtended,
	} {
		if int(k) != i {
			t.Errorf("kind %d of the list has number %d", i, k)
		}
	}
}
