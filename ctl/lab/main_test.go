// What the tests of this package share: the test binary as the owner of a lab that is to be killed,
// and ways to see namespaces and processes from outside.

package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// When roleEnv is set the test binary is not the test but plays a role for it. stateEnv has the
// state directory of the test: with one for all, another run of the tests would rightly remove
// what this one leaves stale.
const (
	roleEnv  = "FUNET_LAB_TEST_ROLE"
	stateEnv = "FUNET_LAB_TEST_STATE"
)

func TestMain(m *testing.M) {
	role, arg, _ := strings.Cut(os.Getenv(roleEnv), " ")
	play, ok := map[string]func(string) error{
		"":          nil,
		"anonymous": playAnonymous,
		"building":  playBuilding,
		"removing":  playRemoving,
		"up":        playUp,
		"down":      Down,
		"nobody":    playNobody,
	}[role]
	switch {
	case !ok:
		fmt.Println("no such role:", role)
		os.Exit(2)
	case play == nil:
		os.Exit(runTests(m))
	}
	stateDir = os.Getenv(stateEnv)
	if err := play(arg); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "funet-lab")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	stateDir = filepath.Join(dir, "run", "labs")
	return m.Run()
}

// waitForEnd ends a role's turn: it prints "ready" and blocks until the test ends the role by
// closing its standard input or killing it.
func waitForEnd() error {
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// actor is the test binary in a role.
type actor struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines []string // what it printed before "ready", or all if it never was ready
	ready bool
}

// start starts the test binary in a role and returns when it is ready or has ended.
func start(t *testing.T, role string) *actor {
	t.Helper()
	a := &actor{cmd: exec.Command("/proc/self/exe")}
	a.cmd.Env = append(os.Environ(), roleEnv+"="+role, stateEnv+"="+stateDir)
	a.cmd.Stderr = os.Stderr
	// Should the test itself be killed, standard input ends and the actor with it.
	stdin, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.stdin = stdin
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.kill() })
	for s := bufio.NewScanner(stdout); s.Scan(); {
		if s.Text() == "ready" {
			a.ready = true
			break
		}
		a.lines = append(a.lines, s.Text())
	}
	return a
}

// kill kills the actor with SIGKILL and waits for it.
func (a *actor) kill() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

// values returns what follows "key " on the actor's lines.
func (a *actor) values(key string) (values []string) {
	for _, line := range a.lines {
		if v, ok := strings.CutPrefix(line, key+" "); ok {
			values = append(values, v)
		}
	}
	return values
}

// eventually fails the test unless the condition comes true within a generous time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ; !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// inode returns the inode number of a namespace file, which identifies the namespace.
func inode(path string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return st.Ino, err
}

// inodes returns the namespaces of a lab's spaces.
func inodes(t *testing.T, l *Lab) (list []uint64) {
	t.Helper()
	for _, s := range l.spaces {
		ino, err := inode(fmt.Sprintf("/proc/self/fd/%d", s.ns.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, ino)
	}
	return list
}

// heldNamespaces returns the network namespaces that any thread is in or has open, or that are
// mounted.
func heldNamespaces(t *testing.T) map[uint64]string {
	t.Helper()
	held := map[uint64]string{}
	for _, pattern := range []string{"/proc/[0-9]*/task/[0-9]*/ns/net", "/proc/[0-9]*/fd/*", netnsDir + "/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.Contains(path, "/fd/") {
				if link, _ := os.Readlink(path); !strings.HasPrefix(link, "net:[") &&
					!strings.HasPrefix(link, netnsDir) {
					continue
				}
			}
			if ino, err := inode(path); err == nil { // else the thread or file has gone
				held[ino] = path
			}
		}
	}
	return held
}

// gone fails the test unless nothing holds any of the namespaces soon.
func gone(t *testing.T, namespaces []uint64) {
	t.Helper()
	eventually(t, "namespaces are gone", func() bool {
		held := heldNamespaces(t)
		for _, ino := range namespaces {
			if _, ok := held[ino]; ok {
				return false
			}
		}
		return true
	})
}

