package main

// This file states what a guest's modules must be: all that is needed, each after what it depends
// on.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// object is an ELF object with one section, as a kernel module has among others (elf(5)).
func object(section, data string) []byte {
	names := "\x00" + section + "\x00.shstrtab\x00"
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // a Buffer takes everything
	dataAt, namesAt := uint64(64), uint64(64+len(data))
	headersAt := namesAt + uint64(len(names))
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	put([]uint16{1, 62}) // relocatable, x86-64
	put(uint32(1))
	put([]uint64{0, 0, headersAt})
	put(uint32(0))
	put([]uint16{64, 0, 0, 64, 3, 2})
	b.WriteString(data + names)
	header := func(name, kind uint32, at, size uint64) {
		put([]uint32{name, kind})
		put([]uint64{0, 0, at, size})
		put([]uint32{0, 0})
		put([]uint64{1, 0})
	}
	header(0, 0, 0, 0)
	header(1, 1, dataAt, uint64(len(data)))
	header(uint32(len(section)+2), 3, namesAt, uint64(len(names)))
	return b.Bytes()
}

func tree(t *testing.T, builtIn string, modules map[string]string) *moduleTree {
	t.Helper()
	dir := t.TempDir()
	for path, depends := range modules {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, object(".modinfo", "license=GPL\x00depends="+depends+"\x00name=x\x00"), 0o644)); err !=
			nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "modules.builtin"), []byte(builtIn), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := openModules(dir, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A module comes after those that it depends on, once, whatever way there are to it; what the
// kernel has built in is none; dashes and underscores are the same.
func TestModulesInOrder(t *testing.T) {
	m := tree(t, "kernel/drivers/virtio/virtio-pci.ko\n", map[string]string{
		"kernel/drivers/net/igb/igb.ko.xz": "i2c-algo-bit,dca,ptp", "kernel/drivers/i2c/algos/i2c-algo-bit.ko.xz": "",
		"kernel/drivers/dca/dca.ko": "", "kernel/drivers/ptp/ptp.ko": "pps_core", "kernel/drivers/pps/pps_core.ko": "",
		"kernel/drivers/net/e1000e/e1000e.ko": "ptp", "kernel/drivers/net/unwanted.ko": "",
	})
	all, err := m.closure([]string{"virtio_pci", "igb", "e1000e"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range all {
		names = append(names, one.name)
	}
	if d := cmp.Diff([]string{"i2c_algo_bit", "dca", "pps_core", "ptp", "igb", "e1000e"}, names); d != "" {
		t.Error(d)
	}
}

// A driver that a kernel does not have is named, with what needs it; a file that is no module is an
// error.
func TestModulesRefused(t *testing.T) {
	m := tree(t, "", map[string]string{"igb.ko": "dca"})
	for want, name := range map[string]string{"dca, needed by igb": "igb", "vmxnet3, needed by the guests": "vmxnet3"} {
		if _, err := m.closure([]string{name}); !errors.Is(err, errModule) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, data := range [][]byte{nil, []byte("no module"), object(".text", "x")} {
		if _, err := moduleNeeds(data); err == nil {
			t.Errorf("%.20q: no error", data)
		}
	}
}
