package daemon

// This file moves contexts between this host's card and others (engine, move.go). It needs no trust
// between hosts beyond what their cards have. A process takes the image of its context from one
// daemon to the other, and the old card itself tells the cards of the group.
//
//	the new host   arrive   makes the context, its memory, and segments as for any other; the
//	                        process's user pays
//	the old one    leave    has the card let go, waits until the cards of the group know, and
//	                        hands out the image. The process has its memory until the connection
//	                        ends
//	the new one    image    takes the image, part by part, and the context goes on
//
// A sign stays on the old host. It counts as a context of its user, until the job ends or the
// process comes back there. If a process ends before the new card knows of it, its sign ends with
// it, and the waiting packets come back to their senders.

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

const (
	longestLeave = time.Minute // bounds the wait for packets that a context has sent
	// tellWithin bounds the wait for cards that do not answer, once the new card knows.
	tellWithin = time.Second
	// homeWithin bounds two waits: an image's for the word of the card that it comes from, and that
	// card's for the new one to take it.
	homeWithin = 10 * time.Second
	// firstGlance and lastGlance bound the time between two looks whether a step of a move is done.
	firstGlance = 50 * time.Microsecond
	lastGlance  = 20 * time.Millisecond
	// moveWithin is how long an administrator's request to move waits for the process.
	moveWithin = 8 * time.Second
)

// sign is a context that has moved to another card, with the user that pays for it.
type sign struct {
	ctx     *engine.Context
	node    uint16
	account uint32
	rule    *config.Rule
}

func (c *connection) arrive(r *attach.AttachRequest) error { return c.attachAs(r, true) }

// joinArriving checks that a process may come from another card as a node, and makes it a member.
func (d *Daemon) joinArriving(c *connection, r *attach.AttachRequest) (*job, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j, err := d.groupOf(c, r, false)
	if err != nil {
		return nil, err
	}
	if p := present(d.peers.Load(), int(d.cfg.Card)); p != nil && !p.Lives(j.gid) {
		return nil, fmt.Errorf("card %d, whose groups are %v: %w", d.cfg.Card, p.Groups, attach.ErrHost)
	}
	if j.members[r.Node] != nil {
		return nil, attach.ErrTaken
	}
	j.members[r.Node], j.came[r.Node] = c, true
	return j, nil
}

func (c *connection) leave(r *attach.LeaveRequest) error {
	begin, paused := time.Now(), time.Time{}
	end := begin.Add(min(r.Patience, longestLeave))
	var image []byte
	var x *engine.Context
	var err error
	for gone := false; ; {
		looked := time.Now()
		var halted bool
		image, x, halted, err = c.export(r.Card, gone || looked.After(end))
		if halted && paused.IsZero() {
			paused = looked
		}
		if !errors.Is(err, errNotYet) {
			break
		}
		gone = c.pause(glanceAfter(time.Since(begin)))
	}
	if err != nil {
		return fmt.Errorf("moving to card %d: %w", r.Card, err)
	}
	answer := attach.LeaveAnswer{Image: uint64(len(image)), Untold: uint32(c.tell(x)), Pause: time.Since(paused)}
	if err := c.send(answer.Encode()); err != nil {
		return err
	}
	for part := range slices.Chunk(image, attach.MaxImagePart) {
		if err := c.answer(attach.KindLeave, part); err != nil {
			return err
		}
	}
	return nil
}

// errNotYet says to look again later.
var errNotYet = errors.New("not yet")

// glanceAfter returns the time until the next look at a step of a move that took that time.
func glanceAfter(taken time.Duration) time.Duration {
	return min(max(taken/8, firstGlance), lastGlance)
}

// export takes the connection's context off the card if it is ready, and returns its image and the
// context that stays as a sign. If it is not ready the error says why; with force the card then
// abandons the move, and the context stays as it was. halted reports that the context has stopped,
// so that others wait for it from now on at the latest.
func (c *connection) export(to uint16, force bool) (image []byte, x *engine.Context, halted bool, err error) {
	d := c.d
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attachment
	if a == nil {
		return nil, nil, false, attach.ErrNotAttached
	}
	if a.row != nil {
		return nil, nil, false, errRow
	}
	if !d.knows(to) || to == d.cfg.Card {
		return nil, nil, false, fmt.Errorf("from card %d: %w", d.cfg.Card, attach.ErrRoute)
	}
	if p := present(d.peers.Load(), int(to)); p != nil && !p.Lives(a.job.gid) {
		return nil, nil, false, fmt.Errorf("whose groups are %v: %w", p.Groups, attach.ErrHost)
	}
	var refused error
	err = c.onCard(a, func() {
		l := d.loop
		if a.lost {
			refused = attach.ErrNotAttached
			return
		}
		image, refused = l.card.Export(a.ctx, to)
		away := errors.Is(refused, engine.ErrAway) && a.saved != nil // it has no turn
		switch {
		case refused == nil:
			l.strike(a)
			d.signUp(a, to)
		case errors.Is(refused, engine.ErrNotReady) || away:
			halted = a.ctx.Load(funi.Control)&funi.CTXM != 0
			if force {
				l.card.Stay(a.ctx)
				refused = fmt.Errorf("%w: %w", attach.ErrBusy, refused)
				return
			}
			refused = fmt.Errorf("%w: %w", errNotYet, refused)
		}
	})
	if err != nil {
		return nil, nil, false, statusOf(err)
	}
	if refused != nil {
		return nil, nil, halted, refused
	}
	a.shared.Page.AskLeave(false)
	closeFD(a.process)
	a.process = -1
	d.leave(a.job, a.node, 1)
	a.left = true
	c.attachment, c.kept = nil, a
	d.userLine(&c.peer, fmt.Sprintf("node %d of job %d has moved to card %d", a.node, a.job.gid, to), "job",
		a.job.gid, "node", a.node)
	return image, a.ctx, true, nil
}

