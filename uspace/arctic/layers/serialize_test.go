package layers_test

// This file composes FUNet frames with gopacket.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/gopacket"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/arctic/layers"
)

var fix = gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}

// sample is a layer that composes to a good frame with fix.
func sample() *layers.FUNet {
	header := arctic.PacketHeader{GID: 7, Destination: 3, Source: 2}
	return &layers.FUNet{
		Version: arctic.Version, GID: 7, Tag: 0x1122334455667788,
		Rejects: []arctic.Reject{{Reason: arctic.ReasonQueueFull, Bits: 1}},
		Packets: []layers.Packet{{PacketHeader: header, Payload: []byte("four")}, {PacketHeader: header}},
	}
}

// write composes f behind Ethernet addresses of zeroes, so that Parse can read it.
func write(t testing.TB, f *layers.FUNet, options gopacket.SerializeOptions) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	if err := f.SerializeTo(buffer, options); err != nil {
		t.Fatalf("compose: %v", err)
	}
	b := append(make([]byte, arctic.EthernetSize), buffer.Bytes()...)
	binary.BigEndian.PutUint16(b[12:], arctic.EtherType)
	return b
}

// Rule: with FixLengths and ComputeChecksums a card accepts what is composed,
// whatever the lengths, counts and checksum were before, and they are set to
// what is on the wire (gopacket.SerializeOptions, doc.go).
func TestSerializeFixes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := sample()
		f.Length = rapid.Uint16().Draw(r, "length")
		f.PacketCount = rapid.Byte().Draw(r, "packets")
		f.RejectCount = rapid.Byte().Draw(r, "rejects")
		f.Checksum = rapid.Uint32().Draw(r, "checksum")
		f.Packets[0].Length = rapid.Byte().Draw(r, "packet length")
		b := write(t, f, fix)
		if _, err := arctic.Parse(b); err != nil {
			t.Fatalf("Parse refused % x: %v", b, err)
		}
		var again layers.FUNet
		if err := again.DecodeFromBytes(b[arctic.EthernetSize:], gopacket.NilDecodeFeedback); err != nil {
			t.Fatalf("decode: %v", err)
		}
		if f.Length != again.Length || f.PacketCount != 2 || f.RejectCount != 1 || f.Checksum != again.Checksum ||
			f.Packets[0].Length != 1 {
			t.Fatalf("the layer was left as %+v, the wire has %+v", f, again)
		}
	})
}

// Rule: without an option its fields are written as they stand, so that a tool
// can compose what a card refuses (doc.go).
func TestSerializeWritesFieldsAsTheyStand(t *testing.T) {
	f := sample()
	write(t, f, fix)
	for _, c := range []struct {
		name   string
		damage func(f *layers.FUNet)
		want   error
	}{
		{"nothing", func(*layers.FUNet) {}, nil},
		{"version", func(f *layers.FUNet) { f.Version = 1 }, arctic.ErrVersion},
		{"length too long", func(f *layers.FUNet) { f.Length += 4 }, arctic.ErrLength},
		{"length too short", func(f *layers.FUNet) { f.Length = 65 }, arctic.ErrLength},
		{"length without the last packet", func(f *layers.FUNet) {
			f.Length -= arctic.PacketHeaderSize
		}, arctic.ErrPacket},
		{"packet count", func(f *layers.FUNet) { f.PacketCount-- }, arctic.ErrLength},
		{"reject count", func(f *layers.FUNet) { f.RejectCount = 33 }, arctic.ErrTrain},
		{"packet length", func(f *layers.FUNet) { f.Packets[1].Length = 1 }, arctic.ErrPacket},
		{"other group", func(f *layers.FUNet) { f.Packets[1].GID = 8 }, arctic.ErrTrain},
		{"reason", func(f *layers.FUNet) { f.Rejects[0].Reason = 0 }, arctic.ErrFlags},
		{"tag without packets", func(f *layers.FUNet) { f.Packets, f.PacketCount, f.Length = nil, 0, f.Length-28 },
			arctic.ErrFlags},
		{"hello", func(f *layers.FUNet) { f.Hello = true }, arctic.ErrTrain},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sample()
			write(t, f, fix)
			c.damage(f)
			b := write(t, f, gopacket.SerializeOptions{ComputeChecksums: true})
			if _, err := arctic.Parse(b); !errors.Is(err, c.want) {
				t.Fatalf("Parse: %v, want %v", err, c.want)
			}
		})
	}
	f.Checksum ^= 1
	if _, err := arctic.Parse(write(t, f, gopacket.SerializeOptions{})); !errors.Is(err, arctic.ErrChecksum) {
		t.Fatalf("Parse of a wrong checksum: %v, want %v", err, arctic.ErrChecksum)
	}
}

