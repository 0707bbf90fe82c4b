package doctor_test

// This file plants faults in network namespaces, one after the other, and asks the doctor. What no
// namespace can have (the frequency governor, isolation, clock sources), or this kernel may lack
// (bonds, VLANs), are rows of TestRules alone.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/doctor"
	"github.com/funet/funet/ctl/doctor/probe"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/fake"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/keyfile"
	"github.com/funet/funet/xdp"
)

// patientEnv has this program look, as somebody with fewer rights, and print what it finds.
const patientEnv = "FUNET_DOCTOR_PATIENT"

// patient holds what that program is told.
type patient struct {
	Options doctor.Options
	UID     int
	Memlock uint64 // 0: as it is
	NoLock  bool   // without CAP_IPC_LOCK
}

func TestMain(m *testing.M) {
	if s := os.Getenv(patientEnv); s != "" {
		if err := bePatient(s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func bePatient(s string) error {
	var p patient
	if err := json.Unmarshal([]byte(s), &p); err != nil {
		return err
	}
	runtime.LockOSThread()
	if p.Memlock != 0 {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: p.Memlock, Max: p.Memlock}); err != nil {
			return err
		}
	}
	if p.NoLock {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			return err
		}
		data[0].Effective &^= 1 << unix.CAP_IPC_LOCK
		if err := unix.Capset(&header, &data[0]); err != nil {
			return err
		}
	}
	if p.UID != 0 {
		if err := syscall.Setuid(p.UID); err != nil {
			return err
		}
	}
	f, err := doctor.Gather(context.Background(), p.Options)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(doctor.Judge(f))
}

// ward is a lab with what a test needs to plant something.
type ward struct {
	*lab.Lab
	t *testing.T
}

func newWard(t *testing.T, o lab.Options) *ward {
	t.Helper()
	l, err := lab.Up(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return &ward{l, t}
}

// on does something on a host.
func (w *ward) on(host int, f func() error) {
	w.t.Helper()
	if err := w.Do(host, f); err != nil {
		w.t.Fatal(err)
	}
}

// link changes an interface.
func (w *ward) link(host int, name string, change func(netlink.Link) error) {
	w.t.Helper()
	w.on(host, func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return change(l)
	})
}

// add makes an interface, up.
func (w *ward) add(host int, l netlink.Link) {
	w.t.Helper()
	w.on(host, func() error {
		if err := netlink.LinkAdd(l); err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	})
}

// answer has a host answer probes.
func (w *ward) answer(host int, iface string, card *probe.Card) {
	w.t.Helper()
	var a *probe.Answerer
	w.on(host, func() (err error) {
		a, err = probe.Listen(iface, probe.DefaultPort, func() *probe.Card { return card })
		return err
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); a.Serve(ctx) }()
	w.t.Cleanup(func() { cancel(); <-ended })
}

// drop has an interface lose, on receipt, frames with two bytes at an offset.
func (w *ward) drop(host int, iface string, offset int16, value [2]byte) {
	w.t.Helper()
	w.program(host, iface, asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2), asm.Add.Imm(asm.R4, 40), asm.JGT.Reg(asm.R4, asm.R3, "pass"),
		asm.LoadMem(asm.R5, asm.R2, offset, asm.Byte), asm.JNE.Imm(asm.R5, int32(value[0]), "pass"),
		asm.LoadMem(asm.R5, asm.R2, offset+1, asm.Byte), asm.JNE.Imm(asm.R5, int32(value[1]), "pass"),
		asm.Mov.Imm(asm.R0, 1), asm.Return(), // XDP_DROP
		asm.Mov.Imm(asm.R0, 2).WithSymbol("pass"), asm.Return(), // XDP_PASS
	})
}

func (w *ward) program(host int, iface string, code asm.Instructions) {
	w.t.Helper()
	w.link(host, iface, func(l netlink.Link) error {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "planted", Type: ebpf.XDP, License: "MIT",
			Instructions: code})
		if err != nil {
			return err
		}
		defer p.Close()
		at, err := xdp.Attach(p, l.Attrs().Index, xdp.AttachGeneric)
		if err == nil {
			w.t.Cleanup(func() { _ = at.Close() })
		}
		return err
	})
}

