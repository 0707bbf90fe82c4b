package timing

// This file has the processor: the times of the library's primitives on it.

import "time"

// Clock is how time passes for a processor.
type Clock struct {
	Now func() int64 // returns the time in nanoseconds
	// Until lets time pass: in virtual time the program gives way, in real time it spins.
	Until func(at int64)
	// Wait is Until for a processor that only waits. In real time a look may take the host longer
	// than the model; Wait then goes on at the host's time if that is later. nil: Until.
	Wait func(at int64)
}

// CPUConfig gives the times of a processor (thesis 6.1.1).
type CPUConfig struct {
	Cycle time.Duration // of its clock
	Store time.Duration // of a buffered store of one or two words, in the program
	Stall time.Duration // how much longer than the bus's transaction a load over the bus takes
	// Library holds the costs of package am's code on this machine, besides its operations' prices.
	Library Library
	Rats    Rats // holds the times of the library Rats; zero: the machine has none
}

// Library describes the code of the message library of a modelled machine (thesis 6.1.2, 6.2.1,
// appendices A and C). The zero value is the library of package am. Cycles are the processor's.
type Library struct {
	LoopCycles    int // of a pass of a loop, besides its test
	BlockCycles   int // of the loop that cuts a block, for each transfer
	CounterCycles int // of the handler that counts, besides its instructions
	// of opening a segment, and again of closing one; 0: a get of four words uses none
	SegmentCycles int
	TransferWords int // most data of a transfer; 0: the card cuts longer ones itself
	// a look at a head register misses the cache after each burst of the card into that queue
	LookMisses bool
}

// CPU is the processor of one program. A nil CPU is no model: its methods must not be called.
type CPU struct {
	c     CPUConfig
	bus   *Bus
	clock Clock
	owed  int64 // time charged that has not passed yet
	part  int64 // picoseconds of it below one nanosecond
}

// NewCPU makes a processor on the bus.
func NewCPU(c CPUConfig, bus *Bus, clock Clock) *CPU { return &CPU{c: c, bus: bus, clock: clock} }

// Library returns the description of the machine's library.
func (c *CPU) Library() *Library { return &c.c.Library }

// Rats returns the times of the library Rats on the machine.
func (c *CPU) Rats() *Rats { return &c.c.Rats }

// PricesRats reports whether the machine has times for the library Rats.
func (c *CPU) PricesRats() bool { return c.c.Rats != Rats{} }

// PricesMessages reports whether the machine has times for messages of words (package am). A
// machine that has only times of remote memory does not.
func (c *CPU) PricesMessages() bool { return c.c.Cycle > 0 }

// Deliveries returns how many bursts of the card into a receive queue the bus has carried, by
// level.
func (c *CPU) Deliveries(level int) uint32 { return c.bus.Deliveries(level) }

// Work charges instructions of one cycle each. The time passes with the next Load, Store
// or Settle, because until then nobody can tell.
func (c *CPU) Work(cycles int) { c.owed += int64(cycles) * int64(c.c.Cycle) }

// Spend charges picoseconds; fractions of a nanosecond are kept. The time passes as with Work.
func (c *CPU) Spend(ps int64) {
	c.part += ps
	c.owed += c.part / picosecond
	c.part %= picosecond
}

// Idle lets at least the given picoseconds pass, and all time charged before. Meanwhile the program
// only waits.
func (c *CPU) Idle(ps int64) {
	c.Spend(ps)
	if c.clock.Wait == nil {
		c.Settle()
	} else if c.owed > 0 {
		at := c.clock.Now() + c.owed
		c.owed = 0
		c.clock.Wait(at)
	}
}

// Settle lets the charged time pass.
func (c *CPU) Settle() {
	if c.owed > 0 {
		at := c.clock.Now() + c.owed
		c.owed = 0
		c.clock.Until(at)
	}
}

// Load is a load of one or two words over the bus: of a register, or of a slot, which
// never hits in the cache.
func (c *CPU) Load(words int) {
	c.Settle()
	c.clock.Until(c.bus.processor(c.clock.Now(), words) + int64(c.c.Stall))
}

// Store is a store of one or two words: the program goes on, and the transaction follows by itself.
func (c *CPU) Store(words int) {
	c.Settle()
	c.bus.processor(c.clock.Now(), words)
	c.owed += int64(c.c.Store)
}
