package tests

// This file tests `funet capture` and its dissector: what tshark makes of a capture of the demo's
// programs is, field by field, what package layers makes of the same bytes.

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/gopacket"
	packets "github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/capture"
	"github.com/funet/funet/ctl/doctor/probe"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/arctic/layers"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/port/hello"
)

// fieldsOf are the values of every field of the dissector for a frame, by the Go decoder, in the order in
// which they stand in the frame. Those that have none are left out.
func fieldsOf(t *testing.T, frame []byte) map[string][]uint64 {
	t.Helper()
	v := map[string][]uint64{}
	put := func(name string, values ...uint64) { v["funet."+name] = append(v["funet."+name], values...) }
	flag := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	if frame[arctic.EthernetSize] == 0 {
		put("version", 0)
		return v
	}
	var f layers.FUNet
	if err := f.DecodeFromBytes(frame[arctic.EthernetSize:], gopacket.NilDecodeFeedback); err != nil {
		t.Fatalf("the Go decoder refuses % x: %v", frame, err)
	}
	put("version", uint64(f.Version))
	put("flags", uint64(f.Level)|flag(f.Hello)<<1|flag(f.Bye)<<2|flag(f.Block != nil || f.Ciphertext != nil && frame[15]&8 != 0)<<3|flag(f.Sealed)<<4|flag(f.Readable)<<5)
	put("flags.level", uint64(f.Level))
	put("flags.hello", flag(f.Hello))
	put("flags.bye", flag(f.Bye))
	put("flags.block", flag(frame[15]&8 != 0))
	put("flags.sealed", flag(f.Sealed))
	put("flags.readable", flag(f.Readable))
	put("length", uint64(f.Length))
	put("gid", uint64(f.GID))
	put("route", uint64(f.Route))
	put("source_card", uint64(f.SourceCard))
	put("destination_card", uint64(f.DestinationCard))
	put("packets", uint64(f.PacketCount))
	put("rejects", uint64(f.RejectCount))
	put("age", uint64(f.Age))
	put("epoch", f.Epoch)
	put("sequence", uint64(f.Sequence))
	put("request_ack", uint64(f.Acks[arctic.Request]))
	put("request_selective", f.Selective[arctic.Request])
	put("reply_ack", uint64(f.Acks[arctic.Reply]))
	put("reply_selective", f.Selective[arctic.Reply])
	put("tag", f.Tag)
	if f.Sealed {
		put("counter", f.Counter)
	} else {
		put("checksum", uint64(f.Checksum))
		put("checksum.status", 1)
	}
	if f.Hello && f.MAC != nil {
		g := f.Greeting
		put("greeting.nonce", g.Nonce)
		put("greeting.echo", g.Echo)
		put("greeting.incarnation", uint64(g.Incarnation))
		put("greeting.number", g.Number)
		put("greeting.longest", uint64(g.Longest))
		put("greeting.flags", uint64(g.Flags))
		put("greeting.flags.asks", flag(g.Flags&arctic.Asks != 0))
		put("greeting.flags.authenticated", flag(g.Flags&arctic.Authenticated != 0))
		put("greeting.flags.readable", flag(g.Flags&arctic.Readable != 0))
		put("greeting.key", uint64(g.Key))
	}
	for _, r := range f.Rejects {
		put("reject.sequence", uint64(r.Sequence))
		put("reject.level", uint64(r.Level))
		put("reject.reason", uint64(r.Reason))
		put("reject.bits", r.Bits)
	}
	for _, p := range f.Packets {
		put("packet.level", uint64(p.Level))
		put("packet.kind", uint64(p.Kind))
		put("packet.route", uint64(p.Route))
		put("packet.gid", uint64(p.GID))
		put("packet.length", uint64(p.Length))
		put("packet.destination", uint64(p.Destination))
		put("packet.type", uint64(p.Type))
		put("packet.source", uint64(p.Source))
		wire := make(arctic.Packet, arctic.PacketHeaderSize, arctic.MaxPacketSize)
		p.Encode(wire)
		wire = append(wire, p.Payload...)
		var x arctic.Transfer
		if p.Kind != arctic.KindTransfer {
			for i := range len(p.Payload) / arctic.WordSize {
				put("packet.word", uint64(wire.Word(i)))
			}
			continue
		}
		if !wire.Transfer(&x) {
			t.Fatalf("no transfer: % x", p.Payload)
		}
		put("transfer.form", uint64(x.Form))
		put("transfer.address", uint64(x.Address))
		if x.Form == arctic.Part || x.Form == arctic.Block {
			put("transfer.at_once", flag(x.AtOnce))
		}
		if x.Form == arctic.Single || x.Form == arctic.Last {
			put("transfer.argument", uint64(x.Argument))
		}
		if x.Form == arctic.Last {
			put("transfer.total", uint64(x.Total))
			put("transfer.first", uint64(x.First))
		}
	}
	return v
}

