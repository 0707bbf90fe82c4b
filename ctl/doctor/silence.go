package doctor

// This file is the doctor for programs: it finds out why a peer is silent.

import (
	"context"
	"strconv"
	"time"
)

// silentPatience is the most time that Silence may take to probe.
const silentPatience = 1200 * time.Millisecond

// Silence looks for what keeps a node of a peers file from answering on an interface, where this
// process may have a card. It returns the failures it finds, none if the reason stays unknown. It
// neither looks at the host nor at a daemon, nor tries the driver.
func Silence(ctx context.Context, iface, peers string, node int) (wrong []Finding) {
	o := Options{Interface: iface, Peers: peers, Peer: strconv.Itoa(node), Patience: silentPatience}
	p, _ := findPeer(ctx, &o)
	f := &Facts{Interface: gatherInterface(iface, false), Peer: p}
	f.Interface.HasDaemon = true // its program is a card's, whoever's it is
	if p.Problem == "" {
		p.look(ctx, &o, f.Interface)
	}
	if ctx.Err() != nil {
		return nil
	}
	for _, found := range append(judgeInterface(f.Interface), judgePeer(f)...) {
		if found.Verdict == Fail {
			wrong = append(wrong, found)
		}
	}
	return wrong
}
