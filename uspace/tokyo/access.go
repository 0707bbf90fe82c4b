package tokyo

// This file has the accesses of remote memory (sections 2.2.2 and 3.3.1).

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/rma"
)

// target converts an address into what the cards need: node, key and virtual address.
func (p *Process) target(a Address) (rma.Target, error) {
	id := p.ids[a.Node()]
	if id == 0 {
		return rma.Target{}, ErrStranger
	}
	return rma.Target{Node: a.Node(), Key: rma.Key(id), Address: a.Virtual()}, nil
}

// Write writes data to an address. It waits for room, but not for the end of the write (Quiet).
// More than 64 bytes must lie in the process's own memory and stay as they are until Quiet. Errors
// are ErrStranger, those of rma.Endpoint.Put, and those of drive.
func (p *Process) Write(to Address, data []byte) error {
	t, err := p.target(to)
	if err == nil {
		_, err = p.end.Put(t, data, rma.With{})
	}
	return p.failed("writing to", to, err)
}

// Read reads bytes from an address into the process's own memory, and waits for them. Errors are
// ErrStranger, those of rma.Endpoint.Get and Wait, and those of drive. After an error of drive the
// memory may still change until Quiet.
func (p *Process) Read(from Address, into []byte) error {
	t, err := p.target(from)
	if err == nil {
		_, err = p.wait(p.end.Get(t, into, rma.With{}))
	}
	return p.failed("reading from", from, err)
}

// Add adds v to the 64-bit word at an address, a multiple of 8, and returns the word's old value.
// Errors are as for Read.
func (p *Process) Add(to Address, v uint64) (uint64, error) {
	t, err := p.target(to)
	var r rma.Result
	if err == nil {
		r, err = p.wait(p.end.Add(t, v))
	}
	return r.Uint64(), p.failed("adding to", to, err)
}

// CompareSwap replaces the 64-bit word at an address, a multiple of 8, by swap if it equals
// compare. It returns the word's old value. Errors are as for Read.
func (p *Process) CompareSwap(to Address, compare, swap uint64) (uint64, error) {
	t, err := p.target(to)
	var r rma.Result
	if err == nil {
		r, err = p.wait(p.end.CompareSwap(t, compare, swap))
	}
	return r.Uint64(), p.failed("swapping at", to, err)
}

// Quiet waits until everything that this process has written has arrived. It returns the first
// failure since the last call, or an error of drive.
func (p *Process) Quiet() error {
	err := p.end.Quiet()
	p.forget(err)
	return err
}

func (p *Process) wait(id rma.ID, err error) (rma.Result, error) {
	if err != nil {
		return rma.Result{}, err
	}
	return p.end.Wait(id)
}

func (p *Process) failed(what string, a Address, err error) error {
	if err == nil {
		return nil
	}
	p.forget(err)
	return fmt.Errorf("%s %v: %w", what, a, err)
}

func (p *Process) forget(err error) {
	var e *rma.Error
	if errors.As(err, &e) && errors.Is(err, rma.ErrKey) && e.Node != p.options.Node {
		delete(p.ids, e.Node)
	}
}
