package attach_test

// This file holds the rules of messages: what is encoded decodes to the same, and what
// decodes encodes to the same bytes, whatever the other side sends.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// message is a type of message: decode reads one and encodes it again.
type message struct {
	name   string
	decode func([]byte) ([]byte, error)
}

var messages = []message{
	{"attach", again(attach.DecodeAttachRequest, attach.AttachRequest.Encode)},
	{"attach answer", again(attach.DecodeAttachAnswer, attach.AttachAnswer.Encode)},
	{"segment", again(attach.DecodeSegmentRequest, attach.SegmentRequest.Encode)},
	{"segment answer", again(attach.DecodeSegmentAnswer, attach.SegmentRequest.EncodeAnswer)},
	{"unsegment", again(attach.DecodeUnsegmentRequest, attach.UnsegmentRequest.Encode)},
	{"job", again(attach.DecodeJobRequest, func(r attach.JobRequest) []byte {
		b, err := r.Encode()
		if err != nil {
			panic(err)
		}
		return b
	})},
	{"job answer", again(attach.DecodeJobAnswer, attach.JobAnswer.Encode)},
	{"detach", again(attach.DecodeDetachRequest, attach.DetachRequest.Encode)},
	{"port", again(attach.DecodePortRequest, attach.AttachRequest.EncodePort)},
	{"port answer", again(attach.DecodePortAnswer, attach.PortAnswer.Encode)},
	{"resume", again(attach.DecodeResumeRequest, attach.ResumeRequest.Encode)},
	{"fate", again(attach.DecodeFate, attach.Fate.Encode)},
	{"doubt", again(attach.DecodeDoubt, attach.Doubt.Encode)},
	{"neighbours answer", list(attach.KindNeighbours)},
	{"share", again(attach.DecodeShareRequest, attach.ShareRequest.Encode)},
	{"share answer", again(attach.DecodeShareAnswer, attach.ShareAnswer.Encode)},
	{"row", again(attach.DecodeRowRequest, attach.RowRequest.Encode)},
	{"row answer", again(attach.DecodeRowAnswer, attach.RowAnswer.Encode)},
	{"stations answer", list(attach.KindStations)},
}

// list is again for a list of numbers.
func list(k attach.Kind) func([]byte) ([]byte, error) {
	return again(func(b []byte) ([]uint16, error) { return attach.DecodeList(b, k) }, func(list []uint16) []byte {
		b, err := attach.EncodeList(k, list)
		if err != nil {
			panic(err)
		}
		return b
	})
}

func again[T any](decode func([]byte) (T, error), encode func(T) []byte) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		v, err := decode(b)
		if err != nil {
			return nil, err
		}
		return encode(v), nil
	}
}

var geometry = port.Geometry{FrameSize: 2048, Frames: 1024, RxSize: 2048, TxSize: 512, FillSize: 512,
	CompletionSize: 512}

// samples is one message of each type, in the order of messages.
func samples() [][]byte {
	token := attach.Token(bytes.Repeat([]byte{0xa5}, attach.TokenSize))
	segment := attach.SegmentRequest{Base: 0x1000, Rights: funi.Source | funi.Destination, Bytes: 1 << 20}
	job, _ := attach.JobRequest{GID: 5, Token: token, Cards: []uint16{0, 1, 0xffff}}.Encode()
	neighbours, _ := attach.EncodeList(attach.KindNeighbours, []uint16{0, 7, 0xffff})
	stations, _ := attach.EncodeList(attach.KindStations, []uint16{attach.NoStation, 7, 7})
	return [][]byte{
		attach.AttachRequest{GID: 5, Node: 1, Slots: 64, Token: token}.Encode(),
		attach.AttachAnswer{ABI: funi.ABI, Context: 7, GID: 5, Node: 1, Nodes: 3, Slots: 64, Memory: 4096 + 6*64*128,
			Incarnation: 99}.Encode(),
		segment.Encode(), segment.EncodeAnswer(),
		attach.UnsegmentRequest{Base: 0x1000}.Encode(),
		job, attach.JobAnswer{GID: 5}.Encode(),
		attach.DetachRequest{Linger: 2 * time.Second}.Encode(),
		attach.AttachRequest{GID: 5, Node: 1, Token: token}.EncodePort(),
		attach.PortAnswer{GID: 5, Node: 1, Nodes: 3, MTU: 1500, Geometry: geometry}.Encode(),
		attach.ResumeRequest{GID: 5, Node: 1, Ticket: attach.Ticket{1, 15: 2}, Token: token}.Encode(),
		attach.Fate{Node: 3, Lives: true, Life: 7, Order: 9}.Encode(),
		attach.Doubt{Node: 3, Life: 7}.Encode(),
		neighbours, attach.ShareRequest{Node: 7}.Encode(), attach.ShareAnswer{Node: 7, Bytes: 1 << 19}.Encode(),
		attach.RowRequest{AttachRequest: attach.AttachRequest{GID: 5, Node: 1, Slots: 4, Token: token},
			Count: 3}.Encode(),
		attach.RowAnswer{AttachAnswer: attach.AttachAnswer{ABI: funi.ABI, GID: 5, Node: 1, Nodes: 4, Slots: 4,
			Memory: 3 * 8192, Incarnation: 99}, Contexts: []uint16{2048, 2050, 0xffff}}.Encode(),
		stations,
	}
}

