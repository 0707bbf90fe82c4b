package tests

// This file tests what lies between the launcher and the processes: logins that print, texts that
// are not UTF-8, an agent that is the user's, and processes that leave whoever started them.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/tests/long"
)

// TestRunBytes: programs, arguments and variables reach a node byte for byte, also where the bytes
// are no UTF-8, on this machine and behind ssh, and so does the name in an error.
func TestRunBytes(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	const name = "caf\xe9 \xff\xc3\x28"
	program := filepath.Join(filepath.Dir(file(t, "")), name)
	put(t, file(t, "#!/bin/sh\nprintf '%s|%s|%s' \"$0\" \"$1\" \"$V\"\n"), program, 0o755)
	args := []string{"-n", "1", "--label=false", "--env", "V=" + name, "--", program, name}
	hosts := s.behindSSH(t)
	for where, p := range map[string]*process{
		"here":       s.run(args...),
		"behind ssh": hosts("", append([]string{"--hosts", "host-0"}, args...)...),
	} {
		if out, want := p.ok(), program+"|"+name+"|"+name; out != want {
			t.Errorf("%s it printed %q, want %q", where, out, want)
		}
	}
	p := hosts("", "-n", "1", "--hosts", "host-0", "--", program+"x")
	if p.wait(); !strings.Contains(p.stderr.String(), program+"x") {
		t.Errorf("it said %q", p.stderr.String())
	}
	s.free()
}

// TestRunLogin: what a login prints before the agent speaks is no word of the agent. A host whose
// agent never speaks says what its login printed.
func TestRunLogin(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	const ssh = `exec sh -c "$*"`
	for _, before := range []string{
		`echo "Loading modules for $host"`, `printf hello`, `echo`, `echo "{}"; echo "{\"answer\":{}}"`,
		`printf '\033]0;%s\007' $host`,
		`echo "** WARNING: connection is not using a post-quantum key exchange algorithm." >&2`,
		`yes | head -c 1000000`, `exec 2>&1; echo all in one`,
	} {
		t.Run(before, func(t *testing.T) {
			if out := s.behindLogin(t, before, ssh)("", "-n", "2", "--label=false", "--hosts", "host-0,host-1", "--",
				"echo", "ran").ok(); out != "ran\nran\n" {
				t.Errorf("it printed %q", out)
			}
		})
	}
	for before, says := range map[string]string{
		`echo "This account is currently not available."; exit 1`: `"This account is currently not available."`,
		`yes | head -c 2000000`:                                   "it printed more than 1048576 bytes before its agent spoke",
		`yes | tr -d '\n' | head -c 3000000; echo`:                "it printed more than 1048576 bytes before its agent spoke",
		`echo "Permission denied." >&2; exit 255`:                 "Permission denied.",
		`echo Welcome; echo "No space." >&2; exit 25`:             "No space.",
	} {
		t.Run(before, func(t *testing.T) {
			s.behindLogin(t, before, ssh)("", "-n", "1", "--hosts", "host-0", "--", "true").fails("host host-0: ", says)
		})
	}
	s.free()
}

// TestRunWrapper: a program that stays between launcher and agent, and has their streams open,
// keeps no job from ending: neither when all is well, nor when the agent is killed, nor when its
// words make no sense. The reason of the agent's end is not what was said before it spoke.
func TestRunWrapper(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	const warning = `echo "Warning: Permanently added host to the list of known hosts." >&2`
	// has standard output and error open after the agent's end
	const kept = `sh -c "$*"; code=$?; sleep 600; exit $code`
	hosts := s.behindLogin(t, warning, kept)
	if out := hosts("", "-n", "2", "--label=false", "--hosts", "host-0,host-1", "--", "echo", "ran").ok(); out !=
		"ran\nran\n" {
		t.Errorf("it printed %q", out)
	}
	for _, runs := range []string{kept, `sh -c "$*"; exit 3`, `sleep 600 & exec sh -c "$*"`} {
		hosts := s.behindLogin(t, warning, runs)
		p := hosts("", "-n", "2", "--host-timeout", "2s", "--hosts", "host-0,host-1", "--", "sh", "-c",
			"[ $FUNET_NODE = 1 ] || exec sleep 600; kill -9 $PPID; exec sleep 600")
		if code, said := p.wait(), p.stderr.String(); code != 255 ||
			!strings.Contains(said, "funet: node 1 with host host-1: ") || strings.Contains(said, "Permanently") {
			t.Errorf("%s: exit code %d; it said %q", runs, code, said)
		}
	}
	// An agent of another version, whose words are no words.
	hosts = s.behindLogin(t, warning, `sed -un 's/.*"mark":"\([^"]*\)".*/funet agent \1 speaks\nwhat/p'; sleep 600`)
	hosts("", "-n", "1", "--hosts", "host-0", "--host-timeout", "0", "--",
		"true").fails("run the same version of FUNet on all hosts")
	s.free()
}

