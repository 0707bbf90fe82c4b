package doctor

// This file judges the peer and the way to it.

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/funet/funet/ctl/doctor/probe"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/arctic"
)

func judgePeer(f *Facts) []Finding {
	p, a := f.Peer, &about{subject: f.Peer.Given}
	switch {
	case p.Problem != "":
		a.fail("peer", p.Cure, "%s", p.Problem)
		return a.list
	case p.Own:
		a.fail("peer", "name another host's", "this is the address of this host")
		return a.list
	}
	if !p.OwnListed {
		a.fail("own entry", "give this host's node the address that `ip link` shows, or `ip address` with encap: udp",
			"the peers file has no address of this host: peers drop its frames")
	}
	if p.ProbeErr != "" {
		a.warn("peer", "mend what is said of the interface above, and look as root",
			"could not be asked: %s", p.ProbeErr)
		return a.list
	}
	r := p.Result
	if r == nil {
		return a.list
	}
	p.judgePresence(a, f)
	p.judgeHello(a, f)
	p.judgeKey(a)
	p.judgeCards(a, f)
	if r.Peer != nil && r.Peer.FrameVersion != arctic.Version {
		a.fail("version", "run the same version of FUNet on all hosts",
			"the peer's frames have version %d, this host's %d", r.Peer.FrameVersion, arctic.Version)
	}
	for c := range probe.Carriers {
		// A host that answers hellos answers no probes: whether UDP passes is then not judged,
		// unless frames travel in it.
		if c == probe.UDP && (p.Datagrams || r.Peer != nil || !p.answersHello()) ||
			c == probe.Ethernet && !p.Datagrams {
			p.judgePassage(a, f, c)
		}
	}
	if !p.Datagrams { // which are no longer than the kernel knows the path to be
		p.judgeMTU(a, f.Interface)
	}
	return a.list
}

func (p *Peer) judgePresence(a *about, f *Facts) {
	r, iface := p.Result, f.Interface.Name
	routed :=
		"FUNet's own frames are not routed: use UDP encapsulation (encap: udp) where there is a router between, or put both on one segment"
	switch {
	case p.RouteErr != "":
		a.fail("presence", "add a route, or name an address of this segment", "no route to %s: %s", p.Addr, p.RouteErr)
	case p.RouteVia != "" && p.RouteVia != iface:
		a.warn("presence", "look at "+p.RouteVia+" (--iface), or correct the route",
			"the kernel's route to %s leaves by %s, not %s", p.Addr, p.RouteVia, iface)
	case p.Gateway.IsValid() && p.Datagrams && r.Peer != nil:
		a.ok("presence", "%s answers, behind the router %s", r.Peer.Name, p.Gateway)
	case p.Gateway.IsValid() && p.Datagrams && p.answersHello():
		a.ok("presence", "its funid answers, behind the router %s", p.Gateway)
	case p.Gateway.IsValid() && p.Datagrams:
		a.warn("presence", answerer(f), "silent: nothing answers at %s, behind the router %s", p.Addr, p.Gateway)
	case p.Gateway.IsValid():
		a.fail("presence", routed, "on another segment: the way to %s is through %s", p.Addr, p.Gateway)
	case r.Peer != nil:
		a.ok("presence", "%s (%s) answers", r.Peer.Name, r.Peer.MAC)
	case p.answersHello():
		a.ok("presence", "its funid answers")
	case p.MAC != nil && len(r.Others) > 0:
		cure := "correct the address; on this segment answer " + hosts(r.Others)
		if p.Node >= 0 {
			cure = fmt.Sprintf("correct mac of node %d in the peers file; on this segment answer %s", p.Node,
				hosts(r.Others))
		}
		a.fail("presence", cure, "nobody answers at %s, others do", p.MAC)
	case p.NeighbourState == "failed", p.NeighbourState == "incomplete":
		cure := "is the host up, is the address its, and is it on this segment (same VLAN, same switch)?"
		if len(r.Others) > 0 {
			cure += " On this segment answer " + hosts(r.Others)
		}
		a.fail("presence", cure, "absent: nobody has %s on this segment", p.Addr)
	case p.Neighbour != nil:
		a.warn("presence", answerer(f), "the kernel knows %s at %s (%s), but nothing answers probes", p.Addr,
			p.Neighbour, p.NeighbourState)
	default:
		a.warn("presence", answerer(f), "silent: nothing answers at %s", p.Given)
	}
	if r.Peer != nil && p.Neighbour != nil && !p.Gateway.IsValid() && !bytes.Equal(p.Neighbour, r.Peer.MAC) {
		a.fail("neighbour", "find the host with the same IP address, or delete the stale entry: `ip neigh del "+
			p.Addr.String()+" dev "+iface+"`",
			"the kernel sends %s to %s, but %s answers", p.Addr, p.Neighbour, r.Peer.MAC)
	}
}