// Rule: a message that was encoded decodes to what was encoded (package attach).
func TestMessagesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u16, u32 := rapid.Uint16(), rapid.Uint32()
		token := attach.Token(rapid.SliceOfN(rapid.Byte(), attach.TokenSize, attach.TokenSize).Draw(t, "token"))
		r := attach.AttachRequest{GID: u16.Draw(t, "gid"), Node: u16.Draw(t, "node"),
			Slots: u32.Draw(t, "slots"), Token: token}
		same(t, r, r.Encode(), attach.DecodeAttachRequest)

		slots := 1 << rapid.IntRange(1, 16).Draw(t, "slots")
		size, err := funi.SharedSize(slots)
		if err != nil {
			t.Fatal(err)
		}
		nodes := rapid.Uint32Range(1, 1<<16).Draw(t, "nodes")
		a := attach.AttachAnswer{ABI: funi.ABI, Context: rapid.Uint32Range(0, funi.MaxContexts-1).Draw(t, "context"),
			GID: r.GID, Node: uint16(rapid.Uint32Range(0, nodes-1).Draw(t, "member")), Nodes: nodes,
			Slots: uint32(slots), Memory: uint64(size), Incarnation: u32.Draw(t, "incarnation")}
		same(t, a, a.Encode(), attach.DecodeAttachAnswer)

		s := attach.SegmentRequest{Base: u32.Draw(t, "base"),
			Rights: funi.Rights(rapid.IntRange(0, 3).Draw(t, "rights")), Bytes: rapid.Uint64().Draw(t, "bytes")}
		same(t, s, s.Encode(), attach.DecodeSegmentRequest)
		same(t, s, s.EncodeAnswer(), attach.DecodeSegmentAnswer)
		same(t, attach.UnsegmentRequest{Base: s.Base}, attach.UnsegmentRequest{Base: s.Base}.Encode(),
			attach.DecodeUnsegmentRequest)

		r.Slots = 0
		same(t, r, r.EncodePort(), attach.DecodePortRequest)
		p := attach.PortAnswer{GID: r.GID, Node: a.Node, Nodes: nodes, MTU: u32.Draw(t, "mtu"),
			Geometry: port.Geometry{FrameSize: u32.Draw(t, "frame size"),
				Frames: u32.Draw(t, "frames"), RxSize: u32.Draw(t, "rx"), TxSize: u32.Draw(t, "tx"),
				FillSize: u32.Draw(t, "fill"), CompletionSize: u32.Draw(t, "completion")}}
		p.Ticket = attach.Ticket(rapid.SliceOfN(rapid.Byte(), attach.TicketSize, attach.TicketSize).Draw(t, "ticket"))
		p.Readable, p.Generic, p.Sums = rapid.Bool().Draw(t, "readable"), rapid.Bool().Draw(t, "generic"),
			rapid.Bool().Draw(t, "sums")
		if rapid.Bool().Draw(t, "keyed") {
			p.Key = rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")
		}
		p.PeerTimeout, p.ConnectTimeout = time.Duration(u32.Draw(t, "peer timeout"))*time.Millisecond,
			time.Duration(u32.Draw(t, "connect timeout"))*time.Millisecond
		same(t, p, p.Encode(), attach.DecodePortAnswer)
		life := rapid.Uint32Range(1, math.MaxUint32).Draw(t, "life")
		f := attach.Fate{Node: r.Node, Lives: p.Readable, Life: life, Order: rapid.Uint64().Draw(t, "order")}
		same(t, f, f.Encode(), attach.DecodeFate)
		same(t, attach.Doubt{Node: r.Node, Life: life}, attach.Doubt{Node: r.Node, Life: life}.Encode(),
			attach.DecodeDoubt)
		again := attach.ResumeRequest{GID: r.GID, Node: r.Node, Ticket: p.Ticket, Token: token}
		same(t, again, again.Encode(), attach.DecodeResumeRequest)
		with := attach.ShareAnswer{Node: a.Node, Bytes: s.Bytes}
		same(t, with, with.Encode(), attach.DecodeShareAnswer)
		row := attach.RowRequest{AttachRequest: r, Count: rapid.IntRange(1, attach.MaxRow).Draw(t, "count")}
		same(t, row, row.Encode(), attach.DecodeRowRequest)
		stride, _, err := attach.RowStride(slots, funi.RemoteSizes{})
		if err != nil {
			t.Fatal(err)
		}
		all := rapid.SliceOfN(rapid.Uint16(), 1, 9).Draw(t, "contexts")
		of := attach.RowAnswer{AttachAnswer: a, Contexts: all}
		of.Context, of.Nodes, of.Memory = uint32(all[0]), uint32(a.Node)+9, uint64(stride*len(all))
		if of.Nodes <= 1<<16 {
			same(t, of, of.Encode(), attach.DecodeRowAnswer)
		}
		same(t, attach.ShareRequest{Node: a.Node}, attach.ShareRequest{Node: a.Node}.Encode(),
			attach.DecodeShareRequest)

		j := attach.JobRequest{GID: r.GID, Direct: rapid.Bool().Draw(t, "direct"), Token: token,
			Cards: rapid.SliceOfN(u16, 1, 300).Draw(t, "cards")}
		b, err := j.Encode()
		if err != nil {
			t.Fatal(err)
		}
		same(t, j, b, attach.DecodeJobRequest)
		d := attach.DetachRequest{Linger: time.Duration(u32.Draw(t, "linger")) * time.Millisecond}
		same(t, d, d.Encode(), attach.DecodeDetachRequest)
		same(t, attach.JobAnswer{GID: r.GID}, attach.JobAnswer{GID: r.GID}.Encode(), attach.DecodeJobAnswer)
	})
}

