package program

// This file is a program that only measurements run. It uses connections between nodes 0 and 1, of
// package socket or of TCP, with the same code.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/pin"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/socket"
)

// SocketProgram is the program's name.
const SocketProgram = "bench-socket"

// Values of SocketOptions.Do. Node 0 dials in all of them.
const (
	SocketRoundTrips = "round-trips" // of one connection, one after the other
	SocketBeside     = "beside"      // the same while another connection is full
	SocketBulk       = "bulk"        // one connection, one way
	SocketStreams    = "streams"     // many connections, one way, all at once
	// SocketConnections opens connections, uses each for one round trip and closes it, one after
	// the other.
	SocketConnections = "connections"
	SocketDatagrams   = "datagrams" // one way, as fast as they go
	// SocketIdle opens many connections, uses each once and then leaves them idle, over FUNet
	// alone.
	SocketIdle = "idle"
)

// Values of SocketOptions.Over.
const (
	OverFunet = "funet"
	OverTCP   = "tcp"
)

const (
	socketPort = 7007
	// socketWrite is the number of bytes of one write in a long stream.
	socketWrite = 128 << 10
	// Streams run for socketWarm before they are counted, and for socketTime while they are.
	socketWarm = 300 * time.Millisecond
	socketTime = time.Second
)

// SocketResult is the JSON document of one node. Node 0 has times and rates; for streams and
// datagrams, the node where they end has the rates.
type SocketResult struct {
	trips
	Rate float64 `json:"per_s"` // connections, or datagrams that arrived
	Gbit float64 `json:"gbit_per_s"`
	Jain float64 `json:"jain"`
	// For idle connections: memory of the process for each, and each one's share of a processor.
	BytesEach float64 `json:"bytes_per_connection"`
	CPU       float64 `json:"cpu_percent"`
	Place
}

// SocketOptions are the program's flags.
type SocketOptions struct {
	Do, Over string
	Bytes    int // of a round trip's message; of SocketBulk in all
	Count    int // round trips, or connections
	WarmUp   int // before those, not measured
	Streams  int // of SocketStreams
}

// Arguments are the flags that say the same.
func (o SocketOptions) Arguments() []string {
	o.Bytes, o.Count, o.Streams = max(o.Bytes, 1), max(o.Count, 1), max(o.Streams, 1)
	return arguments(o)
}

// Socket is the hidden command that a benchmark starts on a lab.
func Socket() *cobra.Command { return hidden(SocketProgram, SocketOptions.run) }

// network connects the two nodes.
type network struct {
	node   int
	listen func() (net.Listener, error)
	dial   func(context.Context) (net.Conn, error)
	// packets opens a packet connection. The server's is at the address to.
	packets func(server bool) (net.PacketConn, error)
	to      net.Addr
	close   func() error
	wait    time.Duration // for the other node
	place   Place
}

