package doctor

// This file gathers the facts that the doctor judges.

import (
	"cmp"
	"context"
	"time"
)

// Options say what the doctor looks at.
type Options struct {
	Interface   string // "": the peer's in the peers file, else the daemon's if it has one
	Peer        string // MAC address, IP address, host name or node of Peers; "": none
	Peers       string // peers file; "": none
	Config      string // funid's, for its key files; "": DefaultConfig, if it exists
	Socket      string // of funid
	WantDaemon  bool   // a host without a daemon fails
	WantHuge    bool   // huge pages are wanted
	LeaveDriver bool   // do not try the driver's modes
	Port        uint16 // UDP port of the peer's answerer; 0: probe.DefaultPort
	Patience    time.Duration

	daemon *Daemon // of this host, once it was looked for; nil: not looked for
	hello  bool    // send hellos: no daemon of this host would take the answers
}

// Gather collects facts. The only error is the context's cause.
func Gather(ctx context.Context, o Options) (*Facts, error) {
	f := &Facts{Host: gatherHost(o.WantHuge)}
	f.Daemon = gatherDaemon(ctx, o.Socket, o.WantDaemon)
	f.Daemon.askStatus(ctx)
	f.Keys = gatherKeys(&o, f.Daemon)
	var p *Peer
	if o.Peer != "" {
		var iface string
		o.daemon = f.Daemon
		p, iface = findPeer(ctx, &o)
		f.Peer = p
		o.Interface = cmp.Or(o.Interface, iface)
	}
	if o.Interface == "" && f.Daemon.State == Answers && len(f.Daemon.Info.Interfaces) == 1 {
		o.Interface = f.Daemon.Info.Interfaces[0]
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if o.Interface != "" {
		f.Interface = gatherInterface(o.Interface, !o.LeaveDriver)
		f.Interface.HasDaemon = f.Daemon.owns(o.Interface)
	}
	if p != nil && p.Problem == "" {
		o.hello = f.Interface != nil && !f.Interface.HasDaemon
		p.look(ctx, &o, f.Interface)
		if f.Interface != nil && f.Interface.HasDaemon && !p.Own && p.ProbeErr == "" {
			if p.Hello == nil {
				p.Hello = f.Daemon.hello(ctx, p)
			}
			p.passes()
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return f, nil
}
