package paper

// This file measures the same operations as traffic. Two machines of the profile carry them out in
// virtual time, by their cards' engines (package sim). No time of the model is an input; the model
// and the machines have only the profile in common.
//
// A write begins when its request is in the send queue, and ends when its last byte is in the other
// node's memory. A read or an addition ends when its completion is in the ring. The thesis counts
// no processor time (4.3), so processors cost nothing here; each program looks every nanosecond.

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

// measured is an operation, with its time in the model and in the engine's traffic.
type measured struct {
	Case     string  `json:"case"`
	Bytes    int     `json:"bytes"`
	Entry    string  `json:"entry"` // of the window table: "hit" or "miss"
	ModelNS  float64 `json:"model_ns"`
	EngineNS int64   `json:"engine_ns"`
	Diff     float64 `json:"diff_percent"`
}

const (
	memoryBase  = 0x10000
	memoryBytes = 16384
	entryPage   = 4096
	windowKey   = 0x746f_6b79_6f00_0001 // of key slot 1; the warm-up's window has that of 0
	warmUpKey   = 0x746f_6b79_6f00_0000
)

// errTraffic reports a refused operation. A machine that keeps the profile refuses none.
var errTraffic = errors.New("an operation between two machines of the profile failed")

// trial is one measurement. Trials run in order, and each miss is the first packet for its page.
type trial struct {
	name    string
	op      arctic.Operation
	bytes   int
	page    uint64 // of the window
	hit     bool
	modelNS func(*tokyo, int) float64
}

// trials returns the operations of section 3.3.1 for whose parts section 4.3 has times.
func trials() []trial {
	write := func(m *tokyo, bytes int) float64 { return m.stored(bytes) }
	// The request has no data; the reply is a write back (3.3.1.2).
	read := func(m *tokyo, bytes int) float64 { return m.latency + m.stored(bytes) }
	// What was there is read, the sum is written, and what was there goes back into the record of
	// the completion (2.2.2). Bursts of two words are not stated (4.1.2), so a word of 64 bits
	// takes one of 8 words.
	add := func(m *tokyo, bytes int) float64 {
		return m.latency + m.serialise(bytes) + 2*m.access(m.burst*word) + m.latency + m.serialise(bytes)
	}
	return []trial{
		{"write", arctic.RemotePut, 32, 0, false, write}, {"write", arctic.RemotePut, 32, 0, true, write},
		{"write", arctic.RemotePut, 64, 1, false, write}, {"write", arctic.RemotePut, 64, 1, true, write},
		{"read", arctic.RemoteGet, 32, 2, false, read}, {"read", arctic.RemoteGet, 32, 2, true, read},
		{"fetch_and_add", arctic.RemoteAdd, 8, 3, false, add}, {"fetch_and_add", arctic.RemoteAdd, 8, 3, true, add},
	}
}

// measure measures all trials.
func (m *tokyo) measure() (out []measured, err error) {
	memory := [2][]byte{}
	heard := false // node 1 has opened its windows
	sizes := funi.RemoteSizes{KeySlots: 2, Areas: 1, Notifications: slots}
	k, err := sim.NewPacedRemote(m.p, 2, slots, sizes, func(p *sim.Process) (err error) {
		node := p.Context().Node()
		if memory[node], err = p.Segment(memoryBase, memoryBytes, funi.Keyed|funi.Source); err != nil {
			return err
		}
		if node == 1 {
			for _, w := range []funi.Window{{Key: warmUpKey, Base: memoryBase, Bytes: 8, Rights: funi.RightWrite},
				{Key: windowKey, Base: memoryBase, Bytes: memoryBytes,
					Rights: funi.RightRead | funi.RightWrite | funi.RightAtomic}} {
				post(p, func(s *funi.Slot) { s.SetOpenWindow(&w, 0) })
			}
			await(p, 1, func() bool { return p.Interface().Unsent(funi.Request) == 0 })
			heard = true
			return nil // its process has no part in anything
		}
		await(p, 1, func() bool { return heard })
		warm := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemotePut, Key: warmUpKey,
			Ack: true}}
		if _, err := operate(p, &warm, nil); err != nil {
			return err
		}
		for i, t := range trials() {
			o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: t.op, Key: windowKey,
				Address: t.page * entryPage}, Cookie: uint32(i)}
			var there func() bool
			switch t.op {
			case arctic.RemoteAdd:
				o.Element, o.Bytes, o.Fetch, o.Operands = arctic.Uint64, t.bytes, true, make([]byte, t.bytes)
			case arctic.RemoteGet:
				o.Source, o.Length = memoryBase, t.bytes
			default:
				o.Source, o.Length, o.Ack = memoryBase, t.bytes, true
				last := t.page*entryPage + uint64(t.bytes) - 1
				memory[0][t.bytes-1] = byte(i + 1)
				there = func() bool { return memory[1][last] == byte(i+1) }
			}
			p.Sleep(int64(time.Millisecond)) // nothing of the one before is under way
			took, err := operate(p, &o, there)
			if err != nil {
				return fmt.Errorf("%s of %d bytes: %w", t.name, t.bytes, err)
			}
			r := measured{Case: t.name, Bytes: t.bytes, Entry: "hit", ModelNS: t.modelNS(m, t.bytes), EngineNS: took}
			if !t.hit {
				r.Entry = "miss"
				r.ModelNS += m.fetch()
			}
			r.Diff = 100 * (float64(r.EngineNS) - r.ModelNS) / r.ModelNS
			out = append(out, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	if err := k.Finish(mostTraffic); err != nil {
		return nil, fmt.Errorf("in virtual time: %w", err)
	}
	return out, nil
}

// operate sends an operation to node 1 and waits until it is complete. It returns the time until
// there is true, or if there is nil the time until then.
func operate(p *sim.Process, o *funi.Operation, there func() bool) (took int64, err error) {
	began, ended := p.Now(), int64(0)
	post(p, func(s *funi.Slot) { s.SetOperation(1, o) })
	await(p, 1, func() bool {
		if ended == 0 && there != nil && there() {
			ended = p.Now()
		}
		var n funi.Notification
		if p.Interface().NextNotification(&n) {
			if n.Reason != arctic.ReasonNone {
				err = fmt.Errorf("%w: %v", errTraffic, n.Reason)
			}
			return true
		}
		back, ok := p.Interface().NextReturn()
		if ok {
			err = fmt.Errorf("%w: its block came back: %v", errTraffic, back.Reason)
		}
		return ok
	})
	return cmp.Or(ended, p.Now()) - began, err
}

// fetch returns the time of an entry of the window table that the interface does not have: a DMA
// access of the entry's words (3.3, 4.3).
func (m *tokyo) fetch() float64 {
	if m.p.Card.WindowEntriesCached == 0 {
		return 0
	}
	return m.bus(m.p.Card.WindowEntryWords * word)
}

// worst returns the greatest difference between the model and the traffic.
func worst(all []measured) (percent float64) {
	for _, r := range all {
		percent = max(percent, math.Abs(r.Diff))
	}
	return percent
}