// signUp records where a node of a job is now, and who pays. The card's thread calls it.
func (d *Daemon) signUp(a *attachment, to uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.job.cards[a.node] = to
	a.job.signs = append(a.job.signs, sign{a.ctx, a.node, a.account, a.conn.rule})
}

// dropSign forgets the first sign of a job that wanted accepts, and gives back its cost. It reports
// whether there was one. The caller ends the sign's context.
func (d *Daemon) dropSign(j *job, wanted func(sign) bool) bool {
	d.mu.Lock()
	i := slices.IndexFunc(j.signs, wanted)
	if i < 0 {
		d.mu.Unlock()
		return false
	}
	s := j.signs[i]
	j.signs = slices.Delete(j.signs, i, i+1)
	d.mu.Unlock()
	d.give(s.account, s.rule, usage{contexts: 1})
	return true
}

// strand ends the sign of a context whose process has ended, if the context has arrived nowhere.
// Then another process may be the node here.
func (d *Daemon) strand(a *attachment) {
	_ = a.conn.onCard(nil, func() { // a thread that has ended has no signs
		if _, home := a.ctx.Told(); home || !d.dropSign(a.job, func(s sign) bool { return s.ctx == a.ctx }) {
			return
		}
		d.loop.card.Detach(a.ctx)
		if routes, _, err := d.moveNode(a.job, a.node, d.cfg.Card); err == nil {
			// they lead where others have led before
			_ = d.loop.card.SetGroupRoutes(a.job.gid, routes)
		}
	})
}

// moved records that a node of a group is now on another card. It is called within a step.
func (d *Daemon) moved(gid, node, card uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.jobs[gid]; j != nil && int(node) < len(j.cards) {
		j.cards[node] = card
	}
}

// tell waits until the cards of a group that answer know where a node has moved. It returns the
// number of cards that do not know.
func (c *connection) tell(x *engine.Context) (untold int) {
	for begin := time.Now(); ; {
		home := false
		if err := c.onCard(nil, func() { untold, home = x.Told() }); err != nil {
			return untold
		}
		taken := time.Since(begin)
		if untold == 0 || home && taken > tellWithin || taken > homeWithin || c.pause(glanceAfter(taken)) {
			return untold
		}
	}
}

func (c *connection) image(r *attach.ImageRequest) error {
	whole, err := c.collect(r)
	if err != nil {
		return fmt.Errorf("taking an image: %w", err)
	}
	for begin := time.Now(); whole; {
		taken := time.Since(begin)
		if err := c.takeImage(); err == nil {
			break
		} else if !errors.Is(err, errNotYet) || taken > homeWithin || c.pause(glanceAfter(taken)) {
			c.mu.Lock()
			c.dropImage()
			c.mu.Unlock()
			return fmt.Errorf("taking an image: %w: %w", attach.ErrMalformed, err)
		}
	}
	return c.answer(attach.KindImage, nil)
}

// mostImage bounds the size of a context's image: all that a card keeps of a context.
func mostImage(s funi.RemoteSizes) uint64 {
	return 256<<10 + uint64(s.KeySlots)*64 + uint64(s.Areas)*64 + uint64(s.Notifications)*8
}

// collect takes a part of an image, and reports whether the image is complete.
func (c *connection) collect(r *attach.ImageRequest) (whole bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attachment
	switch {
	case a == nil:
		return false, attach.ErrNotAttached
	case a.active.Load() || r.Total > mostImage(a.shared.Remote) || r.Offset != uint64(len(a.image)) ||
		r.Offset > 0 && r.Total != uint64(cap(a.image)):
		return false, fmt.Errorf("bytes %d to %d of %d, which is not what comes next: %w", r.Offset,
			r.Offset+uint64(len(r.Part)), r.Total, attach.ErrMalformed)
	}
	if r.Offset == 0 {
		if err := c.d.take(c.peer.account, c.rule, usage{bytes: pages(int64(r.Total))}); err != nil {
			return false, err
		}
		a.image = make([]byte, 0, r.Total)
		a.imageBytes = pages(int64(r.Total))
	}
	a.image = append(a.image, r.Part...)
	return uint64(len(a.image)) == r.Total, nil
}

