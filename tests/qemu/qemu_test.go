package main

// This file tests the command as a whole, with a QEMU that executes nothing (fake_test.go): what it
// prints, what it refuses, and that nothing is left of it.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deadline bounds each run; the machine may be busy.
const deadline = 3 * time.Minute

// static is a program that needs no libraries; what it does does not matter to the fake.
var static = sync.OnceValues(func() (string, error) {
	source := filepath.Join(scratchFolder, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		return "", err
	}
	program := filepath.Join(scratchFolder, "program")
	build := exec.Command("go", "build", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building a program: %w: %s", err, out)
	}
	return program, nil
})

// rig prepares a run of the command, which ends with the test.
func rig(t *testing.T, cache string, args ...string) (cmd *exec.Cmd, out, complaints *bytes.Buffer) {
	t.Helper()
	out, complaints = new(bytes.Buffer), new(bytes.Buffer)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := static()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), self,
		append([]string{"--cache", cache, "--funet", program, "--funid", program, "--guest", program}, args...)...)
	cmd.Args[0] = "rig"
	cmd.Stdout, cmd.Stderr = out, complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	return cmd, out, complaints
}

// A run has a row for every program of every NIC and kernel, with figures and the kernel's own
// traffic, and says that all passed.
func TestEverythingPasses(t *testing.T) {
	cmd, out, complaints := rig(t, fakeCache(t), "--json")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, complaints)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if !r.Passed || len(r.Runs) != 3*len(nics) {
		t.Fatalf("passed %v, %d configurations", r.Passed, len(r.Runs))
	}
	for _, c := range r.Runs {
		want := len(programNames())
		for _, f := range faults {
			if f.queues > 1 && !strings.HasSuffix(c.NIC, "-2q") {
				want--
			}
		}
		if len(c.Rows) != want || c.Beside == nil || !every(c.Beside.PingJob) || c.Beside.IdleRatio != 1 ||
			c.mode() != "native, zero-copy" {
			t.Errorf("%+v", c)
		}
		if len(c.Kmsg) != 2 || !strings.Contains(c.Kmsg[1],
			"host 1: [ 1.0] igb 0000:00:02.0 eth0: igb: eth0 NIC Link is Down") {
			t.Errorf("complaints of the kernels: %q", c.Kmsg)
		}
		if p := c.find("transfer"); p.Bytes != 100 {
			t.Errorf("0.8 Gbit/s are %v MB/s", p.Bytes)
		}
	}
}

// What fails is a row that says so, with the program's last line, and the others go on; the command
// fails.
func TestFailureIsARow(t *testing.T) {
	for program, want := range map[string]string{"stream": "virtio-zc, 7.3-a, stream: host 0: code 1: some words; funet: node 1 is silent", "run": "virtio-zc, 7.3-a, daemons: host 0: code 1: some words; funet: node 1 is silent"} {
		cmd, out, complaints := rig(t, fakeCache(t), "--short", "--nics", "virtio-zc")
		cmd.Env = append(cmd.Env, failVariable+"="+program)
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Fatalf("%v: %s", err, complaints)
		}
		if !strings.Contains(out.String(), want) || strings.Count(out.String(), "FAILED") < 1 ||
			!strings.Contains(out.String(), "99 us") {
			t.Errorf("%s:\n%s", program, out)
		}
	}
}

// A change that a driver refuses is a row that says so, and nothing has failed.
func TestRefusedChange(t *testing.T) {
	cmd, out, complaints := rig(t, fakeCache(t), "--nics", "igb", "--kernels", "newest")
	cmd.Env = append(cmd.Env, wrongVariable+"="+refuses)
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(),
		"igb, 7.3-a, ring_change: refused: host 1: code 1: guest: operation not supported") ||
		!strings.Contains(out.String(), "| refused") {
		t.Errorf("%v: %s\n%s", err, complaints, out)
	}
}

