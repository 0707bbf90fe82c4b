package main

// This file makes the first root file system of a guest, which is also its only one.

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/qemu/cpio"
	"github.com/funet/funet/tests/qemu/guest"
)

// errStatic reports a program that needs libraries: guests have none for it.
var errStatic = errors.New("not a static program")

// image describes the contents of a guest.
type image struct {
	guest     string // path of this program
	funet     string
	funid     string
	tools     string // a folder
	kernel    string // a folder
	peers     string // text of the peers file
	funidYAML [2]string
}

// applets are the applets of busybox that have a name of their own.
var applets = []string{"sh", "dmesg", "cat", "ls", "ps", "ip", "mkdir", "mount", "true"}

// build writes the archive into memory, as a file without a name, and returns it open for reading.
// Both guests of a pair use the same file.
func (i *image) build() (_ *os.File, err error) {
	fd, err := unix.MemfdCreate("initramfs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making an archive in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "initramfs")
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	to := bufio.NewWriterSize(f, 1<<20)
	w := cpio.NewWriter(to)
	for _, dir := range []string{"bin", "dev", "etc", "modules", "proc", "root", "run", "sys", "tmp", "var"} {
		if err := w.Folder(dir); err != nil {
			return nil, err
		}
	}
	for _, program := range []struct{ name, path string }{{"init", i.guest}, {"bin/funet", i.funet},
		{"bin/funid", i.funid}} {
		data, err := os.ReadFile(program.path)
		if err != nil {
			return nil, err
		}
		if err := w.File(program.name, 0o755, data); err != nil {
			return nil, err
		}
	}
	if err := i.addTools(w); err != nil {
		return nil, err
	}
	modules, err := os.ReadDir(filepath.Join(i.kernel, "modules"))
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		data, err := os.ReadFile(filepath.Join(i.kernel, "modules", m.Name()))
		if err != nil {
			return nil, err
		}
		if err := w.File(filepath.Join(guest.ModuleDir, m.Name())[1:], 0o644, data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(
		w.Device("dev/console", 5, 1), // the kernel opens it for the first process
		w.Link(guest.Program[1:], "/init"),
		w.Link("bin/busybox", "/"+busybox),
		w.File("etc/passwd", 0o644,
			[]byte("root:*:0:0::/root:/bin/sh\nnobody:*:65534:65534::/:/bin/sh\nsshd:*:100:65534::/run/sshd:/bin/sh\n")),
		w.File("etc/ssh/ssh_config", 0o644, []byte(sshConfiguration)),
		w.File(sshdPath[1:], 0o644, []byte(sshdConfiguration)),
		w.File("etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n")),
		w.File(peersPath[1:], 0o644, []byte(i.peers)))
	for host, text := range i.funidYAML {
		err = errors.Join(err, w.File(funidPath(host)[1:], 0o644, []byte(text)),
			w.File(funidDirectPath(host)[1:], 0o644, []byte(text+directly)))
	}
	for _, name := range applets {
		err = errors.Join(err, w.Link("bin/"+name, "busybox"))
	}
	if err := errors.Join(err, w.Close(), to.Flush()); err != nil {
		return nil, err
	}
	return f, nil
}

// addTools writes the folder with programs into the archive.
func (i *image) addTools(w *cpio.Writer) error {
	return filepath.WalkDir(i.tools, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(i.tools, path)
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			if name == "etc" {
				return nil // it is there
			}
			return w.Folder(name)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return w.File(name, info.Mode(), data)
	})
}

// sshConfiguration and sshdConfiguration are the guests' files. One key serves as key of the hosts
// and of the user. The cipher costs little. Only the two guests are on their network.
const (
	sshConfiguration = `StrictHostKeyChecking no
UserKnownHostsFile /dev/null
IdentityFile /` + sshKey + `
LogLevel ERROR
ConnectTimeout 10
KexAlgorithms curve25519-sha256
Ciphers chacha20-poly1305@openssh.com
`
	sshdConfiguration = `HostKey /` + sshKey + `
AuthorizedKeysFile /` + sshKey + `.pub
StrictModes no
PermitRootLogin yes
UsePAM no
UseDNS no
PidFile none
`
	sshdPath = "/etc/ssh/sshd_config"
)

// peersPath is the path of the peers file in a guest.
const peersPath = "/etc/peers.yaml"

// funidPath is the path of funid's configuration in a guest.
func funidPath(host int) string { return fmt.Sprintf("/etc/funid-%d.yaml", host) }

// funidDirectPath is the path of funid's configuration with direct ports.
func funidDirectPath(host int) string { return fmt.Sprintf("/etc/funid-direct-%d.yaml", host) }

// checkStatic refuses a program that needs an interpreter.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", path, errStatic, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s: %w: guests have no libraries; build it with CGO_ENABLED=0", path, errStatic)
		}
	}
	return nil
}
