package attack

// This file is slow readers: many groups. In each of them two nodes fill each other's queues and
// read a message now and then.

import (
	"time"

	"github.com/funet/funet/uspace/funi"
)

const (
	// readerGroups is how many groups there are.
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

// readSlowly sends all that there is room for, and reads when it is time.
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
