package daemon_test

// This file tests daemons with keys by their traffic: what is on the wire between two hosts, what
// daemons with other keys, or without one, exchange, and what they and their status say of it.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/keyfile"
	"github.com/funet/funet/uspace/port/encap"
)

// key makes a key file.
func (b *bed) key(name string) (path string) {
	b.t.Helper()
	path = filepath.Join(b.dir, name)
	if _, err := keyfile.New(path); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// withKey is a configuration's change.
func withKey(path string) func(*daemon.Config) { return func(c *daemon.Config) { c.Key = path } }

// listen sees all datagrams that pass the lab's router, until the test ends, and counts those to a
// card, and of them those that have the word in them.
func (b *bed) listen(word uint32) (all, with *atomic.Int64) {
	b.t.Helper()
	all, with = new(atomic.Int64), new(atomic.Int64)
	fd := -1
	err := b.lab.DoRouter(func() (err error) {
		every := uint16(unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8)
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(every))
		if err != nil {
			return err
		}
		return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000}))
	})
	if err != nil {
		b.t.Fatal(err)
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	pattern := string(binary.LittleEndian.AppendUint32(nil, word))
	go func() {
		defer close(ended)
		frame := make([]byte, 1<<16)
		for {
			n, _, err := unix.Recvfrom(fd, frame, 0)
			switch {
			case err == nil && n > 42 && frame[23] == unix.IPPROTO_UDP && binary.BigEndian.Uint16(frame[36:]) ==
				encap.DefaultPort:
				all.Add(1)
				if strings.Contains(string(frame[42:n]), pattern) {
					with.Add(1)
				}
			case err == unix.EAGAIN:
				select {
				case <-quit:
					return
				default:
				}
			case err != nil && err != unix.EINTR:
				return
			}
		}
	}()
	b.t.Cleanup(func() { close(quit); <-ended; unix.Close(fd) })
	return all, with
}

// Rule (ctl/manual/keys.md): daemons with the same key exchange what their processes send, and
// nobody on the way can read it; with encrypt: false on both he can, and without a key. The status
// of both says which it is.
func TestNobodyReadsWhatDaemonsWithAKeyExchange(t *testing.T) {
	long.Test(t)
	const secret = 0xbadcab1e
	for _, c := range []struct {
		name     string
		key      bool
		readable [2]bool
		state    string
		reads    bool
	}{
		{"encrypted", true, [2]bool{}, "encrypted", false},
		{"one host wants encryption", true, [2]bool{true, false}, "encrypted", false},
		{"readable", true, [2]bool{true, true}, "authenticated", true},
		{"no key", false, [2]bool{}, "none", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBedOf(t, lab.Options{Hosts: 2, Topology: lab.Router})
			path := ""
			if c.key {
				path = b.key("key")
			}
			all, with := b.listen(secret)
			var daemons []*running
			for i := range 2 {
				daemons = append(daemons, b.start(i, func(d *daemon.Config) {
					d.Key, d.Readable = path, c.readable[i]
				}))
			}
			_, nodes := group(t, daemons, 0, 1)
			for i := range 50 {
				from, to := i%2, 1-i%2
				nodes[from].send(uint16(to), secret)
				if source, word := nodes[to].receive(); source != uint16(from) || word != secret {
					t.Fatalf("message %d: got %x from node %d", i, word, source)
				}
			}
			eventually(t, "the router has seen the frames", func() bool {
				return all.Load() >= 50 && (with.Load() >= 50 || !c.reads)
			})
			if (with.Load() > 0) != c.reads {
				t.Errorf("%d of %d datagrams have the word that was sent", with.Load(), all.Load())
			}
			for i, d := range daemons {
				s := d.status(t)
				if s.Hello.Peers[0].Key != (report.PeerKey{State: c.state, Met: true}) {
					t.Errorf("host %d says of the other's key: %+v", i, s.Hello.Peers[0].Key)
				}
				if c.key != (len(s.Keys) == 1) {
					t.Errorf("host %d has the keys %+v", i, s.Keys)
				} else if c.key {
					if k, err := keyfile.Load(path); err != nil || k.String() != "key "+s.Keys[0].Identity ||
						s.Keys[0].File != path || s.Keys[0].Peers != 1 {
						t.Errorf("host %d has %+v, want %v from %s: %v", i, s.Keys[0], k, path, err)
					}
				}
			}
		})
	}
}

// asked returns what a daemon finds out of a peer when somebody asks.
func (r *running) asked(t *testing.T) (a report.HelloAnswer) {
	t.Helper()
	wantError(t, r.admin(t, `{"do": "hello", "card": `+map[bool]string{true: "0", false: "1"}[r.status(t).Card == 1]+
		`}`, &a), nil)
	return a
}

