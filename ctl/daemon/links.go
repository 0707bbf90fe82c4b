package daemon

// This file holds the daemon's view of its interfaces: the ports that the card is plugged into, the
// state of each interface, and the jobs that need it. follow.go watches them.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/uspace/port/hello"
	"github.com/funet/funet/xdp"
)

// link is an interface and the port on it.
type link struct {
	at         int // the engine's number of the port
	configured string
	mac        [6]byte
	hello      *hello.Port // around the port that is plugged in; the card sees it
	nic        *bpf.NIC    // loaded once, because later the daemon may load none
	config     afxdp.Config

	// plugged is the port that is plugged in; nil: none. It belongs to the card's thread.
	plugged *afxdp.Port

	// The fields down to mu belong to the follower (follow.go).
	port    *afxdp.Port // the open port; nil: none
	in      bool        // the card is plugged into it
	opened  seen        // its state when it was opened
	since   time.Time
	seen    seen      // at the last look
	blind   string    // why the last look failed to find the state; "": it did not fail
	watched time.Time // when the port was last asked whether it works
	modes   *modes    // override the configuration's until the interface goes away; nil: none
	reset   reset     // of the link by its driver
	told    string    // the last line about the queues
	toldAt  time.Time
	retry   time.Time     // earliest time of the next opening
	backoff time.Duration // wait after the last failure

	mu     sync.Mutex
	status report.LinkStatus
	index  int            // of the interface
	direct xdp.AttachMode // mode of the programs of direct ports beside it
	ways   *afxdp.Port    // the last port that was open, for path
}

type modes struct {
	attach xdp.AttachMode
	bind   xdp.BindMode
}

// openLinks opens the interfaces, for all groups. A frame for a group that is not here must be
// answered, by the card or by the NIC program (presence.go). Otherwise it would hold up the
// sequence that all groups of two cards share (doc.go).
func openLinks(c *Config) (links []*link, err error) {
	groups := make([]uint16, 0, arctic.MaxGID+1)
	for gid := range uint16(arctic.MaxGID + 1) {
		groups = append(groups, gid)
	}
	defer func() {
		if err != nil {
			err, links = errors.Join(err, closeLinks(links, c.Log)), nil
		}
	}()
	for i, name := range c.Interfaces {
		// There may be more queues when it is opened again.
		load := bpf.Load{Queues: bpf.MaxQueues, Frags: c.Jumbo, VLAN: c.VLAN, Defers: true}
		udp := c.datagrams(c.Peers, i)
		if udp != nil {
			load.UDPPort, load.Defers = udp.Port, false
		}
		if c.Ports != nil {
			shared, err := c.Ports.Switch()
			if err != nil {
				return links, err
			}
			defer shared.Close() // the program has the maps
			load.Switch = shared
		}
		nic, err := bpf.LoadNIC(load)
		if err != nil {
			return links, fmt.Errorf("opening interface %s: %w", name, err)
		}
		l := &link{at: i, configured: name, nic: nic,
			config: afxdp.Config{Interface: name, Groups: groups, Attach: c.Attach, Bind: c.Bind,
				HugePages: c.HugePages, BusyPoll: xdp.BusyPoll{}, Jumbo: c.Jumbo, VLAN: c.VLAN,
				Queue: c.Queue, NIC: nic,
				Socket: c.MakeSocket, UDP: udp}}
		if c.Ports != nil {
			l.config.AttachProgram = c.Ports.Attach
		}
		links = append(links, l)
		l.reset.before(name)
		if l.port, err = afxdp.Open(l.config); err != nil {
			return links, err
		}
		l.reset.after(name)
		if err := l.empty(); err != nil {
			return links, err
		}
		l.config.Groups = nil // the program lets them in from now on
		l.mac = l.port.Info().MAC
		l.config.Longest = l.port.FrameSize()
		l.hello = hello.NewPort(l.port)
		l.plugged = l.port
		l.status = report.LinkStatus{Interface: name, State: report.LinkUp, Since: time.Now()}
		l.in = true
		l.got()
		c.Logger.Info(fmt.Sprintf("interface %s has %v", name, l.port.Info()), "interface", name)
	}
	return links, nil
}

