package program

// This file reports whether the host kept the times of a hardware profile while a program ran.

import (
	"fmt"
	"io"
	"time"

	"github.com/funet/funet/uspace/card"
)

// A host keeps a profile if at most mostLate per cent of charges are late, and the model stands
// still for at most mostStill per cent of the time.
const (
	mostLate  = 1.0
	mostStill = 1.0
)

// host says how well hosts kept the times of a profile. Lateness is the delay of the program behind
// the model's time.
type host struct {
	Kept    bool    `json:"kept"`
	Charges int64   `json:"charges"`
	Late    int64   `json:"late_charges"`
	Percent float64 `json:"late_percent"`
	Limit   float64 `json:"late_limit_us"`
	P99     float64 `json:"lateness_p99_us"`
	Largest float64 `json:"lateness_max_us"`
	// Still is the time that the model stood still because the host was too far behind.
	Still        float64 `json:"model_stood_still_us"`
	StillPercent float64 `json:"model_stood_still_percent"`
	Time         float64 `json:"model_time_us"`
	// Wire is the time of a frame from host to host. Excess is the part of it that the model's own
	// latency cannot hide.
	Wire   float64 `json:"wire_one_way_us"`
	Excess float64 `json:"wire_excess_us"`
}

// host returns how well the node's host kept the profile's times; nil: no profile is modelled.
func (n *Node) host() *host {
	if n.Own == nil {
		return nil
	}
	l, ok := n.Own.Lateness()
	if !ok {
		return nil
	}
	us := func(d time.Duration) float64 { return float64(d) / 1000 }
	h := &host{Charges: l.Charges, Late: l.Late, Limit: us(card.LateLimit), P99: us(l.P99), Largest: us(l.Largest),
		Still: us(l.Lost), Time: us(l.Time), Wire: us(l.Wire), Excess: us(l.Excess)}
	h.judge()
	return h
}

// judge decides whether the times were kept.
func (h *host) judge() {
	h.Percent = 100 * float64(h.Late) / float64(max(h.Charges, 1))
	h.StillPercent = 100 * h.Still / max(h.Time, 1)
	h.Kept = h.Percent <= mostLate && h.StillPercent <= mostStill
}

// add adds another host. The times are kept only if both hosts kept them. Of figures that cannot be
// added, the worse one stays.
func (h *host) add(o *host) {
	if h == nil || o == nil {
		return
	}
	both := h.Kept && o.Kept
	h.Charges, h.Late, h.Still, h.Time = h.Charges+o.Charges, h.Late+o.Late, h.Still+o.Still, h.Time+o.Time
	h.P99, h.Largest = max(h.P99, o.P99), max(h.Largest, o.Largest)
	h.Wire, h.Excess = max(h.Wire, o.Wire), max(h.Excess, o.Excess)
	h.judge()
	h.Kept = h.Kept && both
}

// writeHost prints the modelled hardware, and whether the hosts kept its times.
func (p Place) writeHost(w io.Writer) error {
	h := p.Host
	if h == nil {
		return nil
	}
	verdict := "the host kept"
	if !h.Kept {
		verdict = "the host could not keep"
	}
	_, err := fmt.Fprintf(w,
		"modelled: %s %s: %.1f %% of charges ended more than %.1f us late (p99 lateness %.1f us; largest %.1f us), and the model stood still for %.1f %% of the time\n",
		verdict, p.Profile, h.Percent, h.Limit, h.P99, h.Largest, h.StillPercent)
	if err == nil && h.Excess > 0 {
		_, err = fmt.Fprintf(w,
			"modelled: a frame takes %.1f us from host to host; %.1f us of that are longer than %s has it and could not be hidden\n", h.Wire, h.Excess, p.Profile)
	}
	return err
}
