package arctic_test

// This file feeds any bytes to Parse and to the gopacket layer. A fuzzer does not guess a CRC, so
// each input is also tried with checksum, and with EtherType, version and length, put right.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/arctic/layers"
)

// addSeeds gives f frames that Parse accepts and one of each that it refuses.
func addSeeds(f *testing.F) {
	f.Add(golden())
	f.Add(append(golden(), 0xff, 0, 1))
	f.Add(base())
	f.Add(compose(frame{}))
	f.Add(compose(frame{Header: arctic.Header{Hello: true, Sequence: 1},
		Greeting: arctic.Greeting{Nonce: 1, Incarnation: 1, Longest: 1514, Flags: arctic.Authenticated}}))
	for _, readable := range []bool{false, true} {
		f.Add(sealedFrame(train(3, 4), 1<<40|7, readable))
	}
	full := train(64, 21)
	for range arctic.MaxRejects {
		full.Rejects = append(full.Rejects, arctic.Reject{Level: arctic.Reply, Reason: arctic.ReasonLocal - 1})
	}
	f.Add(compose(full))
	f.Add(goldenBlock())
	for _, size := range []int{16, 1408} {
		f.Add(compose(blockFrame(size)))
		f.Add(compose(remoteBlockFrame(size)))
		answering := blockFrame(size)
		answering.Rejects = full.Rejects
		f.Add(compose(answering))
	}
	for _, d := range append(refusals(), blockRefusals()...) {
		f.Add(d.b)
	}
}

// repairs returns data as it came, with its checksum put right, and made a frame
// of a version known here that ends where data does.
func repairs(data []byte) [][]byte {
	list := [][]byte{data}
	if len(data) < arctic.HeaderSize {
		return list
	}
	summed := bytes.Clone(data)
	setChecksum(summed)
	whole := bytes.Clone(data[:min(len(data), arctic.EthernetSize+0xffff)])
	binary.BigEndian.PutUint16(whole[12:], arctic.EtherType)
	whole[14] = arctic.Version | whole[14]&1
	whole = resize(whole, len(whole))
	setChecksum(whole)
	return append(list, summed, whole)
}

// FuzzParse: Parse takes any bytes without a panic; in a frame that it accepts all accessors are in
// range, and encoding what they say gives the same bytes (doc.go, last paragraph).
func FuzzParse(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range repairs(data) {
			before := bytes.Clone(b)
			// A capacity that ends with the bytes makes any read behind them panic.
			parsed, err := arctic.Parse(b[:len(b):len(b)])
			if !bytes.Equal(b, before) {
				t.Fatal("Parse changed its input")
			}
			if err != nil {
				if parsed != nil {
					t.Fatalf("Parse returned a frame with error %v", err)
				}
				continue
			}
			checkAccepted(t, b, parsed)
		}
	})
}

func checkAccepted(t *testing.T, b []byte, f arctic.Frame) {
	if len(f) < arctic.HeaderSize || len(f) > len(b) || &f[0] != &b[0] {
		t.Fatalf("the frame is not the start of what arrived: %d bytes of %d", len(f), len(b))
	}
	if f.Packets() > arctic.MaxTrain || f.Rejects() > arctic.MaxRejects {
		t.Fatalf("accepted %d packets and %d rejects", f.Packets(), f.Rejects())
	}
	d := takeApart(f)
	size := arctic.HeaderSize + len(d.Rejects)*arctic.RejectSize
	rest := f.Train()
	for i := range f.Packets() {
		var p arctic.Packet
		train := rest
		p, rest = arctic.Next(train)
		if size+len(p) > len(f) || &p[0] != &f[size] || cap(p) != len(p) {
			t.Fatalf("packet %d is not the next part of its frame", i)
		}
		size += len(p)
		h := p.Header()
		if h.Length > arctic.MaxPayloadWords || len(p.Payload()) != int(h.Length)*arctic.WordSize {
			t.Fatalf("packet %d of length %d has %d payload bytes", i, h.Length, len(p.Payload()))
		}
		for w := range int(h.Length) {
			if p.Word(w) != binary.LittleEndian.Uint32(p.Payload()[w*arctic.WordSize:]) {
				t.Fatalf("packet %d: word %d is not where Payload has it", i, w)
			}
		}
		if h.Level != d.Header.Level || h.GID != d.Header.GID || h.Route != d.Header.Route ||
			h.Source != d.Packets[0].Header.Source || h.Destination != d.Packets[0].Header.Destination {
			t.Fatalf("packet %d is not of its frame's train", i)
		}
	}
	if f.Hello() {
		size, rest = size+arctic.GreetingSize, nil
	}
	if d.Block != nil {
		if len(d.Packets) != 1 || len(d.Block) == 0 || len(d.Block)%arctic.TransferAlign != 0 ||
			&d.Block[0] != &f[size] {
			t.Fatalf("a block of %d bytes behind %d packets is not the rest of its frame", len(d.Block), len(d.Packets))
		}
		size += len(d.Block)
	}
	if size != len(f) || len(rest) != 0 {
		t.Fatalf("packets end at %d with %d bytes of train left, the frame at %d", size, len(rest), len(f))
	}
	if again := compose(d); !bytes.Equal(again, f) {
		t.Fatalf("% x decodes to %+v, which encodes to % x", []byte(f), d, again)
	}
}

