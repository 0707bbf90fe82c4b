package doctor

// This file states the rules: which fact makes which finding, with which cure.

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/doctor/probe"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/keyfile"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/uspace/port/hello"
	"github.com/funet/funet/xdp"
)

var (
	own   = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	there = net.HardwareAddr{2, 0, 0, 0, 0, 2}
	third = net.HardwareAddr{2, 0, 0, 0, 0, 3}
)

// well is a host, an interface, a daemon and a peer that nothing is wrong with.
func well() *Facts {
	yes := Tried{Yes: true, Known: true}
	all := func() (v [probe.Carriers][probe.Lengths]probe.Answer) {
		for c := range v {
			v[c] = [probe.Lengths]probe.Answer{probe.Yes, probe.Yes}
		}
		return v
	}
	return &Facts{
		Host: Host{Kernel: "6.18.1", Major: 6, Minor: 18, Memlock: math.MaxUint64, HugeBytes: 2 << 20, Processors: 8,
			Governors: []string{"performance"}, Clock: "tsc", Clocks: []string{"tsc"}, Synchronised: true},
		Interface: &Interface{Name: "eth1", There: true, Up: true, Carrier: true, MTU: 1500, MAC: own, Kind: "device",
			Driver: "ice", Rx: 4, Tx: 4,
			Processors: 8, Modes: &Modes{yes, yes, yes, yes, yes}, HasDaemon: true},
		Daemon: &Daemon{Socket: "/run/s", State: Answers, ABI: 1,
			Info: attach.Info{Host: "a", Card: 0, ABI: 1, Interfaces: []string{"eth1"}}},
		Peer: &Peer{Given: "b", Node: 1, OwnListed: true, MAC: there, Addr: netip.MustParseAddr("10.0.0.2"),
			RouteVia: "eth1", Neighbour: there, NeighbourState: "reachable", Port: 34998,
			Hello: &Hello{HelloAnswer: report.HelloAnswer{Card: 1, Answered: true, Said: 1, Host: "b", RoundTrip: 42,
				Frames: arctic.Version}},
			Result: &probe.Result{There: all(), Back: all(), MAC: there, Others: []probe.Host{},
				Peer: &probe.Host{Name: "b", MAC: there, MTU: 1500, FrameVersion: arctic.Version,
					Card: &probe.Card{Number: 1}}}},
	}
}

// direct has funid choose about direct ports.
func direct(f *Facts, chosen, why string) {
	f.Daemon.Info.Carriage = attach.Carriage{Configured: attach.CarriageAuto, Chosen: chosen, Why: why}
}

// keys are those of a host whose funid has what is said.
func keys(f *Facts, k Key) {
	f.Keys = []Key{k}
	f.Daemon.Keys = []report.KeyStatus{{File: k.File, Identity: k.Has, Peers: 1}}
}

// silence is a peer from whom nothing came.
func silence(f *Facts) *probe.Result {
	r := f.Peer.Result
	r.Peer = nil
	f.Peer.Hello = &Hello{HelloAnswer: report.HelloAnswer{Card: 1}}
	for c := range r.There {
		for l := range r.There[c] {
			r.There[c][l], r.Back[c][l] = probe.Unknown, probe.Unknown
		}
	}
	return r
}

func TestNothingWrong(t *testing.T) {
	list := Judge(well())
	for _, f := range list {
		if f.Verdict != OK || f.Cure != "" || f.Found == "" {
			t.Errorf("%+v", f)
		}
	}
	if Worst(list) != OK {
		t.Error(Worst(list))
	}
	if Worst([]Finding{{Verdict: Fail}, {Verdict: Warn}}) != Fail ||
		Worst([]Finding{{Verdict: OK}, {Verdict: Warn}}) != Warn {
		t.Error("the worst is not the worst")
	}
}

