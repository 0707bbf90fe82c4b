package live

// This file has samples, and the rates between two of them.

import (
	"context"
	"time"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/engine"
)

// Sample is a daemon's answer at one time.
type Sample struct {
	Status  report.Status
	Traffic report.Traffic
}

// Source asks a daemon for a sample.
type Source func(context.Context) (*Sample, error)

// Report holds the rates between two samples. It is the JSON document of `funet top --json`.
type Report struct {
	Time     time.Time `json:"time"`
	Interval float64   `json:"interval_seconds"`
	Host     string    `json:"host"`
	Card     uint16    `json:"card"`
	Profile  string    `json:"profile"`
	Polling  string    `json:"polling"`
	// Restarted says that the card is not the one of the sample before, so no rates are known yet.
	Restarted bool `json:"restarted"`
	// Error says why the daemon did not answer. Then all fields but Time are empty.
	Error       string              `json:"error,omitempty"`
	Sums        Sums                `json:"sums"`
	Rejections  []Rejection         `json:"rejections"`
	Peers       report.Peers        `json:"peers"`
	RoundTrips  []report.RoundTrip  `json:"round_trips"`
	Interfaces  []report.LinkStatus `json:"interfaces"`
	Connections int                 `json:"connections"`
	SharedBytes int64               `json:"shared_bytes"`
	Memory      string              `json:"memory"`
	Locked      bool                `json:"memory_locked"`
	Jobs        []Job               `json:"jobs"`
	Contexts    []Context           `json:"contexts"`
	// Direct holds the rates of direct ports; nil: no job has any.
	Direct *Direct `json:"direct,omitempty"`
	// LeftOut counts jobs, contexts and peers for which the daemon's answer had no room.
	LeftOut int `json:"left_out"`
}

// Direct holds the rates of the direct ports of all users, which the card does not see.
type Direct struct {
	Ports    int     `json:"ports"`
	Sent     float64 `json:"frames_sent_per_second"` // to other hosts
	Local    float64 `json:"frames_local_per_second"`
	Dropped  float64 `json:"frames_dropped_per_second"` // by the guard
	Received float64 `json:"frames_received_per_second"`
	Refused  float64 `json:"frames_refused_per_second"` // by the interfaces' programs
}

// Sums are the card's rates, of all users together.
type Sums struct {
	// Messages are packets; a block of a transfer counts as one.
	MessagesSent     float64 `json:"messages_sent_per_second"`
	MessagesReceived float64 `json:"messages_received_per_second"`
	BytesSent        float64 `json:"frame_bytes_sent_per_second"`
	BytesReceived    float64 `json:"frame_bytes_received_per_second"`
	FramesSent       float64 `json:"frames_sent_per_second"`
	FramesReceived   float64 `json:"frames_received_per_second"`
	Acknowledgments  float64 `json:"acknowledgment_frames_sent_per_second"`
	PacketsPerFrame  float64 `json:"packets_per_frame"` // frames with packets; 0: none
	Retransmitted    float64 `json:"frames_retransmitted_per_second"`
	Timeouts         float64 `json:"retransmission_timeouts_per_second"`
	Returned         float64 `json:"packets_returned_per_second"`
	PeersLost        float64 `json:"peers_lost_per_second"`
}

// Rejection holds the rates of one reason for rejecting packets.
type Rejection struct {
	Reason  string  `json:"reason"`
	ByCard  float64 `json:"by_card_per_second"`
	ByPeers float64 `json:"by_peers_per_second"`
	// Totals since the card was made.
	CardTotal  uint64 `json:"by_card_total"`
	PeersTotal uint64 `json:"by_peers_total"`
}

// Rates are the rates of a job or a context (engine.Traffic).
type Rates struct {
	MessagesSent     float64 `json:"messages_sent_per_second"`
	MessagesReceived float64 `json:"messages_received_per_second"`
	BytesSent        float64 `json:"payload_bytes_sent_per_second"`
	BytesReceived    float64 `json:"payload_bytes_received_per_second"`
	Retried          float64 `json:"packets_retried_per_second"`
	Returned         float64 `json:"packets_returned_per_second"`
	Refused          float64 `json:"packets_refused_per_second"`
}

// Job is a job with its rates.
type Job struct {
	report.JobStatus
	Rates
}

// Context is a context with its rates.
type Context struct {
	report.ContextStatus
	Rates
}

