package launch

// This file is one process of a job on this machine, the leader of a process group.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lastOutput bounds the wait for a process's output after the process and its group have ended. A
// process that has left the group may hold the output open for ever.
const lastOutput = time.Second

type process struct {
	node *node
	cmd  *exec.Cmd
	over bool // it has ended, and gets no more signals; guarded by local.mu
}

func (p *process) start(what *program, dir string, env []string) (err error) {
	n := p.node
	p.cmd = &exec.Cmd{
		Path: what.inChild(), Args: append([]string{string(n.Program)}, texts[string](n.Args)...), Env: env, Dir: dir,
		Stdout: n.stdout, Stderr: n.stderr, WaitDelay: lastOutput,
		// The signal comes when the agent is killed. It is bound to the thread that starts the
		// process, and Go ends no thread that no goroutine has locked.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if what.file != nil {
		p.cmd.ExtraFiles = []*os.File{what.file} // becomes handedOver
	}
	var in io.WriteCloser
	if n.stdin != nil {
		if in, err = p.cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if in != nil {
		go func() {
			_, _ = io.Copy(in, n.stdin) // until either ends
			in.Close()
		}()
	}
	return nil
}

// signal sends a signal to the process group. The process must not have been waited for.
func (p *process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s) // all of it may have ended
	if s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGINT {
		// one that is stopped would not notice
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGCONT)
	}
}

// awaitEnd returns when the process has ended. It stays a zombie, which keeps its number.
func (p *process) awaitEnd() {
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// wait waits for the last output and returns how the process ended.
func (p *process) wait() status {
	err := p.cmd.Wait()
	_ = errors.Join(p.node.stdout.Close(), p.node.stderr.Close()) // nobody reads, then
	state := p.cmd.ProcessState
	if state == nil {
		return status{Lost: fmt.Sprintf("waiting for it: %v", err)}
	}
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return status{Signal: w.Signal()}
	}
	return status{Code: state.ExitCode()}
}
