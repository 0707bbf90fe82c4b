// Package afxdp is the AF_XDP port: a card's way to a real network interface.
//
// The journey of a frame in: the NIC program (package bpf) redirects it to the socket of its
// receive queue. The kernel copies it into a UMEM frame and puts its descriptor on the rx ring.
// Receive lends the card the bytes in place, and Release puts the UMEM frame on the fill ring
// again. Out: Reserve takes a UMEM frame, Commit puts its descriptor on the tx ring, Flush kicks
// the kernel, and the completion ring brings the frame back.
//
// Each queue of the interface has a socket. The NIC chooses the queue on which a frame arrives. The
// port chooses the queue on which it leaves. That is one queue for all frames of one series of
// sequence numbers, so that none overtakes another (transmit.go), or the queue that was asked for
// (Config.Queue). One goroutine serves all queues. When the fill ring runs empty or the rx ring
// full, the kernel drops frames and counts them (Statistics); the card's retransmission brings them
// again. All queues share the transmit frames. When all of those are under way, Reserve returns nil
// and the card waits.
//
// With Config.Jumbo a frame may be longer than a UMEM frame (multi-buffer AF_XDP,
// Documentation/networking/af_xdp.rst). It is a chain of descriptors in either ring (chain.go,
// slab.go). Without Jumbo, longer frames are not sent, and the kernel drops those that arrive, so
// all nodes of a group have the same setting. In zero-copy mode a driver may allow fewer parts a
// frame than the kernel (netdev's xdp-zc-max-segs; at an MTU of 9000 a frame has 3).
//
// With Config.UDP frames travel in UDP datagrams (package encap). Commit writes the headers in
// front of the frame, where Reserve left room. Receive strips them in place, so the card sees
// ordinary frames. The port reads the path to each peer from an immutable table. A separate
// goroutine replaces the table when the kernel's routes and neighbours change (package paths). A
// frame without a path is counted and not sent (Datagrams); the card sends it again, like any lost
// frame. The MTU of a path may change: Limits tells the owner, which tells the card
// (engine.Card.SetLimit).
//
// With Config.VLAN frames have a tag of that VLAN; Commit writes it and Receive takes it out
// (vlan.go).
//
// Open tries the modes best first and takes the first that works (modes.go). Info says which mode
// that is and why no better mode works. Each socket has frames on its fill ring before it is bound:
// at bind a driver may take the receive buffers of the queue from there, and the kernel's own
// traffic uses them, too. A driver that asks to be woken is woken. Where a socket may be zero-copy,
// UMEM frames have 4096 bytes (sizes.go). Close waits until the last frames have left.
//
// A successful bind does not prove that frames arrive, for FUNet or for the kernel, and a driver
// may forget the NIC program later. Watch, which the owner calls each second, compares counters,
// attaches the program anew and steps down to a lower mode (watcher.go, watch.go). Queues says what
// is proven about each queue.
//
// A port belongs to one goroutine that has locked its OS thread, because sending is a raw system
// call. Open must run in the network namespace of the interface.
package afxdp

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/xdp"
)

// Port is an AF_XDP port; it implements port.Port.
type Port struct {
	// guards the mode and Why in info, which Watch changes, and the knowledge about queues
	mu            sync.Mutex
	info          Info
	ifindex       int
	nic           *bpf.NIC
	own           *bpf.NIC // to be closed with the port; nil: nic is the caller's
	attachProgram func(*ebpf.Program, int, xdp.AttachMode) (*xdp.Attachment, error)
	attach        *xdp.Attachment
	watcher       watcher
	told          bool          // Watch had nothing to mend, and has said so
	steering      *xdp.Steering // nil: the NIC chooses the queues
	umem          *xdp.UMEM
	queues        []*queue

	// Receiving: turn chooses the queue, and lent is the queue that lent frames.
	turn  int
	lent  *queue
	addr  []uint64 // of the descriptors of the frames that are lent
	n     uint32
	asm   *assembly // nil without Jumbo
	wakes bool      // a driver may ask to be woken for frames to receive into

	// Sending.
	offered  []*queue // queues that frames may be sent on
	sends    []*queue // offered queues that are not left out
	busy     []*queue // queues with frames that are not completed
	flush    bool     // some queues have frames for Flush
	waited   int      // acknowledgments that the port waits for (acknowledged.go)
	slabs    *slabs   // memory for frames
	reserved []byte
	slab     uint32 // that is reserved,
	at       uint64 // and its address
	frameMax int
	room     int // bytes left free before a frame, for the headers of a datagram
	sizes    sizes
	udp      *udp   // nil: frames have an EtherType of their own
	vlan     uint16 // of the frames' tag; 0: none
	// the first two bytes of each frame hold the sum of the bytes behind its Ethernet header
	// (Direct.Sums)
	sums bool

	drainTime time.Duration // of Close; the constant, but in tests
}

