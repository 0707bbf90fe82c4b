package daemon

// This file traces packets for a process: for an administrator those of all contexts, for an
// ordinary user those of its own contexts. The card's thread writes records into a ring of fixed
// size (engine.Tracer), and hands them out between two steps. This connection's goroutine sends
// them on.
//
// The cost of a trace is added to the user's debt, as that of requests is (pace.go). When the
// process does not take records and the ring is full, further records are counted as lost. A
// context is traced for one process at a time. Each account may have one trace, whatever others
// have. Its ring and trails count as memory of the account; trails of contexts that come later
// count from the next look on.

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/ctl/trace"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

const (
	// traceLook is the time between two requests to the card's thread for records.
	traceLook = 20 * time.Millisecond
	// traceBeat is how often an empty batch is sent while there are no records.
	traceBeat    = 250 * time.Millisecond
	trailsAtOnce = 16 // how many contexts one command makes the card's thread follow
)

type tracing struct {
	tracer  *engine.Tracer
	account uint32
	all     bool   // of all accounts
	gid     uint16 // 0: of all groups
	bytes   int64  // charged to the account
	late    int    // trails not yet charged; the card's thread counts them
}

func (t *tracing) wants(a *attachment) bool {
	return (t.all || a.account == t.account) && (t.gid == 0 || t.gid == a.job.gid)
}

// trace carries out KindTrace: it answers until the connection or the daemon ends.
func (c *connection) trace(ask *trace.Request) error {
	if ask.Every < 1 || ask.Every > trace.MaxEvery {
		return fmt.Errorf("tracing one packet of %d, not of 1 to %d: %w", ask.Every, trace.MaxEvery, attach.ErrCommand)
	}
	d := c.d
	t := &tracing{account: c.peer.account, all: d.administrator(&c.peer), gid: ask.GID}
	if err := d.mayTrace(t, &c.peer); err != nil {
		return err
	}
	last, err := c.traceFor(t, ask.Every)
	if err != nil {
		return err
	}
	return c.sendBatch(last)
}

// traceFor traces until the process wants no more. It returns the last batch; a process that has it
// may begin another trace.
func (c *connection) traceFor(t *tracing, every int) (*trace.Batch, error) {
	d := c.d
	if err := d.beginTrace(t); err != nil {
		return nil, err
	}
	defer d.endTrace(t)
	defer func() { d.give(t.account, c.rule, usage{bytes: t.bytes}) }()
	if err := c.chargeTrace(t, engine.TracerBytes); err != nil {
		return nil, err
	}
	t.tracer = engine.NewTracer(every)
	begin, err := c.follow(t, every)
	// else the card's thread has ended
	defer func() { _ = c.traceNoMore(t) }()
	if err != nil {
		return nil, err
	}
	if err := c.answerJSON(attach.KindTrace, begin); err != nil {
		return nil, err
	}
	return c.drainTrace(t)
}

// mayTrace refuses an ordinary user a group that it did not make. It refuses everybody a group that
// does not exist or has direct ports.
func (d *Daemon) mayTrace(t *tracing, p *peer) error {
	if t.gid == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.jobs[t.gid]
	switch {
	case j == nil && !t.all, j != nil && !t.all && j.peer.account != p.account:
		return fmt.Errorf("tracing group %d as user %d, who has no such job: %w", t.gid, p.uid, attach.ErrForbidden)
	case j == nil:
		return fmt.Errorf("tracing group %d: %w", t.gid, attach.ErrGroup)
	case j.direct:
		return fmt.Errorf("tracing group %d, whose processes have direct ports, past the card: start it with `funet run --card daemon`: %w", t.gid, attach.ErrCommand)
	}
	return nil
}

// chargeTrace charges the account with the memory of a trace: attach.ErrQuota.
func (c *connection) chargeTrace(t *tracing, bytes int64) error {
	if err := c.d.take(t.account, c.rule, usage{bytes: bytes}); err != nil {
		return fmt.Errorf("memory for a trace: %w", err)
	}
	t.bytes += bytes
	return nil
}

// beginTrace counts a trace: each account may have one.
func (d *Daemon) beginTrace(t *tracing) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tracing[t.account] > 0 {
		return fmt.Errorf("user %d traces already; end that first: %w", t.account, attach.ErrTaken)
	}
	d.tracing[t.account]++
	return nil
}

