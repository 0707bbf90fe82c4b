// Package card is the card embedded in a process: engine, ports and clock put together, stepped
// from the process's own poll loop. One process is one card, on interfaces of its own or on a
// direct port. No daemon is on the way of a message.
//
// The journey: a library above (package am) fills a slot of a send queue through Interface and
// calls Drive. Drive steps the engine, which sends packets that wait and delivers packets that
// arrived. The library then looks into the receive queues.
//
// A Card belongs to the goroutine that opened it, which Open locks to its OS thread. With
// Config.AnyThread it belongs to one goroutine at a time. Any goroutine may call Interrupt. Drive
// spins while the process has a processor to itself. When others want the processor, a process that
// only waits sleeps in Drive until a frame arrives (rest.go), so that more nodes than processors
// make progress.
//
// On a direct port a goroutine drives the card while the program computes (relief.go). Calls then
// wait for at most the end of a step, and cost two atomic operations more. The card may write at
// any time into memory that others may write, as a daemon's card does. So a program that looks
// there without waiting uses atomic loads. On interfaces of its own a card runs only while the
// program calls.
//
// A thread beside the card checks once a second whether each interface works. It mends problems if
// it can; Fault reports the others (mind.go).
//
// No call waits for ever: Close has a time limit, and the end of Config.Context ends every wait.
//
// With a profile that models a machine the card is as slow as that machine's. So is the program if
// its library charges Card.CPU (modelled.go).
package card

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/bundle"
	"github.com/funet/funet/uspace/port/encap"
	"github.com/funet/funet/uspace/port/hello"
	"github.com/funet/funet/uspace/wait"
	"github.com/funet/funet/xdp"
)

const (
	TokenSize    = 32   // the size of a job's token in bytes
	DefaultSlots = 1024 // the size of the queues in slots
	glance       = 16   // the number of calls of Drive of which at least one makes a step
)

// Peer is a member of the group.
type Peer struct {
	Node      uint16
	MAC       [6]byte
	Address   netip.Addr // the member's IP address with Config.UDP, which needs no MAC
	Interface string     // local interface that leads there; "" means the first
	Key       *link.Key  // shared with this member alone; nil: it is Config.Key
}

// UDP has frames travel in UDP datagrams.
type UDP struct {
	Port uint16 // 0: encap.DefaultPort; all members of the group have the same
	// Tell takes a line when the way to a member is lost or found, from any goroutine; nil: none.
	Tell func(line string)
}

// Config says how to make a card.
type Config struct {
	Interfaces []string
	GID        uint16 // 1 to 2047; 0 is the system group
	// Token is the job's secret; all members have the same. Members with another token, or of a
	// daemon's job, are told that another job has the GID (arctic.ReasonJob). Zero will do where
	// no others open cards on the network, but does not keep two programs with one GID apart.
	Token [TokenSize]byte
	Node  uint16 // own node number
	Peers []Peer // all members, itself included or not
	// Key authenticates all frames between members, and encrypts them unless all members have
	// Readable. All members have the same key, or none. Peer.Key replaces it for one member.
	Key       *link.Key
	Readable  bool
	Slots     int              // per queue; 0 stands for DefaultSlots
	Remote    funi.RemoteSizes // how much remote memory the process can open
	Attach    xdp.AttachMode
	Bind      xdp.BindMode
	HugePages bool
	BusyPoll  xdp.BusyPoll
	// Jumbo, RxRing and FillFrames are those of afxdp.Config; 0 takes the defaults. All members of
	// the group have the same Jumbo.
	Jumbo bool
	// VLAN is the number of the VLAN that frames are tagged with, 1 to 4094; 0: none. All members
	// have the same.
	VLAN               uint16
	RxRing, FillFrames int
	// Queue is that of afxdp.Config: each interface's one queue on which frames leave; nil: all.
	Queue  *int
	System bool // lets frames of the system group in, too; see SystemEvents
	// UDP, if not nil, sends frames in datagrams to the members' addresses, over routers. Peers has
	// the card's own address, too.
	UDP *UDP
	// Bundles has small frames for several members leave in one, which the network's routers take
	// apart (package bundle). A modelled card does not bundle.
	Bundles bool
	// Direct is a port that a daemon's helper made for this process, instead of Interfaces. Peers
	// have no addresses then. Key, UDP, VLAN, Jumbo and the fields about sockets are not used.
	Direct *Direct
	CPU    int // pins the calling thread; negative leaves it where the kernel puts it
	// AnyThread keeps Open from locking the goroutine to its thread, so that goroutines can pass
	// the card on to each other. CPU must be negative then.
	AnyThread bool
	// Profile is the modelled hardware: the card, its links and the processor beside it become as
	// slow as it; nil: the host as it is. The program's library charges Card.CPU then. A profile
	// that is not a model gives machine.ErrParts.
	Profile *hwprofiles.Profile
	// Tell takes a line when something is wrong with an interface, and when it is mended, from any
	// goroutine; nil: no lines are wanted.
	Tell func(line string)
	Tune func(*engine.Config) // may change the engine's configuration; nil leaves the native one
	// Context, when it ends, ends the wait of Close. It also ends Open between two interfaces,
	// which then returns its cause. nil: it never ends. A program's own waits are its library's
	// (am.Endpoint.Bind).
	Context context.Context
}

