package tests

// This file tests the provider of libfabric (uspace/ofi) with programs in C, and with other
// projects' programs.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/funet/funet/tests/long"
)

// provider returns the folder of libfunet-fi.so and of what is preloaded with it, which is that of
// the command under test. It builds them once, as make ofi does.
var provider = sync.OnceValues(func() (string, error) {
	dir := filepath.Dir(command)
	path, onStack := filepath.Join(dir, "libfunet-fi.so"), filepath.Join(dir, "libfunet-onstack.so")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	exports, err := filepath.Abs("../uspace/ofi/ofi.map")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-tags", "libfabric", "-buildmode=c-shared", "-ldflags",
		"-extldflags '-Wl,-soname,libfunet-fi.so -Wl,--version-script="+exports+"'", "-o", path, "../uspace/ofi")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	for _, b := range []*exec.Cmd{exec.Command("gcc", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-shared", "-fPIC",
		"-fvisibility=hidden", "-o", onStack, "../uspace/ofi/onstack/onstack.c"), build} {
		if out, err := b.CombinedOutput(); err != nil {
			return "", fmt.Errorf("building the provider, which takes gcc and libfabric-dev: %w\n%s", err, out)
		}
	}
	// whatever root's umask is
	return dir, errors.Join(os.Chmod(onStack, 0o755), os.Chmod(path, 0o755))
})

// withProvider returns a command that sees the provider.
func withProvider(t testing.TB, args ...string) []string {
	t.Helper()
	dir, err := provider()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"env", "FI_PROVIDER_PATH=" + dir}, args...)
}

// Rule: the library exports what libfabric looks for, and nothing else.
func TestProviderExports(t *testing.T) {
	dir, err := provider()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(dir, "libfunet-fi.so")).Output()
	if err != nil {
		t.Fatalf("nm, which binutils brings: %v", err)
	}
	if got := strings.Fields(string(out)); len(got) != 6 || got[5] != "fi_prov_ini@@FUNET_FI_1" {
		t.Errorf("it exports %s", out)
	}
}

// Rule: getinfo offers what works. Outside a job it is silent unless it is asked by its name. It
// says in one line which hint it cannot meet.
func TestProviderInfo(t *testing.T) {
	info := func(args ...string) string {
		args = withProvider(t, append([]string{"FI_LOG_LEVEL=info", "fi_info"}, args...)...)
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatalf("fi_info, which libfabric-bin brings: %v", err)
		}
		return string(out)
	}
	for _, want := range []string{"caps: [ FI_MSG, FI_RMA, FI_TAGGED, FI_ATOMIC, ",
		"FI_DIRECTED_RECV", "FI_ORDER_SAS", "type: FI_EP_RDM",
		"threading: FI_THREAD_SAFE", "data_progress: FI_PROGRESS_AUTO", "cq_data_size: 8"} {
		if out := info("-p", "funet", "-v"); !strings.Contains(out, want) {
			t.Errorf("fi_info did not print %q: %s", want, out)
		}
	}
	if out := info("-v"); strings.Contains(out, "prov_name: funet\n") ||
		!strings.Contains(out, "no job: start the program with funet run") {
		t.Errorf("without a job: %s", out)
	}
	for hint, says := range map[string]string{"-t FI_EP_MSG": "ep_attr->type: FI_EP_RDM only",
		"-c FI_COLLECTIVE": "caps 0x40: not offered", "-d eth0": "domain_attr->name eth0: it is funet",
		"-a FI_SOCKADDR_IN": "addr_format 2: addresses are of FI_FORMAT_UNSPEC",
		"-n localhost":      "node localhost: addresses are funet://GROUP/NODE/ENDPOINT"} {
		out := info(append([]string{"-p", "funet"}, strings.Fields(hint)...)...)
		if n := len(regexp.MustCompile(`:funet:core:.*`+regexp.QuoteMeta(says)).FindAllString(out, -1)); n != 1 {
			t.Errorf("%s: %d lines say %q: %s", hint, n, says, out)
		}
	}
}

// withFabric compiles a program in C that uses libfabric, with further flags.
func withFabric(t *testing.T, name string, flags ...string) string {
	t.Helper()
	program := filepath.Join(open(t), name)
	args := append([]string{"-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-Wno-unused-function",
		"-Wno-deprecated-declarations", "-o", program, "../uspace/ofi/testdata/" + name + ".c", "-lfabric"}, flags...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("compiling with gcc and libfabric-dev: %v\n%s", err, out)
	}
	if err := os.Chmod(program, 0o755); err != nil { // nobody runs it
		t.Fatal(err)
	}
	return program
}

// Rule: the messages of two nodes are those of libfabric's manual: lengths, order, tags, wildcards,
// claims, many messages in a buffer, completions, waits, fork. As an ordinary user, on direct ports
// and on daemons' cards.
func TestProviderMessages(t *testing.T) {
	program := withFabric(t, "messages")
	for name, make := range map[string]func(*testing.T, ...string) *service{"daemon": daemons, "direct": directs} {
		t.Run(name, func(t *testing.T) {
			s := make(t)
			out := s.run(append([]string{"-n", "2", "--"}, withProvider(t, program)...)...).ok()
			if strings.Count(out, "all rules hold\n") != 2 {
				t.Errorf("it printed %q", out)
			}
			s.free()
		})
	}
}

