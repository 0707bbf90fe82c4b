package daemon

// This file is authorization: the user of a process, the user's rule, and its use.

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/uspace/attach"
)

// peer is the process at the other end of a connection, as the kernel knew it when it connected.
type peer struct {
	pid     int32
	uid     uint32
	account uint32 // the user whom it counts for (accounts.go)
	groups  []uint32
}

// credentials asks the kernel for the process at the other end of a socket (SO_PEERCRED, unix(7)).
func credentials(fd int) (p peer, err error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return p, fmt.Errorf("asking who has connected: %w", err)
	}
	return peer{pid: cred.Pid, uid: cred.Uid, groups: []uint32{cred.Gid}}, nil
}

// peerOf asks for the process at the other end of a connection.
func peerOf(c *net.UnixConn) (p peer, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return p, err
	}
	controlled := raw.Control(func(fd uintptr) { p, err = credentials(int(fd)) })
	return p, errors.Join(err, controlled)
}

// askGroups asks for the process's supplementary groups (SO_PEERGROUPS, Linux 4.13).
func (p *peer) askGroups(fd int) error {
	more, err := peerGroups(fd)
	if err != nil {
		return fmt.Errorf("asking for the groups of the connected process: %w", err)
	}
	p.groups = append(p.groups, more...)
	return nil
}

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

// is reports whether the process belongs to one of the users or groups.
func (p *peer) is(w *config.Who) bool {
	return slices.Contains(w.Users, p.uid) || slices.ContainsFunc(p.groups, func(g uint32) bool {
		return slices.Contains(w.Groups, g)
	})
}

// rule returns the rule of the user, or nil. A rule that names the owner of a subordinate number
// applies to that number, too.
func (d *Daemon) rule(p *peer) *config.Rule {
	for i := range d.cfg.Rules {
		r := &d.cfg.Rules[i]
		if len(r.Users)+len(r.Groups) == 0 || p.is(&r.Who) || slices.Contains(r.Users, p.account) {
			return r
		}
	}
	return nil
}

// administrator reports whether the process belongs to an administrator. An administrator's
// subordinate numbers do not count as one. Nor does a process that the daemon cannot see, whose pid
// the kernel gives as 0 (pid_namespaces(7)). For a daemon in a container these are all processes
// outside the container. A user that starts containers there chooses their users freely, root too.
func (d *Daemon) administrator(p *peer) bool {
	return p.pid != 0 && (p.uid == 0 && !d.cfg.NotRoot || p.is(&d.cfg.Administrators))
}

// usage is what a user uses at present.
type usage struct {
	contexts, jobs, connections int
	rows, far                   int // rows, and how many of the contexts they have
	pieces                      int // of memory
	bytes                       int64
}

// add adds v, or subtracts it if sign is -1.
func (u *usage) add(v usage, sign int) {
	u.contexts += sign * v.contexts
	u.jobs += sign * v.jobs
	u.connections += sign * v.connections
	u.rows += sign * v.rows
	u.far += sign * v.far
	u.pieces += sign * v.pieces
	u.bytes += int64(sign) * v.bytes
}

// over names the part of u plus more that exceeds a limit.
func (u *usage) over(of config.Amounts, more usage) (what string, now, most, wanted int64, over bool) {
	for _, v := range []struct {
		what          string
		now, of, more int64
	}{
		{"contexts", int64(u.contexts), int64(of.Contexts), int64(more.contexts)},
		{"jobs", int64(u.jobs), int64(of.Jobs), int64(more.jobs)},
		{"connections", int64(u.connections), int64(of.Connections), int64(more.connections)},
		{"bytes", u.bytes, of.Bytes, more.bytes},
	} {
		if v.more > 0 && v.more > v.of-v.now {
			return v.what, v.now, v.of, v.more, true
		}
	}
	return "", 0, 0, 0, false
}

// take counts more use of a user. It returns attach.ErrQuota, and counts nothing, in three cases:
// the user would exceed its rule's limit, all users of the rule together would exceed its total, or
// the user would touch the card's reserve. give undoes take.
func (d *Daemon) take(account uint32, r *config.Rule, more usage) (err error) {
	of := d.capacity
	if of.room != nil && more.bytes > 0 {
		if of.bytes, of.limit, err = of.room.find("/", time.Now()); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	u, total := d.users[account], d.totals[r]
	if what, now, of, wanted, over := u.over(r.Each(), more); over {
		return fmt.Errorf("user %d has %d of %d %s and wants %d more: %w", account, now, of, what, wanted,
			attach.ErrQuota)
	}
	if r.Total != (config.Amounts{}) {
		if what, now, of, wanted, over := total.over(r.Total, more); over {
			return fmt.Errorf("the users of a rule have %d of %d %s together and user %d wants %d more: %w", now, of,
				what, account, wanted, attach.ErrQuota)
		}
	}
	if err := of.reserved(account, d.used, u, more); err != nil {
		return err
	}
	u.add(more, 1)
	total.add(more, 1)
	d.used.add(more, 1)
	d.users[account], d.totals[r] = u, total
	return nil
}

// give gives back use that take counted.
func (d *Daemon) give(account uint32, r *config.Rule, less usage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u, total := d.users[account], d.totals[r]
	u.add(less, -1)
	total.add(less, -1)
	d.used.add(less, -1)
	d.users[account], d.totals[r] = u, total
	if u == (usage{}) {
		delete(d.users, account)
	}
	if total == (usage{}) {
		delete(d.totals, r)
	}
}
