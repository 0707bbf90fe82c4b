package tests

// This file tests what a program has of root that root's `funet run` starts as an ordinary user:
// nothing of the terminal, the environment, the descriptors and the privileges; and that Ctrl-C at
// that terminal ends it all the same.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

// typist is the test binary as a program that tries to type into the terminal that is named in its
// environment, by every way there is to it, and says what it found.
func typist() {
	typed := 0
	try := func(fd int) {
		for _, c := range []byte("evil\n") {
			if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c))); e == 0 {
				typed++
			}
		}
		// Where the kernel has no TIOCSTI (dev.tty.legacy_tiocsti), a terminal is one too many.
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			fmt.Println("descriptor", fd, "is a terminal")
		}
	}
	files, _ := os.ReadDir("/proc/self/fd") // none: nothing to try
	var open []string
	for _, f := range files {
		link, err := os.Readlink("/proc/self/fd/" + f.Name())
		var fd int
		_, scanned := fmt.Sscan(f.Name(), &fd)
		if err != nil || scanned != nil {
			continue // of the folder itself
		}
		// the runtime's own, and this look
		if !strings.HasPrefix(link, "anon_inode:") && !strings.HasPrefix(link, "/proc/") &&
			!strings.HasPrefix(link, "/sys/fs/cgroup/") {
			open = append(open, f.Name()+" "+strings.SplitN(link, ":", 2)[0])
		}
		try(fd)
	}
	for _, name := range []string{"/dev/tty", os.Getenv(typistEnv)} {
		if fd, err := unix.Open(name, unix.O_RDWR, 0); err == nil {
			fmt.Println("opened", name)
			try(fd)
		}
	}
	stat, _ := os.ReadFile("/proc/self/stat") // none: no field below
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
	status, _ := os.ReadFile("/proc/self/status")
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, unix.SIGINT)
	fmt.Printf("typed %d; terminal %s; session %s; %s; uid %d; open %v; environment %v\n", typed, fields[4],
		fields[3], regexp.MustCompile(`NoNewPrivs:\s\d`).FindString(string(status)), os.Getuid(), open, os.Environ())
	fmt.Println("ready")
	<-interrupts
	fmt.Println("Ctrl-C arrived")
	os.Exit(41)
}

// pty makes a pseudo-terminal (pty(7)), which goes with the test.
func pty(t *testing.T) (user, terminal *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(user.Close(), terminal.Close()) })
	return user, terminal
}

