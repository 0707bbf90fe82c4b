package main

// This file is `funet lab`: it makes labs that stay until they are taken down.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/arctic"
)

// defaultLab is the name of a lab when none is given.
const defaultLab = "lab"

func labCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: "Make hosts of network namespaces on this machine, to try FUNet by hand",
		Example: `  funet lab up --hosts 2
  funet lab peers > peers.yaml
  funet lab exec 1 -- funet pingpong --iface fu0 --node 1 --peers peers.yaml &
  funet lab exec 0 -- funet pingpong --iface fu0 --node 0 --peers peers.yaml
  funet lab down
  funet lab up --daemons; funet run -n 2 --lab -- funet pingpong; funet lab down
  funet lab up --router --daemons
  funet run -n 2 --lab -- funet pingpong; funet lab down`,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if c.HasSubCommands() {
				return nil // it only prints help
			}
			// a lab that cannot be removed does not concern this command
			removed, _ := lab.RemoveStale()
			for _, name := range removed {
				fmt.Fprintf(os.Stderr, "funet: removed what a dead process left of lab %s\n", name)
			}
			return nil
		},
	}
	c.AddCommand(labUp(), labDown(), labList(), labPeers(), labExec())
	return c
}

func labUp() *cobra.Command {
	o := lab.Options{}
	var topology string
	var asJSON, daemons, router bool
	var made program.Flags
	var polling, carriage string
	c := &cobra.Command{
		Use:     "up [NAME]",
		Example: "  funet lab up\n  funet lab up wide --hosts 8 --topology mesh\n  funet lab up --daemons; funet run -n 4 --lab -- ./program; funet lab down",
		Short:   "Make a lab that stays until `funet lab down`",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("hub") {
				if err := program.CheckHub(topology, router || c.Flags().Changed("topology")); err != nil {
					return err
				}
			}
			if router && topology != "" && topology != string(lab.Router) {
				return fmt.Errorf("--router is --topology router; leave out --topology %s", topology)
			}
			if router {
				topology = string(lab.Router)
			}
			o.Name, o.Topology = nameOf(args), lab.Topology(topology)
			least := lab.MinMTU
			if daemons {
				least = arctic.MinMTU
			}
			if err := cmp.Or(program.InRange("--mtu", o.MTU, least, lab.MaxMTU),
				program.InRange("--queues", o.Queues, 1, lab.MaxQueues),
				checkDaemons(c, &made, daemons, polling, carriage)); err != nil {
				return err
			}
			if daemons {
				o.Prepare = func(l *lab.Lab) error { return startDaemons(c.Context(), l, &made, polling, carriage) }
			}
			told := output.Begin("making lab "+o.Name, 0)
			l, err := lab.Up(o)
			told.End()
			if err != nil {
				return err
			}
			hosts := l.Hosts()
			if err := l.Close(); err != nil { // the lab stays
				return err
			}
			r := labMade{Name: o.Name, Hosts: hostsJSON(hosts), daemons: daemons, mtu: o.MTU}
			if err := output.Show(asJSON, r); err != nil {
				return fmt.Errorf("lab %s is up, but this cannot be told: %w", o.Name, err)
			}
			return nil
		},
	}
	c.Flags().IntVar(&o.Hosts, "hosts", 2, "number of hosts, 2 to 8; with --hub to 16")
	c.Flags().StringVar(&topology, "topology", "",
		"pair, bridge, mesh, router, or as --hub (default: pair for 2 hosts, bridge for more)")
	c.Flags().StringVar(&topology, "hub", "",
		"routers in the kernel join the hosts: star, hypercube, fat-tree or butterfly (as --topology)")
	c.Flags().BoolVar(&o.Hashed, "hashed", false,
		"with --hub fat-tree: the two ends of a way choose the ports up, not its receiver alone")
	c.Flags().BoolVar(&router, "router", false,
		"a router between the hosts, each on a network of its own: --topology router")
	c.Flags().BoolVar(&o.IPv6, "ipv6", false, "with a router: IPv6 addresses in the peers file")
	c.Flags().IntVar(&o.MTU, "mtu", lab.DefaultMTU,
		fmt.Sprintf("of the links, in bytes; FUNet needs %d", arctic.MinMTU))
	c.Flags().IntVar(&o.Queues, "queues", 1, "receive and transmit queues of each interface")
	c.Flags().BoolVar(&daemons, "daemons", false, "start a daemon (funid) on each host, for funet run --lab")
	c.Flags().StringVar(&made.Mode, "xdp", "auto", "of the daemons: native or generic; auto measures")
	c.Flags().StringVar(&made.Bind, "bind", "auto",
		"of the daemons: copy or zero-copy; auto takes the mode that the XDP mode was measured with")
	c.Flags().StringVar(&polling, "polling", "", "of the daemons: adaptive, spin or sleep (default adaptive)")
	c.Flags().StringVar(&carriage, "carriage", cardDaemon,
		"of the daemons: daemon; direct: jobs may have direct ports (funet run --card); auto: where they are proven")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// checkDaemons refuses values that no daemon can have, and flags of daemons for a lab without
