package socket

// This file implements calls. A call carries bytes to a service of another node, and bytes or an
// error back, by Simple datagrams (package rats). A link between a caller and a service has one
// buffer and one ticket at each end, and so carries one call at a time. Concurrent calls have a
// link each. A link is kept for the next call.
//
// The words of the request for a link are the ports, 0 for the caller's, and 0. Those of the answer
// are accepted, refused or busy, and after accepted the seed. A call carries one word of its own,
// 0. Its answer carries one: 0, or 1 if it is the text of an error.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/rats"
)

const (
	// MaxCall is the longest request, and the longest answer, in bytes.
	MaxCall = 16 << 10

	callWords = 2
	// mostIdle is how many idle links to an address are kept for later calls.
	mostIdle = 16
	// mostServed is how many links a node may have to a service. Beyond that, the oldest link that
	// runs no handler is closed, and its caller asks again.
	mostServed = 64
)

// Handler answers calls. Each call has a goroutine; the request belongs to the handler.
type Handler func(from Addr, request []byte) ([]byte, error)

// CallError is the error of a handler, at the caller.
type CallError struct {
	Addr Addr // of the service
	Text string
}

func (e *CallError) Error() string { return fmt.Sprintf("%v answers: %s", e.Addr, e.Text) }

// Service answers calls until it is closed.
type Service struct {
	s       *Stack
	address Addr
	handler Handler
	links   []*served // the oldest first
	closed  bool
}

// served is a service's end of a link.
type served struct {
	of   *Service
	x    *rats.Simple
	from uint16
	busy bool
}

// callLink is the caller's end of a link.
type callLink struct {
	x    *rats.Simple
	seed rats.Seed // for the next call
	waiter
}

// Serve makes a handler answer the calls to a port of this node, ":PORT" of network "funet"; 0
// picks a port. Listeners and packet connections have separate ports. Errors are a *net.OpError
// with EADDRINUSE or EADDRNOTAVAIL.
func (s *Stack) Serve(network, address string, h Handler) (*Service, error) {
	s.lock()
	defer s.unlock()
	a, err := s.bind(network, address, func(port uint16) bool { return s.services[port] != nil })
	if err != nil {
		return nil, err
	}
	v := &Service{s: s, address: a, handler: h}
	s.services[a.Port] = v
	return v, nil
}

// Addr returns the service's address, an Addr.
func (v *Service) Addr() net.Addr { return v.address }

// Close ends the service. Calls in flight fail.
func (v *Service) Close() error {
	v.s.lock()
	defer v.s.unlock()
	if v.closed {
		return wrong("close", nil, v.address, net.ErrClosed)
	}
	v.close()
	v.s.poll()
	return nil
}

func (v *Service) close() {
	v.closed = true
	delete(v.s.services, v.address.Port)
	for len(v.links) > 0 {
		v.links[0].close()
	}
}

// newCallEnd makes an end of a link. The first half of its memory receives, and the second half
// sends, so that both are freed together, once the card is done with them.
func (s *Stack) newCallEnd() (*rats.Simple, error) {
	memory, err := s.m.Alloc(2 * MaxCall)
	if err != nil {
		return nil, err
	}
	x, err := s.m.NewSimple(memory)
	if err != nil {
		s.m.Free(memory)
	}
	return x, err
}

// answerCall answers a request for a link.
func (s *Stack) answerCall(q *rats.Request) []uint32 {
	v := s.services[uint16(q.Words[0]>>16)]
	if v == nil {
		return []uint32{refused}
	}
	var oldest *served
	of := 0
	for _, l := range v.links {
		if l.from == q.From {
			if of++; oldest == nil && !l.busy {
				oldest = l
			}
		}
	}
	if of >= mostServed {
		if oldest == nil {
			return []uint32{busy}
		}
		oldest.close()
	}
	x, err := s.newCallEnd()
	if err != nil {
		return []uint32{busy}
	}
	l := &served{of: v, x: x, from: q.From}
	x.Context = l
	v.links = append(v.links, l)
	return seedWords(x.Seed())
}

// seedWords is the answer that brings a seed, and seedOf reads it.
func seedWords(seed rats.Seed) []uint32 {
	words := []uint32{accepted}
	for b := seed.Encode(); len(words) < seedAnswer; {
		words = append(words, binary.LittleEndian.Uint32(b[(len(words)-1)*arctic.WordSize:]))
	}
	return words
}

func seedOf(words []uint32) (rats.Seed, error) {
	switch {
	case len(words) == seedAnswer && words[0] == accepted:
		var b []byte
		for _, word := range words[1:] {
			b = binary.LittleEndian.AppendUint32(b, word)
		}
		return rats.DecodeSeed(b)
	case words[0] == busy:
		return rats.Seed{}, errBusy
	}
	return rats.Seed{}, syscall.ECONNREFUSED
}

// ready is called when a call has arrived, or the link has failed.
func (l *served) ready() {
	var g rats.Message
	ok, err := l.x.Recv(&g)
	switch {
	case err == nil && !ok:
	case err != nil || !g.HasReply || g.From != l.from || g.Length > MaxCall || l.busy:
		l.close()
	default:
		l.busy = true
		go l.run(g.Reply, slices.Clone(l.x.Memory()[:g.Length]))
	}
}

