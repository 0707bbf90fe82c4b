package main

// This file runs the work of a pair of guests: the programs, the daemons, and the kernel's own
// traffic beside them.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/funet/funet/tests/qemu/guest"
)

// program is a program of funet, with a check of its result.
type program struct {
	Name string
	// args returns the program's own arguments, with its amount of work, which is a size times
	// --scale.
	args func(scale float64) []string
	// figures takes the figures from the JSON documents of nodes 0 and 1.
	figures func(r *row, documents [2]result, scale float64) error
}

// scaled returns the size times the scale as a multiple of the unit, at least one unit.
func scaled(size int, scale float64, unit int) int {
	return max(int(float64(size)*scale)/unit, 1) * unit
}

// result has the fields of the programs' JSON documents that are used here.
type result struct {
	XDPMode    string  `json:"xdp_mode"`
	BindMode   string  `json:"bind_mode"`
	P50        float64 `json:"rtt_p50_us"`
	P99        float64 `json:"rtt_p99_us"`
	Exchanges  int64   `json:"exchanges"`
	Messages   int     `json:"messages"`
	Rate       float64 `json:"msgs_per_s"`
	Delivered  int     `json:"delivered"`
	Lost       int     `json:"lost"`
	Duplicated int     `json:"duplicated"`
	Damaged    int     `json:"damaged"`
	Seconds    float64 `json:"seconds"`
	Bytes      int64   `json:"bytes"`
	Goodput    float64 `json:"goodput_gbit_per_s"`
	Verified   bool    `json:"verified"`
	MFLOPS     float64 `json:"mflop_per_s"`
}

// These are the sizes. A program takes a translated guest a second or two each.
const (
	exchanges      = 5000
	streamMessages = 500_000
	floodMessages  = 50_000
	transferBytes  = 32 << 20
	transferBlock  = 256 << 10
)

// programs are the programs of funet that run.
var programs = []program{
	{"pingpong", pingpongArguments, roundTrips},
	{"stream", func(scale float64) []string {
		return []string{"--messages", fmt.Sprint(scaled(streamMessages, scale, 1))}
	}, func(r *row, d [2]result, _ float64) error {
		r.Rate = d[0].Rate
		return notZero("messages", d[0].Messages)
	}},
	{"flood", func(scale float64) []string {
		return []string{"--messages", fmt.Sprint(scaled(floodMessages, scale, 1)), "--stalls", "4", "--stall", "50ms"}
	}, func(r *row, d [2]result, scale float64) error {
		n := scaled(floodMessages, scale, 1)
		r.Rate = float64(n) / max(d[0].Seconds, d[1].Seconds, 1e-9)
		for node, one := range d {
			if one.Delivered != n || one.Lost+one.Duplicated+one.Damaged != 0 {
				return fmt.Errorf("node %d: %d of %d messages delivered, %d lost, %d twice, %d damaged", node,
					one.Delivered, n, one.Lost, one.Duplicated, one.Damaged)
			}
		}
		return nil
	}},
	{"transfer", func(scale float64) []string {
		return []string{"--bytes", fmt.Sprint(scaled(transferBytes, scale, transferBlock)), "--block",
			fmt.Sprint(transferBlock), "--depth", "4"}
	}, func(r *row, d [2]result, _ float64) error {
		one := d[0]
		if d[1].Bytes > 0 {
			one = d[1] // whoever has the figures
		}
		r.Bytes = one.Goodput * 1000 / 8
		return notZero("bytes", int(one.Bytes))
	}},
	{"matmul", func(float64) []string { return []string{"--size", "192"} }, func(r *row, d [2]result, _ float64) error {
		r.MFLOPS = d[0].MFLOPS
		if !d[0].Verified {
			return errors.New("the product is wrong")
		}
		return nil
	}},
}

func pingpongArguments(scale float64) []string {
	n := scaled(exchanges, scale, 1)
	return []string{"--exchanges", fmt.Sprint(n), "--warm-up", fmt.Sprint(n / 10)}
}

