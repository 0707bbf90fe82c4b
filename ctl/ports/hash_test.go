package ports

// This file tests by what the queues of a NIC know who pays for a frame.

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/port/afxdp"
	"github.com/funet/funet/xdp"
)

// hashAt is where struct __sk_buff of linux/bpf.h has the hash.
const hashAt = 68

// Rule (guard.c): the kernel's hash of a frame on its way to a NIC is its account's, whatever port
// it is from. Queueing disciplines that share by flow, such as fq_codel, share a full NIC by it
// (net/sched/sch_fq_codel.c: fq_codel_hash), and the kernel chooses one of the NIC's queues by it.
// Generic programs pass all of this by.
func TestFramesHaveTheirAccountsHash(t *testing.T) {
	b := newBed(t, 8, 5, xdp.AttachNative)
	seen, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	look, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, hashAt, asm.Word),
		asm.StoreMem(asm.RFP, -4, asm.R2, asm.Word),
		asm.LoadMapPtr(asm.R1, seen.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.Mov.Reg(asm.R3, asm.R2), asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R0, 0), asm.Return(), // TC_ACT_OK
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	b.on(0, func() error {
		at := netlink.QdiscAttrs{LinkIndex: b.nics[0].Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0),
			Parent: netlink.HANDLE_CLSACT}
		if err := netlink.QdiscReplace(&netlink.GenericQdisc{QdiscAttrs: at, QdiscType: "clsact"}); err != nil {
			return err
		}
		return netlink.FilterAdd(&netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{LinkIndex: at.LinkIndex,
			Parent: netlink.HANDLE_MIN_EGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL},
			Fd: look.FD(), Name: "look", DirectAction: true})
	})
	open := func(host int, node uint16, account uint32) (*afxdp.Port, uint32) {
		t.Helper()
		mem := memory(t)
		m, err := b.makeFor(host, node, account, mem)
		if err != nil {
			t.Fatal(err)
		}
		p, err := afxdp.OpenDirect(afxdp.Direct{FD: m.FD, Memory: mem, Geometry: afxdp.GeometryFor(mtu), MTU: mtu})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p, m.ID
	}
	const frames = 20
	accounts := []uint32{1, 1, 1, 2}
	_, _ = open(1, 4, 1)
	until := time.Now().Add(patience)
	for node, account := range accounts {
		p, id := open(0, uint16(node), account)
		for sent := uint64(0); sent < frames; {
			if time.Now().After(until) {
				t.Fatalf("node %d: %d frames of %d are counted", node, sent, frames)
			}
			if f := p.Reserve(); f != nil {
				p.Commit(copy(f, testFrame(job, node, 4, 100+100*node)))
			}
			p.Flush()
			c, err := b.hosts[0].Counters(id)
			if err != nil {
				t.Fatal(err)
			}
			sent = c.Sent
		}
	}
	var hash, ignored uint32
	got := map[uint32]bool{}
	all := seen.Iterate()
	for all.Next(&hash, &ignored) {
		got[hash] = true
	}
	const spread = 0x9e3779b1 // guard.c
	if all.Err() != nil || len(got) != 2 || !got[uint32(spread*uint64(accounts[0])&0xffffffff)] ||
		!got[uint32(spread*uint64(accounts[3])&0xffffffff)] {
		t.Errorf("hashes %v, %v", got, all.Err())
	}
}
