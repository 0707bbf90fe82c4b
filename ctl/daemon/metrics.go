package daemon

// This file serves metrics over HTTP, as Prometheus collects them, to everybody who can reach a
// loopback address or a Unix socket. Metrics contain nothing about single users.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/uspace/port/hello"
	"github.com/funet/funet/xdp"
)

type metrics struct {
	listener net.Listener
	server   *http.Server
}

func (d *Daemon) listenMetrics(address string) (*metrics, error) {
	network, at, err := metricsAddress(address)
	if err != nil {
		return nil, fmt.Errorf("serving metrics at %q: %w: %w", address, err, config.ErrConfig)
	}
	l, err := net.Listen(network, at)
	if network == "unix" && errors.Is(err, unix.EADDRINUSE) {
		if c, dead := net.Dial(network, at); dead == nil {
			c.Close()
		} else if errors.Is(dead, unix.ECONNREFUSED) && isSocket(at) && os.Remove(at) == nil {
			l, err = net.Listen(network, at) // a dead daemon left it
		}
	}
	if err != nil {
		return nil, fmt.Errorf("serving metrics at %q: %w; choose another address", address, err)
	}
	mux := http.NewServeMux()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{d})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return &metrics{listener: scrapers(l), server: scrapeServer(mux)}, nil
}

// isSocket reports whether the path is a socket: connect(2) refuses other files just as it refuses
// the socket of a dead daemon.
func isSocket(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

// serve answers until close.
func (m *metrics) serve() { go func() { _ = m.server.Serve(m.listener) }() }

func (m *metrics) close() error {
	err := m.server.Close()
	if e := m.listener.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	return err
}

type collector struct{ daemon *Daemon }

// Describe sends nothing: the engine's counters determine the metrics.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the present metrics. When the card's thread has ended it sends an error, which
// becomes the handler's answer.
func (m collector) Collect(to chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
		names, values := make([]string, 0, len(labels)/2), make([]string, 0, len(labels)/2)
		for i := 0; i < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		desc := prometheus.NewDesc("funid_"+name, help, names, nil)
		metric, err := prometheus.NewConstMetric(desc, kind, v, values...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err)
		}
		to <- metric
	}
	if err := m.collect(to, send); err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewDesc("funid_up", "Whether the card runs.", nil, nil), err)
	}
}

// sending sends a metric, with its labels' names and values in turn.
type sending func(kind prometheus.ValueType, name, help string, v float64, labels ...string)

// collectPeers sends how the peers answer: quantiles over all that were measured. It sends one
// series for each peer only if the card has so few that all fit: there may be 65,535.
func (m collector) collectPeers(send sending) error {
	look, err := m.daemon.lookAtPeers()
	if err != nil {
		return err
	}
	const gauge = prometheus.GaugeValue
	for state, n := range map[string]int{"known": look.Known, "established": look.Established,
		"measured": look.Measured,
		"sealed":   look.Sealed, "readable": look.Readable, "key_refused": look.Refused} {
		send(gauge, "card_peers",
			"Other cards of the engine: all, those that are greeted, whose round trip is known, that have this host's key, those of them to which frames are not encrypted, and that are refused for their key.", float64(n), "state", state)
	}
	const help = "Smoothed time from a frame to its acknowledgment, which may wait for a packet to ride on; quantiles over the peers."
	for q, ns := range map[string]int64{"0": look.Shortest, "0.5": look.Median, "0.99": look.P99, "1": look.Longest} {
		send(gauge, "frame_round_trip_seconds", help, float64(ns)/1e9, "quantile", q)
	}
	if look.Known <= trafficPeers {
		for _, r := range look.first {
			send(gauge, "peer_round_trip_seconds", "The same of each peer, where the card has few.",
				float64(r.RoundTrip)/1e9, "peer", strconv.Itoa(int(r.Card)))
		}
	}
	return nil
}

