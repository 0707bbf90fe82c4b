package main

// This file is `funet doctor`: it finds faults of this host and its network, and their cures.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/doctor"
	"github.com/funet/funet/ctl/doctor/probe"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/attach"
)

// diagnosis is the JSON document of doctor.
type diagnosis struct {
	Verdict  doctor.Verdict   `json:"verdict"` // the worst
	Findings []doctor.Finding `json:"findings"`
}

// columnGap is the space between columns of a table (output.Table).
const columnGap = 3

// WriteTable writes a line for each finding, with the cure where there is one.
func (d *diagnosis) WriteTable(w io.Writer) error {
	rows := [][]string{{"", "where", "check", "found, and the cure"}}
	where, check := len("where"), len("check")
	for _, f := range d.Findings {
		where, check = max(where, len(f.Subject)), max(check, len(f.Check))
	}
	wide := max(output.Width-(len(doctor.Fail)+where+check+3*columnGap), output.Width/2)
	for _, f := range d.Findings {
		lines := output.Fold(f.Found, wide)
		if f.Cure != "" {
			lines = append(lines, output.Fold("-> "+f.Cure, wide)...)
		}
		row := []string{string(f.Verdict), f.Subject, f.Check}
		for _, l := range lines {
			rows = append(rows, append(row, l))
			row = []string{"", "", ""}
		}
	}
	return output.Table(w, rows...)
}

func doctorCommand() *cobra.Command {
	var o doctor.Options
	var s service
	var answer bool
	var port uint16
	c := s.register(&cobra.Command{
		Use:     "doctor [PEER]",
		Example: "  funet doctor                             # this host, and its funid\n  funet doctor --iface eth1                # what the interface can do, too\n  funet doctor --peers peers.yaml 1        # and the way to node 1",
		Short:   "Say what is wrong with this host, an interface or the way to a peer, and what to do",
		Long: `Say what is wrong, and what to do about it: a line for each thing looked at, ok, warn or fail.
The exit code is 1 if one is fail.

Without --iface the host is looked at, and funid with its interface. PEER is a MAC or IP address, a host
name, a card that funid of this host knows, or a node of the file that --peers names; probes are sent on the interface alone that --iface, the peers file
or funid's configuration names. A funid at the other end answers by itself, through its
AF_XDP port. Where none runs, or to try long frames, UDP and each direction apart, this must run there:

  funet doctor --answer --iface eth1        # on the peer, until Ctrl-C

Drivers may restart queues or link for a moment when it is tried what they can do; --leave-driver prevents it.
An interface that has an XDP program is left alone.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if answer {
				if o.Interface == "" || len(args) > 0 {
					return errors.New("--answer: name the interface with --iface, and no peer")
				}
				return answerProbes(c.Context(), o.Interface, port, s.socket)
			}
			if o.Patience <= 0 {
				return fmt.Errorf("--patience %v: use a time above 0", o.Patience)
			}
			if len(args) == 1 {
				o.Peer = args[0]
			}
			o.Socket, o.Port, o.WantDaemon = s.socket, port, c.Flags().Changed("socket")
			told := output.Begin("looking", 0)
			facts, err := doctor.Gather(c.Context(), o)
			told.End()
			if err != nil {
				return err
			}
			d := &diagnosis{Findings: doctor.Judge(facts)}
			d.Verdict = doctor.Worst(d.Findings)
			if err := output.Show(s.json, d); err != nil {
				return err
			}
			if d.Verdict == doctor.Fail {
				return command.ExitCode(1)
			}
			return nil
		},
	})
	f := c.Flags()
	f.StringVar(&o.Interface, "iface", "",
		"interface to look at (default: that of the peer in the peers file, or funid's)")
	f.StringVar(&o.Peers, "peers", "", "peers file that has PEER as a node")
	f.StringVar(&o.Config, "config", "", "funid's configuration, whose key files are looked at (default "+
		doctor.DefaultConfig+", if it is there)")
	f.BoolVar(&o.WantHuge, "huge-pages", false, "huge pages are wanted")
	f.BoolVar(&o.LeaveDriver, "leave-driver", false, "do not try what the driver can do")
	f.BoolVar(&answer, "answer", false, "answer the probes of funet doctor on another host, until Ctrl-C")
	f.Uint16Var(&port, "port", probe.DefaultPort, "UDP port of who answers")
	f.DurationVar(&o.Patience, "patience", 2*time.Second, "how long to wait for the peer's answers")
	return c
}

// answerProbes answers until the context ends.
func answerProbes(ctx context.Context, iface string, port uint16, socket string) error {
	if port == 0 {
		return errors.New("--port 0: use 1 to 65535")
	}
	cards := &cardHere{socket: socket}
	a, err := probe.Listen(iface, port, cards.look)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "answering probes on %s and UDP port %d until Ctrl-C\n", iface, port)
	a.Serve(ctx)
	return context.Cause(ctx)
}

// cardHere asks the daemon of this host which card it has, at most once in lookAgain.
type cardHere struct {
	socket string
	card   *probe.Card
	at     time.Time
}

// lookAgain is the time for which an answer of the daemon is used.
const lookAgain = 2 * time.Second

// look returns the daemon's card, or nil if no daemon answers.
func (h *cardHere) look() *probe.Card {
	if !h.at.IsZero() && time.Since(h.at) < lookAgain {
		return h.card
	}
	h.card = nil
	if i, err := attach.Inquire(h.socket, lookAgain/10); err == nil {
		h.card = &probe.Card{Number: i.Card, Incarnation: i.Incarnation, ABI: i.ABI}
	}
	h.at = time.Now()
	return h.card
}
