package socket

// This file opens and closes a process's place: its card, and everything that is open on it.

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"time"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/lead"
	"github.com/funet/funet/uspace/rats"
)

// Options give the job and the process's place in it, and how much the process may open.
type Options struct {
	// Options are those of funet.Open. Memory is here the number of bytes for data to send and
	// received data. 0: 64 MiB with a card in this process, 16 MiB with a daemon's, or less if the
	// administrator allows less. Rejoin and Remote are not used, and OnError only with Calls.
	funet.Options
	// Calls makes an endpoint of package funet beside the connections (Stack.Endpoint). All
	// processes of the job set it, or none.
	Calls bool
	// Connections is the largest number of connections, 1 to 10000; 0: 256. The process's tables
	// for remote memory are made for that many.
	Connections int
}

const (
	base            = 0x1000_0000 // address of the memory
	embeddedMemory  = 64 << 20
	attachedMemory  = 16 << 20
	leastMemory     = 256 << 10
	mostConnections = 10_000

	// A connection has these at each end; one area and one key slot of them are for its dialing.
	// They suffice for 10,000 connections, because not all are dialed at once.
	connKeySlots = 3
	connAreas    = 7
	connCredit   = 33
)

// ErrConnections reports Options.Connections out of range.
var ErrConnections = errors.New("a process has 1 to 10000 connections")

// ErrNoToken reports a job whose token is all zeros. That value is public, and the key that allows
// dialing is made of the token.
var ErrNoToken = errors.New("sockets need a job with a token, since who knows it can dial; give the peers files of all nodes the same line token: with 64 digits that `openssl rand -hex 32` prints")

// Stack is a process's end of the network. Any goroutine may call it.
type Stack struct {
	group   *lead.Group // its lock guards everything below
	carrier funet.Carrier
	m       *rats.Manager
	server  *rats.Server
	place   funet.Place
	node    uint16
	nodes   int
	stop    context.CancelCauseFunc
	err     error // why the stack is unusable; nil: it is usable

	ports    map[uint16]*Listener
	packets  map[uint16]*PacketConn
	late     *late // nil: all requests were answered
	nextPort uint16
	conns    map[*Conn]struct{}
	// the closed ones of conns whose written data is not delivered yet
	ending map[*Conn]struct{}
	peers  map[uint16]*peer
	beside funet.Beside // the endpoint; without Options.Calls none
	some   bool         // the current poll has found something
}

