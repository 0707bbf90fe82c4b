package main

// This file is the stage: the lab with its daemons, jobs, and processes in them.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/scratch"
	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
)

const (
	// user is the number of a user that exists nowhere else. The tests run as this user.
	user = 52010
	// mostOutput is how many bytes of a process's output are kept, the last ones.
	mostOutput = 16 << 10
)

// stage is the lab and what is in it.
type stage struct {
	tree    string
	lab     *lab.Lab
	sockets []string
	address netip.Addr // of host 0
	folder  *scratch.Folder
	gid     uint16
}

func newStage(o *options) (s *stage, err error) {
	s = &stage{tree: o.tree}
	if s.lab, err = lab.Up(lab.Options{Hosts: 2}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.address = s.lab.Hosts()[0].Interfaces[0].Addr.Addr()
	if err = s.lab.StartDaemons(lab.DaemonOptions{Program: o.Funid, More: "carriage: direct\n"}); err != nil {
		return nil, err
	}
	if s.sockets, err = s.lab.Sockets(); err != nil {
		return nil, err
	}
	if s.folder, err = scratch.Make(os.TempDir(), "funet-fabtests-"); err != nil {
		return nil, err
	}
	provider, err := os.ReadFile(o.Provider)
	if err != nil {
		return nil, fmt.Errorf("reading the provider, which `make ofi` builds: %w", err)
	}
	return s, errors.Join(os.Chmod(s.folder.Path(), 0o755), s.write("libfunet-fi.so", provider))
}

// write writes a file that all users can read into the folder.
func (s *stage) write(name string, b []byte) error {
	path := filepath.Join(s.folder.Path(), name)
	return errors.Join(os.WriteFile(path, b, 0o755), os.Chmod(path, 0o755)) // whatever the umask is
}

func (s *stage) close() error {
	err := s.lab.Close()
	if s.folder != nil {
		err = errors.Join(err, s.folder.Remove())
	}
	return err
}

// job is a job on both daemons, of a node on each host.
type job struct {
	gid   uint16
	token attach.Token
	links []*client.Connection
}

func (s *stage) job() (j *job, err error) {
	s.gid = s.gid%arctic.MaxGID + 1
	j = &job{gid: s.gid, token: attach.NewToken()}
	for _, socket := range s.sockets {
		k, err := client.Dial(socket)
		if err == nil {
			j.links = append(j.links, k)
			_, err = k.Job(attach.JobRequest{GID: j.gid, Direct: true, Token: j.token, Cards: []uint16{0, 1}})
		}
		if err != nil {
			j.end()
			return nil, fmt.Errorf("making a job at %s: %w", socket, err)
		}
	}
	return j, nil
}

func (j *job) end() {
	for _, k := range j.links {
		k.Close()
	}
}

// process is a process of a test.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of its end; valid once ended is closed
	said  tail
}

// start starts a program of the tree as the node of a job on a host.
func (s *stage) start(j *job, node int, name string, args []string) (*process, error) {
	path, err := s.find(name)
	if err != nil {
		return nil, err
	}
	// Opened here, the program can be in a folder that is closed to other users.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	defer unix.Close(fd)
	p := &process{cmd: exec.Command(fmt.Sprintf("/proc/self/fd/%d", fd)), ended: make(chan struct{})}
	p.cmd.Args = append([]string{name}, args...)
	p.cmd.Dir = "/"
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return !strings.HasPrefix(v, "FI_") })
	p.cmd.Env = append(p.cmd.Env, "PATH="+os.Getenv("PATH"), "HOME=/", "FI_PROVIDER_PATH="+s.folder.Path(),
		attach.SocketVariable+"="+s.sockets[node], attach.GIDVariable+"="+strconv.Itoa(int(j.gid)),
		attach.NodeVariable+"="+strconv.Itoa(node), attach.NodesVariable+"=2", attach.TokenVariable+"="+j.token.Text())
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.WaitDelay = time.Second
	if err := s.lab.Start(node, p.cmd); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// find returns the path of a program, in the tree or where it was installed.
func (s *stage) find(name string) (string, error) {
	for _, folder := range []string{"functional", "benchmarks", "unit", "ubertest", "bin", "."} {
		path := filepath.Join(s.tree, folder, name)
		if i, err := os.Stat(path); err == nil && i.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s; build fabtests there", name, s.tree)
}

// kill ends a process and waits for its end.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// listening waits until a process on host 0 listens at a port, or the process has ended.
func (s *stage) listening(ctx context.Context, p *process, port uint16) error {
	socket := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X \S+ 0A `, port))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var found bool
		err := s.lab.Do(0, func() error {
			for _, file := range []string{"tcp", "tcp6"} {
				text, err := os.ReadFile("/proc/thread-self/net/" + file)
				if err != nil {
					return err
				}
				found = found || socket.Match(text)
			}
			return nil
		})
		if found || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return nil
		case <-ctx.Done():
			return nil // who waits for the process sees it
		}
	}
}

// tail keeps the last bytes that were written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-mostOutput):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}
