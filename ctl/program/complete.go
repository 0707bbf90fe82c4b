package program

// This file has the shell completions of the flags that programs on a group share.

import (
	"fmt"
	"strconv"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/xdp"
)

// Profiles are the built-in profiles, each with its description.
var Profiles = usage.Listed(profileNames)

// Completed are the values of the flags that Register adds.
var Completed = usage.Completed{
	"--topology": usage.Words(string(lab.Pair), string(lab.Bridge), string(lab.Mesh), string(lab.Router)),
	"--xdp":      usage.Words(Named(xdp.AttachAuto, xdp.AttachNative, xdp.AttachGeneric)...),
	"--bind":     usage.Words(Named(xdp.BindAuto, xdp.BindCopy, xdp.BindZeroCopy)...),
	"--encap":    usage.Words(Named(cluster.Encaps...)...),
	"--card":     usage.Words("auto", "daemon", "embedded", cardDirect),
	"--iface":    usage.Interfaces,
	"--profile":  Profiles.OrFiles(),
	"--lab":      usage.Listed(hostCounts),
	"--socket":   usage.Files,
	"--peers":    usage.Files,
	"--key":      usage.Files,
}

// Named returns the names of values.
func Named[T fmt.Stringer](values ...T) (names []string) {
	for _, v := range values {
		names = append(names, v.String())
	}
	return names
}

func profileNames() (names []string) {
	for _, name := range hwprofiles.Names() {
		if p, err := hwprofiles.Load(name); err == nil {
			name += "\t" + p.About
		}
		names = append(names, name)
	}
	return names
}

// hostCounts returns the possible numbers of hosts of a lab.
func hostCounts() (counts []string) {
	for n := lab.MinHosts; n <= lab.MaxHosts; n++ {
		counts = append(counts, strconv.Itoa(n))
	}
	return counts
}
