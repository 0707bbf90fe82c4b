// Package port is the interface between a card and its network. Its folders hold the ports. afxdp
// is for real interfaces. paced wraps another port and makes it as slow as the links of a modelled
// network. shared wraps the port of a direct card: frames to nodes of the same host go through
// memory. hello wraps a port, too, which may go away and come back; through it cards find and ask
// each other. bundle wraps a port so that small frames for several stations leave in one. Tests
// have a port of their own: a network in memory that loses, repeats and reorders frames as a seed
// determines (tests/wire).
//
// The card does not know what a port does to a frame. Where afxdp sends UDP datagrams, package
// encap makes their headers, and package paths follows the kernel's routes to the peers.
//
// The journey of a frame out: the card calls Reserve, composes the frame in the
// buffer that it got, and Commit. Flush puts everything committed on the wire.
// In: Receive lends the card up to len(frames) received frames, which it reads
// and gives back with Release before it calls Receive again.
//
// A port belongs to the goroutine of its card. None of its methods blocks. A
// port that has failed behaves like a network that loses every frame; the owner
// of the port, not the card, asks it for its error.
package port

// Port is one network interface of a card.
type Port interface {
	// FrameSize returns the length in bytes of the longest frame that the port sends. The owner of
	// the port may reduce it, and restore it up to its first value.
	FrameSize() int
	// Receive puts received frames, oldest first, into frames and returns how
	// many. They start at the Ethernet header and are valid until Release.
	Receive(frames [][]byte) int
	Release() // returns the frames of the last Receive to the port
	// Reserve returns a buffer of FrameSize bytes for one frame, or nil while the
	// transmit ring is full. Reserving again without Commit returns the same buffer.
	Reserve() []byte
	Commit(n int) // queues the first n bytes of the reserved buffer for transmission
	// Flush starts the transmission of committed frames. Frames that the kernel did not take go
	// with the next Flush. Flush costs next to nothing when no frame waits.
	Flush()
}