// daemons.
func checkDaemons(c *cobra.Command, f *program.Flags, daemons bool, polling, carriage string) error {
	for _, flag := range []string{"xdp", "bind", "polling", "carriage"} {
		if c.Flags().Changed(flag) && !daemons {
			return fmt.Errorf("--%s is that of the daemons; add --daemons, or leave it out", flag)
		}
	}
	if _, known := cards[carriage]; !known {
		return fmt.Errorf("--carriage %s: use %s, %s or %s", carriage, cardAuto, cardDirect, cardDaemon)
	}
	_, err := program.ParseAttach(f.Mode)
	if err == nil {
		_, err = program.ParseBind(f.Bind)
	}
	if err == nil && polling != "" {
		if _, err = config.ParsePolling(polling); err != nil {
			err = fmt.Errorf("--%w", err)
		}
	}
	return err
}

// labMade is the JSON document of lab up.
type labMade struct {
	Name    string     `json:"name"`
	Hosts   []hostJSON `json:"hosts"`
	daemons bool
	mtu     int
}

// WriteTable prints the lab that was made, and how to use it.
func (r labMade) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "lab %s is up:\n", r.Name)
	if err := output.Table(w, hostRows(r.Hosts)...); err != nil {
		return err
	}
	if r.mtu < arctic.MinMTU {
		fmt.Fprintf(w, "with MTU %d its links carry IP; FUNet needs %d\n", r.mtu, arctic.MinMTU)
	}
	try := fmt.Sprintf("host 0 with `funet lab exec --name %s 0 -- PROGRAM`", r.Name)
	if r.daemons {
		try = fmt.Sprintf("its daemons with `funet run -n 2 --lab=%s -- PROGRAM`", r.Name)
	}
	_, err := fmt.Fprintf(w, "run a program on %s; end with `funet lab down %s`\n", try, r.Name)
	return err
}

// nameOf returns the name of the lab that the arguments name.
func nameOf(args []string) string {
	if len(args) == 0 {
		return defaultLab
	}
	return args[0]
}

type interfaceJSON struct {
	Name  string `json:"name"`
	MAC   string `json:"mac"`
	Addr  string `json:"address"`
	Addr6 string `json:"address6,omitempty"`
}

type hostJSON struct {
	Host       int             `json:"host"`
	Namespace  string          `json:"namespace"`
	Interfaces []interfaceJSON `json:"interfaces"`
}

func hostsJSON(hosts []lab.Host) []hostJSON {
	var out []hostJSON
	for _, h := range hosts {
		j := hostJSON{Host: h.Index, Namespace: h.Namespace}
		for _, i := range h.Interfaces {
			x := interfaceJSON{Name: i.Name, MAC: i.MAC.String(), Addr: i.Addr.String()}
			if i.Addr6.IsValid() {
				x.Addr6 = i.Addr6.String()
			}
			j.Interfaces = append(j.Interfaces, x)
		}
		out = append(out, j)
	}
	return out
}

func hostRows(hosts []hostJSON) [][]string {
	rows := [][]string{{"  host", "namespace", "interface", "MAC", "address"}}
	for _, h := range hosts {
		for _, i := range h.Interfaces {
			rows = append(rows, []string{"  " + strconv.Itoa(h.Host), h.Namespace, i.Name, i.MAC,
				strings.TrimSpace(i.Addr + " " + i.Addr6)})
		}
	}
	return rows
}

