package main

// This file is one node of a group: the flags that say which card it has, and the
// card with its endpoint.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/cluster"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/doctor"
	"github.com/funet/funet/ctl/keyfile"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/xdp"
)

// nodeFlags are common to all programs that run on a group.
type nodeFlags struct {
	lab      int
	topology string
	ipv6     bool
	mtu      int
	steer    bool
	queues   int
	apart    bool // on a lab of more hosts than processors, host 0 has one to itself
	alone    bool // node 0 makes do without the other nodes

	card   string // "daemon", "embedded" or "auto", which "" is too
	socket string
	ifaces []string
	node   int
	peers  string
	encap  string // "": what the peers file says
	gid    int

	mode       string
	bind       string
	cpu        int
	slots      int
	hugePages  bool
	jumbo      bool
	vlan       int
	rxRing     int
	fillFrames int
	queue      int
	// provoke gives the nodes of a lab rings that run full or empty.
	provoke bool
	wait    time.Duration
	json    bool
	// key is a file; clear leaves what is sent readable.
	key      string
	readable bool
	// given tells which flags are on the command line; nil: none is told.
	given func(flag string) bool
	// profile is what --profile names; machine is what it says.
	profile string
	machine *hwprofiles.Profile
}

func (f *nodeFlags) register(c *cobra.Command) {
	p := c.Flags()
	f.given = p.Changed
	p.IntVar(&f.lab, "lab", 0, "run on a lab of this many hosts (2 to 8) made for the occasion")
	p.StringVar(&f.topology, "topology", "", "of the lab: pair, bridge, mesh or router (default: pair for 2 hosts, bridge for more)")
	p.BoolVar(&f.ipv6, "ipv6", false, "on a lab with --topology router: IPv6 addresses")
	p.IntVar(&f.mtu, "mtu", 1500, fmt.Sprintf("of the lab's links, in bytes, from %d", arctic.MinMTU))
	p.BoolVar(&f.steer, "steer", false, "on a lab: receive each host's frames on its own processor (RPS), not on the sender's")
	p.IntVar(&f.queues, "queues", 1, fmt.Sprintf("of each interface of the lab, up to %d", lab.MaxQueues))
	p.StringVar(&f.card, "card", "auto", "daemon: a funid's; embedded: of this process, which takes root; auto: a daemon's where funet run says which")
	p.StringVar(&f.socket, "socket", "", "of the daemon (default: $FUNET_SOCKET, or "+attach.DefaultSocket+")")
	p.StringSliceVar(&f.ifaces, "iface", nil, "on a real host: interface to use, or several with commas")
	p.IntVar(&f.node, "node", -1, "on a real host: number of this node")
	p.StringVar(&f.peers, "peers", "", "on a real host: file that lists the nodes and their MAC or IP addresses")
	p.StringVar(&f.encap, "encap", "", "ethernet: frames to MAC addresses on one segment; udp: in UDP datagrams to IP addresses, over routers (default: as the peers file says)")
	p.IntVar(&f.gid, "gid", 0, "group identifier, 1 to 2047 (default: that of the peers file, or 1)")
	p.StringVar(&f.mode, "xdp", "auto", "where the NIC program runs: auto, native or generic; on a lab auto measures")
	p.StringVar(&f.bind, "bind", "auto", "how frames reach the process: auto, copy or zero-copy")
	p.IntVar(&f.cpu, "cpu", -1, "processor to pin the polling thread to (default: none; on a lab one each if there are enough)")
	p.IntVar(&f.slots, "slots", defaultSlots, "size of each queue in slots, a power of two from 2 to 65536")
	p.BoolVar(&f.jumbo, "jumbo", false, "frames as long as the MTU allows, not up to 3836 bytes (multi-buffer AF_XDP, Linux 6.6), to nodes that have it, too")
	p.IntVar(&f.vlan, "vlan", 0, "tag frames with this VLAN, 1 to 4094; on all nodes (default: none)")
	p.IntVar(&f.rxRing, "rx-ring", 0, "slots of the kernel's receive ring, a power of two up to 2048 (default 2048, more with --jumbo)")
	p.IntVar(&f.fillFrames, "fill-frames", 0, "frames that the kernel may receive into, up to 512 (default 512, more with --jumbo)")
	p.IntVar(&f.queue, "queue", -1, "the one queue of each interface that frames leave on, and are steered to where the NIC can (default: they leave on all)")
	p.BoolVar(&f.hugePages, "huge-pages", false, "keep frames on 2 MiB pages")
	p.StringVar(&f.key, "key", "", "authenticate and encrypt frames with the key in this file; on all nodes the same (funet key new; default: as the peers file says)")
	p.BoolVar(&f.readable, "readable", false, "with a key: authenticate frames and leave them readable; on all nodes")
	p.DurationVar(&f.wait, "wait", defaultWait, "how long to wait for the other nodes to start")
	p.StringVar(&f.profile, "profile", nativeProfile, "hardware to be as slow as: a profile's name, or a file with a / or .yaml in its name; on all nodes the same")
	p.BoolVar(&f.json, "json", false, "print one JSON document")
}

