// Alltoall is a program in which each node of a job sends a block of bytes to each other node, in
// every round. A block's length and content depend on the round and on both nodes. The receiver
// checks every byte and answers with a checksum, which the sender checks. At the end node 0 prints
// how much every node received, and how fast.
//
//	funet run -n 4 --lab -- alltoall --bytes 65536 --rounds 100
//	alltoall --peers peers.yaml --iface eth1 --node 0     # without a daemon, on each host
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/funi"
)

// These are the addresses of the two segments. Each has a place for a block of every node.
const (
	sendBase    = 0x10000000
	receiveBase = 0x80000000
	mostBytes   = 1 << 30 // of a segment
)

// These are the handlers. A block is a transfer, whose argument is the block's length.
const (
	blockNotice  = 0
	checkHandler = 0 // reply: the checksum of a block
	totalHandler = 1 // to node 0: the total of a node
)

// network is a card: that of a daemon, or one in this process.
type network interface {
	Interface() *funi.Interface
	Drive()
	Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error)
	Close(linger time.Duration) error
}

// total is the sum of what a node has received.
type total struct {
	blocks, bytes, nanoseconds uint64
	there                      bool
}

// program is the state of one node.
type program struct {
	e             *am.Endpoint
	place         int // bytes of a block's place in a segment
	most          int // bytes of a block
	rounds        int
	seed          uint64
	send, receive []byte

	want    []byte   // the block that is expected
	arrived []int    // rounds whose block has arrived, by node
	checks  []uint32 // of the block sent in this round, by node
	checked []bool   // whether the node has answered, by node
	own     total
	totals  []total // at node 0
	failed  error   // the first error of a handler
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx); {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "alltoall: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "alltoall:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	peers := flag.String("peers", "", "peers `FILE`, where there is no daemon")
	iface := flag.String("iface", "", "interface, where there is no daemon")
	number := flag.Int("node", 0, "own number, where there is no daemon")
	most := flag.Int("bytes", 65536, "of the longest block")
	rounds := flag.Int("rounds", 100, "how often")
	seed := flag.Uint64("seed", 1, "of lengths and contents")
	flag.Parse()
	if *most < 1 || *rounds < 1 || *rounds > 1<<31-1 {
		return fmt.Errorf("%d rounds of %d bytes: use at least one of each", *rounds, *most)
	}
	net, node, nodes, err := open(ctx, *peers, *iface, *number)
	if err != nil {
		return err
	}
	p := &program{most: *most, rounds: *rounds, seed: *seed}
	if err := p.work(ctx, net, node, nodes); err != nil {
		return errors.Join(err, net.Close(0))
	}
	return net.Close(2 * time.Second)
}

// open attaches to the daemon that the environment names. Without one it makes a card in this
// process.
func open(ctx context.Context, peers, iface string, number int) (n network, node, nodes int, err error) {
	if peers == "" {
		c, err := attach.Environment()
		if err != nil {
			return nil, 0, 0, err
		}
		c.Context = ctx
		k, err := attach.Open(c)
		if err != nil {
			return nil, 0, 0, err
		}
		return k, int(c.Node), k.Nodes(), nil
	}
	file, err := cluster.Load(peers)
	if err != nil {
		return nil, 0, 0, err
	}
	if number < 0 || number >= len(file.Peers) {
		return nil, 0, 0, fmt.Errorf("node %d: %s has nodes 0 to %d", number, peers, len(file.Peers)-1)
	}
	c := card.Config{Interfaces: []string{iface}, GID: file.GID, Token: file.Token, Node: uint16(number),
		CPU: -1, Context: ctx,
		Tell: func(line string) { fmt.Fprintln(os.Stderr, "alltoall: "+line) }}
	if c.GID == 0 {
		c.GID = 1
	}
	if file.Encap == cluster.UDP {
		c.UDP = &card.UDP{Port: file.Port}
	}
	for _, p := range file.Peers {
		peer := card.Peer{Node: p.Node, Address: p.Address, Interface: iface}
		copy(peer.MAC[:], p.MAC)
		c.Peers = append(c.Peers, peer)
	}
	k, err := card.Open(c)
	if err != nil {
		return nil, 0, 0, err
	}
	return k, number, len(file.Peers), nil
}