// dropImage forgets the received image of the connection's context. The caller holds mu.
func (c *connection) dropImage() {
	if a := c.attachment; a != nil {
		c.giveImage(a)
	}
}

// giveImage gives back the use that the image of a context counts for. The caller holds mu.
func (c *connection) giveImage(a *attachment) {
	if a.imageBytes > 0 {
		c.d.give(c.peer.account, c.rule, usage{bytes: a.imageBytes})
	}
	a.image, a.imageBytes = nil, 0
}

// takeImage has the card take the received image of the connection's context.
func (c *connection) takeImage() error {
	d := c.d
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attachment
	if a == nil {
		return attach.ErrNotAttached
	}
	var refused error
	err := c.onCard(a, func() {
		l := d.loop
		if refused = l.card.Import(a.ctx, a.image); refused != nil {
			return
		}
		a.active.Store(true)
		if l.share != nil {
			l.share.Enter(a.job.gid, a.job.width, turn{l.card, a})
		}
	})
	switch {
	case err != nil:
		return statusOf(err)
	case errors.Is(refused, engine.ErrNotReady):
		return fmt.Errorf("%w: %w", errNotYet, refused)
	case refused != nil:
		return refused
	}
	c.giveImage(a)
	d.userLine(&c.peer, fmt.Sprintf("node %d of job %d has come from another card", a.node, a.job.gid), "job",
		a.job.gid, "node", a.node)
	return nil
}

func (c *connection) whither(message []byte) error {
	body, err := attach.DecodeBody(message, attach.KindWhither)
	if err != nil {
		return err
	}
	var w attach.Whither
	if err := json.Unmarshal(body, &w); err != nil {
		return fmt.Errorf("reading why a process does not move: %w: %w", err, attach.ErrMalformed)
	}
	var answer attach.Whither
	row := false
	if !c.withAttachment(func(a *attachment) {
		if row = a.row != nil; row {
			return
		}
		answer.Socket = a.whither
		if w.Failed != "" {
			a.whither, a.stays = "", w.Failed
			a.shared.Page.AskLeave(false)
		}
	}) {
		return attach.ErrNotAttached
	}
	if row {
		return errRow
	}
	return c.answerJSON(attach.KindWhither, answer)
}

// withAttachment calls f with the connection's attachment, if it has one, and keeps it from ending
// meanwhile. Memory of the process may fail in f; that ends only the caller's goroutine (fault.go).
func (c *connection) withAttachment(f func(*attachment)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attachment == nil {
		return false
	}
	f(c.attachment)
	return true
}

// mostSocket is the longest path of another daemon's socket in bytes (PATH_MAX).
const mostSocket = 4095

// move asks a process to move its context to the card of another daemon, and waits until it has.
func (d *Daemon) move(m *report.Command) (any, error) {
	if m.Context == nil || m.Socket == "" || len(m.Socket) > mostSocket {
		return nil, fmt.Errorf("which context, and where? say context, and socket, which is the other daemon's: %w",
			attach.ErrCommand)
	}
	var a *attachment
	if err := d.loop.do(func() {
		if *m.Context < uint32(len(d.loop.byBell)) {
			a = d.loop.byBell[*m.Context]
		}
	}); err != nil {
		return nil, err
	}
	if a == nil {
		return nil, fmt.Errorf("no context %d; `funet context list` lists them: %w", *m.Context, attach.ErrCommand)
	}
	if a.row != nil {
		return nil, fmt.Errorf("context %d: %w", *m.Context, errRow)
	}
	c, here := a.conn, false
	c.withAttachment(func(now *attachment) {
		if here = now == a; here {
			a.whither, a.stays = m.Socket, ""
			a.shared.Page.AskLeave(true)
			wakeUp(a.process)
		}
	})
	for begin := time.Now(); here && time.Since(begin) < moveWithin; time.Sleep(glanceAfter(time.Since(begin))) {
		c.mu.Lock()
		here, left, stays := c.attachment == a, a.left, a.stays
		c.mu.Unlock()
		switch {
		case left:
			d.mu.Lock()
			defer d.mu.Unlock()
			return report.Moved{GID: a.job.gid, Node: a.node, Card: a.job.cards[a.node]}, nil
		case stays != "":
			return nil, fmt.Errorf("context %d stays: %s: %w", *m.Context, stays, attach.ErrBusy)
		case !here:
			return nil, fmt.Errorf("context %d has ended: %w", *m.Context, attach.ErrNotAttached)
		}
	}
	c.withAttachment(func(now *attachment) {
		if now == a {
			a.whither = ""
			a.shared.Page.AskLeave(false)
		}
	})
	return nil,
		fmt.Errorf("the process of context %d has not moved for %v: it must look at its context, and be a Go program: %w", *m.Context, moveWithin, attach.ErrBusy)
}