// run runs the program on one node.
func (o SocketOptions) run(ctx context.Context, f *Flags) (_ *SocketResult, err error) {
	if o.Do == SocketIdle {
		if o.Over != OverFunet {
			return nil, errors.New("what idle connections of TCP need is the kernel's, and not seen here")
		}
		return o.idle(ctx, f)
	}
	do, err := measurement(map[string]func(context.Context, *network, *SocketResult) error{
		SocketRoundTrips: o.roundTrips, SocketBeside: o.beside, SocketBulk: o.bulk,
		SocketStreams: o.streams, SocketConnections: o.connections, SocketDatagrams: o.datagrams}, o.Do)
	if err != nil {
		return nil, err
	}
	// As bench calls has gRPC: what the runtime spreads over the processors of both ends is in the
	// way of the other end.
	if f.CPU >= 0 {
		runtime.GOMAXPROCS(1)
		if err := pin.Process(f.CPU); err != nil {
			return nil, err
		}
	}
	var n *network
	switch o.Over {
	case OverFunet:
		n, err = overFunet(ctx, f)
	case OverTCP:
		n, err = overTCP(f)
	default:
		err = fmt.Errorf("--over %s: use %s or %s", o.Over, OverFunet, OverTCP)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	r := &SocketResult{Place: n.place}
	switch n.node {
	case 0:
		return r, o.client(ctx, n, r, do)
	case 1:
		return r, o.server(ctx, n, r)
	}
	return r, nil
}

// openSocket opens the place that the flags describe.
func openSocket(ctx context.Context, f *Flags, so socket.Options) (*socket.Stack, Place, error) {
	n := &Node{ctx: ctx}
	var err error
	if f.attached() {
		err = n.describeAttached(f, &so.Options)
	} else if err = n.describeOwn(f, &so.Options); err == nil {
		so.Card.AnyThread, so.Card.CPU = true, -1
	}
	if err != nil {
		return nil, Place{}, err
	}
	s, err := socket.Open(ctx, so)
	if err != nil {
		return nil, Place{}, err
	}
	return s, n.placeOf(nil, s.Node(), f), nil
}

// overFunet opens the process's place in the job.
func overFunet(ctx context.Context, f *Flags) (*network, error) {
	s, place, err := openSocket(ctx, f, socket.Options{})
	if err != nil {
		return nil, err
	}
	return &network{
		node:   s.Node(),
		listen: func() (net.Listener, error) { return s.Listen(socket.Network, fmt.Sprintf(":%d", socketPort)) },
		dial: func(ctx context.Context) (net.Conn, error) {
			return s.DialContext(ctx, socket.Network, fmt.Sprintf("1:%d", socketPort))
		},
		packets: func(server bool) (net.PacketConn, error) {
			if server {
				return s.ListenPacket(socket.Network, fmt.Sprintf(":%d", socketPort))
			}
			return s.ListenPacket(socket.Network, ":0")
		},
		to:    socket.Addr{Node: 1, Port: socketPort},
		close: func() error { return s.Close(linger) }, wait: f.Wait, place: place,
	}, nil
}

// overTCP uses TCP and UDP with the addresses of the peers file.
func overTCP(f *Flags) (*network, error) {
	file, err := cluster.Load(f.peers)
	if err != nil {
		return nil, err
	}
	if len(file.Peers) < 2 || !file.Peers[1].Address.IsValid() {
		return nil, fmt.Errorf("--over %s: the peers file says no address of node 1", OverTCP)
	}
	address := net.JoinHostPort(file.Peers[1].Address.String(), fmt.Sprint(socketPort))
	var d net.Dialer
	return &network{
		node:   f.Node,
		listen: func() (net.Listener, error) { return net.Listen("tcp", address) },
		dial:   func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) },
		packets: func(server bool) (net.PacketConn, error) {
			if server {
				return net.ListenPacket("udp", address)
			}
			return net.ListenPacket("udp", net.JoinHostPort(file.Peers[0].Address.String(), "0"))
		},
		to:    net.UDPAddrFromAddrPort(netip.AddrPortFrom(file.Peers[1].Address, socketPort)),
		close: func() error { return nil }, wait: f.Wait,
		place: Place{Node: f.Node, Carrier: OverTCP, Profile: NativeProfile},
	}, nil
}

// client runs node 0. It closes the first connection when it has finished.
func (o SocketOptions) client(ctx context.Context, n *network, r *SocketResult,
	do func(context.Context, *network, *SocketResult) error) error {
	var first net.Conn
	for until := time.Now().Add(n.wait); ; {
		var err error
		if first, err = n.dial(ctx); err == nil {
			break
		}
		early := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
			errors.Is(err, syscall.ETIMEDOUT)
		if !early || time.Now().After(until) || ctx.Err() != nil {
			return err
		}
		pause(ctx, 10*time.Millisecond)
	}
	defer first.Close()
	if err := do(ctx, n, r); err != nil {
		return err
	}
	if err := first.(closeWriter).CloseWrite(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, first) // until the server has closed everything
	return err
}

// closeWriter is a connection that can be closed one way.
type closeWriter interface{ CloseWrite() error }

// pause waits for a time, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// The first byte of a connection tells the server its task.
const (
	doEcho  = 'e' // messages of the length that the next four bytes say
	doCount = 'c' // reads everything, and then says how much it was
	doShare = 's' // the same, beside other streams
)