// check refuses flags that contradict each other.
func (f *nodeFlags) check() error {
	if f.card != "" && f.card != "auto" && f.card != "daemon" && f.card != "embedded" {
		return fmt.Errorf("--card %s: use daemon, embedded or auto", f.card)
	}
	if err := f.checkNumbers(); err != nil {
		return err
	}
	if f.attached() {
		return f.checkAttached()
	}
	explicit := len(f.ifaces) > 0 || f.node >= 0 || f.peers != ""
	switch {
	case f.encap != "" && !known(f.encap):
		return fmt.Errorf("--encap %s: use ethernet or udp", f.encap)
	case f.lab != 0 && explicit:
		return errors.New("--lab makes its own hosts; leave out --iface, --node and --peers")
	case f.node < -1 || f.node < 0 && len(f.ifaces) > 0 && f.peers != "":
		return fmt.Errorf("--node %d: %w; use this host's number in the peers file, from 0", f.node, card.ErrNode)
	case f.lab == 0 && (len(f.ifaces) == 0 || f.node < 0 || f.peers == ""):
		return errors.New("say where to run: --lab N, or --iface, --node and --peers on each host, or with `funet run`")
	case f.socket != "":
		return errors.New("--socket is that of a daemon; add --card daemon")
	case f.alone && f.node > 0:
		return fmt.Errorf("--alone --node %d: only node 0 works alone", f.node)
	case f.wait <= 0:
		return fmt.Errorf("--wait %v: use a time above 0, such as 30s", f.wait)
	}
	if err := f.checkLab(); err != nil {
		return err
	}
	if _, err := parseAttach(f.mode); err != nil {
		return err
	}
	if _, err := parseBind(f.bind); err != nil {
		return err
	}
	f.profile = cmp.Or(f.profile, nativeProfile) // commands that measure the host have no flag for it
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

// checkNumbers refuses numbers that no node can have, wherever its card is. A zero that was given is
// not taken for a flag that was left out.
func (f *nodeFlags) checkNumbers() error {
	zero := func(flag string, v int) bool { return v == 0 && f.given != nil && f.given(flag) }
	switch {
	case f.gid < 0 || f.gid > cluster.MaxGID || zero("gid", f.gid):
		return fmt.Errorf("--gid %d: %w; use 1 to %d (0 is the system group)", f.gid, card.ErrGID, cluster.MaxGID)
	case f.slots < 2 || f.slots > 1<<16 || f.slots&(f.slots-1) != 0:
		return fmt.Errorf("--slots %d: use a power of two from 2 to 65536", f.slots)
	case f.vlan < 0 || f.vlan > bpf.MaxVLAN || zero("vlan", f.vlan):
		return fmt.Errorf("--vlan %d: use 1 to %d", f.vlan, bpf.MaxVLAN)
	case f.rxRing < 0 || f.rxRing > 2048 || f.rxRing&(f.rxRing-1) != 0 || zero("rx-ring", f.rxRing):
		return fmt.Errorf("--rx-ring %d: use a power of two up to 2048", f.rxRing)
	case f.fillFrames < 0 || f.fillFrames > 512 || zero("fill-frames", f.fillFrames):
		return fmt.Errorf("--fill-frames %d: use 1 to 512", f.fillFrames)
	case f.chosenQueue() != nil && f.queue < 0:
		return fmt.Errorf("--queue %d: use the number of a queue, from 0, or leave it out", f.queue)
	case f.cpu < -1:
		return fmt.Errorf("--cpu %d: use the number of a processor, from 0", f.cpu)
	case f.cpu >= 0:
		return pinnable(f.cpu)
	}
	return nil
}

// chosenQueue is what --queue says, nil if it is not there.
func (f *nodeFlags) chosenQueue() *int {
	if f.given == nil || !f.given("queue") {
		return nil
	}
	return &f.queue
}

// checkLab refuses a lab that FUNet could not run on, before it is made, and flags of a lab where there
// is none.
func (f *nodeFlags) checkLab() error {
	if f.lab != 0 {
		return cmp.Or(inRange("--lab", f.lab, lab.MinHosts, lab.MaxHosts), inRange("--mtu", f.mtu, arctic.MinMTU, lab.MaxMTU),
			inRange("--queues", max(f.queues, 1), 1, lab.MaxQueues))
	}
	for _, flag := range []string{"topology", "ipv6", "mtu", "steer", "queues"} {
		if f.given != nil && f.given(flag) {
			return fmt.Errorf("--%s is that of a lab; add --lab N, or leave it out", flag)
		}
	}
	return nil
}

// known says whether there is an encapsulation of the name.
func known(encap string) bool {
	_, err := cluster.ParseEncap(encap)
	return err == nil
}

// encapsulated returns a peers file with the encapsulation that the flags ask for.
func (f *nodeFlags) encapsulated(file *cluster.File) (*cluster.File, error) {
	if f.encap == "" {
		return file, nil
	}
	e, err := cluster.ParseEncap(f.encap)
	if err == nil {
		file, err = file.With(e)
	}
	if err != nil {
		return nil, fmt.Errorf("--encap %s: %w", f.encap, err)
	}
	return file, nil
}

// pinnable refuses a processor that no thread can be pinned to.
func pinnable(cpu int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var was, set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		return fmt.Errorf("reading the processors of a thread: %w", err)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("--cpu %d: pinning to processor %d: %w; `nproc` tells how many there are", cpu, cpu, err)
	}
	return unix.SchedSetaffinity(0, &was)
}

