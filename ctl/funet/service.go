package main

// This file is the administrator's side of funid: `funet status`, `funet gid`, `funet route`,
// `funet context` and `funet profile set`. Each is one request on the daemon's socket. The daemon
// decides which users may ask what.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/bpf"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine"
)

// service holds the flags of a command that asks the daemon.
type service struct {
	socket string
	json   bool
}

func (s *service) register(c *cobra.Command) *cobra.Command {
	s.registerSocket(c)
	c.Flags().BoolVar(&s.json, "json", false, "print one JSON document")
	return c
}

func (s *service) registerSocket(c *cobra.Command) {
	socket := os.Getenv(attach.SocketVariable)
	if socket == "" {
		socket = attach.DefaultSocket
	}
	c.Flags().StringVar(&s.socket, "socket", socket, "of funid; from "+attach.SocketVariable+" if that is set")
}

// patience bounds the wait for the daemon's answer.
const patience = 10 * time.Second

// ask sends one request with a body and reads the answer's JSON into v.
func (s *service) ask(k attach.Kind, request, v any) error {
	if err := attach.Call(context.Background(), s.socket, k, patience, request, v); err != nil {
		return fmt.Errorf("asking funid at %s: %w", s.socket, err)
	}
	return nil
}

// administer has c send the request that its arguments ask for, and show the answer, which r takes.
func administer(c *cobra.Command, r output.Report, request func([]string) (report.Command, error)) *cobra.Command {
	var s service
	c.RunE = func(_ *cobra.Command, args []string) error {
		m, err := request(args)
		if err == nil {
			err = s.ask(attach.KindAdmin, m, r)
		}
		if err != nil {
			return err
		}
		return output.Show(s.json, r)
	}
	return s.register(c)
}

func statusCommand() *cobra.Command {
	var s service
	var watch bool
	var name string
	c := s.register(&cobra.Command{
		Use:     "status",
		Example: "  funet status\n  funet status --watch\n  funet status --lab\n  funet status --json | jq '.jobs[] | {gid, traffic}'",
		Short:   "Show what funid does: interfaces, jobs and contexts, an ordinary user his own",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			look := s.status
			if name != "" {
				if c.Flags().Changed("socket") {
					return errors.New("--lab or --socket, not both: a lab's daemons have sockets of their own")
				}
				look = func() (output.Report, error) { return statusOfLab(name) }
			}
			if watch {
				return s.watchStatus(c.Context(), look)
			}
			r, err := look()
			if r == nil {
				return err
			}
			return errors.Join(output.Show(s.json, r), err)
		},
	})
	c.Flags().BoolVar(&watch, "watch", false, "show it anew each second, until Ctrl-C")
	c.Flags().StringVar(&name, "lab", "", "of all daemons of a lab, named as in --lab=NAME")
	c.Flags().Lookup("lab").NoOptDefVal = defaultLab
	return c
}

// status returns the status of one daemon.
func (s *service) status() (output.Report, error) {
	r := new(serviceStatus)
	if err := s.ask(attach.KindStatus, nil, r); err != nil {
		return nil, err
	}
	return r, nil
}

// serviceStatus is the JSON document of status.
type serviceStatus struct{ report.Status }

