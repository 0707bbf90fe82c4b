package afxdp

// This file tests ports whose frames have a VLAN tag.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/xdp"
)

// Rule (port.Port): with a tag, too, every frame arrives whole, once, unchanged and in order,
// whatever its size, in both modes, with and without jumbo frames and on several queues; frames are
// shorter by the tag.
func TestVLAN(t *testing.T) {
	for _, c := range []struct {
		mtu, queues int
		port        Config
	}{
		{1500, 1, Config{Attach: xdp.AttachGeneric}},
		{1500, 1, Config{Attach: xdp.AttachNative}},
		{1500, 3, Config{Attach: xdp.AttachGeneric}},
		{9000, 1, Config{Attach: xdp.AttachGeneric, Jumbo: true}},
	} {
		t.Run(fmt.Sprintf("%d/%d/%v", c.mtu, c.queues, c.port.Attach), func(t *testing.T) {
			l := newLab(t, lab.Options{MTU: c.mtu, Queues: c.queues})
			c.port.VLAN = 5
			a, b := open(t, l, 0, c.port), open(t, l, 1, c.port)
			if want := c.mtu + arctic.EthernetSize - 4; a.FrameSize() != want {
				t.Errorf("frames of %d bytes, want %d", a.FrameSize(), want)
			}
			exchange(t, a, b, mixture(a, 60), 1)
			exchange(t, b, a, mixture(b, 200), 20)
		})
	}
}

// Rule: the tag is on the wire, with its number, in front of what the card composed.
func TestTagOnTheWire(t *testing.T) {
	l := newLab(t, lab.Options{})
	a := open(t, l, 0, Config{Attach: xdp.AttachGeneric, VLAN: 77})
	var fd int
	if err := l.Do(1, func() error {
		ifc, err := net.InterfaceByName(l.Hosts()[1].Interfaces[0].Name)
		if err != nil {
			return err
		}
		all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return err
		}
		return errors.Join(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: ifc.Index}),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO,
				&unix.Timeval{Sec: int64(patience / time.Second)}))
	}); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	frame := a.Reserve()[:200]
	for i := range frame {
		frame[i] = byte(i)
	}
	copy(frame, l.Hosts()[1].Interfaces[0].MAC)
	binary.BigEndian.PutUint16(frame[12:], arctic.EtherType)
	want := append([]byte{}, frame...)
	a.Commit(len(frame))
	a.Flush()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		got, control := make([]byte, 2000), make([]byte, 200)
		n, controls, _, _, err := unix.Recvmsg(fd, got, control, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n < 14 || binary.BigEndian.Uint16(got[12:]) != arctic.EtherType {
			continue // the kernel's own
		}
		// The kernel has taken the tag out (packet(7)).
		messages, err := unix.ParseSocketControlMessage(control[:controls])
		if err != nil || len(messages) != 1 || len(messages[0].Data) < int(unsafe.Sizeof(unix.TpacketAuxdata{})) {
			t.Fatalf("%d messages beside the frame, %v", len(messages), err)
		}
		aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&messages[0].Data[0]))
		if aux.Status&unix.TP_STATUS_VLAN_VALID == 0 || aux.Vlan_tci != 77 || aux.Vlan_tpid != etherVLAN ||
			string(got[:n]) != string(want) {
			t.Errorf("status %#x, tag %d of %#x, %d bytes", aux.Status, aux.Vlan_tci, aux.Vlan_tpid, n)
		}
		return
	}
	t.Fatal("the frame was not seen")
}

// Rule: frames of another VLAN, and those without, are not let in, whoever sends them, and are the
// kernel's.
func TestOtherVLAN(t *testing.T) {
	for _, c := range [][2]uint16{{5, 6}, {5, 0}, {0, 5}} {
		l := newLab(t, lab.Options{})
		a, b := open(t, l, 0, Config{Attach: xdp.AttachGeneric, VLAN: c[0]}),
			open(t, l, 1, Config{Attach: xdp.AttachGeneric, VLAN: c[1]})
		before, err := b.NIC().Counters()
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint32(3) {
			send(t, a, b, i, 200)
			a.Flush()
		}
		lent := make([][]byte, maxLent)
		for deadline := time.Now().Add(patience); ; {
			if n := b.Receive(lent); n > 0 {
				t.Fatalf("VLAN %d gets frames of VLAN %d", c[1], c[0])
			}
			now, err := b.NIC().Counters()
			if err != nil {
				t.Fatal(err)
			}
			if now.Redirected != before.Redirected {
				t.Fatalf("VLAN %d lets in frames of VLAN %d", c[1], c[0])
			}
			if now.Pass >= before.Pass+3 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("counters %+v, before %+v", now, before)
			}
		}
	}
}

// Rule: what cannot be is refused, with what to do.
func TestVLANRefused(t *testing.T) {
	l := newLab(t, lab.Options{})
	if _, err := tryOpen(l, 0, Config{VLAN: 4095}); !errors.Is(err, bpf.ErrRange) {
		t.Errorf("VLAN 4095: %v", err)
	}
	if _, err := tryOpen(l, 0, Config{VLAN: 5, UDP: datagrams(l, 0)}); !errors.Is(err, ErrVLAN) {
		t.Errorf("with datagrams: %v", err)
	}
	small := newLab(t, lab.Options{MTU: arctic.MinMTU + 3})
	if _, err := tryOpen(small, 0, Config{VLAN: 5}); !errors.Is(err, ErrMTU) {
		t.Errorf("on an interface with MTU %d: %v", arctic.MinMTU+3, err)
	}
}
