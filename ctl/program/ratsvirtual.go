package program

// This file makes the round trips of rats.go in virtual time, on two modelled machines.

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/timing"
)

// virtualSlots is the number of slots of each queue. Hamlyn's terminus has 64 requests (HPL-95-86
// 2.3).
const virtualSlots = 64

// mostVirtual is longer than a round trip takes on any machine with a profile.
const mostVirtual = time.Millisecond

// RatsInVirtualTime makes round trips of tagged writes between two machines of a profile in virtual
// time. It returns the times of Count of them. Errors: machine.ErrParts for an invalid profile,
// timing.ErrRats, and those of package rats.
func RatsInVirtualTime(p *hwprofiles.Profile, o RatsOptions) (*PingPongResult, error) {
	if o.Bytes < 1 || o.Bytes > rats.MaxTagged || o.Count < 1 || o.WarmUp < 0 {
		return nil, fmt.Errorf("%d tagged writes of %d bytes: %w", o.Count, o.Bytes, rats.ErrTooLong)
	}
	h := hdrhistogram.New(1, int64(10*time.Second), 4)
	k, err := sim.NewPacedRemote(p, 2, virtualSlots, ratsSizes, func(process *sim.Process) error {
		node := int(process.Context().Node())
		e, err := rats.New(process.Interface(), node, rand.NewChaCha8([32]byte{byte(node)}))
		if err != nil {
			return err
		}
		if !process.CPU().PricesRats() {
			return timing.ErrRats
		}
		e.Pace(process.CPU())
		n := &ratsNode{RatsOptions: o, drive: func() error {
			process.Drive()
			return nil
		}, now: process.Now, peer: uint16(1 - node), first: node == 0, wait: time.Second}
		if err := n.manage(e, process.Segment); err != nil {
			return err
		}
		return n.tags(h)
	})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	// A node whose other end has failed would look for it for all of the time.
	if err := k.Finish(10*time.Millisecond + time.Duration(o.WarmUp+o.Count)*mostVirtual); err != nil {
		return nil, fmt.Errorf("in virtual time: %w", err)
	}
	return RoundTrips(h), nil
}