// Errors that callers can decide on.
var (
	ErrGID  = errors.New("GID out of range")
	ErrNode = errors.New("node not among the peers")
	// ErrThread reports Config.AnyThread together with Config.CPU: a card that any thread may drive
	// cannot be pinned to a processor.
	ErrThread = errors.New("AnyThread contradicts a processor to pin the thread to")
)

// Card is an embedded card with one context.
type Card struct {
	engine *engine.Card
	ctx    *engine.Context
	until  context.Context // of Config
	iface  *funi.Interface
	page   *funi.Page
	system systemGroup

	ports   []*afxdp.Port  // of each interface; one that is being opened anew is closed
	sockets []socket       // where each port is plugged in
	live    []*afxdp.Port  // ports that are plugged in
	portOf  map[uint16]int // by node
	minder  *minder        // mind.go

	start time.Time

	locked   bool // to the thread that opened the card
	pinned   bool
	affinity unix.CPUSet // of the thread, before

	now      int64 // at the last look at the clock
	polls    uint64
	looked   uint64 // polls, at the last look at how far they are apart
	working  bool   // the program works between its calls
	leftover bool   // the last step left work over
	next     int64  // when the engine wants to run again
	heads    uint32 // of the send queues, at the last step
	progress uint64 // engine's, at the last look
	wait     wait.Waiter
	alarm    *wait.Alarm   // ends a sleep from outside (rest.go)
	sockfds  []unix.PollFd // which end a sleep; the first is the alarm's
	loop     loop          // of a program that sleeps outside Drive (loop.go)

	faults engine.Faults // as the engine has reported them

	hello *hello.Station // nil: the card says no hellos (hello.go)

	recall atomic.Pointer[func()] // of Watch (watch.go); nil: there is none

	asked atomic.Bool // others have left something for the card's goroutine (attend)

	modelled *modelled // nil: the host as it is (modelled.go)

	// Of a card on a direct port (direct.go).
	place      func() error // gives back the place in the job; nil: there is none
	loss       atomic.Pointer[error]
	lost       error       // that the program was told of
	news       news        // fate.go
	neighbours *neighbours // nil: there are none (neighbours.go)
	relief     *relief     // nil: there is none (relief.go)
}

