package program

// This file runs a program on daemons of a lab that are started for it: on their cards, or on their
// direct ports.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/launch"
)

// OnDaemons runs a job on daemons started for it. It decodes the JSON document of each node, or
// with o.Once that of the one program.
func OnDaemons[R any](ctx context.Context, l *lab.Lab, d lab.DaemonOptions, o launch.Options) (r []R, err error) {
	o.Label = !o.Once
	var out string
	if err = WithDaemons(l, d, func(sockets []string) error {
		o.Sockets = sockets
		out, err = Printed(ctx, o)
		return err
	}); err != nil {
		return nil, err
	}
	if o.Once {
		return decode[R]([]bytes.Buffer{*bytes.NewBufferString(out)})
	}
	texts := make([]bytes.Buffer, o.Nodes)
	for line := range strings.Lines(out) {
		node := 0
		if _, err := fmt.Sscanf(line, "[%d] ", &node); err == nil && node < len(texts) {
			texts[node].WriteString(line[strings.Index(line, "] ")+2:])
		}
	}
	return decode[R](texts)
}

// WithDaemons calls f with the sockets of daemons that it starts for it, and stops them.
func WithDaemons(l *lab.Lab, d lab.DaemonOptions, f func(sockets []string) error) (err error) {
	defer func() { err = errors.Join(err, l.StopDaemons()) }()
	if err := l.StartDaemons(d); err != nil {
		return err
	}
	sockets, err := l.Sockets()
	if err != nil {
		return err
	}
	return f(sockets)
}

// Printed runs a job and returns what it prints. A job that fails is an error, with what it
// complains of.
func Printed(ctx context.Context, o launch.Options) (string, error) {
	signals := make(chan os.Signal, 1)
	defer context.AfterFunc(ctx, func() { signals <- unix.SIGTERM })()
	var out, complaint bytes.Buffer
	o.Stdout, o.Stderr, o.Signals = &out, &complaint, signals
	code, err := launch.Run(ctx, o)
	if err == nil && code != 0 {
		err = errors.New(Complaint(complaint.String(), fmt.Errorf("exit code %d", code)))
	}
	return out.String(), err
}

// DirectPorts returns the configuration of daemons on a lab that give direct ports.
func (f *Flags) DirectPorts() lab.DaemonOptions {
	return lab.DaemonOptions{XDP: f.Mode, Bind: f.Bind, More: "carriage: direct\n"}
}

// RunDirect is RunNodes on direct ports. It runs nodes processes of an ordinary user, on the first
// hosts of the lab.
func RunDirect[R any](ctx context.Context, f *Flags, l *lab.Lab, nodes, hosts int, program string,
	args []string) ([]R, error) {
	all := append([]string{program, "--json", "--slots", fmt.Sprint(f.Slots), "--wait", f.Wait.String()}, args...)
	for _, cpu := range f.processors(nodes) {
		all = append(all, "--cpus", cpu)
	}
	return runDirect[R](ctx, f, l, nodes, hosts, "funet", all)
}

// RunForeign is RunDirect of a program that is not of FUNet. The program prints a JSON document.
// Its last arguments are the processors of the nodes, counted from 0; -1: any.
func RunForeign[R any](ctx context.Context, f *Flags, l *lab.Lab, nodes, hosts int, path string,
	args []string) ([]R, error) {
	return runDirect[R](ctx, f, l, nodes, hosts, path, slices.Concat(args, f.processors(nodes)))
}

// processors are those of all nodes.
func (f *Flags) processors(nodes int) (list []string) {
	for i := range nodes {
		list = append(list, fmt.Sprint(f.processor(i, nodes)))
	}
	return list
}

func runDirect[R any](ctx context.Context, f *Flags, l *lab.Lab, nodes, hosts int, path string,
	args []string) ([]R, error) {
	user, err := launch.Ordinary()
	if err != nil {
		return nil, err
	}
	d := f.DirectPorts()
	d.Hosts = hosts
	return OnDaemons[R](ctx, l, d, launch.Options{Nodes: nodes, Cards: launch.DirectCards, User: user, Program: path,
		Args: args})
}
