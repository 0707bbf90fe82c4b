// Command share measures how much of the network a user keeps while another user attacks it. It
// measures round trips, and exchanges a second, of two processes on two hosts, through the daemons
// there. These processes run alone, beside a process on each host that only computes, and beside
// each attack of package attack. The command needs root and makes a lab of its own. `make share`
// runs it.
//
// The journey of a run: the lab starts with a daemon on each host (ctl/lab). This process, the
// launcher, makes the victim's group. The victim's two processes (victim.go) stay attached for the
// whole run. Every round goes through all attacks (rounds.go). Before and after each attack the
// victim is measured beside the computing processes, and the attack is compared with these two
// measurements. Each attack has groups and processes of its own and, if it asks for them, sleeping
// contexts of other users. All these are gone before the next attack begins (beside.go). Requests
// at the daemon's socket are measured apart, beside attacks on them (control.go). The report has
// medians over the rounds (report.go).
//
// Each part is a process of its own: this program executes itself again in the role that roleEnv
// names (process.go). All processes and the lab end with this one, however it ends.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/attack"
	"github.com/funet/funet/tests/entry"
)

func main() {
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(role, os.Getenv(configEnv)); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
			os.Exit(1)
		}
		return
	}
	entry.Main(command())
}

// options are the command line.
type options struct {
	Rounds  int
	Window  time.Duration
	Only    []string
	MTU     int
	XDP     string
	Card    string // of the victim
	Hub     string // the network of routers between the hosts; "": a link
	Gangs   bool   // groups take turns together, and another group goes on beside the victim's
	Etcd    bool   // the table of hosts and GIDs is in an etcd, on a foreign host
	Funid   string
	Ranks   string // folder of the files for attacks by ranks of libfabric
	JSON    bool
	From    []string // JSON documents of earlier runs
	attacks []attack.Attack
	control []attack.Attack // attacks beside which requests are measured
	noRanks string          // why attacks by ranks cannot be measured; "": they can
}

// These are the limits of the options.
const (
	maxRounds = 1000
	minWindow = 100 * time.Millisecond
	maxWindow = time.Minute
)

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "share",
		Short:         "Measure what a user keeps beside another's attacks, through daemons on two hosts",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(o.From) > 0 {
				return writeMarkdown(os.Stdout, o.From)
			}
			if err := o.check(); err != nil {
				return err
			}
			r, err := measure(c.Context(), &o)
			if err != nil {
				return err
			}
			if o.JSON {
				e := json.NewEncoder(os.Stdout)
				e.SetIndent("", "  ")
				return e.Encode(r)
			}
			return r.writeTable(os.Stdout)
		},
	}
	c.CompletionOptions.DisableDefaultCmd = true
	p := c.Flags()
	p.IntVar(&o.Rounds, "rounds", 5, "interleaved rounds")
	p.DurationVar(&o.Window, "window", 1500*time.Millisecond, "how long each measurement takes")
	p.StringSliceVar(&o.Only, "attacks", nil, "only these: "+strings.Join(names(), ", "))
	p.IntVar(&o.MTU, "mtu", 9000, "of the lab's link, in bytes; frames are as long")
	p.StringVar(&o.XDP, "xdp", "generic", "native or generic")
	p.StringVar(&o.Card, "card", cardDaemon,
		"of the victim's processes: daemon; direct, with a link of 1500 bytes, and attacks on direct ports besides;"+
			" ofi: direct, of ranks that use the provider for libfabric")
	p.StringVar(&o.Hub, "hub", "", "join the victim's hosts and two foreign ones by routers: hypercube, fat-tree or"+
		" butterfly; only attacks of foreign hosts")
	p.BoolVar(&o.Gangs, "gangs", false, "with --hub: the cards have room for one group, groups take turns together,"+
		" and another group goes on; one foreign host attacks")
	p.BoolVar(&o.Etcd, "etcd", false, "the hosts' table is in an etcd, which a foreign host attacks (etcd in PATH)")
	p.StringVar(&o.Funid, "funid", "", "the daemon's program (default: beside this one, or in PATH)")
	p.StringVar(&o.Ranks, "ranks", "",
		"folder of the program rank and of the provider for libfabric (default: beside this program)")
	p.BoolVar(&o.JSON, "json", false, "print one JSON document")
	p.StringSliceVar(&o.From, "from", nil, "measure nothing: print a table in Markdown from the JSON documents of runs")
	return c
}

// These are the values of --card.
const (
	cardDaemon = "daemon"
	cardDirect = "direct"
	cardOFI    = "ofi"
)

// ownSession reports whether the victim's processes are in sessions of their own, as another user's
// are. The kernel shares processors among sessions first (sched(7), autogroup). A victim with a
// direct port would pay for the computing of an enemy in the same session. A victim on a daemon's
// card hands the processor to the daemon and back, which is slow between sessions.
func (o *options) ownSession() bool { return o.direct() }

