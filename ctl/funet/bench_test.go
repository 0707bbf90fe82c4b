package main

// This file tests the command line of `funet bench`, with real nodes where it is quick.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/tests/long"
)

// What makes no sense is refused before a lab is made, with a word on what does.
func TestBenchRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"xfer --mtu 1500,big", "--help"},
		{"xfer --mtu ", "--help"},
		{"xfer --mtu 1500,,9000", "--help"},
		{"xfer --mtu 1e4", "--help"},
		{"xfer --mtu 100", "MTU 100; use "},
		{"xfer --mtu -1500", "MTU -1500; use "},
		{"xfer --mtu 1500,65536", "MTU 65536; use "},
		{"xfer --mtu 1500,9000,1500", "MTU 1500 twice"},
		{"xfer --lab 3", "--lab 3: use 2"},
		{"xfer --rounds 0", "--rounds 0: use 1 to 1000"},
		{"xfer --rounds 1001", "use 1 to 1000"},
		{"xfer --seconds 0", "use 1 to 60"},
		{"xfer --seconds 61", "use 1 to 60"},
		{"xfer --block 0", "use 16 to 67108864"},
		{"xfer --block 100", "multiple of 16"},
		{"xfer --depth 0", "use 1 to 256"},
		{"xfer --depth 257", "use 1 to 256"},
		{"xfer more", "--help"},
		{"rate --lab 3", "--lab 3: use 2"},
		{"rate --rounds 0", "use 1 to 1000"},
		{"rate --messages 1", "use 100000 to"},
		{"incast --lab 2", "use 3 to 8"},
		{"incast --lab 9", "use 3 to 8"},
		{"incast --rounds 1001", "use 1 to 1000"},
		{"incast --messages 1", "use 10000 to"},
		{"matmul --lab 1", "use 2 to 8"},
		{"matmul --lab 9", "use 2 to 8"},
		{"matmul --rounds 0", "use 1 to 1000"},
		{"matmul --size 15", "--size 15: use 16 to 4096"},
		{"matmul --size 4097", "use 16 to 4096"},
		{"matmul --size big", "--help"},
		{"matmul more", "--help"},
		{"rats --lab 3", "--lab 3: use 2"},
		{"rats --rounds 0", "use 1 to 1000"},
		{"rats --exchanges 0", "use 1 to 10000000"},
		{"rma --lab 3", "--lab 3: use 2"},
		{"rma --rounds 0", "use 1 to 1000"},
		{"rma --exchanges 0", "use 1 to 10000000"},
		{"reject --lab 3", "--lab 3: use 2"},
		{"reject --rounds 0", "use 1 to 1000"},
		{"reject --exchanges 0", "use 1 to 10000000"},
		{"reject more", "--help"},
		{"socket --lab 3", "--lab 3: use 2"},
		{"socket --rounds 0", "use 1 to 1000"},
		{"socket --exchanges 0", "use 1 to 10000000"},
		{"socket --connections 9", "use 10 to 10000"},
		{"socket --megabytes 0", "use 1 to 65536"},
		{"peers --lab 3", "--lab 3: use 2"},
		{"peers --rounds 0", "use 1 to 1000"},
		{"peers --exchanges 0", "use 1 to 10000000"},
	} {
		cmd := root()
		cmd.SetArgs(append([]string{"bench"}, strings.Split(c.args, " ")...))
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want an error with %q", c.args, err, c.want)
		}
	}
}

// lostFrame is what raw AF_XDP says of a lost frame, which it does not send again. A processor's
// backlog of frames is that of all namespaces: it overflows by what others send.
var lostFrame = regexp.MustCompile(`frame \d+ came instead of|was one lost`)

// A short comparison with real nodes: the names that scripts read, and blocks that arrived. iperf3
// may be absent.
func TestBenchXfer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	var complaint bytes.Buffer
	for tries := 0; tries == 0 || err != nil && tries < 5 && lostFrame.Match(complaint.Bytes()); tries++ {
		complaint.Reset()
		cmd := exec.CommandContext(t.Context(), self, "bench", "xfer", "--lab", "2", "--mtu", "1500",
			"--rounds", "1", "--json")
		cmd.Stderr = &complaint
		out, err = cmd.Output()
	}
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.String())
	}
	var r struct {
		Runs []map[string]any `json:"runs"`
	}
	if err := json.Unmarshal(out, &r); err != nil || len(r.Runs) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	run := r.Runs[0]
	if run["mtu"] != 1500.0 || !(run["gbit_per_s"].(float64) > 0) || !(run["raw_afxdp_gbit_per_s"].(float64) > 0) ||
		!(run["ratio_to_raw_afxdp"].(float64) > 0) {
		t.Errorf("%v", run)
	}
	iperf3, measured := run["iperf3_gbit_per_s"].(float64)
	ratio, compared := run["ratio"].(float64)
	_, missing := exec.LookPath("iperf3")
	if measured != (missing == nil) || compared != measured || measured && !(iperf3 > 0 && ratio > 0) {
		t.Errorf("%v", run)
	}
}

// A short comparison with real nodes: the names that scripts read.
func TestBenchSocket(t *testing.T) {
	long.Test(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "bench", "socket", "--rounds", "1", "--exchanges", "500",
		"--connections", "20", "--megabytes", "8", "--json")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.String())
	}
	var r map[string]any
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"rtt_ratio_to_tcp", "beside_bulk_ratio_to_tcp", "bulk_ratio_to_xfer",
		"bulk_ratio_to_tcp", "jain_64", "tcp_jain_64", "conns_per_s_ratio", "datagrams_ratio", "rtt_p50_us",
		"xfer_gbit_per_s"} {
		if v, _ := r[name].(float64); !(v > 0) {
			t.Errorf("%s is %v", name, r[name])
		}
	}
	if v, _ := r["jain_64"].(float64); v > 1.000001 {
		t.Errorf("Jain's index is %v", v)
	}
}

