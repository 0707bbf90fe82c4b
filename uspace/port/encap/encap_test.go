package encap

// This file tests the outer headers against gopacket's encoder and decoder, which know IP and UDP
// independently, and against damage.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

var (
	ours   = [6]byte{2, 0, 0, 0, 0, 1}
	router = [6]byte{2, 0, 0, 0, 0, 2}
)

// families are two hosts each.
var families = map[string][2]netip.Addr{
	"IPv4": {netip.MustParseAddr("198.18.1.1"), netip.MustParseAddr("198.18.2.1")},
	"IPv6": {netip.MustParseAddr("2001:2:0:1::1"), netip.MustParseAddr("2001:2:0:2::1")},
}

// path is the way from the first host of a family to the second, or back.
func path(t testing.TB, hosts [2]netip.Addr, vlan uint16, mtu int) *Path {
	t.Helper()
	p, err := NewPath(Route{Source: hosts[0], Destination: hosts[1], From: ours, To: router, VLAN: vlan,
		Port: DefaultPort, MTU: mtu})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// frame makes a frame of n bytes from card 1 to card 2, in a buffer with room.
func frame(n int, level arctic.Level, fill byte) []byte {
	b := bytes.Repeat([]byte{fill}, Room+n+20)
	h := arctic.Header{To: Address(2), From: Address(1), Level: level, GID: 5, SourceCard: 1, DestinationCard: 2,
		Sequence: uint32(n)}
	if n >= arctic.HeaderSize {
		h.Encode(b[Room:])
	}
	for i := range n - arctic.HeaderSize {
		b[Room+arctic.HeaderSize+i] = fill + byte(i*i)
	}
	return b
}

// Rule: a wrapped frame is a datagram that others understand: Ethernet, IP and UDP. Ethernet may
// have a VLAN tag. IP has correct lengths and header checksum, and no fragmentation. UDP has a
// correct checksum that is never 0, and the frame behind its EtherType as payload. Unwrapped, it is
// the frame again, of the right card.
func TestWrapAndUnwrap(t *testing.T) {
	for family, hosts := range families {
		rapid.Check(t, func(t *rapid.T) {
			vlan := rapid.SampledFrom([]uint16{0, 1, 4094}).Draw(t, "vlan")
			n := rapid.IntRange(arctic.HeaderSize, 3000).Draw(t, "bytes")
			level := arctic.Level(rapid.IntRange(0, 1).Draw(t, "level"))
			r := Route{Source: hosts[0], Destination: hosts[1], From: ours, To: router, VLAN: vlan,
				Port: DefaultPort, MTU: 9000}
			p, err := NewPath(r)
			if err != nil {
				t.Fatal(err)
			}
			b := frame(n, level, rapid.Byte().Draw(t, "fill"))
			want := bytes.Clone(b[Room : Room+n])
			start, end, ok := p.Wrap(b, n)
			if !ok || end != Room+n || start < 0 {
				t.Fatalf("wrapped to %d..%d, %v", start, end, ok)
			}
			out := b[start:end]
			checkDatagram(t, family, out, vlan, want[ethernetSize:])
			table := NewTable(DefaultPort, []Entry{{Peer{1, hosts[0]}, nil}})
			got, ok := table.Unwrap(out)
			if !ok || !bytes.Equal(got, want) {
				t.Fatalf("unwrapped (%v) is\n%x, want\n%x", ok, got, want)
			}
		})
	}
}

// checkDatagram decodes a datagram with gopacket, and has it encoded again.
func checkDatagram(t *rapid.T, family string, b []byte, vlan uint16, payload []byte) {
	packet := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
	if e := packet.ErrorLayer(); e != nil {
		t.Fatal(e.Error())
	}
	var again []gopacket.SerializableLayer
	var network gopacket.NetworkLayer
	for _, l := range packet.Layers() {
		switch l := l.(type) {
		case *layers.Ethernet:
			if !bytes.Equal(l.SrcMAC, ours[:]) || !bytes.Equal(l.DstMAC, router[:]) {
				t.Fatalf("Ethernet addresses %v and %v", l.SrcMAC, l.DstMAC)
			}
			again = append(again, l)
		case *layers.Dot1Q:
			if l.VLANIdentifier != vlan || vlan == 0 {
				t.Fatalf("tag of VLAN %d, want %d", l.VLANIdentifier, vlan)
			}
			vlan = 0
			again = append(again, l)
		case *layers.IPv4:
			if l.Flags != layers.IPv4DontFragment || l.FragOffset != 0 || l.TTL != 64 || family != "IPv4" {
				t.Fatalf("%+v", l)
			}
			network = l
			again = append(again, l)
		case *layers.IPv6:
			if l.HopLimit != 64 || family != "IPv6" {
				t.Fatalf("%+v", l)
			}
			network = l
			again = append(again, l)
		case *layers.UDP:
			if l.DstPort != DefaultPort || l.SrcPort < DefaultPort || l.SrcPort >= DefaultPort+Sources ||
				l.Checksum == 0 {
				t.Fatalf("%+v", l)
			}
			if err := l.SetNetworkLayerForChecksum(network); err != nil {
				t.Fatal(err)
			}
			again = append(again, l)
		}
	}
	if vlan != 0 {
		t.Fatalf("no tag of VLAN %d", vlan)
	}
	again = append(again, gopacket.Payload(payload))
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		again...); err != nil {
		t.Fatal(err)
	}
	want := buffer.Bytes()
	// gopacket leaves a checksum that comes out as 0; as 0xffff it is the same and said.
	if !bytes.Equal(b, want) {
		t.Fatalf("datagram\n%x, others make\n%x", b, want)
	}
}

