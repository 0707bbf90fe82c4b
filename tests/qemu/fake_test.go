package main

// This file is a QEMU that executes nothing: the test program under its name, which answers as a
// guest would. With it the rig runs as a whole, in a second and on any machine.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/tests/qemu/guest"
)

// Environment variables of the fake: a program of the guests that fails, and a word for what else
// goes wrong.
const (
	failVariable  = "FAKE_QEMU_FAILS"
	wrongVariable = "FAKE_QEMU_WRONG"
	mute          = "mute"    // the guest never says hello
	dies          = "dies"    // QEMU ends while a program runs
	hangs         = "hangs"   // a program never ends
	garbage       = "garbage" // the guest says nonsense
	kvmOnly       = "kvm"     // it fails with kvm
	refuses       = "refuses" // a driver lets its rings not be changed
)

// fakeName is the name of the fake in the cache.
const fakeName = "qemu-system-x86_64"

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case fakeName:
		fake(os.Args[1:])
		return
	case networkName:
		makeNetwork()
	case "rig": // the command as a process
		main()
		return
	}
	code := 1
	if dir, err := os.MkdirTemp("", "funet-qemu"); err == nil {
		scratchFolder = dir
		code = m.Run()
		err = os.RemoveAll(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// scratchFolder is removed at the end.
var scratchFolder string

// fakeProcess is a process that the fake guest runs until a signal comes.
type fakeProcess struct{ stop chan int }

// fake is the guest.
func fake(args []string) {
	// only SIGKILL ends it, as nothing else must be needed
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	wrong := os.Getenv(wrongVariable)
	if wrong == kvmOnly && args[slices.Index(args, "-accel")+1] == "kvm" {
		fmt.Fprintln(os.Stderr, kvmError)
		select {}
	}
	var mu sync.Mutex
	processes := map[int]*fakeProcess{}
	say := func(w guest.Word) {
		b, _ := json.Marshal(w)
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(string(b))
	}
	fmt.Println("SeaBIOS (version x)")
	for wrong == mute {
		time.Sleep(time.Hour) // without a timer the runtime may call it a deadlock
	}
	say(guest.Word{Hello: &guest.Hello{Kernel: "fake", Interface: "eth0", Driver: "fake"}})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var o guest.Order
		if json.Unmarshal(in.Bytes(), &o) != nil {
			os.Exit(3)
		}
		if o.Kill != nil {
			mu.Lock()
			if p := processes[o.ID]; p != nil {
				p.stop <- o.Kill.Signal
			}
			mu.Unlock()
			continue
		}
		p := &fakeProcess{make(chan int, 8)}
		mu.Lock()
		processes[o.ID] = p
		mu.Unlock()
		go func() {
			e := p.run(o.Start.Args, wrong)
			e.ID = o.ID
			say(guest.Word{Ended: &e})
		}()
	}
}

// run does what a program in a guest does.
func (p *fakeProcess) run(args []string, wrong string) (e guest.Ended) {
	line := strings.Join(args, " ")
	document := func(v any) {
		b, _ := json.Marshal(v)
		e.Stdout += string(b) + "\n"
	}
	if f := os.Getenv(failVariable); f != "" && strings.HasPrefix(line, "funet "+f) {
		return guest.Ended{Code: 1, Stderr: "some words\nfunet: node 1 is silent\n"}
	}
	number := func(flag string) (n int) {
		_, _ = fmt.Sscan(args[slices.Index(args, flag)+1], &n)
		return n
	}
	one := result{XDPMode: "native", BindMode: "zero-copy"}
	switch {
	case strings.HasPrefix(line, "funet run"):
		if number("--exchanges") == endless {
			return p.job()
		}
		document(one)
		one.Exchanges, one.P50 = int64(number("--exchanges")), 150
		document(one)
	case strings.HasPrefix(line, "funet pingpong"):
		switch wrong {
		case dies:
			os.Exit(4)
		case hangs:
			select {}
		case garbage:
			return guest.Ended{Stdout: "{"}
		}
		one.Exchanges, one.P50, one.P99 = 100, 99, 120
		document(one)
	case strings.HasPrefix(line, "funet stream"):
		one.Messages, one.Rate = 100, 756_000
		document(one)
	case strings.HasPrefix(line, "funet flood"):
		one.Delivered, one.Seconds = number("--messages"), 0.5
		document(one)
	case strings.HasPrefix(line, "funet transfer"):
		one.Bytes, one.Goodput = int64(number("--bytes")), 0.8
		document(one)
	case strings.HasPrefix(line, "funet matmul"):
		one.Verified, one.MFLOPS = true, 50
		document(one)
	case strings.HasPrefix(line, "funet status"):
		e.Stdout = `{"jobs": [{"attached": 1}]}`
	case args[0] == "funid":
		<-p.stop
		e.Stderr =
			"interface eth0 is down; its ring sizes, its number of receive queues was 1 and is 2, it has MTU 600, it is gone; ended the jobs that need it: 1; it is opened again\n"
	case args[0] == guest.Program && args[1] == "rings" && wrong == refuses:
		return guest.Ended{Code: 1, Stderr: "guest: operation not supported\n"}
	case args[0] == guest.Program && slices.Contains([]string{"mtu", "reload", "unload"}, args[1]):
		if err := os.WriteFile(faultFile(), []byte("host "+guest.Address(1).String()+": interface eth0 has MTU 600"),
			0o644); err != nil {
			return guest.Ended{Code: 2, Stderr: err.Error()}
		}
		if args[1] == "mtu" && args[3] == "1500" {
			e.Error = errorText(os.Remove(faultFile()))
		}
	case args[0] == sshdProgram:
		e.Code = 128 + <-p.stop
	case args[0] == guest.Program && args[1] == "ping":
		document(guest.Pings{Sent: number("ping"), Received: number("ping")})
	case args[0] == guest.Program && args[1] == "tcp":
		document(guest.TCP{Bytes: 1000, Seconds: 1, Rate: 10})
	case args[0] == "dmesg":
		e.Stdout = "[ 1.0] igb 0000:00:02.0 eth0: igb: eth0 NIC Link is Down\n[ 2.0] eth0: something else\n"
	}
	return e
}

// faultFile is the file in which a guest tells the other's job what has happened to the NIC.
func faultFile() string { return filepath.Join(filepath.Dir(os.Args[0]), "fault") }

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// job is `funet run` until it is interrupted, something happens to the NIC, or the other guest is
// gone: then the rig has one child.
func (p *fakeProcess) job() guest.Ended {
	for {
		select {
		case s := <-p.stop:
			return guest.Ended{Code: 128 + s}
		case <-time.After(10 * time.Millisecond):
			if why, err := os.ReadFile(faultFile()); err == nil && len(why) > 0 && os.Remove(faultFile()) == nil {
				return guest.Ended{Code: 1, Stderr: string(why) + "\n"}
			}
			if len(children(os.Getppid())) == 1 {
				return guest.Ended{Code: 1, Stderr: "funet: host " + guest.Address(1).String() + " has died\n"}
			}
		}
	}
}

// children lists those of a process.
func children(pid int) (all []string) {
	// the pattern is good
	tasks, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/children"))
	for _, path := range tasks {
		if text, err := os.ReadFile(path); err == nil {
			all = append(all, strings.Fields(string(text))...)
		}
	}
	return all
}

// fakeCache makes a cache with the fake for QEMU.
func fakeCache(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "qemu-1", "usr/bin")
	must(os.MkdirAll(bin, 0o755))
	must(os.Symlink(self, filepath.Join(bin, fakeName)))
	c := chosen{Asked: time.Now(), QEMU: "1", Tools: "1"}
	for _, k := range []kernelPackage{{"7.3-a", "7.3-1"}, {"6.12-a", "6.12-1"}, {"6.1-a", "6.1-1"}} {
		c.Kernels = append(c.Kernels, k)
		must(os.MkdirAll(filepath.Join(dir, k.folder(), "modules"), 0o755))
		must(os.WriteFile(filepath.Join(dir, k.folder(), "vmlinuz"), nil, 0o644))
	}
	must(os.MkdirAll(filepath.Join(dir, "tools-1", "usr/bin"), 0o755))
	must(os.WriteFile(filepath.Join(dir, "tools-1", busybox), nil, 0o755))
	text, err := json.Marshal(c)
	must(err)
	must(os.WriteFile(filepath.Join(dir, "chosen.json"), text, 0o644))
	return dir
}