// look asks the doctor on host 0.
func (w *ward) look(o doctor.Options) (list []doctor.Finding) {
	w.t.Helper()
	if o.Socket == "" {
		o.Socket = filepath.Join(w.t.TempDir(), "none.sock")
	}
	o.Patience = 2 * time.Second
	w.on(0, func() error {
		f, err := doctor.Gather(context.Background(), o)
		if err == nil {
			list = doctor.Judge(f)
		}
		return err
	})
	return list
}

// lookAs asks the doctor on host 0, as a process with fewer rights.
func (w *ward) lookAs(p patient) (list []doctor.Finding) {
	w.t.Helper()
	p.Options.Patience = 2 * time.Second
	b, err := json.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), patientEnv+"="+string(b))
	var out, said strings.Builder
	c.Stdout, c.Stderr = &out, &said
	if err := w.Start(0, c); err != nil {
		w.t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		w.t.Fatalf("%v: %s", err, &said)
	}
	if err := json.Unmarshal([]byte(out.String()), &list); err != nil {
		w.t.Fatalf("%v: %s", err, &out)
	}
	return list
}

// answering listens where funid would; answer gets each request, and is nil for a daemon that never
// answers.
func answering(t *testing.T, dir string, answer func(request []byte) []byte) (socket string) {
	return fake.Daemon(t, dir, func(c *net.UnixConn, request []byte) {
		if answer == nil {
			<-t.Context().Done()
			return
		}
		_ = attach.Send(c, answer(request))
	})
}

// info answers as a daemon does that is so.
func info(i attach.Info) func([]byte) []byte {
	return func(request []byte) []byte {
		kind, answer := attach.KindInfo, any(i)
		if h, err := attach.DecodeHeader(request); err == nil && h.Kind == attach.KindAdmin {
			kind, answer = h.Kind, report.HelloAnswer{Card: 1, Answered: true, Said: 1, Frames: arctic.Version}
		}
		b, err := json.Marshal(answer)
		if err != nil {
			return nil
		}
		m, _ := attach.EncodeBody(kind|attach.AnswerBit, b)
		return m
	}
}

// peers writes a peers file of a lab in which node 1 has that address.
func peers(w *ward, mac net.HardwareAddr) string {
	w.t.Helper()
	f := w.Peers(0)
	f.Peers[1] = cluster.Peer{Node: 1, MAC: mac, Iface: "fu0"}
	b, err := f.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	name := filepath.Join(w.t.TempDir(), "peers.yaml")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// config writes a configuration of host 0 and a peers file, and beside them a key file, k, of some
// bytes, which the peers file names for node 1, and has mode.
func (w *ward) config(more string, bytes int, mode os.FileMode) (path string) {
	w.t.Helper()
	folder, err := os.MkdirTemp("", "funet-doctor") // not TempDir, into which others may not look
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { os.RemoveAll(folder) })
	f := w.Peers(0)
	f.Peers[1].Key = filepath.Join(folder, "k")
	text, err := f.Marshal()
	key := filepath.Join(folder, "k")
	path = filepath.Join(folder, "funid.yaml")
	err = errors.Join(err, os.Chmod(folder, 0o755), os.WriteFile(filepath.Join(folder, "peers.yaml"), text, 0o644),
		os.WriteFile(path, []byte("card: 0\npeers: peers.yaml\n"+more), 0o644),
		os.WriteFile(key, []byte(strings.Repeat("k", bytes)), 0o600), os.Chmod(key, mode))
	if err != nil {
		w.t.Fatal(err)
	}
	return path
}

