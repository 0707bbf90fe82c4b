package tests

// This file tests a process that is thousands of nodes on one daemon's card.

import (
	"encoding/json"
	"testing"
)

// TestThousandsOfContexts: one process attaches 4,096 contexts through one daemon, behind four
// connections, within a minute, as it ends them. Every port's triggers are answered, and what they
// issue arrives (issue 36). A quiet context takes at most 16 KiB of the daemon beside what it
// shares. Names of figures stay.
func TestThousandsOfContexts(t *testing.T) {
	out := funet(t, "bench", "contexts", "--daemon", "--contexts", "4096", "--rounds", "2", "--json").ok()
	var f struct {
		Contexts    int     `json:"contexts"`
		Connections int     `json:"connections"`
		Verified    int     `json:"ports_verified"`
		Messages    int     `json:"messages_verified"`
		Rate        float64 `json:"messages_per_s"`
		Attach      float64 `json:"attach_s"`
		End         float64 `json:"end_s"`
		Shared      float64 `json:"shared_bytes_per_context"`
		Daemon      float64 `json:"daemon_bytes_per_context"`
	}
	if err := json.Unmarshal([]byte(out), &f); err != nil {
		t.Fatal(err)
	}
	if f.Contexts != 4096 || f.Connections != 4 || f.Verified != 4096 || f.Messages != 2*4096 || f.Rate <= 0 ||
		f.Attach <= 0 || f.Attach > 60 || f.End <= 0 || f.End > 60 || f.Shared != 8192 || f.Daemon > 16<<10 {
		t.Errorf("%+v", f)
	}
}
