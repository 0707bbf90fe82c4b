package paper

// This file computes a remote write on the testbed from its parts.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/hwprofiles"
)

// errParts reports a profile without the parts of a write.
var errParts = errors.New("the profile has not the bus and the link of the Tokyo network interface; use tokyo or tokyo-text, or virt-ni or ultra")

const (
	// doublet is the number of bytes that the transceiver sends in a clock, and codeBits the number
	// of their bits on the fibre (8B10B, section 4.2).
	doublet  = 2
	codeBits = 20
	word     = 4
)

// tokyo is the machine. Times are in nanoseconds.
type tokyo struct {
	p *hwprofiles.Profile
	// start is the time of a transaction of one word, and next that of each further word.
	start, next float64
	burst       int // words of the longest transaction
	clock       float64
	// of the link: from the first doublet's entry into the encoder to its exit from the decoder
	latency float64
	perByte float64 // of the link
	decodes bool    // the latency includes the decoder's
}

// newTokyo returns errParts for a profile of another machine.
func newTokyo(p *hwprofiles.Profile) (*tokyo, error) {
	m := &tokyo{p: p}
	if p.Bus.Clock == 0 || p.Network.Clock == 0 || len(p.Bus.Bursts) == 0 {
		return nil, fmt.Errorf("profile %s: %w", p.Name, errParts)
	}
	m.burst = p.Bus.Bursts[len(p.Bus.Bursts)-1]
	cycle := 1e6 / float64(p.Bus.Clock)
	m.start = cycle * float64(p.Bus.TransactionCycles+p.Bus.WordCycles) / float64(hwprofiles.Cycle)
	m.next = cycle * float64(p.Bus.WordCycles) / float64(hwprofiles.Cycle)
	m.clock = 1e6 / float64(p.Network.Clock)
	found := false
	for _, s := range p.Steps {
		if s.Of != "link" {
			continue
		}
		found = true
		unit := 1.0
		switch s.Unit {
		case "network_cycles":
			unit = m.clock
		case "ns":
		default:
			return nil, fmt.Errorf("profile %s: step %q of the link is in %s: %w", p.Name, s.Name, s.Unit, errParts)
		}
		m.latency += unit * share(s.Base)
		m.decodes = m.decodes || s.Side == "receiver" && s.Base != 0
		m.perByte += unit * share(s.DataByte)
	}
	if !found || m.perByte == 0 {
		return nil, fmt.Errorf("profile %s: %w", p.Name, errParts)
	}
	return m, nil
}

// access returns the time of a transaction of the given bytes, at most the longest transaction.
func (m *tokyo) access(bytes int) float64 { return m.start + m.next*float64((bytes+word-1)/word-1) }

// bus returns the time of the given bytes over one of the buses, in transactions one after the
// other.
func (m *tokyo) bus(bytes int) (t float64) {
	for most := m.burst * word; bytes > 0; bytes -= most {
		t += m.access(min(bytes, most))
	}
	return t
}

func (m *tokyo) serialise(bytes int) float64 { return m.perByte * float64(bytes) }

// stored returns the time of a write that each part stores whole before it passes it on.
func (m *tokyo) stored(bytes int) float64 {
	return m.bus(bytes) + m.latency + m.serialise(bytes) + m.bus(bytes)
}

// cutThrough returns the time of a write whose bursts follow each other through the parts. The
// first burst passes all parts, and each further one adds the time of the slowest part.
func (m *tokyo) cutThrough(bytes int) float64 {
	first := min(bytes, m.burst*word)
	t := m.stored(first)
	for left := bytes - first; left > 0; left -= first {
		part := min(left, first)
		t += max(m.bus(part), m.serialise(part))
	}
	return t
}