// key makes a key file.
func (w *ward) key() (path string) {
	w.t.Helper()
	path = filepath.Join(w.t.TempDir(), "key")
	if _, err := keyfile.New(path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

var (
	etherType = [2]byte{0x88, 0xb5}
	udpPort   = [2]byte{probe.DefaultPort >> 8, probe.DefaultPort & 0xff}
)

// at is the address of a host of a lab that is no mesh.
func (w *ward) at(host int) string { return w.Hosts()[host].Interfaces[0].Addr.Addr().String() }

// planted are the faults, and what must be said of each.
var planted = []struct {
	fault   string
	options lab.Options
	plant   func(*ward) []doctor.Finding
	verdict doctor.Verdict
	check   string
	found   string
}{
	{"unknown interface", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "eth9"})
	}, doctor.Fail, "interface", "none of this name"},
	{"interface down", lab.Options{}, func(w *ward) []doctor.Finding {
		w.link(0, "fu0", netlink.LinkSetDown)
		return w.look(doctor.Options{Interface: "fu0"})
	}, doctor.Fail, "link", "down"},
	{"no carrier", lab.Options{}, func(w *ward) []doctor.Finding {
		w.link(1, "fu0", netlink.LinkSetDown)
		return w.look(doctor.Options{Interface: "fu0"})
	}, doctor.Fail, "link", "no carrier"},
	{"no Ethernet address", lab.Options{}, func(w *ward) []doctor.Finding {
		w.add(0, &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun0"}, Mode: netlink.TUNTAP_MODE_TUN})
		return w.look(doctor.Options{Interface: "tun0"})
	}, doctor.Fail, "address", "no Ethernet address"},
	{"loopback", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "lo"})
	}, doctor.Fail, "address", "loopback"},
	{"MTU below FUNet's least", lab.Options{MTU: 600}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0"})
	}, doctor.Fail, "MTU", "600 bytes, FUNet needs"},
	{"MTU above the native limit", lab.Options{MTU: 9000}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0"})
	}, doctor.Warn, "MTU", "too many for native mode"},
	{"another XDP program", lab.Options{}, func(w *ward) []doctor.Finding {
		w.program(0, "fu0", asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()})
		return w.look(doctor.Options{Interface: "fu0"})
	}, doctor.Fail, "XDP program", "is attached by bpf_link"},
	{"bridge port", lab.Options{}, func(w *ward) []doctor.Finding {
		w.add(0, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}})
		w.link(0, "fu0", func(l netlink.Link) error {
			b, err := netlink.LinkByName("br0")
			if err != nil {
				return err
			}
			return netlink.LinkSetMaster(l, b)
		})
		return w.look(doctor.Options{Interface: "fu0"})
	}, doctor.Warn, "membership", "a port of bridge br0"},
	{"bridge", lab.Options{}, func(w *ward) []doctor.Finding {
		w.add(0, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}})
		return w.look(doctor.Options{Interface: "br0"})
	}, doctor.Warn, "membership", "a bridge of"},
	{"macvlan", lab.Options{}, func(w *ward) []doctor.Finding {
		w.link(0, "fu0", func(l netlink.Link) error {
			m := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "mac0", ParentIndex: l.Attrs().Index},
				Mode: netlink.MACVLAN_MODE_BRIDGE}
			if err := netlink.LinkAdd(m); err != nil {
				return err
			}
			return netlink.LinkSetUp(m)
		})
		return w.look(doctor.Options{Interface: "mac0"})
	}, doctor.Warn, "membership", "a macvlan on fu0"},
	{"more queues than processors", lab.Options{Queues: 32}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0"})
	}, doctor.Warn, "queues", "32 receive queues"},
	{"RPS", lab.Options{Steer: true}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0"})
	}, doctor.Warn, "RPS", "is on for rx-0"},

	{"memory lock limit", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.lookAs(patient{Memlock: 64 << 10, NoLock: true})
	}, doctor.Fail, "memory lock", "64 KiB may be locked"},
	{"no capabilities", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.lookAs(patient{UID: 65534, Options: doctor.Options{Interface: "fu0"}})
	}, doctor.Fail, "capabilities", "CAP_NET_RAW"},

	{"no daemon", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{WantDaemon: true})
	}, doctor.Fail, "daemon", "none runs: no socket"},
	{"a dead daemon's socket", lab.Options{}, func(w *ward) []doctor.Finding {
		l, err := net.ListenUnix(attach.Network, &net.UnixAddr{Name: filepath.Join(w.t.TempDir(), "s"),
			Net: attach.Network})
		if err != nil {
			w.t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		return w.look(doctor.Options{WantDaemon: true, Socket: l.Addr().String()})
	}, doctor.Fail, "daemon", "nobody listens"},
	{"socket without rights", lab.Options{}, func(w *ward) []doctor.Finding {
		socket := answering(w.t, w.t.TempDir(), nil)
		if err := os.Chmod(socket, 0o600); err != nil {
			w.t.Fatal(err)
		}
		return w.lookAs(patient{UID: 65534, Options: doctor.Options{Socket: socket}})
	}, doctor.Fail, "daemon", "may not connect"},
	{"stuck daemon", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Socket: answering(w.t, w.t.TempDir(), nil)})
	}, doctor.Fail, "daemon", "does not answer"},
	{"daemon of another version", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Socket: answering(w.t, w.t.TempDir(), func(b []byte) []byte {
			m := info(attach.Info{})(b)
			m[4]++ // the version
			return m
		})})
	}, doctor.Fail, "daemon", "another version"},
	{"daemon of another ABI", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Socket: answering(w.t, w.t.TempDir(),
			info(attach.Info{ABI: funi.ABI + 1, Interfaces: []string{"fu0"}}))})
	}, doctor.Fail, "daemon version", "ABI " + strconv.Itoa(funi.ABI+1)},
	{"interface that is not the daemon's", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0",
			Socket: answering(w.t, w.t.TempDir(), info(attach.Info{ABI: funi.ABI, Interfaces: []string{"fu7"}}))})
	}, doctor.Warn, "daemon interface", "does not have fu0"},

	{"peer absent", lab.Options{Topology: lab.Bridge}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: "198.18.0.99"})
	}, doctor.Fail, "presence", "absent"},
	{"no route", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: "203.0.113.7"})
	}, doctor.Fail, "presence", "no route"},
	{"wrong MAC in the peers file", lab.Options{}, func(w *ward) []doctor.Finding {
		w.answer(1, "fu0", nil)
		return w.look(doctor.Options{LeaveDriver: true, Peer: "1", Peers: peers(w, net.HardwareAddr{2, 0, 0, 0, 0, 9})})
	}, doctor.Fail, "presence", "nobody answers at 02:00:00:00:00:09, others do"},
	{"node that is absent from the peers file", lab.Options{}, func(w *ward) []doctor.Finding {
		name := filepath.Join(w.t.TempDir(), "peers.yaml")
		if err := os.WriteFile(name,
			[]byte("peers:\n  - {node: 0, mac: \"02:46:55:00:00:01\"}\n  - {node: 1, absent: true}\n"),
			0o600); err != nil {
			w.t.Fatal(err)
		}
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: "1", Peers: name})
	}, doctor.Fail, "peer", "node 1 as absent"},
	{"table in etcd in place of a peers file", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: "1",
			Peers: "etcd://192.0.2.1:2379/lab"})
	}, doctor.Fail, "peer", "which only funid reads"},
	{"key file of an epoch that others read", lab.Options{}, func(w *ward) []doctor.Finding {
		config := w.config("key: key-{epoch}\n", 32, 0o600)
		if err := os.WriteFile(filepath.Join(filepath.Dir(config), "key-7"), make([]byte, 32), 0o644); err != nil {
			w.t.Fatal(err)
		}
		return w.look(doctor.Options{Config: config})
	}, doctor.Fail, "key file", "mode 0644"},
	{"this host is not in the peers file", lab.Options{}, func(w *ward) []doctor.Finding {
		w.answer(1, "fu0", nil)
		w.link(0, "fu0", func(l netlink.Link) error {
			return netlink.LinkSetHardwareAddr(l, net.HardwareAddr{2, 0, 0, 0, 0, 8})
		})
		return w.look(doctor.Options{LeaveDriver: true, Peer: "1", Peers: peers(w, w.Hosts()[1].Interfaces[0].MAC)})
	}, doctor.Fail, "own entry", "no address of this host"},
	{"another segment", lab.Options{Hosts: 3, Topology: lab.Mesh}, func(w *ward) []doctor.Finding {
		// Host 1 is a router between hosts 0 and 2.
		far := w.Hosts()[2].Interfaces[1]
		router := w.Hosts()[1].Interfaces[0].Addr.Addr()
		w.on(1, func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
		w.link(0, "fu1", func(l netlink.Link) error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: router.AsSlice(),
				Dst: &net.IPNet{IP: far.Addr.Addr().AsSlice(), Mask: net.CIDRMask(32, 32)}})
		})
		return w.look(doctor.Options{Interface: "fu1", LeaveDriver: true, Peer: far.Addr.Addr().String()})
	}, doctor.Fail, "presence", "another segment: the way to"},
	{"silent peer", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(1)})
	}, doctor.Warn, "presence", "nothing answers probes"},
	{"EtherType filtered to the peer", lab.Options{}, func(w *ward) []doctor.Finding {
		w.drop(1, "fu0", 12, etherType)
		w.answer(1, "fu0", nil)
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(1)})
	}, doctor.Fail, "EtherType 0x88B5 to the peer", "do not pass"},
	{"EtherType filtered from the peer", lab.Options{}, func(w *ward) []doctor.Finding {
		w.drop(0, "fu0", 12, etherType)
		w.answer(1, "fu0", nil)
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(1)})
	}, doctor.Fail, "EtherType 0x88B5 from the peer", "do not pass"},
	{"UDP filtered to the peer", lab.Options{}, func(w *ward) []doctor.Finding {
		w.drop(1, "fu0", 36, udpPort) // the destination port
		w.answer(1, "fu0", nil)
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(1)})
	}, doctor.Fail, "UDP to the peer", "do not pass"},
	{"UDP filtered from the peer", lab.Options{}, func(w *ward) []doctor.Finding {
		w.drop(0, "fu0", 34, udpPort) // the source port
		w.answer(1, "fu0", nil)
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(1)})
	}, doctor.Fail, "UDP from the peer", "do not pass"},
	{"MTU smaller at the peer", lab.Options{Topology: lab.Bridge}, func(w *ward) []doctor.Finding {
		w.link(1, "fu0", func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1000) })
		w.answer(1, "fu0", nil)
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(1)})
	}, doctor.Fail, "path MTU", "the peer's MTU is 1000"},
	{"MTU greater at the peer", lab.Options{Topology: lab.Bridge}, func(w *ward) []doctor.Finding {
		w.link(1, "fu0", func(l netlink.Link) error { return netlink.LinkSetMTU(l, 2000) })
		w.answer(1, "fu0", nil)
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(1)})
	}, doctor.Warn, "path MTU", "the peer's 2000"},
	{"card number of this host on another", lab.Options{}, func(w *ward) []doctor.Finding {
		w.answer(1, "fu0", &probe.Card{Number: 0, ABI: funi.ABI})
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(1),
			Socket: answering(w.t, w.t.TempDir(),
				info(attach.Info{Card: 0, ABI: funi.ABI, Interfaces: []string{"fu0"}}))})
	}, doctor.Fail, "card number", "card 0 is on"},
	{"card number on two others", lab.Options{Hosts: 3}, func(w *ward) []doctor.Finding {
		for host := 1; host < 3; host++ {
			w.answer(host, "fu0", &probe.Card{Number: 5, ABI: funi.ABI})
		}
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(1)})
	}, doctor.Fail, "card number", "card 5 is on"},
	{"key file that others read", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Config: w.config("key: k\n", 32, 0o640)})
	}, doctor.Fail, "key file", "mode 0640"},
	{"key file of another length", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Config: w.config("key: k\n", 33, 0o600)})
	}, doctor.Fail, "key file", "33 bytes"},
	{"key file of another user", lab.Options{}, func(w *ward) []doctor.Finding {
		config := w.config("key: k\n", 32, 0o600)
		if err := os.Chown(filepath.Join(filepath.Dir(config), "k"), 12345, -1); err != nil {
			w.t.Fatal(err)
		}
		return w.look(doctor.Options{Config: config})
	}, doctor.Fail, "key file", "another user"},
	{"no key file", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Config: w.config("key: other\n", 32, 0o600)})
	}, doctor.Fail, "key file", "there is no key file"},
	{"key of a node, in the peers file, that others read", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: "1",
			Peers: filepath.Join(filepath.Dir(w.config("", 32, 0o604)), "peers.yaml")})
	}, doctor.Fail, "key file", "mode 0604"},
	{"key file that an ordinary user cannot read, and others can write", lab.Options{}, func(w *ward) []doctor.Finding {
		config := w.config("key: k\n", 32, 0o602)
		return w.lookAs(patient{UID: 65534, Options: doctor.Options{Config: config}})
	}, doctor.Fail, "key file", "mode 0602"},
	{"configuration that cannot be read", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Config: w.config("keys: k\n", 32, 0o600)})
	}, doctor.Fail, "key file", "keys"},
	{"key file that has become another", lab.Options{}, func(w *ward) []doctor.Finding {
		k := w.key()
		socket := w.funid(0, func(c *daemon.Config) { c.Key = k })
		if err := os.Rename(w.key(), k); err != nil {
			w.t.Fatal(err)
		}
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Socket: socket})
	}, doctor.Warn, "key file", "holds another by now"},
	{"key of the configuration that funid does not have", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Socket: w.funid(0, nil),
			Config: w.config("key: k\n", 32, 0o600)})
	}, doctor.Warn, "daemon key", "funid has none"},
	{"another key there", lab.Options{}, func(w *ward) []doctor.Finding {
		one, two := w.key(), w.key()
		w.funid(1, func(c *daemon.Config) { c.Key = two })
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: "1",
			Socket: w.funid(0, func(c *daemon.Config) { c.Key = one })})
	}, doctor.Fail, "key", "other key: this host has key "},
	{"no key there", lab.Options{}, func(w *ward) []doctor.Finding {
		k := w.key()
		w.funid(1, nil)
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: "1",
			Socket: w.funid(0, func(c *daemon.Config) { c.Key = k })})
	}, doctor.Fail, "key", "no key there"},
	{"no key here, behind a router", lab.Options{Topology: lab.Router}, func(w *ward) []doctor.Finding {
		k := w.key()
		w.funid(1, func(c *daemon.Config) { c.Key = k })
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: "1", Socket: w.funid(0, nil)})
	}, doctor.Fail, "key", "no key here"},
	{"oneself", lab.Options{}, func(w *ward) []doctor.Finding {
		return w.look(doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(0)})
	}, doctor.Fail, "peer", "this host"},
}

