package daemon_test

// This file tests how a daemon chooses whether jobs may have direct ports, with a helper that has a
// life of its own (tests/carriage_test.go has one that funid starts).

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/xdp"
)

// helperAt has a helper listen at a path that cannot make ports, for a reason, or with nil can.
func (b *bed) helperAt(host int, path string, cannot error) {
	b.t.Helper()
	l, err := net.ListenUnix(attach.Network, &net.UnixAddr{Name: path, Net: attach.Network})
	if err != nil {
		b.t.Fatal(err)
	}
	var conns chan<- *net.UnixConn
	if cannot == nil {
		conns = b.helperOf(host)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			if cannot == nil {
				conns <- conn
				continue
			}
			if err := ports.Refuse(conn, cannot); err != nil {
				b.t.Error(err)
			}
			conn.Close()
		}
	}()
	b.t.Cleanup(func() {
		l.Close()
		<-done
	})
}

// choose has a host's daemon choose, and returns its configuration.
func (b *bed) choose(ctx context.Context, host int, c config.Carriage,
	tune func(*daemon.Config)) (cfg daemon.Config, err error) {
	b.t.Helper()
	cfg = b.config(host)
	cfg.Carriage, cfg.Attach, cfg.Helper = c, xdp.AttachNative, filepath.Join(b.dir, fmt.Sprintf("ports-%d", host))
	if tune != nil {
		tune(&cfg)
	}
	err = b.lab.Do(host, func() error { return daemon.ChooseCarriage(ctx, &cfg) })
	if cfg.Ports != nil {
		b.t.Cleanup(func() { cfg.Ports.Close() })
	}
	return cfg, err
}

// Rule (ChooseCarriage): where ports carry frames jobs may have them, and the daemon says how that
// was proven. Where they do not it says why, in its status and to a process that asks for a direct
// job, and goes on if it may. An interrupted choice does not say that ports are impossible.
func TestChooseCarriage(t *testing.T) {
	b := newBed(t)
	for host, c := range []config.Carriage{config.AutoCarriage, config.DirectCarriage} {
		b.helperAt(host, filepath.Join(b.dir, fmt.Sprint("ports-", host)), nil)
		cfg, err := b.choose(t.Context(), host, c, nil)
		if err != nil || cfg.Ports == nil || !strings.Contains(cfg.CarriageWhy,
			"exchanged frames of 80 and 1514 bytes") || !strings.Contains(cfg.CarriageWhy, "NIC's program") {
			t.Fatalf("%v: ports %v, %q, %v", c, cfg.Ports != nil, cfg.CarriageWhy, err)
		}
		d := b.start(host, func(to *daemon.Config) { *to = cfg })
		if s := portsOf(t, d); s.Carriage !=
			(attach.Carriage{Configured: c.String(), Chosen: "direct", Why: cfg.CarriageWhy}) {
			t.Errorf("the status says %+v", s.Carriage)
		}
		directJob(t, []*running{d}, uint16(host))
		d.stop(t)
	}

	interrupted, interrupt := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	interrupt(enough)
	if cfg, err := b.choose(interrupted, 0, config.AutoCarriage, nil); !errors.Is(err, enough) || cfg.Ports != nil {
		t.Errorf("interrupted: %v", err)
	}
	cannot := func(c *daemon.Config) { c.Helper = filepath.Join(b.dir, "ports-none") }
	b.helperAt(1, filepath.Join(b.dir, "ports-none"), errors.New("no namespaces here"))
	if cfg, err := b.choose(t.Context(), 1, config.DirectCarriage, cannot); err == nil || cfg.Ports != nil ||
		!strings.Contains(err.Error(), "no namespaces here") {
		t.Errorf("direct without ports: %v", err)
	}
	cfg, err := b.choose(t.Context(), 1, config.AutoCarriage, cannot)
	if err != nil || cfg.Ports != nil || !strings.Contains(cfg.CarriageWhy, "no namespaces here") {
		t.Fatalf("auto without ports: %q, %v", cfg.CarriageWhy, err)
	}
	said := make(chan string, 64)
	cfg.Log = func(line string) { said <- line }
	d := b.start(1, func(to *daemon.Config) { *to = cfg })
	if s := portsOf(t, d); s.Carriage != (attach.Carriage{Configured: "auto", Chosen: "daemon", Why: cfg.CarriageWhy}) {
		t.Errorf("the status says %+v", s.Carriage)
	}
	if _, err := dial(t, d.socket).Job(attach.JobRequest{Direct: true, Token: attach.NewToken(),
		Cards: []uint16{1}}); !errors.Is(err, attach.ErrNoPort) ||
		!strings.Contains(err.Error(), "no namespaces here") {
		t.Errorf("a direct job: %v", err)
	}
	for told := false; !told; {
		select {
		case line := <-said:
			told = strings.Contains(line, "no direct ports") && strings.Contains(line, "no namespaces here")
		default:
			t.Fatal("the log does not say so")
		}
	}
}
