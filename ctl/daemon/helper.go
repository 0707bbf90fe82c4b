package daemon

// This file starts the helper that makes direct ports (package ports), a process of its own. The
// helper outlives the daemon, so that jobs of direct ports go on until there is another daemon. A
// helper that a daemon has started ends when there is no daemon and no process has a port. It also
// ends orphanage after the last daemon went, even if processes still have ports. As a service
// (stay) it never ends by itself.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
)

const (
	mostDirectPorts = 4096             // how many ports a host can have
	startWithin     = 20 * time.Second // bounds the start of a helper
	// orphanage is how long a helper without a daemon goes on while processes have ports. The
	// processes try to reach the next daemon for as long (package attach).
	orphanage     = time.Minute
	lookForHelper = 2 * time.Millisecond // the time between two attempts to reach a helper
	// endsWithin is how long a helper waits for a previous helper that has been told to end.
	endsWithin = 5 * time.Second
	// lookForDaemons is how often a helper without a daemon looks whether it should end.
	lookForDaemons = 500 * time.Millisecond
)

// StartPorts connects to the helper of a daemon. If Config.Helper is empty and there is no helper,
// it starts one beside the daemon's socket: this program, with these arguments and the path of the
// helper's socket. There the program calls MakePorts. The calling thread is in the network
// namespace of the interfaces. With Config.Helper the helper is a service: when it ends, requests
// wait for the next one, at the longest until ctx ends.
func StartPorts(ctx context.Context, cfg *Config, args ...string) (_ *ports.Client, err error) {
	path := cfg.Helper
	if path == "" {
		path = cmp.Or(cfg.Socket, DefaultSocket) + ".ports"
	}
	ended := make(chan error, 1)
	started := false
	for until := time.Now().Add(startWithin); ; {
		c, err := dialPorts(ctx, path)
		if err == nil {
			if cfg.Helper != "" { // a service, which comes back
				c.Return(ctx, func(ctx context.Context) (*net.UnixConn, error) {
					return attach.Dial(ctx, path, startWithin)
				},
					func(what string) { cfg.Logger.Warn(what) })
			}
			return c, nil
		}
		if c != nil {
			return nil, errors.Join(err, c.Close())
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !started && cfg.Helper == "" {
			cmd := exec.Command("/proc/self/exe", append(args, path)...)
			cmd.Args[0], cmd.Stderr = os.Args[0], os.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // its life is its own
			if err := cmd.Start(); err != nil {
				return nil, fmt.Errorf("starting the process that makes ports: %w", err)
			}
			go func() { ended <- cmd.Wait() }()
			started = true
		}
		select {
		case why := <-ended:
			return nil, fmt.Errorf("starting the process that makes ports: it ended: %w", errors.Join(why, err))
		case <-time.After(lookForHelper):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("connecting to the process that makes ports: no answer at %s within %v: %w", path,
				startWithin, err)
		}
	}
}

// dialPorts connects to a helper that answers. An error that it answers comes with the connection.
func dialPorts(ctx context.Context, path string) (*ports.Client, error) {
	conn, err := attach.Dial(ctx, path, startWithin)
	if err != nil {
		return nil, err
	}
	c := ports.NewClient(conn)
	// another funid may have the helper, which does not answer then
	defer context.AfterFunc(ctx, func() { c.Close() })()
	_, _, err = c.Held()
	if errors.Is(err, ports.ErrHelper) {
		return nil, errors.Join(err, c.Close())
	}
	return c, err
}

// MakePorts runs a helper with its socket at a path, until the helper ends. The helper keeps the
// capabilities that ports need. CAP_NET_ADMIN makes links and attaches guards, CAP_NET_RAW makes
// sockets, and CAP_BPF and CAP_PERFMON load programs. CAP_IPC_LOCK lets the memory of ports go
// beyond RLIMIT_MEMLOCK, and CAP_LINUX_IMMUTABLE gives that memory back.
//
// A helper ends when a daemon asks it to and there is no port. Without a daemon it ends as soon as
// no process has a port, and orphanage after the last daemon at the latest. It waits startWithin
// for its first daemon. With stay it is a service: it begins with the ports of the previous helper
// (ports.Store), and ends only by a signal.
func MakePorts(path string, stay bool) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("making ports: %w", err)
		}
	}()
	signal.Ignore(unix.SIGINT, unix.SIGHUP) // of whoever starts daemons
	if stay {
		// which ends a service at once: what it has is at the service manager
		signal.Reset(unix.SIGTERM)
	}
	l, err := listenPorts(path)
	if err != nil {
		return err
	}
	defer l.Close()
	tell := func(err error) { fmt.Fprintln(os.Stderr, "funid: the process that makes ports:", err) }
	store, err := ports.OpenStore()
	if err != nil {
		return refusePorts(l, err, stay)
	}
	host, err := ports.New(mostDirectPorts, store)
	if errors.Is(err, ports.ErrStore) {
		tell(err)
		host, err = ports.New(mostDirectPorts, store)
	}
	if err != nil {
		return refusePorts(l, err, stay)
	}
	h := ports.NewHelper(host, tell)
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := drop(unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_IPC_LOCK,
		unix.CAP_LINUX_IMMUTABLE); err != nil {
		return refusePorts(l, err, stay)
	}
	left, patience := time.Now(), startWithin // for the first one
	for {
		if err := l.SetDeadline(time.Now().Add(lookForDaemons)); err != nil {
			return err
		}
		conn, err := l.AcceptUnix()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if idle := h.Idle(); stay {
				continue // a service ends when it is told to
			} else if idle && (patience == orphanage || time.Since(left) > patience) || time.Since(left) > orphanage {
				return nil
			}
			continue
		case err != nil:
			return err
		}
		if err := daemonsOwn(conn); err != nil {
			tell(err)
			conn.Close()
			continue
		}
		if err := h.Serve(conn); err != nil {
			tell(err)
		}
		if h.Quit() && !stay {
			return l.Close() // nobody is to wait for it
		}
		left, patience = time.Now(), orphanage
	}
}

