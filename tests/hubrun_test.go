package tests

// This file tests a machine that is a router: `funet hub run`.

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// routerOf starts host 0 of a mesh as the router between hosts 1 and 2, and returns the peers file
// of those two.
func routerOf(t *testing.T, l *lab.Lab) (p *process, peers string) {
	t.Helper()
	text := "peers:\n"
	for node := range 2 {
		for _, i := range l.Hosts()[1+node].Interfaces {
			if i.Name == "fu0" { // leads to host 0
				text += fmt.Sprintf("  - {node: %d, mac: %q}\n", node, i.MAC)
			}
		}
	}
	peers = file(t, text)
	p = on(t, l, 0, "hub", "run", "star", "--peers", peers, "--port", "0=fu1", "--port", "1=fu2", "--json")
	eventually(t, "the router runs", func() bool { return strings.Contains(p.stderr.String(), "port 1: fu2 to host 1") })
	return p, peers
}

// program returns the number of the XDP program on a host's interface; 0: there is none.
func programOn(t *testing.T, l *lab.Lab, host int, name string) (number uint32) {
	t.Helper()
	err := l.Do(host, func() error {
		link, err := netlink.LinkByName(name)
		if err == nil && link.Attrs().Xdp != nil {
			number = link.Attrs().Xdp.ProgId
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// TestHubRun: a machine forwards between two hosts that have no other way, by their own addresses;
// it tells a link's failure and return; and when it ends, however that is, nothing of it stays.
func TestHubRun(t *testing.T) {
	_, l := namedLab(t, "--hosts", "3", "--topology", "mesh")
	router, peers := routerOf(t, l)
	const exchanges = 2000
	var nodes []*process
	for node := range 2 {
		nodes = append(nodes, on(t, l, 1+node, "pingpong", "--iface", "fu0", "--node", fmt.Sprint(node), "--peers", peers,
			"--xdp", "generic", "--exchanges", fmt.Sprint(exchanges), "--json"))
	}
	for _, p := range nodes {
		p.ok()
	}
	setLink := func(up bool) {
		t.Helper()
		if err := l.Do(1, func() error {
			link, err := netlink.LinkByName("fu0")
			if err == nil && up {
				return netlink.LinkSetUp(link)
			}
			if err == nil {
				err = netlink.LinkSetDown(link)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	setLink(false)
	eventually(t, "the router hears of it", func() bool { return strings.Contains(router.stderr.String(), "fu1 is down") })
	setLink(true)
	eventually(t, "the router hears of it", func() bool { return strings.Contains(router.stderr.String(), "fu1 is up") })
	if programOn(t, l, 0, "fu1") == 0 {
		t.Error("a router without a program")
	}
	router.signal(syscall.SIGINT)
	if code := router.wait(); code != 0 {
		t.Errorf("ended with %d: %s", code, router.stderr.String())
	}
	r := decode[hubShow](t, router.stdout.String())
	if f := r.Routers[0].Forwarded; f[0] < exchanges || f[1] < exchanges {
		t.Errorf("forwarded %v for %d exchanges", f, exchanges)
	}
	again, _ := routerOf(t, l)
	again.signal(syscall.SIGKILL)
	again.wait()
	eventually(t, "nothing is left of a router that was killed", func() bool {
		return programOn(t, l, 0, "fu1") == 0 && programOn(t, l, 0, "fu2") == 0
	})
}

// TestHubRunRefuses: what does not fit the network is refused in a line that says what does.
func TestHubRunRefuses(t *testing.T) {
	two := file(t, "peers:\n  - {node: 0, mac: \"02:00:00:00:00:01\"}\n  - {node: 1, mac: \"02:00:00:00:00:02\"}\n")
	far := file(t, "peers:\n  - {node: 0, address: 192.0.2.1}\n  - {node: 1, address: 192.0.2.2}\n")
	for _, c := range []struct {
		says []string
		args []string
	}{
		{[]string{"--peers FILE"}, []string{"star"}},
		{[]string{"ring", "star, hypercube"}, []string{"ring", "--peers", two}},
		{[]string{"node 0 has no mac"}, []string{"star", "--peers", far}},
		{[]string{"--port \"eth0\"", "0=eth1"}, []string{"star", "--peers", two, "--port", "eth0"}},
		{[]string{"port 0 is a already"}, []string{"star", "--peers", two, "--port", "0=a", "--port", "0=b"}},
		{[]string{"port 1 leads to host 1", "topo show"}, []string{"star", "--peers", two, "--port", "0=a"}},
		{[]string{"port 1 (a)", "port 0 has that interface"},
			[]string{"star", "--peers", two, "--port", "0=a", "--port", "1=a"}},
		{[]string{"port 3 (c)", "leads nowhere"},
			[]string{"star", "--peers", two, "--port", "0=a", "--port", "1=b", "--port", "3=c"}},
		{[]string{"port 9 (c)", "ports 0 to"},
			[]string{"star", "--peers", two, "--port", "0=a", "--port", "1=b", "--port", "9=c"}},
		{[]string{"router 1", "0 to 0"}, []string{"star", "--peers", two, "--router", "1"}},
		{[]string{"bogus", "auto, native or generic"}, []string{"star", "--peers", two, "--xdp", "bogus"}},
		{[]string{"interface funet-none"},
			[]string{"star", "--peers", two, "--port", "0=funet-none", "--port", "1=funet-none2"}},
	} {
		funet(t, append([]string{"hub", "run"}, c.args...)...).fails(c.says...)
	}
}

// cubeOf makes hosts 0 to 3 of a mesh the routers of a hypercube, with hosts 4 and 5 at routers 0
// and 3. It returns the peers file of those two.
func cubeOf(t *testing.T, l *lab.Lab) (routers []*process, nodes string) {
	t.Helper()
	const first, last = 4, 5
	n, err := lab.Hypercube.Network(4)
	if err != nil {
		t.Fatal(err)
	}
	mac := func(host, router int) string {
		for _, i := range l.Hosts()[host].Interfaces {
			if i.Name == fmt.Sprint("fu", router) {
				return i.MAC.String()
			}
		}
		t.Fatalf("host %d has no interface to host %d", host, router)
		return ""
	}
	a, b := mac(first, 0), mac(last, 3)
	peers := file(t, fmt.Sprintf("peers:\n  - {node: 0, mac: %q}\n  - {node: 1, absent: true}\n"+
		"  - {node: 2, absent: true}\n  - {node: 3, mac: %q}\n", a, b))
	for r := range 4 {
		args := []string{"hub", "run", "hypercube", "--peers", peers, "--router", fmt.Sprint(r)}
		for p := range n.Radix() {
			if to, _, ok := n.Wire(r, p); ok {
				args = append(args, "--port", fmt.Sprintf("%d=fu%d", p, to))
			} else if terminal, ok := n.End(r, p).Terminal(); ok && (terminal == 0 || terminal == 3) {
				args = append(args, "--port", fmt.Sprintf("%d=fu%d", p, first+terminal/3))
			}
		}
		routers = append(routers, on(t, l, r, args...))
	}
	for _, p := range routers {
		eventually(t, "the routers hear each other",
			func() bool { return strings.Count(p.stderr.String(), "is there") == 2 })
	}
	return routers, file(t, fmt.Sprintf("peers:\n  - {node: 0, mac: %q}\n  - {node: 1, mac: %q}\n", a, b))
}

// TestHubRunTogether: four machines are a hypercube between two hosts. A wire that neither host's
// router has, and then a router, fail during a flood: the routers tell each other, traffic takes
// the other way, and every message is accounted for.
func TestHubRunTogether(t *testing.T) {
	long.Test(t)
	_, l := namedLab(t, "--hosts", "6", "--topology", "mesh")
	routers, peers := cubeOf(t, l)
	n, err := lab.Hypercube.Network(4)
	if err != nil {
		t.Fatal(err)
	}
	flood := func() (nodes []*process) {
		for node := range 2 {
			nodes = append(nodes, on(t, l, 4+node, "flood", "--messages", "1500000", "--stalls", "0", "--iface",
				fmt.Sprint("fu", 3*node), "--node", fmt.Sprint(node), "--peers", peers, "--xdp", "generic"))
		}
		busy(t, l, 4)
		return nodes
	}
	way, back := n.Way(0, 3), n.Way(3, 0)
	first, _, _ := n.Wire(0, int(way.Bits)&(1<<n.Width()-1))
	if other, _, _ := n.Wire(3, int(back.Bits)&(1<<n.Width()-1)); other == first {
		t.Fatalf("both directions go by router %d", first)
	}
	heard := func(router int, line string) {
		t.Helper()
		eventually(t, fmt.Sprintf("router %d says %q", router, line),
			func() bool { return strings.Contains(routers[router].stderr.String(), line) })
	}
	setLink := func(host int, name string, set func(netlink.Link) error) {
		t.Helper()
		if err := l.Do(host, func() error {
			link, err := netlink.LinkByName(name)
			if err == nil {
				err = set(link)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	nodes := flood()
	setLink(3, fmt.Sprint("fu", first), netlink.LinkSetDown) // the second wire of the way there
	heard(0, fmt.Sprintf("router %d says: ports down", first))
	for _, p := range nodes {
		p.ok()
	}
	setLink(3, fmt.Sprint("fu", first), netlink.LinkSetUp)
	heard(0, fmt.Sprintf("router %d says: ports down none", first))
	nodes = flood()
	routers[first].signal(syscall.SIGKILL)
	routers[first].wait()
	heard(0, fmt.Sprintf("router %d is silent", first))
	heard(3, fmt.Sprintf("router %d is silent", first))
	for _, p := range nodes {
		p.ok()
	}
	for r, p := range routers {
		if r != first {
			p.signal(syscall.SIGINT)
			if code := p.wait(); code != 0 {
				t.Errorf("router %d ended with %d: %s", r, code, p.stderr.String())
			}
		}
	}
}
