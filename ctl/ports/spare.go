package ports

// This file keeps pairs whose ports are gone, for the next port of the same account. Making and
// deleting a pair costs the kernel some ten times as much as a port, and much of that cannot be
// charged to an account. A spare pair has its programs, but its guard knows of no port, so no frame
// passes. An account can have few spare pairs, for a short time. Pairs without an account
// (prove.go), and those of a previous helper, are deleted.

import (
	"slices"
	"time"

	"github.com/funet/funet/xdp"
)

const (
	mostSpares = 8                // how many pairs are kept for an account; more are deleted
	spareFor   = 10 * time.Second // how long a pair is kept
)

// spare is a pair that can be used for another port.
type spare struct {
	*Port
	since time.Time
}

// keepPair keeps the pair of a port that is gone, or has it deleted.
func (h *Host) keepPair(p *Port) {
	of := 0
	for _, s := range h.spares {
		if s.of.Account == p.of.Account {
			of++
		}
	}
	if p.of.Account == 0 || p.mtu == 0 || of >= mostSpares {
		h.remove(p)
		return
	}
	h.ports--
	h.spares = append(h.spares, spare{p, time.Now()})
}

// usePair finds a pair for a port; nil: there is none. It takes the oldest, whose socket the kernel
// has most likely let go of.
func (h *Host) usePair(account uint32, mtu int, mode xdp.AttachMode) *Port {
	for i, s := range h.spares {
		if s.of.Account == account && s.mtu == mtu && s.mode == mode {
			h.spares = slices.Delete(h.spares, i, i+1)
			h.ports, h.mode = h.ports+1, mode
			return s.Port
		}
	}
	return nil
}

// endSpares has pairs deleted that have waited for the given time.
func (h *Host) endSpares(long time.Duration) {
	for len(h.spares) > 0 && time.Since(h.spares[0].since) >= long {
		h.ports++ // remove counts it off again
		h.remove(h.spares[0].Port)
		h.spares = h.spares[1:]
	}
}