func (d *Daemon) endTrace(t *tracing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tracing, t.account)
}

// follow has the card's thread trace the present contexts, a few at a time, and later contexts when
// they come.
func (c *connection) follow(t *tracing, every int) (*trace.Begin, error) {
	l := c.d.loop
	b := &trace.Begin{Info: c.d.info(), Every: every, Clock: l.start.UnixNano()}
	if t.gid == 0 {
		b.Ports = c.d.portsOf(func(account uint32) bool { return t.all || account == t.account })
	}
	var card *engine.Card
	var wanted []uint32
	err := c.onCard(nil, func() {
		card = l.card
		l.traces = append(l.traces, t)
	})
	if err == nil {
		err = c.eachContext(func(a *attachment) {
			if t.wants(a) {
				wanted = append(wanted, a.ctx.Bell())
			}
		})
	}
	for some := range slices.Chunk(wanted, trailsAtOnce) {
		if err != nil {
			break
		}
		if err = c.chargeTrace(t, int64(len(some))*card.TrailBytes()); err != nil {
			break
		}
		trails := make([]*engine.Trail, len(some))
		for i := range trails {
			trails[i] = card.NewTrail(t.tracer)
		}
		err = c.onCard(nil, func() {
			for i, bell := range some {
				a := l.byBell[bell]
				switch {
				case a == nil || !t.wants(a): // it has ended meanwhile
				case a.ctx.Followed(t.tracer) || a.ctx.Follow(trails[i]):
					b.Contexts++
				default:
					b.Others++
				}
			}
		})
	}
	return b, err
}

// traceNew has a new context traced, if a trace wants it. The card's thread calls it.
func (l *loop) traceNew(a *attachment) {
	for _, t := range l.traces {
		if t.wants(a) {
			a.ctx.Follow(l.card.NewTrail(t.tracer))
			t.late++
			return
		}
	}
}

// traceNoMore ends a trace.
func (c *connection) traceNoMore(t *tracing) error {
	l := c.d.loop
	err := c.onCard(nil, func() {
		l.traces = slices.DeleteFunc(l.traces, func(o *tracing) bool { return o == t })
	})
	if err == nil {
		err = c.eachContext(func(a *attachment) {
			if a.ctx.Followed(t.tracer) {
				a.ctx.Follow(nil)
			}
		})
	}
	return err
}

// drainTrace sends records until the process sends a message, and then the unfinished ones, too.
// The last batch, which it returns, has no unfinished records.
func (c *connection) drainTrace(t *tracing) (*trace.Batch, error) {
	if err := c.unhurried(); err != nil {
		return nil, err
	}
	l := c.d.loop
	tick := time.NewTicker(traceLook)
	defer tick.Stop()
	records := make([]engine.Trace, trace.BatchRecords)
	said := make([]byte, attach.MaxMessage)
	last := time.Now()
	for enough := false; ; {
		if err := c.heard(); errors.Is(err, attach.ErrMalformed) {
			if _, _, err := attach.Receive(c.conn, said, 0); err != nil {
				return nil, errGone
			}
			enough = true
		} else if err != nil {
			return nil, err
		}
		b, late := &trace.Batch{End: enough}, int64(0)
		if enough { // from now on no record comes
			if err := c.traceNoMore(t); err != nil {
				return b, err
			}
		}
		err := c.onCard(nil, func() {
			if enough {
				t.tracer.Flush()
			}
			n := 0
			n, b.Lost = t.tracer.Take(records)
			b.Records = records[:n]
			late = int64(t.late) * l.card.TrailBytes()
			t.late = 0
		})
		if err == nil && late > 0 {
			err = c.chargeTrace(t, late)
		}
		some := len(b.Records) > 0
		if err != nil || enough && !some {
			return b, err
		}
		b.End = false
		if some || time.Since(last) > traceBeat {
			if err := c.enter(); err != nil {
				return nil, err
			}
			err := c.sendBatch(b)
			c.exit()
			if err != nil {
				return nil, err
			}
			last = time.Now()
		}
		if !some {
			select {
			case <-tick.C:
			case <-l.ended:
				return nil, ErrEnded
			}
		}
	}
}

// sendBatch sends records. It waits until the process takes them, and the ring fills.
func (c *connection) sendBatch(b *trace.Batch) error {
	body, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return c.stream(attach.KindTrace, body)
}