// A short comparison with real nodes: the names that scripts read.
func TestBenchRats(t *testing.T) {
	long.Test(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "bench", "rats", "--rounds", "1", "--exchanges", "500", "--json")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.String())
	}
	var r map[string]any
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"tagged_ratio_to_am", "call_ratio_to_am", "bulk16k_ratio_to_xfer",
		"tagged_rtt_p50_us", "call_p50_us", "am_rtt_p50_us", "bulk16k_p50_us", "xfer16k_us"} {
		if v, _ := r[name].(float64); !(v > 0) {
			t.Errorf("%s is %v", name, r[name])
		}
	}
}

// A short comparison with real nodes, whose memory is checked: the names that scripts read. UCX may
// be absent, which is said.
func TestBenchRMA(t *testing.T) {
	long.Test(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "bench", "rma", "--rounds", "1", "--exchanges", "500", "--json")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.String())
	}
	var r map[string]any
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"pingpong_p50_us", "put_1m_gbit_per_s", "xfer_1m_gbit_per_s", "put_1m_ratio_to_xfer",
		"get_1m_gbit_per_s", "get_1m_ratio_to_xfer", "put8_per_s", "msgs_per_s", "put8_ratio_to_rate"} {
		if v, _ := r[name].(float64); !(v > 0) {
			t.Errorf("%s is %v", name, r[name])
		}
	}
	ops, _ := r["ops"].([]any)
	if len(ops) != 5 {
		t.Fatalf("operations %v", r["ops"])
	}
	for i, name := range []string{"put", "put_notify", "get", "add", "swap"} {
		op, _ := ops[i].(map[string]any)
		p50, _ := op["p50_us"].(float64)
		ratio, _ := op["ratio_to_pingpong"].(float64)
		if op["op"] != name || !(p50 > 0) || !(ratio > 0) {
			t.Errorf("operation %v", op)
		}
	}
	if ucx, _ := ops[0].(map[string]any)["ratio_to_ucx"].(float64); !(ucx > 0) && r["ucx_note"] == nil {
		t.Errorf("neither UCX nor why: %s", out)
	}
}

// Only node 0 verifies a product, so no other works alone.
func TestAloneRefuses(t *testing.T) {
	cmd := root()
	cmd.SetArgs(strings.Split("matmul --alone --iface fu0 --node 1 --peers peers.yaml", " "))
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "only node 0 works alone") {
		t.Error(err)
	}
}

// A short comparison with real nodes, on all hosts and on one: the names that scripts read. OpenMPI
// may be absent, which is said.
func TestBenchMatmul(t *testing.T) {
	long.Test(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "bench", "matmul", "--size", "64", "--rounds", "1", "--json")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.String())
	}
	var r map[string]any
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names := []string{"funet_seconds", "funet_single_seconds", "funet_utilisation"}
	theirs := []string{"openmpi_seconds", "openmpi_single_seconds", "openmpi_utilisation", "ratio"}
	if r["openmpi_present"] == true {
		names = append(names, theirs...)
	} else if note, _ := r["openmpi_note"].(string); !strings.Contains(note, "install ") ||
		r["openmpi_seconds"] != nil {
		t.Errorf("%v", r)
	}
	for _, name := range names {
		if v, _ := r[name].(float64); !(v > 0) {
			t.Errorf("%s is %v", name, r[name])
		}
	}
	if r["size"] != 64.0 || r["nodes"] != 2.0 || r["rounds"] != 1.0 {
		t.Errorf("%v", r)
	}
}

// Rule: without the program of a command, funet says in one line where it looked and what to do.
// Help of all commands and completions need no program.
func TestPartIsMissing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(filepath.Dir(self), t.Name(), "funet")
	if err := errors.Join(os.Mkdir(filepath.Dir(alone), 0o755), os.Link(self, alone)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(alone))
	for line, want := range map[string]string{
		"bench peers": "", "bench": "", "help bench": "", "bench --help": "", "__complete bench x": "",
		"--help": "Measure FUNet beside", "__complete be": "bench\tMeasure FUNet",
	} {
		cmd := exec.Command(alone, strings.Fields(line)...)
		cmd.Env = []string{"PATH=" + t.TempDir()}
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if want == "" {
			const says = "funet: running funet bench: funet-bench is not beside %s and not on PATH; install it (make install) or build it (make)\n"
			if complaint.String() != fmt.Sprintf(says, alone) || cmd.ProcessState.ExitCode() != 1 || len(out) > 0 {
				t.Errorf("%s: %v, %q, %q", line, err, out, complaint.String())
			}
		} else if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %q, want %q", line, err, out, want)
		}
	}
}

// Rule: the program of a command runs in funet's process, and its exit code and signals are its
// own.
func TestPartIsThisProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), command.Bench.Program)
	script := "#!/bin/sh\necho $$ \"$@\"; kill -TERM $$; sleep 9\n"
	if err := os.WriteFile(other, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(filepath.Dir(other), "funet")
	text, err := os.ReadFile(self)
	if err := errors.Join(err, os.WriteFile(alone, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(alone, "bench", "peers", "a b")
	cmd.Stdout = &out
	err = cmd.Run()
	if err == nil || err.Error() != "signal: terminated" || out.String() != fmt.Sprintln(cmd.Process.Pid, "bench peers a b") {
		t.Errorf("%v, %q, process %d", err, out.String(), cmd.Process.Pid)
	}
}
