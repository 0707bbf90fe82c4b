package registry

// This file tests which keys of a table count, without an etcd.

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

// tabled returns a host, and its value and lease in a table.
func tabled(node uint16, mac byte, made int64) (*Host, entry) {
	h := &Host{Node: node, Name: fmt.Sprint("host-", node), Life: strings.Repeat("1", lifeSize), Iface: "eth1",
		MAC: net.HardwareAddr{2, 0, 0, 0, 0, mac}}
	return h, entry{value: h.Marshal(), made: made, modified: made, lease: 100 + int64(node)}
}

// claim returns a claim of a GID with a lease.
func claim(lease, made int64) *entry {
	c := Claim{Job: strings.Repeat("a", 16), Nodes: 1}
	return &entry{value: c.Marshal(), made: made, modified: made, lease: lease}
}

// Rule: what others write in a host's name does not count, and leaves the host its share of GIDs.
func TestOnlyOwnClaimsCount(t *testing.T) {
	table := newTable()
	_, e := tabled(1, 1, 1)
	table.set(hostName(1), &e)
	for gid := range uint16(2 * mostClaims) {
		table.set(claimName(gid, 1), claim(7, 2))
	}
	table.set(claimName(5, 1), claim(e.lease, 3))
	if !table.counts(5, 1) || table.claimed[1] != 1 || len(table.groups) != 1 {
		t.Errorf("of one claim and %d forged ones %d are kept; it counts: %v", 2*mostClaims, table.claimed[1],
			table.counts(5, 1))
	}
	if host, taken := table.takenBy(5, "another", 0); !taken || host != 1 {
		t.Errorf("GID 5 is taken by %d, %v", host, taken)
	}
	if _, taken := table.takenBy(6, "another", 0); taken {
		t.Error("a GID is taken by a claim that another wrote")
	}
}

// Rule: of a host's claims the first mostClaims count, whatever their GIDs.
func TestShareOfClaims(t *testing.T) {
	table := newTable()
	_, e := tabled(1, 1, 1)
	table.set(hostName(1), &e)
	for n := range mostClaims + 10 {
		table.set(claimName(uint16(1500-n), 1), claim(e.lease, int64(2+n)))
	}
	if last := uint16(1500 - mostClaims + 1); !table.counts(last, 1) || table.counts(last-1, 1) {
		t.Errorf("claim %d counts: %v; the next one: %v", mostClaims, table.counts(last, 1), table.counts(last-1, 1))
	}
}

// Rule: of two hosts at one place the one counts that was there first, whatever their numbers.
func TestFirstHostCounts(t *testing.T) {
	own, _ := tabled(0, 9, 1)
	table := newTable()
	_, first := tabled(5, 1, 10)
	_, liar := tabled(3, 1, 20)
	_, posing := tabled(4, 9, 2) // as this host
	table.set(hostName(5), &first)
	table.set(hostName(3), &liar)
	table.set(hostName(4), &posing)
	p := table.peers(own, []string{"eth1"}, hostCache{})
	var there []int
	for i, x := range p.File.Peers {
		if !x.Absent {
			there = append(there, i)
		}
	}
	if !slices.Equal(there, []int{0, 5}) || len(p.Refused) != 2 {
		t.Errorf("hosts %v, refused %q", there, p.Refused)
	}
}
