package paper

// This file sends the messages of tables 3 to 5 between two machines of the profile in virtual
// time. A program puts the request into its send queue, and a program at the other end looks at the
// result.

import (
	"errors"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	modelled "github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/uspace/sim"
)

const (
	trafficSource = 0x100_0000
	trafficKeyed  = 0x200_0000
	trafficKey    = 0x5ca1_ab1e_0003 // a group of the two machines alone
	trafficArea   = 0                // of the message
	warmUpArea    = 1                // of the one before
)

// message describes the message of a table.
type message struct {
	bytes  int
	dma    bool // the card fetches the data
	notify bool // a record tells the receiver's host
}

// messageOf returns the message of a row of tables 3 to 5.
func messageOf(table int, w *row) message {
	switch table {
	case 3:
		return message{bytes: 16, notify: w.what == "d=16 with notify"}
	case 4:
		return message{bytes: 512, dma: true, notify: true}
	}
	return message{bytes: 1 << 20, dma: true, notify: true}
}

// send sends a message, after another one that makes the cards known to each other. It returns
// cycles: of the sender, from the request until its last packet has left; of the receiver, from the
// arrival of its first packet until the record is there, or the data if there is no record; of all,
// from the request until that end. Errors are machine.ErrParts, and others of package sim.
func (m *hamlyn) send(x message) (map[string]float64, error) {
	var begin, first, last int64 // of the message, and when its first and last packets leave
	opened, ready := false, false
	sizes := funi.RemoteSizes{KeySlots: 4, Areas: 4, Notifications: 4}
	k, err := sim.NewPacedRemote(m.p, 2, slots, sizes, func(p *sim.Process) error {
		i := p.Interface()
		if p.Context().Node() == 1 {
			if _, err := p.Segment(trafficKeyed, x.bytes, funi.Keyed); err != nil {
				return err
			}
			post(p, func(s *funi.Slot) { s.SetOpenKeySlot(trafficKey, trafficKeyed, uint32(x.bytes), 0) })
			for _, a := range []uint16{trafficArea, warmUpArea} {
				post(p, func(s *funi.Slot) { s.SetOpenArea(a, trafficKey, 1, false, 0) })
			}
			await(p, time.Microsecond, func() bool { return i.Unsent(funi.Request) == 0 })
			opened = true
			await(p, time.Microsecond, func() bool { return i.NextNotification(new(funi.Notification)) })
			ready = true
			return nil
		}
		memory, err := p.Segment(trafficSource, x.bytes, funi.Source)
		if err != nil {
			return err
		}
		for n := range memory {
			memory[n] = byte(n%251 + 1) // no byte is as it was at the receiver
		}
		await(p, time.Microsecond, func() bool { return opened })
		post(p, func(s *funi.Slot) { s.SetPut(1, &funi.Put{Key: trafficKey, Area: warmUpArea, Counted: true}) })
		await(p, time.Microsecond, func() bool { return ready })
		p.Sleep(int64(time.Millisecond)) // until neither card has anything to do
		begin = p.Now()
		w := funi.Put{Key: trafficKey, Area: trafficArea, Counted: x.notify}
		if x.dma {
			w.Source, w.Length = trafficSource, x.bytes
		} else {
			w.Data = memory
		}
		post(p, func(s *funi.Slot) { s.SetPut(1, &w) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	k.Cards()[0].Engine().Observe(func(_ int, frame []byte, fate engine.Fate) {
		if f, err := arctic.Parse(frame); err == nil && fate.Outcome == engine.Sent && f.Packets() > 0 && begin > 0 {
			if last = k.Now(); first == 0 {
				first = last
			}
		}
	})
	to := k.Processes[1]
	there := func() bool {
		if begin == 0 {
			return false
		}
		if x.notify {
			return to.Memory().Page.Notified() == 2
		}
		memory := to.Context().Segments()[0].Memory
		return memory[0] != 0 && memory[len(memory)-1] != 0
	}
	if !k.Run(int64(mostTraffic), there) || !there() {
		_, err0 := k.Processes[0].Ended()
		_, err1 := to.Ended()
		if err := errors.Join(err0, err1); err != nil {
			return nil, fmt.Errorf("a message of %d bytes in virtual time: %w", x.bytes, err)
		}
		return nil, fmt.Errorf("a message of %d bytes has not arrived within %v of virtual time", x.bytes, mostTraffic)
	}
	one, err := modelled.New(m.p)
	if err != nil {
		return nil, err
	}
	arrival := first + int64(one.Link().Latency)
	cycles := func(from, to int64) float64 { return float64(to-from) / m.cycle }
	return map[string]float64{"sender": cycles(begin, last), "receiver": cycles(arrival, k.Now()),
		"all": cycles(begin, k.Now())}, nil
}
