package main

// This file keeps root's terminal from the programs that `funet run` starts as another user. The
// command runs itself again in a session without a terminal (setsid(2)), and the whole job is in
// that session. The first process stays in the terminal's session, only to pass on signals and
// typed input.
//
// The whole job has one session, not one for each program, because the kernel makes each session a
// scheduling group (sched(7), autogroup). Daemons and programs that share processors hand them over
// by sched_yield(2). Within a group that takes effect at once. Between groups it takes effect when
// each has had its share.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/output"
)

// withoutTerminal runs this command again in a session without a terminal, and returns the other
// process's exit code as this one's.
func withoutTerminal(ctx context.Context, signals <-chan os.Signal) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // the signal came before anybody could pass it on
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this command, to run it without a terminal: %w", err)
	}
	// It is killed when the thread that starts it ends (PR_SET_PDEATHSIG, prctl(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := &exec.Cmd{
		Path: self, Args: os.Args, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	var typed io.WriteCloser
	if output.Terminal(os.Stdin) {
		// The kernel stops a process in the background that reads its own terminal, not one that
		// reads another's: so this process reads it.
		typed, err = cmd.StdinPipe()
	} else {
		cmd.Stdin = os.Stdin
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("starting this command again without a terminal: %w", err)
	}
	if typed != nil {
		go func() {
			if in := input(); in != nil {
				_, _ = io.Copy(typed, in) // until either ends
			}
			typed.Close()
		}()
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s) // it may have ended
			if s == unix.SIGTSTP {
				suspend() // the other process has the nodes stop meanwhile
				_ = cmd.Process.Signal(unix.SIGCONT)
			}
		case err := <-ended:
			return asEnded(err)
		}
	}
}

// asEnded returns the end of the other process as an error of this command.
func asEnded(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if w := exit.Sys().(syscall.WaitStatus); w.Signaled() {
		return command.ExitCode(128 + int(w.Signal()))
	}
	return command.ExitCode(exit.ExitCode())
}
