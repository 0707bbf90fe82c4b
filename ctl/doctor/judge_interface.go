package doctor

// This file judges the interface.

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/funet/funet/uspace/arctic"
)

// nativeMTU is the MTU that most drivers allow with a native program whose frames are in one
// buffer: a page less headroom and the end of a socket buffer. The exact limit depends on the
// driver; trying finds it.
const nativeMTU = 3500

func judgeInterface(i *Interface) []Finding {
	a := &about{subject: i.Name}
	if !i.There {
		a.fail("interface", "name one of "+strings.Join(i.Others, ", ")+
			"; in another network namespace, look from there (`ip netns exec`)", "there is none of this name here")
		return a.list
	}
	a.ok("interface", "%s, driver %s", i.Kind, cmp.Or(i.Driver, "unknown"))
	switch {
	case i.Loopback:
		a.fail("address", "use an Ethernet interface; two programs on one host reach each other through funid or a lab",
			"the loopback interface has no Ethernet address")
		return a.list
	case len(i.MAC) != 6:
		a.fail("address", "use an Ethernet interface",
			"no Ethernet address: FUNet's frames cannot be sent on a %s", i.Kind)
		return a.list
	}
	a.ok("address", "%s", i.MAC)
	switch {
	case !i.Up:
		a.fail("link", "`ip link set "+i.Name+" up`", "the interface is down")
	case !i.Carrier:
		a.fail("link", "plug in the cable, and look at the port of the switch and at the other end: is it up?",
			"no carrier")
	default:
		a.ok("link", "up, with carrier")
	}
	i.judgeMember(a)
	i.judgeMTU(a)
	i.judgeModes(a)
	i.judgeQueues(a)
	i.judgeOffloads(a)
	return a.list
}

// judgeMember judges an interface that belongs to a bond, bridge, VLAN or the like.
func (i *Interface) judgeMember(a *about) {
	switch {
	case i.MasterKind == "bond":
		a.warn("membership", "give FUNet the bond "+i.Master+
			" (generic), or all its members (native), so that it follows a fail-over",
			"a member of bond %s, which may stop using it", i.Master)
	case i.MasterKind == "bridge":
		a.warn("membership", "give FUNet the bridge "+i.Master+
			" itself (generic), unless the other hosts are reached by this port alone",
			"a port of bridge %s: what other ports send does not come in here", i.Master)
	case i.Master != "":
		a.warn("membership", "give FUNet "+i.Master+", unless only this interface leads to the peers",
			"it belongs to %s %s", i.MasterKind, i.Master)
	case i.Kind == "bond":
		a.warn("membership",
			"run generic (`--xdp generic`), or give FUNet the members: a native program on a bond receives nothing",
			"a bond of %s", strings.Join(i.Slaves, ", "))
	case i.Kind == "bridge":
		a.warn("membership", "run generic (`--xdp generic`), or give FUNet the port that leads to the peers",
			"a bridge of %s", strings.Join(i.Slaves, ", "))
	case i.Kind == "vlan":
		a.warn("membership", "run generic (`--xdp generic`): the tag is the kernel's to write",
			"a VLAN on %s", i.Parent)
	case i.Kind == "macvlan", i.Kind == "macvtap", i.Kind == "ipvlan":
		a.warn("membership", "run generic (`--xdp generic`), and do not reach for "+i.Parent+
			" from it: the kernel keeps the two apart", "a %s on %s", i.Kind, i.Parent)
	case i.Kind == "dummy":
		a.fail("membership", "use an interface that leads somewhere", "a dummy: what is sent on it is thrown away")
	default:
		a.ok("membership", "of no bond, bridge or VLAN")
	}
}

func (i *Interface) judgeMTU(a *about) {
	switch {
	case i.MTU < arctic.MinMTU:
		a.fail("MTU", "`ip link set "+i.Name+" mtu 1500`", "%d bytes, FUNet needs %d", i.MTU, arctic.MinMTU)
	case i.Modes != nil && i.Modes.Native.Known && !i.Modes.Native.Yes && i.Modes.NativeFrags.Yes:
		a.warn("MTU",
			fmt.Sprintf("`ip link set %s mtu %d` on all hosts for native mode, or jumbo frames on all hosts (jumbo: true), or generic", i.Name, nativeMTU-50),
			"%d bytes: too many for native mode with frames in one buffer", i.MTU)
	case i.MTU > nativeMTU && !i.HasDaemon && (i.Modes == nil || !i.Modes.Native.Yes):
		a.warn("MTU",
			fmt.Sprintf("`ip link set %s mtu %d` on all hosts if native mode is refused (the kernel log says why), or run generic", i.Name, nativeMTU-50),
			"%d bytes: most drivers refuse native XDP above about %d", i.MTU, nativeMTU)
	default:
		a.ok("MTU", "%d bytes", i.MTU)
	}
}

