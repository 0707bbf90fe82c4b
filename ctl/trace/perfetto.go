package trace

// This file reads and writes the file for ui.perfetto.dev. It is JSON in the Trace Event Format of
// Chrome, which Perfetto also reads.
//
// A card is shown as a process, a context as a thread. A packet is a slice (phase X) from the
// moment its slot was seen to that of its answer, with a slice for each stage in it. Slices of a
// thread must lie within each other or apart, but packets overlap. So a context has several
// threads, its lanes: as many as packets are under way at a time. An arrow (phases s and f) leads
// from the slice in which a packet was sent to that of its arrival. Both hosts derive the arrow's
// number from the packet's identity. Times are in microseconds since the first record's time.
//
// The records themselves are in the arguments of the slices, and Begin in those of an instant
// event: so Read finds them again.

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
)

// Host is the trace of one host.
type Host struct {
	Begin   Begin
	Records []engine.Trace
	// Shift is added to the times of the records, besides Begin.Clock, to have them on the clock of
	// the first host.
	Shift int64
}

// at converts a time of a record to nanoseconds since 1970.
func (h *Host) at(t int64) int64 { return h.Begin.Clock + h.Shift + t }

type event struct {
	Name  string  `json:"name"`
	Phase string  `json:"ph"`
	Cat   string  `json:"cat,omitempty"`
	PID   int     `json:"pid"`
	TID   int     `json:"tid"`
	TS    micros  `json:"ts"`
	Dur   *micros `json:"dur,omitempty"`
	ID    uint64  `json:"id,omitempty"`
	Bind  string  `json:"bp,omitempty"`
	Scope string  `json:"s,omitempty"`
	Args  any     `json:"args,omitempty"`
}

// micros is a time in nanoseconds. It is written in microseconds with three digits behind the
// point, so nothing is lost.
type micros int64

// MarshalJSON writes the time in microseconds.
func (m micros) MarshalJSON() ([]byte, error) {
	sign, n := "", uint64(m)
	if m < 0 { // before the first time of the file, which a file by others may have
		sign, n = "-", -n
	}
	return fmt.Appendf(nil, "%s%d.%03d", sign, n/1000, n%1000), nil
}

func (m *micros) UnmarshalJSON(b []byte) error {
	var v float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*m = micros(math.Round(v * 1000))
	return nil
}

// Names and categories of events.
const (
	category  = "funet"
	nameSent  = "packet"
	nameThere = "arrival"
	nameBegin = "trace"
	least     = 100 // the shortest slice of an arrival, in nanoseconds, so that it can be seen
	// lanes is the most threads of a context. Further packets share the last one.
	lanes = 4096
)

// span returns the times of the first and the last event of a record.
func (h *Host) span(r *engine.Trace) (from, to int64) {
	if r.Arrived > 0 {
		return h.at(r.Arrived), h.at(r.Arrived) + least
	}
	from = h.at(r.Seen)
	return from, max(from, h.at(max(r.Answered, r.SentLast, r.Sent, r.Dispatched, r.Retrieved)))
}

// flow returns the number of a packet's arrow, made of values that both hosts know. It has at most
// 53 bits, to which JSON's numbers are exact.
func flow(r *engine.Trace) uint64 {
	f := fnv.New64a()
	fmt.Fprint(f, r.FromCard, r.ToCard, r.Session, r.Level, r.Sequence, r.Index)
	return max(f.Sum64()>>11, 1)
}

// WriteFile writes the traces of hosts.
func WriteFile(out io.Writer, hosts []Host) error {
	w := &fileWriter{w: bufio.NewWriterSize(out, 1<<16), base: math.MaxInt64}
	for i := range hosts {
		for j := range hosts[i].Records {
			from, _ := hosts[i].span(&hosts[i].Records[j])
			w.base = min(w.base, from)
		}
	}
	w.text(`{"displayTimeUnit":"ns","traceEvents":[`)
	for i := range hosts {
		w.host(&hosts[i])
	}
	w.text("\n]}\n")
	if w.err != nil {
		return w.err
	}
	return w.w.Flush()
}

// fileWriter writes events; the first error ends it.
type fileWriter struct {
	w    *bufio.Writer
	base int64
	some bool
	err  error
}

func (w *fileWriter) text(s string) {
	if w.err == nil {
		_, w.err = w.w.WriteString(s)
	}
}

func (w *fileWriter) event(e *event) {
	b, err := json.Marshal(e)
	if w.err == nil {
		w.err = err
	}
	if w.some {
		w.text(",")
	}
	w.some = true
	w.text("\n" + string(b))
}

func (w *fileWriter) host(h *Host) {
	pid := int(h.Begin.Card) + 1 // Perfetto takes process 0 for the idle one
	w.event(&event{Name: "process_name", Phase: "M", PID: pid,
		Args: map[string]string{"name": fmt.Sprintf("card %d of %s", h.Begin.Card, h.Begin.Host)}})
	begin := h.Begin
	begin.Clock += h.Shift
	w.event(&event{Name: nameBegin, Phase: "i", Cat: category, Scope: "p", PID: pid, Args: begin})
	order := make([]int, len(h.Records))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, _ := h.span(&h.Records[a])
		y, _ := h.span(&h.Records[b])
		return cmp.Compare(x, y)
	})
	busy := map[uint32][]int64{} // until when, of each lane of a context
	for _, i := range order {
		r := &h.Records[i]
		from, to := h.span(r)
		lane := slices.IndexFunc(busy[r.Context], func(until int64) bool { return until <= from })
		if lane < 0 {
			lane = min(len(busy[r.Context]), lanes-1)
			if lane == len(busy[r.Context]) {
				busy[r.Context] = append(busy[r.Context], 0)
				w.lane(r, pid, lane)
			}
		}
		busy[r.Context][lane] = to + 1
		w.packet(h, r, pid, int(r.Context)*lanes+lane+1)
	}
}

