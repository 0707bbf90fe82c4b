package afxdp

// This file is a port whose frames have a VLAN tag (Config.VLAN; IEEE 802.1Q 9.3). The card does
// not know about the tag: Commit writes it behind the addresses, where Reserve left room, and
// Receive takes it out. The NIC program lets in no frame with another tag, or without one.

import (
	"encoding/binary"
	"fmt"

	"github.com/safchain/ethtool"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/uspace/port/encap"
)

// TagSize is the size of a tag in bytes.
const TagSize = 4

const (
	// addressesSize is the size of what stands before the tag: the two Ethernet addresses.
	addressesSize = 12
	etherVLAN     = 0x8100
	numberMask    = 0xfff // of the tag: the rest is priority
)

// checkVLAN refuses VLAN settings that a port cannot have.
func (c *Config) checkVLAN() error {
	switch {
	case c.VLAN > bpf.MaxVLAN:
		return fmt.Errorf("VLAN %d: %w; use 1 to %d", c.VLAN, bpf.ErrRange, bpf.MaxVLAN)
	case c.VLAN != 0 && c.UDP != nil:
		return fmt.Errorf("VLAN %d with datagrams: %w; `ip link add link %s name %[3]s.%[1]d type vlan id %[1]d`, give that the address, and name it as the interface",
			c.VLAN, ErrVLAN, c.Interface)
	}
	return nil
}

// wrapTag puts the tag into the frame of n bytes that starts at b[encap.Room]. The result is
// b[start:end].
func wrapTag(b []byte, n int, vlan uint16) (start, end int) {
	start = encap.Room - TagSize
	copy(b[start:start+addressesSize], b[encap.Room:])
	binary.BigEndian.PutUint16(b[start+addressesSize:], etherVLAN)
	binary.BigEndian.PutUint16(b[start+addressesSize+2:], vlan)
	return start, encap.Room + n
}

func unwrapTags(frames [][]byte, vlan uint16) int {
	k := 0
	for _, b := range frames {
		if len(b) < addressesSize+TagSize || binary.BigEndian.Uint16(b[addressesSize:]) != etherVLAN ||
			binary.BigEndian.Uint16(b[addressesSize+2:])&numberMask != vlan {
			continue
		}
		copy(b[TagSize:], b[:addressesSize])
		frames[k] = b[TagSize:]
		k++
	}
	return k
}

// strips reports whether the interface claims to take tags out of frames and give them to the
// kernel separately, where a NIC program does not see them. A veth claims that and does not do it.
func strips(ifname, kind string) bool {
	if kind == "veth" {
		return false
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		return false // then nobody knows
	}
	defer e.Close()
	features, err := e.Features(ifname)
	return err == nil && features["rx-vlan-hw-parse"]
}
