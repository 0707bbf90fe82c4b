package engine

// This file models the time that the Network Packet Preprocessor takes (thesis 5.6.2) on the card
// of a modelled machine. Timing.Preprocess or Timing.Card sets it; without both it is 0.
//
// The Preprocessor works on one frame at a time, for Preprocess for each packet of it. Then the
// link sees the frame, the Operation Unit moves the data of its packets (operateunit.go), and they
// are accepted or rejected. Frames that arrive meanwhile wait in the ports; a port without room for
// them holds them back or loses them. A frame without packets, an acknowledgment, is processed
// immediately when its turn comes. The port decides which frame is next.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// receiveUnit is the Preprocessor.
type receiveUnit struct {
	takes int64  // time of a packet
	frame []byte // frame that it works on; nil: none
	port  int    // port that lent the frame, or was asked last
	until int64
	next  int64 // when it next has something to do, or Never

	train   *link.Train // train of the frame; nil: the link has not seen it yet
	untimed []byte      // packets of the frame that the Operation Unit has yet to move
}

// runReceive ends the frames whose time has passed and starts on the next ones, at most a batch of
// frames.
func (u *model) runReceive() {
	w := &u.receive
	w.next = Never
	for range u.in.batchOfFrames() {
		if w.frame == nil && !u.nextFrame() {
			return
		}
		if w.until > u.clock.now {
			w.next = w.until
			return
		}
		if w.train == nil {
			if w.train = u.link.Arrive(w.port, w.frame); w.train != nil {
				w.untimed = w.train.Packets
			}
		}
		if w.train != nil && !u.timeTrain() {
			return // the Operation Unit says when it goes on
		}
		b, t := w.frame, w.train
		w.frame, w.train = nil, nil
		if t != nil && u.link.Holds(t) {
			u.in.judge(t)
		}
		u.in.handled(w.port, b)
	}
	u.clock.more = true
}

// nextFrame gives the idle Preprocessor a frame from one of the ports, which take turns. The
// previous frame goes back to its port.
func (u *model) nextFrame() bool {
	w := &u.receive
	for range u.cfg.Ports {
		u.cfg.Ports[w.port].Release()
		w.port = (w.port + 1) % len(u.cfg.Ports)
		if u.cfg.Ports[w.port].Receive(u.in.received[:1]) == 0 {
			continue
		}
		w.frame, w.until = u.in.received[0], u.clock.now
		if t := u.times; t != nil {
			w.until += arrives(t, w.frame)
		} else if f, err := arctic.Parse(w.frame); err == nil {
			w.until += int64(f.Packets()) * w.takes
		}
		return true
	}
	return false
}
