package main

// This file is the cache: QEMU and the parts of a guest's kernel, taken out of the distribution's
// packages. The cache is filled once and used again. Nothing of it is installed.
//
//	apt/              package lists and configuration (apt.go)
//	chosen.json       which kernels there are, and when that was asked
//	qemu-VERSION/     QEMU with the libraries that the machine lacks
//	tools-VERSION/    programs for guests
//	kernel-RELEASE-X/ vmlinuz, and modules named in the order in which they are loaded; X stands
//	                  for the list of drivers
//
// A folder is unpacked under another name and renamed when it is complete. So a folder with its own
// name is always complete.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/scratch"
)

// errBusy reports that another process uses the cache.
var errBusy = errors.New("in use")

// errSpace reports that the disk or the memory has not enough room.
var errSpace = errors.New("not enough room")

const (
	// listsAge is the age at which package lists are fetched again.
	listsAge = 7 * 24 * time.Hour
	// storeRoom is how many bytes must be free before a fetch: a kernel's packages and their
	// contents.
	storeRoom = 1200 << 20
	// unfinished is how the names of incomplete folders begin.
	unfinished = "unfinished-"
)

// drivers are the kernel modules that guests load.
var drivers = []string{"virtio_pci", "virtio_net", "e1000e", "igb", "vmxnet3", "veth", "sch_ingress", "cls_bpf"}

// store is the cache.
type store struct {
	dir    string
	keeper *keeper
	lock   *os.File
	log    func(format string, args ...any)
	apt    *apt // nil until a fetch needs it
	chosen chosen
}

// chosen describes what the distribution had when it was asked.
type chosen struct {
	Asked   time.Time       `json:"asked"`
	Kernels []kernelPackage `json:"kernels"`
	QEMU    string          `json:"qemu"` // a version, as Tools is
	Tools   string          `json:"tools"`
}

// openStore opens a cache, or makes one. Only one process at a time can have it open.
func openStore(dir string, k *keeper, log func(string, ...any)) (*store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the cache: %w; say where with --cache or QEMUCACHE", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the cache: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("locking the cache %s: %w: %w; another make qemu has it", dir, errBusy, err)
	}
	scratch.Sweep(dir, unfinished)
	s := &store{dir: dir, keeper: k, lock: lock, log: log}
	text, err := os.ReadFile(s.path("chosen.json"))
	if err == nil && json.Unmarshal(text, &s.chosen) != nil {
		s.chosen = chosen{} // it is asked for again
	}
	return s, nil
}

func (s *store) close() { s.lock.Close() }

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// room returns errSpace if a fetch could fill the disk.
func (s *store) room() error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.dir, &st); err != nil {
		return fmt.Errorf("asking for the room in %s: %w", s.dir, err)
	}
	return enough(s.dir, int64(st.Bavail)*st.Bsize)
}

// enough returns errSpace if a folder has too few free bytes.
func enough(dir string, free int64) error {
	if free < storeRoom {
		return fmt.Errorf("%w: %s has %d MiB free, a kernel takes %d; say where there is more with QEMUCACHE", errSpace,
			dir, free>>20, int64(storeRoom)>>20)
	}
	return nil
}

// ask finds out which packages the distribution has, unless that is known and not too old.
func (s *store) ask(ctx context.Context, again bool) error {
	known := s.chosen.QEMU != "" && len(s.chosen.Kernels) > 0
	if known && !again && time.Since(s.chosen.Asked) < listsAge {
		return nil
	}
	err := s.askApt(ctx)
	if err != nil && known && !again && ctx.Err() == nil {
		s.log("taking what was known on %s: %v", s.chosen.Asked.Format(time.DateOnly), err)
		return nil
	}
	return err
}