// inRange refuses a flag's number that is not from low to high.
func inRange(flag string, v, low, high int) error {
	switch {
	case v >= low && v <= high:
		return nil
	case low == high:
		return fmt.Errorf("%s %d: use %d", flag, v, low)
	}
	return fmt.Errorf("%s %d: use %d to %d", flag, v, low, high)
}

func parseAttach(s string) (xdp.AttachMode, error) {
	for _, m := range []xdp.AttachMode{xdp.AttachAuto, xdp.AttachNative, xdp.AttachGeneric} {
		if s == m.String() {
			return m, nil
		}
	}
	return 0, fmt.Errorf("--xdp %s: use auto, native or generic", s)
}

func parseBind(s string) (xdp.BindMode, error) {
	for _, m := range []xdp.BindMode{xdp.BindAuto, xdp.BindCopy, xdp.BindZeroCopy} {
		if s == m.String() {
			return m, nil
		}
	}
	return 0, fmt.Errorf("--bind %s: use auto, copy or zero-copy", s)
}

// carrier is what a program needs of its card, which is in this process (card.Card) or in a
// daemon (attach.Client).
type carrier interface {
	Interface() *funi.Interface
	Drive()
	Now() int64
	// Segment returns new memory that the card may use.
	Segment(base uint32, bytes int, rights funi.Rights) ([]byte, error)
	Err() error
	Close(linger time.Duration) error
}