// lane names a thread.
func (w *fileWriter) lane(r *engine.Trace, pid, lane int) {
	node := r.Source
	if r.Arrived > 0 {
		node = r.Destination
	}
	name := fmt.Sprintf("context %d: node %d of group %d", r.Context, node, r.GID)
	if lane > 0 {
		name += fmt.Sprintf(" (%d)", lane+1)
	}
	tid := int(r.Context)*lanes + lane + 1
	w.event(&event{Name: "thread_name", Phase: "M", PID: pid, TID: tid, Args: map[string]string{"name": name}})
	w.event(&event{Name: "thread_sort_index", Phase: "M", PID: pid, TID: tid, Args: map[string]int{"sort_index": tid}})
}

// shown is the arguments of a slice: the record itself, and its text.
type shown struct {
	engine.Trace
	LevelName  string `json:"level_name"`
	ReasonName string `json:"reason_name,omitempty"`
}

func (w *fileWriter) packet(h *Host, r *engine.Trace, pid, tid int) {
	args := shown{Trace: *r, LevelName: "request"}
	if r.Level == arctic.Reply {
		args.LevelName = "reply"
	}
	if r.Reason != arctic.ReasonNone {
		args.ReasonName = r.Reason.String()
	}
	slice := func(name string, from, to int64, args any) {
		d := micros(to - from)
		w.event(&event{Name: name, Phase: "X", Cat: category, PID: pid, TID: tid, TS: micros(from - w.base),
			Dur: &d, Args: args})
	}
	from, to := h.span(r)
	if r.Arrived > 0 {
		slice(fmt.Sprintf("%s from node %d: %v", nameThere, r.Source, r.End), from, to, args)
		w.event(&event{Name: nameSent, Phase: "f", Cat: category, PID: pid, TID: tid, TS: micros(from - w.base),
			ID: flow(r), Bind: "e"})
		return
	}
	slice(fmt.Sprintf("%s to node %d: %v", nameSent, r.Destination, r.End), from, to, args)
	for _, s := range []struct {
		name     string
		from, to int64
	}{{"queue", r.Seen, r.Retrieved}, {"dispatch", r.Retrieved, r.Dispatched}, {"port", r.Dispatched, r.Sent},
		{"tries", r.Sent, r.SentLast}} {
		if s.from > 0 && s.to > s.from {
			slice(s.name, h.at(s.from), h.at(s.to), nil)
		}
	}
	if r.Sent > 0 {
		if r.Answered >= r.SentLast {
			slice("answer", h.at(r.SentLast), h.at(r.Answered), nil)
		}
		w.event(&event{Name: nameSent, Phase: "s", Cat: category, PID: pid, TID: tid,
			TS: micros(h.at(r.Sent) - w.base), ID: flow(r)})
	}
	if r.Rejected > 0 && r.Rejected <= max(r.Answered, r.SentLast) {
		w.event(&event{Name: "rejected: " + r.Reason.String(), Phase: "i", Cat: category, Scope: "t", PID: pid,
			TID: tid, TS: micros(h.at(r.Rejected) - w.base)})
	}
}

// maxFile is the largest file that Read accepts, in bytes.
const maxFile = 1 << 30

// Read reads a file of WriteFile and returns the traces of its hosts. Errors are ErrMalformed, and
// those of reading.
func Read(in io.Reader) ([]Host, error) {
	var file struct {
		Events []struct {
			Name  string          `json:"name"`
			Phase string          `json:"ph"`
			Cat   string          `json:"cat"`
			PID   int             `json:"pid"`
			Args  json.RawMessage `json:"args"`
		} `json:"traceEvents"`
	}
	limited := &io.LimitedReader{R: in, N: maxFile}
	if err := json.NewDecoder(limited).Decode(&file); err != nil {
		var syntax *json.SyntaxError
		var typed *json.UnmarshalTypeError
		if errors.As(err, &syntax) || errors.As(err, &typed) || errors.Is(err, io.EOF) ||
			errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return nil, err
	}
	var hosts []Host
	byPID := map[int]int{}
	for _, e := range file.Events {
		if e.Cat == category && e.Phase == "i" && e.Name == nameBegin {
			var b Begin
			if err := json.Unmarshal(e.Args, &b); err != nil || b.Every < 1 || byPID[e.PID] != 0 {
				return nil, fmt.Errorf("the beginning of a trace: %w", ErrMalformed)
			}
			hosts = append(hosts, Host{Begin: b})
			byPID[e.PID] = len(hosts)
		}
	}
	for _, e := range file.Events {
		if e.Cat != category || e.Phase != "X" || len(e.Args) == 0 {
			continue
		}
		var r engine.Trace
		if err := json.Unmarshal(e.Args, &r); err != nil || byPID[e.PID] == 0 {
			return nil, fmt.Errorf("a packet: %w", ErrMalformed)
		}
		for _, t := range []int64{r.Seen, r.Retrieved, r.Dispatched, r.Sent, r.SentLast, r.Rejected,
			r.Answered, r.Arrived} {
			if t < 0 || t > 1<<60 {
				return nil, fmt.Errorf("a packet with the time %d: %w", t, ErrMalformed)
			}
		}
		h := &hosts[byPID[e.PID]-1]
		h.Records = append(h.Records, r)
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("a file without a packet of FUNet: %w", ErrMalformed)
	}
	return hosts, nil
}
