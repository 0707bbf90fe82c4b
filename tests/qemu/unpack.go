package main

// This file takes files out of packages, without installing them.

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mostUnpacked is the largest number of bytes taken from one package.
const mostUnpacked = 2 << 30

// unpack copies the wanted files of a package into a folder. want gets names such as "usr/bin/x".
func (k *keeper) unpack(ctx context.Context, deb, into string, want func(name string) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := k.start(cmd); err != nil {
		return err
	}
	err = untar(out, into, want)
	if err != nil {
		cancel() // it writes no more that anybody reads
	}
	waited := cmd.Wait()
	if err == nil && waited != nil {
		err = fmt.Errorf("%w: %s", waited, strings.TrimSpace(complaints.String()))
	}
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(deb), err)
	}
	return nil
}

// untar writes the wanted files and links of an archive below a folder, and nothing outside of it.
func untar(from io.Reader, into string, want func(name string) bool) error {
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer root.Close()
	left := int64(mostUnpacked)
	for t := tar.NewReader(from); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.Trim(strings.TrimPrefix(h.Name, "./"), "/")
		if name == "" || h.Typeflag == tar.TypeDir || !want(name) {
			continue
		}
		if left -= h.Size; left < 0 {
			return fmt.Errorf("it has more than %d bytes", int64(mostUnpacked))
		}
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = writeFile(root, name, os.FileMode(h.Mode).Perm(), t)
		case tar.TypeLink:
			err = root.Link(strings.TrimPrefix(h.Linkname, "./"), name)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

func writeFile(root *os.Root, name string, perm os.FileMode, from io.Reader) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