// server runs node 1, until the first connection ends.
func (o SocketOptions) server(ctx context.Context, n *network, r *SocketResult) error {
	l, err := n.listen()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var arrived atomic.Int64 // datagrams
	if o.Do == SocketDatagrams {
		p, err := n.packets(true) // it is there before the client is
		if err != nil {
			return err
		}
		counted := make(chan struct{})
		go func() {
			defer close(counted)
			for b := make([]byte, o.Bytes); ; arrived.Add(1) {
				if _, _, err := p.ReadFrom(b); err != nil {
					return
				}
			}
		}()
		defer func() { p.Close(); <-counted }()
	}
	first, err := accept(ctx, l, warn)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var shares shares
	all.Go(func() {
		for {
			c, err := accept(ctx, l, warn)
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serveOne(c, &shares)
			})
		}
	})
	if o.Do == SocketStreams {
		shares.measure(ctx, o.Streams, r)
	}
	if o.Do == SocketDatagrams {
		for arrived.Load() == 0 && ctx.Err() == nil {
			pause(ctx, 10*time.Millisecond)
		}
		pause(ctx, socketWarm)
		before, begin := arrived.Load(), time.Now()
		pause(ctx, socketTime)
		r.Rate = float64(arrived.Load()-before) / time.Since(begin).Seconds()
	}
	end := context.AfterFunc(ctx, func() { first.Close() })
	defer end()
	_, err = io.Copy(io.Discard, first)
	err = errors.Join(err, l.Close())
	all.Wait()
	return errors.Join(err, first.Close())
}

// serveOne serves a connection. A failure here also fails at the client, which reports it.
func serveOne(c net.Conn, s *shares) {
	var head [5]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return
	}
	switch n := binary.LittleEndian.Uint32(head[1:]); head[0] {
	case doEcho:
		for b := make([]byte, n); answer(c, b) == nil; {
		}
	case doCount, doShare:
		var count *atomic.Int64
		if head[0] == doShare {
			count = s.add()
		}
		all := uint64(0)
		for b := make([]byte, socketWrite); ; {
			k, err := c.Read(b)
			if all += uint64(k); count != nil {
				count.Add(int64(k))
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return
			}
		}
		_, _ = c.Write(binary.LittleEndian.AppendUint64(nil, all))
	}
}

// head returns the first bytes of a connection: the task, and a number.
func head(what byte, n int) []byte { return binary.LittleEndian.AppendUint32([]byte{what}, uint32(n)) }

// shares counts the bytes that streams bring.
type shares struct {
	mu  sync.Mutex
	all []*atomic.Int64
}

func (s *shares) add() *atomic.Int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := new(atomic.Int64)
	s.all = append(s.all, c)
	return c
}

// counts returns the counts of n streams or more; nil: fewer have begun.
func (s *shares) counts(n int) (all []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) < n {
		return nil
	}
	for _, c := range s.all {
		all = append(all, c.Load())
	}
	return all
}

// measure records the rate and how evenly the streams share it: Jain's index (RFC 5166, section
// 2.3.2). That is the square of the sum, divided by the sum of the squares and by their number.
func (s *shares) measure(ctx context.Context, n int, r *SocketResult) {
	for s.counts(n) == nil && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
	}
	pause(ctx, socketWarm)
	before, begin := s.counts(n), time.Now()
	pause(ctx, socketTime)
	after, took := s.counts(n), time.Since(begin)
	if ctx.Err() != nil {
		return
	}
	sum, squares := 0.0, 0.0
	for i := range after {
		x := float64(after[i] - before[i])
		sum, squares = sum+x, squares+x*x
	}
	r.Gbit = sum * 8 / float64(took.Nanoseconds())
	// else nothing has come, as on a machine that runs others, and nobody has a share
	if squares > 0 {
		r.Jain = sum * sum / squares / float64(n)
	}
}

