package ports

// This file tests a process that writes its rings itself: what it may not send reaches nobody and
// is counted, each frame once.

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/xdp"
)

// forgery is a kind of frame that a process may not send, and the counter of the guard that it is
// in.
type forgery struct {
	name    string
	size    int
	change  func(b []byte)
	counted func(c *bpf.PortCounters) *uint64
}

// forgeries begin with a right frame from node 0 to node 1, and change something (arctic/frame.go
// has the layout; bpf/funet.h checks the same).
func forgeries(other bpf.Job) []forgery {
	version := func(c *bpf.PortCounters) *uint64 { return &c.BadVersion }
	forged := func(c *bpf.PortCounters) *uint64 { return &c.Forged }
	length := func(c *bpf.PortCounters) *uint64 { return &c.BadLength }
	short := func(c *bpf.PortCounters) *uint64 { return &c.Short }
	nobody := func(c *bpf.PortCounters) *uint64 { return &c.NoNode }
	u16 := func(at int, v uint16) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint16(b[at:], v) }
	}
	u8 := func(at int, v byte) func([]byte) { return func(b []byte) { b[at] = v } }
	return []forgery{
		{"another EtherType", 100, func(b []byte) { b[12], b[13] = 8, 0 }, version},
		{"version of daemons", 100, u8(versionAt, bpf.Version), version},
		{"a probe", 100, u8(versionAt, bpf.VersionProbe), version},
		{"a hello", 100, u8(versionAt, bpf.VersionHello), version},
		{"another group", 100, u16(gidAt, 9), forged},
		{"another node's name", 100, u16(sourceAt, 1), forged},
		{"another job's tag", 100, func(b []byte) { binary.LittleEndian.PutUint64(b[tagAt:], other.Tag) }, forged},
		{"no tag", 100, func(b []byte) { clear(b[tagAt : tagAt+8]) }, forged},
		{"shorter than a header, it says", 120, u16(lengthAt, 65), length},
		{"shorter than it says", 100, u16(lengthAt, 1400), length},
		{"no length", 100, u16(lengthAt, 0), length},
		{"no header", 40, func([]byte) {}, short},
		{"a header but for a byte", bpf.FrameMin - 1, func([]byte) {}, short},
		{"a node that is nowhere", 100, u16(destinationAt, 2), nobody},
		{"no node of the job", 100, u16(destinationAt, 60000), nobody},
	}
}

// Where fields lie in a frame, in bytes (package arctic).
const (
	versionAt     = 14
	lengthAt      = 16
	gidAt         = 18
	sourceAt      = 24
	destinationAt = 26
	tagAt         = 68
)

// right composes a frame from node 0 to node 1 that may be sent, of size bytes.
func right(b []byte) {
	clear(b)
	binary.BigEndian.PutUint16(b[12:], bpf.EtherType)
	if len(b) < bpf.FrameMin {
		return
	}
	b[versionAt] = bpf.VersionDirect
	binary.LittleEndian.PutUint16(b[lengthAt:], uint16(len(b)-14))
	binary.LittleEndian.PutUint16(b[gidAt:], gid)
	binary.LittleEndian.PutUint16(b[destinationAt:], 1)
	binary.LittleEndian.PutUint64(b[tagAt:], job.Tag)
}

// Rule (guard.c): of what a process forges nothing gets to others, and each frame is in one
// counter.
func TestForgedFrames(t *testing.T) { inBothModes(t, testForgedFrames) }

func testForgedFrames(t *testing.T, mode xdp.AttachMode) {
	const each = 2000
	b := newBed(t, 4, 3, mode)
	h := b.hosts[0]
	other := bpf.Job{Tag: job.Tag + 1, GID: 9}
	if _, err := h.AddJob(other, 2); err != nil {
		t.Fatal(err)
	}
	open := func(of bpf.Job, node uint16) (*afxdp.Port, uint32) {
		t.Helper()
		mem := memory(t)
		g := afxdp.GeometryFor(mtu)
		m, err := h.Make(bpf.Port{Job: of, Node: node}, attach.Ticket{}, int(mem.Fd()), g, mtu, mode)
		if err != nil {
			t.Fatal(err)
		}
		p, err := afxdp.OpenDirect(afxdp.Direct{FD: m.FD, Memory: mem, Geometry: g, MTU: mtu})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p, m.ID
	}
	enemy, id := open(job, 0)
	friend, _ := open(job, 1)
	stranger, _ := open(other, 1)
	until := time.Now().Add(patience)
	send := func(size int, change func([]byte)) {
		for {
			if f := enemy.Reserve(); f != nil {
				right(f[:size])
				change(f[:size])
				enemy.Commit(size)
				enemy.Flush()
				return
			}
			if enemy.Flush(); time.Now().After(until) {
				t.Fatal("the port sends nothing")
			}
		}
	}
	var want bpf.PortCounters
	for _, f := range forgeries(other) {
		for range each {
			send(f.size, f.change)
		}
		*f.counted(&want) += each
	}
	send(100, func([]byte) {}) // behind them all
	want.Local = 1
	var frames [64][]byte
	got := 0
	for got == 0 {
		got = friend.Receive(frames[:])
		if enemy.Flush(); time.Now().After(until) {
			t.Fatal("the right frame does not come")
		}
	}
	if got != 1 || len(frames[0]) != 100 {
		t.Errorf("%d frames came, the first of %d bytes", got, len(frames[0]))
	}
	friend.Release()
	for _, p := range []*afxdp.Port{friend, stranger} {
		if n := p.Receive(frames[:]); n > 0 {
			t.Errorf("%d frames came that nobody may send", n)
		}
		p.Release()
	}
	c, err := h.Counters(id)
	if err != nil || c != want {
		t.Errorf("%+v, %v, want %+v", c, err, want)
	}
}