// collectDirect sends the metrics of direct ports, of all users together.
func (m collector) collectDirect(send sending) error {
	s := m.daemon.directStatus(nil)
	if s == nil {
		s = new(report.DirectStatus)
	}
	const gauge = prometheus.GaugeValue
	for state, n := range map[string]int{"open": s.Ports, "kept": s.Kept, "orphaned": s.Orphaned} {
		send(gauge, "direct_ports",
			"Direct ports: all, those that have ended while a process keeps the socket, and those of the daemon before this one that nobody has asked for yet.", float64(n), "state", state)
	}
	frames, err := countersOf(s.Frames)
	if err != nil {
		return err
	}
	for outcome, n := range frames {
		send(prometheus.CounterValue, "direct_frames_total",
			"Frames that processes sent on direct ports, by what the guard did: sent to a host, or to a port of this one (local), or dropped for the reason.", float64(n), "outcome", outcome)
	}
	told := m.daemon.loop.post.counters()
	if told == nil {
		told = new(report.NoticeCounters)
	}
	notices, err := countersOf(told)
	if err != nil {
		return err
	}
	for what, n := range notices {
		send(prometheus.CounterValue, "notices_total",
			"What daemons tell each other of ends and returns of processes with direct ports: told by this one, and of those returned, because they did not arrive; heard, and of those strange (about jobs that are not here), late (older than what was known) and refused (the sender has no say there); unheard, for want of room; and doubtful, questions of processes here.", float64(n), "outcome", what)
	}
	return nil
}

func countersOf(counters any) (values map[string]uint64, err error) {
	text, err := json.Marshal(counters)
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	return values, err
}

// roundTrips returns the round trips of hellos of all peers together: one metric for each peer
// would be too many for a collector.
func roundTrips(n *hello.Counters) (prometheus.Metric, error) {
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, limit := range hello.RoundTripLimits {
		sum += n.RoundTrips[i]
		buckets[float64(limit)/1e9] = sum
	}
	sum += n.RoundTrips[len(hello.RoundTripLimits)]
	return prometheus.NewConstHistogram(prometheus.NewDesc("funid_hello_round_trip_seconds",
		"Round trips of hellos to peers, through both ports and card's threads.", nil, nil),
		sum, float64(n.RoundTrip)/1e9, buckets)
}

// portState is the state of a port, as the card's thread has reported it.
type portState struct {
	name  string
	sends bool
	n     xdp.Statistics
	lost  uint64
	udp   bool
	grams afxdp.Datagrams
	ways  int // missing ones
	queue []afxdp.QueueState
}

// cardState is the state of the card, as its thread has reported it at one time.
type cardState struct {
	n             engine.Counters
	faults        report.Faults
	here, there   engine.Rejections
	hellos        hello.Counters
	known, silent int
	remote        engine.RemoteUse // of all contexts
	ports         []portState
}

// cardState asks the card's thread for the state.
func (m collector) cardState() (c cardState, err error) {
	d := m.daemon
	err = d.loop.do(func() {
		c.n, c.faults = d.loop.card.Counters(), d.loop.faulted
		c.here, c.there = d.loop.card.Rejections()
		c.hellos = d.loop.hello.Counters()
		c.known, c.silent = d.loop.hello.Known()
		for _, l := range d.links {
			p := portState{name: l.configured, lost: l.hello.Lost(), udp: l.config.UDP != nil}
			if l.plugged != nil {
				p.sends = l.plugged.Err() == nil
				p.n, _ = l.plugged.Statistics() // of an interface that is going there are none
				p.grams = l.plugged.Datagrams()
				p.queue = l.plugged.Queues()
				for _, way := range l.plugged.Paths() {
					if way.Missing != "" {
						p.ways++
					}
				}
			}
			c.ports = append(c.ports, p)
		}
	})
	if err == nil {
		err = d.loop.each(d.loop.do, func(a *attachment) {
			u, _ := a.ctx.Remote()
			c.remote.Add(&u)
		})
	}
	return c, err
}

