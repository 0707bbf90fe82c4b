package bench

// This file is `funet bench contexts --daemon`: one process with thousands of contexts on the card
// of a daemon, in rows of 1,024 behind a connection each (package attach). Every port issues
// messages to the next one by triggers. The answers of the triggers, and what arrives, are verified
// at every port.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// rowsName is the name of the command that throughDaemon runs.
const rowsName = "bench-rows"

// rowsFound is what the process of throughDaemon has measured.
type rowsFound struct {
	Rows    int     `json:"rows"`
	Attach  float64 `json:"attach_s"`
	Rounds  float64 `json:"rounds_s"`
	End     float64 `json:"end_s"`
	Shared  float64 `json:"shared_bytes"` // of a context
	Daemon  float64 `json:"daemon_bytes"` // of a quiet context, in the daemon, besides
	Arrived int     `json:"arrived"`
}

// throughDaemon runs the process on a lab with a daemon.
func (b *contextsBench) throughDaemon(ctx context.Context) (_ output.Report, err error) {
	if b.contexts > attach.MaxNodes {
		return nil, fmt.Errorf("--contexts %d: a job has at most %d nodes", b.contexts, attach.MaxNodes)
	}
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	d := lab.DaemonOptions{XDP: "generic", Hosts: 1,
		More: fmt.Sprintf("rules: [{users: [0], contexts: %d, bytes: 2GiB}]\n", b.contexts)}
	found, err := program.OnDaemons[rowsFound](ctx, l, d, launch.Options{Nodes: b.contexts, Once: true, Program: "funet",
		Args: []string{rowsName, "--contexts", fmt.Sprint(b.contexts), "--rounds", fmt.Sprint(b.rounds)}})
	if err != nil {
		return nil, fmt.Errorf("measuring %d contexts of a daemon: %w", b.contexts, err)
	}
	f := append(found, rowsFound{})[0]
	r := report{figures: []figure{{"rounds", b.rounds}, {"contexts", b.contexts}, {"connections", f.Rows},
		{"attach_s", f.Attach}, {"end_s", f.End}, {"messages_verified", f.Arrived},
		{"messages_per_s", float64(f.Arrived) / f.Rounds}, {"shared_bytes_per_context", f.Shared},
		{"daemon_bytes_per_context", f.Daemon}, {"ports_verified", b.contexts}}}
	r.print("%s of a daemon, behind %s: attaching all took %.2f s, ending all %.2f s.\n",
		output.Count(b.contexts, "context"), output.Count(f.Rows, "connection"), f.Attach, f.End)
	r.print("Each sent %d messages to the next by triggers, %.0f a second in all. Every port was verified.\n", b.rounds,
		float64(f.Arrived)/f.Rounds)
	r.print("A quiet context shares %.0f bytes with the daemon, which has %.0f more for it.\n", f.Shared, f.Daemon)
	return r, nil
}

// rowsCommand is the hidden command that throughDaemon runs as its process.
func rowsCommand() *cobra.Command {
	var contexts, rounds int
	c := &cobra.Command{
		Use:    rowsName,
		Short:  "All contexts of a job in one process, for `funet bench contexts --daemon`",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := rowsOfJob(c.Context(), contexts, rounds)
			if err != nil {
				return err
			}
			return output.JSON(r)
		},
	}
	c.Flags().IntVar(&contexts, "contexts", 1, "nodes of the job")
	c.Flags().IntVar(&rounds, "rounds", 5, "messages of each port")
	return c
}

