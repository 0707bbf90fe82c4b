package tests

// This file tests `funet trace`.

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/tests/long"
)

// traceTable has the fields of a table that the tests read.
type traceTable struct {
	Records int            `json:"records"`
	Ends    map[string]int `json:"ends"`
	Aligned bool           `json:"clocks_aligned"`
	Both    int            `json:"packets_at_both_ends"`
	Stages  []struct {
		Stage string `json:"stage"`
		P50   int64  `json:"p50_ns"`
		Max   int64  `json:"max_ns"`
	} `json:"stages"`
}

// stages are the names of a table's, but for the one that is there when a frame was lost or
// rejected.
func (r *traceTable) stages() (names string) {
	for _, s := range r.Stages {
		if s.Stage != "retry" {
			names += s.Stage + " "
		}
	}
	return names
}

// TestTraceOfAJob: an ordinary user traces his job on two hosts, and puts both together: the
// packets that arrived are those that were sent, and the files are JSON with slices and arrows.
func TestTraceOfAJob(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	job := s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "1000000000")
	eventually(t, "both nodes are attached", func() bool { return s.attached() >= 2 })
	dir, err := os.MkdirTemp("", "funet-trace")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	var both []*process
	var files []string
	for host, socket := range s.sockets {
		files = append(files, filepath.Join(dir, []string{"here.json", "there.json"}[host]))
		both = append(both,
			start(t, nobody(exec.Command(command, "trace", "--every", "10", "--duration", "2s", "--json", "--socket",
				socket, files[host])), nil))
	}
	for _, p := range both {
		if code := p.wait(); code != 0 || !strings.HasPrefix(p.stderr.String(), "tracing one packet of 10 of card ") {
			t.Fatalf("exit code %d: %s", code, p.stderr.String())
		}
		r := decode[traceTable](t, p.stdout.String())
		if r.Ends["acknowledged"] == 0 || r.Ends["delivered"] == 0 || r.stages() != "queue dispatch port answer all " {
			t.Errorf("%s", p.stdout.String())
		}
	}
	merged := filepath.Join(dir, "both.json")
	r := decode[traceTable](t,
		start(t, nobody(exec.Command(command, "trace", "--json", "--merge", strings.Join(files, ","), merged)),
			nil).ok())
	if !r.Aligned || r.Both < r.Records/4 || r.stages() != "queue dispatch port answer all wire back " {
		t.Errorf("%+v", r)
	}
	text := start(t, nobody(exec.Command(command, "trace", "--merge", strings.Join(files, ","), merged)), nil).ok()
	for _, want := range []string{"clocks aligned to within", "p99", "ui.perfetto.dev"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	b, err := os.ReadFile(merged)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []struct {
			Ph  string
			PID int
			ID  uint64
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	from, arrows := map[uint64]int{}, 0
	for _, e := range file.TraceEvents {
		if e.Ph == "s" {
			from[e.ID] = e.PID
		}
	}
	for _, e := range file.TraceEvents {
		if e.Ph == "f" && from[e.ID] != 0 && from[e.ID] != e.PID {
			arrows++
		}
	}
	if arrows != r.Both {
		t.Errorf("%d arrows between %d packets at both ends", arrows, r.Both)
	}

	// Ctrl-C ends it with what there is; a number of records, too.
	p := start(t, nobody(exec.Command(command, "trace", "--every", "1", "--count", "50", "--json", "--socket",
		s.sockets[0])), nil)
	if p.wait(); decode[traceTable](t, p.stdout.String()).Records != 50 {
		t.Errorf("%s", p.stdout.String())
	}
	var said growing
	// It has room for more records than the job makes while the next command starts, or it would
	// end by itself.
	interrupted := nobody(exec.Command("sh", "-c", `exec "$@" 2>&1`, "sh", command, "trace", "--every", "10", "--count",
		"1000000", "--socket", s.sockets[0], filepath.Join(dir, "interrupted.json")))
	interrupted.Stdout = &said
	p = start(t, interrupted, nil)
	eventually(t, "it has begun", func() bool { return said.count("tracing one packet of 10") > 0 })
	start(t, nobody(exec.Command(command, "trace", "--duration", "10ms", "--socket", s.sockets[0])),
		nil).fails("traces already; end that first")
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 0 && said.count("no packet was traced") == 0 && said.count("interrupted") == 0 {
		t.Errorf("exit code %d: %s", code, said.text.String())
	}

	// A disk that is full, and a job that is not his.
	full := start(t, nobody(exec.Command(command, "trace", "--every", "1", "--count", "5000", "--socket", s.sockets[0],
		"/dev/full")), nil)
	if code := full.wait(); code != 1 || !strings.Contains(full.stderr.String(), "no space left on device") {
		t.Errorf("exit code %d: %s", code, full.stderr.String())
	}
	other := exec.Command(command, "trace", "--gid", "1", "--socket", s.sockets[0])
	other.Dir, other.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	start(t, other, nil).fails("tracing group 1 as user 65533, who has no such job")
	job.signal(syscall.SIGINT)
	job.wait()
	eventually(t, "the job has ended", func() bool { return s.inUse() == 0 })

	// What traced nothing leaves no file, nor what it would have been.
	p = start(t, nobody(exec.Command(command, "trace", "--duration", "100ms", "--socket", s.sockets[0],
		filepath.Join(dir, "nothing.json"))), nil)
	if code := p.wait(); code != 1 || !strings.Contains(p.stderr.String(), "no packet was traced in this time") {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if name := f.Name(); name != "here.json" && name != "there.json" && name != "both.json" && name !=
			"interrupted.json" {
			t.Errorf("%s is left", name)
		}
	}
}

// TestTraceRefusals: what is wrong is one line that says what to do.
func TestTraceRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"--socket /nowhere":                 "no daemon listens there; start funid",
		"--every 0":                         "--every 0: use 1 to",
		"--gid 5000":                        "--gid 5000: use 1 to 2047",
		"--count 0":                         "--count 0: use 1 to",
		"--duration -1s":                    "--duration -1s: use a time above 0",
		"--merge a.json":                    "into which file?",
		"--merge /nowhere/a.json out":       "reading a trace",
		"--merge " + file(t, "{}") + " out": "not a trace",
		"--socket /nowhere /nowhere/at/all/out.json": "creating /nowhere/at/all/out.json",
	} {
		funet(t, append([]string{"trace"}, strings.Fields(args)...)...).fails(want)
	}
}
