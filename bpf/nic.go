// This file loads the NIC program and is the card's handle on its maps.

package bpf

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
)

// These constants must be the same for programs and card, as in funet.h; a test compares the two.
const (
	EtherType = 0x88B5 // of every FUNet frame: local experimental EtherType 1 of IEEE Std 802
	Version   = 6      // the only header version that the NIC program lets through
	// VersionDirect is the header version of frames between ports. A program that has a [Switch]
	// lets them through to the ports.
	VersionDirect = 7
	VersionProbe  = 0 // the header version of probes, which the NIC program leaves to the kernel
	// VersionHello is the version of hellos (package uspace/port/hello). The program lets them
	// through whatever their group.
	VersionHello = 255
	// FrameMin is the length in bytes of a frame without packets: the Ethernet header's 14
	// and the FUNet header's 66.
	FrameMin     = 80
	Groups       = 2048 // the number of GIDs; a GID is less than it
	MaxAddresses = 256  // the most own addresses for which datagrams are taken
	MaxVLAN      = 4094 // the largest VLAN number (IEEE 802.1Q, 9.6)
	// MaxQueues bounds the receive queues of an interface that LoadNIC takes, so that a
	// mistaken number does not pin kernel memory. It is well above what NICs have.
	MaxQueues = 4096
)

// ErrRange reports a number, such as a queue count or a GID, beyond the program's maps.
var ErrRange = errors.New("out of range")

// NIC is the NIC program, loaded into the kernel but not attached, and its maps. A socket is found
// by its queue number alone. So one program serves several interfaces only if they do not share
// queue numbers, and a card with several interfaces loads one NIC for each.
//
// Any goroutine may call its methods. After Close, SetGroup and Counters fail, and Program and
// Sockets return objects that can no longer be used.
type NIC struct {
	program *ebpf.Program
	maps    nicMaps
	groups  *ebpf.Memory // of the groups' map ([Load.Defers]), or nil
}

// Load says how to load the NIC program.
type Load struct {
	Queues int // gives room for sockets on receive queues 0 to Queues-1, at most [MaxQueues]
	// Frags loads the program for frames that span several buffers. Native mode needs that for an
	// MTU above about a page, and so does, in any mode, an AF_XDP socket with several descriptors a
	// frame. It needs Linux 5.18.
	Frags bool
	// UDPPort, if not 0, loads the program for UDP datagrams to that port, over IPv4 and IPv6, for
	// the addresses of [NIC.SetAddresses]. Frames with FUNet's own EtherType then pass.
	UDPPort uint16
	// VLAN is the VLAN number of the frames or datagrams, up to [MaxVLAN]. 0 means that they have
	// no tag; datagrams may then have one that only states a priority. Others pass.
	VLAN uint16
	// Defers has the program answer frames of groups that are absent ([NIC.SetAbsent]), unless they
	// travel in datagrams. It needs Linux 5.5.
	Defers bool
	// Switch, if not nil, has the program hand direct frames to the ports of the switch with these
	// maps. It stays the caller's.
	Switch *Shared
}

// LoadNIC loads the NIC program. No group is active and no socket is present yet, so an attached
// program drops every FUNet frame and passes every other.
//
// It needs Linux 5.3 and CAP_BPF with CAP_NET_ADMIN and CAP_PERFMON (CAP_SYS_ADMIN before Linux
// 5.8); without them the error wraps [os.ErrPermission]. On kernels before 5.11 it lifts the
// process's limit on locked memory.
func LoadNIC(l Load) (*NIC, error) {
	if l.Queues < 1 || l.Queues > MaxQueues {
		return nil, fmt.Errorf("load the NIC program for %d receive queues: %w: give 1 to %d", l.Queues,
			ErrRange, MaxQueues)
	}
	if l.VLAN > MaxVLAN {
		return nil, fmt.Errorf("load the NIC program for VLAN %d: %w: give 0 to %d", l.VLAN, ErrRange, MaxVLAN)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, loadError("lift the limit on locked memory for the NIC program", false, err)
	}
	spec, err := loadNic()
	if err != nil {
		return nil, fmt.Errorf("read the built-in NIC program: %w: rebuild it with go generate", err)
	}
	spec.Maps["funet_sockets"].MaxEntries = uint32(l.Queues)
	for name, value := range map[string]uint16{"funet_udp_port": l.UDPPort, "funet_vlan": l.VLAN} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("read the built-in NIC program: %w: rebuild it with go generate", err)
		}
	}

	if l.Defers {
		if err := spec.Variables["funet_defers"].Set(uint8(1)); err != nil {
			return nil, fmt.Errorf("read the built-in NIC program: %w: rebuild it with go generate", err)
		}
		spec.Maps["funet_groups"].Flags |= mmapable
	} else {
		spec.Maps["funet_deferrals"].MaxEntries = 1
	}

	var options ebpf.CollectionOptions
	if l.Switch == nil {
		for _, name := range []string{"funet_ports", "funet_jobs", "funet_links"} {
			spec.Maps[name].MaxEntries = 1
		}
		spec.Maps["funet_jobs"].InnerMap.Flags = 0 // which needs Linux 5.10
		// Nor is there anything to capture: rings need Linux 5.8; the verifier removes their uses.
		spec.Maps["funet_rings"] = spec.Maps["funet_capture"].Copy()
	} else {
		if err := spec.Variables["funet_direct"].Set(uint8(1)); err != nil {
			return nil, fmt.Errorf("read the built-in NIC program: %w: rebuild it with go generate", err)
		}
		options.MapReplacements = l.Switch.named()
		for name, m := range options.MapReplacements {
			spec.Maps[name].MaxEntries = m.MaxEntries()
		}
	}
	n, doing := new(NIC), "load the NIC program"
	if l.Frags {
		doing += " for frames of several buffers"
		var objects struct {
			nicMaps
			Program *ebpf.Program `ebpf:"funet_nic_frags"`
		}
		err = spec.LoadAndAssign(&objects, &options)
		n.maps, n.program = objects.nicMaps, objects.Program
	} else {
		var objects struct {
			nicMaps
			Program *ebpf.Program `ebpf:"funet_nic"`
		}
		err = spec.LoadAndAssign(&objects, &options)
		n.maps, n.program = objects.nicMaps, objects.Program
	}
	if err != nil {
		return nil, loadError(doing, l.Frags, err)
	}
	if l.Defers {
		if n.groups, err = n.maps.FunetGroups.Memory(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: map the groups: %w", doing, err), n.Close())
		}
	}
	return n, nil
}

