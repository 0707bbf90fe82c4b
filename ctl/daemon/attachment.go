package daemon

// This file is a process's context: the memory that it shares with the card, how it is made and
// freed, and its segments (segment.go). The connection's goroutine makes and maps memory; the
// card's thread only attaches and detaches the context.

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// attachment is a context with its memory and descriptors. connection.mu guards it, except ctx,
// which belongs to the card's thread.
type attachment struct {
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
	a, wait, err := c.newContext(r, size, arrives)
	if err != nil {
		return err
	}
	answer := attach.AttachAnswer{ABI: funi.ABI, Context: a.ctx.Bell(), GID: r.GID, Node: r.Node,
		Nodes: uint32(len(a.job.cards)),
		Slots: r.Slots, Remote: r.Remote, Memory: uint64(size), Incarnation: c.d.incarnation.Load()}
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

// newContext makes the connection's context, and the descriptor on which the process waits.
func (c *connection) newContext(r *attach.AttachRequest, size int, arrives bool) (_ *attachment, wait int, err error) {
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
		j, err = d.join(c, r, false)
	}
	if err != nil {
		return nil, -1, err
	}
	use := usage{contexts: 1, pieces: 1, bytes: pages(int64(size)) + pages(engine.RemoteBytes(r.Remote))}
	if err := d.take(c.peer.account, c.rule, use); err != nil {
		d.leave(j, r.Node)
		return nil, -1, err
	}
	a := &attachment{job: j, conn: c, account: c.peer.account, node: r.Node, slots: int(r.Slots),
		segments: map[uint32]*region{}, bytes: use.bytes, card: -1, process: -1}
	wait, err = a.make(d, size, r.Remote)
	if err == nil {
		err = d.attachContext(a, arrives)
	}
	if err != nil {
		a.close(d)
		closeFD(wait)
		d.give(c.peer.account, c.rule, use)
		d.leave(j, r.Node)
		return nil, -1, err
	}
	c.attachment = a
	if arrives { // in the place of its sign
		d.dropSign(j, func(s sign) bool { return s.node == a.node })
	}
	d.userLine(&c.peer, fmt.Sprintf("node %d of job %d has context %d", a.node, a.job.gid, a.ctx.Bell()), "job",
		a.job.gid, "node", a.node)
	return a, wait, nil
}

// make makes the parts of the context, and returns the descriptor on which the process waits. It is
// the read end of a pipe, not an eventfd. Whether a write waits for room is a flag of the open
// file. A process that shared an eventfd could clear that flag and fill the eventfd, and so stop
// the card's thread. Of a pipe only the daemon has the writing end.
func (a *attachment) make(d *Daemon, size int, remote funi.RemoteSizes) (wait int, err error) {
	wait = -1
	if a.memory, err = d.memory.make(fmt.Sprintf("%d.%d", a.job.gid, a.node), int64(size), a); err != nil {
		return wait, fmt.Errorf("%w: %w", attach.ErrFull, err)
	}
	if a.bells, err = d.takeBells(a.account); err != nil {
		return wait, err
	}
	if a.shared, err = funi.SharedRemoteMemory(a.memory.bytes, a.bells.bytes, remote); err != nil {
		return wait, err
	}
	if n := engine.TableBytes(remote); n > 0 {
		if a.tables, err = mapPrivate(n); err != nil {
			return wait, fmt.Errorf("%w: %w", attach.ErrFull, err)
		}
	}
	// The queues are halted until the process has written its registers (thesis 3.2.1,
	// funi.Start); what arrives before stays in the receive FIFOs and with its senders.
	a.shared.Page.Store(funi.Control, funi.UserModes)
	if a.card, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return wait, descriptors(err)
	}
	var pipe [2]int
	if err = unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return wait, descriptors(err)
	}
	a.process = pipe[1]
	// A page is enough: of many writes one is as good as all.
	_, _ = unix.FcntlInt(uintptr(a.process), unix.F_SETPIPE_SZ, 4096)
	return pipe[0], nil
}

// descriptors adds advice to an error when the daemon is out of descriptors.
func descriptors(err error) error {
	return fmt.Errorf("%w: making its descriptors: %w", attach.ErrFull, err)
}

// attachContext has the card's thread attach the context.
func (d *Daemon) attachContext(a *attachment, arrives bool) error {
	var tables *engine.Tables
	if a.tables != nil {
		tables = engine.NewTables(a.shared.Remote, a.tables)
	}
	var refused error
	err := a.conn.onCard(a, func() {
		l := d.loop
		if refused = l.watch(a.card, unix.EPOLLIN|unix.EPOLLET); refused != nil {
			return
		}
		make := l.card.Attach
		if arrives {
			make = l.card.Arrive
		}
		l.card.Lend(tables)
		defer l.card.Lend(nil)
		if a.ctx, refused = make(a.shared, a.job.gid, a.node, a.job.tag); refused != nil {
			l.unwatch(a.card)
			return
		}
		l.card.Account(a.ctx, a.account)
		l.card.Doorbells(a.ctx, a.bells.page, nil)
		l.byBell[a.ctx.Bell()], l.byPlace[place{a.job.gid, a.node}] = a, a
		a.active.Store(!arrives)
		l.traceNew(a)
		if l.share != nil && !arrives {
			l.share.enter(l, a)
		}
	})
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
	idle := false
	if err := c.onCard(a, func() { idle = a.ctx.Idle() }); err != nil {
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

// dismiss tells the process that its context is gone. The card's thread calls it.
func (a *attachment) dismiss() {
	if a.job.why != "" { // set before the card's thread was asked
		a.shared.Page.PutWhy(a.job.why)
	}
	a.ctx.Dismiss()
	wakeUp(a.process)
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
	use := usage{contexts: 1, pieces: 1 + len(a.segments), bytes: a.bytes}
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
	_ = c.onCard(a, func() { // a thread that has ended touches nothing any more
		l := d.loop
		if a.lost {
			return
		}
		a.dismiss()
		l.strike(a)
		l.card.Detach(a.ctx)
	})
	closeFD(a.process)
	a.process = -1
	d.leave(a.job, a.node)
	return a
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
