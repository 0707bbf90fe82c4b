package attach

// This file has direct ports. A process of a direct job (JobRequest.Direct) gets memory and the
// socket of a port of its own instead of a context, and has a card of its own on the port (package
// card). The connection holds its place in the job.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/funet/funet/uspace/port"
)

const (
	TicketSize = 16 // the size of a ticket in bytes
	// patience is how long a process waits for another daemon when the one of its port has ended.
	patience = 30 * time.Second
)

// Ticket is what a process shows to the next daemon to keep its port.
type Ticket [TicketSize]byte

// EncodePort composes the request for the port of a node. Slots and remote memory are zero: the
// daemon needs neither.
func (r AttachRequest) EncodePort() []byte { return r.encode(KindPort) }

// DecodePortRequest reads the request of EncodePort.
func DecodePortRequest(b []byte) (AttachRequest, error) {
	r, err := decodeAttach(b, KindPort)
	if err == nil && (r.Slots != 0 || r.Remote.KeySlots|r.Remote.Areas|r.Remote.Notifications != 0) {
		return AttachRequest{}, malformed("a request for a port", "slots", r.Slots)
	}
	return r, err
}

// PortAnswer describes a port that was made. With it come PortDescriptors descriptors: the memory,
// and the socket.
//
//	u16 gid@16, u16 node@18, u32 nodes@20, u32 mtu@24,
//	geometry@28: six times u32, in the order of its fields, ticket@52, u32 flags@68
//	(bit 0: there is a key; bit 1: what is authenticated need not be encrypted;
//	bit 2: Generic; bit 3: Sums), key@72,
//	u32 peer timeout@104, u32 connect timeout@108, in milliseconds
//
// The place is the process's while the connection lasts. A later message of this kind is a refusal,
// and says why the place is lost. If the connection ends without one, the daemon has ended: the
// process then has some time to show its ticket to the next daemon.
type PortAnswer struct {
	GID, Node uint16
	Nodes     uint32 // members of the group
	MTU       uint32 // of the port's link, in bytes
	Geometry  port.Geometry
	Ticket    Ticket
	// Key is the secret of the job's own key, where hosts have keys; nil: frames are not
	// authenticated. Readable says that frames need not be encrypted.
	Key      []byte
	Readable bool
	Generic  bool // says that the programs at the port's links run in generic mode
	Sums     bool // says that the guard needs the sum of each frame (afxdp.Direct)
	// PeerTimeout and ConnectTimeout are the daemon's timeouts for the card on the port
	// (engine.Config), in whole milliseconds.
	PeerTimeout, ConnectTimeout time.Duration
}

type portAnswer struct {
	GID, Node                   uint16
	Nodes, MTU                  uint32
	Geometry                    port.Geometry
	Ticket                      Ticket
	Flags                       uint32
	Key                         [32]byte
	PeerTimeout, ConnectTimeout milliseconds
}

// flags are what the bits of the flags say.
func (a *PortAnswer) flags(keyed *bool) [4]*bool {
	return [...]*bool{keyed, &a.Readable, &a.Generic, &a.Sums}
}

// The descriptors of an answer to a request for a port, in their order.
const (
	PortMemoryDescriptor = iota
	PortSocketDescriptor
	PortDescriptors
)

// Encode composes the message.
func (a PortAnswer) Encode() []byte {
	f := portAnswer{GID: a.GID, Node: a.Node, Nodes: a.Nodes, MTU: a.MTU, Geometry: a.Geometry, Ticket: a.Ticket,
		PeerTimeout: inMilliseconds(a.PeerTimeout), ConnectTimeout: inMilliseconds(a.ConnectTimeout)}
	keyed := a.Key != nil
	for i, is := range a.flags(&keyed) {
		if *is {
			f.Flags |= 1 << i
		}
	}
	copy(f.Key[:], a.Key)
	return compose(KindPort|AnswerBit, f)
}

