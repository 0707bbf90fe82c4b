package tests

// This file tests programs on modelled machines in real time: what they print. No figure is
// compared with a time, except that a modelled machine is slower than the host.

import (
	"os/exec"
	"runtime"
	"testing"
)

// host holds what a modelled program says about the hosts.
type host struct {
	Kept    *bool    `json:"kept"`
	Charges int64    `json:"charges"`
	Late    *float64 `json:"late_percent"`
	P99     *float64 `json:"lateness_p99_us"`
	Largest *float64 `json:"lateness_max_us"`
	Still   *float64 `json:"model_stood_still_percent"`
	Wire    float64  `json:"wire_one_way_us"`
}

// check fails the test unless all is there and can be.
func (h *host) check(t *testing.T) {
	t.Helper()
	switch {
	case h == nil:
		t.Fatal("nothing is said about the host")
	case h.Kept == nil || h.Late == nil || h.P99 == nil || h.Largest == nil || h.Still == nil:
		t.Fatalf("names are missing: %+v", h)
	case h.Charges <= 0 || *h.P99 > *h.Largest*1.02 || h.Wire <= 0:
		t.Errorf("%d charges, p99 lateness %v us of %v, a wire of %v us", h.Charges, *h.P99, *h.Largest, h.Wire)
	}
}

// cmam is the JSON document; the names are what scripts rely on.
type cmam struct {
	Profile string `json:"profile"`
	Rows    []struct {
		Name    string   `json:"name"`
		Measure string   `json:"measure"`
		Unit    string   `json:"unit"`
		Paper   float64  `json:"paper"`
		Model   float64  `json:"model"`
		Cycles  float64  `json:"cycles"`
		Diff    *float64 `json:"diff_percent"`
		Fixed   bool     `json:"calibrated"`
	} `json:"rows"`
	Mean    *float64 `json:"mean_abs_diff_percent"`
	Worst   *float64 `json:"worst_abs_diff_percent"`
	Host    *host    `json:"host"`
	XDPMode string   `json:"xdp_mode"`
}

// TestCMAMModelled: all rows of Table 6.1 but the barrier's, which is of 32 nodes, in real
// time on two hosts, and natively the same rows without the paper's figures.
func TestCMAMModelled(t *testing.T) {
	for profile, modelled := range map[string]bool{"sbus-arctic": true, "native": false} {
		t.Run(profile, func(t *testing.T) {
			p := funet(t, "cmam", "--lab", "2", "--profile", profile, "--rounds", "3", "--xdp", "generic", "--json")
			r := decode[cmam](t, p.ok())
			if r.Profile != profile || len(r.Rows) != 52 || r.Mean == nil || r.Worst == nil || r.XDPMode != "generic" {
				t.Fatalf("got %+v", r)
			}
			seen := map[string]bool{}
			for _, row := range r.Rows {
				if name := row.Name + " " + row.Measure; seen[name] || row.Name == "barrier" {
					t.Errorf("row %s: twice, or not of two nodes", name)
				} else {
					seen[name] = true
				}
				if row.Model <= 0 || row.Unit != "us" && row.Unit != "MB/s" || row.Diff == nil || row.Fixed != (modelled && row.Name == "cmam_4") {
					t.Errorf("got %+v", row)
				}
				if modelled != (row.Paper > 0) || modelled != (row.Cycles > 0) {
					t.Errorf("modelled %v: %+v", modelled, row)
				}
			}
			if modelled {
				r.Host.check(t)
			} else if r.Host != nil {
				t.Errorf("native: %+v", r.Host)
			}
			(&holdings{}).gone(t, p.mark)
		})
	}
}

// TestPingPongModelled: on a modelled machine a round trip takes no less than the model has
// it; 29 us is the paper's, where only the latency of the wire is uncertain.
func TestPingPongModelled(t *testing.T) {
	type result struct {
		pingpong
		Profile string `json:"profile"`
		Host    *host  `json:"host"`
	}
	p := funet(t, "pingpong", "--lab", "2", "--exchanges", "500", "--warm-up", "100", "--xdp", "generic", "--profile", "sbus-arctic", "--json")
	r := decode[result](t, p.ok())
	r.check(t, 500, "generic")
	if r.Host.check(t); r.Profile != "sbus-arctic" || *r.P50 < 20 {
		t.Errorf("profile %s, a round trip of %v us", r.Profile, *r.P50)
	}
	p = funet(t, "pingpong", "--lab", "2", "--exchanges", "500", "--warm-up", "100", "--xdp", "generic", "--json")
	if r := decode[result](t, p.ok()); r.Profile != "native" || r.Host != nil {
		t.Errorf("without a profile: %+v", r)
	}
}

// TestProgramsModelled: the other programs run on modelled machines too, and say so.
func TestProgramsModelled(t *testing.T) {
	for _, args := range [][]string{
		{"matmul", "--size", "16"}, {"stream", "--messages", "2000"}, {"transfer", "--bytes", "65536", "--block", "4096"}, {"flood", "--messages", "2000", "--stalls", "1"},
	} {
		t.Run(args[0], func(t *testing.T) {
			p := funet(t, append(args, "--lab", "2", "--xdp", "generic", "--profile", "sbus-arctic", "--json")...)
			type said struct {
				Profile string `json:"profile"`
				Host    *host  `json:"host"`
				Nodes   any    `json:"nodes"`
			}
			r := decode[said](t, p.ok())
			if args[0] == "flood" { // which says it of each node
				r = decode[struct {
					Nodes []said `json:"nodes"`
				}](t, p.stdout.String()).Nodes[1]
			}
			if r.Host.check(t); r.Profile != "sbus-arctic" {
				t.Errorf("profile %q", r.Profile)
			}
		})
	}
}

// TestHostTooSlow: a host whose processors have three other things each to do cannot keep a
// profile, and the program says so.
func TestHostTooSlow(t *testing.T) {
	for range 3 * runtime.NumCPU() {
		start(t, exec.Command("sh", "-c", "while :; do :; done"), nil)
	}
	p := funet(t, "pingpong", "--lab", "2", "--exchanges", "3000", "--warm-up", "100", "--xdp", "generic", "--profile", "sbus-arctic", "--json")
	r := decode[struct {
		Host *host `json:"host"`
	}](t, p.ok())
	if r.Host.check(t); *r.Host.Kept {
		t.Errorf("the host kept the profile: late %v %%, largest %v us, still %v %%", *r.Host.Late, *r.Host.Largest, *r.Host.Still)
	}
}
