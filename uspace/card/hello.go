package card

// This file is how an embedded card says hello (package hello): it answers whoever asks, while its process lets it
// run, and asks its peers by turns, which proves the queues of its interfaces and tells what is wrong with a peer. A
// card of a modelled machine does not: its links have a time of their own.

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

// greets makes who says hello, and returns the ports that the engine has. Interfaces are plugged in.
func (k *Card) greets(cfg *engine.Config, udp bool) (ports []port.Port) {
	host, _ := os.Hostname() // "": then it has no name
	c := hello.Config{Self: hello.Said{Card: cfg.Card, Incarnation: cfg.Incarnation, Frames: arctic.Version, Host: host}}
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

// queues are those of what is plugged in.
func (k *Card) queues(at int) hello.Queues {
	if !k.sockets[at].plug.Plugged() {
		return nil
	}
	return k.ports[at]
}

// sayHello steps who does, if there is a reason.
func (k *Card) sayHello(look bool) {
	if k.hello != nil && (k.hello.Waiting() || look && k.helloAt <= k.now) {
		k.helloAt = k.hello.Step(k.wall())
		_ = k.hello.TakeFaults(k.wall()) // Fault has them
		_ = k.hello.TakeQueueNews()      // and Port.Queues these
	}
}

// Hellos returns the counters of hellos: zero on a modelled machine, which says none.
func (k *Card) Hellos() hello.Counters {
	if k.hello == nil {
		return hello.Counters{}
	}
	return k.hello.Counters()
}

// helloFault returns the fault that was heard of a node's card, or of another card with this card's number.
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
