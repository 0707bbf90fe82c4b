package output

// This file is the count behind a progress, in memory that two processes can share. So a program on
// a host of a lab counts without a system call, and the command that made the lab reports it.

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Gauge counts the finished part of a whole. A nil Gauge counts nothing. Any goroutine may call it.
type Gauge struct{ done, total atomic.Int64 }

// gaugeSize is the size of a gauge in memory.
const gaugeSize = int(unsafe.Sizeof(Gauge{}))

func newGauge(total int64) *Gauge {
	g := new(Gauge)
	g.total.Store(total)
	return g
}

// Set sets the finished part and the whole.
func (g *Gauge) Set(done, total int64) {
	if g != nil {
		g.done.Store(done)
		g.total.Store(total)
	}
}

// NewGauge makes a gauge in a file without a name. Its heir calls OpenGauge.
func NewGauge() (*Gauge, *os.File, error) {
	fd, err := unix.MemfdCreate("progress", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("making memory for progress: %w", err)
	}
	file := os.NewFile(uintptr(fd), "progress")
	if err := file.Truncate(int64(gaugeSize)); err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("making memory for progress: %w", err)
	}
	g, err := OpenGauge(fd)
	if err != nil {
		file.Close()
	}
	return g, file, err
}

// OpenGauge maps the gauge that another process made. It stays mapped until the process ends.
func OpenGauge(fd int) (*Gauge, error) {
	b, err := unix.Mmap(fd, 0, gaugeSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping memory for progress: %w", err)
	}
	return (*Gauge)(unsafe.Pointer(&b[0])), nil
}
