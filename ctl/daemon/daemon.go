package daemon

// This file is the daemon as a whole: Open makes card and socket, Run serves until it is told to
// stop, and then stops cleanly.

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/pin"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/bundle"
	"github.com/funet/funet/uspace/turns"
)

// Daemon is a card with its socket. Its methods may be called from any goroutine.
type Daemon struct {
	cfg         Config
	incarnation atomic.Uint32
	memory      *memory
	loop        *loop
	links       []*link
	follower    *follower
	listener    *listener
	metrics     *metrics // nil: none
	priority    string   // of the card's thread, in words
	graves      chan int // sockets that are to be closed (closing.go)

	capacity     capacity
	clock        *turns.Clock // of the turns that hosts take together; nil: each takes its own
	subordinates atomic.Pointer[subordinates]
	followed     *subordinateFile
	peers        atomic.Pointer[cluster.File] // those of the file, and those found
	members      members
	heard        chan struct{} // the station has news
	seen         peersSeen
	userLog      lineLimit
	failureLog   lineLimit
	panics       atomic.Uint64 // contained panics (fault.go)
	strangers    *config.Rule  // for users that match no rule
	groupsMatter bool          // rules or administrators name groups

	quit     chan struct{} // closed by Stop
	quitOnce sync.Once
	stopping atomic.Bool
	serving  sync.WaitGroup // connections

	neighbours neighbours // ports of this host that can share memory

	// mu guards the fields below. Its holder never waits.
	mu          sync.Mutex
	used        usage            // use by all users
	users       map[uint32]usage // by account
	totals      map[*config.Rule]usage
	bells       map[uint32]*bells // by account
	purses      map[uint32]*purse // by account
	doors       map[uint32]*door  // by account
	jobs        map[uint16]*job
	ended       endedJobs
	connections map[*connection]struct{}
	nextGID     uint16
	// replacing says that another card is about to replace this one: no group may be made.
	replacing bool
	capturing *peer          // the process that captures; nil: none
	tracing   map[uint32]int // traces that go on, by account
	heirs     heirs
	departing map[uint16]*time.Timer // until a group without a job is absent (presence.go)
	contested map[uint16]string      // cards whose numbers two hosts have, and which (table.go)
	decided   uint64                 // the order of the last news about a process (fate.go)
}

// Open makes the card and takes the socket. Only Open must run in the network namespace of the
// interfaces. When it fails it leaves nothing behind. Errors wrap ErrConfig or ErrSocket, or are
// those of packages afxdp and xdp.
func Open(c Config) (_ *Daemon, err error) {
	c, err = c.complete()
	if err != nil {
		return nil, fmt.Errorf("starting funid: %w", err)
	}
	if c.CPU >= 0 {
		if err := pin.Check(c.CPU); err != nil {
			return nil, fmt.Errorf("starting funid: %w: %w", err, config.ErrConfig)
		}
	}
	d := &Daemon{cfg: c, quit: make(chan struct{}), heard: make(chan struct{}, 1), graves: make(chan int, mostGraves),
		users: map[uint32]usage{}, totals: map[*config.Rule]usage{},
		bells: map[uint32]*bells{}, purses: map[uint32]*purse{},
		tracing: map[uint32]int{}, doors: map[uint32]*door{}, jobs: map[uint16]*job{},
		departing:   map[uint16]*time.Timer{},
		neighbours:  newNeighbours(),
		connections: map[*connection]struct{}{},
		strangers:   &config.Rule{Connections: config.DefaultConnections},
		userLog:     lineLimit{lines: userLines, every: userLineEvery},
		failureLog:  lineLimit{lines: failureLines, every: failureEvery}}
	d.groupsMatter = len(c.Administrators.Groups) > 0 ||
		slices.ContainsFunc(c.Rules, func(r config.Rule) bool { return len(r.Groups) > 0 })
	d.followed = &subordinateFile{path: c.Subordinates, tell: func(line string) { c.Logger.Warn(line) }}
	numbers, _ := d.followed.read()
	d.subordinates.Store(&numbers)
	d.peers.Store(c.Peers)
	d.members.file = c.Peers
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting funid: %w", err), d.release())
		}
	}()
	// The socket first: a second daemon is refused before it touches the interfaces.
	if d.listener, err = listen(c.Socket); err != nil {
		return nil, err
	}
	if c.Metrics != "" {
		if d.metrics, err = d.listenMetrics(c.Metrics); err != nil {
			return nil, err
		}
	}
	if err := d.inherit(); err != nil {
		return nil, err
	}
	if d.memory, err = newMemory(c.Memory); err != nil {
		return nil, err
	}
	if d.links, err = openLinks(&c); err != nil {
		return nil, err
	}
	card, err := d.newCard(&c)
	if err != nil {
		return nil, err
	}
	if d.loop, err = newLoop(card, d.links, c.Polling); err != nil {
		return nil, err
	}
	if c.Turns == config.TurnsTogether {
		d.clock = turns.NewClock(c.Card, d.loop.clock())
	}
	d.loop.hello, d.loop.heard = d.newStation(), d.heard
	if c.Ports != nil {
		d.loop.post = &post{heard: make(chan heardNotice, mostHeard)}
		if err := d.loop.post.attach(card, c.Card, c.Peers); err != nil {
			return nil, err
		}
	}
	if d.follower, err = newFollower(d); err != nil {
		return nil, err
	}
	d.loop.share, d.loop.memory, d.loop.spoil, d.loop.report = shareOf(c.Profile, d.clock), d.memory, d.spoil, d.fail
	if d.capacity, err = capacityOf(c.MostMemory); err != nil {
		return nil, err
	}
	d.loop.prepare(c.CPU)
	d.priority = "the nice value of the others"
	d.tellCarriage()
	return d, nil
}