// bytesOf are the fields that are bytes.
func bytesOf(frame []byte) map[string][]string {
	v := map[string][]string{}
	if frame[arctic.EthernetSize] == 0 {
		v["funet.probe"] = []string{hex.EncodeToString(frame[arctic.EthernetSize+1:])}
		return v
	}
	f, err := arctic.Look(frame)
	if err != nil {
		return v
	}
	if len(frame) > len(f) {
		v["funet.padding"] = []string{hex.EncodeToString(frame[len(f):])}
	}
	if f.Hello() {
		_, _, mac := arctic.GreetingMAC(f)
		v["funet.mac"] = []string{hex.EncodeToString(mac)}
		return v
	}
	if f.Sealed() {
		v["funet.mac"] = []string{hex.EncodeToString(f[len(f)-arctic.SealSize:][:arctic.SealTagSize])}
		if _, secret := f.SealParts(); !f.Readable() && len(secret) > arctic.SealTagSize {
			v["funet.ciphertext"] = []string{hex.EncodeToString(secret[:len(secret)-arctic.SealTagSize])}
		}
		if !f.Readable() {
			return v
		}
		f, err = f.Opened()
	} else {
		err = f.Check()
	}
	if err != nil {
		return v
	}
	for train := f.Train(); len(train) > 0; {
		var p arctic.Packet
		p, train = arctic.Next(train)
		var x arctic.Transfer
		if p.Header().Kind == arctic.KindTransfer && p.Transfer(&x) && len(x.Data) > 0 {
			v["funet.transfer.data"] = append(v["funet.transfer.data"], hex.EncodeToString(x.Data))
		}
	}
	if b := f.Block(); b != nil {
		v["funet.block"] = []string{hex.EncodeToString(b)}
	}
	return v
}

// noValue are fields that only hold others, or say what is wrong with a frame.
var noValue = []string{"funet.packet", "funet.reject", "funet.malformed", "funet.other_version", "funet.checksum.bad"}

// dissector writes the script where tshark can read it.
func dissector(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "funet.lua")
	if err := os.WriteFile(path, []byte(funet(t, "capture", "--dissector").ok()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// tshark runs tshark with the dissector and returns its lines.
func tshark(t *testing.T, script string, args ...string) []string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Fatalf("%v; `make tshark` installs it", err)
	}
	c := exec.Command(path, append(args, "-X", "lua_script:"+script)...)
	c.Env = append(os.Environ(), "HOME="+t.TempDir()) // no preferences and plugins of somebody's
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil || strings.Contains(complaints.String(), "Lua") {
		t.Fatalf("tshark %v: %v: %s", args, err, &complaints)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// framesIn reads a capture with the library's reader, which shares nothing with what wrote packets.
func framesIn(t *testing.T, path string) (list [][]byte, lost uint64) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := pcapgo.NewNgReader(file, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("after %d frames: %v", len(list), err)
		}
		list = append(list, b)
	}
	for i := range r.NInterfaces() {
		ifc, err := r.Interface(i)
		if err != nil {
			t.Fatal(err)
		}
		lost += ifc.Statistics.PacketsDropped
	}
	return list, lost
}

