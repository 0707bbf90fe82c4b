package tests

// This file tests what a person sees of a lab that is not as it should be, and what is left after
// one.

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/tests/long"
)

// TestLabDownEndsPrograms: `lab down` ends what `lab exec` has started in the lab, and the command
// says so.
func TestLabDownEndsPrograms(t *testing.T) {
	name := "t" + unique()
	funet(t, "lab", "up", name).ok()
	p := funet(t, "lab", "exec", "--name", name, "0", "--", "sh", "-c",
		"trap '' TERM; echo begun >&2; while :; do sleep 600; done")
	eventually(t, "the program runs", func() bool { return strings.Contains(p.stderr.String(), "begun") })
	funet(t, "lab", "down", name).ok()
	if code := p.wait(); code == 0 || !strings.Contains(p.stderr.String(), "signal: killed") {
		t.Errorf("lab exec: code %d, %s", code, p.stderr.String())
	}
	eventually(t, "nothing of it is left", func() bool { return len(marked(p.mark)) == 0 })
	noLab(t, name)
}

// TestLabWithoutDaemons: a lab that is up without daemons is refused, with the cure, and no other
// is made or taken in its place; so is a name that no lab has.
func TestLabWithoutDaemons(t *testing.T) {
	name, _ := namedLab(t)
	funet(t, "run", "--lab="+name, "--", "true").fails("lab "+name, "without daemons",
		fmt.Sprintf("funet lab down %s && funet lab up %s --daemons", name, name))
	funet(t, "run", "--lab=nosuch-"+name[:4], "--", "true").fails("no such lab")
}

// TestLabListDead: a lab with a daemon that was killed is not up, and the list names the daemon; a
// daemon that is only stopped has not died.
func TestLabListDead(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	line := func() string {
		for line := range strings.Lines(start(t, exec.Command(command, "lab", "list"), nil).ok()) {
			if strings.HasPrefix(line, s.name+" ") {
				return strings.Join(strings.Fields(line), " ")
			}
		}
		return ""
	}
	victim := daemonPID(t, s.sockets[1])
	if err := syscall.Kill(victim, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if got := line(); !strings.Contains(got, " up 2 pair 1500 2 ") {
		t.Errorf("with a daemon that is stopped: %q", got)
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its death is told", func() bool {
		return strings.Contains(line(), " degraded 2 pair 1500 1 of 2; died on 1 ")
	})
}