// run runs the handler.
func (l *served) run(reply rats.Seed, request []byte) {
	answer, err := l.of.handler(Addr{Node: l.from}, request)
	failed := uint32(0)
	if err == nil && len(answer) > MaxCall {
		err = fmt.Errorf("an answer of %d bytes; up to %d are possible", len(answer), MaxCall)
	}
	if err != nil {
		text := err.Error()
		answer, failed = []byte(text[:min(len(text), MaxCall)]), 1
	}
	s := l.of.s
	s.lock()
	defer s.unlock()
	w := s.newWaiter()
	for slices.Contains(l.of.links, l) && s.err == nil {
		l.busy = false // the next call may come before this returns
		sent, err := l.x.Send(reply, l.out(answer), l.x.MetadataForSelf(failed))
		if err != nil {
			l.close()
			return
		}
		if sent {
			s.carrier.Look()
			return
		}
		s.doze(&w, nil, firstPause)
	}
}

// out copies bytes into the memory that the link sends from.
func (l *served) out(b []byte) []byte { return outOf(l.x, b) }

func outOf(x *rats.Simple, b []byte) []byte {
	to := x.Memory()[MaxCall:]
	return to[:copy(to, b)]
}

func (l *served) close() {
	if i := slices.Index(l.of.links, l); i >= 0 {
		l.of.links = slices.Delete(l.of.links, i, i+1)
		l.x.Close()
	}
}

// Call calls a service at NODE:PORT of network "funet" and returns its answer. Errors are a
// *CallError from the handler, or a *net.OpError with EMSGSIZE, ECONNREFUSED, EHOSTUNREACH,
// ETIMEDOUT, or the context's cause. Unless the error is ECONNREFUSED or EMSGSIZE, a failed call
// may have run.
func (s *Stack) Call(ctx context.Context, address string, request []byte) ([]byte, error) {
	to, err := s.parse(Network, address)
	if err != nil {
		return nil, wrong("call", nil, nil, err)
	}
	if len(request) > MaxCall {
		return nil, wrong("call", nil, to, fmt.Errorf("%w: a request has up to %d bytes", syscall.EMSGSIZE, MaxCall))
	}
	s.lock()
	defer s.unlock()
	for {
		l, old, err := s.link(ctx, to)
		if err != nil {
			return nil, wrong("call", nil, to, dialFailure(err))
		}
		answer, err := s.callOver(ctx, l, to, request)
		var e *CallError
		if err == nil || errors.As(err, &e) {
			s.keep(to, l)
			return answer, err
		}
		l.x.Close()
		delete(s.calls, l)
		var f *rats.Failure
		if old && errors.As(err, &f) && (f.Reason == arctic.ReasonKeySlot || f.Reason == arctic.ReasonArea) {
			continue // the service has closed the link before the call: it has not run
		}
		if ofNode(err) {
			s.lost(to.Node, err)
		}
		return nil, wrong("call", nil, to, dialFailure(err))
	}
}

// link returns a link that no call uses, and whether it existed before.
func (s *Stack) link(ctx context.Context, to Addr) (_ *callLink, old bool, err error) {
	for idle := s.idle[to]; len(idle) > 0; {
		l := idle[len(idle)-1]
		idle = idle[:len(idle)-1]
		if s.idle[to] = idle; len(idle) == 0 {
			delete(s.idle, to)
		}
		if l.x.Err() == nil {
			return l, true, nil
		}
		l.x.Close() // its service has gone
		delete(s.calls, l)
	}
	over := func() error { return timeoutOf(ctx) }
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		l := &callLink{waiter: s.newWaiter()}
		words, err := s.inquire(to.Node, &l.waiter, ctx.Done(), over, uint32(to.Port)<<16, 0)
		if err == nil {
			l.seed, err = seedOf(words)
		}
		if err == nil {
			l.x, err = s.newCallEnd()
		}
		if err == nil {
			l.x.Context = l
			s.calls[l] = struct{}{}
			return l, false, nil
		}
		if !full(err) && !errors.Is(err, errBusy) {
			return nil, false, err
		}
		if s.doze(&l.waiter, ctx.Done(), pause); over() != nil {
			return nil, false, over()
		}
	}
}

// keep keeps a link for the next call.
func (s *Stack) keep(to Addr, l *callLink) {
	if len(s.idle[to]) < mostIdle {
		s.idle[to] = append(s.idle[to], l)
		return
	}
	l.x.Close()
	delete(s.calls, l)
}

// callOver makes a call over a link.
func (s *Stack) callOver(ctx context.Context, l *callLink, to Addr, request []byte) ([]byte, error) {
	for sent := false; !sent; {
		var err error
		if sent, err = l.x.Send(l.seed, outOf(l.x, request), l.x.MetadataForSelf(0)); err != nil {
			return nil, err
		}
		if !sent {
			s.doze(&l.waiter, ctx.Done(), firstPause)
		}
		if s.err != nil || ctx.Err() != nil {
			return nil, errors.Join(s.err, timeoutOf(ctx))
		}
	}
	s.carrier.Look() // it leaves now
	for {
		var g rats.Message
		ok, err := l.x.Recv(&g)
		switch {
		case err != nil:
			return nil, err
		case ok && (!g.HasReply || g.Words != 1 || g.Length > MaxCall || g.From != to.Node):
			return nil, fmt.Errorf("an answer of %d bytes and %d words: %w", g.Length, g.Words, rats.ErrProtocol)
		case ok:
			l.seed = g.Reply
			answer := slices.Clone(l.x.Memory()[:g.Length])
			if g.Own[0] != 0 {
				return nil, &CallError{to, string(answer)}
			}
			return answer, nil
		case s.err != nil:
			return nil, s.err
		case ctx.Err() != nil:
			return nil, timeoutOf(ctx)
		}
		s.await(&l.waiter, ctx.Done())
	}
}

// probeCalls makes the links find out whether their other ends are there.
func (s *Stack) probeCalls() {
	for l := range s.calls {
		l.x.Probe()
	}
	for _, v := range s.services {
		for _, l := range v.links {
			if !l.busy {
				l.x.Probe()
			}
		}
	}
}