// Open makes a card and attaches a context. It locks the calling goroutine to its OS thread until
// Close, unless Config.AnyThread is set, and must run in the network namespace of the interfaces.
func Open(c Config) (_ *Card, err error) {
	if c.GID == 0 || c.GID > arctic.MaxGID {
		return nil, fmt.Errorf("opening card for group %d: %w; use 1 to %d (0 is the system group)", c.GID,
			ErrGID, arctic.MaxGID)
	}
	cfg, err := c.engineConfig()
	if err != nil {
		return nil, fmt.Errorf("opening card: %w", err)
	}
	m, err := c.machine(&cfg)
	if err != nil {
		return nil, fmt.Errorf("opening card: %w", err)
	}
	if c.AnyThread && c.CPU >= 0 {
		return nil, fmt.Errorf("opening card: %w: processor %d", ErrThread, c.CPU)
	}
	alarm, err := wait.NewAlarm()
	if err != nil {
		return nil, fmt.Errorf("opening card: %w", err)
	}
	k := &Card{alarm: alarm, start: time.Now(), system: systemGroup{fd: -1}, until: c.Context,
		wait: wait.New(wait.Embedded)}
	if k.until == nil {
		k.until = context.Background()
	}
	k.countFaults(&cfg)
	if m != nil {
		k.model(m)
	}
	if !c.AnyThread {
		runtime.LockOSThread()
		k.locked = true
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.release())
		}
	}()
	if c.CPU >= 0 {
		if err := k.pin(c.CPU); err != nil {
			return nil, err
		}
	}
	groups := []uint16{c.GID}
	if c.System {
		if err := k.system.open(&cfg); err != nil {
			return nil, err
		}
		groups = append(groups, engine.SystemGroup)
	}
	if c.Direct != nil {
		if err := k.plugDirect(&c, &cfg); err != nil {
			return nil, err
		}
	}
	if err := k.plugInterfaces(&c, &cfg, m, groups); err != nil {
		return nil, err
	}
	k.watchPorts()
	k.usePorts(cfg.Peers)
	if m == nil && c.Direct == nil {
		k.greets(&cfg, c.UDP != nil)
	}
	if k.engine, err = engine.New(cfg); err != nil {
		return nil, err
	}
	k.attend() // paths may be narrow
	memory, err := c.memory()
	if err != nil {
		return nil, err
	}
	k.page = memory.Page
	if k.iface, err = funi.Initialize(memory); err != nil {
		return nil, err
	}
	if k.ctx, err = k.engine.Attach(memory, c.GID, c.Node, arctic.JobTag(c.Token[:], c.GID)); err != nil {
		return nil, err
	}
	if m != nil {
		k.modelled.page = memory.Page
		k.modelled.at = k.wall()
	}
	if c.Direct != nil {
		if k.relief, err = newRelief(k.relieve, k.sockfds[1:]); err != nil {
			return nil, fmt.Errorf("opening card: %w", err)
		}
		return k, nil
	}
	if err := k.mind(c.Tell); err != nil {
		return nil, err
	}
	return k, nil
}

func (c *Config) memory() (*funi.Memory, error) {
	memory, err := funi.NewMemory(cmp.Or(c.Slots, DefaultSlots))
	if err != nil {
		return nil, err
	}
	return memory, memory.AddRemote(c.Remote)
}

// pin has the calling thread run on one processor.
func (k *Card) pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedGetaffinity(0, &k.affinity); err != nil {
		return fmt.Errorf("reading the processors of the thread: %w", err)
	}
	k.pinned = true
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pinning to processor %d: %w; `nproc` tells how many there are", cpu, err)
	}
	return nil
}

// usePorts notes the port that leads to each peer, and sets each peer's Local to the address of
// that port.
func (k *Card) usePorts(peers []engine.Peer) {
	k.portOf = map[uint16]int{}
	for _, p := range peers {
		k.portOf[p.Card] = p.Port
	}
	for i := range peers {
		peers[i].Local = k.ports[peers[i].Port].Info().MAC
	}
}

