package report

// This file describes the interfaces.

import "time"

// LinkState is the state of an interface, as a word in the status and the metrics.
type LinkState string

// The states. Jobs that need an interface go on in the first three, as far as the peers' time-outs
// allow, and end in the others.
const (
	LinkUp        LinkState = "up"
	LinkNoCarrier LinkState = "no carrier"
	LinkDown      LinkState = "down"
	LinkGone      LinkState = "gone"     // or another interface has its name
	LinkMTU       LinkState = "MTU"      // the MTU is smaller than FUNet needs
	LinkUnusable  LinkState = "unusable" // it could not be opened again
)

// LinkStates lists the states.
var LinkStates = []LinkState{LinkUp, LinkNoCarrier, LinkDown, LinkGone, LinkMTU, LinkUnusable}

// Carries reports whether jobs that need the interface go on.
func (s LinkState) Carries() bool { return s == LinkUp || s == LinkNoCarrier || s == LinkDown }

// LinkStatus is an interface in the status.
type LinkStatus struct {
	Interface string `json:"interface"` // its present name
	// Configured is its name in the configuration, if that differs.
	Configured string    `json:"configured,omitempty"`
	State      LinkState `json:"state"`
	Why        string    `json:"why,omitempty"` // the reason why it is not up, and the cure
	Since      time.Time `json:"since"`         // the state
	MTU        int       `json:"mtu"`
	XDPMode    string    `json:"xdp_mode"`
	BindMode   string    `json:"bind_mode"`
	XDPWhy     string    `json:"xdp_why,omitempty"` // the reason why the modes are no better
	Queues     int       `json:"queues"`
	// QueuesWhy says what is proven about the queues (afxdp.Describe).
	QueuesWhy string `json:"queues_why"`
	// Merged counts datagrams that the kernel merged, so that their frames were lost. That stops
	// when GRO of the interface below is off.
	Merged   uint64 `json:"merged_datagrams,omitempty"`
	Changes  uint64 `json:"changes"`  // of state
	Reopened uint64 `json:"reopened"` // times
	// Deferred counts frames that the NIC program answered, because their groups are absent here,
	// and Undeferred those that it dropped, because their senders had had enough answers.
	Deferred   uint64 `json:"deferred_frames"`
	Undeferred uint64 `json:"undeferred_frames"`
	// Hellos counts hellos that the NIC program dropped, because their sources had said many.
	Hellos uint64 `json:"dropped_hellos,omitempty"`
	// Direct counts the direct frames that came from other hosts; nil: no job has direct ports.
	Direct *DirectArrivals `json:"direct_frames,omitempty"`
}

// DirectArrivals counts direct frames on an interface by what became of them (bpf.Counters).
type DirectArrivals struct {
	Handed uint64 `json:"handed"` // to the port of the frame's node
	// Stranger counts frames dropped because they came from another host than that of the node they
	// claim to be from.
	Stranger uint64 `json:"stranger"`
	NoPort   uint64 `json:"no_port"` // dropped: the node has no port here
}
