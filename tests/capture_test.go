package tests

// This file tests `funet capture`: of the demo's programs, its bounds, its refusals, and readers
// that are slow or full.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/capture"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// captured makes a lab with daemons and returns it with their sockets.
func captured(t *testing.T) (*lab.Lab, string, []string) {
	t.Helper()
	name := "t" + unique()
	funet(t, "lab", "up", name, "--daemons").ok()
	t.Cleanup(func() {
		if err := lab.Down(name); err != nil {
			t.Error(err)
		}
	})
	sockets, err := lab.Sockets(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, name, sockets
}

// begun waits until a capture has begun.
func (p *process) begun() {
	p.t.Helper()
	eventually(p.t, "the capture begins", func() bool { return strings.Contains(p.stderr.String(), "capturing card") })
}

// TestCaptureOfTheDemo: ping-pong, matrix multiply and blocks between two daemons, captured. tshark
// finds no malformed frame, and every field of the dissector has a value, which is the Go
// decoder's; forms that the programs need not send are in a second file.
func TestCaptureOfTheDemo(t *testing.T) {
	long.Test(t)
	_, name, sockets := captured(t)
	path := filepath.Join(t.TempDir(), "demo.pcapng")
	p := funet(t, "capture", "--socket", sockets[0], path)
	p.begun()
	for _, program := range [][]string{{"pingpong", "--exchanges", "100"}, {"matmul", "--size", "24"},
		{"transfer", "--bytes", "65536"}} {
		funet(t, append([]string{"run", "-n", "2", "--lab=" + name, "--", "funet"}, program...)...).wait()
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 130 {
		t.Fatalf("Ctrl-C ended it with %d: %s", code, p.stderr.String())
	}
	script := dissector(t)
	had := compare(t, script, path)
	list, lost := framesIn(t, path)
	if len(list) < 200 || lost != 0 {
		t.Errorf("%d frames, %d lost", len(list), lost)
	}

	// Host 0's frames go out, host 1's come in.
	ways := map[string]int{}
	for _, line := range tshark(t, script, "-r", path, "-T", "fields", "-e", "frame.packet_flags_direction", "-e",
		"funet.source_card") {
		ways[line]++
	}
	if out, in := ways["0x00000002\t0"], ways["0x00000001\t1"]; out < 50 || in < 50 || out+in != len(list) {
		t.Errorf("directions and cards %v, of %d frames", ways, len(list))
	}

	forms := filepath.Join(t.TempDir(), "forms.pcapng")
	writeForms(t, forms)
	for name, so := range compare(t, script, forms) {
		had[name] = had[name] || so
	}
	for name, so := range had {
		if !so {
			t.Errorf("%s has no value in any frame", name)
		}
	}
}

// TestCaptureRefusals: others' frames are not for ordinary users; one captures at a time; mistakes
// are one line.
func TestCaptureRefusals(t *testing.T) {
	_, _, sockets := captured(t)
	start(t, nobody(exec.Command(command, "capture", "--socket", sockets[0], "-")),
		nil).fails("capturing frames as user 65534", "administrator")
	first := funet(t, "capture", "--socket", sockets[0], filepath.Join(t.TempDir(), "a"))
	first.begun()
	funet(t, "capture", "--socket", sockets[0], filepath.Join(t.TempDir(), "b")).fails("captures already",
		"end it first", fmt.Sprint(first.cmd.Process.Pid))
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.wait()
	eventually(t, "another may capture when the first was killed", func() bool {
		p := funet(t, "capture", "--socket", sockets[0], "--duration", "10ms", filepath.Join(t.TempDir(), "c"))
		return p.wait() == 0
	})
	funet(t, "capture", "--socket", "/none/s", "x").fails("/none/s", "no daemon")
	eventually(t, "the daemon has seen the end of that", func() bool {
		p := funet(t, "capture", "--socket", sockets[0], "/none/x")
		return p.wait() == 1 && strings.Contains(p.stderr.String(), "creating a capture: open /none/x")
	})
	funet(t, "capture", "--size", "5", "x").fails("--size 5", "4096")
	funet(t, "capture", "--snap", "-1", "x").fails("--snap -1", "use 1 to")
	funet(t, "capture", "--count", "-1", "x").fails("--count -1")
	funet(t, "capture", "a", "b").fails("funet capture --help")
}

// TestCaptureBounds: a capture ends at its bounds, and cuts frames.
func TestCaptureBounds(t *testing.T) {
	long.Test(t)
	_, name, sockets := captured(t)
	path := filepath.Join(t.TempDir(), "a")
	p := funet(t, "capture", "--socket", sockets[0], "--count", "50", "--snap", "20", path)
	small := filepath.Join(t.TempDir(), "b")
	q := funet(t, "capture", "--socket", sockets[1], "--size", "8192", small)
	p.begun()
	q.begun()
	funet(t, "run", "-n", "2", "--lab="+name, "--", "funet", "pingpong", "--exchanges", "300").wait()
	if code := p.wait(); code != 0 || !strings.Contains(p.stderr.String(), "50 frames") {
		t.Errorf("%d: %s", code, p.stderr.String())
	}
	list, _ := framesIn(t, path)
	if len(list) != 50 || slices.ContainsFunc(list, func(b []byte) bool { return len(b) != 20 }) {
		t.Errorf("%d frames", len(list))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: others may read it", info.Mode())
	}
	if code := q.wait(); code != 0 {
		t.Errorf("%d: %s", code, q.stderr.String())
	}
	if info, err := os.Stat(small); err != nil || info.Size() < 7000 || info.Size() > 9000 {
		t.Errorf("%v", info)
	}
	framesIn(t, small)
}

// TestCaptureFullDisk: one line says that the disk is full, and the capture ends.
func TestCaptureFullDisk(t *testing.T) {
	long.Test(t)
	_, name, sockets := captured(t)
	p := funet(t, "capture", "--socket", sockets[0], "/dev/full")
	if code := p.wait(); code != 1 || !strings.Contains(p.stderr.String(), "no space left on device") {
		t.Errorf("%d: %s", code, p.stderr.String())
	}
	funet(t, "run", "-n", "2", "--lab="+name, "--", "funet", "pingpong", "--exchanges", "50").wait()
}

// TestCaptureStuckPipe: Ctrl-C ends a capture also while it waits for a reader that does not read.
func TestCaptureStuckPipe(t *testing.T) {
	long.Test(t)
	_, name, sockets := captured(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := exec.Command(command, "capture", "--socket", sockets[0])
	c.Stdout = w
	p := start(t, c, nil)
	w.Close()
	p.begun()
	// Far more than a pipe holds.
	if job := funet(t, "run", "-n", "2", "--lab="+name, "--", "funet", "transfer", "--bytes",
		"4194304"); job.wait() != 0 {
		t.Fatal(job.stderr.String())
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 130 {
		t.Errorf("%d: %s", code, p.stderr.String())
	}
}

// TestCaptureSlowReader: while nobody reads what is captured, programs run on as if nobody
// captured; what was lost is counted in the file.
func TestCaptureSlowReader(t *testing.T) {
	long.Test(t)
	_, name, sockets := captured(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := exec.Command(command, "capture", "--socket", sockets[0])
	c.Stdout = w
	p := start(t, c, nil)
	w.Close()
	p.begun()
	// More than the ring, the sockets and the pipe hold.
	job := funet(t, "run", "-n", "2", "--lab="+name, "--", "funet", "transfer", "--bytes",
		strconv.Itoa(3*capture.RingSize))
	if code := job.wait(); code != 0 {
		t.Fatalf("the job ended with %d: %s", code, job.stderr.String())
	}
	lossesOf(t, p, r, capture.RingSize/2)
}

// lossesOf reads what a capture has written until there is more than size bytes of it, ends the
// capture, and finds losses in the file: the ring was full, and every batch that was made after the
// job says so.
func lossesOf(t *testing.T, p *process, r io.Reader, size int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slow")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(out, r)
		read <- errors.Join(err, out.Close())
	}()
	eventually(t, "the reader has batches that were made after the job", func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > size
	})
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 143 {
		t.Errorf("%d: %s", code, p.stderr.String())
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	list, lost := framesIn(t, path)
	if lost == 0 || len(list) == 0 {
		t.Errorf("%d frames, %d lost", len(list), lost)
	}
}

// TestCaptureOfDirectPorts: frames of an ordinary user's job on direct ports, captured at one of
// its hosts in both directions, on the interface that they take. tshark decodes them as the Go
// decoder does.
func TestCaptureOfDirectPorts(t *testing.T) {
	long.Test(t)
	s := directs(t)
	path := filepath.Join(t.TempDir(), "direct.pcapng")
	p := funet(t, "capture", "--socket", s.sockets[0], path)
	p.begun()
	for _, program := range [][]string{{"pingpong", "--exchanges", "100"}, {"transfer", "--bytes", "262144"}} {
		s.run(append([]string{"-n", "2", "--", "funet"}, program...)...).ok()
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 130 || strings.Contains(p.stderr.String(), "not captured") {
		t.Fatalf("Ctrl-C ended it with %d: %s", code, p.stderr.String())
	}
	script := dissector(t)
	compare(t, script, path)
	if _, lost := framesIn(t, path); lost != 0 {
		t.Errorf("%d frames are lost", lost)
	}
	ways, all := map[string]int{}, 0
	for _, line := range tshark(t, script, "-r", path, "-Y", "funet.version == 7 && !frame.comment", "-T", "fields",
		"-e", "frame.packet_flags_direction", "-e", "funet.source_card", "-e", "frame.interface_name") {
		ways[line]++
		all++
	}
	if out, in := ways["0x00000002\t0\tfu0"], ways["0x00000001\t1\tfu0"]; out < 100 || in < 100 || out+in != all {
		t.Errorf("directions, cards and interfaces %v", ways)
	}
}

// TestCaptureOfDirectPortsSlowReader is TestCaptureSlowReader with direct ports: the switch waits
// for nobody, and what found its ring full is counted in the file.
func TestCaptureOfDirectPortsSlowReader(t *testing.T) {
	long.Test(t)
	s := directs(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := exec.Command(command, "capture", "--socket", s.sockets[0])
	c.Stdout = w
	p := start(t, c, nil)
	w.Close()
	p.begun()
	s.run("-n", "2", "--", "funet", "transfer", "--bytes", strconv.Itoa(3*bpf.CaptureSize)).ok()
	lossesOf(t, p, r, bpf.CaptureSize/2)
}
