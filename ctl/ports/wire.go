package ports

// This file is what funid and its helper say to each other: a request in JSON and its answer, one
// packet each, with descriptors beside them (SCM_RIGHTS, unix(7)). A funid of another release may
// find a helper that outlived the one before. Fields that one does not know it leaves out. Each
// speaks Version and the one before: the first request says the version of funid, the answer the
// lower one of the two, and both keep to that (version_test.go). A request that is new in a version
// says so below; funid does without it where the helper has the one before.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port"
)

// The requests.
const (
	opSwitch    = "switch"     // Version; the maps for the NIC program: bpf.SharedMaps descriptors
	opAddJob    = "add_job"    // Job, Nodes
	opRemoveJob = "remove_job" // Job
	// Job, Node and those behind it: At, each an index into Places; -1: nowhere
	opPlace = "place"
	// Job, Node, Account, Geometry, MTU, Generic, Ticket, with the memory; the answer has the
	// socket and ID
	opMake     = "make"
	opEnd      = "end"      // ID; Forget: nobody will ask whether it is gone
	opGone     = "gone"     // ID, of a port that has ended; the answer says whether it is
	opCounters = "counters" // ID
	// From, Version; the answer has the Version and the Lineage, and the jobs and ports that are
	// there from that place on, as many as fit
	opHeld = "held"
	// Index, with the link of the NIC program there, which goes on when funid has ended
	opKeep    = "keep"
	opKept    = "kept"    // Index; the answer has that link
	opRelease = "release" // Index: the link is not kept any more
	opQuit    = "quit"    // the helper lets go of all links and ends, if there is no port
	opAlive   = "alive"   // ID; the answer says Gone where nobody has its socket
	opTotals  = "totals"  // from version 2 on: the answer has the Totals
	// ID and With, with Bytes of memory that their processes share until one of the two ends
	opShare  = "share"
	opShared = "shared" // ID and With; the answer has that memory
	// from version 2 on: Snap; the answer has bpf.CaptureMaps descriptors. 0: the capture ends, as
	// it does with the connection
	opCapture = "capture"
)

// placesAtOnce is how many nodes a request of opPlace has at the most: it fits a packet.
const placesAtOnce = 4096

// Version is of what they say, and leastVersion the one before, which both speak as well. A request
// without a version is of version 1.
const (
	Version      = 2
	leastVersion = Version - 1
	totalsSince  = 2
	waysSince    = 2 // bpf.Way, and request.Generic
	mapsSince    = 2 // the layout of the switch's maps
	captureSince = 2
)

// common is the version that one of a version has in common with this program; one that is older
// hears the least, and refuses.
func common(theirs int) int { return min(max(theirs, leastVersion), Version) }

// heldAtOnce is how many jobs and ports an answer has at the most: it fits a packet.
const heldAtOnce = 64

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
	// Shared are the IDs of the ports that it shares memory with.
	Shared []uint32 `json:"shared,omitempty"`
}

// Totals is what all ports of a host have in common.
type Totals struct {
	Ports int `json:"ports"`
	// those that have ended, and whose socket a process still has
	Kept   int              `json:"kept"`
	Frames bpf.PortCounters `json:"frames"` // of all ports, those that have ended as well
	// processor time of the helper for the answer, which is the longer the more ports there are
	Spent time.Duration `json:"-"`
}

// place is a bpf.Place, and in version 1 how frames go there without a tag or datagrams, instead of
// bpf.Way.
type place struct {
	bpf.Place
	MAC, Own *[6]byte `json:",omitempty"`
}

// in makes it that of a version: false if that has no such place.
func (p *place) in(version int) bool {
	if version >= waysSince {
		return true
	}
	plain := bpf.EthernetWay(*p.to(), *p.own(), 0)
	if !bytes.Equal(plain.Head, p.Head) {
		return false
	}
	p.MAC, p.Own = p.to(), p.own()
	return true
}

// to and own are the addresses of a way's Ethernet header.
func (p *place) to() *[6]byte  { return (*[6]byte)(append(p.Head, make([]byte, 6)...)[:6]) }
func (p *place) own() *[6]byte { return (*[6]byte)(append(p.Head, make([]byte, 12)...)[6:12]) }

// read is the place in whatever version it came.
func (p *place) read() *bpf.Place {
	if p.MAC != nil && p.Own != nil {
		p.Way = bpf.EthernetWay(*p.MAC, *p.Own, 0)
	}
	return &p.Place
}

type request struct {
	Op       string        `json:"op"`
	Job      bpf.Job       `json:"job"`
	Nodes    int           `json:"nodes,omitempty"`
	Node     uint16        `json:"node"`
	Account  uint32        `json:"account,omitempty"`
	At       []int         `json:"at,omitempty"`
	Places   []place       `json:"places,omitempty"`
	Geometry port.Geometry `json:"geometry"`
	MTU      int           `json:"mtu,omitempty"`
	Generic  bool          `json:"generic,omitempty"`
	ID       uint32        `json:"id,omitempty"`
	Ticket   Ticket        `json:"ticket,omitzero"`
	Index    int           `json:"index,omitempty"`
	From     int           `json:"from,omitempty"`
	Version  int           `json:"version,omitempty"`
	With     uint32        `json:"with,omitempty"`
	Bytes    int64         `json:"bytes,omitempty"`
	Snap     int           `json:"snap,omitempty"`
	Forget   bool          `json:"forget,omitempty"`
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
	Lineage  uint64           `json:"lineage,omitempty"` // 0: what the helper has ends with it
	Totals   *Totals          `json:"totals,omitempty"`
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
