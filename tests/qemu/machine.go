package main

// This file is a virtual machine: the QEMU process of a guest, and the dialogue with the guest's
// first process.
//
// A machine uses only objects without a name. Its root file system is in memory, its network is a
// pair of datagram sockets or of taps (network.go), and its serial ports are pipes. QEMU ends with
// the rig (keeper.go). So nothing remains, however the rig ends.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/qemu/guest"
)

// errNoWord reports a guest that hangs or is slow.
var errNoWord = errors.New("no word")

// errGuest is wrapped by errors about a machine that does not work as it should.
var errGuest = errors.New("guest")

const (
	// guestMemory is the memory of a guest in MiB.
	guestMemory = 512
	// bootDeadline bounds a guest's start, which takes seconds on an idle machine.
	bootDeadline = 2 * time.Minute
	// mostConsole is how many bytes of a guest's console are kept.
	mostConsole = 256 << 10
	// longestWord bounds a line from a guest, in bytes: two outputs in JSON.
	longestWord = 1 << 20
)

// processors is how machines execute: with the host's virtualisation, or translated.
type processors struct {
	Name string // as QEMU calls it: kvm or tcg
	Why  string // why not kvm
}

// kvmError is part of QEMU's message when kvm cannot execute the guest's code.
const kvmError = "KVM internal error"

// kvmCreateVM is KVM_CREATE_VM of linux/kvm.h.
const kvmCreateVM = 0xae01

// findProcessors tries to make a virtual machine with kvm. Even if that works, kvm may fail to
// execute a kernel such as the guests' (see tryKVM).
func findProcessors() processors {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return processors{"tcg", err.Error()}
	}
	defer f.Close()
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), kvmCreateVM, 0)
	if e != 0 {
		return processors{"tcg", "making a machine with /dev/kvm: " + e.Error()}
	}
	unix.Close(int(fd))
	return processors{"kvm", ""}
}

// machine is a guest.
type machine struct {
	host     int
	patience int // as in emulation
	cmd      *exec.Cmd
	in       io.WriteCloser
	hello    guest.Hello
	ended    chan struct{}
	err      error // of the process; valid once ended is closed

	mu      sync.Mutex
	console bytes.Buffer
	next    int
	waiting map[int]chan guest.Ended
}

// emulation holds what all machines have in common.
type emulation struct {
	dir        string // the folder with QEMU
	processors processors
	keeper     *keeper
	patience   int // the factor of all time limits; 1 on an idle machine
}

// library are the folders of shared libraries in an unpacked package.
var library = []string{"usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"}

// kvmTrial is how long a guest may take to boot with kvm, which usually takes two seconds.
const kvmTrial = 30 * time.Second

// tryKVM boots a pair of guests with kvm, if there is one. If they do not come up, machines are
// translated: some hosts offer a kvm that executes only kernels made for it.
func (e *emulation) tryKVM(ctx context.Context, i *image) error {
	if e.processors = findProcessors(); e.processors.Name != "kvm" {
		return nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, kvmTrial, fmt.Errorf("it did not come up within %v", kvmTrial))
	defer cancel()
	p, err := e.boot(limited, i, nics[0])
	p.kill()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		e.processors = processors{"tcg", "trying a guest with it: " + err.Error()}
	}
	return nil
}

// command returns the command of QEMU with the given arguments.
func (e *emulation) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(e.dir, "usr/bin/qemu-system-x86_64"), args...)
	var paths []string
	for _, l := range library {
		paths = append(paths, filepath.Join(e.dir, l))
	}
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(paths, ":"),
		"QEMU_MODULE_DIR="+filepath.Join(e.dir, library[0], "qemu"))
	return cmd
}

