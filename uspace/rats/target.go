package rats

// This file implements the protocols Remote Write and Tagged Remote Write (HPL-95-86, section 3.2):
// a Target is memory, and Writers write there, at any offset and in any order. The receiver is not
// told of a remote write. It gets the tag of a tagged one when the data has arrived.
//
// A tagged write is one packet, with the words kind and tag. A writer may have as many unread tags
// as its window. A credit tells it how many of its tags were read since the beginning. So unread
// tags cost the target no more than its windows.
//
// Words, first the kind in bits 31:28:
//
//	hello  to the target, as in stream.go
//	data   to the target: 0; tag
//	done   to the target, when the writer closes: 0; tags sent, which may be overtaken by this
//	credit to the writer: 0; tags read since the beginning
//	abort  to the writer: 0
//	done   to the writer, which has said so too, when all its tags are there: 0

import (
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

const (
	MaxTagged = shortBytes // the largest number of bytes of a tagged write
	MaxWindow = 1 << 12    // the largest number of unread tagged writes of a writer
)

// Target is memory that other processes write to. It belongs to the goroutine of its manager.
type Target struct {
	links  // whose instance is told of tags
	memory []byte
	window int
	tags   []Tag // unread
}

// Tag is a tagged write that has arrived.
type Tag struct {
	Tag  uint32
	From uint16 // node
	link *taggedLink
}

type taggedLink struct {
	serverEnd
	of   *Target
	held int    // its tags in of.tags
	read uint32 // its tags that were read
	told uint32 // in the last credit
	done bool   // the writer has closed, after sent tags
	sent uint32
}

// NewTarget returns a target for memory that Alloc returned. The memory belongs to the target until
// it is closed, and is freed then. window is how many tags of each writer may be unread, 1 to
// MaxWindow. Errors are ErrMemory and ErrFull.
func (m *Manager) NewTarget(memory []byte, window int) (*Target, error) {
	if !m.heap.allocated(memory) {
		return nil, fmt.Errorf("making a target of %d bytes: %w", len(memory), ErrMemory)
	}
	t := &Target{memory: memory, window: min(max(window, 1), MaxWindow)}
	if err := m.add(&t.instance, gone{}); err != nil {
		return nil, fmt.Errorf("making a target: %w", err)
	}
	return t, nil
}

// Memory is where others write.
func (t *Target) Memory() []byte { return t.memory }

// Seed returns a seed for writes without tags, which any number of writers may use. It returns
// ErrFull and ErrClosed.
func (t *Target) Seed() (Seed, error) { return t.seed(protocolWrite) }

// TaggedSeed returns a seed for one writer of tags, which may also write without tags. The seed has
// a key of its own, so Revoke affects only that writer. Errors are ErrFull and ErrClosed.
func (t *Target) TaggedSeed() (Seed, error) { return t.seed(protocolTagged) }

func (t *Target) seed(protocol uint8) (s Seed, err error) {
	if t.closing {
		return s, fmt.Errorf("making a seed: %w", ErrClosed)
	}
	credit, others := 0, -1
	if protocol == protocolTagged {
		credit, others = t.window+controlArea, 0
	}
	l := &taggedLink{of: t}
	err = l.begin(t.m, l, t.memory, credit, others)
	if s, err = t.links.seed(&l.serverEnd, len(t.memory), protocol, err); protocol == protocolTagged {
		s.Count = uint32(t.window)
	}
	return s, err
}

// GetTag returns the oldest unread tag, or false if there is none.
func (t *Target) GetTag() (Tag, bool) {
	if len(t.tags) == 0 { // as mostly, while somebody waits
		return Tag{}, false
	}
	return t.take(0), true
}

// GetSpecificTag returns the oldest unread tag of that value, or false if there is none.
func (t *Target) GetSpecificTag(tag uint32) (Tag, bool) {
	for i := range t.tags {
		if t.tags[i].Tag == tag {
			return t.take(i), true
		}
	}
	return Tag{}, false
}

func (t *Target) take(i int) Tag {
	g := t.tags[i]
	t.tags = append(t.tags[:i], t.tags[i+1:]...)
	l := g.link
	l.held--
	l.read++
	t.m.hands(tagPrice)
	l.consider()
	return g
}

// Close revokes all seeds and frees the memory. Unread tags are discarded.
func (t *Target) Close() {
	t.tags = nil
	if t.close() && len(t.all) == 0 {
		t.m.freeLater(t.memory)
	}
}

func (l *taggedLink) arrived(n *funi.Notification) {
	if l.strange(n) {
		return
	}
	l.bound, l.peer.Node = true, n.Source
	switch w := n.Metadata; {
	case l.peer.Key == 0 && l.helloFrom(n):
	case n.Words == dataWords && w[0] == kindData<<kindShift && l.held+int(l.read-l.told) < l.of.window:
		l.held++
		l.of.tags = append(l.of.tags, Tag{Tag: w[1], From: n.Source, link: l})
		l.of.m.tell(&l.of.instance)
	case n.Words == 1 && w[0] == kindAbort<<kindShift: // it has failed
		l.abandon()
	case n.Words == 2 && w[0] == kindDone<<kindShift && !l.done:
		l.done, l.sent = true, w[1]
	default:
		l.liar(w[0] >> kindShift)
		return
	}
	if l.done && l.read+uint32(l.held) == l.sent && l.peer.Key != 0 {
		l.complete = true
		l.shutdown()
	}
	l.consider()
}

// untold is how many tags were read that the writer was not told about.
func (l *taggedLink) untold() int { return int(l.read - l.told) }

// consider tells the writer of credit when it is time. It returns false if there is no room.
func (l *taggedLink) consider() bool {
	if l.closing || l.peer.Key == 0 || !due(l.of.window, l.held, l.untold()) {
		return true
	}
	if !l.send(l.peer, 0, nil, []uint32{kindCredit << kindShift, l.read}, true) {
		l.m.await(&l.instance)
		return false
	}
	l.told = l.read
	return true
}

func (l *taggedLink) turn() bool {
	t := l.of
	var memory []byte
	if t.closing && len(t.all) == 1 {
		memory = t.memory
	}
	return l.consider() && l.finishOf(&t.links, memory)
}

// Writer writes to a Target. It belongs to the goroutine of its manager.
type Writer struct {
	end
	window int // 0: it has no tags
	sent   uint32
	read   uint32 // tags, as the target said last
}

// WriteTo returns a writer for the target whose seed it is. Errors are ErrFull and ErrSeed.
func (m *Manager) WriteTo(s Seed) (*Writer, error) {
	w, err := &Writer{window: int(s.Count)}, ErrSeed
	s.Count = 0
	switch {
	case s.Protocol == protocolWrite && s.Key != 0:
		w.peer = s.Ticket
		err = m.add(&w.instance, w)
	case w.window > 0 && w.window <= MaxWindow:
		if err = m.client(&w.end, w, s, protocolTagged, m.nothing); err == nil {
			w.hello = true
			m.await(&w.instance)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("making a writer: %w", err)
	}
	return w, nil
}

// Size returns how many bytes the target has.
func (w *Writer) Size() int { return int(w.peer.Size) }

// Part is data and where it goes, in a target's memory.
type Part struct {
	Offset uint32
	Data   []byte
}

// Write writes data at the offset. Data that does not fit a packet must lie in the manager's memory
// (Alloc) and must not change until the handle's Status is Sent. Errors are ErrTooLong, ErrMemory,
// ErrFull, and the reason why the writer is unusable.
func (w *Writer) Write(offset uint32, data []byte) (Handle, error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	return w.m.Write(w.peer, offset, data)
}

// WriteParts writes several parts, all or none (3.2: scatter-gather), and returns the handle of the
// last: when it is Sent, all are. Errors are those of Write.
func (w *Writer) WriteParts(parts ...Part) (h Handle, err error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	if w.m.Room() < len(parts) {
		return 0, fmt.Errorf("writing %d parts: %w", len(parts), ErrFull)
	}
	for _, p := range parts {
		if _, err := w.m.source(&w.peer, p.Offset, p.Data, 0); err != nil {
			return 0, err
		}
	}
	for _, p := range parts {
		if h, err = w.m.Write(w.peer, p.Offset, p.Data); err != nil {
			return 0, err
		}
	}
	return h, nil
}

// WriteTag writes up to MaxTagged bytes at the offset, and sends the tag to the target. ErrFull
// means that the window or the send queue has no room; NextReady reports when there is some. The
// bytes may be changed at once. Other errors are those of Write.
func (w *Writer) WriteTag(offset uint32, data []byte, tag uint32) error {
	if err := w.usable(); err != nil {
		return err
	}
	if len(data) > MaxTagged || w.window == 0 || uint64(offset)+uint64(len(data)) > uint64(w.peer.Size) {
		return fmt.Errorf("writing %d bytes with a tag: %w", len(data), ErrTooLong)
	}
	if w.hello || w.sent-w.read >= uint32(w.window) {
		w.full = true
		return ErrFull
	}
	if !w.send(w.peer, offset, data, []uint32{kindData << kindShift, tag}, true) {
		w.full = true
		w.m.await(&w.instance)
		return ErrFull
	}
	w.sent++
	return nil
}

func (w *Writer) usable() error {
	if w.closing {
		return ErrClosed
	}
	return w.err
}

// Close closes the writer behind everything that was written.
func (w *Writer) Close() {
	w.linger()
	if w.window == 0 {
		w.lingers = false
	}
}

func (w *Writer) arrived(n *funi.Notification) {
	if w.err != nil || n.Source != w.peer.Node {
		return
	}
	switch d := n.Metadata; {
	case w.saidDone && n.Words == 1 && d[0] == kindDone<<kindShift:
		w.answered()
	case n.Words == 2 && d[0] == kindCredit<<kindShift:
		if int32(d[1]-w.read) < 0 {
			return // overtaken by a newer one
		}
		if d[1]-w.read > w.sent-w.read {
			w.lies("tags read", d[1])
			return
		}
		w.read = d[1]
		w.room()
	case n.Words == 1 && d[0] == kindAbort<<kindShift:
		w.fail(ErrAborted)
	default:
		w.lies("kind", d[0]>>kindShift)
	}
}

func (w *Writer) turn() bool {
	if !w.sayHello() {
		return false
	}
	if w.sent-w.read < uint32(w.window) {
		w.room()
	}
	return w.finishClient(w.sent)
}
