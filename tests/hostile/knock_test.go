package hostile

// This file is the flood of connections: a user without any group connects and closes as fast
// as one process can. It must cost others little more than a process that computes, which is
// what the kernel gives everybody.

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

// knockConfig configures the role.
type knockConfig struct{ Sockets []string }

// knock is the role: it connects and closes, without a look at what comes back, and tells
// how often.
func knock(c knockConfig) error {
	runtime.GOMAXPROCS(1)
	last := time.Now()
	for n := 0; ; n++ {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: c.Sockets[n%len(c.Sockets)]}); err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
		if time.Since(last) > 200*time.Millisecond {
			fmt.Println("knocked", n)
			last, n = time.Now(), 0
		}
	}
}

// TestFloodOfConnections: while one connects and closes as fast as he can, the traffic of
// others goes on, at half the rate or more that it has beside a process that computes; and
// others still come in.
func TestFloodOfConnections(t *testing.T) {
	long.Test(t)
	d, long := length(t, 8*time.Second)
	d = min(d, time.Minute) // it does the same all the time
	first := seed(t)
	r := rand.New(rand.NewPCG(first, first))
	b := newBed(t, rules(), longSilence)
	l := newLedger()
	across := b.newGroup("across", acrossGID, firstVictim, r.Uint32(), 0, 1)
	var victims []*actor
	for node := range uint16(2) {
		a := &actor{said: make(chan string, 1024)}
		a.process = b.victim(across, node, 1, false,
			options{hear: l.listener(fmt.Sprintf("%s %d", across.name, node), func(s string) { a.said <- s })})
		victims = append(victims, a)
	}
	for _, a := range victims {
		a.await("attached")
	}
	for _, a := range victims {
		a.say("go")
	}
	const rounds = 4
	window := d / rounds / 2
	var knocks atomic.Int64
	for range rounds {
		computer := start(t, "computer", nil, options{name: "computer", user: enemyUser})
		l.enter(computed)
		stays(t, l, window)
		l.enter(between)
		computer.kill()
		knocker := start(t, "knocker", knockConfig{b.sockets},
			options{name: "knocker", user: enemyUser, hear: func(line string) {
				n, _ := strconv.Atoi(line[len("knocked "):])
				knocks.Add(int64(n))
			}})
		l.enter(attacked)
		stays(t, l, window)
		for host := range b.sockets { // another user comes in
			k, err := client.Dial(b.sockets[host])
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := k.Ask(attach.AttachRequest{GID: acrossGID}.Encode(), 0); err != nil {
				t.Errorf("daemon %d during the flood: %v", host, err)
			}
			k.Close()
		}
		l.enter(between)
		if !knocker.Running() {
			t.Fatalf("the knocker has ended: %v\n%s", knocker.Err, knocker.Complaints())
		}
		knocker.kill()
	}
	for _, a := range victims {
		a.say("stop")
	}
	for _, a := range victims {
		a.await("quiet")
	}
	for _, a := range victims {
		a.say("end")
		if err := a.wait(); err != nil {
			t.Errorf("%s: %v\n%s", a.Name, err, a.Complaints())
		}
	}
	l.check(t)
	beside, flooded := l.rate("", computed), l.rate("", attacked)
	t.Logf("requests/s (median): %.0f beside a process that computes, %.0f beside %d connections: %.2f", beside,
		flooded, knocks.Load(), flooded/beside)
	if long && flooded < beside/2 {
		t.Error("the flood slows others below half")
	}
	across.end()
	b.alive()
}
