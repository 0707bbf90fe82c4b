package layers_test

// This file reads FUNet frames the way that a gopacket user does.

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/arctic/layers"
)

// wireFrame is a frame of one reject and two packets, from arctic's encoders.
func wireFrame() []byte {
	b := make([]byte, 256)
	h := arctic.Header{To: [6]byte{2, 0, 0, 0, 0, 1}, From: [6]byte{2, 0, 0, 0, 0, 2}, Level: arctic.Reply, GID: 7,
		Route: 9, Sequence: 100, Tag: 1 << 40}
	h.Encode(b)
	n := arctic.PutReject(b, arctic.HeaderSize, arctic.Reject{Sequence: 8, Reason: arctic.ReasonNoContext, Bits: 3})
	for i := range 2 {
		p := make([]byte, arctic.PacketHeaderSize+i*arctic.WordSize)
		ph := arctic.PacketHeader{Level: arctic.Reply, Route: 9, GID: 7, Length: uint8(i), Type: 5,
			Destination: 3, Source: 2}
		ph.Encode(p)
		copy(p[arctic.PacketHeaderSize:], "abcd")
		n = arctic.PutPacket(b, n, p)
	}
	arctic.Seal(b, n)
	return b[:n]
}

// Rule: importing the package is enough for gopacket to decode EtherType 0x88B5
// (doc.go), with padding in no layer.
func TestNewPacketDecodes(t *testing.T) {
	wire := wireFrame()
	p := gopacket.NewPacket(append(wire, make([]byte, 20)...), gplayers.LayerTypeEthernet, gopacket.Default)
	if p.ErrorLayer() != nil {
		t.Fatalf("decode: %v", p.ErrorLayer().Error())
	}
	if len(p.Layers()) != 2 {
		t.Fatalf("layers %v, want Ethernet and FUNet", p.Layers())
	}
	f, ok := p.Layer(layers.LayerTypeFUNet).(*layers.FUNet)
	if !ok {
		t.Fatalf("second layer is %T", p.Layers()[1])
	}
	if len(f.LayerContents()) != len(wire)-arctic.EthernetSize || len(f.LayerPayload()) != 0 {
		t.Fatalf("layer of %d bytes with %d of payload, want %d and 0", len(f.LayerContents()), len(f.LayerPayload()),
			len(wire)-arctic.EthernetSize)
	}
	want := []layers.Packet{
		{PacketHeader: arctic.PacketHeader{Level: arctic.Reply, Route: 9, GID: 7, Type: 5, Destination: 3, Source: 2},
			Payload: []byte{}},
		{PacketHeader: arctic.PacketHeader{Level: arctic.Reply, Route: 9, GID: 7, Length: 1, Type: 5, Destination: 3,
			Source: 2}, Payload: []byte("abcd")},
	}
	if diff := cmp.Diff(want, f.Packets); diff != "" {
		t.Fatalf("packets (-want +got):\n%s", diff)
	}
	rejects := []arctic.Reject{{Sequence: 8, Reason: arctic.ReasonNoContext, Bits: 3}}
	if diff := cmp.Diff(rejects, f.Rejects); diff != "" {
		t.Fatalf("rejects (-want +got):\n%s", diff)
	}
}

// Rule: names that tools print are FUNet's (doc.go).
func TestNames(t *testing.T) {
	if got := layers.LayerTypeFUNet.String(); got != "FUNet" {
		t.Errorf("layer type is called %q", got)
	}
	if got := layers.EthernetTypeFUNet.String(); got != "FUNet" {
		t.Errorf("EtherType is called %q", got)
	}
}

// Rule: a damaged frame is a DecodeFailure with arctic's reason, and truncated is
// said only where bytes are missing (doc.go).
func TestNewPacketOfDamagedFrame(t *testing.T) {
	whole := wireFrame()
	flipped := wireFrame()
	flipped[len(flipped)-1] ^= 1
	for _, c := range []struct {
		name      string
		b         []byte
		want      error
		truncated bool
	}{
		{"cut in its header", whole[:arctic.HeaderSize-1], arctic.ErrShort, true},
		{"cut behind its EtherType", whole[:arctic.EthernetSize+1], arctic.ErrShort, true},
		{"cut in its train", whole[:len(whole)-1], arctic.ErrLength, true},
		{"wrong bit", flipped, arctic.ErrChecksum, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := gopacket.NewPacket(c.b, gplayers.LayerTypeEthernet, gopacket.DecodeOptions{SkipDecodeRecovery: true})
			if p.Layer(layers.LayerTypeFUNet) != nil {
				t.Error("there is a FUNet layer")
			}
			if p.ErrorLayer() == nil || !errors.Is(p.ErrorLayer().Error(), c.want) {
				t.Errorf("error layer %v, want %v", p.ErrorLayer(), c.want)
			}
			if p.Metadata().Truncated != c.truncated {
				t.Errorf("truncated is %v", p.Metadata().Truncated)
			}
		})
	}
}