// Rule: the doctor names each planted fault, with a cure.
func TestPlanted(t *testing.T) {
	long.Test(t)
	if len(planted) < 20 {
		t.Errorf("%d faults", len(planted))
	}
	for _, p := range planted {
		t.Run(p.fault, func(t *testing.T) {
			t.Parallel() // each has a lab of its own
			o := p.options
			if o.Hosts == 0 {
				o.Hosts = 2
			}
			list := p.plant(newWard(t, o))
			for _, f := range list {
				if f.Check == p.check && f.Verdict == p.verdict && strings.Contains(f.Found, p.found) && f.Cure != "" {
					return
				}
			}
			t.Errorf("the doctor does not say %q of %s: %+v", p.found, p.check, list)
		})
	}
}

// Rule: where nothing is planted nothing that namespaces have is wrong, and all passes.
func TestNothingPlanted(t *testing.T) {
	w := newWard(t, lab.Options{Hosts: 2})
	w.answer(1, "fu0", &probe.Card{Number: 1, ABI: funi.ABI})
	list := w.look(doctor.Options{Peer: "1", Peers: peers(w, w.Hosts()[1].Interfaces[0].MAC),
		Socket: answering(t, t.TempDir(), info(attach.Info{Card: 0, ABI: funi.ABI, Interfaces: []string{"fu0"}}))})
	passes := 0
	for _, f := range list {
		if f.Subject != "host" && f.Verdict != doctor.OK {
			t.Errorf("%+v", f)
		}
		if f.Found == "passes" {
			passes++
		}
	}
	if passes != 4 {
		t.Errorf("%d ways pass: %+v", passes, list)
	}
}