// When a guest dies, or says nonsense, the report has that for its configuration, and the next one
// is tried.
func TestGuestThatFails(t *testing.T) {
	for wrong, want := range map[string]string{dies: "QEMU has ended (exit status 4)", garbage: "its document"} {
		cmd, out, complaints := rig(t, fakeCache(t), "--short", "--json")
		cmd.Env = append(cmd.Env, wrongVariable+"="+wrong)
		if err := cmd.Run(); err == nil {
			t.Fatalf("%s: no error: %s", wrong, complaints)
		}
		var r report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Passed || len(r.Runs) != 2 ||
			!strings.Contains(out.String(), want) {
			t.Errorf("%s: %v:\n%s", wrong, err, out)
		}
	}
}

// Where kvm does not execute the guests the rig does without, and says so.
func TestWithoutKVM(t *testing.T) {
	cmd, out, complaints := rig(t, fakeCache(t), "--short", "--json")
	cmd.Env = append(cmd.Env, wrongVariable+"="+kvmOnly)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, complaints)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Accelerator != "tcg" || r.Why == "" {
		t.Errorf("%v: %+v", err, r)
	}
}

// However the rig ends, its machines end: by Ctrl-C within a second, and by SIGKILL. It leaves no
// file.
func TestNothingIsLeft(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		for _, wrong := range []string{mute, hangs} {
			t.Run(s.String()+" "+wrong, func(t *testing.T) {
				cache := fakeCache(t)
				before := files(t, cache)
				cmd, _, complaints := rig(t, cache, "--short", "--programs", "pingpong")
				cmd.Env = append(cmd.Env, wrongVariable+"="+wrong)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				machines := childrenOf(t, cmd.Process.Pid)
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
				err := cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); s != syscall.SIGKILL && code != 128+int(s) {
					t.Errorf("%v, code %d: %s", err, code, complaints)
				}
				for _, fd := range machines {
					poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
					if n, err := unix.Poll(poll, int(deadline.Milliseconds())); n != 1 {
						t.Errorf("a machine outlives the rig: %d, %v", n, err)
					}
					unix.Close(fd)
				}
				if after := files(t, cache); after != before {
					t.Errorf("files before:\n%s\nafter:\n%s", before, after)
				}
				for _, entry := range cmd.Env {
					if dir, ok := strings.CutPrefix(entry, "TMPDIR="); ok && dir != os.Getenv("TMPDIR") {
						if left := files(t, dir); left != "" {
							t.Errorf("left over: %s", left)
						}
					}
				}
			})
		}
	}
}

// childrenOf waits until a process has two children, and returns pidfds of them.
func childrenOf(t *testing.T, pid int) (fds []int) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < deadline; time.Sleep(5 * time.Millisecond) {
		all := children(pid)
		if len(all) != 2 {
			continue
		}
		for _, child := range all {
			n, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			fd, err := unix.PidfdOpen(n, 0)
			if err != nil {
				t.Fatal(err)
			}
			fds = append(fds, fd)
		}
		return fds
	}
	t.Fatal("the rig started no machines")
	return nil
}

// files lists what is below a folder.
func files(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if path != dir && d.Name() != "lock" {
			b.WriteString(path + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What cannot be done is refused in one line, before anything starts.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"NIC", `--nics "rtl8139": use some of virtio-zc`, []string{"--nics", "rtl8139"}},
		{"program", `--programs "chess": use some of pingpong`, []string{"--programs", "chess"}},
		{"kernel", `--kernels "oldest": use newest, or a version such as 6.12`, []string{"--kernels", "oldest"}},
		{"no such kernel", "no kernel 5.10; there are: 7.3-a, 6.12-a, 6.1-a", []string{"--kernels", "5.10"}},
		{"scale", "--scale 0: use", []string{"--scale", "0"}},
		{"scale", "--scale NaN: use", []string{"--scale", "NaN"}},
		{"program that needs libraries", "build it with CGO_ENABLED=0", []string{"--funet", "/bin/sh"}},
		{"program that is none", "not a static program", []string{"--funid", "/etc/passwd"}},
		{"program that is missing", "no such file", []string{"--funid", "/nowhere/funid"}},
		{"cache", "say where with --cache or QEMUCACHE", []string{"--cache", "/dev/null/cache"}},
		{"argument", "unknown command", []string{"short"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, out, complaints := rig(t, fakeCache(t), c.args...)
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("%v", err)
			}
			if text := complaints.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, c.want) ||
				out.Len() != 0 {
				t.Errorf("it says %q and %q, not %q", text, out, c.want)
			}
		})
	}
}

