// This file defines the options of Peers, with their defaults and limits.

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/xdp"
)

// Limits are the least, most and usual value of a number in the options of a comparison. Least and
// Most are allowed themselves. Zero in the options stands for the usual value.
type Limits struct{ Least, Most, Usual int }

var (
	// Rounds are the limits of the rounds of every comparison; fewer than 5 say little.
	Rounds = Limits{1, 1000, 5}
	// Exchanges are the limits of Options.Exchanges.
	Exchanges = Limits{1, 10_000_000, 30_000}
)

const (
	// PayloadBytes is the length of a message of every peer but funet and raw_afxdp.
	PayloadBytes = 64
	// Warmup is the number of exchanges before the first that counts.
	Warmup = 2000
)

// The errors of this package, for errors.Is.
var (
	// an option such as Rounds, Exchanges, FrameSize, Only or RoleCommand
	ErrOptions = errors.New("option out of range")
	ErrFunet   = errors.New("funet failed") // Options.Funet returned an error
	ErrRole    = errors.New("no such role") // RunRole: unknown role or bad configuration
)

// number is a number in some options.
type number struct {
	value *int
	Limits
	text string // form in an error, such as "%d rounds"
}

// complete replaces zeros by the usual numbers, and refuses numbers beyond their limits.
func complete(numbers ...number) error {
	for _, n := range numbers {
		if *n.value == 0 {
			*n.value = n.Usual
		}
		if *n.value < n.Least || *n.value > n.Most {
			return fmt.Errorf("%w: "+n.text+"; use %d to %d", ErrOptions, *n.value, n.Least, n.Most)
		}
	}
	return nil
}

// Options say what Peers measures. Zero values stand for the defaults.
type Options struct {
	Rounds    int // see Rounds
	Exchanges int // measured in each run, see Exchanges; sockperf always runs one second
	FrameSize int // bytes of raw_afxdp's frames, 60..3840 and at most the MTU + 14; default 104

	// Attach and Bind are raw_afxdp's modes: give those of FUNet.
	Attach xdp.AttachMode
	Bind   xdp.BindMode

	// Funet measures FUNet between the lab's hosts with embedded cards, UDP the same in UDP
	// datagrams, and Daemons the same through daemons. Direct measures it between processes of an
	// ordinary user with direct ports of daemons. On host 0, Shared measures it between two such
	// processes, and Local between two contexts of one process, through its daemon. A nil
	// measurement is left out; without Funet the report has no ratios.
	Funet, UDP, Daemons, Direct, Shared, Local Runner

	// RoleCommand are the arguments with which this program's binary calls RunRole; two more
	// are appended, the role and its configuration.
	RoleCommand []string

	Progress io.Writer // progress, once a step has taken two seconds; nil: none
	Only     []string  // the keys of the peers to run, to which Funet adds funet; empty: all

	deadline time.Duration // of one run of one peer; 0: derived from Exchanges
}

// Runner makes one of the caller's measurements once on a lab, within ctx.
type Runner func(ctx context.Context, l *lab.Lab, round int) (Sample, error)

// Sample has the measurements of one run of one peer, in microseconds.
type Sample struct {
	P50 float64 `json:"rtt_p50_us"`           // median round trip; the mean for some tools
	P99 float64 `json:"rtt_p99_us,omitempty"` // 0 when the tool does not report it
}

// withDefaults checks the options against the lab.
func (o Options) withDefaults(l *lab.Lab) (Options, error) {
	frames := Limits{rawxdp.MinFrameSize, min(l.Options().MTU+rawxdp.EtherHeader, rawxdp.UMEMFrame-rawxdp.Headroom),
		rawxdp.DefaultFrameSize}
	err := complete(number{&o.Rounds, Rounds, "%d rounds"}, number{&o.Exchanges, Exchanges, "%d exchanges"},
		number{&o.FrameSize, frames, "frames of %d bytes"})
	if err == nil && len(o.RoleCommand) == 0 {
		err = fmt.Errorf("%w: no RoleCommand; give the arguments that make this program call RunRole", ErrOptions)
	}
	if err == nil {
		err = o.CheckOnly()
	}
	if err != nil {
		return o, fmt.Errorf("%s: %w", comparePeers, err)
	}
	if o.deadline == 0 {
		// Five milliseconds an exchange are far more than the slowest peer's round trip, because
		// a busy machine can be that slow.
		o.deadline = time.Minute + time.Duration(o.Exchanges)*5*time.Millisecond
	}
	return o, nil
}

// CheckOnly refuses keys that name no peer, before a lab is made. Errors: ErrOptions.
func (o Options) CheckOnly() error {
	for _, key := range o.Only {
		if !slices.Contains(Keys(), key) {
			return fmt.Errorf("%w: no peer %q; use %s", ErrOptions, key, strings.Join(Keys(), ", "))
		}
	}
	return nil
}

// chosen returns the peers that the options ask for, in the order of the table.
func (o Options) chosen() (chosen []*peer) {
	for i := range peers {
		// Without funet there would be no ratios.
		given := peers[i].key == funetKey && o.Funet != nil
		if len(o.Only) == 0 || given || slices.Contains(o.Only, peers[i].key) {
			chosen = append(chosen, &peers[i])
		}
	}
	return chosen
}

// tool is a program that a peer needs, and the Debian package that contains it.
type tool struct{ name, pkg string }

// missing returns the tools that are not in PATH, and their packages.
func missing(tools []tool) (names, pkgs []string) {
	for _, t := range tools {
		if _, err := exec.LookPath(t.name); err != nil {
			names = append(names, t.name)
			if !slices.Contains(pkgs, t.pkg) {
				pkgs = append(pkgs, t.pkg)
			}
		}
	}
	return names, pkgs
}

// absent says which tools are missing and how to get them; "" when all are there.
func absent(tools []tool) string {
	names, pkgs := missing(tools)
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("not found: %s; install %s", strings.Join(names, ", "), strings.Join(pkgs, " "))
}