// Between makes a report from two samples.
func Between(a, b *Sample) *Report {
	s, t := &b.Status, &b.Traffic
	r := &Report{Time: t.Time, Interval: t.Time.Sub(a.Traffic.Time).Seconds(), Host: s.Host, Card: s.Card,
		Profile: s.Profile, Polling: s.Polling,
		Restarted: a.Traffic.Incarnation != t.Incarnation, Peers: t.Peers, RoundTrips: t.RoundTrips,
		Interfaces: s.Links, Connections: s.Connections,
		SharedBytes: s.Bytes, Memory: s.Memory, Locked: s.MemoryLocked, LeftOut: s.LeftOut + t.LeftOut, Jobs: []Job{},
		Contexts: []Context{}, Rejections: []Rejection{}}
	rate := func(before, after uint64) float64 {
		if r.Restarted || after < before || r.Interval <= 0 {
			return 0
		}
		return float64(after-before) / r.Interval
	}
	rates := func(before, after *engine.Traffic) Rates {
		return Rates{rate(before.Sent, after.Sent), rate(before.Received, after.Received),
			rate(before.SentBytes, after.SentBytes),
			rate(before.ReceivedBytes, after.ReceivedBytes), rate(before.Retried, after.Retried),
			rate(before.Returned, after.Returned), rate(before.Refused, after.Refused)}
	}
	m, n := &a.Traffic.Card, &t.Card
	r.Sums = Sums{MessagesSent: rate(m.PacketsRetrieved, n.PacketsRetrieved),
		MessagesReceived: rate(m.PacketsDelivered, n.PacketsDelivered),
		BytesSent:        rate(m.FrameBytesSent, n.FrameBytesSent),
		BytesReceived:    rate(m.FrameBytesReceived, n.FrameBytesReceived),
		FramesSent:       rate(m.FramesSent, n.FramesSent), FramesReceived: rate(m.FramesReceived, n.FramesReceived),
		Acknowledgments: rate(m.AcksSent, n.AcksSent),
		Retransmitted:   rate(m.Retransmitted, n.Retransmitted), Timeouts: rate(m.Timeouts, n.Timeouts),
		Returned: rate(m.Returned, n.Returned), PeersLost: rate(m.PeersLost, n.PeersLost)}
	if trains := rate(m.TrainsSent, n.TrainsSent); trains > 0 {
		r.Sums.PacketsPerFrame = rate(m.PacketsSent, n.PacketsSent) / trains
	}
	for i, x := range t.Rejected {
		j := Rejection{Reason: x.Reason, CardTotal: x.Packets}
		if i < len(a.Traffic.Rejected) && a.Traffic.Rejected[i].Reason == x.Reason {
			j.ByCard = rate(a.Traffic.Rejected[i].Packets, x.Packets)
		}
		if i < len(t.RejectedThem) && i < len(a.Traffic.RejectedThem) {
			j.PeersTotal = t.RejectedThem[i].Packets
			j.ByPeers = rate(a.Traffic.RejectedThem[i].Packets, j.PeersTotal)
		}
		r.Rejections = append(r.Rejections, j)
	}
	r.addContexts(a, b, rates)
	if was, is := a.Status.Direct, s.Direct; was != nil && is != nil {
		r.Direct = &Direct{Ports: is.Ports, Sent: rate(was.Frames.Sent, is.Frames.Sent),
			Local:   rate(was.Frames.Local, is.Frames.Local),
			Dropped: rate(was.Frames.Dropped(), is.Frames.Dropped())}
		before, after := arrivals(a.Status.Links), arrivals(s.Links)
		r.Direct.Received, r.Direct.Refused = rate(before.Handed, after.Handed),
			rate(before.Stranger+before.NoPort, after.Stranger+after.NoPort)
	}
	return r
}

// arrivals adds up the direct frames of interfaces.
func arrivals(links []report.LinkStatus) (n report.DirectArrivals) {
	for _, l := range links {
		if d := l.Direct; d != nil {
			n.Handed, n.Stranger, n.NoPort = n.Handed+d.Handed, n.Stranger+d.Stranger, n.NoPort+d.NoPort
		}
	}
	return n
}

// attached returns the number of contexts, of which a row has many.
func (r *Report) attached() (n int) {
	for i := range r.Contexts {
		n += max(r.Contexts[i].Contexts, 1)
	}
	return n
}

// addContexts adds the jobs and contexts. One that is younger than the first sample, or was left
// out of it, counts as idle so far.
func (r *Report) addContexts(a, b *Sample, rates func(before, after *engine.Traffic) Rates) {
	type who struct {
		context   uint32
		gid, node uint16
		pid       int32
	}
	before, after := map[who]*engine.Traffic{}, map[who]*engine.Traffic{}
	for i := range a.Traffic.Contexts {
		x := &a.Traffic.Contexts[i]
		before[who{x.Context, x.GID, x.Node, x.PID}] = &x.Traffic
	}
	for i := range b.Traffic.Contexts {
		x := &b.Traffic.Contexts[i]
		after[who{x.Context, x.GID, x.Node, x.PID}] = &x.Traffic
	}
	between := func(was, is *engine.Traffic) Rates {
		if was == nil || is == nil {
			return Rates{}
		}
		return rates(was, is)
	}
	for _, x := range b.Status.Contexts {
		k := who{x.Context, x.GID, x.Node, x.PID}
		r.Contexts = append(r.Contexts, Context{x, between(before[k], after[k])})
	}
	wasJob, isJob := map[uint16]*engine.Traffic{}, map[uint16]*engine.Traffic{}
	for i := range a.Traffic.Jobs {
		wasJob[a.Traffic.Jobs[i].GID] = &a.Traffic.Jobs[i].Traffic
	}
	for i := range b.Traffic.Jobs {
		isJob[b.Traffic.Jobs[i].GID] = &b.Traffic.Jobs[i].Traffic
	}
	for _, j := range b.Status.Jobs {
		r.Jobs = append(r.Jobs, Job{j.JobStatus, between(wasJob[j.GID], isJob[j.GID])})
	}
}