// Rule: gopacket finds a frame behind a VLAN tag; arctic.Parse does not (doc.go).
func TestFrameBehindTag(t *testing.T) {
	wire := wireFrame()
	tagged := append(append(append([]byte(nil), wire[:12]...), 0x81, 0x00, 0x00, 0x05), wire[12:]...)
	p := gopacket.NewPacket(tagged, gplayers.LayerTypeEthernet, gopacket.Default)
	if p.Layer(layers.LayerTypeFUNet) == nil {
		t.Errorf("no FUNet layer: %v", p)
	}
	if _, err := arctic.Parse(tagged); !errors.Is(err, arctic.ErrForeign) {
		t.Errorf("Parse: %v, want %v", err, arctic.ErrForeign)
	}
}

// Rule: one FUNet value decodes frame after frame, each as if it were the first,
// and without allocation once its slices are large enough (gopacket.DecodingLayer).
func TestDecodingLayerParser(t *testing.T) {
	var ethernet gplayers.Ethernet
	var f layers.FUNet
	parser := gopacket.NewDecodingLayerParser(gplayers.LayerTypeEthernet, &ethernet, &f)
	parser.IgnorePanic = true
	hello := make([]byte, arctic.GreetingEnd)
	h := arctic.Header{Sequence: 5}
	h.Encode(hello)
	arctic.PutGreeting(hello, &arctic.Greeting{Nonce: 1, Incarnation: 1})
	arctic.Seal(hello, len(hello))
	full := wireFrame()
	decoded := make([]gopacket.LayerType, 0, 4)
	decode := func(b []byte, packets, rejects int) {
		if err := parser.DecodeLayers(b, &decoded); err != nil {
			t.Fatalf("decode: %v", err)
		}
		if len(decoded) != 2 || decoded[1] != layers.LayerTypeFUNet || parser.Truncated {
			t.Fatalf("decoded %v, truncated %v", decoded, parser.Truncated)
		}
		if len(f.Packets) != packets || len(f.Rejects) != rejects {
			t.Fatalf("%d packets and %d rejects, want %d and %d", len(f.Packets), len(f.Rejects), packets, rejects)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		decode(full, 2, 1)
		decode(hello, 0, 0)
	}); n != 0 {
		t.Errorf("%v allocations for two frames, want 0", n)
	}
	if err := parser.DecodeLayers(full[:80], &decoded); !errors.Is(err, arctic.ErrLength) || !parser.Truncated {
		t.Errorf("cut frame: error %v, truncated %v", err, parser.Truncated)
	}
}

// A frame is composed as other protocols are with gopacket, and read back.
func ExampleFUNet() {
	ethernet := &gplayers.Ethernet{
		SrcMAC: []byte{2, 0, 0, 0, 0, 2}, DstMAC: []byte{2, 0, 0, 0, 0, 1},
		EthernetType: layers.EthernetTypeFUNet,
	}
	header := arctic.PacketHeader{GID: 7, Type: 1, Destination: 3, Source: 2}
	frame := &layers.FUNet{
		Version: arctic.Version, GID: 7, Sequence: 1,
		Packets: []layers.Packet{{PacketHeader: header, Payload: []byte("hi, node")}},
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, ethernet, frame); err != nil {
		fmt.Println(err)
		return
	}
	read := gopacket.NewPacket(buffer.Bytes(), gplayers.LayerTypeEthernet, gopacket.Default)
	for _, p := range read.Layer(layers.LayerTypeFUNet).(*layers.FUNet).Packets {
		fmt.Printf("%d -> %d: %s\n", p.Source, p.Destination, p.Payload)
	}
	// Output: 2 -> 3: hi, node
}
