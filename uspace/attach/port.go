package attach

// This file is direct ports: a process of a job that is direct (JobRequest.Direct) gets memory and the socket of a port of
// its own instead of a context, and has a card of its own on it (package card). The connection is its place in the job.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/funet/funet/uspace/port"
)

const portAnswerSize = 52

// EncodePort composes the request for the port of a node: slots and remote memory are the process's own business, and zero.
func (r AttachRequest) EncodePort() []byte { return r.encode(KindPort) }

// DecodePortRequest reads it.
func DecodePortRequest(b []byte) (AttachRequest, error) {
	r, err := decodeAttach(b, KindPort)
	if err == nil && (r.Slots != 0 || r.Remote.KeySlots|r.Remote.Areas|r.Remote.Notifications != 0) {
		return AttachRequest{}, malformed("a request for a port", "slots", uint64(r.Slots))
	}
	return r, err
}

// PortAnswer says what was made. With it come PortDescriptors descriptors: the memory, and the socket.
//
//	u16 gid@16, u16 node@18, u32 nodes@20, u32 mtu@24, geometry@28: six times u32, in the order of its fields
//
// While the connection lasts the place is the process's. What comes on it later is a refusal of this kind, which says why that has ended.
type PortAnswer struct {
	GID, Node uint16
	Nodes     uint32 // members of the group
	MTU       uint32 // of the port's link, in bytes
	Geometry  port.Geometry
}

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
	return b
}

func (a *PortAnswer) fields() [6]*uint32 {
	g := &a.Geometry
	return [...]*uint32{&g.FrameSize, &g.Frames, &g.RxSize, &g.TxSize, &g.FillSize, &g.CompletionSize}
}

// DecodePortAnswer reads the message. Whoever opens a port judges its sizes. The error of a refused request is a *Refusal.
func DecodePortAnswer(b []byte) (a PortAnswer, err error) {
	if err := fixed(b, KindPort|AnswerBit, portAnswerSize); err != nil {
		return a, err
	}
	a.GID, a.Node = binary.LittleEndian.Uint16(b[16:]), binary.LittleEndian.Uint16(b[18:])
	a.Nodes, a.MTU = binary.LittleEndian.Uint32(b[20:]), binary.LittleEndian.Uint32(b[24:])
	for i, v := range a.fields() {
		*v = binary.LittleEndian.Uint32(b[28+4*i:])
	}
	if uint32(a.Node) >= a.Nodes || a.Nodes > 1<<16 {
		return PortAnswer{}, malformed("an answer to a request for a port", "nodes", uint64(a.Nodes))
	}
	return a, nil
}

// Port is what a process has of a daemon for a direct port.
type Port struct {
	Answer PortAnswer
	Memory *os.File // the caller's to close
	Socket int      // the same, unless somebody takes it
	conn   *net.UnixConn
	buffer []byte
}

// OpenPort connects to the daemon and asks for the port of a node. Slots, Remote and Spin of the configuration are not used. Errors are
// those of Open, ErrCarriage where the job is none of direct ports, and ErrNoPort.
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
	p := &Port{conn: c.conn, buffer: c.buffer}
	got, err := c.persist(&cfg, AttachRequest{GID: cfg.GID, Node: cfg.Node, Token: cfg.Token}.EncodePort(), PortDescriptors, func(message []byte) (err error) {
		p.Answer, err = DecodePortAnswer(message)
		return err
	})
	if err != nil {
		return nil, err
	}
	nodes := int(p.Answer.Nodes)
	switch {
	case len(got) != PortDescriptors:
		CloseDescriptors(got)
		return nil, fmt.Errorf("%d descriptors came, not %d: %w", len(got), PortDescriptors, ErrMemory)
	case cfg.Nodes != 0 && cfg.Nodes != nodes:
		CloseDescriptors(got)
		return nil, fmt.Errorf("the group has %d nodes, and %d processes were started for it: %w", nodes, cfg.Nodes, ErrNode)
	}
	if err := c.conn.SetDeadline(time.Time{}); err != nil {
		CloseDescriptors(got)
		return nil, err
	}
	p.Memory, p.Socket = os.NewFile(uintptr(got[PortMemoryDescriptor]), "the memory of a port"), got[PortSocketDescriptor]
	return p, nil
}

// Watch waits until the place is the process's no more, says why, unless Close was called before, and ends. A goroutine of its own calls it.
func (p *Port) Watch(lose func(why error)) {
	for {
		message, _, err := Receive(p.conn, p.buffer, 0)
		if err == nil {
			_, err = DecodeBody(message, KindPort|AnswerBit)
		}
		switch {
		case err == nil: // nothing that this version knows
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		var refused *Refusal
		if !errors.As(err, &refused) {
			err = fmt.Errorf("%w (%w)", ErrLost, err)
		}
		lose(err)
		return
	}
}

// Close gives the place back.
func (p *Port) Close() error { return p.conn.Close() }

// persist sends a request, and sends it again while this node's process before this one still has its place. It
// returns the descriptors that came with the answer that decode has read.
func (c *Client) persist(cfg *Config, request []byte, descriptors int, decode func(message []byte) error) ([]int, error) {
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