// refusePorts tells the first daemon why there are no ports. It returns the error that this process
// should still report: nil if the daemon that has started it reports it.
func refusePorts(l *net.UnixListener, why error, stay bool) error {
	err := tellRefusal(l, why)
	switch {
	case err != nil:
		return fmt.Errorf("%w; telling funid: %w", why, err)
	case stay:
		return why
	}
	return nil
}

// tellRefusal tells the first daemon that connects.
func tellRefusal(l *net.UnixListener, why error) error {
	if err := l.SetDeadline(time.Now().Add(startWithin)); err != nil {
		return err
	}
	conn, err := l.AcceptUnix()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := daemonsOwn(conn); err != nil {
		return err
	}
	return ports.Refuse(conn, why)
}

// listenPorts takes the socket of a helper, which only root and the daemon's user may connect to.
func listenPorts(path string) (*net.UnixListener, error) {
	if err := makeFolders(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("making the folder of the socket %s: %w", path, err)
	}
	for until := time.Now().Add(endsWithin); ; time.Sleep(lookForDaemons / 100) {
		c, err := net.Dial(attach.Network, path)
		if err != nil {
			break
		}
		c.Close()
		if time.Now().After(until) {
			return nil, fmt.Errorf("another process makes ports at %s: %w", path, ErrSocket)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("taking the socket %s: %w", path, err)
	}
	l, err := net.ListenUnix(attach.Network, &net.UnixAddr{Name: path, Net: attach.Network})
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("taking the socket %s: %w", path, err)
	}
	return l, nil
}

// daemonsOwn refuses connections of other users.
func daemonsOwn(conn *net.UnixConn) error {
	p, err := peerOf(conn)
	if err == nil && p.uid != 0 && p.uid != uint32(os.Geteuid()) {
		err = fmt.Errorf("user %d has connected, and may not", p.uid)
	}
	return err
}