// Rule: with datagrams a router between two hosts, which passes no frames of FUNet's, is no fault,
// and a filter of UDP is one (encap: udp).
func TestBehindARouter(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		w := newWard(t, lab.Options{Hosts: 2, Topology: lab.Router, IPv6: ipv6})
		text, err := w.Peers(0).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "peers.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		w.answer(1, "fu0", nil)
		o := doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: "1", Peers: file}
		passes := 0
		for _, f := range w.look(o) {
			if f.Subject == "1" && f.Verdict != doctor.OK {
				t.Errorf("IPv6 %v: %+v", ipv6, f)
			}
			if f.Subject == "1" && f.Found == "passes" {
				passes++
			}
		}
		if passes != 2 {
			t.Errorf("IPv6 %v: %d ways pass", ipv6, passes)
		}
		o.Peer = "0"
		if list := w.look(o); list[len(list)-1].Verdict != doctor.Fail || list[len(list)-1].Check != "peer" {
			t.Errorf("IPv6 %v: oneself: %+v", ipv6, list[len(list)-1])
		}
	}
}

// Rule (doc.go): nothing is sent on an interface that nobody named.
func TestNothingSent(t *testing.T) {
	w := newWard(t, lab.Options{Hosts: 2})
	sent := func() (n uint64) {
		w.link(0, "fu0", func(l netlink.Link) error { n = l.Attrs().Statistics.TxPackets; return nil })
		return n
	}
	before := sent()
	list := w.look(doctor.Options{Peer: w.at(1)})
	if last := list[len(list)-1]; last.Check != "peer" || last.Verdict != doctor.Fail ||
		!strings.Contains(last.Cure, "--iface") {
		t.Errorf("%+v", last)
	}
	if n := sent(); n != before {
		t.Errorf("%d frames were sent", n-before)
	}
}