// judgeModes judges the driver and the XDP program.
func (i *Interface) judgeModes(a *about) {
	switch {
	case i.Program != 0 && i.HasDaemon:
		a.ok("XDP program", "funid's")
	case i.Program != 0 && i.Ours:
		a.fail("XDP program",
			"end the program that has the interface, or attach to its funid; `bpftool link` shows who",
			"a FUNet card has the interface already%s", i.holders())
	case i.Program != 0:
		found, cure := "another XDP program, number %d, is attached",
			"`ip link set dev "+i.Name+" xdp off` (xdpgeneric off, xdpoffload off)"
		// which ip cannot detach: the kernel refuses with "Can't replace active BPF XDP link"
		if i.Link != 0 {
			found += fmt.Sprintf(" by bpf_link %d", i.Link)
			cure =
				fmt.Sprintf("end its owner (`bpftool link show id %d` names it as root), or `bpftool link detach id %[1]d`", i.Link)
		}
		a.fail("XDP program", cure, found+"%s", i.Program, i.holders())
	default:
		a.ok("XDP program", "none but what FUNet attaches")
	}
	m := i.Modes
	switch {
	case i.ModesErr != nil:
		a.warn("XDP modes", "look as root", "could not be tried: %v", i.ModesErr)
	case m == nil:
		a.ok("XDP modes", "not tried; `funet probe %s` does when nothing uses the interface", i.Name)
	case !m.Generic.Known && !m.Native.Known:
		a.warn("XDP modes", "look as root", "could not be tried: %s", m.Generic.Why)
	case !m.Native.Yes && !m.Generic.Yes:
		a.fail("XDP modes", "use another interface, or a kernel with XDP",
			"neither native nor generic: %s", m.Generic.Why)
	case m.Copy.Known && !m.Copy.Yes:
		a.fail("XDP modes", "end who has the queue, or use another interface", "no socket can be bound: %s", m.Copy.Why)
	case m.ZeroCopy.Yes && m.Native.Yes:
		a.ok("XDP modes", "native with zero-copy, native, generic")
	case m.Native.Yes:
		a.ok("XDP modes", "native and generic, copy")
	default:
		a.warn("XDP modes", "nothing need be done; a NIC whose driver has native XDP is faster",
			"generic only, copy: %s", m.Native.Why)
	}
}

// holders names the processes that hold the program, written as the end of a sentence.
func (i *Interface) holders() string {
	if len(i.Holders) == 0 {
		return ""
	}
	return ": process " + strings.Join(i.Holders, ", ")
}

func (i *Interface) judgeQueues(a *about) {
	switch {
	case i.Rx > i.Processors:
		a.warn("queues", fmt.Sprintf("`ethtool -L %s combined %d`: FUNet looks at each in turn", i.Name,
			max(1, i.Processors/2)), "%d receive queues on %d processors", i.Rx, i.Processors)
	case i.Rx > 1 && i.Features["rx-ntuple-filter"]:
		a.ok("queues", "%d receive, %d transmit; ntuple filters steer", i.Rx, i.Tx)
	case i.Rx > 1:
		a.ok("queues", "%d receive, %d transmit; frames arrive on any, as the NIC hashes, and FUNet serves all",
			i.Rx, i.Tx)
	default:
		a.ok("queues", "one receive, %d transmit", i.Tx)
	}
	if len(i.RPS) > 0 {
		a.warn("RPS", "`for f in /sys/class/net/"+i.Name+
			"/queues/rx-*/rps_cpus; do echo 0 > $f; done`, unless it is there on purpose",
			"Receive Packet Steering is on for %s: generic XDP then runs on another processor, after an interrupt between the two", strings.Join(i.RPS, ", "))
	} else {
		a.ok("RPS", "off")
	}
}

func (i *Interface) judgeOffloads(a *about) {
	var on, off []string
	for _, f := range []struct{ feature, name, flag string }{{"rx-lro", "LRO", "lro"},
		{"rx-gro-hw", "GRO in hardware", "rx-gro-hw"}} {
		if i.Features[f.feature] {
			on, off = append(on, f.name), append(off, f.flag+" off")
		}
	}
	if len(i.VLANs) > 0 && i.Features["rx-vlan-hw-parse"] {
		on, off = append(on, "VLAN tags taken off beside VLAN "+strings.Join(i.VLANs, ", ")), append(off, "rxvlan off")
	}
	for _, m := range i.Mergers {
		a.warn("offloads below", "`"+m.Cure()+"`",
			"GRO of %s merges UDP datagrams (%s): with `encap: udp` those of FUNet are lost", m.Name,
			strings.Join(m.Features, ", "))
	}
	if len(on) > 0 {
		a.warn("offloads", "`ethtool -K "+i.Name+" "+strings.Join(off, " ")+"`",
			"%s: native XDP is refused or frames of others are taken for FUNet's", strings.Join(on, "; "))
		return
	}
	a.ok("offloads", "none is in the way")
}
