package ports

// This file is the ledger: a file of fixed records, in memory. In it a helper writes what the next
// one has to know beside the descriptors (store.go). A record is written before its descriptor is
// kept, and is void once that descriptor is given back. Only helpers of this unit have the file.

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/attach"
)

// The layout of the file: the head, then jobs, then ports.
const (
	headRoom  = 256
	jobRoom   = 32
	portRoom  = 128
	firstJob  = headRoom
	firstPort = firstJob + bpf.Groups*jobRoom
)

type head struct {
	Lineage uint64           // the same for all helpers that have had these ports
	Frames  bpf.PortCounters // of ports that have ended
}

type jobRecord struct {
	Tag        uint64
	GID, Nodes uint32
}

type portRecord struct {
	Tag, Bytes, Number       uint64 // bytes of its memory; number in the names of its links
	ID, Account, Outer, Mode uint32
	GID, Node                uint16
	Ticket                   attach.Ticket
}

// ledger is the file. A nil ledger stores nothing.
type ledger struct{ file *os.File }

func newLedger() (*ledger, error) {
	fd, err := unix.MemfdCreate("ledger", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a ledger of ports: %w", err)
	}
	l := &ledger{os.NewFile(uintptr(fd), "ledger")}
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	if err := l.put(0, &head{Lineage: binary.NativeEndian.Uint64(b[:])}); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *ledger) put(at int, record any) error {
	if l == nil {
		return nil
	}
	b, err := binary.Append(nil, binary.NativeEndian, record)
	if err == nil {
		_, err = l.file.WriteAt(b, int64(at))
	}
	if err != nil {
		return fmt.Errorf("writing to the ledger of ports: %w", err)
	}
	return nil
}

func (l *ledger) get(at int, record any) error {
	b := make([]byte, binary.Size(record))
	_, err := l.file.ReadAt(b, int64(at))
	if errors.Is(err, io.EOF) {
		err = nil // zeros
	}
	if err == nil {
		_, err = binary.Decode(b, binary.NativeEndian, record)
	}
	if err != nil {
		return fmt.Errorf("reading the ledger of ports: %w", err)
	}
	return nil
}

func jobAt(i int) int  { return firstJob + i*jobRoom }
func portAt(i int) int { return firstPort + i*portRoom }

func (l *ledger) close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
