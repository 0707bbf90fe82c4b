// This file reports the result of Peers: medians and ratios, as JSON and as a table.

package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Report is the result of Peers. Its JSON form is stable.
type Report struct {
	Rounds int `json:"rounds"`
	// raw_afxdp's: "native" or "generic"; the requested mode when it did not run
	XDPMode    string           `json:"xdp_mode"`
	BindMode   string           `json:"bind_mode"`   // raw_afxdp's: "copy" or "zero-copy"; the same
	FrameBytes int              `json:"frame_bytes"` // of raw_afxdp's frames
	Peers      map[string]*Peer `json:"peers"`       // those that Options.Only asks for
}

// Peer is one peer's entry. A pointer is nil when there is no figure.
type Peer struct {
	Present bool     `json:"present"` // installed, so that it could be tried
	P50     *float64 `json:"rtt_p50_us,omitempty"`
	P99     *float64 `json:"rtt_p99_us,omitempty"`
	Ratio   *float64 `json:"ratio_to_funet,omitempty"` // P50 by funet's

	// RoundRatio is the median of the ratios of each round. The runs of a round follow each other
	// closely, so it says more than Ratio on a machine whose speed changes between rounds. It is
	// nil when either failed in a round.
	RoundRatio *float64 `json:"median_round_ratio_to_funet,omitempty"`

	// Figures of each round, in their order; failed rounds are left out.
	RoundsP50 []float64 `json:"rounds_p50_us,omitempty"`
	RoundsP99 []float64 `json:"rounds_p99_us,omitempty"`

	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"` // the last failure
}

func newReport(o Options) *Report {
	return &Report{Rounds: o.Rounds, FrameBytes: o.FrameSize, Peers: map[string]*Peer{}}
}

// entry makes the entry of a peer.
func (r *Report) entry(p *peer) *Peer {
	e := &Peer{Note: p.note}
	r.Peers[p.key] = e
	return e
}

func (e *Peer) add(s Sample) {
	e.RoundsP50 = append(e.RoundsP50, nanos(s.P50))
	if s.P99 > 0 {
		e.RoundsP99 = append(e.RoundsP99, nanos(s.P99))
	}
}

// fail enters err as a failure, unless it is nil.
func (e *Peer) fail(err error) {
	if err != nil {
		e.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
}

// finish computes medians and ratios.
func (r *Report) finish(s *session) *Report {
	r.XDPMode, r.BindMode = s.got.Attach.String(), s.got.Bind.String()
	for _, e := range r.Peers {
		e.P50, e.P99 = median(e.RoundsP50), median(e.RoundsP99)
	}
	funet := r.Peers[funetKey]
	for _, e := range r.Peers {
		if funet != nil && funet.P50 != nil && e.P50 != nil {
			ratio := nanos(*e.P50 / *funet.P50)
			e.Ratio = &ratio
			e.RoundRatio = median(byRound(e.RoundsP50, funet.RoundsP50))
		}
	}
	return r
}

// median returns the median of the values, nil without values. For an even number it is the mean of
// the two in the middle.
func median(values []float64) *float64 {
	n := len(values)
	if n == 0 {
		return nil
	}
	v := slices.Sorted(slices.Values(values))
	m := nanos((v[(n-1)/2] + v[n/2]) / 2)
	return &m
}

// nanos rounds to three digits after the point; for microseconds, that is to a nanosecond.
func nanos(us float64) float64 { return math.Round(us*1000) / 1000 }

// WriteTable prints the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "round trip of %d bytes, medians of %d rounds; raw_afxdp: frames of %d bytes, XDP %s, %s\n",
		PayloadBytes, r.Rounds, r.FrameBytes, r.XDPMode, r.BindMode)
	fmt.Fprintf(&b, "%-14s %9s %9s %9s %9s  %s\n", "peer", "p50 us", "p99 us", "x funet", "by round", "note")
	for _, key := range Keys() {
		e := r.Peers[key]
		if e == nil {
			continue
		}
		var notes []string
		if !e.Present {
			notes = append(notes, "absent")
		}
		if e.Note != "" {
			notes = append(notes, e.Note)
		}
		if e.Error != "" {
			notes = append(notes, "error: "+e.Error)
		}
		line := fmt.Sprintf("%-14s %9s %9s %9s %9s  %s", key, figure(e.P50), figure(e.P99), figure(e.Ratio),
			figure(e.RoundRatio), strings.Join(notes, "; "))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// figure writes a number with two digits after the point.
func figure(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}
