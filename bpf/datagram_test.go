// This file tests the program for UDP datagrams: both sides of every edge of the second rule in
// doc.go, refusals above all, and random datagrams against a second statement of the rule in Go.

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const udpPort = 30600

var (
	own4   = netip.MustParseAddr("198.18.1.2")
	own6   = netip.MustParseAddr("2001:2::2")
	other4 = netip.MustParseAddr("198.18.1.3")
	other6 = netip.MustParseAddr("2001:2::3")
)

// datagram describes what makeDatagram puts in front of FUNet's header, and where.
type datagram struct {
	bytes        []byte
	ip, udp, fun int // offsets: fun is that of the version
}

// makeDatagram wraps a frame of makeFrame, from the version on, as the program wants it: with the
// given tags (TCIs), over the IP of the destination.
func makeDatagram(frame []byte, to netip.Addr, tags ...uint16) *datagram {
	d := &datagram{}
	b := append([]byte{}, frame[:offsetEtherType]...)
	for _, tci := range tags {
		b = binary.BigEndian.AppendUint16(b, 0x8100)
		b = binary.BigEndian.AppendUint16(b, tci)
	}
	payload := frame[min(len(frame), offsetVersion):]
	n := 8 + len(payload)
	if to.Is4() {
		b = binary.BigEndian.AppendUint16(b, 0x0800)
		d.ip = len(b)
		b = append(b, 0x45, 0, byte((20+n)>>8), byte(20+n), 0, 0, 0x40, 0, 64, 17, 0, 0)
		b = append(b, 198, 18, 0, 1)
	} else {
		b = binary.BigEndian.AppendUint16(b, 0x86dd)
		d.ip = len(b)
		b = append(b, 0x60, 0, 0, 0, byte(n>>8), byte(n), 17, 64)
		from := netip.MustParseAddr("2001:2::1").As16()
		b = append(b, from[:]...)
	}
	b = append(b, to.AsSlice()...)
	d.udp = len(b)
	b = append(b, 0x77, 0x89, udpPort>>8, udpPort&0xff, byte(n>>8), byte(n), 0x12, 0x34)
	d.fun = len(b)
	d.bytes = append(b, payload...)
	d.seal()
	return d
}