func (r *serviceStatus) WriteTable(w io.Writer) error {
	state := ""
	if r.Stopping {
		state = ", being stopped"
	}
	fmt.Fprintf(w, "card %d of %s: profile %s, polling %s, interfaces %v%s\n", r.Card, r.Host, r.Profile, r.Polling,
		r.Interfaces, state)
	for _, l := range r.Links {
		name := l.Interface
		if l.Configured != "" {
			name = fmt.Sprintf("%s (configured as %s)", l.Interface, l.Configured)
		}
		fmt.Fprintf(w, "interface %s: %s, XDP %s, %s, MTU %d, opened again %s\n", name, l.State, l.XDPMode, l.BindMode,
			l.MTU, output.Count(int64(l.Reopened), "time"))
		if l.QueuesWhy != "" {
			fmt.Fprintf(w, "  %s: %s\n", output.Count(l.Queues, "queue"), l.QueuesWhy)
		}
		if l.Why != "" {
			fmt.Fprintf(w, "  since %s: %s\n", l.Since.Local().Format(time.DateTime), l.Why)
		}
		if l.Merged > 0 {
			fmt.Fprintf(w,
				"  %s merged by GRO on the way in, their frames lost: `funet doctor --iface %s` names the interface\n",
				output.Count(int64(l.Merged), "datagram"), l.Interface)
		}
		if l.XDPWhy != "" {
			fmt.Fprintf(w, "  %s\n", l.XDPWhy)
		}
		if l.Deferred+l.Undeferred > 0 {
			fmt.Fprintf(w, "  %s of absent groups answered in the kernel; dropped: %d\n",
				output.Count(int64(l.Deferred), "frame"), l.Undeferred)
		}
		if l.Hellos > 0 {
			fmt.Fprintf(w, "  %s of sources that say too many dropped\n", output.Count(int64(l.Hellos), "hello"))
		}
		if n := l.Direct; n != nil && n.Stranger+n.NoPort > 0 {
			fmt.Fprintf(w, "  %s for direct ports; dropped: %d from strangers, %d for nodes that have no port here\n",
				output.Count(int64(n.Handed), "frame"), n.Stranger, n.NoPort)
		}
	}
	r.writeCarriage(w)
	r.writeNotices(w)
	memory := r.Memory
	if r.MemoryWhy != "" {
		memory += " (" + r.MemoryWhy + ")"
	}
	if !r.MemoryLocked {
		memory += ", not all locked"
	}
	if r.Encap == cluster.UDP.String() {
		fmt.Fprintf(w, "frames travel in UDP datagrams, with a path to %s\n", output.Count(r.Paths, "peer"))
	}
	for _, p := range r.Missing {
		why := p.Missing
		if why == "" {
			why = p.Heard
		}
		fmt.Fprintf(w, "  card %d at %s: %s\n", p.Card, p.Address, why)
	}
	if err := r.writePeers(w); err != nil {
		return err
	}
	r.writeTable(w)
	r.writeKeys(w)
	if r.Turns != nil {
		fmt.Fprintln(w, r.Turns)
	}
	fmt.Fprintf(w, "%s, %s of shared memory: %s\n", output.Count(r.Connections, "connection"),
		output.Count(r.Bytes, "byte"), memory)
	fmt.Fprintf(w, "the card's thread has %s\n", r.Priority)
	if r.MemoryFaults > 0 {
		fmt.Fprintf(w, "%s ended as memory failed or had holes\n", output.Count(int64(r.MemoryFaults), "context"))
	}
	if err := writeJobs(w, r.Jobs); err != nil {
		return err
	}
	if err := writePorts(w, r.Ports); err != nil {
		return err
	}
	return (&contextsShown{report.Contexts{Contexts: r.Contexts, LeftOut: r.LeftOut}}).WriteTable(w)
}

// writeCarriage writes whether jobs may have direct ports, and why, if the configuration asks for
// some. It also writes the counts of all direct ports.
func (r *serviceStatus) writeCarriage(w io.Writer) {
	switch c := &r.Carriage; {
	case c.Chosen == attach.CarriageDirect && c.Why != "":
		fmt.Fprintf(w, "jobs may have direct ports: %s\n", c.Why)
	case c.Chosen == attach.CarriageDirect:
		fmt.Fprintln(w, "jobs may have direct ports")
	case c.Why != "":
		fmt.Fprintf(w, "no job has direct ports: %s\n", c.Why)
	}
	d := r.Direct
	if d == nil || d.Frames == (bpf.PortCounters{}) && d.Ports+d.Kept == 0 {
		return
	}
	fmt.Fprintf(w,
		"  %s of all users, %d kept by processes whose place has ended, %d that nobody has asked for since funid was replaced\n", output.Count(d.Ports, "port"), d.Kept, d.Orphaned)
	n := &d.Frames
	fmt.Fprintf(w, "  frames sent: %d to hosts, %d here; dropped: %s\n", n.Sent, n.Local, reasons(n))
}