// Rule (RFC 768): a checksum that comes out as 0 is sent as 0xffff, which is the same; and it is
// taken.
func TestChecksumZero(t *testing.T) {
	for family, hosts := range families {
		p := path(t, hosts, 0, 1500)
		seen := false
		for v := range 1 << 16 {
			b := frame(arctic.HeaderSize+2, arctic.Request, 0)
			binary.LittleEndian.PutUint16(b[Room+arctic.HeaderSize:], uint16(v))
			start, end, _ := p.Wrap(b, arctic.HeaderSize+2)
			sent := binary.BigEndian.Uint16(b[p.udp+6:])
			if sent == 0 {
				t.Fatalf("%s: word %#x: no checksum", family, v)
			}
			seen = seen || sent == 0xffff
			if _, ok := NewTable(DefaultPort, []Entry{{Peer{1, hosts[0]}, nil}}).Unwrap(b[start:end]); !ok {
				t.Fatalf("%s: word %#x: checksum %#x is refused", family, v, sent)
			}
		}
		if !seen {
			t.Errorf("%s: no checksum came out as 0", family)
		}
	}
}

// Rule: frames of one series of sequence numbers have one source port; series are spread over the
// ports.
func TestSourcePorts(t *testing.T) {
	p := path(t, families["IPv4"], 0, 1500)
	ports := map[uint16]int{}
	for card := range 16 {
		for to := range 16 {
			for level := range 2 {
				var first uint16
				for i := range 5 {
					b := frame(100+i, arctic.Level(level), byte(i))
					binary.LittleEndian.PutUint16(b[Room+sourceCardOffset:], uint16(card))
					binary.LittleEndian.PutUint16(b[Room+destinationOffset:], uint16(to))
					binary.LittleEndian.PutUint16(b[Room+18:], uint16(i)) // GID
					start, _, _ := p.Wrap(b, 100+i)
					port := binary.BigEndian.Uint16(b[start+34:])
					if i == 0 {
						first = port
						ports[port]++
					} else if port != first {
						t.Fatalf("frames of one flow from ports %d and %d", first, port)
					}
				}
			}
		}
	}
	for i := range uint16(Sources) {
		if n := ports[DefaultPort+i]; n < 16 || n > 64 { // 32 on average
			t.Errorf("%d of 512 flows from port %d", n, DefaultPort+i)
		}
	}
	if len(ports) != Sources {
		t.Errorf("%d ports, want %d", len(ports), Sources)
	}
}

