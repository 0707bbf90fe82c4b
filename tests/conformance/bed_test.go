package conformance

// This file is the test bed: the stacks of two nodes on the hosts of a lab.

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	hostdaemons "github.com/funet/funet/tests/daemons"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/socket"
	"github.com/funet/funet/xdp"
)

const (
	gid = 9
	// patience bounds every wait: far more than anything takes.
	patience = time.Minute
)

// Kinds of network.
const (
	loopback = "loopback"
	veth     = "veth"
	daemons  = "daemons"
)

var kinds = []string{loopback, veth, daemons}

// bed is two nodes. Both are the same with loopback.
type bed struct {
	t      testing.TB
	kind   string
	lab    *lab.Lab
	nodes  [2]place
	stacks [2]*socket.Stack
}

// place is where a node attaches, for another process, too.
type place struct {
	Node   int
	Token  string // of the job
	Socket string // of the daemon; "": the process has a card of its own
	Peers  string // and this is the file of its peers
}

// options are for the stack of the node that is there.
func (p place) options() (o socket.Options, err error) {
	token, err := attach.ParseToken(p.Token)
	if err != nil {
		return o, err
	}
	if p.Socket != "" {
		o.Attach = &attach.Config{Socket: p.Socket, GID: gid, Node: uint16(p.Node), Token: token}
		return o, nil
	}
	file, err := cluster.Parse("peers", []byte(p.Peers))
	if err != nil {
		return o, err
	}
	c, err := funet.Members(file, p.Node, []string{"fu0"}, "")
	c.GID, c.Token, c.Attach = gid, token, xdp.AttachGeneric
	o.Card = &c
	return o, err
}

// newBed makes both nodes in this process.
func newBed(t testing.TB, kind string) *bed {
	t.Helper()
	b := emptyBed(t, kind)
	for node := range b.stacks {
		if kind == loopback && node == 1 {
			b.stacks[1] = b.stacks[0]
			break
		}
		b.open(node)
	}
	return b
}

// emptyBed makes the hosts, and the daemons if there are any, for nodes that are opened later or
// are other processes.
func emptyBed(t testing.TB, kind string) *bed {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bed{t: t, kind: kind, lab: l}
	if kind == daemons {
		for node, c := range hostdaemons.Start(t, l, hostdaemons.Build(t, "../.."), gid) {
			b.nodes[node] = place{Node: node, Token: c.Token.Text(), Socket: c.Socket}
		}
		return b
	}
	token := attach.NewToken()
	for node := range b.nodes {
		peers, err := l.Peers(node).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		b.nodes[node] = place{Node: node, Token: token.Text(), Peers: string(peers)}
	}
	return b
}

// open opens a node's stack in this process.
func (b *bed) open(node int) {
	b.t.Helper()
	o, err := b.nodes[node].options()
	if err == nil {
		err = b.lab.Do(node, func() (err error) {
			b.stacks[node], err = socket.Open(context.Background(), o)
			return err
		})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := b.stacks[node].Close(time.Second); err != nil {
			b.t.Logf("closing node %d: %v", node, err)
		}
	})
}

// await waits for a value, or the end of a channel.
func await[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("waited %v: %s", patience, what)
	}
	return v
}

// way is a network between the two hosts, FUNet's or TCP's, as servers and clients are given it.
type way struct {
	name   string
	tcp    string // the address on host 1; "": it is not TCP
	listen func() (net.Listener, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// funet is FUNet's way. Whatever network a client says, as those do that know of "tcp" only, it is
// FUNet's.
func (b *bed) funet() way {
	return way{"funet", "", func() (net.Listener, error) { return b.stacks[1].Listen(socket.Network, ":0") },
		func(ctx context.Context, _, address string) (net.Conn, error) {
			return b.stacks[0].DialContext(ctx, socket.Network, address)
		}}
}

// tcp is TCP's between the same hosts. Sockets belong to the namespace of the thread that makes
// them.
func (b *bed) tcp() way {
	address := net.JoinHostPort(b.lab.Hosts()[1].Interfaces[0].Addr.Addr().String(), "0")
	return way{"tcp", address, func() (l net.Listener, err error) {
		err = b.lab.Do(1, func() (err error) { l, err = net.Listen("tcp", address); return err })
		return l, err
	}, func(ctx context.Context, _, address string) (c net.Conn, err error) {
		err = b.lab.Do(0, func() (err error) { c, err = new(net.Dialer).DialContext(ctx, "tcp", address); return err })
		return c, err
	}}
}

// pair connects the two nodes.
func (w way) pair() (dialed, accepted net.Conn, err error) {
	l, err := w.listen()
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("dialing takes too long"))
	defer cancel()
	if dialed, err = w.dial(ctx, l.Addr().Network(), l.Addr().String()); err != nil {
		return nil, nil, err
	}
	if accepted, err = l.Accept(); err != nil {
		return nil, nil, errors.Join(err, dialed.Close())
	}
	return dialed, accepted, nil
}
