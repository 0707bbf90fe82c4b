package main_test

// This file tests the command with keys: which it refuses, and the service with a key that systemd
// has handed to it.

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
)

// Rule (ctl/manual/keys.md): a key file is refused at the start if it is not kept secret, is of
// another user or of another length, or is not there. The refusal is one line that names the file
// and says what to do. Nothing is made.
func TestRefusesKeys(t *testing.T) {
	path := program(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "sockets", "funid.sock")
	for _, c := range []struct {
		name   string
		key    string // as in the configuration
		length int
		mode   os.FileMode
		owner  int
		want   []string
	}{
		{"the group's", "k", 32, 0o640, 0, []string{"/k has mode 0640", "chmod 600"}},
		{"everybody's", "k", 32, 0o644, 0, []string{"/k has mode 0644", "chmod 600"}},
		{"short", "k", 31, 0o600, 0, []string{"/k has 31 bytes, want 32", "funet key new"}},
		{"long", "k", 33, 0o600, 0, []string{"/k has 33 bytes, want 32", "funet key new"}},
		{"another user's", "k", 32, 0o600, 12345, []string{"/k belongs to user 12345", "chown 0"}},
		{"not there", "none", 32, 0o600, 0, []string{"/none: no such file", "copy the file of the other hosts"}},
		{"not handed over", "$CREDENTIALS_DIRECTORY/k", 32, 0o600, 0,
			[]string{"$CREDENTIALS_DIRECTORY/k", "LoadCredential=k:"}},
		{"a credential that others read", "$CREDENTIALS_DIRECTORY/k", 32, 0o444,
			0, []string{"/k has mode 0444", "others may use it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			key, config := filepath.Join(folder, "k"), filepath.Join(folder, "funid.yaml")
			peers := "peers:\n  - {node: 0, mac: \"02:00:00:00:00:01\"}\n  - {node: 1, mac: \"02:00:00:00:00:02\"}\n"
			err := errors.Join(os.WriteFile(key, bytes.Repeat([]byte{7}, c.length), 0o600), os.Chown(key, c.owner, -1),
				os.Chmod(key, c.mode),
				os.WriteFile(filepath.Join(folder, "peers.yaml"), []byte(peers), 0o644),
				os.WriteFile(config, fmt.Appendf(nil,
					"card: 0\npeers: peers.yaml\ninterfaces: [lo]\nsocket: %s\nkey: %s\n", socket, c.key), 0o644))
			if err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"--config", config}, {"--check", "--config", config}} {
				cmd := exec.Command(path, args...)
				cmd.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY=")
				if c.mode == 0o444 {
					cmd.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+folder)
				}
				out, err := cmd.CombinedOutput()
				text := string(out)
				if err == nil || !strings.HasPrefix(text, "funid: ") || strings.Count(text, "\n") != 1 ||
					len(text) > 1000 {
					t.Errorf("%v: %v, %q", args, err, text)
				}
				for _, want := range c.want {
					if !strings.Contains(text, want) {
						t.Errorf("%v: %q, want %q", args, text, want)
					}
				}
			}
			if _, err := os.Stat(socket); !os.IsNotExist(err) {
				t.Errorf("a socket is left: %v", err)
			}
		})
	}
}

// Rule (funid.service, ctl/manual/keys.md): funid starts, carries messages, and ends as the unit
// runs it, as a user of its own with five capabilities. Its key is one of root's that systemd has
// handed over, readable by that user alone. No other user may look into the process.
func TestServiceWithACredential(t *testing.T) {
	const user = 64321 // nobody else's, as with DynamicUser=
	built := program(t)
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir, err := os.MkdirTemp("", "funid-key") // into which others may look
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	text, err := os.ReadFile(built)
	path := filepath.Join(dir, "funid")
	handed := filepath.Join(dir, "credentials")
	key := filepath.Join(handed, "funet.key")
	// The access control list that systemd gives the file shows the right of its user where those
	// of the group are.
	err = errors.Join(err, os.Chmod(dir, 0o711), os.WriteFile(path, text, 0o700), os.Chmod(path, 0o755),
		os.Mkdir(handed, 0o700), os.Chmod(handed, 0o750),
		os.Chown(handed, 0, user), os.WriteFile(key, bytes.Repeat([]byte{7}, 32), 0o600), os.Chmod(key, 0o440),
		os.Chown(key, 0, user))
	if err != nil {
		t.Fatal(err)
	}
	var sockets []string
	var commands []*exec.Cmd
	for host := range 2 {
		peers, err := l.Peers(host).Marshal()
		run, config := filepath.Join(dir, fmt.Sprint("run", host)), filepath.Join(dir, fmt.Sprint("config", host))
		socket := filepath.Join(run, "funid.sock")
		err = errors.Join(err, os.Mkdir(run, 0o755), os.Chown(run, user, user),
			os.WriteFile(config+".peers", peers, 0o644),
			os.WriteFile(config, fmt.Appendf(nil,
				"card: %d\npeers: %s.peers\nsocket: %s\nxdp: generic\nkey: $CREDENTIALS_DIRECTORY/funet.key\n", host,
				config, socket), 0o644))
		if err != nil {
			t.Fatal(err)
		}
		notify, err := net.ListenUnixgram("unixgram",
			&net.UnixAddr{Name: filepath.Join(dir, fmt.Sprint("notify", host)), Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer notify.Close()
		if err := os.Chmod(notify.LocalAddr().String(), 0o777); err != nil {
			t.Fatal(err)
		}
		c := l.Command(host, path, "--config", config)
		c.Dir = "/"
		c.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify.LocalAddr().String(), "CREDENTIALS_DIRECTORY="+handed)
		c.Stderr = os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user},
			AmbientCaps: []uintptr{unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_BPF, unix.CAP_PERFMON,
				unix.CAP_LINUX_IMMUTABLE}}
		if err := l.Start(host, c); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Process.Kill() }()
		heard(t, notify, "READY=1")
		sockets, commands = append(sockets, socket), append(commands, c)
	}
	for _, c := range commands {
		var st unix.Stat_t
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		if err = errors.Join(err, unix.Stat(fmt.Sprintf("/proc/%d/mem", c.Process.Pid), &st)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(status), fmt.Sprintf("Uid:\t%d\t", user)) || st.Uid != 0 {
			t.Errorf("its memory is user %d's to read:\n%s", st.Uid, status)
		}
	}
	exchange(t, sockets)
	for _, c := range commands {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("funid ended with %v", err)
		}
	}
}