func (p *Peer) answersHello() bool {
	return p.Hello != nil && p.Hello.Answered || p.Result != nil && p.Result.Hello != nil
}

// judgeHello reports the answer of the peer's card. The hello passed the peer's port, and also this
// host's if its daemon asked.
func (p *Peer) judgeHello(a *about, f *Facts) {
	h := p.Hello
	if r := p.Result.Hello; h == nil && r != nil {
		h = &Hello{HelloAnswer: report.HelloAnswer{Answered: true, RoundTrip: float64(r.RoundTrip) / 1e3, Said: r.Card,
			Host: r.Host, Cluster: r.Cluster,
			Frames: r.Frames, FrameSize: int(r.FrameSize)}}
	}
	switch {
	case h == nil:
		return // nobody could say, and presence above has
	case h.Err != "":
		a.warn("funid there", "look as root, or name the peer by its node or address in the peers file",
			"was not asked: %s", h.Err)
		return
	}
	for _, line := range h.Faults {
		found, cure, _ := strings.Cut(line, "; ")
		a.fail("hello", cure, "%s", found)
	}
	said := len(h.Faults) > 0
	switch {
	case !h.Answered && p.Result.Peer != nil:
		a.fail("funid there",
			"start funid there, or look at its log (`journalctl -u funid`) and at `funet doctor` there",
			"the host is there, and card %d does not answer hellos: no funid runs, or frames do not reach its AF_XDP sockets", h.Card)
	case !h.Answered:
		a.warn("funid there", "see presence above, and that funid runs there", "card %d does not answer hellos", h.Card)
	case int(h.Frames) != arctic.Version:
		if !said {
			a.fail("funid there", "run the same version of FUNet on all hosts",
				"the peer's frames have version %d, this host's %d", h.Frames, arctic.Version)
		}
	case h.Own != "" && h.Cluster != "" && h.Own != h.Cluster:
		if !said {
			a.fail("funid there", "give both the same name (discover: in funid's configuration)",
				"it is of cluster %q, this host of %q", h.Cluster, h.Own)
		}
	case f.Daemon != nil && f.Daemon.owns(f.Interface.Name) && f.Daemon.Info.Card == h.Said:
		if !said {
			a.fail("funid there",
				"give each host a card number of its own (card: in funid's configuration), and restart funid",
				"it has card %d, as this host has", h.Said)
		}
	case p.Node >= 0 && int(h.Said) != p.Node:
		if !said {
			a.fail("funid there", "make card: in the peer's configuration and its node in the peers file the same",
				"the peers file has node %d there, its funid has card %d", p.Node, h.Said)
		}
	default:
		through := "through its AF_XDP port"
		if p.Hello != nil {
			through = "through both AF_XDP ports"
		}
		a.ok("funid there", "funid of %s, card %d, answered %s in %.0f us", h.Host, h.Said, through, h.RoundTrip)
	}
}

// answerer returns the cure that makes the other side answer.
func answerer(f *Facts) string {
	return fmt.Sprintf("see that funid runs on the peer, or run `funet doctor --answer --iface INTERFACE` there, and look again; if nothing comes then, the network between filters, or %s leads elsewhere", f.Interface.Name)
}

func hosts(list []probe.Host) string {
	var names []string
	for _, h := range list[:min(len(list), 4)] {
		names = append(names, fmt.Sprintf("%s (%s)", h.MAC, h.Name))
	}
	slices.Sort(names)
	if len(list) > 4 {
		names = append(names, fmt.Sprintf("and %d more", len(list)-4))
	}
	return strings.Join(names, ", ")
}

