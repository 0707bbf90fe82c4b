package main

// This file starts ssh between the guests. `funet run` starts processes on both guests with it.

import (
	"context"
	"fmt"
	"time"

	"github.com/funet/funet/tests/qemu/guest"
)

// sshdProgram is the path of sshd in a guest; it must be absolute.
const sshdProgram = "/usr/sbin/sshd"

// startShells starts an sshd on each host, and waits until a command of host 0 has run on both.
func (p pair) startShells(ctx context.Context) (err error) {
	var s [2]*running
	for host, m := range p {
		if e, err := m.run(ctx, readyDeadline, "mkdir", "-p", "/run/sshd"); err != nil {
			return err
		} else if err := failure(host, e); err != nil {
			return err
		}
		if s[host], err = m.begin(daemonsDeadline, sshdProgram, "-D", "-e", "-f", sshdPath); err != nil {
			return err
		}
	}
	for host := range p {
		if err := p.shell(ctx, host, s[host]); err != nil {
			return err
		}
	}
	return nil
}

// shell waits until a command of host 0 has run on a host, by ssh. It fails early when that host's
// sshd ends. With a nil sshd it does not notice that.
func (p pair) shell(ctx context.Context, host int, sshd *running) error {
	var ended chan guest.Ended
	if sshd != nil {
		ended = sshd.ended
	}
	for begin := time.Now(); ; {
		e, err := p[0].run(ctx, readyDeadline, "ssh", "-T", "--", guest.Address(host).String(), "true")
		if err != nil {
			return err
		}
		why := failure(0, e)
		if why == nil {
			return nil
		}
		if time.Since(begin) > p[host].within(readyDeadline) {
			return fmt.Errorf("%w %d: no ssh to it within %v: %w", errGuest, host, readyDeadline, why)
		}
		select {
		case e := <-ended:
			return fmt.Errorf("%w %d: sshd: %w", errGuest, host, orNil(failure(host, e)))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
