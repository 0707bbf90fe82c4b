package ports

// This file is what funid and its helper say to each other: a request in JSON and its answer, one packet each, with descriptors beside them (SCM_RIGHTS,
// unix(7)). A funid of another release may find a helper that outlived the one before: fields that one does not know it leaves out, and what
// they cannot do without changes Version.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port"
)

// The requests.
const (
	opSwitch    = "switch"     // the maps for the NIC program: bpf.SharedMaps descriptors
	opAddJob    = "add_job"    // Job, Nodes
	opRemoveJob = "remove_job" // Job
	opPlace     = "place"      // Job, Node and those behind it: At, each an index into Places; -1: nowhere
	opMake      = "make"       // Job, Node, Geometry, MTU, Ticket, with the memory; the answer has the socket and ID
	opEnd       = "end"        // ID
	opGone      = "gone"       // ID, of a port that has ended; the answer says whether it is
	opCounters  = "counters"   // ID
	opHeld      = "held"       // From; the answer has the Version too, the answer has the jobs and ports that are there from that place on, as many as fit
	opKeep      = "keep"       // Index, with the link of the NIC program there, which goes on when funid has ended
	opKept      = "kept"       // Index; the answer has that link
	opRelease   = "release"    // Index: the link is not kept any more
	opQuit      = "quit"       // the helper lets go of all links and ends, if there is no port
	opAlive     = "alive"      // ID; the answer says Gone where nobody has its socket
)

// placesAtOnce is how many nodes a request of opPlace has at the most: it fits a packet.
const placesAtOnce = 4096

// Version is of what they say.
const Version = 1

// heldAtOnce is how many jobs and ports an answer has at the most: it fits a packet.
const heldAtOnce = 256

// Ticket is what a process shows that has a port, to the funid after the one that gave it.
type Ticket [16]byte

// Job is a job that the switch has.
type Job struct {
	Job   bpf.Job `json:"job"`
	Nodes int     `json:"nodes"`
}

// Held is a port that a helper has for the funid that is next.
type Held struct {
	ID     uint32   `json:"id"`
	Of     bpf.Port `json:"of"`
	Ticket Ticket   `json:"ticket"`
	Bytes  int64    `json:"bytes"` // of its memory
}

type request struct {
	Op       string        `json:"op"`
	Job      bpf.Job       `json:"job"`
	Nodes    int           `json:"nodes,omitempty"`
	Node     uint16        `json:"node"`
	At       []int         `json:"at,omitempty"`
	Places   []bpf.Place   `json:"places,omitempty"`
	Geometry port.Geometry `json:"geometry"`
	MTU      int           `json:"mtu,omitempty"`
	ID       uint32        `json:"id,omitempty"`
	Ticket   Ticket        `json:"ticket,omitzero"`
	Index    int           `json:"index,omitempty"`
	From     int           `json:"from,omitempty"`
}

type answer struct {
	Error    string           `json:"error,omitempty"`
	Full     bool             `json:"full,omitempty"` // the error is ErrFull
	ID       uint32           `json:"id,omitempty"`
	Gone     bool             `json:"gone,omitempty"`
	Counters bpf.PortCounters `json:"counters"`
	Jobs     []Job            `json:"jobs,omitempty"`
	Ports    []Held           `json:"ports,omitempty"`
	More     bool             `json:"more,omitempty"`
	Version  int              `json:"version,omitempty"`
	SpentNs  int64            `json:"spent_ns"` // processor time of the request
}

// fail notes why a request was not carried out.
func (a *answer) fail(err error) {
	if err != nil {
		a.Error, a.Full = err.Error(), errors.Is(err, ErrFull)
	}
}

// refusal is an error of the helper.
type refusal struct {
	text string
	full bool
}

func (r *refusal) Error() string        { return r.text }
func (r *refusal) Is(target error) bool { return r.full && target == ErrFull }

// err returns the error of an answer.
func (a *answer) err() error {
	if a.Error == "" {
		return nil
	}
	return &refusal{a.Error, a.Full}
}

// send sends a request or an answer.
func send(c *net.UnixConn, v any, descriptors ...int) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return attach.Send(c, text, descriptors...)
}

// receive takes the next one, with at most so many descriptors, which are the caller's.
func receive(c *net.UnixConn, buffer []byte, v any, descriptors int) ([]int, error) {
	text, got, err := attach.Receive(c, buffer, descriptors)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, v); err != nil {
		attach.CloseDescriptors(got)
		return nil, fmt.Errorf("reading what the helper or funid said: %w", err)
	}
	return got, nil
}
