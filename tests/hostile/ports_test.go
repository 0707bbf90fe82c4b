package hostile

// This file is attacks on direct ports, beside others' ports whose traffic is verified. Package bpf
// tests each branch of the switch, ctl/ports frames of every wrong kind and a host without a free
// port, ctl/daemon what counts for whom, and tests the death of everybody.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/attack"
	"github.com/funet/funet/tests/daemons"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

const (
	// loopers is how many users make and end ports at a time, and firstLooper the first of them.
	loopers     = 10
	firstLooper = 52800
	// tableUser and the one after him may have tableBytes, which is room for some of the longest
	// node lists.
	tableUser  = 52900
	tableBytes = 16 << 20
)

// directRules are attackRules for the program funid.
var directRules = fmt.Sprintf("carriage: direct\nrules: [{users: [0], contexts: 2048, jobs: 1024, connections: 1024}, {users: [%d, %d], bytes: %d}, {gids: [1-2047]}]\n",
	tableUser, tableUser+1, tableBytes)

// funid is the program, which is built once.
func funid(t testing.TB) string {
	t.Helper()
	if os.Getenv("FUNET_BINARY") != "" {
		return daemons.Build(t, "../..")
	}
	path := filepath.Join(folder, "funid")
	if _, err := os.Stat(path); err != nil {
		if err := os.Rename(daemons.Build(t, "../.."), path); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// newDirectBed makes a lab of two hosts with the program funid on each, whose jobs have direct
// ports.
func newDirectBed(t testing.TB) *bed {
	t.Helper()
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bed{t: t, lab: l, direct: true}
	if err = l.StartDaemons(lab.DaemonOptions{Program: funid(t), XDP: "native", More: directRules}); err == nil {
		b.sockets, err = l.Sockets()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPorts: beside each attack on direct ports the others' go on, and when it is over nothing of
// it is left: no port, no memory, no link. So do they while ten users make and end ports, while
// others fill the table with node lists, and when the NIC is down for a time while all send.
func TestPorts(t *testing.T) {
	long.Test(t)
	d, _ := length(t, 10*time.Second)
	b := newDirectBed(t)
	each := max(time.Second, d/60)
	links := b.portLinks()
	b.withstand(t, attack.Direct(), each, func(goOn func(string), nextGID *uint16) {
		var all []*siege
		for n := range uint32(loopers) {
			all = append(all, b.surround(named(t, "ports_loop"), firstLooper+n, nextGID))
		}
		for _, s := range all {
			s.begin()
		}
		goOn("beside ten users who make and end ports")
		for _, s := range all {
			until(t, "each of ten users makes ports", func() bool { return s.did.Load() > 0 }, func() string {
				return "it makes none"
			})
			s.goesOn()
		}
		for _, s := range all {
			s.end()
		}

		// Who fills the table with node lists is refused, and others have room for theirs, for
		// ports of new jobs, and for what they do.
		lists := int64(tableBytes / (attach.MaxNodes * bpf.PlaceSize))
		filled := b.besiege(named(t, "ports_table"), tableUser, nextGID)
		until(t, "who makes jobs of many nodes is refused", func() bool {
			return filled.did.Load() > 8*lists
		}, func() string { return fmt.Sprintf("%d done", filled.did.Load()) })
		all = []*siege{filled, b.besiege(named(t, "ports_table"), tableUser+1, nextGID),
			b.besiege(named(t, "ports_loop"), firstLooper, nextGID)}
		for _, s := range all[1:] {
			until(t, "others make jobs and ports", func() bool { return s.did.Load() > 0 }, func() string {
				return "they make none"
			})
		}
		goOn("beside who fills the table")
		for _, s := range all {
			s.goesOn()
			s.end()
		}

		flood := b.besiege(named(t, "ports_flood"), enemyUser, nextGID)
		for host := range b.sockets {
			b.nic(host, netlink.LinkSetDown)
			did := flood.did.Load()
			until(t, "who floods goes on without a NIC", func() bool { return flood.did.Load() > did }, func() string {
				return fmt.Sprintf("%d done", did)
			})
			b.nic(host, netlink.LinkSetUp)
			goOn("after the NIC was down")
		}
		flood.goesOn()
		flood.end()
	})
	for host := range b.sockets {
		var left []string
		until(t, "no link of a port is left", func() bool { left = b.portLinks(); return len(left) == len(links) },
			func() string { return fmt.Sprint(left) })
		b.status(host) // the daemon is there
	}
}

// named returns the direct attack of that name.
func named(t testing.TB, name string) attack.Attack {
	for _, a := range attack.Direct() {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("no attack is called %s", name)
	panic("unreachable")
}

// nic does something to the interface of a host.
func (b *bed) nic(host int, do func(netlink.Link) error) {
	b.t.Helper()
	err := b.lab.Do(host, func() error {
		l, err := netlink.LinkByName(b.lab.Hosts()[host].Interfaces[0].Name)
		if err != nil {
			return err
		}
		return do(l)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// portLinks lists the links of ports on all hosts.
func (b *bed) portLinks() (names []string) {
	b.t.Helper()
	for host := range b.lab.Hosts() {
		err := b.lab.Do(host, func() error {
			links, err := netlink.LinkList()
			for errors.Is(err, netlink.ErrDumpInterrupted) { // one of them has just changed
				links, err = netlink.LinkList()
			}
			for _, k := range links {
				if name := k.Attrs().Name; strings.HasPrefix(name, "fup") {
					names = append(names, name)
				}
			}
			return err
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return names
}

// unableConfig configures a role that becomes another program, without a capability.
type unableConfig struct {
	Args []string
	Drop uintptr
}

// unable is the role.
func unable(c unableConfig) error {
	// the bounding set is a thread's, and of what it executes (capabilities(7))
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, c.Drop, 0, 0, 0); err != nil {
		return err
	}
	return syscall.Exec(c.Args[0], c.Args, os.Environ())
}

// TestPortsNeedPrivileges: a funid that is to give direct ports and lacks what they take says what
// and what to do, and ends.
func TestPortsNeedPrivileges(t *testing.T) {
	b := newDirectBed(t)
	if err := b.lab.StopDaemons(); err != nil {
		t.Fatal(err)
	}
	for name, missing := range map[string]uintptr{"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN,
		"CAP_NET_ADMIN": unix.CAP_NET_ADMIN, "CAP_NET_RAW": unix.CAP_NET_RAW} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			peers, err := b.lab.Peers(0).Marshal()
			config := fmt.Sprintf("socket: %s/socket\ncard: 0\npeers: %s/peers\ninterfaces: [%s]\nxdp: native\n%s", dir,
				dir, b.lab.Hosts()[0].Interfaces[0].Name, directRules)
			if err := errors.Join(err, os.WriteFile(dir+"/peers", peers, 0o644),
				os.WriteFile(dir+"/config", []byte(config), 0o644)); err != nil {
				t.Fatal(err)
			}
			p := start(t, "unable", unableConfig{[]string{funid(t), "--config", dir + "/config"}, missing},
				options{name: "funid without " + name,
					by: func(c *exec.Cmd) error { return b.lab.Start(0, c) }})
			err = p.wait()
			// funid's, also for the process that makes ports
			said := strings.TrimSpace(p.Complaints())
			if err == nil || !strings.HasPrefix(said, "funid: ") || strings.Contains(said, "\n") ||
				!strings.Contains(said, name) {
				t.Errorf("%v: %s", err, said)
			} else {
				t.Log(said)
			}
			if left := b.portLinks(); len(left) > 0 {
				t.Errorf("links are left: %v", left)
			}
		})
	}
}
