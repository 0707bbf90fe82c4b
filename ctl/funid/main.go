// Command funid is the card as a service. One funid on a host owns the interfaces, and processes
// without privileges attach to it (package ctl/daemon).
//
// The steps of `funid --config funid.yaml`: it reads and checks the configuration, makes the card,
// drops the capabilities and tells systemd. Then it serves processes until SIGTERM or SIGINT, and
// stops cleanly.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/xdp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var out usage.Output
	c := command()
	c.SetOut(&out)
	usage.Strict(c)
	err := out.Join(c.ExecuteContext(ctx))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "funid:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

// flags holds the command line.
type flags struct {
	config string
	check  bool
	keep   bool

	socket, peers, polling, metrics string
	logFormat, logLevel             string
	card, cpu, vlan                 int
	ifaces                          []string
}

func command() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "funid",
		Short: "The card as a service: processes without privileges attach to it",
		Long: `The card as a service. One funid on a host owns the interfaces; processes without
privileges attach to it through a Unix socket. A configuration file:

` + "  card: 0                 # number of this host in the peers file; or left out, and its address tells\n" +
			"  encap: udp              # where routers lie between the hosts; otherwise leave it out\n" +
			"  peers: peers.yaml       # beside the file; `funid peer` prints a line of it\n" +
			"  # peers: etcd://a:2379/lab   # or a table in etcd: funet help etcd\n" +
			"  discover: lab-2         # or find the hosts of this cluster on the segment, by interfaces: [eth1]\n" +
			"  polling: adaptive       # adaptive, spin, sleep\n" +
			"  rules: [{gids: [1-2047], contexts: 64, bytes: 256MiB}]\n" + `
All keys are in the documentation of package ctl/daemon. Flags go before the file.`,
		Example:       "  funid --config /etc/funet/funid.yaml\n  funid --card 0 --peers peers.yaml --socket /run/funet/card-0.sock",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	c.CompletionOptions.HiddenDefaultCmd = true
	c.AddCommand(unitCommand(), peerCommand(), kubernetesCommand(), dashboardCommand(), makeSocketsCommand(),
		makePortsCommand(), usage.Man(usage.Written{Section: "8"}))
	c.SetFlagErrorFunc(usage.Explain)
	usage.Versioned(c)
	p := c.Flags()
	p.StringVar(&f.config, "config", "", "configuration file (default: none)")
	p.BoolVar(&f.check, "check", false, "check configuration and peers file, and end")
	p.BoolVar(&f.keep, "keep-privileges", false, "do not drop capabilities after the start")
	p.StringVar(&f.socket, "socket", "", "path of the socket (default "+daemon.DefaultSocket+")")
	p.IntVar(&f.card, "card", -1,
		"number of this host in the peers file (default: the node whose address this host has)")
	p.StringVar(&f.peers, "peers", "", "peers file, or a table in etcd: etcd://HOST:PORT/NAME")
	p.StringSliceVar(&f.ifaces, "iface", nil,
		"interface to use, or several with commas (default: those of the peers file, or that with this host's address there)")
	p.StringVar(&f.polling, "polling", "", "adaptive, spin or sleep")
	p.StringVar(&f.metrics, "metrics", "", "where to serve metrics: loopback address with port, or unix: and a path")
	p.IntVar(&f.vlan, "vlan", 0, "tag frames with this VLAN, 1 to 4094; on all hosts (default: none)")
	p.StringVar(&f.logFormat, "log-format", "", "text or json (default text, with the time if it is not for journald)")
	p.StringVar(&f.logLevel, "log-level", "", "least level of lines: debug, info, warn or error (default info)")
	p.IntVar(&f.cpu, "cpu", -1, "processor to pin the card's thread to")
	usage.Endings(c,
		map[string]string{"": "Ctrl-C and SIGTERM end it, and the jobs on its card: their processes are told."})
	completed.Register(c)
	return c
}

// completed maps all flags whose value is a word to their values.
var completed = usage.Completed{
	"--config": usage.Files, "--socket": usage.Files, "--peers": usage.Files, "--program": usage.Files,
	"--iface":      usage.Interfaces,
	"--polling":    usage.Words(config.Adaptive.String(), config.Spin.String(), config.Sleep.String()),
	"--log-format": usage.Words(config.LogText.String(), config.LogJSON.String()),
	"--log-level": usage.Words(config.LogDebug.String(), config.LogInfo.String(), config.LogWarn.String(),
		config.LogError.String()),
	"--metrics": usage.Anything,
	"--image":   usage.Anything,
}

// socketsCommand is the command that funid starts to make sockets.
const socketsCommand = "make-sockets"

func makeSocketsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    socketsCommand,
		Short:  "Make AF_XDP sockets for funid, when it may no longer do so itself",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return daemon.MakeSockets() },
	}
}

// portsCommand is the command that funid starts to make direct ports.
const portsCommand = "make-ports"

func makePortsCommand() *cobra.Command {
	stay := false
	c := &cobra.Command{
		Use:    portsCommand + " SOCKET",
		Short:  "Make direct ports for funid, with a socket of its own",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return daemon.MakePorts(args[0], stay) },
	}
	c.Flags().BoolVar(&stay, "stay", false, "go on when nobody has a port, as a service")
	return c
}

