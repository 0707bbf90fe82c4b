package main

// This file has the hosts' table in an etcd, on a host of the lab that is the enemy's. Another host
// has a daemon that serves nobody: what that one works is for the table.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/scratch"
	"github.com/funet/funet/uspace/attach"
)

const (
	etcdHost   = 2 // of etcd, and of the enemy
	quietHost  = 3 // of the daemon that serves nobody
	etcdPrefix = "/share/"
	etcdPort   = 2379
	// ticksPerSecond is the unit of the times in proc_pid_stat(5), on all of Linux's architectures
	// that FUNet knows.
	ticksPerSecond = 100
)

// etcd is an etcd that runs in the lab, and ends with it.
type etcd struct {
	endpoint string          // host:port; "": there is none
	data     *scratch.Folder // nil: there is none
	quiet    int             // process of quietHost's daemon
}

// startEtcd starts an etcd, and returns what its table is for daemons.
func (b *bed) startEtcd() (peers string, err error) {
	program, err := exec.LookPath("etcd")
	if err != nil {
		return "", fmt.Errorf("%w; `make tools` installs it", err)
	}
	if b.etcd.data, err = scratch.Make(os.TempDir(), "funet-share-"); err != nil {
		return "", err
	}
	b.etcd.endpoint = fmt.Sprintf("%v:%d", b.lab.Hosts()[etcdHost].Interfaces[0].Addr.Addr(), etcdPort)
	at := "http://" + b.etcd.endpoint
	var said bytes.Buffer
	c := exec.Command(program, "--data-dir", b.etcd.data.Path(), "--listen-client-urls", at,
		"--advertise-client-urls", at, "--listen-peer-urls", "http://127.0.0.1:2380",
		"--quota-backend-bytes", "1073741824",
		"--auto-compaction-mode", "revision", "--auto-compaction-retention", "10000")
	c.Stdout, c.Stderr, c.Env = &said, &said, []string{}
	if err := b.lab.Start(etcdHost, c); err != nil {
		return "", fmt.Errorf("starting etcd: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // it ends with the lab
		close(ended)
	}()
	err = within(context.Background(), func() error {
		select {
		case <-ended:
			return fmt.Errorf("etcd has ended: %s", said.String())
		default:
		}
		return b.lab.Do(etcdHost, func() error { return reachable(b.etcd.endpoint) })
	})
	return fmt.Sprintf("etcd://%s%s", b.etcd.endpoint, strings.TrimSuffix(etcdPrefix, "/")), err
}

// reachable reports whether something listens there.
func reachable(at string) error {
	c, err := net.Dial("tcp", at)
	if err == nil {
		c.Close()
	}
	return err
}

// allKnown waits until the victim's daemons have all hosts from the table.
func (b *bed) allKnown() error {
	return within(context.Background(), func() error {
		for host := range b.sockets {
			s, err := b.status(host)
			if err != nil {
				return err
			}
			if s.Table == nil || s.Table.Hosts != len(b.lab.Hosts()) {
				return fmt.Errorf("host %d does not have all hosts from etcd", host)
			}
		}
		return nil
	})
}

// findQuiet finds the process of the daemon that serves nobody: the one that listens at its socket.
func (b *bed) findQuiet(socket string) error {
	c, err := net.Dial(attach.Network, socket)
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err == nil {
		b.etcd.quiet = int(peer.Pid)
	}
	return err
}

// worked returns how many seconds of a processor the daemon that serves nobody has used.
func (b *bed) worked() (seconds float64, err error) {
	if b.etcd.quiet == 0 {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.etcd.quiet))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", b.etcd.quiet, len(fields))
	}
	user, err := strconv.Atoi(fields[11])
	system, failed := strconv.Atoi(fields[12])
	return float64(user+system) / ticksPerSecond, errors.Join(err, failed)
}