// node is an open card with an endpoint on it.
type node struct {
	carrier
	e   *am.Endpoint
	ctx context.Context // of the command; the endpoint is bound to it
	// own is the card if it is in this process, with is the daemon's if it is not.
	own     *card.Card
	with    *attach.Info
	socket  string              // the daemon's
	profile *hwprofiles.Profile // of the own card
	// leads returns the interface that leads to a node, with an own card; peers is its peers file.
	leads func(node uint16) string
	peers string
	udp   bool // its frames travel in datagrams
}

// open makes the card that the flags describe, or attaches to the daemon's.
func (f *nodeFlags) open(ctx context.Context) (*node, error) {
	if f.attached() {
		return f.attach(ctx)
	}
	file, err := cluster.Load(f.peers)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--peers: %w; `funet lab peers` prints what a peers file looks like", err)
	}
	if err != nil {
		return nil, err
	}
	if file, err = f.encapsulated(file); err != nil {
		return nil, err
	}
	gid := f.gid
	if gid == 0 {
		gid = int(file.GID)
	}
	if gid == 0 {
		gid = 1
	}
	if f.node >= len(file.Peers) {
		return nil, fmt.Errorf("--node %d: %w: %s lists nodes 0 to %d", f.node, card.ErrNode, f.peers, len(file.Peers)-1)
	}
	attach, err := parseAttach(f.mode)
	if err != nil {
		return nil, err
	}
	bind, err := parseBind(f.bind)
	if err != nil {
		return nil, err
	}
	cfg := card.Config{
		Interfaces: f.ifaces, GID: uint16(gid), Token: file.Token, Node: uint16(f.node), Slots: f.slots,
		Attach: attach, Bind: bind, HugePages: f.hugePages, CPU: f.cpu,
		Jumbo: f.jumbo, VLAN: uint16(f.vlan), RxRing: f.rxRing, FillFrames: f.fillFrames, Queue: f.chosenQueue(), Profile: f.machine,
		Readable: f.readable, Tune: func(c *engine.Config) { c.ConnectTimeout = f.wait }, Context: ctx,
		Tell: func(line string) { fmt.Fprintln(os.Stderr, "funet: "+line) },
	}
	var keys keyfile.Ring
	if cfg.Key, err = keys.Load(cmp.Or(f.key, file.Key)); err != nil {
		return nil, err
	}
	for _, p := range file.Peers {
		iface := p.Iface
		if len(f.ifaces) == 1 {
			iface = f.ifaces[0]
		}
		if p.Absent {
			return nil, fmt.Errorf("--peers: node %d of %s is absent: %w; a group of embedded cards wants all its nodes, daemons do not (`funid`)", p.Node, f.peers, card.ErrNode)
		}
		peer := card.Peer{Node: p.Node, Address: p.Address, Interface: iface}
		copy(peer.MAC[:], p.MAC)
		if int(p.Node) != f.node {
			if peer.Key, err = keys.Load(p.Key); err != nil {
				return nil, err
			}
		}
		cfg.Peers = append(cfg.Peers, peer)
	}
	if file.Encap == cluster.UDP {
		cfg.UDP = &card.UDP{Port: file.Port}
	}
	// What a node allocates it allocates at the start; a collection in the middle
	// of a measurement would only be noise.
	debug.SetGCPercent(400)
	k, err := card.Open(cfg)
	if err != nil {
		return nil, err
	}
	nodes := len(file.Peers)
	if f.alone {
		nodes = 1
	}
	e, err := am.New(k.Interface(), f.node, nodes, k.Drive)
	if err != nil {
		return nil, errors.Join(err, k.Close(0))
	}
	if cpu := k.CPU(); cpu != nil {
		e.Pace(cpu)
	}
	e.Bind(ctx)
	leads := func(node uint16) string {
		if i := int(node); i < len(cfg.Peers) && cfg.Peers[i].Interface != "" {
			return cfg.Peers[i].Interface
		}
		return f.ifaces[0]
	}
	return &node{carrier: k, e: e, ctx: ctx, own: k, profile: f.machine, leads: leads, peers: f.peers, udp: cfg.UDP != nil}, nil
}