// Rule: a frame of a card that did not come from that card's address gets the source address of
// nobody, which no card has; whatever it says.
func TestStrangers(t *testing.T) {
	for family, hosts := range families {
		other := hosts[0].Next()
		table := NewTable(DefaultPort, []Entry{{Peer{1, hosts[0]}, nil}, {Peer{3, other}, nil}})
		for _, c := range []struct {
			card uint16
			from netip.Addr
			want [6]byte
		}{
			{1, hosts[0], Address(1)}, {3, other, Address(3)},
			{1, other, Nobody}, {3, hosts[0], Nobody}, {1, hosts[1], Nobody},
			{0, hosts[0], Nobody}, {2, hosts[0], Nobody}, {4, hosts[0], Nobody}, {65535, hosts[0], Nobody},
		} {
			p := path(t, [2]netip.Addr{c.from, hosts[1]}, 0, 1500)
			b := frame(200, arctic.Reply, 1)
			binary.LittleEndian.PutUint16(b[Room+sourceCardOffset:], c.card)
			start, end, _ := p.Wrap(b, 200)
			got, ok := table.Unwrap(b[start:end])
			if !ok || [6]byte(got[6:12]) != c.want {
				t.Errorf("%s: card %d from %v: source %x (%v), want %x", family, c.card, c.from, got[6:12], ok, c.want)
			}
		}
	}
	// An IPv6 address that ends as an IPv4 one begins nothing of its.
	four := families["IPv4"]
	six := netip.MustParseAddr("2001:2::ffff:c612:0101")
	b := frame(200, arctic.Request, 1)
	start, end, _ := path(t, [2]netip.Addr{six, families["IPv6"][1]}, 0, 1500).Wrap(b, 200)
	if got, ok := NewTable(DefaultPort, []Entry{{Peer{1, four[0]}, nil}}).Unwrap(b[start:end]); !ok ||
		[6]byte(got[6:12]) != Nobody {
		t.Errorf("IPv6's like IPv4's: %x", got[6:12])
	}
}

// Rule: every bit of a datagram behind the Ethernet header counts: with one flipped it is dropped,
// is a frame of nobody, or differs in nothing that anybody reads. The header checksum of IPv4 is
// the NIC program's to check, so flips in that header are only harmless here.
func TestDamage(t *testing.T) {
	for family, hosts := range families {
		table := NewTable(DefaultPort, []Entry{{Peer{1, hosts[0]}, nil}})
		p := path(t, hosts, 0, 1500)
		make := func() ([]byte, []byte) {
			b := frame(120, arctic.Request, 9)
			want := bytes.Clone(b[Room : Room+120])
			start, end, _ := p.Wrap(b, 120)
			return b[start:end], want
		}
		good, _ := make()
		for bit := ethernetSize * 8; bit < len(good)*8; bit++ {
			b, want := make()
			b[bit/8] ^= 1 << (bit % 8)
			got, ok := table.Unwrap(b)
			switch {
			case !ok:
			case bit/8 >= len(good)-(120-ethernetSize)-udpSize:
				t.Errorf("%s: bit %d of byte %d flipped, and it was taken", family, bit%8, bit/8)
			case [6]byte(got[6:12]) != Nobody && !bytes.Equal(got, want):
				t.Errorf("%s: bit %d of byte %d flipped, and another frame came of it", family, bit%8, bit/8)
			}
		}
		for n := range len(good) {
			b, _ := make()
			if _, ok := table.Unwrap(b[:n]); ok {
				t.Errorf("%s: cut after %d of %d bytes, and it was taken", family, n, len(good))
			}
		}
		b, want := make()
		if got, ok := table.Unwrap(append(b, bytes.Repeat([]byte{0xaa}, 18)...)); !ok || !bytes.Equal(got, want) {
			t.Errorf("%s: with padding: %v", family, ok)
		}
		b, _ = make()
		binary.BigEndian.PutUint16(b[len(good)-(120-ethernetSize)-2:], 0)
		if _, ok := table.Unwrap(b); ok != (family == "IPv4") {
			t.Errorf("%s: without a UDP checksum it was taken: %v", family, ok)
		}
		if _, ok := NewTable(DefaultPort+1, nil).Unwrap(good); ok {
			t.Errorf("%s: a datagram for another port was taken", family)
		}
	}
}

