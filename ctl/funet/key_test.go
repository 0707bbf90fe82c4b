package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/funet/funet/uspace/keyfile"
)

// Rule: key new makes a file that key show says the same of, and overwrites none; both say nothing
// of what it holds.
func TestKeyCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	said := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := root()
		c.SetOut(&out)
		c.SetArgs(append([]string{"key"}, args...))
		err := c.Execute()
		return out.String(), err
	}
	made, err := said("new", path)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := said("show", path)
	if err != nil || made != shown[:len(shown)-1]+" in "+path+"\n" {
		t.Fatalf("made %q, shown %q, %v", made, shown, err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := said("new", path); !errors.Is(err, keyfile.ErrExists) {
		t.Errorf("made again: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the key was overwritten")
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := said("show", path); !errors.Is(err, keyfile.ErrMode) {
		t.Errorf("a key that everybody reads: %v", err)
	}
}
