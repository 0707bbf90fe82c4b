package hwprofiles

// This file is the type Profile: its fields and their units.

import "time"

// Profile describes the hardware whose times and limits a card is given. A field that is zero costs
// nothing or sets no limit. Load returns profiles that Check accepts; a program that makes or
// changes one calls Check again. A Profile may be read from many goroutines while none writes.
type Profile struct {
	Name  string // letters, digits and dashes, at most 32
	About string // one line, at most 200 bytes

	CPU     CPU
	Bus     Bus
	Card    Card
	Units   Units
	Network Network
	Library Library
	Options Options
	IO      IO
	Ultra   Ultra
	// Costs are measured costs of whole calls, in cycles of the CPU's clock. They are for a machine
	// that others are compared with and that has no model.
	Costs []Cost
	// Steps are the times that a paper gives for parts of its machine. Tables are computed from
	// them. If card and library have all of theirs, the machine runs by them (package machine).
	Steps []Step

	// Sources has the source of each figure, by its key in the file such as "cpu.clock_mhz";
	// "costs" is the whole table.
	Sources map[string]string
}

// CPU has the times that the processor of a host takes for the work of the libraries (thesis
// 6.1.1). Cycles are cycles of the processor's own clock.
type CPU struct {
	Clock Clock

	InstructionCycles Cycles // an instruction that is none of those below
	LoadDoubleCycles  Cycles // a load of 64 bits
	FlowCycles        Cycles // a branch, jump or call, delay slot included

	// UncachedReadCycles is how long a read of one word over the bus stalls the CPU once it has the
	// bus. It is at least the transaction on the bus.
	UncachedReadCycles Cycles
	// UncachedWriteCycles is how long a write stalls the CPU. The transaction on the bus follows by
	// itself from the write buffer.
	UncachedWriteCycles Cycles
	// QueuesUncached says that loads and stores to the slots of the queues never hit in the cache.
	// They cost and occupy the bus like uncached reads and writes.
	QueuesUncached bool
}

// Bus is the bus over which CPU and card reach memory and each other. It carries one transaction at
// a time, from its arbitration to its last word. Cycles are of its own clock.
type Bus struct {
	Clock Clock

	TransactionCycles Cycles // of each transaction, besides its words and the wait for the bus
	WordCycles        Cycles // for each word of 32 bits
	// Bursts are the numbers of words that a transaction of the card may move, rising from 1. It is
	// empty when the bus costs nothing.
	Bursts []int
	// QueueBurst is the longest burst that moves words of a queue's slot; 0: any may. The data of
	// XFER goes in the longest burst that there is.
	QueueBurst int
	CPUFirst   bool // says that the CPU gets the bus when CPU and card wait for it
}

// Transaction returns how long a transaction of the given number of words keeps the bus, the wait
// for it not included. The number need not be one of Bursts: those bind the card only.
func (b *Bus) Transaction(words int) time.Duration { return b.Clock.Duration(b.cycles(words)) }

// cycles returns how long a transaction keeps the bus, in its cycles.
func (b *Bus) cycles(words int) Cycles { return b.TransactionCycles + Cycles(words)*b.WordCycles }

// Card limits what the card can hold and do at once, as the engine's configuration takes it. A
// zero leaves the engine its own limit.
type Card struct {
	Lines       int // of the undelivered packet cache for each context
	ReplyLines  int // of the lines, those that only replies may use
	Contexts    int // sets of lines; each context that the cache holds has one
	FIFOPackets int // packets of the longest form in the receive FIFO of each level

	TrainPackets int // most packets of a frame; on Arctic, which has no frames, a train is 1
	// Blocks says that long transfers may fill frames; otherwise they go in packets. A machine
	// whose times are steps sends only remote writes as blocks, of BlockBytes.
	Blocks     bool
	BlockBytes int // the most bytes of a block of a remote write, a multiple of 16
	// AcknowledgeEveryFrames is how many frames one acknowledgment may answer; 1: each has its own.
	AcknowledgeEveryFrames int

	TransferWords int // most words of data in an XFER packet, a multiple of 4
	Types         int // of packets that a program may define

	// RemotePageBytes is the length of a page of remote memory, a power of two. No packet of an
	// operation on remote memory crosses the end of a page.
	RemotePageBytes int
	// WindowEntriesCached is how many entries of a context's window table the card holds, one for
	// each page. For other entries it first fetches WindowEntryWords words over the bus. 0: all.
	WindowEntriesCached int
	WindowEntryWords    int

	// The rest is of the virtualised interface (virtual.go; Froening's thesis, chapters 3 and 4).
	VPIDs           int // virtual ports, each with a trigger page
	EntryBytes      int // of contexts, work requests, notifications and windows; a power of two
	TriggerCountMax int // most requests that one trigger issues
	CSBEntries      int // of the conditional store buffer
	RDRBytesMax     int // the longest ring of receive data
	FastSendWords64 int // most words of 64 bits in a request that sends
	FastPutWords64  int // most words of 64 bits in a request that puts
	RoutingShared   bool
}