// DecodePortAnswer reads the message. Its caller checks the sizes. The error of a refused request
// is a *Refusal.
func DecodePortAnswer(b []byte) (a PortAnswer, err error) {
	f, err := read[portAnswer](b, KindPort|AnswerBit)
	if err != nil {
		return a, err
	}
	a = PortAnswer{GID: f.GID, Node: f.Node, Nodes: f.Nodes, MTU: f.MTU, Geometry: f.Geometry, Ticket: f.Ticket,
		PeerTimeout: f.PeerTimeout.duration(), ConnectTimeout: f.ConnectTimeout.duration()}
	keyed := false
	flags := a.flags(&keyed)
	for i, is := range flags {
		*is = f.Flags>>i&1 != 0
	}
	if keyed {
		a.Key = f.Key[:]
	}
	const what = "an answer to a request for a port"
	switch {
	case f.Flags>>len(flags) != 0:
		return PortAnswer{}, malformed(what, "flags", f.Flags)
	case !keyed && f.Key != [len(f.Key)]byte{}:
		return PortAnswer{}, malformed(what, "a key", 0)
	case uint32(a.Node) >= a.Nodes || a.Nodes > 1<<16:
		return PortAnswer{}, malformed(what, "nodes", a.Nodes)
	}
	return a, nil
}

// ResumeRequest asks for a process's place by its port. The answer has no body (EncodeBody).
//
//	u16 gid@16, u16 node@18, u32 0@20, ticket@24, token@40
type ResumeRequest struct {
	GID, Node uint16
	_         uint32
	Ticket    Ticket
	Token     Token
}

// Encode composes the message.
func (r ResumeRequest) Encode() []byte { return compose(KindResume, r) }

// DecodeResumeRequest reads the message.
func DecodeResumeRequest(b []byte) (ResumeRequest, error) { return read[ResumeRequest](b, KindResume) }

// Port is a direct port that a daemon gave to the process.
type Port struct {
	Answer PortAnswer
	Memory *os.File // the caller's to close
	Socket int      // the caller's to close, unless another owner takes it
	cfg    Config
	done   context.Context // ends with Close
	end    context.CancelFunc

	mu   sync.Mutex
	conn *net.UnixConn
	// asked gets the answer to a request that the daemon at conn still has to answer (share.go);
	// nil: there is none
	asked chan<- reply
}

// OpenPort connects to the daemon and asks for the port of a node. Slots, Remote and Spin of the
// configuration are not used. Errors are those of Open, ErrCarriage if the job has no direct ports,
// and ErrNoPort.
func OpenPort(cfg Config) (_ *Port, err error) {
	c := newClient(cfg.Context, cfg.Socket, cfg.Timeout)
	defer func() {
		if err != nil {
			c.release()
			err = fmt.Errorf("asking for the port of node %d of group %d at %s: %w", cfg.Node, cfg.GID, c.socket, err)
		}
	}()
	if err := c.connect(); err != nil {
		return nil, err
	}
	p := &Port{conn: c.conn, cfg: cfg}
	got, err := c.persist(&cfg, AttachRequest{GID: cfg.GID, Node: cfg.Node, Token: cfg.Token}.EncodePort(),
		PortDescriptors, func(message []byte) (err error) {
			p.Answer, err = DecodePortAnswer(message)
			return err
		})
	if err != nil {
		return nil, err
	}
	nodes := int(p.Answer.Nodes)
	switch {
	case len(got) != PortDescriptors:
		err = fmt.Errorf("%d descriptors came, not %d: %w", len(got), PortDescriptors, ErrMemory)
	case cfg.Nodes != 0 && cfg.Nodes != nodes:
		err = fmt.Errorf("the group has %d nodes, and %d processes were started for it: %w", nodes, cfg.Nodes, ErrNode)
	default:
		err = c.conn.SetDeadline(time.Time{})
	}
	if err != nil {
		CloseDescriptors(got)
		return nil, err
	}
	p.done, p.end = context.WithCancel(context.Background())
	p.Memory, p.Socket = os.NewFile(uintptr(got[PortMemoryDescriptor]), "the memory of a port"),
		got[PortSocketDescriptor]
	return p, nil
}