// Rule: a path takes frames as long as its MTU allows, and leaves longer ones as they are.
func TestLongest(t *testing.T) {
	for family, hosts := range families {
		for _, mtu := range []int{1280, 1500, 9000, 65535, 1 << 20} {
			p := path(t, hosts, 7, mtu)
			n := p.Longest()
			if want := min(mtu-Overhead(hosts[0]), 1<<16-1-Overhead(hosts[0])) + ethernetSize; n != want {
				t.Errorf("%s, MTU %d: longest frame %d bytes, want %d", family, mtu, n, want)
			}
			b := frame(n, arctic.Request, 1)
			b = append(b, 0)
			before := bytes.Clone(b)
			if _, _, ok := p.Wrap(b, n+1); ok || !bytes.Equal(b, before) {
				t.Errorf("%s, MTU %d: a frame of %d bytes was wrapped, or changed", family, mtu, n+1)
			}
			start, end, ok := p.Wrap(b, n)
			if size := end - start - ethernetSize - vlanSize; !ok || size > mtu || size > 65535 {
				t.Errorf("%s, MTU %d: a frame of %d bytes: %v, packet of %d bytes", family, mtu, n, ok, size)
			}
		}
	}
}

// Rule: what cannot be a path is refused by name.
func TestNoPath(t *testing.T) {
	four, six := families["IPv4"], families["IPv6"]
	good := Route{Source: four[0], Destination: four[1], Port: DefaultPort, MTU: 1500}
	for name, change := range map[string]func(*Route){
		"two families": func(r *Route) { r.Source = six[0] },
		"mapped":       func(r *Route) { r.Destination = netip.AddrFrom16(four[1].As16()) },
		"no source":    func(r *Route) { r.Source = netip.Addr{} },
		"port 0":       func(r *Route) { r.Port = 0 },
		"last port":    func(r *Route) { r.Port = MaxPort + 1 },
		"VLAN 4095":    func(r *Route) { r.VLAN = 4095 },
	} {
		r := good
		change(&r)
		if p, err := NewPath(r); !errors.Is(err, ErrPath) || p != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Rule: a frame finds its path by the made-up address of a peer, and by nothing else.
func TestTo(t *testing.T) {
	p := path(t, families["IPv4"], 0, 1500)
	table := NewTable(DefaultPort, []Entry{{Peer{2, families["IPv4"][1]}, p}, {Peer{300, families["IPv4"][0]}, nil}})
	for _, c := range []struct {
		to   [6]byte
		want *Path
	}{{Address(2), p}, {Address(300), nil}, {Address(1), nil}, {Address(301), nil}, {Nobody, nil}, {router, nil},
		{[6]byte{2, 'F', 'U', 0, 0, 2}, nil}} {
		b := make([]byte, 14)
		copy(b, c.to[:])
		if got := table.To(b); got != c.want {
			t.Errorf("to %x: %v", c.to, got)
		}
	}
	if (&Table{}).To(append(addressOf(2), make([]byte, 8)...)) != nil {
		t.Error("a table without peers has a path")
	}
}

func addressOf(card uint16) []byte { a := Address(card); return a[:] }

// Rule (RFC 1071): the sum is that of the definition, for every length and alignment.
func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff, 0x80}), 0, 200).Draw(t, "bytes")
		start := rapid.SampledFrom([]uint64{0, 1, 0xffff, 1<<64 - 1}).Draw(t, "start")
		want := start % 0xffff
		for i := 0; i < len(b); i += 2 {
			w := uint64(b[i])
			if i+1 < len(b) {
				w |= uint64(b[i+1]) << 8
			}
			want = (want + w) % 0xffff
		}
		if got := uint64(fold(sum(start, b))); got%0xffff != want {
			t.Fatalf("sum %#x, want %#x modulo 0xffff", got, want)
		}
	})
	if fold(0) != 0 || fold(sum(0, []byte{0xff, 0xff})) != 0xffff {
		t.Error("0 and all ones are mixed up")
	}
}

