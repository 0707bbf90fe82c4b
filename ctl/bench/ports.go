package bench

// This file is a card with many contexts and no network: the virtual ports of `funet bench trigger`
// and `funet bench contexts`. Each port is a context whose process issues by triggers. What a port
// sends goes to itself, so every port's traffic is seen and verified there.

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

const (
	portSlots  = 4 // slots of each queue of a port
	portGroup  = 1
	portTag    = 0x706f727473 // of their job; no other card sees it
	portsAtOne = 1 << 12      // ports that are attached before the card is stepped
	ctrlCEvery = 1 << 10      // operations or steps between two looks for Ctrl-C
)

// virtualPorts is a card and its ports. The ports are nodes of one group, from 0.
type virtualPorts struct {
	card      *engine.Card
	all       []virtualPort
	scattered []*virtualPort // all of them in an order that says nothing, the same in each run
	now       int64
}

// virtualPort is a port: a process's end, and what it has sent and received.
type virtualPort struct {
	process        *funi.Interface
	context        *engine.Context
	page           *funi.Page
	node           uint16
	sent, received uint32
}

// newVirtualPorts makes a card with n ports.
func newVirtualPorts(ctx context.Context, n int) (*virtualPorts, error) {
	cfg := engine.Native()
	cfg.Incarnation, cfg.Routes = 1, make([]uint32, n) // every node is on card 0, this one
	card, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	v := &virtualPorts{card: card, all: make([]virtualPort, n)}
	for i := range v.all {
		if err := v.attach(uint16(i)); err != nil {
			return nil, fmt.Errorf("port %d of %d: %w", i, n, err)
		}
		if i%portsAtOne == portsAtOne-1 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			v.step()
		}
	}
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		v.scattered = append(v.scattered, &v.all[i])
	}
	v.rest()
	return v, nil
}

func (v *virtualPorts) attach(node uint16) error {
	m, err := funi.NewMemory(portSlots)
	if err != nil {
		return err
	}
	m.Page.IssueByTrigger(true)
	p, err := funi.Initialize(m)
	if err != nil {
		return err
	}
	x, err := v.card.Attach(m, portGroup, node, portTag)
	if err != nil {
		return err
	}
	v.all[node] = virtualPort{process: p, context: x, page: m.Page, node: node}
	return nil
}

// step steps the card, whose time goes on by a microsecond.
func (v *virtualPorts) step() {
	v.now += int64(time.Microsecond)
	v.card.Step(v.now)
}

// rest steps the card until its ports sleep, if there are so many that they do.
func (v *virtualPorts) rest() {
	for range 64 * (len(v.all) + 1024) / 8 {
		v.step()
	}
}

// end detaches all ports, and steps the card until it has forgotten them.
func (v *virtualPorts) end() error {
	for i := range v.all {
		v.card.Detach(v.all[i].context)
	}
	for range len(v.all) + 1000 {
		if v.card.Quiet() {
			return nil
		}
		v.step()
	}
	return fmt.Errorf("contexts of %d ports are still on the card", len(v.all))
}

// compose writes a message of the port to itself into its send queue.
func (p *virtualPort) compose() bool {
	s := p.process.Reserve(funi.Request)
	if s == nil {
		return false
	}
	s.SetHeader(funi.NewHeader(p.node, 0, 1))
	s[funi.PayloadWord] = p.sent
	p.process.Commit(funi.Request)
	p.sent++
	return true
}

// take receives what has arrived, and verifies its source, number and order.
func (p *virtualPort) take() error {
	for {
		s := p.process.Receive(funi.Request)
		if s == nil {
			return nil
		}
		source, _, words := s.Message()
		if source != p.node || len(words) != 1 || words[0] != p.received {
			return fmt.Errorf("port %d: message %v of node %d, want %d of itself", p.node, words, source, p.received)
		}
		p.received++
		p.process.Release(funi.Request)
	}
}

// quantiles returns the median and the 99th percentile of durations in nanoseconds, which it sorts.
func quantiles(ns []int64) (p50, p99 float64) {
	slices.Sort(ns)
	at := func(q float64) float64 { return float64(ns[int(math.Ceil(q*float64(len(ns))))-1]) }
	return at(0.5), at(0.99)
}