// viaDaemons names the sixth program: ping-pong of processes that attach to a funid on each host.
const viaDaemons = "daemons"

// viaPorts names the seventh program: ping-pong of processes with direct ports.
const viaPorts = "direct"

// programNames returns the names of all programs and faults.
func programNames() (names []string) {
	for _, p := range programs {
		names = append(names, p.Name)
	}
	return append(append(names, viaDaemons, viaPorts), faultNames()...)
}

func roundTrips(r *row, d [2]result, _ float64) error {
	r.P50, r.P99 = d[0].P50, d[0].P99
	return notZero("exchanges", int(d[0].Exchanges))
}

func notZero(what string, n int) error {
	if n == 0 {
		return fmt.Errorf("its document has no %s", what)
	}
	return nil
}

const (
	// peerWait is how long a node waits for the other. Some drivers reset their link when a program
	// is attached, which takes seconds.
	peerWait = 20 * time.Second
	// programDeadline bounds the run of a program.
	programDeadline = 2 * time.Minute
)

// embedded runs a program with a card of its own on each host.
func (p pair) embedded(ctx context.Context, n nic, prog program, scale float64) (r row, err error) {
	r.Program = prog.Name
	var both [2]*running
	for host, m := range p {
		args := append([]string{"funet", prog.Name, "--card", "embedded", "--iface", m.hello.Interface, "--node",
			fmt.Sprint(host), "--peers", peersPath,
			"--xdp", n.xdp, "--bind", n.bind, "--wait", m.within(peerWait).String(), "--json"}, prog.args(scale)...)
		if both[host], err = m.begin(programDeadline, args...); err != nil {
			return r, err
		}
	}
	var documents [2]result
	var failed []error
	for host, one := range both {
		e, err := one.wait(ctx)
		if err != nil {
			return r, err
		}
		if err := failure(host, e); err != nil {
			failed = append(failed, err)
		} else if err := json.Unmarshal([]byte(e.Stdout), &documents[host]); err != nil {
			failed = append(failed, fmt.Errorf("host %d: its document: %w", host, err))
		}
	}
	for _, d := range documents {
		r.mode(d)
	}
	if failed == nil {
		if err := prog.figures(&r, documents, scale); err != nil {
			failed = append(failed, err)
		}
	}
	r.judge(failed...)
	return r, nil
}

// daemons holds the funid of each host.
type daemons [2]*running

const (
	// daemonsDeadline bounds the run of daemons, and of all that runs beside them.
	daemonsDeadline = time.Hour
	// readyDeadline bounds a daemon's start, and its end.
	readyDeadline = time.Minute
)

// startDaemons starts a funid on each host and waits until both answer.
func (p pair) startDaemons(ctx context.Context) (daemons, error) { return p.startWith(ctx, funidPath) }

// startWith does what startDaemons does, with the configuration at path on each host.
func (p pair) startWith(ctx context.Context, path func(host int) string) (d daemons, err error) {
	for host, m := range p {
		if d[host], err = m.begin(daemonsDeadline, "funid", "--config", path(host)); err != nil {
			return d, err
		}
	}
	for host, m := range p {
		if err := d.ready(ctx, host, m); err != nil {
			return d, err
		}
	}
	return d, nil
}

// errDaemon reports a daemon that did not do what it should.
var errDaemon = errors.New("funid")

// ready waits until a daemon answers.
func (d daemons) ready(ctx context.Context, host int, m *machine) error {
	deadline := time.Now().Add(m.within(readyDeadline))
	for {
		e, err := m.run(ctx, readyDeadline, "funet", "status", "--json")
		if err != nil {
			return err
		}
		why := failure(host, e)
		if why == nil {
			return nil
		}
		select {
		case e := <-d[host].ended:
			d[host].ended <- e // for stop
			return fmt.Errorf("%w on host %d ended at its start: %w", errDaemon, host, orNil(failure(host, e)))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w on host %d did not answer within %v: %w", errDaemon, host, readyDeadline, why)
		}
	}
}

