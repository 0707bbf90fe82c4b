//go:build libfabric

package main

// This file opens the card of the process, and lets it run: when the program polls, waits, or does
// neither.

// #cgo CFLAGS: -I${SRCDIR}/../guest -std=gnu11 -Wall -Wextra -Wno-cast-function-type
// #cgo LDFLAGS: -lfabric
// #include "ofi.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/guest"
	"github.com/funet/funet/uspace/rma"
)

const (
	// patience bounds the opening of the card.
	patience = time.Minute
	// lingering bounds how long the end of the process waits until what was sent is delivered.
	lingering = 5 * time.Second
	// tick is the time without a call of the program after which progress polls for it.
	tick = 4 * time.Millisecond
	// firstProbe is the time with operations under way after which nodes that owe something are
	// asked whether they are still there. Each further time is twice as long, up to lastProbe.
	firstProbe = 64 * time.Millisecond
	lastProbe  = time.Second
)

// process is what all domains, endpoints and queues of the process share. The lock of the endpoint
// guards what is not atomic.
type process struct {
	mu sync.Mutex // of open and cleanup
	e  *funet.Endpoint
	am *am.Endpoint // of e

	endpoints [C.ENDPOINTS]*endpoint
	queues    [C.QUEUE + 1]atomic.Pointer[queue] // by number; 0 is none
	regions   regions
	parts     map[rma.ID]part // of operations on regions of others
	spare     []*operation
	crowded   int  // queues of receives with a backlog
	stuck     bool // there was no room for a receive whose posting did not cross

	under   atomic.Int32  // operations under way
	polls   atomic.Uint64 // calls of the program that polled
	begun   uint64        // polls when an operation was begun last
	several bool          // and another one after it, before the next poll
	armed   atomic.Bool   // the program sleeps on the descriptor
	waiting atomic.Int32  // threads that wait, or are about to
	broken  atomic.Bool   // the card is lost, and operations were ended
	remote  atomic.Int32  // len(parts), and regions whose writers may tell of their writes

	targets targets        // of operations of others
	windows *funet.Windows // nil: the card does not reach memory of the program
	one     *rma.Endpoint  // of windows; nil without them
}

var the process

// pointer returns an address of C's memory as a pointer. Go does not move that memory.
func pointer[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// caught turns a panic of the function that defers it into an error.
func caught[T ~int32 | ~int64](code *T) {
	if v := recover(); v != nil {
		say(true, C.FI_LOG_CORE, fmt.Sprintf("a mistake of the provider: %v; please report it", v))
		*code = -C.FI_EOTHER
	}
}

// guarded makes faults of this goroutine panics: the card touches memory of the program, which may
// have unmapped it. The card ends its context then, and not the process.
func guarded() { debug.SetPanicOnFault(true) }

// say writes a line to libfabric's log.
func say(warning bool, subsystem C.int, text string) {
	s := C.CString(text)
	w := C.int(0)
	if warning {
		w = 1
	}
	C.ofi_say(w, subsystem, s)
	C.free(unsafe.Pointer(s))
}

//export ofi_go_place
func ofi_go_place(to uintptr) {
	var code int32
	defer caught(&code)
	p := pointer[C.struct_ofi_place](to)
	*p = C.struct_ofi_place{}
	if guest.Getenv(attach.GIDVariable) == "" {
		return
	}
	cfg, err := attach.EnvironmentOf(guest.Getenv)
	if err != nil {
		say(false, C.FI_LOG_CORE, err.Error())
		return
	}
	p.gid, p.node, p.nodes, p.known = C.uint32_t(cfg.GID), C.uint32_t(cfg.Node), C.uint32_t(cfg.Nodes), 1
	if p.nodes == 0 {
		p.nodes = 1 << 16
	}
}

//export ofi_go_open
func ofi_go_open(to uintptr) (code C.int) {
	defer caught(&code)
	p := pointer[C.struct_ofi_place](to)
	cfg, err := the.opened()
	if err != nil {
		say(true, C.FI_LOG_DOMAIN, err.Error())
		return -errno(err)
	}
	*p = C.struct_ofi_place{gid: C.uint32_t(cfg.GID), node: C.uint32_t(the.e.Node()), nodes: C.uint32_t(the.e.Nodes()),
		known: 1}
	return 0
}

// opened opens the card if it is not open, and returns the process's place.
func (p *process) opened() (attach.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cfg, err := attach.EnvironmentOf(guest.Getenv)
	if err == nil && p.e == nil {
		err = p.open(cfg)
	}
	return cfg, err
}

// Whether the card reaches memory of the process. It opens the card.
//
//export ofi_go_reaches
func ofi_go_reaches() (code C.int) {
	defer caught(&code)
	if _, err := the.opened(); err != nil {
		say(true, C.FI_LOG_CORE, err.Error())
		return 0
	}
	if the.one != nil {
		return 1
	}
	return 0
}

func (p *process) open(cfg attach.Config) error {
	guest.Settle()
	cfg.Timeout = patience // many ranks of a busy host ask the daemon at once
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	e, err := funet.Open(ctx, funet.Options{Attach: &cfg, Remote: remoteSizes, OnError: func(err error) {
		say(false, C.FI_LOG_EP_DATA, err.Error())
	}})
	if err != nil {
		return err
	}
	p.e = e
	if err = e.AM(func(a *am.Endpoint) error { p.am = a; return nil }); err != nil {
		return errors.Join(err, e.Close(ctx))
	}
	if w, err := windows(e); err == nil {
		p.windows = w
		err = w.Do(ctx, func(r *rma.Endpoint) error { p.one, p.parts = r, make(map[rma.ID]part); return nil })
		if err != nil {
			return errors.Join(err, e.Close(ctx))
		}
	}
	go p.progress()
	return nil
}

//export ofi_go_cleanup
func ofi_go_cleanup() {
	var code int32
	defer caught(&code)
	the.mu.Lock()
	defer the.mu.Unlock()
	if the.e == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), lingering)
	defer stop()
	if err := the.e.Close(ctx); err != nil {
		say(false, C.FI_LOG_CORE, err.Error())
	}
}

