package main

// This file is a hash table in the memory of one process, in which all others count by remote
// atomic operations. An entry is two words of 64 bits, key and count; key 0 is none. A search for a
// key goes from the place that its hash says to the next, until it finds the key or an empty place.
// An addition makes the empty place the key's by a compare-and-swap. Of two processes that want the
// place one gets it, and the other goes on. No key is ever taken out.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/rma"
)

const (
	entries    = 4096
	entryBytes = 16
	tableBytes = entries * entryBytes
)

var errFull = errors.New("the table is full")

type table struct{ structure }

// hash says where to look first (Knuth, The Art of Computer Programming, volume 3, section 6.4:
// multiplication by the golden ratio).
func hash(key uint64) uint64 { return key * 0x9e3779b97f4a7c15 >> 52 }

// add adds to the count of a key that is not 0.
func (t table) add(key, v uint64) error {
	for i := range uint64(entries) {
		at := t.at.At((hash(key) + i) % entries * entryBytes)
		r, err := t.wait(t.end.CompareSwap(at, 0, key))
		if err != nil {
			return err
		}
		if was := r.Uint64(); was == 0 || was == key {
			_, err := t.wait(t.end.Add(at.At(8), v))
			return err
		}
	}
	return fmt.Errorf("counting %d: %w", key, errFull)
}

// count returns the count of a key, 0 if there is none. It reads entries whole, two words at a
// time.
func (t table) count(key uint64) (uint64, error) {
	for i := range uint64(entries) {
		r, err := t.wait(t.end.Apply(t.at.At((hash(key)+i)%entries*entryBytes), arctic.RemoteRead, arctic.Uint64, nil,
			entryBytes, rma.With{}))
		if err != nil {
			return 0, err
		}
		switch is := r.Uint64(); is {
		case key:
			return binary.LittleEndian.Uint64(r.Answer[8:]), nil
		case 0:
			return 0, nil
		}
	}
	return 0, nil
}