// Without apt, and on another distribution, the command says what it needs; two at a time do not
// share a cache.
func TestRefusalsOfTheMachine(t *testing.T) {
	run := func(cache string, env ...string) string {
		cmd, _, complaints := rig(t, cache)
		cmd.Env = append(cmd.Env, env...)
		if err := cmd.Run(); err == nil {
			t.Error("no error")
		}
		return complaints.String()
	}
	if text := run(t.TempDir(), "PATH=/nowhere"); !strings.Contains(text,
		"apt-get is missing; make qemu fetches kernels and QEMU with apt") {
		t.Errorf("%q", text)
	}
	cache := fakeCache(t)
	s, err := openStore(cache, newKeeper(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if text := run(cache); !strings.Contains(text, "another make qemu has it") {
		t.Errorf("%q", text)
	}
	s.close()
}

// In continuous integration a line says what the machine lacks, and nothing fails: apt, the
// network, the cache that another has; but not what is wrong with the command.
func TestNotRun(t *testing.T) {
	run := func(cache, path string, more ...string) (string, error) {
		cmd, out, complaints := rig(t, cache, append([]string{"--ci"}, more...)...)
		cmd.Env = append(cmd.Env, "PATH="+path)
		err := cmd.Run()
		return out.String() + complaints.String(), err
	}
	const begins = "make qemu was not run: "
	if text, err := run(t.TempDir(), "/nowhere"); err != nil || strings.Count(text, "\n") != 1 ||
		!strings.HasPrefix(text, begins) || !strings.Contains(text, "apt-get is missing") {
		t.Errorf("without apt: %v: %q", err, text)
	}
	slow := t.TempDir()
	for name, text := range map[string]string{"apt-get": "#!/bin/sh\nexec /bin/sleep 1000\n",
		"apt-cache": "#!/bin/sh\n", "dpkg-deb": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(slow, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := run(t.TempDir(), slow, "--fetch-limit", "50ms"); err != nil || !strings.HasPrefix(text, begins) ||
		!strings.Contains(text, "were not fetched within 50ms") {
		t.Errorf("with a slow network: %v: %q", err, text)
	}
	cache := fakeCache(t)
	s, err := openStore(cache, newKeeper(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := run(cache, "/nowhere"); err != nil || !strings.HasPrefix(text, begins) ||
		!strings.Contains(text, "another make qemu has it") {
		t.Errorf("without its cache: %v: %q", err, text)
	}
	s.close()
	if text, err := run(cache, "/nowhere", "--nics", "rtl8139"); err == nil || strings.Contains(text, begins) {
		t.Errorf("with an unknown NIC: %q", text)
	}
}

// In continuous integration what fails is tried twice, and fails if it fails twice.
func TestTriedTwice(t *testing.T) {
	cmd, out, complaints := rig(t, fakeCache(t), "--ci")
	if err := cmd.Run(); err != nil || strings.Contains(out.String(), "tried twice") ||
		!strings.Contains(out.String(), "| virtio-zc | 7.3-a") || !strings.Contains(out.String(), "| igb ") {
		t.Errorf("%v: %s\n%s", err, complaints, out)
	}
	cmd, out, complaints = rig(t, fakeCache(t), "--ci", "--nics", "igb")
	cmd.Env = append(cmd.Env, failVariable+"=stream")
	if err := cmd.Run(); err == nil || !strings.Contains(complaints.String(),
		"igb on 7.3-a is tried once more, because of: igb, 7.3-a, stream: host 0: code 1") ||
		!strings.Contains(out.String(), "tried twice, because of: igb, 7.3-a, stream") {
		t.Errorf("%v: %s\n%s", err, complaints, out)
	}
}

// A disk without room for a kernel's packages is refused before anything is fetched.
func TestNoRoom(t *testing.T) {
	for free, want := range map[int64]bool{0: false, storeRoom - 1: false, storeRoom: true} {
		if err := enough("/cache", free); (err == nil) != want || err != nil && !errors.Is(err, errSpace) {
			t.Errorf("%d bytes: %v", free, err)
		}
	}
}
