package paths

import (
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/port/encap"
)

// Rule (way.keeps): when somebody flushes the table of neighbours the way stays as it is while the
// kernel resolves the address anew, for keepFor and until the kernel says that nobody answers.
func TestNeighboursFlushed(t *testing.T) {
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peers := l.Peers(0).Peers
	f := follow(t, l, 0, Config{Interface: "fu0", Local: peers[0].Address,
		Peers: []encap.Peer{{Card: 1, Address: peers[1].Address}}}, false)
	mac := peers[1].MAC.String()
	if s := f.States()[0]; s.Missing != "" || s.MAC != mac {
		t.Fatalf("at first %+v, want MAC %s", s, mac)
	}
	// round forgets the neighbour, or sets its state, and looks at once.
	round := func(state int) State {
		t.Helper()
		do(t, on(l, 0), func() error {
			n := netlink.Neigh{LinkIndex: f.c.Index, IP: net.IP(peers[1].Address.AsSlice()), State: state}
			if state == 0 {
				return netlink.NeighDel(&n)
			}
			n.HardwareAddr = peers[1].MAC
			return netlink.NeighSet(&n)
		})
		do(t, on(l, 0), func() error { _, err := f.whole(); return err })
		return f.States()[0]
	}
	for range 3 {
		if s := round(0); s.Missing != "" || s.MAC != mac || f.Table().To(frameTo(1)) == nil {
			t.Fatalf("after a flush %+v", s)
		}
		if s := round(netlink.NUD_REACHABLE); s.Missing != "" {
			t.Fatalf("resolved anew: %+v", s)
		}
	}
	if !f.ways[0].since.IsZero() {
		t.Error("the time that it was kept is not forgotten")
	}
	f.ways[0].since = time.Now().Add(-keepFor)
	if s := round(0); s.Missing == "" {
		t.Errorf("%v after a flush %+v", keepFor, s)
	}
	if s := round(netlink.NUD_REACHABLE); s.Missing != "" {
		t.Fatalf("resolved anew: %+v", s)
	}
	if s := round(netlink.NUD_FAILED); s.Missing == "" {
		t.Errorf("where nobody answers %+v", s)
	}
}
