package tokyo

// This file has the Process: a process with memory that others may access.

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

var (
	// ErrStranger reports a node whose access ID this process does not have.
	ErrStranger = errors.New("tokyo: no access ID of that node; introduce this process to it first (Introduce)")
	// ErrRefused reports that the other process does not exchange access IDs with this one.
	ErrRefused = errors.New("tokyo: the process does not accept this one's introduction")
	// ErrOptions reports an empty segment, one without the right Keyed, addresses beyond 48 bits,
	// or a type beyond funi.MaxType.
	ErrOptions = errors.New("tokyo: a process needs a segment with the right Keyed, addresses of 48 bits, and a type of messages up to funi.MaxType")
	// ErrElsewhere reports memory outside the process's own.
	ErrElsewhere = errors.New("tokyo: the memory does not lie in the process's own")
)

// AccessID lets its holder access the memory of a process. It is random; 0 means none.
type AccessID uint64

// Options configure a Process.
type Options struct {
	Node uint16 // this process's number in its job
	// Segment is the memory, registered with the card with the right Keyed. It also needs the right
	// Source if writes of more than 64 bytes are to come from it.
	Segment funi.Segment
	// Virtual is the virtual address of the segment's first byte; 0: its address in this process.
	Virtual uint64
	Rights  funi.WindowRights // the rights of others; 0 means read, write and atomic operations
	// Type is the type of the messages by which processes introduce themselves. It is the same in
	// all processes of the job.
	Type uint16
	// Accept decides which nodes get this process's access ID for theirs; nil means all nodes of
	// the job.
	Accept func(node uint16) bool
	// Others takes messages of other types. The slot is valid until Others returns. Others must not
	// call a method of the Process that waits. If Others is nil, such messages stay in the queue,
	// with all behind them, until the program takes them (funi.Interface.Receive).
	Others func(l funi.Level, s *funi.Slot)
	// Returned takes the program's own messages that came back. nil: the program sends none.
	Returned func(r funi.Returned)
}

// Process is a process's end of remote memory. See doc.go.
type Process struct {
	options Options
	iface   *funi.Interface
	end     *rma.Endpoint
	window  *rma.Window
	drive   func() error
	ids     map[uint16]AccessID // of nodes that were introduced, and its own
	asked   introduction
}

// Open makes the process's memory accessible to processes that get its access ID. The ID comes from
// random, which is crypto/rand's Reader except in virtual time. drive lets the card run, and
// returns an error when calls are to wait no longer. Open returns ErrOptions, and errors of rma.New
// and rma.Endpoint.Expose.
func Open(iface *funi.Interface, random io.Reader, drive func() error, o Options) (*Process, error) {
	if len(o.Segment.Memory) == 0 || o.Segment.Rights&funi.Keyed == 0 || o.Type > funi.MaxType {
		return nil, fmt.Errorf("opening a process: %w", ErrOptions)
	}
	if o.Virtual == 0 {
		o.Virtual = uint64(uintptr(unsafe.Pointer(&o.Segment.Memory[0])))
	}
	if o.Virtual > MaxVirtual-uint64(len(o.Segment.Memory))+1 {
		return nil, fmt.Errorf("opening a process at %#x: %w", o.Virtual, ErrOptions)
	}
	p := &Process{options: o, iface: iface, drive: drive, ids: map[uint16]AccessID{}}
	var err error
	if p.end, err = rma.New(iface, random, p.step); err != nil {
		return nil, fmt.Errorf("opening a process: %w", err)
	}
	p.end.Others = p.cameBack
	if err := p.end.Use(o.Segment); err != nil {
		return nil, fmt.Errorf("opening a process: %w", err)
	}
	if p.window, err = p.end.Expose(o.Segment.Memory, rma.Options{Address: o.Virtual, Rights: o.Rights}); err != nil {
		return nil, fmt.Errorf("opening a process: %w", err)
	}
	p.ids[o.Node] = AccessID(p.window.Key)
	return p, nil
}

// AccessID returns the process's own access ID. Introduce gives it to others; so may any other
// means (Met).
func (p *Process) AccessID() AccessID { return AccessID(p.window.Key) }

// Address returns the network address of bytes of the process's own memory, or ErrElsewhere.
func (p *Process) Address(b []byte) (Address, error) {
	memory := p.options.Segment.Memory
	if len(b) == 0 {
		return 0, ErrElsewhere
	}
	at := uintptr(unsafe.Pointer(&b[0])) - uintptr(unsafe.Pointer(&memory[0]))
	if at >= uintptr(len(memory)) || len(b) > len(memory)-int(at) {
		return 0, ErrElsewhere
	}
	return NewAddress(p.options.Node, p.options.Virtual+uint64(at)), nil
}

// Poll takes the messages that have arrived, and answers introductions. It does not wait.
func (p *Process) Poll() {
	p.takeMessages()
	p.end.Poll()
}

// Close makes the memory inaccessible. After its return no other process reads or changes it.
// Errors are those of drive.
func (p *Process) Close() error { return p.end.Revoke(p.window) }

// step lets the card run once, and takes messages, for a call that waits.
func (p *Process) step() error {
	if err := p.drive(); err != nil {
		return err
	}
	p.takeMessages()
	return nil
}
