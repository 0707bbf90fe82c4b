// This file reads what the NIC program counted.

package bpf

import "fmt"

// Counters says what became of the frames that the NIC program saw since it was loaded, summed
// over the CPUs. Each frame is in exactly one of them. The order is that of enum funet_counter in
// funet.h.
type Counters struct {
	Pass         uint64 `json:"pass"`          // not FUNet, or a probe: left to the kernel
	Short        uint64 `json:"short"`         // it, or its first buffer, ended inside the header: dropped
	BadVersion   uint64 `json:"bad_version"`   // another header version: dropped
	BadLength    uint64 `json:"bad_length"`    // length below the header's or beyond the frame: dropped
	BadGID       uint64 `json:"bad_gid"`       // a GID of more than 11 bits: dropped
	ForeignGroup uint64 `json:"foreign_group"` // a group that is not active here: dropped
	NoSocket     uint64 `json:"no_socket"`     // no AF_XDP socket on the receive queue: dropped
	Redirected   uint64 `json:"redirected"`    // handed to the socket of the receive queue
}

// fields lists the counters in the order of their keys in funet_counters.
func (c *Counters) fields() []*uint64 {
	return []*uint64{
		&c.Pass, &c.Short, &c.BadVersion, &c.BadLength,
		&c.BadGID, &c.ForeignGroup, &c.NoSocket, &c.Redirected,
	}
}

// Counters reads the counters, one system call for each. Frames that arrive meanwhile may be in
// the later counters and not in the earlier; once traffic has stopped the answer is exact. The
// socket may still lose a frame that counts as redirected, when its fill ring is empty or its
// receive ring full: XDP_STATISTICS of the socket tells.
func (n *NIC) Counters() (Counters, error) {
	var c Counters
	for key, field := range c.fields() {
		var perCPU []uint64
		if err := n.maps.FunetCounters.Lookup(uint32(key), &perCPU); err != nil {
			return Counters{}, fmt.Errorf("read counter %d of the NIC program: %w", key, err)
		}
		for _, value := range perCPU {
			*field += value
		}
	}
	return c, nil
}