// TestRunKeepsTheTerminal has root's funet run start a program as another user. The program has no
// terminal, cannot type into root's, and has no privileges. Of root's variables and descriptors it
// has only those that it was given. The Ctrl-C of root's terminal reaches it.
func TestRunKeepsTheTerminal(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	user, terminal := pty(t)
	secret, err := os.Open(file(t, "root's\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command, "run", "-n", "2", "--lab="+s.name, "--user", "nobody",
		"--env", typistEnv, "--env", "GIVEN=a=b", "--env", "PASSED", "--", self)
	cmd.Dir = "/"
	cmd.Stdin, cmd.ExtraFiles = terminal, []*os.File{secret}
	cmd.Env = append(os.Environ(), typistEnv+"="+terminal.Name(), "PASSED=on", "SECRET=root's",
		"SSH_AUTH_SOCK=/root/agent", "TMPDIR="+closed(t), "LC_TIME=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	var out growing
	cmd.Stdout = &out
	p := start(t, cmd, nil)
	eventually(t, "both nodes are ready", func() bool { return out.count("ready\n") == 2 })
	if _, err := user.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	if code := p.wait(); code != 128+int(syscall.SIGINT) || out.count("Ctrl-C arrived\n") != 2 ||
		!strings.Contains(p.stderr.String(), "funet: interrupted (SIGINT); ending the job\n") {
		t.Errorf("exit code %d; it printed %q and said %q", code, out.text.String(), p.stderr.String())
	}
	known := []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE", "LC_TIME", "GIVEN",
		"PASSED", markEnv, typistEnv,
		attach.SocketVariable, attach.GIDVariable, attach.NodeVariable, attach.NodesVariable, attach.TokenVariable}
	said :=
		regexp.MustCompile(`(?m)^\[[01]\] typed 0; terminal 0; session (\d+); NoNewPrivs:\t1; uid 65534; open \[0 \S+ 1 pipe 2 pipe( 3 \S+)?\]; environment \[(.*)\]$`).FindAllStringSubmatch(out.text.String(), -1)
	if len(said) != 2 || out.count("is a terminal") != 0 || out.count("opened") != 0 {
		t.Fatalf("the programs found %s", out.text.String())
	}
	// One session for the job: each has a scheduling group of its own (sched(7)).
	if session := said[0][1]; session != said[1][1] || session == fmt.Sprint(cmd.Process.Pid) {
		t.Errorf("the programs are in the sessions %s and %s, the terminal's is %d", session, said[1][1],
			cmd.Process.Pid)
	}
	for _, m := range said {
		// The test binary may be where nobody reaches it; then it was handed over.
		if m[2] != "" && m[2] != " 3 "+self {
			t.Errorf("a descriptor more: %s", m[2])
		}
		for _, v := range regexp.MustCompile(`(?:^| )([A-Z_]+)=`).FindAllStringSubmatch(m[3], -1) {
			if !slices.Contains(known, v[1]) && !strings.HasPrefix(v[1], "LC_") && !strings.HasPrefix(v[1], "FUNET_") {
				t.Errorf("the program has root's %s", v[1])
			}
		}
		for _, want := range []string{"HOME=/nonexistent", "USER=nobody", "LOGNAME=nobody", "SHELL=/bin/sh", "PATH=",
			"GIVEN=a=b", "PASSED=on", "LC_TIME=C"} {
			if !strings.Contains(" "+m[3], " "+want) {
				t.Errorf("the program has no %s: %s", want, m[3])
			}
		}
	}
	s.free()
}

// TestRunOnATerminal: root's funet run, which keeps the terminal from the program, passes on what
// is typed there, and its end by SIGKILL ends the job.
func TestRunOnATerminal(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	user, terminal := pty(t)
	cmd := exec.Command(command, "run", "-n", "1", "--lab="+s.name, "--user", "nobody", "--", "sh", "-c",
		"read line; echo got $line $$; exec sleep 1000")
	cmd.Dir, cmd.Stdin = "/", terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	var out growing
	cmd.Stdout = &out
	p := start(t, cmd, nil)
	if _, err := user.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node 0 reads what was typed", func() bool { return out.count("[0] got hello ") == 1 })
	var program int
	if _, err := fmt.Sscanf(out.text.String(), "[0] got hello %d", &program); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	eventually(t, "the program ends with the launcher", func() bool {
		return syscall.Kill(program, 0) == syscall.ESRCH
	})
	s.free()
}

// TestRunSuspended: Ctrl-Z at a shell stops the nodes with the launcher; bg has both go on, and
// what is typed then is the shell's; after fg it is node 0's. So it is for a user's job and for one
// that root starts as a user.
func TestRunSuspended(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	for name, as := range map[string]string{"nobody": "", "root": "--user nobody"} {
		t.Run(name, func(t *testing.T) {
			user, terminal := pty(t)
			dir := filepath.Dir(file(t, ""))
			script, word := filepath.Join(dir, "script"), filepath.Join(dir, "word")
			if err := os.WriteFile(script,
				[]byte("echo ready $$\n[ $FUNET_NODE = 0 ] && { read line; echo got $line; exit; }\nuntil [ -e "+word+
					" ]; do sleep 0.05; done; echo saw it\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("bash", "--norc", "--noprofile", "-i")
			if as == "" {
				nobody(cmd)
			}
			cmd.Dir, cmd.Stdin, cmd.Stdout = "/", terminal, terminal
			cmd.Env = append(os.Environ(), "PS1=$ ", "HISTFILE=", "TERM=dumb")
			if cmd.SysProcAttr == nil {
				cmd.SysProcAttr = &syscall.SysProcAttr{}
			}
			cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
			shell := start(t, cmd, nil)
			var out growing
			go func() { _, _ = io.Copy(&out, user) }() // until the terminal goes
			write := func(text string) {
				t.Helper()
				if _, err := user.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			inFront := func() bool {
				group, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPGRP)
				return err == nil && group == cmd.Process.Pid
			}
			write(fmt.Sprintf("%s run -n 2 --lab=%s %s -- sh %s\n", command, s.name, as, script))
			eventually(t, "both nodes are ready", func() bool { return out.count("] ready ") == 2 })
			var nodes []int
			for _, m := range regexp.MustCompile(`\] ready (\d+)`).FindAllStringSubmatch(out.String(), -1) {
				pid, _ := strconv.Atoi(m[1]) // as matched
				nodes = append(nodes, pid)
			}
			write("\x1a") // Ctrl-Z
			eventually(t, "the nodes have stopped", func() bool { return !slices.ContainsFunc(nodes, runs) })
			eventually(t, "the shell is back", inFront)
			write("bg\n")
			eventually(t, "the nodes run", func() bool { return runs(nodes[0]) && runs(nodes[1]) })
			write("echo $((40+2)) is typed\n")
			eventually(t, "the shell reads what is typed", func() bool { return out.count("42 is typed") == 1 })
			if err := os.WriteFile(word, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the launcher prints", func() bool { return out.count("[1] saw it") == 1 })
			write("fg\n")
			eventually(t, "the launcher is in front", func() bool { return !inFront() })
			write("hello\n")
			eventually(t, "node 0 reads what is typed", func() bool { return out.count("[0] got hello") == 1 })
			eventually(t, "the shell is back", inFront)
			write("exit $?\n")
			if code := shell.wait(); code != 0 {
				t.Errorf("exit code %d: %s", code, out.String())
			}
		})
	}
	s.free()
}

// TestRunEnv: --env adds to what an ordinary user's program has of its user, here and where it
// changes a variable, and refuses what is none.
func TestRunEnv(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	cmd := nobody(exec.Command(command, "run", "-n", "1", "--lab="+s.name, "--env", "A=1=2", "--env", "KEPT=changed",
		"--env", attach.NodeVariable+"=9", "--",
		"sh", "-c", `echo "$A $KEPT $OTHER $`+attach.NodeVariable+`"`))
	cmd.Env = append(os.Environ(), "KEPT=kept", "OTHER=own")
	if out := start(t, cmd, nil).ok(); out != "[0] 1=2 changed own 0\n" {
		t.Errorf("it printed %q", out)
	}
	for env, says := range map[string]string{"": "use NAME=VALUE", "=x": "use NAME=VALUE", "A B=1": "use NAME=VALUE",
		"A\nB": "use NAME=VALUE", "FUNET_NO_SUCH": "give it one: --env FUNET_NO_SUCH=VALUE"} {
		start(t, nobody(exec.Command(command, "run", "--lab="+s.name, "--env", env, "--", "true")),
			nil).fails("--env", says)
	}
}

// TestRunGainsNoPrivileges: a set-user-ID program that a node starts stays the node's user's.
func TestRunGainsNoPrivileges(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	id, err := exec.LookPath("id")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(file(t, "")), "id")
	put(t, id, program, 0o755|os.ModeSetuid)
	cmd := exec.Command(command, "run", "-n", "1", "--lab="+s.name, "--user", "nobody", "--", program, "-u")
	cmd.Dir = "/"
	if out := start(t, cmd, nil).ok(); out != "[0] 65534\n" {
		t.Errorf("it printed %q", out)
	}
}
