package daemon

// This file is a process's context: the memory that it shares with the card, how it is made and
// freed, and its segments (segment.go). The connection's goroutine makes and maps memory; the
// card's thread only attaches and detaches the context.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// attachment is a context with its memory and descriptors. connection.mu guards it, except ctx,
// which belongs to the card's thread. The contexts of a row share memory, doorbells, descriptors
// and segments: the first of them has these, and gives them back.
type attachment struct {
	row      *row // nil: it is alone
	job      *job
	account  uint32 // account that pays
	node     uint16
	slots    int
	conn     *connection
	memory   *region
	bells    *bells
	shared   *funi.Memory
	tables   []byte             // the card's tables of the context's remote memory; nil: none
	segments map[uint32]*region // by base
	bytes    int64              // all memory, in whole pages
	ctx      *engine.Context
	saved    *engine.Saved // set while the context is switched out; belongs to the card's thread
	active   atomic.Bool   // the context is not switched out
	// lost: its memory failed, and it is no longer on the card. It belongs to the card's thread.
	lost bool
	left bool // it has moved to another card
	// suspicion counts refused accesses to its windows, by node. It belongs to the card's thread.
	suspicion suspicion
	// image is the part that has arrived of an arriving context's image, and imageBytes the bytes
	// that are counted for it.
	image      []byte
	imageBytes int64
	// whither is the socket of the daemon to whose card an administrator wants it moved, and stays
	// the reason why it has not moved.
	whither, stays string

	card    int // eventfd: wakes the card's thread
	process int // write end of the pipe that wakes the process
}

func (c *connection) attach(r *attach.AttachRequest) error { return c.attachAs(r, false) }

// attachAs makes a context; arrives says that it comes from another card.
func (c *connection) attachAs(r *attach.AttachRequest, arrives bool) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, errGone) {
			err = fmt.Errorf("attaching node %d of group %d: %w", r.Node, r.GID, err)
		}
	}()
	if r.Slots == 0 {
		r.Slots = uint32(c.d.cfg.Slots)
	}
	size, err := funi.SharedSize(int(min(r.Slots, math.MaxInt32)))
	if err != nil {
		return fmt.Errorf("%d slots: %w", r.Slots, attach.ErrSlots)
	}
	size += r.Remote.Bytes()
	a, wait, err := c.newContext(r, layout{1, size, size}, nil, arrives)
	if err != nil {
		return err
	}
	answer := c.attached(a, r)
	// So a goroutine that waits for mu does not wait for the process. The descriptors are closed by
	// this goroutine alone, also if the job ends meanwhile.
	encoded := answer.Encode()
	if arrives {
		encoded = answer.EncodeArrive()
	}
	err = c.send(encoded, a.memory.fd, a.bells.fd, a.card, wait)
	closeFD(wait)
	return err
}

// attached returns the answer to a request for a context, or for the row that it is the first of.
func (c *connection) attached(a *attachment, r *attach.AttachRequest) attach.AttachAnswer {
	return attach.AttachAnswer{ABI: funi.ABI, Context: a.ctx.Bell(), GID: r.GID, Node: r.Node,
		Nodes: uint32(len(a.job.cards)), Slots: r.Slots, Remote: r.Remote, Memory: uint64(len(a.memory.bytes)),
		Incarnation: c.d.incarnation.Load()}
}

// layout is how contexts lie in their memory: count times stride bytes, of which each has size.
type layout struct{ count, stride, size int }

