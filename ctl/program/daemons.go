package program

// This file runs a program on daemons of a lab that are started for it: on their cards, or on their
// direct ports.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/launch"
)

// OnDaemons runs a job on daemons started for it. It decodes the JSON document of each node, or
// with o.Once that of the one program.
func OnDaemons[R any](ctx context.Context, l *lab.Lab, d lab.DaemonOptions, o launch.Options) (_ []R, err error) {
	if err := l.StartDaemons(d); err != nil {
		return nil, errors.Join(err, l.StopDaemons())
	}
	defer func() { err = errors.Join(err, l.StopDaemons()) }()
	if o.Sockets, err = l.Sockets(); err != nil {
		return nil, err
	}
	signals := make(chan os.Signal, 1)
	defer context.AfterFunc(ctx, func() { signals <- unix.SIGTERM })()
	var out, complaint bytes.Buffer
	o.Label = !o.Once
	o.Stdout, o.Stderr, o.Signals = &out, &complaint, signals
	code, err := launch.Run(ctx, o)
	if err == nil && code != 0 {
		err = errors.New(Complaint(complaint.String(), fmt.Errorf("exit code %d", code)))
	}
	if err != nil {
		return nil, err
	}
	if o.Once {
		return decode[R]([]bytes.Buffer{out})
	}
	texts := make([]bytes.Buffer, o.Nodes)
	for line := range strings.Lines(out.String()) {
		node := 0
		if _, err := fmt.Sscanf(line, "[%d] ", &node); err == nil && node < len(texts) {
			texts[node].WriteString(line[strings.Index(line, "] ")+2:])
		}
	}
	return decode[R](texts)
}

// DirectPorts returns the configuration of daemons on a lab that give direct ports.
func (f *Flags) DirectPorts() lab.DaemonOptions {
	return lab.DaemonOptions{XDP: f.Mode, Bind: f.Bind, More: "carriage: direct\n"}
}

// RunDirect is RunNodes on direct ports. It runs nodes processes of an ordinary user, on the first
// hosts of the lab.
func RunDirect[R any](ctx context.Context, f *Flags, l *lab.Lab, nodes, hosts int, program string,
	args []string) ([]R, error) {
	user, err := launch.Ordinary()
	if err != nil {
		return nil, err
	}
	all := append([]string{program, "--json", "--slots", fmt.Sprint(f.Slots), "--wait", f.Wait.String()}, args...)
	for i := range nodes {
		all = append(all, "--cpus", fmt.Sprint(f.processor(i, nodes)))
	}
	d := f.DirectPorts()
	d.Hosts = hosts
	return OnDaemons[R](ctx, l, d, launch.Options{Nodes: nodes, Cards: launch.DirectCards, User: user, Program: "funet",
		Args: all})
}
