package socket

// This file translates the errors of package rats into those of TCP.

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/rats"
)

// cause returns the error that TCP would return, together with FUNet's. broken is the error for a
// peer that has closed its end.
func cause(err error, broken syscall.Errno) error {
	var f *rats.Failure
	switch {
	case err == nil, err == io.EOF:
		return err
	case errors.Is(err, rats.ErrClosed):
		return net.ErrClosed
	case errors.As(err, &f):
		return failure(f)
	case errors.Is(err, rats.ErrAborted):
		return os.NewSyscallError("funet", broken)
	}
	return fmt.Errorf("%w: %w", syscall.ECONNRESET, err)
}

// failure returns the error of a connection for a message that came back.
func failure(f *rats.Failure) error {
	e := syscall.ECONNRESET
	switch f.Reason {
	case arctic.ReasonSilent:
		e = syscall.ETIMEDOUT
	case arctic.ReasonNoRoute, arctic.ReasonJob, arctic.ReasonKey:
		e = syscall.EHOSTUNREACH
	}
	return fmt.Errorf("%w: %w", e, f)
}

// dialFailure returns the error of a dial for a message that came back.
func dialFailure(err error) error {
	var f *rats.Failure
	if !errors.As(err, &f) {
		return err
	}
	e := syscall.EHOSTUNREACH
	switch f.Reason {
	case arctic.ReasonSilent:
		e = syscall.ETIMEDOUT
	case arctic.ReasonKeySlot, arctic.ReasonArea, arctic.ReasonNoContext:
		e = syscall.ECONNREFUSED
	}
	return fmt.Errorf("%w: %w", e, f)
}

// ofNode reports whether a message came back because its node has gone, so that all other messages
// to it will also come back.
func ofNode(err error) bool {
	if err == nil {
		return false
	}
	var f *rats.Failure
	if !errors.As(err, &f) {
		return false
	}
	switch f.Reason {
	case arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted, arctic.ReasonNoRoute,
		arctic.ReasonNoContext, arctic.ReasonReplaced, arctic.ReasonJob:
		return true
	}
	return false
}

// wrong makes a *net.OpError.
func wrong(op string, source, to net.Addr, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: Network, Source: source, Addr: to, Err: err}
}
