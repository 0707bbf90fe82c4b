// Alltoall is a program in which each node of a job sends a block of bytes to each other node, in
// every round (alltoall.c is the same in C, and may be a node of the same job). A block's length
// and content depend on the round and on both nodes. The receiver checks every byte and answers
// with a checksum, which the sender checks. At the end node 0 prints how much every node received,
// and how fast.
//
//	funet run -n 4 --lab -- alltoall --bytes 65536 --rounds 100
//	alltoall --peers peers.yaml --iface eth1 --node 0     # without a daemon, on each host
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/funet/funet/uspace/funet"
)

// takeBlock is the handler of calls. It answers a block with its checksum.
const takeBlock = 0

// options are those of node 0, which all nodes use. total is the sum of what a node has received.
type (
	options struct{ Most, Rounds, Seed uint64 }
	total   struct{ Blocks, Bytes, Ns uint64 }
)

// program is the state of one node.
type program struct {
	*funet.Endpoint
	options
	own     total
	totals  []total  // at node 0
	arrived []int    // rounds whose block has arrived, by node
	blocks  [][]byte // to each node; at the own index, the block expected from another
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

func run(ctx context.Context) (err error) {
	var p program
	peers := flag.String("peers", "", "peers `FILE`, where there is no daemon")
	iface := flag.String("iface", "", "interface, where there is no daemon")
	node := flag.Int("node", 0, "own number, where there is no daemon")
	flag.Uint64Var(&p.Most, "bytes", 65536, "of the longest block")
	flag.Uint64Var(&p.Rounds, "rounds", 100, "how often")
	flag.Uint64Var(&p.Seed, "seed", 1, "of lengths and contents")
	flag.Parse()
	if p.Most < 1 || p.Rounds < 1 {
		return fmt.Errorf("%d rounds of %d bytes: use at least one of each", p.Rounds, p.Most)
	}
	if p.Endpoint, err = funet.Open(ctx, funet.Options{Peers: *peers, Interfaces: []string{*iface},
		Node: *node}); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, p.Close(ctx)) }()
	n := p.Nodes()
	p.totals, p.arrived, p.blocks = make([]total, n), make([]int, n), make([][]byte, n)
	said, _ := binary.Append(nil, binary.LittleEndian, p.options)
	if err := errors.Join(p.Serve(takeBlock, p.takeBlock), p.Barrier(ctx), p.Broadcast(ctx, 0, said)); err != nil {
		return err
	}
	_, err = binary.Decode(said, binary.LittleEndian, &p.options)
	for node := 0; node < n && err == nil; node++ {
		p.blocks[node], err = p.Alloc(int(p.Most)) // which the card sends without a copy
	}
	if err = cmp.Or(err, p.Barrier(ctx)); err != nil { // all know the options
		return err
	}
	begin := time.Now()
	for round := range int(p.Rounds) {
		if err := p.round(ctx, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	if err := p.Barrier(ctx); err != nil { // the others' blocks have arrived
		return err
	}
	p.own.Ns = uint64(time.Since(begin))
	return p.report(ctx)
}

// round sends a block to every other node, and waits until all have checked them.
func (p *program) round(ctx context.Context, round int) error {
	calls, sums := make([]*funet.Pending, p.Nodes()), make([]uint32, p.Nodes())
	for i := 1; i < p.Nodes(); i++ {
		node := (p.Node() + i) % p.Nodes()
		p.blocks[node] = p.fill(p.blocks[node], round, p.Node(), node)
		calls[node] = p.Go(node, takeBlock, p.blocks[node])
		sums[node] = crc32.ChecksumIEEE(p.blocks[node])
	}
	for i := 1; i < p.Nodes(); i++ {
		node := (p.Node() + i) % p.Nodes()
		answer, err := calls[node].Wait(ctx)
		if err != nil {
			return err
		}
		if len(answer) != 4 || binary.LittleEndian.Uint32(answer) != sums[node] {
			return fmt.Errorf("node %d answered %x, want %#x", node, answer, sums[node])
		}
	}
	return nil
}

// takeBlock checks a block that has arrived. A node sends its next block after the answer to this
// one.
func (p *program) takeBlock(m *funet.Message) ([]byte, error) {
	round, want := p.arrived[m.Source], &p.blocks[p.Node()]
	if *want = p.fill(*want, round, m.Source, p.Node()); !bytes.Equal(m.Bytes, *want) {
		return nil, fmt.Errorf("node %d sent other bytes than it should in round %d", m.Source, round)
	}
	p.arrived[m.Source]++
	p.own.Blocks++
	p.own.Bytes += uint64(len(m.Bytes))
	return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(m.Bytes)), nil
}

// report sends the totals of all nodes to node 0, which prints them.
func (p *program) report(ctx context.Context) error {
	own, _ := binary.Append(nil, binary.LittleEndian, p.own)
	all := make([]byte, len(own)*p.Nodes())
	if err := errors.Join(p.Gather(ctx, 0, own, all), p.Barrier(ctx)); err != nil || p.Node() != 0 {
		return err
	}
	if _, err := binary.Decode(all, binary.LittleEndian, p.totals); err != nil {
		return err
	}
	var sum total
	for n, t := range p.totals {
		sum = total{sum.Blocks + t.Blocks, sum.Bytes + t.Bytes, max(sum.Ns, t.Ns)}
		fmt.Printf("node %d: %d blocks, %d bytes, all as they were sent\n", n, t.Blocks, t.Bytes)
	}
	_, err := fmt.Printf("%d nodes, %d rounds: %d blocks, %d bytes in %.6f s, %.1f MB/s\n", p.Nodes(), p.Rounds,
		sum.Blocks, sum.Bytes, float64(sum.Ns)/1e9, float64(sum.Bytes)/float64(sum.Ns)*1e3)
	return err
}

// fill returns the block of a round, written into b, which has room for the longest block. A block
// has between half of the largest number of bytes and all of it.
func (p *program) fill(b []byte, round, from, to int) []byte {
	x := (p.Seed + uint64(round)<<32 + uint64(from)<<16 + uint64(to) + 1) * 0x9e3779b97f4a7c15
	x ^= x >> 29
	b = b[:p.Most-x%(p.Most/2+1)]
	word, rest := x|1, b
	for ; len(rest) >= 8; rest = rest[8:] {
		word = word*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(rest, word)
	}
	for i := range rest {
		rest[i] = byte(word >> (8 * i))
	}
	return b
}