// work runs the program on an open card.
func (p *program) work(ctx context.Context, net network, node, nodes int) (err error) {
	if nodes < 2 {
		return fmt.Errorf("%d node: run at least two", nodes)
	}
	if p.e, err = am.New(net.Interface(), node, nodes, net.Drive, rand.Uint64()); err != nil {
		return err
	}
	p.e.Bind(ctx)
	p.arrived, p.checks, p.checked, p.totals = make([]int, nodes), make([]uint32, nodes), make([]bool, nodes),
		make([]total, nodes)
	if err := errors.Join(
		p.e.HandleNotice(blockNotice, p.takeBlock),
		p.e.Handle(checkHandler, p.takeCheck),
		p.e.Handle(totalHandler, p.takeTotal)); err != nil {
		return err
	}
	if err := p.agree(); err != nil {
		return err
	}
	// Transfers are of whole 16 bytes, so a block's place is, too.
	p.place = (p.most + 15) &^ 15
	if p.place > mostBytes/nodes {
		return fmt.Errorf("blocks of %d bytes for %d nodes: use at most %d bytes", p.most, nodes, mostBytes/nodes)
	}
	if p.send, err = net.Segment(sendBase, p.place*nodes, funi.Source); err != nil {
		return err
	}
	if p.receive, err = net.Segment(receiveBase, p.place*nodes, funi.Destination); err != nil {
		return err
	}
	p.want = make([]byte, p.most)
	// Nobody sends before all have memory that can be written.
	if err := p.e.Barrier(); err != nil {
		return err
	}
	begin := time.Now()
	for round := range p.rounds {
		if err := p.round(round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	// The other nodes' last blocks may still be on the way.
	for n := range nodes {
		if n == node {
			continue
		}
		if err := p.waitFor(n, func() bool { return p.arrived[n] == p.rounds }); err != nil {
			return fmt.Errorf("waiting for the blocks of node %d: %w", n, err)
		}
	}
	p.own.nanoseconds = uint64(time.Since(begin))
	return p.report()
}

// agree has all nodes use the options of node 0.
func (p *program) agree() error {
	words := []uint32{uint32(p.most), uint32(p.rounds), uint32(p.seed), uint32(p.seed >> 32)}
	if err := p.e.Broadcast(0, words); err != nil {
		return err
	}
	p.most, p.rounds, p.seed = int(words[0]), int(words[1]), uint64(words[2])|uint64(words[3])<<32
	return nil
}

// waitFor waits until done reports that the node has sent what is expected, or until a handler
// fails.
func (p *program) waitFor(node int, done func() bool) error {
	if err := p.e.WaitFor(node, func() bool { return done() || p.failed != nil }); err != nil {
		return err
	}
	return p.failed
}

// round sends a block to every other node, and waits until all have checked them.
func (p *program) round(round int) error {
	self, nodes := p.e.Node(), p.e.Nodes()
	for i := 1; i < nodes; i++ {
		node := (self + i) % nodes
		length := p.length(round, self, node)
		block := p.send[node*p.place:][:length]
		p.fill(block, round, self, node)
		p.checks[node], p.checked[node] = crc32.ChecksumIEEE(block), false
		at := uint32(node * p.place)
		err := p.e.Transfer(node, blockNotice, funi.Transfer{Source: sendBase + at,
			Destination: uint32(receiveBase + self*p.place),
			Argument:    uint32(length), Words: (length + 15) &^ 15 / 4})
		if err != nil {
			return fmt.Errorf("sending to node %d: %w", node, err)
		}
	}
	for i := 1; i < nodes; i++ {
		node := (self + i) % nodes
		if err := p.waitFor(node, func() bool { return p.checked[node] }); err != nil {
			return fmt.Errorf("waiting for the answer of node %d: %w", node, err)
		}
	}
	// The blocks may only change when the card no longer needs them.
	if err := p.e.Wait(func() bool { return p.e.Retrieved(funi.Request) }); err != nil {
		return err
	}
	return p.failed
}

// takeBlock checks a block that has arrived, and answers with its checksum. The node sends its next
// block after the answer, so nothing overwrites this one before that.
func (p *program) takeBlock(m *am.Message, n funi.Notice) {
	round, length := p.arrived[m.Source], int(n.Argument)
	if length != p.length(round, m.Source, p.e.Node()) || n.Address != uint32(receiveBase+m.Source*p.place) ||
		n.Words != (length+15)&^15/4 {
		p.fail(fmt.Errorf("node %d sent %d bytes to %#x in round %d", m.Source, length, n.Address, round))
		return
	}
	block, want := p.receive[m.Source*p.place:][:length], p.want[:length]
	p.fill(want, round, m.Source, p.e.Node())
	if !bytes.Equal(block, want) {
		p.fail(fmt.Errorf("node %d sent other bytes than it should in round %d", m.Source, round))
		return
	}
	p.arrived[m.Source]++
	p.own.blocks++
	p.own.bytes += uint64(length)
	if err := m.Reply4(checkHandler, crc32.ChecksumIEEE(block), 0, 0, 0); err != nil {
		p.fail(fmt.Errorf("answering node %d: %w", m.Source, err))
	}
}

// takeCheck compares a node's checksum with that of the block that it was sent.
func (p *program) takeCheck(m *am.Message) {
	if len(m.Words) != 4 || p.checked[m.Source] || m.Words[0] != p.checks[m.Source] {
		p.fail(fmt.Errorf("node %d answered %#x, want %#x", m.Source, m.Words, p.checks[m.Source]))
		return
	}
	p.checked[m.Source] = true
}

// fail keeps the first error of a handler, which cannot return it.
func (p *program) fail(err error) {
	if p.failed == nil {
		p.failed = err
	}
}

// report sends the totals of all nodes to node 0, which prints them.
func (p *program) report() error {
	self, nodes := p.e.Node(), p.e.Nodes()
	if self != 0 {
		o := p.own
		if err := p.e.Request(0, totalHandler, uint32(o.blocks), uint32(o.blocks>>32), uint32(o.bytes),
			uint32(o.bytes>>32),
			uint32(o.nanoseconds), uint32(o.nanoseconds>>32)); err != nil {
			return fmt.Errorf("sending the result to node 0: %w", err)
		}
		return p.e.Barrier()
	}
	p.totals[0] = p.own
	var sum total
	for n := range nodes {
		if n != 0 {
			if err := p.waitFor(n, func() bool { return p.totals[n].there }); err != nil {
				return fmt.Errorf("waiting for the result of node %d: %w", n, err)
			}
		}
		t := p.totals[n]
		sum.blocks += t.blocks
		sum.bytes += t.bytes
		sum.nanoseconds = max(sum.nanoseconds, t.nanoseconds)
		fmt.Printf("node %d: %d blocks, %d bytes, all as they were sent\n", n, t.blocks, t.bytes)
	}
	fmt.Printf("%d nodes, %d rounds: %d blocks, %d bytes in %.6f s, %.1f MB/s\n", nodes, p.rounds,
		sum.blocks, sum.bytes,
		float64(sum.nanoseconds)/1e9, float64(sum.bytes)/float64(sum.nanoseconds)*1e3)
	// Nobody leaves while another still needs it.
	return p.e.Barrier()
}

// takeTotal stores the total of a node, at node 0.
func (p *program) takeTotal(m *am.Message) {
	if len(m.Words) != 6 || p.totals[m.Source].there {
		p.fail(fmt.Errorf("node %d sent a result of %d words", m.Source, len(m.Words)))
		return
	}
	number := func(i int) uint64 { return uint64(m.Words[i]) | uint64(m.Words[i+1])<<32 }
	p.totals[m.Source] = total{number(0), number(2), number(4), true}
}

// random returns the number that a block's length and content are computed from.
func (p *program) random(round, from, to int) uint64 {
	x := p.seed + uint64(round)<<32 + uint64(from)<<16 + uint64(to) + 1
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// length returns the number of bytes of a block: between half of the largest number and all of it.
func (p *program) length(round, from, to int) int {
	return p.most - int(p.random(round, from, to)%uint64(p.most/2+1))
}

// fill writes the content of a block.
func (p *program) fill(b []byte, round, from, to int) {
	x := p.random(round, from, to) | 1
	for ; len(b) >= 8; b = b[8:] {
		x = x*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(b, x)
	}
	for i := range b {
		b[i] = byte(x >> (8 * i))
	}
}
