package daemon

// This file applies a hardware profile to a daemon's card: its limits, and the number of groups on
// the card at once. The daemon does not pace. A modelled machine has one process and one card on
// its bus; that is the embedded card (`funet cmam --profile`).

import (
	"fmt"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/uspace/turns"
)

// runnable refuses profiles of machines whose time is modelled, or that are only a table of costs.
func runnable(p *hwprofiles.Profile) error {
	if p.Bus.Clock != 0 || p.Network.Clock != 0 || p.Units != (hwprofiles.Units{}) || len(p.Costs) > 0 {
		return fmt.Errorf("profile %s models the time of a machine, which a daemon does not: use native, or a profile of limits only (card:), without bus, units, network and costs", p.Name)
	}
	return nil
}

// limit applies the profile's limits to a card. Its contexts are groups here, see shareOf.
func limit(c *engine.Config, p *hwprofiles.Profile) {
	sets := c.Sets
	machine.Limit(c, p)
	c.Sets = sets
}

// shareOf returns the turns of groups on a card with the profile; nil: all groups are on it.
func shareOf(p *hwprofiles.Profile, clock *turns.Clock) *turns.Turns {
	if p.Card.Contexts == 0 {
		return nil
	}
	return turns.New(p.Card.Contexts, clock)
}
