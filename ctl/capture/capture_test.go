package capture

// This file tests the ring, the records and the file.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

// drain takes all that is in a ring.
func drain(t interface{ Fatal(...any) }, r *Ring, n int, see func(*Record)) []Counts {
	for {
		b, some := r.Take(make([]byte, 0, BatchSize))
		counts, err := DecodeBatch(b, n, func(r *Record) error { see(r); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if !some {
			return counts
		}
	}
}

// Rule (ring.go): whole frames come out in order, cut to snap, with their outcome; one for which
// there is no room is counted, and all are seen.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := rapid.IntRange(1, 300).Draw(t, "snap")
		r := NewRing(1<<10, 2, snap)
		var want []Record
		room, seen, lost := 1<<10, [2]uint64{}, [2]uint64{}
		var got []Record
		take := func() {
			drain(t, r, 2, func(r *Record) { c := *r; c.Data = bytes.Clone(r.Data); got = append(got, c) })
			room = 1 << 10
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 5).Draw(t, "take") == 0 {
				take()
				continue
			}
			frame := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "frame")
			f := Record{Time: rapid.Int64().Draw(t, "time"), Interface: rapid.IntRange(0, 1).Draw(t, "port"),
				Length: len(frame), Data: frame[:min(len(frame), snap)],
				Fate: engine.Fate{Outcome: engine.Outcome(rapid.IntRange(0, int(engine.Outcomes)-1).Draw(t, "outcome")),
					Reason: arctic.Reason(rapid.Byte().Draw(t, "reason"))}}
			r.Put(f.Time, f.Interface, frame, f.Fate)
			seen[f.Interface]++
			if size := recordHeader + len(f.Data); size > room {
				lost[f.Interface]++
			} else {
				room -= size
				want = append(want, f)
			}
		}
		take()
		counts := drain(t, r, 2, func(*Record) { t.Fatal("more") })
		if !slices.EqualFunc(got, want, func(a, b Record) bool {
			return a.Time == b.Time && a.Interface == b.Interface && a.Fate == b.Fate && a.Length == b.Length &&
				bytes.Equal(a.Data, b.Data)
		}) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
		for i, c := range counts {
			if c != (Counts{seen[i], lost[i]}) {
				t.Fatalf("interface %d: %+v, want %d seen and %d lost", i, c, seen[i], lost[i])
			}
		}
	})
}

// Rule (ring.go): the two sides may run at once; the one that puts allocates nothing and an
// interface that is not known harms nothing.
func TestRingTwoThreads(t *testing.T) {
	r := NewRing(1<<14, 1, MaxSnap)
	const frames = 200000
	var over atomic.Bool
	go func() {
		frame := make([]byte, 100)
		for i := range uint32(frames) {
			binary.LittleEndian.PutUint32(frame, i)
			r.Put(int64(i), 0, frame[:4+i%97], engine.Fate{})
			if i%64 == 0 {
				runtime.Gosched()
			}
		}
		over.Store(true)
	}()
	next, got := uint32(0), uint64(0)
	var counts []Counts
	for done := false; !done; {
		done = over.Load()
		counts = drain(t, r, 1, func(f *Record) {
			i := binary.LittleEndian.Uint32(f.Data)
			if i < next || int64(i) != f.Time || len(f.Data) != int(4+i%97) {
				t.Fatalf("frame %d of %d bytes at %d, after %d", i, len(f.Data), f.Time, next)
			}
			next, got = i+1, got+1
		})
	}
	if counts[0].Seen != frames || got+counts[0].Lost != frames || got == 0 {
		t.Errorf("%d came, of %+v", got, counts[0])
	}
	frame := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		r.Put(0, 0, frame, engine.Fate{})
		r.Put(0, 7, frame, engine.Fate{})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Rule (ring.go): a frame that was not in the ring comes out with a batch as it was given, cut to
// snap, and counts; one for which the batch has no room does neither.
func TestAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := rapid.IntRange(1, 300).Draw(t, "snap")
		r := NewRing(1<<10, 2, snap)
		r.Put(1, 0, []byte{1, 2, 3}, engine.Fate{})
		room := rapid.IntRange(batchHeader+2*countsSize, 1500).Draw(t, "room")
		b, _ := r.Take(make([]byte, 0, room))
		of := len(b)
		data := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "data")
		f := Record{Time: rapid.Int64().Draw(t, "time"), Interface: 1,
			Length: len(data) + rapid.IntRange(0, 9).Draw(t, "more"), Data: data, Direct: true,
			Verdict: bpf.Verdict(rapid.IntRange(0, int(bpf.Verdicts)-1).Draw(t, "verdict")),
			GID:     rapid.Uint16().Draw(t, "gid"), Node: rapid.Uint16().Draw(t, "node")}
		lost := rapid.Uint64Range(0, 9).Draw(t, "lost")
		b, added := r.Add(b, &f)
		if fits := room-of >= recordHeader+min(len(data), snap); added != fits || cap(b) != room {
			t.Fatalf("into %d of %d bytes: %v", room-of, room, added)
		}
		r.Lost(1, lost)
		var got []Record
		counts, err := DecodeBatch(b, 2, func(r *Record) error { got = append(got, *r); return nil })
		seen := uint64(0)
		if added {
			seen = 1
		}
		if err != nil || counts[1] != (Counts{seen, 0}) {
			t.Fatalf("%+v, %v", counts, err)
		}
		if added {
			f.Data = data[:min(len(data), snap)]
			if g := got[len(got)-1]; !bytes.Equal(g.Data, f.Data) {
				t.Fatalf("%x became %x", f.Data, g.Data)
			} else if g.Data, f.Data = nil, nil; !reflect.DeepEqual(g, f) {
				t.Fatalf("%+v became %+v", f, g)
			}
		}
		b, _ = r.Take(make([]byte, 0, 1500))
		if counts, err = DecodeBatch(b, 2, func(*Record) error { return nil }); err != nil ||
			counts[1] != (Counts{seen + lost, lost}) {
			t.Fatalf("%+v, %v", counts, err)
		}
	})
}

