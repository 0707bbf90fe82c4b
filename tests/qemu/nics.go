package main

// This file lists the NICs of guests.

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
	xdp    string // the option --xdp, and xdp in funid's configuration
	bind   string
	queues int  // for receiving, and as many for transmitting
	short  bool // part of the short form
}

// backend returns QEMU's option for the network, on the descriptors from 4 on.
func (n *nic) backend() string {
	if n.queues == 1 {
		return "dgram,id=net,local.type=fd,local.str=4"
	}
	var fds []string
	for q := range n.queues {
		fds = append(fds, fmt.Sprint(4+q))
	}
	return "tap,id=net,vhost=off,fds=" + strings.Join(fds, ":")
}

// nics are all configurations. iommu_platform makes virtio's driver map the memory that it gives to
// the device. Its zero-copy needs this (drivers/net/virtio_net.c, virtnet_xsk_pool_enable). A queue
// takes two interrupt vectors there, and the device takes two.
var nics = []nic{
	{"virtio-zc", "virtio-net-pci,disable-legacy=on,iommu_platform=on", "virtio_net", "auto", "auto", 1, true},
	{"virtio-zc-2q", "virtio-net-pci,disable-legacy=on,iommu_platform=on,mq=on,vectors=6", "virtio_net", "auto",
		"auto", 2, false},
	{"virtio", "virtio-net-pci", "virtio_net", "auto", "auto", 1, false},
	{"virtio-2q", "virtio-net-pci,mq=on,vectors=6", "virtio_net", "auto", "auto", 2, false},
	{"igb", "igb", "igb", "auto", "auto", 1, true},
	{"igb-copy", "igb", "igb", "auto", "copy", 1, false},
	{"e1000e", "e1000e", "e1000e", "auto", "auto", 1, false},
	{"vmxnet3", "vmxnet3", "vmxnet3", "auto", "auto", 1, false},
}

// nicNames returns the names of all NICs.
func nicNames() (names []string) {
	for _, n := range nics {
		names = append(names, n.Name)
	}
	return names
}

// chooseNICs returns the named NICs. Without names it returns all, or those of the short form.
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