// writeNotices writes the counts of news that this daemon and others exchanged about processes with
// direct ports, if there were any.
func (r *serviceStatus) writeNotices(w io.Writer) {
	n := r.Notices
	if n == nil || *n == (report.NoticeCounters{}) {
		return
	}
	fmt.Fprintf(w,
		"  ends and returns of processes: %d told to other hosts, %d did not arrive; %d heard, %d of other jobs, %d late, %d refused; %d lost; %s of processes here\n",
		n.Sent, n.Returned, n.Heard, n.Strange, n.Late, n.Refused, n.Unheard,
		output.Count(int64(n.Doubtful), "question"))
}

// reasons lists the reasons for which the guard dropped frames.
func reasons(n *bpf.PortCounters) string {
	if n.Dropped() == 0 {
		return "none"
	}
	var all []string
	for _, r := range []struct {
		n    uint64
		what string
	}{{n.Short, "too short"}, {n.BadVersion, "no direct frames"}, {n.Forged, "in another's name"},
		{n.BadLength, "of another length than they said"},
		{n.NoNode, "for nodes that nobody is"}, {n.TooLong, "too long"},
		{n.NoCredit, "for hosts that send nothing"}} {
		if r.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", r.n, r.what))
		}
	}
	return strings.Join(all, ", ")
}

// writePorts writes the direct ports, if there are some, and the fates of their processes' frames.
func writePorts(w io.Writer, ports []report.PortStatus) error {
	if len(ports) == 0 {
		return nil
	}
	rows := [][]string{{"direct port of GID", "node", "user", "process", "bytes", "frames to hosts", "here", "dropped",
		"shares memory with"}}
	for _, p := range ports {
		frames := output.Row("-", "-", "-")
		if n := p.Frames; n != nil {
			frames = output.Row(n.Sent, n.Local, reasons(n))
		}
		rows = append(rows, slices.Concat(output.Row(p.GID, p.Node, output.UserName(p.UID), p.PID, p.Bytes), frames,
			output.Row(fmt.Sprintf("%d nodes here", p.Shared))))
	}
	return output.Table(w, rows...)
}

// writeJobs writes the jobs and the amounts that their processes have moved.
func writeJobs(w io.Writer, jobs []report.JobCounted) error {
	rows := [][]string{{"GID", "user", "made by process", "nodes", "attached here", "packets out, in", "bytes out, in",
		"retried", "returned", "refused"}}
	for _, j := range jobs {
		t := &j.Traffic
		moved := output.Row("direct ports", "-", "-", "-", "-") // the daemon sees no packet of it
		if !j.Direct {
			moved = output.Row(fmt.Sprintf("%d, %d", t.Sent, t.Received),
				fmt.Sprintf("%d, %d", t.SentBytes, t.ReceivedBytes), t.Retried, t.Returned, t.Refused)
		}
		rows = append(rows, append(jobRow(&j), moved...))
	}
	if err := output.Table(w, rows...); err != nil {
		return err
	}
	for _, j := range jobs {
		if f := &j.Faults; *f != (report.Faults{}) {
			fmt.Fprintf(w,
				"GID %d: %s missed, %d accesses refused, %s for nodes that there are not, %s suspended by this daemon\n", j.GID,
				output.Count(int64(f.Missed), "window"), f.Refused, output.Count(int64(f.NoRoute), "packet"),
				output.Count(int64(f.Suspended), "window"))
		}
	}
	return nil
}

// jobRow returns the cells of a job that do not depend on its traffic.
func jobRow(j *report.JobCounted) []string {
	return output.Row(j.GID, output.UserName(j.UID), j.PID, j.Nodes, j.Attached)
}

// writePeers writes the results of hellos.
func (r *serviceStatus) writePeers(w io.Writer) error {
	h := &r.Hello
	finds := ""
	if h.Cluster != "" {
		finds = fmt.Sprintf(", finds those of cluster %s", h.Cluster)
	}
	fmt.Fprintf(w, "knows %s%s; silent: %d\n", output.Count(h.Known, "peer"), finds, h.Silent)
	for _, f := range h.Faults {
		fmt.Fprintf(w, "  %s\n", f)
	}
	if len(h.Peers) == 0 {
		return nil
	}
	rows := [][]string{{"peer", "address", "host", "from", "heard", "round trip", "key"}}
	for _, p := range h.Peers {
		from, heard, trip := "peers file", "not yet", ""
		if p.Found {
			from = "hello"
		}
		if p.HeardAgo >= 0 {
			heard = time.Duration(p.HeardAgo*1e9).Round(time.Second).String() + " ago"
			trip = fmt.Sprintf("%.1f us", p.RoundTrip)
		}
		if p.Unanswered > 0 {
			heard += fmt.Sprintf(", %s unanswered", output.Count(p.Unanswered, "hello"))
		}
		rows = append(rows, output.Row(p.Card, p.Address, p.Host, from, heard, trip, p.Key.Words()))
	}
	return rest(w, rows, h.LeftOut)
}

