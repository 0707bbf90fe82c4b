package tests

// This file tests keys as a person uses them: with funid's that have the same key, another or none,
// and programs on them.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

// keyedLab is a lab with a funid on each host that this test starts, with a key or without.
type keyedLab struct {
	t       *testing.T
	name    string
	lab     *lab.Lab
	dir     string
	daemons [2]*process
}

// start starts the daemon of a host, anew if it runs.
func (k *keyedLab) start(host int, key string) {
	k.t.Helper()
	if d := k.daemons[host]; d != nil {
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			k.t.Fatal(err)
		}
		if code := d.wait(); code != 0 {
			k.t.Errorf("funid of host %d ended with %d: %s", host, code, d.stderr.String())
		}
	}
	path := func(what string) string { return filepath.Join(k.dir, fmt.Sprintf("host-%d.%s", host, what)) }
	f := k.lab.Peers(host)
	f.Key = key
	peers, err := f.Marshal()
	config := fmt.Sprintf("card: %d\npeers: %s\nsocket: %s\nxdp: generic\n", host, path("peers"), path("sock"))
	if err = errors.Join(err, os.WriteFile(path("peers"), peers, 0o644),
		os.WriteFile(path("yaml"), []byte(config), 0o644)); err != nil {
		k.t.Fatal(err)
	}
	c := k.lab.Command(host, strings.TrimSuffix(command, "funet")+"funid", "--config", path("yaml"))
	k.daemons[host] = start(k.t, c, func(c *exec.Cmd) error { return k.lab.Start(host, c) })
	eventually(k.t, "funid answers", func() bool {
		_, err := attach.Inquire(path("sock"), time.Second)
		return err == nil
	})
}

// TestKeysOfDaemons: programs run if the funid's of both hosts have the same key. If one has
// another key, or none, `funet run` says so at once, in a line that names the host, and so does the
// doctor. If both are given another key, programs run again.
func TestKeysOfDaemons(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t)
	k := &keyedLab{t: t, name: name, lab: l, dir: lab.DaemonDir(name)}
	if err := errors.Join(os.MkdirAll(k.dir, 0o755), os.Chmod(k.dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(k.dir) })
	one, two := filepath.Join(k.dir, "one"), filepath.Join(k.dir, "two")
	shown := map[string]string{} // by file
	for _, key := range []string{one, two} {
		shown[key] = strings.TrimSpace(strings.Split(funet(t, "key", "new", key).ok(), " in ")[0])
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	run := func() *process {
		cmd := exec.Command(command, "run", "-n", "2", "--lab="+name, "--", command, "pingpong", "--exchanges", "200")
		cmd.Dir = "/" // nobody may not enter every folder that this one may be in
		return start(t, cmd, nil)
	}
	socket := filepath.Join(k.dir, "host-0.sock")
	doctor := func() string {
		t.Helper()
		p := on(t, l, 0, "doctor", "--iface", "fu0", "--leave-driver", "--socket", socket, "1")
		p.wait()
		return strings.Join(strings.Fields(p.stdout.String()), " ") // its lines are folded
	}
	well := func(key string) {
		t.Helper()
		if out := run().ok(); !strings.Contains(out, "every one verified") {
			t.Error(out)
		}
		// its look at the peers may be half a second old
		eventually(t, "the status says so", func() bool {
			out := funet(t, "status", "--socket", socket).ok()
			return strings.Contains(out, shown[key]+" from "+key+", for 1 peer") &&
				strings.Contains(out, "frames are encrypted to 1 peer, only authenticated to 0\n")
		})
		if out := doctor(); !strings.Contains(out, shown[key]+" on both hosts; frames are encrypted") {
			t.Error(out)
		}
	}
	k.start(0, one)
	k.start(1, one)
	well(one)
	k.start(1, two)
	run().fails(", host "+host+" at ", "other key: the two hosts exchange nothing")
	if out := doctor(); !strings.Contains(out, "other key: this host has "+shown[one]+" for it") {
		t.Error(out)
	}
	k.start(1, "")
	run().fails(", host "+host+" at ", ": no key ")
	k.start(0, two)
	k.start(1, two)
	well(two)
}
