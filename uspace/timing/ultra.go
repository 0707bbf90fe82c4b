package timing

// This file has the times of an ULTRA packet (Froening's thesis, sections 3.5 and 4.4.3).

import "time"

// Ultra holds the times of the parts that an ULTRA packet passes one after the other. No two
// packets are in a part at the same time, except on the path. The zero value takes no time.
type Ultra struct {
	Inject    time.Duration // the burst into the requester port, from tag to control word
	Requester time.Duration // from the control word to the packet's head on the network
	Path      time.Duration // crossbars and cabling
	Completer time.Duration // from the packet's arrival to the request for the bus
	Store     time.Duration // the burst into the slice in memory, whose last word is the status
}

// Total returns the time from the beginning of the burst until a process that polls the slice can
// see its status word.
func (u Ultra) Total() time.Duration { return u.Inject + u.Requester + u.Path + u.Completer + u.Store }
