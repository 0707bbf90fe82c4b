// This file is the lab as its user sees it: made by Up or found by Open, used through Do and Start,
// given back by Close.

package lab

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/scratch"
	"github.com/funet/funet/uspace/cluster"
)

// Lab is a lab that this process can use. Its methods may be called from any goroutine.
type Lab struct {
	opts  Options // complete
	hosts []Host  // read-only
	// of the hosts, then of routers in the kernel, or of the hub if this process made the lab
	spaces []*space

	mu       sync.Mutex // held while a child is started, so that Close misses none
	closed   bool
	children []*child        // not known to have ended, with their process groups
	folder   *scratch.Folder // of an anonymous lab's daemons; nil: no folder
	daemons  []*daemon

	close func() error // does the work of Close once
}

// Up makes a lab and returns when all its links are operational. A named lab is also entered in the
// state directory, after stale labs there are removed. If a step fails, all is removed again.
//
// Errors: ErrOptions, ErrName, ErrPermission, ErrExists (the name is up or being built), ErrBusy,
// ErrLinkDown, or what the kernel said.
func Up(o Options) (*Lab, error) {
	o, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("make lab: %w", err)
	}
	if o.Name != "" {
		if err := claim(o); err != nil {
			return nil, fmt.Errorf("make lab %s: %w", o.Name, err)
		}
	}
	l, err := construct(o)
	if err == nil && o.Prepare != nil {
		err = o.Prepare(l)
	}
	if err == nil && o.Name != "" {
		err = publish(o)
	}
	if err == nil {
		return l, nil
	}
	if l != nil {
		err = join(err, l.Close())
	}
	if o.Name == "" {
		return nil, fmt.Errorf("make lab: %w", err)
	}
	return nil, join(fmt.Errorf("make lab %s: %w", o.Name, err), withdraw(o))
}

// construct makes the namespaces and links of a lab. On failure it leaves no threads and
// no links; named namespaces are left to the caller.
func construct(o Options) (*Lab, error) {
	hosts, cables := plan(o)
	spaces, err := makeSpaces(o)
	if err == nil {
		err = build(o, hosts, cables, spaces)
	}
	if err != nil {
		return nil, join(err, release(spaces, true))
	}
	return newLab(o, hosts, spaces), nil
}

// makeSpaces makes the namespaces of the hosts and, for a bridge or a router, the hub. It mounts
// them by name if the lab has one. On failure it returns those that it made.
func makeSpaces(o Options) (spaces []*space, err error) {
	for i := range o.Hosts + len(o.hubs()) {
		s, err := newSpace(func() error {
			if err := unshareNet(); err != nil || o.Name == "" {
				return err
			}
			return mountNamespace(filepath.Join(netnsDir, namespaces(o)[i]))
		})
		if err != nil {
			return spaces, err
		}
		spaces = append(spaces, s)
	}
	return spaces, nil
}

func newLab(o Options, hosts []Host, spaces []*space) *Lab {
	l := &Lab{opts: o, hosts: hosts, spaces: spaces}
	l.close = sync.OnceValue(l.shut)
	return l
}