// TestRunLeavesNobody: whatever a node starts ends with the job, however the job ends, also if it
// has a session of its own and its starter has ended.
func TestRunLeavesNobody(t *testing.T) {
	s := daemons(t)
	hosts := s.behindSSH(t)
	const strays = "(setsid sh -c 'setsid sleep 600 & exec sleep 600' &); "
	for name, begin := range map[string]func(script string) *process{
		"nobody's": func(script string) *process { return s.run("-n", "2", "--", "sh", "-c", script) },
		"root's": func(script string) *process {
			return funet(t, "run", "-n", "2", "--lab="+s.name, "--user", "nobody", "--", "sh", "-c", script)
		},
		"behind ssh": func(script string) *process {
			return hosts("", "-n", "2", "--hosts", "host-0,host-1", "--", "sh", "-c", script)
		},
	} {
		for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, 0} {
			script := strays + "exec sleep 600"
			if how == 0 {
				script = strays + "exit 0"
			}
			p := begin(script)
			if how != 0 {
				eventually(t, "all sleep", func() bool { return sleepers(p.mark) == 2*3 })
				p.signal(how)
			}
			p.wait()
			eventually(t, fmt.Sprintf("nothing is left of %s job after signal %d", name, how), func() bool {
				return len(marked(p.mark)) == 0
			})
		}
	}
	s.free()
}

// TestRunCannotKillTheLauncher: a program that root starts as an ordinary user has no permission to
// signal root's launcher, by the number of any of its threads, nor to change its limits.
func TestRunCannotKillTheLauncher(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	word := filepath.Join(filepath.Dir(file(t, "")), "word")
	run := exec.Command(command, "run", "-n", "1", "--label=false", "--lab="+s.name, "--user", "nobody",
		"--", "sh", "-c",
		"until [ -s "+word+" ]; do sleep 0.01; done; for t in $(ls /proc/$(cat "+word+
			")/task); do prlimit -p $t --nofile=10 2>/dev/null && echo limited; kill -9 $t 2>/dev/null && echo killed; done; echo tried")
	run.Dir = "/" // nobody may not enter every folder that this one may be in
	p := start(t, run, nil)
	if err := os.WriteFile(word+".new", []byte(strconv.Itoa(p.cmd.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(word+".new", word); err != nil {
		t.Fatal(err)
	}
	if out := p.ok(); out != "tried\n" {
		t.Errorf("it printed %q", out)
	}
	s.free()
}

// TestRunEndedUnattached: the launcher names a node that ended well before it attached while
// another is attached, and says nothing of programs that never attach.
func TestRunEndedUnattached(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := daemons(t)
	p := s.run("-n", "2", "--", "sh", "-c", "[ $FUNET_NODE = 1 ] && exit; exec "+command+" pingpong --wait 10s")
	if p.wait(); !strings.Contains(p.stderr.String(), "funet: nodes [1] ended with exit code 0 before they attached") {
		t.Errorf("it said %q", p.stderr.String())
	}
	if p := s.run("-n", "2", "--", "sh", "-c", "[ $FUNET_NODE = 1 ] && exit; exec sleep 4"); p.wait() != 0 ||
		p.stderr.Len() != 0 {
		t.Errorf("it said %q", p.stderr.String())
	}
	s.free()
}

// TestLabListForAll: an ordinary user finds the labs, and lab down ends the nodes of jobs on the
// lab's daemons.
func TestLabListForAll(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	if out := start(t, nobody(exec.Command(command, "lab", "list")), nil).ok(); !strings.Contains(out,
		"\n"+s.name+" ") {
		t.Errorf("it printed %q", out)
	}
	if out := start(t, nobody(exec.Command(command, "lab", "peers", s.name)), nil).ok(); out !=
		funet(t, "lab", "peers", s.name).ok() {
		t.Errorf("it printed %q", out)
	}
	start(t, nobody(exec.Command(command, "lab", "exec", "--name", s.name, "0", "--", "true")),
		nil).fails("not permitted", "namespace")
	p := s.run("-n", "2", "--", "sh", "-c", "setsid sleep 600 & exec sleep 600")
	eventually(t, "all sleep", func() bool { return sleepers(p.mark) == 4 })
	funet(t, "lab", "down", s.name).ok()
	if n := sleepers(p.mark); n != 0 {
		t.Errorf("%d processes of the job are left", n)
	}
	p.wait()
}

// TestRunFewFiles: where the limit of open files is too low, the error says so and names the limit.
func TestRunFewFiles(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	start(t, nobody(exec.Command("sh", "-c", "ulimit -n 12; exec "+command+" run -n 2 --lab="+s.name+" -- true")),
		nil).fails("too many open files", "ulimit -n")
}
