package arctic_test

// This file makes the frames that the tests use and takes them apart again.

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// packet is a packet with its payload, decoded.
type packet struct {
	Header  arctic.PacketHeader
	Payload []byte
}

// frame is all that a frame says, decoded.
type frame struct {
	Header  arctic.Header
	Rejects []arctic.Reject
	Packets []packet
	Block   []byte // nil: none
	// Greeting is the greeting that a hello carries, with its authentication.
	Greeting arctic.Greeting
	MAC      [arctic.MACSize]byte
}

// compose writes f with the package's encoders.
func compose(f frame) []byte {
	size := arctic.HeaderSize + len(f.Rejects)*arctic.RejectSize
	for _, p := range f.Packets {
		size += arctic.PacketHeaderSize + len(p.Payload)
	}
	if f.Header.Hello {
		size += arctic.GreetingSize
	}
	b := make([]byte, size+len(f.Block))
	f.Header.Encode(b)
	n := arctic.HeaderSize
	if f.Header.Hello {
		n = arctic.PutGreeting(b, &f.Greeting)
		_, _, mac := arctic.GreetingMAC(b)
		copy(mac, f.MAC[:])
	}
	for _, r := range f.Rejects {
		n = arctic.PutReject(b, n, r)
	}
	wire := make([]byte, 0, 256)
	for _, p := range f.Packets {
		wire = append(wire[:arctic.PacketHeaderSize], p.Payload...)
		p.Header.Encode(wire)
		n = arctic.PutPacket(b, n, wire)
	}
	if f.Block != nil {
		n = arctic.PutBlock(b, n, f.Block)
	}
	arctic.Seal(b, n)
	return b
}

// takeApart reads an accepted frame with every accessor of the package.
func takeApart(f arctic.Frame) frame {
	d := frame{Header: f.Header(), Block: f.Block()}
	if f.Hello() {
		f.Greeting(&d.Greeting)
		_, _, mac := arctic.GreetingMAC(f)
		d.MAC = [arctic.MACSize]byte(mac)
	}
	for i := range f.Rejects() {
		d.Rejects = append(d.Rejects, f.Reject(i))
	}
	train := f.Train()
	for range f.Packets() {
		var p arctic.Packet
		p, train = arctic.Next(train)
		d.Packets = append(d.Packets, packet{Header: p.Header(), Payload: p.Payload()})
	}
	return d
}

// train returns a request frame of count packets of the given payload words.
func train(count, words int) frame {
	f := frame{Header: arctic.Header{GID: 5, Route: 9, Sequence: 77}}
	if count > 0 {
		f.Header.Tag = 0x0102030405060708
	}
	for i := range count {
		p := packet{
			Header: arctic.PacketHeader{GID: 5, Route: 9, Length: uint8(words), Type: uint16(i),
				Destination: 3, Source: 2},
			Payload: make([]byte, words*arctic.WordSize),
		}
		for j := range p.Payload {
			p.Payload[j] = byte(i + j)
		}
		f.Packets = append(f.Packets, p)
	}
	return f
}

// blockFrame returns a request frame of a packet of form Block and size bytes of block.
func blockFrame(size int) frame {
	f := train(1, 1)
	f.Packets[0].Header.Kind = arctic.KindTransfer
	arctic.PutTransfer(f.Packets[0].Payload, &arctic.Transfer{Form: arctic.Block, Address: 0x1230})
	f.Block = make([]byte, size)
	for i := range f.Block {
		f.Block[i] = byte(i * 7)
	}
	return f
}

// remoteBlockFrame returns a request frame of a remote write with size bytes of block.
func remoteBlockFrame(size int) frame {
	b, x := blockFrame(size), &arctic.Remote{Block: true, Counted: true, Area: 3, Key: 1 << 40, Offset: 5, Delta: 1}
	p := &b.Packets[0]
	p.Payload = make([]byte, 20)
	p.Header.Kind, p.Header.Length, p.Header.Type = arctic.KindRemote, uint8(arctic.PutRemote(p.Payload, x)), x.Type()
	return b
}

// setChecksum writes the checksum that doc.go asks for, CRC-32C of bytes 14..75
// and 80..end, where the length field of b gives end. It is written apart
// from Seal, and leaves b alone if there is no such range.
func setChecksum(b []byte) {
	if len(b) < 80 {
		return
	}
	end := 14 + int(binary.LittleEndian.Uint16(b[16:]))
	if end < 80 || end > len(b) {
		return
	}
	covered := append(append([]byte(nil), b[14:76]...), b[80:end]...)
	binary.LittleEndian.PutUint32(b[76:], crc32.Checksum(covered, crc32.MakeTable(crc32.Castagnoli)))
}

// resize makes b end at n, zeroes where it grows, and says so in the length field.
func resize(b []byte, n int) []byte {
	b = append(b, make([]byte, max(0, n-len(b)))...)[:n]
	binary.LittleEndian.PutUint16(b[16:], uint16(n-14))
	return b
}

// mustParse returns the frame in b, which the format allows.
func mustParse(t testing.TB, b []byte) arctic.Frame {
	t.Helper()
	f, err := arctic.Parse(b)
	if err != nil {
		t.Fatalf("Parse refused a frame that doc.go allows: %v\n% x", err, b)
	}
	return f
}

