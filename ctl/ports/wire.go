package ports

// This file is the protocol between funid and its helper. A request and its answer are JSON, one
// packet each, with descriptors beside them (SCM_RIGHTS, unix(7)).
//
// A new release of funid may find a helper of the previous release, which has outlived its funid.
// So each side ignores fields that it does not know, and speaks Version and the one before. The
// first request states the version of funid, and the answer the lower one of the two; both keep to
// that (version_test.go). Requests that are new in a version are marked below. Funid does without
// them if the helper has the previous version.

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

// The requests, with their fields and what the answer has.
const (
	opSwitch    = "switch"     // Version; the maps for the NIC program: bpf.SharedMaps descriptors
	opAddJob    = "add_job"    // Job, Nodes
	opRemoveJob = "remove_job" // Job
	// Job, Node and those behind it: At, each an index into Places; -1: nowhere
	opPlace = "place"
	// Job, Node, Account, Geometry, MTU, Generic, Ticket, with the memory; the answer has the
	// socket and ID
	opMake     = "make"
	opEnd      = "end"      // ID; Forget: funid will not ask whether it is gone
	opGone     = "gone"     // ID, of a port that has ended; the answer says whether it is
	opCounters = "counters" // ID
	// From, Version; the answer has the Version and the Lineage, and jobs and ports, beginning at
	// place From of the list, as many as fit
	opHeld = "held"
	// Index, with the link of the NIC program there, which stays when funid has ended
	opKeep    = "keep"
	opKept    = "kept"    // Index; the answer has that link
	opRelease = "release" // Index: the link is not kept any more
	opQuit    = "quit"    // the helper lets go of all links and ends, if there is no port
	opAlive   = "alive"   // ID; the answer says Gone if no process has its socket
	opTotals  = "totals"  // from version 2 on: the answer has the Totals
	// ID and With, with Bytes of memory that their processes share until one of the ports ends
	opShare  = "share"
	opShared = "shared" // ID and With; the answer has that memory
	// from version 2 on: Snap; the answer has bpf.CaptureMaps descriptors. 0: the capture ends, as
	// it does with the connection
	opCapture = "capture"
)

// placesAtOnce is the largest number of nodes in a request of opPlace: it fits a packet.
const placesAtOnce = 4096

// Version is the version of the protocol, and leastVersion the one before, which both sides speak
// as well. A request without a version is of version 1.
const (
	Version      = 2
	leastVersion = Version - 1
	totalsSince  = 2
	waysSince    = 2 // bpf.Way, and request.Generic
	mapsSince    = 2 // the layout of the switch's maps
	captureSince = 2
	bundlesSince = 2 // bpf.Place.Bundles
)

// common returns the version that this program has in common with a peer of version theirs. An
// older peer is told leastVersion, and refuses.
func common(theirs int) int { return min(max(theirs, leastVersion), Version) }

// heldAtOnce is the largest number of jobs and ports in an answer: it fits a packet.
const heldAtOnce = 64

// Job is a job that the switch has.
type Job struct {
	Job   bpf.Job `json:"job"`
	Nodes int     `json:"nodes"`
}

// Held is a port that a helper holds for the next funid.
type Held struct {
	ID     uint32        `json:"id"`
	Of     bpf.Port      `json:"of"`
	Ticket attach.Ticket `json:"ticket"`
	Bytes  int64         `json:"bytes"`            // of its memory
	Shared []uint32      `json:"shared,omitempty"` // IDs of ports that it shares memory with
}

// Totals is the totals of all ports of a host.
type Totals struct {
	Ports int `json:"ports"`
	// Kept counts ports that have ended, and whose socket a process still has.
	Kept   int              `json:"kept"`
	Frames bpf.PortCounters `json:"frames"` // of all ports, ended ones included
	// Spent is processor time of the helper for the answer, which grows with the number of ports.
	Spent time.Duration `json:"-"`
}

// place is a bpf.Place. In version 1 it has MAC and Own instead of bpf.Way: the addresses of frames
// there, which have neither a tag nor datagrams.
type place struct {
	bpf.Place
	MAC, Own *[6]byte `json:",omitempty"`
}

// in converts the place to a version. It returns false if that version has no such place.
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

// to and own return the addresses in a way's Ethernet header.
func (p *place) to() *[6]byte  { return (*[6]byte)(append(p.Head, make([]byte, 6)...)[:6]) }
func (p *place) own() *[6]byte { return (*[6]byte)(append(p.Head, make([]byte, 12)...)[6:12]) }

// read returns the place, converted from the version in which it came.
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
	Ticket   attach.Ticket `json:"ticket,omitzero"`
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
	// Lineage is that of the helper's ports; 0: no other helper can take them over.
	Lineage uint64  `json:"lineage,omitempty"`
	Totals  *Totals `json:"totals,omitempty"`
	SpentNs int64   `json:"spent_ns"` // processor time of the request
}

// fail records why a request was not carried out.
func (a *answer) fail(err error) {
	if err != nil {
		a.Error, a.Full = err.Error(), errors.Is(err, ErrFull)
	}
}

type refusal struct {
	text string
	full bool
}

func (r *refusal) Error() string        { return r.text }
func (r *refusal) Is(target error) bool { return r.full && target == ErrFull }

func (a *answer) err() error {
	if a.Error == "" {
		return nil
	}
	return &refusal{a.Error, a.Full}
}

func send(c *net.UnixConn, v any, descriptors ...int) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return attach.Send(c, text, descriptors...)
}

// receive reads the next message, with at most the given number of descriptors. The caller owns
// these.
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
