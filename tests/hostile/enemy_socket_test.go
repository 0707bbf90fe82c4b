package hostile

// This file is the enemy of the daemon's socket.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// halfOpen connects and never speaks, or says part of something.
func (e *enemy) halfOpen() {
	for range 1 + e.r.IntN(20) {
		k := e.dial()
		if k == nil {
			return
		}
		switch e.r.IntN(5) {
		case 0:
			e.say(k, make([]byte, e.r.IntN(16)))
		case 1:
			_ = unix.Shutdown(k.Socket, unix.SHUT_WR)
		case 2:
			_ = unix.Shutdown(k.Socket, unix.SHUT_RD)
			e.say(k, e.valid())
		case 3:
			k.Close()
		}
	}
}

// say sends a message and waits for nothing.
func (e *enemy) say(k *client.Connection, message []byte) {
	_ = k.Conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	_ = attach.Send(k.Conn, message)
}

// valid composes a message that the daemon understands.
func (e *enemy) valid() []byte {
	must := func(b []byte, err error) []byte {
		if err != nil {
			panic(err)
		}
		return b
	}
	switch e.r.IntN(8) {
	case 0:
		return attach.AttachRequest{GID: e.gid(), Node: uint16(e.r.IntN(3)), Slots: e.value(), Token: e.token}.Encode()
	case 1:
		return attach.SegmentRequest{Base: e.value(), Bytes: uint64(e.value()),
			Rights: funi.Rights(e.r.IntN(4))}.Encode()
	case 2:
		return attach.UnsegmentRequest{Base: e.value()}.Encode()
	case 3:
		cards := make([]uint16, 1+e.r.IntN(1+e.r.IntN(attach.MaxNodes)))
		for i := range cards {
			cards[i] = uint16(e.r.IntN(3))
		}
		return must(attach.JobRequest{GID: e.gid(), Token: e.token, Cards: cards}.Encode())
	case 4:
		return must(attach.EncodeBody(attach.KindStatus, nil))
	case 5:
		return must(attach.EncodeBody(attach.KindAdmin, e.command()))
	case 6:
		return attach.DetachRequest{Linger: time.Duration(e.value()) * time.Millisecond}.Encode()
	}
	return must(attach.EncodeBody(attach.KindInfo, nil))
}

// gid is somebody's.
func (e *enemy) gid() uint16 {
	all := append([]uint16{e.c.GID, 0, uint16(e.value())}, e.c.Others...)
	return all[e.r.IntN(len(all))]
}

// command is a command that only an administrator may ask for.
func (e *enemy) command() []byte {
	text, err := json.Marshal(map[string]any{"do": []string{"gid-list", "gid-end", "route-list", "route-set",
		"profile-set", "profile-show",
		"context-list", "context-switch", "stop", "nonsense"}[e.r.IntN(10)], "gid": e.gid(), "node": e.r.IntN(3),
		"card": e.r.IntN(3), "profile": "sbus-arctic"})
	if err != nil {
		panic(err)
	}
	return text
}

// fuzz sends messages that are almost right, and reads some of the answers.
func (e *enemy) fuzz() {
	k := e.dial()
	if k == nil {
		return
	}
	for range 1 + e.r.IntN(20) {
		b := e.valid()
		switch e.r.IntN(4) {
		case 0:
			for range 1 + e.r.IntN(4) {
				b[e.r.IntN(len(b))] ^= 1 << e.r.IntN(8)
			}
		case 1:
			b = b[:e.r.IntN(len(b)+1)]
			if len(b) >= 12 && e.r.IntN(2) == 0 {
				binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
			}
		case 2:
			b = append(b, make([]byte, e.r.IntN(100))...)
			if e.r.IntN(2) == 0 {
				binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
			}
		case 3:
			if len(b) >= 20 {
				binary.LittleEndian.PutUint32(b[16+e.r.IntN((len(b)-16)/4)*4:], e.value())
			}
		}
		e.say(k, b)
		if e.r.IntN(3) == 0 {
			_ = k.Conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			_, fds, err := attach.Receive(k.Conn, k.Buffer, attach.AttachDescriptors)
			attach.CloseDescriptors(fds)
			if errors.Is(err, io.EOF) {
				return
			}
		}
	}
}

// tooLong sends what is longer than a message may be.
func (e *enemy) tooLong() {
	k := e.dial()
	if k == nil {
		return
	}
	b := make([]byte, attach.MaxMessage+1+e.r.IntN(64<<10))
	copy(b, e.valid())
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	e.say(k, b)
}

