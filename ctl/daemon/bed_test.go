package daemon_test

// This file is the test bed: daemons on the hosts of a lab, in this process, and clients
// that speak the protocol message by message.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/xdp"
)

// patience bounds every wait: long enough for a machine that is busy.
const patience = 30 * time.Second

// bed is a lab of two hosts.
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

// client is a connection, with a context or without.
type client struct {
	t      testing.TB
	conn   *net.UnixConn
	buffer []byte
	answer attach.AttachAnswer
	iface  *funi.Interface
	page   *funi.Page
	fds    []int
	maps   [][]byte
}

// connect connects to a daemon. It waits for room in the socket's backlog, as package attach does:
// of a socket that does not block the kernel says EAGAIN without (unix(7)).
func connect(t testing.TB, socket string) *net.UnixConn {
	t.Helper()
	for end := time.Now().Add(patience); ; runtime.Gosched() {
		c, err := net.DialUnix(attach.Network, nil, &net.UnixAddr{Name: socket, Net: attach.Network})
		switch {
		case err == nil:
			return c
		case !errors.Is(err, unix.EAGAIN) || time.Now().After(end):
			t.Fatal(err)
		}
	}
}

func dial(t testing.TB, socket string) *client {
	t.Helper()
	k := &client{t: t, conn: connect(t, socket), buffer: make([]byte, attach.MaxMessage)}
	t.Cleanup(k.close)
	return k
}

func (k *client) close() {
	k.conn.Close()
	attach.CloseDescriptors(k.fds)
	k.fds = nil
	for _, m := range k.maps {
		_ = unix.Munmap(m)
	}
	k.maps = nil
}

// ask sends a message and returns the answer, which may have the given number of descriptors.
func (k *client) ask(message []byte, descriptors int) ([]byte, []int) {
	k.t.Helper()
	if err := attach.Send(k.conn, message); err != nil {
		k.t.Fatal(err)
	}
	_ = k.conn.SetReadDeadline(time.Now().Add(patience))
	answer, fds, err := attach.Receive(k.conn, k.buffer, descriptors)
	if err != nil {
		k.t.Fatal(err)
	}
	return answer, fds
}

// job makes a job on this card.
func (k *client) job(r attach.JobRequest) (uint16, error) {
	k.t.Helper()
	message, err := r.Encode()
	if err != nil {
		k.t.Fatal(err)
	}
	answer, _ := k.ask(message, 0)
	a, err := attach.DecodeJobAnswer(answer)
	return a.GID, err
}

// attach attaches; the caller may want to know that it was refused.
func (k *client) attach(r attach.AttachRequest) error {
	k.t.Helper()
	answer, fds := k.ask(r.Encode(), attach.AttachDescriptors)
	a, err := attach.DecodeAttachAnswer(answer)
	if err != nil {
		attach.CloseDescriptors(fds)
		return err
	}
	if len(fds) != attach.AttachDescriptors {
		return fmt.Errorf("%d descriptors", len(fds))
	}
	k.answer, k.fds = a, fds
	for i, size := range []int{int(a.Memory), funi.DoorbellsSize} {
		m, err := unix.Mmap(fds[i], 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		k.maps = append(k.maps, m)
	}
	m, err := funi.SharedRemoteMemory(k.maps[0], k.maps[1], a.Remote)
	if err != nil {
		return err
	}
	k.page = m.Page
	end := time.Now().Add(patience)
	k.iface, err = funi.Start(m, int(a.Slots), func() error {
		k.wake()
		if time.Now().After(end) {
			return errors.New("the card does not halt its queues")
		}
		return nil
	})
	return err
}

// wake wakes the card if it sleeps.
func (k *client) wake() {
	_, _ = unix.Write(k.fds[attach.CardDescriptor], []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// send sends a message of one word.
func (k *client) send(to uint16, word uint32) {
	k.t.Helper()
	k.until("a slot is free", func() bool {
		s := k.iface.Reserve(funi.Request)
		if s == nil {
			return false
		}
		s.SetHeader(funi.NewHeader(to, 5, 1))
		s[funi.PayloadWord] = word
		k.iface.Commit(funi.Request)
		k.wake()
		return true
	})
}

// receive waits for a message of one word and returns it with its sender.
func (k *client) receive() (from uint16, word uint32) {
	k.t.Helper()
	k.until("a message", func() bool {
		s := k.iface.Receive(funi.Request)
		if s == nil {
			return false
		}
		from, word = s.Source(), s.Payload()[0]
		k.iface.Release(funi.Request)
		return true
	})
	return from, word
}

// until waits for something, and fails the test if it takes too long.
func (k *client) until(what string, done func() bool) {
	k.t.Helper()
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) {
			k.t.Fatalf("waited in vain: %s; context %+v", what, k.answer)
		}
		unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// group makes a job of nodes on the cards and attaches them; cards are those of daemons.
func group(t testing.TB, daemons []*running, cards ...uint16) (owners, nodes []*client) {
	t.Helper()
	token := attach.NewToken()
	gid := uint16(0)
	for _, d := range daemons {
		k := dial(t, d.socket)
		got, err := k.job(attach.JobRequest{GID: gid, Token: token, Cards: cards})
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
	return owners, nodes
}
