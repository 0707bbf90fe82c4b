package main

// This file tests what help, --version and completion say.

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/tests/help"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/sim/chaos"
	"github.com/funet/funet/uspace/sim/scale"
	"github.com/funet/funet/uspace/topology"
)

// says runs funet without what main does, and returns what it printed.
func says(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	c := root()
	usage.Strict(c)
	c.SetOut(&out)
	c.SetArgs(args)
	if err := c.Execute(); err != nil {
		t.Errorf("funet %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// completes returns what a shell is told about the last word.
func completes(t *testing.T, args ...string) (words []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(says(t, append([]string{cobra.ShellCompRequestCmd}, args...)...)), "\n")
	for _, line := range slices.DeleteFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, ":") || strings.HasPrefix(l, "Completion ended")
	}) {
		word, _, _ := strings.Cut(line, "\t")
		words = append(words, word)
	}
	return words
}

// everyCommand calls f with every command that people see.
func everyCommand(c *cobra.Command, f func(*cobra.Command)) {
	if c.Hidden {
		return
	}
	f(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, f)
	}
}

// Rule: the help of every command has an example, whose commands are there with their flags, and
// says what Ctrl-C does.
func TestHelpOfEveryCommand(t *testing.T) {
	for _, lack := range help.Bare(root()) {
		t.Error(lack)
	}
	everyCommand(root(), func(c *cobra.Command) {
		help := says(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		if c.Example != "" && !strings.Contains(help, "Ctrl-C") && !c.HasSubCommands() {
			t.Errorf("the help of %s does not say what Ctrl-C does", c.CommandPath())
		}
		for line := range strings.Lines(help) {
			// of a page, which is left in one piece
			command := c.GroupID == usage.PagesGroup && strings.HasPrefix(line, "    ")
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > output.Width && !command {
				t.Errorf("the help of %s is wider than %d columns: %s", c.CommandPath(), output.Width, line)
			}
		}
		lines := commandLines(c.Example, "funet")
		if c.Example != "" && len(lines) == 0 {
			t.Errorf("the example of %s has no command: %q", c.CommandPath(), c.Example)
		}
		for _, words := range lines {
			if err := accepts(root(), words); err != nil {
				t.Errorf("the example of %s: funet %s: %v", c.CommandPath(), strings.Join(words, " "), err)
			}
		}
	})
	if help.Bare(&cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}) == nil {
		t.Error("this test takes anything")
	}
}

// Rule: --version is one line: program, version, compiler, machine.
func TestVersion(t *testing.T) {
	if out := says(t, "--version"); !regexp.MustCompile(`^funet \S.* \(go1\.\S+, linux/\w+\)\n$`).MatchString(out) {
		t.Errorf("%q", out)
	}
}

// Rule: a shell completes every value that is one of a few words; somebody has decided of each
// flag, and what is offered is taken.
func TestCompletionOfValues(t *testing.T) {
	for _, flag := range help.Undecided(root(), whole().Completed) {
		t.Errorf("%s: say in complete.go what its values are", flag)
	}
	for key := range whole().Completed {
		words := strings.Fields(key)
		flag := strings.HasPrefix(words[len(words)-1], "--")
		found := false
		everyCommand(root(), func(c *cobra.Command) {
			path := strings.Fields(c.CommandPath())[1:]
			switch {
			case !flag:
				found = found || slices.Equal(path, words)
			case len(words) == 1 || slices.Equal(path, words[:len(words)-1]):
				found = found || c.LocalFlags().Lookup(words[len(words)-1][2:]) != nil
			}
		})
		if !found {
			t.Errorf("complete.go knows %q, which there is not", key)
		}
	}
	if all := help.Undecided(root(), usage.Completed{}); len(all) < 40 {
		t.Errorf("without a table only %q are not decided on", all)
	}
	as := func(f func(string) error) func(*testing.T, []string) {
		return func(t *testing.T, words []string) {
			for _, w := range words {
				if err := f(w); err != nil {
					t.Errorf("it completes %q: %v", w, err)
				}
			}
		}
	}
	exactly := func(want ...string) func(*testing.T, []string) {
		return func(t *testing.T, words []string) {
			slices.Sort(words)
			if slices.Sort(want); !slices.Equal(words, want) {
				t.Errorf("it completes %q, want %q", words, want)
			}
		}
	}
	profile := as(func(w string) error { _, err := hwprofiles.Load(w); return err })
	for line, check := range map[string]func(*testing.T, []string){
		"pingpong --profile":  profile,
		"profile show":        profile,
		"profile set":         exactly(hwprofiles.Names()...),
		"pingpong --xdp":      as(func(w string) error { _, err := program.ParseAttach(w); return err }),
		"lab up --bind":       as(func(w string) error { _, err := program.ParseBind(w); return err }),
		"lab up --polling":    as(func(w string) error { _, err := config.ParsePolling(w); return err }),
		"pingpong --encap":    as(func(w string) error { _, err := cluster.ParseEncap(w); return err }),
		"sim chaos --faults":  as(func(w string) error { _, err := chaos.ParseFaults(w); return err }),
		"sim chaos --network": as(func(w string) error { _, err := chaos.ParseNetwork(w); return err }),
		"sim scale --network": exactly(topology.LargeKinds()...),
		"sim scale --pattern": exactly(scale.Patterns()...),
		"sim chaos --shape":   as(func(w string) error { _, err := chaos.ParseShape(w); return err }),
		"pingpong --topology": exactly("pair", "bridge", "mesh", "router", "hypercube", "fat-tree", "butterfly"),
		"lab up --hub":        exactly("hypercube", "fat-tree", "butterfly"),
		"sim matmul --figure": exactly("6.2", "6.3", "6.4", "6.5"),
		"flood --lab":         exactly("2", "3", "4", "5", "6", "7", "8"),
		"flood --card":        exactly("auto", "daemon", "direct", "embedded"),
		"run --card":          exactly("auto", "daemon", "direct"),
	} {
		t.Run(line, func(t *testing.T) {
			words := completes(t, append(strings.Fields(line), "")...)
			if len(words) < 2 {
				t.Fatalf("it completes %q", words)
			}
			check(t, words)
		})
	}
	if words := completes(t, "sim", "chaos", "--faults", "loss,"); slices.Contains(words, "loss,loss") ||
		!slices.Contains(words, "loss,dup") {
		t.Errorf("after a comma it completes %q", words)
	}
	if words := completes(t, "gid", "end", ""); len(words) != 0 {
		t.Errorf("for a group it completes %q", words)
	}
}

// Rule: labs that are up are completed wherever one is named, and none that is named already.
func TestCompletionOfLabs(t *testing.T) {
	name := "complete-" + strings.ToLower(t.Name()[len(t.Name())-4:])
	l, err := lab.Up(lab.Options{Name: name, Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Down(name); err != nil {
			t.Error(err)
		}
	})
	for _, line := range []string{"lab down", "lab peers", "lab exec --name", "run --lab"} {
		args := append(strings.Fields(line), "")
		if line == "run --lab" {
			args = []string{"run", "--lab="}
		}
		if words := completes(t, args...); !slices.Contains(words, name) {
			t.Errorf("%s completes %q, want %s among them", line, words, name)
		}
	}
	if words := completes(t, "lab", "down", name, ""); slices.Contains(words, name) {
		t.Errorf("it completes %s again", name)
	}
}