// writeTable writes how this host stands with the cluster's table in etcd, if there is one.
func (r *serviceStatus) writeTable(w io.Writer) {
	t := r.Table
	if t == nil {
		return
	}
	since := time.Duration(t.Since * 1e9).Round(time.Second)
	if t.Answers {
		fmt.Fprintf(w, "table %s answers, for %v; %s\n", t.Name, since, output.Count(t.Hosts, "host"))
	} else {
		fmt.Fprintf(w, "table %s does not answer, for %v; new jobs wait\n%s\n", t.Name, since, t.Why)
	}
	for _, gid := range t.Lost {
		fmt.Fprintf(w, "job %d has lost its GID to another job; no process may join it\n", gid)
	}
}

// writeKeys writes this host's keys, their effect on frames, and the frames refused because of
// them. It writes nothing if no host has a key.
func (r *serviceStatus) writeKeys(w io.Writer) {
	for _, k := range r.Keys {
		fmt.Fprintf(w, "key %s from %s, for %s\n", k.Identity, k.File, output.Count(k.Peers, "peer"))
	}
	if r.KeysLeftOut > 0 {
		fmt.Fprintf(w, "and %s more\n", output.Count(r.KeysLeftOut, "key"))
	}
	if p := r.Peers; p != nil && (len(r.Keys) > 0 || p.Refused > 0) {
		fmt.Fprintf(w, "frames are encrypted to %s, only authenticated to %d",
			output.Count(p.Sealed-p.Readable, "peer"), p.Readable)
		if p.Refused > 0 {
			fmt.Fprintf(w, "; %s refused for their keys: %s", output.Count(p.Refused, "peer"), p.KeyFault)
		}
		fmt.Fprintln(w)
	}
	if n := r.Counters; n != nil && n.DroppedForged+n.DroppedReplayed+n.DroppedKey > 0 {
		fmt.Fprintf(w,
			"refused: %s that nobody with the key has sent, %d replayed, %s without the key or with another\n",
			output.Count(int64(n.DroppedForged), "frame"), n.DroppedReplayed,
			output.Count(int64(n.DroppedKey), "greeting"))
	}
}

func gidCommand() *cobra.Command {
	c := &cobra.Command{Use: "gid", Example: "  funet gid list\n  funet gid end 7",
		Short: "List the groups on this host's card, or end one (administrator)"}
	ended := new(gidEnded)
	c.AddCommand(administer(&cobra.Command{
		Use:     "list",
		Example: "  funet gid list",
		Short:   "List the groups",
		Args:    cobra.NoArgs,
	}, new(gidsShown), func([]string) (report.Command, error) {
		return report.Command{Do: "gid-list"}, nil
	}), administer(&cobra.Command{
		Use:     "end GID",
		Example: "  funet gid end 7",
		Short:   "End a group: its processes lose their contexts",
		Args:    cobra.ExactArgs(1),
	}, ended, func(args []string) (report.Command, error) {
		n, err := numbers(args, "GID")
		ended.GID = n[0]
		return report.Command{Do: "gid-end", GID: &n[0]}, err
	}))
	return c
}

// numbers reads arguments that are numbers of 16 bits, and have the given names.
func numbers(args []string, names ...string) ([]uint16, error) {
	n := make([]uint16, len(names))
	for i, what := range names {
		low, high := 0, 1<<16-1
		if what == "GID" {
			low, high = 1, arctic.MaxGID
		}
		v, err := strconv.Atoi(args[i])
		if err != nil || v < low || v > high {
			return n, fmt.Errorf("%s %q: use %d to %d", what, args[i], low, high)
		}
		n[i] = uint16(v)
	}
	return n, nil
}

// gidsShown is the JSON document of gid list.
type gidsShown struct{ report.GIDs }

