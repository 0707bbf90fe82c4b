package funi

// This file is the register page: which word is which register, which bit of CNTL is
// which, and the atomic loads and stores on them.

import (
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
)

// Register numbers the sixteen registers of thesis 3.1.2.
type Register uint8

// The registers. RPSQ is the reply send queue, RQSQ the request send queue, RPRQ
// and RQRQ the receive queues.
const (
	QMask    Register = iota // slots per queue minus one; process
	RPSQBase                 // offset of the queue in queue memory, in bytes; process
	RQSQBase
	RPRQBase
	RQRQBase
	RPSQHead // next free slot; process
	RPSQTail // next slot to retrieve; card
	RQSQHead
	RQSQTail
	RPRQHead // next free slot; card
	RPRQTail // next slot to receive; process
	RQRQHead
	RQRQTail
	Control        // modes by the process, status by the card
	GID            // group; card
	Ticket         // bit i set: line i of the undelivered packet cache is free; card
	Registers = 16 // how many there are
)

const (
	PageSize      = 4096 // the size of the register page in bytes
	whyLength     = 256  // the size of the text that says why a context ended, in bytes
	registerWords = 16   // the distance of two registers: one cache line

	returnHead  = 0x400 / 4
	returnTail  = 0x440 / 4
	lostSeen    = 0x444 / 4
	returnsLost = 0x480 / 4
	lostTo      = 0x6c0 / 4
	returnRing  = 0x800 / 4

	asleepWord  = 0x4c0 / 4
	faultWord   = 0x4c8 / 4
	versionWord = 0x4d0 / 4
	wakeWord    = 0x4d8 / 4
	goneWord    = 0x4e0 / 4
	leaveWord   = 0x4e8 / 4
	looksWord   = 0x4f0 / 4
	whyWord     = 0x500 / 4
	whyWords    = whyLength / 4
	returnWords = 32 / 4
	ReturnSlots = 64 // how many returned packets the ring holds
	// LostNodes is how many words of the page say for which nodes returns were lost. Nodes whose
	// numbers are the same modulo LostNodes share one (Lost).
	LostNodes = 64
)

// The bits of CNTL (thesis 3.1.2; the numbers are those of its table, the
// descriptions below it count from one).
const (
	MERR       = 1 << iota // memory error; the owner clears it
	RESET                  // reset mode; owner
	CTXM                   // context-switch mode; owner
	CTXR1                  // nothing outstanding: GID and TICKET may change; card
	CTXR1Prime             // retrieval and dispatch have halted; card
	CTXR2                  // the receive FIFOs are empty: the receive queues may change; card
	DRAIN                  // transfers go to the receive queue; owner
	CRQM                   // change-receive-queue mode; process
	CRQR                   // the receive queues may change; card
	CSQM                   // change-send-queue mode; process
	CSQR                   // the send queues may change; card

	// UserModes are the bits that the process writes, PrivilegedModes those that
	// only the owner does. The rest is status.
	UserModes       = CRQM | CSQM
	PrivilegedModes = MERR | RESET | CTXM | DRAIN
)

// Page is the register page of a context. It must be 64-byte aligned for its registers to have
// cache lines of their own, and is correct at any 4-byte alignment.
type Page [PageSize / 4]uint32

// Load returns the value of a register.
func (p *Page) Load(r Register) uint32 {
	return atomic.LoadUint32(&p[int(r&(Registers-1))*registerWords])
}

// Store sets the value of a register.
func (p *Page) Store(r Register, v uint32) {
	atomic.StoreUint32(&p[int(r&(Registers-1))*registerWords], v)
}

// Version returns the version of the ABI that the card speaks, or 0 if no card has been here.
func (p *Page) Version() uint32 { return atomic.LoadUint32(&p[versionWord]) }

// Fault returns why MERR was last set.
func (p *Page) Fault() arctic.Reason { return arctic.Reason(atomic.LoadUint32(&p[faultWord])) }

// The registers of each level.
var (
	sendBase    = [arctic.Levels]Register{RQSQBase, RPSQBase}
	sendTail    = [arctic.Levels]Register{RQSQTail, RPSQTail}
	receiveBase = [arctic.Levels]Register{RQRQBase, RPRQBase}
	receiveHead = [arctic.Levels]Register{RQRQHead, RPRQHead}
)
