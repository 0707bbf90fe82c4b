package virtni

// This file has barriers (Froening's thesis, sections 2.2.1 and 4.2.7). The thesis leaves open how
// they work; see engine/barrier.go.

import (
	"errors"

	"github.com/funet/funet/uspace/funi"
)

// MaxBarriers is the number of barriers of a group.
const MaxBarriers = funi.MaxBarriers

// ErrBarrier reports a barrier that the port will not pass. Node 0 cannot be reached, or the
// members do not agree on their number, or this process took the place of one that had passed the
// barrier before.
var ErrBarrier = errors.New("virtni: the barrier cannot be passed: node 0 is away, or the members differ in their number or in how often they have passed")

// Barrier tells the card that the process has reached a barrier, below MaxBarriers, of the nodes
// from 0 to members-1. It does not wait for them: when all have reached it, each gets a
// notification with NotifyBarrier. Its error says why that will not happen; the process may try
// again. A barrier that the process has reached and not passed answers funi.TriggerForbidden. With
// funi.TriggerFull nothing was done; try again when notifications were taken. The error is one of
// drive.
func (p *Port) Barrier(number uint8, members int) (Status, error) {
	if number >= MaxBarriers || members < 1 || members > funi.MaxMembers {
		return funi.TriggerInvalid, nil
	}
	for {
		p.end.Beside++ // before the notification comes
		_, s, err := p.trigger(funi.TriggerBarrier, funi.Barrier(number, members))
		if err == nil && s != funi.TriggerDone {
			p.end.Beside--
		}
		n := p.iface.Ungiven()
		if err != nil || s != funi.TriggerFull || n == 0 {
			return s, err
		}
		if _, _, err := p.trigger(funi.TriggerNotesRead, uint32(min(n, funi.MaxNotesRead))); err != nil {
			return s, err
		}
	}
}
