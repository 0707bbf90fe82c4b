package daemon_test

// This file is the test bed: daemons on the hosts of a lab, in this process, and clients
// that speak the protocol message by message.

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	protocol "github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/xdp"
)

// patience bounds every wait: long enough for a machine that is busy.
const patience = 30 * time.Second

// bed is a lab of two socket.
type bed struct {
	t    testing.TB
	lab  *lab.Lab
	dir  string
	tune func(*daemon.Config) // of daemons that give direct ports; nil: they are as ever
}

func newBed(t testing.TB) *bed { return newBedOf(t, lab.Options{Hosts: 2}) }

func newBedOf(t testing.TB, o lab.Options) *bed {
	t.Helper()
	l, err := lab.Up(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	// Not TempDir, into which others may not look.
	dir, err := os.MkdirTemp("", "funid")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &bed{t: t, lab: l, dir: dir}
}

// config returns the configuration of a host's daemon.
func (b *bed) config(host int) daemon.Config {
	return daemon.Config{File: config.File{Socket: filepath.Join(b.dir, fmt.Sprintf("host-%d.sock", host)),
		Card: uint16(host), Peers: b.lab.Peers(host), Attach: xdp.AttachGeneric, CPU: -1}}
}

// running is a daemon that serves.
type running struct {
	*daemon.Daemon
	socket string
	ended  chan error
	asks   *client // see asker; nil: nobody has asked yet
}

// start starts a daemon, which ends with the test at the latest.
func (b *bed) start(host int, tune func(*daemon.Config)) *running {
	b.t.Helper()
	c := b.config(host)
	if tune != nil {
		tune(&c)
	}
	r := &running{socket: c.Socket, ended: make(chan error, 1)}
	err := b.lab.Do(host, func() (err error) {
		r.Daemon, err = daemon.Open(c)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ready := make(chan struct{})
	go func() { r.ended <- r.Run(context.Background(), func() { close(ready) }) }()
	b.t.Cleanup(func() { r.stop(b.t) })
	select {
	case <-ready:
	case err := <-r.ended:
		r.ended <- nil
		b.t.Fatalf("the daemon ended before it was ready: %v", err)
	case <-time.After(patience):
		b.t.Fatal("the daemon is not ready")
	}
	return r
}

// stop stops the daemon and waits for it.
func (r *running) stop(t testing.TB) {
	r.Stop()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Error(err)
		}
		r.ended <- nil
	case <-time.After(patience):
		t.Error("the daemon does not end")
	}
}

// client is a connection, with a context or without. What it asks fails the test unless the daemon
// answers.
type client struct {
	*protocol.Connection
	t testing.TB
}

// connect connects to a daemon.
func connect(t testing.TB, socket string) *net.UnixConn {
	t.Helper()
	c, err := attach.Dial(context.Background(), socket, patience)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dial(t testing.TB, socket string) *client {
	t.Helper()
	k, err := protocol.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return &client{k, t}
}

// ask sends a message and returns the answer, which may have the given number of descriptors.
func (k *client) ask(message []byte, descriptors int) ([]byte, []int) {
	k.t.Helper()
	answer, fds, err := k.Ask(message, descriptors)
	if err != nil {
		k.t.Fatal(err)
	}
	return answer, fds
}

// attach attaches; the caller may want to know that it was refused.
func (k *client) attach(r attach.AttachRequest) error {
	if err := k.Attach(r); err != nil {
		return err
	}
	return k.Start()
}

// send sends a message of one word.
func (k *client) send(to uint16, word uint32) {
	k.t.Helper()
	k.until("a slot is free", func() bool {
		s := k.Iface.Reserve(funi.Request)
		if s == nil {
			return false
		}
		s.SetHeader(funi.NewHeader(to, 5, 1))
		s[funi.PayloadWord] = word
		k.Iface.Commit(funi.Request)
		k.Wake()
		return true
	})
}

// receive waits for a message of one word and returns it with its sender.
func (k *client) receive() (from uint16, word uint32) {
	k.t.Helper()
	k.until("a message", func() bool {
		s := k.Iface.Receive(funi.Request)
		if s == nil {
			return false
		}
		from, word = s.Source(), s.Payload()[0]
		k.Iface.Release(funi.Request)
		return true
	})
	return from, word
}

// until waits for something, and fails the test if it takes too long.
func (k *client) until(what string, done func() bool) {
	k.t.Helper()
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) {
			k.t.Fatalf("waited in vain: %s; context %+v", what, k.Answer)
		}
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// group makes a job of nodes on the cards and attaches them; cards are those of daemons.
func group(t testing.TB, daemons []*running, cards ...uint16) (owners, nodes []*client) {
	t.Helper()
	_, owners, nodes = numbered(t, daemons, cards...)
	return owners, nodes
}

// numbered is group; it also returns the job's GID.
func numbered(t testing.TB, daemons []*running, cards ...uint16) (gid uint16, owners, nodes []*client) {
	t.Helper()
	token := attach.NewToken()
	for _, d := range daemons {
		k := dial(t, d.socket)
		got, err := k.Job(attach.JobRequest{GID: gid, Token: token, Cards: cards})
		if err != nil {
			t.Fatal(err)
		}
		gid = got
		owners = append(owners, k)
	}
	for node, card := range cards {
		k := dial(t, daemons[card].socket)
		if err := k.attach(attach.AttachRequest{GID: gid, Node: uint16(node), Slots: 64, Token: token}); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, k)
	}
	return gid, owners, nodes
}
