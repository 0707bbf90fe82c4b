package virtni

// This file has windows (Froening's thesis, sections 2.3.4 and 4.1.6): those of package rma, whose
// key is the window's number and its capability.

import (
	"github.com/funet/funet/uspace/rma"
)

// Window is memory of the port's process that others may access with the capability.
type Window struct{ rma.Window }

// Number returns the window's number (Win-ID).
func (w *Window) Number() uint16 { return uint16(w.Key) }

// Capability returns the secret that grants access, 48 bits.
func (w *Window) Capability() uint64 { return uint64(w.Key) >> 16 }

// Target names bytes of another port's window, from an address on.
type Target struct {
	VPID       uint16 // the port's node in the group
	Window     uint16 // the window's number
	Capability uint64 // 48 bits
	Address    uint64
}

// Target returns a target at the window's start, for other ports. vpid is this port's.
func (w *Window) Target(vpid uint16) Target {
	return Target{VPID: vpid, Window: w.Number(), Capability: w.Capability(), Address: w.Address}
}

// At returns the target that lies offset bytes further on.
func (t Target) At(offset uint64) Target {
	t.Address += offset
	return t
}

func (t Target) remote() rma.Target {
	return rma.Target{Node: t.VPID, Key: rma.Key(t.Capability<<16 | uint64(t.Window)), Address: t.Address}
}

// OpenWindow opens a window over memory in a segment with the right funi.Keyed. When it returns,
// others may use the window. It issues what was composed before. Errors are those of
// rma.Endpoint.Expose.
func (p *Port) OpenWindow(memory []byte, o rma.Options) (*Window, error) {
	w, err := p.end.Expose(memory, o)
	if err != nil {
		return nil, err
	}
	p.gives(o.Notifications)
	return &Window{*w}, nil
}

// CloseWindow closes a window. When it returns, no other port changes or reads the memory any more.
// Errors are those of rma.Endpoint.Revoke.
func (p *Port) CloseWindow(w *Window) error { return p.end.Revoke(&w.Window) }

// Lock waits until the port has the lock of the target's window, and so is the only one whose
// instructions the window takes. The thesis has no command for it; this is an operation of package
// rma. Errors are *Error, and those of drive.
func (p *Port) Lock(t Target) error { return p.failed(p.end.Lock(t.remote()), CommandInvalid) }

// TryLock locks the target's window if it is free. Errors are those of Lock.
func (p *Port) TryLock(t Target) (bool, error) {
	had, err := p.end.TryLock(t.remote())
	return had, p.failed(err, CommandInvalid)
}

// Unlock releases the lock when all instructions to the target are complete. Errors are those of
// Lock.
func (p *Port) Unlock(t Target) error { return p.failed(p.end.Unlock(t.remote()), CommandInvalid) }
