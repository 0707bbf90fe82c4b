package main

// This file is `funet run`: it runs a parallel program on the daemons of this machine, of a lab, or
// of several hosts.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
)

// runFlags are the flags of run.
type runFlags struct {
	launch.Options
	card string // a name of cards
	lab  string // "": not on a lab; anyLab: no name was given
	user string
	rsh  string
	env  []string
	gid  int
	made program.Flags // of a lab made for this run
}

// The values of --card: a context on the daemon's card, a card of each process's own on a direct
// port, or whichever there is.
const (
	cardDaemon = attach.CarriageDaemon
	cardDirect = attach.CarriageDirect
	cardAuto   = attach.CarriageAuto
)

var cards = map[string]launch.Cards{cardDaemon: launch.DaemonCards, cardDirect: launch.DirectCards,
	cardAuto: launch.AutoCards}

// usualRestarts is the value of --restart without a number.
const usualRestarts = 3

// anyLab is the value of --lab without a name: the default lab, or one made for this run. No lab
// can have this name.
const anyLab = defaultLab + ", or a new one"

func runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run -n N [flags] -- PROGRAM [ARG ...]",
		Short: "Run a parallel program: a group, and a process for each of its nodes",
		Long: `Make a group on the daemons (funid) of the hosts and start a process for each node,
node n on host n modulo their number; no privilege is needed. The hosts are this
machine; with --lab those of a lab; with --hosts others, by ssh, on which funet must be
in PATH.

A process finds its daemon and its place in the group in its environment (FUNET_...),
where the programs of funet and package attach look for it. Each line that it prints
comes out with its node's number. Standard input goes to node 0; Ctrl-C, SIGTERM and
SIGHUP to all, and what has not ended after --grace is killed, at a second Ctrl-C at
once. The exit code is then 128 and the signal's number; otherwise the first node that
fails gives it, and the others are ended. A host of --hosts that is not heard for
--host-timeout is given up and named, and the exit code is 255, as of ssh.

With --restart a node that fails is started again on its host, three times or as --restart=N
says; after a rest of 0.1 s, twice as long each time up to 5 s. FUNET_LIFE tells a
process how many there were before it. Such a process can join its job again if the program is
made for that (Rejoin in package am); other programs notice that a node was lost, and
end. Standard input stays with the first process of node 0.

With --ofi programs over libfabric, such as those of Open MPI, use the provider funet.
It must be installed on each host, or built beside funet (make ofi). Variables for it
that are set already stay.

On a lab, root runs the program as an ordinary user (--user): without a terminal, without
set-user-ID programs, and with an environment of PATH, HOME, USER, LOGNAME, SHELL, LANG,
LANGUAGE, LC_*, TERM, TZ, TMPDIR (if the user may write there), FUNET_* and what --env
adds. A program in a folder that this user may not enter, as those in root's home, is
handed over open. A lab is named as in --lab=NAME. Without a name it is the lab named
"lab", and if that is not up, root has one made for the occasion.`,
		Example: `  funet run -n 2 --lab -- funet pingpong
  funet lab up --daemons; funet run -n 4 --lab -- funet matmul --size 512
  funet run -n 4 --hosts a,b -- ./program
  funet run -n 2 --hosts pod-a,pod-b --rsh "kubectl exec -i {} --" -- program
  funet run -n 4 --hosts a,b --once -- srun ./program
  funet run -n 4 --hosts a,b --once --ofi -- mpirun -n 4 -host a:2,b:2 ./program
  funet run -n 4 --lab --restart=10 -- ./program`,
		Args:                  cobra.MinimumNArgs(1),
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if f.lab == anyLab && len(args) > 1 && args[1] == "--" {
				return usage.Explain(c,
					fmt.Errorf("%q stands before \"--\": a lab is named as in --lab=%s, and the program comes after \"--\"", args[0], args[0]))
			}
			f.Program, f.Args = args[0], args[1:]
			return f.run(c)
		},
	}
	p := c.Flags()
	p.SetInterspersed(false)
	p.IntVarP(&f.Nodes, "nodes", "n", 1, "number of nodes")
	p.StringVar(&f.lab, "lab", "", "run on the hosts of a lab with daemons, named as in --lab=NAME")
	p.Lookup("lab").NoOptDefVal = anyLab
	p.StringSliceVar(&f.Hosts, "hosts", nil, "run on these hosts, reached by ssh")
	p.StringVar(&f.rsh, "rsh", "",
		"what reaches a host of --hosts instead of ssh, such as \"kubectl exec -i {} --\": words, {} is the host")
	p.StringVar(&f.Socket, "socket", "", "of the daemon (default: $FUNET_SOCKET, or "+attach.DefaultSocket+")")
	p.IntVar(&f.gid, "gid", 0, "group identifier, 1 to 2047 (default: any that is free)")
	p.StringVar(&f.user, "user", "",
		"for root: user to run the program as (default on a lab: who called sudo, or nobody)")
	p.StringVar(&f.card, "card", cardAuto,
		"whose cards the processes have: daemon; direct: each its own, on a port that the daemon gives; auto: direct where all daemons have proven ports")
	p.StringVar(&f.Profile, "profile", "", "hardware profile that the cards must have (default: any)")
	p.BoolVar(&f.Once, "once", false,
		"start the program once, here: it starts the nodes (mpirun, srun), which know their numbers from it")
	p.BoolVar(&f.OFI, "ofi", false,
		"have programs over libfabric, such as those of Open MPI, use the provider funet, with --card direct unless that is given")
	p.IntVar(&f.Restarts, "restart", 0, "start a node that fails again, at most N times each, as in --restart=N")
	p.Lookup("restart").NoOptDefVal = strconv.Itoa(usualRestarts)
	p.BoolVar(&f.Label, "label", true, "print nodes' numbers before their lines")
	p.StringArrayVar(&f.env, "env", nil,
		"for the program: NAME=VALUE, or NAME for the value that it has here; may be repeated")
	p.DurationVar(&f.HostTimeout, "host-timeout", launch.DefaultHostTimeout,
		"after which a host of --hosts that is not heard is given up, with the job; 0: never")
	p.DurationVar(&f.Grace, "grace", launch.DefaultGrace,
		"how long processes have to end after Ctrl-C, SIGTERM or SIGHUP")
	p.StringVar(&f.made.Mode, "xdp", "auto", "on a lab made for the occasion: native or generic; auto measures")
	return c
}