func (k *Card) plugInterfaces(c *Config, cfg *engine.Config, m *machine.Machine, groups []uint16) error {
	for _, name := range c.Interfaces {
		if k.until.Err() != nil {
			return fmt.Errorf("opening card: %w", context.Cause(k.until))
		}
		conf := afxdp.Config{Interface: name, Groups: groups, Attach: c.Attach, Bind: c.Bind,
			HugePages: c.HugePages, BusyPoll: c.BusyPoll, Jumbo: c.Jumbo, VLAN: c.VLAN, RxRing: c.RxRing,
			FillFrames: c.FillFrames, Queue: c.Queue}
		if c.UDP != nil {
			conf.UDP = c.datagrams(len(k.ports))
			conf.UDP.Changed = func() { k.asked.Store(true) }
		}
		p, err := afxdp.Open(conf)
		if err != nil {
			return err
		}
		conf.Longest = p.FrameSize()
		in := hello.NewPort(p)
		k.ports = append(k.ports, p)
		k.sockets = append(k.sockets, socket{plug: in, config: conf})
		var q port.Port = in
		if m != nil {
			q = k.modelled.port(in, m)
		} else if c.Bundles {
			q = bundle.New(in)
		}
		cfg.Ports = append(cfg.Ports, q)
	}
	return nil
}

// machine tunes the engine for the profile, and returns the machine if the profile models one.
func (c *Config) machine(cfg *engine.Config) (*machine.Machine, error) {
	if c.Profile == nil {
		return nil, nil
	}
	switch model, err := machine.Modelled(c.Profile); {
	case err != nil:
		return nil, err
	case !model:
		machine.Limit(cfg, c.Profile)
		return nil, nil
	}
	m, err := machine.New(c.Profile)
	if err == nil {
		m.Tune(cfg)
		cfg.MinHold = holdOff(cfg, m.Bus())
		cfg.MaxHold = cfg.MinHold
	}
	return m, err
}

// engineConfig turns the list of peers into routes: node n is on card n.
func (c *Config) engineConfig() (engine.Config, error) {
	cfg := engine.Native()
	cfg.Card, cfg.Readable = c.Node, c.Readable
	var seed [12]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return cfg, err
	}
	cfg.Incarnation = binary.LittleEndian.Uint32(seed[:])
	if cfg.Incarnation == 0 {
		cfg.Incarnation = math.MaxUint32
	}
	cfg.Seed = binary.LittleEndian.Uint64(seed[4:])
	portOf := map[string]int{"": 0}
	for i, name := range c.Interfaces {
		portOf[name] = i
	}
	self := false
	for _, p := range c.Peers {
		for int(p.Node) >= len(cfg.Routes) {
			cfg.Routes = append(cfg.Routes, engine.NoRoute)
		}
		cfg.Routes[p.Node] = uint32(p.Node)
		if p.Node == c.Node {
			self = true
			continue
		}
		at, ok := portOf[p.Interface]
		if !ok {
			return cfg, fmt.Errorf("node %d is behind interface %s, which the card does not have; it has %v", p.Node,
				p.Interface, c.Interfaces)
		}
		address := p.MAC
		if c.UDP != nil {
			address = encap.Address(p.Node)
		}
		cfg.Peers = append(cfg.Peers, engine.Peer{Card: p.Node, Address: address, Port: at, Key: cmp.Or(p.Key, c.Key)})
	}
	if !self {
		return cfg, fmt.Errorf("node %d: %w; use 0 to %d", c.Node, ErrNode, len(cfg.Routes)-1)
	}
	c.direct(&cfg)
	if c.Tune != nil {
		c.Tune(&cfg)
	}
	return cfg, nil
}

// datagrams returns the UDP configuration of an interface's port. at is its place among Interfaces.
func (c *Config) datagrams(at int) *afxdp.UDP {
	u := &afxdp.UDP{Port: c.UDP.Port, Tell: c.UDP.Tell}
	for _, p := range c.Peers {
		switch {
		case p.Node == c.Node:
			u.Local = p.Address
		case max(0, slices.Index(c.Interfaces, p.Interface)) == at:
			u.Peers = append(u.Peers, encap.Peer{Card: p.Node, Address: p.Address})
		}
	}
	return u
}

