package daemon

// This file gives an administrator the card's frames, and with capturedirect.go those of direct
// ports. The card's thread puts them into a ring without ever waiting; the connection's goroutine
// sends them on. When the process does not read, the ring fills, and further frames are counted as
// lost. Only one process at a time captures, because a capture costs the card's thread a copy of
// every frame, and the daemon a ring.

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/capture"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
)

const (
	// captureLook is the time between two looks at the ring: the card's thread wakes nobody.
	captureLook = 5 * time.Millisecond
	captureBeat = 250 * time.Millisecond // how often the counts are sent while there are no frames
)

// capture carries out KindCapture: it answers until the connection or the daemon ends.
func (c *connection) capture(ask *capture.Request) error {
	if !c.d.administrator(&c.peer) {
		return fmt.Errorf("capturing frames as user %d: %w", c.peer.uid, attach.ErrForbidden)
	}
	if ask.Snap < 0 || ask.Snap > capture.MaxSnap {
		return fmt.Errorf("capturing %d bytes of each frame, not 1 to %d, or 0 for all: %w", ask.Snap, capture.MaxSnap,
			attach.ErrCommand)
	}
	ask.Snap = cmp.Or(ask.Snap, capture.MaxSnap)
	if err := c.d.beginCapture(&c.peer); err != nil {
		return err
	}
	defer c.d.endCapture()
	begin := capture.Begin{Info: c.d.info(), Snap: ask.Snap}
	begin.Interfaces = slices.Clone(begin.Interfaces[:min(len(begin.Interfaces), capture.MaxInterfaces-1)])
	cards := len(begin.Interfaces)
	direct, err := c.d.captureDirect(&begin)
	if err != nil {
		return err
	}
	if direct != nil {
		defer direct.close()
	}
	ring := capture.NewRing(capture.RingSize, len(begin.Interfaces), ask.Snap)
	start := c.d.loop.start
	base := start.UnixNano()
	see := func(port int, frame []byte, fate engine.Fate) {
		if port < cards {
			ring.Put(base+int64(time.Since(start)), port, frame, fate)
		}
	}
	if err := c.answerJSON(attach.KindCapture, begin); err != nil {
		return err
	}
	if err := c.d.observe(see); err != nil {
		return err
	}
	defer func() { _ = c.d.observe(nil) }() // else the card's thread has ended
	return c.drainCapture(ring, direct)
}

// drainCapture sends the contents of the rings until sending fails; direct may be nil.
func (c *connection) drainCapture(ring *capture.Ring, direct *directFrames) error {
	if err := c.unhurried(); err != nil {
		return err
	}
	tick := time.NewTicker(captureLook)
	defer tick.Stop()
	last := time.Now()
	batch := make([]byte, 0, capture.BatchSize)
	for {
		b, some := ring.Take(batch[:0])
		if direct != nil {
			var more bool
			var err error
			if b, more, err = direct.take(ring, b); err != nil {
				return err
			}
			some = some || more
		}
		if !some && time.Since(last) < captureBeat {
			if err := c.heard(); err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-c.d.loop.ended:
				return ErrEnded
			}
			continue
		}
		if err := c.stream(attach.KindCapture, b); err != nil {
			return err
		}
		last = time.Now()
	}
}

// heard returns an error when the process has closed the connection, or sent a message: during a
// capture messages have no answer.
func (c *connection) heard() error {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return errGone
	}
	said, quiet := 0, false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		said, quiet = n, errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)
	})
	switch {
	case err == nil && quiet:
		return nil
	case err == nil && said > 0:
		return fmt.Errorf("capturing while another message comes: %w", attach.ErrMalformed)
	}
	return errGone
}

func (d *Daemon) beginCapture(p *peer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.capturing != nil {
		return fmt.Errorf("process %d of user %d captures already; end it first: %w", d.capturing.pid, d.capturing.uid,
			attach.ErrTaken)
	}
	d.capturing = p
	return nil
}

func (d *Daemon) endCapture() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capturing = nil
}

// observe has the card's thread show each frame to see; nil ends it.
func (d *Daemon) observe(see func(port int, frame []byte, fate engine.Fate)) error {
	return d.loop.do(func() {
		d.loop.see = see
		d.loop.card.Observe(see)
	})
}
