package sim

// This file has clusters of machines for which a profile has only measured costs. Their processors
// take the measured time of whole calls, and their network takes the rest of the round trip.

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// ErrCosts is wrapped by errors about profiles that lack a cost.
var ErrCosts = errors.New("sim: the profile has no such cost")

// NewMeasuredCluster makes a cluster of machines that are described by the profile's table of
// measured CMAM calls. Every node runs the program, with queues of the given number of slots. Costs
// are rounded to cycles. The table has no costs of blocks that cards move.
func NewMeasuredCluster(p *hwprofiles.Profile, nodes, slots int, program Program) (*Cluster, error) {
	prices, way, err := measuredPrices(p)
	if err != nil {
		return nil, fmt.Errorf("simulating profile %s: %w", p.Name, err)
	}
	cycle := p.CPU.Clock.Duration(p.CPU.InstructionCycles)
	k, err := NewCluster(ClusterOptions{
		Options: Options{PollTime: 1, StepTime: 1},
		Net:     EthernetConfig{Delay: time.Duration(way) * cycle},
		Nodes:   nodes, Slots: slots,
	}, program)
	if err != nil {
		return nil, err
	}
	for _, process := range k.Processes {
		process.Pace(timing.CPUConfig{Cycle: cycle}, timing.NewBus(0, 0))
		process.prices = &prices
	}
	return k, nil
}

// measuredPrices reads from the table the prices, and the cycles of a way through the network.
func measuredPrices(p *hwprofiles.Profile) (prices am.Prices, way int, err error) {
	cost := func(call, measure string) int {
		for _, c := range p.Costs {
			if c.Call == call && c.Measure == measure {
				return int(math.Round(float64(c.Cycles) / float64(hwprofiles.Cycle)))
			}
		}
		err = errors.Join(err, fmt.Errorf("%w: %s %s", ErrCosts, call, measure))
		return 0
	}
	both := func(call string) am.Price { return am.Price{Send: cost(call, "send"), Receive: cost(call, "recv")} }
	four, reply := both("CMAM_4"), both("CMAM_reply_4")
	prices.Other[funi.Request], prices.Other[funi.Reply] = four, reply
	prices.Xfer[funi.Request], prices.Xfer[funi.Reply] = both("CMAM_xfer_4"), both("CMAM_reply_xfer_4")
	way = (cost("CMAM_4", "round_trip") - four.Send - four.Receive - reply.Send - reply.Receive) / 2
	if err == nil && (way < 0 || p.CPU.Clock == 0) {
		err = fmt.Errorf("%w: a round trip that is longer than its parts, and a clock", ErrCosts)
	}
	return prices, way, err
}
