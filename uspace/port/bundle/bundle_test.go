package bundle

// This file tests the port against a description: what a station behind a router gets, whatever the
// port inside has room for, is what the card committed for it, in order, and in as few frames as
// the rules of the package allow.

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// ring is a port with room for a few frames until it is flushed.
type ring struct {
	size, room int
	buffer     []byte
	sent       [][]byte
}

func (r *ring) FrameSize() int       { return r.size }
func (r *ring) Receive([][]byte) int { return 0 }
func (r *ring) Release()             {}
func (r *ring) Flush()               {}
func (r *ring) Reserve() []byte {
	if r.room == 0 {
		return nil
	}
	if r.buffer == nil {
		r.buffer = make([]byte, 1514)
	}
	return r.buffer[:r.size]
}
func (r *ring) Commit(n int) {
	r.sent = append(r.sent, r.buffer[:n])
	r.buffer, r.room = nil, r.room-1
}

// stations returns what each station gets, once routers have taken the bundles apart.
func (r *ring) stations(t interface{ Fatalf(string, ...any) }) map[byte][][]byte {
	got := map[byte][][]byte{}
	for _, b := range r.sent {
		frames, ok := arctic.Bundled(nil, b)
		if !ok {
			frames = [][]byte{b}
		}
		for i, f := range frames {
			if slices.ContainsFunc(frames[:i], func(g []byte) bool { return bytes.Equal(g[:6], f[:6]) }) {
				t.Fatalf("a bundle has two frames for station %d", f[5])
			}
			got[f[5]] = append(got[f[5]], f)
		}
	}
	return got
}

// makeFrame returns a frame of n bytes for a station, with one packet.
func makeFrame(station byte, sequence uint32, n int) []byte {
	f := make([]byte, n)
	copy(f, []byte{2, 0, 0, 0, 0, station, 2, 0, 0, 0, 0, 99, 0x88, 0xb5, arctic.Version})
	f[28] = 1
	binary.LittleEndian.PutUint64(f[32:], 7)
	binary.LittleEndian.PutUint32(f[40:], sequence)
	for i := arctic.HeaderSize; i < n; i++ {
		f[i] = byte(i)*3 + station
	}
	return f
}

func commit(p *Port, f []byte) bool {
	b := p.Reserve()
	if b == nil {
		return false
	}
	p.Commit(copy(b, f))
	return true
}

// Rule: frames for a station arrive as they were committed, once, in order, through bundles, full
// rings and frames that become shorter.
func TestPort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := &ring{size: 1514, room: 3}
		p := New(in)
		want := map[byte][][]byte{}
		next := map[byte]uint32{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				p.Flush()
			case 2:
				in.room = rapid.IntRange(0, 4).Draw(t, "room")
			case 3:
				in.size = rapid.SampledFrom([]int{1514, 600, 1514}).Draw(t, "size")
			default:
				station := byte(rapid.IntRange(1, 12).Draw(t, "station"))
				n := rapid.SampledFrom([]int{arctic.HeaderSize + 16, 176, Longest, Longest + 1, 600}).Draw(t, "bytes")
				f := makeFrame(station, next[station], n)
				switch rapid.IntRange(0, 7).Draw(t, "kind") {
				case 0:
					f[28] = 0 // an acknowledgment
				case 1:
					f[0] |= 1 // for all stations, and nobody's here
				default:
					next[station]++
				}
				if commit(p, f) {
					want[station] = append(want[station], f)
				}
			}
		}
		for range 20 {
			in.size, in.room = 1514, 4
			p.Flush()
		}
		got := in.stations(t)
		for s, frames := range want {
			if !slices.EqualFunc(frames, got[s], bytes.Equal) {
				t.Fatalf("station %d got %d frames, want %d, or others", s, len(got[s]), len(frames))
			}
			delete(got, s)
		}
		if len(got) > 0 {
			t.Fatalf("frames that nobody sent: %v", got)
		}
	})
}

// lengths sends frames, and returns how many frames there are in each one that leaves.
func lengths(t *testing.T, in *ring, p *Port, frames ...[]byte) (n []int) {
	t.Helper()
	in.sent = nil
	for _, f := range frames {
		if !commit(p, f) {
			t.Fatal("no room")
		}
	}
	p.Flush()
	for _, b := range in.sent {
		bundled, _ := arctic.Bundled(nil, b)
		n = append(n, max(len(bundled), 1))
	}
	return n
}

