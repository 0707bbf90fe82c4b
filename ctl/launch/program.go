package launch

// This file finds the program of a job, and hands it from root's launcher to a user
// who cannot reach it.
//
// The program is first looked for as the user. If the user may not enter a folder on the way to
// it, such as root's home, but the launcher may, the launcher opens the program, and the user's process
// executes the open file. So the mode of the folder is overridden, as root asks for by naming
// that program. The mode of the program is not: the user must be permitted to execute it, and the
// interpreter of a script to read it. The descriptor can be executed, but neither read
// nor written (open(2), O_PATH). Somebody who starts programs as himself gains nothing: then
// launcher and user are the same.

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

// own is the program that means this very command, wherever that is.
const own = "funet"

// handedOver is the descriptor of a program that was handed over, in the process that becomes
// it: the first after standard error. It stays open, for the interpreter of a script.
const handedOver = 3

// program is the program that a process executes.
type program struct {
	path string
	file *os.File // handed over; nil: the user reaches the path
}

// close closes what was opened.
func (p *program) close() {
	if p.file != nil {
		p.file.Close()
	}
}

// inChild is the path by which a process of the user executes the program.
func (p *program) inChild() string {
	if p.file == nil {
		return p.path
	}
	return "/proc/self/fd/" + strconv.Itoa(handedOver)
}

// program finds a program for the user. Errors: ErrProgram.
func (l *local) program(name string) (program, error) {
	var p program
	err := l.thread.do(func() (err error) {
		p.path, err = find(name)
		return err
	})
	if err == nil || l.user == nil || !unreached(err) {
		return p, l.notStarted(name, err)
	}
	// As the user of this process.
	path, e := find(name)
	if e != nil {
		return p, l.notStarted(name, e)
	}
	fd, e := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if e != nil {
		return p, l.notStarted(name, e)
	}
	p = program{path, os.NewFile(uintptr(fd), path)}
	right := uint32(unix.X_OK)
	if script(path) {
		right |= unix.R_OK
	}
	if err := l.thread.do(func() error { return unix.Access("/proc/self/fd/"+strconv.Itoa(fd), right) }); err != nil {
		p.close()
		return program{}, fmt.Errorf("%w %s as user %s: %w; let that user execute it (chmod a+rx %s), or choose another with --user", ErrProgram, name, l.user.Name, err, path)
	}
	if name == own {
		return p, nil // it needs nothing beside it
	}
	l.note(fmt.Sprintf("user %s may not enter the folder of %s, so the program was handed over open; what it needs beside it must be where that user may read it", l.user.Name, path))
	return p, nil
}

// script reports whether a file begins as scripts do (execve(2)), whose interpreter reads it.
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

// unreached reports whether somebody else may find what was not found.
func unreached(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, exec.ErrNotFound)
}

// find is exec.LookPath, but for this very command. It finds what the calling thread may
// execute.
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

// notStarted explains why a program was not started; nil: it was.
func (l *local) notStarted(name string, err error) error {
	if err == nil {
		return nil
	}
	who, cure := "", "give the path of a program, as it is on the host"
	switch {
	case l.user != nil && errors.Is(err, fs.ErrPermission):
		who, cure = " as user "+l.user.Name, "let that user execute it and read it, and its interpreter if it is a script, or choose another with --user"
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

// folder is the working directory of the user's process: this one's, or the root where the user
// may not enter it, who could open nothing in it.
func (l *local) folder() (dir string, err error) {
	if l.user == nil {
		return "", nil
	}
	err = l.thread.do(func() error {
		switch err := unix.Access(".", unix.X_OK); err {
		case nil:
		case unix.EACCES:
			dir = "/"
		default:
			return fmt.Errorf("looking at the working directory: %w", err)
		}
		return nil
	})
	if dir != "" {
		here, e := os.Getwd()
		if e != nil {
			here = "this folder"
		}
		l.note(fmt.Sprintf("user %s may not enter %s, so the program runs in /; give it files by paths that this user may read, or start from another folder, such as /tmp", l.user.Name, here))
	}
	return dir, err
}