func (s *store) askApt(ctx context.Context) (err error) {
	if err := s.room(); err != nil {
		return err
	}
	if err := s.openApt(ctx); err != nil {
		return err
	}
	s.log("fetching package lists")
	if err := s.apt.update(ctx); err != nil {
		return err
	}
	c := chosen{Asked: time.Now()}
	if c.Kernels, err = s.apt.kernels(ctx); err != nil {
		return err
	}
	if c.QEMU, err = s.version(ctx, s.apt.hosts(), emulator); err != nil {
		return err
	}
	if c.Tools, err = s.version(ctx, s.apt.bare(), toolPackages...); err != nil {
		return err
	}
	s.chosen = c
	s.prune()
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.path("chosen.json"), text, 0o644)
}

// These methods return the names of folders in the cache.
func (k kernelPackage) folder() string {
	return fmt.Sprintf("kernel-%s-%08x", k.Release, crc32.ChecksumIEEE([]byte(strings.Join(drivers, " "))))
}
func (c *chosen) qemuFolder() string  { return "qemu-" + c.QEMU }
func (c *chosen) toolsFolder() string { return "tools-" + c.Tools }

// prune removes folders of versions that the distribution no longer offers, as none is chosen
// again.
func (s *store) prune() {
	keep := []string{s.chosen.qemuFolder(), s.chosen.toolsFolder()}
	for _, k := range s.chosen.Kernels {
		keep = append(keep, k.folder())
	}
	for _, kind := range []string{"kernel-*", "qemu-*", "tools-*"} {
		all, _ := filepath.Glob(s.path(kind)) // the pattern is good
		for _, path := range all {
			if !slices.Contains(keep, filepath.Base(path)) {
				_ = os.RemoveAll(path) // what stays only takes room
			}
		}
	}
}

// version returns the version of the first of the packages, as it would be installed.
func (s *store) version(ctx context.Context, options []string, packages ...string) (string, error) {
	files, err := s.apt.plan(ctx, options, packages...)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if name, version := f.split(); name == packages[0] {
			return version, nil
		}
	}
	return "", fmt.Errorf("%w: no %s in %s", errPackages, packages[0], strings.Join(s.apt.host, ", "))
}

func (s *store) openApt(ctx context.Context) (err error) {
	if s.apt == nil {
		s.apt, err = openApt(ctx, s.path("apt"), s.keeper)
	}
	return err
}

// emulator is the name of the package with QEMU.
const emulator = "qemu-system-x86"

// make returns a folder of the cache. If the folder is missing, fill fills it. fill gets the
// folder, and another one for files that are removed afterwards.
func (s *store) make(ctx context.Context, name string, fill func(dir, temporary string) error) (string, error) {
	final := s.path(name)
	if _, err := os.Stat(final); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return final, err
	}
	if err := s.room(); err != nil {
		return "", err
	}
	if err := s.openApt(ctx); err != nil {
		return "", err
	}
	if _, err := os.Stat(s.apt.path("lists/lock")); err != nil { // the lists are gone
		if err := s.apt.update(ctx); err != nil {
			return "", err
		}
	}
	temporary, err := scratch.Make(s.dir, unfinished)
	if err != nil {
		return "", err
	}
	defer temporary.Remove()
	dir := filepath.Join(temporary.Path(), "whole")
	debs := filepath.Join(temporary.Path(), "debs")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(debs, 0o755)); err != nil {
		return "", err
	}
	if err := fill(dir, debs); err != nil {
		return "", err
	}
	return final, os.Rename(dir, final)
}

// qemu returns the folder with QEMU.
func (s *store) qemu(ctx context.Context) (string, error) {
	return s.make(ctx, s.chosen.qemuFolder(), func(dir, debs string) error {
		s.log("fetching QEMU %s", s.chosen.QEMU)
		if err := s.apt.fetch(ctx, s.apt.hosts(), debs, emulator); err != nil {
			return err
		}
		return s.unpackAll(ctx, debs, dir, func(string) bool { return true })
	})
}

// unpackAll unpacks all packages of a folder.
func (s *store) unpackAll(ctx context.Context, debs, dir string, want func(string) bool) error {
	all, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: nothing was fetched", errPackages)
	}
	for _, deb := range all {
		if err == nil {
			err = s.keeper.unpack(ctx, deb, dir, want)
		}
	}
	return err
}

