// This file has facts about an interface: whether it exists and is up, and how many queues it has.

package xdp

import (
	"fmt"
	"net"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
)

// Find returns the interface with a name, in the network namespace of the calling thread. The name
// may also be an alternative one (ip-link(8), altname; Linux 5.5). The result's Name is the
// interface's own.
func Find(name string) (*net.Interface, error) {
	if l, err := netlink.LinkByName(name); err == nil {
		return net.InterfaceByIndex(l.Attrs().Index)
	}
	return net.InterfaceByName(name) // whose error says what is missing
}

// findInterface looks in the network namespace of the calling thread.
func findInterface(name string, index int) (*net.Interface, error) {
	var dev *net.Interface
	var err error
	var what string
	if name != "" {
		what = fmt.Sprintf("find interface %q", name)
		dev, err = Find(name)
	} else {
		what = fmt.Sprintf("find interface %d", index)
		dev, err = net.InterfaceByIndex(index)
	}
	if err != nil {
		return nil, fault(what, ErrNoInterface, err, "check the name and the network namespace with 'ip link'")
	}
	if name != "" && index != 0 && index != dev.Index {
		return nil, refuse(what, "its index is %d, not %d; give only one of both", dev.Index, index)
	}
	return dev, nil
}

// channels asks the driver for its queues (ETHTOOL_GCHANNELS).
func channels(name string) (rx, tx uint32, err error) {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return 0, 0, err
	}
	defer e.Close()
	c, err := e.GetChannels(name)
	if err != nil {
		return 0, 0, err
	}
	return c.RxCount + c.CombinedCount, c.TxCount + c.CombinedCount, nil
}

// queueCount returns the number of queues that a socket can be bound to, rx or tx
// (xsk_reg_pool_at_qid), or 0 when the driver does not tell.
func queueCount(name string) uint32 {
	rx, tx, err := channels(name)
	if err != nil {
		return 0
	}
	return max(rx, tx)
}
