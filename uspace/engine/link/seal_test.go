package link

// This file holds the rules of sealing and opening.

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// pair is the sessions of two cards that have greeted; the first leads.
func pair(t testing.TB) (a, b *Session) {
	t.Helper()
	k := keyOf(t, 1)
	one, two := Party{Card: 1, Incarnation: 10, Nonce: 100}, Party{Card: 2, Incarnation: 20, Nonce: 200}
	return k.Session(one, two, 0), k.Session(two, one, 0)
}

// message is a composed frame of one packet in a buffer, and its length.
func message(words int) (b []byte, n int) {
	b = make([]byte, 9100)
	h := arctic.Header{GID: 3, Route: 2, SourceCard: 1, DestinationCard: 2, Sequence: 9, Tag: 1}
	h.Encode(b)
	p := make([]byte, arctic.PacketHeaderSize+4*words)
	for i := range p {
		p[i] = byte(i)
	}
	(&arctic.PacketHeader{GID: 3, Route: 2, Length: uint8(words)}).Encode(p)
	n = arctic.PutPacket(b, arctic.HeaderSize, p)
	arctic.Seal(b, n)
	return b, n
}

// sealed is the message, sealed, as it is on the wire.
func sealed(t testing.TB, s *Session, words int, readable bool) []byte {
	t.Helper()
	b, n := message(words)
	m := s.Seal(b, n, readable)
	if m != n+arctic.SealSize {
		t.Fatalf("a frame of %d bytes is %d sealed", n, m)
	}
	return b[:m]
}

// open opens what came from the wire.
func open(t testing.TB, s *Session, b []byte) (arctic.Frame, error) {
	t.Helper()
	f, err := arctic.Look(b)
	if err != nil {
		t.Fatal(err)
	}
	return s.Open(f)
}

// Rule: what one end seals the other opens, in both directions, and it is as it was; content is
// hidden, unless readable.
func TestSealOpen(t *testing.T) {
	a, b := pair(t)
	for i, way := range [][2]*Session{{a, b}, {b, a}} {
		for _, words := range []int{0, 1, 21} {
			for _, readable := range []bool{false, true} {
				plain, n := message(words)
				wire := sealed(t, way[0], words, readable)
				if hidden := !bytes.Contains(wire, plain[arctic.HeaderSize:n]); hidden == readable {
					t.Errorf("direction %d: hidden %v", i, hidden)
				}
				f, err := open(t, way[1], wire)
				if err != nil {
					t.Fatalf("direction %d, %d words, readable %v: %v", i, words, readable, err)
				}
				if !bytes.Equal(f[arctic.HeaderSize:], plain[arctic.HeaderSize:n]) || f.Packets() != 1 {
					t.Errorf("opened % x, want % x", []byte(f), plain[:n])
				}
			}
		}
	}
}

// Rule: the construction is that of the comments: AES-256-GCM over the frame from its version on,
// with the key of the direction and the counter as nonce (package arctic, doc.go; SP 800-38D
// section 8.2.1).
func TestSealedAsDocumented(t *testing.T) {
	a, _ := pair(t)
	plain, n := message(2)
	for count := range 3 {
		wire := sealed(t, a, 2, false)
		extracted, _ := hkdf.Extract(sha256.New, secretOf(1), []byte("FUNet link 1"))
		info := "FUNet link 1 session" + "\x01\x00\x0a\x00\x00\x00\x64\x00\x00\x00\x00\x00\x00\x00" +
			"\x02\x00\x14\x00\x00\x00\xc8\x00\x00\x00\x00\x00\x00\x00"
		both, _ := hkdf.Expand(sha256.New, extracted, info, 64)
		key, _ := hkdf.Expand(sha256.New, both[:32], "FUNet link 1 key", 32)
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		g, _ := cipher.NewGCM(block)
		nonce := []byte{0, 0, 0, 0, byte(count), 0, 0, 0, 0, 0, 0, 0}
		want := g.Seal(nil, nonce, plain[80:n], wire[14:80])
		if !bytes.Equal(wire[80:n+16], want) || wire[76] != byte(count) {
			t.Fatalf("sealed % x, want % x", wire[80:n+16], want)
		}
	}
}

