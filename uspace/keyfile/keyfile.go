// Package keyfile makes and reads key files. A key file holds 32 random bytes that hosts share to
// authenticate their frames. It belongs to root or to the user who reads it, and nobody else may
// read it. Package uspace/engine/link derives keys from the bytes.
//
// A file is opened first, and then judged by its descriptor, so nobody can exchange it in between.
// Symbolic links are followed, because volumes of secrets are mounted that way. Errors say what is
// wrong with the file, and nothing of its content.
//
// A process that has made or read a key leaves no core dump, and no other process of its user may
// read its memory (hide.go).
//
// Every function may be called from any goroutine.
package keyfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/engine/link"
)

// These errors say what is wrong with a file, for errors.Is.
var (
	ErrExists = errors.New("key file exists") // it is never overwritten
	// no regular file, or of another length than 32 bytes, or all zero
	ErrKind     = errors.New("not a key file")
	ErrMode     = errors.New("key file is not kept secret") // others may read or write it
	ErrOwner    = errors.New("key file of another user")    // neither root's nor the reader's
	ErrTerminal = errors.New("a key is not for a terminal")
	// a name with Credentials, in a process that systemd gave none
	ErrHanded = errors.New("systemd has handed over no such file")
)

// Credentials begins the name of a file that systemd hands to a service (systemd.exec(5),
// LoadCredential).
const Credentials = "$CREDENTIALS_DIRECTORY/"

// New makes a key and writes it to a new file, of mode 600 whatever the umask. It returns the key's
// identity. A file that exists is left alone. Errors: ErrExists, and those of making files.
func New(path string) (*link.Key, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("making a key: %s is there, and hosts may use it; remove it first if nobody does: %w",
			path, ErrExists)
	}
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	k, err := fill(f)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path)) // half a key is none
		return nil, fmt.Errorf("making a key in %s: %w", path, err)
	}
	return k, nil
}

func fill(f *os.File) (*link.Key, error) {
	if err := f.Chmod(0o600); err != nil { // the umask may have taken the owner's rights
		return nil, err
	}
	k, err := WriteTo(f)
	if err != nil {
		return nil, err
	}
	return k, f.Sync()
}

// WriteTo makes a key and writes its 32 bytes to a file or a pipe. Errors: ErrTerminal, of writing.
func WriteTo(f *os.File) (*link.Key, error) {
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
		return nil, fmt.Errorf("making a key: %w; name a file, or send it somewhere", ErrTerminal)
	}
	if err := hide(); err != nil {
		return nil, err
	}
	secret := make([]byte, link.KeySize)
	defer clear(secret)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	if _, err := f.Write(secret); err != nil {
		return nil, fmt.Errorf("writing a key: %w", err)
	}
	return link.NewKey(secret)
}

// Resolve returns the path of a key file that a file in folder names. A name that is not absolute
// is beside that file. A name that begins with Credentials is among the service's credentials. If
// the process has none, the name stays, and Load reports ErrHanded. An empty name stays empty.
func Resolve(folder, name string) string {
	if name == "" {
		return ""
	}
	if rest, ok := strings.CutPrefix(name, Credentials); ok {
		if handed := os.Getenv("CREDENTIALS_DIRECTORY"); handed != "" {
			return filepath.Join(handed, rest)
		}
		return name // never a file of the folder where the process happens to be
	}
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(folder, name)
}

// Load reads a key from a file. Errors: ErrKind, ErrMode, ErrOwner, ErrHanded, and those of reading
// files.
func Load(path string) (*link.Key, error) {
	if name, ok := strings.CutPrefix(path, Credentials); ok {
		return nil,
			fmt.Errorf("reading key %s: %w; start funid by systemd with `LoadCredential=%s:FILE`, or name the file itself", path, ErrHanded, name)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe keeps nobody waiting
	switch {
	case errors.Is(err, os.ErrPermission) && os.Geteuid() != 0:
		return nil,
			fmt.Errorf("reading key: %w; only its owner may read it. systemd hands it to the service: `systemctl edit funid`, [Service], LoadCredential=funet.key:%s, and name the key %sfunet.key", err, path, Credentials)
	case errors.Is(err, os.ErrNotExist):
		return nil,
			fmt.Errorf("reading key: %w; copy the file of the other hosts there, or make one with `funet key new %s`, which all hosts get a copy of", err, path)
	case err != nil:
		return nil, fmt.Errorf("reading key: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("reading key %s: %w", path, err)
	}
	if err := judge(&st, path, os.Geteuid()); err != nil {
		return nil, fmt.Errorf("reading key: %w", err)
	}
	if err := hide(); err != nil {
		return nil, err
	}
	secret := make([]byte, link.KeySize)
	defer clear(secret)
	if _, err := io.ReadFull(f, secret); err != nil {
		return nil, fmt.Errorf("reading key %s: %w", path, err)
	}
	k, err := link.NewKey(secret)
	if err != nil {
		return nil, fmt.Errorf("reading key: %s holds nothing but zeros; make another with `funet key new`: %w",
			path, ErrKind)
	}
	return k, nil
}

// Look reports what is wrong with a key file for a process of the given user. It does not read the
// file, so anybody who can reach the file's folder may call it. mode is the file's mode. Errors are
// as those of Load.
func Look(path string, user int) (mode os.FileMode, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return os.FileMode(st.Mode & 0o7777), judge(&st, path, user)
}

// judge reports what is wrong with a file for the user with the given number.
func judge(st *unix.Stat_t, path string, user int) error {
	mode := st.Mode & 0o7777
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is no regular file: %w", path, ErrKind)
	case st.Uid != 0 && int(st.Uid) != user:
		return fmt.Errorf("%s belongs to user %d, who could read and change it; `chown %d %s`: %w", path, st.Uid,
			user, path, ErrOwner)
	case mode&^0o600 != 0 && !(mode == 0o440 && st.Uid == 0 && isCredential(path)):
		return fmt.Errorf("%s has mode %04o, and others may use it; `chmod 600 %s`: %w", path, mode, path, ErrMode)
	case st.Size != link.KeySize:
		return fmt.Errorf("%s has %d bytes, want %d; make one with `funet key new`: %w", path, st.Size,
			link.KeySize, ErrKind)
	}
	return nil
}

// isCredential reports whether a file is among the service's credentials. systemd lets the
// service's user read it by an access control list, whose mask stands where the group's rights do
// (acl(5)).
func isCredential(path string) bool {
	folder := os.Getenv("CREDENTIALS_DIRECTORY")
	return folder != "" && filepath.Dir(path) == filepath.Clean(folder)
}