// census counts what this process and the machine's own namespace have of the parts of labs.
type census struct {
	namespaces int // that this process's threads are in
	links      int // of ours in the namespace of this process
	labs       int // state files and named namespaces with this process's names
}

func takeCensus(t *testing.T) (c census) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for _, path := range tasks {
		if ino, err := inode(path); err == nil {
			seen[ino] = true
		}
	}
	c.namespaces = len(seen)
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if ours(l) {
			c.links++
		}
	}
	for _, pattern := range []string{stateDir + "/" + labName("") + "*", netnsDir + "/funet-" + labName("") + "*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		c.labs += len(paths)
	}
	return c
}

// leavesNothing fails the test if it leaves more namespaces, links or labs than it found.
func leavesNothing(t *testing.T) {
	t.Helper()
	before := takeCensus(t)
	t.Cleanup(func() {
		eventually(t, "as many namespaces, links and labs as before", func() bool { return takeCensus(t) == before })
	})
}

// labName returns a name for a lab that no other run of the tests uses.
func labName(suffix string) string {
	return "t" + strconv.FormatInt(int64(os.Getpid()), 36) + "-" + suffix
}

// mustUp makes a lab for the duration of the test.
func mustUp(t *testing.T, o Options) *Lab {
	t.Helper()
	leavesNothing(t)
	l, err := Up(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(); err != nil && !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	})
	return l
}

// alive says whether the process runs; one that only its parent still has to wait for does not.
func alive(pid int) bool {
	_, err := startTime(pid)
	return !errors.Is(err, fs.ErrNotExist)
}

// playAnonymous owns an anonymous lab with a child in every host.
func playAnonymous(string) error {
	l, err := Up(Options{Hosts: 3})
	if err != nil {
		return err
	}
	for i := range l.Hosts() {
		cmd := l.Command(i, "sleep", "600")
		if err := l.Start(i, cmd); err != nil {
			return err
		}
		fmt.Println("child", cmd.Process.Pid)
	}
	for _, s := range l.spaces {
		ino, err := inode(fmt.Sprintf("/proc/self/fd/%d", s.ns.Fd()))
		if err != nil {
			return err
		}
		fmt.Println("namespace", ino)
	}
	return waitForEnd()
}

// playBuilding stops in the middle of Up: namespaces are mounted, cables are not laid.
func playBuilding(name string) error {
	o, err := Options{Hosts: 3, Name: name}.complete()
	if err != nil {
		return err
	}
	if err := claim(o); err != nil {
		return err
	}
	if _, err := makeSpaces(o); err != nil {
		return err
	}
	// As if killed between naming the hub and mounting its namespace.
	if err := unix.Unmount(filepath.Join(netnsDir, hubNamespace(name)), unix.MNT_DETACH); err != nil {
		return err
	}
	return waitForEnd()
}

// playRemoving stops in the middle of Down: one namespace is removed, the other is not.
func playRemoving(name string) error {
	if _, err := Up(Options{Hosts: 2, Name: name}); err != nil {
		return err
	}
	return locked(func() error {
		s, err := read(name)
		if err != nil {
			return err
		}
		s.Stage = stageRemoving
		if err := s.write(); err != nil {
			return err
		}
		if err := removeNamespace(filepath.Join(netnsDir, namespaces(s.options())[0])); err != nil {
			return err
		}
		return waitForEnd()
	})
}

// playUp makes a named lab and ends.
func playUp(name string) error {
	_, err := Up(Options{Hosts: 2, Name: name})
	return err
}

// playNobody tries everything without privileges; each line is an error.
func playNobody(name string) error {
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(65534); err != nil {
		return err
	}
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	_, anonymous := Up(Options{Hosts: 2})
	_, named := Up(Options{Hosts: 2, Name: name + "x"})
	_, open := Open(name)
	for _, err := range []error{anonymous, named, open, Down(name)} {
		if err == nil || !errors.Is(err, ErrPermission) {
			return fmt.Errorf("not ErrPermission: %w", err)
		}
		fmt.Println("refused", err)
	}
	return nil
}