// Rule: no counter is used twice, and the last of a key is not used at all: then nothing is sealed.
func TestCounterNeverRepeats(t *testing.T) {
	a, b := pair(t)
	last := uint64(0)
	for i := range 5000 {
		f, _ := arctic.Look(sealed(t, a, 0, true))
		c, _ := f.Counter()
		if i > 0 && c <= last {
			t.Fatalf("counter %d after %d", c, last)
		}
		last = c
	}
	a.seal.counter = math.MaxUint32 - 1
	if _, err := open(t, b, sealed(t, a, 0, true)); err != nil {
		t.Fatal(err)
	}
	buf, n := message(1)
	if m := a.Seal(buf, n, false); m != 0 || a.seal.counter != math.MaxUint32 {
		t.Fatalf("sealed with a key that is used up: %d bytes, counter %d", m, a.seal.counter)
	}
	a.open.number = 0
	a.Renew(0)
	if _, err := open(t, b, sealed(t, a, 0, true)); err != nil || a.seal.counter != 1<<32+1 {
		t.Fatalf("after new keys: %v, counter %#x", err, a.seal.counter)
	}
}

// Rule: what was opened once is refused, whatever came since; what is too old to tell is refused;
// what was overtaken by fewer than the window is not (RFC 6479).
func TestReplayRefused(t *testing.T) {
	a, b := pair(t)
	var wires [][]byte
	for range 3000 {
		wires = append(wires, sealed(t, a, 1, false))
	}
	late := 500
	for i, w := range wires[:late+replayed] {
		if i == late {
			continue
		}
		if _, err := open(t, b, bytes.Clone(w)); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if _, err := open(t, b, bytes.Clone(w)); !errors.Is(err, ErrReplayed) {
			t.Fatalf("frame %d again: %v", i, err)
		}
	}
	if _, err := open(t, b, bytes.Clone(wires[late])); err != nil {
		t.Fatalf("a frame that %d overtook: %v", replayed-1, err)
	}
	for i, w := range wires[:late+replayed] {
		if _, err := open(t, b, bytes.Clone(w)); !errors.Is(err, ErrReplayed) {
			t.Fatalf("frame %d once more: %v", i, err)
		}
	}
	if _, err := open(t, b, bytes.Clone(wires[2900])); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, b, bytes.Clone(wires[2900-replayed])); !errors.Is(err, ErrReplayed) {
		t.Fatalf("a frame that is too old: %v", err)
	}
}

// Rule: the window says of every counter what a set of all that have come would, where that is
// recent enough.
func TestReplayWindowAgainstSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w replayWindow
		came := map[uint32]bool{}
		highest := uint32(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			var at uint32
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0: // an old one
				at = highest - min(highest, rapid.Uint32Range(0, 2*replayed).Draw(t, "back"))
			case 1:
				at = highest + rapid.Uint32Range(0, 3000).Draw(t, "jump")
			default:
				at = highest + rapid.Uint32Range(0, 3).Draw(t, "on")
			}
			old := len(came) > 0 && highest >= at && highest-at >= replayed
			if got, want := w.seen(at), came[at] || old; got != want {
				t.Fatalf("%d: seen %v, want %v, highest %d", at, got, want, highest)
			}
			if !w.seen(at) {
				w.note(at)
				came[at], highest = true, max(highest, at)
			}
			if w.highest() != highest {
				t.Fatalf("highest %d, want %d", w.highest(), highest)
			}
		}
	})
}

// state is all that a frame could change of a session.
func stateOf(s *Session) string {
	return fmt.Sprint(s.seal.counter, s.seal.after, s.open.number, s.open.present.replayWindow, s.open.previous != nil)
}

