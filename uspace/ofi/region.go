//go:build libfabric

package main

// This file is the program's memory that one-sided operations use: memory regions, which are
// windows, and the segments behind them and behind local buffers.
//
// A segment is a range of addresses of this process that the card may use. One is made when a
// region or a buffer lies in none yet. It reaches to both sides as far as the next multiple of
// 16 MiB, whether memory is there or not, so that neighbours share it and a heap grows within it.
// The card has 64 segments in 1.5 GiB of addresses. When there is no room, those that no region and
// no operation needs are given back, the longest unused first.

// #include "ofi.h"
import "C"

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

const (
	// unit is what the bounds of a segment are multiples of, in bytes. Go's heap lies in units of
	// its own.
	unit = 16 << 20
	// mostSegments leaves some of the card's to package am.
	mostSegments = 48
	// credit is how many notifications of writes with data a region may have unread.
	credit = 32
	// fixed is the secret of the windows whose keys programs choose: those below firstSecret. All
	// members of the job know it.
	fixed       = 0x66756e657421
	firstSecret = 1 << 16
)

// remoteSizes is how much remote memory the card has: a key slot for each key that a program may
// choose.
var remoteSizes = funi.RemoteSizes{KeySlots: 1 << 16, Areas: 1, Notifications: 4096}

// errRemote reports a card without one-sided operations on memory of the program.
var errRemote = errors.New("the daemon's card does not reach the memory of the process; " +
	"run the job with direct ports (funet run --card direct)")

// errInUse reports that other operations must end before an operation's memory finds room.
var errInUse = errors.New("all segments are in use by operations under way")

// segment is memory that the card may use.
type segment struct {
	memory  []byte
	start   uintptr
	base    uint32 // its address for the card
	regions int
	under   atomic.Int32 // buffers of operations under way
	used    uint64       // when it was used last
}

// region is a memory region.
type region struct {
	segment *segment
	window  *rma.Window // nil: for local use only
	domain  *C.struct_ofi_domain
	context uint64
	key     uint64 // as the program knows it

	counter *C.struct_ofi_cntr // of what others write there; nil: none
	counted rma.Counts         // what the counters have of the window's
}

// regions are all of the process.
type regions struct {
	mu       sync.Mutex
	segments []*segment // in order of base: of several, the card takes the first, too
	turn     uint64
	all      map[uint64]*region // by number
	number   uint64
	slot     uint16 // of the key made last; they are made from the top down
	counts   []byte // of the windows by key slot; nil: none counts

	// known guards domains, the domains of regions by the numbers of their windows. Its lock is
	// taken within that of the process's endpoint.
	known   sync.Mutex
	domains map[uint16]*C.struct_ofi_domain
}

// windows returns the windows of an endpoint's card, or errRemote.
func windows(e *funet.Endpoint) (*funet.Windows, error) {
	if _, own := e.Carrier().(*card.Card); !own {
		return nil, errRemote
	}
	return e.Windows()
}

// locate returns a segment with some memory in it. The lock of regions is held.
func (r *regions) locate(w *funet.Windows, address, bytes uintptr) (*segment, error) {
	r.turn++
	for _, s := range r.segments {
		if address >= s.start && address+bytes <= s.start+uintptr(len(s.memory)) {
			s.used = r.turn
			return s, nil
		}
	}
	start, end := address&^(unit-1), (address+bytes+unit-1)&^(unit-1)
	s := &segment{memory: unsafe.Slice(pointer[byte](start), end-start), start: start, used: r.turn}
	for {
		err := error(funi.ErrTooManySegments)
		if len(r.segments) < mostSegments {
			s.base, err = w.Share(s.memory)
		}
		switch {
		case err == nil:
			at, _ := slices.BinarySearchFunc(r.segments, s.base, func(x *segment, base uint32) int {
				return cmp.Compare(x.base, base)
			})
			r.segments = slices.Insert(r.segments, at, s)
			return s, nil
		case !errors.Is(err, funi.ErrTooManySegments) && !errors.Is(err, funet.ErrAddress):
			return nil, err
		}
		if evicted, later := r.evict(w); !evicted {
			if later {
				return nil, errInUse
			}
			return nil, fmt.Errorf("making %d bytes at %#x reachable: %w", bytes, address, err)
		}
	}
}

// evict gives back the segment that was unused longest and that nothing needs. It reports whether
// there was one, and whether there will be one when operations have ended.
func (r *regions) evict(w *funet.Windows) (evicted, later bool) {
	oldest := -1
	for i, s := range r.segments {
		switch {
		case s.regions > 0:
		case s.under.Load() > 0:
			later = true
		case oldest < 0 || s.used < r.segments[oldest].used:
			oldest = i
		}
	}
	if oldest < 0 {
		return false, later
	}
	if err := w.Unshare(r.segments[oldest].memory); err != nil {
		return false, errors.Is(err, engine.ErrSegmentBusy) // what has ended is read for others
	}
	r.segments = slices.Delete(r.segments, oldest, oldest+1)
	return true, false
}

// held are the segments of the buffers of an operation.
type held struct {
	segments [C.PIECES]*segment
	count    int
}

func (h *held) add(s *segment) {
	s.under.Add(1)
	h.segments[h.count] = s
	h.count++
}

// release lets the segments be given back.
func (h *held) release() {
	for _, s := range h.segments[:h.count] {
		s.under.Add(-1)
	}
	*h = held{}
}

