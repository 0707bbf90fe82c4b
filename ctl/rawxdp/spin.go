package rawxdp

import (
	"fmt"
	"time"
)

const (
	// Patience is the time that an end spins for a message before it gives up. The other end may
	// have lost its CPU for a while, but a frame may also be lost.
	Patience = 5 * time.Second
	// Spins is the number of looks for a message between two looks at the clock; a power of two.
	Spins = 1024
)

// ErrNoMessage reports that no message arrived within Patience.
var ErrNoMessage = fmt.Errorf("no message within %v; is the other end alive, or was one lost", Patience)

// Spin bounds a spin: it looks at the clock at every Spins-th look.
type Spin struct {
	Looks int
	until time.Time
}

// More reports whether to look again.
func (s *Spin) More() bool {
	if s.Looks++; s.Looks&(Spins-1) != 0 {
		return true
	}
	now := time.Now()
	if s.until.IsZero() {
		s.until = now.Add(Patience)
	}
	return now.Before(s.until)
}
