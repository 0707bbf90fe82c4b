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
func (c *Card) runReceive() {
	u := &c.units.receive
	u.next = Never
	for range c.batchOfFrames() {
		if u.frame == nil && !c.nextFrame() {
			return
		}
		if u.until > c.clock.now {
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
	c.clock.more = true
}

// nextFrame gives the idle Preprocessor a frame from one of the ports, which take turns. The
// previous frame goes back to its port.
func (c *Card) nextFrame() bool {
	u := &c.units.receive
	for range c.cfg.Ports {
		c.cfg.Ports[u.port].Release()
		u.port = (u.port + 1) % len(c.cfg.Ports)
		if c.cfg.Ports[u.port].Receive(c.received[:1]) == 0 {
			continue
		}
		u.frame, u.until = c.received[0], c.clock.now
		if t := c.units.card; t != nil {
			u.until += arrives(t, u.frame)
		} else if f, err := arctic.Parse(u.frame); err == nil {
			u.until += int64(f.Packets()) * u.takes
		}
		return true
	}
	return false
}
