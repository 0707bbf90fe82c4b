package bench

// This file measures the time that calls of package rats cost their process. It measures the calls
// whose instructions HPL-95-86 counts (tables 1 and 2). Both ends are on one card, in virtual time.
// Only the time within the calls counts, not that of the card.

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rats"
)

// ratsCall is the cost of a call. Its JSON form is stable.
type ratsCall struct {
	Call string  `json:"call"`
	NS   float64 `json:"ns"` // median of many batches
	// on a PA-7200 of 120 MHz, on the path that the network waits for
	Paper float64 `json:"paper_us"`
	Table int     `json:"table"`
}

const (
	callBatches = 2000
	callBatch   = 8
	callBase    = 0x1000_0000
	callMemory  = 1 << 20
	callBytes   = 16
)

// callEnd is a process on the card.
type callEnd struct {
	*rats.Manager
	memory []byte
}

// callCard is the card and its two processes.
type callCard struct {
	card *engine.Card
	ends [2]callEnd
	now  int64
}

func newCallCard() (*callCard, error) {
	cfg := engine.Native()
	cfg.Incarnation, cfg.Routes = 1, []uint32{0, 0}
	card, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	k := &callCard{card: card}
	for node := range k.ends {
		m, err := funi.NewMemory(1024)
		if err == nil {
			err = m.AddRemote(funi.RemoteSizes{KeySlots: 64, Areas: 64, Notifications: 256})
		}
		if err != nil {
			return nil, err
		}
		i, err := funi.Initialize(m)
		if err != nil {
			return nil, err
		}
		x, err := card.Attach(m, 1, uint16(node), 0)
		if err != nil {
			return nil, err
		}
		s := funi.Segment{Base: callBase, Memory: make([]byte, callMemory), Rights: funi.Keyed | funi.Source}
		if err := x.Register(s); err != nil {
			return nil, err
		}
		e, err := rats.New(i, node, rand.Reader)
		if err != nil {
			return nil, err
		}
		manager, err := rats.Manage(e, s)
		if err != nil {
			return nil, err
		}
		memory, err := manager.Alloc(4096)
		if err != nil {
			return nil, err
		}
		k.ends[node] = callEnd{manager, memory}
	}
	return k, nil
}

// run lets the card and both managers run until they have nothing left to do.
func (k *callCard) run() {
	for range 4 {
		for range 4 {
			k.now += int64(time.Microsecond)
			k.card.Step(k.now)
		}
		k.ends[0].Poll()
		k.ends[1].Poll()
	}
}

// ratsCalls measures the calls. It belongs to one goroutine, which needs a processor to itself.
func ratsCalls() ([]ratsCall, error) {
	k, err := newCallCard()
	if err != nil {
		return nil, fmt.Errorf("measure calls of package rats: %w", err)
	}
	tags, err := k.tags()
	if err != nil {
		return nil, fmt.Errorf("measure tagged writes: %w", err)
	}
	datagrams, err := k.datagrams()
	if err != nil {
		return nil, fmt.Errorf("measure datagrams: %w", err)
	}
	return append(tags, datagrams...), nil
}

// batches measures batches of a call that sends and one that receives, with the card in between.
// send and receive return false when they fail.
func (k *callCard) batches(send, receive func() bool) (sent, received float64, err error) {
	var out, in []float64
	for range callBatches {
		begin := time.Now()
		for range callBatch {
			if !send() {
				return 0, 0, fmt.Errorf("a message could not be sent")
			}
		}
		out = append(out, float64(time.Since(begin).Nanoseconds())/callBatch)
		for range 4 {
			k.now += int64(time.Microsecond)
			k.card.Step(k.now)
		}
		begin = time.Now()
		for range callBatch {
			k.ends[1].Poll() // takes all that has come the first time
			if !receive() {
				return 0, 0, fmt.Errorf("a message did not arrive")
			}
		}
		in = append(in, float64(time.Since(begin).Nanoseconds())/callBatch)
		k.run()
	}
	return *median(out), *median(in), nil
}

// tags measures tagged writes of 16 bytes from the slot (table 1, direct).
func (k *callCard) tags() ([]ratsCall, error) {
	t, err := k.ends[1].NewTarget(k.ends[1].memory, 4*callBatch)
	if err != nil {
		return nil, err
	}
	seed, err := t.TaggedSeed()
	if err != nil {
		return nil, err
	}
	w, err := k.ends[0].WriteTo(seed)
	if err != nil {
		return nil, err
	}
	k.run()
	data := make([]byte, callBytes)
	sent, received, err := k.batches(func() bool { return w.WriteTag(0, data, 1) == nil }, func() bool {
		_, ok := t.GetTag()
		return ok
	})
	return []ratsCall{{"tagged write of 16 bytes, sender", sent, 0.96, 1},
		{"tagged write of 16 bytes, receiver", received, 0.66, 1}}, err
}

// datagrams measures datagrams of 16 bytes (table 2, direct, 12 of metadata).
func (k *callCard) datagrams() ([]ratsCall, error) {
	p, err := k.ends[1].NewPort(64, 2*callBatch)
	if err != nil {
		return nil, err
	}
	seed, err := p.Seed()
	if err != nil {
		return nil, err
	}
	c, err := k.ends[0].SendDatagrams(seed)
	if err != nil {
		return nil, err
	}
	k.run()
	data := make([]byte, callBytes)
	sent, received, err := k.batches(func() bool { ok, err := c.Send(data); return ok && err == nil }, func() bool {
		d, ok := p.Recv()
		if ok {
			p.Release(d)
		}
		return ok
	})
	return []ratsCall{{"datagram of 16 bytes, sender", sent, 1.04, 2},
		{"datagram of 16 bytes, receiver", received, 0.86, 2}}, err
}