func orNil(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

// stop ends the daemons and returns what they wrote to standard error.
func (d daemons) stop(ctx context.Context) (log string, err error) {
	for _, r := range d {
		if r != nil {
			if err := r.signal(syscall.SIGTERM); err != nil {
				return log, err
			}
		}
	}
	for host, r := range d {
		if r == nil {
			continue
		}
		r.timeout = r.m.within(readyDeadline)
		e, err := r.wait(ctx)
		if err != nil {
			return log, err
		}
		log += e.Stderr
		if err := failure(host, e); err != nil {
			return log, fmt.Errorf("%w: stopping: %w", errDaemon, err)
		}
	}
	return log, nil
}

// daemonShare is how many times fewer exchanges go through daemons. A guest has one processor,
// which daemon and process hand to each other for each exchange.
const daemonShare = 10

// attached runs ping-pong through daemons, between a process on each host. `funet run` starts them.
func (p pair) attached(ctx context.Context, scale float64) (row, error) {
	return p.job(ctx, viaDaemons, scale, pingpongJob(pingpongArguments(scale/daemonShare)...))
}

// onPorts runs ping-pong on direct ports, of daemons that it starts and stops for this.
func (p pair) onPorts(ctx context.Context, scale float64) (r row, err error) {
	d, err := p.startWith(ctx, funidDirectPath)
	for host := range p { // drivers reset their links when the NIC programs come
		if err == nil {
			err = p.shell(ctx, host, nil)
		}
	}
	if err == nil {
		args := pingpongJob(pingpongArguments(scale / daemonShare)...)
		r, err = p.job(ctx, viaPorts, scale, append([]string{"funet", "run", "--card", "direct"}, args[2:]...))
	}
	_, stopped := d.stop(ctx)
	if err = errors.Join(err, stopped); errors.Is(err, errDaemon) { // a result
		r.Program = viaPorts
		r.judge(err)
		err = nil
	}
	return r, err
}

// job runs `funet run` with ping-pong and takes its figures.
func (p pair) job(ctx context.Context, name string, scale float64, args []string) (r row, err error) {
	r.Program = name
	e, err := p[0].run(ctx, programDeadline, args...)
	if err != nil {
		return r, err
	}
	if err := failure(0, e); err != nil {
		r.judge(err)
		return r, nil
	}
	var d [2]result
	// Two documents, one after the other; that of node 0 has figures.
	for in := json.NewDecoder(strings.NewReader(e.Stdout)); in.More(); {
		var one result
		if err := in.Decode(&one); err != nil {
			r.judge(fmt.Errorf("its document: %w", err))
			return r, nil
		}
		if one.Exchanges > 0 {
			d[0] = one
		}
		r.mode(one)
	}
	r.judge(roundTrips(&r, d, scale))
	return r, nil
}

// pingpongJob returns the command line of `funet run` with ping-pong on both hosts.
func pingpongJob(args ...string) []string {
	return append([]string{"funet", "run", "-n", "2", "--label=false", "--hosts",
		guest.Address(0).String() + "," + guest.Address(1).String(), "--", "funet", "pingpong", "--json"}, args...)
}

// measure runs a measurement of the kernel's own traffic on host 0.
func measure[R any](ctx context.Context, p pair, timeout time.Duration, args ...string) (*R, error) {
	e, err := p[0].run(ctx, timeout, append([]string{guest.Program}, args...)...)
	if err != nil {
		return nil, err
	}
	return measured[R](e)
}

// measured returns the result of a measurement. A failed measurement is nil, and no error of the
// rig.
func measured[R any](e guest.Ended) (*R, error) {
	r := new(R)
	if failure(0, e) != nil && e.Stdout == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(e.Stdout), r); err != nil {
		return nil, fmt.Errorf("%w 0: its measurement: %w", errGuest, err)
	}
	return r, nil
}
