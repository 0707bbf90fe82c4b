package report

// This file is the daemon's report of traffic.

import (
	"time"

	"github.com/funet/funet/uspace/engine"
)

// Traffic is the JSON of an answer to KindTraffic. All numbers except those of Peers are totals
// since the card was made, or the context attached. Time is when they were read.
type Traffic struct {
	Time time.Time `json:"time"`
	// Incarnation is that of the card: with another card the totals begin anew.
	Incarnation  uint32          `json:"incarnation"`
	Card         engine.Counters `json:"card"`
	Rejected     []Rejected      `json:"rejected"`          // packets, by this card
	RejectedThem []Rejected      `json:"rejected_by_peers"` // this card's packets
	Peers        Peers           `json:"peers"`
	// Jobs are the sums of the contexts by group, Contexts the single contexts, and RoundTrips the
	// single peers, as many of each as there is room for. Jobs and contexts that have moved most
	// come first. Of peers those that owe answers come first, then the slowest.
	Jobs       []JobTraffic     `json:"jobs"`
	Contexts   []ContextTraffic `json:"contexts"`
	RoundTrips []RoundTrip      `json:"round_trips"`
	// LeftOut counts jobs, contexts and peers for which there is no room.
	LeftOut int `json:"left_out"`
}

// Rejected is how many packets were rejected for a reason.
type Rejected struct {
	Reason  string `json:"reason"`
	Packets uint64 `json:"packets"`
}

// Peers counts the other cards, and has the quantiles of their round trips (engine.PeerState); a
// quantile of 0 says that no round trip was measured.
type Peers struct {
	Known       int `json:"known"`
	Established int `json:"established"` // they have been greeted, and not been lost since
	Sealed      int `json:"sealed"`      // they have this host's key
	// Readable counts those of them to which frames are authenticated but not encrypted.
	Readable int   `json:"readable"`
	Refused  int   `json:"key_refused"` // they have another key, or only one of the two has a key
	Measured int   `json:"measured"`
	Shortest int64 `json:"round_trip_shortest_ns"`
	Median   int64 `json:"round_trip_median_ns"`
	P99      int64 `json:"round_trip_p99_ns"`
	Longest  int64 `json:"round_trip_longest_ns"`
	// KeyFault says what is wrong with the key of the first refused peer; "": no peer was refused.
	KeyFault string `json:"key_fault,omitempty"`
}

// RoundTrip is the smoothed round trip to a peer, and its variation.
type RoundTrip struct {
	Card      uint16 `json:"card"`
	RoundTrip int64  `json:"round_trip_ns"`
	Variation int64  `json:"variation_ns"`
	InFlight  int    `json:"frames_in_flight,omitempty"` // for an administrator
}

// JobTraffic counts what the contexts of a group have moved.
type JobTraffic struct {
	GID uint16 `json:"gid"`
	engine.Traffic
}

// ContextTraffic counts what a context has moved.
type ContextTraffic struct {
	Context uint32 `json:"context"`
	GID     uint16 `json:"gid"`
	Node    uint16 `json:"node"`
	PID     int32  `json:"pid"`
	// Contexts is how many contexts a row has, whose sum this is; 0: it is no row.
	Contexts int `json:"contexts,omitempty"`
	engine.Traffic
}
