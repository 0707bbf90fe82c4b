package tokyo

// This file is the accesses of remote memory (sections 2.2.2 and 3.3.1).

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/rma"
)

// target returns what an address is to the cards.
func (p *Process) target(a Address) (rma.Target, error) {
	id := p.ids[a.Node()]
	if id == 0 {
		return rma.Target{}, ErrStranger
	}
	return rma.Target{Node: a.Node(), Key: rma.Key(id), Address: a.Virtual()}, nil
}

// Write writes data to an address, and waits for nothing but room (Quiet). More than 64 bytes lie
// in the process's own memory and stay as they are until Quiet. Errors are ErrStranger, those of
// rma.Endpoint.Put, and of drive.
func (p *Process) Write(to Address, data []byte) error {
	t, err := p.target(to)
	if err == nil {
		_, err = p.end.Put(t, data, rma.With{})
	}
	return p.failed("writing to", to, err)
}

// Read reads bytes from an address into the process's own memory, and waits for them. Errors are
// ErrStranger, those of rma.Endpoint.Get and Wait, and of drive, after which the memory may still
// change until Quiet.
func (p *Process) Read(from Address, into []byte) error {
	t, err := p.target(from)
	if err == nil {
		_, err = p.wait(p.end.Get(t, into, rma.With{}))
	}
	return p.failed("reading from", from, err)
}

// Add adds to the word of 64 bits at an address, a multiple of 8, and returns what it was. Errors
// as for Read.
func (p *Process) Add(to Address, v uint64) (uint64, error) {
	t, err := p.target(to)
	var r rma.Result
	if err == nil {
		r, err = p.wait(p.end.Add(t, v))
	}
	return r.Uint64(), p.failed("adding to", to, err)
}

// CompareSwap writes a word of 64 bits to an address, a multiple of 8, if there is the one that it
// is compared with, and returns what was there. Errors as for Read.
func (p *Process) CompareSwap(to Address, compare, swap uint64) (uint64, error) {
	t, err := p.target(to)
	var r rma.Result
	if err == nil {
		r, err = p.wait(p.end.CompareSwap(t, compare, swap))
	}
	return r.Uint64(), p.failed("swapping at", to, err)
}

// Quiet waits until all that this process has written is there, and returns the first failure since
// the last time. Errors besides are those of drive.
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

// forget forgets an access ID that is good for nothing any more.
func (p *Process) forget(err error) {
	var e *rma.Error
	if errors.As(err, &e) && errors.Is(err, rma.ErrKey) && e.Node != p.options.Node {
		delete(p.ids, e.Node)
	}
}