// Rule (ctl/manual/keys.md): a job is refused if one of its hosts has no key, or a different one,
// and the error names that host; a message of a job that was there before comes back soon and says
// so. The status of both says which peer it is and how the keys differ, before anybody has sent
// anything. When the keys are the same, because the daemons were restarted, traffic goes on.
func TestDaemonsWhoseKeysDiffer(t *testing.T) {
	long.Test(t)
	b := newBed(t)
	one, two := b.key("one"), b.key("two")
	for _, c := range []struct {
		name string
		keys [2]string
		want [2]string
	}{
		{"another key", [2]string{one, two}, [2]string{"other key", "other key"}},
		{"no key there", [2]string{one, ""}, [2]string{"no key there", "no key here"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var logs [2]journal
			start := func(keys [2]string) (daemons []*running) {
				for i, k := range keys {
					daemons = append(daemons, b.start(i, func(c *daemon.Config) { c.Key, c.Log = k, logs[i].add }))
				}
				return daemons
			}
			daemons := start(c.keys)
			for i, d := range daemons {
				logs[i].says(t, fmt.Sprintf(": %s: the two exchange nothing; `funet doctor %d`", c.want[i], 1-i))
				eventually(t, "the status says it", func() bool {
					s := d.status(t)
					return s.Hello.Peers[0].Key == report.PeerKey{State: c.want[i], Refused: true} && s.Peers.Refused ==
						1 && strings.Contains(s.Peers.KeyFault, c.want[i])
				})
				if a := d.asked(t); !a.Answered || a.Key != (report.PeerKey{State: c.want[i], Refused: true}) {
					t.Errorf("host %d, asked: %+v", i, a)
				}
				if n := d.status(t).Counters.DroppedKey; n == 0 {
					t.Errorf("host %d has counted no greeting", i)
				}
			}
			for i, d := range daemons {
				_, err := dial(t, d.socket).Job(attach.JobRequest{Token: attach.NewToken(),
					Cards: []uint16{0, 1, 0, 1}})
				if wantError(t, err, attach.ErrKey); err == nil ||
					!strings.Contains(err.Error(), fmt.Sprintf("card %d, host ", 1-i)) ||
					!strings.Contains(err.Error(), c.want[i]) {
					t.Errorf("a job: %v", err)
				}
				if _, err := dial(t, d.socket).Job(attach.JobRequest{Token: attach.NewToken(),
					Cards: []uint16{uint16(i), uint16(i)}}); err != nil {
					t.Errorf("a job of one host: %v", err)
				}
			}
			// The keys are put right, and both daemons restarted.
			for _, d := range daemons {
				d.stop(t)
			}
			daemons = start([2]string{two, two})
			_, nodes := group(t, daemons, 0, 1)
			pingPong(t, nodes, 20)
			// Another key on both, one daemon after the other: between them the two are apart, and
			// say so.
			daemons[1].stop(t)
			daemons[1] = b.start(1, withKey(one))
			if a := daemons[0].asked(t); a.Key.State != "other key" && a.Key.Doubt != "other key" {
				t.Errorf("one has been given another key: %+v", a.Key)
			}
			nodes[0].send(1, 7)
			nodes[0].until("a message is back", func() bool {
				r, ok := nodes[0].Iface.NextReturn()
				if ok && (r.Reason != arctic.ReasonKey || r.Level != funi.Request || r.Word != 7) {
					t.Fatalf("%+v", r)
				}
				return ok
			})
			daemons[0].stop(t)
			daemons[0] = b.start(0, withKey(one))
			_, nodes = group(t, daemons, 0, 1)
			pingPong(t, nodes, 20)
			for _, d := range daemons {
				if a := d.asked(t); a.Key.State != "encrypted" || a.Key.Doubt != "" ||
					a.OwnKey != d.status(t).Keys[0].Identity {
					t.Errorf("%+v", a)
				}
			}
			for _, d := range daemons {
				d.stop(t)
			}
		})
	}
}

// Rule (ctl/manual/keys.md): another key, under another name in the peers file of all hosts, is
// taken without a restart.
func TestAnotherKeyInThePeersFile(t *testing.T) {
	b := newBed(t)
	one, two := b.key("one"), b.key("two")
	write := func(key string) {
		for host := range 2 {
			f := b.lab.Peers(host)
			f.Key = key
			text, err := f.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			replaceFile(t, filepath.Join(b.dir, []string{"peers-0", "peers-1"}[host]), string(text))
		}
	}
	write(one)
	var log journal
	var daemons []*running
	for host := range 2 {
		daemons = append(daemons, b.start(host, func(c *daemon.Config) {
			c.PeersPath = filepath.Join(b.dir, []string{"peers-0", "peers-1"}[host])
			c.Log = log.add
			var err error
			if c.Peers, err = cluster.Load(c.PeersPath); err != nil {
				t.Fatal(err)
			}
		}))
	}
	_, nodes := group(t, daemons, 0, 1)
	pingPong(t, nodes, 20)
	was := daemons[0].asked(t).OwnKey
	write(two)
	for _, d := range daemons {
		eventually(t, "the other key is taken", func() bool {
			a := d.asked(t)
			return a.OwnKey != was && a.Key == report.PeerKey{State: "encrypted", Met: true}
		})
	}
	pingPong(t, nodes, 20)
	// What is no key changes nothing.
	if err := os.WriteFile(filepath.Join(b.dir, "none"), make([]byte, 3), 0o600); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(b.dir, "none"))
	log.says(t, "not a key file")
	pingPong(t, nodes, 20)
}
