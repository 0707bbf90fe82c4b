// What is compared and how long: the options, their defaults and limits.

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
	"github.com/funet/funet/xdp"
)

// Limits are those of a number in the options of a comparison, both included. Zero stands for
// the usual one.
type Limits struct{ Least, Most, Usual int }

var (
	// Rounds are those of the rounds of every comparison; fewer than 5 say little.
	Rounds = Limits{1, 1000, 5}
	// Exchanges are those of Options.Exchanges.
	Exchanges = Limits{1, 10_000_000, 30_000}
)

const (
	DefaultFrameSize = 104 // bytes
	MinFrameSize     = 60  // bytes, the shortest Ethernet frame (IEEE Std 802.3, without the FCS)

	// PayloadBytes is the message of every peer but funet and raw_afxdp.
	PayloadBytes = 64
	// Warmup is the number of exchanges before the first that counts.
	Warmup = 2000
)

// Errors for errors.Is.
var (
	// Rounds, Exchanges, FrameSize, Only or RoleCommand
	ErrOptions = errors.New("option out of range")
	ErrFunet   = errors.New("funet failed")      // Options.Funet returned an error
	ErrRole    = errors.New("no such role")      // RunRole: unknown role or bad configuration
	ErrNoMode  = errors.New("no XDP mode works") // CalibrateMode: every mode failed
)

// number is one of somebody's options.
type number struct {
	value *int
	Limits
	text string // how an error says it, such as "%d rounds"
}

// complete puts the usual numbers in the place of zeros, and refuses those beyond their limits.
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

// Options say what Peers and CalibrateMode do. Zero values stand for the defaults.
type Options struct {
	Rounds    int // see Rounds
	Exchanges int // measured in each run, see Exchanges; sockperf runs one second whatever is set
	FrameSize int // bytes of raw_afxdp's frames, 60..3840 and at most the MTU + 14; default 104

	// Attach and Bind are raw_afxdp's modes: give those that FUNet has.
	Attach xdp.AttachMode
	Bind   xdp.BindMode

	// Jumbo says that FUNet takes frames of several buffers. Without it native mode is no
	// choice for CalibrateMode where the MTU lets frames be longer than a buffer.
	Jumbo bool

	// Funet measures FUNet between the lab's hosts with embedded cards, UDP the same in UDP
	// datagrams, and Daemons the same through daemons. Direct measures it between processes of an
	// ordinary user with direct ports of daemons. On host 0, Shared measures it between two such
	// processes, and Local between two contexts of one process, through its daemon. A measurement
	// that is nil is left out; without Funet the report has no ratios.
	Funet, UDP, Daemons, Direct, Shared, Local Runner

	// RoleCommand are the arguments with which this program's binary calls RunRole; two more
	// are appended, the role and its configuration.
	RoleCommand []string

	Progress io.Writer // where to say how it goes on, once it has taken two seconds; nil: nowhere
	Only     []string  // the keys of the peers to run, to which Funet adds funet; empty for all

	deadline time.Duration // of one run of one peer; 0: derived from Exchanges
}

// Runner measures something of the caller's once on a lab, within ctx.
type Runner func(ctx context.Context, l *lab.Lab, round int) (Sample, error)

// Sample has the measurements of one run of one peer, in microseconds.
type Sample struct {
	P50 float64 `json:"rtt_p50_us"`           // median round trip; of some tools the mean
	P99 float64 `json:"rtt_p99_us,omitempty"` // 0 when the tool does not tell
}

// withDefaults checks the options against the lab.
func (o Options) withDefaults(l *lab.Lab) (Options, error) {
	frames := Limits{MinFrameSize, min(l.Options().MTU+etherHeader, umemFrame-umemHeadroom), DefaultFrameSize}
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

// CheckOnly refuses keys that are no peer's, before a lab is made. Errors: ErrOptions.
func (o Options) CheckOnly() error {
	for _, key := range o.Only {
		if !slices.Contains(Keys(), key) {
			return fmt.Errorf("%w: no peer %q; use %s", ErrOptions, key, strings.Join(Keys(), ", "))
		}
	}
	return nil
}

// chosen are the peers that the options ask for, in the order of the table.
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

// tool is a program that a peer needs and the Debian package that brings it.
type tool struct{ name, pkg string }

// missing are those of the tools that are not in PATH, and their packages.
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

// absent says what of the tools is missing and how to get it; nothing when all are there.
func absent(tools []tool) string {
	names, pkgs := missing(tools)
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("not found: %s; install %s", strings.Join(names, ", "), strings.Join(pkgs, " "))
}