// FuzzUnwrap: any bytes are taken or dropped; a frame lies within them, ends with a datagram, and
// has a source that is a peer's or nobody's.
func FuzzUnwrap(f *testing.F) {
	for _, hosts := range families {
		for _, vlan := range []uint16{0, 5} {
			b := frame(100, arctic.Request, 3)
			start, end, _ := path(f, hosts, vlan, 1500).Wrap(b, 100)
			f.Add(b[start:end])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		table := NewTable(DefaultPort, []Entry{{Peer{1, families["IPv4"][0]}, nil},
			{Peer{2, families["IPv6"][0]}, nil}})
		before := bytes.Clone(b)
		got, ok := table.Unwrap(b)
		if !ok {
			if got != nil || !bytes.Equal(b, before) {
				t.Fatal("refused, but changed")
			}
			return
		}
		if len(got) < ethernetSize || len(got) > len(b) || binary.BigEndian.Uint16(got[12:]) != arctic.EtherType {
			t.Fatalf("frame of %d bytes from %d: %x", len(got), len(b), got)
		}
		if from := [6]byte(got[6:12]); from != Nobody && from != Address(1) && from != Address(2) {
			t.Fatalf("from %x", from)
		}
		_, _ = arctic.Parse(got)
	})
}

// Rule: neither way allocates.
func TestNoAllocation(t *testing.T) {
	for family, hosts := range families {
		p := path(t, hosts, 0, 1500)
		table := NewTable(DefaultPort, []Entry{{Peer{1, hosts[0]}, p}})
		b := frame(1000, arctic.Request, 3)
		if n := testing.AllocsPerRun(100, func() {
			start, end, _ := p.Wrap(b, 1000)
			if _, ok := table.Unwrap(b[start:end]); !ok {
				t.Fatal("refused")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", family, n)
		}
	}
}

func BenchmarkWrap(b *testing.B) {
	for family, hosts := range families {
		for _, n := range []int{120, 1472, 3800} {
			b.Run(fmt.Sprintf("%s/%d", family, n), func(b *testing.B) {
				p := path(b, hosts, 0, 9000)
				buffer := frame(n, arctic.Request, 3)
				for b.Loop() {
					p.Wrap(buffer, n)
				}
			})
		}
	}
}

func BenchmarkUnwrap(b *testing.B) {
	for family, hosts := range families {
		for _, n := range []int{120, 1472, 3800} {
			b.Run(fmt.Sprintf("%s/%d", family, n), func(b *testing.B) {
				table := NewTable(DefaultPort, []Entry{{Peer{1, hosts[0]}, nil}})
				buffer := frame(n, arctic.Request, 3)
				start, end, _ := path(b, hosts, 0, 9000).Wrap(buffer, n)
				keep := bytes.Clone(buffer[start:][:Room])
				for b.Loop() {
					copy(buffer[start:], keep)
					table.Unwrap(buffer[start:end])
				}
			})
		}
	}
}

// Rule: a hello chooses its source port itself, among the same as other frames have.
func TestSourceOfHello(t *testing.T) {
	f := make([]byte, 120)
	f[versionOffset] = hello
	for way := range byte(Sources) {
		f[flagsOffset] = way
		for card := range byte(3) {
			f[cardsOffset] = card
			if got := sourceOf(f); got != uint16(way) {
				t.Errorf("way %d of card %d: source port %d above the first", way, card, got)
			}
		}
	}
	f[flagsOffset] = 0xff
	if got := sourceOf(f); got >= Sources {
		t.Errorf("source port %d above the first", got)
	}
}
