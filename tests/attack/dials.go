package attack

// This file makes initial requests (package rats), with which connections are dialed (package
// socket). Each context asks those of the other host, with as many requests open as it can have.
// Half of the contexts answer. The others have a server and never look at it.

import (
	"crypto/rand"
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
)

const (
	// mostAsked is the largest number of open requests of a context.
	mostAsked = 64
	// askPatience is how long a request stays open without an answer.
	askPatience = 100 * time.Millisecond
)

// serverKey is the key of all servers.
var serverKey = rats.KeyOf([]byte("serve all"))

// desk is what a context asks and answers with.
type desk struct {
	manager *rats.Manager
	server  *rats.Server
	asked   []asked
}

// asked is an open request.
type asked struct {
	*rats.Inquiry
	until int64
}

func dials() Attack {
	return Attack{
		Name: "dials", Does: "requests to dial without end, to processes that refuse them and to such that never look",
		Groups: 1, Contexts: remoteContexts, slots: 256, segment: blockBytes,
		remote: funi.RemoteSizes{KeySlots: 128, Areas: 128, Notifications: 256},
		seated: (*player).openDesk,
		round:  (*player).dial,
	}
}

func (p *player) openDesk(s *seat) error {
	end, err := rats.New(s.k.Iface, int(s.node), rand.Reader)
	if err != nil {
		return err
	}
	d := &desk{}
	if d.manager, err = rats.Manage(end, funi.Segment{Base: segmentBase, Memory: s.k.Maps[2],
		Rights: funi.Source | funi.Keyed}); err != nil {
		return err
	}
	if d.server, err = d.manager.Serve(serverKey); err != nil {
		return err
	}
	s.desk = d
	return nil
}

// dial has every second context answer the requests that arrived, and each context ask as much as
// it can.
func (p *player) dial() (sent int) {
	now := time.Now().UnixNano()
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		d := s.desk
		d.manager.Poll()
		for _, ok := d.manager.NextReady(); ok; _, ok = d.manager.NextReady() {
		}
		for s.index%2 == 0 {
			q, ok := d.server.Recv()
			if !ok || !d.server.SendReply(&q, 1) {
				break
			}
		}
		open := d.asked[:0]
		for _, a := range d.asked {
			if _, answered, _, err := a.RecvReply(now); answered || err != nil || now > a.until {
				a.Close()
			} else {
				open = append(open, a)
			}
		}
		d.asked = open
		for len(d.asked) < mostAsked {
			q, err := d.manager.Ask(uint16((1-p.c.Host)*p.Contexts+s.next%p.Contexts), serverKey, 7, 0, 0, 0, 0, 0)
			if err != nil {
				break
			}
			d.asked = append(d.asked, asked{q, now + int64(askPatience)})
			s.next++
			sent++
		}
		d.manager.Poll()
	}
	return sent
}