// roundTrips sends messages and waits until each is sent back.
func (o SocketOptions) roundTrips(ctx context.Context, n *network, r *SocketResult) error {
	c, err := n.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(head(doEcho, o.Bytes)); err != nil {
		return err
	}
	message, answer := make([]byte, o.Bytes), make([]byte, o.Bytes)
	r.trips, err = times(o.WarmUp, o.Count, func(i int) error {
		message[0] = byte(i)
		if _, err := c.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			return err
		}
		if !bytes.Equal(message, answer) {
			return fmt.Errorf("%w: message %d came back as another", apps.ErrVerify, i)
		}
		return nil
	})
	return err
}

// beside makes round trips beside a connection that is written to as fast as possible.
func (o SocketOptions) beside(ctx context.Context, n *network, r *SocketResult) error {
	c, err := n.dial(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	var over atomic.Bool
	go func() { ended <- pour(c, doCount, &over) }()
	err = o.roundTrips(ctx, n, r)
	over.Store(true)
	if e := <-ended; err == nil {
		err = e
	}
	return errors.Join(err, c.Close())
}

// pour writes until over is set.
func pour(c net.Conn, what byte, over *atomic.Bool) error {
	_, err := c.Write(head(what, 0))
	b := make([]byte, socketWrite)
	for !over.Load() && err == nil {
		_, err = c.Write(b)
	}
	return err
}

// bulk writes o.Bytes bytes, and ends when the server says that it has them.
func (o SocketOptions) bulk(ctx context.Context, n *network, r *SocketResult) error {
	c, err := n.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(head(doCount, 0)); err != nil {
		return err
	}
	b := make([]byte, socketWrite)
	begin := time.Now()
	for left := o.Bytes; left > 0; {
		k, err := c.Write(b[:min(left, len(b))])
		if err != nil {
			return err
		}
		left -= k
	}
	if err := c.(closeWriter).CloseWrite(); err != nil {
		return err
	}
	var count [8]byte
	if _, err := io.ReadFull(c, count[:]); err != nil {
		return err
	}
	took := time.Since(begin)
	if got := binary.LittleEndian.Uint64(count[:]); got != uint64(o.Bytes) {
		return fmt.Errorf("%w: %d bytes of %d arrived", apps.ErrVerify, got, o.Bytes)
	}
	r.Gbit = float64(o.Bytes) * 8 / float64(took.Nanoseconds())
	return nil
}

// streams writes to many connections at once, until the server has counted for long enough.
func (o SocketOptions) streams(ctx context.Context, n *network, r *SocketResult) error {
	conns := make([]net.Conn, o.Streams)
	for i := range conns {
		c, err := n.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		conns[i] = c
	}
	var over atomic.Bool
	var all sync.WaitGroup
	errs := make([]error, len(conns))
	for i, c := range conns {
		all.Go(func() { errs[i] = pour(c, doShare, &over) })
	}
	pause(ctx, socketWarm+socketTime+socketTime/2) // the server's time lies within
	over.Store(true)
	all.Wait()
	return errors.Join(errs...)
}

// connections opens, uses and closes connections.
func (o SocketOptions) connections(ctx context.Context, n *network, r *SocketResult) error {
	var begin time.Time
	b := []byte{0}
	for i := range o.WarmUp + o.Count {
		if i == o.WarmUp {
			begin = time.Now()
		}
		c, err := n.dial(ctx)
		if err == nil {
			_, err = c.Write(append(head(doEcho, 1), byte(i)))
		}
		if err == nil {
			_, err = io.ReadFull(c, b)
		}
		if err == nil && b[0] != byte(i) {
			err = fmt.Errorf("%w: connection %d brought back another byte", apps.ErrVerify, i)
		}
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	r.Rate = float64(o.Count) / time.Since(begin).Seconds()
	return nil
}

// datagrams sends datagrams until the server has counted for long enough. Those of UDP may be lost;
// the server counts those that arrive.
func (o SocketOptions) datagrams(ctx context.Context, n *network, r *SocketResult) error {
	p, err := n.packets(false)
	if err != nil {
		return err
	}
	b := make([]byte, o.Bytes)
	until := time.Now().Add(socketWarm + socketTime + socketTime/2) // the server's time lies within
	for i := 0; err == nil && (i%64 != 0 || time.Now().Before(until)); i++ {
		_, err = p.WriteTo(b, n.to)
	}
	return errors.Join(err, p.Close())
}
