package doctor

// This file asks a peer's card through the daemon of this host.

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/funet/funet/ctl/doctor/probe"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
)

// hello has the daemon ask the card at the peer's address.
func (d *Daemon) hello(ctx context.Context, p *Peer) *Hello {
	h := &Hello{}
	m := report.Command{Do: "hello"}
	switch {
	case p.Node >= 0:
		card := uint16(p.Node)
		m.Card = &card
	case p.MAC != nil:
		m.Address = p.MAC.String()
	case p.Addr.IsValid():
		m.Address = p.Addr.String()
	}
	err := d.command(ctx, m, &h.HelloAnswer)
	// by its Ethernet address
	if errors.Is(err, attach.ErrRoute) && p.MAC == nil && p.Neighbour != nil && p.Node < 0 {
		m.Address = p.Neighbour.String()
		err = d.command(ctx, m, &h.HelloAnswer)
	}
	switch {
	case errors.Is(err, attach.ErrRoute):
		h.Err = "funid of this host knows no card there"
	case err != nil:
		h.Err = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return h
}

// fromDaemon finds a card that the daemon of this host knows, and returns the interface to it.
func (p *Peer) fromDaemon(ctx context.Context, d *Daemon, card int) (iface string) {
	if p.Own = card == int(d.Info.Card); p.Own {
		return ""
	}
	p.Node = card
	if p.Hello = d.hello(ctx, p); p.Hello.Err != "" {
		p.Problem, p.Cure = p.Hello.Err,
			"`funet status` lists the cards that it knows; or name the peer's address, or its node with --peers"
		return ""
	}
	if p.Datagrams = p.Hello.Encap == cluster.UDP.String(); p.Datagrams {
		p.Addr, _ = netip.ParseAddr(p.Hello.Address) // the daemon's is one
	} else {
		p.MAC, _ = net.ParseMAC(p.Hello.Address)
	}
	return p.Hello.Interface
}

// passes records that frames pass in both directions, if the peer's card has answered the daemon.
func (p *Peer) passes() {
	by := probe.Ethernet
	if p.Datagrams {
		by = probe.UDP
	}
	if p.Hello.Answered && p.Result != nil {
		p.Result.There[by][probe.Short], p.Result.Back[by][probe.Short] = probe.Yes, probe.Yes
	}
}

// command sends an administrator's command to the daemon.
func (d *Daemon) command(ctx context.Context, m report.Command, answer any) error {
	return attach.Call(ctx, d.Socket, attach.KindAdmin, 2*daemonPatience, m, answer)
}
