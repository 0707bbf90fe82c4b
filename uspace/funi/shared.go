package funi

// This file has memory that a process shares with the card of another process: one file for the
// context, and one for the doorbells of the process's user. A process with contexts from NearBells
// on has a third, for the far doorbells of its user. The card's owner makes and seals the files,
// and both sides map them.
//
// The file of a context is the register page and, from offset 4096 on, queue memory for four queues
// and two virtual ones. Behind that are the notification ring and the metadata of areas, if the
// context has remote memory (RemoteSizes.Bytes).

import (
	"errors"
	"fmt"
	"unsafe"
)

const (
	// ABI is the version of the memory that process and card share. The card puts it into
	// the register page.
	ABI           = 2
	DoorbellsSize = 4096       // the size of the file of doorbells in bytes: a page
	sharedQueues  = queues + 2 // how many queues have room in shared memory
	// FarDoorbellsSize is the size of the file of far doorbells in bytes: two pages.
	FarDoorbellsSize = 8192
)

// ErrShared reports bytes that cannot be shared memory.
var ErrShared = errors.New("funi: shared memory is whole, from the start of a page")

// SharedSize returns the size in bytes of the file of a context with queues of that many
// slots, or ErrSlots.
func SharedSize(slots int) (int, error) {
	if !legal(slots) {
		return 0, fmt.Errorf("sharing queues of %d slots: %w", slots, ErrSlots)
	}
	return PageSize + sharedQueues*slots*slotBytes, nil
}

// SharedRemoteMemory returns the context and the doorbells whose files are mapped at the bytes.
// These must be as long as SharedSize and RemoteSizes.Bytes together, and DoorbellsSize, or it
// returns ErrShared; of sizes that no context has, ErrRemoteSizes. The result lives as long as the
// mappings. SharedRemoteMemory stores nothing.
func SharedRemoteMemory(context, doorbells []byte, s RemoteSizes) (*Memory, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	d, err := SharedDoorbells(doorbells)
	if err != nil {
		return nil, err
	}
	if rest := len(context) - PageSize - s.Bytes(); rest <= 0 || rest%(sharedQueues*slotBytes) != 0 ||
		!aligned(context) {
		return nil, fmt.Errorf("sharing a context of %d bytes: %w", len(context), ErrShared)
	}
	p := unsafe.Pointer(unsafe.SliceData(context))
	notes := len(context) - s.Bytes()
	m := &Memory{
		Page:      (*Page)(p),
		Queues:    unsafe.Slice((*uint32)(unsafe.Add(p, PageSize)), (notes-PageSize)/4),
		Doorbells: d,
		Remote:    s,
	}
	if notes < len(context) {
		m.notes = unsafe.Slice((*uint32)(unsafe.Add(p, notes)), s.Bytes()/4)
	}
	return m, nil
}

// SharedDoorbells returns the doorbells whose file is mapped at the bytes, or ErrShared.
func SharedDoorbells(b []byte) (*Doorbells, error) {
	if len(b) != DoorbellsSize || !aligned(b) {
		return nil, fmt.Errorf("sharing doorbells of %d bytes: %w", len(b), ErrShared)
	}
	return (*Doorbells)(unsafe.Pointer(unsafe.SliceData(b))), nil
}

// SharedFarDoorbells returns the far doorbells whose file is mapped at the bytes, or ErrShared.
func SharedFarDoorbells(b []byte) (*FarDoorbells, error) {
	if len(b) != FarDoorbellsSize || !aligned(b) {
		return nil, fmt.Errorf("sharing far doorbells of %d bytes: %w", len(b), ErrShared)
	}
	return (*FarDoorbells)(unsafe.Pointer(unsafe.SliceData(b))), nil
}

// aligned reports whether bytes start on a cache line, as all mappings do.
func aligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%64 == 0 }