// same fails the test unless got says what want says.
func same(t interface {
	Helper()
	Fatalf(string, ...any)
}, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// drawPacketHeader draws any packet header that a frame may carry: all fields over
// all of their values.
func drawPacketHeader(t *rapid.T) arctic.PacketHeader {
	return arctic.PacketHeader{
		Level:       arctic.Level(rapid.IntRange(0, 1).Draw(t, "level")),
		Kind:        arctic.Kind(rapid.IntRange(0, arctic.Kinds-1).Draw(t, "kind")),
		Route:       rapid.Uint32Range(0, arctic.MaxRoute).Draw(t, "route"),
		GID:         rapid.Uint16Range(0, arctic.MaxGID).Draw(t, "gid"),
		Length:      rapid.Uint8Range(0, arctic.MaxPayloadWords).Draw(t, "length"),
		Type:        rapid.Uint16Range(0, arctic.MaxType).Draw(t, "type"),
		Destination: rapid.Uint16().Draw(t, "destination"),
		Source:      rapid.Uint16().Draw(t, "source"),
	}
}

// drawFrame draws any frame that doc.go allows.
func drawFrame(t *rapid.T) frame {
	var f frame
	h := &f.Header
	copy(h.To[:], rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "to"))
	copy(h.From[:], rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "from"))
	h.Level = arctic.Level(rapid.IntRange(0, 1).Draw(t, "level"))
	h.Hello = rapid.Bool().Draw(t, "hello")
	h.Bye = rapid.Bool().Draw(t, "bye")
	h.GID = rapid.Uint16Range(0, arctic.MaxGID).Draw(t, "gid")
	h.Route = rapid.Uint32Range(0, arctic.MaxRoute).Draw(t, "route")
	h.SourceCard = rapid.Uint16().Draw(t, "source card")
	h.DestinationCard = rapid.Uint16().Draw(t, "destination card")
	h.Epoch = rapid.Uint64().Draw(t, "epoch")
	h.Sequence = rapid.Uint32().Draw(t, "sequence")
	h.Age = rapid.Uint16().Draw(t, "age")
	for level := range h.Acks {
		h.Acks[level] = rapid.Uint32().Draw(t, "ack")
		h.Selective[level] = rapid.Uint64().Draw(t, "selective")
	}
	if h.Hello {
		f.Greeting = arctic.Greeting{
			Nonce: rapid.Uint64Min(1).Draw(t, "nonce"), Echo: rapid.Uint64().Draw(t, "echo"),
			Incarnation: rapid.Uint32Min(1).Draw(t, "incarnation"), Number: rapid.Uint64().Draw(t, "number"),
			Longest: rapid.Uint32().Draw(t, "longest"), Flags: arctic.GreetingFlags(rapid.Uint32().Draw(t, "flags")),
			Key: rapid.Uint32().Draw(t, "key"),
		}
		copy(f.MAC[:], rapid.SliceOfN(rapid.Byte(), arctic.MACSize, arctic.MACSize).Draw(t, "mac"))
		return f
	}
	for range rapid.IntRange(0, arctic.MaxRejects).Draw(t, "rejects") {
		f.Rejects = append(f.Rejects, arctic.Reject{
			Sequence: rapid.Uint32().Draw(t, "reject sequence"),
			Level:    arctic.Level(rapid.IntRange(0, 1).Draw(t, "reject level")),
			Reason:   arctic.Reason(rapid.IntRange(1, int(arctic.ReasonLocal)-1).Draw(t, "reason")),
			Bits:     rapid.Uint64().Draw(t, "bits"),
		})
	}
	h.Defer = !h.Bye && len(f.Rejects) == 0 && rapid.Bool().Draw(t, "defer")
	tag := rapid.Uint64().Draw(t, "tag")
	first := drawPacketHeader(t)
	if rapid.Bool().Draw(t, "block") {
		h.Tag = tag
		size := arctic.TransferAlign * rapid.IntRange(1, 100).Draw(t, "quads")
		if rapid.Bool().Draw(t, "remote") {
			b := remoteBlockFrame(size)
			f.Packets, f.Block = b.Packets, rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "data")
			p := &f.Packets[0]
			first.Level, first.GID, first.Route, first.Kind, first.Length = h.Level, h.GID, h.Route,
				arctic.KindRemote, 5
			first.Type |= p.Header.Type
			p.Header, p.Payload = first, rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "payload")
			return f
		}
		b := blockFrame(size)
		f.Packets, f.Block = b.Packets, rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "data")
		p := &f.Packets[0]
		first.Level, first.GID, first.Route, first.Kind, first.Length = h.Level, h.GID, h.Route, arctic.KindTransfer, 1
		p.Header = first
		binary.LittleEndian.PutUint32(p.Payload, rapid.Uint32().Draw(t, "word")|uint32(arctic.Block))
		return f
	}
	for range rapid.IntRange(0, arctic.MaxTrain).Draw(t, "packets") {
		h.Tag = tag
		p := packet{Header: first}
		p.Header.Level, p.Header.GID, p.Header.Route = h.Level, h.GID, h.Route
		p.Header.Kind = arctic.Kind(rapid.IntRange(0, arctic.Kinds-1).Draw(t, "kind"))
		p.Header.Type = rapid.Uint16Range(0, arctic.MaxType).Draw(t, "type")
		p.Header.Length = rapid.Uint8Range(0, arctic.MaxPayloadWords).Draw(t, "length")
		size := int(p.Header.Length) * arctic.WordSize
		p.Payload = rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "payload")
		f.Packets = append(f.Packets, p)
	}
	return f
}