// rules has one row for each rule: a change of facts with nothing wrong, and the finding that must
// follow.
var rules = []struct {
	name    string
	change  func(*Facts)
	verdict Verdict
	check   string
	found   string
	cure    string
}{
	{"kernel without bpf_link", func(f *Facts) { f.Host.Major, f.Host.Minor = 5, 8 }, Fail, "kernel",
		"bpf_link", "5.11"},
	{"kernel before 5.11", func(f *Facts) { f.Host.Major, f.Host.Minor = 5, 10 }, Warn, "kernel",
		"memory lock", "5.11"},
	{"kernel of 6.1", func(f *Facts) { f.Host.Major, f.Host.Minor = 6, 1 }, OK, "kernel", "zero-copy on virtio", ""},
	{"no AF_XDP", func(f *Facts) { f.Host.AFXDP = errors.New("address family not supported") }, Fail, "AF_XDP",
		"not supported", "CONFIG_XDP_SOCKETS"},
	{"AF_XDP refused to a user", func(f *Facts) {
		f.Host.AFXDP, f.Host.Missing = os.ErrPermission, []string{"CAP_NET_RAW"}
	}, Warn, "AF_XDP", "permission", "root"},
	{"capabilities", func(f *Facts) { f.Host.Missing, f.Daemon = []string{"CAP_BPF"}, nil }, Fail, "capabilities",
		"CAP_BPF", "root"},
	{"capabilities of a user of funid", func(f *Facts) { f.Host.Missing = []string{"CAP_BPF"} }, OK, "capabilities",
		"needs none", ""},
	{"memory lock of a user of funid", func(f *Facts) { f.Host.Memlock = 64 << 10 }, OK, "memory lock",
		"none need be", ""},
	{"a port of Kubernetes", func(f *Facts) { f.Host.Kubernetes, f.Daemon.Info.UDPPort = true, encap.DefaultPort },
		Warn, "UDP port", "30600", "port: 29600"},
	{"memory lock", func(f *Facts) { f.Host.Memlock, f.Daemon = 64<<10, nil }, Fail, "memory lock",
		"64 KiB", "ulimit -l"},
	{"memory lock that does not matter", func(f *Facts) { f.Host.Memlock, f.Host.MayLock = 0, true }, OK, "memory lock",
		"CAP_IPC_LOCK", ""},
	{"huge pages wanted", func(f *Facts) { f.Host.WantHuge = true }, Fail, "huge pages", "2 MiB", "vm.nr_hugepages"},
	{"huge pages", func(f *Facts) { f.Host.WantHuge, f.Host.HugeFree = true, 3 }, OK, "huge pages", "3 of 2 MiB", ""},
	{"governor", func(f *Facts) { f.Host.Governors = []string{"performance", "powersave"} }, Warn, "governor",
		"powersave", "cpupower"},
	{"no governor", func(f *Facts) { f.Host.Governors = nil }, OK, "governor", "does not scale", ""},
	{"one processor", func(f *Facts) { f.Host.Processors = 1 }, Warn, "processors", "one", "two"},
	{"isolation", func(f *Facts) { f.Host.Isolated = "4-7" }, OK, "processors", "4-7; pin", ""},
	{"clock source that can be changed", func(f *Facts) { f.Host.Clock = "hpet" }, Warn, "clock source",
		"hpet", "echo tsc"},
	{"clock source", func(f *Facts) { f.Host.Clock, f.Host.Clocks = "acpi_pm", []string{"acpi_pm"} }, Warn,
		"clock source", "acpi_pm", "boot"},
	{"clock", func(f *Facts) { f.Host.Synchronised = false }, Warn, "clock", "not synchronised", "chrony"},
	{"autogroup", func(f *Facts) { f.Host.Autogroup = true }, Warn, "scheduler", "autogroup",
		"sched_autogroup_enabled=0"},

	{"no interface", func(f *Facts) { *f.Interface = Interface{Name: "eth9", Others: []string{"lo", "eth1"}} }, Fail,
		"interface", "none of this name", "lo, eth1"},
	{"loopback", func(f *Facts) { f.Interface.Loopback = true }, Fail, "address", "loopback", "Ethernet interface"},
	{"no Ethernet address", func(f *Facts) { f.Interface.MAC, f.Interface.Kind = nil, "tun" }, Fail, "address", "tun",
		"Ethernet interface"},
	{"down", func(f *Facts) { f.Interface.Up = false }, Fail, "link", "down", "ip link set eth1 up"},
	{"no carrier", func(f *Facts) { f.Interface.Carrier = false }, Fail, "link", "no carrier", "cable"},
	{"bond member", func(f *Facts) { f.Interface.Master, f.Interface.MasterKind = "bond0", "bond" }, Warn, "membership",
		"bond bond0", "the bond bond0"},
	{"bridge port", func(f *Facts) { f.Interface.Master, f.Interface.MasterKind = "br0", "bridge" }, Warn, "membership",
		"bridge br0", "the bridge br0"},
	{"member of another kind", func(f *Facts) { f.Interface.Master, f.Interface.MasterKind = "t0", "team" }, Warn,
		"membership", "team t0", "t0"},
	{"bond", func(f *Facts) { f.Interface.Kind, f.Interface.Slaves = "bond", []string{"eth2"} }, Warn, "membership",
		"eth2", "generic"},
	{"bridge", func(f *Facts) { f.Interface.Kind, f.Interface.Slaves = "bridge", []string{"eth2"} }, Warn, "membership",
		"eth2", "generic"},
	{"VLAN", func(f *Facts) { f.Interface.Kind, f.Interface.Parent = "vlan", "eth0" }, Warn, "membership",
		"VLAN on eth0", "generic"},
	{"macvlan", func(f *Facts) { f.Interface.Kind, f.Interface.Parent = "macvlan", "eth0" }, Warn, "membership",
		"macvlan on eth0", "generic"},
	{"dummy", func(f *Facts) { f.Interface.Kind = "dummy" }, Fail, "membership", "dummy", "leads"},
	{"MTU below FUNet's least", func(f *Facts) { f.Interface.MTU = arctic.MinMTU - 1 }, Fail, "MTU", "673", "mtu 1500"},
	{"MTU that the driver refuses", func(f *Facts) {
		f.Interface.MTU, f.Interface.Modes.Native = 9000, Tried{Known: true}
	}, Warn, "MTU", "native", "jumbo"},
	{"MTU above native limits, not tried", func(f *Facts) {
		f.Interface.MTU, f.Interface.Modes, f.Interface.HasDaemon = 9000, nil, false
	}, Warn, "MTU", "3500", "mtu 3450"},
	{"MTU above native limits, where funid runs", func(f *Facts) {
		f.Interface.MTU, f.Interface.Modes = 9000, nil
	}, OK, "MTU", "9000", ""},
	{"another XDP program", func(f *Facts) { f.Interface.Program, f.Interface.HasDaemon = 7, false }, Fail,
		"XDP program", "number 7", "xdp off"},
	{"another XDP program by a link", func(f *Facts) {
		f.Interface.Program, f.Interface.HasDaemon, f.Interface.Link, f.Interface.Holders = 7, false, 31,
			[]string{"bpfd (812)"}
	}, Fail, "XDP program", "number 7, is attached by bpf_link 31: process bpfd (812)", "bpftool link detach id 31"},
	{"a card on the interface", func(f *Facts) {
		f.Interface.Program, f.Interface.Ours, f.Interface.HasDaemon = 7, true, false
	}, Fail, "XDP program", "FUNet card", "bpftool link"},
	{"funid's program", func(f *Facts) { f.Interface.Program, f.Interface.Ours = 7, true }, OK,
		"XDP program", "funid's", ""},
	{"modes that fail to be tried", func(f *Facts) { f.Interface.Modes, f.Interface.ModesErr = nil, os.ErrPermission },
		Warn, "XDP modes", "permission", "root"},
	{"modes unknown", func(f *Facts) {
		f.Interface.Modes.Native, f.Interface.Modes.Generic = Tried{}, Tried{Why: "permission denied"}
	}, Warn, "XDP modes", "permission", "root"},
	{"no XDP", func(f *Facts) {
		f.Interface.Modes.Native, f.Interface.Modes.Generic = Tried{Known: true}, Tried{Known: true, Why: "refused"}
	}, Fail, "XDP modes", "refused", "another interface"},
	{"no socket", func(f *Facts) { f.Interface.Modes.Copy = Tried{Known: true, Why: "invalid"} }, Fail, "XDP modes",
		"invalid", "another interface"},
	{"generic only", func(f *Facts) {
		f.Interface.Modes.Native, f.Interface.Modes.NativeFrags = Tried{Known: true, Why: "not supported"},
			Tried{Known: true}
	}, Warn, "XDP modes", "generic only", "native"},
	{"copy", func(f *Facts) { f.Interface.Modes.ZeroCopy = Tried{Known: true} }, OK, "XDP modes", "copy", ""},
	{"more queues than processors", func(f *Facts) { f.Interface.Rx = 32 }, Warn, "queues", "32 receive",
		"ethtool -L eth1 combined 4"},
	{"ntuple", func(f *Facts) { f.Interface.Features = map[string]bool{"rx-ntuple-filter": true} }, OK,
		"queues", "ntuple", ""},
	{"RPS", func(f *Facts) { f.Interface.RPS = []string{"rx-0"} }, Warn, "RPS", "rx-0", "rps_cpus"},
	{"LRO", func(f *Facts) { f.Interface.Features = map[string]bool{"rx-lro": true} }, Warn, "offloads", "LRO",
		"ethtool -K eth1 lro off"},
	{"GRO in hardware", func(f *Facts) { f.Interface.Features = map[string]bool{"rx-gro-hw": true} }, Warn, "offloads",
		"GRO", "rx-gro-hw off"},
	{"tags taken off", func(f *Facts) {
		f.Interface.Features, f.Interface.VLANs = map[string]bool{"rx-vlan-hw-parse": true}, []string{"eth1.5"}
	}, Warn, "offloads", "eth1.5", "rxvlan off"},
	{"GRO of datagrams below", func(f *Facts) {
		f.Interface.Mergers = []xdp.Merger{{Name: "eth0", Features: []string{"rx-udp-gro-forwarding", "rx-gro-list"}}}
	}, Warn, "offloads below", "GRO of eth0", "ethtool -K eth0 rx-udp-gro-forwarding off rx-gro-list off"},
	{"tags taken off where there are none", func(f *Facts) {
		f.Interface.Features = map[string]bool{"rx-vlan-hw-parse": true}
	}, OK, "offloads", "none", ""},

	{"no daemon", func(f *Facts) { f.Daemon.State = NoSocket }, Warn, "daemon", "none runs", "systemctl start"},
	{"no daemon where one is expected", func(f *Facts) { f.Daemon.State, f.Daemon.Wanted = NoSocket, true }, Fail,
		"daemon", "none runs", "systemctl start"},
	{"a dead daemon's socket", func(f *Facts) { f.Daemon.State = Deaf }, Warn, "daemon", "nobody listens",
		"systemctl start"},
	{"socket without rights", func(f *Facts) { f.Daemon.State = Forbidden }, Fail, "daemon", "may not connect", "755"},
	{"daemon of another version", func(f *Facts) { f.Daemon.State = Foreign }, Fail, "daemon", "another version",
		"same version"},
	{"stuck daemon", func(f *Facts) { f.Daemon.State = Silent }, Fail, "daemon", "does not answer", "journalctl"},
	{"not a daemon", func(f *Facts) { f.Daemon.State = Odd }, Fail, "daemon", "not a funid", "--socket"},
	{"daemon of another ABI", func(f *Facts) { f.Daemon.Info.ABI = 2 }, Fail, "daemon version", "ABI 2",
		"same version"},
	{"direct ports", func(f *Facts) {
		direct(f, attach.CarriageDirect, "frames")
		f.Daemon.Direct = &report.DirectStatus{Ports: 3, Kept: 1}
	}, OK, "direct ports", "3 are open, 1 kept by processes whose place has ended; proven: frames", ""},
	{"no direct ports, as configured", func(f *Facts) {}, OK, "direct ports", "as configured", ""},
	{"direct ports that are impossible", func(f *Facts) { direct(f, attach.CarriageDaemon, "no namespaces") }, Warn,
		"direct ports", "no namespaces", "restart funid"},
	{"a helper that does not answer", func(f *Facts) { direct(f, attach.CarriageDirect, "frames") }, Warn,
		"direct ports", "does not answer", "funid-ports"},
	{"ports that nobody has asked for", func(f *Facts) {
		direct(f, attach.CarriageDirect, "frames")
		f.Daemon.Direct = &report.DirectStatus{Ports: 3, Orphaned: 2}
	}, Warn, "direct ports", "of 3 nobody has asked for 2", "in a minute"},
	{"interface that is not the daemon's", func(f *Facts) { f.Interface.HasDaemon = false }, Warn, "daemon interface",
		"does not have eth1", "interfaces"},

	{"no key", func(f *Facts) {}, OK, "key file", "none: whoever can send", ""},
	{"a key", func(f *Facts) { keys(f, Key{File: "/k", Holds: "0000000a", Has: "0000000a"}) }, OK, "key file",
		"key 0000000a in /k", ""},
	{"a key that this user may not read", func(f *Facts) { keys(f, Key{File: "/k", Has: "0000000a"}) }, OK, "key file",
		"key 0000000a from /k", ""},
	{"the same without funid", func(f *Facts) { f.Daemon.State = NoSocket; f.Keys = []Key{{File: "/k"}} }, OK,
		"key file", "/k has 32 bytes", ""},
	{"a key from systemd", func(f *Facts) {
		keys(f, Key{File: "/run/credentials/funid.service/k", Err: os.ErrNotExist, Has: "0000000a", Handed: true})
	}, OK, "key file", "systemd has handed to funid", ""},
	{"a key that systemd is to hand over", func(f *Facts) {
		f.Daemon.State = NoSocket
		f.Keys = []Key{{File: "$CREDENTIALS_DIRECTORY/k", Handed: true, Service: true}}
	}, OK, "key file", "for systemd to hand to funid", ""},
	{"a file that holds another key by now", func(f *Facts) {
		keys(f, Key{File: "/k", Holds: "0000000b", Has: "0000000a"})
	}, Warn, "key file", "holds another by now", "restart funid"},
	{"a key that funid does not have", func(f *Facts) { f.Keys = []Key{{File: "/k", Err: os.ErrNotExist}} }, Fail,
		"key file", "no key file /k", "funet key new /k"},
	{"a named key, and funid without", func(f *Facts) { f.Keys = []Key{{File: "/k", Holds: "0000000a"}} }, Warn,
		"daemon key", "others are named", "systemctl restart funid"},
	{"root's key, and a service", func(f *Facts) {
		f.Daemon.State = NoSocket
		f.Keys = []Key{{File: "/k", Holds: "0000000a", Service: true}}
	}, Warn, "key file", "a user of its own", "LoadCredential=funet.key:/k"},
	{"a key that others read", func(f *Facts) {
		keys(f, Key{File: "/k", Has: "0000000a", Err: fmt.Errorf("mode 0644: %w", keyfile.ErrMode)})
	}, Fail, "key file", "0644", "chmod 600 /k"},
	{"a key of another user", func(f *Facts) { f.Keys = []Key{{File: "/k", Err: keyfile.ErrOwner}} }, Fail, "key file",
		"another user", "chown root /k"},
	{"no key in the file", func(f *Facts) { f.Keys = []Key{{File: "/k", Err: keyfile.ErrKind}} }, Fail, "key file",
		"not a key file", "copy the file"},
	{"a key that cannot be reached", func(f *Facts) { f.Keys = []Key{{File: "/k", Err: os.ErrPermission}} }, Warn,
		"key file", "could not be looked at", "root"},
	{"a configuration that cannot be read", func(f *Facts) {
		f.Keys = []Key{{File: "/c", Err: errors.New("line 3")}}
	}, Fail, "key file", "line 3", "funid --help"},

	{"the same key", func(f *Facts) {
		f.Peer.Hello.Key, f.Peer.Hello.OwnKey = report.PeerKey{State: "encrypted", Met: true}, "0000000a"
	}, OK, "key", "key 0000000a on both hosts; frames are encrypted", ""},
	{"the same key, readable", func(f *Facts) { f.Peer.Hello.Key = report.PeerKey{State: "authenticated", Met: true} },
		OK, "key", "frames are authenticated", ""},
	{"no key on either", func(f *Facts) { f.Peer.Hello.Key = report.PeerKey{State: "none", Met: true} }, OK,
		"key", "neither", ""},
	{"another key there", func(f *Facts) { f.Peer.Hello.Key = report.PeerKey{State: "other key", Refused: true} }, Fail,
		"key", "other key", "the same key"},
	{"no key there", func(f *Facts) { f.Peer.Hello.Key = report.PeerKey{State: "no key there", Refused: true} }, Fail,
		"key", "no key there", "restart funid there"},
	{"no key here", func(f *Facts) { f.Peer.Hello.Key = report.PeerKey{State: "no key here", Refused: true} }, Fail,
		"key", "no key here", "restart funid here"},
	{"restarted with another key", func(f *Facts) {
		f.Peer.Hello.Key = report.PeerKey{State: "encrypted", Doubt: "other key", Met: true}
	}, Fail, "key", "other key: it had", "restart funid on this host"},
	{"not greeted", func(f *Facts) { f.Peer.Hello.Key = report.PeerKey{State: "waiting"} }, Warn, "key",
		"did not answer a greeting", "look again"},

	{"a peer that cannot be", func(f *Facts) { f.Peer.Problem, f.Peer.Cure = "no such node", "name another" }, Fail,
		"peer", "no such node", "name another"},
	{"oneself", func(f *Facts) { f.Peer.Own = true }, Fail, "peer", "this host", "another host"},
	{"a host that is not in the peers file", func(f *Facts) {
		f.Peer.OwnListed = false
	}, Fail, "own entry", "no address of this host", "ip link"},
	{"not to be asked", func(f *Facts) { f.Peer.ProbeErr = "no rights" }, Warn, "peer", "no rights", "root"},
	{"no route", func(f *Facts) { f.Peer.RouteErr = "unreachable" }, Fail, "presence", "no route", "add a route"},
	{"route by another interface", func(f *Facts) { f.Peer.RouteVia = "eth0" }, Warn, "presence",
		"leaves by eth0", "--iface"},
	{"another segment", func(f *Facts) { f.Peer.Gateway = netip.MustParseAddr("10.0.0.254") }, Fail, "presence",
		"another segment", "encap: udp"},
	{"silent behind a router", func(f *Facts) {
		f.Peer.Datagrams, f.Peer.Gateway = true, netip.MustParseAddr("10.0.0.254")
		silence(f)
	}, Warn, "presence", "behind the router 10.0.0.254", "doctor --answer"},
	{"behind a router", func(f *Facts) {
		f.Peer.Datagrams, f.Peer.Gateway = true, netip.MustParseAddr("10.0.0.254")
	}, OK, "presence", "behind the router 10.0.0.254", ""},
	{"wrong MAC of a node", func(f *Facts) { silence(f).Others = []probe.Host{{Name: "c", MAC: third}} }, Fail,
		"presence", "others do", "mac of node 1"},
	{"wrong MAC", func(f *Facts) { f.Peer.Node = -1; silence(f).Others = []probe.Host{{Name: "c", MAC: third}} }, Fail,
		"presence", "others do", "02:00:00:00:00:03 (c)"},
	{"absent", func(f *Facts) { f.Peer.MAC, f.Peer.NeighbourState = nil, "failed"; silence(f) }, Fail, "presence",
		"absent", "same VLAN"},
	{"no answerer", func(f *Facts) { silence(f) }, Warn, "presence", "nothing answers probes", "doctor --answer"},
	{"silent", func(f *Facts) { f.Peer.Neighbour = nil; silence(f) }, Warn, "presence", "silent", "doctor --answer"},
	{"one IP address on two hosts", func(f *Facts) { f.Peer.Neighbour = third }, Fail, "neighbour", "02:00:00:00:00:03",
		"ip neigh del"},
	{"card number of this host", func(f *Facts) { f.Peer.Result.Peer.Card.Number = 0 }, Fail, "card number",
		"card 0 is on b (02:00:00:00:00:02) and this host", "of its own"},
	{"card number of two others", func(f *Facts) {
		f.Peer.Result.Others = []probe.Host{{Name: "c", MAC: third, Card: &probe.Card{Number: 1}}}
	}, Fail, "card number", "card 1", "of its own"},
	{"card that is not the node", func(f *Facts) { f.Peer.Result.Peer.Card.Number = 5 }, Fail, "card number",
		"card 5", "the same"},
	{"peer of another version", func(f *Facts) { f.Peer.Result.Peer.FrameVersion = 99 }, Fail, "version", "99",
		"same version"},
	{"a peer's card", func(f *Facts) {}, OK, "funid there",
		"funid of b, card 1, answered through both AF_XDP ports in 42 us", ""},
	{"a peer's card, asked without a daemon", func(f *Facts) {
		f.Peer.Hello, f.Peer.Result.Hello = nil,
			&probe.Hello{Said: hello.Said{Card: 1, Frames: arctic.Version, Host: "b"}, RoundTrip: 9e4}
	}, OK, "funid there", "through its AF_XDP port in 90 us", ""},
	{"a daemon that may not be asked", func(f *Facts) { f.Peer.Hello = &Hello{Err: "forbidden"} }, Warn, "funid there",
		"forbidden", "as root"},
	{"a host without funid", func(f *Facts) { f.Peer.Hello.Answered = false }, Fail, "funid there",
		"the host is there, and card 1 does not answer", "journalctl"},
	{"a silent card", func(f *Facts) { f.Peer.Hello.Answered = false; silence(f) }, Warn, "funid there",
		"does not answer", "presence"},
	{"a card of another version", func(f *Facts) { f.Peer.Hello.Frames = 99 }, Fail, "funid there", "version 99",
		"same version"},
	{"a card of another cluster", func(f *Facts) { f.Peer.Hello.Own, f.Peer.Hello.Cluster = "a", "b" }, Fail,
		"funid there", `of cluster "b", this host of "a"`, "discover"},
	{"a card with this host's number", func(f *Facts) { f.Peer.Hello.Said = 0 }, Fail, "funid there",
		"card 0, as this host", "of its own"},
	{"a card with another number", func(f *Facts) { f.Peer.Hello.Said = 7 }, Fail, "funid there",
		"has card 7", "the same"},
	{"what the daemon has heard", func(f *Facts) {
		f.Peer.Hello.Faults = []string{"card 1 is a and b; give each its own"}
	}, Fail, "hello", "card 1 is a and b", "give each its own"},
	{"a card that answers, and no probes", func(f *Facts) { silence(f); f.Peer.Hello.Answered = true }, OK, "presence",
		"its funid answers", ""},
	{"a card behind a router", func(f *Facts) {
		f.Peer.Datagrams, f.Peer.Gateway = true, netip.MustParseAddr("10.0.0.254")
		silence(f)
		f.Peer.Hello.Answered = true
	}, OK, "presence", "its funid answers, behind the router 10.0.0.254", ""},
	{"EtherType filtered", func(f *Facts) { f.Peer.Result.There[probe.Ethernet][probe.Short] = probe.No }, Fail,
		"EtherType 0x88B5 to the peer", "do not pass", "encap: udp"},
	{"EtherType filtered on the way back", func(f *Facts) {
		f.Peer.Result.Back[probe.Ethernet][probe.Short] = probe.No
	}, Fail, "EtherType 0x88B5 from the peer", "do not pass", "encap: udp"},
	{"UDP filtered", func(f *Facts) { f.Peer.Result.There[probe.UDP][probe.Short] = probe.No }, Fail, "UDP to the peer",
		"34998", "firewalls"},
	{"UDP filtered on the way back", func(f *Facts) { f.Peer.Result.Back[probe.UDP][probe.Short] = probe.No }, Fail,
		"UDP from the peer", "34998", "firewalls"},
	{"a way unknown", func(f *Facts) { f.Peer.Result.Back[probe.UDP][probe.Short] = probe.Unknown }, Warn,
		"UDP from the peer", "unknown", "--answer"},
	{"all ways unknown", func(f *Facts) { silence(f) }, Warn, "EtherType 0x88B5 to the peer", "unknown", "presence"},
	{"no address for UDP", func(f *Facts) { f.Peer.Addr = netip.Addr{} }, Warn, "UDP", "not tried", "IP address"},
	{"MTU of the peer", func(f *Facts) { f.Peer.Result.Peer.MTU = 9000 }, Warn, "path MTU", "9000", "same MTU"},
	{"MTU that shrinks on the way", func(f *Facts) { f.Peer.Result.There[probe.Ethernet][probe.Long] = probe.No }, Fail,
		"path MTU", "a link between", "every switch"},
	{"smaller MTU at the peer", func(f *Facts) {
		f.Peer.Result.There[probe.Ethernet][probe.Long], f.Peer.Result.Peer.MTU = probe.No, 1400
	}, Fail, "path MTU", "the peer's MTU is 1400", "every switch"},
}

