package attach

// This file has a client's segments.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// ErrOwnMemory reports an attempt to register own memory, which a daemon's card cannot use.
var ErrOwnMemory = errors.New("attach: a daemon's card uses only memory that the daemon has made; allocate it with Segment and copy, or build the data there")

// Register always refuses: a card in another process cannot use this process's memory. The method
// is here because package card has it. The daemon could map a file of the client's only if no
// process could shrink it, or change it while the card checks it. It would also account for memory
// that it has not made. Reading the process's memory by its address (process_vm_readv(2)) takes
// rights over the process. So the daemon makes the memory (see Segment).
func (c *Client) Register(s funi.Segment) error {
	return fmt.Errorf("registering %d bytes at %#x: %w", len(s.Memory), s.Base, ErrOwnMemory)
}

// Segment returns new memory, all 0, that is registered with the card as a segment (see
// funi.Segment). The daemon makes it, as the card of another process can use no other. It is the
// program's until Unregister or Close. Errors are ErrSegment, ErrOverlap, ErrTooManySegments,
// ErrQuota, ErrMemory, ErrSilent and ErrLost.
func (c *Client) Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error) {
	b, err := c.segment(SegmentRequest{Base: base, Rights: rights, Bytes: uint64(bytes)})
	if err != nil {
		return nil, fmt.Errorf("registering %d bytes at %#x: %w", bytes, base, err)
	}
	return b, nil
}

func (c *Client) segment(r SegmentRequest) ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	message, got, err := c.ask(r.Encode(), SegmentDescriptors)
	if err != nil {
		return nil, err
	}
	defer CloseDescriptors(got)
	answer, err := DecodeSegmentAnswer(message)
	if err != nil {
		return nil, err
	}
	if len(got) != SegmentDescriptors || answer != r {
		return nil, fmt.Errorf("%d descriptors and %d bytes at %#x came: %w", len(got), answer.Bytes,
			answer.Base, ErrMemory)
	}
	b, err := MapMemory(got[0], r.Bytes)
	if err != nil {
		return nil, err
	}
	c.segments[r.Base] = segment{b, r.Rights}
	return b, nil
}

// Unregister ends a segment and unmaps its memory, which must not be touched afterwards. It returns
// ErrBusy while the card needs the segment, ErrNoSegment, ErrSilent or ErrLost.
func (c *Client) Unregister(base uint32) error {
	err := c.err
	if err == nil {
		err = c.unsegment(base)
	}
	if err != nil {
		return fmt.Errorf("unregistering the segment at %#x: %w", base, err)
	}
	return nil
}

func (c *Client) unsegment(base uint32) error {
	message, _, err := c.ask(UnsegmentRequest{Base: base}.Encode(), 0)
	if err != nil {
		return err
	}
	if body, err := DecodeBody(message, KindUnsegment|AnswerBit); err != nil {
		return err
	} else if len(body) > 0 {
		return errors.Join(ErrMalformed, errors.New("an answer without a body has one"))
	}
	s := c.segments[base]
	delete(c.segments, base)
	if s.memory == nil {
		return ErrNoSegment
	}
	Unmap(s.memory)
	return nil
}