// Rule: reads, writes and atomic operations reach any memory of a process, by keys of both kinds. A
// daemon's card does not reach it, and they are not offered there.
func TestProviderRegions(t *testing.T) {
	program := withFabric(t, "regions")
	s := directs(t)
	out := s.run(append([]string{"-n", "2", "--"}, withProvider(t, program)...)...).ok()
	if strings.Count(out, "all rules hold\n") != 2 {
		t.Errorf("it printed %q", out)
	}
	s.free()
	s = daemons(t)
	for caps, offered := range map[string]bool{"FI_MSG": true, "FI_MSG|FI_RMA": false, "FI_ATOMIC": false} {
		p := s.run(append([]string{"-n", "1", "--"}, withProvider(t, "fi_info", "-p", "funet", "-c", caps)...)...)
		if code := p.wait(); (code == 0) != offered {
			t.Errorf("fi_info -c %s: exit code %d: %s%s", caps, code, p.stdout.String(), p.stderr.String())
		}
	}
	s.free()
}

// Rule: what others do to a region counts there once, when all of it is there or has been read: in
// its own counter and in its domain's, whoever waits for them and however (FI_RMA_EVENT). It is
// offered to those who ask for it.
func TestProviderTargets(t *testing.T) {
	program := withFabric(t, "targets")
	s := directs(t)
	for group := range 2 { // the second is AF_INET, which other providers look for in hints
		out := s.run(append([]string{"-n", "2", "--"}, withProvider(t, program)...)...).ok()
		if strings.Count(out, "all rules hold\n") != 2 {
			t.Errorf("job %d printed %q", group, out)
		}
	}
	s.free()
}

// Rule: address sanitizers find nothing in programs that use the provider.
func TestProviderSanitized(t *testing.T) {
	long.Test(t)
	s := directs(t)
	for name, last := range map[string]string{"messages": "all rules hold\n", "regions": "all rules hold\n",
		"targets": "all rules hold\n", "gone": "all ended\n", "unmapped": "all rules hold\n"} {
		program := withFabric(t, name, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
		// faults are the card's (unmapped.c), and gone.c ends without freeing
		with := withProvider(t, "env", "ASAN_OPTIONS=handle_segv=0:detect_leaks=0", program)
		if out := s.run(append([]string{"-n", "2", "--"}, with...)...).ok(); !strings.Contains(out, last) {
			t.Errorf("%s printed %q", name, out)
		}
	}
	s.free()
}

// Rule: a node that ends without a word ends what waits for it, with a reason, and nothing else.
func TestProviderGone(t *testing.T) {
	program := withFabric(t, "gone")
	s := directs(t)
	out := s.run(append([]string{"-n", "2", "--"}, withProvider(t, program)...)...).ok()
	if strings.Count(out, "peer has left\n") != 3 || !strings.Contains(out, "all ended\n") {
		t.Errorf("it printed %q", out)
	}
	s.free()
}

// Rule: memory of a region that its program has unmapped costs those that use it their operations,
// and its program nothing.
func TestProviderUnmapped(t *testing.T) {
	program := withFabric(t, "unmapped")
	s := directs(t)
	out := s.run(append([]string{"-n", "2", "--"}, withProvider(t, program)...)...).ok()
	if strings.Count(out, "all rules hold\n") != 2 {
		t.Errorf("it printed %q", out)
	}
	s.free()
}

// Rule: ranks that flood, are deaf, or lie about lengths do no harm to the rank that they lie to,
// nor to ranks of another job, whose answers are right. tests/share judges what those keep.
func TestProviderRanksAttack(t *testing.T) {
	long.Test(t)
	dir, err := provider()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(withFabric(t, "rank"))
	program := filepath.Join(folder, "share")
	for _, b := range []*exec.Cmd{exec.Command("cp", filepath.Join(dir, "libfunet-fi.so"), folder),
		exec.Command("go", "build", "-o", program, "./share")} {
		if out, err := b.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	p := start(t, exec.Command(program, "--card", "ofi", "--funid", filepath.Join(dir, "funid"), "--rounds", "1",
		"--window", "300ms", "--attacks", "ofi_flood,ofi_deaf,ofi_lies", "--json"), nil)
	var r struct {
		Attacks []struct {
			Name string  `json:"name"`
			Why  string  `json:"not_measured"`
			Did  float64 `json:"did_per_s"`
		} `json:"attacks"`
	}
	code := p.wait()
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil || code != 0 || len(r.Attacks) != 3 {
		t.Fatalf("ended with %d, %v: it printed %q and %s", code, err, p.stdout.String(), p.stderr.String())
	}
	for _, a := range r.Attacks {
		if a.Why != "" || a.Did <= 0 {
			t.Errorf("%+v", a)
		}
	}
}

// Rule: libfabric's own ping-pong verifies its messages, with tags and without.
func TestProviderPingPong(t *testing.T) {
	s := directs(t)
	for _, mode := range []string{"msg", "tagged"} {
		// the client comes when the server listens: port 47600 is b9f0
		script := `with="fi_pingpong -p funet -e rdm -c -I 200 -m ` + mode + `"
			[ $FUNET_NODE = 0 ] && exec $with -B 47600
			until grep -q ":B9F0 .* 0A " /proc/net/tcp; do :; done
			exec $with -P 47600 127.0.0.1`
		out := s.run(append([]string{"-n", "2", "--"}, withProvider(t, "sh", "-c", script)...)...).ok()
		for _, size := range []string{"64", "256", "1k", "4k", "64k", "1m"} {
			if n := len(regexp.MustCompile(`(?m)^\[[01]\] `+size+` +200 +=200 `).FindAllString(out, -1)); n != 2 {
				t.Errorf("%s: %d nodes sent and verified messages of %s: %s", mode, n, size, out)
			}
		}
		s.free()
	}
}
