package tests

// This file does what the manual says in its commands about labs and about moving a process to
// another card.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// lines returns the command lines of a page of the manual, without their comments, for a lab of
// another name, and a folder to run them in.
func lines(t *testing.T, page string) (commands []string, folder string) {
	t.Helper()
	text, err := os.ReadFile("../ctl/manual/" + page + ".md")
	if err != nil {
		t.Fatal(err)
	}
	name := "t" + unique()
	t.Cleanup(func() { // the last resort of a test that fails
		_ = lab.Down(name)
	})
	for line := range strings.Lines(string(text)) {
		words, ok := strings.CutPrefix(line, "    ")
		words, _, _ = strings.Cut(words, " #")
		words = strings.TrimSpace(words)
		if !ok || words == "" || strings.HasPrefix(words, "#") {
			continue
		}
		to := strings.NewReplacer("lab up", "lab up "+name, "lab down", "lab down "+name, "--lab -", "--lab="+name+" -",
			"status --lab", "status --lab="+name,
			"lab-lab", "lab-"+name, "lab peers", "lab peers "+name, "lab exec", "lab exec --name "+name)
		commands = append(commands, to.Replace(words))
	}
	bin := filepath.Join(filepath.Dir(file(t, "")), "bin")
	if err := os.Symlink(filepath.Dir(command), bin); err != nil {
		t.Fatal(err)
	}
	return commands, filepath.Dir(bin)
}

// TestLabsAsInTheManual: the commands of the page about labs, in its order. One that ends with "&"
// goes on beside the others, and ends by itself.
func TestLabsAsInTheManual(t *testing.T) {
	long.Test(t)
	commands, folder := lines(t, "labs")
	ran := 0
	var beside []*process
	for _, line := range commands {
		if !strings.HasPrefix(line, "bin/funet ") {
			continue
		}
		ran++
		line, goesOn := strings.CutSuffix(line, "&")
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = folder
		p := start(t, cmd, nil)
		if goesOn {
			beside = append(beside, p)
			continue
		}
		if out := p.ok(); strings.Contains(line, "lab list") && !strings.Contains(out, "t") {
			t.Errorf("%s: %q", line, out)
		}
	}
	for _, p := range beside {
		p.ok()
	}
	if ran < 10 {
		t.Errorf("this test finds only %d commands: %q", ran, commands)
	}
}

// TestMoveAsInTheManual: the commands of the manual move a process of a job to another card, and
// the job, which verifies each exchange, goes on.
func TestMoveAsInTheManual(t *testing.T) {
	long.Test(t)
	commands, folder := lines(t, "moving")
	socket := ""
	shell := func(line string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", socket+line)
		cmd.Dir = folder
		return cmd
	}
	take := func(begins string) string {
		t.Helper()
		for i, line := range commands {
			if strings.HasPrefix(line, begins) {
				commands = append(commands[:i:i], commands[i+1:]...)
				return line
			}
		}
		t.Fatalf("the page has no %q: %q", begins, commands)
		return ""
	}
	does := func(line string) string {
		t.Helper()
		return start(t, shell(line), nil).ok()
	}
	does(take("bin/funet lab up"))
	running := take("bin/funet run")
	job := start(t, shell("exec "+strings.Replace(strings.TrimSuffix(running, "&"), "1000000", "100000", 1)), nil)
	socket = take("S=") + "; "
	here, move, there := take("bin/funet context list"), take("bin/funet context move"), take("bin/funet context list")
	eventually(t, "the node is there", func() bool {
		out, _ := shell(here).CombinedOutput()
		return strings.Contains(string(out), "on the card")
	})
	if out := does(take("bin/funet status")); !strings.Contains(out, "/host-1.sock") {
		t.Errorf("the status does not say where the daemons listen: %s", out)
	}
	if out := does(move); out != "node 1 of group 1 is on card 2 now\n" {
		t.Errorf("it printed %q", out)
	}
	if out := does(here); strings.Contains(out, "on the card") {
		t.Errorf("where it was there is still: %s", out)
	}
	if out := does(there); strings.Count(out, "on the card") != 2 {
		t.Errorf("where it is there are: %s", out)
	}
	// What the table says of refusals.
	start(t, shell(strings.Replace(move, "move 0", "move 77", 1)), nil).fails("no context 77")
	start(t, shell("bin/funet context move 0 --socket $S/host-0.sock --to $S/host-0.sock"), nil).fails("in use already")
	if out := job.ok(); !strings.Contains(out, "100000 exchanges, every one verified") {
		t.Errorf("the job printed %s", out)
	}
	does(take("bin/funet lab down"))
	if len(commands) > 0 {
		t.Errorf("nobody has tried %q", commands)
	}
}