// judgeCards looks for a card number that two cards share.
func (p *Peer) judgeCards(a *about, f *Facts) {
	type owner struct{ who, mac string }
	has := map[uint16][]owner{}
	if f.Daemon != nil && f.Daemon.owns(f.Interface.Name) {
		has[f.Daemon.Info.Card] = []owner{{"this host", f.Interface.MAC.String()}}
	}
	all := p.Result.Others
	if p.Result.Peer != nil {
		all = append([]probe.Host{*p.Result.Peer}, all...)
	}
	known := len(has)
	for _, h := range all {
		if h.Card != nil {
			known++
			has[h.Card.Number] = append(has[h.Card.Number], owner{h.Name, h.MAC.String()})
		}
	}
	for number, owners := range has {
		if len(owners) > 1 {
			var names []string
			for _, o := range owners {
				names = append(names, fmt.Sprintf("%s (%s)", o.who, o.mac))
			}
			slices.Sort(names)
			a.fail("card number",
				"give each host a card number of its own (card: in funid's configuration, node in the peers file), and restart funid", "card %d is on %s", number, strings.Join(names, " and "))
			return
		}
	}
	switch {
	case p.Node >= 0 && p.Result.Peer != nil && p.Result.Peer.Card != nil && int(p.Result.Peer.Card.Number) != p.Node:
		a.fail("card number", "make card: in the peer's configuration and its node in the peers file the same",
			"the peers file has node %d at %s, its funid has card %d", p.Node, p.Result.Peer.MAC,
			p.Result.Peer.Card.Number)
	case known > 1:
		a.ok("card number", "of %d cards that are known, none has another's", known)
	}
}

// judgePassage reports whether frames of one carrier pass, with one finding for each direction.
func (p *Peer) judgePassage(a *about, f *Facts, c probe.Carrier) {
	r := p.Result
	name := map[probe.Carrier]string{probe.Ethernet: "EtherType 0x88B5", probe.UDP: "UDP"}[c]
	if c == probe.UDP && !p.Addr.IsValid() {
		a.warn(name, "name the peer by IP address or host name", "not tried: no IP address of the peer is known")
		return
	}
	what := map[probe.Carrier]string{probe.Ethernet: "frames of EtherType 0x88B5",
		probe.UDP: fmt.Sprintf("UDP datagrams to port %d", p.Port)}[c]
	cure := map[probe.Carrier]string{
		probe.Ethernet: "look for a switch, cloud network or hypervisor port that passes only IP, and for ebtables, nftables or tc rules; or use UDP encapsulation (encap: udp)",
		probe.UDP:      fmt.Sprintf("open UDP port %d in the firewalls of both hosts and between them (nftables, security groups)", p.Port),
	}[c]
	for _, way := range []struct {
		name   string
		answer probe.Answer
	}{{"to the peer", r.There[c][probe.Short]}, {"from the peer", r.Back[c][probe.Short]}} {
		check := name + " " + way.name
		switch way.answer {
		case probe.Yes:
			a.ok(check, "passes")
		case probe.No:
			a.fail(check, cure, "%s do not pass %s", what, way.name)
		default:
			cure := "see presence above"
			if r.Peer != nil {
				cure = answerer(f)
			}
			a.warn(check, cure, "unknown: nothing came back that would say")
		}
	}
}

// judgeMTU reports whether long frames pass.
func (p *Peer) judgeMTU(a *about, i *Interface) {
	r := p.Result
	for c := range probe.Carriers {
		name := map[probe.Carrier]string{probe.Ethernet: "frames", probe.UDP: "datagrams"}[c]
		for _, way := range []struct {
			name   string
			answer [probe.Lengths]probe.Answer
		}{{"to the peer", r.There[c]}, {"from the peer", r.Back[c]}} {
			if way.answer[probe.Short] == probe.Yes && way.answer[probe.Long] == probe.No {
				other := "a link between has a smaller MTU"
				if r.Peer != nil && r.Peer.MTU != i.MTU {
					other = fmt.Sprintf("the peer's MTU is %d", r.Peer.MTU)
				}
				a.fail("path MTU",
					"set the same MTU on both hosts and on every switch and bridge between: `ip link set "+
						i.Name+" mtu N`",
					"short %s pass %s, those of this host's MTU of %d do not: %s", name, way.name, i.MTU, other)
				return
			}
		}
	}
	switch {
	case r.Peer != nil && r.Peer.MTU != i.MTU:
		a.warn("path MTU", "set the same MTU on both hosts: `ip link set "+i.Name+" mtu N`",
			"this host's MTU is %d, the peer's %d: the longer frames of one never arrive at the other",
			i.MTU, r.Peer.MTU)
	case r.There[probe.Ethernet][probe.Long] == probe.Yes && r.Back[probe.Ethernet][probe.Long] == probe.Yes:
		a.ok("path MTU", "frames of %d bytes pass both ways", i.MTU)
	}
}
