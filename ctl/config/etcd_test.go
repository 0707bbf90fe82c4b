package config

// This file tests where a table in etcd may be.

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Rule: a configuration names a table in place of a peers file, and files to reach it beside
// itself.
func TestTableInEtcd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "funid.yaml")
	load := func(text string) (File, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(path)
	}
	c, err := load("card: 1\npeers: etcd://a:2379,[2001:db8::1]:2379/lab/two\n" +
		"etcd: {ca: ca.pem, cert: /etc/host.pem, key: host.key, user: user, lease: 30s}\n")
	beside := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	want := &Etcd{Endpoints: []string{"a:2379", "[2001:db8::1]:2379"}, Prefix: "/lab/two/", CA: beside("ca.pem"),
		Cert: "/etc/host.pem", Key: beside("host.key"), User: beside("user"), Lease: 30 * time.Second}
	if err != nil || !reflect.DeepEqual(c.Etcd, want) || c.Peers != nil || c.PeersPath != "" {
		t.Errorf("%+v, %v", c.Etcd, err)
	}
	if s := c.Etcd.String(); s != "etcd://a:2379,[2001:db8::1]:2379/lab/two" {
		t.Error(s)
	}
	if c, err := load("peers: etcd://a:1\n"); err != nil || c.Etcd.Prefix != "/funet/" || c.Etcd.Lease != DefaultLease {
		t.Errorf("%+v, %v", c.Etcd, err)
	}
	for text, want := range map[string]string{
		"peers: etcd://":                                "no host with a port",
		"peers: etcd://a":                               "no host with a port",
		"peers: etcd://a:0/x":                           "no host with a port",
		"peers: etcd://:2379/x":                         "no host with a port",
		"peers: etcd://u@a:2379/x":                      "no host with a port",
		"peers: etcd://a:1,a:1/x":                       "given twice",
		"peers: etcd://a:1/x//y":                        "the name is not",
		"peers: \"etcd://a:1/x y\"":                     "the name is not",
		"peers: etcd://a:1/" + strings.Repeat("x", 200): "the name is not",
		"peers: etcd://" + strings.Repeat("a:1,", 20):   "more than 16",
		"etcd: {ca: x}":                                 "peers does not name",
		"peers: p\netcd: {ca: x}":                       "peers does not name",
		"peers: etcd://a:1\netcd: {lease: 1s}":          "want whole seconds",
		"peers: etcd://a:1\netcd: {lease: 2500ms}":      "want whole seconds",
		"peers: etcd://a:1\netcd: {cert: x}":            "belong together",
		"peers: etcd://a:1\netcd: {cert: x, key: y}":    "cert without ca",
		"peers: etcd://a:1\netcd: {user: x}":            "in the clear",
		"peers: etcd://a:1\netcd: {pass: x}":            "unknown key",
	} {
		if _, err := load(text); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	if _, err := load("peers: etcd://127.0.0.1:1,localhost:2\netcd: {user: x}"); err != nil {
		t.Errorf("a password on loopback: %v", err)
	}
}