// release ends the threads of the spaces. With links set it first deletes the links, because the
// kernel would delete them with the last namespace, but at a time of its own.
func release(spaces []*space, links bool) error {
	var errs []error
	if links {
		for _, s := range spaces {
			// A space that ended early has taken its links with it.
			if err := s.netlink(unlink); err != nil && !errors.Is(err, ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	for _, s := range spaces {
		s.stop()
	}
	return join(errs...)
}

// Open finds a named lab that is up. Errors: ErrName, ErrNotFound, ErrBusy (it is still being
// built), ErrDamaged (its namespaces are gone), ErrPermission.
func Open(name string) (*Lab, error) {
	o, err := optionsOf(name)
	if err != nil {
		return nil, err
	}
	hosts, _ := plan(o)
	names := namespaces(o)
	if !o.Topology.IsHub() {
		names = names[:o.Hosts]
	}
	var spaces []*space
	for _, name := range names {
		s, err := enterNamespace(filepath.Join(netnsDir, name))
		if err != nil {
			return nil, join(fmt.Errorf("open lab %s: %w", name, err), release(spaces, false))
		}
		spaces = append(spaces, s)
	}
	return newLab(o, hosts, spaces), nil
}

// optionsOf checks the name, and returns the options of the named lab, which must be up.
func optionsOf(name string) (Options, error) {
	if err := checkName(name); err != nil {
		return Options{}, fmt.Errorf("open lab: %w", err)
	}
	o, err := lookUp(name)
	if err != nil {
		return Options{}, fmt.Errorf("open lab %s: %w", name, err)
	}
	return o, nil
}

// PeersOf returns the peers file of a host of a named lab, as Peers does, without entering the
// lab's namespaces. Any user may call it. Errors are those of Open, and ErrNoHost.
func PeersOf(name string, host int) (*cluster.File, error) {
	o, err := optionsOf(name)
	if err != nil {
		return nil, err
	}
	hosts, _ := plan(o)
	f := newLab(o, hosts, nil).Peers(host)
	if f == nil {
		return nil, fmt.Errorf("lab %s: %w; it has hosts 0 to %d", name, ErrNoHost, len(hosts)-1)
	}
	return f, nil
}

// Options returns the options that the lab was made with, defaults filled in.
func (l *Lab) Options() Options { return l.opts }

// Hosts describes the hosts in order of their index. The result is the caller's.
func (l *Lab) Hosts() []Host {
	hosts, _ := plan(l.opts)
	return hosts
}

// Peers returns the peers file of one host: node i is host i, and gid is left open. Every entry has
// the interface that leads to the node. The host's own entry has its first interface and the
// addresses of that one. With a router between the hosts the encapsulation is UDP. It returns nil
// if there is no such host.
func (l *Lab) Peers(host int) *cluster.File {
	if host < 0 || host >= len(l.hosts) {
		return nil
	}
	me := &l.hosts[host]
	f := &cluster.File{}
	for i, h := range l.Hosts() {
		at, iface := &h.Interfaces[0], h.Interfaces[0].Name
		if i != host {
			at, iface = h.to(host), me.to(i).Name
		}
		p := cluster.Peer{Node: uint16(i), MAC: at.MAC, Iface: iface, Address: at.Addr.Addr()}
		if l.opts.IPv6 {
			p.Address = at.Addr6.Addr()
		}
		if l.opts.Topology == Router {
			f.Encap, p.MAC = cluster.UDP, nil // nobody reaches it
		} else if l.opts.Topology.IsHub() {
			f.Encap = cluster.Hub
		}
		f.Peers = append(f.Peers, p)
	}
	return f
}

// Do runs f on a thread that is in the host's namespace and returns f's error, ErrNoHost or
// ErrClosed. Sockets that f opens belong to the namespace for ever, whoever uses them later;
// goroutines that f starts do not run there. f must not change the thread's affinity or namespaces,
// and must not wait long, because the host's other requests wait too. f must not call Close, or Do
// or Start for the same host.
func (l *Lab) Do(host int, f func() error) error {
	s, err := l.space(host)
	if err != nil {
		return err
	}
	return s.do(f)
}

// DoRouter is Do for the router of a lab with topology Router. Only the process that made the lab
// reaches the router. For others, and without a router, it returns ErrNoHost.
func (l *Lab) DoRouter(f func() error) error {
	if l.opts.Topology != Router || len(l.spaces) <= len(l.hosts) {
		return fmt.Errorf("%w: router", ErrNoHost)
	}
	return l.spaces[len(l.hosts)].do(f)
}

func (l *Lab) space(host int) (*space, error) {
	if host < 0 || host >= len(l.hosts) {
		return nil, fmt.Errorf("%w: %d, want 0 to %d", ErrNoHost, host, len(l.hosts)-1)
	}
	return l.spaces[host], nil
}

// Close ends this process's part of the lab. It kills (SIGKILL) the children still alive and the
// rest of their process groups, waits for them, and ends the threads. An anonymous lab is gone when
// Close returns. A named one stays; see Down. Further calls return the same error.
//
// Close reaps a child that was not waited for, after which the child's Wait reports ECHILD: call
// Wait before Close, or ignore that error. Errors: ErrKill, or what the kernel said.
func (l *Lab) Close() error { return l.close() }

// shut does the work of Close, once.
func (l *Lab) shut() error {
	l.mu.Lock()
	l.closed = true
	children, folder := l.children, l.folder
	l.children, l.folder = nil, nil
	l.mu.Unlock()

	err := join(endAll(children), release(l.spaces, l.opts.Name == ""))
	if folder != nil {
		err = join(err, folder.Remove())
	}
	if err != nil {
		return fmt.Errorf("close lab: %w", err)
	}
	return nil
}

// Down closes the lab and, if it has a name, removes it as the function Down does.
func (l *Lab) Down() error {
	err := l.Close()
	if l.opts.Name != "" {
		err = join(err, Down(l.opts.Name))
	}
	return err
}

// enterNamespace starts a thread in the namespace mounted at path.
func enterNamespace(path string) (*space, error) {
	return newSpace(func() error {
		fd, err := openNamespace(path)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter namespace %s: %w", path, permission(err))
		}
		return nil
	})
}
