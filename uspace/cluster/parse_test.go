// The rules of the peers file, each with the line that breaks it, and that no bytes break the
// parser.

package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/port/encap"
)

func mac(s string) net.HardwareAddr {
	m, err := net.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

// addresses has cmp compare them as values.
var addresses = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestParse(t *testing.T) {
	two := []Peer{{Node: 0, MAC: mac("02:46:55:00:00:01")}, {Node: 1, MAC: mac("02:46:55:00:01:01"), Iface: "fu1"}}
	for name, c := range map[string]struct {
		text string
		want File
	}{
		"flow entries": {`# my cluster
gid: 1
peers:
  - {node: 0, mac: "02:46:55:00:00:01"}   # me
  - {node: 1, mac: "02:46:55:00:01:01", iface: fu1}
`, File{GID: 1, Peers: two}},
		"block entries, any order, other mac notations, windows line ends": {
			"peers:\r\n- iface: \"fu1\"\r\n  mac: 0246.5500.0101\r\n  node: 1\r\n- node: 0\r\n  mac: 02-46-55-00-00-01\r\n",
			File{GID: 0, Peers: two}},
		"mac without quotes, last gid": {`---
peers: [{node: 0, mac: 02:46:55:00:00:01}, {node: 1, mac: 02:46:55:00:01:01, iface: fu1}]
gid: 2047
...
`, File{GID: 2047, Peers: two}},
		"groups of a host": {`
peers:
  - {node: 0, mac: "02:46:55:00:00:01", groups: [1-100, 2047]}
  - {node: 1, mac: "02:46:55:00:01:01", iface: fu1, groups: ["7"]}
`, File{Peers: []Peer{{Node: 0, MAC: mac("02:46:55:00:00:01"), Groups: []Range{{1, 100}, {2047, 2047}}},
			{Node: 1, MAC: mac("02:46:55:00:01:01"), Iface: "fu1", Groups: []Range{{7, 7}}}}}},
		"a token of digits only": {`
token: 1000000000000000000000000000000000000000000000000000000000000000
peers: [{node: 0, mac: 02:46:55:00:00:01}, {node: 1, mac: 02:46:55:00:01:01, iface: fu1}]
`, File{Token: attach.Token{0x10}, Peers: two}},
		"a token in capitals": {`
token: "00000000000000000000000000000000000000000000000000000000000000AB"
peers: [{node: 0, mac: 02:46:55:00:00:01}, {node: 1, mac: 02:46:55:00:01:01, iface: fu1}]
`, File{Token: attach.Token{31: 0xab}, Peers: two}},
		"one mac on two interfaces": {`
peers:
- {node: 0, mac: "02:46:55:00:00:01", iface: a}
- {node: 1, mac: "02:46:55:00:00:01", iface: b}
`, File{GID: 0, Peers: []Peer{{Node: 0, MAC: mac("02:46:55:00:00:01"), Iface: "a"}, {Node: 1, MAC: mac("02:46:55:00:00:01"), Iface: "b"}}}},
		"a mac of digits only": {`
peers:
- {node: 0, mac: 00:11:22:33:44:55}
- {node: 1, mac: 10:20:30:40:50:59}
`, File{GID: 0, Peers: []Peer{{Node: 0, MAC: mac("00:11:22:33:44:55")}, {Node: 1, MAC: mac("10:20:30:40:50:59")}}}},
		"an iface of digits only": {`
peers:
- {node: 0, mac: 00:11:22:33:44:55, iface: 007}
- {node: 1, mac: 00:11:22:33:44:66, iface: 1.50}
`, File{GID: 0, Peers: []Peer{{Node: 0, MAC: mac("00:11:22:33:44:55"), Iface: "007"}, {Node: 1, MAC: mac("00:11:22:33:44:66"), Iface: "1.50"}}}},
		"addresses": {`
encap: udp
port: 4000
peers:
- {node: 0, address: 192.0.2.1}
- {node: 1, address: "198.51.100.1", iface: fu1}
`, File{Encap: UDP, Port: 4000, Peers: []Peer{{Node: 0, Address: ip("192.0.2.1")}, {Node: 1, Iface: "fu1", Address: ip("198.51.100.1")}}}},
		"nothing but addresses, of IPv6, and an absent node": {`
peers: [{node: 1, address: "2001:db8::1"}, {node: 0, absent: true}]
`, File{Encap: UDP, Peers: []Peer{{Node: 0, Absent: true}, {Node: 1, Address: ip("2001:db8::1")}}}},
		"both kinds of address, though one counts": {`
peers: [{node: 0, mac: 02:46:55:00:00:01, address: 192.0.2.1}, {node: 1, mac: 02:46:55:00:01:01, iface: fu1, address: "2001:db8::1"}]
`, File{Peers: []Peer{{Node: 0, MAC: mac("02:46:55:00:00:01"), Address: ip("192.0.2.1")}, {Node: 1, MAC: mac("02:46:55:00:01:01"), Iface: "fu1", Address: ip("2001:db8::1")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("p.yaml", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got, addresses); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefused(t *testing.T) {
	// the rows name lines; package strictyaml tests columns
	column := regexp.MustCompile(`(p\.yaml:\d+):\d+`)
	const good = "- {node: 0, mac: 02:46:55:00:00:01}\n- {node: 1, mac: 02:46:55:00:01:01}\n"
	for _, c := range []struct {
		text string
		want error
		in   string // the error has this
	}{
		// Each node and each mac (on one iface) once; both lines are named.
		{"peers:\n" + good + "- {node: 0, mac: 02:46:55:00:00:03}\n", ErrDuplicateNode,
			"p.yaml:4: node 0 is already at p.yaml:2"},
		{"peers:\n" + good + "- {node: 2, mac: 02:46:55:00:00:01}\n", ErrDuplicateMAC,
			"p.yaml:4: mac 02:46:55:00:00:01 of node 2 is that of node 0 at p.yaml:2"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, iface: a}\n- {node: 1, mac: 02:46:55:00:00:01, iface: a}\n",
			ErrDuplicateMAC, "p.yaml:3"},
		// A node has 16 bits.
		{"peers:\n- {node: 65536, mac: 02:46:55:00:00:01}\n", ErrNodeRange, "p.yaml:2: node 65536"},
		{"peers:\n- {node: -1, mac: 02:46:55:00:00:01}\n", ErrNodeRange, "p.yaml:2: node -1"},
		{"peers:\n- {node: 99999999999999999999, mac: 02:46:55:00:00:01}\n", ErrNodeRange, "p.yaml:2"},
		// Nodes are 0..N-1.
		{"peers:\n- {node: 1, mac: 02:46:55:00:00:01}\n- {node: 2, mac: 02:46:55:00:00:02}\n", ErrNodeGap,
			"p.yaml:3: node 2 in a file of 2 peers"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01}\n- {node: 65535, mac: 02:46:55:00:00:02}\n", ErrNodeGap,
			"p.yaml:3: node 65535"},
		// A mac is a card's.
		{"peers:\n- {node: 0, mac: 00:00:00:00:00:00}\n" + good, ErrMAC,
			"p.yaml:2: node 0 has mac \"00:00:00:00:00:00\", want the address of a card, not zero"},
		{"peers:\n- {node: 0, mac: ff:ff:ff:ff:ff:ff}\n" + good, ErrMAC, "p.yaml:2: node 0"},
		{"peers:\n- {node: 0, mac: 01:00:5e:00:00:01}\n" + good, ErrMAC, "p.yaml:2: node 0"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00}\n" + good, ErrMAC, "p.yaml:2: node 0"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01:02:03}\n" + good, ErrMAC, "p.yaml:2: node 0"},
		{"peers:\n- {node: 0, mac: hello}\n" + good, ErrMAC, `p.yaml:2: node 0 has mac "hello"`},
		{"peers:\n- {node: 0, mac: \"\"}\n" + good, ErrMAC, "p.yaml:2: node 0"},
		// An absent host has no address, and absent is true.
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, absent: true}\n- {node: 1, absent: true}\n", ErrAbsent,
			"p.yaml:2: node 0 has a mac"},
		{"peers:\n- {node: 0, iface: a, absent: true}\n- {node: 1, absent: true}\n", ErrAbsent, "p.yaml:2: node 0"},
		{"peers:\n- {node: 0, absent: false}\n" + good, ErrSyntax, `p.yaml:2: absent is false`},
		{"peers:\n- {node: 0}\n" + good, ErrSyntax, "p.yaml:2: a peer without mac"},
		// Groups are GIDs, and at least one.
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, groups: []}\n" + good, ErrSyntax,
			"p.yaml:2: groups of node 0: want a list"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, groups: 7}\n" + good, ErrSyntax,
			"p.yaml:2: groups of node 0: want a list"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, groups: [0-7]}\n" + good, ErrGIDRange,
			`p.yaml:2: groups of node 0: "0-7", want`},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, groups: [9-7]}\n" + good, ErrGIDRange, `"9-7"`},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, groups: [2048]}\n" + good, ErrGIDRange, `"2048"`},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, groups: [1-2-3]}\n" + good, ErrGIDRange, `"1-2-3"`},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, groups: [" + strings.Repeat("1,", MaxRanges) + "1]}\n" + good,
			ErrGIDRange, "65 ranges"},
		{"peers:\n- {node: 0, absent: true, groups: [1]}\n" + good, ErrAbsent, "p.yaml:2: node 0"},
		// An iface is a name that the kernel could have.
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, iface: a23456789012345x}\n", ErrIface, "p.yaml:2"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, iface: ../x}\n", ErrIface, "p.yaml:2"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, iface: \"\"}\n", ErrIface, "p.yaml:2"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, iface: \"a b\"}\n", ErrIface, "p.yaml:2"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, iface: \"..\"}\n", ErrIface, "p.yaml:2"},
		// A GID has 11 bits, and 0 is the system's.
		{"gid: 0\npeers:\n" + good, ErrGIDRange, "p.yaml:1: gid 0, want 1..2047"},
		{"gid: 2048\npeers:\n" + good, ErrGIDRange, "p.yaml:1: gid 2048"},
		{"gid: -1\npeers:\n" + good, ErrGIDRange, "p.yaml:1: gid -1"},
		{"gid: one\npeers:\n" + good, ErrSyntax, `p.yaml:1: gid is "one"`},
		{"gid: 1.0\npeers:\n" + good, ErrSyntax, `p.yaml:1: gid is "1.0"`},
		{"gid: 0x10\npeers:\n" + good, ErrSyntax, `p.yaml:1: gid is "0x10"`},
		{"gid: [1]\npeers:\n" + good, ErrSyntax, "p.yaml:1: gid is a list"},
		{"gid:\npeers:\n" + good, ErrSyntax, "p.yaml:1: gid is nothing"},
		// A token is 32 bytes that somebody has drawn; the error does not repeat a bad one.
		{"token: hunter2\npeers:\n" + good, ErrToken, "p.yaml:1: token of 7 characters"},
		{"token: \"" + strings.Repeat("0", 64) + "\"\npeers:\n" + good, ErrToken, "p.yaml:1: token of 64 characters"},
		{"token: \"" + strings.Repeat("1", 63) + "g\"\npeers:\n" + good, ErrToken, "want 64 hexadecimal digits"},
		{"token: \"" + strings.Repeat("1", 66) + "\"\npeers:\n" + good, ErrToken, "66 characters"},
		{"token:\npeers:\n" + good, ErrSyntax, "p.yaml:1: token is nothing"},
		{"token: a\ntoken: b\npeers:\n" + good, ErrDuplicateKey, "p.yaml:2: key given twice: \"token\""},
		// An encapsulation is one that there is, and every node has an address for it.
		{"encap: gre\npeers:\n" + good, ErrEncap, `p.yaml:1: encap "gre", want ethernet, udp or hub`},
		{"encap: UDP\npeers:\n" + good, ErrEncap, "p.yaml:1"},
		{"encap: udp\npeers:\n" + good, ErrAddress, "p.yaml:3: node 0 has no address, which encap udp needs"},
		{"encap: udp\npeers:\n- {node: 0, address: 192.0.2.1}\n- {node: 1, mac: 02:46:55:00:00:01}\n", ErrAddress,
			"p.yaml:4: node 1 has no address"},
		{"encap: ethernet\npeers:\n- {node: 0, address: 192.0.2.1}\n- {node: 1, address: 192.0.2.2}\n", ErrMAC,
			"p.yaml:3: node 0 has no mac, which encap ethernet needs"},
		{"peers:\n- {node: 0, address: 192.0.2.1}\n- {node: 1, mac: 02:46:55:00:00:01}\n", ErrMAC,
			"p.yaml:2: node 0 has no mac"},
		{"port: 0\npeers:\n" + good, ErrPort, "p.yaml:1: port 0, want 1..65520"},
		{"port: 65521\npeers:\n" + good, ErrPort, "p.yaml:1: port 65521"},
		{"port: ssh\npeers:\n" + good, ErrSyntax, `p.yaml:1: port is "ssh"`},
		// An address is one host's, on every host the same.
		{"peers:\n- {node: 0, address: 192.0.2}\n" + good, ErrAddress, `p.yaml:2: node 0 has address "192.0.2"`},
		{"peers:\n- {node: 0, address: host-a}\n" + good, ErrAddress, `p.yaml:2: node 0 has address "host-a"`},
		{"peers:\n- {node: 0, address: 192.0.2.1/24}\n" + good, ErrAddress, "p.yaml:2"},
		{"peers:\n- {node: 0, address: 127.0.0.1}\n- {node: 1, address: 192.0.2.2}\n", ErrAddress,
			"p.yaml:2: node 0 has address 127.0.0.1, want the address of one host"},
		{"peers:\n- {node: 0, address: 192.0.2.2}\n- {node: 1, address: 224.0.0.1}\n", ErrAddress, "p.yaml:3: node 1"},
		{"peers:\n- {node: 0, address: 255.255.255.255}\n- {node: 1, address: 192.0.2.2}\n", ErrAddress, "p.yaml:2"},
		{"peers:\n- {node: 0, address: 0.0.0.0}\n- {node: 1, address: 192.0.2.2}\n", ErrAddress, "p.yaml:2"},
		{"peers:\n- {node: 0, address: \"ff02::1\"}\n- {node: 1, address: \"2001:db8::1\"}\n", ErrAddress, "p.yaml:2"},
		{"peers:\n- {node: 0, address: \"fe80::1\"}\n- {node: 1, address: \"2001:db8::1\"}\n", ErrAddress, "p.yaml:2"},
		{"peers:\n- {node: 0, address: \"fe80::1%eth0\"}\n- {node: 1, address: \"2001:db8::1\"}\n",
			ErrAddress, "p.yaml:2"},
		{"peers:\n- {node: 0, address: \"::ffff:192.0.2.1\"}\n- {node: 1, address: \"2001:db8::1\"}\n",
			ErrAddress, "p.yaml:2"},
		{"peers:\n- {node: 0, address: 192.0.2.1}\n- {node: 1, address: 192.0.2.1}\n", ErrDuplicateIP,
			"p.yaml:3: address 192.0.2.1 of node 1 is that of node 0 at p.yaml:2"},
		{"peers:\n- {node: 0, address: 192.0.2.1}\n- {node: 1, address: \"2001:db8::1\"}\n", ErrFamily,
			"p.yaml:3: node 1 has address 2001:db8::1 and node 0 192.0.2.1"},
		// At least two peers.
		{"", ErrPeerCount, "p.yaml: empty"},
		{"# nothing\n", ErrPeerCount, "p.yaml: empty"},
		{"gid: 1\n", ErrPeerCount, "p.yaml: no peers"},
		{"gid: 1\npeers:\n", ErrPeerCount, "p.yaml:2: peers is empty"},
		{"gid: 1\npeers: []\n", ErrPeerCount, "p.yaml:2: 0 peers"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01}\n", ErrPeerCount, ": 1 peers"},
		// Nothing that the format does not have.
		{"peers:\n" + good + "gdi: 1\n", ErrUnknownKey, `p.yaml:4: unknown key "gdi"`},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01, ifcae: a}\n", ErrUnknownKey, `p.yaml:2: unknown key "ifcae"`},
		{"Peers:\n" + good, ErrUnknownKey, `p.yaml:1: unknown key "Peers"`},
		{"gid: 1\ngid: 2\npeers:\n" + good, ErrDuplicateKey,
			"p.yaml:2: key given twice: \"gid\" is at p.yaml:1 already"},
		{"peers:\n- node: 0\n  mac: 02:46:55:00:00:01\n  node: 1\n", ErrDuplicateKey,
			"p.yaml:4: key given twice: \"node\" is at p.yaml:2 already"},
		{"peers:\n- {mac: 02:46:55:00:00:01}\n", ErrSyntax, "p.yaml:2: a peer without node"},
		{"peers:\n- {node: 0}\n", ErrSyntax, "p.yaml:2: a peer without mac"},
		{"peers:\n- 1\n- 2\n", ErrSyntax, "p.yaml:2: 1, want the keys node, mac, address, iface"},
		{"peers:\n- [0, 02:46:55:00:00:01]\n", ErrSyntax, "p.yaml:2: a list, want the keys"},
		{"peers: {node: 0, mac: 02:46:55:00:00:01}\n", ErrSyntax, "p.yaml:1: peers is a mapping, want a list"},
		{"hello\n", ErrSyntax, "p.yaml:1"},
		{"peers:\n- &a {node: 0, mac: 02:46:55:00:00:01}\n- *a\n", ErrSyntax, "p.yaml:2: an anchor or alias"},
		{"peers:\n- {node: !!int 0, mac: 02:46:55:00:00:01}\n", ErrSyntax, "p.yaml:2: node is a tag"},
		{"peers:\n- {<<: {node: 0}, mac: 02:46:55:00:00:01}\n", ErrUnknownKey, "p.yaml:2: unknown key \"<<\""},
		{"peers:\n" + good + "---\npeers:\n" + good, ErrSyntax, "a second YAML document"},
		{"peers:\n- {node: 0, mac: 02:46:55:00:00:01\n", ErrSyntax, "p.yaml:"},
		{"peers:\n\t- a\n", ErrSyntax, "p.yaml:2"},
		{strings.Repeat("[", 1000), ErrSyntax, "p.yaml:1: nested deeper"},
		{"#\n" + strings.Repeat("- ", 1000), ErrSyntax, "p.yaml:2: nested deeper"},
		{strings.Repeat("#", MaxBytes) + "\n", ErrTooLarge, "more than 8388608 bytes"},
	} {
		f, err := Parse("p.yaml", []byte(c.text))
		text := c.text[:min(len(c.text), 100)]
		if f != nil || !errors.Is(err, c.want) {
			t.Errorf("%q: got %v, want %v", text, err, c.want)
			continue
		}
		if !strings.Contains(column.ReplaceAllString(err.Error(), "$1"), c.in) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %q does not say %q on one line", text, err, c.in)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	want := &File{GID: 7, Peers: []Peer{{Node: 0, MAC: mac("02:00:00:00:00:01")},
		{Node: 1, MAC: mac("02:00:00:00:00:02")}}}
	data, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, addresses); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(path, []byte("gid: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, ErrGIDRange) || !strings.Contains(err.Error(), path+":1:") {
		t.Error(err)
	}
	// A file that never ends is not read to its end.
	if _, err := Load("/dev/zero"); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	a, b := mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02")
	for _, c := range []struct {
		f    File
		want error
		in   string
	}{
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: a}, {Node: 1, MAC: b}}}, nil, ""},
		{File{GID: MaxGID, Peers: []Peer{{Node: 1, MAC: a, Iface: "x"}, {Node: 0, MAC: a}}}, nil, ""},
		{File{}, ErrPeerCount, "peers: 0 peers"},
		{File{GID: 2048, Peers: []Peer{{Node: 0, MAC: a}, {Node: 1, MAC: b}}}, ErrGIDRange, "gid 2048"},
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: a}, {Node: 0, MAC: b}}}, ErrDuplicateNode,
			"peer 1: node 0 is already at peer 0"},
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: a}, {Node: 1, MAC: a}}}, ErrDuplicateMAC, "peer 1: mac"},
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: a}, {Node: 2, MAC: b}}}, ErrNodeGap, "peer 1: node 2"},
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: nil}, {Node: 1, MAC: b}}}, ErrMAC, "peer 0"},
		{File{GID: 0, Peers: []Peer{{Node: 0, Absent: true}, {Node: 1, Absent: true}}}, nil, ""},
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: a, Absent: true}, {Node: 1, MAC: b}}}, ErrAbsent, "peer 0: node 0"},
		{File{GID: 0, Peers: []Peer{{Node: 0, Absent: true}, {Node: 1, Absent: true}}}, nil, ""},
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: a, Absent: true}, {Node: 1, MAC: b}}}, ErrAbsent, "peer 0: node 0"},
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: a}, {Node: 1, Iface: "x", Absent: true}}}, ErrAbsent,
			"peer 1: node 1"},
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: a, Iface: "a\n"}, {Node: 1, MAC: b}}}, ErrIface, "peer 0"},
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: a, Groups: []Range{{0, 1}}}, {Node: 1, MAC: b}}}, ErrGIDRange,
			"peer 0: node 0"},
		{File{GID: 0, Peers: []Peer{{Node: 0, MAC: a, Groups: []Range{}}, {Node: 1, MAC: b}}}, ErrGIDRange, "0 ranges"},
		{File{GID: 0, Peers: make([]Peer, MaxNodes+1)}, ErrPeerCount, "65537"},
	} {
		err := c.f.Validate()
		if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), c.in) {
			t.Errorf("got %v, want %v with %q", err, c.want, c.in)
		}
		if _, err := c.f.Marshal(); !errors.Is(err, c.want) {
			t.Errorf("Marshal: got %v, want %v", err, c.want)
		}
	}
}