func (r *gidsShown) WriteTable(w io.Writer) error {
	rows := [][]string{{"GID", "user", "made by process", "nodes", "attached here"}}
	for _, j := range r.GIDs.GIDs {
		rows = append(rows, jobRow(&j))
	}
	return rest(w, rows, r.LeftOut)
}

// rest writes a table, and the number of rows that were left out.
func rest(w io.Writer, rows [][]string, leftOut int) error {
	if err := output.Table(w, rows...); err != nil || leftOut == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "and %d more\n", leftOut)
	return err
}

// gidEnded is the JSON document of gid end.
type gidEnded struct {
	GID uint16 `json:"ended"`
}

func (r *gidEnded) WriteTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "group %d has ended\n", r.GID)
	return err
}

func routeCommand() *cobra.Command {
	c := &cobra.Command{Use: "route", Example: "  funet route list 7",
		Short: "List or change on which cards the nodes of a group are (administrator)"}
	c.AddCommand(administer(&cobra.Command{
		Use:     "list GID",
		Example: "  funet route list 7",
		Short:   "List the routes of a group on this host's card",
		Args:    cobra.ExactArgs(1),
	}, new(routesShown), func(args []string) (report.Command, error) {
		n, err := numbers(args, "GID")
		return report.Command{Do: "route-list", GID: &n[0]}, err
	}), administer(&cobra.Command{
		Use:     "set GID NODE CARD",
		Example: "  funet route set 7 3 1",
		Short:   "Say on which card a node is; do so on all hosts of the group",
		Args:    cobra.ExactArgs(3),
	}, new(routesShown), func(args []string) (report.Command, error) {
		n, err := numbers(args, "GID", "node", "card")
		return report.Command{Do: "route-set", GID: &n[0], Node: &n[1], Card: &n[2]}, err
	}))
	return c
}

// routesShown is the JSON document of route list and set.
type routesShown struct{ report.Routes }

func (r *routesShown) WriteTable(w io.Writer) error {
	rows := [][]string{{"node", "card"}}
	for node, card := range r.Cards {
		rows = append(rows, output.Row(node, card))
	}
	return rest(w, rows, r.LeftOut)
}

func contextCommand() *cobra.Command {
	c := &cobra.Command{Use: "context", Example: "  funet context list\n  funet context switch --gid 7",
		Short: "List the contexts on this host's card, switch or move them (administrator)"}
	var gid int
	var change *cobra.Command
	change = administer(&cobra.Command{
		Use:     "switch [CONTEXT]",
		Example: "  funet context switch 2\n  funet context switch --gid 7",
		Short:   "Give a group its turn on a card with room for few: that of a context, or of --gid",
		Args:    cobra.MaximumNArgs(1),
	}, new(profileOfCard), func(args []string) (m report.Command, err error) {
		switch {
		case (len(args) == 1) == change.Flags().Changed("gid"):
			return m, errors.New("which one? say a context of `funet context list`, or --gid")
		case len(args) == 1:
			return ofContext("context-switch", args)
		case gid < 1 || gid > arctic.MaxGID:
			return m, fmt.Errorf("--gid %d: use 1 to %d", gid, arctic.MaxGID)
		}
		g := uint16(gid)
		return report.Command{Do: "context-switch", GID: &g}, nil
	})
	change.Flags().IntVar(&gid, "gid", 0, "the group")
	var to string
	moves := administer(&cobra.Command{
		Use:     "move CONTEXT --to SOCKET",
		Example: "  funet context move 2 --to /run/funid-b.sock",
		Short:   "Have a process go on at the card of another daemon that it can reach, while others send to it",
		Args:    cobra.ExactArgs(1),
	}, new(movedShown), func(args []string) (report.Command, error) {
		m, err := ofContext("context-move", args)
		if m.Socket = to; err == nil && to == "" {
			err = errors.New("where to? say --to and the socket of the daemon whose card the process is to go on at")
		}
		return m, err
	})
	moves.Flags().StringVar(&to, "to", "", "the other daemon's socket")
	moves.Long = `Have the process of a context go on at the card of another daemon, with its windows, keys and counters, while others send to it. The group
must be known there: "funet run" names it to all hosts of the job. The process moves when it next looks at its context, and as soon
as what it has sent has been taken; it must be a Go program (attach.Client), and both sockets must be within its reach.`
	c.AddCommand(administer(&cobra.Command{
		Use:     "list",
		Example: "  funet context list",
		Short:   "List the contexts",
		Args:    cobra.NoArgs,
	}, new(contextsShown), func([]string) (report.Command, error) {
		return report.Command{Do: "context-list"}, nil
	}), change, moves)
	return c
}

