package scale

// This file has the programs of nodes.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

// errVerify reports that a node got a message that it should not have got.
var errVerify = errors.New("scale: verification failed")

const (
	messageType  = 1
	messageWords = 8 // number of the message, then its content
	stagger      = 1000
)

// word returns a word of a message's content.
func word(seed uint64, from, message, i int) uint32 {
	return uint32(mixed(seed ^ uint64(from)<<32 ^ uint64(message)<<8 ^ uint64(i)))
}

// late lets each node begin at a time of its own, up to stagger ns after the first.
func late(p *sim.Process, seed uint64) {
	p.Sleep(int64(mixed(seed^uint64(p.Context().Node())) % stagger))
}

// barriers is the program of the pattern barrier.
func barriers(nodes, times int, seed uint64) sim.Program {
	return func(p *sim.Process) error {
		late(p, seed)
		e, err := p.Endpoint(nodes)
		for i := 0; i < times && err == nil; i++ {
			err = e.Barrier()
		}
		return err
	}
}

// messages is the program of the other patterns.
func (p *pattern) program(seed uint64) sim.Program {
	return func(process *sim.Process) error {
		late(process, seed)
		me, i := int(process.Context().Node()), process.Interface()
		got, left := make([]uint64, (p.places(me)+63)/64), p.expected(me)
		for next := 0; next < p.messages || left > 0; process.Drive() {
			for ; next < p.messages; next++ {
				to := p.to(me, next)
				if to == nobody {
					continue
				}
				s := i.Reserve(funi.Request)
				if s == nil {
					break
				}
				s.SetHeader(funi.NewHeader(uint16(to), messageType, messageWords))
				words := s.Payload()
				words[0] = uint32(next)
				for k := 1; k < len(words); k++ {
					words[k] = word(seed, me, next, k)
				}
				i.Commit(funi.Request)
			}
			for s := i.Receive(funi.Request); s != nil; s = i.Receive(funi.Request) {
				if err := p.check(s, me, seed, got); err != nil {
					return err
				}
				left--
				i.Release(funi.Request)
			}
			if i.Returns() {
				return fmt.Errorf("%w: a message came back", errVerify)
			}
		}
		return nil
	}
}

// check returns an error unless a slot has a message that a node is to get, for the first time.
func (p *pattern) check(s *funi.Slot, me int, seed uint64, got []uint64) error {
	source, typ, words := s.Message()
	from := int(source)
	if typ != messageType || len(words) != messageWords || int64(words[0]) >= int64(p.messages) || from >= p.nodes ||
		p.to(from, int(words[0])) != me {
		return fmt.Errorf("%w: a message of type %d with words %x came from node %d", errVerify, typ, words, from)
	}
	message := int(words[0])
	for k := 1; k < len(words); k++ {
		if words[k] != word(seed, from, message, k) {
			return fmt.Errorf("%w: word %d of message %d of node %d came as %#x", errVerify, k, message, from, words[k])
		}
	}
	at := p.place(from, message)
	if got[at/64]>>(at%64)&1 != 0 {
		return fmt.Errorf("%w: message %d of node %d came twice", errVerify, message, from)
	}
	got[at/64] |= 1 << (at % 64)
	return nil
}
