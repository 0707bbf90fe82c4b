package main

// This file is what programs say about the host that they ran on when it had to be as slow
// as a hardware profile: whether it could.

import (
	"fmt"
	"io"

	"github.com/funet/funet/uspace/card"
)

// mostLate is how many charges in a hundred may be late.
const mostLate = 1.0

// host is how well hosts kept the times of a profile. Microseconds are those by which the
// program went on later than the model has it.
type host struct {
	Kept    bool    `json:"kept"`
	Charges int64   `json:"charges"`
	Late    int64   `json:"late_charges"`
	Percent float64 `json:"late_percent"`
	Limit   float64 `json:"late_limit_us"`
	P99     float64 `json:"lateness_p99_us"`
	Largest float64 `json:"lateness_max_us"`
	// Lost is how long the model stood still because the host was too far behind.
	Lost float64 `json:"model_stood_still_us"`
}

// host returns how well the node's host kept the profile's times; nil: there are none.
func (n *node) host() *host {
	l, ok := n.Lateness()
	if !ok {
		return nil
	}
	us := func(d interface{ Nanoseconds() int64 }) float64 { return float64(d.Nanoseconds()) / 1000 }
	h := &host{Charges: l.Charges, Late: l.Late, Limit: us(card.LateLimit), P99: us(l.P99), Largest: us(l.Largest), Lost: us(l.Lost)}
	h.judge()
	return h
}

// judge says whether the times were kept.
func (h *host) judge() {
	h.Percent = 100 * float64(h.Late) / float64(max(h.Charges, 1))
	h.Kept = h.Percent <= mostLate
}

// add adds another host, and keeps the worse of what cannot be added.
func (h *host) add(o *host) {
	if h == nil || o == nil {
		return
	}
	h.Charges, h.Late = h.Charges+o.Charges, h.Late+o.Late
	h.P99, h.Largest, h.Lost = max(h.P99, o.P99), max(h.Largest, o.Largest), h.Lost+o.Lost
	kept := h.Kept && o.Kept
	h.judge()
	h.Kept = h.Kept && kept
}

// writeHost says for people which hardware was modelled and whether the hosts could.
func (p place) writeHost(w io.Writer) error {
	h := p.Host
	if h == nil {
		return nil
	}
	verdict := "the hosts kept"
	if !h.Kept {
		verdict = "the host could not keep"
	}
	_, err := fmt.Fprintf(w, "modelled: %s; %s it: %.1f %% of charges ended more than %.1f us late (p99 lateness %.1f us; largest %.1f us; the model stood still for %.1f us)\n",
		p.Profile, verdict, h.Percent, h.Limit, h.P99, h.Largest, h.Lost)
	return err
}
