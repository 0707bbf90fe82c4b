package cluster_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/funet/funet/uspace/cluster"
)

// Rule: a peers file names the key of all hosts, and another of one of them; both are beside the
// file, and nothing of them is read here. What is written reads the same.
func TestKeysOfAPeersFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers.yaml")
	const text = "key: all.key\npeers:\n  - {node: 0, mac: \"02:46:55:00:00:01\"}\n  - {node: 1, mac: \"02:46:55:00:01:01\", key: /etc/one.key}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := cluster.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Key != filepath.Join(filepath.Dir(path), "all.key") || f.Peers[0].Key != "" ||
		f.Peers[1].Key != "/etc/one.key" {
		t.Fatalf("keys %q, %q and %q", f.Key, f.Peers[0].Key, f.Peers[1].Key)
	}
	b, err := f.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := cluster.Parse("again", b)
	if err != nil || again.Key != f.Key || again.Peers[1].Key != f.Peers[1].Key {
		t.Fatalf("written as\n%s, %v", b, err)
	}
	f.Key = "a\nb"
	if err := f.Validate(); !errors.Is(err, cluster.ErrKey) {
		t.Errorf("a name with a line's end: %v", err)
	}
}
