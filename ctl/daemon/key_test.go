package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/keyfile"
)

// Rule: a key that others can read is refused before anything is opened, wherever it is named; a
// good one is not, and encrypt: false is read.
func TestKeyOfAConfiguration(t *testing.T) {
	folder := t.TempDir()
	if _, err := keyfile.New(filepath.Join(folder, "key")); err != nil {
		t.Fatal(err)
	}
	load := func(keys, peers string) error {
		path := filepath.Join(folder, "funid.yaml")
		nodes := "peers:\n  - {node: 0, mac: \"02:46:55:00:00:01\"}\n  - {node: 1, mac: \"02:46:55:00:01:01\"" +
			peers + "}\n"
		err := errors.Join(os.WriteFile(filepath.Join(folder, "peers.yaml"), []byte(nodes), 0o600),
			os.WriteFile(path, fmt.Appendf(nil, "card: 0\npeers: peers.yaml\ninterfaces: [lo]\n%s", keys), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		f, err := config.Load(path)
		if err != nil {
			return err
		}
		if f.Readable != (keys == "key: key\nencrypt: false\n") {
			t.Errorf("%q: readable %v", keys, f.Readable)
		}
		return daemon.Config{File: f}.Check()
	}
	for _, c := range [][2]string{{"", ""}, {"key: key\nencrypt: false\n", ""}, {"encrypt: true\n", ", key: key"}} {
		if err := load(c[0], c[1]); err != nil {
			t.Errorf("%q, %q: %v", c[0], c[1], err)
		}
	}
	if err := os.Chmod(filepath.Join(folder, "key"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"key: key\n", ""}, {"", ", key: key"}} {
		if err := load(c[0], c[1]); !errors.Is(err, keyfile.ErrMode) || !errors.Is(err, config.ErrConfig) {
			t.Errorf("%q, %q, which everybody reads: %v", c[0], c[1], err)
		}
	}
	if err := load("key: none\n", ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := load("encrypt: perhaps\n", ""); !errors.Is(err, config.ErrConfig) {
		t.Errorf("encrypt: perhaps: %v", err)
	}
}
