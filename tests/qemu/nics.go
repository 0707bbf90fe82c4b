package main

// This file is the NICs that guests have.

import (
	"fmt"
	"slices"
	"strings"
)

// nic is a configuration: a device of QEMU's, and how FUNet is to use it.
type nic struct {
	Name   string
	device string // of QEMU, with its properties
	driver string // of Linux
	xdp    string // of --xdp and funid's configuration
	bind   string
	short  bool // it is in the short form
}

// nics are all. iommu_platform makes virtio's driver map what it gives to the device, which its
// zero-copy needs (drivers/net/virtio_net.c, virtnet_xsk_pool_enable).
var nics = []nic{
	{"virtio-zc", "virtio-net-pci,disable-legacy=on,iommu_platform=on", "virtio_net", "auto", "auto", true},
	{"virtio", "virtio-net-pci", "virtio_net", "auto", "auto", false},
	{"igb", "igb", "igb", "auto", "auto", true},
	{"igb-copy", "igb", "igb", "auto", "copy", false},
	{"e1000e", "e1000e", "e1000e", "auto", "auto", false},
	{"vmxnet3", "vmxnet3", "vmxnet3", "auto", "auto", false},
}

// nicNames lists them.
func nicNames() (names []string) {
	for _, n := range nics {
		names = append(names, n.Name)
	}
	return names
}

// chooseNICs returns those that were named; nil: all.
func chooseNICs(names []string, short bool) (all []nic, err error) {
	for _, name := range names {
		if !slices.Contains(nicNames(), name) {
			return nil, fmt.Errorf("--nics %q: use some of %s", name, strings.Join(nicNames(), ", "))
		}
	}
	for _, n := range nics {
		if len(names) == 0 && (n.short || !short) || slices.Contains(names, n.Name) {
			all = append(all, n)
		}
	}
	return all, nil
}
