package program

// This file has the shell completions of the flags that programs on a group share.

import (
	"fmt"
	"strconv"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/xdp"
)

// Completed are the values of the flags that Register adds.
var Completed = usage.Completed{
	"--topology": usage.Words(string(lab.Pair), string(lab.Bridge), string(lab.Mesh), string(lab.Router),
		string(lab.Hypercube), string(lab.FatTree), string(lab.Butterfly)),
	"--hub":     usage.Words(string(lab.Hypercube), string(lab.FatTree), string(lab.Butterfly)),
	"--xdp":     usage.Words(Named(xdp.AttachAuto, xdp.AttachNative, xdp.AttachGeneric)...),
	"--bind":    usage.Words(Named(xdp.BindAuto, xdp.BindCopy, xdp.BindZeroCopy)...),
	"--encap":   usage.Words(Named(cluster.Encaps...)...),
	"--card":    usage.Words("auto", "daemon", "embedded", cardDirect),
	"--iface":   usage.Interfaces,
	"--profile": usage.Profiles.OrFiles(),
	"--lab":     usage.Listed(hostCounts),
	"--socket":  usage.Files,
	"--peers":   usage.Files,
	"--key":     usage.Files,
}

// Named returns the names of values.
func Named[T fmt.Stringer](values ...T) (names []string) {
	for _, v := range values {
		names = append(names, v.String())
	}
	return names
}

// hostCounts returns the possible numbers of hosts of a lab.
func hostCounts() (counts []string) {
	for n := lab.MinHosts; n <= lab.MaxHosts; n++ { // of most topologies
		counts = append(counts, strconv.Itoa(n))
	}
	return counts
}
