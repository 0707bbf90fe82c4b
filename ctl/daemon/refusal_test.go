package daemon_test

// This file tests what is refused: each with the number of its reason, and nothing half
// made left behind.

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// until waits for something that no client waits for.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	(&client{t: t}).until(what, done)
}

// eventually is until for conditions that cost the daemons work: it looks ten times a second, less
// often than the daemons refuse.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// status asks the daemon, as root.
func (r *running) status(t testing.TB) (s report.Status) {
	t.Helper()
	s, err := r.askStatus(t)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// askStatus does that, and returns what went wrong.
func (r *running) askStatus(t testing.TB) (s report.Status, err error) {
	t.Helper()
	k := dial(t, r.socket)
	defer k.Close()
	return askStatusOn(k)
}

// statusOn asks on a connection.
func statusOn(t testing.TB, k *client) report.Status {
	t.Helper()
	s, err := askStatusOn(k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func askStatusOn(k *client) (s report.Status, err error) {
	message, err := attach.EncodeBody(attach.KindStatus, nil)
	if err != nil {
		return s, err
	}
	if err := attach.Send(k.Conn, message); err != nil {
		return s, err
	}
	answer, _, err := attach.Receive(k.Conn, k.Buffer, 0)
	if err != nil {
		return s, err
	}
	body, err := attach.DecodeBody(answer, attach.KindStatus|attach.AnswerBit)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(body, &s)
}

// Rule: a context is given only to a process that shows the token of a job that is here, may use
// the job's GID, and is the first as that node, on this card.
func TestAttachRefuses(t *testing.T) {
	b := newBed(t)
	d := b.start(0, func(c *daemon.Config) { c.Rules = []config.Rule{{GIDs: []config.Range{{First: 5, Last: 9}}}} })
	k := dial(t, d.socket)
	token := attach.NewToken()
	for gid, want := range map[uint16]error{4: attach.ErrForbidden, 10: attach.ErrForbidden,
		2048: attach.ErrForbidden} {
		_, err := k.Job(attach.JobRequest{GID: gid, Token: token, Cards: []uint16{0}})
		wantError(t, err, want)
	}
	if _, err := k.Job(attach.JobRequest{Token: token, Cards: []uint16{0, 2}}); !errors.Is(err, attach.ErrRoute) {
		t.Errorf("a card that is not there: %v", err)
	}
	gid, err := k.Job(attach.JobRequest{Token: token, Cards: []uint16{0, 1}})
	if err != nil || gid < 5 || gid > 9 {
		t.Fatalf("GID %d: %v", gid, err)
	}
	_, err = k.Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
	wantError(t, err, attach.ErrAttached)
	_, err = dial(t, d.socket).Job(attach.JobRequest{Token: token, Cards: make([]uint16, config.DefaultContexts+1)})
	wantError(t, err, attach.ErrQuota)
	_, err = dial(t, d.socket).Job(attach.JobRequest{GID: gid, Token: token, Cards: []uint16{0}})
	wantError(t, err, attach.ErrTaken)

	good := attach.AttachRequest{GID: gid, Token: token, Slots: 16}
	for what, c := range map[string]struct {
		change func(*attach.AttachRequest)
		want   error
	}{
		"token":         {func(r *attach.AttachRequest) { r.Token[31]++ }, attach.ErrToken},
		"no token":      {func(r *attach.AttachRequest) { r.Token = attach.Token{} }, attach.ErrToken},
		"foreign GID":   {func(r *attach.AttachRequest) { r.GID = 4 }, attach.ErrForbidden},
		"no such GID":   {func(r *attach.AttachRequest) { r.GID = gid%9 + 1 }, attach.ErrForbidden},
		"system group":  {func(r *attach.AttachRequest) { r.GID = 0 }, attach.ErrForbidden},
		"no job":        {func(r *attach.AttachRequest) { r.GID = 5 + (gid-4)%5 }, attach.ErrGroup},
		"other card":    {func(r *attach.AttachRequest) { r.Node = 1 }, attach.ErrNode},
		"no such node":  {func(r *attach.AttachRequest) { r.Node = 2 }, attach.ErrNode},
		"three slots":   {func(r *attach.AttachRequest) { r.Slots = 3 }, attach.ErrSlots},
		"too many":      {func(r *attach.AttachRequest) { r.Slots = 1 << 17 }, attach.ErrSlots},
		"2^32-1 slots":  {func(r *attach.AttachRequest) { r.Slots = 1<<32 - 1 }, attach.ErrSlots},
		"a large queue": {func(r *attach.AttachRequest) { r.Slots = 1 << 16 }, nil},
	} {
		if what == "no such GID" && gid < 9 {
			continue // then it is within the rule
		}
		r := good
		c.change(&r)
		k := dial(t, d.socket)
		if err := k.attach(r); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		k.Close()
		until(t, "all is free", func() bool { return len(d.status(t).Contexts) == 0 })
	}
	first := dial(t, d.socket)
	if err := first.attach(good); err != nil {
		t.Fatal(err)
	}
	wantError(t, dial(t, d.socket).attach(good), attach.ErrTaken)
	wantError(t, first.attach(good), attach.ErrAttached)
	wantError(t, k.attach(good), attach.ErrAttached) // a job's connection has no context
	if s := d.status(t); len(s.Contexts) != 1 || len(s.Jobs) != 1 || s.Jobs[0].Attached != 1 {
		t.Errorf("afterwards: %+v", s)
	}
}

// Rule: a user has at most what its rule allows, and gets all of it again afterwards.
func TestQuotas(t *testing.T) {
	b := newBed(t)
	context, _ := funi.SharedSize(16)
	bytes := int64(2*context + 4096)
	d := b.start(0, func(c *daemon.Config) {
		c.Rules = []config.Rule{{Contexts: 2, Jobs: 2, Connections: 6, Bytes: bytes}}
	})
	for range 3 {
		token := attach.NewToken()
		k, more, third := dial(t, d.socket), dial(t, d.socket), dial(t, d.socket)
		gid, err := k.Job(attach.JobRequest{Token: token, Cards: []uint16{0, 1, 0}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = third.Job(attach.JobRequest{Token: token, Cards: []uint16{0, 0, 0}})
		wantError(t, err, attach.ErrQuota) // of contexts
		other, err := more.Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
		wantError(t, err, nil)
		_, err = third.Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
		wantError(t, err, attach.ErrQuota) // of jobs
		third.Close()
		until(t, "it is closed", func() bool { s, err := d.askStatus(t); return err == nil && s.Connections == 3 })
		node := func(gid, n uint16) (*client, error) {
			c := dial(t, d.socket)
			return c, c.attach(attach.AttachRequest{GID: gid, Node: n, Slots: 16, Token: token})
		}
		one, err := node(gid, 0)
		wantError(t, err, nil)
		segment := func(base uint32, bytes uint64) error {
			answer, fds := one.ask(attach.SegmentRequest{Base: base, Rights: funi.Source, Bytes: bytes}.Encode(), 1)
			attach.CloseDescriptors(fds)
			_, err := attach.DecodeSegmentAnswer(answer)
			return err
		}
		unsegment := func(base uint32) error {
			answer, _ := one.ask(attach.UnsegmentRequest{Base: base}.Encode(), 0)
			_, err := attach.DecodeBody(answer, attach.KindUnsegment|attach.AnswerBit)
			return err
		}
		two, err := node(gid, 2)
		wantError(t, err, nil)
		wantError(t, segment(16, 8192), attach.ErrQuota)
		wantError(t, segment(16, 1<<32-16), attach.ErrQuota)
		wantError(t, segment(16, 1<<32), attach.ErrSegment)
		wantError(t, segment(16, 1<<63), attach.ErrSegment)
		wantError(t, segment(8, 16), attach.ErrSegment)
		wantError(t, segment(16, 4096), nil)
		wantError(t, segment(4096, 16), attach.ErrQuota)
		wantError(t, unsegment(32), attach.ErrNoSegment)
		wantError(t, unsegment(16), nil)
		wantError(t, segment(16, 4096), nil)
		three, err := node(other, 0)
		wantError(t, err, attach.ErrQuota)
		six, seven := dial(t, d.socket), dial(t, d.socket)
		answer, _, err := attach.Receive(seven.Conn, seven.Buffer, 0)
		if h, _ := attach.DecodeHeader(answer); err != nil || h.Status != attach.ErrQuota {
			t.Errorf("a seventh connection: %v, %v", h.Status, err)
		}
		for _, c := range []*client{k, more, one, two, three, six, seven} {
			c.Close()
		}
		until(t, "all is free", func() bool {
			s, err := d.askStatus(t) // refused until the connections have ended
			return err == nil && s.Connections == 1 && len(s.Jobs) == 0 && s.Bytes == 0
		})
	}
}

// Rule: a message that is none gets one answer, and then the end of the connection; an
// unknown kind an answer.
func TestMalformed(t *testing.T) {
	b := newBed(t)
	d := b.start(0, nil)
	info, err := attach.EncodeBody(attach.KindInfo, nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func([]byte) []byte
		want   error
		open   bool
	}{
		"short":   {func(m []byte) []byte { return m[:7] }, attach.ErrMalformed, false},
		"magic":   {func(m []byte) []byte { m[0]++; return m }, attach.ErrMalformed, false},
		"version": {func(m []byte) []byte { m[4]++; return m }, attach.ErrVersion, false},
		"length":  {func(m []byte) []byte { m[8]++; return m }, attach.ErrMalformed, false},
		"status":  {func(m []byte) []byte { m[12]++; return m }, attach.ErrMalformed, false},
		"a body":  {func(m []byte) []byte { m[8]++; return append(m, 0) }, attach.ErrMalformed, false},
		"attach short": {func(m []byte) []byte { m[6] = byte(attach.KindAttach); return m },
			attach.ErrMalformed, false},
		"job short": {func(m []byte) []byte { m[6] = byte(attach.KindJob); return m }, attach.ErrMalformed, false},
		"an answer": {func(m []byte) []byte { m[7] |= 0x80; return m }, attach.ErrKind, true},
		"kind 999": {func(m []byte) []byte { binary.LittleEndian.PutUint16(m[6:], 999); return m },
			attach.ErrKind, true},
		"segment": {func([]byte) []byte { return attach.SegmentRequest{Base: 16, Rights: 1, Bytes: 16}.Encode() },
			attach.ErrNotAttached, true},
		"unsegment": {func([]byte) []byte { return attach.UnsegmentRequest{Base: 16}.Encode() },
			attach.ErrNotAttached, true},
		"detach": {func([]byte) []byte { return attach.DetachRequest{}.Encode() }, attach.ErrNotAttached, true},
	} {
		k := dial(t, d.socket)
		answer, _ := k.ask(c.change(append([]byte{}, info...)), 0)
		h, err := attach.DecodeHeader(answer)
		if err != nil || h.Status != c.want {
			t.Errorf("%s: status %v, %v, want %v", what, h.Status, err, c.want)
		}
		if c.open {
			if answer, _ = k.ask(info, 0); len(answer) < 100 {
				t.Errorf("%s: then %q", what, answer)
			}
		} else {
			k.closed()
		}
		k.Close()
	}
	// A message longer than any, and none at all.
	k := dial(t, d.socket)
	if err := attach.Send(k.Conn, make([]byte, attach.MaxMessage+1)); err != nil {
		t.Fatal(err)
	}
	_ = k.Conn.SetReadDeadline(time.Now().Add(patience))
	if answer, _, err := attach.Receive(k.Conn, k.Buffer, 0); err != nil {
		t.Error(err)
	} else if h, _ := attach.DecodeHeader(answer); h.Status != attach.ErrMalformed {
		t.Errorf("a long message: %v", h.Status)
	}
	k.closed()
	k = dial(t, d.socket)
	_, _, _ = k.Conn.WriteMsgUnix(nil, nil, nil)
	_, _, err = attach.Receive(k.Conn, k.Buffer, 0)
	wantError(t, err, io.EOF)
	until(t, "all is free", func() bool { return d.status(t).Connections == 1 })
}
