package tests

// This file tests a daemon whose interface goes away and comes back when it has dropped its
// privileges.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/long"
)

// TestInterfaceComesBack: a job whose interface goes away ends with that reason, which its
// processes print; when the interface is back daemons without a privilege open it again, and jobs
// run; nothing is restarted.
func TestInterfaceComesBack(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	l, err := lab.Open(s.name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in := func(host int, f func(netlink.Link) error) {
		t.Helper()
		if err := l.Do(host, func() error {
			found, err := netlink.LinkByName("fu0")
			if err != nil {
				return err
			}
			return f(found)
		}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(state report.LinkState) {
		t.Helper()
		for _, socket := range s.sockets {
			eventually(t, "the interface is "+string(state), func() bool {
				var status report.Status
				if err := json.Unmarshal([]byte(funet(t, "status", "--socket", socket, "--json").ok()),
					&status); err != nil {
					t.Fatal(err)
				}
				return len(status.Links) == 1 && status.Links[0].State == state
			})
		}
	}
	mtu := 0
	in(0, func(l netlink.Link) error { mtu = l.Attrs().MTU; return nil })
	makers := socketMakers(t, s.name)
	restore := func() {
		t.Helper()
		var there *os.File
		err := l.Do(1, func() (err error) {
			there, err = os.Open("/proc/thread-self/ns/net")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		hosts := l.Hosts()
		err = l.Do(0, func() error {
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "fu0", MTU: mtu,
				HardwareAddr: hosts[0].Interfaces[0].MAC},
				PeerName: "fu0", PeerMTU: uint32(mtu), PeerHardwareAddr: hosts[1].Interfaces[0].MAC,
				PeerNamespace: netlink.NsFd(there.Fd())})
		})
		there.Close()
		if err != nil {
			t.Fatal(err)
		}
		for host := range hosts {
			in(host, netlink.LinkSetUp)
		}
	}
	for range 2 {
		p := s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "100000000")
		// on each host a job, a context and memory
		eventually(t, "the job runs", func() bool { return s.inUse() == 6 })
		in(0, netlink.LinkDel)
		if code, out := p.wait(), p.stderr.String(); code == 0 || !strings.Contains(out, "interface fu0 is gone") {
			t.Errorf("exit code %d: %s", code, out)
		}
		is(report.LinkGone)
		if out := funet(t, "status", "--socket", s.sockets[0]).ok(); !strings.Contains(out, "interface fu0 is gone") {
			t.Errorf("the status is\n%s", out)
		}
		s.run("-n", "2", "--", "true").fails("interface fu0 is gone")

		restore()
		is(report.LinkUp)
		s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "500", "--warm-up", "100").ok()
	}
	logs, err := filepath.Glob(filepath.Join(lab.DaemonDir(s.name), "*.log"))
	if err != nil || len(logs) != 2 {
		t.Fatal(logs, err)
	}
	for _, path := range logs {
		log, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"funid: interface fu0 is gone", "funid: interface fu0 is opened again"} {
			if strings.Count(string(log), line) != 2 {
				t.Errorf("%s does not say %q twice:\n%s", path, line, log)
			}
		}
	}

	// Without the process that makes sockets there are none, and the status says what to do.
	for _, pid := range makers {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	in(0, netlink.LinkDel)
	is(report.LinkGone)
	restore()
	is(report.LinkUnusable)
	if out := funet(t, "status", "--socket", s.sockets[0]).ok(); !strings.Contains(out, "restart funid") {
		t.Errorf("the status is\n%s", out)
	}
}

// socketMakers returns the process that makes sockets of each daemon of a lab, and checks that it
// may do nothing else.
func socketMakers(t *testing.T, name string) (pids []int) {
	t.Helper()
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, path := range paths {
		line, _ := os.ReadFile(path + "/cmdline") // it may have ended
		status, _ := os.ReadFile(path + "/status")
		parent := ""
		for l := range strings.Lines(string(status)) {
			if after, is := strings.CutPrefix(l, "PPid:\t"); is {
				parent = strings.TrimSpace(after)
			}
		}
		its, _ := os.ReadFile("/proc/" + parent + "/cmdline")
		if !strings.HasSuffix(string(line), "\x00make-sockets\x00") ||
			!strings.Contains(string(its), lab.DaemonDir(name)+"/") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
		// CAP_NET_RAW, number 13, and that of no program that it would execute.
		for _, want := range []string{"CapEff:\t0*2000", "CapPrm:\t0*2000", "CapInh:\t0*", "CapAmb:\t0*",
			"CapBnd:\t[0-9a-f]*[014589cd][0-9a-f]{3}", "NoNewPrivs:\t1"} {
			if !regexp.MustCompile("(?m)^" + want + "$").Match(status) {
				t.Errorf("the status of the process that makes sockets is not as in %q:\n%s", want, status)
			}
		}
	}
	if len(pids) != 2 {
		t.Fatalf("two daemons have %d processes that make sockets", len(pids))
	}
	return pids
}
