package main

// This file provides the programs that guests have besides FUNet's, out of the distribution's
// packages. These are a shell and ssh. `funet run` reaches the other guest with ssh, as on real
// hosts.

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// toolPackages are the packages with these programs. The version of the first names the folder.
var toolPackages = []string{"openssh-server", "openssh-client", "busybox-static"}

// These are paths in the folder with programs.
const (
	busybox   = "usr/bin/busybox"
	sshKey    = "etc/ssh/key"
	loader    = "lib64/ld-linux-x86-64.so.2"
	libraries = "usr/lib/x86_64-linux-gnu"
)

// linked are the programs that need libraries. Older versions of ssh lack some of them.
var linked = []string{"usr/bin/ssh", "usr/bin/ssh-keygen", "usr/sbin/sshd", "usr/lib/openssh/sshd-session",
	"usr/lib/openssh/sshd-auth"}

// tools returns the folder with programs for guests.
func (s *store) tools(ctx context.Context) (string, error) {
	return s.make(ctx, s.chosen.toolsFolder(), func(dir, debs string) error {
		s.log("fetching programs for guests")
		if err := s.apt.fetch(ctx, s.apt.bare(), debs, toolPackages...); err != nil {
			return err
		}
		tree := filepath.Join(filepath.Dir(dir), "tree")
		if err := os.Mkdir(tree, 0o755); err != nil {
			return err
		}
		if err := s.unpackAll(ctx, debs, tree, toolFile); err != nil {
			return err
		}
		if err := fillTools(dir, tree); err != nil {
			return err
		}
		// The key opens guests only, which nobody else can reach.
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(sshKey)), 0o755); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, filepath.Join(dir, loader), "--library-path", filepath.Join(dir, libraries),
			filepath.Join(dir, "usr/bin/ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "guest", "-f",
			filepath.Join(dir, sshKey))
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		if err := s.keeper.start(cmd); err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("making a key for guests: %w: %s", err, strings.TrimSpace(complaints.String()))
		}
		return nil
	})
}

// toolFile reports whether a file of the packages may be needed.
func toolFile(name string) bool {
	usr := "usr/" + strings.TrimPrefix(name, "usr/")
	return usr == busybox || slices.Contains(linked, usr) || isLibrary(name)
}

func isLibrary(name string) bool {
	return strings.Contains(filepath.Base(name), ".so") && strings.Contains(name, "lib/x86_64-linux-gnu/")
}

// fillTools copies the programs, and the libraries that they need, out of unpacked packages.
func fillTools(dir, tree string) error {
	have := map[string]string{} // paths of libraries by their file names
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && isLibrary(path) {
			have[d.Name()] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	var need []string
	for _, name := range append([]string{busybox}, linked...) {
		path := filepath.Join(tree, name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			// before /bin was merged into /usr/bin
			path = filepath.Join(tree, strings.TrimPrefix(name, "usr/"))
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && strings.Contains(name, "sshd-") {
			continue
		}
		more, err := copyProgram(path, filepath.Join(dir, name))
		if err != nil {
			return err
		}
		need = append(need, more...)
	}
	need = append(need, filepath.Base(loader))
	for seen := map[string]bool{}; len(need) > 0; need = need[1:] {
		name := need[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		path, ok := have[name]
		if !ok {
			return fmt.Errorf("%w: the programs for guests need %s, which none of them has", errPackages, name)
		}
		real, err := resolve(path, have)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, libraries, name)
		if name == filepath.Base(loader) {
			to = filepath.Join(dir, loader)
		}
		more, err := copyProgram(real, to)
		if err != nil {
			return err
		}
		need = append(need, more...)
	}
	return nil
}

// resolve follows a link among libraries.
func resolve(path string, have map[string]string) (string, error) {
	for range 8 {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // it is the file itself, or copying it says what is wrong
		}
		next, ok := have[filepath.Base(to)]
		if !ok {
			return "", fmt.Errorf("%w: %s is a link to %s, which is missing", errPackages, path, to)
		}
		path = next
	}
	return "", fmt.Errorf("%w: %s is a circle of links", errPackages, path)
}

// copyProgram copies a program or library and returns the libraries that it needs.
func copyProgram(from, to string) (needs []string, err error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if needs, err = f.ImportedLibraries(); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return nil, err
	}
	return needs, os.WriteFile(to, data, 0o755)
}
