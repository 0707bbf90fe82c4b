package main

// This file has the shell completions of funet, and the sentences of help about Ctrl-C.

import (
	"fmt"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/uspace/sim/chaos"
	"github.com/funet/funet/uspace/sim/scale"
	"github.com/funet/funet/uspace/topology"
)

var labs = usage.Listed(labNames)

// completed are the values of all flags whose value is a word, and of arguments.
var completed = program.Completed.With(usage.Completed{
	"sim scale --network": usage.Words(topology.LargeKinds()...),
	"run --card":          usage.Words(cardAuto, cardDirect, cardDaemon),
	"--carriage":          usage.Words(cardAuto, cardDirect, cardDaemon),
	"--polling":           usage.Words(program.Named(config.Adaptive, config.Spin, config.Sleep)...),
	"run --profile":       usage.Profiles,
	"run --lab":           labs,
	"status --lab":        labs,
	"--name":              labs,
	"--hosts":             usage.Anything,
	"--rsh":               usage.Anything,
	"--user":              usage.Anything,
	"--env":               usage.Anything,
	"--seeds":             usage.Anything,
	"--faults":            usage.Listed(func() []string { return append([]string{"all", "none"}, chaos.FaultNames()...) }),
	"--network":           usage.Words(program.Named(chaos.Ethernet, chaos.Arctic)...),
	"--pattern":           usage.Words(scale.Patterns()...),
	"--shape":             usage.Words(program.Named(chaos.Given, chaos.Swarm)...),
	"--to":                usage.Files,
	"--config":            usage.Files,
	"--trace":             usage.Files,
	"--pcap":              usage.Files,
	"--svg":               usage.Files,
	"--merge":             usage.Files,

	"lab up":         usage.Anything,
	"lab down":       labs,
	"lab peers":      labs,
	"hub run":        usage.Words("star", "hypercube", "fat-tree", "butterfly"),
	"hub run --port": usage.Anything,
	"hub show":       labs,
	"hub fail":       usage.Anything,
	"hub restore":    usage.Anything,
	"probe":          usage.Interfaces,
	"profile show":   usage.Profiles.OrFiles(),
	"profile set":    usage.Profiles.OrFiles(),
})

// onCtrlC maps commands to the effect of the first Ctrl-C.
var onCtrlC = map[string]string{
	"run":      "The first Ctrl-C ends all nodes, the second kills them at once.",
	"lab up":   "Ctrl-C takes down what has been made of the lab.",
	"lab exec": "Ctrl-C ends the program.",
	"capture":  "Ctrl-C ends it; the file is whole.",
	"hub run":  "Ctrl-C ends the router, and prints its counters.",
	"trace":    "Ctrl-C ends it, and what was followed until then is written.",
	"top":      "q and Ctrl-C end it.",
	"sim":      "Ctrl-C ends it within a second; no file is written.",
}

// labNames returns the labs that are up. A lab that cannot be read is left out.
func labNames() (names []string) {
	infos, _ := lab.List()
	for _, i := range infos {
		names = append(names, fmt.Sprintf("%s\t%d hosts, %s", i.Name, i.Hosts, i.State))
	}
	return names
}
