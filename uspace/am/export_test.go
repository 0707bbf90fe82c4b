package am

// This file shows tests what the library keeps for messages.

// MemoryInUse returns how many bytes of memory for messages that arrive are in use, but for leases.
func MemoryInUse(e *Endpoint) int {
	l := e.bytes.landing
	used := l.longest
	for _, f := range l.free {
		used -= f.size
	}
	return used
}

// View returns the digest of all nodes' lives that a node with Rejoin has.
func View(e *Endpoint) uint64 { return e.member.view }