// passDescriptors sends descriptors by the thousand.
func (e *enemy) passDescriptors() {
	k := e.dial()
	if k == nil {
		return
	}
	var fds []int
	null, err := os.Open("/dev/null")
	if err != nil {
		return
	}
	defer null.Close()
	for range 253 { // SCM_MAX_FD
		fd := int(null.Fd())
		if e.r.IntN(2) == 0 && len(e.kept) > 0 {
			if other := e.kept[e.r.IntN(len(e.kept))]; other.FDs != nil {
				fd = other.Socket // its own end of a connection to the daemon
			}
		}
		fds = append(fds, fd)
	}
	for range 10 {
		_ = k.Conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		if attach.Send(k.Conn, e.valid(), fds...) != nil {
			return
		}
	}
}

// refused asks for something that must be refused.
func (e *enemy) refused(what string, message []byte) {
	k := e.dial()
	if k == nil {
		return
	}
	answer, fds, err := k.Ask(message, attach.AttachDescriptors)
	attach.CloseDescriptors(fds)
	if err != nil {
		return
	}
	h, err := attach.DecodeHeader(answer)
	switch {
	case err != nil:
		bad("%s is answered by %#x: %v", what, answer[:min(len(answer), 16)], err)
	case h.Status == attach.Done:
		bad("%s is allowed", what)
	case h.Status == attach.ErrInternal:
		bad("%s is an internal error: %s", what, answer[attach.HeaderSize:])
	}
}

// others asks for what is others': their groups, nodes and jobs.
func (e *enemy) others() {
	gid := e.c.Others[e.r.IntN(len(e.c.Others))]
	if e.r.IntN(8) == 0 {
		gid = 0
	}
	token := []attach.Token{{}, e.token, attach.NewToken()}[e.r.IntN(3)]
	switch e.r.IntN(3) {
	case 0:
		e.refused("attaching to another's group", attach.AttachRequest{GID: gid, Node: uint16(e.r.IntN(4)),
			Token: token}.Encode())
	case 1:
		if gid == 0 {
			return
		}
		message, err := attach.JobRequest{GID: gid, Token: token, Cards: []uint16{0, 1}}.Encode()
		if err == nil {
			e.refused("making a job with another's group", message)
		}
	case 2: // in its own group: a node that is none, or that is elsewhere
		e.refused("attaching as a node of another card",
			attach.AttachRequest{GID: e.c.GID, Node: uint16(1 - e.host), Token: e.token}.Encode())
		e.refused("attaching with a wrong token", attach.AttachRequest{GID: e.c.GID, Node: uint16(e.host),
			Token: attach.NewToken()}.Encode())
	}
}

// administer commands the daemon.
func (e *enemy) administer() {
	message, err := attach.EncodeBody(attach.KindAdmin, e.command())
	if err == nil {
		e.refused("a command of an administrator", message)
	}
}

// segments makes segments, up to the quota and beyond, of all sizes and at all places,
// and ends some that it has and some that it has not.
func (e *enemy) segments() {
	if e.k == nil || e.k.Conn == nil {
		return
	}
	for range 1 + e.r.IntN(30) {
		r := attach.SegmentRequest{Base: uint32(1+e.r.IntN(1<<12)) << 16, Bytes: 16 << e.r.IntN(20),
			Rights: funi.Rights(1 + e.r.IntN(3))}
		switch e.r.IntN(10) {
		case 0:
			r.Base, r.Bytes = e.value(), uint64(e.value())
		case 1:
			r.Bytes = uint64(e.c.Bytes) + 16
			answer, fds, err := e.k.Ask(r.Encode(), 1)
			attach.CloseDescriptors(fds)
			if err != nil {
				e.k = nil
				return
			}
			if _, err := attach.DecodeSegmentAnswer(answer); err == nil {
				bad("a segment of %d bytes with a quota of %d", r.Bytes, e.c.Bytes)
			}
			continue
		case 2:
			answer, _, err := e.k.Ask(attach.UnsegmentRequest{Base: r.Base}.Encode(), 0)
			if err != nil {
				e.k = nil
				return
			}
			if _, err := attach.DecodeBody(answer, attach.KindUnsegment|attach.AnswerBit); err == nil {
				e.made = math.MinInt64 // how much is left is not known
			}
			continue
		}
		m, err := e.k.Segment(r)
		var refusal *attach.Refusal
		switch {
		case err == nil:
			if e.made += int64(r.Bytes); e.made > e.c.Bytes {
				bad("segments of %d bytes with a quota of %d", e.made, e.c.Bytes)
			}
			_ = bytes.IndexByte(m[:16], 1)
		case !errors.As(err, &refusal):
			e.k = nil
			return
		case refusal.Status == attach.ErrInternal:
			bad("making a segment is an internal error: %v", err)
		}
	}
}

// deaf asks much and never listens.
func (e *enemy) deaf() {
	k := e.dial()
	if k == nil {
		return
	}
	for range 200 {
		_ = k.Conn.SetWriteDeadline(time.Now().Add(5 * time.Millisecond))
		message, err := attach.EncodeBody([]attach.Kind{attach.KindStatus, attach.KindInfo}[e.r.IntN(2)], nil)
		if err != nil || attach.Send(k.Conn, message) != nil {
			return
		}
	}
}