// kernel returns the folder of a kernel.
func (s *store) kernel(ctx context.Context, k kernelPackage, tools string) (string, error) {
	return s.make(ctx, k.folder(), func(dir, debs string) error {
		s.log("fetching kernel %s", k.Release)
		if err := s.apt.fetchKernel(ctx, k, debs); err != nil {
			return err
		}
		s.log("unpacking kernel %s", k.Release)
		tree := filepath.Join(filepath.Dir(dir), "tree")
		if err := os.Mkdir(tree, 0o755); err != nil {
			return err
		}
		if err := s.unpackAll(ctx, debs, tree, func(name string) bool {
			return kernelFile(name, k.Release)
		}); err != nil {
			return err
		}
		return fillKernel(dir, tree, k.Release, func(path string) ([]byte, error) {
			return decompress(ctx, s.keeper, filepath.Join(tools, busybox), path)
		})
	})
}

// kernelFile reports whether a file of a kernel's packages is wanted: the kernel, drivers of the
// guests' devices, and modules that these may depend on.
func kernelFile(name, release string) bool {
	name = strings.TrimPrefix(name, "usr/")
	if strings.HasPrefix(filepath.Base(name), "vmlinuz") {
		return true
	}
	rest, ok := strings.CutPrefix(name, "lib/modules/"+release+"/")
	if !ok || !strings.HasPrefix(rest, "kernel/") {
		return ok && strings.HasPrefix(rest, "modules.")
	}
	for _, part := range []string{"kernel/net/", "kernel/lib/", "kernel/crypto/", "kernel/drivers/net/",
		"kernel/drivers/virtio/",
		"kernel/drivers/i2c/", "kernel/drivers/ptp/", "kernel/drivers/pps/", "kernel/drivers/dca/"} {
		if strings.HasPrefix(rest, part) {
			return true
		}
	}
	return false
}

// fillKernel copies the kernel and the modules that guests need out of unpacked packages.
func fillKernel(dir, tree, release string, read func(string) ([]byte, error)) error {
	var image, modules string
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type().IsRegular() && strings.HasPrefix(d.Name(), "vmlinuz"):
			image = path
		case d.IsDir() && d.Name() == release:
			modules = path
		}
		return nil
	})
	if err != nil {
		return err
	}
	if image == "" || modules == "" {
		return fmt.Errorf("%w: those of kernel %s have no vmlinuz, or no modules", errPackages, release)
	}
	t, err := openModules(modules, read)
	if err != nil {
		return err
	}
	all, err := t.closure(drivers)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "modules"), 0o755); err != nil {
		return err
	}
	for i, m := range all {
		if err := os.WriteFile(filepath.Join(dir, "modules", fmt.Sprintf("%02d-%s.ko", i, m.name)), m.data,
			0o644); err != nil {
			return err
		}
	}
	return os.Rename(image, filepath.Join(dir, "vmlinuz"))
}

// decompressors are the applets of busybox, by the end of a module's file name.
var decompressors = map[string]string{".ko.xz": "xzcat", ".ko.gz": "zcat"}

// decompress returns a module in the form that the kernel loads.
func decompress(ctx context.Context, k *keeper, box, path string) ([]byte, error) {
	name := filepath.Base(path)
	stem, _, _ := strings.Cut(name, ".ko")
	end := name[len(stem):]
	if end == ".ko" {
		return os.ReadFile(path)
	}
	applet, ok := decompressors[end]
	if !ok {
		return nil, fmt.Errorf("%s: %w: compressed in a way that is not known; known are %s", name, errModule,
			slices.Sorted(maps.Keys(decompressors)))
	}
	cmd := exec.CommandContext(ctx, box, applet, path)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := k.start(cmd); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", applet, name, err, strings.TrimSpace(complaints.String()))
	}
	return out.Bytes(), nil
}