// compare has tshark decode a capture, compares each field of each frame, and returns the fields that had a value.
func compare(t *testing.T, script, path string) map[string]bool {
	t.Helper()
	var names []string
	for _, line := range tshark(t, script, "-G", "fields") {
		if c := strings.Split(line, "\t"); c[0] == "F" && strings.HasPrefix(c[2], "funet.") && !slices.Contains(noValue, c[2]) {
			names = append(names, c[2])
		}
	}
	if len(names) < 40 {
		t.Fatalf("the dissector has the fields %v", names)
	}
	if l := tshark(t, script, "-r", path, "-Y", "_ws.malformed or _ws.lua.error or funet.malformed or funet.checksum.bad or funet.other_version"); l[0] != "" {
		t.Errorf("%d frames are malformed: %s", len(l), l[0])
	}
	args := []string{"-r", path, "-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=;"}
	for _, n := range names {
		args = append(args, "-e", n)
	}
	list, _ := framesIn(t, path)
	lines := tshark(t, script, args...)
	if len(lines) != len(list) {
		t.Fatalf("tshark has %d frames, the file %d", len(lines), len(list))
	}
	had := map[string]bool{}
	for i, line := range lines {
		numbers, texts := fieldsOf(t, list[i]), bytesOf(list[i])
		for k, cell := range strings.Split(line, "|") {
			name := names[k]
			want := texts[name]
			for _, v := range numbers[name] {
				want = append(want, strconv.FormatUint(v, 10))
			}
			var got []string
			for _, s := range strings.Split(cell, ";") {
				if s != "" {
					got = append(got, plain(s, texts[name] != nil))
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("frame %d: tshark has %s %q, Go %q", i+1, name, got, want)
			}
			had[name] = had[name] || len(got) > 0
		}
		for name := range numbers {
			if !slices.Contains(names, name) {
				t.Fatalf("the dissector has no %s", name)
			}
		}
	}
	return had
}

// plain is a value of tshark's, in whatever base it shows it, as a decimal number.
func plain(s string, isBytes bool) string {
	switch {
	case isBytes:
		return strings.ReplaceAll(s, ":", "")
	case s == "True":
		return "1"
	case s == "False":
		return "0"
	}
	if v, err := strconv.ParseUint(s, 0, 64); err == nil {
		return strconv.FormatUint(v, 10)
	}
	return s
}

// captured makes a lab with daemons and returns it with their sockets.
func captured(t *testing.T) (*lab.Lab, string, []string) {
	t.Helper()
	name := "t" + unique()
	funet(t, "lab", "up", name, "--daemons").ok()
	t.Cleanup(func() {
		if err := lab.Down(name); err != nil {
			t.Error(err)
		}
	})
	sockets, err := lab.Sockets(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, name, sockets
}

// begun waits until a capture has begun.
func (p *process) begun() {
	p.t.Helper()
	eventually(p.t, "the capture begins", func() bool { return strings.Contains(p.stderr.String(), "capturing card") })
}

// TestCaptureOfTheDemo: ping-pong, matrix multiply and blocks between two daemons, captured. tshark finds no malformed frame,
// and every field of the dissector has a value, which is the Go decoder's; forms that the programs need not send
// are in a second file.
func TestCaptureOfTheDemo(t *testing.T) {
	_, name, sockets := captured(t)
	path := filepath.Join(t.TempDir(), "demo.pcapng")
	p := funet(t, "capture", "--socket", sockets[0], path)
	p.begun()
	for _, program := range [][]string{{"pingpong", "--exchanges", "100"}, {"matmul", "--size", "24"}, {"transfer", "--bytes", "65536"}} {
		funet(t, append([]string{"run", "-n", "2", "--lab=" + name, "--", "funet"}, program...)...).wait()
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 130 {
		t.Fatalf("Ctrl-C ended it with %d: %s", code, p.stderr.String())
	}
	script := dissector(t)
	had := compare(t, script, path)
	list, lost := framesIn(t, path)
	if len(list) < 200 || lost != 0 {
		t.Errorf("%d frames, %d lost", len(list), lost)
	}

	// Host 0's frames go out, host 1's come in.
	ways := map[string]int{}
	for _, line := range tshark(t, script, "-r", path, "-T", "fields", "-e", "frame.packet_flags_direction", "-e", "funet.source_card") {
		ways[line]++
	}
	if out, in := ways["0x00000002\t0"], ways["0x00000001\t1"]; out < 50 || in < 50 || out+in != len(list) {
		t.Errorf("directions and cards %v, of %d frames", ways, len(list))
	}

	forms := filepath.Join(t.TempDir(), "forms.pcapng")
	writeForms(t, forms)
	for name, so := range compare(t, script, forms) {
		had[name] = had[name] || so
	}
	for name, so := range had {
		if !so {
			t.Errorf("%s has no value in any frame", name)
		}
	}
}

// writeForms writes frames of every form that there is.
func writeForms(t *testing.T, path string) {
	t.Helper()
	file, err := capture.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := capture.NewWriter(file, &capture.Begin{Info: attach.Info{Host: "h", Interfaces: []string{"a", "b"}}, Snap: capture.MaxSnap}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	head := arctic.Header{To: [6]byte{2, 0, 0, 0, 0, 1}, From: [6]byte{2, 0, 0, 0, 0, 2}, GID: 2047, Route: 1<<30 - 1, SourceCard: 65535, DestinationCard: 1,
		Epoch: 1<<63 | 7, Sequence: 1<<32 - 2, Age: 513,
		Acks: [arctic.Levels]uint32{1<<32 - 1, 3}, Selective: [arctic.Levels]uint64{1<<64 - 1, 1 << 63}, Tag: 1<<64 - 2}
	frame := func(level arctic.Level, rejects []arctic.Reject, packets []arctic.Packet, block []byte, change func(b []byte)) []byte {
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
			n = arctic.PutGreeting(b, &arctic.Greeting{Nonce: 1<<64 - 1, Echo: 5, Incarnation: 1<<32 - 5, Number: 1 << 40, Longest: 65549, Flags: arctic.Authenticated | arctic.Asks, Key: 1<<32 - 3})
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
		(&arctic.PacketHeader{Level: level, Kind: kind, Route: head.Route, GID: head.GID, Length: uint8(len(payload) / 4), Type: 1<<14 - 1, Destination: 65534, Source: 65533}).Encode(p)
		return append(p, payload...)
	}
	transfer := func(x arctic.Transfer) arctic.Packet {
		b := make([]byte, 4*arctic.MaxPayloadWords)
		return packet(arctic.Request, arctic.KindTransfer, b[:4*arctic.PutTransfer(b, &x)])
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 3)
	list := [][]byte{
		frame(arctic.Reply, nil, nil, nil, nothing),
		frame(arctic.Request, nil, nil, nil, func(b []byte) { b[15] |= 2 }),
		frame(arctic.Request, nil, nil, nil, arctic.SetBye),
		frame(arctic.Reply, []arctic.Reject{{Sequence: 5, Level: arctic.Reply, Reason: arctic.ReasonQueueFull, Bits: 1 << 63}, {Sequence: 1<<32 - 1, Reason: arctic.ReasonJob, Bits: 3}}, nil, nil, nothing),
		frame(arctic.Reply, []arctic.Reject{{Sequence: 5, Reason: arctic.ReasonSwitching, Bits: 1}},
			[]arctic.Packet{packet(arctic.Reply, arctic.KindMessage, data[:20]), packet(arctic.Reply, arctic.KindExtended, nil), packet(arctic.Reply, arctic.KindRemote, data[:4])}, nil, nothing),
		frame(arctic.Request, nil, []arctic.Packet{transfer(arctic.Transfer{Form: arctic.Single, Address: 0xfffffff0, Argument: 1<<32 - 1}), transfer(arctic.Transfer{Form: arctic.Single, Address: 16, Argument: 5, Data: data})}, nil, nothing),
		frame(arctic.Request, nil, []arctic.Packet{transfer(arctic.Transfer{Form: arctic.Part, AtOnce: true, Address: 32, Data: data}), transfer(arctic.Transfer{Form: arctic.Part, Address: 64, Data: data})}, nil, nothing),
		frame(arctic.Request, nil, []arctic.Packet{transfer(arctic.Transfer{Form: arctic.Last, Address: 0x1000, Argument: 9, Total: 100, First: 1<<32 - 3, Data: data})}, nil, nothing),
		frame(arctic.Request, nil, []arctic.Packet{transfer(arctic.Transfer{Form: arctic.Block, AtOnce: true, Address: 0x2000})}, data, nothing),
	}
	padded := append(slices.Clone(list[0]), make([]byte, 9)...)
	probe := append(slices.Clone(list[0][:arctic.EthernetSize]), make([]byte, 100)...)
	list = append(list, padded, probe)
	for _, i := range []int{0, 4, 8} {
		list = append(list, sealed(list[i], true), append(sealed(list[i], false), 0))
	}
	for i, b := range list {
		fate := engine.Fate{Outcome: engine.Outcome(i % int(engine.Outcomes))}
		if err := w.Write(&capture.Record{Time: int64(i) * 1e9, Interface: i % 2, Fate: fate, Length: len(b), Data: b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(make([]capture.Counts, 2), time.Unix(100, 0)), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDissectorOfDatagrams: behind UDP, on the port of encapsulation, a frame decodes as behind its EtherType.
func TestDissectorOfDatagrams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "datagrams.pcapng")
	writeForms(t, path)
	script := dissector(t)
	plain, _ := framesIn(t, path)
	file, err := capture.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := capture.NewWriter(file, &capture.Begin{Info: attach.Info{Interfaces: []string{"a"}}, Snap: capture.MaxSnap}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range plain[:9] {
		ip := &packets.IPv4{Version: 4, TTL: 64, Protocol: packets.IPProtocolUDP, SrcIP: net.IPv4(198, 18, 0, 1), DstIP: net.IPv4(198, 18, 0, 2)}
		udp := &packets.UDP{SrcPort: 30601, DstPort: probe.DefaultPort}
		buffer := gopacket.NewSerializeBuffer()
		err := errors.Join(udp.SetNetworkLayerForChecksum(ip), gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
			&packets.Ethernet{SrcMAC: b[6:12], DstMAC: b[:6], EthernetType: packets.EthernetTypeIPv4}, ip, udp, gopacket.Payload(b[arctic.EthernetSize:])),
			w.Write(&capture.Record{Length: len(buffer.Bytes()), Data: buffer.Bytes()}))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close([]capture.Counts{{}}, time.Unix(100, 0)), file.Close()); err != nil {
		t.Fatal(err)
	}
	if n := len(tshark(t, script, "-r", path, "-Y", "udp and funet.checksum.status == 1 and not funet.malformed and not _ws.lua.error")); n != 9 {
		t.Errorf("%d of 9 datagrams decode", n)
	}
}

// TestDissectorOfDamage: what a card drops is malformed for the dissector, and says why in its comment.
func TestDissectorOfDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forms.pcapng")
	writeForms(t, path)
	script := dissector(t)
	good, _ := framesIn(t, path)
	file, err := capture.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := capture.NewWriter(file, &capture.Begin{Info: attach.Info{Interfaces: []string{"a"}}, Snap: capture.MaxSnap}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, g := range good[:9] {
		for at := arctic.EthernetSize + 1; at < min(len(g), 140); at++ {
			b := slices.Clone(g)
			b[at] ^= 1 << (at % 8)
			if at < 76 || at >= 80 { // all but the checksum, which is then right for what else is wrong
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
			if err := w.Write(&capture.Record{Fate: engine.Fate{Outcome: engine.BadTrain}, Length: len(b), Data: b}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close([]capture.Counts{{}}, time.Unix(100, 0)), file.Close()); err != nil {
		t.Fatal(err)
	}
	if n := len(tshark(t, script, "-r", path, "-Y", "funet.malformed or funet.checksum.bad")); n != refused || n < 100 {
		missed := tshark(t, script, "-r", path, "-Y", "not (funet.malformed or funet.checksum.bad)", "-x")
		t.Errorf("%d of %d frames that a card drops are malformed; not:\n%s", n, refused, strings.Join(missed[:min(40, len(missed))], "\n"))
	}
	if n := len(tshark(t, script, "-r", path, "-Y", `not _ws.lua.error and frame.comment == "dropped: malformed train"`)); n != refused {
		t.Errorf("%d have their comment, want %d", n, refused)
	}
}

// Rule: the dissector tells hellos between cards from frames of another version, and shows who says what.
func TestDissectorOfHellos(t *testing.T) {
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
	lines := tshark(t, dissector(t), "-r", path, "-Y", "not funet.other_version and not funet.malformed and funet.source_card == 513", "-T", "fields", "-e", "_ws.col.Info")
	want := []string{"Hello: question, card 513 of a-host", "Hello: answer, card 513 of a-host", "Hello: announcement, card 513 of a-host", "Hello: goodbye, card 513 of a-host"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}

// TestCaptureRefusals: others' frames are not for ordinary users; one captures at a time; mistakes are one line.
func TestCaptureRefusals(t *testing.T) {
	_, _, sockets := captured(t)
	start(t, nobody(exec.Command(command, "capture", "--socket", sockets[0], "-")), nil).fails("capturing frames as user 65534", "administrator")
	first := funet(t, "capture", "--socket", sockets[0], filepath.Join(t.TempDir(), "a"))
	first.begun()
	funet(t, "capture", "--socket", sockets[0], filepath.Join(t.TempDir(), "b")).fails("captures already", "end it first", fmt.Sprint(first.cmd.Process.Pid))
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.wait()
	eventually(t, "another may capture when the first was killed", func() bool {
		p := funet(t, "capture", "--socket", sockets[0], "--duration", "10ms", filepath.Join(t.TempDir(), "c"))
		return p.wait() == 0
	})
	funet(t, "capture", "--socket", "/none/s", "x").fails("/none/s", "no daemon")
	eventually(t, "the daemon has seen the end of that", func() bool {
		p := funet(t, "capture", "--socket", sockets[0], "/none/x")
		return p.wait() == 1 && strings.Contains(p.stderr.String(), "creating a capture: open /none/x")
	})
	funet(t, "capture", "--size", "5", "x").fails("--size 5", "4096")
	funet(t, "capture", "--snap", "-1", "x").fails("--snap -1", "use 1 to")
	funet(t, "capture", "--count", "-1", "x").fails("--count -1")
	funet(t, "capture", "a", "b").fails("funet capture --help")
}

// TestCaptureBounds: a capture ends at its bounds, and cuts frames.
func TestCaptureBounds(t *testing.T) {
	_, name, sockets := captured(t)
	path := filepath.Join(t.TempDir(), "a")
	p := funet(t, "capture", "--socket", sockets[0], "--count", "50", "--snap", "20", path)
	small := filepath.Join(t.TempDir(), "b")
	q := funet(t, "capture", "--socket", sockets[1], "--size", "8192", small)
	p.begun()
	q.begun()
	funet(t, "run", "-n", "2", "--lab="+name, "--", "funet", "pingpong", "--exchanges", "300").wait()
	if code := p.wait(); code != 0 || !strings.Contains(p.stderr.String(), "50 frames") {
		t.Errorf("%d: %s", code, p.stderr.String())
	}
	list, _ := framesIn(t, path)
	if len(list) != 50 || slices.ContainsFunc(list, func(b []byte) bool { return len(b) != 20 }) {
		t.Errorf("%d frames", len(list))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: others may read it", info.Mode())
	}
	if code := q.wait(); code != 0 {
		t.Errorf("%d: %s", code, q.stderr.String())
	}
	if info, err := os.Stat(small); err != nil || info.Size() < 7000 || info.Size() > 9000 {
		t.Errorf("%v", info)
	}
	framesIn(t, small)
}

// TestCaptureFullDisk: one line says that the disk is full, and the capture ends.
func TestCaptureFullDisk(t *testing.T) {
	_, name, sockets := captured(t)
	p := funet(t, "capture", "--socket", sockets[0], "/dev/full")
	if code := p.wait(); code != 1 || !strings.Contains(p.stderr.String(), "no space left on device") {
		t.Errorf("%d: %s", code, p.stderr.String())
	}
	funet(t, "run", "-n", "2", "--lab="+name, "--", "funet", "pingpong", "--exchanges", "50").wait()
}

// TestCaptureStuckPipe: Ctrl-C ends a capture also while it waits for a reader that does not read.
func TestCaptureStuckPipe(t *testing.T) {
	_, name, sockets := captured(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := exec.Command(command, "capture", "--socket", sockets[0])
	c.Stdout = w
	p := start(t, c, nil)
	w.Close()
	p.begun()
	// Far more than a pipe holds.
	if job := funet(t, "run", "-n", "2", "--lab="+name, "--", "funet", "transfer", "--bytes", "4194304"); job.wait() != 0 {
		t.Fatal(job.stderr.String())
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 130 {
		t.Errorf("%d: %s", code, p.stderr.String())
	}
}

// TestCaptureSlowReader: while nobody reads what is captured, programs run on as if nobody captured; what was lost is counted
// in the file.
func TestCaptureSlowReader(t *testing.T) {
	_, name, sockets := captured(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := exec.Command(command, "capture", "--socket", sockets[0])
	c.Stdout = w
	p := start(t, c, nil)
	w.Close()
	p.begun()
	// More than the ring, the sockets and the pipe hold.
	job := funet(t, "run", "-n", "2", "--lab="+name, "--", "funet", "transfer", "--bytes", strconv.Itoa(3*capture.RingSize))
	if code := job.wait(); code != 0 {
		t.Fatalf("the job ended with %d: %s", code, job.stderr.String())
	}
	path := filepath.Join(t.TempDir(), "slow")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(out, r)
		read <- errors.Join(err, out.Close())
	}()
	// The ring was full, and every batch that was made after the job has its losses.
	eventually(t, "the reader has batches that were made after the job", func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > capture.RingSize/2
	})
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 143 {
		t.Errorf("%d: %s", code, p.stderr.String())
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	list, lost := framesIn(t, path)
	if lost == 0 || len(list) == 0 {
		t.Errorf("%d frames, %d lost", len(list), lost)
	}
}
