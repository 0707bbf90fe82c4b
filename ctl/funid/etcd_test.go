package main_test

// This file tests funid with a table in etcd, as users have both: as programs on the hosts of a
// lab.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// output collects what a program writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// says waits until a program has written the words.
func (o *output) says(t *testing.T, words string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !strings.Contains(o.String(), words); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%q is not in\n%s", words, o)
		}
	}
}

// Rule (ctl/manual/etcd.md): `funid --check` reads the table and does not join it. Two funids find
// each other in it, and their processes exchange messages. A second funid with a number is refused
// in one line, and so is one that does not reach etcd. A funid that is killed leaves the table when
// its lease ends; started again before that it has its number at once.
func TestTableInEtcd(t *testing.T) {
	long.Test(t)
	path := program(t)
	l, err := lab.Up(lab.Options{Hosts: 2, Topology: lab.Bridge})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		t.Fatalf("%v; `make tools` installs it", err)
	}
	at := fmt.Sprintf("%v:2379", l.Peers(0).Peers[0].Address)
	dir := t.TempDir()
	var said output
	run := func(host int, into *output, name string, args ...string) *exec.Cmd {
		t.Helper()
		c := l.Command(host, name, args...)
		c.Stdout, c.Stderr = into, into
		if err := l.Start(host, c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	run(0, &said, etcd, "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", "http://"+at,
		"--advertise-client-urls", "http://"+at)
	said.says(t, "ready to serve client requests")
	var sockets []string
	config := func(card int, table string) string {
		file := filepath.Join(dir, fmt.Sprintf("funid-%d.yaml", card))
		socket := filepath.Join(dir, fmt.Sprintf("funid-%d.sock", card))
		text := fmt.Sprintf("card: %d\ninterfaces: [fu0]\npeers: %s\netcd: {lease: 2s}\nsocket: %s\nxdp: generic\n",
			card, table, socket)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		sockets = append(sockets, socket)
		return file
	}
	table := "etcd://" + at + "/lab"
	files := []string{config(0, table), config(1, table)}
	for _, file := range files {
		var checked output
		if err := run(1, &checked, path, "--check", "--config", file).Wait(); err != nil ||
			checked.String() != "funid: the configuration is valid\n" {
			t.Errorf("%v: %s", err, &checked)
		}
	}
	var logs [2]output
	run(0, &logs[0], path, "--config", files[0])
	logs[0].says(t, "ready: card 0")
	if strings.Contains(logs[0].String(), "joined") {
		t.Errorf("--check has joined:\n%s", &logs[0])
	}
	other := run(1, &logs[1], path, "--config", files[1])
	logs[1].says(t, "ready: card 1")
	logs[0].says(t, "card 1 has joined")
	exchange(t, sockets)
	for want, args := range map[string][]string{
		"number 0 is that of host": {"--config", files[0], "--socket", filepath.Join(dir, "second.sock")},
		"another funid serves it":  {"--config", files[0]},
	} {
		var refused output
		err := run(1, &refused, path, args...).Wait()
		var exit *exec.ExitError
		if text := refused.String(); !errors.As(err, &exit) || exit.ExitCode() != 1 || strings.Count(text, "\n") != 1 ||
			!strings.HasPrefix(text, "funid: ") || !strings.Contains(text, want) {
			t.Errorf("%v: %s, want %s", err, text, want)
		}
	}
	var waits output
	waiting := run(1, &waits, path, "--config", config(5, "etcd://"+strings.Replace(at, "2379", "1", 1)+"/lab"))
	waits.says(t, "it waits, and starts when etcd answers")
	if err := waiting.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := waiting.Wait(); err != nil {
		t.Errorf("told to end while it waits for etcd: %v: %s", err, &waits)
	}
	sockets = sockets[:2] // it had none yet
	kill := func(c *exec.Cmd) {
		t.Helper()
		if err := c.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // it was killed
	}
	kill(other)
	var again output
	other = run(1, &again, path, "--config", files[1])
	again.says(t, "ready: card 1")
	exchange(t, sockets)
	kill(other)
	logs[0].says(t, "card 1 has left")
}
