package bench

// This file is the two ends of `funet bench reject`: cards on interfaces of their own, which spin.
// The client sends to a group that the server's host does not have.

import (
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/afxdp"
)

const (
	rejectGroup  = 5
	rejectQueues = 64 // which the program of the server has room for
)

// rejectEnd is a card: the client, number 0, or the server, 1. Nodes have the numbers of the cards.
type rejectEnd struct {
	c      roleConfig
	kernel bool // the NIC program of the server answers; else its card
	nic    *bpf.NIC
	port   *afxdp.Port
	card   *engine.Card
	app    *funi.Interface
	start  time.Time
	sent   time.Duration // the last frame with packets
	times  *hdrhistogram.Histogram
	left   int  // round trips to come
	asked  bool // a message is under way
}

func rejecting(kernel bool) func(roleConfig) (end, error) {
	return func(c roleConfig) (end, error) {
		e := &rejectEnd{c: c, kernel: kernel, start: time.Now(), left: c.Warmup + c.Exchanges,
			times: hdrhistogram.New(1, slowest.Nanoseconds(), 3)}
		if err := e.open(); err != nil {
			return nil, errors.Join(fmt.Errorf("open a card on %s: %w", c.Interface, err), e.Close())
		}
		return e, nil
	}
}

func (e *rejectEnd) open() (err error) {
	if e.c.Interface == "" || !e.c.Addressed() {
		return fmt.Errorf("%w: interface %q, MACs %v and %v", errRole, e.c.Interface, e.c.LocalMAC, e.c.RemoteMAC)
	}
	if e.nic, err = bpf.LoadNIC(bpf.Load{Queues: rejectQueues, Frags: e.c.Frags, Defers: e.c.Server}); err != nil {
		return err
	}
	if e.port, err = afxdp.Open(afxdp.Config{Interface: e.c.Interface, Groups: []uint16{rejectGroup}, NIC: e.nic,
		Attach: e.c.Attach, Bind: e.c.Bind}); err != nil {
		return err
	}
	if err := e.nic.SetAbsent(rejectGroup, true); err != nil {
		return err
	}
	cfg := engine.Native()
	other := uint16(1)
	if e.c.Server {
		cfg.Card, other = 1, 0
	}
	cfg.Incarnation, cfg.Seed = uint32(e.start.UnixNano())|1, uint64(e.start.UnixNano())
	cfg.AnyGroup, cfg.Defers, cfg.Routes = true, e.kernel, []uint32{0, 1}
	// A frame that was deferred is sent again soon, and waits for as long as the measurement takes.
	cfg.MaxHold, cfg.ConnectTimeout = cfg.MinHold, time.Hour
	cfg.Ports = []port.Port{e.port}
	cfg.Peers = []engine.Peer{{Card: other, Address: [6]byte(e.c.RemoteMAC), Local: [6]byte(e.c.LocalMAC)}}
	if e.card, err = engine.New(cfg); err != nil || e.c.Server {
		return err
	}
	m, err := funi.NewMemory(portSlots)
	if err == nil {
		e.app, err = funi.Initialize(m)
	}
	if err == nil {
		_, err = e.card.Attach(m, rejectGroup, 0, portTag)
	}
	e.card.Observe(e.see)
	return err
}

// see takes the time from a frame with packets to its answer.
func (e *rejectEnd) see(_ int, b []byte, fate engine.Fate) {
	f, ok := arctic.Peek(b)
	now := time.Since(e.start)
	switch {
	case !ok:
	case fate.Outcome == engine.Sent:
		if f.Packets() > 0 {
			e.sent = now
		}
	case fate.Outcome == engine.Deferred, f.Rejects() > 0:
		if e.left--; e.left < e.c.Exchanges {
			// longer than the histogram reaches is as good as its end
			_ = e.times.RecordValue(min(now-e.sent, slowest).Nanoseconds())
		}
	}
}

func (e *rejectEnd) run() (any, error) {
	i := e.port.Info()
	o := outcome{Got: rawxdp.Modes{Attach: i.XDPMode, Bind: i.BindMode}}
	for last, left := time.Now(), e.left; e.left > 0; e.card.Step(int64(time.Since(e.start))) {
		switch {
		case e.c.Server && e.card.Counters().PeersLost > 0:
			return o, nil // the client has said goodbye
		case left != e.left:
			last, left = time.Now(), e.left
		case !e.c.Server && time.Since(last) > rawxdp.Patience:
			return nil, fmt.Errorf("no answer within %v, %d are left", rawxdp.Patience, e.left)
		}
		if !e.c.Server {
			e.ask()
		}
	}
	if n := e.card.Counters().Deferred; e.kernel && n < uint64(e.c.Exchanges) || !e.kernel && n > 0 {
		return nil, fmt.Errorf("%w: %d of %d frames were deferred", errRole, n, e.c.Warmup+e.c.Exchanges)
	}
	e.card.Leave()
	e.card.Step(int64(time.Since(e.start)))
	o.P50, o.P99 = float64(e.times.ValueAtQuantile(50))/1000, float64(e.times.ValueAtQuantile(99))/1000
	return o, nil
}

// ask keeps one message under way.
func (e *rejectEnd) ask() {
	if _, back := e.app.NextReturn(); back {
		e.asked = false
	}
	if e.asked {
		return
	}
	if s := e.app.Reserve(funi.Request); s != nil {
		s.SetHeader(funi.NewHeader(1, 0, 1))
		e.app.Commit(funi.Request)
		e.asked = true
	}
}

// Close gives back what the end has.
func (e *rejectEnd) Close() (err error) {
	if e.port != nil {
		err = e.port.Close()
	}
	if e.nic != nil {
		err = errors.Join(err, e.nic.Close())
	}
	return err
}
