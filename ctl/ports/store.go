package ports

// This file is the store: descriptors that outlive a helper. Its service manager keeps them, and
// hands them to the next helper of the unit (sd_pid_notify_with_fds(3), FDSTORE=1;
// sd_listen_fds_with_names(3)). So the helper can be restarted, upgraded or killed while jobs of
// direct ports go on: links, guards and sockets do not need it, and maps and memory are in the
// store. Any user may read the names of descriptors. So they only tell the descriptors apart;
// everything else is in the ledger.
//
//	funet1.ledger           what the helper knows of ports and jobs (ledger.go)
//	funet1.space            the namespace of the inner ends
//	funet1.map.I            map I of the switch (bpf.Shared)
//	funet1.job.I            places of job I of the ledger
//	funet1.port.I           memory of port I of the ledger
//	funet1.pair.ID.ID.BYTES memory that two ports share
//	funet1.nic.INDEX        link of the NIC program of an interface
//
// Numbers are hexadecimal. A release whose descriptors mean something else calls them funet2. A
// helper gives back descriptors that it does not know.

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

const (
	layout      = "funet1."
	storeWithin = 5 * time.Second // bounds how long the service manager may take for a message
)

// Store keeps descriptors at the service manager. A nil Store keeps nothing.
type Store struct {
	fd   int                 // a socket connected to it
	held map[string]*os.File // descriptors of the previous helper, until they are taken
	came []string            // names of all its descriptors
}

// OpenStore opens the store of the service unit that this process runs in, with its contents; nil:
// the process runs in no such unit.
func OpenStore() (*Store, error) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil, nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		within := unix.NsecToTimeval(int64(storeWithin))
		err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &within),
			unix.Connect(fd, &unix.SockaddrUnix{Name: path}))
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to the service manager: %w", err)
	}
	s := &Store{fd: fd, held: map[string]*os.File{}}
	for _, f := range activation.Files(true) {
		if _, twice := s.held[f.Name()]; twice || !strings.HasPrefix(f.Name(), layout) {
			f.Close()
			s.drop(f.Name())
			continue
		}
		s.held[f.Name()], s.came = f, append(s.came, f.Name())
	}
	return s, nil
}

func name(kind string, values ...uint64) string {
	b := append([]byte(layout), kind...)
	for _, v := range values {
		b = strconv.AppendUint(append(b, '.'), v, 16)
	}
	return string(b)
}

// values reads the values in a name of a kind. ok is false if the name is of another kind, or has
// another number of values.
func values(of, kind string, values ...*uint64) (ok bool) {
	parts := strings.Split(of, ".")
	if len(parts) != 2+len(values) || parts[0]+"." != layout || parts[1] != kind {
		return false
	}
	for i, v := range values {
		var err error
		if *v, err = strconv.ParseUint(parts[2+i], 16, 64); err != nil {
			return false
		}
	}
	return true
}

// keep has the service manager keep a descriptor. The caller still owns its own.
func (s *Store) keep(name string, fd int) error {
	if s == nil {
		return nil
	}
	if err := s.say("FDSTORE=1\nFDPOLL=0\nFDNAME="+name, fd); err != nil {
		return fmt.Errorf("having the service manager keep %s: %w", name, err)
	}
	return nil
}

// drop has the service manager give a descriptor back. It ignores errors: the name may be unknown,
// or the service manager may be ending.
func (s *Store) drop(name string) {
	if s != nil {
		_ = s.say("FDSTOREREMOVE=1\nFDNAME=" + name)
	}
}

func (s *Store) say(text string, descriptors ...int) error {
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	for {
		if err := unix.Sendmsg(s.fd, []byte(text), rights, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// take returns the previous helper's descriptor of a name, as a file that the caller owns; nil:
// there is none. The service manager keeps it on.
func (s *Store) take(name string) *os.File {
	if s == nil {
		return nil
	}
	f := s.held[name]
	delete(s.held, name)
	return f
}

// has reports whether descriptors of a previous helper are still there.
func (s *Store) has() bool { return s != nil && len(s.held) > 0 }

// names lists the descriptors that are still there, in order.
func (s *Store) names() (all []string) {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.held))
}

// discard gives back all descriptors of the previous helper.
func (s *Store) discard() {
	for _, name := range s.names() {
		s.take(name).Close()
	}
	for _, name := range s.came {
		s.drop(name)
	}
}

// close ends the connection; the service manager keeps the descriptors.
func (s *Store) close() error {
	if s == nil {
		return nil
	}
	return unix.Close(s.fd)
}

// descriptor duplicates a file's descriptor, and closes the file.
func descriptor(f *os.File) (fd int, err error) {
	err = withFD(f, func(own int) (err error) {
		fd, err = unix.FcntlInt(uintptr(own), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	return fd, errors.Join(err, f.Close())
}
