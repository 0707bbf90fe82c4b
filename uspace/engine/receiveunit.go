package engine

// This file is the time that the Network Packet Preprocessor takes (thesis 5.6.2) when the card is
// that of a modelled machine: Timing.Preprocess, or Timing.Card; with neither it takes none.
//
// It works on one frame at a time, as long as Preprocess for each of its packets. Then the link
// sees the frame, the Operation Unit moves what the packets that it brings take (operateunit.go),
// and they are accepted or rejected. Meanwhile what arrives waits in the ports, which hold back or
// lose what they have no room for. A frame without packets, an acknowledgment, is processed
// immediately when its turn comes; which frame is next is the port's to say.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// receiveUnit is the Preprocessor.
type receiveUnit struct {
	takes int64  // of a packet
	frame []byte // it works on; nil: none
	port  int    // that has lent it, or was asked last
	until int64
	next  int64 // when it next has something to do, or Never

	train   *link.Train // of the frame, when the link has seen it; nil: not yet
	untimed []byte      // its packets that the Operation Unit has not been asked for
}

// runReceive takes what has been preprocessed by now and starts on what comes next, at
// most a batch of frames.
func (c *Card) runReceive() {
	u := &c.units.receive
	u.next = Never
	for range c.batchOfFrames() {
		if u.frame == nil && !c.nextFrame() {
			return
		}
		if u.until > c.now {
			u.next = u.until
			return
		}
		if u.train == nil {
			if u.train = c.link.Arrive(u.port, u.frame); u.train != nil {
				u.untimed = u.train.Packets
			}
		}
		if u.train != nil && !c.timeTrain() {
			return // the Operation Unit says when it goes on
		}
		b, t := u.frame, u.train
		u.frame, u.train = nil, nil
		if t != nil && c.link.Holds(t) {
			c.judge(t)
		}
		c.handled(u.port, b)
	}
	c.more = true
}

// nextFrame gives the idle Preprocessor a frame, of the ports in turn. The one before goes
// back to its port.
func (c *Card) nextFrame() bool {
	u := &c.units.receive
	for range c.cfg.Ports {
		c.cfg.Ports[u.port].Release()
		u.port = (u.port + 1) % len(c.cfg.Ports)
		if c.cfg.Ports[u.port].Receive(c.received[:1]) == 0 {
			continue
		}
		u.frame, u.until = c.received[0], c.now
		if t := c.units.card; t != nil {
			u.until += arrives(t, u.frame)
		} else if f, err := arctic.Parse(u.frame); err == nil {
			u.until += int64(f.Packets()) * u.takes
		}
		return true
	}
	return false
}