// newContext makes the connection's context, or all contexts of a row, and the descriptor on which
// the process waits.
func (c *connection) newContext(r *attach.AttachRequest, l layout, w *row, arrives bool) (_ *attachment, wait int,
	err error) {
	d := c.d
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attachment != nil || c.job != nil || c.port != nil {
		return nil, -1, attach.ErrAttached
	}
	c.freeKept()
	var j *job
	if arrives {
		j, err = d.joinArriving(c, r)
	} else {
		j, err = d.join(c, r, l.count, false)
	}
	if err != nil {
		return nil, -1, err
	}
	a := &attachment{row: w, job: j, conn: c, account: c.peer.account, node: r.Node, slots: int(r.Slots),
		segments: map[uint32]*region{}, card: -1, process: -1,
		bytes: pages(int64(l.count)*int64(l.stride)) + int64(l.count)*pages(engine.RemoteBytes(r.Remote))}
	w.fill(a, l.count)
	use := a.use()
	if err := d.take(c.peer.account, c.rule, use); err != nil {
		d.leave(j, r.Node, l.count)
		return nil, -1, err
	}
	wait, err = a.make(d, l, r.Remote)
	if err == nil {
		err = d.attachContexts(a, arrives)
	}
	if err != nil {
		a.close(d)
		closeFD(wait)
		d.give(c.peer.account, c.rule, use)
		d.leave(j, r.Node, l.count)
		return nil, -1, err
	}
	c.attachment = a
	if arrives { // in the place of its sign
		d.dropSign(j, func(s sign) bool { return s.node == a.node })
	}
	if w == nil {
		d.userLine(&c.peer, fmt.Sprintf("node %d of job %d has context %d", a.node, a.job.gid, a.ctx.Bell()), "job",
			a.job.gid, "node", a.node)
	} else {
		d.userLine(&c.peer, fmt.Sprintf("nodes %d to %d of job %d have contexts, the first %d", a.node,
			int(a.node)+l.count-1, a.job.gid, a.ctx.Bell()), "job", a.job.gid, "node", a.node)
	}
	return a, wait, nil
}

// all returns the contexts that the attachment is the first of: itself, or a row's.
func (a *attachment) all() []*attachment {
	if a.row == nil {
		return []*attachment{a}
	}
	return a.row.contexts
}

// use returns what the attachment counts for. Of a row, call it for the first context.
func (a *attachment) use() usage {
	u := usage{contexts: 1, pieces: 1 + len(a.segments), bytes: a.bytes}
	if a.row != nil {
		u.contexts, u.far, u.rows = len(a.row.contexts), len(a.row.contexts), 1
	}
	return u
}

// make makes the parts of the contexts, and returns the descriptor on which the process waits. It
// is the read end of a pipe, not an eventfd. Whether a write waits for room is a flag of the open
// file. A process that shared an eventfd could clear that flag and fill the eventfd, and so stop
// the card's thread. Of a pipe only the daemon has the writing end.
func (a *attachment) make(d *Daemon, l layout, remote funi.RemoteSizes) (wait int, err error) {
	wait = -1
	name := fmt.Sprintf("%d.%d", a.job.gid, a.node)
	if a.memory, err = d.memory.make(name, int64(l.count)*int64(l.stride), a); err != nil {
		return wait, fmt.Errorf("%w: %w", attach.ErrFull, err)
	}
	if a.bells, err = d.takeBells(a.account, a.row != nil); err != nil {
		return wait, err
	}
	table := (engine.TableBytes(remote) + 7) &^ 7 // aligned
	if table > 0 {
		if a.tables, err = mapPrivate(l.count * table); err != nil {
			return wait, fmt.Errorf("%w: %w", attach.ErrFull, err)
		}
	}
	if a.card, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return wait, descriptors(err)
	}
	var pipe [2]int
	if err = unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return wait, descriptors(err)
	}
	wait, a.process = pipe[0], pipe[1]
	// A page is enough: of many writes one is as good as all.
	_, _ = unix.FcntlInt(uintptr(a.process), unix.F_SETPIPE_SZ, 4096)
	for i, x := range a.all() {
		x.bells, x.card, x.process = a.bells, a.card, a.process
		if x.shared, err = funi.SharedRemoteMemory(a.memory.bytes[i*l.stride:][:l.size], a.bells.bytes,
			remote); err != nil {
			return wait, err
		}
		x.tables = a.tables[i*table:]
		// The queues are halted until the process has written its registers (thesis 3.2.1,
		// funi.Start); what arrives before stays in the receive FIFOs and with its senders.
		x.shared.Page.Store(funi.Control, funi.UserModes)
	}
	return wait, nil
}

