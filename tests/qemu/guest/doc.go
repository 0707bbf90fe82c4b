// Package guest is the first process in the virtual machines of command qemu.
//
// The journey: the kernel starts Main as process 1. Main mounts the usual file systems, loads the
// kernel modules that the rig has put into /modules, and gives the NIC its address (boot.go). It
// says hello on the second serial port. Then it carries out the rig's orders (wire.go) until the
// machine ends: it starts programs and reports how they ended (agent.go).
//
// As a later process, the same program measures or changes something. `guest ping` (ping.go) and
// `guest tcp` (tcp.go) measure the kernel's own traffic; the other guest answers them, for TCP with
// its first process. `guest up` and others (fault.go), `guest pass` and `guest unpass` (pass.go)
// change the NIC.
//
// The rig does not trust a guest's words: it bounds and parses them as any input.
package guest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Program is the path of this program in a guest.
const Program = "/bin/guest"

// Address returns the address of a host's NIC in the guests' network.
func Address(host int) net.IP { return net.IPv4(10, 46, 55, byte(host+1)) }

// MAC returns the Ethernet address of a host's NIC.
func MAC(host int) net.HardwareAddr {
	return net.HardwareAddr{0x52, 0x54, 0x00, 0x46, 0x55, byte(host + 1)}
}

// Main runs this process if it is a guest's first process, or one that measures or changes
// something. In any other process it returns.
func Main() {
	switch {
	case os.Getpid() == 1:
		live()
	case os.Args[0] != Program || len(os.Args) < 2:
		return
	}
	var result any // nil: none
	var err error
	switch os.Args[1] {
	case "ping":
		if p, e := ping(os.Args[2:]); p != nil {
			result, err = p, e
		} else {
			err = e
		}
	case "tcp":
		if t, e := stream(os.Args[2:]); t != nil {
			result, err = t, e
		} else {
			err = e
		}
	case "up":
		err = again(os.Args[2:])
	case "reload":
		err = reload(os.Args[2:])
	case "down":
		err = down(os.Args[2:])
	case "mtu":
		err = mtu(os.Args[2:])
	case "unload":
		err = unload(os.Args[2:])
	case "channels":
		err = channels(os.Args[2:])
	case "rings":
		err = rings(os.Args[2:])
	case "pass":
		err = pass(os.Args[2:])
	case "load":
		err = load()
	case "unpass":
		err = unpass(os.Args[2:])
	default:
		err = fmt.Errorf("%q: use ping, tcp, up, down, mtu, reload, unload, channels, rings, pass, unpass or load",
			os.Args[1])
	}
	if result != nil {
		_ = json.NewEncoder(os.Stdout).Encode(result) // the rig misses it
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
	os.Exit(0)
}

// between parses a number and a time from two arguments.
func between(args []string) (n int, every time.Duration, err error) {
	if len(args) != 2 {
		return 0, 0, fmt.Errorf("%q: two arguments are needed", args)
	}
	if _, err = fmt.Sscan(args[0], &n); err != nil {
		return 0, 0, fmt.Errorf("%q: %w", args[0], err)
	}
	every, err = time.ParseDuration(args[1])
	return n, every, err
}
