package report

// This file is the daemon's status.

import (
	"fmt"
	"strconv"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/port/paths"
)

// Faults counts the misses and refused accesses that the card has reported about processes of a job
// on this host, since the job was made.
type Faults struct {
	engine.Faults
	// Suspended counts suspensions by this daemon. It includes windows that were left alone for
	// lack of notifications.
	Suspended uint64 `json:"windows_suspended"`
}

// Status is the JSON of an answer to KindStatus.
type Status struct {
	attach.Info
	Polling     string          `json:"polling"`
	Priority    string          `json:"priority"` // of the card's thread, in words
	Stopping    bool            `json:"stopping"`
	Connections int             `json:"connections"` // this one included
	Jobs        []JobCounted    `json:"jobs"`
	Contexts    []ContextStatus `json:"contexts"`
	Ports       []PortStatus    `json:"ports,omitempty"` // direct ones
	// Direct has the totals of all users; nil: there are no direct ports, or the helper does not
	// say.
	Direct *DirectStatus `json:"direct,omitempty"`
	// LeftOut counts jobs and contexts for which the answer has no room.
	LeftOut int `json:"left_out"`
	// Bytes is the size of the memory that processes share with the card.
	Bytes int64 `json:"bytes"`
	// Memory is the kind of that memory, and MemoryWhy says why it is not the best kind.
	// MemoryLocked says that all of it is locked, and MemoryFaults counts the contexts that ended
	// because memory failed or had holes.
	Memory       string `json:"memory"`
	MemoryWhy    string `json:"memory_why,omitempty"`
	MemoryLocked bool   `json:"memory_locked"`
	MemoryFaults uint64 `json:"memory_faults"`
	// Panics counts mistakes of the daemon that ended only a context or a connection; the log has
	// them.
	Panics   uint64           `json:"panics"`
	Counters *engine.Counters `json:"counters,omitempty"`
	// RefusedAccesses says how the daemon handles refused accesses to windows, in the
	// configuration's words.
	RefusedAccesses string       `json:"refused_accesses"`
	Peers           *Peers       `json:"peers,omitempty"`
	Links           []LinkStatus `json:"links"` // the interfaces
	// Encap says how frames travel. With UDP datagrams Paths counts the peers to which there is a
	// way. Missing lists peers without a way, or about which a router has complained, as many as
	// there is room for.
	Encap   string        `json:"encap"`
	Paths   int           `json:"paths,omitempty"`
	Missing []paths.State `json:"missing_paths,omitempty"`
	Hello   HelloStatus   `json:"hello"`
	// Turns says how groups take turns; nil: all of them are on the card at once, and the host does
	// not say when others take theirs.
	Turns *TurnsStatus `json:"turns,omitempty"`
	// Notices counts notices between this daemon and others about processes with direct ports; nil:
	// there are no direct ports.
	Notices *NoticeCounters `json:"notices,omitempty"`
	// Keys are those that this host shares with others. KeysLeftOut counts those that had no room.
	Keys        []KeyStatus  `json:"keys"`
	KeysLeftOut int          `json:"keys_left_out,omitempty"`
	Table       *TableStatus `json:"table,omitempty"` // nil: the cluster has none in etcd
}

// TableStatus is the cluster's table in etcd, as this host sees it.
type TableStatus struct {
	Name    string  `json:"name"`
	Answers bool    `json:"answers"`       // etcd does, and this host has its number
	Since   float64 `json:"since_seconds"` // how long that has been so
	Why     string  `json:"why,omitempty"` // it does not answer
	Hosts   int     `json:"hosts"`         // this one included
	// Lost are the first GIDs of jobs here that other jobs have taken.
	Lost []uint16 `json:"lost"`
}

// TurnsStatus says how groups take turns on the card.
type TurnsStatus struct {
	Room int `json:"room_groups"` // groups on the card at once; 0: all
	// Together says that the configuration wants turns at the same time on all hosts. The other
	// fields are set only then.
	Together bool `json:"together"`
	// Card is the first card that has the time which counts. Coordinated says that this host has
	// that time, and Apart by how much its own is behind.
	Card        uint16  `json:"card"`
	Coordinated bool    `json:"coordinated"`
	Apart       float64 `json:"apart_us"`
}

// String describes the turns in a line.
func (t *TurnsStatus) String() string {
	room := "all groups are on the card at once"
	if t.Room > 0 {
		room = fmt.Sprintf("groups take turns on the card, %d at once", t.Room)
	}
	switch {
	case !t.Together:
		return room + ", on this host alone"
	case !t.Coordinated:
		return fmt.Sprintf("%s, not yet coordinated by card %d", room, t.Card)
	}
	return fmt.Sprintf("%s, coordinated by card %d (%.0f us apart)", room, t.Card, t.Apart)
}

// JobStatus is a job.
type JobStatus struct {
	GID      uint16 `json:"gid"`
	UID      uint32 `json:"uid"`
	PID      int32  `json:"pid"` // of the process that made it
	Nodes    int    `json:"nodes"`
	Attached int    `json:"attached"` // on this card
	// Absent are the first mostAbsent nodes on this card that have not attached since the job was
	// made.
	Absent []uint16 `json:"absent,omitempty"`
	Direct bool     `json:"direct,omitempty"` // its nodes have direct ports
}

// JobCounted is a job with the traffic of its processes on this card since it was made, ended ones
// included.
type JobCounted struct {
	JobStatus
	Traffic engine.Traffic `json:"traffic"`
	// Faults counts for its processes on this card, ended ones included.
	Faults Faults `json:"faults"`
}

// ContextStatus is a context.
type ContextStatus struct {
	Context  uint32 `json:"context"`
	GID      uint16 `json:"gid"`
	Node     uint16 `json:"node"`
	UID      uint32 `json:"uid"`
	PID      int32  `json:"pid"`
	Slots    int    `json:"slots"`
	Segments int    `json:"segments"`
	Bytes    int64  `json:"bytes"`
	Active   bool   `json:"active"` // on the card, not switched out
	// Remote is its remote memory; nil: it has not asked for any.
	Remote *engine.RemoteUse `json:"remote,omitempty"`
	// Contexts is how many contexts a row has, which are the nodes from Node on; 0: it is no row.
	// Context is then the number of the first, and Segments, Bytes and Remote are those of all.
	Contexts int `json:"contexts,omitempty"`
}

// Nodes names the nodes of the context, or of all contexts of the row.
func (x *ContextStatus) Nodes() string {
	if x.Contexts == 0 {
		return strconv.Itoa(int(x.Node))
	}
	return fmt.Sprintf("%d-%d", x.Node, int(x.Node)+x.Contexts-1)
}
