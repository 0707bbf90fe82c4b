package launch

// This file chooses whose cards the processes of a job have.

import (
	"fmt"

	"github.com/funet/funet/uspace/attach"
)

// Cards says whose cards the processes have.
type Cards int

const (
	// DaemonCards: contexts on the cards of the daemons.
	DaemonCards Cards = iota
	// DirectCards: each a card of its own, on a direct port.
	DirectCards
	// AutoCards: DirectCards where all hosts have proven direct ports, their cards have no profile,
	// and no pair of them has keys of its own; else DaemonCards. Programs that attach without the
	// library (funi.h) have contexts only, and nobody knows of them before.
	AutoCards
)

// native is the profile without limits (package hwprofiles), which cards of processes have.
const native = "native"

// choice is what was chosen.
type choice struct {
	direct bool
	why    string // it is not direct
	wanted bool   // a host has direct ports, or was to have some
}

// String says it in a line.
func (c choice) String() string {
	if c.direct {
		return "the processes have direct ports: all hosts have proven them, and the job needs nothing else"
	}
	return "the processes have contexts on the daemons' cards, and no direct ports: " + c.why
}

// choose chooses by what the hosts say of themselves. With AutoCards a host may yet refuse a job of
// direct ports: attach.ErrNoPort.
func choose(which Cards, hosts []host, infos []attach.Info) (c choice) {
	c.direct = which != DaemonCards
	if which != AutoCards {
		return c
	}
	for i, h := range hosts {
		at := &infos[i].Carriage
		c.wanted = c.wanted || at.Configured == attach.CarriageDirect || at.Configured == attach.CarriageAuto
		why := ""
		switch {
		case at.Chosen != attach.CarriageDirect && at.Why != "":
			why = fmt.Sprintf("%v has none: %s", h, at.Why)
		case at.Chosen != attach.CarriageDirect:
			why = fmt.Sprintf("%v is not configured for them (carriage)", h)
		case infos[i].Profile != native:
			why = fmt.Sprintf("the card of %v has profile %s", h, infos[i].Profile)
		}
		if why != "" && c.why == "" {
			c.direct, c.why = false, why
		}
	}
	return c
}