// runRelayCommand is the command that `funet run --hosts` starts beside itself for each host.
func runRelayCommand() *cobra.Command {
	return &cobra.Command{
		Use:    launch.RelayCommand + " TIMEOUT",
		Short:  "What `funet run --hosts` starts beside itself; passes on orders",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			signal.Ignore(unix.SIGINT, unix.SIGHUP, unix.SIGTERM) // it ends with the launcher
			timeout, err := time.ParseDuration(args[0])
			if err != nil {
				return err
			}
			return launch.Relay(os.Stdin, os.Stdout, timeout)
		},
	}
}

func (f *runFlags) run(c *cobra.Command) (err error) {
	which, known := cards[f.card]
	switch {
	case f.user != "" && len(f.Hosts) > 0:
		return errors.New("--user or --hosts, not both: name users with the hosts, as in --hosts alice@a,alice@b")
	case f.lab != "" && len(f.Hosts) > 0:
		return errors.New("--lab or --hosts, not both")
	case f.lab != "" && f.Socket != "":
		return errors.New("--lab or --socket, not both")
	case c.Flags().Changed("rsh") && len(f.Hosts) == 0:
		return errors.New("--rsh says how --hosts are reached; name them, or leave it out")
	case c.Flags().Changed("rsh") && len(strings.Fields(f.rsh)) == 0:
		return errors.New("--rsh: use a command such as \"kubectl exec -i {} --\"")
	case f.gid < 0 || f.gid > arctic.MaxGID || f.gid == 0 && c.Flags().Changed("gid"):
		return fmt.Errorf("--gid %d: use 1 to %d (0 is the system group), or leave it out for one that is free",
			f.gid, arctic.MaxGID)
	case c.Flags().Changed("xdp") && f.lab != anyLab:
		return errors.New("--xdp is that of a lab made for the occasion; add --lab, or leave it out")
	case !known:
		return fmt.Errorf("--card %s: use %s, %s or %s", f.card, cardAuto, cardDirect, cardDaemon)
	case f.HostTimeout != 0 && f.HostTimeout < launch.ShortestHostTimeout:
		return fmt.Errorf("--host-timeout %v: use %v or longer, or 0 for never", f.HostTimeout,
			launch.ShortestHostTimeout)
	case f.Restarts < 0 || f.Restarts > launch.MaxRestarts:
		return fmt.Errorf("--restart=%d: use 0 to %d", f.Restarts, launch.MaxRestarts)
	case f.Restarts > 0 && f.Once:
		return errors.New("--restart or --once, not both: whoever starts the nodes (mpirun, srun) starts them again")
	case f.Grace <= 0:
		return fmt.Errorf("--grace %v: use a time above 0, such as 5s", f.Grace)
	}
	if _, err := program.ParseAttach(f.made.Mode); err != nil {
		return err
	}
	if err := program.InRange("-n", f.Nodes, 1, attach.MaxNodes); err != nil {
		return err
	}
	if f.Env, err = launch.ParseEnv(f.env); err != nil {
		return err
	}
	if f.OFI && !c.Flags().Changed("card") {
		which = launch.DirectCards // a daemon's card has no one-sided operations
	}
	f.GID, f.Reach, f.Cards, f.TellCards = uint16(f.gid), strings.Fields(f.rsh), which, c.Flags().Changed("card")
	if err := f.chooseUser(); err != nil {
		return err
	}
	// The command's own handling of signals ends what comes before the processes; these go to them.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(command.Signals(), unix.SIGCONT)...)
	defer signal.Stop(signals)
	if !signal.Ignored(unix.SIGTSTP) {
		signal.Notify(signals, unix.SIGTSTP)
	}
	onTerminal, err := launch.OnTerminal()
	if err != nil {
		return err
	}
	if onTerminal {
		f.Suspend = suspend
	}
	if f.User != nil && onTerminal {
		return withoutTerminal(c.Context(), signals)
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	f.Signals, f.Stdin, f.Stdout, f.Stderr = signals, input(), os.Stdout, os.Stderr

	switch {
	case f.lab != "":
		name := f.lab
		if name == anyLab {
			name = defaultLab
		}
		f.Sockets, err = lab.Sockets(name)
		if errors.Is(err, lab.ErrNotFound) && os.Geteuid() == 0 && f.lab == anyLab {
			return f.onOccasion(ctx)
		}
		if err != nil {
			return err
		}
		if c.Flags().Changed("xdp") {
			return fmt.Errorf("--xdp is that of a lab made for the occasion, and lab %s is up; leave it out, or take the lab down first", name)
		}
	case len(f.Hosts) == 0:
		f.Sockets = []string{program.DaemonSocket(f.Socket)}
	}
	return f.job(ctx)
}

// chooseUser chooses the user that the program runs as.
func (f *runFlags) chooseUser() (err error) {
	switch {
	case f.user != "":
		f.User, err = launch.LookupUser(f.user)
	case f.lab != "" && os.Geteuid() == 0:
		f.User, err = launch.Ordinary()
	}
	return err
}

// job runs the job on the hosts, and makes its exit code the command's.
func (f *runFlags) job(ctx context.Context) error {
	code, err := launch.Run(ctx, f.Options)
	if err == nil && code != 0 {
		return command.ExitCode(code)
	}
	return err
}

// onOccasion runs the job on a lab made for this run.
func (f *runFlags) onOccasion(ctx context.Context) (err error) {
	if f.Profile != "" && f.Profile != program.NativeProfile {
		return fmt.Errorf("--profile %s: daemons of a lab made for the occasion have profile %s; use `funet lab up --daemons` and `funet profile set`", f.Profile, program.NativeProfile)
	}
	if err := launch.Find(f.Options); err != nil { // before the lab is made
		return err
	}
	f.made.Lab, f.made.MTU, f.made.Bind = max(lab.MinHosts, min(f.Nodes, lab.MaxHosts)), lab.DefaultMTU, "auto"
	// of one that was killed; a lab that cannot be removed does not concern this command
	_, _ = lab.RemoveStale()
	l, err := lab.Up(f.made.LabOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	carriage := cardDaemon
	if f.Cards == launch.DirectCards {
		carriage = cardDirect
	}
	if err := startDaemons(ctx, l, &f.made, "", carriage); err != nil {
		return err
	}
	if f.Sockets, err = l.Sockets(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.job(ctx)
}

// startDaemons starts the daemons of a lab with the given carriage. They use the XDP mode of the
// flags, or without one the faster mode.
func startDaemons(ctx context.Context, l *lab.Lab, f *program.Flags, polling, carriage string) error {
	o := lab.DaemonOptions{Polling: polling}
	if carriage != cardDaemon {
		o.More = "carriage: " + carriage + "\n"
	}
	if err := f.MeasureMode(ctx, l); err != nil {
		return err
	}
	o.XDP, o.Bind, o.Jumbo = f.Mode, f.Bind, f.Jumbo
	return l.StartDaemons(o)
}
