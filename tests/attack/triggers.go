package attack

// This file issues by triggers from every context, and stores triggers over others that the card
// has not answered, commands that there are not, and counts beyond every queue. Each costs the card
// an answer.

import (
	"errors"
	"math/rand/v2"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/funi"
)

func triggers() Attack {
	return Attack{
		Name: "triggers_64", Does: "triggers of 64 contexts, one over the other",
		Groups: 1, Contexts: SleeperContexts, slots: 64, remote: remoteSizes,
		seated: (*player).byTrigger,
		round:  (*player).trigger,
	}
}

// byTrigger has a seat issue by triggers.
func (p *player) byTrigger(s *seat) error {
	(*funi.Page)(unsafe.Pointer(unsafe.SliceData(s.k.Maps[0]))).IssueByTrigger(true)
	deadline := time.Now().Add(10 * time.Second)
	return s.k.Iface.Resize(p.slots, func() error {
		time.Sleep(100 * time.Microsecond)
		if time.Now().After(deadline) {
			return errors.New("the card does not halt within 10 s")
		}
		return nil
	})
}

// trigger fills each context's send queue with messages for its twin, and stores triggers: half of
// them the next in order, the others whatever comes.
func (p *player) trigger() (stored int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.forget()
		s.receive(funi.Request, p.slots)
		s.send(funi.Request, p.twin(s), p.slots)
		if !s.k.Iface.Issue() {
			s.k.Iface.Trigger(funi.TriggerCommand(rand.IntN(16)), rand.Uint32()>>rand.IntN(32))
		}
		stored++
	}
	return stored
}
