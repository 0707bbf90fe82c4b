package daemon

// This file tests what the follower says when it cannot find out the state of an interface.

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// Rule: a look that finds out nothing says so in the log, once for each reason, and changes nothing
// else.
func TestBlindLooksAreSaid(t *testing.T) {
	var log []string
	f := &follower{d: &Daemon{cfg: Config{Logger: slog.New(sentences{func(line string) { log = append(log, line) }})}},
		handle: &netlink.Handle{}}
	name := strings.Repeat("x", 300) // which the kernel refuses to look for
	l := &link{configured: name, seen: seen{name: name}}
	for range 3 {
		if f.look(l) {
			t.Error("something changed")
		}
	}
	if len(log) != 1 || !strings.Contains(log[0], "how it is cannot be found out: ") {
		t.Errorf("the log: %q", log)
	}
}
