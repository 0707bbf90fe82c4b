package tests

// This file tests programs on modelled machines in real time: what they print. No figure is
// compared with a time, except that a modelled machine is slower than the host.

import (
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"testing"

	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/tests/long"
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
	long.Test(t)
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
				if row.Model <= 0 || row.Unit != "us" && row.Unit != "MB/s" || row.Diff == nil ||
					row.Fixed != (modelled && row.Name == "cmam_4") {
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

// TestCMAMBeside: with --beside each row has the same on two nodes in virtual time, and the
// differences are those of the figures; a profile that models nothing is refused.
func TestCMAMBeside(t *testing.T) {
	long.Test(t)
	type result struct {
		Rows []struct {
			Name    string  `json:"name"`
			Cycles  float64 `json:"cycles"`
			Virtual float64 `json:"virtual_cycles"`
			Diff    float64 `json:"diff_to_virtual_percent"`
		} `json:"rows"`
	}
	r := decode[result](t, funet(t, "cmam", "--lab", "2", "--profile", "sbus-arctic", "--rounds", "1", "--beside",
		"--xdp", "generic", "--json").ok())
	if len(r.Rows) != 52 {
		t.Errorf("%d rows", len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.Virtual <= 0 || math.Abs(100*(row.Cycles/row.Virtual-1)-row.Diff) > 1e-6 {
			t.Errorf("got %+v", row)
		}
	}
	funet(t, "cmam", "--lab", "2", "--beside", "--xdp", "generic").fails("--beside: profile native models no machine")
}

// TestMatMulModelled: on a modelled machine the product is that of the thesis's program, its time
// cannot be shorter than what computing takes there, and the speed-up stands beside that in virtual
// time; by columns natively there is none.
func TestMatMulModelled(t *testing.T) {
	long.Test(t)
	type result struct {
		Verified bool    `json:"verified"`
		Seconds  float64 `json:"seconds"`
		Columns  *struct {
			Extensions bool    `json:"extensions"`
			SpeedUp    float64 `json:"speed_up_to_peak"`
			Virtual    float64 `json:"virtual_speed_up_to_peak"`
		} `json:"columns"`
	}
	for _, plain := range []bool{false, true} {
		args := []string{"matmul", "--lab", "2", "--size", "32", "--xdp", "generic", "--json",
			fmt.Sprintf("--plain=%t", plain)}
		r := decode[result](t, funet(t, append(args, "--profile", "sbus-arctic")...).ok())
		const computing = 32 * 32 * 32 / 2 * 63 * 25e-9 // of each node, in seconds
		if !r.Verified || r.Columns == nil || r.Columns.Extensions == plain || r.Seconds < computing ||
			r.Columns.SpeedUp <= 0 || r.Columns.SpeedUp >= 2 ||
			r.Columns.Virtual <= 1 || r.Columns.Virtual >= 2 {
			t.Errorf("plain %t: %+v, %+v", plain, r, r.Columns)
		}
		r = decode[result](t, funet(t, append(args, "--columns")...).ok())
		if !r.Verified || r.Columns == nil || r.Columns.Extensions == plain || r.Columns.SpeedUp != 0 ||
			r.Columns.Virtual != 0 {
			t.Errorf("natively, plain %t: %+v, %+v", plain, r, r.Columns)
		}
	}
	funet(t, "matmul", "--lab", "2", "--size", "33", "--columns", "--xdp", "generic").fails("an even number")
}

// TestPingPongModelled: on a modelled machine a round trip takes no less than the model has
// it; 29 us is the paper's, where only the latency of the wire is uncertain.
func TestPingPongModelled(t *testing.T) {
	long.Test(t)
	type result struct {
		pingpong
		Profile string `json:"profile"`
		Host    *host  `json:"host"`
	}
	p := funet(t, "pingpong", "--lab", "2", "--exchanges", "500", "--warm-up", "100", "--xdp", "generic", "--profile",
		"sbus-arctic", "--json")
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
	long.Test(t)
	for _, args := range [][]string{
		{"matmul", "--size", "16"}, {"stream", "--messages", "2000"},
		{"transfer", "--bytes", "65536", "--block", "4096"}, {"flood", "--messages", "2000", "--stalls", "1"},
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

// TestRemoteWritesModelled: cards of modelled machines carry remote writes both ways in real time
// as in virtual time, of one packet and of many; a round trip of one takes no less than the buses
// of both machines do.
func TestRemoteWritesModelled(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t)
	ifaces := []string{interfaces(l, 0), interfaces(l, 1)}
	for do, bytes := range map[string]int{program.RatsTags: 16, program.RatsCalls: 16, program.RatsBulk: 4096} {
		t.Run(do, func(t *testing.T) {
			out := explicit(t, name, ifaces,
				append([]string{program.RatsProgram, "--xdp", "generic", "--profile", "sbus-arctic"},
					program.RatsOptions{Do: do, Bytes: bytes, Count: 200, WarmUp: 20}.Arguments()...)...)
			r := decode[struct {
				P50     float64 `json:"rtt_p50_us"`
				Profile string  `json:"profile"`
			}](t, out[0])
			const one, four, eight = 0.68, 0.92, 1.24 // us of a transaction of so many words
			const retrieval, delivery = four + eight + four, four + 2*eight + one
			if r.Profile != "sbus-arctic" || r.P50 < 2*(retrieval+delivery) {
				t.Errorf("node 0 printed %s", out[0])
			}
		})
	}
}

// TestHostTooSlow: a host whose processors have three other things each to do cannot keep a
// profile, and the program says so.
func TestHostTooSlow(t *testing.T) {
	long.Test(t)
	for range 3 * runtime.NumCPU() {
		start(t, exec.Command("sh", "-c", "while :; do :; done"), nil)
	}
	p := funet(t, "pingpong", "--lab", "2", "--exchanges", "3000", "--warm-up", "100", "--xdp", "generic", "--profile",
		"sbus-arctic", "--json")
	r := decode[struct {
		Host *host `json:"host"`
	}](t, p.ok())
	if r.Host.check(t); *r.Host.Kept {
		t.Errorf("the host kept the profile: late %v %%, largest %v us, still %v %%", *r.Host.Late,
			*r.Host.Largest, *r.Host.Still)
	}
}

// TestRatsModelled: with profile hamlyn a round trip of tagged writes takes in real time at least
// the time of both libraries and of the sending cards. The round trip in virtual time stands beside
// it, and is what the steps of HPL-95-86 add up to. A profile that models nothing has no virtual
// time. Programs of active messages are refused, as the paper has no times for them.
func TestRatsModelled(t *testing.T) {
	long.Test(t)
	type result struct {
		P50     float64  `json:"rtt_p50_us"`
		Virtual *float64 `json:"virtual_rtt_p50_us"`
		Diff    *float64 `json:"diff_to_virtual_percent"`
		Profile string   `json:"profile"`
		Host    *host    `json:"host"`
	}
	args := []string{"rats", "--lab", "2", "--count", "500", "--warm-up", "50", "--xdp", "generic", "--json"}
	r := decode[result](t, funet(t, append(args, "--profile", "hamlyn")...).ok())
	if r.Host.check(t); r.Profile != "hamlyn" || r.Virtual == nil || r.Diff == nil {
		t.Fatalf("got %+v", r)
	}
	// us: of table 1, of table 3, and of both there and back with the tag's bytes
	const software, sending, steps = 1.619, 2.225, 17.888
	if r.P50 < 2*(software+sending) || math.Abs(*r.Virtual/steps-1) > 0.01 ||
		math.Abs(100*(r.P50 / *r.Virtual - 1)-*r.Diff) > 1e-6 {
		t.Errorf("%v us, in virtual time %v, %v %%", r.P50, *r.Virtual, *r.Diff)
	}
	if r := decode[result](t, funet(t, args...).ok()); r.Virtual != nil || r.Host != nil || r.P50 <= 0 {
		t.Errorf("natively: %+v", r)
	}
	funet(t, "pingpong", "--lab", "2", "--xdp", "generic", "--profile", "hamlyn").fails("no times for active messages")
	funet(t, "rats", "--lab", "2", "--bytes", "57").fails("--bytes")
}
