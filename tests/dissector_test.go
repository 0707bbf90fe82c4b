package tests

// This file holds the dissector against package layers: every field of a frame that tshark shows
// is, value by value, what the Go decoder makes of the same bytes.

import (
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/arctic/layers"
)

// fieldsOf are the values of every field of the dissector for a frame, by the Go decoder, in the
// order in which they stand in the frame. Those that have none are left out.
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
	put("flags", uint64(f.Level)|flag(f.Hello)<<1|flag(f.Bye)<<2|flag(f.Block != nil ||
		f.Ciphertext != nil && frame[15]&8 != 0)<<3|flag(f.Sealed)<<4|flag(f.Readable)<<5|flag(f.Defer)<<6)
	put("flags.level", uint64(f.Level))
	put("flags.hello", flag(f.Hello))
	put("flags.bye", flag(f.Bye))
	put("flags.block", flag(frame[15]&8 != 0))
	put("flags.sealed", flag(f.Sealed))
	put("flags.readable", flag(f.Readable))
	put("flags.defer", flag(f.Defer))
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
		put("greeting.flags.defers", flag(g.Flags&arctic.Defers != 0))
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
		var r arctic.Remote
		if p.Kind == arctic.KindRemote && len(p.Payload) >= 5*arctic.WordSize {
			h := wire.Header()
			if !wire.Remote(&h, &r) {
				t.Fatalf("no remote write: % x", p.Payload)
			}
			put("remote.key", r.Key)
			put("remote.offset", uint64(r.Offset))
			put("remote.area", uint64(r.Area))
			put("remote.counted", flag(r.Counted))
			put("remote.delta", uint64(r.Delta))
			continue
		}
		var m arctic.Send
		if p.Kind == arctic.KindSend && len(p.Payload) >= 8*arctic.WordSize {
			h := wire.Header()
			if !wire.Send(&h, &m) {
				t.Fatalf("no message: % x", p.Payload)
			}
			put("send.form", uint64(m.Form))
			put("send.total", uint64(m.Total))
			put("send.key", m.Key)
			put("send.offset", uint64(m.Offset))
			put("send.request", uint64(m.ID))
			put("send.user_tag", m.UserTag)
			put("send.api_tag", uint64(m.APITag))
			continue
		}
		var l arctic.PathPacket
		if p.Kind == arctic.KindExtended && len(p.Payload) >= 2*arctic.WordSize {
			h := wire.Header()
			if !wire.Path(&h, &l) {
				t.Fatalf("no packet of a path: % x", p.Payload)
			}
			put("path.type", uint64(l.Kind))
			put("path.sequence", uint64(l.Sequence))
			put("path.generation", uint64(l.Generation))
			put("path.origin", uint64(l.Origin))
			put("path.target", uint64(l.Target))
			continue
		}
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
		if x.Form == arctic.Single && len(x.Data) <= arctic.MaxSingleWords*arctic.WordSize || x.Form == arctic.Last {
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
		var r arctic.Remote
		if h := p.Header(); h.Kind == arctic.KindRemote && p.Remote(&h, &r) {
			for name, b := range map[string][]byte{"funet.remote.metadata": r.Metadata, "funet.remote.data": r.Data} {
				if len(b) > 0 {
					v[name] = append(v[name], hex.EncodeToString(b))
				}
			}
		}
		var m arctic.Send
		if h := p.Header(); h.Kind == arctic.KindSend && p.Send(&h, &m) && len(m.Data) > 0 {
			v["funet.send.data"] = append(v["funet.send.data"], hex.EncodeToString(m.Data))
		}
		var l arctic.PathPacket
		if h := p.Header(); h.Kind == arctic.KindExtended && p.Path(&h, &l) && len(l.Data) > 0 {
			v["funet.path.data"] = append(v["funet.path.data"], hex.EncodeToString(l.Data))
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

// compare has tshark decode a capture, compares each field of each frame, and returns the fields
// that had a value.
func compare(t *testing.T, script, path string) map[string]bool {
	t.Helper()
	var names []string
	for _, line := range tshark(t, script, "-G", "fields") {
		if c := strings.Split(line, "\t"); c[0] == "F" && strings.HasPrefix(c[2], "funet.") &&
			!slices.Contains(noValue, c[2]) {
			names = append(names, c[2])
		}
	}
	if len(names) < 40 {
		t.Fatalf("the dissector has the fields %v", names)
	}
	if l := tshark(t, script, "-r", path, "-Y",
		"_ws.malformed or _ws.lua.error or funet.malformed or funet.checksum.bad or funet.other_version"); l[0] != "" {
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

// TestDissectorOfBundles: tshark shows each frame of a bundle as it shows the frame alone, and
// takes a bundle that is damaged.
func TestDissectorOfBundles(t *testing.T) {
	var frames [][]byte
	for i := range byte(3) {
		b := make([]byte, arctic.HeaderSize)
		h := arctic.Header{To: [6]byte{2, 0, 0, 0, 0, i}, SourceCard: 9, DestinationCard: uint16(i),
			Sequence: 100 + uint32(i)}
		h.Encode(b)
		arctic.Seal(b, len(b))
		frames = append(frames, b)
	}
	b := make([]byte, 1500)
	b = b[:arctic.PutBundle(b, frames)]
	cut := slices.Clone(b)
	cut[28] = 10
	path := filepath.Join(t.TempDir(), "bundles.pcap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	if err := w.WriteFileHeader(65536, gplayers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, p := range [][]byte{b, cut, b[:44], b[:40]} {
		if err := w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(p), Length: len(p)}, p); err != nil {
			t.Fatal(err)
		}
	}
	got := tshark(t, dissector(t), "-r", path, "-T", "fields", "-e", "funet.sequence", "-e", "_ws.col.Info")
	want := []string{"100,101,102\tBundle of 3 frames", "\tBundle of 3 frames", "\tBundle of 3 frames", "\tVersion 8"}
	if !slices.Equal(got, want) {
		t.Errorf("tshark shows %q, want %q", got, want)
	}
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
