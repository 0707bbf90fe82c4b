package tests

// This file tests programs whose frames have a VLAN tag.

import (
	"strconv"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// TestVLANPrograms: ping-pong, blocks and a flood in a VLAN, each way that frames are received.
func TestVLANPrograms(t *testing.T) {
	long.Test(t)
	for _, mode := range []string{"generic", "native"} {
		for _, c := range [][]string{
			{"pingpong", "--exchanges", "500", "--warm-up", "100"},
			{"transfer", "--bytes", "4194304", "--block", "65536"},
			{"flood", "--messages", "20000", "--stalls", "2", "--stall", "20ms"},
		} {
			p := funet(t, append(c, "--lab", "2", "--vlan", "5", "--xdp", mode, "--json")...)
			p.ok()
			(&holdings{}).gone(t, p.mark)
		}
	}
	funet(t, "transfer", "--bytes", "4194304", "--lab", "2", "--vlan", "4094", "--xdp", "generic", "--mtu", "9000",
		"--jumbo", "--json").ok()
}

// TestVLANsApart: nodes in different VLANs do not hear each other, and one in a VLAN does not hear
// one outside.
func TestVLANsApart(t *testing.T) {
	long.Test(t)
	for _, vlans := range [][2]string{{"5", "6"}, {"5", ""}} {
		l, err := lab.Up(lab.Options{Hosts: 2})
		if err != nil {
			t.Fatal(err)
		}
		var all [2]*process
		for host, vlan := range vlans {
			peers, err := l.Peers(host).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"pingpong", "--exchanges", "10", "--xdp", "generic", "--wait", "2s", "--iface", "fu0",
				"--node", strconv.Itoa(host), "--peers", file(t, string(peers))}
			if vlan != "" {
				args = append(args, "--vlan", vlan)
			}
			all[host] = on(t, l, host, args...)
		}
		all[0].fails("silent")
		all[1].wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
