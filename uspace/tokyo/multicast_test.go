package tokyo_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/tokyo"
)

// Rule: a multicast comes to each member of the chain once (thesis, 3.3.1.3), and its sender hears
// of all of them, or where the chain is broken.
func TestMulticastAlongAChain(t *testing.T) {
	const nodes, messages = 4, 20
	got := [nodes]int{}
	joined, left, told := 0, false, false
	tune := func(o *tokyo.Options) {
		node := o.Node
		o.Others = func(l funi.Level, s *funi.Slot) {
			if s.Header().Type() == 9 && s.Source() == 0 && s[funi.PayloadWord] == uint32(got[node]) {
				got[node]++
			}
		}
	}
	run(t, nodes, sim.EthernetConfig{}, tune, func(n *node) error {
		if n.number > 0 { // 1, 2 and 3 in a row
			c := funi.Chain{Number: 5, First: n.number == 1}
			if !c.First {
				c.Parent = n.number - 1
			}
			if n.number < nodes-1 {
				c.Next = []funi.Next{{Node: n.number + 1, Members: nodes - 1 - n.number}}
			}
			if err := n.Join(c); err != nil {
				return err
			}
			joined++
			if n.number == 2 {
				if err := n.until("it may leave", func() bool { return told }); err != nil {
					return err
				}
				err := n.Leave(5)
				left = true
				return err
			}
			return nil
		}
		if err := n.Join(funi.Chain{Number: funi.MaxChains}); !errors.Is(err, rma.ErrChain) {
			return fmt.Errorf("it is a member of a chain that is none: %v", err)
		}
		if err := n.until("all have joined", func() bool { return joined == nodes-1 }); err != nil {
			return err
		}
		m := funi.MulticastRequest{Chain: 5, Members: nodes - 1, Message: 9}
		for i := range messages {
			m.Data = []byte{byte(i), 0, 0, 0}
			if d, err := n.Multicast(1, m); err != nil || d != (funi.Delivery{Delivered: nodes - 1}) {
				return fmt.Errorf("%+v: %w", d, err)
			}
		}
		told = true
		if err := n.until("one has left", func() bool { return left }); err != nil {
			return err
		}
		m.Data[0] = messages
		d, err := n.Multicast(1, m)
		var why *rma.Error
		if !errors.As(err, &why) || why.Reason != arctic.ReasonChain || d.Delivered != 1 || d.Failed != 2 ||
			d.Named != 1 || d.Broken[0].Node != 2 {
			return fmt.Errorf("the second has left: %+v, %w", d, err)
		}
		return nil
	})
	if want := [nodes]int{0, messages + 1, messages, messages}; got != want {
		t.Errorf("they have %v messages, want %v", got, want)
	}
}
