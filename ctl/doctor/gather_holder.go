package doctor

// This file finds the owner of an XDP program on an interface.

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// holders returns the bpf_link that attaches a program to an interface, and the processes that hold
// the link, such as "bpfd (812)". The link is 0 if there is none or this user may not look. A
// program without a link was attached by netlink, as ip(8) does, and is held by the interface.
func holders(ifindex int, program uint32) (id uint32, processes []string) {
	var all link.Iterator
	for all.Next() {
		info, err := all.Link.Info()
		if err != nil || info.Type != link.XDPType || info.Program != ebpf.ProgramID(program) {
			continue
		}
		if on := info.XDP(); on != nil && int(on.Ifindex) == ifindex {
			id = uint32(info.ID)
			break
		}
	}
	all.Close() // or this process holds the link, too
	if id == 0 {
		return 0, nil
	}
	want := fmt.Sprintf("link_id:\t%d\n", id)
	last := ""
	for _, file := range glob("/proc/[0-9]*/fdinfo/*") {
		process := filepath.Dir(filepath.Dir(file))
		if process != last && strings.Contains(contents(file), want) {
			processes = append(processes, fmt.Sprintf("%s (%s)", line(filepath.Join(process, "comm")),
				filepath.Base(process)))
			last = process
		}
	}
	return id, processes
}