// run starts the daemon, and returns when it has stopped.
func (f *flags) run(c *cobra.Command) error {
	cfg, err := f.configuration(c)
	if err != nil {
		return err
	}
	if f.check {
		if err := daemon.LookAtTable(c.Context(), &cfg); err != nil {
			return err
		}
		if err := cfg.Check(); err != nil {
			return err
		}
		for _, name := range cfg.Interfaces { // it may be for another host
			if _, err := xdp.Find(name); err != nil {
				fmt.Fprintf(os.Stderr,
					"funid: interface %s is not on this host; `ip -brief link` lists those there are\n", name)
			}
		}
		_, err := fmt.Println("funid: the configuration is valid")
		return err
	}
	if err := daemon.CheckPrivileges(); err != nil {
		return err
	}
	if !f.keep {
		if err := daemon.CanDrop(); err != nil {
			return fmt.Errorf("%w; or start it with --keep-privileges", err)
		}
	}
	// Each process that attaches costs the daemon five descriptors, and two for each segment.
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		files.Cur = files.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &files) // with fewer, attaching is refused earlier
	}
	// What processes share with the card is to be locked, and all that the card's thread touches.
	memory := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if unix.Setrlimit(unix.RLIMIT_MEMLOCK, &memory) != nil && unix.Getrlimit(unix.RLIMIT_MEMLOCK, &memory) == nil {
		memory.Cur = memory.Max
		_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &memory) // it says below what that is worth
	}
	// The card's thread does not share its processor with the other goroutines if it can be helped.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 2))
	// little is allocated, and nothing on the way of a message
	debug.SetGCPercent(400)
	journald, _ := journal.StderrIsJournalStream() // if that cannot be told, it is not
	cfg.Logger = daemon.NewLog(os.Stderr, cfg.LogFormat, cfg.LogLevel, journald)
	if !f.keep {
		maker, err := daemon.StartSocketMaker(socketsCommand)
		if err != nil {
			return err
		}
		defer maker.Close()
		cfg.MakeSocket = maker.Socket
	}
	if err := daemon.JoinTable(c.Context(), &cfg); err != nil {
		if c.Context().Err() != nil {
			return nil // it was told to end while it waited
		}
		return err
	}
	if err := daemon.ChooseCarriage(c.Context(), &cfg, portsCommand); err != nil {
		return err
	}
	d, err := daemon.Open(cfg)
	if err != nil {
		return err
	}
	d.GiveWay()
	for _, note := range d.MemoryNotes(daemon.LockMemory()) {
		cfg.Logger.Warn(note)
	}
	if !f.keep {
		if err := daemon.DropPrivileges(); err != nil {
			return errors.Join(err, d.Abandon())
		}
	}
	return d.Serve(c.Context())
}

// configuration reads the file. Flags override it.
func (f *flags) configuration(c *cobra.Command) (cfg daemon.Config, err error) {
	cfg.CPU, cfg.FindCard = -1, true
	if f.config != "" {
		if cfg.File, err = config.Load(f.config); err != nil {
			return cfg, err
		}
	}
	cfg.Socket, cfg.Metrics = cmp.Or(f.socket, cfg.Socket), cmp.Or(f.metrics, cfg.Metrics)
	if c.Flags().Changed("card") {
		if f.card < 0 || f.card > math.MaxUint16 {
			return cfg, fmt.Errorf("--card %d: use this host's number in the peers file, from 0", f.card)
		}
		cfg.Card, cfg.FindCard = uint16(f.card), false
	}
	if strings.HasPrefix(f.peers, config.EtcdScheme) {
		if err = cfg.At(f.peers); err != nil {
			return cfg, fmt.Errorf("--%w", err)
		}
	} else if f.peers != "" {
		cfg.Etcd = nil
		if cfg.Peers, err = cluster.Load(f.peers); err != nil {
			return cfg, err
		}
		cfg.PeersPath = f.peers
	}
	if len(f.ifaces) > 0 {
		cfg.Interfaces = f.ifaces
	}
	if c.Flags().Changed("vlan") {
		if f.vlan < 1 || f.vlan > bpf.MaxVLAN {
			return cfg, fmt.Errorf("--vlan %d: use 1 to %d, or leave it out", f.vlan, bpf.MaxVLAN)
		}
		cfg.VLAN = uint16(f.vlan)
	}
	if err := errors.Join(chosen(&cfg.Polling, f.polling, config.ParsePolling),
		chosen(&cfg.LogFormat, f.logFormat, config.ParseLogFormat),
		chosen(&cfg.LogLevel, f.logLevel, config.ParseLogLevel)); err != nil {
		return cfg, err
	}
	if c.Flags().Changed("cpu") {
		if f.cpu < 0 {
			return cfg, fmt.Errorf("--cpu %d: use the number of a processor, from 0, or leave it out", f.cpu)
		}
		cfg.CPU = f.cpu
	}
	return cfg, nil
}

// chosen sets a value by its name, unless the flag was left out.
func chosen[T any](to *T, name string, parse func(string) (T, error)) error {
	if name == "" {
		return nil
	}
	v, err := parse(name)
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	*to = v
	return nil
}
