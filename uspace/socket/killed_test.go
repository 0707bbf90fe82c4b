package socket_test

// This file is what a process hears of a peer that was killed with SIGKILL, from cards in daemons
// and from a card of its own.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/daemons"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/socket"
)

// victimVariable makes the test binary the process that is killed: it says how it attaches.
const victimVariable = "FUNET_TEST_VICTIM"

// patience bounds every wait: far more than anything takes.
const patience = time.Minute

func TestMain(m *testing.M) {
	if at := os.Getenv(victimVariable); at != "" {
		if err := victim(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// victim sends back what comes, on each connection, until it is killed.
func victim(at string) error {
	var path, text string
	var gid, node uint16
	if _, err := fmt.Sscanf(at, "%d %d %s %s", &gid, &node, &text, &path); err != nil {
		return err
	}
	token, err := attach.ParseToken(text)
	if err != nil {
		return err
	}
	s, err := socket.Open(context.Background(),
		socket.Options{Options: funet.Options{Attach: &attach.Config{Socket: path, GID: gid, Node: node,
			Token: token}}})
	if err != nil {
		return err
	}
	l, err := s.Listen(socket.Network, ":7")
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { _, _ = io.Copy(c, c) }()
	}
}

// Rule (hamlyn.md, done when): a process that is killed ends its connections at the other ends,
// those with calls that wait and those without, and the connections of others go on, with every
// byte. Whoever dials it then is told. The test logs, and does not judge, the goodput of others in
// the time window of the kill, beside that in the windows before and after. It logs the same for a
// window without a kill. That is the effect of a busy machine alone.
func TestPeerIsKilled(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	program := daemons.Build(t, "../..")
	var beside, control []float64
	for range rounds { // in turn
		beside = append(beside, killPeer(t, program, true))
		control = append(control, killPeer(t, program, false))
	}
	median := func(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }
	t.Logf("another pair's goodput in the window of the kill, by that in the windows around: median %.2f of %.2f; where nobody is killed %.2f of %.2f", median(beside), beside, median(control), control)
}

// goodputWindow is how long the goodput of the others is measured at a time.
const goodputWindow = 500 * time.Millisecond

// killPeer has a process killed beside whose connections another pair writes, either in the middle
// of five windows or behind them, and returns the pair's goodput in the middle one by the median of
// the others.
func killPeer(t *testing.T, program string, middle bool) (ratio float64) {
	const gid, conns = 9, 32
	l, err := lab.Up(lab.Options{Hosts: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	nodes := daemons.Start(t, l, program, gid)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), victimVariable+"="+fmt.Sprint(gid, " ", nodes[1].Node, " ", nodes[1].Token.Text(),
		" ", nodes[1].Socket))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	if _, err := io.ReadFull(out, make([]byte, len("listening"))); err != nil {
		t.Fatal("the other process ended: ", err)
	}
	var stacks [3]*socket.Stack
	for _, i := range []int{0, 2} {
		if stacks[i], err = socket.Open(t.Context(), socket.Options{Options: funet.Options{Attach: &nodes[i]}}); err !=
			nil {
			t.Fatal(err)
		}
		defer func() {
			if err := stacks[i].Close(2 * time.Second); err != nil {
				t.Errorf("closing node %d: %v", i, err)
			}
		}()
	}
	// Of the connections to it some have calls that wait, some are idle, and one is full of what it
	// does not read.
	ended := make(chan error, conns)
	for i := range conns {
		c, err := stacks[0].Dial(socket.Network, "1:7")
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case i == 0:
			go func() {
				b := make([]byte, 1<<16)
				for err == nil {
					_, err = c.Write(b)
				}
				ended <- err
			}()
		case i%2 == 0:
			go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
		default:
			defer func() {
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("an idle connection to a killed process: %v", err)
				}
				c.Close()
			}()
			ended <- syscall.ECONNRESET
		}
	}
	// Another pair writes all the time.
	listener, err := stacks[2].Listen(socket.Network, ":8")
	if err != nil {
		t.Fatal(err)
	}
	other, err := stacks[0].Dial(socket.Network, listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	stop, all := make(chan struct{}), make(chan error, 2)
	go func() { all <- count(other, stop) }()
	arrived := make(chan int64, 1)
	var bytesArrived atomic.Int64
	go func() {
		n, err := countOff(accepted, &bytesArrived)
		arrived <- n
		all <- err
	}()
	goodput := func() float64 { // in bytes a second, of the next window
		before, begin := bytesArrived.Load(), time.Now()
		<-time.After(goodputWindow)
		return float64(bytesArrived.Load()-before) / time.Since(begin).Seconds()
	}
	goodput() // its window grows
	around := []float64{goodput(), goodput()}
	var killed time.Time
	kill := func() {
		killed = time.Now()
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if middle {
		kill()
	}
	during := goodput()
	around = append(around, goodput(), goodput())
	if !middle {
		kill()
	}
	for range conns {
		select {
		case err := <-ended:
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("a connection to a killed process: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("a call on a connection to a killed process waits on")
		}
	}
	if !middle {
		t.Logf("the last of %d connections failed %v after the kill", conns, time.Since(killed))
	}
	var e *net.OpError
	if _, err := stacks[0].Dial(socket.Network, "1:7"); !errors.As(err, &e) ||
		!errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("dialing a killed process: %v", err)
	}
	close(stop)
	for range 2 {
		select {
		case err := <-all:
			if err != nil {
				t.Errorf("another connection: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("another connection does not end")
		}
	}
	if n := <-arrived; n == 0 {
		t.Error("nothing came over another connection")
	}
	accepted.Close()
	slices.Sort(around)
	return during / ((around[1] + around[2]) / 2)
}

// count writes numbers until it is to stop, and then the end.
func count(c net.Conn, stop chan struct{}) error {
	var b bytes.Buffer
	for i := 0; ; i++ {
		select {
		case <-stop:
			return c.Close()
		default:
		}
		b.Reset()
		for j := range 1000 {
			b.WriteString(strconv.Itoa(i*1000+j) + "\n")
		}
		if _, err := c.Write(b.Bytes()); err != nil {
			return err
		}
	}
}

// countOff reads numbers to the end and checks that none is missing; it says how many bytes have
// come.
func countOff(c net.Conn, arrived *atomic.Int64) (n int64, err error) {
	r := io.Reader(c)
	b := make([]byte, 1<<16)
	v, digits := int64(0), 0
	for {
		k, err := r.Read(b)
		arrived.Add(int64(k))
		for _, d := range b[:k] {
			if d != '\n' {
				v, digits = v*10+int64(d-'0'), digits+1
				continue
			}
			if v != n || digits == 0 {
				return n, fmt.Errorf("%d came instead of %d", v, n)
			}
			n, v, digits = n+1, 0, 0
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