func (m collector) collect(to chan<- prometheus.Metric, send sending) error {
	d := m.daemon
	c, err := m.cardState()
	if err != nil {
		return err
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	send(gauge, "info", "The card and its incarnation; always 1.", 1,
		"memory", d.memory.kind.String(), "card", strconv.Itoa(int(d.cfg.Card)), "incarnation",
		strconv.FormatUint(uint64(d.incarnation.Load()), 10), "carriage", d.carriage().Chosen)
	if err := m.collectDirect(send); err != nil {
		return err
	}
	d.mu.Lock()
	all, jobs := d.used, len(d.jobs)
	d.mu.Unlock()
	send(gauge, "jobs", "Jobs that exist.", float64(jobs))
	send(gauge, "contexts", "Contexts that are attached, and nodes that jobs have c.here.", float64(all.contexts))
	send(gauge, "connections", "Connections to the socket.", float64(all.connections))
	send(gauge, "shared_bytes", "Memory shared with processes.", float64(all.bytes))
	for _, r := range []struct {
		name, state string
		n           int
	}{{"key_slots", "asked", c.remote.KeySlots}, {"key_slots", "open", c.remote.KeySlotsOpen},
		{"areas", "asked", c.remote.Areas}, {"areas", "open", c.remote.AreasOpen},
		{"notifications", "asked", c.remote.Notifications}, {"notifications", "credit", c.remote.Credit},
		{"notifications", "unread", c.remote.Unread},
		{"requests", "open", c.remote.RequestsOpen}} {
		send(gauge, "remote_"+r.name, "Remote memory of contexts: what they have asked for, and what of it is in use.",
			float64(r.n), "state", r.state)
	}
	send(counter, "windows_missed_total",
		"Windows that another process wanted while they were suspended or not yet there, once each time that they were not.", float64(c.faults.Missed))
	send(counter, "accesses_refused_total",
		"Packets for windows and areas of processes that were refused for good: wrong keys, bytes or operations that the window forbids, locks of others, and windows that were away for too long.", float64(c.faults.Refused))
	send(counter, "packets_unrouted_total", "Packets of processes for nodes that their job does not have.",
		float64(c.faults.NoRoute))
	send(counter, "windows_suspended_total",
		"Windows that this daemon has had suspended, because one node of the job was refused too often (refused_accesses).", float64(c.faults.Suspended))
	send(counter, "memory_faults_total", "Pieces of shared memory that failed or had holes, and whose contexts ended.",
		float64(d.loop.faults.Load()))
	send(counter, "panics_total",
		"Mistakes of the daemon that ended a context or a connection and nothing else; the log has them.",
		float64(d.panics.Load()))
	send(gauge, "peers", "Cards that this one knows.", float64(c.known))
	send(gauge, "peers_silent", "Cards that did not answer the last hello.", float64(c.silent))
	send(counter, "hello_answers_total", "Hellos of others that were answered.", float64(c.hellos.Answers))
	send(counter, "hello_refused_total", "Hellos of others that came too fast, or from nowhere, and were not answered.",
		float64(c.hellos.Refused))
	send(counter, "hello_unanswered_total", "Hellos to others that were not answered in time.",
		float64(c.hellos.Unanswered))
	trips, err := roundTrips(&c.hellos)
	if err != nil {
		return err
	}
	to <- trips
	values, err := countersOf(c.n)
	if err != nil {
		return err
	}
	for name, v := range values {
		send(counter, "card_"+name+"_total", "The engine's counter of this name.", float64(v))
	}
	for by, rejected := range map[string]*engine.Rejections{"card": &c.here, "peer": &c.there} {
		for _, r := range rejections(rejected) {
			send(counter, "rejected_packets_total",
				"Packets that this card, or a peer, rejected for a reason, each time.", float64(r.Packets), "by", by,
				"reason", r.Reason)
		}
	}
	if err := m.collectPeers(send); err != nil {
		return err
	}
	m.collectInterfaces(send)
	collectPorts(c.ports, send)
	return nil
}

// flag returns the value of a metric that says whether something is so.
func flag(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// collectInterfaces calls send for the state of the card's interfaces.
func (m collector) collectInterfaces(send sending) {
	d := m.daemon
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	for _, s := range d.linkStatus() {
		name := cmp.Or(s.Configured, s.Interface)
		for _, state := range report.LinkStates {
			send(gauge, "interface_state", "1 for the state of an interface.",
				flag(s.State == state), "interface", name, "state", string(state))
		}
		send(counter, "interface_changes_total", "Changes of the state of an interface.",
			float64(s.Changes), "interface", name)
		send(counter, "interface_merged_datagrams_total",
			"Datagrams that the kernel's GRO had merged, whose frames were lost.", float64(s.Merged), "interface", name)
		for outcome, n := range map[string]uint64{"answered": s.Deferred, "dropped": s.Undeferred} {
			send(counter, "interface_deferred_frames_total",
				"Frames of groups that are absent here: answered by the NIC program, so that their senders wait, or dropped because their sender had had enough answers.",
				float64(n), "interface", name, "outcome", outcome)
		}
		send(counter, "interface_dropped_hellos_total",
			"Hellos that the NIC program dropped, because their sources had said many.", float64(s.Hellos),
			"interface", name)
		if a := s.Direct; a != nil {
			for outcome, n := range map[string]uint64{"handed": a.Handed, "stranger": a.Stranger, "no_port": a.NoPort} {
				send(counter, "interface_direct_frames_total",
					"Direct frames from other hosts: handed to their node's port, or dropped because they did not come from the host of the node that they claimed, or because their node has no port here.",
					float64(n), "interface", name, "outcome", outcome)
			}
		}
		send(counter, "interface_reopened_total", "Times that an interface was opened again.",
			float64(s.Reopened), "interface", name)
	}
}

func collectPorts(ports []portState, send sending) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	for _, p := range ports {
		send(gauge, "port_sends", "Whether frames can be sent.", flag(p.sends), "interface", p.name)
		send(counter, "port_unplugged_frames_total",
			"Frames that were sent while the interface was down or away, and lost.",
			float64(p.lost), "interface", p.name)
		send(counter, "port_rx_dropped_total", "Frames that the kernel dropped for other reasons.",
			float64(p.n.RxDropped), "interface", p.name)
		send(counter, "port_rx_ring_full_total", "Frames that found the receive ring full.",
			float64(p.n.RxRingFull), "interface", p.name)
		for _, q := range p.queue {
			number := strconv.Itoa(q.Queue)
			for direction, proof := range map[string]afxdp.Proof{"receive": q.Receives, "send": q.Sends} {
				send(gauge, "port_queue_proven",
					"Whether a frame has come through a queue, or a peer has got one that left on it.",
					flag(proof == afxdp.Proven), "interface", p.name, "queue", number, "direction", direction)
			}
			send(counter, "port_queue_received_total",
				"Frames, or parts of them, that came on a queue since the interface was opened.",
				float64(q.Received), "interface", p.name, "queue", number)
			send(counter, "port_queue_sent_total",
				"Frames, or parts of them, that left on a queue since the interface was opened.",
				float64(q.Sent), "interface", p.name, "queue", number)
		}
		if p.udp {
			send(gauge, "port_missing_paths",
				"Peers to which there is no way: no route, no neighbour, or too small an MTU.",
				float64(p.ways), "interface", p.name)
			send(counter, "port_unsent_total", "Frames that were not sent because there was no way.",
				float64(p.grams.Unsent), "interface", p.name)
			send(counter, "port_refused_datagrams_total", "Datagrams with a wrong checksum, or that were none.",
				float64(p.grams.Refused), "interface", p.name)
		}
		send(counter, "port_fill_ring_empty_total", "Frames that found no memory to be received into.",
			float64(p.n.RxFillRingEmpty), "interface", p.name)
	}
}
