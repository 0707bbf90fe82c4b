// This file starts the daemons of a lab: a funid on each host, with a socket that every user of the
// machine reaches. Unix sockets with a path belong to no network namespace (unix(7)).

package lab

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/scratch"
	"github.com/funet/funet/uspace/attach"
)

var (
	// ErrDaemon reports that a daemon of the lab did not start, or would not end.
	ErrDaemon = errors.New("daemon failed")
	// ErrNoDaemons reports that the lab was made without daemons.
	ErrNoDaemons = errors.New("it is up, but without daemons")
)

// DaemonOptions configure the daemons of a lab. The strings are values of funid's configuration
// file (package daemon); empty ones leave the daemon's default.
type DaemonOptions struct {
	Program string // path of funid; "": beside this program, or in PATH
	XDP     string
	Bind    string
	Polling string
	Jumbo   bool
	Hosts   int    // number of hosts that have one, from the first on; 0: all
	Peers   string // of all daemons; "": peers files that describe the lab
	More    string // appended to every configuration file
}

// daemonDeadline bounds the wait for a daemon to answer, and for its end.
const daemonDeadline = 20 * time.Second

// DaemonDir is the folder of a named lab's daemons: host-I.sock, -.yaml, -.peers, -.log.
func DaemonDir(name string) string { return filepath.Join(filepath.Dir(stateDir), "lab-"+name) }

// Sockets returns the sockets of a named lab's daemons in the order of the hosts, even of daemons
// that have died. Any user may call it. Errors: ErrName, ErrNotFound, ErrNoDaemons.
func Sockets(name string) (sockets []string, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if sockets = socketsIn(DaemonDir(name)); len(sockets) > 0 {
		return sockets, nil
	}
	// The state is root's to read, the namespaces' names are everybody's.
	if _, err := os.Lstat(filepath.Join(netnsDir, namespaces(Options{Name: name, Hosts: 1})[0])); err == nil {
		return nil,
			fmt.Errorf("lab %s: %w; as root, `funet lab down %s && funet lab up %s --daemons` makes it again with them",
				name, ErrNoDaemons, name, name)
	}
	return nil, fmt.Errorf("daemons of lab %s: %w; as root, `funet lab up %s --daemons` makes one", name,
		ErrNotFound, name)
}

// Sockets returns the sockets of the lab's daemons in the order of the hosts. Errors: ErrNotFound.
func (l *Lab) Sockets() ([]string, error) {
	if l.opts.Name != "" {
		return Sockets(l.opts.Name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.folder == nil {
		return nil, fmt.Errorf("a lab: %w; it was made without", ErrNoDaemons)
	}
	return socketsIn(l.folder.Path()), nil
}

// socketsIn lists the sockets of the daemons that were started with configurations in the folder.
func socketsIn(dir string) (sockets []string) {
	for i := range MaxHubHosts {
		if _, err := os.Stat(configPath(dir, i)); err != nil {
			break
		}
		sockets = append(sockets, socketPath(dir, i))
	}
	return sockets
}

// deadDaemons returns the hosts of a named lab whose daemons have died: no process listens at their
// sockets any more. A daemon that is stopped or busy has not died.
func deadDaemons(sockets []string) (hosts []int) {
	for i, path := range sockets {
		c, err := net.Dial(attach.Network, path)
		switch {
		case err == nil:
			c.Close()
		case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
			hosts = append(hosts, i)
		}
	}
	return hosts
}

func socketPath(dir string, host int) string {
	return filepath.Join(dir, fmt.Sprintf("host-%d.sock", host))
}

func configPath(dir string, host int) string {
	return filepath.Join(dir, fmt.Sprintf("host-%d.yaml", host))
}

// StartDaemons starts a daemon on every host and returns when all answer. Those of a named lab stay
// until it is removed; those of an anonymous one end with it, however this process ends. On failure
// the daemons already started end with the lab. It may be called again after StopDaemons. Errors:
// ErrDaemon, ErrClosed.
func (l *Lab) StartDaemons(o DaemonOptions) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("start the daemons of a lab: %w", err)
		}
	}()
	if o.Program == "" {
		if o.Program, err = findDaemon(); err != nil {
			return err
		}
	}
	dir := DaemonDir(l.opts.Name)
	if l.opts.Name == "" {
		folder, err := runFolder()
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.folder = folder
		l.mu.Unlock()
		dir = folder.Path()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return permission(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask
		return permission(err)
	}
	hosts := len(l.hosts)
	if o.Hosts > 0 {
		hosts = min(hosts, o.Hosts)
	}
	var daemons []*daemon
	for i := range hosts {
		d, err := l.startDaemon(dir, i, o)
		if err != nil {
			return err
		}
		daemons = append(daemons, d)
	}
	l.mu.Lock()
	l.daemons = daemons
	l.mu.Unlock()
	for _, d := range daemons {
		if err := d.answer(); err != nil {
			return err
		}
	}
	return nil
}

