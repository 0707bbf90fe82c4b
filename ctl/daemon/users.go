package daemon

// This file is authorization: who a process is, what he may use, and what he uses.

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/attach"
)

// peer is the process at the other end of a connection, as the kernel knew it when it
// connected.
type peer struct {
	pid    int32
	uid    uint32
	groups []uint32
}

// credentials asks the kernel who is at the other end (SO_PEERCRED and SO_PEERGROUPS,
// unix(7), Linux 4.13).
func credentials(c *net.UnixConn) (p peer, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return p, err
	}
	err = errors.Join(raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return
		}
		p.pid, p.uid, p.groups = cred.Pid, cred.Uid, []uint32{cred.Gid}
		var more []uint32
		more, err = peerGroups(int(fd))
		p.groups = append(p.groups, more...)
	}), err)
	if err != nil {
		err = fmt.Errorf("asking who has connected: %w", err)
	}
	return p, err
}

// peerGroups returns the supplementary groups.
func peerGroups(fd int) ([]uint32, error) {
	for room := 64; ; room *= 2 {
		groups := make([]uint32, room)
		size := uint32(4 * room)
		_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case e == 0:
			return groups[:size/4], nil
		case e != unix.ERANGE || room > 1<<16: // NGROUPS_MAX
			return nil, e
		}
	}
}

// is reports whether the process's user is among those.
func (p *peer) is(w *Who) bool {
	return slices.Contains(w.Users, p.uid) || slices.ContainsFunc(p.groups, func(g uint32) bool { return slices.Contains(w.Groups, g) })
}

// rule returns what the user may use, or nil.
func (d *Daemon) rule(p *peer) *Rule {
	for i := range d.cfg.Rules {
		r := &d.cfg.Rules[i]
		if len(r.Users)+len(r.Groups) == 0 || p.is(&r.Who) {
			return r
		}
	}
	return nil
}

// administrator reports whether the user may do what only an administrator may.
func (d *Daemon) administrator(p *peer) bool { return p.uid == 0 || p.is(&d.cfg.Administrators) }

// allows reports whether the rule has the GID.
func (r *Rule) allows(gid uint16) bool {
	return slices.ContainsFunc(r.GIDs, func(g Range) bool { return g.First <= gid && gid <= g.Last })
}

// usage is what a user uses at the moment.
type usage struct {
	contexts, jobs, connections int
	bytes                       int64
}

// take counts more of the user's use, or returns attach.ErrQuota and counts nothing. What
// was taken is given back with give.
func (d *Daemon) take(uid uint32, r *Rule, more usage) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.users[uid]
	for _, v := range []struct {
		what    string
		now, of int64
		more    int64
	}{
		{"contexts", int64(u.contexts), int64(r.Contexts), int64(more.contexts)},
		{"jobs", int64(u.jobs), int64(r.Jobs), int64(more.jobs)},
		{"connections", int64(u.connections), int64(r.Connections), int64(more.connections)},
		{"bytes", u.bytes, r.Bytes, more.bytes},
	} {
		if v.more > 0 && v.more > v.of-v.now {
			return fmt.Errorf("user %d has %d of %d %s and wants %d more: %w", uid, v.now, v.of, v.what, v.more, attach.ErrQuota)
		}
	}
	u.contexts += more.contexts
	u.jobs += more.jobs
	u.connections += more.connections
	u.bytes += more.bytes
	d.users[uid] = u
	return nil
}

// give gives back what take counted.
func (d *Daemon) give(uid uint32, less usage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.users[uid]
	u.contexts -= less.contexts
	u.jobs -= less.jobs
	u.connections -= less.connections
	u.bytes -= less.bytes
	if u == (usage{}) {
		delete(d.users, uid)
		return
	}
	d.users[uid] = u
}
