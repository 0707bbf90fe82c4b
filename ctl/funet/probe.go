package main

// This file is `funet probe`: it finds out by trying which AF_XDP features an interface has.

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/xdp"
)

// probeResult is the JSON document of probe.
type probeResult struct {
	Interface string            `json:"interface"`
	Kind      string            `json:"kind"`
	Remark    string            `json:"remark,omitempty"`
	Up        bool              `json:"up"`
	MTU       int               `json:"mtu_bytes"`
	RxQueues  int               `json:"rx_queues"`
	TxQueues  int               `json:"tx_queues"`
	Program   uint32            `json:"program_id"`
	Answers   map[string]string `json:"answers"`
}

// jumbo reports whether --jumbo works in some mode: it takes sockets of several buffers, in generic
// mode, or in native mode with a driver that has them.
func jumbo(p xdp.Capabilities) xdp.Trial {
	if p.MultiBuffer.Answer != xdp.Yes || p.NativeFrags.Answer == xdp.Yes {
		return p.MultiBuffer
	}
	return p.Generic
}

func probeCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "probe INTERFACE",
		Example: "  funet probe eth1",
		Short:   "Try what an interface can do for AF_XDP: modes, zero-copy, queues",
		Long: `Try what an interface can do for AF_XDP. Each feature is tried and undone at once,
nothing is sent. Drivers may restart their queues for it; an interface that already
has an XDP program is left alone.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := xdp.Probe(args[0])
			if err != nil {
				return err
			}
			trials := []struct {
				name  string
				trial xdp.Trial
			}{
				{"native", p.Native}, {"native_frags", p.NativeFrags}, {"generic", p.Generic}, {"copy", p.Copy},
				{"zero_copy", p.ZeroCopy},
				{"need_wakeup", p.NeedWakeup}, {"multi_buffer", p.MultiBuffer}, {"busy_poll", p.BusyPoll},
				{"jumbo", jumbo(p)},
			}
			r := probeResult{Interface: p.Interface, Kind: p.Kind.Name, Remark: p.Kind.Remark, Up: p.Up, MTU: p.MTU,
				RxQueues: p.RxQueues, TxQueues: p.TxQueues, Program: p.Program, Answers: map[string]string{}}
			rows := [][]string{{"feature", "answer", ""}}
			said := map[string]string{} // the first feature that has a reason
			for _, t := range trials {
				r.Answers[t.name] = t.trial.Answer.String()
				why := ""
				if t.trial.Err != nil {
					why = t.trial.Err.Error()
				}
				if first, ok := said[why]; ok {
					why = "as " + first
				} else if why != "" {
					said[why] = t.name
				}
				rows = append(rows, []string{t.name, t.trial.Answer.String(), why})
			}
			if asJSON {
				return output.JSON(r)
			}
			state := "down"
			if p.Up {
				state = "up"
			}
			fmt.Printf("%s: %s, %s, MTU %d bytes, %d receive and %d transmit queues\n", p.Interface, p.Kind.Name, state,
				p.MTU, p.RxQueues, p.TxQueues)
			if p.Kind.Remark != "" {
				fmt.Println(p.Kind.Remark)
			}
			return output.Table(os.Stdout, rows...)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}