// seal writes the header checksum of IPv4.
func (d *datagram) seal() {
	ip := d.bytes[d.ip:d.udp]
	if ip[0]>>4 != 4 {
		return
	}
	ip[10], ip[11] = 0, 0
	sum := 0
	for i := 0; i < 20; i += 2 {
		sum += int(ip[i])<<8 | int(ip[i+1])
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
}

// change changes the datagram and seals it again.
func (d *datagram) change(f func(d *datagram)) []byte {
	f(d)
	d.seal()
	return d.bytes
}

// put16 writes a field in network order; resulting datagrams differ in it alone.
func put16(at func(*datagram) int, v uint16) func(*datagram) {
	return func(d *datagram) { binary.BigEndian.PutUint16(d.bytes[at(d):], v) }
}

func inIP(offset int) func(*datagram) int  { return func(d *datagram) int { return d.ip + offset } }
func inUDP(offset int) func(*datagram) int { return func(d *datagram) int { return d.udp + offset } }

func put8(at func(*datagram) int, v byte) func(*datagram) {
	return func(d *datagram) { d.bytes[at(d)] = v }
}

// loadUDP loads the program for datagrams to the own addresses.
func loadUDP(t testing.TB, vlan uint16, frags bool) *NIC {
	t.Helper()
	n := load(t, Load{Queues: 1, UDPPort: udpPort, VLAN: vlan, Frags: frags}, 0)
	if err := n.SetAddresses([]netip.Addr{own4, own6}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDatagrams: what FUNet sends arrives, over IPv4 and IPv6, without and with one tag; all
// else is left to the kernel; and behind UDP FUNet's header is judged as behind an EtherType.
func TestDatagrams(t *testing.T) {
	for _, frags := range []bool{false, true} {
		n := loadUDP(t, 0, frags)
		for _, to := range []netip.Addr{own4, own6} {
			stranger := map[bool]netip.Addr{true: other4, false: other6}[to.Is4()]
			good := func(size int, changes ...func([]byte)) *datagram {
				return makeDatagram(makeFrame(size, changes...), to)
			}
			is := func(f func(*datagram)) []byte { return good(200).change(f) }
			// not sealed again
			raw := func(f func(*datagram)) []byte { d := good(200); f(d); return d.bytes }
			type row struct {
				name  string
				frame []byte
				want  Counters
			}
			rows := []row{
				{"ours", good(200).bytes, redirected},
				{"ours without packets", good(80).bytes, redirected},
				{"ours with Ethernet's padding", append(good(80).bytes, make([]byte, 30)...), redirected},
				{"greatest GID", good(200, gid(2047)).bytes, redirected},
				{"any source port", is(put16(inUDP(0), 1)), redirected},
				{"a tag with a priority only", makeDatagram(makeFrame(200), to, 0xe000).bytes, redirected},

				{"a VLAN", makeDatagram(makeFrame(200), to, 5).bytes, pass},
				{"two tags", makeDatagram(makeFrame(200), to, 0, 0).bytes, pass},
				{"FUNet's EtherType", makeFrame(200), pass},
				{"to another address", makeDatagram(makeFrame(200), stranger).bytes, pass},
				{"port one less", is(put16(inUDP(2), udpPort-1)), pass},
				{"port one more", is(put16(inUDP(2), udpPort+1)), pass},
				{"port in the wrong byte order", is(put16(inUDP(2), udpPort>>8|udpPort<<8&0xff00)), pass},
				{"from the port only", is(func(d *datagram) {
					put16(inUDP(0), udpPort)(d)
					put16(inUDP(2), 53)(d)
				}), pass},
				{"UDP length one less", is(put16(inUDP(4), 193)), pass},
				{"UDP length one more", is(put16(inUDP(4), 195)), pass},
				{"UDP length 0", is(put16(inUDP(4), 0)), pass},

				{"IP of another version", raw(put8(inIP(0), 0x55)), pass},
				{"version 1", good(200, version(1)).bytes, badVersion},
				{"length 65", good(200, length(65)).bytes, badLength},
				{"length exactly the datagram", good(200, length(186)).bytes, redirected},
				{"length one beyond the datagram", good(200, length(187)).bytes, badLength},
				{"length one beyond the datagram, within the frame",
					append(good(200, length(187)).bytes, 0, 0), badLength},
				{"GID 2048", good(200, gid(2048)).bytes, badGID},
				{"somebody else's text", good(200, func(f []byte) { copy(f[offsetVersion:], "GET / HTTP/1.1") }).bytes,
					badVersion},
				{"a frame filled up with one zero", good(200, length(185), behind(185, 0)).bytes, redirected},
				{"a frame filled up with zeroes", good(280, length(126), behind(126, 0)).bytes, redirected},
				{"one filled up, of a foreign group", good(280, length(126), behind(126, 0), gid(foreignGroup)).bytes,
					foreign},
				{"two frames", good(280, length(126), behind(126, Version)).bytes, merged},
				{"a frame and the first byte of another", good(200, length(185), behind(185, Version)).bytes, merged},
				{"a frame and a direct one", good(280, length(126), behind(126, VersionDirect)).bytes, merged},
				{"a frame and a hello", good(280, length(126), behind(126, 255)).bytes, merged},
				{"two of a foreign group", good(280, length(126), behind(126, Version), gid(foreignGroup)).bytes,
					merged},
				{"a hello and more", good(200, version(255), length(66)).bytes, redirected},
				{"foreign group", good(200, gid(foreignGroup)).bytes, foreign},
				{"79 bytes of a frame", good(79).bytes, short},
				{"79 bytes of a frame and padding", append(good(79).bytes, make([]byte, 30)...), short},
				{"an empty datagram", good(14).bytes, short},
			}
			for cut := 14; cut < good(80).fun; cut++ {
				rows = append(rows, row{fmt.Sprintf("cut after %d bytes", cut), good(80).bytes[:cut], pass})
			}
			for cut := good(80).fun; cut < len(good(80).bytes); cut++ {
				// IP says that there is more than the frame has.
				rows = append(rows, row{fmt.Sprintf("cut after %d bytes", cut), good(80).bytes[:cut], pass})
			}
			if to.Is4() {
				total := 20 + 8 + 186
				rows = append(rows, []row{
					{"no UDP checksum", is(put16(inUDP(6), 0)), redirected},
					{"service, id, ttl and do-not-fragment as anybody likes", is(func(d *datagram) {
						put8(inIP(1), 0xff)(d)
						put16(inIP(4), 0xffff)(d)
						put16(inIP(6), 0)(d)
						put8(inIP(8), 1)(d)
					}), redirected},
					{"TCP", is(put8(inIP(9), 6)), pass},
					{"more fragments", is(put16(inIP(6), 0x2000)), pass},
					{"a fragment", is(put16(inIP(6), 0x0001)), pass},
					{"a late fragment", is(put16(inIP(6), 0x1000)), pass},
					{"a reserved bit", is(put16(inIP(6), 0x8000)), pass},
					{"length one beyond the frame", is(func(d *datagram) {
						put16(inIP(2), uint16(total+1))(d)
						put16(inUDP(4), 195)(d)
					}), pass},
					{"length of the header", is(put16(inIP(2), 20)), pass},
					{"length below the header's, UDP's alike",
						is(func(d *datagram) { put16(inIP(2), 12)(d); put16(inUDP(4), 0xfff8)(d) }), pass},
					{"length 27", is(func(d *datagram) { put16(inIP(2), 27)(d); put16(inUDP(4), 7)(d) }), pass},
					{"header of four words", raw(func(d *datagram) { put8(inIP(0), 0x44)(d) }), pass},
					{"options", func() []byte {
						d := good(200)
						d.bytes = slices.Insert(d.bytes, d.udp, 1, 1, 1, 0)
						d.bytes[d.ip] = 0x46
						binary.BigEndian.PutUint16(d.bytes[d.ip+2:], uint16(total+4))
						return d.bytes
					}(), pass},
					{"IPv6 in an IPv4 frame", is(put16(inIP(-2), 0x86dd)), pass},
				}...)
				for bit := range 160 {
					rows = append(rows, row{fmt.Sprintf("damaged in bit %d", bit),
						raw(func(d *datagram) { d.bytes[d.ip+bit/8] ^= 1 << (bit % 8) }), pass})
				}
			} else {
				rows = append(rows, []row{
					{"no UDP checksum", is(put16(inUDP(6), 0)), pass},
					{"class, flow and hop limit as anybody likes", is(func(d *datagram) {
						put8(inIP(0), 0x6f)(d)
						put8(inIP(1), 0xff)(d)
						put16(inIP(2), 0xffff)(d)
						put8(inIP(7), 1)(d)
					}), redirected},
					{"TCP", is(put8(inIP(6), 6)), pass},
					{"an extension header", is(put8(inIP(6), 0)), pass},
					{"a fragment", is(put8(inIP(6), 44)), pass},
					{"length one beyond the frame", is(func(d *datagram) {
						put16(inIP(4), 195)(d)
						put16(inUDP(4), 195)(d)
					}), pass},
					{"length 7", is(func(d *datagram) { put16(inIP(4), 7)(d); put16(inUDP(4), 7)(d) }), pass},
					{"a jumbogram", is(func(d *datagram) { put16(inIP(4), 0)(d); put16(inUDP(4), 0)(d) }), pass},
					{"IPv4 in an IPv6 frame", is(put16(inIP(-2), 0x0800)), pass},
				}...)
			}
			if frags { // the second frame is not in the first buffer
				rows = append(rows, []row{
					{"a long frame filled up with zeroes", good(9000, length(5000), behind(5000, 0)).bytes, redirected},
					{"two long frames", good(9000, length(5000), behind(5000, Version)).bytes, merged},
				}...)
			}
			for _, r := range rows {
				if err := runUDP(n, r.frame, r.want); err != nil {
					t.Errorf("to %v, frags %v: %s: %v", to, frags, r.name, err)
				}
			}
		}
	}
}

// TestDatagramsOfVLAN: with a VLAN, only datagrams of that one are FUNet's.
func TestDatagramsOfVLAN(t *testing.T) {
	n := loadUDP(t, 7, false)
	for _, to := range []netip.Addr{own4, own6} {
		for name, c := range map[string]struct {
			tags []uint16
			want Counters
		}{
			"its tag":              {[]uint16{7}, redirected},
			"its tag and priority": {[]uint16{0xf007}, redirected},
			"no tag":               {nil, pass},
			"another tag":          {[]uint16{8}, pass},
			"a priority only":      {[]uint16{0xe000}, pass},
			"its tag within":       {[]uint16{8, 7}, pass},
			"its tag outside":      {[]uint16{7, 8}, pass},
		} {
			if err := run(n, makeDatagram(makeFrame(200), to, c.tags...).bytes, c.want, nil); err != nil {
				t.Errorf("to %v: %s: %v", to, name, err)
			}
		}
	}
}

// TestFramesOfVLAN: with a VLAN, only frames of that one are FUNet's, and are judged behind the tag
// as they are without.
func TestFramesOfVLAN(t *testing.T) {
	n := load(t, Load{Queues: 1, VLAN: 5}, 0)
	other, priority, none := tagged(makeFrame(200)), tagged(makeFrame(200)), tagged(makeFrame(200))
	other[15], priority[14], none[15] = 6, 0xe0, 0
	for name, c := range map[string]struct {
		frame []byte
		want  Counters
	}{
		"its tag":              {tagged(makeFrame(200)), redirected},
		"its tag and priority": {priority, redirected},
		"the shortest":         {tagged(makeFrame(FrameMin)), redirected},
		"no tag":               {makeFrame(200), pass},
		"another tag":          {other, pass},
		"a priority only":      {none, pass},
		"its tag twice":        {tagged(tagged(makeFrame(200))), pass},
		"IPv4":                 {tagged(makeFrame(200, etherType(0x0800))), pass},
		"too short":            {tagged(makeFrame(FrameMin - 1)), short},
		"another version":      {tagged(makeFrame(200, version(1))), badVersion},
		"longer than it is":    {tagged(makeFrame(200, length(187))), badLength},
		"a foreign group":      {tagged(makeFrame(200, gid(foreignGroup))), foreign},
	} {
		if err := run(n, c.frame, c.want, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDatagramsWithoutUDP: a program that was not loaded for datagrams leaves them to the kernel.
func TestDatagramsWithoutUDP(t *testing.T) {
	n := loadNIC(t, 1, 0)
	if err := n.SetAddresses([]netip.Addr{own4, own6}); err != nil {
		t.Fatal(err)
	}
	for _, to := range []netip.Addr{own4, own6} {
		if err := run(n, makeDatagram(makeFrame(200), to).bytes, pass, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestSetAddresses: addresses come and go, and too many, or a VLAN that is none, are refused.
func TestSetAddresses(t *testing.T) {
	n := loadUDP(t, 0, false)
	frame := func(to netip.Addr) []byte { return makeDatagram(makeFrame(100), to).bytes }
	for _, step := range []struct {
		set  []netip.Addr
		want map[netip.Addr]Counters
	}{
		{[]netip.Addr{own4}, map[netip.Addr]Counters{own4: redirected, own6: pass, other4: pass}},
		{[]netip.Addr{other4, own4}, map[netip.Addr]Counters{own4: redirected, other4: redirected}},
		{[]netip.Addr{own6}, map[netip.Addr]Counters{own4: pass, other4: pass, own6: redirected}},
		{nil, map[netip.Addr]Counters{own6: pass}},
	} {
		if err := n.SetAddresses(step.set); err != nil {
			t.Fatal(err)
		}
		for to, want := range step.want {
			if err := run(n, frame(to), want, nil); err != nil {
				t.Errorf("with %v, to %v: %v", step.set, to, err)
			}
		}
	}
	if err := n.SetAddresses(make([]netip.Addr, MaxAddresses+1)); !errors.Is(err, ErrRange) {
		t.Errorf("too many addresses: %v", err)
	}
	if _, err := LoadNIC(Load{Queues: 1, UDPPort: udpPort, VLAN: MaxVLAN + 1}); !errors.Is(err, ErrRange) {
		t.Errorf("VLAN %d: %v", MaxVLAN+1, err)
	}
}

// judgeDatagram states the second rule of doc.go again, for the program of loadUDP.
func judgeDatagram(frame []byte, active map[uint16]bool) Counters {
	at := 12
	if binary.BigEndian.Uint16(frame[at:]) == 0x8100 {
		if len(frame) < 18 || binary.BigEndian.Uint16(frame[14:])&0xfff != 0 {
			return pass
		}
		at = 16
	}
	ip := frame[at+2:]
	var udp []byte
	switch kind := binary.BigEndian.Uint16(frame[at:]); {
	case kind == 0x0800 && len(ip) >= 28 && ip[0] == 0x45 && ip[9] == 17 && binary.BigEndian.Uint16(ip[6:])&0xbfff == 0:
		sum, total := 0, int(binary.BigEndian.Uint16(ip[2:]))
		for i := 0; i < 20; i += 2 {
			sum += int(binary.BigEndian.Uint16(ip[i:]))
		}
		if sum%0xffff != 0 || total < 28 || total > len(ip) || netip.AddrFrom4([4]byte(ip[16:20])) != own4 {
			return pass
		}
		udp = ip[20:total]
	case kind == 0x86dd && len(ip) >= 48 && ip[0]>>4 == 6 && ip[6] == 17:
		n := int(binary.BigEndian.Uint16(ip[4:]))
		if n < 8 || n > len(ip)-40 || netip.AddrFrom16([16]byte(ip[24:40])) != own6 || ip[46]|ip[47] == 0 {
			return pass
		}
		udp = ip[40 : 40+n]
	default:
		return pass
	}
	if binary.BigEndian.Uint16(udp[2:]) != udpPort || int(binary.BigEndian.Uint16(udp[4:])) != len(udp) {
		return pass
	}
	inner := binary.BigEndian.AppendUint16(make([]byte, 12, 12+len(udp)), EtherType)
	inner = append(inner, udp[8:]...)
	verdict := judge(inner, active)
	if (verdict == redirected || verdict == foreign) && inner[14] == Version {
		if end := 14 + int(binary.LittleEndian.Uint16(inner[16:])); end < len(inner) &&
			(inner[end] == Version || inner[end] == VersionDirect || inner[end] == 255) {
			return merged
		}
	}
	return verdict
}

// TestRandomDatagrams: on any bytes behind the addresses the program and the oracle agree.
func TestRandomDatagrams(t *testing.T) {
	n := loadUDP(t, 0, false)
	active := map[uint16]bool{homeGroup: true, lastGroup: true}
	seen := map[Counters]int{}
	rapid.Check(t, func(t *rapid.T) {
		for range 50 {
			inner := drawFrame(t)
			if rapid.IntRange(0, 3).Draw(t, "version as it should be") > 0 && len(inner) > offsetVersion {
				inner[offsetVersion] = Version
			}
			if rapid.Bool().Draw(t, "another frame behind") && len(inner) > offsetLength+2 {
				if n := int(binary.LittleEndian.Uint16(inner[offsetLength:])); n > 2 && offsetVersion+n < len(inner) {
					behind(n, rapid.SampledFrom([]uint8{0, 1, Version, VersionDirect, VersionHello}).Draw(t,
						"its version"))(inner)
				}
			}
			var tags []uint16
			if rapid.Bool().Draw(t, "tagged") {
				tags = []uint16{rapid.SampledFrom([]uint16{0, 0, 0x2000, 7}).Draw(t, "tci")}
			}
			d := makeDatagram(inner, rapid.SampledFrom([]netip.Addr{own4, own6, own4, own6, other4, other6}).Draw(t,
				"to"), tags...)
			for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "damages") {
				d.bytes[rapid.IntRange(12, d.fun-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			}
			if rapid.Bool().Draw(t, "sealed again") {
				d.seal()
			}
			frame := d.bytes
			switch rapid.IntRange(0, 9).Draw(t, "tail") {
			case 0:
				frame = frame[:rapid.IntRange(14, len(frame)).Draw(t, "cut")]
			case 1:
				frame = append(frame, make([]byte, rapid.IntRange(0, 40).Draw(t, "padding"))...)
			}
			want := judgeDatagram(frame, active)
			seen[want]++
			if err := runUDP(n, frame, want); err != nil {
				t.Fatalf("%v\nframe %x", err, frame)
			}
		}
	})
	for _, outcome := range []Counters{pass, short, badVersion, badLength, badGID, merged, foreign, redirected} {
		if seen[outcome] == 0 {
			t.Errorf("no random datagram had the outcome %+v: the generator is too narrow", outcome)
		}
	}
}

// BenchmarkDatagram is BenchmarkNIC for datagrams: the time per frame without driver and delivery.
func BenchmarkDatagram(b *testing.B) {
	for name, frame := range map[string][]byte{
		"IPv4": makeDatagram(makeFrame(100), own4).bytes, "IPv6": makeDatagram(makeFrame(100), own6).bytes,
		"others' IPv4": makeDatagram(makeFrame(100), other4).change(put16(inUDP(2), 53)),
	} {
		b.Run(name, func(b *testing.B) {
			_, perRun, err := loadUDP(b, 0, false).Program().Benchmark(frame, b.N, b.ResetTimer)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(perRun.Nanoseconds()), "ns/frame")
		})
	}
}
