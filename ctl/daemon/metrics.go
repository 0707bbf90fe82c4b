package daemon

// This file serves metrics over HTTP, in the text format of Prometheus, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats), to whoever can reach a
// loopback address or a Unix socket. They say nothing about single users.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/engine"
)

// metrics is the server.
type metrics struct {
	listener net.Listener
	server   *http.Server
}

// listenMetrics takes the address.
func (d *Daemon) listenMetrics(address string) (*metrics, error) {
	network, at, err := metricsAddress(address)
	if err != nil {
		return nil, fmt.Errorf("serving metrics at %q: %w: %w", address, err, ErrConfig)
	}
	l, err := net.Listen(network, at)
	if network == "unix" && errors.Is(err, unix.EADDRINUSE) {
		if c, dead := net.Dial(network, at); dead == nil {
			c.Close()
		} else if errors.Is(dead, unix.ECONNREFUSED) && os.Remove(at) == nil {
			l, err = net.Listen(network, at) // a dead daemon left it
		}
	}
	if err != nil {
		return nil, fmt.Errorf("serving metrics at %q: %w; choose another address", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", d.serveMetrics)
	return &metrics{listener: l, server: &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}}, nil
}

// serve answers until close.
func (m *metrics) serve() { go func() { _ = m.server.Serve(m.listener) }() }

// close ends it.
func (m *metrics) close() error {
	err := m.server.Close()
	if e := m.listener.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// serveMetrics answers one request.
func (d *Daemon) serveMetrics(w http.ResponseWriter, r *http.Request) {
	text, err := d.metricsText()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(text)
}

// metricsText is the metrics of now.
func (d *Daemon) metricsText() ([]byte, error) {
	var n engine.Counters
	if err := d.loop.do(func() { n = d.loop.card.Counters() }); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	metric := func(kind, name string, labels string, v any) {
		fmt.Fprintf(&b, "# TYPE %s %s\n%s%s %v\n", name, kind, name, labels, v)
	}
	metric("gauge", "funid_info", fmt.Sprintf("{card=\"%d\",incarnation=\"%d\"}", d.cfg.Card, d.incarnation.Load()), 1)
	d.mu.Lock()
	var all usage
	for _, u := range d.users {
		all.contexts += u.contexts
		all.connections += u.connections
		all.bytes += u.bytes
	}
	jobs := len(d.jobs)
	d.mu.Unlock()
	metric("gauge", "funid_jobs", "", jobs)
	metric("gauge", "funid_contexts", "", all.contexts)
	metric("gauge", "funid_connections", "", all.connections)
	metric("gauge", "funid_shared_bytes", "", all.bytes)
	// The engine's counters have their names where they are defined.
	named, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	var values map[string]uint64
	if err := json.Unmarshal(named, &values); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		metric("counter", "funid_card_"+name+"_total", "", values[name])
	}
	err = d.portMetrics(&b)
	return b.Bytes(), err
}

// portMetrics adds what the kernel counts of the interfaces.
func (d *Daemon) portMetrics(b *bytes.Buffer) error {
	var rows [4][]string
	err := d.loop.do(func() {
		for _, p := range d.loop.ports {
			label := fmt.Sprintf("{interface=%q}", p.Info().Interface)
			sends := 1
			if p.Err() != nil {
				sends = 0
			}
			s, err := p.Statistics()
			if err != nil {
				continue // the counters of an interface that is gone
			}
			for i, v := range []any{sends, s.RxDropped, s.RxRingFull, s.RxFillRingEmpty} {
				rows[i] = append(rows[i], fmt.Sprint(label, " ", v))
			}
		}
	})
	for i, m := range [][2]string{{"gauge", "funid_port_sends"}, {"counter", "funid_port_rx_dropped_total"},
		{"counter", "funid_port_rx_ring_full_total"}, {"counter", "funid_port_fill_ring_empty_total"}} {
		fmt.Fprintf(b, "# TYPE %s %s\n", m[1], m[0])
		for _, r := range rows[i] {
			fmt.Fprintf(b, "%s%s\n", m[1], r)
		}
	}
	return err
}