// descriptors adds advice to an error when the daemon is out of descriptors.
func descriptors(err error) error {
	return fmt.Errorf("%w: making its descriptors: %w", attach.ErrFull, err)
}

// contextsAtOnce is how many contexts of a row one command of the card's thread attaches, looks at
// or detaches. To attach one takes some 15 us, during which the thread serves nobody.
const contextsAtOnce = 4

// attachContexts has the card's thread attach the contexts. If it cannot attach all, none is.
func (d *Daemon) attachContexts(a *attachment, arrives bool) error {
	var refused error
	err := a.conn.portions(a, func(x *attachment) bool {
		refused = d.loop.attach(x, x == a, arrives)
		return refused == nil
	})
	if err != nil || refused != nil {
		d.detachContexts(a)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", attach.ErrStopping, err)
	case errors.Is(refused, engine.ErrAttached):
		return fmt.Errorf("%w: %w", attach.ErrTaken, refused)
	case refused != nil:
		return fmt.Errorf("%w: %w", attach.ErrFull, refused)
	}
	return nil
}

// portions has the card's thread call f for the contexts that a is the first of, contextsAtOnce in
// a command, until it returns false.
func (c *connection) portions(a *attachment, f func(*attachment) bool) (err error) {
	goes := true
	for some := range slices.Chunk(a.all(), contextsAtOnce) {
		if err = c.onCard(a, func() {
			for _, x := range some {
				if goes = f(x); !goes {
					return
				}
			}
		}); err != nil || !goes {
			break
		}
	}
	return err
}

// attach attaches a context. first says that none of its connection is attached yet.
func (l *loop) attach(a *attachment, first, arrives bool) (err error) {
	if first {
		if err := l.watch(a.card, unix.EPOLLIN|unix.EPOLLET); err != nil {
			return err
		}
	}
	make := l.card.Attach
	if arrives {
		make = l.card.Arrive
	}
	var tables *engine.Tables
	if len(a.tables) > 0 {
		tables = engine.NewTables(a.shared.Remote, a.tables)
	}
	l.card.Lend(tables)
	defer l.card.Lend(nil)
	l.card.FarBells(a.row != nil)
	defer l.card.FarBells(false)
	ctx, err := make(a.shared, a.job.gid, a.node, a.job.tag)
	if err != nil {
		if first {
			l.unwatch(a.card)
		}
		return err
	}
	a.ctx = ctx
	l.card.Account(a.ctx, a.account)
	if a.row == nil {
		l.card.Doorbells(a.ctx, a.bells.page, nil)
	} else {
		l.card.Doorbells(a.ctx, a.bells.page, a.bells.distant.Load().far)
	}
	bell := a.ctx.Bell()
	l.byBell[bell], l.byPlace[place{a.job.gid, a.node}] = a, a
	l.belled = max(l.belled, int(bell)+1)
	a.active.Store(!arrives)
	l.traceNew(a)
	if l.share != nil && !arrives {
		l.share.Enter(a.job.gid, a.job.width, turn{l.card, a})
	}
	return nil
}

const (
	longestLinger = time.Minute // bounds how long a context may wait for its packets before it ends
	// firstLook and lastLook bound the time between two looks whether the context can end. In
	// between, it is a quarter of the time that has passed: few looks, and none late by much.
	firstLook = time.Millisecond
	lastLook  = 250 * time.Millisecond
)

func (c *connection) linger(r *attach.DetachRequest) error {
	begin, gone := time.Now(), false
	for end := begin.Add(min(r.Linger, longestLinger)); ; {
		done, err := c.detachIf(gone || !time.Now().Before(end))
		if err != nil {
			return fmt.Errorf("detaching: %w", err)
		}
		if done {
			break
		}
		gone = c.pause(min(nextLook(time.Since(begin)), time.Until(end)))
	}
	return c.answer(attach.KindDetach, nil)
}

