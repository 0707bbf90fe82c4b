// Attaching: which mode was got, what else is refused, and that a program is gone
// with its Attachment, or with the process that had it.

package xdp

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// attached is the ID and mode of the host's XDP program, 0 for none.
func (l *lab) attached(host int) (id uint32, mode AttachMode) {
	l.t.Helper()
	x := l.link(host).Attrs().Xdp
	if x == nil || !x.Attached {
		return 0, AttachAuto
	}
	if x.AttachMode == nl.XDP_ATTACHED_SKB {
		return x.ProgId, AttachGeneric
	}
	return x.ProgId, AttachNative
}

func TestAttachAndDetach(t *testing.T) {
	l := newLab(t, labOptions{})
	r, err := NewRedirectProgram(RedirectConfig{Queues: 1})
	must(t, err)
	defer r.Close()
	for mode, want := range map[AttachMode]AttachMode{AttachNative: AttachNative, AttachGeneric: AttachGeneric,
		AttachAuto: AttachNative} {
		var a *Attachment
		l.in(0, func() { a, err = Attach(r.Program, l.index[0], mode) })
		must(t, err)
		if id, got := l.attached(0); id == 0 || got != want || a.Mode() != want || a.NativeErr() != nil {
			t.Fatalf("%s: program %d in %s mode, Mode %s, NativeErr %v; want %s", mode, id, got, a.Mode(),
				a.NativeErr(), want)
		}
		// A second program does not push the first out, in any mode.
		for _, second := range []AttachMode{AttachNative, AttachGeneric, AttachAuto} {
			l.in(0, func() { _, err = Attach(r.Program, l.index[0], second) })
			wantError(t, err, ErrProgramAttached)
		}
		must(t, a.Close())
		must(t, a.Close())
		if id, _ := l.attached(0); id != 0 {
			t.Fatalf("%s: program %d is still there", mode, id)
		}
	}
}

// Rule (AttachOver): a program takes the place of another by its link, and stays when the first
// owner has gone; a link of another interface or mode is refused, and the program there stays.
func TestAttachOver(t *testing.T) {
	l := newLab(t, labOptions{})
	var programs [2]*RedirectProgram
	for i := range programs {
		var err error
		programs[i], err = NewRedirectProgram(RedirectConfig{Queues: 1})
		must(t, err)
		defer programs[i].Close()
	}
	for _, mode := range []AttachMode{AttachNative, AttachGeneric} {
		var first, second *Attachment
		var err error
		l.in(0, func() { first, err = Attach(programs[0].Program, l.index[0], mode) })
		must(t, err)
		fd := func() int {
			fd, err := unix.FcntlInt(uintptr(first.FD()), unix.F_DUPFD_CLOEXEC, 0)
			must(t, err)
			return fd
		}
		was, _ := l.attached(0)
		l.in(0, func() { _, err = AttachOver(programs[1].Program, l.index[0], AttachNative+AttachGeneric-mode, fd()) })
		wantError(t, err, ErrConfig)
		l.in(1, func() { _, err = AttachOver(programs[1].Program, l.index[1], mode, fd()) })
		wantError(t, err, ErrConfig)
		if now, _ := l.attached(0); now != was {
			t.Errorf("%s: program %d took the place of %d", mode, now, was)
		}
		l.in(0, func() { second, err = AttachOver(programs[1].Program, l.index[0], mode, fd()) })
		must(t, err)
		must(t, first.Close())
		if now, got := l.attached(0); now == was || now == 0 || got != mode {
			t.Errorf("%s: program %d is there in %s mode; before it was %d", mode, now, got, was)
		}
		must(t, second.Close())
		if now, _ := l.attached(0); now != 0 {
			t.Errorf("%s: program %d is still there", mode, now)
		}
	}
}

