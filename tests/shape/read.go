package main

// This file walks the folder.

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// measure reads all files of a folder.
func measure(folder string) (*figures, error) {
	f, root := newFigures(), os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		kind := filepath.Ext(name)
		if kind != ".go" && kind != ".c" && kind != ".h" && name != "README.md" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		switch kind {
		case ".go":
			return f.addGo(name, text)
		case ".md":
			f.readme = bytes.Count(text, []byte("\n"))
		default:
			f.addC(name, text)
		}
		return nil
	})
	if err == nil && len(f.code) == 0 {
		err = fmt.Errorf("no Go file in it")
	}
	if err != nil {
		return nil, fmt.Errorf("measuring the source in %s: %w", folder, err)
	}
	return f, nil
}