// ofContext returns a request about the context that is the one argument.
func ofContext(do string, args []string) (report.Command, error) {
	n, err := numbers(args, "context")
	context := uint32(n[0])
	return report.Command{Do: do, Context: &context}, err
}

// movedShown is the JSON document of context move.
type movedShown struct{ report.Moved }

func (r *movedShown) WriteTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "node %d of group %d is on card %d now\n", r.Node, r.GID, r.Card)
	return err
}

// contextsShown is the JSON document of context list.
type contextsShown struct{ report.Contexts }

func (r *contextsShown) WriteTable(w io.Writer) error {
	rows := [][]string{{"context", "GID", "node", "user", "process", "slots", "segments", "bytes", "state"}}
	some := slices.ContainsFunc(r.Contexts.Contexts, func(x report.ContextStatus) bool { return x.Remote != nil })
	if some {
		rows[0] = append(rows[0], "key slots", "areas", "unread", "operations", "refused")
	}
	for _, x := range r.Contexts.Contexts {
		state := "on the card"
		if !x.Active {
			state = "switched out"
		}
		row := output.Row(x.Context, x.GID, x.Nodes(), output.UserName(x.UID), x.PID, x.Slots, x.Segments, x.Bytes, state)
		if u := x.Remote; u != nil {
			row = append(row, fmt.Sprintf("%d of %d", u.KeySlotsOpen, u.KeySlots),
				fmt.Sprintf("%d of %d", u.AreasOpen, u.Areas),
				fmt.Sprintf("%d of %d", u.Unread, u.Notifications),
				fmt.Sprintf("%d, %d here", u.Completed, u.Operations), refusals(&u.Refused))
		} else if some {
			row = append(row, "-", "-", "-", "-", "-")
		}
		rows = append(rows, row)
	}
	return rest(w, rows, r.LeftOut)
}

// refusals lists the remote writes and operations that a context's card has refused, by reason.
func refusals(r *engine.RemoteRefusals) string {
	var all []string
	for _, c := range []struct {
		n   uint64
		why string
	}{{r.KeySlot, "key"}, {r.Range, "range"}, {r.Area, "area"}, {r.NoBuffer, "buffer"}, {r.Form, "form"},
		{r.Withheld, "withheld"}, {r.Absent, "absent"}, {r.NoCredit, "credit"}, {r.Guessing, "guessing"},
		{r.Rights, "rights"}, {r.Locked, "locked"}, {r.Operand, "operand"}, {r.Chain, "chain"}, {r.Busy, "busy"}} {
		if c.n > 0 {
			all = append(all, fmt.Sprintf("%s %d", c.why, c.n))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "0")
}

func profileSetCommand() *cobra.Command {
	return administer(&cobra.Command{
		Use:     "set PROFILE",
		Example: "  funet profile set limits.yaml\n  funet profile set native",
		Short:   "Give this host's card a profile of limits; no group may be on it (administrator)",
		Args:    cobra.ExactArgs(1),
	}, new(profileOfCard), func(args []string) (report.Command, error) {
		m := report.Command{Do: "profile-set", Profile: args[0]}
		p, err := hwprofiles.Load(args[0]) // a file is this user's to read, not the daemon's
		if err == nil && p.Name != args[0] {
			var text []byte
			text, err = p.Marshal()
			m.Profile, m.Text = "", string(text)
		}
		return m, err
	})
}

// profileOfCard is the JSON document of profile set and context switch.
type profileOfCard struct{ report.ProfileStatus }

func (r *profileOfCard) WriteTable(w io.Writer) error {
	room := "all groups are on the card at once"
	if r.Contexts > 0 {
		room = output.Count(r.Contexts, "group") + " at a time on the card"
	}
	_, err := fmt.Fprintf(w, "profile %s: %s\n", r.Profile, room)
	return err
}