// Open takes the process's place in its job. Errors are those of funet.Open, ErrConnections,
// ErrNoToken, and attach.ErrQuota if the administrator allows too little memory. The context ends
// Open only.
func Open(ctx context.Context, o Options) (*Stack, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("opening a place for sockets: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, o Options) (_ *Stack, err error) {
	if o.Connections == 0 {
		o.Connections = 256
	}
	if o.Connections < 1 || o.Connections > mostConnections {
		return nil, fmt.Errorf("%d connections: %w", o.Connections, ErrConnections)
	}
	power := func(n, most int) int { return min(1<<bits.Len(uint(n-1)), most) }
	o.Remote = funi.RemoteSizes{KeySlots: power(connKeySlots*o.Connections+1, funi.MaxRemote),
		Areas:         power(connAreas*o.Connections+rats.Entries, funi.MaxRemote),
		Notifications: power(connCredit*o.Connections+rats.Entries*rats.EntryCredit, funi.MaxNotifications)}
	until, end := context.WithCancelCause(context.Background())
	undo := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	s := &Stack{stop: end, ports: map[uint16]*Listener{}, packets: map[uint16]*PacketConn{},
		nextPort: firstPort, conns: map[*Conn]struct{}{}, ending: map[*Conn]struct{}{}, peers: map[uint16]*peer{}}
	if s.carrier, s.place, err = o.Carrier(until); err != nil {
		end(err)
		return nil, err
	}
	if s.place.Token == [attach.TokenSize]byte{} {
		end(ErrNoToken)
		return nil, errors.Join(ErrNoToken, s.carrier.Close(0))
	}
	s.group, s.node, s.nodes = lead.New(s.carrier), uint16(s.place.Node), s.place.Nodes
	if o.Nodes > 0 {
		s.nodes = min(o.Nodes, s.nodes)
	}
	err = s.manage(o.Memory)
	if err == nil && !undo() {
		err = context.Cause(ctx)
	}
	if err == nil && o.Calls {
		err = s.openBeside(o.Options)
	}
	if err == nil {
		err = s.startDriving()
	}
	if err != nil {
		end(err)
		return nil, errors.Join(err, s.carrier.Close(0))
	}
	return s, nil
}

// manage takes memory from the card and opens the server.
func (s *Stack) manage(memory int) error {
	e, err := rats.New(s.carrier.Interface(), s.place.Node, rand.Reader)
	if err != nil {
		return err
	}
	bytes, said := memory, memory > 0
	if _, embedded := s.carrier.(*card.Card); !said && embedded {
		bytes = embeddedMemory
	} else if !said {
		bytes = attachedMemory
	}
	bytes &^= 4095
	var b []byte
	for {
		b, err = s.carrier.Segment(base, bytes, funi.Keyed|funi.Source)
		if said || !errors.Is(err, attach.ErrQuota) || bytes/2 < leastMemory {
			break
		}
		bytes /= 2
	}
	if err != nil {
		return fmt.Errorf("taking %d bytes of memory: %w; see Options.Memory", bytes, err)
	}
	if s.m, err = rats.Manage(e, funi.Segment{Base: base, Memory: b, Rights: funi.Keyed | funi.Source}); err != nil {
		return err
	}
	if s.server, err = s.m.Serve(s.key(s.node)); err != nil {
		return err
	}
	s.server.Context = s
	return nil
}

// openBeside opens the endpoint.
func (s *Stack) openBeside(o funet.Options) (err error) {
	place := s.place
	place.Nodes = s.nodes
	s.m.Shared = true
	back := func(r funi.Returned) { s.m.Returned(r) }
	s.beside, err = funet.OpenBeside(funet.Library{Group: s.group, Sweep: s.sweep, Back: back}, s.carrier, place, o)
	return err
}

// Endpoint returns the endpoint for calls, messages, tags and operations of all nodes, which shares
// the process's place with the connections; nil without Options.Calls. Its messages are handled and
// its calls answered at all times, also while no goroutine waits. A handler must not call the stack
// or a connection, which would wait for the handler. The endpoint has no Windows, no Fd and no
// Rejoin (funet.ErrBeside). The stack's Close closes it; its own Close leaves the connections open.
// A panic of a handler ends the stack as well.
func (s *Stack) Endpoint() *funet.Endpoint { return s.beside.Endpoint }

// key returns the key of a node's server, which any holder of the job's token can compute.
func (s *Stack) key(node uint16) rats.Key {
	h := hmac.New(sha256.New, s.place.Token[:])
	h.Write(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16([]byte("funet sockets"),
		s.place.GID), node))
	return rats.KeyOf(h.Sum(nil))
}

// Node is the process's number in the job, and Nodes is the number of processes.
func (s *Stack) Node() int { return int(s.node) }

// Nodes is described with Node.
func (s *Stack) Nodes() int { return s.nodes }

// Err returns why the stack is unusable; nil: it is usable.
func (s *Stack) Err() error {
	s.group.Lock()
	defer s.group.Unlock()
	return s.err
}

// fail makes the stack unusable: everything that waits returns the error.
func (s *Stack) fail(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	for c := range s.conns {
		c.fail(err)
	}
	s.group.End()
}

// Close ends the process's place. Listeners end, and open connections are aborted. Data written to
// connections that were closed before is delivered, for at most linger. Close returns
// funi.ErrUndelivered if not all was.
func (s *Stack) Close(linger time.Duration) error {
	if s.beside.Endpoint != nil {
		ended, end := context.WithTimeout(context.Background(), 0)
		defer end()
		_ = s.beside.Close(ended) // it may have been closed
	}
	s.group.Lock()
	if s.err != nil && errors.Is(s.err, net.ErrClosed) {
		s.group.Unlock()
		return nil
	}
	for _, l := range s.ports {
		l.close()
	}
	for _, p := range s.packets {
		p.close()
	}
	for c := range s.conns {
		if !c.closed {
			c.abort()
		}
	}
	for until := s.carrier.Now() + int64(linger); len(s.conns) > 0 && s.err == nil && s.carrier.Now() < until; {
		s.hear()
		s.group.Breathe()
	}
	lost := 0 // connections whose end was not delivered
	for c := range s.conns {
		if c.w.Err() == nil && !c.w.Done() {
			lost++
		}
	}
	s.fail(net.ErrClosed)
	s.group.Dismiss()
	s.group.Lock()
	defer s.group.Unlock()
	defer s.stop(net.ErrClosed)
	err := s.carrier.Close(linger)
	switch {
	case err != nil && !errors.Is(err, funi.ErrUndelivered):
		return err
	case lost > 0:
		return fmt.Errorf("closing a place for sockets: what was written to %d connections: %w after %v", lost,
			funi.ErrUndelivered, linger)
	}
	return nil // what else is left tells peers that have gone of an end that they know of
}
