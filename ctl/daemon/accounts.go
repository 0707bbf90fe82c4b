package daemon

// This file maps user numbers to accounts. A user may have subordinate numbers (subuid(5)), with
// which it starts processes in user namespaces, as containers do (newuidmap(1)). A user can have
// many of them, so their use counts as that user's: in the quotas, in the time that requests take,
// and in the share of the card's time.
//
// The file is read at the start, and again, by a goroutine of its own, when it has changed. Numbers
// that a directory service has given out (nsswitch.conf(5), subid) are not in it.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultSubordinates is the file of subordinate numbers.
	DefaultSubordinates = "/etc/subuid"
	mostSubordinates    = 1 << 20     // the longest such file in bytes
	lookSubordinates    = time.Second // the time between two looks for changes of the file
	tellSubordinates    = 10          // the number of malformed lines of the file that are reported
	// chain is the most owners that are followed: an owner can be a subordinate number.
	chain = 8
)

// subordinates holds the ranges of a file, in its order: the first range with a number decides.
type subordinates []subordinate

// subordinate is a line of the file: count numbers, beginning with first, belong to an account.
type subordinate struct {
	first, count uint32
	account      uint32
}

func (s subordinates) account(uid uint32) uint32 {
	for range chain {
		was := uid
		for _, r := range s {
			if uid-r.first < r.count { // a number below first wraps round and is greater
				uid = r.account
				break
			}
		}
		if uid == was {
			break
		}
	}
	return uid
}

// parseSubordinates reads lines of owner, first number and count, separated by colons; the owner is
// a name or a number. A malformed line is reported and left out. Each range of root's is an account
// of its own, named by its first number. So containers that root has made for others take nothing
// of root's quota.
func parseSubordinates(data []byte, number func(name string) (uint32, error),
	bad func(line int, why error)) (s subordinates) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, mostSubordinates+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		r, err := parseSubordinate(line, number)
		if err != nil {
			bad(n, err)
			continue
		}
		s = append(s, r)
	}
	return s
}

func parseSubordinate(line string, number func(string) (uint32, error)) (r subordinate, err error) {
	words := strings.Split(line, ":")
	if len(words) != 3 {
		return r, errors.New("want owner:first:count")
	}
	first, err := strconv.ParseUint(words[1], 10, 32)
	if err != nil {
		return r, fmt.Errorf("%q is no first number", words[1])
	}
	count, err := strconv.ParseUint(words[2], 10, 32)
	if err != nil {
		return r, fmt.Errorf("%q is no count", words[2])
	}
	if first == 0 || count == 0 || first+count > 1<<32 {
		return r, fmt.Errorf("%d numbers from %d on are none that somebody can have", count, first)
	}
	owner, err := number(words[0])
	if err != nil {
		return r, err
	}
	r = subordinate{first: uint32(first), count: uint32(count), account: owner}
	if owner == 0 {
		r.account = r.first
	}
	return r, nil
}

func userNumber(name string) (uint32, error) {
	n, err := strconv.ParseUint(name, 10, 32)
	if err == nil {
		return uint32(n), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("no user %q", name)
	}
	n, err = strconv.ParseUint(u.Uid, 10, 32)
	return uint32(n), err
}

// subordinateFile is the file and its content when it was last read.
type subordinateFile struct {
	path string
	tell func(string)
	was  fileState
}

type fileState struct {
	there          bool
	device, inode  uint64
	size           int64
	changed, wrote unix.Timespec
}

func stateOf(path string) (now fileState, err error) {
	var info unix.Stat_t
	if err = unix.Stat(path, &info); err == nil {
		now = fileState{true, info.Dev, info.Ino, info.Size, info.Ctim, info.Mtim}
	}
	return now, err
}

// read returns the content of the file, and whether it has changed since it was last read. A file
// that does not exist is empty; one that cannot be read keeps its earlier content.
func (f *subordinateFile) read() (s subordinates, changed bool) {
	now, err := stateOf(f.path)
	if now == f.was {
		return nil, false
	}
	f.was = now
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	data, err := readAll(f.path)
	if err != nil {
		f.tell(fmt.Sprintf("reading subordinate numbers: %v; those that were known stay", err))
		return nil, false
	}
	complaints := 0
	s = parseSubordinates(data, userNumber, func(line int, why error) {
		if complaints++; complaints <= tellSubordinates {
			f.tell(fmt.Sprintf("%s:%d: %v; the line is left out", f.path, line, why))
		}
	})
	if more := complaints - tellSubordinates; more > 0 {
		f.tell(fmt.Sprintf("%s: %d more lines are left out", f.path, more))
	}
	return s, true
}

// readAll reads a file of bounded length. It refuses a pipe, which might never end.
func readAll(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, mostSubordinates+1))
	if err == nil && len(data) > mostSubordinates {
		err = fmt.Errorf("%s is longer than %d bytes", path, mostSubordinates)
	}
	return data, err
}

// followSubordinates reads the file again when it has changed, until the daemon ends.
// Connections keep the account that they began with.
func (d *Daemon) followSubordinates(f *subordinateFile) {
	t := time.NewTicker(lookSubordinates)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-d.quit:
			return
		}
		if s, changed := f.read(); changed {
			d.subordinates.Store(&s)
		}
	}
}