// StopDaemons ends the daemons that StartDaemons started: SIGTERM, politeDeadline, SIGKILL.
func (l *Lab) StopDaemons() error {
	l.mu.Lock()
	daemons, folder := l.daemons, l.folder
	l.daemons, l.folder = nil, nil
	l.mu.Unlock()
	for _, d := range daemons {
		_ = d.process.Signal(unix.SIGTERM) // it may have ended
	}
	late := time.After(politeDeadline)
	for _, d := range daemons {
		select {
		case <-d.ended:
		case <-late:
			for _, d := range daemons {
				_ = d.process.Kill()
			}
			<-d.ended
		}
	}
	switch {
	case l.opts.Name != "":
		return permission(os.RemoveAll(DaemonDir(l.opts.Name)))
	case folder != nil:
		return permission(folder.Remove())
	}
	return nil
}

func findDaemon() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), "funid")
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		return beside, nil
	}
	path, err := exec.LookPath("funid")
	if err != nil {
		return "", fmt.Errorf("%w: there is no funid beside %s or in PATH; build it with `make`", ErrDaemon, self)
	}
	return filepath.Abs(path)
}

type daemon struct {
	host        int
	socket, log string
	process     *os.Process
	ended       chan struct{} // closed when it has ended
}

func (l *Lab) startDaemon(dir string, host int, o DaemonOptions) (*daemon, error) {
	peers, err := l.Peers(host).Marshal()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range l.hosts[host].Interfaces {
		names = append(names, i.Name)
	}
	var config bytes.Buffer
	base := strings.TrimSuffix(configPath(dir, host), ".yaml")
	fmt.Fprintf(&config, "socket: %s\ncard: %d\npeers: %s\ninterfaces: [%s]\n", socketPath(dir, host), host,
		cmp.Or(o.Peers, base+".peers"), strings.Join(names, ", "))
	for _, v := range []struct{ key, value string }{{"xdp", o.XDP}, {"bind", o.Bind}, {"polling", o.Polling}} {
		if v.value != "" {
			fmt.Fprintf(&config, "%s: %s\n", v.key, v.value)
		}
	}
	if o.Jumbo {
		config.WriteString("jumbo: true\n")
	}
	config.WriteString(o.More)
	if err := os.WriteFile(base+".peers", peers, 0o644); err != nil {
		return nil, permission(err)
	}
	if err := os.WriteFile(configPath(dir, host), config.Bytes(), 0o644); err != nil {
		return nil, permission(err)
	}
	d := &daemon{host: host, socket: socketPath(dir, host), log: base + ".log", ended: make(chan struct{})}
	log, err := os.Create(d.log)
	if err != nil {
		return nil, permission(err)
	}
	defer log.Close()
	cmd := exec.Command(o.Program, "--config", configPath(dir, host))
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	if l.opts.Name == "" {
		err = l.Start(host, cmd)
	} else {
		// It outlives this process and its thread.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = l.Do(host, cmd.Start)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: on host %d: %w", ErrDaemon, host, err)
	}
	d.process = cmd.Process
	go func() {
		_ = cmd.Wait() // its log says why
		close(d.ended)
	}()
	return d, nil
}

// answer waits until the daemon answers at its socket.
func (d *daemon) answer() error {
	deadline := time.Now().Add(daemonDeadline)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := attach.Inquire(d.socket, max(time.Until(deadline), time.Millisecond))
		if err == nil {
			return nil
		}
		select {
		case <-d.ended:
			return fmt.Errorf("%w: on host %d: %s", ErrDaemon, d.host, lastLine(d.log))
		case <-tick.C:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: on host %d: no answer within %v: %w", ErrDaemon, d.host, daemonDeadline, err)
		}
	}
}

func lastLine(log string) string {
	f, err := os.Open(log)
	if err != nil {
		return "it ended"
	}
	defer f.Close()
	const most = 64 << 10
	_, _ = f.Seek(-most, io.SeekEnd) // a shorter one is read from its beginning
	b, _ := io.ReadAll(io.LimitReader(f, most))
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return strings.TrimPrefix(last, "funid: ")
	}
	return "it ended and said nothing"
}

// stopDaemons ends the daemons of a named lab and removes their folder. It finds daemons by the
// configuration file on their command lines, so it finds those whose maker died, too.
func stopDaemons(name string) error {
	dir := DaemonDir(name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all := residents(func(pid int) bool { return isDaemon(pid, dir) })
	terminate(all, politeDeadline)
	if err := killAll(all); err != nil {
		return fmt.Errorf("%w: %w", ErrDaemon, err)
	}
	return permission(os.RemoveAll(dir))
}

// politeDeadline is the time that daemons have after SIGTERM to let their peers finish.
const politeDeadline = 5 * time.Second

// pids lists the processes of the machine.
func pids() (all []int) {
	entries, _ := os.ReadDir("/proc") // without it none is found
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// isDaemon reports whether a process was started with --config and a file of the folder. Only
// processes of the same user count, because any user can write such a command line.
func isDaemon(pid int, dir string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	args := strings.Split(string(line), "\x00")
	if len(args) < 3 || args[1] != "--config" || filepath.Dir(args[2]) != dir {
		return false
	}
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == os.Geteuid()
}

// runPrefix begins the names of the folders of anonymous labs' daemons.
const runPrefix = "run-"

// runFolder makes the folder for the daemons of an anonymous lab of this process. It also removes
// the folders of processes that were killed; their daemons ended with them.
func runFolder() (*scratch.Folder, error) {
	parent := filepath.Dir(stateDir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, permission(err)
	}
	f, err := scratch.Make(parent, runPrefix)
	return f, permission(err)
}
