package attach

// This file is the client of a row: many contexts on a daemon's card, of consecutive nodes of a
// group, behind one connection. A process that is thousands of nodes has a few connections,
// descriptors and mappings this way (Froening's thesis, section 3.4.4: 2^16 virtual process IDs).

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/wait"
)

// ErrCount reports a row of no contexts, or of more than MaxRow.
var ErrCount = errors.New("attach: a row has 1 to 1024 contexts; open several rows for more")

// Row is the contexts of a connection, called ports here: port i is the group's node First + i.
// Each port's Interface belongs to one goroutine at a time, and so do all methods of the Row
// together, except Interrupt. Ports of a row may belong to different goroutines.
//
// All ports end together: with Close, the job, the connection or memory that fails. A port whose
// queue registers are wrong is halted alone, and its page says so (funi.Interface.Fault).
type Row struct {
	c      *Client // the connection, whose context is the first port
	answer RowAnswer
	ports  []*funi.Interface
	pages  []*funi.Page
	far    []byte // mapped
	// news has a bit for each port for which the card has published something since Wait last
	// returned it.
	news [MaxRow / 64]uint64
}

// OpenRow connects to the daemon, attaches count contexts and starts their queues. The first is
// cfg.Node, and the others are the nodes that follow it; the slots and remote memory of cfg are
// those of each. Errors are those of Open, and ErrCount. A daemon of an earlier release refuses a
// row with ErrKind. The user's quota counts every context.
func OpenRow(cfg Config, count int) (_ *Row, err error) {
	c := newClient(cfg.Context, cfg.Socket, cfg.Timeout)
	c.spin, c.token = cfg.Spin, cfg.Token
	r := &Row{c: c}
	defer func() {
		if err != nil {
			r.release()
			err = fmt.Errorf("attaching %d nodes of group %d from node %d on at %s: %w", count, cfg.GID, cfg.Node,
				c.socket, err)
		}
	}()
	switch {
	case count < 1 || count > MaxRow:
		return nil, ErrCount
	case cfg.Slots < 0 || cfg.Slots > funi.MaxSlots:
		return nil, fmt.Errorf("%d slots: %w", cfg.Slots, ErrSlots)
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	request := RowRequest{AttachRequest{GID: cfg.GID, Node: cfg.Node, Slots: uint32(cfg.Slots), Remote: cfg.Remote,
		Token: cfg.Token}, count}
	got, err := c.persist(&cfg, request.Encode(), RowDescriptors, func(message []byte) (err error) {
		r.answer, err = DecodeRowAnswer(message)
		c.answer = r.answer.AttachAnswer
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := r.share(got, count); err != nil {
		return nil, err
	}
	if cfg.Nodes != 0 && cfg.Nodes != c.Nodes() {
		return nil, fmt.Errorf("the group has %d nodes, not %d: %w", c.Nodes(), cfg.Nodes, ErrNode)
	}
	c.wait, c.fds, c.row = wait.New(wait.Client), endings(c.fd, c.process, c.alarm.FD()), r
	return r, r.initialize(cfg.Triggers)
}

// share maps the memory that came with the answer, and keeps the descriptors that wake.
func (r *Row) share(got []int, count int) (err error) {
	c := r.c
	if len(got) != RowDescriptors || len(r.answer.Contexts) != count {
		CloseDescriptors(got)
		return fmt.Errorf("%d descriptors and %d contexts came, not %d and %d: %w", len(got), len(r.answer.Contexts),
			RowDescriptors, count, ErrMemory)
	}
	c.card, c.process = got[CardDescriptor], got[ProcessDescriptor]
	defer CloseDescriptors([]int{got[MemoryDescriptor], got[DoorbellsDescriptor], got[FarDescriptor]})
	for _, m := range []struct {
		to         *[]byte
		descriptor int
		bytes      uint64
	}{{&c.memory, MemoryDescriptor, c.answer.Memory}, {&c.bells, DoorbellsDescriptor, funi.DoorbellsSize},
		{&r.far, FarDescriptor, funi.FarDoorbellsSize}} {
		if *m.to, err = MapMemory(got[m.descriptor], m.bytes); err != nil {
			return err
		}
	}
	c.alarm, err = wait.NewAlarm()
	return err
}

// initialize starts the queues of all ports (thesis 3.2.1).
func (r *Row) initialize(triggers bool) error {
	c := r.c
	far, err := funi.SharedFarDoorbells(r.far)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.timeout, ErrSilent)
	defer cancel()
	stride, size, err := RowStride(int(c.answer.Slots), c.answer.Remote)
	if err != nil {
		return err
	}
	for at := 0; at < len(c.memory); at += stride {
		m, err := c.context(c.memory[at : at+size])
		if err != nil {
			return err
		}
		m.Far = far
		r.pages = append(r.pages, m.Page)
		c.page = m.Page // for Wait
		m.Page.IssueByTrigger(triggers)
		port, err := funi.Start(m, int(c.answer.Slots), func() error { return c.Wait(ctx) })
		if err != nil {
			return err
		}
		m.Page.Arm()
		r.ports = append(r.ports, port)
	}
	c.page = r.pages[0]
	return nil
}

// Count returns how many ports the row has.
func (r *Row) Count() int { return len(r.ports) }

// Interface returns the process's end of port i. It must not be used after Close.
func (r *Row) Interface(i int) *funi.Interface { return r.ports[i] }

// Nodes returns how many members the group has.
func (r *Row) Nodes() int { return r.c.Nodes() }

// Answer returns what the daemon answered.
func (r *Row) Answer() RowAnswer { return r.answer }

// Now returns the time in nanoseconds since the row was opened.
func (r *Row) Now() int64 { return r.c.Now() }

// Err returns why the ports are gone, as Client.Err does.
func (r *Row) Err() error { return r.c.err }

// Interrupt ends the present sleep in Wait or Drive, or else the next one. A Wait continues unless
// there is a reason to end. Any goroutine may call it, at any time.
func (r *Row) Interrupt() { r.c.Interrupt() }

// look finds the ports for which the card has published something since the last look, and reports
// whether there are any. It notes the end of the ports.
//
// All ports stay armed (funi.Page.Arm) from one look to the card's next word for them. So a look
// loads one word of each port, from as many cache lines. The card writes the descriptor once in a
// step, for however many ports of the row it has news.
func (r *Row) look() (some bool) {
	for i, p := range r.pages {
		if !p.Armed() {
			p.Arm() // before the program looks into the port's queues
			r.news[i/64] |= 1 << (i % 64)
			some = true
		}
	}
	c := r.c
	if c.page.Gone() && c.err == nil {
		c.lost(fmt.Errorf("the daemon has ended the contexts: %w", c.page.Err()))
	}
	return some
}

// waits reports whether there is a port with news that Wait has not returned.
func (r *Row) waits() bool { return r.news != [MaxRow / 64]uint64{} }

// Wait blocks until the card has published something for a port, and returns ready with the numbers
// of all such ports appended, in their order. Each port is returned once for all that was published
// since it was last returned: messages, returns, notifications, slots given back, answers of
// triggers, a new CNTL, and the writes of others if the program asks for them
// (funi.Interface.Watch, which then belongs to the Row's goroutine; look into the port after it).
// So look into all of them before the next Wait. A port may be returned although nothing has
// happened there.
//
// When ctx ends, Wait returns context.Cause. ErrLost and funi.ErrDetached say that the ports are
// gone. Each look at the ports loads a word of each: some 15 us for 1,024.
func (r *Row) Wait(ctx context.Context, ready []int) ([]int, error) {
	c := r.c
	for {
		r.look()
		if c.err != nil {
			return ready, fmt.Errorf("waiting: %w", c.err)
		}
		if r.waits() {
			c.wait.Found()
			return r.take(ready), nil
		}
		if ctx.Err() != nil {
			return ready, fmt.Errorf("waiting: %w", context.Cause(ctx))
		}
		if c.wait.Tired() && c.over(c.Now()) {
			r.block(ctx)
		}
	}
}

// take appends the ports with news, and forgets the news.
func (r *Row) take(ready []int) []int {
	for w, news := range r.news {
		for ; news != 0; news &= news - 1 {
			ready = append(ready, w*64+bits.TrailingZeros64(news))
		}
		r.news[w] = 0
	}
	return ready
}

// block sleeps until the card has published something for a port, or the context ends.
func (r *Row) block(ctx context.Context) {
	defer r.c.wakeAtEnd(ctx)()
	r.c.sleep(longestBlock)
	r.c.listen()
}

// Drive lets the card run, as Client.Drive does: it yields the processor, and then sleeps for at
// most 8 ms at a time, when the card has published nothing for any port for some time.
func (r *Row) Drive() {
	c := r.c
	if c.polls++; c.polls%glance != 0 || c.err != nil || !c.wait.Tired() {
		return
	}
	now := c.Now()
	if c.wait.Called(now, c.polls) || !c.over(now) {
		return
	}
	if r.look() || c.err != nil {
		c.wait.Found()
		return
	}
	if c.spin {
		wait.YieldProcessor()
		c.sleep(0) // is the daemon still there?
		c.wait.Found()
	} else {
		c.sleep(c.wait.Nap())
		c.wait.Slept(c.Now())
	}
	c.listen()
}

// Fd returns a descriptor for poll(2) or an epoll instance, as Client.Fd does. While Arm is in
// force, it is readable when the card has published something for a port.
func (r *Row) Fd() (int, error) { return r.c.Fd() }

// Arm readies the descriptor of Fd, and returns true if the program may wait for it. It returns
// false if a Wait would return at once: call that, and try again. Disarm takes Arm back.
func (r *Row) Arm() bool {
	c := r.c
	if c.err != nil || !c.alarm.Arm() {
		return false
	}
	if r.look(); r.waits() || c.err != nil {
		r.Disarm()
		return false
	}
	return true
}

// Disarm takes Arm back.
func (r *Row) Disarm() {
	if r.c.page == nil {
		return
	}
	r.c.alarm.Disarm()
	r.c.sleep(0) // what has woken us is read, and the end of the daemon seen
	r.c.listen()
	r.look()
}

// Segment returns new memory, all 0, that is registered with the card as a segment of every port,
// at the same address: what any port's windows, transfers and operations name. It counts once in
// the user's quota. Errors are those of Client.Segment.
func (r *Row) Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error) {
	return r.c.Segment(base, bytes, rights)
}

// Unregister ends a segment of all ports. With ErrBusy the card needs it for one of them; the
// others have lost it by then. Ask again. Other errors are those of Client.Unregister.
func (r *Row) Unregister(base uint32) error { return r.c.Unregister(base) }

// Close is Client.Close for all ports.
func (r *Row) Close(linger time.Duration) error {
	err := r.c.err
	if err == nil {
		err = r.c.detach(linger)
	}
	r.release()
	if err != nil {
		return fmt.Errorf("detaching %d nodes of group %d from node %d on: %w", len(r.ports), r.answer.GID,
			r.answer.Node, err)
	}
	return nil
}

// putGone tells all ports that they are gone.
func (r *Row) putGone() {
	for _, p := range r.pages {
		p.PutGone()
	}
}

// discard empties the queues of all ports, so that what was sent to them can be delivered.
func (r *Row) discard() {
	for i, p := range r.pages {
		p.Arm()
		discard(r.ports[i])
	}
}

func (r *Row) release() {
	r.pages = nil
	r.c.release()
	Unmap(r.far)
	r.far = nil
}
