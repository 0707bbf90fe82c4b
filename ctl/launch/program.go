package launch

// This file finds the program of a job, and hands it from root's launcher to a user who cannot.
//
// The agent first looks for the program as the user. The user may be barred from a folder on the
// way to it, such as root's home, that the launcher may enter. Then the user's process executes the
// file that the launcher has opened for the agent. So the folder's mode is overridden, which root
// asks for by naming that program. The program's mode is not: the user must be permitted to execute
// it, and the interpreter of a script must be permitted to read it. The descriptor can be executed,
// but neither read nor written (open(2), O_PATH). A user who runs the launcher without root gains
// nothing, because launcher and program then run as the same user.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// own is the program name that stands for this very command, wherever its file is.
const own = "funet"

// handedOver is the descriptor of a program that was handed over, in the process that executes it:
// the first after standard error. It stays open for the interpreter of a script.
const handedOver = 3

type program struct {
	path string
	file *os.File // handed over; nil: the user reaches the path
}

// inChild returns the path by which a process of the user executes the program.
func (p *program) inChild() string {
	if p.file == nil {
		return p.path
	}
	return "/proc/self/fd/" + strconv.Itoa(handedOver)
}

// program finds a program. Errors: ErrProgram.
func (l *local) program(name string) (p program, err error) {
	p.path, err = find(name)
	if err == nil || l.handed == nil || !unreached(err) {
		return p, l.notStarted(name, err)
	}
	right := uint32(unix.X_OK)
	if l.script {
		right |= unix.R_OK
	}
	if err := unix.Access("/proc/self/fd/"+strconv.Itoa(handedOver), right); err != nil {
		return p,
			fmt.Errorf("%w %s as user %s: %w; let that user execute it (chmod a+rx %s), or choose another with --user",
				ErrProgram, name, l.user, err, l.path)
	}
	if name != own { // which needs nothing beside it
		l.note(fmt.Sprintf("%s was handed over open: user %s may not enter its folder", name, l.user))
	}
	return program{l.path, l.handed}, nil
}

// handing is the program that the launcher hands over to another user's agents.
type handing struct {
	file   *os.File // nil: the launcher cannot open it
	path   string
	script bool
	absent error // why the launcher does not find it; nil: it does
}

// handOver opens a program as the user of this process.
func handOver(name string) *handing {
	h := &handing{}
	if h.path, h.absent = find(name); h.absent != nil {
		h.absent = notStarted(name, "", h.absent)
		return h
	}
	if fd, err := unix.Open(h.path, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		h.file, h.script = os.NewFile(uintptr(fd), h.path), script(h.path)
	}
	return h
}

func (h *handing) close() {
	if h != nil && h.file != nil {
		h.file.Close()
	}
}

// script reports whether a file begins with #!, so that an interpreter reads it (execve(2)).
func script(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // executing it will fail, too
	}
	defer f.Close()
	var begin [2]byte
	_, err = io.ReadFull(f, begin[:])
	return err == nil && string(begin[:]) == "#!"
}

// unreached reports whether another user may find a program that this one did not find.
func unreached(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, exec.ErrNotFound)
}

// find is exec.LookPath, except for the name of this very command. It finds programs that this
// process may execute.
func find(program string) (string, error) {
	if program == own {
		path, err := os.Executable()
		if err == nil {
			err = unix.Access(path, unix.X_OK)
		}
		return path, err
	}
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrDot) {
		err = nil // the PATH is the user's
	}
	return path, err
}

func (l *local) notStarted(name string, err error) error { return notStarted(name, l.user, err) }

// notStarted explains why a program was not started as the given user, or with "" as this process's
// user. It returns nil if err is nil.
func notStarted(name, user string, err error) error {
	if err == nil {
		return nil
	}
	who, cure := "", cureOf(err, "give the path of a program, as it is on the host")
	switch {
	case user != "" && errors.Is(err, fs.ErrPermission):
		who, cure = " as user "+user,
			"let that user execute it and read it, and its interpreter if it is a script, or choose another with --user"
	case errors.Is(err, fs.ErrPermission):
		cure = "make it executable"
	}
	var e *exec.Error
	var p *fs.PathError
	switch {
	case errors.As(err, &e):
		err = e.Err
	case errors.As(err, &p):
		err = p.Err // its path may be one that nobody gave
	}
	return fmt.Errorf("%w %s%s: %w; %s", ErrProgram, name, who, err, cure)
}

// folder returns the working directory of a process: "" for this one's. It is the root if another
// user may not enter this one's, and so could open no file in it.
func (l *local) folder() (dir string, err error) {
	if l.user == "" {
		return "", nil
	}
	switch err := unix.Access(".", unix.X_OK); err {
	case nil:
		return "", nil
	case unix.EACCES:
		l.note(fmt.Sprintf("the program runs in /: user %s may not enter this folder", l.user))
		return "/", nil
	default:
		return "", fmt.Errorf("looking at the working directory: %w", err)
	}
}
