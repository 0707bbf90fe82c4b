package rma_test

// This file compares sequences of operations with a model: a slice of bytes, rights, counts,
// and the node that has the lock.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
	"github.com/funet/funet/uspace/sim"
)

// modelSize is how large the window is.
const modelSize = 512

// step is an operation of node 0 on the window of node 1, drawn before the cluster runs.
type step struct {
	what     int // of the constants below
	op       arctic.Operation
	element  arctic.Element
	at, size int
	data     []byte // to put, or operands
	signal   int    // where a put adds 3, -1: nowhere
	count    bool
	ack      bool // an operation on elements has no answer
}

const (
	stepPut = iota
	stepGet
	stepApply
	stepLock
	stepUnlock
	stepOther // node 2 locks, or unlocks if it has it
	steps
)

var elements = []arctic.Element{arctic.Uint8, arctic.Uint16, arctic.Uint32, arctic.Uint64, arctic.Int8, arctic.Int16,
	arctic.Int32, arctic.Int64, arctic.Float32, arctic.Float64}

func float(e arctic.Element) bool { return e == arctic.Float32 || e == arctic.Float64 }

func drawStep(t *rapid.T) step {
	s := step{what: rapid.IntRange(0, steps-1).Draw(t, "step"), signal: -1, count: rapid.Bool().Draw(t, "counts")}
	s.at = rapid.IntRange(0, modelSize+8).Draw(t, "at")
	switch s.what {
	case stepPut, stepGet:
		s.size = rapid.OneOf(rapid.IntRange(0, 72), rapid.IntRange(0, modelSize)).Draw(t, "size")
		if s.what == stepPut {
			s.data = rapid.SliceOfN(rapid.Byte(), s.size, s.size).Draw(t, "data")
			if rapid.Bool().Draw(t, "signals") {
				s.signal = 8 * rapid.IntRange(0, modelSize/8-1).Draw(t, "signal")
			}
		}
	case stepApply:
		s.element = rapid.SampledFrom(elements).Draw(t, "element")
		ops := []arctic.Operation{arctic.RemoteWrite, arctic.RemoteRead, arctic.RemoteAdd, arctic.RemoteMin,
			arctic.RemoteMax, arctic.RemoteProd, arctic.RemoteSwap, arctic.RemoteCompareSwap,
			arctic.RemoteAnd, arctic.RemoteOr, arctic.RemoteXor, arctic.RemoteMaskedSwap}
		if float(s.element) {
			ops = ops[:8]
		}
		s.op = rapid.SampledFrom(ops).Draw(t, "op")
		s.ack = s.op != arctic.RemoteRead && rapid.Bool().Draw(t, "ack")
		s.size = s.element.Size()
		if s.size >= 4 && !float(s.element) && (s.op <= arctic.RemoteAdd || s.op == arctic.RemoteSwap) {
			s.size *= rapid.IntRange(1, arctic.MaxElements).Draw(t, "elements")
		}
		if rapid.IntRange(0, 9).Draw(t, "aligned") > 0 {
			s.at &^= s.element.Size() - 1
		}
		n := s.size
		if s.op == arctic.RemoteRead {
			n = 0
		} else if s.op == arctic.RemoteCompareSwap || s.op == arctic.RemoteMaskedSwap {
			n *= 2
		}
		s.data = rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 0x3f, 0x40, 0x7f, 0x80, 0xff}), n,
			n).Draw(t, "operands")
	}
	return s
}

// model is what the window should be.
type model struct {
	memory []byte
	rights funi.WindowRights
	lock   int // the node that has it, -1: none
	counts rma.Counts
}

// refuses returns why an operation fails that needs a right, or nil.
func (m *model) refuses(right funi.WindowRights, at, size int) error {
	switch {
	case m.rights&right == 0:
		return rma.ErrRights
	case m.lock > 0:
		return rma.ErrLocked
	case at+size > modelSize:
		return rma.ErrRange
	}
	return nil
}

// element reads a number as the model counts: signed, unsigned or real.
func element(e arctic.Element, b []byte) (u uint64, i int64, f float64) {
	for n := len(b) - 1; n >= 0; n-- {
		u = u<<8 | uint64(b[n])
	}
	i = int64(u<<(64-8*len(b))) >> (64 - 8*len(b))
	switch e {
	case arctic.Float32:
		f = float64(math.Float32frombits(uint32(u)))
	case arctic.Float64:
		f = math.Float64frombits(u)
	}
	return u, i, f
}

