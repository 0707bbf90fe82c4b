package daemon

// This file manages the segments of a process's context (funi.Segment). A segment's memory is made,
// registered with the card and handed to the process. It is freed when the process asks for that,
// or with the context.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

func (c *connection) segment(r *attach.SegmentRequest) error {
	m, err := c.newSegment(r)
	if err != nil {
		return err
	}
	return c.send(r.EncodeAnswer(), m.fd)
}

func (c *connection) newSegment(r *attach.SegmentRequest) (*region, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attachment
	if a == nil {
		return nil, fmt.Errorf("making a segment: %w", attach.ErrNotAttached)
	}
	refuse := func(err error) (*region, error) {
		return nil, fmt.Errorf("making a segment of %d bytes at %#x: %w", r.Bytes, r.Base, err)
	}
	switch {
	case r.Base == 0 || r.Base%16 != 0 || r.Bytes == 0 || r.Bytes%16 != 0 || r.Bytes > 1<<32 ||
		uint64(r.Base)+r.Bytes > 1<<32 || r.Rights == 0:
		return refuse(attach.ErrSegment) // before it is counted and made
	case len(a.segments) >= funi.MaxSegments:
		return refuse(attach.ErrTooManySegments)
	}
	use := usage{pieces: 1, bytes: pages(int64(r.Bytes))}
	if err := c.d.take(c.peer.account, c.rule, use); err != nil {
		return refuse(err)
	}
	m, err := c.d.memory.make("segment", int64(r.Bytes), a)
	if err != nil {
		c.d.give(c.peer.account, c.rule, use)
		return refuse(fmt.Errorf("%w: %w", attach.ErrFull, err))
	}
	if some, err := c.register(a, funi.Segment{Base: r.Base, Memory: m.bytes, Rights: r.Rights}); err != nil {
		if some { // others of the row have it
			c.detachLocked()
		}
		m.close()
		c.d.give(c.peer.account, c.rule, use)
		return refuse(statusOf(err))
	}
	a.segments[r.Base] = m
	a.bytes += use.bytes
	return m, nil
}

// register registers a segment for a context, or for all of a row. With an error, some reports
// whether contexts of the row have it: that is a failure of the card, which ends the connection.
func (c *connection) register(a *attachment, s funi.Segment) (some bool, err error) {
	var refused error
	ended := c.portions(a, func(x *attachment) bool {
		if refused = x.ctx.Register(s); refused != nil {
			return false
		}
		some = true
		return true
	})
	return some && a.row != nil, errors.Join(ended, refused)
}

// unregister ends a segment of a context, or of all of a row. With an error the context that
// needs the segment has it still, and contexts that do not need it have lost it.
func (c *connection) unregister(a *attachment, base uint32) error {
	var refused error
	ended := c.portions(a, func(x *attachment) bool {
		err := x.ctx.Unregister(base)
		if again := a.segments[base] != nil && errors.Is(err, funi.ErrNoSegment); err != nil && !again {
			refused = err
		}
		return true
	})
	return errors.Join(ended, refused)
}

func (c *connection) unsegment(r *attach.UnsegmentRequest) error {
	if err := c.endSegment(r.Base); err != nil {
		return err
	}
	return c.answer(attach.KindUnsegment, nil)
}

func (c *connection) endSegment(base uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attachment
	if a == nil {
		return fmt.Errorf("ending a segment: %w", attach.ErrNotAttached)
	}
	if err := c.unregister(a, base); err != nil {
		return fmt.Errorf("ending the segment at %#x: %w", base, statusOf(err))
	}
	m := a.segments[base]
	delete(a.segments, base)
	size := pages(int64(len(m.bytes)))
	a.bytes -= size
	m.erase(0)
	m.close()
	c.d.give(c.peer.account, c.rule, usage{pieces: 1, bytes: size})
	return nil
}

// statusOf gives an error of the engine its status, which those of segments have (attach.StatusOf).
func statusOf(err error) error {
	switch {
	case errors.Is(err, engine.ErrSegmentBusy):
		return fmt.Errorf("%w: %w", attach.ErrBusy, err)
	case errors.Is(err, ErrEnded):
		return fmt.Errorf("%w: %w", attach.ErrStopping, err)
	}
	return err
}
