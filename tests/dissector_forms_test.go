package tests

// This file tests the dissector with frames of every form that there is, and with frames in
// datagrams, damaged frames and hellos.

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	packets "github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/funet/funet/ctl/capture"
	"github.com/funet/funet/ctl/doctor/probe"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port/hello"
)

// writeForms writes frames of every form that there is.
func writeForms(t *testing.T, path string) {
	t.Helper()
	file, err := capture.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := capture.NewWriter(file, &capture.Begin{Info: attach.Info{Host: "h", Interfaces: []string{"a", "b"}},
		Snap: capture.MaxSnap}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	head := arctic.Header{To: [6]byte{2, 0, 0, 0, 0, 1}, From: [6]byte{2, 0, 0, 0, 0, 2}, GID: 2047, Route: 1<<30 - 1,
		SourceCard: 65535, DestinationCard: 1,
		Epoch: 1<<63 | 7, Sequence: 1<<32 - 2, Age: 513,
		Acks: [arctic.Levels]uint32{1<<32 - 1, 3}, Selective: [arctic.Levels]uint64{1<<64 - 1, 1 << 63}, Tag: 1<<64 - 2}
	frame := func(level arctic.Level, rejects []arctic.Reject, packets []arctic.Packet, block []byte,
		change func(b []byte)) []byte {
		h := head
		h.Level = level
		if len(packets) == 0 {
			h.Tag = 0
		}
		b := make([]byte, 2048)
		h.Encode(b)
		n := arctic.HeaderSize
		for _, r := range rejects {
			n = arctic.PutReject(b, n, r)
		}
		for _, p := range packets {
			n = arctic.PutPacket(b, n, p)
		}
		if block != nil {
			n = arctic.PutBlock(b, n, block)
		}
		if change(b); b[15]&2 != 0 {
			n = arctic.PutGreeting(b, &arctic.Greeting{Nonce: 1<<64 - 1, Echo: 5, Incarnation: 1<<32 - 5,
				Number: 1 << 40, Longest: 65549, Flags: arctic.Authenticated | arctic.Asks, Key: 1<<32 - 3})
		}
		arctic.Seal(b, n)
		return b[:n]
	}
	sealed := func(plain []byte, readable bool) []byte {
		b := append(slices.Clone(plain), bytes.Repeat([]byte{9}, arctic.SealSize)...)
		arctic.BeginSeal(b, len(plain), 5<<32|1<<31, readable)
		return b
	}
	nothing := func([]byte) {}
	packet := func(level arctic.Level, kind arctic.Kind, payload []byte) arctic.Packet {
		p := make([]byte, arctic.PacketHeaderSize, arctic.MaxPacketSize)
		(&arctic.PacketHeader{Level: level, Kind: kind, Route: head.Route, GID: head.GID,
			Length: uint8(len(payload) / 4), Type: 1<<14 - 1, Destination: 65534, Source: 65533}).Encode(p)
		return append(p, payload...)
	}
	transfer := func(x arctic.Transfer) arctic.Packet {
		b := make([]byte, 4*arctic.MaxPayloadWords)
		return packet(arctic.Request, arctic.KindTransfer, b[:4*arctic.PutTransfer(b, &x)])
	}
	remote := func(x arctic.Remote) arctic.Packet {
		b := make([]byte, 4*arctic.MaxPayloadWords)
		p := packet(arctic.Request, arctic.KindRemote, b[:4*arctic.PutRemote(b, &x)])
		h := p.Header()
		h.Type = x.Type()
		h.Encode(p)
		return p
	}
	send := func(x arctic.Send) arctic.Packet {
		b := make([]byte, 4*arctic.MaxPayloadWords)
		p := packet(arctic.Request, arctic.KindSend, b[:4*arctic.PutSend(b, &x)])
		h := p.Header()
		h.Type = x.Type()
		h.Encode(p)
		return p
	}
	line := func(x arctic.PathPacket) arctic.Packet {
		b := make([]byte, 4*arctic.MaxPayloadWords)
		p := packet(arctic.Request, arctic.KindExtended, b[:4*arctic.PutPath(b, &x)])
		h := p.Header()
		h.Type = uint16(x.Kind)
		h.Encode(p)
		return p
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 3)
	list := [][]byte{
		frame(arctic.Reply, nil, nil, nil, nothing),
		frame(arctic.Request, nil, nil, nil, func(b []byte) { b[15] |= 2 }),
		frame(arctic.Request, nil, nil, nil, arctic.SetBye),
		frame(arctic.Reply, []arctic.Reject{{Sequence: 5, Level: arctic.Reply, Reason: arctic.ReasonQueueFull,
			Bits: 1 << 63}, {Sequence: 1<<32 - 1, Reason: arctic.ReasonJob, Bits: 3}}, nil, nil, nothing),
		frame(arctic.Reply, []arctic.Reject{{Sequence: 5, Reason: arctic.ReasonSwitching, Bits: 1}},
			[]arctic.Packet{packet(arctic.Reply, arctic.KindMessage, data[:20]),
				packet(arctic.Reply, arctic.KindExtended, nil), packet(arctic.Reply, arctic.KindRemote, data[:4])},
			nil, nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{transfer(arctic.Transfer{Form: arctic.Single, Address: 0xfffffff0, Argument: 1<<32 - 1}),
				transfer(arctic.Transfer{Form: arctic.Single, Address: 16, Argument: 5, Data: data})}, nil, nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{transfer(arctic.Transfer{Form: arctic.Part, AtOnce: true, Address: 32, Data: data}),
				transfer(arctic.Transfer{Form: arctic.Part, Address: 64, Data: data})}, nil, nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{transfer(arctic.Transfer{Form: arctic.Last, Address: 0x1000, Argument: 9, Total: 100,
				First: 1<<32 - 3, Data: data})}, nil, nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{transfer(arctic.Transfer{Form: arctic.Block, AtOnce: true, Address: 0x2000})},
			data, nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{transfer(arctic.Transfer{Form: arctic.Single, Address: 0x3000,
				Data: append(data, data[:32]...)})}, nil, nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{remote(arctic.Remote{Counted: true, Area: 7, Key: 1<<64 - 2, Offset: 5, Delta: 1<<32 - 1,
				Metadata: data[:8], Data: data[:7]}),
				remote(arctic.Remote{Key: 3})}, nil, nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{remote(arctic.Remote{Block: true, Counted: true, Area: 1, Key: 9, Offset: 3, Delta: 1})},
			data, nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{send(arctic.Send{Total: 7, UserTag: 1<<64 - 2, APITag: 1<<32 - 3, Data: data[:7]}),
				send(arctic.Send{Form: arctic.SendOpen, Ack: true, Total: 1 << 20, Key: 1<<64 - 5, ID: 1<<31 | 4,
					UserTag: 6, APITag: 8})}, nil, nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{send(arctic.Send{Block: true, Total: 51, Key: 9, UserTag: 2, Data: data[:3]})}, data,
			nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{send(arctic.Send{Form: arctic.SendPiece, Total: 100, Key: 7, Offset: 32, Data: data}),
				send(arctic.Send{Form: arctic.SendLast, Ack: true, Total: 100, Key: 7, Offset: 80, Data: data[:20]})},
			nil, nothing),
		frame(arctic.Request, nil,
			[]arctic.Packet{line(arctic.PathPacket{Sequence: 65534, Generation: 65533, Origin: arctic.MaxPathEnds - 1,
				Target: arctic.MaxPathEnds - 2, Data: data[:24]}),
				line(arctic.PathPacket{Kind: arctic.PathInit, Generation: 5, Target: 3}),
				line(arctic.PathPacket{Kind: arctic.PathResponse, Generation: 5, Origin: 1, Target: 3}),
				line(arctic.PathPacket{Kind: arctic.PathOrigin, Generation: 5, Origin: 1, Target: 3}),
				line(arctic.PathPacket{Kind: arctic.PathTarget, Generation: 5, Origin: 1, Target: 3})}, nil, nothing),
	}
	padded := append(slices.Clone(list[0]), make([]byte, 9)...)
	probe := append(slices.Clone(list[0][:arctic.EthernetSize]), make([]byte, 100)...)
	list = append(list, padded, probe)
	for _, i := range []int{0, 4, 8} {
		list = append(list, sealed(list[i], true), append(sealed(list[i], false), 0))
	}
	for i, b := range list {
		fate := engine.Fate{Outcome: engine.Outcome(i % int(engine.Outcomes))}
		if err := w.Write(&capture.Record{Time: int64(i) * 1e9, Interface: i % 2, Fate: fate, Length: len(b),
			Data: b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(make([]capture.Counts, 2), time.Unix(100, 0)), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDissectorOfDatagrams: behind UDP, on the port of encapsulation, a frame decodes as behind its
// EtherType.
func TestDissectorOfDatagrams(t *testing.T) {
	long.Test(t)
	path := filepath.Join(t.TempDir(), "datagrams.pcapng")
	writeForms(t, path)
	script := dissector(t)
	plain, _ := framesIn(t, path)
	file, err := capture.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := capture.NewWriter(file, &capture.Begin{Info: attach.Info{Interfaces: []string{"a"}},
		Snap: capture.MaxSnap}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range plain[:9] {
		ip := &packets.IPv4{Version: 4, TTL: 64, Protocol: packets.IPProtocolUDP, SrcIP: net.IPv4(198, 18, 0, 1),
			DstIP: net.IPv4(198, 18, 0, 2)}
		udp := &packets.UDP{SrcPort: 30601, DstPort: probe.DefaultPort}
		buffer := gopacket.NewSerializeBuffer()
		err := errors.Join(udp.SetNetworkLayerForChecksum(ip),
			gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
				&packets.Ethernet{SrcMAC: b[6:12], DstMAC: b[:6], EthernetType: packets.EthernetTypeIPv4}, ip, udp,
				gopacket.Payload(b[arctic.EthernetSize:])),
			w.Write(&capture.Record{Length: len(buffer.Bytes()), Data: buffer.Bytes()}))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close([]capture.Counts{{}}, time.Unix(100, 0)), file.Close()); err != nil {
		t.Fatal(err)
	}
	if n := len(tshark(t, script, "-r", path, "-Y",
		"udp and funet.checksum.status == 1 and not funet.malformed and not _ws.lua.error")); n != 9 {
		t.Errorf("%d of 9 datagrams decode", n)
	}
}

// TestDissectorOfDamage: what a card drops is malformed for the dissector, and says why in its
// comment.
func TestDissectorOfDamage(t *testing.T) {
	long.Test(t)
	path := filepath.Join(t.TempDir(), "forms.pcapng")
	writeForms(t, path)
	script := dissector(t)
	good, _ := framesIn(t, path)
	file, err := capture.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := capture.NewWriter(file, &capture.Begin{Info: attach.Info{Interfaces: []string{"a"}},
		Snap: capture.MaxSnap}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, g := range good[:9] {
		for at := arctic.EthernetSize + 1; at < min(len(g), 140); at++ {
			b := slices.Clone(g)
			b[at] ^= 1 << (at % 8)
			// all but the checksum, which is then right for what else is wrong
			if at < 76 || at >= 80 {
				resealed := slices.Clone(b)
				length := arctic.EthernetSize + int(b[16]) + int(b[17])<<8
				if length >= arctic.HeaderSize && length <= len(b) {
					arctic.Seal(resealed, length)
				}
				if _, err := arctic.Parse(resealed); err == nil {
					continue
				}
				b = resealed
			}
			refused++
			if err := w.Write(&capture.Record{Fate: engine.Fate{Outcome: link.BadTrain}, Length: len(b),
				Data: b}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close([]capture.Counts{{}}, time.Unix(100, 0)), file.Close()); err != nil {
		t.Fatal(err)
	}
	if n := len(tshark(t, script, "-r", path, "-Y", "funet.malformed or funet.checksum.bad")); n != refused || n < 100 {
		missed := tshark(t, script, "-r", path, "-Y", "not (funet.malformed or funet.checksum.bad)", "-x")
		t.Errorf("%d of %d frames that a card drops are malformed; not:\n%s", n, refused,
			strings.Join(missed[:min(40, len(missed))], "\n"))
	}
	if n := len(tshark(t, script, "-r", path, "-Y",
		`not _ws.lua.error and frame.comment == "dropped: malformed train"`)); n != refused {
		t.Errorf("%d have their comment, want %d", n, refused)
	}
}

// Rule: the dissector tells hellos between cards from frames of another version, and shows who says
// what.
func TestDissectorOfHellos(t *testing.T) {
	long.Test(t)
	path := filepath.Join(t.TempDir(), "hellos.pcap")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := pcapgo.NewWriter(file)
	if err := w.WriteFileHeader(1<<16, packets.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []hello.Kind{hello.Question, hello.Answer, hello.Announcement, hello.Goodbye} {
		b := make([]byte, hello.Size)
		(&hello.Message{Kind: kind, Said: hello.Said{Card: 513, Host: "a-host"}}).Put(b, [6]byte{2, 1}, [6]byte{2})
		if err := w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(b), Length: len(b)}, b); err != nil {
			t.Fatal(err)
		}
	}
	lines := tshark(t, dissector(t), "-r", path, "-Y",
		"not funet.other_version and not funet.malformed and funet.source_card == 513", "-T", "fields",
		"-e", "_ws.col.Info")
	want := []string{"Hello: question, card 513 of a-host", "Hello: answer, card 513 of a-host",
		"Hello: announcement, card 513 of a-host", "Hello: goodbye, card 513 of a-host"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}