func same[T any](t *rapid.T, want T, b []byte, decode func([]byte) (T, error)) {
	t.Helper()
	got, err := decode(b)
	if err != nil {
		t.Fatalf("decoding %x: %v", b, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	for cut := range b {
		if _, err := decode(b[:cut]); !errors.Is(err, attach.ErrMalformed) {
			t.Fatalf("%d bytes of %d: %v", cut, len(b), err)
		}
	}
}

// Rule: offsets and numbers are those of the documentation (package attach, messages.go).
func TestMessageLayout(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"attach", attach.AttachRequest{GID: 0x0102, Node: 0x0304, Slots: 0x05060708,
			Token: attach.Token{0xaa, 31: 0xbb}}.Encode(),
			"46554e4901000100" + "4000000000000000" + "0201040308070605" + "0000000000000000" + "aa" +
				strings.Repeat("00", 30) + "bb"},
		{"port answer", attach.PortAnswer{GID: 3, Node: 4, Nodes: 5, MTU: 1500,
			Geometry: port.Geometry{FrameSize: 2048, Frames: 1, RxSize: 2, TxSize: 3, FillSize: 4, CompletionSize: 6},
			Ticket:   attach.Ticket{0xcc, 15: 0xdd}, Key: append(make([]byte, 31), 0xee), Readable: true, Generic: true,
			Sums: true, PeerTimeout: time.Second, ConnectTimeout: 2 * time.Second}.Encode(),
			"46554e4901001080" + "7000000000000000" + "0300040005000000" + "dc05000000080000" + "0100000002000000" +
				"0300000004000000" + "06000000" + "cc" + strings.Repeat("00", 14) + "dd" + "0f000000" +
				strings.Repeat("00", 31) + "ee" + "e8030000d0070000"},
		{"fate", attach.Fate{Node: 3, Lives: true, Life: 4, Order: 5}.Encode(),
			"46554e4901001280" + "2000000000000000" + "0300010004000000" + "0500000000000000"},
		{"doubt", attach.Doubt{Node: 3, Life: 4}.Encode(), "46554e4901001200" + "1800000000000000" +
			"0300000004000000"},
		{"attach answer", attach.AttachAnswer{ABI: funi.ABI, Context: 2, GID: 3, Node: 4, Nodes: 5, Slots: 64,
			Memory: 53248, Incarnation: 6}.Encode(),
			"46554e4901000180" + "3800000000000000" + "0200000002000000" + "0300040005000000" + "4000000000000000" +
				"00d0000000000000" + "0600000000000000"},
		{"segment", attach.SegmentRequest{Base: 0x1000, Rights: 3, Bytes: 0x2000}.Encode(),
			"46554e4901000200" + "2000000000000000" + "0010000003000000" + "0020000000000000"},
		{"unsegment", attach.UnsegmentRequest{Base: 0x1000}.Encode(),
			"46554e4901000300" + "1800000000000000" + "0010000000000000"},
		{"detach", attach.DetachRequest{Linger: 0x1234567 * time.Microsecond}.Encode(),
			"46554e4901000800" + "1800000000000000" + "904a000000000000"},
		{"row", attach.RowRequest{AttachRequest: attach.AttachRequest{GID: 1, Node: 2, Slots: 4,
			Token: attach.Token{0xaa, 31: 0xbb}}, Count: 0x304}.Encode(),
			"46554e4901001500" + "4800000000000000" + "0100020004000000" + "0000000000000000" + "aa" +
				strings.Repeat("00", 30) + "bb" + "0403000000000000"},
		{"row answer", attach.RowAnswer{AttachAnswer: attach.AttachAnswer{ABI: funi.ABI, GID: 3, Node: 4, Nodes: 6,
			Slots: 4, Memory: 2 * 8192, Incarnation: 6}, Contexts: []uint16{0x800, 0x801}}.Encode(),
			"46554e4901001580" + "3c00000000000000" + "0200000002000000" + "0300040006000000" + "0400000000000000" +
				"0040000000000000" + "0600000000000000" + "00080108"},
		{"job answer", attach.JobAnswer{GID: 9}.Encode(), "46554e4901000480" + "1400000000000000" + "09000000"},
		{"refusal", attach.EncodeRefusal(attach.KindAttach, attach.ErrQuota)[:16],
			"46554e4901000180" + "2800000006000000"},
	} {
		if c.name == "refusal" {
			binary.LittleEndian.PutUint32(c.b[8:], 40) // whatever the text is
		}
		if got := fmt.Sprintf("%x", c.b); got != c.want {
			t.Errorf("%s\n is %s\nnot %s", c.name, got, c.want)
		}
	}
	if b := samples()[5]; len(b) != 62 || b[6] != 4 || binary.LittleEndian.Uint32(b[20:]) != 3 ||
		binary.LittleEndian.Uint16(b[60:]) != 0xffff || b[24] != 0xa5 {
		t.Errorf("job is %x", b)
	}
}