// Rule: frames for several stations that leave together are one bundle; one that is sent again, a
// long one, a greeting and an acknowledgment travel alone.
func TestTogether(t *testing.T) {
	in := &ring{size: 1514, room: 100}
	p := New(in)
	lengths := func(frames ...[]byte) []int { return lengths(t, in, p, frames...) }
	is := func(what string, got []int, want ...int) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: frames with %v in them, want %v", what, got, want)
		}
	}
	a, b, c := makeFrame(1, 5, 176), makeFrame(2, 5, 176), makeFrame(3, 5, 176)
	is("three stations", lengths(a, b, c), 3)
	is("sent again", lengths(a, b, c), 1, 1, 1)
	is("the next, and one again", lengths(makeFrame(1, 6, 176), b, makeFrame(3, 6, 176)), 1, 1, 1)
	is("one station twice", lengths(makeFrame(1, 7, 176), makeFrame(2, 7, 176), makeFrame(1, 8, 176)), 2, 1)
	is("a long one between", lengths(makeFrame(1, 9, 176), makeFrame(2, 8, 500), makeFrame(3, 9, 176)), 1, 1, 1)
	hello, ack := makeFrame(1, 20, 176), makeFrame(2, 20, 176)
	hello[15] |= 1 << 1
	ack[28] = 0
	is("a greeting", lengths(hello, makeFrame(3, 20, 176)), 1, 1)
	is("an acknowledgment", lengths(ack, makeFrame(3, 21, 176)), 1, 1)
	reply := makeFrame(1, 22, 176)
	reply[15] |= 1
	is("requests and replies", lengths(reply, makeFrame(2, 22, 176), makeFrame(3, 22, 176)), 1, 2)
	anew := makeFrame(1, 0, 176)
	anew[32]++ // another epoch
	is("numbers that begin anew", lengths(anew, makeFrame(2, 30, 176)), 2)
	var many [][]byte
	for s := range byte(9) {
		many = append(many, makeFrame(20+s, 0, 100))
	}
	is("more than a bundle has", lengths(many...), 8, 1)
	many = many[:0]
	for s := range byte(8) {
		many = append(many, makeFrame(40+s, 0, Longest))
	}
	is("longer than a frame", lengths(many...), 5, 3)
}

// sink is a port that loses all frames.
type sink struct {
	ring
	frame [1514]byte
}

func (s *sink) Reserve() []byte { return s.frame[:] }
func (s *sink) Commit(int)      {}

// Rule: the steady state allocates nothing.
func TestAllocations(t *testing.T) {
	p, sequence := New(&sink{ring: ring{size: 1514}}), uint32(0)
	frames := [][]byte{makeFrame(1, 0, 176), makeFrame(2, 0, 176), makeFrame(3, 0, 600)}
	n := testing.AllocsPerRun(1000, func() {
		sequence++
		for _, f := range frames {
			binary.LittleEndian.PutUint32(f[40:], sequence)
			commit(p, f)
		}
		p.Flush()
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// makeDirect returns a direct port's frame for a node: without addresses.
func makeDirect(node byte, sequence uint32) []byte {
	f := makeFrame(0, sequence, 176)
	clear(f[:12])
	f[14], f[26] = arctic.VersionDirect, node
	return f
}

// Rule: a direct port bundles once it knows the nodes' hosts, one frame for a host; frames for
// nodes of its own host, and of none that it knows, travel alone.
func TestDirect(t *testing.T) {
	const alone = 0xffff
	in := &ring{size: 1514, room: 100}
	p := NewDirect(in)
	lengths := func(sequence uint32, nodes ...byte) []int {
		var frames [][]byte
		for _, node := range nodes {
			frames = append(frames, makeDirect(node, sequence))
		}
		return lengths(t, in, p, frames...)
	}
	for _, c := range []struct {
		what     string
		sequence uint32
		nodes    []byte
		want     []int
	}{
		{"hosts that are not known", 0, []byte{1, 2, 3}, []int{1, 1, 1}},
		{"three hosts", 1, []byte{1, 2, 4}, []int{3}},
		{"sent again", 1, []byte{1, 2, 4}, []int{1, 1, 1}},
		{"one host twice", 2, []byte{1, 2, 3}, []int{2, 1}},
		{"its numbers are its own", 2, []byte{4, 3}, []int{2}},
		{"another node of the host", 3, []byte{3, 4}, []int{2}},
		{"its own host between", 4, []byte{1, 0, 2}, []int{1, 1, 1}},
		{"behind the last", 5, []byte{1, 5, 2}, []int{1, 1, 1}},
	} {
		if c.sequence == 1 {
			p.Stations([]uint16{alone, 7, 8, 8, 9}, alone)
		}
		if got := lengths(c.sequence, c.nodes...); !slices.Equal(got, c.want) {
			t.Errorf("%s: frames with %v in them, want %v", c.what, got, c.want)
		}
	}
}
