package tests

// This file is containers made by hand: what a container runtime makes of an image and a security
// context, with namespaces, mounts, users and capabilities, and no more. The test binary is the
// runtime, within the new namespaces, until it becomes the program.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// containerEnv makes the test binary the runtime of a container.
const containerEnv = "FUNET_TESTS_CONTAINER"

// containerSpec is the specification of a container for its runtime.
type containerSpec struct {
	Root         string // folder of its root file system, which it can only read
	Mounts       []containerMount
	User         int
	Capabilities []int    // bounding, permitted and effective, for root
	HostNetwork  bool     // the network of the process that starts it
	Users        int      // the first of 65536 users of its own; 0: those of the machine
	Args         []string // nil: it only stays, as the pause container of a pod does
}

// containerMount is a folder of the machine in the container.
type containerMount struct {
	From, To string
	ReadOnly bool
}

// imageRoot makes the root file system of the image (ctl/image/Containerfile), with the places
// where a runtime mounts.
func imageRoot(t *testing.T) string {
	t.Helper()
	root := filepath.Join(filepath.Dir(file(t, "")), "image")
	for _, dir := range []string{"usr/bin", "proc", "sys", "dev", "etc/funet", "run/funet"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range programs {
		if err := os.Link(filepath.Join(filepath.Dir(command), name),
			filepath.Join(root, "usr/bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "dev/null"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return root
}

// containerCommand is the command that starts a container.
func containerCommand(t *testing.T, s containerSpec) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin", containerEnv + "=" + string(text)}
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC)
	if !s.HostNetwork {
		flags |= unix.CLONE_NEWNET
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if s.Users != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: s.Users, Size: 1 << 16}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = ids, ids
		cmd.SysProcAttr.GidMappingsEnableSetgroups = true
		cmd.SysProcAttr.Credential = &syscall.Credential{} // root there
	}
	return cmd
}

// contain is the runtime within the namespaces: it makes the file system, drops what the container
// has not, and becomes the program, or stays until standard input ends.
func contain(text string) error {
	runtime.LockOSThread() // capabilities are a thread's
	var s containerSpec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	if err := s.fileSystem(); err != nil {
		return fmt.Errorf("the file system of a container: %w", err)
	}
	if err := s.restrict(); err != nil {
		return fmt.Errorf("the privileges of a container: %w", err)
	}
	if s.Args == nil {
		_, err := fmt.Println("ready")
		_, readErr := io.Copy(io.Discard, os.Stdin)
		return errors.Join(err, readErr)
	}
	env := []string{"PATH=/usr/bin", markEnv + "=" + os.Getenv(markEnv)}
	return fmt.Errorf("executing %v: %w", s.Args, syscall.Exec(s.Args[0], s.Args, env))
}

func (s *containerSpec) fileSystem() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	bind := func(from, to string) error {
		if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", from, to, err)
		}
		return nil
	}
	readOnly := func(path string) error {
		var have unix.Statfs_t
		if err := unix.Statfs(path, &have); err != nil {
			return err
		}
		kept := uintptr(have.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
		return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|kept, "")
	}
	in := func(path string) string { return filepath.Join(s.Root, path) }
	err := errors.Join(bind(s.Root, s.Root), bind("/dev/null", in("dev/null")),
		unix.Mount("proc", in("proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	for _, m := range s.Mounts {
		err = errors.Join(err, bind(m.From, in(m.To)))
		if m.ReadOnly {
			err = errors.Join(err, readOnly(in(m.To)))
		}
	}
	if s.HostNetwork {
		err = errors.Join(err, unix.Mount("sysfs", in("sys"), "sysfs",
			unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	}
	if err != nil {
		return err
	}
	// pivot_root(2), "pivot_root(".", ".")".
	if err := errors.Join(unix.Chdir(s.Root), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH),
		unix.Chdir("/")); err != nil {
		return err
	}
	return readOnly("/")
}

func (s *containerSpec) restrict() error {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var own [2]unix.CapUserData
	if err := unix.Capget(&h, &own[0]); err != nil {
		return err
	}
	var have uint64
	// those that there are: some machines have been denied CAP_SYS_RESOURCE
	for _, c := range s.Capabilities {
		have |= uint64(own[c/32].Permitted>>(c%32)&1) << c
	}
	// Services of systemd have this limit, and so do containers that set nothing else; a test that
	// may raise the limit raises it, and without that capability funid needs the machine's.
	if len(s.Capabilities) == 0 || have>>unix.CAP_SYS_RESOURCE&1 == 1 {
		locked := unix.Rlimit{Cur: 8 << 20, Max: 8 << 20}
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &locked); err != nil {
			return err
		}
	}
	for c := uintptr(0); c < 64; c++ {
		if have>>c&1 == 0 {
			// EINVAL: the kernel has no more
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	// This thread alone: it is the one that becomes the program.
	for _, c := range [][3]uintptr{{unix.SYS_SETGROUPS, 0, 0}, {unix.SYS_SETGID, uintptr(s.User), 0},
		{unix.SYS_SETUID, uintptr(s.User), 0}} {
		if _, _, e := unix.RawSyscall(c[0], c[1], c[2], 0); e != 0 {
			return e
		}
	}
	if s.User == 0 {
		var d [2]unix.CapUserData
		for i := range d {
			d[i].Permitted = uint32(have >> (32 * i))
			d[i].Effective = d[i].Permitted
		}
		if err := unix.Capset(&h, &d[0]); err != nil {
			return err
		}
	}
	// another user's process has lost it
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// startContainer starts one that is to run for a while; it ends with the test.
func startContainer(t *testing.T, s containerSpec, by func(*exec.Cmd) error) *process {
	t.Helper()
	return start(t, containerCommand(t, s), by)
}

// pod starts a container that only stays, in which others' programs are then executed.
func pod(t *testing.T, s containerSpec) (pid int) {
	t.Helper()
	s.Args = nil
	cmd := containerCommand(t, s)
	var out growing
	cmd.Stdout = &out
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	p := startContainerCommand(t, cmd)
	eventually(t, "a pod is ready: "+p.stderr.String(), func() bool {
		select {
		case <-p.ended:
			t.Fatalf("the pod has ended: %s", p.stderr.String())
		default:
		}
		return out.count("ready\n") == 1
	})
	return cmd.Process.Pid
}

func startContainerCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	return start(t, cmd, (*exec.Cmd).Start)
}

// within returns the words that execute a command in a container that runs, as its runtime does
// (kubectl exec).
func (s *containerSpec) within(pid int, args ...string) []string {
	words := []string{"nsenter", "--target", strconv.Itoa(pid), "--mount", "--uts", "--ipc", "--pid", "--root", "--wd",
		"--setuid", strconv.Itoa(s.User), "--setgid", strconv.Itoa(s.User)}
	if !s.HostNetwork {
		words = append(words, "--net")
	}
	if s.Users != 0 {
		words = append(words, "--user")
	}
	return append(append(words, "--"), args...)
}

// capabilityNumbers are the numbers of capabilities by Kubernetes' names, without CAP_.
func capabilityNumbers(t *testing.T, names []string) (numbers []int) {
	t.Helper()
	known := map[string]int{"NET_RAW": unix.CAP_NET_RAW, "NET_ADMIN": unix.CAP_NET_ADMIN, "BPF": unix.CAP_BPF,
		"PERFMON":         unix.CAP_PERFMON,
		"LINUX_IMMUTABLE": unix.CAP_LINUX_IMMUTABLE, "SYS_RESOURCE": unix.CAP_SYS_RESOURCE}
	for _, name := range names {
		n, ok := known[name]
		if !ok {
			t.Fatalf("capability %s is new to the manifest, and to this test", name)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// statusOf returns a field of /proc/PID/status, as the machine sees it.
func statusOf(pid int, field string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":\t"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
