// Command qemu tries FUNet on drivers of real NICs. Two guests run under QEMU, and only that NIC
// joins them. They run each of FUNet's programs between them, beside the kernel's own traffic. The
// command installs nothing and needs no privilege. `make qemu` runs it.
//
// The journey of a run: the cache is filled with QEMU and kernels, out of the distribution's
// packages (store.go, apt.go, packages.go, unpack.go, modules.go). For each kernel and each NIC
// (nics.go) two guests boot from one archive (initramfs.go, package cpio). The archive has the
// drivers, the programs and, as a guest's first process, this program (package guest). The guests
// get their orders over a serial port (machine.go, on a network of network.go), and carry them out
// (scenario.go, shells.go, beside.go, faults.go). The report (report.go) has a row for each NIC and
// kernel.
//
// At most two guests run at a time. All processes that the rig starts end with it, however it ends
// (keeper.go).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/tests/entry"
	"github.com/funet/funet/tests/qemu/guest"
)

func main() {
	guest.Main()
	makeNetwork()
	entry.Main(command())
}

// options are the command line.
type options struct {
	Cache    string
	Kernels  []string
	NICs     []string
	Programs []string
	Short    bool
	CI       bool
	Limit    time.Duration
	From     []string
	Markdown bool
	Scale    float64
	Update   bool
	JSON     bool
	Funet    string
	Funid    string
	Guest    string
	nics     []nic
}

// errFailed reports that the rig worked, and that something it tried failed.
var errFailed = errors.New("not everything passed")

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "qemu",
		Short:         "Try FUNet on drivers of real NICs, in two guests under QEMU",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(o.From) > 0 {
				r, err := readReports(o.From)
				if err != nil {
					return err
				}
				return o.print(r)
			}
			err := o.check()
			var r *report
			if err == nil {
				r, err = o.run(c.Context())
			}
			if o.CI && r == nil && c.Context().Err() == nil && isNotHere(err) {
				fmt.Printf("make qemu was not run: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
				return nil
			}
			if r == nil {
				return err
			}
			r.finish()
			err = errors.Join(o.print(r), err)
			if err == nil && !r.Passed {
				err = errFailed
			}
			return err
		},
	}
	c.CompletionOptions.DisableDefaultCmd = true
	p := c.Flags()
	p.StringVar(&o.Cache, "cache", "",
		"folder for QEMU and kernels, some 500 MB (default: $QEMUCACHE, or funet-qemu in the user's cache folder)")
	p.StringSliceVar(&o.Kernels, "kernels", []string{newest, "6.12", "6.1"},
		"of the guests: newest, or beginnings of versions")
	p.StringSliceVar(&o.NICs, "nics", nil, "only these: "+strings.Join(nicNames(), ", "))
	p.StringSliceVar(&o.Programs, "programs", nil, "only these: "+strings.Join(programNames(), ", "))
	p.BoolVar(&o.Short, "short", false, "the newest kernel, and virtio with zero-copy and igb")
	p.BoolVar(&o.CI, "ci", false,
		"the short form for continuous integration: where QEMU and kernels are not there and cannot be fetched in time, or guests boot too slowly to be judged, it says so and succeeds; how fast TCP is counts for nothing, and what fails is tried twice")
	p.DurationVar(&o.Limit, "fetch-limit", 5*time.Minute, "how long fetching may take with --ci")
	p.StringSliceVar(&o.From, "from", nil, "run nothing: print what these runs found, files that --json wrote")
	p.BoolVar(&o.Markdown, "markdown", false, "print the table for a page, with what the columns mean")
	p.Float64Var(&o.Scale, "scale", 1, "how much the programs do: 1 is some seconds each, on idle processors")
	p.BoolVar(&o.Update, "update", false, "ask for newer kernels now, not when it was a week ago")
	p.StringVar(&o.Funet, "funet", "", "the command's program, static (default: guest/funet beside this one)")
	p.StringVar(&o.Funid, "funid", "", "the daemon's program, static (default: guest/funid beside this one)")
	p.StringVar(&o.Guest, "guest", "", "what guests run as their first process, static (default: this program)")
	p.BoolVar(&o.JSON, "json", false, "print one JSON document")
	return c
}

// print prints a report in the form that the options ask for.
func (o *options) print(r *report) error {
	switch {
	case o.JSON:
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	case o.Markdown:
		return r.writeMarkdown(os.Stdout)
	}
	return r.writeTable(os.Stdout)
}

// These are the limits of the options.
const (
	leastScale = 0.001
	mostScale  = 1000
)

