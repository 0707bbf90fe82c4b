package main

// This file is `funid peer`: it prints this host's line of the peers file.

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/xdp"
)

func peerCommand() *cobra.Command {
	var node int
	var iface string
	c := &cobra.Command{
		Use:   "peer --iface NAME --node N",
		Short: "Print this host's line of the peers file",
		Long: `Print this host's line of the peers file: the Ethernet address of an interface and, if it has one that
other hosts could reach, its IP address. The lines of all hosts, below a line "peers:", are the file.
With "encap: udp" above it frames travel between the IP addresses, in UDP datagrams; without, between
the Ethernet addresses, on one segment.`,
		Example: "  funid peer --iface eth1 --node 0      # and on the next host --node 1\n" +
			"  { echo peers:; for i in 0 1; do ssh host-$i funid peer --iface eth1 --node $i\n" +
			"    done; } > peers.yaml",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if node < 0 || node >= cluster.MaxNodes {
				return fmt.Errorf("--node %d: use this host's number, 0 to %d", node, cluster.MaxNodes-1)
			}
			line, err := peerLine(iface, node)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), line)
			return err
		},
	}
	c.Flags().StringVar(&iface, "iface", "", "interface that leads to the other hosts")
	c.Flags().IntVar(&node, "node", 0, "this host's number, from 0")
	return c
}

// peerLine composes the line.
func peerLine(name string, node int) (string, error) {
	if name == "" {
		return "", fmt.Errorf("--iface is missing; `ip -brief link` lists the interfaces")
	}
	i, err := xdp.Find(name)
	if err != nil {
		return "", fmt.Errorf("--iface %s: there is no such interface; `ip -brief link` lists them", name)
	}
	addresses, err := i.Addrs()
	if err != nil {
		return "", fmt.Errorf("reading the addresses of %s: %w", name, err)
	}
	ip := daemon.ReachedAt(addresses)
	switch {
	case len(i.HardwareAddr) == 6 && ip.IsValid():
		return fmt.Sprintf("  - {node: %d, mac: %q, address: %q}", node, i.HardwareAddr, ip), nil
	case len(i.HardwareAddr) == 6:
		return fmt.Sprintf("  - {node: %d, mac: %q}", node, i.HardwareAddr), nil
	}
	return "", fmt.Errorf("--iface %s has no Ethernet address; name the interface of a NIC", name)
}
