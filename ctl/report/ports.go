package report

// This file describes direct ports, and the notices of daemons about their processes.

import "github.com/funet/funet/bpf"

// NoticeCounters counts notices between daemons since the start.
type NoticeCounters struct {
	Sent     uint64 `json:"told"`
	Returned uint64 `json:"returned"` // of those sent: came back
	Heard    uint64 `json:"heard"`
	Strange  uint64 `json:"strange"` // of those heard: about jobs that are not here, or no longer
	Late     uint64 `json:"late"`    // of those heard: older than what was known
	// Refused counts those heard that are malformed, or that the sender has no right to send.
	Refused uint64 `json:"refused"`
	// Unheard counts notices lost for lack of room or time, to send, to take or to tell, and those
	// not sent because the host is silent.
	Unheard  uint64 `json:"unheard"`
	Doubtful uint64 `json:"doubtful"` // questions of processes of this host
}

// PortStatus is a direct port in the status.
type PortStatus struct {
	GID   uint16 `json:"gid"`
	Node  uint16 `json:"node"`
	UID   uint32 `json:"uid"`
	PID   int32  `json:"pid"`
	Bytes int64  `json:"bytes"`
	// Shared counts the nodes of this host with which it exchanges frames through memory.
	Shared int               `json:"shared_with,omitempty"`
	Frames *bpf.PortCounters `json:"frames,omitempty"` // that its process sent
}

// DirectStatus is what the direct ports of all users have in common.
type DirectStatus struct {
	Ports int `json:"ports"`
	// Kept counts ports that have ended, and whose socket a process still has.
	Kept   int              `json:"kept"`
	Frames bpf.PortCounters `json:"frames"` // of all ports, ended ones included
	// Orphaned counts ports of the previous daemon that no process has asked for yet; they end
	// after a time.
	Orphaned int `json:"orphaned"`
}