// nextLook returns the time until the next look at a context that has lingered for the given time.
func nextLook(lingered time.Duration) time.Duration {
	return min(max(lingered/4, firstLook), lastLook)
}

// detachIf ends the context if none of its packets wait, or if force is set. When force leaves
// packets undelivered the error is attach.ErrBusy.
func (c *connection) detachIf(force bool) (done bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attachment
	if a == nil {
		return false, attach.ErrNotAttached
	}
	idle := true
	if err := c.portions(a, func(x *attachment) bool {
		idle = x.ctx.Idle()
		return idle
	}); err != nil {
		return false, statusOf(err)
	}
	if !idle && !force {
		return false, nil
	}
	c.detachLocked()
	if !idle {
		return true, fmt.Errorf("packets were left undelivered: %w", attach.ErrBusy)
	}
	return true, nil
}

// dismiss tells the process that its context is gone. The card's thread calls it. Of a row it wakes
// the process once, which then looks at the first page.
func (a *attachment) dismiss() {
	if a.job.why != "" { // set before the card's thread was asked
		a.shared.Page.PutWhy(a.job.why)
	}
	a.ctx.Dismiss()
	if a == a.first() {
		wakeUp(a.process)
	}
}

// detach ends the connection's context because its job j has ended; a context of another job stays.
// The connection goes on. The process may still read messages that it has received. So memory and
// context stay, and count, until the process attaches again or the connection ends.
func (c *connection) detach(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detachPort(j)
	if c.attachment != nil && c.attachment.job == j {
		c.kept = c.endContext()
	}
}

// detachLocked ends the connection's port and context, if any, and frees all memory of the
// connection. The caller holds mu.
func (c *connection) detachLocked() {
	c.endPort()
	if a := c.endContext(); a != nil {
		c.kept = a // without a context there was none, or it was freed: see attach
	}
	c.freeKept()
}

// freeKept frees the remains of a context that has ended. The caller holds mu.
func (c *connection) freeKept() {
	a := c.kept
	if a == nil {
		return
	}
	c.kept = nil
	if !c.d.stopping.Load() { // at its end the daemon frees all memory anyhow
		a.erase()
	}
	a.close(c.d)
	use := a.use()
	if a.left {
		use.contexts = 0 // the sign has it
		c.d.strand(a)
	}
	c.d.give(c.peer.account, c.rule, use)
}

// endContext ends the context, and returns its remains, or nil. The caller holds mu.
func (c *connection) endContext() *attachment {
	a := c.attachment
	if a == nil {
		return nil
	}
	c.giveImage(a)
	c.attachment = nil
	d := c.d
	d.detachContexts(a)
	closeFD(a.process)
	a.process = -1
	d.leave(a.job, a.node, len(a.all()))
	return a
}

// detachContexts has the card's thread detach the contexts that are attached.
func (d *Daemon) detachContexts(a *attachment) {
	detach := func(x *attachment) bool {
		if x.ctx != nil && !x.lost && d.loop.byBell[x.ctx.Bell()] == x {
			x.dismiss()
			d.loop.strike(x)
			d.loop.card.Detach(x.ctx)
		}
		return true
	}
	err := a.conn.portions(a, detach) // a thread that has ended touches nothing any more
	if errors.Is(err, errTorn) {      // by one of them, which is lost then
		for _, x := range a.all() {
			_ = a.conn.onCard(x, func() { detach(x) })
		}
	}
}

// erase empties the memory, so a process that keeps it holds nothing uncounted. The register page
// stays, because it says that the card has gone.
func (a *attachment) erase() {
	a.memory.erase(funi.PageSize)
	for _, m := range a.segments {
		m.erase(0)
	}
}

// close gives memory and descriptors back. The card must no longer use them.
func (a *attachment) close(d *Daemon) {
	if a.bells != nil {
		d.giveBells(a.account, a.bells)
	}
	if a.memory != nil {
		a.memory.close()
	}
	for _, m := range a.segments {
		m.close()
	}
	unmap(a.tables)
	a.tables = nil
	closeFD(a.card)
	closeFD(a.process)
}

func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}