// Rule (pcapng.go): the comment of a direct frame says why it was dropped and at whose port, and
// its direction is that of the host.
func TestDirectComment(t *testing.T) {
	for v := range bpf.Verdicts {
		r := &Record{Direct: true, Verdict: v, GID: 5, Node: 3}
		got, want := Comment(r), ""
		switch why := v.Dropped(); {
		case v.Local():
			want = "to a port of this host"
		case why != "" && v.Arrived():
			want = "dropped: " + why
		case why != "":
			want = "dropped at the port of node 3 of job 5: " + why
		}
		if got != want || flags(r) != map[bool]uint32{false: outbound, true: inbound}[v.Arrived()] {
			t.Errorf("verdict %d: %q and flags %d, want %q", v, got, flags(r), want)
		}
	}
}

// Rule (record.go): any bytes are a batch or ErrMalformed, and what is one holds no more than there
// is.
func FuzzDecodeBatch(f *testing.F) {
	r := NewRing(1<<12, 2, 100)
	r.Put(1, 1, make([]byte, 200), engine.Fate{Outcome: engine.Rejected, Reason: 1})
	r.Put(2, 0, nil, engine.Fate{})
	b, _ := r.Take(make([]byte, 0, BatchSize))
	b, _ = r.Add(b, &Record{Time: 3, Length: 9, Data: []byte{1, 2}, Direct: true, Verdict: 1, GID: 5, Node: 6})
	f.Add(b, 2)
	f.Add([]byte{1, 0, 0, 0}, 1)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 1 || n > MaxInterfaces {
			return
		}
		sum := batchHeader + n*countsSize
		counts, err := DecodeBatch(b, n, func(r *Record) error {
			sum += recordHeader + len(r.Data)
			if r.Interface >= n || r.Fate.Outcome >= engine.Outcomes || r.Verdict >= bpf.Verdicts ||
				r.Direct && r.Fate != (engine.Fate{}) || len(r.Data) > r.Length {
				t.Fatalf("%+v", r)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrMalformed) || err == nil && (len(counts) != n || sum != len(b)) {
			t.Fatalf("%v: %d of %d bytes", err, sum, len(b))
		}
	})
}

// Rule (file.go): a capture that a full disk ends is a whole file of those frames that fit.
func TestFullDisk(t *testing.T) {
	var said error
	done := make(chan struct{})
	dir := t.TempDir()
	var file []byte
	go func() { // a thread with a mount of its own, which ends with it
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			t.Error(err)
			return
		}
		if err := errors.Join(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
			unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k")); err != nil {
			t.Error(err)
			return
		}
		name := filepath.Join(dir, "a")
		f, err := Create(name)
		if err != nil {
			t.Error(err)
			return
		}
		w, err := NewWriter(f, &Begin{Info: attach.Info{Interfaces: []string{"a"}}, Snap: MaxSnap}, time.Unix(1, 0))
		for i := 0; err == nil && said == nil && i < 1000; i++ {
			err = w.Write(&Record{Time: int64(i), Length: 999, Data: bytes.Repeat([]byte{byte(i)}, 999)})
			if i%7 == 0 {
				said = f.Flush()
			}
		}
		if e := f.Close(); err != nil || e != nil {
			t.Error(err, e)
		}
		if file, err = os.ReadFile(name); err != nil {
			t.Error(err)
		}
	}()
	<-done
	if !errors.Is(said, unix.ENOSPC) {
		t.Fatalf("%v", said)
	}
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		b, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(b) != 999 || b[0] != byte(n) {
			t.Fatalf("frame %d of %d bytes: %v", n, len(b), err)
		}
		n++
	}
	if n < 30 {
		t.Errorf("%d frames", n)
	}
}
