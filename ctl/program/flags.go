package program

// This file has the flags of all programs. They say which card a node has, or which lab is made for
// the run.

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/pin"
	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/xdp"
)

// Defaults of flags, and the profile of a host without limits.
const (
	DefaultSlots = card.DefaultSlots
	DefaultWait  = 30 * time.Second
	// NativeProfile is the profile that leaves the host as fast as it is.
	NativeProfile = "native"
)

// Flags are common to all programs that run on a group. A command that does not register them must
// set Node, MTU, CPU, Slots, Wait and the other fields that it needs.
type Flags struct {
	Lab      int    // number of hosts of a lab made for this run; 0: no lab
	Topology string // of the lab; "": as lab.Options says
	ipv6     bool
	hashed   bool // on a fat tree, the two ends of a way choose the ports up
	MTU      int  // of the lab's links, in bytes
	Steer    bool // on a lab, each host's frames are received on its own processor
	queues   int
	Apart    bool // on a lab of more hosts than processors, host 0 has one to itself
	Alone    bool // node 0 runs without the other nodes
	// Hosts are the hosts of the lab that have nodes, in the order of these; nil: all, in order.
	Hosts []int

	card   string // "daemon", "embedded", "direct" or "auto"; "" means auto
	socket string
	ifaces []string
	Node   int // of a real host; -1: not given
	peers  string
	Encap  string // "": as the peers file says
	gid    int

	Mode       string // of the XDP program, see ParseAttach
	Bind       string // of the AF_XDP sockets, see ParseBind
	CPU        int    // to pin the polling thread to; -1: see Register
	cpus       []int  // CPU of each node, for a job whose nodes have the same flags
	Slots      int    // of each queue, a power of two from 2 to 65536
	hugePages  bool
	Jumbo      bool // frames as long as the MTU allows
	vlan       int
	rxRing     int
	fillFrames int
	queue      int
	// provoke makes the rings of a lab's nodes so small that they run full or empty.
	provoke bool
	Wait    time.Duration // for the other nodes to start
	JSON    bool          // print one JSON document
	// key is the name of a file. With readable the key only authenticates frames.
	key      string
	readable bool
	// told is the descriptor of the progress gauge of the command that made the lab, or 0. counted
	// is the file of that gauge, for the node that gets it.
	told    int
	counted *os.File
	// given reports whether a flag is on the command line; nil: that is unknown.
	given func(flag string) bool
	// profile is the argument of --profile; machine is the profile that it names.
	profile string
	machine *hwprofiles.Profile
}

