package config

// This file tests the configuration: an error says where, what is wrong and what to write.

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/xdp"
)

// Rule: every key of doc.go is read.
func TestParse(t *testing.T) {
	c, peers, err := Parse("funid.yaml", []byte(`
socket: /tmp/x.sock
card: 3
peers: p.yaml
interfaces: [eth1, eth2]
encap: udp
port: 4000
xdp: native
bind: zero-copy
huge_pages: true
jumbo: true
vlan: 4094
queue: 5
cpu: 2
polling: sleep
turns: together
slots: 64
refused_accesses: suspend
refused_limit: 17
peer_timeout: 2s
connect_timeout: 4s
drain: 500ms
metrics: "127.0.0.1:9464"
administrators: {users: [root, 7], groups: [9], root: false}
subuid: /tmp/subuid
most_memory: 2GiB
rules:
  - {users: [1001], gids: [1-100, 200], contexts: 16, jobs: 8, connections: 32, bytes: 1GiB, total: {contexts: 20, jobs: 10, connections: 40, bytes: 3GiB}}
  - {bytes: 4096}
`))
	if err != nil {
		t.Fatal(err)
	}
	encap, queue := cluster.UDP, 5
	want := File{Socket: "/tmp/x.sock", Encap: &encap, Port: 4000, Card: 3, Interfaces: []string{"eth1", "eth2"},
		Attach: xdp.AttachNative, Bind: xdp.BindZeroCopy,
		HugePages: true, Jumbo: true, VLAN: 4094, Queue: &queue, CPU: 2, Polling: Sleep, Turns: TurnsTogether, Slots: 64,
		Accesses: SuspendWindows, RefusedLimit: 17, PeerTimeout: 2 * time.Second, ConnectTimeout: 4 * time.Second,
		Drain: 500 * time.Millisecond, Metrics: "127.0.0.1:9464",
		Administrators: Who{Users: []uint32{0, 7}, Groups: []uint32{9}}, NotRoot: true,
		Subordinates: "/tmp/subuid", MostMemory: 2 << 30,
		Rules: []Rule{{Who: Who{Users: []uint32{1001}}, GIDs: []Range{{First: 1, Last: 100}, {First: 200, Last: 200}},
			Contexts: 16, Jobs: 8, Connections: 32, Bytes: 1 << 30,
			Total: Amounts{20, 10, 40, 3 << 30}}, {Bytes: 4096}}}
	if !reflect.DeepEqual(c, want) || peers != "p.yaml" {
		t.Errorf("got %+v and %q", c, peers)
	}
}

// Rule: an empty file is all defaults.
func TestParseNothing(t *testing.T) {
	for _, s := range []string{"", "# nothing\n", "---\n"} {
		if c, peers, err := Parse("x", []byte(s)); err != nil || peers != "" ||
			!reflect.DeepEqual(c, File{CPU: -1, FindCard: true}) {
			t.Errorf("%q: %+v, %v", s, c, err)
		}
	}
}

// Rule: a rule that names groups has a total, 16 times what one may have of what it does not
// say; another has none unless it says so.
func TestTotals(t *testing.T) {
	for _, c := range []struct{ rule, want Rule }{
		{Rule{}, DefaultRule()},
		{Rule{Contexts: 2, Total: Amounts{Jobs: 5}},
			Rule{GIDs: DefaultRule().GIDs, Contexts: 2, Jobs: DefaultJobs, Connections: DefaultConnections,
				Bytes: DefaultBytes,
				Total: Amounts{32, 5, 16 * DefaultConnections, 16 * DefaultBytes}}},
		{Rule{Who: Who{Groups: []uint32{7}}, Contexts: 2, Jobs: 3, Connections: 4, Bytes: 1 << 45},
			Rule{Who: Who{Groups: []uint32{7}}, GIDs: DefaultRule().GIDs,
				Contexts: 2, Jobs: 3, Connections: 4, Bytes: 1 << 45, Total: Amounts{32, 48, 64, MostBytes}}},
	} {
		got := c.rule
		if err := got.Complete(); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v becomes %+v, %v; want %+v", c.rule, got, err, c.want)
		}
	}
	for _, bad := range []Rule{{Total: Amounts{Contexts: -1}}, {Total: Amounts{Bytes: -1}}, {Contexts: -1},
		{Bytes: MostBytes + 1}} {
		if bad.Complete() == nil {
			t.Errorf("%+v is a rule", bad)
		}
	}
}

// Rule: an error names file, line and column and says what would be right.
func TestParseRefuses(t *testing.T) {
	for s, want := range map[string]string{
		"encap: gre":                       "funid.yaml:1:8: encap is \"gre\", want ethernet, udp, hub",
		"port: 0":                          "want a number from 1 to 65520",
		"port: 65521":                      "want a number from 1 to 65520",
		"sockets: x":                       "funid.yaml:1:1: unknown key \"sockets\", want socket, card",
		"card: 1\ncard: 2":                 "funid.yaml:2:1: key given twice: \"card\" is at funid.yaml:1:1 already; keep one",
		"card: x":                          "funid.yaml:1:7: card is \"x\", want a number from 0 to 65535",
		"\ncard: 65536":                    "funid.yaml:2:",
		"polling: fast":                    "want adaptive, spin, sleep",
		"refused_accesses: ban":            "want count, suspend",
		"refused_limit: 0":                 "1 to 1000000",
		"turns: apart":                     "want alone, together",
		"drain: 5":                         "want a time such as",
		"drain: -5s":                       "want a time such as",
		"slots: 1":                         "from 2 to 65536",
		"vlan: 0":                          "1 to 4094",
		"vlan: 4095":                       "1 to 4094",
		"jumbo: maybe":                     "want true or false",
		"queue: -1":                        "from 0 to 4095",
		"interfaces: eth0":                 "want a list",
		"interfaces: []":                   "want a list",
		"socket: \"\"":                     "leave the key out",
		"socket: {a: b}":                   "want one value",
		"rules:\n  - {gids: [0-5]}":        "funid.yaml:2:13: gids has \"0-5\"",
		"rules:\n  - {gids: [5-1]}":        "gids has \"5-1\"",
		"rules:\n  - {gids: [2048]}":       "from 1 to 2047",
		"rules:\n  - {bytes: 0}":           "want bytes",
		"rules:\n  - {bytes: 65TiB}":       "want bytes",
		"rules:\n  - {users: [nobody-9]}":  "no such user",
		"rules:\n  - {groups: [nobody-9]}": "no such group",
		"rules:\n  - x":                    "want the keys users",
		"rules:\n  - {total: 5}":           "want the keys contexts",
		"rules:\n  - {total: {users: 5}}":  "unknown key \"users\"",
		"most_memory: much":                "want bytes",
		"- a":                              "want the keys socket",
		"a: [":                             "funid.yaml:1",
		"card: 1\n---\ncard: 2":            "a second YAML document",
		strings.Repeat("[", 100):           "nested deeper",
		strings.Repeat("#", MaxBytes+1):    "more than",
	} {
		_, _, err := Parse("funid.yaml", []byte(s))
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %q", s, err, want)
		}
	}
}

// Rule: no bytes break the parser.
func FuzzParse(f *testing.F) {
	f.Add([]byte("card: 0\npeers: p\nrules: [{gids: [1-2], bytes: 1MiB}]"))
	f.Add([]byte("administrators: {users: [0]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, err := Parse("x", data); err != nil && !errors.Is(err, ErrConfig) {
			t.Error(err)
		}
	})
}
