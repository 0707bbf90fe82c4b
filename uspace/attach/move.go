package attach

// This file moves a client's context to the card of another daemon that the process can reach, with
// everything that it has there: the page and queues, the segments, windows and areas. Afterwards
// everything is at the same addresses: the memory of the new daemon is mapped in place of the old.
// So neither pointers into segments nor the state of the libraries above change. Other nodes go on
// sending meanwhile.
//
//	arrive   a connection to the other daemon, a context without anything, segments as here; what
//	         can be copied beforehand is
//	leave    this daemon's card lets go, and hands out an image of what it knew
//	copy     all memory
//	image    the other card takes it, and goes on
//	replace  mappings, descriptors, connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/funi"
)

// Move describes a move that has been made.
type Move struct {
	Card uint16 // where the context is now
	// Pause is how long the context took and sent nothing, as far as the process knows. It begins
	// when the old card let the context go.
	Pause time.Duration
	// Untold is how many cards of the group did not answer when they were told of the move. They
	// learn of it when they send to the old card. Until then they refuse what the process sends.
	Untold int
	Bytes  uint64 // of memory, copied
}

// segment is memory that the daemon has made.
type segment struct {
	memory []byte
	rights funi.Rights
}

// Move moves the context to the card of the daemon at the socket, once everything that the process
// has sent is delivered and its operations are complete. The group must be known there (funet run
// names it to all of its hosts). The call's context bounds the wait.
//
// Some errors leave the context as it was: those of Open at the other daemon, ErrBusy, ErrRoute,
// and the cause of the end of ctx. ErrBusy reports that something that the context has sent is not
// accepted, ErrRoute that the cards do not know each other. If something fails after the old card
// has let go, the context is gone: ErrLost.
//
// Move belongs to the client's goroutine, and no other may touch segments meanwhile. A process's
// environment still names the old daemon. A C program, or one with memory of its own, cannot move.
func (c *Client) Move(ctx context.Context, socket string) (Move, error) {
	m, err := c.move(ctx, socket)
	if err != nil {
		return m, fmt.Errorf("moving node %d of group %d to %s: %w", c.answer.Node, c.answer.GID, socket, err)
	}
	return m, nil
}

func (c *Client) move(ctx context.Context, socket string) (m Move, err error) {
	if c.err != nil {
		return m, c.err
	}
	info, err := InquireContext(ctx, socket, c.timeout)
	if err != nil {
		return m, err
	}
	m.Card = info.Card
	n := newClient(ctx, socket, c.timeout)
	defer func() {
		if n != nil {
			n.release()
		}
	}()
	if err := n.arrive(c); err != nil {
		return m, err
	}
	patience := c.timeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline))
	}
	// so that there are pages, and most of it need not come from far when all stands still
	c.copyTo(n)
	image, left, err := c.leave(info.Card, patience)
	if err != nil {
		return m, err
	}
	begin := time.Now()
	m.Bytes = c.copyTo(n)
	n.page.AskLeave(false)
	if err := n.sendImage(image); err != nil {
		c.lost(fmt.Errorf("%w: %w", ErrLost, err))
		return m, c.err
	}
	m.Pause, m.Untold = left.Pause+time.Since(begin), int(left.Untold)
	if err := c.become(n); err != nil {
		c.lost(fmt.Errorf("%w: %w", ErrLost, err))
		return m, c.err
	}
	n = nil
	return m, nil
}

// arrive asks for a context with the sizes and segments of another client's.
func (n *Client) arrive(like *Client) error {
	if err := n.connect(); err != nil {
		return err
	}
	request := AttachRequest{GID: like.answer.GID, Node: like.answer.Node, Slots: like.answer.Slots,
		Remote: like.answer.Remote, Token: like.token}
	message, got, err := n.ask(request.EncodeArrive(), AttachDescriptors)
	if err != nil {
		return err
	}
	if n.answer, err = DecodeArriveAnswer(message); err == nil && n.answer.Memory != like.answer.Memory {
		err = fmt.Errorf("%d bytes, not %d: %w", n.answer.Memory, like.answer.Memory, ErrMemory)
	}
	if err != nil {
		CloseDescriptors(got)
		return err
	}
	if _, err := n.share(got); err != nil {
		return err
	}
	for base, s := range like.segments {
		if _, err := n.segment(SegmentRequest{Base: base, Rights: s.rights, Bytes: uint64(len(s.memory))}); err != nil {
			return err
		}
	}
	return nil
}

// copyTo copies all memory, and returns how many bytes that was.
func (c *Client) copyTo(n *Client) (bytes uint64) {
	bytes = uint64(copy(n.memory, c.memory))
	for base, s := range c.segments {
		bytes += uint64(copy(n.segments[base].memory, s.memory))
	}
	return bytes
}