// Rule: a frame that was forged, replayed or changed by a bit is refused, and changes nothing: of
// 10^6 of each.
func TestRefusedFramesChangeNothing(t *testing.T) {
	count := 1_000_000
	if testing.Short() {
		count = 20_000
	}
	a, b := pair(t)
	random := rand.New(rand.NewPCG(1, 2))
	var wires [][]byte
	for i := range 900 {
		w := sealed(t, a, i%22, i%2 == 0)
		if _, err := open(t, b, bytes.Clone(w)); err != nil {
			t.Fatal(err)
		}
		wires = append(wires, w)
	}
	b.open.key(1) // as the first frame that claims the next key makes it
	next := sealed(t, a, 5, false)
	before := stateOf(b)
	scratch := make([]byte, 300)
	try := func(what string, w []byte, allowed ...error) {
		f, err := arctic.Look(w)
		if err != nil {
			return // refused before
		}
		if !f.Sealed() {
			if err := f.Check(); err == nil {
				t.Fatalf("%s: a frame that is not sealed passes its checksum", what)
			}
			return
		}
		got, err := b.Open(f)
		if got != nil || err == nil {
			t.Fatalf("%s was opened: % x", what, w)
		}
		for _, e := range allowed {
			if errors.Is(err, e) {
				return
			}
		}
		t.Fatalf("%s: %v", what, err)
	}
	for i := range count {
		w := scratch[:copy(scratch, wires[i%len(wires)])]
		try("replayed", w, ErrReplayed)

		copy(w, next)
		w = scratch[:copy(scratch, next)]
		bit := arctic.EthernetSize*8 + random.IntN((len(w)-arctic.EthernetSize)*8)
		w[bit/8] ^= 1 << (bit % 8)
		try("changed", w, ErrForged, ErrReplayed)

		w = scratch[:copy(scratch, next)]
		for at := arctic.HeaderSize; at < len(w); at += 8 {
			binary.LittleEndian.PutUint64(w[min(at, len(w)-8):], random.Uint64())
		}
		binary.LittleEndian.PutUint32(w[76:], random.Uint32())
		binary.LittleEndian.PutUint32(w[len(w)-4:], random.Uint32N(3))
		try("forged", w, ErrForged, ErrReplayed)
	}
	if after := stateOf(b); after != before {
		t.Fatalf("refused frames changed the session from\n%s to\n%s", before, after)
	}
	if _, err := open(t, b, next); err != nil {
		t.Fatalf("the frame itself, after all that: %v", err)
	}
}