// apply returns what an element becomes; false: no number says (an operation on floats some of
// which are none).
func apply(op arctic.Operation, e arctic.Element, is, a, b []byte) (becomes []byte, known bool) {
	iu, ii, isF := element(e, is)
	au, ai, aF := element(e, a)
	signed := e >= arctic.Int8 && e <= arctic.Int64
	u := iu
	less := au < iu
	if signed {
		less = ai < ii
	}
	if float(e) {
		less = aF < isF
	}
	switch op {
	case arctic.RemoteWrite, arctic.RemoteSwap:
		u = au
	case arctic.RemoteAnd:
		u &= au
	case arctic.RemoteOr:
		u |= au
	case arctic.RemoteXor:
		u ^= au
	case arctic.RemoteMaskedSwap:
		bu, _, _ := element(e, b)
		u = iu&^bu | au&bu
	case arctic.RemoteCompareSwap:
		if iu == au {
			u, _, _ = element(e, b)
		}
	case arctic.RemoteMin, arctic.RemoteMax:
		if math.IsNaN(aF) || math.IsNaN(isF) || float(e) && aF == 0 && isF == 0 {
			return nil, false
		}
		if less == (op == arctic.RemoteMin) {
			u = au
		}
	case arctic.RemoteAdd, arctic.RemoteProd:
		if !float(e) {
			if u += au; op == arctic.RemoteProd {
				u = iu * au
			}
			break
		}
		f := isF + aF
		if op == arctic.RemoteProd {
			f = isF * aF
		}
		if math.IsNaN(f) {
			return nil, false
		}
		if u = math.Float64bits(f); e == arctic.Float32 {
			// both are exact in 64 bits, so this rounds once
			u = uint64(math.Float32bits(float32(f)))
			if op == arctic.RemoteAdd {
				u = uint64(math.Float32bits(float32(isF) + float32(aF)))
			}
		}
	}
	return binary.LittleEndian.AppendUint64(nil, u)[:len(is)], true
}

// play carries out a step and compares what it says with the model.
func (m *model) play(n *node, w rma.Target, s *step, other func() error) error {
	to, one := w.At(uint64(s.at)), uint64(0)
	if s.count {
		one = 1
	}
	answer := func(id rma.ID, err error, want error) (rma.Result, error) {
		if err != nil {
			return rma.Result{}, err
		}
		r, err := n.Wait(id)
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			return r, fmt.Errorf("failed with %w, want %w", err, want)
		}
		return r, nil
	}
	switch s.what {
	case stepPut:
		with := rma.With{Ack: true, Count: s.count}
		want := m.refuses(funi.RightWrite, s.at, s.size)
		if s.signal >= 0 {
			with.Signal = &rma.Signal{Target: w.At(uint64(s.signal)), Add: true, Value: 3}
			if want == nil && m.rights&funi.RightAtomic == 0 {
				want = rma.ErrRights
			}
		}
		copy(n.memory, s.data)
		id, err := n.Put(to, n.memory[:s.size], with)
		_, err = answer(id, err, want)
		switch end := min(s.at+s.size, modelSize); {
		case err != nil:
			return err
		// of many packets some may be there although the last is refused
		case want != nil && m.rights&funi.RightWrite != 0 && m.lock <= 0 && s.size > 32 && s.at < end:
			copy(m.memory[s.at:end], n.there[s.at:end])
			return nil
		case want != nil:
			return nil
		}
		copy(m.memory[s.at:], s.data)
		m.counts.Writes += one
		if s.signal >= 0 {
			b := m.memory[s.signal:]
			binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)+3)
		}
	case stepGet:
		want := m.refuses(funi.RightRead, s.at, s.size)
		into := n.memory[4096:][:s.size]
		id, err := n.Get(to, into, rma.With{Count: s.count})
		if _, err := answer(id, err, want); err != nil || want != nil {
			return err
		}
		m.counts.Reads += one
		if !bytes.Equal(into, m.memory[s.at:s.at+s.size]) {
			return fmt.Errorf("got % x, want % x", into, m.memory[s.at:s.at+s.size])
		}
	case stepApply:
		right := funi.RightAtomic
		switch s.op {
		case arctic.RemoteRead:
			right = funi.RightRead
		case arctic.RemoteWrite:
			right = funi.RightWrite
		case arctic.RemoteMaskedSwap:
			if s.ack {
				right = funi.RightWrite
			}
		}
		want, size := m.refuses(right, s.at, s.size), s.element.Size()
		misaligned := want == nil && s.at%size != 0
		id, err := n.Apply(to, s.op, s.element, s.data, s.size, rma.With{Ack: s.ack, Count: s.count})
		if err != nil {
			return err
		}
		if misaligned {
			var e *rma.Error
			if _, err := n.Wait(id); !errors.As(err, &e) || e.Reason != arctic.ReasonAlignment {
				return fmt.Errorf("misaligned: %w", err)
			}
			return nil
		}
		r, err := answer(id, nil, want)
		if err != nil || want != nil {
			return err
		}
		answered := s.op != arctic.RemoteWrite && !s.ack
		switch {
		case s.op == arctic.RemoteRead:
			m.counts.Reads += one
		case answered:
			m.counts.Fetches += one
		default:
			m.counts.Writes += one
		}
		is := m.memory[s.at : s.at+s.size]
		answer := is
		if !answered {
			answer = nil
		}
		if !bytes.Equal(r.Answer[:r.Bytes], answer) {
			return fmt.Errorf("answered % x, want % x", r.Answer[:r.Bytes], answer)
		}
		if s.op == arctic.RemoteRead {
			return nil
		}
		second := s.data[len(s.data)-size:] // of operations that have two operands, on one element
		for i := 0; i < s.size; i += size {
			becomes, known := apply(s.op, s.element, is[i:i+size], s.data[i:i+size], second)
			if !known {
				becomes = n.there[s.at+i:][:size]
			}
			copy(is[i:], becomes)
		}
	case stepLock:
		had, err := n.TryLock(w)
		want := m.rights&funi.RightAtomic != 0 && m.lock < 0
		if m.rights&funi.RightAtomic == 0 {
			if !errors.Is(err, rma.ErrRights) {
				return fmt.Errorf("locking without the right: %w", err)
			}
		} else if err != nil || had != want {
			return fmt.Errorf("locked: %v, want %v, %w", had, want, err)
		}
		if had {
			m.lock = 0
		}
	case stepUnlock:
		err := n.Unlock(w)
		switch {
		case m.rights&funi.RightAtomic == 0:
			if !errors.Is(err, rma.ErrRights) {
				return fmt.Errorf("unlocking without the right: %w", err)
			}
		case m.lock != 0:
			if !errors.Is(err, rma.ErrLocked) {
				return fmt.Errorf("unlocking what node %d has: %w", m.lock, err)
			}
		case err != nil:
			return err
		default:
			m.lock = -1
		}
	case stepOther:
		if m.rights&funi.RightAtomic == 0 || m.lock == 0 {
			return nil
		}
		if err := other(); err != nil {
			return err
		}
		if m.lock == 2 {
			m.lock = -1
		} else {
			m.lock = 2
		}
	}
	return nil
}

