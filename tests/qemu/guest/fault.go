package guest

// This file changes the NIC: its queues, rings, link and MTU. It also takes the NIC's driver away
// and brings the NIC back.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// channels sets the number of the NIC's queues.
func channels(args []string) error {
	return resize(args, func(e *ethtool.Ethtool, name string, n uint32) error {
		c, err := e.GetChannels(name)
		if err == nil {
			c.CombinedCount = n
			_, err = e.SetChannels(name, c)
		}
		return err
	})
}

// rings sets the number of descriptors of the NIC's receive ring.
func rings(args []string) error {
	return resize(args, func(e *ethtool.Ethtool, name string, n uint32) error {
		r, err := e.GetRing(name)
		if err == nil {
			r.RxPending = n
			_, err = e.SetRing(name, r)
		}
		return err
	})
}

// resize sets a number of the NIC, as the arguments say.
func resize(args []string, set func(e *ethtool.Ethtool, name string, n uint32) error) error {
	if len(args) != 2 {
		return errors.New("name the interface and say how many")
	}
	n, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return err
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer e.Close()
	if err := set(e, args[0], uint32(n)); err != nil {
		return fmt.Errorf("setting up %s: %w", args[0], err)
	}
	return nil
}

// again sets a NIC up that was set down, and waits for its link.
func again(args []string) error {
	if len(args) != 1 {
		return errors.New("name the interface")
	}
	nic, err := netlink.LinkByName(args[0])
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(nic); err != nil {
		return fmt.Errorf("setting %s up: %w", args[0], err)
	}
	return waitForLink(args[0], time.Now().Add(carrierDeadline))
}

// down sets the NIC down.
func down(args []string) error {
	if len(args) != 1 {
		return errors.New("name the interface")
	}
	nic, err := netlink.LinkByName(args[0])
	if err == nil {
		err = netlink.LinkSetDown(nic)
	}
	return err
}

// mtu sets the MTU of the NIC, and waits for its link.
func mtu(args []string) error {
	if len(args) != 2 {
		return errors.New("name the interface and its MTU")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	nic, err := netlink.LinkByName(args[0])
	if err == nil {
		err = netlink.LinkSetMTU(nic, n)
	}
	if err != nil {
		return fmt.Errorf("MTU %d of %s: %w", n, args[0], err)
	}
	return waitForLink(args[0], time.Now().Add(carrierDeadline))
}

// unload takes the driver out of the kernel, loads it again, and sets the NIC up.
func unload(args []string) error {
	if len(args) != 1 {
		return errors.New("name the interface")
	}
	host, err := hostNumber()
	if err != nil {
		return err
	}
	module, err := filepath.EvalSymlinks(filepath.Join("/sys/class/net", args[0], "device/driver/module"))
	if err != nil {
		return fmt.Errorf("finding the module of %s: %w", args[0], err)
	}
	if err := unix.DeleteModule(filepath.Base(module), unix.O_NONBLOCK); err != nil {
		return fmt.Errorf("taking %s out of the kernel: %w", filepath.Base(module), err)
	}
	if err := loadModules(); err != nil {
		return err
	}
	_, err = bringUp(host)
	return err
}

// reload takes the driver from the NIC, which ends the interface. Then it gives the driver back,
// which makes another interface with the same name and address.
func reload(args []string) error {
	if len(args) != 1 {
		return errors.New("name the interface")
	}
	host, err := hostNumber()
	if err != nil {
		return err
	}
	device, err := filepath.EvalSymlinks(filepath.Join("/sys/class/net", args[0], "device"))
	if err != nil {
		return err
	}
	driver, err := filepath.EvalSymlinks(filepath.Join(device, "driver"))
	if err != nil {
		return err
	}
	for _, name := range []string{"unbind", "bind"} {
		if err := os.WriteFile(filepath.Join(driver, name), []byte(filepath.Base(device)), 0); err != nil {
			return fmt.Errorf("driver %s: %w", filepath.Base(driver), err)
		}
	}
	_, err = bringUp(host)
	return err
}
