package card

// This file has a card on a direct port exchange frames with nodes of the same host through memory
// (package port/shared). Asking the daemon for that memory takes time, so a goroutine beside the
// card does it. The goroutine that drives the card takes the results.

import (
	"context"
	"sync"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/bundle"
	"github.com/funet/funet/uspace/port/shared"
)

// Neighbours has the functions by which a card gets memory with the nodes of its host, and learns
// which nodes share a host. They wait, and end when the place in the job is given back
// (Direct.Close).
type Neighbours struct {
	List func() ([]uint16, error)                  // the other nodes of the job on this host
	Join func(node uint16) (*shared.Memory, error) // memory of this node and one of them
	// Stations returns the host of each node, from node 0 on, where small frames for several hosts
	// may leave in one (package bundle); no hosts: they may not. Frames for nodes of host NoStation
	// travel alone.
	Stations  func() ([]uint16, error)
	NoStation uint16
}

// mostWants is the number of requests for memory that can wait for their turn. The port repeats
// those for which there is no room.
const mostWants = 16

// neighbours is the card's side of the exchange.
type neighbours struct {
	port  *shared.Port
	in    *bundle.Port
	alone uint16 // Neighbours.NoStation
	wants chan uint16
	found chan found
	until context.Context
	end   context.CancelFunc
	done  sync.WaitGroup
}

// found is the result of a request: hosts, the list, a node's memory, or nil memory if there is
// none.
type found struct {
	hosts  []uint16
	list   []uint16
	node   uint16
	memory *shared.Memory
}

// neighbour puts the port of shared memory around another.
func (k *Card) neighbour(p port.Port, c *Config) *shared.Port {
	in := bundle.NewDirect(p)
	n := &neighbours{in: in, alone: c.Direct.Neighbours.NoStation, wants: make(chan uint16, mostWants),
		found: make(chan found)}
	n.until, n.end = context.WithCancel(context.Background())
	n.port = shared.New(in, shared.Config{Node: c.Node, GID: c.GID,
		Tag: arctic.JobTag(c.Token[:], c.GID), Want: n.want, Gone: k.unwatch})
	k.neighbours = n
	n.done.Add(1)
	go n.ask(c.Direct.Neighbours)
	return n.port
}

func (n *neighbours) want(node uint16) bool {
	select {
	case n.wants <- node:
		return true
	default:
		return false
	}
}

// ask asks the daemon for hosts and the list, and then for memory as it is wanted, until the card
// is closed.
func (n *neighbours) ask(of *Neighbours) {
	defer n.done.Done()
	if hosts, err := of.Stations(); err == nil && len(hosts) > 0 && !n.hand(found{hosts: hosts}) {
		return
	}
	list, err := of.List()
	if err != nil || len(list) == 0 || !n.hand(found{list: list}) {
		return // the daemon has no such memory, or there is nobody: nothing is wanted then
	}
	for {
		select {
		case node := <-n.wants:
			m, err := of.Join(node)
			if err != nil {
				m = nil
			}
			if !n.hand(found{node: node, memory: m}) {
				if m != nil {
					m.Close()
				}
				return
			}
		case <-n.until.Done():
			return
		}
	}
}

// hand waits until the goroutine that drives the card takes something, and reports whether it did.
func (n *neighbours) hand(f found) bool {
	select {
	case n.found <- f:
		return true
	case <-n.until.Done():
		return false
	}
}

// attend takes the results of requests, and lets go of memory that has ended.
func (n *neighbours) attend() {
	n.port.Attend()
	select {
	case f := <-n.found:
		switch {
		case f.hosts != nil:
			n.in.Stations(f.hosts, n.alone)
		case f.list != nil:
			n.port.Neighbours(f.list)
		case f.memory != nil:
			n.port.Join(f.node, *f.memory)
		default:
			n.port.Refused(f.node)
		}
	default:
	}
}

// doze is called before a sleep of the card, and reports whether it may sleep. wake follows.
func (n *neighbours) doze() bool { return n == nil || n.port.Doze() }

func (n *neighbours) wake() {
	if n != nil {
		n.port.Wake()
	}
}

// ready reports whether a frame of a neighbour waits.
func (n *neighbours) ready() bool { return n != nil && n.port.Ready() }

// depart has frames from now on go by the sockets. The memory is erased when the place is given
// back, whether all of it was read or not.
func (n *neighbours) depart() {
	if n != nil {
		n.port.Depart()
	}
}

// close is called after the place was given back, which ends the waits of the goroutine.
func (n *neighbours) close() {
	if n == nil {
		return
	}
	n.end()
	n.done.Wait()
	n.port.Close()
}

// Shared returns the counters of frames that went to nodes of the same host through memory. with is
// the number of nodes with which there is memory at present. Without a direct port all are 0.
func (k *Card) Shared() (c shared.Counters, with int) {
	if k.neighbours == nil {
		return c, 0
	}
	k.Alone(func() { c, with = k.neighbours.port.Counters(), k.neighbours.port.Shared() })
	return c, with
}