// leave makes the card let the context go, and returns the context's image.
func (c *Client) leave(card uint16, patience time.Duration) (image []byte, a LeaveAnswer, err error) {
	// The daemon answers when it is done; an end of the context meanwhile would leave the process
	// without either.
	limit := time.Now().Add(max(patience, 0) + c.timeout + leaveTells)
	if err := errors.Join(c.conn.SetDeadline(limit),
		Send(c.conn, LeaveRequest{Card: card, Patience: patience}.Encode())); err != nil {
		c.lost(ending(c.ctx, err))
		return nil, a, c.err
	}
	receive := func() []byte {
		var message []byte
		if err == nil {
			message, _, err = Receive(c.conn, c.buffer, 0)
		}
		if err != nil {
			err = ending(c.ctx, err)
			c.lost(err)
		}
		return message
	}
	message := receive()
	if err != nil {
		return nil, a, err
	}
	if a, err = DecodeLeaveAnswer(message); err != nil {
		return nil, a, err
	}
	for uint64(len(image)) < a.Image {
		message := receive()
		if err != nil {
			return nil, a, err
		}
		part, wrong := DecodeBody(message, KindLeave|AnswerBit)
		if wrong == nil && (len(part) == 0 || uint64(len(image)+len(part)) > a.Image) {
			wrong = malformed("an image", "length", len(part))
		}
		if wrong != nil {
			c.lost(wrong)
			return nil, a, wrong
		}
		image = append(image, part...)
	}
	return image, a, nil
}

// leaveTells is how long a daemon may take to tell others (ctl/daemon, move.go).
const leaveTells = 15 * time.Second

// sendImage makes the card take the image.
func (n *Client) sendImage(image []byte) error {
	for at := 0; at < len(image); {
		part := image[at:min(at+MaxImagePart, len(image))]
		message, _, err := n.ask(ImageRequest{Total: uint64(len(image)), Offset: uint64(at), Part: part}.Encode(), 0)
		if err == nil {
			_, err = DecodeBody(message, KindImage|AnswerBit)
		}
		if err != nil {
			return err
		}
		at += len(part)
	}
	return nil
}

// become makes the client take over the context that has arrived: its memory replaces the old.
func (c *Client) become(n *Client) error {
	c.unwatch() // there is no memory at all between the old and the new
	for base, s := range c.segments {
		if err := replace(s.memory, n.segments[base].memory); err != nil {
			return err
		}
	}
	if err := errors.Join(replace(c.memory, n.memory), replace(c.bells, n.bells)); err != nil {
		return err
	}
	n.segments, n.memory, n.bells, n.page = map[uint32]segment{}, nil, nil, nil
	old := [...]int{c.card, c.process}
	_ = c.conn.Close()
	c.conn, c.fd, c.card, c.process, c.socket, c.answer = n.conn, n.fd, n.card, n.process, n.socket, n.answer
	alarm := c.alarm
	n.conn, n.card, n.process = nil, -1, -1
	n.release()
	c.fds = endings(c.fd, c.process, alarm.FD())
	for _, fd := range old {
		_ = unix.Close(fd)
	}
	c.seen, c.told, c.armed = funi.Published{}, funi.Published{}, funi.Published{}
	if c.loop >= 0 {
		for _, f := range c.fds[:onAlarm] {
			if err := c.follow(c.loop, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace maps one piece of memory in the place of another, which has the same size.
func replace(old, by []byte) error {
	at, from := unsafe.Pointer(unsafe.SliceData(old)), unsafe.Pointer(unsafe.SliceData(by))
	if _, err := unix.MremapPtr(from, uintptr(len(by)), at, uintptr(len(old)),
		unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		return fmt.Errorf("mapping %d bytes in the place of others: %w", len(old), err)
	}
	return nil
}

// wanders bounds a move that the daemon's administrator waits for.
const wanders = 6 * time.Second

// wander moves the context to where the daemon's administrator wants it, or tells the daemon why it
// does not.
func (c *Client) wander() {
	c.page.AskLeave(false)
	w, err := c.whither(Whither{})
	if err != nil || w.Socket == "" {
		return
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, min(c.timeout, wanders), ErrSilent)
	defer cancel()
	if _, err := c.Move(ctx, w.Socket); err != nil && c.err == nil {
		_, _ = c.whither(Whither{Failed: oneLine(err.Error())})
	}
}

// whither asks the daemon where to move, or tells it why the move failed.
func (c *Client) whither(w Whither) (answer Whither, err error) {
	body, err := json.Marshal(w)
	if err != nil {
		return answer, err
	}
	request, err := EncodeBody(KindWhither, body)
	if err != nil {
		return answer, err
	}
	message, _, err := c.ask(request, 0)
	if err != nil {
		return answer, err
	}
	if body, err = DecodeBody(message, KindWhither|AnswerBit); err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(body, &answer)
}