// AttachAuto says why it did not get native mode: veth allows no native program when a frame of the
// peer would not fit into a page (veth_xdp_set), unless the program takes frags.
func TestAttachMTU(t *testing.T) {
	l := newLab(t, labOptions{mtu: 9000})
	plain, err := NewRedirectProgram(RedirectConfig{Queues: 1})
	must(t, err)
	defer plain.Close()
	frags, err := NewRedirectProgram(RedirectConfig{Queues: 1, Frags: true})
	must(t, err)
	defer frags.Close()
	l.in(0, func() {
		_, err = Attach(plain.Program, l.index[0], AttachNative)
		wantError(t, err, ErrNotSupported)

		a, err := Attach(plain.Program, l.index[0], AttachAuto)
		must(t, err)
		if a.Mode() != AttachGeneric {
			t.Errorf("got %s mode", a.Mode())
		}
		wantError(t, a.NativeErr(), ErrNotSupported)
		must(t, a.Close())

		a, err = Attach(frags.Program, l.index[0], AttachNative)
		must(t, err)
		must(t, a.Close())
	})
}

func TestAttachRefusals(t *testing.T) {
	l := newLab(t, labOptions{})
	r, err := NewRedirectProgram(RedirectConfig{Queues: 1})
	must(t, err)
	defer r.Close()
	filter, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	must(t, err)
	defer filter.Close()
	for _, c := range []struct {
		want    error
		program *ebpf.Program
		ifindex int
		mode    AttachMode
	}{
		{ErrNoInterface, r.Program, 99999, AttachAuto},
		{ErrNoInterface, r.Program, 99999, AttachNative},
		{ErrConfig, r.Program, 0, AttachAuto},
		{ErrConfig, r.Program, -1, AttachAuto},
		{ErrConfig, r.Program, l.index[0], 9},
		{ErrConfig, filter, l.index[0], AttachAuto},
		{ErrConfig, nil, l.index[0], AttachAuto},
	} {
		l.in(0, func() { _, err = Attach(c.program, c.ifindex, c.mode) })
		wantError(t, err, c.want)
	}
	if id, _ := l.attached(0); id != 0 {
		t.Fatalf("program %d was attached", id)
	}
}

// The redirect program takes its EtherType only, and leaves the rest, and what has
// no socket, to the stack (XDP_PASS).
func TestRedirectVerdicts(t *testing.T) {
	const pass, redirect = 2, 4 // enum xdp_action
	l := newLab(t, labOptions{})
	s := l.openPort(0, portConfig{}).sock
	arp := testFrame(0, 0, 60)
	arp[12], arp[13] = 0x08, 0x06
	for _, c := range []struct {
		etherType uint16
		socket    bool
		frame     []byte
		want      uint32
	}{
		{testEtherType, true, testFrame(0, 0, 60), redirect},
		{testEtherType, true, testFrame(0, 0, 14), redirect},
		{testEtherType, true, arp, pass},
		{testEtherType, false, testFrame(0, 0, 60), pass},
		{0, true, arp, redirect},
		{0, false, arp, pass},
	} {
		r, err := NewRedirectProgram(RedirectConfig{EtherType: c.etherType, Queues: 1})
		must(t, err)
		if c.socket {
			must(t, s.Register(r.Sockets, 0))
		}
		got, err := r.Program.Run(&ebpf.RunOptions{Data: c.frame})
		must(t, err)
		if got != c.want {
			t.Errorf("EtherType %#x, socket %v, frame %x: verdict %d, want %d", c.etherType, c.socket,
				c.frame[:14], got, c.want)
		}
		must(t, r.Close())
	}
}

// childEnv makes the test binary attach a program to the interface of that index
// and wait to be killed.
const childEnv = "XDP_TEST_ATTACH"

func TestMain(m *testing.M) {
	if s := os.Getenv(childEnv); s != "" {
		os.Exit(attachAndWait(s))
	}
	os.Exit(m.Run())
}

func attachAndWait(s string) int {
	ifindex, err := strconv.Atoi(s)
	if err == nil {
		_, err = attachPass(ifindex, AttachNative, 0)
	}
	fmt.Println("attached:", err)
	unix.Pause()
	return 1
}

// A process that is killed leaves no program attached (bpf_link).
func TestDetachOnDeath(t *testing.T) {
	l := newLab(t, labOptions{})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strconv.Itoa(l.index[0]))
	// Tied to this thread, which lives as long as the test.
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := cmd.StdoutPipe()
	must(t, err)
	l.in(0, func() { must(t, cmd.Start()) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "attached: <nil>\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	if id, mode := l.attached(0); id == 0 || mode != AttachNative {
		t.Fatalf("program %d in %s mode", id, mode)
	}
	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
	eventually(t, "the program of the dead process is detached", func() bool { id, _ := l.attached(0); return id == 0 })
}
