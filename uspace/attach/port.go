package attach

// This file has direct ports. A process of a direct job (JobRequest.Direct) gets memory and the
// socket of a port of its own instead of a context, and has a card of its own on the port (package
// card). The connection holds its place in the job.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/funet/funet/uspace/port"
)

const (
	portAnswerSize    = 112
	resumeRequestSize = 72

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
		return AttachRequest{}, malformed("a request for a port", "slots", uint64(r.Slots))
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

// Flags of a PortAnswer, and the size of a key.
const (
	portKeyed    = 1
	portReadable = 2
	portGeneric  = 4
	portSums     = 8
	portKeySize  = 32
)

// The descriptors of an answer to a request for a port, in their order.
const (
	PortMemoryDescriptor = iota
	PortSocketDescriptor
	PortDescriptors
)

// Encode composes the message.
func (a PortAnswer) Encode() []byte {
	b := encode(KindPort|AnswerBit, Done, portAnswerSize)
	binary.LittleEndian.PutUint16(b[16:], a.GID)
	binary.LittleEndian.PutUint16(b[18:], a.Node)
	binary.LittleEndian.PutUint32(b[20:], a.Nodes)
	binary.LittleEndian.PutUint32(b[24:], a.MTU)
	for i, v := range a.fields() {
		binary.LittleEndian.PutUint32(b[28+4*i:], *v)
	}
	copy(b[52:], a.Ticket[:])
	if a.Key != nil {
		b[68] |= portKeyed
		copy(b[72:], a.Key)
	}
	if a.Readable {
		b[68] |= portReadable
	}
	if a.Generic {
		b[68] |= portGeneric
	}
	if a.Sums {
		b[68] |= portSums
	}
	binary.LittleEndian.PutUint32(b[104:], uint32(a.PeerTimeout.Milliseconds()))
	binary.LittleEndian.PutUint32(b[108:], uint32(a.ConnectTimeout.Milliseconds()))
	return b
}

func (a *PortAnswer) fields() [6]*uint32 {
	g := &a.Geometry
	return [...]*uint32{&g.FrameSize, &g.Frames, &g.RxSize, &g.TxSize, &g.FillSize, &g.CompletionSize}
}

// DecodePortAnswer reads the message. Its caller checks the sizes. The error of a refused request
// is a *Refusal.
func DecodePortAnswer(b []byte) (a PortAnswer, err error) {
	if err := fixed(b, KindPort|AnswerBit, portAnswerSize); err != nil {
		return a, err
	}
	a.GID, a.Node = binary.LittleEndian.Uint16(b[16:]), binary.LittleEndian.Uint16(b[18:])
	a.Nodes, a.MTU = binary.LittleEndian.Uint32(b[20:]), binary.LittleEndian.Uint32(b[24:])
	for i, v := range a.fields() {
		*v = binary.LittleEndian.Uint32(b[28+4*i:])
	}
	a.Ticket = Ticket(b[52:])
	a.PeerTimeout = time.Duration(binary.LittleEndian.Uint32(b[104:])) * time.Millisecond
	a.ConnectTimeout = time.Duration(binary.LittleEndian.Uint32(b[108:])) * time.Millisecond
	const what = "an answer to a request for a port"
	flags := binary.LittleEndian.Uint32(b[68:])
	if flags&^(portKeyed|portReadable|portGeneric|portSums) != 0 {
		return PortAnswer{}, malformed(what, "flags", uint64(flags))
	}
	a.Generic, a.Sums = flags&portGeneric != 0, flags&portSums != 0
	if a.Readable = flags&portReadable != 0; flags&portKeyed != 0 {
		a.Key = bytes.Clone(b[72 : 72+portKeySize])
	} else if [portKeySize]byte(b[72:]) != [portKeySize]byte{} {
		return PortAnswer{}, malformed(what, "a key", 0)
	}
	if uint32(a.Node) >= a.Nodes || a.Nodes > 1<<16 {
		return PortAnswer{}, malformed(what, "nodes", uint64(a.Nodes))
	}
	return a, nil
}

// ResumeRequest asks for a process's place by its port. The answer has no body (EncodeBody).
//
//	u16 gid@16, u16 node@18, u32 0@20, ticket@24, token@40
type ResumeRequest struct {
	GID, Node uint16
	Ticket    Ticket
	Token     Token
}

// Encode composes the message.
func (r ResumeRequest) Encode() []byte {
	b := encode(KindResume, Done, resumeRequestSize)
	binary.LittleEndian.PutUint16(b[16:], r.GID)
	binary.LittleEndian.PutUint16(b[18:], r.Node)
	copy(b[24:], r.Ticket[:])
	copy(b[40:], r.Token[:])
	return b
}

// DecodeResumeRequest reads the message.
func DecodeResumeRequest(b []byte) (ResumeRequest, error) {
	if err := fixed(b, KindResume, resumeRequestSize, 20, 24); err != nil {
		return ResumeRequest{}, err
	}
	return ResumeRequest{GID: binary.LittleEndian.Uint16(b[16:]), Node: binary.LittleEndian.Uint16(b[18:]),
		Ticket: Ticket(b[24:]), Token: Token(b[40:])}, nil
}

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
			p.deliver(reply{err: errUnanswered})
			return err
		}
	}
}

// resume shows the ticket to the daemon at the socket. It tries again while there is no daemon, or
// the daemon has yet to hear of the job.
func (p *Port) resume(buffer []byte) error {
	until := time.Now().Add(patience)
	request := ResumeRequest{GID: p.cfg.GID, Node: p.cfg.Node, Ticket: p.Answer.Ticket, Token: p.cfg.Token}.Encode()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := p.show(request, buffer, until)
		var refused *Refusal
		if err == nil || errors.As(err, &refused) && !errors.Is(err, ErrGroup) && !errors.Is(err, ErrStopping) {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("%w, and no other has taken its place for %v (%w)", ErrLost, patience, err)
		}
		select {
		case <-time.After(pause):
		case <-p.done.Done():
			return p.done.Err()
		}
	}
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
	decode func(message []byte) error) ([]int, error) {
	for begun, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		message, got, err := c.ask(request, descriptors)
		if err != nil {
			return nil, err
		}
		if err = decode(message); err == nil {
			return got, nil
		}
		CloseDescriptors(got)
		if cfg.Life == 0 || !errors.Is(err, ErrTaken) || time.Since(begun) > succession {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		}
	}
}
