package doctor

// This file gathers facts about an interface, from netlink and ethtool, and by trying modes.

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/xdp"
)

// features are the ethtool features that matter to FUNet.
var features = []string{"rx-lro", "rx-gro-hw", "rx-vlan-hw-parse", "rx-ntuple-filter"}

// gatherInterface collects facts about the interface of that name. try tries the driver's modes.
func gatherInterface(name string, try bool) *Interface {
	if own, err := xdp.Find(name); err == nil {
		name = own.Name // which that may be an alternative to
	}
	i := &Interface{Name: name, Processors: runtime.NumCPU(), Features: map[string]bool{}}
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return i
	}
	names := map[int]netlink.Link{}
	for _, l := range links {
		names[l.Attrs().Index] = l
		i.Others = append(i.Others, l.Attrs().Name)
		if l.Attrs().Name == name {
			i.There = true
			i.describe(l)
		}
	}
	if !i.There {
		return i
	}
	own, _ := netlink.LinkByName(name)
	if own == nil { // it has just gone
		i.There = false
		return i
	}
	i.relate(own, names)
	i.Mergers, _ = xdp.Mergers(name) // what is not told stays unknown
	i.ask()
	i.Rx, i.Tx = max(i.Rx, 1), max(i.Tx, 1)
	if try && i.Program == 0 && i.Up && len(i.MAC) == 6 && !i.Loopback {
		i.try()
	}
	return i
}

func (i *Interface) describe(l netlink.Link) {
	a := l.Attrs()
	i.Up, i.MTU, i.MAC, i.Kind = a.Flags&net.FlagUp != 0, a.MTU, a.HardwareAddr, l.Type()
	i.Carrier = a.RawFlags&unix.IFF_LOWER_UP != 0
	i.Loopback = a.Flags&net.FlagLoopback != 0
	i.Rx, i.Tx = a.NumRxQueues, a.NumTxQueues
	if a.Xdp != nil && a.Xdp.Attached {
		i.Program = a.Xdp.ProgId
		i.Ours = ours(i.Program)
		i.Link, i.Holders = holders(a.Index, i.Program)
	}
}

// ours reports whether a program is a NIC program of FUNet.
func ours(id uint32) bool {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return false
	}
	defer p.Close()
	info, err := p.Info()
	return err == nil && strings.HasPrefix(info.Name, "funet_nic")
}

// relate finds the bonds, bridges and VLANs that the interface belongs to.
func (i *Interface) relate(own netlink.Link, links map[int]netlink.Link) {
	a := own.Attrs()
	if m := links[a.MasterIndex]; m != nil && a.MasterIndex != 0 {
		i.Master, i.MasterKind = m.Attrs().Name, m.Type()
	}
	switch own.Type() {
	case "vlan", "macvlan", "macvtap", "ipvlan":
		// With Attrs().NetNsID the parent is in another namespace, where its index is another's.
		i.Parent = fmt.Sprintf("interface %d elsewhere", a.ParentIndex)
		if p := links[a.ParentIndex]; p != nil && a.NetNsID < 0 {
			i.Parent = p.Attrs().Name
		}
	}
	for _, l := range links {
		b := l.Attrs()
		if b.MasterIndex == a.Index {
			i.Slaves = append(i.Slaves, b.Name)
		}
		if l.Type() == "vlan" && b.ParentIndex == a.Index && b.NetNsID < 0 {
			i.VLANs = append(i.VLANs, b.Name)
		}
	}
}

// ask asks the driver. Facts that it does not tell stay unknown.
func (i *Interface) ask() {
	if e, err := ethtool.NewEthtool(); err == nil {
		defer e.Close()
		i.Driver, _ = e.DriverName(i.Name)
		if c, err := e.GetChannels(i.Name); err == nil && c.CombinedCount+c.RxCount > 0 {
			i.Rx, i.Tx = int(c.CombinedCount+c.RxCount), int(c.CombinedCount+c.TxCount)
		}
		if on, err := e.Features(i.Name); err == nil {
			for _, f := range features {
				if on[f] {
					i.Features[f] = true
				}
			}
		}
	}
	for _, file := range glob(filepath.Join("/sys/class/net", i.Name, "queues/rx-*/rps_cpus")) {
		if strings.Trim(line(file), "0,") != "" {
			i.RPS = append(i.RPS, filepath.Base(filepath.Dir(file)))
		}
	}
}

// try tries the driver's modes.
func (i *Interface) try() {
	c, err := xdp.Probe(i.Name)
	if err != nil {
		i.ModesErr = err
		return
	}
	as := func(t xdp.Trial) Tried {
		r := Tried{Yes: t.Answer == xdp.Yes, Known: t.Answer != xdp.Unknown}
		if t.Err != nil {
			r.Why = t.Err.Error()
		}
		return r
	}
	i.Modes = &Modes{Native: as(c.Native), NativeFrags: as(c.NativeFrags), Generic: as(c.Generic), Copy: as(c.Copy),
		ZeroCopy: as(c.ZeroCopy)}
}
