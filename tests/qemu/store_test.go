package main

// This file states what stays in the cache.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the distribution still has stays, whatever run it was fetched for; older versions, and
// kernels with another list of drivers, go; what is not the cache's is left alone.
func TestPrune(t *testing.T) {
	cache := fakeCache(t)
	for _, dir := range []string{"kernel-7.2-a-00000000", "qemu-0", "tools-0", "precious", "kernel-7.3-a-00000000"} {
		if err := os.Mkdir(filepath.Join(cache, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := openStore(cache, newKeeper(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.prune()
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"chosen.json", kernelPackage{Release: "6.1-a"}.folder(), kernelPackage{Release: "6.12-a"}.folder(),
		kernelPackage{Release: "7.3-a"}.folder(), "lock", "precious", "qemu-1", "tools-1"}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("%v, not %v", names, want)
	}
}