// with calls f with the lock. When the card is lost f runs without active messages, to end things.
func (p *process) with(f func(a *am.Endpoint)) {
	guarded()
	if p.within(f) == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f(nil)
}

func (p *process) within(f func(a *am.Endpoint)) error {
	a, err := p.e.Enter()
	if err != nil {
		return err
	}
	defer p.e.Exit()
	p.takePosts(a)
	f(a)
	p.openPosts(a)
	return nil
}

// lost ends everything that is under way, once, when the card is lost.
func (p *process) lost(err error) {
	if errors.Is(err, funet.ErrClosed) || !p.broken.CompareAndSwap(false, true) {
		return
	}
	say(true, C.FI_LOG_EP_DATA, err.Error())
	p.with(func(*am.Endpoint) {
		p.closePosts(nil)
		clear(p.parts)
		for _, e := range p.endpoints {
			if e != nil {
				e.endAll(err)
			}
		}
	})
}

// poll lets the card run, and does what its messages ask for. It returns an error of libfabric if
// the card is lost.
func (p *process) poll() C.int {
	guarded()
	if p.armed.Load() && p.armed.Swap(false) {
		p.e.Disarm()
	}
	if err := p.pollOnce(); err != nil {
		p.lost(err)
		return -errno(err)
	}
	return 0
}

func (p *process) pollOnce() error {
	a, err := p.e.Enter()
	if err != nil {
		return err
	}
	defer p.e.Exit()
	p.takePosts(a)
	if _, err = p.e.PollWithin(); err == nil && p.remote.Load() > 0 {
		p.collect()
	}
	p.openPosts(a)
	return err
}

// progress polls while operations are under way and the program does not poll, so that messages
// that are fetched in pieces go on. The card itself acknowledges and receives without it. It also
// asks nodes that owe something whether they are still there.
func (p *process) progress() {
	seen, asked, pause := p.polls.Load(), time.Now(), firstProbe
	for !p.broken.Load() && p.e.Err() == nil {
		time.Sleep(tick)
		if (p.under.Load() > 0 || posted()) && p.polls.Load() == seen && !p.armed.Load() {
			_ = p.poll()
		}
		seen = p.polls.Load()
		switch {
		case p.under.Load() == 0:
			asked, pause = time.Now(), firstProbe
		case time.Since(asked) >= pause:
			asked, pause = time.Now(), min(2*pause, lastProbe)
			p.probe()
		}
	}
}

// probe asks nodes that owe something, unless much is unsent.
func (p *process) probe() {
	p.with(func(a *am.Endpoint) {
		if i := p.e.Carrier().Interface(); a != nil && i.Unsent(funi.Request) <= i.Slots()/2 {
			for _, err := range []error{a.ProbeCalled(), a.ProbeSends()} {
				if err != nil {
					say(false, C.FI_LOG_EP_DATA, err.Error())
				}
			}
		}
	})
}

// leave lets the card run for an operation that was just begun, if it is the first since the
// program polled. So its frame leaves now. Those that follow wait for the next poll and share
// frames. A program that began several between two polls mostly does so again; then the first
// waits, too. An operation with FI_MORE leaves with the next one. The lock is held.
func (p *process) leave(flags uint64) {
	if flags&C.FI_MORE != 0 {
		return
	}
	polls := p.polls.Load()
	first := polls != p.begun
	alone := first && !p.several
	p.begun, p.several = polls, !first
	if alone {
		p.e.Push()
	}
}

