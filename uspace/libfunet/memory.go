//go:build cgo

package main

// This file makes memory of the program usable in Go, for the time of a call.

import (
	"errors"
	"fmt"
	"unsafe"
)

// errMemory reports an address that no memory has.
var errMemory = errors.New("funet: no memory can be there; pass a pointer to memory of that length")

const (
	lowest  = 4096    // the least address of memory; Go ends a process that has lesser ones
	highest = 1 << 56 // nor above
)

// at returns the pointer of an address that check accepts. The address is of memory of C, which Go
// does not move.
func at(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// check returns an error if no memory can be at an address, or if it would not be aligned.
func check(address, bytes, alignment uintptr) error {
	if address < lowest || address >= highest || bytes > highest-address || address%alignment != 0 {
		return fmt.Errorf("%d bytes at %#x: %w", bytes, address, errMemory)
	}
	return nil
}

// memory returns the bytes of the program at an address. No bytes need no address.
func memory(address, bytes uintptr) ([]byte, error) {
	if bytes == 0 {
		return nil, nil
	}
	if err := check(address, bytes, 1); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(at(address)), bytes), nil
}

// array returns n values of the program at an address.
func array[T any](address uintptr, n int) ([]T, error) {
	var v T
	if n < 0 || uintptr(n) > highest/max(unsafe.Sizeof(v), 1) {
		return nil, fmt.Errorf("an array of %d: %w", n, errMemory)
	}
	if err := check(address, uintptr(n)*unsafe.Sizeof(v), unsafe.Alignof(v)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*T)(at(address)), n), nil
}

// store writes a value to the program's memory at an address; address 0: nowhere.
func store[T any](address uintptr, v T) error {
	if address == 0 {
		return nil
	}
	to, err := array[T](address, 1)
	if err == nil {
		to[0] = v
	}
	return err
}
