package funet

// This file implements streams of bytes between two nodes, as io.Writer and io.Reader, over
// messages with a tag.
//
// The journey: Writer cuts the written bytes into pieces of at most StreamPiece bytes. Each is a
// message, whose first byte gives the kind of the piece. Reader posts receives for streamAhead
// pieces, and tells the Writer so by a message with the same tag in the other direction. A piece
// leaves only when a receive waits for it. So a reader that does not read delays only its writer,
// and there are at most streamAhead pieces at each end. The last piece marks the end of the stream,
// or its error; a spare receive is kept for it. The reader's last message acknowledges that piece.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/funet/funet/uspace/am"
)

const (
	// StreamPiece is the largest number of bytes of a stream in one message.
	StreamPiece = 64<<10 - 1
	// streamAhead is how many pieces of a stream may be written and not yet read.
	streamAhead = 4

	// The kind of a piece, in its first byte.
	pieceData  = 0
	pieceEnd   = 1
	pieceError = 2 // the error's text follows

	// A reader's message is one byte: for how many more pieces it has room, or roomClosed if it has
	// been closed.
	roomClosed = 0

	maxStreamText = 1 << 10
)

// StreamError is the error with which the other node ended a stream (StreamWriter.CloseWithError).
type StreamError struct {
	Node int
	Text string
}

func (s *StreamError) Error() string {
	return fmt.Sprintf("funet: node %d ended the stream: %s", s.Node, s.Text)
}

// flight is a send or a receive of a stream.
type flight struct {
	w  *waiter // nil: none
	id am.ID
	b  []byte
}

// halt ends an operation that is under way. The lock is held.
func (f *flight) halt(e *Endpoint) {
	if f.w == nil {
		return
	}
	if !f.w.done {
		e.cancel(f.id)
	}
	e.recycle(f.w)
	f.w = nil
}

// await waits until the operation is complete. The lock is held.
func (f *flight) await(ctx context.Context, e *Endpoint, doing string) (am.Received, error) {
	if f.w == nil {
		return am.Received{}, nil
	}
	err := e.await(ctx, f.w, doing)
	if err != nil && !f.w.done {
		return am.Received{}, err
	}
	what := f.w.what
	e.recycle(f.w)
	f.w = nil
	return what, err
}

// send starts a send of f.b. The lock is held.
func (f *flight) send(ctx context.Context, e *Endpoint, node int, tag uint32, doing string) (err error) {
	if err := e.awaitTagged(ctx, doing); err != nil {
		return err
	}
	f.w = e.waiter()
	if f.id, err = e.am.StartSendTag(node, tag, f.b, f.w.sent); err != nil {
		e.recycle(f.w)
		f.w = nil
		return fmt.Errorf("%s: %w", doing, err)
	}
	e.carrier.Drive()
	return nil
}

