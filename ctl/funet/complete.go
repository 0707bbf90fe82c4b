package main

// This file has the shell completions of funet, and the sentences of help about Ctrl-C.

import (
	"fmt"
	"strconv"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/cmam"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/sim/chaos"
	"github.com/funet/funet/xdp"
)

var (
	labs       = usage.Listed(labNames)
	profiles   = usage.Listed(profileNames)
	attachWord = usage.Words(named(xdp.AttachAuto, xdp.AttachNative, xdp.AttachGeneric)...)
	bindWord   = usage.Words(named(xdp.BindAuto, xdp.BindCopy, xdp.BindZeroCopy)...)
)

// completed are the values of all flags whose value is a word, and of arguments.
var completed = usage.Completed{
	"--topology":    usage.Words(string(lab.Pair), string(lab.Bridge), string(lab.Mesh), string(lab.Router)),
	"--xdp":         attachWord,
	"--bind":        bindWord,
	"--encap":       usage.Words(named(cluster.Encaps...)...),
	"--card":        usage.Words("auto", "daemon", "embedded", cardDirect),
	"run --card":    usage.Words(cardAuto, cardDirect, cardDaemon),
	"--carriage":    usage.Words(cardAuto, cardDirect, cardDaemon),
	"--polling":     usage.Words(named(daemon.Adaptive, daemon.Spin, daemon.Sleep)...),
	"--iface":       usage.Interfaces,
	"--profile":     profiles.OrFiles(),
	"run --profile": profiles,
	"--lab":         usage.Listed(hostCounts),
	"run --lab":     labs,
	"status --lab":  labs,
	"--name":        labs,
	"--hosts":       usage.Anything,
	"--rsh":         usage.Anything,
	"--user":        usage.Anything,
	"--env":         usage.Anything,
	"--seeds":       usage.Anything,
	"--figure":      usage.Words("6.2", "6.3", "6.4", "6.5"),
	"--faults":      usage.Listed(func() []string { return append([]string{"all", "none"}, chaos.FaultNames()...) }),
	"--network":     usage.Words(named(chaos.Ethernet, chaos.Arctic)...),
	"--shape":       usage.Words(named(chaos.Given, chaos.Swarm)...),
	"--only":        usage.Words(bench.Keys()...),
	"--socket":      usage.Files,
	"--to":          usage.Files,
	"--config":      usage.Files,
	"--peers":       usage.Files,
	"--key":         usage.Files,
	"--plot":        usage.Files,
	"--trace":       usage.Files,
	"--pcap":        usage.Files,
	"--merge":       usage.Files,
	"--real":        usage.Files,
	"--hold-out":    usage.Words(cmam.Groups()...),

	"lab up":       usage.Anything,
	"lab down":     labs,
	"lab peers":    labs,
	"probe":        usage.Interfaces,
	"profile show": profiles.OrFiles(),
	"profile set":  profiles.OrFiles(),
}

// onCtrlC maps commands to the effect of the first Ctrl-C.
var onCtrlC = map[string]string{
	"":         "Ctrl-C ends it within a second; it leaves nothing behind.",
	"run":      "The first Ctrl-C ends all nodes, the second kills them at once.",
	"lab up":   "Ctrl-C takes down what has been made of the lab.",
	"lab exec": "Ctrl-C ends the program.",
	"bench":    "Ctrl-C ends what it runs and takes its labs down; nothing is printed.",
	"capture":  "Ctrl-C ends it; the file is whole.",
	"trace":    "Ctrl-C ends it, and what was followed until then is written.",
	"top":      "q and Ctrl-C end it.",
	"sim":      "Ctrl-C ends it within a second; no file is written.",
}

// named returns the names of values.
func named[T fmt.Stringer](values ...T) (names []string) {
	for _, v := range values {
		names = append(names, v.String())
	}
	return names
}

// labNames returns the labs that are up. A lab that cannot be read is left out.
func labNames() (names []string) {
	infos, _ := lab.List()
	for _, i := range infos {
		names = append(names, fmt.Sprintf("%s\t%d hosts, %s", i.Name, i.Hosts, i.State))
	}
	return names
}

// profileNames returns the built-in profiles, each with its description.
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