// Rule: operations do what they say and nothing else, whatever came before: answers, failures,
// counts and memory are those of the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rights := funi.WindowRights(rapid.IntRange(1, 7).Draw(rt,
			"rights")) | funi.WindowRights(rapid.SampledFrom([]int{0, 7}).Draw(rt, "all"))
		list := rapid.SliceOfN(rapid.Custom(drawStep), 1, 40).Draw(rt, "steps")
		net := sim.EthernetConfig{Seed: rapid.Uint64().Draw(rt, "seed"),
			Faults: sim.Faults{Loss: rapid.SampledFrom([]float64{0, 0.05}).Draw(rt, "loss")}}
		m := &model{memory: make([]byte, modelSize), rights: rights, lock: -1}
		var w *rma.Window
		asked, told, over := 0, 0, false
		k, err := sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: remote}, Nodes: 3, Net: net},
			func(p *sim.Process) error {
				n, err := newNode(p)
				if err != nil {
					return err
				}
				switch n.number {
				case 0:
					if err := n.until("the window", func() bool { return w != nil }); err != nil {
						return err
					}
					n.there = w.Memory
					defer func() { over = true }()
					for i := range list {
						other := func() error {
							asked++
							return n.until("node 2", func() bool { return told == asked })
						}
						if err := m.play(n, w.Target(1), &list[i], other); err != nil {
							return fmt.Errorf("step %d, %+v, lock %d: %w", i, list[i], m.lock, err)
						}
						if !bytes.Equal(w.Memory, m.memory) {
							return fmt.Errorf("step %d, %+v: the memory is not the model's", i, list[i])
						}
						if c := w.Counts(); c != m.counts {
							return fmt.Errorf("step %d, %+v: the counts are %v, want %v", i, list[i], c, m.counts)
						}
					}
					return nil
				case 1:
					if w, err = n.Expose(n.memory[:modelSize], rma.Options{Address: at, Rights: rights,
						Counts: n.memory[8192:][:funi.CountsBytes]}); err != nil {
						return err
					}
					return n.until("node 0", func() bool { return over })
				}
				for locked := false; ; told++ {
					if err := n.until("a request", func() bool { return over || told < asked }); err != nil || over {
						return err
					}
					to := w.Target(1)
					if locked {
						err = n.Unlock(to)
					} else {
						var had bool
						if had, err = n.TryLock(to); err == nil && !had {
							err = errors.New("it is locked")
						}
					}
					if locked = !locked; err != nil {
						return fmt.Errorf("node 2: %w", err)
					}
				}
			})
		if err != nil {
			rt.Fatal(err)
		}
		defer k.Close()
		if err := k.Finish(time.Hour); err != nil {
			rt.Fatal(err)
		}
	})
}