// check refuses options and machines that cannot work, before anything is fetched.
func (o *options) check() (err error) {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w: the guests are amd64 machines, and run programs of this one, which is %s",
			errMachine, runtime.GOARCH)
	}
	for _, name := range o.Programs {
		if !slices.Contains(programNames(), name) {
			return fmt.Errorf("--programs %q: use some of %s", name, strings.Join(programNames(), ", "))
		}
	}
	for _, name := range o.Kernels {
		if name != newest && len(numbers(name)) == 0 {
			return fmt.Errorf("--kernels %q: use newest, or a version such as 6.12", name)
		}
	}
	if !(o.Scale >= leastScale && o.Scale <= mostScale) {
		return fmt.Errorf("--scale %g: use %g to %d", o.Scale, leastScale, mostScale)
	}
	if o.CI && o.Scale == 1 {
		o.Scale = ciScale
	}
	if o.Short = o.Short || o.CI; o.Short {
		o.Kernels = []string{newest}
	}
	if o.nics, err = chooseNICs(o.NICs, o.Short); err != nil {
		return err
	}
	if o.Cache == "" {
		o.Cache = os.Getenv("QEMUCACHE")
	}
	if o.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("%w: finding a folder for the cache: %w; say where with --cache or QEMUCACHE",
				errSpace, err)
		}
		o.Cache = filepath.Join(dir, "funet-qemu")
	}
	if o.Cache, err = filepath.Abs(o.Cache); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, p := range []struct {
		path *string
		name string
	}{{&o.Funet, "funet"}, {&o.Funid, "funid"}, {&o.Guest, ""}} {
		if *p.path == "" && p.name == "" {
			*p.path = self
		}
		if *p.path == "" {
			*p.path = filepath.Join(filepath.Dir(self), "guest", p.name)
		}
		if err := checkStatic(*p.path); err != nil {
			return err
		}
	}
	return checkMemory()
}

// checkMemory returns an error if the machine has not enough memory for the guests.
func checkMemory() error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	var free int64
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &free); err == nil {
			break
		}
	}
	// Each has its archive in memory besides, and QEMU.
	if need := int64(2*guestMemory + 512); free>>10 < need {
		return fmt.Errorf("%w: %d MiB of memory are available, two guests take %d", errSpace, free>>10, need)
	}
	return nil
}

// run does everything. When it cannot go on, it returns what it has found.
func (o *options) run(ctx context.Context) (r *report, err error) {
	begin := time.Now()
	log := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "qemu: %4.0f s: %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	k := newKeeper()
	s, err := openStore(o.Cache, k, log)
	if err != nil {
		return nil, err
	}
	defer s.close()
	e := &emulation{keeper: k, patience: 1}
	if o.CI {
		e.patience = ciPatience
	}
	var tools string
	var all []fetched
	if e.dir, tools, all, err = o.fetch(ctx, s); err != nil {
		return nil, err
	}
	images := func(folder string, n nic) *image {
		return &image{guest: o.Guest, funet: o.Funet, funid: o.Funid, tools: tools, kernel: folder, peers: peersFile(),
			funidYAML: funidFiles(n)}
	}
	if err := e.tryKVM(ctx, images(all[0].folder, nics[0])); err != nil {
		return nil, err
	}
	r = &report{QEMU: s.chosen.QEMU, Accelerator: e.processors.Name, Why: e.processors.Why}
	if r.Why != "" {
		log("without kvm, so guests are translated and slow: %s", r.Why)
	}
	for _, one := range all {
		for _, n := range o.nics {
			log("%s on %s", n.Name, one.release)
			c := o.try(ctx, e, images(one.folder, n), n, one.release, log)
			if o.CI && ctx.Err() == nil && !c.passed() {
				first := c.failures()
				log("%s on %s is tried once more, because of: %s", n.Name, one.release, strings.Join(first, "; "))
				c = o.try(ctx, e, images(one.folder, n), n, one.release, log)
				c.First = first
			}
			if ctx.Err() != nil {
				return r, context.Cause(ctx)
			}
			r.Runs = append(r.Runs, c)
		}
	}
	return r, nil
}

// These constants belong to --ci, on machines that may be busy with other work.
const (
	// ciPatience is how many times longer programs may take.
	ciPatience = 5
	// ciScale is the programs' amount of work, as of --scale.
	ciScale = 0.2
	// ciBoot is the longest time to boot on a machine on which anything can be judged. An idle
	// machine takes seven seconds without kvm.
	ciBoot = 45 * time.Second
)

// errMachine reports that the rig cannot run on this machine.
var errMachine = errors.New("this machine")

// isNotHere reports whether an error says that this machine does not have what the rig needs.
func isNotHere(err error) bool {
	return slices.ContainsFunc([]error{errMachine, errPackages, errSpace, errBusy}, func(e error) bool {
		return errors.Is(err, e)
	})
}

// fetched is a kernel in the cache.
type fetched struct{ release, folder string }