// Register adds the flags to a command.
func (f *Flags) Register(c *cobra.Command) {
	p := c.Flags()
	f.given = p.Changed
	p.IntVar(&f.Lab, "lab", 0, "run on a lab of this many hosts (2 to 8; with --hub to 16) made for the occasion")
	p.StringVar(&f.Topology, "topology", "",
		"of the lab: pair, bridge, mesh, router, or as --hub (default: pair for 2 hosts, bridge for more)")
	p.StringVar(&f.Topology, "hub", "",
		"of the lab: routers in the kernel join the hosts: star, hypercube, fat-tree or butterfly (as --topology)")
	p.BoolVar(&f.hashed, "hashed", false,
		"with --hub fat-tree: the two ends of a way choose the ports up, not its receiver alone")
	p.BoolVar(&f.ipv6, "ipv6", false, "on a lab with --topology router: IPv6 addresses")
	p.IntVar(&f.MTU, "mtu", 1500, fmt.Sprintf("of the lab's links, in bytes, from %d", arctic.MinMTU))
	p.BoolVar(&f.Steer, "steer", false,
		"on a lab: receive each host's frames on its own processor (RPS), not on the sender's")
	p.IntVar(&f.queues, "queues", 1, fmt.Sprintf("of each interface of the lab, up to %d", lab.MaxQueues))
	p.StringVar(&f.card, "card", "auto",
		"daemon: a funid's; embedded: of this process, which takes root; direct, on a lab: of this process, on a direct port; auto: a daemon's where funet run says which")
	p.StringVar(&f.socket, "socket", "", "of the daemon (default: $FUNET_SOCKET, or "+attach.DefaultSocket+")")
	p.StringSliceVar(&f.ifaces, "iface", nil, "on a real host: interface to use, or several with commas")
	p.IntVar(&f.Node, "node", -1, "on a real host: number of this node")
	p.StringVar(&f.peers, "peers", "", "on a real host: file that lists the nodes and their MAC or IP addresses")
	p.StringVar(&f.Encap, "encap", "",
		"ethernet: frames to MAC addresses on one segment; udp: in UDP datagrams to IP addresses, over routers; hub: as ethernet, small frames for several nodes in one, over routers of funet hub (default: as the peers file says)")
	p.IntVar(&f.gid, "gid", 0, "group identifier, 1 to 2047 (default: that of the peers file, or 1)")
	p.StringVar(&f.Mode, "xdp", "auto", "where the NIC program runs: auto, native or generic; on a lab auto measures")
	p.StringVar(&f.Bind, "bind", "auto", "how frames reach the process: auto, copy or zero-copy")
	p.IntVar(&f.CPU, "cpu", -1,
		"processor to pin the polling thread to (default: none; on a lab one each if there are enough)")
	p.IntVar(&f.Slots, "slots", DefaultSlots, "size of each queue in slots, a power of two from 2 to 65536")
	p.BoolVar(&f.Jumbo, "jumbo", false,
		"frames as long as the MTU allows, not up to 3836 bytes (multi-buffer AF_XDP, Linux 6.6), to nodes that have it, too")
	p.IntVar(&f.vlan, "vlan", 0, "tag frames with this VLAN, 1 to 4094; on all nodes (default: none)")
	p.IntVar(&f.rxRing, "rx-ring", 0,
		"slots of the kernel's receive ring, a power of two up to 2048 (default 2048, more with --jumbo)")
	p.IntVar(&f.fillFrames, "fill-frames", 0,
		"frames that the kernel may receive into, up to 512 (default 512, more with --jumbo)")
	p.IntVar(&f.queue, "queue", -1,
		"the one queue of each interface that frames leave on, and are steered to where the NIC can (default: they leave on all)")
	p.BoolVar(&f.hugePages, "huge-pages", false, "keep frames on 2 MiB pages")
	p.StringVar(&f.key, "key", "",
		"authenticate and encrypt frames with the key in this file; on all nodes the same (funet key new; default: as the peers file says)")
	p.BoolVar(&f.readable, "readable", false, "with a key: authenticate frames and leave them readable; on all nodes")
	p.DurationVar(&f.Wait, "wait", DefaultWait, "how long to wait for the other nodes to start")
	p.StringVar(&f.profile, "profile", NativeProfile,
		"hardware to be as slow as: a profile's name, or a file with a / or .yaml in its name; on all nodes the same")
	p.BoolVar(&f.JSON, "json", false, "print one JSON document")
	p.IntVar(&f.told, "gauge", 0, "descriptor of the memory where progress is counted")
	p.IntSliceVar(&f.cpus, "cpus", nil, "--cpu of node 0, of node 1 and so on")
	_ = cmp.Or(p.MarkHidden("gauge"), p.MarkHidden("cpus")) // they fail where there is no such flag
}

