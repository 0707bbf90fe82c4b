// This file has the kinds of links on which XDP can do less than the kernel accepts.

package xdp

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Kind is the kind of an interface.
type Kind struct {
	// Name is the kernel's (IFLA_INFO_KIND), such as "veth", "bond" and "vlan"; "device"
	// is a driver of its own, mostly hardware.
	Name string
	// Native is the reason why native mode must not be used, even if the driver accepts it; nil: it
	// can be tried. Attach observes it.
	Native error
	Remark string // a warning for programs that send and receive frames here, or ""
}

// errBond is the reason against native mode on a bond. The kernel's bond_xdp_set attaches the
// program to the slaves. There a frame's receive queue is the slave's, so the redirect to a socket
// of the bond is refused (xsk_rcv_check). Generic mode runs after the frame has come to the bond,
// from any slave, and the bond sends on the active one.
var errBond = errors.New("a bond runs a native program on its slaves, from where no frame comes to a socket of the bond")

// KindOf returns the kind of an interface in the network namespace of the calling thread. Errors:
// ErrNoInterface.
func KindOf(ifname string) (Kind, error) {
	dev, err := findInterface(ifname, 0)
	if err != nil {
		return Kind{}, err
	}
	l, err := netlink.LinkByIndex(dev.Index)
	if err != nil {
		return Kind{}, sysFault("find out what "+ifname+" is", err)
	}
	return kindOf(l), nil
}

// kindOf returns the kind that the kernel's description of the link shows.
func kindOf(l netlink.Link) Kind {
	a := l.Attrs()
	k := Kind{Name: l.Type()}
	var remarks []string
	if a.Flags&net.FlagLoopback != 0 {
		remarks = append(remarks,
			"a loopback device has no Ethernet address, and carries nothing to other hosts: use another interface")
	}
	switch k.Name {
	case "bond":
		k.Native = errBond
	case "dummy":
		remarks = append(remarks, "a dummy device carries nothing to other hosts")
	case "ipvlan":
		remarks = append(remarks, "ipvlan carries IP alone: use macvlan for frames of another EtherType")
	}
	if a.Slave != nil && a.Slave.SlaveType() == "bond" {
		remarks = append(remarks,
			"it is a slave of a bond, and nothing comes when the bond turns to another: use the bond")
	}
	if a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_LOWER_UP == 0 {
		remarks = append(remarks, fmt.Sprintf("%s has no carrier: look at the cable, or at what serves it", a.Name))
	}
	k.Remark = strings.Join(remarks, "; ")
	return k
}
