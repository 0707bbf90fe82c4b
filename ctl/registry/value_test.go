package registry_test

// This file tests the values of single keys.

import (
	"errors"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/ctl/registry"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
)

// Rule: what is written reads the same, for every host that a table can have.
func TestHostsReadTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := registry.Host{Node: rapid.Uint16().Draw(t, "node"),
			Name:  rapid.StringMatching(`[!-~]{1,64}`).Draw(t, "name"),
			Life:  rapid.StringMatching(`[0-9a-f]{16}`).Draw(t, "life"),
			Iface: rapid.StringMatching(`[a-z][a-z0-9.]{0,14}`).Draw(t, "iface"),
			MAC:   append(net.HardwareAddr{2}, rapid.SliceOfN(rapid.Byte(), 5, 5).Draw(t, "mac")...)}
		if rapid.Bool().Draw(t, "udp") {
			h.Encap, h.Port = cluster.UDP, uint16(rapid.IntRange(0, 65520).Draw(t, "port"))
			h.Address = netip.AddrFrom4([4]byte{10, 1, 2, rapid.Byte().Draw(t, "address")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "groups") {
			first := rapid.IntRange(1, 2047).Draw(t, "first")
			h.Groups = append(h.Groups, cluster.Range{First: uint16(first), Last: uint16(rapid.IntRange(first,
				2047).Draw(t, "last"))})
		}
		got, err := registry.ParseHost("hosts/x", h.Node, h.Marshal())
		if err != nil || !reflect.DeepEqual(*got, h) {
			t.Fatalf("%s\n%+v\nis read as\n%+v, %v", h.Marshal(), h, got, err)
		}
	})
}

// Rule: a claim has all nodes of its host, and reads the same; its fingerprint is the job's.
func TestClaimsReadTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cards := rapid.SliceOfN(rapid.Uint16Range(0, 2), 1, 300).Draw(t, "cards")
		gid, token := rapid.Uint16Range(1, 2047).Draw(t, "gid"), attach.NewToken()
		total := 0
		for host := range uint16(3) {
			c := registry.ClaimOf(gid, token, 1000, cards, host)
			got, err := registry.ParseClaim("groups/1/1", c.Marshal())
			if err != nil || !reflect.DeepEqual(*got, c) || len(c.Marshal()) > registry.MaxValue {
				t.Fatalf("%s is read as %+v, %v", c.Marshal(), got, err)
			}
			if c.Job != registry.Fingerprint(gid, token) || c.Job == registry.Fingerprint(gid, attach.NewToken()) {
				t.Fatalf("fingerprint %s", c.Job)
			}
			total += c.Nodes
		}
		if total != len(cards) {
			t.Fatalf("%d of %d nodes are on a host", total, len(cards))
		}
	})
	c := registry.ClaimOf(1, attach.NewToken(), 0, []uint16{4, 4, 5, 4}, 4)
	if !reflect.DeepEqual(c.Ranges, []string{"0-1", "3"}) {
		t.Errorf("%q", c.Ranges)
	}
}

// Rule: an error begins with the key's name, and says what is wrong in one line.
func TestValuesRefused(t *testing.T) {
	const good = `{"host":"a","life":"0123456789abcdef","mac":"02:00:00:00:00:01","iface":"eth1","encap":"ethernet"}`
	if _, err := registry.ParseHost("hosts/1", 1, good); err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{good, ""}:                                      "empty, or more than",
		{good, "null"}:                                  "host is",
		{good, good + good}:                             "something follows",
		{`"host":"a"`, `"host":"a b"`}:                  "host is",
		{`"host":"a"`, `"host":5`}:                      "cannot unmarshal",
		{`"host":"a"`, `"hosts":"a"`}:                   "unknown field",
		{"abcdef", "ABCDEF"}:                            "life is",
		{"02:00:00:00:00:01", "03:00:00:00:00:01"}:      "multicast",
		{"02:00:00:00:00:01", "here"}:                   "mac is",
		{"eth1", "a/b"}:                                 "iface",
		{"eth1", ""}:                                    "has no iface",
		{`"ethernet"`, `"gre"`}:                         "encap",
		{`"ethernet"`, `"udp"`}:                         "no address",
		{`"ethernet"`, `"ethernet","port":7}`}:          "something follows",
		{`"ethernet"}`, `"ethernet","port":7}`}:         "port 7",
		{`"ethernet"}`, `"ethernet","port":-7}`}:        "cannot unmarshal",
		{`"ethernet"}`, `"ethernet","groups":["9-1"]}`}: "groups",
		{`"ethernet"}`, `"ethernet","groups":[]}`}:      "groups is empty",
	} {
		value := strings.Replace(good, change[0], change[1], 1)
		_, err := registry.ParseHost("hosts/1", 1, value)
		if err == nil || !strings.HasPrefix(err.Error(), "hosts/1: ") || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
	for value, want := range map[string]string{`{"number":1}`: "identity is",
		`{"number":0,"identity":"01234567"}`: "number is 0",
		`{"number":1,"identity":"0123456"}`:  "identity is"} {
		if _, err := registry.ParseEpoch("epoch", value); !errors.Is(err, registry.ErrValue) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
}

// Rule: no bytes break a parser; what is refused is told in one line that begins with the key.
func FuzzValues(f *testing.F) {
	f.Add(`{"host":"a","life":"0123456789abcdef","mac":"02:00:00:00:00:01","iface":"eth1","encap":"ethernet"}`)
	f.Add(`{"job":"0123456789abcdef0123456789abcdef","uid":1,"nodes":2,"ranges":["0-1"]}`)
	f.Add(`{"number":1,"identity":"01234567"}`)
	f.Add("\xff{\"host\":\"\\u0000\n\"}")
	f.Fuzz(func(t *testing.T, value string) {
		told := func(err error) {
			if err != nil && (!strings.HasPrefix(err.Error(), "key: ") || strings.Contains(err.Error(), "\n") ||
				len(err.Error()) > 800) {
				t.Errorf("%q", err)
			}
		}
		h, err := registry.ParseHost("key", 1, value)
		if told(err); err == nil {
			again, err := registry.ParseHost("key", 1, h.Marshal())
			if err != nil || !reflect.DeepEqual(again, h) {
				t.Errorf("%+v is read again as %+v, %v", h, again, err)
			}
		}
		_, err = registry.ParseClaim("key", value)
		told(err)
		_, err = registry.ParseEpoch("key", value)
		told(err)
	})
}
