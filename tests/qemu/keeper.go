package main

// This file is the thread that starts processes. The kernel can end a process with the thread that
// started it, but not with the process of that thread (PR_SET_PDEATHSIG, prctl(2)). So all
// processes are started by one thread that stays, and they end with the rig, however it ends.

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// keeper is a thread that lives as long as the process.
type keeper struct{ requests chan func() }

func newKeeper() *keeper {
	k := &keeper{make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range k.requests {
			f()
		}
	}()
	return k
}

// start starts a process in a process group of its own, so Ctrl-C at the terminal does not reach
// it.
func (k *keeper) start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	if cmd.Cancel != nil { // made with a context: its children are to end, too
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
	done := make(chan error, 1)
	k.requests <- func() { done <- cmd.Start() }
	if err := <-done; err != nil {
		return fmt.Errorf("starting %s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}
