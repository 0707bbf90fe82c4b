package main

import (
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/cluster"
)

// Rule: what hosts print with `funid peer`, below "peers:", is a peers file, for one segment and,
// with encap: udp, for datagrams; and each finds its own line in it (TestOwnCardIsFound).
func TestPeerLinesAreAPeersFile(t *testing.T) {
	l, err := lab.Up(lab.Options{Hosts: 2, Topology: lab.Router})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	text := "peers:\n"
	for i, h := range l.Hosts() {
		if err := l.Do(i, func() error {
			line, err := peerLine(h.Interfaces[0].Name, i)
			text += line + "\n"
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, head := range []string{"", "encap: udp\n"} {
		f, err := cluster.Parse("peers.yaml", []byte(head+text))
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for i, h := range l.Hosts() {
			if p := f.Peers[i]; p.MAC.String() != h.Interfaces[0].MAC.String() ||
				p.Address != h.Interfaces[0].Addr.Addr() {
				t.Errorf("host %d is %+v in %s", i, p, text)
			}
		}
	}
	for name, says := range map[string]string{"": "--iface is missing", "fu9": "no such interface",
		"lo": "no Ethernet address"} {
		err := l.Do(0, func() error { _, err := peerLine(name, 0); return err })
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("--iface %q: %v", name, err)
		}
	}
}

// Rule: the address is one by which others reach the host, an IPv4 address before an IPv6 one.
func TestAddressOfAPeer(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "invalid IP",
		"127.0.0.1/8 fe80::1/64":              "invalid IP",
		"169.254.1.1/16 2001:db8::1/64":       "2001:db8::1",
		"fe80::1/64 2001:db8::1/64 1.2.3.4/8": "1.2.3.4",
	} {
		var all []net.Addr
		for _, s := range strings.Fields(text) {
			ip, n, err := net.ParseCIDR(s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		if got := daemon.ReachedAt(all).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// Rule: the configuration that is installed says nothing yet, and is one as soon as its commented
// lines are not comments any more; each has the default that the daemon has.
func TestInstalledConfiguration(t *testing.T) {
	text, err := os.ReadFile("../deb/funid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c, peers, err := config.Parse("funid.yaml", text); err != nil || peers != "" || !c.FindCard {
		t.Errorf("as it is installed: %+v, %q, %v", c, peers, err)
	}
	lines := regexp.MustCompile(`(?m)^# ([a-z_]+: .*)$`).ReplaceAllString(string(text), "$1")
	// who is somewhere else
	lines = strings.Replace(lines, "users: [alice], groups: [wheel]", "users: [1000], groups: [1000]", 1)
	c, peers, err := config.Parse("funid.yaml", []byte(lines))
	if err != nil || peers != "peers.yaml" || len(c.Rules) != 1 || c.CPU != 3 || c.Metrics == "" {
		t.Fatalf("uncommented: %+v, %q, %v", c, peers, err)
	}
	d := config.DefaultRule()
	if r := c.Rules[0]; r.Contexts != d.Contexts || r.Jobs != d.Jobs || r.Bytes != d.Bytes || c.Attach != 0 ||
		c.Bind != 0 || c.Polling != 0 || c.HugePages || c.Jumbo {
		t.Errorf("%+v are not the defaults", c)
	}
}