// Units has how long each unit of the card is busy with a packet (transmit: with a frame). The
// unit's transactions on the bus and its words on the link are not included. Retrieval, dispatch
// and delivery are on the bus's side of the card and in cycles of its clock; transmit and
// preprocess on the network's (thesis 5.5).
type Units struct {
	RetrievalCycles  Cycles
	DispatchCycles   Cycles
	DeliveryCycles   Cycles
	TransmitCycles   Cycles
	PreprocessCycles Cycles

	// The rest is of the virtualised interface (Froening's thesis, sections 3.2.2 to 3.2.6). Any
	// unit serves any context. The clock is that of the units.
	Clock      Clock
	Requesters int
	Responders int
	Completers int
	Stages     int // of each unit; each holds one request
	WaitQueue  int // requests that wait before each unit; 0: there are no wait queues
	IssueWidth int // most requests issued in a time slot; 1: single issue
}

// Network describes the routers and links (thesis 6.1.4). Cycles are of its own clock.
type Network struct {
	Clock Clock

	HalfwordsPerCycle int    // units of 16 bits that a link carries
	RouterCycles      Cycles // from a packet's head at an input to its head at an output
	WireCycles        Cycles // between two routers, or a router and a card

	RouterPorts     int // inputs, and as many outputs: 4 or 8
	InputBuffers    int // packets at each input
	ReservedBuffers int // of the buffers, those that only high priority may use
	Topology        Topology

	// The rest is of the network of the virtualised interface (Froening's thesis, 1.4.2 and 2.2.1).
	CrossbarCycles Cycles        // of RouterCycles, those of the crossbar: its fall-through latency
	Ports          int           // links of a card, whose crossbar is the router
	Wire           time.Duration // between two cards
}

// Library has the cycles that the code of the message library takes besides the instructions of its
// source (thesis appendices A and C), on a machine whose compiler does not optimise (6.2.1). They
// are whole cycles of the processor.
type Library struct {
	LoopCycles  Cycles // a pass of a for: the jump back, and delay slots that stay empty
	BlockCycles Cycles // of the loop that cuts a block into XFER packets, for each of them
	// CounterCycles is for the handler that counts messages: an array behind a pointer (6.1.2)
	CounterCycles Cycles
	// SegmentCycles is for opening a segment, and again for closing one; 0: a get of four words
	// needs no segment
	SegmentCycles Cycles
}

// Options has hypotheses about what the thesis's simulator did, against or beyond the text. The
// zero value is the text.
type Options struct {
	// GroupWords is how many arguments of messages of variable length travel in a group; 0: each
	// travels by itself
	GroupWords int
	// LookMisses says that each burst of the card into a receive queue makes the next look at its
	// head miss the cache
	LookMisses    bool
	HeadUnwritten bool // the card does not write the word of the head register behind a message
}

// Topology is how routers are connected, as the file has it. Empty means that the network chooses;
// the file then has "any".
type Topology string

const (
	Hypercube Topology = "hypercube" // the topology of thesis 6.1.4
	// Crossbar is one switch for all cards, of which there are at most 8 (HPL-95-86 4.2).
	Crossbar Topology = "crossbar"
)

// Cost is the measured cost of one call.
type Cost struct {
	Call    string // as its table names it
	Measure string // which cost of the call, such as "send"
	Cycles  Cycles // of the CPU's clock
	Bytes   int    // bytes that the cycles move; 0: the cycles are of a call
}

// Step is one step of a machine's work, such as a function of a library or a part of a card's
// microcode.
type Step struct {
	Name string // as its table names it
	Of   string // the one of the paper's tables of steps that has it
	Side string // where it is done, such as "sender"
	Path string // "on": something waits for it; "off": nothing does
	// Unit is "instructions" or "cpu_cycles" of the processor, "cycles" of the bus's clock,
	// "network_cycles" of the network's, or "ns"
	Unit string
	// Base is what the step takes. DataByte and MetadataByte are what each byte of data and
	// metadata takes in addition.
	Base, DataByte, MetadataByte Share
}

// Share is a number of instructions or cycles, in parts of one: see One.
type Share int64

// One is one instruction or cycle.
const One Share = 10_000

// String returns the number with at most 4 decimals.
func (v Share) String() string { return decimal(int64(v), 4) }
