package main

// This file finds the kernel modules that a guest needs, and their dependencies. A package has no
// modules.dep, as depmod(8) makes that file on the machine where the package is installed. But each
// module lists its dependencies in its section .modinfo.

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// errModule reports a kernel module that is missing or cannot be read.
var errModule = errors.New("kernel module")

// moduleName returns the kernel's name of the module in a file. The kernel has underscores for
// dashes.
func moduleName(path string) string {
	name, _, ok := strings.Cut(filepath.Base(path), ".ko")
	if !ok {
		return ""
	}
	return strings.ReplaceAll(name, "-", "_")
}

// moduleTree holds the modules of a kernel.
type moduleTree struct {
	files   map[string]string // paths by name
	builtIn map[string]bool
	// read returns a module in the form that the kernel loads.
	read func(path string) ([]byte, error)
}

// openModules lists the modules in the folder lib/modules/RELEASE of a kernel.
func openModules(dir string, read func(string) ([]byte, error)) (*moduleTree, error) {
	t := &moduleTree{files: map[string]string{}, builtIn: map[string]bool{}, read: read}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if name := moduleName(path); err == nil && d.Type().IsRegular() && name != "" {
			t.files[name] = path
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing kernel modules: %w", err)
	}
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("listing what the kernel has built in: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		t.builtIn[moduleName(strings.TrimSpace(line))] = true
	}
	return t, nil
}

// module is a kernel module that is ready to load.
type module struct {
	name string
	data []byte
}

// closure returns the named modules and all their dependencies, in an order in which they can be
// loaded.
func (t *moduleTree) closure(names []string) (all []module, err error) {
	seen := map[string]bool{}
	var add func(name, by string) error
	add = func(name, by string) error {
		name = strings.ReplaceAll(name, "-", "_")
		if seen[name] || t.builtIn[name] {
			return nil
		}
		seen[name] = true // a circle ends here
		path, ok := t.files[name]
		if !ok {
			return fmt.Errorf("%w %s, needed by %s: this kernel's packages do not have it", errModule, name, by)
		}
		data, err := t.read(path)
		if err != nil {
			return fmt.Errorf("%w %s: %w", errModule, name, err)
		}
		needs, err := moduleNeeds(data)
		if err != nil {
			return fmt.Errorf("%w %s: %w", errModule, name, err)
		}
		for _, n := range needs {
			if err := add(n, name); err != nil {
				return err
			}
		}
		all = append(all, module{name, data})
		return nil
	}
	for _, n := range names {
		if err := add(n, "the guests"); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// moduleNeeds returns the names of the modules that a module depends on.
func moduleNeeds(data []byte) (names []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("it has no section .modinfo")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(entry), "depends="); ok {
			names = slices.DeleteFunc(strings.Split(list, ","), func(n string) bool { return n == "" })
		}
	}
	return names, nil
}
