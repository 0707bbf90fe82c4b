package program

// This file opens one node of a group on the card of a daemon. It also describes a node's card,
// whether that is the daemon's or its own.

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/uspace/port/shared"
)

// attached reports whether the node uses a daemon's card: because --card asks for it, or because
// the environment names a daemon and no flag says otherwise.
func (f *Flags) attached() bool {
	switch f.card {
	case "daemon":
		return true
	case "embedded":
		return false
	}
	return os.Getenv(attach.SocketVariable) != "" && f.Lab == 0 && len(f.ifaces) == 0 && f.peers == ""
}

// checkAttached refuses flags that contradict a daemon's card.
func (f *Flags) checkAttached() error {
	switch {
	case f.Lab != 0:
		return errors.New("--card daemon: --lab here is for embedded cards; use `funet run -n N --lab -- funet ...`")
	case len(f.ifaces) > 0 || f.peers != "":
		return errors.New("--card daemon: the daemon has interfaces and peers; leave out --iface and --peers")
	case f.Node < -1 || f.Node > math.MaxUint16:
		return fmt.Errorf("--node %d: %w; leave it out, funet run says which it is", f.Node, card.ErrNode)
	case f.modelled():
		return fmt.Errorf("--profile %s: it models the time of a machine, which has one process and one card on its bus, and a daemon's card does not; use --card embedded", f.profile)
	}
	return nil
}

// modelled reports whether no daemon's card can have the profile (daemon.Config.Profile). It
// returns false for a profile that is not found here, which the daemon then refuses.
func (f *Flags) modelled() bool {
	if f.profile == "" {
		return false
	}
	p, err := hwprofiles.Load(f.profile)
	if err != nil {
		return false
	}
	ok, err := machine.Modelled(p)
	return ok || err != nil
}

// describeAttached sets the options for the place on a daemon's card that the flags describe.
func (n *Node) describeAttached(f *Flags, o *funet.Options) error {
	cfg, err := attach.Environment()
	if err != nil {
		return err
	}
	cfg.Socket = cmp.Or(f.socket, cfg.Socket)
	if f.Node >= 0 {
		cfg.Node = uint16(f.Node)
	}
	if f.gid != 0 {
		cfg.GID = uint16(f.gid)
	}
	cfg.Slots = f.Slots
	info, err := attach.InquireContext(n.ctx, cfg.Socket, 0)
	if err != nil {
		return err
	}
	if f.profile != NativeProfile && f.profile != info.Profile {
		return fmt.Errorf("--profile %s: the daemon's card has profile %s; an administrator changes that with `funet profile set %s`", f.profile, info.Profile, f.profile)
	}
	n.with, n.socket, o.Attach = &info, cfg.Socket, &cfg
	return nil
}

// Where returns the node's place.
func (n *Node) Where() Place {
	if n.Own == nil {
		return Place{Node: n.Endpoint.Node(), Carrier: "daemon", XDPMode: n.with.XDPMode, BindMode: n.with.BindMode,
			Profile: n.with.Profile}
	}
	var x, b, why []string
	for _, p := range n.Own.Ports() {
		i := p.Info()
		x, b = append(x, i.XDPMode.String()), append(b, i.BindMode.String())
		if i.Why != "" {
			why = append(why, i.Interface+": "+i.Why)
		}
	}
	if n.Own.Direct() {
		return Place{Node: n.Endpoint.Node(), Carrier: "direct", XDPMode: same(x), BindMode: same(b),
			Profile: NativeProfile, Shared: sharedOf(n.Own)}
	}
	return Place{Node: n.Endpoint.Node(), Carrier: "embedded", XDPMode: same(x), BindMode: same(b),
		Why: strings.Join(why, "; "), Profile: n.Profile.Name, Host: n.host()}
}

// placeOf returns a node's place for programs without an endpoint.
func (n *Node) placeOf(c funet.Carrier, node int, f *Flags) Place {
	p := Place{Node: node, Profile: f.profile, Carrier: "embedded", XDPMode: f.Mode, BindMode: f.Bind}
	if n.with != nil {
		p.Carrier, p.XDPMode, p.BindMode = "daemon", n.with.XDPMode, n.with.BindMode
	}
	if k, own := c.(*card.Card); own && k.Direct() {
		p.Carrier, p.Shared = "direct", sharedOf(k)
	}
	return p
}

// sharedOf returns the traffic through shared memory; nil: the card has none.
func sharedOf(k *card.Card) *Shared {
	c, with := k.Shared()
	if c == (shared.Counters{}) {
		return nil
	}
	return &Shared{with, c}
}

// frameSize returns the longest frame that all interfaces of the node can send, in bytes. It
// returns 0 with a daemon's card, because only the daemon knows.
func (n *Node) frameSize() int {
	if n.Own == nil {
		return 0
	}
	size := math.MaxInt
	for _, p := range n.Own.Ports() {
		size = min(size, p.FrameSize())
	}
	return size
}

// counters returns the card's counters; nil with a daemon's card, which counts for all its
// processes.
func (n *Node) counters() *engine.Counters {
	if n.Own == nil {
		return nil
	}
	var c engine.Counters
	n.Own.Alone(func() { c = n.Own.Engine().Counters() })
	return &c
}

// same returns the one string if all are the same, and else joins them.
func same(s []string) string {
	for _, x := range s {
		if x != s[0] {
			return strings.Join(s, "+")
		}
	}
	return s[0]
}
