package card

// This file says hello for an embedded card (package hello). While its process lets it run, the
// card answers hellos, and asks its peers by turns. That proves the queues of its interfaces and
// shows problems of peers. A card of a modelled machine says no hellos: its links have a time of
// their own.

import (
	"crypto/rand"
	"errors"
	"os"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/uspace/port/hello"
)

// greets makes the station that says hello. The interfaces are plugged in already.
func (k *Card) greets(cfg *engine.Config, udp bool) {
	host, _ := os.Hostname() // "": then it has no name
	c := hello.Config{Self: hello.Said{Card: cfg.Card, Incarnation: cfg.Incarnation,
		Frames: arctic.Version, Host: host}}
	if udp {
		c.Self.Encap = 1
	}
	_, _ = rand.Read(c.Seed[:]) // it never fails
	for at, s := range k.sockets {
		address := k.ports[at].Info().MAC
		if udp {
			address = encap.Address(cfg.Card)
		}
		c.Ports, c.Addresses = append(c.Ports, s.plug), append(c.Addresses, address)
	}
	k.hello = hello.New(c)
	for at := range c.Ports {
		k.hello.Prove(at)
	}
	for _, p := range cfg.Peers {
		k.hello.SetPeer(p.Card, p.Port, p.Address)
	}
}

// sayHello steps the station.
func (k *Card) sayHello() {
	k.hello.Step(k.wall())
	_ = k.hello.TakeFaults(k.wall()) // Fault has them
	_ = k.hello.TakeQueueNews()      // and Port.Queues these
}

// Hellos returns the counters of hellos. They are zero on a modelled machine, which says none.
func (k *Card) Hellos() hello.Counters {
	if k.hello == nil {
		return hello.Counters{}
	}
	return k.hello.Counters()
}

// helloFault returns the fault that hellos have found with a node's card, or with another card that
// has this card's number.
func (k *Card) helloFault(node uint16) error {
	if k.hello == nil {
		return nil
	}
	for _, f := range k.hello.Faults(k.wall()) {
		if f.Card == node || f.Said.Card == node {
			return errors.New(f.String())
		}
	}
	return nil
}