// FuzzLayers: the gopacket layer accepts exactly the frames that Parse accepts,
// reads the same fields, refuses the others for the same reason, and composes the
// same bytes (package layers, doc.go).
func FuzzLayers(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range repairs(data) {
			checkLayer(t, b)
		}
	})
}

func checkLayer(t *testing.T, b []byte) {
	parsed, parseErr := arctic.Parse(b)

	// Other EtherTypes are other decoders' and none of ours to run here.
	var ethernet gplayers.Ethernet
	err := ethernet.DecodeFromBytes(b, gopacket.NilDecodeFeedback)
	ours := err == nil && ethernet.NextLayerType() == layers.LayerTypeFUNet
	if ours == errors.Is(parseErr, arctic.ErrForeign) {
		t.Fatalf("Parse says %v, gopacket's next layer is %v", parseErr, ethernet.NextLayerType())
	}
	if !ours {
		return
	}

	// gopacket calls no decoder for nothing: such a frame has only its Ethernet layer.
	if len(ethernet.Payload) == 0 {
		if !errors.Is(parseErr, arctic.ErrShort) {
			t.Fatalf("Parse says %v of a frame that ends with its EtherType, want %v", parseErr, arctic.ErrShort)
		}
		return
	}

	// Without gopacket's recovery, so that a panic is seen.
	decoded := gopacket.NewPacket(b, gplayers.LayerTypeEthernet, gopacket.DecodeOptions{SkipDecodeRecovery: true})
	layer, _ := decoded.Layer(layers.LayerTypeFUNet).(*layers.FUNet)
	failure := decoded.ErrorLayer()
	if (layer == nil) != (failure != nil) {
		t.Fatalf("FUNet layer %v with error layer %v", layer, failure)
	}
	if errors.Is(parseErr, arctic.ErrSealed) {
		checkSealedLayer(t, b, decoded, layer)
		return
	}
	if failure != nil {
		if parseErr == nil || !errors.Is(failure.Error(), parseErr) {
			t.Fatalf("the layer says %v, Parse %v", failure.Error(), parseErr)
		}
		return
	}
	if parseErr != nil {
		t.Fatalf("the layer accepts what Parse refuses: %v", parseErr)
	}
	want, got := takeApart(parsed), fromLayers(&ethernet, layer)
	same(t, "Parse and layer", want, got)
	if !bytes.Equal(layer.Contents, parsed[arctic.EthernetSize:]) || len(layer.LayerPayload()) != 0 {
		t.Fatalf("the layer has %d bytes and a payload of %d, want %d and 0", len(layer.Contents),
			len(layer.LayerPayload()), len(parsed)-arctic.EthernetSize)
	}

	for _, options := range []gopacket.SerializeOptions{{}, {FixLengths: true, ComputeChecksums: true}} {
		buffer := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializePacket(buffer, options, decoded); err != nil {
			t.Fatalf("compose what was decoded, options %+v: %v", options, err)
		}
		if !bytes.Equal(buffer.Bytes(), parsed) {
			t.Fatalf("composed with %+v\n% x, want\n% x", options, buffer.Bytes(), []byte(parsed))
		}
	}
}

// checkSealedLayer: what the layer says of a sealed frame, which it cannot verify, composes to the
// same bytes.
func checkSealedLayer(t *testing.T, b []byte, decoded gopacket.Packet, layer *layers.FUNet) {
	if layer == nil {
		return
	}
	f, err := arctic.Look(b)
	counter, ok := f.Counter()
	if err != nil || !ok || counter != layer.Counter || f.Readable() != layer.Readable ||
		layer.Readable != (layer.Ciphertext == nil) {
		t.Fatalf("the layer has %+v of % x (%v, counter %#x)", layer, b, err, counter)
	}
	for _, options := range []gopacket.SerializeOptions{{}, {FixLengths: true, ComputeChecksums: true}} {
		buffer := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializePacket(buffer, options, decoded); err != nil {
			t.Fatalf("compose what was decoded, options %+v: %v", options, err)
		}
		if !bytes.Equal(buffer.Bytes(), f) {
			t.Fatalf("composed with %+v\n% x, want\n% x", options, buffer.Bytes(), []byte(f))
		}
	}
}

// fromLayers says in the words of this test what the two layers say.
func fromLayers(ethernet *gplayers.Ethernet, l *layers.FUNet) frame {
	f := frame{
		Header: arctic.Header{
			To: [6]byte(ethernet.DstMAC), From: [6]byte(ethernet.SrcMAC),
			Level: l.Level, Hello: l.Hello, Bye: l.Bye, Defer: l.Defer, Direct: l.Version == arctic.VersionDirect,
			GID: l.GID, Route: l.Route,
			SourceCard: l.SourceCard, DestinationCard: l.DestinationCard,
			Epoch:    l.Epoch,
			Sequence: l.Sequence, Age: l.Age, Acks: l.Acks, Selective: l.Selective, Tag: l.Tag,
		},
		Rejects: l.Rejects,
		Block:   l.Block,
	}
	if l.Hello {
		f.Greeting, f.MAC = l.Greeting, [arctic.MACSize]byte(l.MAC)
	}
	for _, p := range l.Packets {
		f.Packets = append(f.Packets, packet{Header: p.PacketHeader, Payload: p.Payload})
	}
	return f
}
