package attack

// This file is slow readers in many groups. In each group two nodes fill each other's queues, and
// each reads one message at a time, now and then.

import (
	"time"

	"github.com/funet/funet/uspace/funi"
)

const (
	// readerGroups is the number of groups.
	readerGroups = 40
	// readEvery is how often each node reads a message.
	readEvery = time.Millisecond
)

func slowReaders() Attack {
	return Attack{
		Name: "slow_readers", Does: "40 groups whose nodes send all the time and read a message a millisecond",
		Groups: readerGroups, Contexts: 1, slots: 64,
		round: (*player).readSlowly,
	}
}

// readSlowly sends as many messages as there is room for, and reads one when it is due.
func (p *player) readSlowly() (sent int) {
	due := int(time.Since(p.start) / readEvery)
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		sent += s.send(funi.Request, p.twin(s), p.slots)
		if s.next < due {
			s.next = due
			s.receive(funi.Request, 1)
		}
	}
	return sent
}