// loadError adds the cure for the failures that an administrator can act on.
func loadError(doing string, frags bool, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%s: run as root or with CAP_BPF and CAP_NET_ADMIN, CAP_PERFMON too (before Linux 5.8 with CAP_SYS_ADMIN, before 5.11 also CAP_SYS_RESOURCE): %w", doing, err)
	}
	if frags {
		return fmt.Errorf("%s: %w: Linux 5.18 or later is needed; on an older kernel do without", doing, err)
	}
	return fmt.Errorf("%s: %w: Linux 5.3 or later with XDP sockets (CONFIG_XDP_SOCKETS) is needed", doing, err)
}

// Program is the program to attach to an interface. It belongs to the NIC: do not close it. An
// attachment through a bpf_link holds the program and its maps by itself.
func (n *NIC) Program() *ebpf.Program { return n.program }

// Sockets is the XSKMAP from receive queue (uint32) to the file descriptor of an AF_XDP socket
// (uint32) bound to that queue. The kernel removes an entry when its socket is closed. The map
// belongs to the NIC: do not close it.
func (n *NIC) Sockets() *ebpf.Map { return n.maps.FunetSockets }

// SetGroup lets frames of group gid through, or stops them again. It takes effect on each CPU at
// its next frame; frames already redirected still reach the socket. A gid of [Groups] or more is
// refused with [ErrRange].
func (n *NIC) SetGroup(gid uint16, active bool) error {
	if gid >= Groups {
		return fmt.Errorf("set group %d: %w: a GID is 0 to %d", gid, ErrRange, Groups-1)
	}
	value := groupForeign
	if active {
		value = groupHere
	}
	if err := n.maps.FunetGroups.Update(uint32(gid), value, ebpf.UpdateExist); err != nil {
		return fmt.Errorf("set group %d of the NIC program to %t: %w", gid, active, err)
	}
	return nil
}

// SetAbsent says that nobody here has the active group gid, or that somebody will. Frames of an
// absent group that allow it (arctic.Header.Defer) are answered by the program, which tells their
// senders to wait. All other frames reach the socket, as those of a group that is here. It takes
// effect as SetGroup does. It is a store into shared memory, and needs no privilege. It does
// nothing unless the program defers ([Load.Defers]).
func (n *NIC) SetAbsent(gid uint16, so bool) error {
	if n.groups == nil {
		return nil
	}
	value := groupHere
	if so {
		value = groupAbsent
	}
	if _, err := n.groups.WriteAt([]byte{value}, int64(gid)*groupStride); err != nil {
		return fmt.Errorf("set group %d of the NIC program to absent %t: %w", gid, so, err)
	}
	return nil
}

// These constants are as in nic.c, and as arrays of maps are laid out.
const (
	groupForeign = uint8(0)
	groupHere    = uint8(1)
	groupAbsent  = uint8(2)
	groupStride  = 8       // bytes from one group to the next
	mmapable     = 1 << 10 // BPF_F_MMAPABLE of linux/bpf.h
)

// SetAddresses sets the own addresses for which datagrams are taken ([Load.UDPPort]); at first
// there are none. Datagrams to other addresses pass, because this host may have to forward them.
// More than [MaxAddresses] are refused with [ErrRange]. During the call, a frame for an address
// that stays never passes.
func (n *NIC) SetAddresses(addresses []netip.Addr) error {
	if len(addresses) > MaxAddresses {
		return fmt.Errorf("set %d addresses of the NIC program: %w: give at most %d", len(addresses),
			ErrRange, MaxAddresses)
	}
	m := n.maps.FunetAddresses
	want := map[[16]byte]bool{}
	for _, a := range addresses {
		want[a.As16()] = true
	}
	var gone [][16]byte
	var key [16]byte
	var value uint8
	all := m.Iterate()
	for all.Next(&key, &value) {
		if !want[key] {
			gone = append(gone, key)
		}
	}
	err := all.Err()
	for _, key := range gone {
		err = errors.Join(err, m.Delete(key))
	}
	for key := range want {
		err = errors.Join(err, m.Put(key, uint8(1)))
	}
	if err != nil {
		return fmt.Errorf("set the addresses of the NIC program: %w", err)
	}
	return nil
}

// Close removes the NIC's hold on the program and its maps. The kernel frees them when nothing
// else, such as an attachment, holds them. Closing twice does no harm.
func (n *NIC) Close() error {
	if err := errors.Join(n.program.Close(), n.maps.Close()); err != nil {
		return fmt.Errorf("close the NIC program: %w", err)
	}
	return nil
}
