package main

// This file is `funet hub run`: a machine with several NICs becomes a router.

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/hub"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/cluster"
)

func hubRun() *cobra.Command {
	var c hub.Config
	var peers, mode string
	var ports []string
	var asJSON bool
	command := &cobra.Command{
		Use: "run TOPOLOGY",
		Example: "  funet hub run star --peers peers.yaml --port 0=eth1 --port 1=eth2\n" +
			"  funet hub run fat-tree --router 3 --peers p.yaml --port 0=eth1 --port 2=eth2",
		Short: "Make this machine a router that forwards FUNet's frames in the kernel",
		Long: `Make this machine a router that forwards FUNet's frames in the kernel, until Ctrl-C. The network is
as large as the peers file says, and topo show tells what each port of each router leads to. Hosts
need no setting: the router finds them by their Ethernet addresses in the peers file.

Where the link of a port fails, or a router, all routers take other ways as far as there are any:
they tell each other. Everything else than FUNet's own frames is left to the kernel. Nothing of the
router stays when the command ends.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) (err error) {
			if c.Mode, err = program.ParseAttach(mode); err != nil {
				return fmt.Errorf("--xdp: %w", err)
			}
			if peers == "" {
				return errors.New("which hosts are there? Give --peers FILE, with the Ethernet address of each")
			}
			file, err := cluster.Load(peers)
			if err != nil {
				return err
			}
			if c.Network, err = lab.Topology(args[0]).Network(len(file.Peers)); err != nil {
				return fmt.Errorf("%s for the %d nodes of %s: %w", args[0], len(file.Peers), peers, err)
			}
			for _, p := range file.Peers {
				var station [6]byte
				if !p.Absent && copy(station[:], p.MAC) != len(station) {
					return fmt.Errorf("%s: node %d has no mac; routers forward to Ethernet addresses only", peers, p.Node)
				}
				c.Stations = append(c.Stations, station)
			}
			if c.Ports, err = parsePorts(ports); err != nil {
				return err
			}
			c.Tell = func(line string) { fmt.Fprintln(os.Stderr, line) }
			counters, err := hub.Run(command.Context(), c)
			if err != nil {
				if errors.Is(err, hub.ErrPorts) {
					return fmt.Errorf("%w; `funet topo show --hub %s --nodes %d` draws them", err, args[0], len(file.Peers))
				}
				return err
			}
			return output.Show(asJSON, hubReport{Topology: args[0],
				Routers: []hubRouter{{Router: c.Router, Down: []int{}, HubCounters: counters}}})
		},
	}
	p := command.Flags()
	p.IntVar(&c.Router, "router", 0, "number of this router in the network")
	p.StringVar(&peers, "peers", "", "peers file, with the Ethernet address of each host")
	p.StringArrayVar(&ports, "port", nil, "PORT=INTERFACE: the interface of a port, for each that has a wire")
	p.BoolVar(&c.Hashed, "hashed", false, "in a fat tree both ends of a way choose its ports up")
	p.StringVar(&mode, "xdp", "auto", "auto, native, generic")
	p.BoolVar(&asJSON, "json", false, "print the counters at the end as JSON")
	return command
}

// parsePorts reads PORT=INTERFACE.
func parsePorts(words []string) (map[int]string, error) {
	ports := map[int]string{}
	for _, w := range words {
		number, name, _ := strings.Cut(w, "=")
		p, err := strconv.Atoi(number)
		if err != nil || p < 0 || name == "" {
			return nil, fmt.Errorf("--port %q: give the number of a port and its interface: 0=eth1", w)
		}
		if ports[p] != "" {
			return nil, fmt.Errorf("--port %q: port %d is %s already", w, p, ports[p])
		}
		ports[p] = name
	}
	return ports, nil
}