// Check refuses flags that contradict each other. The error, in one line, names the flag and says
// what it takes. Check loads the profile, and opens nothing else.
func (f *Flags) Check() error {
	if f.card != "" && f.card != "auto" && f.card != "daemon" && f.card != "embedded" && f.card != cardDirect {
		return fmt.Errorf("--card %s: use daemon, embedded, direct or auto", f.card)
	}
	if f.card == cardDirect {
		if err := f.checkDirect(); err != nil {
			return err
		}
	}
	if c, err := attach.Environment(); err == nil && int(c.Node) < len(f.cpus) {
		f.CPU = f.cpus[c.Node]
	}
	if err := f.checkNumbers(); err != nil {
		return err
	}
	if f.attached() {
		return f.checkAttached()
	}
	explicit := len(f.ifaces) > 0 || f.Node >= 0 || f.peers != ""
	switch {
	case f.Encap != "" && !known(f.Encap):
		return fmt.Errorf("--encap %s: use ethernet, udp or hub", f.Encap)
	case f.Encap == cluster.Hub.String() && f.Lab != 0 && !lab.Topology(f.Topology).IsHub():
		return fmt.Errorf("--encap hub: the lab has no routers that take bundles apart; add --hub")
	case f.Lab != 0 && explicit:
		return errors.New("--lab makes its own hosts; leave out --iface, --node and --peers")
	case f.Node < -1 || f.Node < 0 && len(f.ifaces) > 0 && f.peers != "":
		return fmt.Errorf("--node %d: %w; use this host's number in the peers file, from 0", f.Node, card.ErrNode)
	case f.Lab == 0 && (len(f.ifaces) == 0 || f.Node < 0 || f.peers == ""):
		return errors.New("say where to run: --lab N, or --iface, --node and --peers on each host, or with `funet run`")
	case f.socket != "":
		return errors.New("--socket is that of a daemon; add --card daemon")
	case f.Alone && f.Node > 0:
		return fmt.Errorf("--alone --node %d: only node 0 works alone", f.Node)
	case f.Wait <= 0:
		return fmt.Errorf("--wait %v: use a time above 0, such as 30s", f.Wait)
	}
	if err := f.checkLab(); err != nil {
		return err
	}
	if _, err := ParseAttach(f.Mode); err != nil {
		return err
	}
	if _, err := ParseBind(f.Bind); err != nil {
		return err
	}
	// commands that measure the host have no flag for it
	f.profile = cmp.Or(f.profile, NativeProfile)
	p, err := hwprofiles.Load(f.profile)
	if err == nil {
		_, err = machine.Modelled(p)
	}
	if err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	f.machine = p
	return nil
}

// cardDirect is the value of --card for direct ports.
const cardDirect = "direct"

// RegisterCard adds --card alone, for commands that measure on a lab.
func (f *Flags) RegisterCard(c *cobra.Command) {
	c.Flags().StringVar(&f.card, "card", "embedded",
		"embedded: the processes are root's and have cards of their own; direct: they are an ordinary user's and have direct ports")
}

// LongestDirect is the greatest MTU of a lab's links for direct ports, in bytes.
const LongestDirect = ports.MaxMTU

// OnPorts reports whether the processes are to have direct ports.
func (f *Flags) OnPorts() bool { return f.card == cardDirect }

// OnOwnCards returns the flags for processes of root with cards of their own, whatever --card says.
func (f *Flags) OnOwnCards() *Flags {
	own := *f
	own.card = "embedded"
	return &own
}

// checkDirect refuses flags that direct ports do not support.
func (f *Flags) checkDirect() error {
	switch {
	case f.Lab == 0:
		return errors.New("--card direct: say where the lab is: --lab N; on hosts with daemons it is `funet run --card direct`")
	case f.Alone, f.Jumbo, f.vlan != 0, f.key != "", f.Encap != "" && f.Encap != cluster.Ethernet.String(),
		f.modelled():
		return errors.New("--card direct: leave out --alone, --jumbo, --vlan, --key, --encap and --profile, which direct ports have not")
	case f.MTU > LongestDirect:
		return fmt.Errorf("--mtu %d: direct ports have up to %d on a lab", f.MTU, LongestDirect)
	}
	return nil
}

// checkNumbers refuses numbers that no node can have, wherever its card is. It distinguishes a zero
// that was given from a flag that was left out.
func (f *Flags) checkNumbers() error {
	zero := func(flag string, v int) bool { return v == 0 && f.given != nil && f.given(flag) }
	switch {
	case f.gid < 0 || f.gid > cluster.MaxGID || zero("gid", f.gid):
		return fmt.Errorf("--gid %d: %w; use 1 to %d (0 is the system group)", f.gid, card.ErrGID, cluster.MaxGID)
	case f.Slots < 2 || f.Slots > 1<<16 || f.Slots&(f.Slots-1) != 0:
		return fmt.Errorf("--slots %d: use a power of two from 2 to 65536", f.Slots)
	case f.vlan < 0 || f.vlan > bpf.MaxVLAN || zero("vlan", f.vlan):
		return fmt.Errorf("--vlan %d: use 1 to %d", f.vlan, bpf.MaxVLAN)
	case f.rxRing < 0 || f.rxRing > 2048 || f.rxRing&(f.rxRing-1) != 0 || zero("rx-ring", f.rxRing):
		return fmt.Errorf("--rx-ring %d: use a power of two up to 2048", f.rxRing)
	case f.fillFrames < 0 || f.fillFrames > 512 || zero("fill-frames", f.fillFrames):
		return fmt.Errorf("--fill-frames %d: use 1 to 512", f.fillFrames)
	case f.chosenQueue() != nil && f.queue < 0:
		return fmt.Errorf("--queue %d: use the number of a queue, from 0, or leave it out", f.queue)
	case f.CPU < -1:
		return fmt.Errorf("--cpu %d: use the number of a processor, from 0", f.CPU)
	case f.CPU >= 0:
		if err := pin.Check(f.CPU); err != nil {
			return fmt.Errorf("--cpu %d: %w", f.CPU, err)
		}
	}
	return nil
}