// rowsOfJob attaches all nodes of the job, and measures.
func rowsOfJob(ctx context.Context, contexts, rounds int) (f rowsFound, err error) {
	if err := os.Setenv(attach.NodeVariable, "0"); err != nil {
		return f, err
	}
	cfg, err := attach.Environment()
	if err != nil {
		return f, err
	}
	cfg.Context, cfg.Nodes, cfg.Slots, cfg.Triggers = ctx, contexts, portSlots, true
	pid, err := daemonOf(ctx, cfg.Socket)
	if err != nil {
		return f, err
	}
	before, err := anonymous(pid)
	if err != nil {
		return f, err
	}
	start := time.Now()
	var rows []*rowOfPorts
	for first := 0; first < cfg.Nodes; first += attach.MaxRow {
		cfg.Node = uint16(first)
		r, err := attach.OpenRow(cfg, min(attach.MaxRow, cfg.Nodes-first))
		if err != nil {
			return f, err
		}
		defer r.Close(0)
		rows = append(rows, &rowOfPorts{Row: r, first: first})
	}
	f.Rows, f.Attach = len(rows), time.Since(start).Seconds()
	f.Shared = float64(rows[0].Answer().Memory) / float64(rows[0].Count())
	after, err := anonymous(pid)
	if err != nil {
		return f, err
	}
	f.Daemon = float64(after-before) / float64(cfg.Nodes)
	start = time.Now()
	for round := range rounds {
		if err := roundOf(ctx, rows, uint32(round)); err != nil {
			return f, err
		}
		f.Arrived += cfg.Nodes
	}
	f.Rounds = time.Since(start).Seconds()
	start = time.Now()
	for _, r := range rows {
		if err := r.Close(cfg.Timeout); err != nil {
			return f, err
		}
	}
	f.End = time.Since(start).Seconds()
	return f, nil
}

// rowOfPorts is a row whose first port is that node of the job.
type rowOfPorts struct {
	*attach.Row
	first   int
	ready   []int
	arrived int // in this round
}

// roundOf has every port issue a message to the next node, and verifies answers and messages.
func roundOf(ctx context.Context, rows []*rowOfPorts, round uint32) error {
	for _, r := range rows {
		r.arrived = 0
		for i := range r.Count() {
			p := r.Interface(i)
			s := p.Reserve(funi.Request)
			if s == nil {
				return fmt.Errorf("port %d: its queue is full, although all has arrived", r.first+i)
			}
			s.SetHeader(funi.NewHeader(uint16((r.first+i+1)%r.Nodes()), 0, 1))
			s[funi.PayloadWord] = round
			p.Commit(funi.Request)
			p.Trigger(funi.TriggerIssue, 1)
		}
	}
	for _, r := range rows {
		for r.arrived < r.Count() {
			var err error
			if r.ready, err = r.Wait(ctx, r.ready[:0]); err != nil {
				return fmt.Errorf("%d of the %d ports from %d on have a message: %w", r.arrived, r.Count(), r.first, err)
			}
			for _, i := range r.ready {
				if err := r.take(i, round); err != nil {
					return err
				}
			}
		}
	}
	return everyAnswer(ctx, rows)
}

// take receives what has arrived at a port, and verifies it.
func (r *rowOfPorts) take(i int, round uint32) error {
	p, node := r.Interface(i), r.first+i
	for s := p.Receive(funi.Request); s != nil; s = p.Receive(funi.Request) {
		source, _, words := s.Message()
		if int(source) != (node+r.Nodes()-1)%r.Nodes() || len(words) != 1 || words[0] != round {
			return fmt.Errorf("port %d: message %v of node %d, want %d of the node before", node, words, source, round)
		}
		r.arrived++
		p.Release(funi.Request)
	}
	return nil
}

// everyAnswer verifies that the card has taken what every port has issued. The answers are there,
// as what was issued has arrived.
func everyAnswer(ctx context.Context, rows []*rowOfPorts) error {
	for _, r := range rows {
		for i := range r.Count() {
			n, s, ok := r.Interface(i).TriggerAnswer()
			for ; !ok && ctx.Err() == nil; n, s, ok = r.Interface(i).TriggerAnswer() {
				r.Drive()
			}
			if n != 1 || s != funi.TriggerDone {
				return fmt.Errorf("port %d: its trigger was answered: %d slots taken, %v", r.first+i, n, s)
			}
		}
	}
	return ctx.Err()
}

// daemonOf returns the process of the daemon that listens on a socket.
func daemonOf(ctx context.Context, socket string) (pid int, err error) {
	c, err := attach.Dial(ctx, socket, attach.DefaultTimeout)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return listenerOf(c)
}

func listenerOf(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil || err != nil {
		return 0, errors.Join(e, err)
	}
	return int(cred.Pid), nil
}

// anonymous returns the bytes of a process's memory that it shares with no other
// (proc_pid_status(5), RssAnon).
func anonymous(pid int) (bytes int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	_, err = fmt.Sscan(rest, &bytes)
	return bytes << 10, err
}