// Watch waits until the process has lost its place, and reports the reason to lose, unless Close
// was called before. Meanwhile it tells what becomes of the other processes of the job. When the
// daemon has ended it shows the ticket to the next one. A goroutine of its own calls it.
func (p *Port) Watch(lose func(why error), tell func(Fate)) {
	buffer := make([]byte, MaxMessage)
	news := &fates{tell, map[uint16]uint64{}, p.Answer.Nodes}
	for {
		err := p.listen(buffer, news)
		var refused *Refusal
		if !errors.As(err, &refused) && p.done.Err() == nil {
			err = p.resume(buffer)
		}
		if p.done.Err() != nil {
			return
		}
		if err != nil {
			lose(err)
			return
		}
	}
}

// listen waits for the end of the connection, or for the daemon to say that the place is gone.
func (p *Port) listen(buffer []byte, news *fates) error {
	for {
		message, got, err := Receive(p.conn, buffer, 1)
		var h Header
		if err == nil {
			if p.answered(message, got) {
				continue
			}
			CloseDescriptors(got)
			h, err = DecodeHeader(message)
		}
		switch {
		case err != nil:
		case h.Kind == KindFate|AnswerBit && h.Status == Done:
			err = news.take(message)
		case h.Kind == KindPort|AnswerBit:
			_, err = DecodeBody(message, h.Kind)
			// another kind is unknown to this version, or refuses what another daemon would do
		}
		if err != nil {
			return err
		}
	}
}

// resume shows the ticket to the daemon at the socket. It tries again while there is no daemon, or
// the daemon has yet to hear of the job.
func (p *Port) resume(buffer []byte) error {
	until := time.Now().Add(patience)
	request := ResumeRequest{GID: p.cfg.GID, Node: p.cfg.Node, Ticket: p.Answer.Ticket, Token: p.cfg.Token}.Encode()
	var err error
	closed := again(p.done, func() bool {
		err = p.show(request, buffer, until)
		var refused *Refusal
		if err == nil || errors.As(err, &refused) && !errors.Is(err, ErrGroup) && !errors.Is(err, ErrStopping) {
			return true
		}
		if time.Now().After(until) {
			err = fmt.Errorf("%w, and no other has taken its place for %v (%w)", ErrLost, patience, err)
			return true
		}
		return false
	})
	return cmp.Or(closed, err)
}

// again calls try until it is done, with pauses that grow to a tenth of a second. It returns the
// cause of the context's end if that comes first.
func again(ctx context.Context, try func() (done bool)) error {
	for pause := time.Millisecond; !try(); pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// show shows the ticket once, and waits for the answer until the given time. A slow daemon carries
// out the request late, and closing the connection before that would end the place.
func (p *Port) show(request, buffer []byte, until time.Time) error {
	conn, err := Dial(p.done, cmp.Or(p.cfg.Socket, DefaultSocket), DefaultTimeout)
	if err != nil {
		return err
	}
	// the past: whatever waits ends
	defer context.AfterFunc(p.done, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if err = conn.SetDeadline(until); err == nil {
		err = Send(conn, request)
	}
	var message []byte
	if err == nil {
		message, _, err = Receive(conn, buffer, 0)
	}
	if err == nil {
		_, err = DecodeBody(message, KindResume|AnswerBit)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.Close()
	p.conn = conn
	p.deliver(reply{err: errUnanswered})
	if p.done.Err() != nil { // Close did not see it
		conn.Close()
	}
	return nil
}

// Close gives the place back.
func (p *Port) Close() error {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn.Close()
}

// persist sends a request, and sends it again while this node's earlier process still has its
// place. decode reads the answer. persist returns the descriptors that came with it.
func (c *Client) persist(cfg *Config, request []byte, descriptors int,
	decode func(message []byte) error) (got []int, err error) {
	begun := time.Now()
	ended := again(c.ctx, func() bool {
		var message []byte
		if message, got, err = c.ask(request, descriptors); err != nil {
			return true
		}
		if err = decode(message); err == nil {
			return true
		}
		CloseDescriptors(got)
		got = nil
		return cfg.Life == 0 || !errors.Is(err, ErrTaken) || time.Since(begun) > succession
	})
	return got, cmp.Or(ended, err)
}
