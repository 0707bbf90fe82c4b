package tests

// This file tests that frames of groups that are absent on a host, however many come, cost its
// daemon nothing, and that nobody makes the host send more than it gets.

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/arctic"
)

// flooder is a host without a daemon that sends what it likes.
type flooder struct {
	t      *testing.T
	lab    *lab.Lab
	fd     int
	to     unix.SockaddrLinklayer
	socket string // of the daemon of the other host
	pid    int    // the same
}

func newFlooder(t *testing.T, mode string) *flooder {
	t.Helper()
	_, l := namedLab(t)
	if err := l.StartDaemons(lab.DaemonOptions{Program: filepath.Join(filepath.Dir(command), "funid"), XDP: mode,
		Hosts: 1}); err != nil {
		t.Fatal(err)
	}
	sockets, err := l.Sockets()
	if err != nil {
		t.Fatal(err)
	}
	f := &flooder{t: t, lab: l, socket: sockets[0]}
	k, err := net.Dial("unixpacket", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	raw, err := k.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		c, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			t.Fatal(err)
		}
		f.pid = int(c.Pid)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Do(1, func() error {
		dev, err := net.InterfaceByName("fu0")
		if err != nil {
			return err
		}
		f.to.Ifindex = dev.Index
		// Protocol 0: the socket receives nothing.
		f.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(f.fd) })
	return f
}

// frame composes a frame of an absent group that the switch may answer.
func (f *flooder) frame() []byte {
	b := make([]byte, 200)
	hosts := f.lab.Hosts()
	h := arctic.Header{To: [6]byte(hosts[0].Interfaces[0].MAC), From: [6]byte(hosts[1].Interfaces[0].MAC),
		GID: 77, SourceCard: 1, Epoch: 5, Sequence: 9, Tag: 3, Defer: true}
	h.Encode(b)
	p := make([]byte, arctic.PacketHeaderSize)
	k := arctic.PacketHeader{GID: 77, Source: 1}
	k.Encode(p)
	n := arctic.PutPacket(b, arctic.HeaderSize, p)
	arctic.Seal(b, n)
	return b[:n]
}

// traffic is what the flooder's interface has got and sent.
func (f *flooder) traffic() (s netlink.LinkStatistics) {
	f.t.Helper()
	err := f.lab.Do(1, func() error {
		k, err := netlink.LinkByName("fu0")
		if err == nil {
			s = *k.Attrs().Statistics
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// woken returns how often threads of the daemon have slept and gone on.
func (f *flooder) woken() (n int) {
	f.t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", f.pid))
	if err != nil || len(tasks) == 0 {
		f.t.Fatalf("no threads of process %d: %v", f.pid, err)
	}
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		var of int
		if _, err := fmt.Sscan(rest, &of); err != nil {
			f.t.Fatalf("%s: %v", path, err)
		}
		n += of
	}
	return n
}

// flood sends a frame many times, each changed before, and returns how many came back, in frames
// and bytes, how many bytes were sent, and how many of the daemon's card got.
func (f *flooder) flood(times int, frame []byte, change func(i int)) (back, backBytes, sentBytes, got uint64) {
	f.t.Helper()
	before, card := f.traffic(), statusAt(f.t, f.socket).Counters.FramesReceived
	for i := range times {
		change(i)
		if err := unix.Sendto(f.fd, frame, 0, &f.to); err != nil {
			f.t.Fatalf("frame %d: %v", i, err)
		}
	}
	after := f.traffic()
	return after.RxPackets - before.RxPackets, after.RxBytes - before.RxBytes, after.TxBytes - before.TxBytes,
		statusAt(f.t, f.socket).Counters.FramesReceived - card
}

// Rule: a million frames of an absent group wake no process of the host. Each source is answered as
// often as it may be, and the other frames are counted.
func TestAbsentFlood(t *testing.T) {
	for _, mode := range []string{"generic", "native"} {
		t.Run(mode, func(t *testing.T) {
			f := newFlooder(t, mode)
			const frames = 1_000_000
			was, woken := statusAt(t, f.socket).Links[0], f.woken()
			back, backBytes, sentBytes, got := f.flood(frames, f.frame(), func(int) {})
			woken = f.woken() - woken
			now := statusAt(t, f.socket).Links[0]
			deferred, undeferred := now.Deferred-was.Deferred, now.Undeferred-was.Undeferred
			t.Logf("%d answered, %d dropped, %d came back; the daemon's threads slept %d times", deferred, undeferred,
				back, woken)
			if deferred+undeferred != frames || deferred < 2048 || undeferred == 0 {
				t.Errorf("%d answered and %d dropped of %d", deferred, undeferred, frames)
			}
			if got != 0 || woken > frames/100 {
				t.Errorf("the card got %d frames, and its process's threads slept %d times", got, woken)
			}
			// Other cards' hellos and the kernel's own frames may come, too.
			if back > deferred+100 || backBytes > sentBytes {
				t.Errorf("%d frames came back, of %d bytes for %d", back, backBytes, sentBytes)
			}
		})
	}
}

// Rule: whoever forges frames gets no more back, nor does whoever they name, than he sends; answers
// are not answered, nor are frames from or for many stations.
func TestAbsentForged(t *testing.T) {
	f := newFlooder(t, "generic")
	const frames, few = 20_000, 100 // few: the kernel's own frames
	b := f.frame()
	back, backBytes, sentBytes, _ := f.flood(frames, b, func(i int) { binary.LittleEndian.PutUint32(b[8:], uint32(i)) })
	if back < frames/2 || back > frames+few || backBytes > sentBytes {
		t.Errorf("from many addresses: %d frames came back, of %d bytes for %d", back, backBytes, sentBytes)
	}
	for what, change := range map[string]func(b []byte){
		"answers": func(b []byte) {
			addresses := [12]byte(b)
			arctic.Defer(b)
			copy(b, addresses[:])
			arctic.Seal(b, arctic.HeaderSize)
		},
		"from many stations": func(b []byte) { b[6] |= 1 },
		"for many stations":  func(b []byte) { b[0] |= 1 },
		"for all":            func(b []byte) { copy(b, "\xff\xff\xff\xff\xff\xff") },
	} {
		b := f.frame()
		change(b)
		if back, _, _, _ := f.flood(frames, b, func(int) {}); back > few {
			t.Errorf("%s: %d of %d were answered", what, back, frames)
		}
	}
}