// direct reports whether the victim's processes have direct ports.
func (o *options) direct() bool { return o.Card == cardDirect || o.Card == cardOFI }

// names returns the names of the attacks.
func names() (all []string) {
	for _, a := range slices.Concat(attack.Attacks(), attack.Rows(), attack.Requests(), attack.Direct(),
		attack.Ranks(), attack.UDP(), attack.Hub(), attack.Bundles(), attack.Etcd()) {
		all = append(all, a.Name)
	}
	return all
}

// check refuses options that cannot be measured, before anything is made.
func (o *options) check() error {
	switch {
	case o.Rounds < 1 || o.Rounds > maxRounds:
		return fmt.Errorf("--rounds %d: use 1 to %d", o.Rounds, maxRounds)
	case o.Window < minWindow || o.Window > maxWindow:
		return fmt.Errorf("--window %v: use %v to %v", o.Window, minWindow, maxWindow)
	case o.XDP != "native" && o.XDP != "generic":
		return fmt.Errorf("--xdp %q: use native or generic", o.XDP)
	case o.MTU < lab.DefaultMTU || o.MTU > lab.MaxMTU:
		return fmt.Errorf("--mtu %d: use %d to %d", o.MTU, lab.DefaultMTU, lab.MaxMTU)
	case o.Hub != "" && !lab.Topology(o.Hub).IsHub():
		return fmt.Errorf("--hub %q: use star, hypercube, fat-tree or butterfly", o.Hub)
	case o.Etcd && o.Hub != "":
		return errors.New("--etcd and --hub: use one of them")
	case o.Gangs && (o.Hub == "" || o.Card != cardDaemon):
		return errors.New("--gangs: groups take turns on the daemon's card; use --hub and --card daemon")
	case !slices.Contains([]string{cardDaemon, cardDirect, cardOFI}, o.Card):
		return fmt.Errorf("--card %q: use daemon, direct or ofi", o.Card)
	case os.Geteuid() != 0:
		return errors.New("network namespaces, AF_XDP and processes of several users need root; run it with sudo")
	}
	for _, name := range o.Only {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("--attacks %q: use some of %s", name, strings.Join(names(), ", "))
		}
	}
	all := append(attack.Attacks(), attack.Rows()...)
	if o.direct() {
		o.MTU, all = lab.DefaultMTU, slices.Concat(all, attack.Direct(), attack.Ranks(), attack.UDP())
	}
	if o.Hub != "" {
		o.MTU, all = lab.DefaultMTU, attack.Hub()
		if o.direct() {
			all = append(all, attack.Bundles()...)
		}
	}
	if o.Etcd {
		all = attack.Etcd()
	}
	if err := o.findRanks(); err != nil {
		return err
	}
	if o.noRanks != "" && o.Card == cardOFI {
		return fmt.Errorf("--card ofi: %s", o.noRanks)
	}
	for _, a := range all {
		if len(o.Only) == 0 || slices.Contains(o.Only, a.Name) {
			o.attacks = append(o.attacks, a)
		}
	}
	for _, a := range controlled() {
		if o.Hub == "" && !o.Etcd && (len(o.Only) == 0 || slices.Contains(o.Only, a.Name)) {
			o.control = append(o.control, a)
		}
	}
	if o.Funid != "" {
		var err error
		if o.Funid, err = filepath.Abs(o.Funid); err != nil {
			return fmt.Errorf("--funid: %w", err)
		}
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("asking how many files may be open: %w", err)
	}
	files.Cur = files.Max // a launcher has two connections for each group
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
}

// findRanks looks for the files for attacks by ranks, and notes what is missing. make share builds
// them if it can.
func (o *options) findRanks() error {
	if o.Ranks == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("looking for this program's folder: %w", err)
		}
		o.Ranks = filepath.Dir(self)
	}
	for _, name := range rankFiles {
		if _, err := os.Stat(filepath.Join(o.Ranks, name)); err != nil {
			o.noRanks = fmt.Sprintf("%v; install gcc and libfabric-dev 1.17 or later, and run make share", err)
		}
	}
	return nil
}

// play runs a role until it ends.
func play(role, config string) error {
	switch role {
	case roleVictim:
		var c victimConfig
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			return fmt.Errorf("reading the configuration: %w", err)
		}
		if c.Ranks != "" {
			return attack.Rank(c.Ranks, "share", c.Socket, attack.Group{GID: c.GID, Token: c.Token}, c.Node)
		}
		return newVictim(c).live()
	case roleAsker:
		var c victimConfig
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			return fmt.Errorf("reading the configuration: %w", err)
		}
		return ask(c)
	case roleAttack:
		var c attack.Config
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			return fmt.Errorf("reading the configuration: %w", err)
		}
		return attack.Play(c, os.Stdout)
	case roleBurner:
		burn()
	}
	return fmt.Errorf("no such role: %.20q", role)
}