// chosenQueue returns the argument of --queue, nil without the flag.
func (f *Flags) chosenQueue() *int {
	if f.given == nil || !f.given("queue") {
		return nil
	}
	return &f.queue
}

// checkLab refuses a lab that FUNet could not run on, before it is made. It also refuses flags of a
// lab without --lab.
func (f *Flags) checkLab() error {
	if f.Lab != 0 {
		if f.given != nil && f.given("hub") {
			if err := CheckHub(f.Topology, f.given("topology")); err != nil {
				return err
			}
		}
		return cmp.Or(InRange("--lab", f.Lab, lab.MinHosts, lab.Topology(f.Topology).MostHosts()),
			InRange("--mtu", f.MTU, arctic.MinMTU, lab.MaxMTU),
			InRange("--queues", max(f.queues, 1), 1, lab.MaxQueues))
	}
	for _, flag := range []string{"topology", "hub", "hashed", "ipv6", "mtu", "steer", "queues"} {
		if f.given != nil && f.given(flag) {
			return fmt.Errorf("--%s is that of a lab; add --lab N, or leave it out", flag)
		}
	}
	return nil
}

// CheckHub refuses a --hub that names no routers in the kernel, or stands beside --topology.
func CheckHub(hub string, topology bool) error {
	switch {
	case topology:
		return errors.New("--hub says the topology; leave out --topology")
	case !lab.Topology(hub).IsHub():
		return fmt.Errorf("--hub %s: use star, hypercube, fat-tree or butterfly", hub)
	}
	return nil
}

// known reports whether there is an encapsulation of this name.
func known(encap string) bool {
	_, err := cluster.ParseEncap(encap)
	return err == nil
}

// encapsulated returns a peers file with the encapsulation that the flags ask for.
func (f *Flags) encapsulated(file *cluster.File) (*cluster.File, error) {
	if f.Encap == "" {
		return file, nil
	}
	e, err := cluster.ParseEncap(f.Encap)
	if err == nil {
		file, err = file.With(e)
	}
	if err != nil {
		return nil, fmt.Errorf("--encap %s: %w", f.Encap, err)
	}
	return file, nil
}

// InRange refuses a flag's number that is not between low and high, both included.
func InRange(flag string, v, low, high int) error {
	switch {
	case v >= low && v <= high:
		return nil
	case low == high:
		return fmt.Errorf("%s %d: use %d", flag, v, low)
	}
	return fmt.Errorf("%s %d: use %d to %d", flag, v, low, high)
}

// ParseAttach reads --xdp: auto, native or generic.
func ParseAttach(s string) (xdp.AttachMode, error) {
	return parseMode("xdp", s, xdp.AttachAuto, xdp.AttachNative, xdp.AttachGeneric)
}

// ParseBind reads --bind: auto, copy or zero-copy.
func ParseBind(s string) (xdp.BindMode, error) {
	return parseMode("bind", s, xdp.BindAuto, xdp.BindCopy, xdp.BindZeroCopy)
}

func parseMode[M fmt.Stringer](flag, s string, all ...M) (mode M, err error) {
	names := Named(all...)
	if i := slices.Index(names, s); i >= 0 {
		return all[i], nil
	}
	return mode, fmt.Errorf("--%s %s: use %s, %s or %s", flag, s, names[0], names[1], names[2])
}