// Rule (doc.go): gathering ends with its context.
func TestEnds(t *testing.T) {
	w := newWard(t, lab.Options{Hosts: 2})
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := fmt.Errorf("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
	begin := time.Now()
	w.on(0, func() error {
		_, err := doctor.Gather(ctx, doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: w.at(1),
			Patience: time.Hour, Socket: "/none"})
		if err != enough {
			t.Error(err)
		}
		return nil
	})
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}

// funid runs a daemon on a host.
func (w *ward) funid(host int, tune func(*daemon.Config)) (socket string) {
	w.t.Helper()
	dir := w.t.TempDir()
	c := daemon.Config{File: config.File{Socket: filepath.Join(dir, "funid.sock"), Card: uint16(host),
		Peers: w.Peers(host), Attach: xdp.AttachGeneric, CPU: -1}}
	if tune != nil {
		tune(&c)
	}
	var d *daemon.Daemon
	w.on(host, func() (err error) {
		d, err = daemon.Open(c)
		return err
	})
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- d.Run(context.Background(), func() { close(ready) }) }()
	<-ready
	w.t.Cleanup(func() {
		d.Stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	return c.Socket
}

// Rule: a daemon at the other end answers without being told to: asked by the daemon of this host,
// or by the doctor itself where none runs; and what is wrong with it is named.
func TestAnsweredByFunid(t *testing.T) {
	long.Test(t)
	shared := filepath.Join(t.TempDir(), "key")
	if _, err := keyfile.New(shared); err != nil {
		t.Fatal(err)
	}
	withKey := func(c *daemon.Config) { c.Key = shared }
	for _, c := range []struct {
		name     string
		options  lab.Options
		own      bool // a daemon runs on this host, too
		tune     func(*daemon.Config)
		peer     func(*ward) string // none: node 1
		verdict  doctor.Verdict
		check    string
		found    string
		silently bool // nothing else may be said of the peer
	}{
		{"asked by a daemon", lab.Options{}, true, nil, nil, doctor.OK, "funid there",
			"card 1, answered through both AF_XDP ports", true},
		{"asked by a daemon, by address", lab.Options{}, true, nil, func(w *ward) string {
			return w.at(1)
		}, doctor.OK, "funid there", "card 1, answered through both AF_XDP ports", true},
		{"asked by the doctor", lab.Options{}, false, nil, nil, doctor.OK, "funid there",
			"card 1, answered through its AF_XDP port", true},
		{"asked by the doctor, by address", lab.Options{}, false, nil, func(w *ward) string {
			return w.at(1)
		}, doctor.OK, "funid there", "card 1, answered through its AF_XDP port", true},
		{"asked by a daemon, by card", lab.Options{}, true, nil, func(*ward) string {
			return "1"
		}, doctor.OK, "funid there", "card 1, answered through both AF_XDP ports", true},
		{"behind a router, by card", lab.Options{Topology: lab.Router}, true, nil, func(*ward) string {
			return "1"
		}, doctor.OK, "funid there", "card 1, answered through both AF_XDP ports", true},
		{"both with the key", lab.Options{}, true, withKey, func(*ward) string {
			return "1"
		}, doctor.OK, "key", " on both hosts; frames are encrypted", true},
		{"neither with a key", lab.Options{}, true, nil, func(*ward) string {
			return "1"
		}, doctor.OK, "key", "neither host has one", true},
		{"this host's own card", lab.Options{}, true, nil, func(*ward) string {
			return "0"
		}, doctor.Fail, "peer", "this host", false},
		{"a card that is not known", lab.Options{}, true, nil, func(*ward) string {
			return "9"
		}, doctor.Fail, "peer", "knows no card there", false},
		{"behind a router", lab.Options{Topology: lab.Router}, true, nil, nil, doctor.OK, "funid there",
			"card 1, answered through both AF_XDP ports", true},
		{"another card's number", lab.Options{}, false, func(c *daemon.Config) {
			c.Peers = nil
			c.Card, c.Discover, c.Interfaces = 7, "x", []string{"fu0"}
		}, nil, doctor.Fail, "funid there", "its funid has card 7", false},
		{"this host's number", lab.Options{}, true, func(c *daemon.Config) {
			c.Peers = nil
			c.Card, c.Discover, c.Interfaces = 0, "x", []string{"fu0"}
		}, nil, doctor.Fail, "hello", "card 0 is this host and", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Hosts = 2
			w := newWard(t, c.options)
			w.funid(1, c.tune)
			text, err := w.Peers(0).Marshal()
			if err != nil {
				t.Fatal(err)
			}
			o := doctor.Options{Interface: "fu0", LeaveDriver: true, Peer: "1",
				Peers: filepath.Join(t.TempDir(), "peers.yaml")}
			if err := os.WriteFile(o.Peers, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.peer != nil {
				o.Peer, o.Peers = c.peer(w), ""
			}
			if c.own {
				o.Socket = w.funid(0, func(d *daemon.Config) {
					if c.name == "both with the key" {
						withKey(d)
					}
				})
			}
			said := false
			list := w.look(o)
			for _, f := range list {
				if f.Check == c.check && f.Verdict == c.verdict && strings.Contains(f.Found, c.found) {
					said = true
				}
				if f.Subject == o.Peer && f.Verdict != doctor.OK && c.silently {
					t.Errorf("%+v", f)
				}
			}
			if !said {
				t.Errorf("the doctor does not say %q: %+v", c.found, list)
			}
		})
	}
}