// Fault returns a known problem of the way to a node's card, nil if there is none. With UDP the
// problem may be that there is no route, neighbour or room for frames (it wraps paths.ErrNoPath),
// or a router's recent answer. It may be that the interface to the card does not work (it wraps
// ErrInterface). It may also be a finding of hellos, such as another version, or two cards with the
// same number.
func (k *Card) Fault(node uint16) error {
	for _, p := range k.live {
		if err := p.Fault(node); err != nil {
			return err
		}
	}
	if at, ok := k.portOf[node]; ok {
		if err := k.minder.faultOf(at); err != nil {
			return err
		}
	}
	return k.helloFault(node)
}

// Interface returns the process's end of the context.
func (k *Card) Interface() *funi.Interface { return k.iface }

// Now returns the card's time in nanoseconds since it was made. On a modelled machine the time that
// the program has been charged passes first.
func (k *Card) Now() int64 {
	if k.modelled != nil {
		k.modelled.cpu.Settle()
	}
	return k.wall()
}

// wall is the host's clock.
func (k *Card) wall() int64 { return int64(time.Since(k.start)) }

// Drive lets the card run. It steps the engine if there is a frame to receive, a packet that was
// not there at the last step, or work left over. Otherwise it steps the engine at every glance-th
// call, for timers and for receive queues that have room again. So a program that polls in vain
// pays for a look at a ring and two registers, not for a clock and a step. For a program that works
// between two calls, every call steps the engine. So its timers, such as that of an acknowledgment,
// are not late by many times its work.
//
// A step that only receives gets the time of the last look at the clock, which is dear on virtual
// machines. Acknowledgments then become due a little early, and round trips seem a little short.
// Frames that are sent start timers, so their steps look at the clock.
func (k *Card) Drive() {
	if k.relief != nil {
		k.relief.take()
	}
	if k.run() {
		k.waiting()
	}
	if k.relief != nil {
		k.relief.give()
	}
}

// Look is Drive without yielding or sleeping, for a program that does both by itself.
func (k *Card) Look() {
	k.relief.take()
	k.run()
	k.relief.give()
}

// run is a call of Drive or Look. It reports whether the program waits, and nothing has come.
func (k *Card) run() (idle bool) {
	if k.modelled != nil {
		k.modelled.drive()
		return false
	}
	k.polls++
	heads := k.iface.Heads()
	sends := heads != k.heads
	look := k.working || k.polls%glance == 0
	if !look && !sends && !k.leftover && !k.receives() {
		return false
	}
	if sends || k.leftover || look {
		k.now = k.wall()
	}
	if look {
		k.looked, k.working = k.polls, k.wait.Called(k.now, k.polls)
		if k.neighbours != nil {
			k.neighbours.attend()
		}
		if l := &k.loop; l.made && !l.out && !l.armed && k.progress-l.at > busyWithout {
			l.leave()
		}
	}
	k.heads = heads
	k.next = k.engine.Step(k.now)
	if k.hello != nil && k.hello.Due <= k.now {
		k.sayHello()
	}
	k.leftover = k.next <= k.now
	if look && k.asked.Load() {
		k.attend()
		k.leftover = true
	}
	if p := k.engine.Progress(); p != k.progress || k.leftover {
		k.progress = p
		k.wait.Found()
		return false
	}
	return look && !k.working
}

// ask has the card's goroutine attend to what others have left for it. Any goroutine may call it.
func (k *Card) ask() {
	k.asked.Store(true)
	k.unwatch()
	k.Interrupt()
	k.relief.call()
}

// attend does what other goroutines asked for. It is called after a step, so that packets of a
// process that has ended are taken first. Another step follows.
func (k *Card) attend() {
	k.asked.Store(false)
	if k.minder != nil {
		if w := k.minder.wish.Load(); w != nil {
			k.fulfil(w)
		}
	}
	if why := k.loss.Load(); why != nil && k.lost == nil {
		k.lost = *why
		k.page.PutWhy(k.lost.Error())
		k.page.PutGone()
	}
	for _, p := range k.live {
		for _, l := range p.Limits() {
			k.engine.SetLimit(l.Card, l.Frame)
		}
	}
	k.attendNews()
}

