package machine

// This file takes the times of ULTRA from a profile.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/timing"
)

// ErrUltra reports a profile without ULTRA.
var ErrUltra = errors.New("it has no ULTRA; use one that has, such as ultra")

// Ultra returns the times of an ULTRA packet on the machine of a profile. Without times of whole
// accesses a burst is a transaction of a line over the bus. Errors: ErrUltra.
func Ultra(p *hwprofiles.Profile) (timing.Ultra, error) {
	u := &p.Ultra
	if u.Clock == 0 {
		return timing.Ultra{}, fmt.Errorf("profile %s: %w", p.Name, ErrUltra)
	}
	t := timing.Ultra{Inject: p.IO.BurstWrite, Requester: u.Clock.Duration(u.RequesterCycles), Path: u.Path,
		Completer: u.Clock.Duration(u.CompleterCycles), Store: p.IO.MemoryWrite}
	if p.IO == (hwprofiles.IO{}) {
		t.Inject = p.Bus.Transaction(u.LineBytes / 4)
		t.Store = t.Inject
	}
	return t, nil
}
