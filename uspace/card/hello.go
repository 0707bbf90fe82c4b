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
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/uspace/port/hello"
)

// greets makes the station that says hello, and returns the ports for the engine. The interfaces
// are plugged in already.
func (k *Card) greets(cfg *engine.Config, udp bool) (ports []port.Port) {
	host, _ := os.Hostname() // "": then it has no name
	c := hello.Config{Self: hello.Said{Card: cfg.Card, Incarnation: cfg.Incarnation,
		Frames: arctic.Version, Host: host}}
	if udp {
		c.Self.Encap = 1
	}
	_, _ = rand.Read(c.Seed[:]) // it never fails
	for at, inner := range cfg.Ports {
		p := hello.NewPort(inner, func() hello.Queues { return k.queues(at) })
		address := k.ports[at].Info().MAC
		if udp {
			address = encap.Address(cfg.Card)
		}
		c.Ports, c.Addresses, ports = append(c.Ports, p), append(c.Addresses, address), append(ports, p)
	}
	k.hello = hello.New(c)
	for at := range ports {
		k.hello.Prove(at)
	}
	for _, p := range cfg.Peers {
		k.hello.SetPeer(p.Card, p.Port, p.Address)
	}
	return ports
}

// queues returns the queues of the interface that is plugged in at a place, nil if none is.
func (k *Card) queues(at int) hello.Queues {
	if !k.sockets[at].plug.Plugged() {
		return nil
	}
	return k.ports[at]
}

// sayHello steps the station if there is a reason to.
func (k *Card) sayHello(look bool) {
	if k.hello != nil && (k.hello.Waiting() || look && k.helloAt <= k.now) {
		k.helloAt = k.hello.Step(k.wall())
		_ = k.hello.TakeFaults(k.wall()) // Fault has them
		_ = k.hello.TakeQueueNews()      // and Port.Queues these
	}
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