// newCard makes the engine, with an incarnation of its own.
func (d *Daemon) newCard(c *Config) (_ *engine.Card, err error) {
	cfg := c.engine()
	for _, l := range d.links {
		var p port.Port = l.hello
		if c.Peers.Encap == cluster.Hub {
			p = bundle.New(p)
		}
		cfg.Ports = append(cfg.Ports, p)
	}
	for i := range cfg.Peers {
		cfg.Peers[i].Local = d.links[cfg.Peers[i].Port].mac
	}
	var random [12]byte
	_, _ = rand.Read(random[:]) // it never fails
	cfg.Incarnation, cfg.Seed = max(1, binary.LittleEndian.Uint32(random[:])), binary.LittleEndian.Uint64(random[4:])
	cfg.Nonces, cfg.Moved, cfg.Fault = systemRandom{}, d.moved, d.faulted
	card, err := engine.New(cfg)
	if err == nil {
		d.incarnation.Store(cfg.Incarnation)
	}
	return card, err
}

// systemRandom draws each number from the operating system's generator, which the kernel seeds anew
// when a virtual machine is cloned.
type systemRandom struct{}

func (systemRandom) Uint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

// replaceCard replaces the card by one of another configuration. There must be no group.
func (d *Daemon) replaceCard(c *Config) error {
	return d.loop.ask(func() error {
		l := d.loop
		c.Peers = d.peers.Load()
		card, err := d.newCard(c)
		if err == nil && l.post != nil {
			err = l.post.attach(card, c.Card, c.Peers)
		}
		if err != nil {
			return err
		}
		l.card.Leave()
		l.card.Step(l.clock())
		l.card, l.share = card, shareOf(c.Profile, d.clock)
		l.hello.SetIncarnation(d.incarnation.Load())
		l.card.Observe(l.see)
		return nil
	})
}