// got records the modes and queues of the open port.
func (l *link) got() {
	i, queues := l.port.Info(), l.port.Queues()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index, l.ways = i.Index, l.port
	if l.direct = xdp.AttachNative; i.XDPMode == xdp.AttachGeneric {
		// it may just have gone
		if k, err := xdp.KindOf(i.Interface); err != nil || k.Name != "device" {
			l.direct = xdp.AttachGeneric
		}
	}
	l.status.Queues, l.status.QueuesWhy = len(queues), afxdp.Describe(queues)
	l.status.Merged = i.Merged
	l.status.MTU, l.status.XDPMode, l.status.BindMode, l.status.XDPWhy = i.MTU, i.XDPMode.String(),
		i.BindMode.String(), i.Why
}

// closeLinks closes all ports and programs. The card must no longer use the ports.
func closeLinks(links []*link, log func(string)) error {
	var errs []error
	for _, l := range links {
		if l.port != nil {
			name := l.port.Info().Interface
			l.reset = reset{took: l.reset.took}
			l.reset.before(name)
			errs = append(errs, l.port.Close())
			l.reset.after(name)
			if l.reset.outage() {
				log(l.reset.parting(name))
			}
		}
		errs = append(errs, l.nic.Close())
	}
	return errors.Join(errs...)
}

// state describes the interface.
func (l *link) state() report.LinkStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	if s.Interface != l.configured {
		s.Configured = l.configured
	}
	return s
}

// current returns the interface's index and MTU, as of the last opening or look.
func (l *link) current() (index, mtu int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index, l.status.MTU
}

// path returns the way to a card in datagrams; nil: there is no way at present.
func (l *link) path(card uint16) *encap.Path {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ways.Path(card)
}

// portMode returns the mode of the programs of direct ports. Frames that a tc guard redirects
// bypass generic programs until they reach a wire. So the mode is generic if a NIC in generic mode
// is a veth, or may lie above one, and is not a real device (bpf/doc.go, Ports).
func (d *Daemon) portMode() xdp.AttachMode {
	for _, l := range d.links {
		l.mu.Lock()
		mode := l.direct
		l.mu.Unlock()
		if mode == xdp.AttachGeneric {
			return mode
		}
	}
	return xdp.AttachNative
}

// linkStatus describes the interfaces.
func (d *Daemon) linkStatus() (all []report.LinkStatus) {
	for _, l := range d.links {
		s := l.state()
		if n, err := l.nic.Counters(); err == nil { // it is closed when the daemon ends
			s.Deferred, s.Undeferred, s.Hellos = n.Deferred, n.Undeferred, n.Hellos
			if d.cfg.Ports != nil {
				s.Direct = &report.DirectArrivals{Handed: n.Direct, Stranger: n.Stranger, NoPort: n.NoPort}
			}
		}
		all = append(all, s)
	}
	return all
}

// modes returns the XDP and AF_XDP modes of the interfaces, each once, joined with '+'.
func (d *Daemon) modes() (xdp, bind string) {
	var x, b []string
	for _, s := range d.linkStatus() {
		x, b = append(x, s.XDPMode), append(b, s.BindMode)
	}
	return strings.Join(slices.Compact(x), "+"), strings.Join(slices.Compact(b), "+")
}

// needs reports whether a job with nodes on these cards sends through a port.
func (d *Daemon) needs(cards []uint16, port int) bool {
	peers := d.peers.Load()
	for _, card := range cards {
		if p := present(peers, int(card)); p != nil && card != d.cfg.Card && d.cfg.peer(peers, p).Port == port {
			return true
		}
	}
	return false
}

// reachable refuses a job that needs an interface that carries nothing: attach.ErrInterface.
func (d *Daemon) reachable(cards []uint16) error {
	for _, l := range d.links {
		if s := l.state(); !s.State.Carries() && d.needs(cards, l.at) {
			return fmt.Errorf("%s: %w", s.Why, attach.ErrInterface)
		}
	}
	return nil
}

// failJobs ends the jobs that need a port, tells their processes why, and returns the number of
// jobs that it ended.
func (d *Daemon) failJobs(port int, why string) int {
	var failed []*job
	d.mu.Lock()
	for _, j := range d.jobs {
		if j.made && !j.ending && d.needs(j.cards, port) {
			j.why = why
			failed = append(failed, j)
		}
	}
	d.mu.Unlock()
	for _, j := range failed {
		d.endJob(j, why)
		go j.conn.end() // its launcher sees it; closing may take time
	}
	return len(failed)
}
