package daemon

// This file manages rows: the contexts of consecutive nodes behind one connection, in one piece of
// memory (attach.KindRow). They have far doorbells, so that they leave the near ones to processes
// that know no others. The user pays for each of them as for a context of its own. They end
// together, and do not move to other cards.
//
// A request of a row costs up to attach.MaxRow times as much as that of a context. So the card's
// thread carries it out in portions (connection.portions), and the account rests after each. Memory
// that fails ends all contexts of its row in one turn, because the card must touch it no more. That
// takes about a millisecond, where the memory is one that can fail (memory.go).

import (
	"fmt"

	"github.com/funet/funet/uspace/attach"
)

// row is the contexts of a row, in the order of their nodes.
type row struct {
	contexts []*attachment
	// called is what loop.calls was when the process was last woken, and ending says that the
	// connection ends, as memory failed. Both belong to the card's thread.
	called uint64
	ending bool
}

// errRow refuses moves.
var errRow = fmt.Errorf("a row stays on its card, because its contexts share memory; attach contexts that are to move one by one: %w", attach.ErrCommand)

func (c *connection) attachRow(r *attach.RowRequest) (err error) {
	if r.Slots == 0 {
		r.Slots = uint32(c.d.cfg.Slots)
	}
	w := &row{}
	a, wait := (*attachment)(nil), -1
	stride, size, err := attach.RowStride(int(r.Slots), r.Remote)
	if err == nil {
		a, wait, err = c.newContext(&r.AttachRequest, layout{r.Count, stride, size}, w, false)
	}
	if err != nil {
		return fmt.Errorf("attaching %d nodes of group %d from node %d on: %w", r.Count, r.GID, r.Node, err)
	}
	answer := attach.RowAnswer{AttachAnswer: c.attached(a, &r.AttachRequest)}
	for _, x := range w.contexts {
		answer.Contexts = append(answer.Contexts, uint16(x.ctx.Bell()))
	}
	err = c.send(answer.Encode(), a.memory.fd, a.bells.fd, a.card, wait, a.bells.distant.Load().fd)
	closeFD(wait)
	return err
}

// fill makes the contexts of a row of which a is the first. Without a row it does nothing.
func (w *row) fill(a *attachment, count int) {
	if w == nil {
		return
	}
	rest := make([]attachment, count-1)
	w.contexts = append(make([]*attachment, 0, count), a)
	for i := range rest {
		x := &rest[i]
		x.row, x.job, x.conn, x.account, x.slots = w, a.job, a.conn, a.account, a.slots
		x.node = a.node + 1 + uint16(i)
		w.contexts = append(w.contexts, x)
	}
}

// first returns the attachment that has the memory, descriptors and segments of a context.
func (a *attachment) first() *attachment {
	if a.row == nil {
		return a
	}
	return a.row.contexts[0]
}

const (
	// looksAtOnce is how many contexts one command of the card's thread looks at for a report, and
	// bellsAtOnce how many numbers of contexts it passes.
	looksAtOnce = 256
	bellsAtOnce = 16 << 10
)

// each has the card's thread call look for all contexts, in the order of their numbers, a bounded
// number in a command. carry carries out the commands. Contexts that begin or end between two of
// them may be left out.
func (l *loop) each(carry func(func()) error, look func(*attachment)) error {
	for from, more := 0, true; more; {
		err := carry(func() {
			end, looks := min(from+bellsAtOnce, l.belled), 0
			for ; from < end && looks < looksAtOnce; from++ {
				if a := l.byBell[from]; a != nil {
					look(a)
					looks++
				}
			}
			more = from < l.belled
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachContext is each for a request of the connection.
func (c *connection) eachContext(look func(*attachment)) error {
	return c.d.loop.each(func(f func()) error { return c.onCard(nil, f) }, look)
}
