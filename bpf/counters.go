// This file reads what the NIC program counted.

package bpf

import "fmt"

// Counters says what became of the frames that the NIC program saw since it was loaded, summed over
// the CPUs. Each frame is in exactly one, in the order of funet.h's enum funet_counter.
type Counters struct {
	Pass uint64 `json:"pass"` // not FUNet, or a probe: left to the kernel
	// it, or its first buffer, ended inside the header: dropped, a datagram passed
	Short      uint64 `json:"short"`
	BadVersion uint64 `json:"bad_version"` // another header version: the same
	// length below the header's or beyond the frame: the same
	BadLength uint64 `json:"bad_length"`
	BadGID    uint64 `json:"bad_gid"` // a GID of more than 11 bits: the same
	// a datagram longer than its frame, merged of several by the kernel's GRO: dropped
	Merged       uint64 `json:"merged"`
	ForeignGroup uint64 `json:"foreign_group"` // a group that is not active here: dropped
	NoSocket     uint64 `json:"no_socket"`     // no AF_XDP socket on the receive queue: dropped
	// a direct frame from elsewhere than its node's host: dropped
	Stranger uint64 `json:"stranger"`
	// a direct frame for a node that has no port here: dropped
	NoPort   uint64 `json:"no_port"`
	Direct   uint64 `json:"direct"`   // a direct frame, handed to its node's port
	Deferred uint64 `json:"deferred"` // of a group that is absent here: its sender was told to wait
	// the same, but its sender has had its answers, or cannot have any: dropped
	Undeferred uint64 `json:"undeferred"`
	Hellos     uint64 `json:"hellos"`     // a hello of a source that has said many: dropped
	Redirected uint64 `json:"redirected"` // handed to the socket of the receive queue
}

// CountedQueues is the number of receive queues with a counter of their own for redirected frames.
// Queue n counts as n modulo CountedQueues.
const CountedQueues = 64

// PerQueue holds the number of frames redirected on each receive queue.
type PerQueue [CountedQueues]uint64

// fields lists the counters in the order of funet_counters. Those of redirected frames come last.
func (c *Counters) fields() []*uint64 {
	return []*uint64{
		&c.Pass, &c.Short, &c.BadVersion, &c.BadLength,
		&c.BadGID, &c.Merged, &c.ForeignGroup, &c.NoSocket, &c.Stranger, &c.NoPort, &c.Direct,
		&c.Deferred, &c.Undeferred, &c.Hellos, &c.Redirected,
	}
}

// Counters reads the counters with one system call. Frames that arrive meanwhile may be in some and
// not in others; once traffic has stopped the answer is exact. A frame that counts as redirected
// may still be lost. The socket loses it when its fill ring is empty or its receive ring full,
// which XDP_STATISTICS of the socket counts. Or the kernel refuses the redirect: not counted.
func (n *NIC) Counters() (Counters, error) {
	c, _, err := n.CountersByQueue()
	return c, err
}

// CountersByQueue reads the counters, and the number of redirected frames by receive queue.
func (n *NIC) CountersByQueue() (c Counters, queues PerQueue, err error) {
	var perCPU []nicFunetCounts
	if err := n.maps.FunetCounters.Lookup(uint32(0), &perCPU); err != nil {
		return Counters{}, PerQueue{}, fmt.Errorf("read the counters of the NIC program: %w", err)
	}
	fields := c.fields()
	first := len(fields) - 1 // place of redirected frames
	for i := range perCPU {
		for place, n := range perCPU[i].N[:first] {
			*fields[place] += n
		}
		for q, n := range perCPU[i].N[first:] {
			queues[q] += n
			c.Redirected += n
		}
	}
	return c, queues, nil
}