// queue is a queue of the interface, with the socket that is bound to it.
type queue struct {
	number int
	sock   *xdp.Socket

	// Receiving.
	rx      *xdp.RxRing
	fill    *xdp.FillRing
	cutting bool  // the ring goes on with the rest of a chain that is dropped
	err     error // of the last wake; nil when it worked or none was asked for

	// Sending (transmit.go).
	tx        *xdp.TxRing
	done      *xdp.CompletionRing
	busy      bool          // among those of the port
	committed uint32        // descriptors in the ring that the kernel was not told of
	under     uint32        // descriptors that it was told of and has not completed
	unsent    bool          // the kernel left some in the ring
	kickErr   error         // of the last kick; nil when it worked
	vain      atomic.Uint32 // kicks that left frames in the ring

	vainBefore uint32 // vain at the last look of Watch

	heard      bool // a peer has acknowledged a frame that left on the queue
	remembered remembered
	proof      proof // queues.go
}

// FrameSize returns the length of the longest frame that the port sends.
func (p *Port) FrameSize() int { return p.frameMax }

// Ready reports whether a frame can be received, or with Jumbo at least a part of one.
func (p *Port) Ready() bool {
	for _, q := range p.queues {
		if q.rx.Peek(1) > 0 {
			return true
		}
	}
	return false
}

// WatchRings adds the words that change when Ready does.
func (p *Port) WatchRings(w *funi.Watch) {
	for _, q := range p.queues {
		at, empty := q.rx.Index()
		w.Add((*uint32)(unsafe.Pointer(at)), empty, ^uint32(0))
	}
}

// Receive lends up to len(frames) frames of one queue, the queues taking turns.
func (p *Port) Receive(frames [][]byte) int {
	frames = frames[:min(len(frames), maxLent)]
	for range p.queues {
		q := p.queues[p.turn]
		if p.turn++; p.turn == len(p.queues) {
			p.turn = 0
		}
		k := 0
		if p.asm != nil {
			p.n, k = p.takeChains(q, frames)
		} else {
			p.n = q.rx.Peek(uint32(len(frames)))
			for i := range p.n {
				d := q.rx.At(i)
				p.addr[i] = d.Addr
				if b := p.umem.Data(d); b != nil {
					frames[k] = b
					k++
				}
			}
		}
		if p.n == 0 {
			if p.wakes {
				p.wake(q)
			}
			continue
		}
		p.lent = q
		if p.udp != nil {
			k = p.udp.unwrap(frames[:k])
		}
		if p.vlan != 0 {
			k = unwrapTags(frames[:k], p.vlan)
		}
		if k == 0 {
			p.Release() // they were none
			continue
		}
		if p.waited > 0 {
			p.acknowledged(frames[:k])
		}
		return k
	}
	return 0
}

// Release gives lent frames back to the kernel.
func (p *Port) Release() {
	q, n := p.lent, p.n
	if q == nil {
		return
	}
	p.lent, p.n = nil, 0
	q.rx.Release(n)
	// The fill ring has a slot for every frame of the queue, so none is left over.
	n = q.fill.Reserve(n)
	for i := range n {
		q.fill.Set(i, p.addr[i])
	}
	q.fill.Submit(n)
	if p.wakes {
		p.wake(q)
	}
}

// wake has the driver look into the fill ring if it asks for that. It may ask just after frames
// were given back, so wake is also called where none has arrived. Otherwise the queue would stay
// deaf, for the kernel's frames, too.
func (p *Port) wake(q *queue) {
	if err := q.sock.WakeRx(); err != nil || q.err != nil {
		q.err = err
	}
}

// Info describes what was opened. Any goroutine may call it.
func (p *Port) Info() Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info
}

// Err returns the error of the last kick or wake: nil when it worked, xdp.ErrNetDown when the
// interface is down. A port that was merely too busy has no error.
func (p *Port) Err() error {
	for _, q := range p.queues {
		if q.kickErr != nil && !errors.Is(q.kickErr, xdp.ErrTxPending) {
			return q.kickErr
		}
		if q.err != nil {
			return q.err
		}
	}
	return nil
}

// FDs returns the sockets' file descriptors, which poll(2) finds readable when a
// frame can be received.
func (p *Port) FDs() []int {
	var fds []int
	for _, q := range p.queues {
		fds = append(fds, q.sock.FD())
	}
	return fds
}

// NIC returns the NIC program, for its counters.
func (p *Port) NIC() *bpf.NIC { return p.nic }

// Statistics returns the kernel's counters, summed over the queues.
func (p *Port) Statistics() (xdp.Statistics, error) {
	var sum xdp.Statistics
	for _, q := range p.queues {
		s, err := q.sock.Statistics()
		if err != nil {
			return sum, err
		}
		sum.RxDropped += s.RxDropped
		sum.RxInvalid += s.RxInvalid
		sum.TxInvalid += s.TxInvalid
		sum.RxRingFull += s.RxRingFull
		sum.RxFillRingEmpty += s.RxFillRingEmpty
		sum.TxRingEmpty += s.TxRingEmpty
	}
	return sum, nil
}
