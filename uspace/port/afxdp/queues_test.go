package afxdp

// This file tests the state of queues: how it is found out and reported.

import (
	"encoding/binary"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

// Rule: what is known of queues fits a line.
func TestDescribe(t *testing.T) {
	var many []QueueState
	for n := range 4096 {
		s := QueueState{Queue: n, Receives: []Proof{Proven, Untried, Lost}[n%3],
			Sends: []Proof{Proven, Unanswered, Untried, Stuck}[n%4]}
		many = append(many, s)
	}
	for _, c := range []struct {
		all  []QueueState
		want string
	}{
		{[]QueueState{{0, Untried, Untried, 0, 0}}, "none were steered to 0; nothing was sent on 0"},
		{[]QueueState{{0, Proven, Proven, 1, 1}}, "frames came on queue 0; peers got what left on 0"},
		{[]QueueState{{0, Proven, Proven, 1, 1}, {1, Proven, Proven, 1, 1}, {2, Untried, Proven, 0, 1},
			{3, Lost, Stuck, 0, 1}, {4, Proven, Unanswered, 2, 2}},
			"frames came on queue 0 to 1, 4; none were steered to 2; those for 3 were lost; peers got what left on 0 to 2; no peer has acknowledged what left on 4 yet; nothing leaves on 3"},
		{many,
			"frames came on queue 0, 3, 6, 9 and others; none were steered to 1, 4, 7, 10 and others; those for 2, 5, 8, 11 and others were lost; peers got what left on 0, 4, 8, 12 and others; " +
				"no peer has acknowledged what left on 1, 5, 9, 13 and others yet; nothing was sent on 2, 6, 10, 14 and others; nothing leaves on 3, 7, 11, 15 and others"},
	} {
		if got := Describe(c.all); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Offsets in a frame; see package arctic.
const (
	packetsOffset    = 28
	epochOffset      = 32
	sequenceOffset   = 40
	requestAckOffset = 44
	replyAckOffset   = 56
)

// Rule: an acknowledgment of a frame that left on a queue proves the queue for sending. It comes
// from the peer that the frame went to. It is of the frame's level and epoch, and beyond the
// frame's sequence number. Nothing else proves the queue. Afterwards nothing is looked at.
func TestAcknowledgments(t *testing.T) {
	for _, f := range forms(2)[:4] {
		t.Run(f.name, func(t *testing.T) {
			a, b := f.open(t)
			const epoch, sequence = 0xfffffffffffffffe, 0xffffffff
			post := func(p, to *Port, packets byte, level byte, change func(f []byte)) {
				t.Helper()
				frame := p.Reserve()[:200]
				compose(frame, to, p, 5)
				frame[flagsOffset], frame[packetsOffset] = level, packets
				binary.LittleEndian.PutUint64(frame[epochOffset:], epoch)
				binary.LittleEndian.PutUint32(frame[sequenceOffset:], sequence)
				binary.LittleEndian.PutUint32(frame[requestAckOffset:], sequence)
				binary.LittleEndian.PutUint32(frame[replyAckOffset:], sequence)
				binary.LittleEndian.PutUint16(frame[cardsOffset:], 0)
				binary.LittleEndian.PutUint16(frame[cardsOffset+2:], 1)
				if p == b {
					binary.LittleEndian.PutUint32(frame[cardsOffset:], 1)
				}
				if change != nil {
					change(frame)
				}
				p.Commit(200)
				p.Flush()
				receive(t, to, 1, 1)
			}
			for level := range byte(2) {
				ack := requestAckOffset + int(level)*(replyAckOffset-requestAckOffset)
				post(a, b, 0, level, nil) // without packets: nobody acknowledges that
				queue := 0
				for n, s := range a.Queues() {
					if s.Sends == Unanswered {
						queue = n
					}
				}
				post(b, a, 1, 0, func(f []byte) { binary.LittleEndian.PutUint32(f[ack:], 9) })
				post(a, b, 1, level, nil)
				for what, change := range map[string]func(f []byte){
					"nothing acknowledged": nil,
					"of another level": func(f []byte) {
						binary.LittleEndian.PutUint32(f[requestAckOffset+replyAckOffset-ack:], 0)
					},
					"of what went before": func(f []byte) { binary.LittleEndian.PutUint32(f[ack:], sequence-1) },
					"of another epoch": func(f []byte) {
						binary.LittleEndian.PutUint32(f[ack:], 0)
						f[epochOffset]++
					},
				} {
					post(b, a, 1, 0, change)
					if s := a.Queues()[queue]; s.Sends != Unanswered {
						t.Fatalf("level %d, %s: %+v", level, what, s)
					}
				}
				// sequence + 1
				post(b, a, 0, 0, func(f []byte) { binary.LittleEndian.PutUint32(f[ack:], 0) })
				if s := a.Queues()[queue]; s.Sends != Proven || a.waited != 0 {
					t.Errorf("level %d: %+v, and %d are waited for", level, s, a.waited)
				}
			}
			for _, s := range a.Queues() {
				if s.Sends != Proven {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// Rule: when the peer of the frame that is waited for is gone, the queue is proven by another peer.
func TestAcknowledgmentOfAnother(t *testing.T) {
	a, _ := pair(t, lab.Options{}, Config{Attach: xdp.AttachGeneric})
	frame := make([]byte, 100)
	frame[packetsOffset] = 1
	q := a.queues[0]
	commit := func(peer byte) {
		frame[cardsOffset+2] = peer
		a.remember(q, frame)
	}
	answer := func(peer byte) {
		f := make([]byte, 100)
		f[cardsOffset] = peer
		f[requestAckOffset] = 1
		a.acknowledged([][]byte{f})
	}
	commit(1)
	for range another - 1 {
		commit(2)
	}
	if answer(2); q.heard || a.waited != 1 {
		t.Fatal("the first was forgotten early")
	}
	commit(2)
	if answer(2); !q.heard || a.waited != 0 || a.Queues()[0].Sends != Proven {
		t.Errorf("not proven by the other: %+v", a.Queues())
	}
}
