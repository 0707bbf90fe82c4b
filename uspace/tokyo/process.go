package tokyo

// This file is a process with memory that others may access.

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

var (
	// ErrStranger: this process has no access ID of the node.
	ErrStranger = errors.New("tokyo: no access ID of that node; introduce this process to it first (Introduce)")
	// ErrRefused: the other process does not exchange access IDs with this one.
	ErrRefused = errors.New("tokyo: the process does not accept this one's introduction")
	// ErrOptions: the segment is none, or its addresses do not fit.
	ErrOptions = errors.New("tokyo: a process needs a segment with the right Keyed, addresses of 48 bits, and a type of messages up to funi.MaxType")
	// ErrElsewhere: the memory is not the process's own.
	ErrElsewhere = errors.New("tokyo: the memory does not lie in the process's own")
)

// AccessID lets whoever has it access the memory of a process. It is random, and 0 is none.
type AccessID uint64

// Options say what a process is.
type Options struct {
	// Node is this process's number in its job.
	Node uint16
	// Segment is the memory, which was registered with the card, with the right Keyed, and Source
	// if writes of more than 64 bytes are to come from it.
	Segment funi.Segment
	// Virtual is the address of its first byte; 0: its virtual address in this process.
	Virtual uint64
	// Rights are what others may do; 0: read, write and atomic operations.
	Rights funi.WindowRights
	// Type is that of the messages by which processes introduce themselves, the same in all
	// processes of the job.
	Type uint16
	// Accept decides which nodes get this process's access ID for theirs; nil: all of the job.
	Accept func(node uint16) bool
	// Others takes messages of other types. The slot is good until it returns, and it calls nothing
	// of the Process that waits. nil: such messages stay in the queue, with all behind them, until
	// the program takes them (funi.Interface.Receive).
	Others func(l funi.Level, s *funi.Slot)
	// Returned takes those of the program's own messages that came back; nil: it sends none.
	Returned func(r funi.Returned)
}

// Process is a process's end. See doc.go.
type Process struct {
	options Options
	iface   *funi.Interface
	end     *rma.Endpoint
	window  *rma.Window
	drive   func() error
	ids     map[uint16]AccessID // of nodes that were introduced, and its own
	asked   introduction
}

// Open makes the process's memory accessible to those who get its access ID. random is where that
// comes from: crypto/rand's Reader, but in virtual time. drive lets the card run, and returns an
// error when nobody is to wait any more. It returns ErrOptions, and errors of rma.New and
// rma.Endpoint.Expose.
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

// AccessID returns the process's own. Introduce gives it to others; any other means does, too
// (Met).
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

// Poll takes what has come, and answers introductions. It waits for nothing.
func (p *Process) Poll() {
	p.takeMessages()
	p.end.Poll()
}

// Close makes the memory inaccessible: when it returns nobody changes or reads it any more. Errors
// are those of drive.
func (p *Process) Close() error { return p.end.Revoke(p.window) }

// step lets the card run once, for whatever waits.
func (p *Process) step() error {
	if err := p.drive(); err != nil {
		return err
	}
	p.takeMessages()
	return nil
}