// Rule: whatever was sent, a decoder returns an error that says why, or what encodes to
// the very same bytes; nothing panics.
func FuzzMessages(f *testing.F) {
	for _, b := range samples() {
		f.Add(b)
		f.Add(b[:20])
		f.Add(append(bytes.Clone(b), 0))
	}
	f.Add(attach.EncodeRefusal(attach.KindJob, errors.New("no\nwhere \xff")))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range messages {
			out, err := m.decode(b)
			if err == nil && !bytes.Equal(out, b) {
				t.Fatalf("%s: %x became %x", m.name, b, out)
			}
			var s attach.Status
			if err != nil && !errors.As(err, &s) {
				t.Fatalf("%s: %v has no status", m.name, err)
			}
		}
		for _, k := range []attach.Kind{attach.KindInfo, attach.KindInfo | attach.AnswerBit, attach.KindAdmin} {
			body, err := attach.DecodeBody(b, k)
			if err == nil && len(body) != len(b)-attach.HeaderSize {
				t.Fatalf("a body of %d bytes in %d", len(body), len(b))
			}
		}
	})
}

// Rule: a header with another magic, version or length is refused, and so are reserved
// words that are not 0 and values that contradict each other.
func TestMessagesAreRefused(t *testing.T) {
	for i, m := range messages {
		for _, c := range []struct {
			what string
			at   int
			want attach.Status
		}{
			{"magic", 0, attach.ErrMalformed}, {"version", 4, attach.ErrVersion}, {"kind", 6, attach.ErrMalformed},
			{"length", 8, attach.ErrMalformed},
		} {
			b := samples()[i]
			b[c.at] ^= 0x40
			if _, err := m.decode(b); !errors.Is(err, c.want) {
				t.Errorf("%s with another %s: %v", m.name, c.what, err)
			}
		}
		b := samples()[i]
		b[12] = byte(attach.ErrTaken)
		if _, err := m.decode(b); !errors.Is(err, attach.ErrMalformed) { // its body is no text
			t.Errorf("%s with a status: %v", m.name, err)
		}
	}
	for _, c := range []struct {
		name        string
		message, at int
		value       byte
		want        attach.Status
	}{
		{"attach: flags", 0, 24, 1, attach.ErrMalformed},
		{"attach: reserved", 0, 28, 1, attach.ErrMalformed},
		{"answer: abi", 1, 16, 1, attach.ErrVersion},
		{"answer: context", 1, 22, 1, attach.ErrMalformed},
		{"answer: no nodes", 1, 28, 0, attach.ErrMalformed},
		{"answer: too many nodes", 1, 30, 2, attach.ErrMalformed},
		{"answer: slots", 1, 32, 65, attach.ErrMalformed},
		{"answer: memory", 1, 40, 1, attach.ErrMalformed},
		{"answer: reserved", 1, 36, 1, attach.ErrMalformed},
		{"answer: reserved at the end", 1, 52, 1, attach.ErrMalformed},
		{"segment: rights", 2, 20, 8, attach.ErrMalformed},
		{"unsegment: reserved", 4, 20, 1, attach.ErrMalformed},
		{"job: direct", 5, 18, 2, attach.ErrMalformed},
		{"job: nodes", 5, 20, 4, attach.ErrMalformed},
		{"job: 2^31 nodes", 5, 23, 0x80, attach.ErrMalformed},
		{"job answer: reserved", 6, 18, 1, attach.ErrMalformed},
		{"detach: reserved", 7, 20, 1, attach.ErrMalformed},
		{"port: slots", 8, 20, 64, attach.ErrMalformed},
		{"port: remote memory", 8, 24, 3, attach.ErrMalformed},
		{"port answer: no such node", 9, 18, 3, attach.ErrMalformed},
		{"port answer: too many nodes", 9, 22, 2, attach.ErrMalformed},
		{"port answer: flags", 9, 68, 16, attach.ErrMalformed},
		{"port answer: a key that there is not", 9, 72, 1, attach.ErrMalformed},
		{"resume: reserved", 10, 20, 1, attach.ErrMalformed},
		{"share: reserved", 14, 18, 1, attach.ErrMalformed},
		{"row: no contexts", 16, 64, 0, attach.ErrMalformed},
		{"row: too many contexts", 16, 65, 5, attach.ErrMalformed},
		{"row: reserved", 16, 68, 1, attach.ErrMalformed},
		{"row: remote memory", 16, 24, 60, attach.ErrMalformed},
		{"row answer: abi", 17, 16, 1, attach.ErrVersion},
		{"row answer: no contexts", 17, 20, 0, attach.ErrMalformed},
		{"row answer: more contexts", 17, 20, 4, attach.ErrMalformed},
		{"row answer: nodes beyond the group", 17, 26, 2, attach.ErrMalformed},
		{"row answer: slots", 17, 32, 5, attach.ErrMalformed},
		{"row answer: memory of one", 17, 41, 0x20, attach.ErrMalformed},
		{"row answer: reserved", 17, 52, 1, attach.ErrMalformed},
		{"share answer: reserved", 15, 23, 1, attach.ErrMalformed},
	} {
		b := samples()[c.message]
		b[c.at] = c.value
		if _, err := messages[c.message].decode(b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, n := range []int{0, attach.MaxNodes + 1} {
		if _, err := (attach.JobRequest{Token: attach.Token{1}, Cards: make([]uint16, n)}).Encode(); !errors.Is(err,
			attach.ErrMalformed) {
			t.Errorf("a job of %d nodes: %v", n, err)
		}
	}
	if b, err := (attach.JobRequest{Token: attach.Token{1}, Cards: make([]uint16, attach.MaxNodes)}).Encode(); err !=
		nil || len(b) > attach.MaxMessage {
		t.Errorf("the largest job: %d bytes, %v", len(b), err)
	}
	if _, err := (attach.JobRequest{Cards: []uint16{0}}).Encode(); !errors.Is(err, attach.ErrNoToken) {
		t.Errorf("a job with a token of zeroes is composed: %v", err)
	}
	job := samples()[5]
	clear(job[24:56])
	if _, err := attach.DecodeJobRequest(job); !errors.Is(err, attach.ErrNoToken) {
		t.Errorf("a job with a token of zeroes is read: %v", err)
	}
	if _, err := attach.EncodeBody(attach.KindAdmin, make([]byte, attach.MaxMessage)); !errors.Is(err,
		attach.ErrMalformed) {
		t.Errorf("a body that is too long: %v", err)
	}
}

// Rule: a refusal carries the error's status and its text as one line, whatever it was.
func TestRefusalsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := attach.Status(rapid.Uint32Range(1, uint32(attach.ErrInternal)).Draw(t, "status"))
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 3000), func(b []byte) string {
			return string(b)
		})).Draw(t, "text")
		b := attach.EncodeRefusal(attach.KindSegment, fmt.Errorf("%s: %w", text, s))
		_, err := attach.DecodeSegmentAnswer(b)
		var r *attach.Refusal
		if !errors.Is(err, s) || !errors.As(err, &r) || attach.StatusOf(err) != s {
			t.Fatalf("%v became %v", s, err)
		}
		if !utf8.ValidString(r.Text) || strings.ContainsAny(r.Text, "\n\r\x00") || len(r.Text) > 1024 {
			t.Fatalf("text %q", r.Text)
		}
	})
	if _, err := attach.DecodeSegmentAnswer(attach.EncodeRefusal(0, attach.ErrVersion)); !errors.Is(err,
		attach.ErrVersion) {
		t.Errorf("a refusal of what could not be read: %v", err)
	}
	if s := attach.StatusOf(errors.New("disk on fire")); s != attach.ErrInternal {
		t.Errorf("an error without a status is answered with %d", s)
	}
	if attach.StatusOf(nil) != attach.Done {
		t.Error("no error is not done")
	}
	for s := attach.Done; s <= attach.ErrInternal; s++ {
		if s.Error() == "" {
			t.Errorf("status %d has no text", s)
		}
	}
	if s := attach.Status(4000); s.Error() == "" {
		t.Error("a status of a later version has no text")
	}
}

// Rule: a token's text is 64 hexadecimal digits, and an error does not repeat it.
func TestTokens(t *testing.T) {
	k := attach.NewToken()
	back, err := attach.ParseToken(k.Text())
	if err != nil || !k.Equal(back) || k == attach.NewToken() {
		t.Errorf("token %s came back as %s: %v", k.Text(), back.Text(), err)
	}
	if s := fmt.Sprintf("%v %s %+v %#v", k, k, attach.AttachRequest{Token: k}, k); strings.Contains(s, k.Text()[:8]) {
		t.Errorf("a token is printed by accident: %s", s)
	}
	for _, s := range []string{"", "secret", k.Text()[1:], k.Text() + "00", "g" + k.Text()[1:]} {
		if _, err := attach.ParseToken(s); !errors.Is(err, attach.ErrTokenText) ||
			s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("token %q: %v", s, err)
		}
	}
}
