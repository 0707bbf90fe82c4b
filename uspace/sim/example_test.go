package sim_test

import (
	"fmt"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/sim"
)

// exchange is a program of two nodes that prints when an answer is back.
func exchange(p *sim.Process) error {
	e, err := p.Endpoint(2)
	if err != nil {
		return err
	}
	back := false
	if err := e.Handle(0, func(m *am.Message) { _ = m.Reply4(1, 0, 0, 0, 0) }); err != nil {
		return err
	}
	if err := e.Handle(1, func(*am.Message) { back = true }); err != nil {
		return err
	}
	if err := e.Barrier(); err != nil {
		return err
	}
	if e.Node() == 0 {
		begin := p.Now()
		if err := e.Request4(1, 0, 0, 0, 0, 0); err != nil {
			return err
		}
		if err := e.WaitFor(1, func() bool { return back }); err != nil {
			return err
		}
		fmt.Printf("there and back in %d virtual ns\n", p.Now()-begin)
	}
	return e.Barrier()
}

// The engine that ships, on a network in virtual time: the same options give the same run, on any
// machine.
func Example() {
	for range 2 {
		k, err := sim.NewCluster(sim.ClusterOptions{Nodes: 2, Net: sim.EthernetConfig{Seed: 1}}, exchange)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := k.Finish(time.Second); err != nil {
			fmt.Println(err)
		}
		k.Close()
	}
	// Output:
	// there and back in 53200 virtual ns
	// there and back in 53200 virtual ns
}

// The same program on the machine of the thesis: its processor, bus, cards and links take their
// time.
func ExampleNewPacedCluster() {
	p, err := hwprofiles.Load("sbus-arctic")
	if err != nil {
		fmt.Println(err)
		return
	}
	k, err := sim.NewPacedCluster(p, 2, 256, exchange)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close()
	if err := k.Finish(time.Second); err != nil {
		fmt.Println(err)
	}
	// Output: there and back in 31820 virtual ns
}
