// The plan and the options, without a kernel.

package lab

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPlan: every plan gives each interface a MAC and an address of its own, and has the number of
// cables of its topology. In a pair or a mesh the two ends of a cable are in one subnet. In a
// bridge all hosts are in one subnet. With a router each host is in a subnet of its own, with its
// gateway.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Hosts:    rapid.IntRange(MinHosts, MaxHosts).Draw(t, "hosts"),
			Topology: rapid.SampledFrom([]Topology{"", Bridge, Mesh, Router}).Draw(t, "topology"),
			Name:     rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,14}|`).Draw(t, "name"),
		}
		o, err := o.complete()
		if err != nil {
			t.Fatal(err)
		}
		hosts, cables := plan(o)
		want := map[Topology]int{Pair: 1, Bridge: o.Hosts, Mesh: o.Hosts * (o.Hosts - 1) / 2,
			Router: o.Hosts}[o.Topology]
		if len(hosts) != o.Hosts || len(cables) != want {
			t.Fatalf("%d hosts, %d cables, want %d, %d", len(hosts), len(cables), o.Hosts, want)
		}
		seen := map[string]bool{}
		once := func(s string) {
			if seen[s] {
				t.Fatalf("%s twice", s)
			}
			seen[s] = true
		}
		for i, h := range hosts {
			if h.Index != i || (o.Name != "") != (h.Namespace != "") {
				t.Fatalf("host %d: %+v", i, h)
			}
			for _, f := range h.Interfaces {
				once(f.MAC.String())
				once(f.Addr.Addr().String())
				if f.MAC[0]&3 != 2 { // IEEE 802-2014 section 8.4: locally administered, unicast
					t.Fatalf("mac %s", f.MAC)
				}
				if len(f.Name) > 15 {
					t.Fatalf("name %s", f.Name)
				}
			}
			for j := range hosts {
				mine, theirs := h.to(j), hosts[j].to(i)
				if i == j {
					if mine != nil {
						t.Fatalf("host %d has %+v to itself", i, mine)
					}
					continue
				}
				if o.Topology == Router {
					for _, x := range []struct {
						at, other netip.Prefix
						via       netip.Addr
						all       netip.Prefix
					}{{mine.Addr, theirs.Addr, mine.Gateway, all4}, {mine.Addr6, theirs.Addr6, mine.Gateway6, all6}} {
						if x.at.Masked() == x.other.Masked() || !x.at.Contains(x.via) || x.via == x.at.Addr() ||
							!x.all.Contains(x.at.Addr()) {
							t.Fatalf("hosts %d and %d: %+v", i, j, x)
						}
					}
				} else if mine.Addr.Masked() != theirs.Addr.Masked() {
					t.Fatalf("hosts %d and %d: %s and %s are in two subnets", i, j, mine.Addr, theirs.Addr)
				}
				if mine.Addr.Addr() == mine.Addr.Masked().Addr() {
					t.Fatalf("%s is the address of the subnet", mine.Addr)
				}
				if o.Topology == Mesh && (mine.Peer != j || theirs.Peer != i) {
					t.Fatalf("hosts %d and %d: %+v and %+v", i, j, mine, theirs)
				}
			}
		}
		for _, c := range cables {
			if c.b.space >= o.Hosts {
				once(c.b.mac.String())
			} else if hosts[c.a.space].to(c.b.space).Name != c.a.name ||
				hosts[c.b.space].to(c.a.space).Name != c.b.name {
				t.Fatalf("cable %+v has the wrong ends", c)
			}
		}
		for _, n := range namespaces(o) {
			once(n)
		}
		l := newLab(o, hosts, nil)
		for i := range hosts {
			if err := l.Peers(i).Validate(); err != nil {
				t.Fatalf("peers of host %d: %v", i, err)
			}
		}
	})
}

func TestPeersOfMesh(t *testing.T) {
	o, err := Options{Hosts: 3, Topology: Mesh}.complete()
	if err != nil {
		t.Fatal(err)
	}
	hosts, _ := plan(o)
	l := newLab(o, hosts, nil)
	got, err := l.Peers(1).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	// Node 0 has the MAC that host 0 shows to host 1, which is on its fu1, its first interface.
	want := `peers:
  - {node: 0, mac: "02:46:55:00:00:01", address: "198.18.1.5", iface: "fu0"}
  - {node: 1, mac: "02:46:55:00:01:01", address: "198.18.1.6", iface: "fu0"}
  - {node: 2, mac: "02:46:55:00:02:02", address: "198.18.2.10", iface: "fu2"}
