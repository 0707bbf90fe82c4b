// This file tests headers that the guard writes, and that the NIC program of the other host takes
// off.

package bpf

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/port/encap"
)

// Rule (guard.c, nic.c): a frame leaves with the headers that a daemon's card writes for that way,
// checksums included (package encap, which is tested against another encoder). It comes out of the
// NIC program at the other host as the process composed it, without addresses. A frame from another
// host's address is a stranger's.
func TestHeadersOfWays(t *testing.T) {
	both(t, func(t *testing.T, b *switchBed) {
		for name, c := range map[string]struct {
			from, to netip.Addr
			vlan     uint16
		}{
			"VLAN": {vlan: 5}, "IPv4": {other4, own4, 0}, "IPv6": {other6, own6, 0}, "IPv4, VLAN": {other4, own4, 5},
			"IPv6, VLAN": {other6, own6, 5},
		} {
			t.Log(name) // no t.Run: its thread is in another namespace
			b.crossOver(t, c.from, c.to, c.vlan)
		}
	})
}

// crossOver sends frames from node here of this host to node away of the other.
func (b *switchBed) crossOver(t *testing.T, from, to netip.Addr, vlan uint16) {
	way, origin := EthernetWay(hostMAC, nicMAC, vlan), EthernetWay(nicMAC, hostMAC, vlan)
	wire := func(frame []byte) []byte { return append(bytes.Clone(way.Head), frame[offsetVersion:]...) }
	l := Load{Queues: 1, VLAN: vlan, Frags: b.generic}
	if to.IsValid() {
		path, err := encap.NewPath(encap.Route{Source: from, Destination: to, From: nicMAC, To: hostMAC, VLAN: vlan,
			Port: udpPort, MTU: 9000})
		if err != nil {
			t.Fatal(err)
		}
		way.Head, way.IPSum, way.UDPSum = path.Headers()
		origin.From, l.UDPPort = from.As16(), udpPort
		wire = func(frame []byte) []byte {
			room := append(make([]byte, encap.Room), frame...)
			start, end, _ := path.Wrap(room, len(frame))
			return room[start:end]
		}
	}
	if err := b.SetPlace(b.job, away, &Place{NIC: b.wire, Longest: 2000, Way: way}); err != nil {
		t.Fatal(err)
	}
	other, err := LoadSwitch(4)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l.Switch = other.Shared()
	nic := load(t, l)
	if to.IsValid() {
		err = nic.SetAddresses([]netip.Addr{to})
	}
	for _, err := range []error{err, other.AddJob(b.job, jobNodes), other.AddPort(b.outer[1], 0, Port{b.job, away, 7}),
		other.SetPlace(b.job, away, &Place{Port: b.outer[1], Longest: 2000}),
		other.SetPlace(b.job, here, &Place{NIC: b.wire, Longest: 2000, Way: origin})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	arrive := func(frame []byte) (out []byte, c Counters, err error) {
		before := counters(t, nic)
		o := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256),
			Context: xdpMD{IngressIfindex: b.wire, DataEnd: uint32(len(frame))}}
		_, err = nic.Program().Run(o)
		return o.DataOut, moved(before, counters(t, nic)), err
	}
	var sent []byte
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(FrameMin, 1500).Draw(t, "size")
		frame := directFrame(size, here, away)
		frame[offsetVersion+1] = rapid.Byte().Draw(t, "flags")
		copy(frame[FrameMin:], rapid.SliceOfN(rapid.Byte(), size-FrameMin, size-FrameMin).Draw(t, "packets"))
		given := bytes.Clone(frame)
		encap.PutSum(given)
		if bad := b.shown(b.outer[0], given, PortCounters{Sent: 1}, wire(frame)); bad != "" {
			t.Fatalf("on the wire (-want +got):\n%s", bad)
		}
		sent = wire(frame)
		out, c, err := arrive(sent)
		if err != nil || c != (Counters{Direct: 1}) || !bytes.Equal(out, frame) {
			t.Fatalf("%+v, %v: arrived is\n%x, want\n%x", c, err, out, frame)
		}
	})
	origin.From[0]++
	if err := other.SetPlace(b.job, here, &Place{NIC: b.wire, Longest: 2000, Way: origin}); err != nil {
		t.Fatal(err)
	}
	if out, c, err := arrive(sent); err != nil || c != (Counters{Stranger: 1}) || !bytes.Equal(out, sent) {
		t.Errorf("from another host: %+v, %v", c, err)
	}
}