// explain adds the state of a port to an error of a program, because a peer that
// seems silent may be an interface that went down.
func (n *node) explain(err error) error {
	if err == nil {
		return nil
	}
	if port := n.Err(); port != nil && !errors.Is(err, port) {
		return fmt.Errorf("%w (%w)", err, port)
	}
	var u *am.Undelivered
	if errors.As(err, &u) && u.Reason == arctic.ReasonSilent && n.own != nil {
		if fault := n.own.Fault(u.Node); fault != nil {
			return fmt.Errorf("%w: %w", err, fault)
		}
		return n.silence(err, u.Node)
	}
	if errors.As(err, &u) && u.Reason == arctic.ReasonSilent {
		return n.silentCards(err)
	}
	if errors.As(err, &u) && u.Reason == arctic.ReasonJob {
		if n.own != nil {
			return fmt.Errorf("%w; see that the peers files of all its nodes have the same token, or take another gid", err)
		}
		return fmt.Errorf("%w; start it again without --gid, which takes a free one, or ask the administrator to end the other there (`funet gid end`)", err)
	}
	return err
}

// silence adds to the error that a node is silent what the doctor finds wrong on the way there.
func (n *node) silence(err error, node uint16) error {
	var wrong []doctor.Finding
	if !n.udp { // what is known of the way of datagrams the card has said
		wrong = doctor.Silence(n.ctx, n.leads(node), n.peers, int(node))
	}
	if len(wrong) == 0 {
		return fmt.Errorf("%w; see that the program runs there, with the same GID and the right addresses in the peers file, or let `funet doctor` find out why", err)
	}
	for _, w := range wrong {
		err = fmt.Errorf("%w; %s of %s: %s: %s", err, w.Check, w.Subject, w.Found, w.Cure)
	}
	return err
}

// statusPatience is how long the daemon may take to say what it knows of other cards.
const statusPatience = 10 * time.Second

// silentCards adds to the error that a node is silent what the daemon's hellos have found out about other cards.
func (n *node) silentCards(err error) error {
	var r daemon.Status
	if attach.Call(context.Background(), n.socket, attach.KindStatus, statusPatience, nil, &r) != nil {
		return err // there is nobody to tell
	}
	for _, f := range r.Hello.Faults {
		err = fmt.Errorf("%w; funid: %s", err, f)
	}
	var silent []string
	for _, p := range r.Hello.Peers {
		if (p.Unanswered > 0 || p.HeardAgo < 0) && len(silent) < 3 {
			silent = append(silent, fmt.Sprintf("card %d at %s", p.Card, p.Address))
		}
	}
	if len(silent) > 0 {
		err = fmt.Errorf("%w; hellos of funid are not answered by %s: see that funid runs there, or let `funet doctor` find out why", err, strings.Join(silent, ", "))
	}
	return err
}

// same joins different strings, and is the string when all are the same.
func same(s []string) string {
	for _, x := range s {
		if x != s[0] {
			return strings.Join(s, "+")
		}
	}
	return s[0]
}

// Defaults of flags.
const (
	defaultSlots = card.DefaultSlots
	defaultWait  = 30 * time.Second
	// nativeProfile is the host as it is.
	nativeProfile = "native"
)

// linger is how long a node that is done waits for its last packets to arrive.
const linger = 2 * time.Second