//export ofi_go_poll
func ofi_go_poll(number uint32) (code C.int) {
	defer caught(&code)
	the.polls.Add(1)
	code = the.poll()
	the.drain(number)
	return code
}

// wait waits until done, or for some milliseconds; negative: for ever.
func (p *process) wait(milliseconds int, done func() bool) C.int {
	guarded()
	ctx := context.Background()
	if milliseconds >= 0 {
		var stop func()
		ctx, stop = context.WithTimeout(ctx, time.Duration(milliseconds)*time.Millisecond)
		defer stop()
	}
	if p.armed.Swap(false) {
		p.e.Disarm()
	}
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	for {
		p.polls.Add(1)
		err := p.e.Wait(ctx, func() bool {
			p.closePosts(p.am)
			p.collect()
			return done()
		})
		switch {
		case ctx.Err() != nil:
			return -C.FI_EAGAIN
		case err != nil:
			p.lost(err)
			return -errno(err)
		case done():
			return 0
		}
	}
}

//export ofi_go_wait_queue
func ofi_go_wait_queue(number uint32, milliseconds int32) (code C.int) {
	defer caught(&code)
	q := the.queue(number)
	if q == nil {
		return -C.FI_EINVAL
	}
	code = the.wait(int(milliseconds), func() bool { return q.some() || *word(&q.cq.signalled) != 0 })
	signalled := atomic.SwapUint32(word(&q.cq.signalled), 0)
	the.drain(number)
	if code == 0 && signalled != 0 {
		return -C.FI_EAGAIN
	}
	return code
}

//export ofi_go_wait_counter
func ofi_go_wait_counter(counter uintptr, threshold, errs uint64, milliseconds int32) (code C.int) {
	defer caught(&code)
	c := pointer[C.struct_ofi_cntr](counter)
	code = the.wait(int(milliseconds), func() bool {
		return atomic.LoadUint64(long(&c.value)) >= threshold || atomic.LoadUint64(long(&c.errors)) != errs
	})
	if code == -C.FI_EAGAIN {
		return -C.FI_ETIMEDOUT
	}
	return code
}

//export ofi_go_interrupt
func ofi_go_interrupt() (code C.int) {
	defer caught(&code)
	the.e.Carrier().Interrupt()
	return 0
}

//export ofi_go_fd
func ofi_go_fd() (code C.int) {
	defer caught(&code)
	fd, err := the.e.Fd()
	if err != nil {
		return -errno(err)
	}
	return C.int(fd)
}

//export ofi_go_arm
func ofi_go_arm() (code C.int) {
	defer caught(&code)
	the.waiting.Add(1)
	defer the.waiting.Add(-1)
	took := false
	the.with(func(a *am.Endpoint) { took = the.closePosts(a) })
	if took || !the.e.Arm() { // a receive that was taken may be complete
		return -C.FI_EAGAIN
	}
	if the.targets.news() { // since the program looked
		the.e.Disarm()
		return -C.FI_EAGAIN
	}
	the.armed.Store(true)
	return 0
}

// errnos are libfabric's numbers of errors, the first that matches.
var errnos = []struct {
	err   error
	errno C.int
}{
	{am.ErrTruncate, C.FI_ETRUNC}, {am.ErrCancelled, C.FI_ECANCELED}, {am.ErrLong, C.FI_EMSGSIZE},
	{am.ErrNode, C.FI_EINVAL}, {attach.ErrEnvironment, C.FI_ENODATA}, {funet.ErrPlace, C.FI_ENODATA},
	{context.DeadlineExceeded, C.FI_ETIMEDOUT}, {am.ErrMemory, C.FI_ENOMEM}, {funet.ErrAddress, C.FI_ENOMEM},
	{funi.ErrTooManySegments, C.FI_ENOMEM}, {rma.ErrUnreachable, C.FI_EHOSTUNREACH},
	{errOperands, C.FI_EINVAL}, {errKey, C.FI_ENOKEY}, {errBeyond, C.FI_EKEYREJECTED}, {rma.ErrKey, C.FI_EKEYREJECTED},
	{rma.ErrRange, C.FI_EKEYREJECTED}, {rma.ErrRights, C.FI_EACCES}, {errRemote, C.FI_EOPNOTSUPP},
}

// errno returns libfabric's number of an error, positive.
func errno(err error) C.int {
	if err == nil {
		return 0
	}
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.errno
		}
	}
	var u *am.Undelivered
	if errors.As(err, &u) {
		return C.FI_EHOSTUNREACH
	}
	return C.FI_ECONNABORTED
}
