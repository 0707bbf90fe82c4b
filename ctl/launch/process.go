package launch

// This file is one process of a job on this machine: the leader of a process group.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// lastOutput is how long a process's output is waited for when it and its group have ended;
// something that has left the group may hold it open for ever.
const lastOutput = time.Second

// own is the program that means this very command, wherever that is.
const own = "funet"

type process struct {
	node *node
	cmd  *exec.Cmd
}

// start starts the process; the thread of the host calls it. Errors: ErrProgram.
func (p *process) start(socket string, u *User) error {
	n := p.node
	path, err := find(n.Program)
	if err != nil {
		return notStarted(n.Program, u, err)
	}
	p.cmd = &exec.Cmd{
		Path: path, Args: append([]string{n.Program}, n.Args...), Env: n.environment(socket, u),
		Stdout: n.stdout, Stderr: n.stderr, WaitDelay: lastOutput,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	var in io.WriteCloser
	if n.stdin != nil {
		if in, err = p.cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if err := p.cmd.Start(); err != nil {
		return notStarted(n.Program, u, err)
	}
	if in != nil {
		go func() {
			_, _ = io.Copy(in, n.stdin) // until either ends
			in.Close()
		}()
	}
	return nil
}

// find is exec.LookPath, but for this very command.
func find(program string) (string, error) {
	if program == own {
		return os.Executable()
	}
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrDot) {
		err = nil // the PATH is the user's
	}
	return path, err
}

// notStarted explains why a program was not started.
func notStarted(program string, u *User, err error) error {
	who, cure := "", "give the path of a program, as it is on the host"
	switch {
	case u != nil && errors.Is(err, fs.ErrPermission):
		who, cure = " as user "+u.Name, "put it where that user may run it, or choose another with --user"
	case errors.Is(err, fs.ErrPermission):
		cure = "make it executable"
	}
	var e *exec.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return fmt.Errorf("%w %s%s: %w; %s", ErrProgram, program, who, err, cure)
}

// environment is that of this process, and what says which node it is.
func (n *node) environment(socket string, u *User) []string {
	env := map[string]string{}
	for _, s := range os.Environ() {
		if key, value, ok := strings.Cut(s, "="); ok {
			env[key] = value
		}
	}
	if u != nil {
		u.environment(env)
	}
	env[attach.SocketVariable] = socket
	env[attach.GIDVariable] = strconv.Itoa(int(n.GID))
	env[attach.NodeVariable] = strconv.Itoa(n.Number)
	env[attach.NodesVariable] = strconv.Itoa(n.Nodes)
	env[attach.TokenVariable] = n.Token.Text()
	if n.Once {
		delete(env, attach.NodeVariable)
		delete(env, attach.NodesVariable)
	}
	all := make([]string, 0, len(env))
	for key, value := range env {
		all = append(all, key+"="+value)
	}
	sort.Strings(all)
	return all
}

// signal sends a signal to the group. The process must not have been waited for.
func (p *process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s) // all of it may have ended
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGCONT) // one that is stopped would not notice
	}
}

// awaitEnd returns when the process has ended. It stays a zombie, which keeps its number.
func (p *process) awaitEnd() {
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// killRest ends what is left of the group of a process that has ended.
func (p *process) killRest() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// wait waits for the last output and tells how the process ended.
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