// fetch fills the cache. With --ci this takes a bounded time.
func (o *options) fetch(ctx context.Context, s *store) (qemu, tools string, all []fetched, err error) {
	if whole := ctx; o.CI {
		why := fmt.Errorf("%w were not fetched within %v; run `make qemu` once to fetch them", errPackages, o.Limit)
		limited, cancel := context.WithTimeoutCause(ctx, o.Limit, why)
		defer cancel()
		defer func() {
			if err != nil && limited.Err() != nil && whole.Err() == nil {
				err = why
			}
		}()
		ctx = limited
	}
	if err := s.ask(ctx, o.Update); err != nil {
		return "", "", nil, err
	}
	if qemu, err = s.qemu(ctx); err != nil {
		return "", "", nil, err
	}
	if tools, err = s.tools(ctx); err != nil {
		return "", "", nil, err
	}
	for _, name := range o.Kernels {
		one, err := choose(s.chosen.Kernels, name)
		if err != nil {
			return "", "", nil, err
		}
		folder, err := s.kernel(ctx, one, tools)
		if err != nil {
			return "", "", nil, err
		}
		if k := (fetched{one.Release, folder}); !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return qemu, tools, all, nil
}

// try runs everything on one pair of guests, and returns the outcome.
func (o *options) try(ctx context.Context, e *emulation, i *image, n nic, release string,
	log func(string, ...any)) *configuration {
	begin := time.Now()
	c := &configuration{NIC: n.Name, Kernel: release, XDP: n.xdp, Bind: n.bind, tcpUnjudged: o.CI}
	defer func() { c.Seconds = time.Since(begin).Seconds() }()
	p, err := e.boot(ctx, i, n)
	if o.CI && errors.Is(err, errNoWord) {
		c.NotRun = "guests do not boot here: " + err.Error()
		return c
	}
	if errors.Is(err, errNetwork) {
		c.NotRun = err.Error()
		log("not run: %s", c.NotRun)
		return c
	}
	if err != nil {
		c.Error = err.Error()
		return c
	}
	defer p.kill()
	if took := time.Since(begin); o.CI && took > ciBoot {
		c.NotRun =
			fmt.Sprintf("guests took %.0f s to boot, so this machine is too busy to judge them: %.0f s is the most",
				took.Seconds(), ciBoot.Seconds())
		log("not run: %s", c.NotRun)
		return c
	}
	c.Driver = p[0].hello.Driver
	log("%s is up: %s, driver %s", p[0].hello.Kernel, p[0].hello.Interface, c.Driver)
	if err = p.both(ctx, "load"); err == nil {
		err = o.all(ctx, p, n, c, log)
	}
	if err != nil {
		c.Error = err.Error()
	}
	if c.find(guestKilled) == nil {
		if c.Kmsg, c.LinkUps, err = p.complaints(ctx); err != nil && c.Error == "" {
			c.Error = err.Error()
		}
	}
	return c
}

// all runs everything on a pair that has booted.
func (o *options) all(ctx context.Context, p pair, n nic, c *configuration, log func(string, ...any)) error {
	enter := func(r row) {
		c.Rows = append(c.Rows, r)
		log("%s: %s %s", r.Program, r.figure(), r.Error)
	}
	wanted := func(name string) bool { return len(o.Programs) == 0 || slices.Contains(o.Programs, name) }
	for _, prog := range programs {
		if !wanted(prog.Name) {
			continue
		}
		r, err := p.embedded(ctx, n, prog, o.Scale)
		if err != nil {
			return err
		}
		enter(r)
		if o.CI && !r.Passed {
			return nil // it may have taken long, and so may the others
		}
	}
	if !wanted(viaDaemons) && !wanted(viaPorts) && !o.faults(wanted) {
		return nil
	}
	if err := p.startShells(ctx); err != nil {
		return err
	}
	if wanted(viaDaemons) {
		b, r, err := p.besideDaemons(ctx, c.xdpMode(), o.Scale)
		c.Beside = b
		if r != nil {
			enter(*r)
		}
		if err != nil || b.Error != "" {
			return err
		}
	}
	if wanted(viaPorts) {
		r, err := p.onPorts(ctx, o.Scale)
		if err != nil {
			return err
		}
		enter(r)
	}
	if !o.faults(wanted) {
		return nil
	}
	if err := p.besideFaults(ctx, n, o.Scale, wanted, enter); err != nil {
		return err
	}
	var err error
	if c.Kmsg, c.LinkUps, err = p.complaints(ctx); err != nil {
		return err
	}
	if !wanted(guestKilled) {
		return nil
	}
	r, err := p.killed(ctx)
	if err != nil {
		return err
	}
	enter(r)
	return nil
}

// faults reports whether any fault is to be injected.
func (o *options) faults(wanted func(string) bool) bool {
	return !o.Short && slices.ContainsFunc(faultNames(), wanted)
}

// peersFile returns the text of both hosts' peers file.
func peersFile() string {
	var b strings.Builder
	b.WriteString("gid: 1\npeers:\n")
	for host := range 2 {
		fmt.Fprintf(&b, "  - {node: %d, mac: %q}\n", host, guest.MAC(host).String())
	}
	return b.String()
}

// funidFiles returns the texts of the daemons' configurations.
func funidFiles(n nic) (files [2]string) {
	for host := range files {
		files[host] = fmt.Sprintf("card: %d\npeers: peers.yaml\ninterfaces: [eth0]\nxdp: %s\nbind: %s\n",
			host, n.xdp, n.bind)
	}
	return files
}

// directly is a line of configuration: with it a daemon gives direct ports.
const directly = "carriage: direct\n"
