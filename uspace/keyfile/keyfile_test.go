package keyfile

// This file holds the rules of key files: whose they are, what they hold, and who is refused.

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, name string, mode os.FileMode, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := errors.Join(os.WriteFile(path, data, 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// Rule: a new key is 32 random bytes of mode 600, whatever the umask, and reads as the key that was
// made; a file that is there is never overwritten, nor what a link leads to.
func TestNew(t *testing.T) {
	defer unix.Umask(unix.Umask(0o777))
	path := filepath.Join(t.TempDir(), "key")
	k, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode() != 0o600 || st.Size() != 32 {
		t.Fatalf("%v, %v", st, err)
	}
	again, err := Load(path)
	if err != nil || again.Identity() != k.Identity() {
		t.Fatalf("read as %v, %v; want %v", again, err, k)
	}
	before, _ := os.ReadFile(path)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(t.TempDir(), "nothing"), link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link} {
		if _, err := New(p); !errors.Is(err, ErrExists) {
			t.Errorf("%s again: %v", p, err)
		}
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(after, before) {
		t.Error("a key was overwritten")
	}
	other, err := New(filepath.Join(t.TempDir(), "other"))
	if err != nil || other.Identity() == k.Identity() {
		t.Fatalf("two keys are one: %v", err)
	}
	if _, err := New(filepath.Join(t.TempDir(), "no", "folder")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in no folder: %v", err)
	}
}

// Rule: bytes that are not written are no key.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := WriteTo(f); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
}

// Rule: a key is not written to a terminal.
func TestNotToATerminal(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := WriteTo(f); !errors.Is(err, ErrTerminal) {
		t.Errorf("%v", err)
	}
}

// Rule: only a regular file of 32 bytes that are not all zero, of root or of who reads it, and for
// nobody else, is a key. The error names the file, and says what to do, and nothing of what the
// file holds.
func TestLoadRefuses(t *testing.T) {
	good := bytes.Repeat([]byte("geheim!!"), 4)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	others := write(t, "others", 0o600, good)
	if err := os.Chown(others, 12345, -1); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		want error
	}{
		"none":           {filepath.Join(t.TempDir(), "none"), os.ErrNotExist},
		"a folder":       {t.TempDir(), ErrKind},
		"a pipe":         {fifo, ErrKind},
		"short":          {write(t, "k", 0o600, good[:31]), ErrKind},
		"long":           {write(t, "k", 0o600, append(good, '\n')), ErrKind},
		"empty":          {write(t, "k", 0o600, nil), ErrKind},
		"zeros":          {write(t, "k", 0o600, make([]byte, 32)), ErrKind},
		"the group's":    {write(t, "k", 0o640, good), ErrMode},
		"everybody's":    {write(t, "k", 0o644, good), ErrMode},
		"writable":       {write(t, "k", 0o602, good), ErrMode},
		"a program":      {write(t, "k", 0o700, good), ErrMode},
		"group readable": {write(t, "k", 0o440, good), ErrMode},
		"another user's": {others, ErrOwner},
	} {
		k, err := Load(c.path)
		if !errors.Is(err, c.want) || k != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
			continue
		}
		if !strings.Contains(err.Error(), c.path) || strings.Contains(err.Error(), "geheim") ||
			strings.Contains(err.Error(), hex.EncodeToString(good[:4])) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		if _, err := Load(write(t, "k", mode, good)); err != nil {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
}

// Rule: a credential of the service may have the mask of an access control list for the group's
// rights, and nothing else may.
func TestCredential(t *testing.T) {
	good := bytes.Repeat([]byte{7}, 32)
	path := write(t, "funet.key", 0o440, good)
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(path))
	if got := Resolve("/etc/funet", "$CREDENTIALS_DIRECTORY/funet.key"); got != path {
		t.Fatalf("it is %s, want %s", got, path)
	}
	if _, err := Load(path); err != nil {
		t.Error(err)
	}
	if _, err := Load(write(t, "other", 0o440, good)); !errors.Is(err, ErrMode) {
		t.Errorf("elsewhere: %v", err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if got := Resolve("/etc/funet", "$CREDENTIALS_DIRECTORY/funet.key"); got != "$CREDENTIALS_DIRECTORY/funet.key" {
		t.Errorf("without credentials it is %s", got)
	}
	for name, want := range map[string]string{"key": "/etc/funet/key", "/run/key": "/run/key"} {
		if got := Resolve("/etc/funet", name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// Rule: a credential that systemd has not handed over is no file of the folder where the process
// is, and what to do about that is said.
func TestNoCredential(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	good := write(t, "funet.key", 0o600, bytes.Repeat([]byte{7}, 32))
	t.Chdir(filepath.Dir(good))
	if _, err := Load(Resolve("/etc/funet", Credentials+"funet.key")); !errors.Is(err, ErrHanded) ||
		!strings.Contains(err.Error(), "LoadCredential=funet.key:") {
		t.Errorf("%v", err)
	}
}

// childEnv has this program load a key as another user, and print what is wrong.
const childEnv = "FUNET_KEYFILE_CHILD"

// childDoes names its task then; "": none.
const childDoes = "FUNET_KEYFILE_CHILD_DOES"

// child is its life.
func child(path, does string) {
	var err error
	if path != "none" {
		_, err = Load(path)
	}
	switch does {
	case "crash":
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
		// with GOTRACEBACK=crash the runtime passes it on to the kernel
		_ = unix.Kill(os.Getpid(), unix.SIGABRT)
		time.Sleep(time.Minute)
	case "self": // what the programs do with their own files
		_, fds := os.ReadDir("/proc/self/fd")
		_, tasks := os.ReadDir("/proc/self/task")
		_, stat := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", unix.Gettid()))
		_, sched := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", unix.Gettid()))
		f, open := os.Open(path)
		again := exec.Command("/proc/self/exe")
		again.Env = append(os.Environ(), childEnv+"=none", childDoes+"=") // the last counts
		g, reopened := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		err = errors.Join(err, fds, tasks, stat, sched, open, reopened, again.Run())
		f.Close()
		g.Close()
		fallthrough
	case "wait":
		fmt.Println(err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	fmt.Println(err)
}

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		child(path, os.Getenv(childDoes))
		return
	}
	os.Exit(m.Run())
}

// foreign is a key file of a user, and a program that he may run, which becomes a child; in a
// folder that everybody can enter.
func foreign(t *testing.T, user int) (path string, run func(path, does string) *exec.Cmd) {
	t.Helper()
	folder, err := os.MkdirTemp("", "funet-key")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	self, err := os.ReadFile("/proc/self/exe")
	path, program := filepath.Join(folder, "key"), filepath.Join(folder, "program")
	err = errors.Join(err, os.Chmod(folder, 0o777), os.WriteFile(path, bytes.Repeat([]byte{7}, 32), 0o600),
		os.WriteFile(program, self, 0o700))
	if err = errors.Join(err, os.Chmod(program, 0o755), os.Chown(path, user, -1)); err != nil {
		t.Fatal(err)
	}
	return path, func(path, does string) *exec.Cmd {
		c := exec.Command(program)
		c.Dir = folder
		c.Env = append(os.Environ(), childEnv+"="+path, childDoes+"="+does, "GOTRACEBACK=crash")
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
		return c
	}
}

// Rule: a service, which has no right to root's files, says how systemd hands it the key, and not
// that another is to be made.
func TestRootsFileForAService(t *testing.T) {
	path, run := foreign(t, 65534)
	if err := os.Chown(path, 0, -1); err != nil {
		t.Fatal(err)
	}
	out, err := run(path, "").CombinedOutput()
	if said := string(out); err != nil || !strings.Contains(said, "LoadCredential=funet.key:"+path) ||
		strings.Contains(said, "key new") || strings.Count(said, "\n") != 1 {
		t.Errorf("%v: %s", err, said)
	}
}

// Rule (hide.go): a process that has read a key leaves no core dump, root's and any user's, where
// it would leave one without.
func TestNoCoreDump(t *testing.T) {
	for _, user := range []int{0, 65534} {
		path, run := foreign(t, user)
		for _, c := range []struct {
			path string
			core bool
		}{{"none", true}, {path, false}} {
			cmd := run(c.path, "crash")
			out, err := cmd.CombinedOutput()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			// Where the kernel pipes dumps to a program that is not there, it makes none without a
			// key either.
			pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
			if !status.Signaled() || status.Signal() != syscall.SIGABRT ||
				status.CoreDump() != c.core && !(c.core && pattern[0] == '|') {
				t.Errorf("user %d with %s: ended by %v, core dump %v, want %v: %v\n%s", user, c.path, status.Signal(),
					status.CoreDump(), c.core, err, out)
			}
		}
	}
}

// Rule (hide.go): another process of the same user cannot look into one that has read a key, and
// that one can still do with its own files what the programs do.
func TestNobodyLooksIn(t *testing.T) {
	for _, user := range []int{0, 65534} {
		path, run := foreign(t, user)
		for _, c := range []struct{ path, does string }{{"none", "wait"}, {path, "self"}} {
			cmd := run(c.path, c.does)
			in, _ := cmd.StdinPipe()
			out, _ := cmd.StdoutPipe()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			said, err := bufio.NewReader(out).ReadString('\n')
			if err != nil || said != "<nil>\n" {
				t.Errorf("user %d with %s: %v, %q", user, c.path, err, said)
			}
			if user != 0 { // root may look into everything
				look := exec.Command("head", "-c0", fmt.Sprintf("/proc/%d/mem", cmd.Process.Pid))
				look.SysProcAttr = cmd.SysProcAttr
				if err := look.Run(); (err == nil) != (c.path == "none") {
					t.Errorf("with %s a process of the same user looks in: %v", c.path, err)
				}
			}
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Rule: what is wrong with a file is seen without reading it.
func TestLook(t *testing.T) {
	good := bytes.Repeat([]byte{7}, 32)
	if mode, err := Look(write(t, "k", 0o400, good), 12345); mode != 0o400 || err != nil {
		t.Errorf("%v, %v", mode, err)
	}
	if mode, err := Look(write(t, "k", 0o644, good), 0); mode != 0o644 || !errors.Is(err, ErrMode) {
		t.Errorf("%v, %v", mode, err)
	}
	if _, err := Look(write(t, "k", 0o600, good[:9]), 0); !errors.Is(err, ErrKind) {
		t.Errorf("%v", err)
	}
	if _, err := Look("/none", 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
