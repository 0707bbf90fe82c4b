// This file tests the program for frames of several buffers: the rule of doc.go holds for the whole
// frame, whatever part of it the first buffer has, as long as that holds the header.

package bpf

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestFragsOutcomes: frames of one page and of many are judged by their whole length. The kernel
// shows what does not fit the first page in further buffers (bpf_prog_test_run_xdp).
func TestFragsOutcomes(t *testing.T) {
	n := loadFrags(t, 1, 0)
	for _, size := range []int{80, 200, 3500, 3836, 4096, 4097, 9014, 16_000, 65_549} {
		for name, test := range map[string]struct {
			frame []byte
			want  Counters
		}{
			"ours":                        {makeFrame(size), redirected},
			"all padding":                 {makeFrame(size, length(66)), redirected},
			"length one beyond the frame": {makeFrame(size, length(uint16(min(size-13, 0xffff)))), badLength},
			"length 65":                   {makeFrame(size, length(65)), badLength},
			"another version":             {makeFrame(size, version(1)), badVersion},
			"GID 2048":                    {makeFrame(size, gid(2048)), badGID},
			"foreign group":               {makeFrame(size, gid(foreignGroup)), foreign},
			"IPv4":                        {makeFrame(size, etherType(0x0800)), pass},
		} {
			if name == "length one beyond the frame" && size-13 > 0xffff {
				continue // the field cannot say it
			}
			if err := run(n, test.frame, test.want, nil); err != nil {
				t.Errorf("%s, %d bytes: %v", name, size, err)
			}
		}
	}
	if err := run(n, makeFrame(79), short, nil); err != nil {
		t.Error(err)
	}
}

// TestFragsRandom: on random frames the program for several buffers and the oracle agree.
func TestFragsRandom(t *testing.T) {
	n := loadFrags(t, 1, 0)
	active := map[uint16]bool{homeGroup: true, lastGroup: true}
	rapid.Check(t, func(t *rapid.T) {
		for range 100 {
			frame := drawFrame(t)
			if err := run(n, frame, judge(frame, active), nil); err != nil {
				t.Fatalf("%v\nframe %x", err, frame)
			}
		}
	})
}

// TestFirstBuffer: a frame whose first buffer ends inside the header is not read beyond it: without
// an EtherType it is not ours, with one it is short. From 80 bytes on the whole frame counts.
func TestFirstBuffer(t *testing.T) {
	n := loadFrags(t, 1, 0)
	for first, want := range map[uint32]Counters{
		14: short, 15: short, 20: short, 79: short, 80: redirected, 81: redirected, 199: redirected, 200: redirected,
	} {
		at := &xdpMD{DataEnd: first, IngressIfindex: 1}
		err := run(n, makeFrame(200), want, at)
		if errors.Is(err, unix.EINVAL) {
			t.Skip("the kernel cannot show a frame with a first buffer of choice (BPF_PROG_TEST_RUN of Linux 6.18)")
		}
		if err != nil {
			t.Errorf("first buffer of %d bytes: %v", first, err)
		}
	}
	if err := run(n, makeFrame(200, length(187)), badLength, &xdpMD{DataEnd: 100, IngressIfindex: 1}); err != nil {
		t.Error("length one beyond the frame:", err)
	}
}

// TestFragsNative: a driver that refuses the program for one buffer at an MTU of 9000 takes the
// program for several (veth_xdp_set), and a jumbo frame is seen whole.
func TestFragsNative(t *testing.T) {
	enterNamespace(t)
	receiver, sender := addVeth(t, 1)
	setMTU(t, 9000, receiver, sender)
	one := loadNIC(t, 1)
	_, err := link.AttachXDP(link.XDPOptions{Program: one.Program(), Interface: receiver.Attrs().Index,
		Flags: link.XDPDriverMode})
	if err == nil {
		t.Fatal("the program for one buffer was attached at MTU 9000")
	}
	n := loadFrags(t, 1)
	attach(t, n, receiver, link.XDPDriverMode)
	wire := openPacketSocket(t, sender.Attrs().Index, 0)
	send(t, wire, makeFrame(9014))
	send(t, wire, makeFrame(9014, length(9001)))
	send(t, wire, makeFrame(9014, gid(foreignGroup)))
	want := Counters{NoSocket: 1, BadLength: 1, ForeignGroup: 1}
	if !await(func() bool { return counters(t, n) == want }) {
		t.Fatalf("counters %+v, want %+v", counters(t, n), want)
	}
}