// receive starts a receive into f.b. The lock is held.
func (f *flight) receive(ctx context.Context, e *Endpoint, node int, tag uint32, doing string) (err error) {
	if err := e.awaitTagged(ctx, doing); err != nil {
		return err
	}
	f.w = e.waiter()
	if f.id, err = e.am.StartRecv(node, tag, f.b, f.w.got); err != nil {
		e.recycle(f.w)
		f.w = nil
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// StreamWriter is the writing end of a stream. Its methods may be called by any goroutine, one
// after the other.
type StreamWriter struct {
	mu     sync.Mutex
	e      *Endpoint
	ctx    context.Context
	node   int
	tag    uint32
	room   int                     // pieces that the reader has room for
	heard  [streamAhead + 1]flight // receives, one for each message that the reader may send
	asked  int                     // the next of heard to post
	next   int                     // the next of heard to wait for
	sent   int                     // pieces with data
	pieces [streamAhead + 1]flight
	piece  int // the next of pieces
	err    error
}

// Writer begins a stream to a node, whose Reader has the same tag (ErrTag). Until the stream ends,
// the tag must not be used for anything else between these two nodes, in either direction. A stream
// in the other direction takes another tag. Every wait of the stream ends with ctx, and the stream
// then fails.
//
// Write copies p and returns when all of it is under way, which is at most streamAhead pieces of
// StreamPiece bytes ahead of the reader. It waits while the reader has that many unread. Use a
// bufio.Writer for many small writes. Close ends the stream, and waits until the other node has
// read everything; only a nil from Close says that nothing was lost. Errors are those of SendTag,
// and io.ErrClosedPipe after Close, or when the reader has been closed.
func (e *Endpoint) Writer(ctx context.Context, node int, tag uint32) (*StreamWriter, error) {
	w := &StreamWriter{e: e, ctx: ctx, node: node, tag: tag}
	doing := fmt.Sprintf("opening a stream to node %d", node)
	if tag > MaxTag {
		return nil, fmt.Errorf("%s with tag %#x: %w", doing, tag, ErrTag)
	}
	w.asked = 1
	if err := e.post(ctx, w.heard[:1], 1, node, tag, doing); err != nil {
		return nil, err
	}
	return w, nil
}

// post starts receives of the given number of bytes each.
func (e *Endpoint) post(ctx context.Context, all []flight, size, node int, tag uint32, doing string) error {
	if node < 0 {
		return fmt.Errorf("%s: %w", doing, ErrNode)
	}
	if err := e.lock(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer e.unlock()
	for i := range all {
		all[i].b = make([]byte, size)
		if err := all[i].receive(ctx, e, node, tag, doing); err != nil {
			for j := range all[:i] {
				all[j].halt(e)
			}
			return err
		}
	}
	return nil
}

// Write writes p to the stream.
func (w *StreamWriter) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n < len(p) && w.err == nil {
		part := p[n:min(len(p), n+StreamPiece)]
		if w.send(pieceData, part) == nil {
			n += len(part)
		}
	}
	if n < len(p) {
		return n, w.err
	}
	return n, nil
}

// Close ends the stream: the reader gets io.EOF.
func (w *StreamWriter) Close() error { return w.CloseWithError(nil) }

// CloseWithError ends the stream. The reader gets a *StreamError with the text of err, cut off if
// it is too long, or io.EOF if err is nil. CloseWithError returns what Close returns.
func (w *StreamWriter) CloseWithError(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind, text := byte(pieceEnd), ""
	if err != nil {
		kind, text = pieceError, err.Error()
	}
	if w.err == nil && w.send(kind, []byte(text[:min(len(text), maxStreamText)])) == nil {
		w.finish()
	}
	if errors.Is(w.err, errFinished) {
		return nil
	}
	return w.err
}

// errFinished is the error of a stream that Close has ended.
var errFinished = fmt.Errorf("funet: %w: the stream has been closed", io.ErrClosedPipe)

// send sends a piece, or fails the stream.
func (w *StreamWriter) send(kind byte, p []byte) error {
	doing := fmt.Sprintf("writing to node %d", w.node)
	if err := w.e.lock(); err != nil {
		w.err = fmt.Errorf("%s: %w", doing, err)
		return w.err
	}
	defer w.e.unlock()
	if w.ctx.Err() != nil {
		return w.fail(cancelled(w.ctx, doing))
	}
	for h := &w.heard[w.next]; w.room == 0 && kind == pieceData || h.w != nil && h.w.done; h = &w.heard[w.next] {
		if err := w.hear(doing); err != nil {
			return w.fail(err)
		}
	}
	// The reader answers each streamAhead/2 pieces, and the end. No receive is posted that waits
	// for more than that: it would take what the reader of the tag's next stream says.
	if kind == pieceData {
		w.room--
		w.sent++
	}
	if kind != pieceData || w.sent%(streamAhead/2) == 0 {
		if err := w.ask(doing); err != nil {
			return w.fail(err)
		}
	}
	f := &w.pieces[w.piece]
	if _, err := f.await(w.ctx, w.e, doing); err != nil {
		return w.fail(err)
	}
	f.b = append(append(f.b[:0], kind), p...)
	if err := f.send(w.ctx, w.e, w.node, w.tag, doing); err != nil {
		return w.fail(err)
	}
	w.piece = (w.piece + 1) % len(w.pieces)
	return nil
}

// hear waits for the reader's next message. The lock is held.
func (w *StreamWriter) hear(doing string) error {
	h := &w.heard[w.next]
	if h.w == nil {
		return fmt.Errorf("%s: %w: the reader has said less than it must", doing, io.ErrUnexpectedEOF)
	}
	if _, err := h.await(w.ctx, w.e, doing); err != nil {
		return err
	}
	if h.b[0] == roomClosed || int(h.b[0]) > streamAhead {
		return fmt.Errorf("%s: %w: the reader has been closed", doing, io.ErrClosedPipe)
	}
	w.room += int(h.b[0])
	w.next = (w.next + 1) % len(w.heard)
	return nil
}

// ask posts the receive for one more message of the reader.
func (w *StreamWriter) ask(doing string) error {
	h := &w.heard[w.asked]
	w.asked = (w.asked + 1) % len(w.heard)
	h.b = make([]byte, 1)
	return h.receive(w.ctx, w.e, w.node, w.tag, doing)
}

// finish waits until the reader has read everything.
func (w *StreamWriter) finish() {
	doing := fmt.Sprintf("closing a stream to node %d", w.node)
	if err := w.e.lock(); err != nil {
		w.err = fmt.Errorf("%s: %w", doing, err)
		return
	}
	defer w.e.unlock()
	var err error
	for err == nil {
		err = w.hear(doing) // at last that it is closed
	}
	sent := true
	for i := range w.pieces {
		_, gone := w.pieces[i].await(w.ctx, w.e, doing)
		sent = sent && gone == nil
	}
	if sent && errors.Is(err, io.ErrClosedPipe) {
		err = errFinished
	}
	_ = w.fail(err)
}

// fail ends the stream on this side. The lock is held.
func (w *StreamWriter) fail(err error) error {
	w.err = err
	for i := range w.heard {
		w.heard[i].halt(w.e)
	}
	for i := range w.pieces {
		w.pieces[i].halt(w.e)
	}
	return err
}

// StreamReader is the reading end of a stream. Its methods may be called by any goroutine, one
// after the other.
type StreamReader struct {
	mu     sync.Mutex
	e      *Endpoint
	ctx    context.Context
	node   int
	tag    uint32
	pieces [streamAhead + 1]flight // receives; one more than the writer counts, for the end
	next   int                     // of pieces
	rest   []byte                  // unread bytes of the current piece
	unsaid int                     // pieces read that the writer was not told of
	err    error
}

// Reader begins a stream from a node: see Writer. Read waits for bytes. It returns io.EOF when the
// writer was closed, a *StreamError when it was closed with an error, and otherwise the errors of
// Recv. Close before the end makes the writer's next Write fail with io.ErrClosedPipe. Bytes under
// way are lost then, and the tag must not be used again between these two nodes.
func (e *Endpoint) Reader(ctx context.Context, node int, tag uint32) (*StreamReader, error) {
	r := &StreamReader{e: e, ctx: ctx, node: node, tag: tag}
	doing := fmt.Sprintf("opening a stream from node %d", node)
	if tag > MaxTag {
		return nil, fmt.Errorf("%s with tag %#x: %w", doing, tag, ErrTag)
	}
	if err := e.post(ctx, r.pieces[:], StreamPiece+1, node, tag, doing); err != nil {
		return nil, err
	}
	if err := e.SendTag(ctx, node, tag, []byte{streamAhead}); err != nil {
		r.halt()
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return r, nil
}

// Read reads the bytes that are available, at least one.
func (r *StreamReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.rest) == 0 && r.err == nil {
		r.err = r.more()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// more waits for the next piece. It posts the receive of the previous piece again, and tells the
// writer so.
func (r *StreamReader) more() error {
	doing := fmt.Sprintf("reading from node %d", r.node)
	if err := r.e.lock(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	f := &r.pieces[r.next]
	what, err := am.Received{}, error(nil)
	if last := &r.pieces[(r.next+streamAhead)%len(r.pieces)]; last.w == nil {
		err = last.receive(r.ctx, r.e, r.node, r.tag, doing)
	}
	tell := 0
	if err == nil && r.unsaid >= streamAhead/2 {
		tell, r.unsaid = r.unsaid, 0
	}
	r.e.unlock()
	if err == nil && tell > 0 {
		err = r.e.SendTag(r.ctx, r.node, r.tag, []byte{byte(tell)})
	}
	if err != nil {
		return err
	}
	if err := r.e.lock(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	what, err = f.await(r.ctx, r.e, doing)
	r.e.unlock()
	switch {
	case err != nil:
		return err
	case what.Bytes == 0:
		return fmt.Errorf("%s: %w: a message that is no part of a stream has its tag %d", doing, ErrTag, r.tag)
	}
	r.next = (r.next + 1) % len(r.pieces)
	switch piece := f.b[:what.Bytes]; piece[0] {
	case pieceData:
		r.unsaid++
		r.rest = piece[1:]
		return nil
	case pieceEnd:
		err = io.EOF
	default:
		err = &StreamError{Node: r.node, Text: string(piece[1:])}
	}
	r.halt()
	if said := r.say(); said != nil {
		return said
	}
	return err
}

// say tells the writer that the reader has been closed.
func (r *StreamReader) say() error {
	return r.e.SendTag(r.ctx, r.node, r.tag, []byte{roomClosed})
}

// halt ends the receives.
func (r *StreamReader) halt() {
	if r.e.lock() != nil {
		return // they have ended
	}
	defer r.e.unlock()
	for i := range r.pieces {
		r.pieces[i].halt(r.e)
	}
}

// Close ends reading. Before the end of the stream it tells the writer so. The receives for pieces
// under way stay posted, so that those pieces disturb no other message.
func (r *StreamReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		r.rest = nil
		return nil
	}
	r.rest, r.err = nil, fmt.Errorf("funet: reading from node %d: %w", r.node, io.ErrClosedPipe)
	return r.say()
}