// The largest file is accepted, and is smaller than MaxBytes even with the longest names.
func TestLargest(t *testing.T) {
	f := &File{GID: 1}
	for i := range MaxNodes {
		f.Peers = append(f.Peers, Peer{Node: uint16(i), MAC: net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i)},
			Iface: "abcdefghijklmno"})
	}
	data, err := f.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("large.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := got.Marshal(); err != nil || string(again) != string(data) {
		t.Errorf("read and written again it is another file (%v)", err)
	}
}

// What Marshal writes, Parse reads: Parse(Marshal(f)) == f with the peers sorted.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(MinNodes, 40).Draw(t, "n")
		want := &File{GID: rapid.Uint16Range(0, MaxGID).Draw(t, "gid")}
		if rapid.Bool().Draw(t, "with a token") {
			copy(want.Token[:], rapid.SliceOfN(rapid.Byte(), attach.TokenSize, attach.TokenSize).Draw(t, "token"))
		}
		macs := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 1<<40-1), n, n, rapid.ID).Draw(t, "macs")
		for i, m := range macs {
			b := net.HardwareAddr{byte(m>>40) &^ 1, byte(m >> 32), byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}
			// Any name that the kernel accepts in printable ASCII, also those that mean something
			// to YAML.
			name := rapid.OneOf(rapid.SampledFrom([]string{"", "null", "~", "yes", "0", "- a", "#x", "'", `"`, `\`, "{",
				"&a", "*a", "!x", "%d", "@", "`", "|", ">"}),
				rapid.StringMatching(`[!-.0-9;-~]{1,15}`)).Filter(func(s string) bool {
				return s == "" || checkIface(s) == nil
			}).Draw(t, "iface")
			p := Peer{Node: uint16(i), MAC: b, Iface: name}
			for range rapid.IntRange(0, 3).Draw(t, "groups") {
				first := rapid.Uint16Range(1, MaxGID).Draw(t, "first")
				p.Groups = append(p.Groups, Range{first, rapid.Uint16Range(first, MaxGID).Draw(t, "last")})
			}
			if rapid.IntRange(0, 3).Draw(t, "absent") == 0 {
				p = Peer{Node: uint16(i), Absent: true}
			}
			want.Peers = append(want.Peers, p)
		}
		if kind := rapid.IntRange(0, 2).Draw(t, "addresses"); kind > 0 {
			want.Encap, want.Port = Encap(rapid.IntRange(0, 1).Draw(t, "encap")),
				rapid.Uint16Range(0, encap.MaxPort).Draw(t, "port")
			for i := range want.Peers {
				p := &want.Peers[i]
				if p.Absent {
					continue
				}
				if p.Address = netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}); kind == 2 {
					p.Address = netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i)})
				}
				if want.Encap == UDP && rapid.Bool().Draw(t, "no mac") {
					p.MAC = nil
				}
			}
		}
		shuffled := &File{GID: want.GID, Peers: rapid.Permutation(want.Peers).Draw(t, "order"), Token: want.Token,
			Encap: want.Encap, Port: want.Port}
		data, err := shuffled.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse("p.yaml", data)
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		if diff := cmp.Diff(want, got, addresses); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Any bytes give an error of one line or a file that is valid, sorted and can be written and read
// again; never a panic.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "encap: udp\nport: 1\npeers: [{node: 0, address: 192.0.2.1}, {node: 1, address: 192.0.2.2}]\n",
		"peers: [{node: 0, address: \"2001:db8::1\"}, {node: 1, address: \"2001:db8::2\"}]\n",
		"token: \"" + strings.Repeat("1f", 32) +
			"\"\npeers: [{node: 0, mac: 02:46:55:00:00:01}, {node: 1, mac: 02:46:55:00:01:01}]\n",
		"gid: 1\npeers:\n  - {node: 0, mac: \"02:46:55:00:00:01\"}\n  - {node: 1, mac: \"02:46:55:00:01:01\", iface: fu1}\n",
		"peers:\n- node: 1\n  mac: 02-46-55-00-00-01\n- mac: 0246.5500.0002\n  node: 0\n", "peers: [{}, {}]",
		"? a\n: b", "&a [*a]", "!!map {", "a: |\n b\n",
		"%YAML 1.2\n---\npeers:\n...\n", "\"\\x00\\u12\"", "\xff\xfe", "<<: *x", "- - - -\n -", "{? : }", "peers: >-\n",
		"peers: [{node: 0, absent: true}, {node: 1, mac: 02:46:55:00:01:01}]\n", "{a: [b, {c: ]}", "? - : -",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return // the YAML parser's time is not linear in the bytes
		}
		file, err := Parse("f", data)
		if err != nil {
			if file != nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%+v, %q", file, err)
			}
			return
		}
		for i, p := range file.Peers {
			if int(p.Node) != i {
				t.Fatalf("peer %d is node %d", i, p.Node)
			}
		}
		again, err := file.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		file2, err := Parse("f", again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(file, file2, addresses); diff != "" {
			t.Fatal(diff)
		}
	})
}

func ExampleParse() {
	f, err := Parse("peers.yaml", []byte(`
peers:
  - {node: 1, mac: "02:46:55:00:01:01"}
  - {node: 0, mac: "02:46:55:00:00:01"}
  - {node: 1, mac: "02:46:55:00:02:01"}
`))
	fmt.Println(f == nil, err)
	// Output:
	// true peers.yaml:5:5: node 1 is already at peers.yaml:3:5; give each node once: duplicate node
}