// Rule: each row above.
func TestRules(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			f := well()
			r.change(f)
			for _, got := range Judge(f) {
				if got.Check != r.check {
					continue
				}
				if got.Verdict != r.verdict || !strings.Contains(got.Found, r.found) ||
					!strings.Contains(got.Cure, r.cure) || (got.Cure == "") != (r.verdict == OK) {
					t.Errorf("%+v, want %s with %q and %q", got, r.verdict, r.found, r.cure)
				}
				return
			}
			t.Errorf("nothing is said of %s: %+v", r.check, Judge(f))
		})
	}
}

// Rule: there is no finding without a row above.
func TestRulesAreWhole(t *testing.T) {
	have := map[string]int{}
	for _, r := range rules {
		if r.verdict != OK {
			have[r.check]++
		}
	}
	files, err := filepath.Glob("judge_*.go")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	said := map[string]int{}
	call := regexp.MustCompile(`(?:a\.(?:warn|fail)|report)\("([^"]+)"`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(b), -1) {
			said[m[1]]++
		}
	}
	for check, n := range said {
		if have[check] < n {
			t.Errorf("%s: %d rules and %d rows", check, n, have[check])
		}
	}
}

// Rule: versions of kernels as distributions write them.
func TestRelease(t *testing.T) {
	for s, want := range map[string][2]int{"6.18.44-fc-v669": {6, 18}, "5.4": {5, 4}, "6.1+": {6, 1},
		"7.0-rc3": {7, 0}, "": {0, 0}} {
		if major, minor := release(s); major != want[0] || minor != want[1] {
			t.Errorf("%q is %d.%d", s, major, minor)
		}
	}
}
