package main

// This file states that nothing of a package comes to lie outside of the folder it is unpacked
// into.

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func archive(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		content := []byte("content")
		if h.Typeflag != tar.TypeReg {
			content = nil
		}
		h.Mode, h.Size = 0o755, int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// Files and links are made that are wanted, others not.
func TestUntar(t *testing.T) {
	dir := t.TempDir()
	b := archive(t, tar.Header{Name: "./usr/bin/x", Typeflag: tar.TypeReg},
		tar.Header{Name: "./usr/bin/y", Typeflag: tar.TypeReg},
		tar.Header{Name: "./usr/lib/z.so.1", Typeflag: tar.TypeSymlink, Linkname: "z.so.1.2"},
		tar.Header{Name: "./usr/bin/hard", Typeflag: tar.TypeLink, Linkname: "./usr/bin/x"})
	if err := untar(b, dir, func(name string) bool { return name != "usr/bin/y" }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usr/bin/x", "usr/bin/hard"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "content" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "usr/lib/z.so.1")); err != nil || to != "z.so.1.2" {
		t.Errorf("%q, %v", to, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "usr/bin/y")); err == nil {
		t.Error("what was not wanted is there")
	}
}

// A name that leads out of the folder, also by way of a link, is refused.
func TestUntarStaysInside(t *testing.T) {
	for name, headers := range map[string][]tar.Header{
		"dots": {{Name: "./../outside", Typeflag: tar.TypeReg}},
		"link": {{Name: "a", Typeflag: tar.TypeSymlink, Linkname: ".."},
			{Name: "a/outside", Typeflag: tar.TypeReg}},
		"absolute link": {{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/tmp"},
			{Name: "a/outside", Typeflag: tar.TypeReg}},
		"hard link": {{Name: "a", Typeflag: tar.TypeLink, Linkname: "../secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "inside")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(parent, "secret"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := untar(archive(t, headers...), dir, func(string) bool { return true }); err == nil {
				t.Error("no error")
			}
			if entries, err := os.ReadDir(parent); err != nil || len(entries) != 2 {
				t.Errorf("%v, %v", entries, err)
			}
		})
	}
}
