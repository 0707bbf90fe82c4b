package launch

// This file chooses the cards of a job's processes: the daemons', or each process's own.

import (
	"fmt"

	"github.com/funet/funet/uspace/attach"
)

// Cards says whose cards the processes of a job use.
type Cards int

const (
	DaemonCards Cards = iota // contexts on the cards of the daemons
	DirectCards              // each a card of its own, on a direct port
	// AutoCards: DirectCards where all hosts have proven direct ports, their cards have no profile,
	// and no pair of them has keys of its own; else DaemonCards. Programs that attach without the
	// library (funi.h) can only have contexts, but the launcher does not know that beforehand.
	AutoCards
)

// native is the profile without limits (package hwprofiles). Cards of processes have it.
const native = "native"

type choice struct {
	direct bool
	why    string // reason why it is not direct
	wanted bool   // a host has direct ports, or was configured to have them
}

func (c choice) String() string {
	if c.direct {
		return "the processes have direct ports: all hosts have proven them, and the job needs nothing else"
	}
	return "the processes have contexts on the daemons' cards, and no direct ports: " + c.why
}

// choose chooses by the infos of the hosts. With AutoCards a host may still refuse a job of direct
// ports (attach.ErrNoPort).
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
