package hostile

// This file tests that what a process keeps counts.

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// held returns how many bytes the files of a connection hold.
func held(t *testing.T, k *client.Connection) (n int64) {
	t.Helper()
	for _, fd := range k.FDs {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			n += st.Blocks * 512
		}
	}
	return n
}

// TestMemoryThatIsKept: a process keeps descriptors and mappings of memory that is counted no more,
// as its segment or its context has ended. Of that memory it holds nothing but the pages of
// registers and doorbells. As long as it holds more, that counts (issue, 2: bytes).
func TestMemoryThatIsKept(t *testing.T) {
	long.Test(t)
	b := newBed(t, nil, longSilence)
	g := b.newGroup("kept", acrossGID, 0, 0, 0, 0)
	k, err := client.Dial(b.sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	if err := k.Attach(attach.AttachRequest{GID: g.gid, Node: 0, Slots: 1024, Token: g.token}); err != nil {
		t.Fatal(err)
	}
	counted := func(want int64) {
		t.Helper()
		until(t, fmt.Sprintf("%d bytes are counted", want), func() bool {
			return b.status(0).Bytes == want
		}, func() string { return fmt.Sprint(b.status(0).Bytes) })
	}
	const pages = funi.PageSize + funi.DoorbellsSize
	context, segment := int64(k.Answer.Memory), int64(4<<20)
	for range 3 {
		m, err := k.Segment(attach.SegmentRequest{Base: segmentBase, Bytes: uint64(segment), Rights: funi.Source})
		if err != nil {
			t.Fatal(err)
		}
		m[0] = 1
		counted(context + segment)
		if _, _, err := k.Ask(attach.UnsegmentRequest{Base: segmentBase}.Encode(), 0); err != nil {
			t.Fatal(err)
		}
		counted(context)
		if n := held(t, k); n > context+funi.DoorbellsSize {
			t.Fatalf("%d bytes are held, %d counted", n, context)
		}
	}
	if _, err := k.Segment(attach.SegmentRequest{Base: segmentBase, Bytes: uint64(segment),
		Rights: funi.Source}); err != nil {
		t.Fatal(err)
	}
	g.jobs[0].Close()
	until(t, "the context ends with its job", func() bool { return k.Memory.Page.Gone() }, func() string { return "" })
	counted(context + segment) // the process may want to read what it has got
	k.Conn.Close()
	counted(0)
	if n := held(t, k); n > pages {
		t.Errorf("%d bytes are held after the end, more than pages of registers and doorbells", n)
	}
	if !k.Memory.Page.Gone() {
		t.Error("the page does not say any more that the context has ended")
	}
}
