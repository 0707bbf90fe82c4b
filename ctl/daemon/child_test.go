package daemon_test

// This file is processes of their own, for tests that kill them or that have no
// privileges: the test program runs itself.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// nobody is a user without privileges.
const nobody = 65534

// role names the task of a child, in its environment.
type role struct {
	Do     string // "answer", "send", "daemon", "serve", "compute"
	Socket string
	Node   uint16
	GID    uint16
	Token  string
	To     uint16
	Config *daemon.Config `json:",omitempty"`
	// it has children, one that was executed and one that was only forked
	Heirs bool `json:",omitempty"`
}

const roleVariable = "FUNET_TEST_ROLE"

func TestMain(m *testing.M) {
	text, ok := os.LookupEnv(roleVariable)
	if !ok {
		os.Exit(m.Run())
	}
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		panic(err)
	}
	r.play()
	os.Exit(0)
}

// alone stands for the test in a child: what fails ends the child.
type alone struct{ testing.TB }

func (alone) Helper()        {}
func (alone) Cleanup(func()) {} // the kernel does it
func (alone) Fatal(a ...any) { fmt.Fprintln(os.Stderr, a...); os.Exit(1) }
func (alone) Fatalf(f string, a ...any) {
	fmt.Fprintf(os.Stderr, f+"\n", a...)
	os.Exit(1)
}

// play does what the role says, and prints "ready" when it has begun.
func (r *role) play() {
	if r.Do == "daemon" {
		d, err := daemon.Open(*r.Config)
		if err == nil {
			err = d.Run(context.Background(), func() { fmt.Println("ready") })
		}
		if err != nil {
			alone{}.Fatal(err)
		}
		return
	}
	token, err := attach.ParseToken(r.Token)
	if err != nil {
		alone{}.Fatal(err)
	}
	if r.Do == "serve" {
		r.serve(token)
		return
	}
	if r.Do == "compute" {
		r.compute(token)
		return
	}
	if r.Do == "library" { // answers through the client of the library
		c := open(alone{}, &running{socket: r.Socket}, r.GID, r.Node, token, false)
		fmt.Println("ready")
		for i := c.Interface(); c.Err() == nil; c.Drive() {
			if s := i.Receive(funi.Request); s != nil {
				from, word := s.Source(), s.Payload()[0]
				i.Release(funi.Request)
				put(i, from, word)
			}
		}
		return
	}
	k := dial(alone{}, r.Socket)
	if err := k.attach(attach.AttachRequest{GID: r.GID, Node: r.Node, Slots: 64, Token: token}); err != nil {
		alone{}.Fatal(err)
	}
	if caps, err := os.ReadFile("/proc/self/status"); err != nil ||
		!strings.Contains(string(caps), "CapEff:\t0000000000000000") {
		alone{}.Fatal("the child has capabilities", err)
	}
	if r.Do == "bequeath" { // has another process hold the connection, too, until the test ends
		socket, err := k.Conn.File()
		heir := exec.Command("tail", "-f", "--pid", strconv.Itoa(os.Getppid()), "/dev/null")
		if heir.ExtraFiles = []*os.File{socket}; err == nil {
			err = heir.Start()
		}
		if err != nil {
			alone{}.Fatal(err)
		}
	}
	fmt.Println("ready")
	switch r.Do {
	case "bequeath":
		_ = unix.Pause() // until it is killed
	case "answer": // until it is killed
		for {
			from, word := k.receive()
			k.send(from, word)
		}
	case "flood":
		for i := uint32(0); ; i++ {
			k.send(r.To, i)
			for {
				if _, ok := k.Iface.NextReturn(); !ok {
					break
				}
			}
		}
	}
}

// child is a child that runs.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	ended bool
}

// run starts a child on its role, as nobody unless it is a daemon, and waits until it is ready.
func (b *bed) run(host int, r role) *child {
	b.t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		b.t.Fatal(err)
	}
	c := &child{t: b.t}
	if r.Do == "daemon" {
		c.cmd = b.lab.Command(host, "/proc/self/exe")
	} else {
		c.cmd = exec.Command("/proc/self/exe")
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
			Pdeathsig: syscall.SIGKILL}
	}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if r.Do == "daemon" {
		err = b.lab.Start(host, c.cmd)
	} else {
		err = c.cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		b.t.Fatalf("the child says %q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return c
}

// kill ends the child at once and waits for its end.
func (c *child) kill() {
	if c.ended {
		return
	}
	c.ended = true
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// pin puts the goroutine on a processor, and returns what undoes it.
func pin(t testing.TB, cpu int) func() {
	runtime.LockOSThread()
	var was, set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &was)
		runtime.UnlockOSThread()
	}
}

// closed waits until the daemon closes the connection.
func (k *client) closed() {
	k.t.Helper()
	_ = k.Conn.SetReadDeadline(time.Now().Add(patience))
	if _, _, err := attach.Receive(k.Conn, k.Buffer, 0); err != io.EOF {
		k.t.Fatalf("the connection says %v", err)
	}
}
