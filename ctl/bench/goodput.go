// This file defines the result of a bulk run of FUNet: its goodput, and the losses on the way.

package bench

// GoodputSample has the measurements of one run of FUNet.
type GoodputSample struct {
	Gbit float64 // gigabits of payload a second
	Congestion
	XDPMode, BindMode string
}

// Congestion counts losses, rejects and repetitions in a run, summed over the hosts.
type Congestion struct {
	Rejected      uint64 `json:"packets_rejected"` // the receive queue was full; sent again
	Retransmitted uint64 `json:"frames_retransmitted"`
	Timeouts      uint64 `json:"retransmission_timeouts"`
	Duplicates    uint64 `json:"duplicate_frames"`
}
