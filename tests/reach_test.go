package tests

// This file tests that commands work from a folder that only root may enter, as those in root's
// home, although `funet run` starts programs as an ordinary user; and that this helps nobody to
// what he may not read himself.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

// closed makes a folder of mode 700 of root's, under another one, that goes with the test.
func closed(t *testing.T) (dir string) {
	t.Helper()
	room, err := os.MkdirTemp("", "funet-tests")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(room) })
	dir = filepath.Join(room, "x")
	if err := errors.Join(os.Chmod(room, 0o700), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// put copies a program into a folder, with a mode.
func put(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = errors.Join(os.WriteFile(to, text, mode), os.Chmod(to, mode))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDemo: `make demo` succeeds in a folder of mode 700, with programs that a umask of 077 let be
// made, prints its three parts and no complaint, and leaves nothing.
func TestDemo(t *testing.T) {
	long.Test(t)
	dir := closed(t)
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		put(t, filepath.Join(filepath.Dir(command), name), filepath.Join(dir, "bin", name), 0o700)
	}
	put(t, "../Makefile", filepath.Join(dir, "Makefile"), 0o600)
	// The programs are there: nothing has to be built.
	cmd := exec.Command("make", "-s", "demo", "GO=true")
	cmd.Dir = dir
	p := start(t, cmd, nil)
	p.patience = 10 * deadline
	out := p.ok()
	for _, want := range []string{"ping-pong: 4-word request", "matrix multiply: 512 x 512", "equal to a local Dgemm",
		"[0] ping-pong: 4-word request", "card of a daemon", "[1] node 1: done", "Done; nothing is left behind."} {
		if !strings.Contains(out, want) {
			t.Errorf("it did not print %q: %s", want, out)
		}
	}
	eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
}

// TestRunFromAClosedFolder: root's `funet run` hands programs over that the user cannot reach, and
// says so; what it cannot hand over it refuses in one line that says what to do.
func TestRunFromAClosedFolder(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	dir := closed(t)
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	put(t, env, filepath.Join(dir, "program"), 0o755)
	put(t, env, filepath.Join(dir, "secret"), 0o700)
	put(t, file(t, "#!/bin/sh\nid -u; pwd; echo \"$1\"; cat beside\n"), filepath.Join(dir, "script"), 0o755)
	put(t, file(t, "#!/bin/sh\n"), filepath.Join(dir, "unread"), 0o711)
	put(t, file(t, "only root's\n"), filepath.Join(dir, "beside"), 0o644)
	run := func(t *testing.T, program ...string) *process {
		cmd := exec.Command(command, append([]string{"run", "-n", "2", "--lab=" + s.name, "--user", "nobody", "--"},
			program...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		return start(t, cmd, nil)
	}
	const (
		handed  = " was handed over open: user nobody may not enter its folder\n"
		inRoot  = "funet: the program runs in /: user nobody may not enter this folder\n"
		asOther = "cannot start the program "
	)
	for _, c := range []struct {
		program   []string
		code      int
		out, says []string
		any       string // what one of the nodes prints: the first that fails ends the other
		notes     int    // lines of the launcher's own
	}{
		{program: []string{"./program", "echo", "done"}, out: []string{"[0] done\n", "[1] done\n"},
			says: []string{handed, inRoot}, notes: 2},
		{program: []string{filepath.Join(dir, "program"), "echo", "done"}, out: []string{"[0] done\n"},
			says: []string{handed}, notes: 2},
		{program: []string{"program", "echo", "done"}, out: []string{"[0] done\n"}, says: []string{handed}, notes: 2},
		{program: []string{"./script", "word"}, code: 1, any: "65534\n/\nword\n",
			says: []string{handed, "beside: No such file"}, notes: 3},
		{program: []string{"id", "-u"}, out: []string{"[0] 65534\n"}, says: []string{inRoot}, notes: 1},
		{program: []string{"funet", "profile", "list"}, out: []string{"[0] native"}, says: []string{inRoot}, notes: 1},
		{program: []string{"./secret", "true"}, code: 1,
			says: []string{asOther, "as user nobody: permission denied", "chmod a+rx"}, notes: 1},
		{program: []string{"./unread"}, code: 1, says: []string{asOther, "permission denied", "chmod a+rx"}, notes: 1},
		{program: []string{"./absent"}, code: 1, says: []string{asOther, "no such file", "give the path of a program"},
			notes: 1},
	} {
		t.Run(c.program[0], func(t *testing.T) {
			p := run(t, c.program...)
			if code := p.wait(); code != c.code && (c.code == 0 || code == 0) {
				t.Errorf("exit code %d; it said %q", code, p.stderr.String())
			}
			for _, want := range c.out {
				if !strings.Contains(p.stdout.String(), want) {
					t.Errorf("it did not print %q: %q", want, p.stdout.String())
				}
			}
			var printed [2]string
			for line := range strings.Lines(p.stdout.String()) {
				for n := range printed {
					if rest, ok := strings.CutPrefix(line, fmt.Sprintf("[%d] ", n)); ok {
						printed[n] += rest
					}
				}
			}
			if !strings.Contains(printed[0], c.any) && !strings.Contains(printed[1], c.any) {
				t.Errorf("neither node printed %q: %q", c.any, printed)
			}
			for _, want := range c.says {
				if !strings.Contains(p.stderr.String(), want) {
					t.Errorf("it did not say %q: %q", want, p.stderr.String())
				}
			}
			if n := strings.Count("\n"+p.stderr.String(), "\nfunet: "); n != c.notes {
				t.Errorf("the launcher said %d lines, want %d: %q", n, c.notes, p.stderr.String())
			}
		})
	}
	s.free()
}

// TestRunIsNoDeputy: an ordinary user's `funet run` starts and opens with that user's rights, also
// where a daemon that is root's serves it: what he may not reach he does not reach through it.
func TestRunIsNoDeputy(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	dir := closed(t)
	program := filepath.Join(dir, "program")
	put(t, file(t, "#!/bin/sh\necho it runs\n"), program, 0o755)
	for _, name := range []string{program, "program"} {
		cmd := nobody(exec.Command(command, "run", "-n", "1", "--lab="+s.name, "--", name))
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		p := start(t, cmd, nil)
		if p.fails("cannot start the program"); p.stdout.Len() != 0 {
			t.Errorf("it printed %q", p.stdout.String())
		}
	}
	for _, args := range [][]string{{"--lab=" + s.name, "--user", "root"},
		{"--once", "--user", "root", "--socket", s.sockets[0]}} {
		cmd := nobody(exec.Command(command, append(append([]string{"run"}, args...), "--", program)...))
		start(t, cmd, nil).fails("only root starts programs as another user")
	}
	s.free()
}

// TestHandedOverCannotBeRead: the descriptor by which a program is handed over lets its process
// execute it, and neither read nor write what the program's mode does not allow.
func TestHandedOverCannotBeRead(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	dir := closed(t)
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "sh")
	put(t, shell, program, 0o711) // executed by everybody, read by nobody
	p := funet(t, "run", "-n", "1", "--lab="+s.name, "--user", "nobody", "--", program, "-c",
		"cat <&3; cat /proc/self/fd/3; cat "+program+"; echo x >/proc/self/fd/3; ls /proc/self/fd | tr '\\n' ' '")
	p.wait()
	if out := p.stdout.String(); strings.Contains(out, "ELF") || !strings.Contains(out, "[0] 0 1 2 3 ") {
		t.Errorf("it printed %.300q and said %q", out, p.stderr.String())
	}
	if text, err := os.ReadFile(program); err != nil || !strings.HasPrefix(string(text), "\x7fELF") {
		t.Errorf("the program was written: %v", err)
	}
}