func labDown() *cobra.Command {
	return &cobra.Command{
		Use:     "down [NAME]",
		Example: "  funet lab down",
		Short:   "Remove a lab, and end the programs that run on its hosts",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return lab.Down(nameOf(args))
		},
	}
}

func labList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Example: "  funet lab list\n  funet lab list --json",
		Short:   "List the labs",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			infos, err := lab.List()
			if err != nil {
				return err
			}
			if asJSON {
				if infos == nil {
					infos = []lab.Info{}
				}
				return output.JSON(infos)
			}
			rows := [][]string{{"name", "state", "hosts", "topology", "MTU", "daemons", "since"}}
			for _, i := range infos {
				rows = append(rows, output.Row(i.Name, i.State, i.Hosts, i.Topology, i.MTU, daemonsOf(&i),
					i.Created.Format(time.DateTime)))
			}
			return output.Table(os.Stdout, rows...)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// daemonsOf says how many daemons of a lab live, and on which hosts they have died.
func daemonsOf(i *lab.Info) string {
	if len(i.Dead) == 0 {
		return strconv.Itoa(i.Daemons)
	}
	var hosts []string
	for _, h := range i.Dead {
		hosts = append(hosts, strconv.Itoa(h))
	}
	return fmt.Sprintf("%d of %d; died on %s", i.Daemons, i.Daemons+len(i.Dead), strings.Join(hosts, ", "))
}

func labPeers() *cobra.Command {
	var host int
	c := &cobra.Command{
		Use:     "peers [NAME]",
		Example: "  funet lab peers > peers.yaml",
		Short:   "Print the peers file of a lab",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := lab.PeersOf(nameOf(args), host)
			if errors.Is(err, lab.ErrNoHost) {
				return fmt.Errorf("--host %d: %w", host, err)
			}
			if err != nil {
				return err
			}
			b, err := f.Marshal()
			if err != nil {
				return err
			}
			_, err = os.Stdout.Write(b)
			return err
		},
	}
	c.Flags().IntVar(&host, "host", 0, "whose view; in a mesh every host has its own")
	return c
}

func labExec() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:                   "exec [--name NAME] HOST -- PROGRAM [ARG ...]",
		Example:               "  funet lab exec 0 -- ip address\n  funet lab exec 1 -- funet pingpong --iface fu0 --node 1 --peers peers.yaml",
		Short:                 "Run a program on a host of a lab",
		Args:                  cobra.MinimumNArgs(2),
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if args[1] == "--" {
				args = append(args[:1], args[2:]...)
			}
			if len(args) < 2 {
				return errors.New("which program? use `funet lab exec HOST -- PROGRAM [ARG ...]`")
			}
			host, err := strconv.Atoi(args[0])
			if err != nil {
				return fmt.Errorf("host %q is not a number; use `funet lab exec HOST -- PROGRAM`", args[0])
			}
			l, err := lab.Open(name)
			if err != nil {
				return err
			}
			defer l.Close()
			cmd := l.Command(host, args[1], args[2:]...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
			if output.Terminal(os.Stdin) {
				// The program gets the terminal, and with it the terminal's Ctrl-C.
				cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(os.Stdin.Fd())
			}
			if err := l.Start(host, cmd); err != nil {
				return err
			}
			stop := context.AfterFunc(c.Context(), func() {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // it may have ended
			})
			defer stop()
			err = cmd.Wait()
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.Exited() {
				return command.ExitCode(exit.ExitCode())
			}
			if err != nil {
				err = fmt.Errorf("%s on host %d: %w", strings.Join(args[1:], " "), host, err)
			}
			if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() && c.Context().Err() == nil {
				// such as the terminal's Ctrl-C, which the program gets
				fmt.Fprintln(os.Stderr, "funet:", output.OneLine(err))
				return command.ExitCode(128 + int(w.Signal()))
			}
			return err
		},
	}
	c.Flags().StringVar(&name, "name", defaultLab, "the lab")
	c.Flags().SetInterspersed(false)
	return c
}