// Rule: bytes that are already in the buffer are behind the frame and in no
// length, as Ethernet's padding is (SerializeTo).
func TestSerializeInFrontOfPadding(t *testing.T) {
	alone := gopacket.NewSerializeBuffer()
	padded := gopacket.NewSerializeBuffer()
	padding := gopacket.Payload(bytes.Repeat([]byte{0xee}, 9))
	if err := gopacket.SerializeLayers(alone, fix, sample()); err != nil {
		t.Fatal(err)
	}
	if err := gopacket.SerializeLayers(padded, fix, sample(), padding); err != nil {
		t.Fatal(err)
	}
	if want := append(bytes.Clone(alone.Bytes()), padding...); !bytes.Equal(padded.Bytes(), want) {
		t.Fatalf("composed\n% x, want\n% x", padded.Bytes(), want)
	}
}

// Rule: a value that the layout has no room for is an error that says so, not a
// frame that says something else (ErrUnwritable; arctic's doc.go for the widths).
func TestSerializeRefusesWhatHasNoRoom(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *layers.FUNet)
	}{
		{"level", func(f *layers.FUNet) { f.Level = 2 }},
		{"GID", func(f *layers.FUNet) { f.GID = arctic.MaxGID + 1 }},
		{"route", func(f *layers.FUNet) { f.Route = arctic.MaxRoute + 1 }},
		{"packet level", func(f *layers.FUNet) { f.Packets[1].Level = 2 }},
		{"packet kind", func(f *layers.FUNet) { f.Packets[1].Kind = arctic.Kinds }},
		{"packet route", func(f *layers.FUNet) { f.Packets[1].Route = arctic.MaxRoute + 1 }},
		{"packet GID", func(f *layers.FUNet) { f.Packets[1].GID = arctic.MaxGID + 1 }},
		{"packet type", func(f *layers.FUNet) { f.Packets[1].Type = arctic.MaxType + 1 }},
		{"payload of half a word", func(f *layers.FUNet) { f.Packets[1].Payload = make([]byte, 2) }},
		{"payload of 32 words", func(f *layers.FUNet) { f.Packets[1].Payload = make([]byte, 128) }},
		{"256 packets", func(f *layers.FUNet) { f.Packets = make([]layers.Packet, 256) }},
		{"256 rejects", func(f *layers.FUNet) { f.Rejects = make([]arctic.Reject, 256) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sample()
			c.change(f)
			if err := f.SerializeTo(gopacket.NewSerializeBuffer(), fix); !errors.Is(err, layers.ErrUnwritable) {
				t.Fatalf("error %v, want %v", err, layers.ErrUnwritable)
			}
		})
	}
	f := sample()
	f.Packets[1].Length = 32
	if err := f.SerializeTo(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{}); !errors.Is(err,
		layers.ErrUnwritable) {
		t.Fatalf("packet length 32 as it stands: error %v, want %v", err, layers.ErrUnwritable)
	}
}

// Rule: the highest value that each field has room for is written (SerializeTo).
func TestSerializeWritesHighestValues(t *testing.T) {
	f := sample()
	f.Level, f.GID, f.Route = 1, arctic.MaxGID, arctic.MaxRoute
	f.Packets = f.Packets[:1]
	p := &f.Packets[0]
	p.PacketHeader = arctic.PacketHeader{
		Level: 1, Kind: arctic.Kinds - 1, Route: arctic.MaxRoute, GID: arctic.MaxGID,
		Type: arctic.MaxType, Destination: 0xffff, Source: 0xffff,
	}
	p.Payload = make([]byte, arctic.MaxPayloadWords*arctic.WordSize)
	got, err := arctic.Parse(write(t, f, fix))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	read, _ := arctic.Next(got.Train())
	if read.Header() != p.PacketHeader {
		t.Fatalf("composed %+v, read %+v", p.PacketHeader, read.Header())
	}

	// Beyond what a card accepts, up to what counts and lengths can say.
	f = sample()
	f.Rejects = make([]arctic.Reject, 255)
	f.Packets = make([]layers.Packet, 255)
	for i := range f.Packets {
		f.Packets[i].Payload = make([]byte, 124)
	}
	write(t, f, fix)
	if f.PacketCount != 255 || f.RejectCount != 255 || f.Packets[254].Length != 31 {
		t.Fatalf("%d packets, %d rejects, length %d, want 255, 255 and 31", f.PacketCount, f.RejectCount,
			f.Packets[254].Length)
	}
}