// arguments returns QEMU's arguments for a guest. QEMU inherits descriptor 3 (the archive), and
// those from 4 on (the network).
func (e *emulation) arguments(host int, kernel string, n nic) []string {
	return []string{
		"-L", filepath.Join(e.dir, "usr/share/qemu"), "-L", filepath.Join(e.dir, "usr/share/seabios"),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "q35", "-accel", e.processors.Name, "-cpu", "max", "-smp", "1", "-m", fmt.Sprint(guestMemory),
		"-kernel", filepath.Join(kernel, "vmlinuz"), "-initrd", "/proc/self/fd/3",
		// no_timer_check: a translated processor's timer may look broken at boot. panic and
		// -no-reboot: a guest that failed ends.
		"-append", fmt.Sprintf("console=ttyS0 no_timer_check panic=-1 loglevel=4 %s%d %s%d", guest.HostParameter, host,
			guest.QueuesParameter, n.queues),
		"-chardev", "file,id=console,path=/proc/self/fd/2", "-serial", "chardev:console",
		"-chardev", "stdio,id=agent,signal=off", "-serial", "chardev:agent",
		"-netdev", n.backend(),
		"-device", n.device + ",netdev=net,romfile=,mac=" + guest.MAC(host).String(),
	}
}

// start starts a guest. The guest is up when greet has returned.
func (e *emulation) start(host int, kernel string, n nic, archive *os.File, network []*os.File) (*machine, error) {
	m := &machine{host: host, patience: max(e.patience, 1), cmd: e.command(e.arguments(host, kernel, n)...),
		ended: make(chan struct{}), waiting: map[int]chan guest.Ended{}}
	m.cmd.ExtraFiles = append([]*os.File{archive}, network...)
	m.cmd.Stderr = m
	var err error
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := e.keeper.start(m.cmd); err != nil {
		return nil, err
	}
	hello := make(chan guest.Ended, 1)
	m.waiting[0] = hello
	go m.listen(out)
	return m, nil
}

// Write keeps the last part of the console, and of QEMU's standard error.
func (m *machine) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.console.Write(b)
	if bytes.Contains(b, []byte(kvmError)) {
		_ = m.cmd.Process.Kill() // it stands still, and would do so for ever
	}
	if more := m.console.Len() - mostConsole; more > 0 {
		m.console.Next(more)
	}
	return len(b), nil
}

// said returns the last lines of the console.
func (m *machine) said(lines int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := strings.Split(strings.TrimSpace(strings.ReplaceAll(m.console.String(), "\r", "")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "; ")
}

// listen reads the guest's words until QEMU ends.
func (m *machine) listen(out io.Reader) {
	in := bufio.NewScanner(out)
	in.Buffer(nil, longestWord)
	for in.Scan() {
		var w guest.Word
		if json.Unmarshal(in.Bytes(), &w) != nil {
			continue // firmware greets all serial ports
		}
		switch {
		case w.Hello != nil:
			m.mu.Lock()
			m.hello = *w.Hello
			m.mu.Unlock()
			m.deliver(guest.Ended{})
		case w.Ended != nil:
			m.deliver(*w.Ended)
		}
	}
	// a line that was too long: the guest is of no use, but must not block
	_, _ = io.Copy(io.Discard, out)
	m.err = m.cmd.Wait()
	close(m.ended)
}

// deliver hands the end of a process to the goroutine that waits for it.
func (m *machine) deliver(e guest.Ended) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.waiting[e.ID]; c != nil {
		c <- e
		delete(m.waiting, e.ID)
	}
}

// greet waits until the guest is up.
func (m *machine) greet(ctx context.Context) error {
	m.mu.Lock()
	hello := m.waiting[0]
	m.mu.Unlock()
	if hello != nil {
		if _, err := m.await(ctx, hello, bootDeadline); err != nil {
			return err
		}
	}
	if m.hello.Error != "" {
		return fmt.Errorf("%w %d: %s (its console: %s)", errGuest, m.host, m.hello.Error, m.said(5))
	}
	return nil
}

