package launch

// This file starts the agent of a host that is this machine. The agent is a process of its own. So
// an ordinary user's programs, which may send signals to that user's processes or change their
// limits (prlimit(2)), do not reach root's launcher.

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// itself is the file of this process's program, even if no path leads to it (proc_pid_exe(5)).
const itself = "/proc/self/exe"

// newHere starts the agent for a daemon of this machine. Errors: ErrUser, ErrHosts.
func newHere(socket string, o *Options) (*remote, error) {
	r := newHost("the daemon at "+socket, o)
	r.cmd = &exec.Cmd{Path: itself, Args: []string{own, AgentCommand, "--socket", socket}}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	start := (*exec.Cmd).Start
	if u := o.User; u != nil {
		// Programs of another user type into no terminal (ioctl_tty(2), TIOCSTI). Where the
		// launcher has one, that takes a session of its own, and with it a scheduling group of its
		// own (sched(7), autogroup).
		session, err := OnTerminal()
		if err != nil {
			return nil, err
		}
		r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !session, Setsid: session}
		r.handed = o.handed
		r.cmd.Env, start = u.environment(), u.start
		r.cmd.Args = append(r.cmd.Args, "--as", u.Name)
		if o.handed.file != nil {
			r.cmd.Args = append(r.cmd.Args, "--handed")
			r.cmd.ExtraFiles = []*os.File{o.handed.file} // becomes handedOver
		}
		if o.provider != nil {
			r.cmd.ExtraFiles = append(r.cmd.ExtraFiles, o.provider)
			r.cmd.Args = append(r.cmd.Args, "--provider", strconv.Itoa(handedOver+len(r.cmd.ExtraFiles)-1))
		}
	}
	if err := r.open(0, start); err != nil {
		if errors.Is(err, ErrUser) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: starting the agent for %s: %w; %s", ErrHosts, r.name, err,
			cureOf(err, "free memory or processes (ulimit -u)"))
	}
	return r, nil
}

// cureOf says what to do about an error of starting a process: raise a limit, or otherwise.
func cureOf(err error, otherwise string) string {
	if errors.Is(err, unix.EMFILE) {
		return "raise the limit of open files (ulimit -n)"
	}
	return otherwise
}

// Find checks, before anything is made, that this machine has the program for the options' user.
// Errors: ErrProgram, ErrUser.
func Find(o Options) error {
	o.note = func(string) {} // it is said when the program is started
	defer o.finish()
	if err := o.prepare(); err != nil {
		return err
	}
	r, err := newHere("", &o)
	if err != nil {
		return err
	}
	defer r.close()
	return r.find(o.Program, o.OFI)
}

// prepare opens what is handed to another user's agents: the program, and the provider's folder.
// Errors: ErrProvider.
func (o *Options) prepare() (err error) {
	if o.User == nil {
		return nil
	}
	o.handed = handOver(o.Program)
	if o.OFI {
		o.provider, err = handOverProvider()
	}
	return err
}

// finish closes what prepare has opened.
func (o *Options) finish() {
	o.handed.close()
	if o.provider != nil {
		o.provider.Close()
	}
}

// start starts a process of the user. The process has no capability and no way to get one, or to
// become another user, even by a set-user-ID program (no_new_privs, prctl(2)). Of the launcher's
// descriptors it has only those of the command.
func (u *User) start(c *exec.Cmd) error {
	if os.Geteuid() != 0 {
		if u.uid == os.Geteuid() {
			return c.Start()
		}
		return fmt.Errorf("--user %s: %w: only root starts programs as another user", u.Name, ErrUser)
	}
	done := make(chan error, 1)
	go func() {
		// for good: the thread ends with the goroutine, and with it what the thread has given up
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- u.start(c) // on another thread: the first one never ends
			runtime.UnlockOSThread()
			return
		}
		done <- u.startHere(c)
	}()
	return <-done
}

// startHere is start on a thread that is not used afterwards.
func (u *User) startHere(c *exec.Cmd) error {
	refused := func(what string, err error) error {
		return fmt.Errorf("--user %s: %w: %s: %w", u.Name, ErrUser, what, err)
	}
	for bit := uintptr(0); ; bit++ {
		// EINVAL: the last one that the kernel knows has been dropped.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, bit, 0, 0, 0); err == unix.EINVAL {
			break
		} else if err != nil {
			return refused("dropping capabilities", err)
		}
	}
	// Inheritable capabilities outlast the change of user.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	err := unix.Capget(&header, &has[0])
	if err == nil {
		has[0].Inheritable, has[1].Inheritable = 0, 0
		err = unix.Capset(&header, &has[0])
	}
	if err != nil {
		return refused("dropping capabilities", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return refused("setting no_new_privs", err)
	}
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keeping this process's descriptors from the program: %w; this takes Linux 5.11", err)
	}
	c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid), Groups: u.groups}
	err = c.Start()
	if errors.Is(err, fs.ErrPermission) {
		path, _ := os.Executable() // "": unknown
		return refused("starting its agent", fmt.Errorf("%w; let that user execute %s (chmod a+rx), or choose another",
			err, path))
	}
	return err
}