// Run serves until the context ends or Stop is called, then stops cleanly. No process may attach
// any more, processes are told, packets under way have Config.Drain to arrive, and the peers are
// told. Run calls ready, if not nil, when processes can attach. Run may be called once, and gives
// Open's resources back when it returns.
func (d *Daemon) Run(ctx context.Context, ready func()) error {
	d.loop.run(true)
	if !d.listener.pure {
		go undertaker(d.graves)
	}
	go d.followSubordinates(d.followed)
	d.follower.follow()
	go d.introduce()
	go d.followPeers()
	go d.disinherit()
	if d.loop.post != nil {
		go d.hearNotices()
	}
	go d.followPaths()
	var watching sync.WaitGroup
	if d.memory.kind == config.WatchedMemory {
		watching.Go(func() { d.watch(d.loop.ended) })
	}
	accepting := make(chan error, 1)
	socket := d.listener.file // a stop takes it from the listener, perhaps at once
	go func() {
		accepting <- d.accept(socket)
		close(d.graves)
	}()
	if d.metrics != nil {
		d.metrics.serve()
	}
	if ready != nil {
		ready()
	}
	var err error
	select {
	case <-ctx.Done():
	case <-d.quit:
	case err = <-accepting:
		accepting <- nil
	}
	d.stopping.Store(true)
	d.Stop() // for those who wait for quit, whatever was the reason
	err = errors.Join(err, d.listener.close())
	<-accepting
	d.follower.stop() // it asks the card's thread, which drain ends
	d.drain()
	watching.Wait() // it asks the card's thread, whose descriptors release closes
	return errors.Join(err, d.release())
}

// Abandon gives everything back; call it instead of Run.
func (d *Daemon) Abandon() error { return d.release() }

// Stop makes Run return, as the end of its context does.
func (d *Daemon) Stop() { d.quitOnce.Do(func() { close(d.quit) }) }

// drain is the clean stop: it ends contexts, lets packets under way arrive, and says goodbye.
func (d *Daemon) drain() {
	_ = d.loop.do(func() {
		for _, a := range d.loop.byBell[:d.loop.belled] {
			if a != nil {
				a.dismiss()
			}
		}
	})
	end := time.Now().Add(d.cfg.Drain)
	d.settle(end, func() bool {
		for _, a := range d.loop.byBell[:d.loop.belled] {
			if a != nil && !a.ctx.Idle() {
				return false
			}
		}
		return true
	})
	for _, c := range d.allConnections() {
		c.end()
	}
	d.serving.Wait()
	d.settle(end, func() bool { return d.loop.card.Quiet() })
	_ = d.loop.do(func() {
		d.loop.card.Leave()
		d.loop.hello.Leave()
		d.loop.card.Step(d.loop.clock())
		d.loop.stop = true
	})
	<-d.loop.ended
}

// settle waits until a condition holds on the card's thread, but not beyond end.
func (d *Daemon) settle(end time.Time, so func() bool) {
	t := time.NewTicker(time.Millisecond)
	defer t.Stop()
	for time.Now().Before(end) {
		done := false
		if err := d.loop.do(func() { done = so() }); err != nil || done {
			return
		}
		<-t.C
	}
}

func (d *Daemon) allConnections() []*connection {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.connections))
}

// release gives everything back; the card's thread has ended or never began.
func (d *Daemon) release() error {
	var errs []error
	d.mu.Lock()
	for _, t := range d.departing {
		t.Stop()
	}
	d.mu.Unlock()
	if d.listener != nil {
		errs = append(errs, d.listener.close())
	}
	if d.follower != nil {
		d.follower.stop()
	}
	if d.metrics != nil {
		errs = append(errs, d.metrics.close())
	}
	if d.loop != nil {
		errs = append(errs, d.loop.close())
	}
	errs = append(errs, closeLinks(d.links, d.cfg.Log))
	if d.cfg.Table != nil { // direct jobs go on, and are to keep their GIDs
		if err := leave(d.cfg.Table, d.cfg.Ports != nil); err != nil {
			d.cfg.Logger.Warn(err.Error())
		}
	}
	if d.cfg.Ports != nil {
		errs = append(errs, d.cfg.Ports.Quit())
	}
	return errors.Join(errs...)
}

func (d *Daemon) info() attach.Info {
	xdp, bind := d.modes()
	return attach.Info{Host: hostName(), Card: d.cfg.Card, Incarnation: d.incarnation.Load(), ABI: funi.ABI,
		Interfaces: d.cfg.Interfaces, Profile: d.profileStatus().Profile,
		XDPMode: xdp, BindMode: bind, UDPPort: d.cfg.udpPort(), Carriage: d.carriage()}
}