// await waits for the end of a process.
func (m *machine) await(ctx context.Context, c chan guest.Ended, within time.Duration) (guest.Ended, error) {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case e := <-c:
		return e, nil
	case <-m.ended:
		return guest.Ended{}, fmt.Errorf("%w %d: QEMU has ended (%v): %s", errGuest, m.host, m.err, m.said(10))
	case <-t.C:
		return guest.Ended{}, fmt.Errorf("%w %d: %w within %v: %s", errGuest, m.host, errNoWord, within, m.said(10))
	case <-ctx.Done():
		return guest.Ended{}, context.Cause(ctx)
	}
}

// running is a process in a guest.
type running struct {
	m       *machine
	id      int
	ended   chan guest.Ended
	timeout time.Duration
}

// answerDeadline is how long after a process's timeout the word about its end may arrive.
const answerDeadline = 30 * time.Second

func (m *machine) send(o guest.Order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := m.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%w %d: giving an order: %w", errGuest, m.host, err)
	}
	return nil
}

// within returns the time limit here of something that takes at most d on an idle machine.
func (m *machine) within(d time.Duration) time.Duration { return d * time.Duration(m.patience) }

// begin starts a program. The guest kills it after timeout, multiplied by the machine's patience.
func (m *machine) begin(timeout time.Duration, args ...string) (*running, error) {
	timeout = m.within(timeout)
	r := &running{m: m, ended: make(chan guest.Ended, 1), timeout: timeout}
	m.mu.Lock()
	m.next++
	r.id = m.next
	m.waiting[r.id] = r.ended
	m.mu.Unlock()
	return r, m.send(guest.Order{ID: r.id, Start: &guest.StartOrder{Args: args, Timeout: timeout}})
}

// wait waits for the end of the process.
func (r *running) wait(ctx context.Context) (guest.Ended, error) {
	return r.m.await(ctx, r.ended, r.timeout+r.m.within(answerDeadline))
}

// signal sends a signal to the process.
func (r *running) signal(s syscall.Signal) error {
	return r.m.send(guest.Order{ID: r.id, Kill: &guest.SignalOrder{Signal: int(s)}})
}

// run runs a program to its end. A program that fails is no error here; failure reports it.
func (m *machine) run(ctx context.Context, timeout time.Duration, args ...string) (guest.Ended, error) {
	r, err := m.begin(timeout, args...)
	if err != nil {
		return guest.Ended{}, err
	}
	return r.wait(ctx)
}

// failure returns how a process failed, or nil if it did not.
func failure(host int, e guest.Ended) error {
	if e.Code == 0 && e.Error == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(e.Stderr), "\n")
	why := strings.Join(lines[max(0, len(lines)-3):], "; ")
	if e.Error != "" {
		why = strings.TrimPrefix(e.Error+": "+why, ": ")
	}
	return fmt.Errorf("host %d: code %d: %s", host, e.Code, strings.TrimSuffix(why, ": "))
}

// kill ends the machine and waits for its end.
func (m *machine) kill() {
	_ = m.cmd.Process.Kill() // it may have ended
	m.in.Close()
	<-m.ended
}

// pair is two guests on a network of their own.
type pair [2]*machine

// boot starts two guests and waits until both are up.
func (e *emulation) boot(ctx context.Context, i *image, n nic) (p pair, err error) {
	archive, err := i.build()
	if err != nil {
		return p, err
	}
	defer archive.Close()
	network, err := newNetwork(ctx, e.keeper, n.queues)
	if err != nil {
		return p, err
	}
	defer network.close()
	defer func() {
		if err != nil {
			p.kill()
		}
	}()
	for host := range p {
		if p[host], err = e.start(host, i.kernel, n, archive, network[host]); err != nil {
			return p, err
		}
	}
	for _, m := range p {
		if err := m.greet(ctx); err != nil {
			return p, err
		}
	}
	return p, nil
}

// kill ends both machines.
func (p pair) kill() {
	for _, m := range p {
		if m != nil {
			m.kill()
		}
	}
}