// Rule: what an end sealed it does not open itself, nor does a session of another handshake, of
// another key or of other cards.
func TestOtherSessionsRefuse(t *testing.T) {
	a, _ := pair(t)
	w := sealed(t, a, 3, false)
	one, two := Party{1, 10, 100}, Party{2, 20, 200}
	for name, s := range map[string]*Session{
		"itself":              a,
		"another key":         keyOf(t, 2).Session(two, one, 0),
		"another nonce":       keyOf(t, 1).Session(Party{2, 20, 201}, one, 0),
		"another incarnation": keyOf(t, 1).Session(two, Party{1, 11, 100}, 0),
		"another card":        keyOf(t, 1).Session(Party{3, 20, 200}, one, 0),
	} {
		if _, err := open(t, s, bytes.Clone(w)); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Rule: what an authentic peer sends is checked as any frame is.
func TestOpenChecksTheFrame(t *testing.T) {
	a, b := pair(t)
	buf, n := message(3)
	buf[28] = 2 // packets
	m := a.Seal(buf, n, false)
	if f, err := open(t, b, buf[:m]); !errors.Is(err, arctic.ErrPacket) || f != nil {
		t.Fatalf("%v", err)
	}
}

// Rule: new keys come after a day or when those of either direction are nearly used up, and without
// a pause: frames that were sealed before, and overtaken, still open. The follower follows with its
// next frame; the leader does not go on before.
func TestNewKeys(t *testing.T) {
	for name, wear := range map[string]func(a, b *Session) (now int64){
		"a day":           func(a, b *Session) int64 { return renewAfter },
		"sent frames":     func(a, b *Session) int64 { a.seal.counter += worn; return 1 },
		"received frames": func(a, b *Session) int64 { b.seal.counter += worn; return 1 },
		"both, and a week": func(a, b *Session) int64 {
			a.seal.counter += worn
			b.seal.counter += worn
			return 7 * renewAfter
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			a.Renew(0)
			now := int64(0)
			for key := range uint32(5) {
				early := sealed(t, a, 2, false)
				if _, err := open(t, a, sealed(t, b, 1, false)); err != nil {
					t.Fatal(err)
				}
				if a.seal.number() != key || b.seal.number() != key {
					t.Fatalf("keys %d and %d, want %d", a.seal.number(), b.seal.number(), key)
				}
				since := wear(a, b)
				if _, err := open(t, a, sealed(t, b, 1, false)); err != nil {
					t.Fatal(err)
				}
				b.Renew(now + since) // it follows, and does not lead
				a.Renew(now + since - 1)
				if name == "a day" && a.seal.number() != key {
					t.Fatal("before a day is over")
				}
				now += since
				a.Renew(now)
				a.Renew(now + renewAfter) // not twice: the peer has not followed
				if a.seal.number() != key+1 || b.seal.number() != key {
					t.Fatalf("keys %d and %d, want %d and %d", a.seal.number(), b.seal.number(), key+1, key)
				}
				// with the old key, while the new one is on its way
				between := sealed(t, b, 4, true)
				if _, err := open(t, b, sealed(t, a, 3, false)); err != nil {
					t.Fatalf("first frame with key %d: %v", key+1, err)
				}
				if _, err := open(t, b, early); err != nil {
					t.Fatalf("overtaken frame with key %d: %v", key, err)
				}
				answer := sealed(t, b, 5, false)
				if _, err := open(t, a, answer); err != nil {
					t.Fatalf("first answer with key %d: %v", key+1, err)
				}
				if _, err := open(t, a, between); err != nil {
					t.Fatalf("overtaken answer with key %d: %v", key, err)
				}
			}
		})
	}
}

// Rule: frames of keys that are neither the present one nor its neighbours are refused, and nobody
// can make a card go on to the next key by claiming that a frame is sealed with it.
func TestKeyNumberIsNotBelieved(t *testing.T) {
	a, b := pair(t)
	w := sealed(t, a, 1, false)
	for _, number := range []uint32{1, 2, 3, math.MaxUint32} {
		forged := bytes.Clone(w)
		binary.LittleEndian.PutUint32(forged[len(forged)-4:], number)
		if _, err := open(t, b, forged); !errors.Is(err, ErrForged) {
			t.Errorf("key %d: %v", number, err)
		}
	}
	if b.open.number != 0 || b.seal.number() != 0 {
		t.Fatalf("forged frames made keys %d and %d", b.open.number, b.seal.number())
	}
	if _, err := open(t, b, w); err != nil {
		t.Fatal(err)
	}
}

// Rule: sealing, opening and refusing do not allocate.
func TestSealNothingAllocates(t *testing.T) {
	a, b := pair(t)
	buf, n := message(20)
	plain := bytes.Clone(buf[:n])
	for name, run := range map[string]func(){
		"seal and open": func() {
			copy(buf, plain)
			f, err := arctic.Look(buf[:a.Seal(buf, n, false)])
			if err != nil {
				panic(err)
			}
			if _, err := b.Open(f); err != nil {
				panic(err)
			}
		},
		"readable": func() {
			copy(buf, plain)
			f, _ := arctic.Look(buf[:a.Seal(buf, n, true)])
			if _, err := b.Open(f); err != nil {
				panic(err)
			}
		},
		"refuse": func() {
			copy(buf, plain)
			f, _ := arctic.Look(buf[:a.Seal(buf, n, false)])
			f[90] ^= 1
			if _, err := b.Open(f); err == nil {
				panic("opened")
			}
		},
	} {
		if n := testing.AllocsPerRun(1000, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// FuzzOpen: a session takes any sealed frame without a panic, and opens none that its peer has not
// sealed.
func FuzzOpen(f *testing.F) {
	for _, readable := range []bool{false, true} {
		a, _ := pair(f)
		f.Add(sealed(f, a, 3, readable))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := pair(t)
		if len(data) > 16 {
			binary.BigEndian.PutUint16(data[12:], arctic.EtherType)
			data[14] = arctic.Version
		}
		g, err := arctic.Look(data[:len(data):len(data)])
		if err != nil || !g.Sealed() {
			return
		}
		for _, readable := range []bool{false, true} {
			if own := sealed(t, a, 3, readable); bytes.Equal(g[arctic.EthernetSize:], own[arctic.EthernetSize:]) {
				return // in whatever addresses and padding
			}
			a, _ = pair(t)
		}
		if _, err := b.Open(g); err == nil {
			t.Fatalf("opened % x", data)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	for _, size := range []int{104, 1500, 9000} {
		for _, readable := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/readable=%v", size, readable), func(b *testing.B) {
				s, o := pair(b)
				buf := make([]byte, size+arctic.SealSize)
				h := arctic.Header{}
				h.Encode(buf)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					buf[15], buf[28] = 0, 0
					f, _ := arctic.Look(buf[:s.Seal(buf, size, readable)])
					if _, err := o.Open(f); err != nil && !errors.Is(err, arctic.ErrLength) {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