// countFaults counts the faults that the engine reports to its owner. Config.Tune decides what to
// do about them, if it sets engine.Config.Fault.
func (k *Card) countFaults(cfg *engine.Config) {
	owner := cfg.Fault
	cfg.Fault = func(gid, node, source uint16, reason arctic.Reason) (hold bool) {
		k.faults.Count(reason)
		return owner != nil && owner(gid, node, source, reason)
	}
}

// Faults returns counters since the card was opened: accesses of others that missed a window of the
// process or were refused, and packets of the process without a route. Config.Tune decides what the
// card does about them (engine.Config.Fault).
func (k *Card) Faults() engine.Faults {
	k.relief.take()
	defer k.relief.give()
	return k.faults
}

// receives reports whether a frame waits for a step.
func (k *Card) receives() bool {
	for _, p := range k.live {
		if p.Ready() {
			return true
		}
	}
	return k.neighbours.ready()
}

// Ports returns the port of each interface. While an interface is being opened anew its port is a
// closed one; afterwards it has another port.
func (k *Card) Ports() []*afxdp.Port { return k.ports }

// Engine returns the engine, for its counters. On a direct port use it only within Alone.
func (k *Card) Engine() *engine.Card { return k.engine }

// Alone calls f, which looks at the engine or at ports, while nothing else drives the card. f must
// not call the card.
func (k *Card) Alone(f func()) {
	k.relief.take()
	defer k.relief.give()
	f()
}

// Err returns the error of a port that cannot send, such as xdp.ErrNetDown. The card goes on
// trying; peers become silent in the meantime. On a direct port Err also returns the reason why the
// place in the job is gone (Lose).
func (k *Card) Err() error {
	k.relief.take()
	defer k.relief.give()
	if k.lost != nil {
		return k.lost
	}
	for _, p := range k.live {
		if err := p.Err(); err != nil {
			return fmt.Errorf("sending on %s: %w", p.Info().Interface, err)
		}
	}
	return nil
}

// Close waits until everything sent has been delivered, at most for the given time. Meanwhile it
// discards messages that the process has not received. Then it says goodbye to the peers, detaches
// from the interfaces and unlocks the OS thread. It returns an error when something was left
// undelivered: funi.ErrUndelivered when the time was too short. The end of Config.Context ends the
// wait.
func (k *Card) Close(linger time.Duration) error {
	k.relief.stop()
	end := k.wall() + int64(linger)
	for !k.ctx.Idle() && k.wall() < end && k.until.Err() == nil && k.lost == nil {
		for l := range arctic.Level(arctic.Levels) {
			for k.iface.Receive(l) != nil {
				k.iface.Release(l)
			}
		}
		if k.modelled != nil {
			k.modelled.catchUp()
		} else {
			k.Drive()
		}
	}
	var err error
	switch idle := k.ctx.Idle(); {
	case idle:
	case k.lost != nil:
		err = fmt.Errorf("closing card: packets may be left undelivered: %w", k.lost)
	case k.until.Err() != nil:
		err = fmt.Errorf("closing card: packets may be left undelivered: %w", context.Cause(k.until))
	default:
		err = fmt.Errorf("closing card: %w after %v", funi.ErrUndelivered, linger)
	}
	k.neighbours.depart()
	k.engine.Leave()
	if k.modelled != nil {
		k.modelled.leave()
	} else {
		k.engine.Step(k.wall())
	}
	if broken := k.release(); broken != nil {
		return errors.Join(broken, err)
	}
	return err
}

func (k *Card) release() error {
	if k.locked {
		defer runtime.UnlockOSThread()
	}
	var errs []error
	if k.pinned {
		errs = append(errs, unix.SchedSetaffinity(0, &k.affinity))
	}
	k.minder.stop()
	for _, p := range k.ports {
		errs = append(errs, p.Close())
	}
	if k.place != nil {
		errs = append(errs, k.place())
	}
	k.neighbours.close()
	return errors.Join(append(errs, k.system.close(), k.loop.close(), k.alarm.Close(), k.relief.close())...)
}