`
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if f := l.Peers(3); f != nil {
		t.Errorf("host 3 of 3 has peers %+v", f)
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want error
		text string
	}{
		{Options{}, ErrOptions, "0 hosts"},
		{Options{Hosts: 1}, ErrOptions, "1 hosts, want 2 to 8"},
		{Options{Hosts: 9}, ErrOptions, "9 hosts, want 2 to 8"},
		{Options{Hosts: -1}, ErrOptions, "-1 hosts"},
		{Options{Hosts: 3, Topology: Pair}, ErrOptions, "pair joins 2 hosts"},
		{Options{Hosts: 2, Topology: "ring"}, ErrOptions, `"ring"`},
		{Options{Hosts: 2, IPv6: true}, ErrOptions, "IPv6 with topology pair, want router"},
		{Options{Hosts: 2, Topology: Router, MTU: 1279}, ErrOptions, "MTU 1279 with topology router"},
		{Options{Hosts: 2, MTU: 67}, ErrOptions, "MTU 67"},
		{Options{Hosts: 2, MTU: 65536}, ErrOptions, "MTU 65536"},
		{Options{Hosts: 2, MTU: -1}, ErrOptions, "MTU -1"},
		{Options{Hosts: 2, Queues: 65}, ErrOptions, "65 queues"},
		{Options{Hosts: 2, Queues: -1}, ErrOptions, "-1 queues"},
		{Options{Hosts: 2, Name: "a/b"}, ErrName, `"a/b"`},
		{Options{Hosts: 2, Name: ".."}, ErrName, `".."`},
		{Options{Hosts: 2, Name: "a b"}, ErrName, `"a b"`},
		{Options{Hosts: 2, Name: "a\x00"}, ErrName, `"a\x00"`},
		{Options{Hosts: 2, Name: "ä"}, ErrName, `"ä"`},
		{Options{Hosts: 2, Name: "-a"}, ErrName, `"-a"`},
		{Options{Hosts: 2, Name: strings.Repeat("a", 16)}, ErrName, "1 to 15"},
	} {
		l, err := Up(c.o)
		if l != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("Up(%+v): %v, want %v with %q", c.o, err, c.want, c.text)
		}
	}
	for _, name := range []string{"", "../x", strings.Repeat("a", 16)} {
		if _, err := Open(name); !errors.Is(err, ErrName) {
			t.Errorf("Open(%q): %v", name, err)
		}
		if err := Down(name); !errors.Is(err, ErrName) {
			t.Errorf("Down(%q): %v", name, err)
		}
	}
	for _, name := range []string{"a", "A-0", strings.Repeat("z", 15)} {
		if err := checkName(name); err != nil {
			t.Error(err)
		}
	}
}

// An error is one line, however many there are, and each is still found by errors.Is.
func TestJoin(t *testing.T) {
	if err := join(nil, nil); err != nil {
		t.Error(err)
	}
	err := join(nil, ErrBusy, nil, ErrKill, ErrName)
	if strings.Contains(err.Error(), "\n") || !errors.Is(err, ErrBusy) || !errors.Is(err, ErrKill) ||
		!errors.Is(err, ErrName) {
		t.Error(err)
	}
}

// Rule: of a log of any length the last line is found, which says why a daemon has ended.
func TestLastLine(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for text, want := range map[string]string{"funid: it": "it", "": "it ended and said nothing",
		strings.Repeat("funid: a line\n", 10_000) + "funid: the reason\n": "the reason"} {
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastLine(log); got != want {
			t.Errorf("the last of %d bytes is %q, want %q", len(text), got, want)
		}
	}
}