// hold sees to it that the card may use memory of the program for an operation, until release.
func (r *regions) hold(w *funet.Windows, pieces []piece, h *held) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range pieces {
		if x.length == 0 {
			continue
		}
		s, err := r.locate(w, uintptr(x.address), uintptr(x.length))
		if err != nil {
			h.release()
			return err
		}
		h.add(s)
	}
	return nil
}

// draw returns a key for a region: the one that the program asks for, or a random one. That says
// whether the region counts.
func (r *regions) draw(requested uint64, random, counts bool) (rma.Key, error) {
	if !random {
		if requested >= firstSecret {
			return 0, fmt.Errorf("%w: %#x; keys that a program chooses are below %#x", errBeyond, requested, firstSecret)
		}
		return rma.Key(fixed<<16 | requested), nil
	}
	var secret [8]byte
	if _, err := rand.Read(secret[2:]); err != nil {
		return 0, err
	}
	secret[7] |= 0x80 // never below firstSecret, never that of chosen keys
	r.slot--
	key := binary.LittleEndian.Uint64(secret[:])&^(0xffff|countsKey) | uint64(r.slot)
	if counts {
		key |= countsKey
	}
	return rma.Key(key), nil
}

// keyOf returns the key of a window from that of a region.
func keyOf(key uint64) rma.Key {
	if key < firstSecret {
		return rma.Key(fixed<<16 | key)
	}
	return rma.Key(key)
}

//export ofi_go_register
func ofi_go_register(x uintptr) (code C.int) {
	defer caught(&code)
	err := the.regions.register(pointer[C.struct_ofi_region](x))
	for err == errInUse && the.poll() == 0 {
		err = the.regions.register(pointer[C.struct_ofi_region](x))
	}
	if err != nil {
		say(false, C.FI_LOG_MR, err.Error())
		return -errno(err)
	}
	return 0
}

func (r *regions) register(x *C.struct_ofi_region) error {
	w := the.windows
	if w == nil {
		return errRemote
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.locate(w, uintptr(x.address), uintptr(x.length))
	if err != nil {
		return err
	}
	m := &region{segment: s, domain: x.domain, context: uint64(x.context), key: uint64(x.key)}
	var rights funi.WindowRights
	if x.access&C.FI_REMOTE_READ != 0 {
		rights |= funi.RightRead
	}
	if x.access&C.FI_REMOTE_WRITE != 0 {
		rights |= funi.RightWrite | funi.RightAtomic | funi.RightNotify
	}
	counts := x.domain.counts != 0
	for tries := 0; rights != 0; tries++ {
		key, err := r.draw(uint64(x.key), x.random != 0, counts)
		if err != nil {
			return err
		}
		o := rma.Options{Key: key, Rights: rights, Address: uint64(x.base), Notifications: credit}
		if rights&funi.RightNotify == 0 {
			o.Notifications = 0
		}
		if counts {
			if o.Counts, err = r.countsOf(key); err != nil {
				return err
			}
		}
		err = w.Do(context.Background(), func(e *rma.Endpoint) (err error) {
			memory := pieceOf(x.address, x.length).bytes()
			if m.window, err = e.Expose(memory, o); errors.Is(err, rma.ErrFull) && o.Notifications > 0 {
				o.Notifications = 0
				m.window, err = e.Expose(memory, o)
			}
			if err == nil && counts {
				the.targets.begin(m)
			}
			return err
		})
		if errors.Is(err, rma.ErrFull) && x.random != 0 && tries < 1<<16 {
			continue // a slot in use
		}
		if errors.Is(err, rma.ErrFull) {
			return fmt.Errorf("%w: %w", errKey, err)
		}
		if err != nil {
			return err
		}
		if x.random != 0 {
			m.key = uint64(key)
		}
		break
	}
	s.regions++
	r.number++
	if r.all == nil {
		r.all, r.domains = make(map[uint64]*region), make(map[uint16]*C.struct_ofi_domain)
	}
	if m.window != nil {
		the.remote.Add(1)
		r.known.Lock()
		r.domains[uint16(m.window.Key)] = m.domain
		r.known.Unlock()
	}
	r.all[r.number] = m
	x.key, x.number = C.uint64_t(m.key), C.uint64_t(r.number)
	return nil
}

var (
	// errKey reports a key that is in use.
	errKey = errors.New("the key is in use")
	// errBeyond reports a key that programs cannot choose.
	errBeyond = errors.New("the key is too large")
)

func pieceOf(address, length C.uint64_t) piece { return piece{uint64(address), uint64(length)} }

//export ofi_go_unregister
func ofi_go_unregister(number uint64) (code C.int) {
	defer caught(&code)
	r := &the.regions
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.all[number]
	if m.window != nil {
		err := the.windows.Do(context.Background(), func(e *rma.Endpoint) error { return e.Revoke(m.window) })
		if err != nil && the.e.Err() == nil {
			say(false, C.FI_LOG_MR, err.Error())
			return -errno(err)
		}
		if m.domain.counts != 0 {
			the.with(func(*am.Endpoint) { the.targets.end(m) })
		}
		the.remote.Add(-1)
		r.known.Lock()
		delete(r.domains, uint16(m.window.Key))
		r.known.Unlock()
	}
	m.segment.regions--
	delete(r.all, number)
	return 0
}
