package live

// This file has the tables: their names, columns, rows and order.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Table names a table.
type Table int

// The tables, in the order in which they are shown.
const (
	Jobs Table = iota
	Contexts
	Peers
	Rejections
	Tables // number of tables
)

// Name returns the name of a table. Its first letter is the table's key, except for Rejections.
func (t Table) Name() string { return [Tables]string{"jobs", "contexts", "peers", "rejections"}[t] }

// Order says by which column a table is sorted, and whether in reverse.
type Order struct {
	Column  int
	Reverse bool
}

type cell struct {
	text string
	rank float64 // numbers: largest first
	word bool    // sorted by text
	low  bool    // smallest first
}

func number(v float64) cell { return cell{text: Short(v), rank: v} }
func index[N uint16 | uint32](v N) cell {
	return cell{text: fmt.Sprint(v), rank: float64(v), low: true}
}
func word(s string) cell   { return cell{text: clean(s), word: true} }
func length(ns int64) cell { return cell{text: Time(ns), rank: float64(ns)} }

// column is the title and width of a table's column. A negative width aligns left.
type column struct {
	title string
	width int
}

var columns = [Tables][]column{
	Jobs: {{"GID", 4}, {"user", -10}, {"nodes", 5}, {"here", 4}, {"msg/s out", 9}, {"msg/s in", 9},
		{"B/s out", 7}, {"B/s in", 7}, {"retry/s", 7}, {"lost/s", 6}},
	Contexts: {{"ctx", 4}, {"GID", 4}, {"node", 5}, {"user", -8}, {"process", 7}, {"msg/s out", 9}, {"msg/s in", 8},
		{"B/s out", 7}, {"B/s in", 7}, {"retry/s", 7}, {"on", -3}},
	Peers:      {{"card", 5}, {"round trip", 10}, {"varies by", 10}, {"in flight", 9}},
	Rejections: {{"reason", -42}, {"here/s", 7}, {"by peers/s", 10}, {"here", 7}, {"by peers", 8}},
}

// Usual is the order of a table until another is chosen: the busiest, or the slowest, first.
func (t Table) Usual() Order {
	return Order{Column: [Tables]int{Jobs: 4, Contexts: 5, Peers: 1, Rejections: 2}[t]}
}

func (r *Report) rows(t Table, o Order, name func(uint32) string) [][]cell {
	var all [][]cell
	switch t {
	case Jobs:
		for _, j := range r.Jobs {
			all = append(all, []cell{index(j.GID), word(name(j.UID)), number(float64(j.Nodes)),
				number(float64(j.Attached)), number(j.MessagesSent), number(j.MessagesReceived),
				number(j.BytesSent), number(j.BytesReceived), number(j.Retried), number(j.Returned)})
		}
	case Contexts:
		for _, x := range r.Contexts {
			on := "yes"
			if !x.Active {
				on = "no"
			}
			all = append(all, []cell{index(x.Context), index(x.GID), index(x.Node), word(name(x.UID)),
				index(uint32(x.PID)), number(x.MessagesSent), number(x.MessagesReceived),
				number(x.BytesSent), number(x.BytesReceived), number(x.Retried), word(on)})
		}
	case Peers:
		for _, p := range r.RoundTrips {
			all = append(all, []cell{index(p.Card), length(p.RoundTrip), length(p.Variation),
				number(float64(p.InFlight))})
		}
	case Rejections:
		for _, j := range r.Rejections {
			if j.CardTotal+j.PeersTotal > 0 {
				all = append(all, []cell{word(j.Reason), number(j.ByCard), number(j.ByPeers),
					number(float64(j.CardTotal)), number(float64(j.PeersTotal))})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b []cell) int {
		x, y := &a[o.Column], &b[o.Column]
		by := cmp.Compare(y.rank, x.rank)
		if x.low {
			by = -by
		}
		if x.word {
			by = cmp.Compare(x.text, y.text)
		}
		if o.Reverse {
			by = -by
		}
		return by
	})
	return all
}

func line(cs []column, text func(int) string) string {
	var b strings.Builder
	for i, c := range cs {
		if i > 0 {
			b.WriteByte(' ')
		}
		s := text(i)
		wide := max(c.width, -c.width)
		if utf8.RuneCountInString(s) > wide {
			s = string([]rune(s)[:wide-1]) + "…"
		}
		pad := strings.Repeat(" ", wide-utf8.RuneCountInString(s))
		if c.width < 0 {
			b.WriteString(s + pad)
		} else {
			b.WriteString(pad + s)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Short writes a number not negative in at most 5 characters: 0, 0.25, 12.3, 999, 1.2k, 45.1M.
func Short(v float64) string {
	const units = " kMGTPE"
	u := 0
	for v >= 999.5 && u < len(units)-1 {
		v /= 1000
		u++
	}
	unit := strings.TrimSpace(units[u : u+1])
	switch {
	case v == 0:
		return "0"
	case v >= 99.95 || u == 0 && v == float64(int(v)):
		return fmt.Sprintf("%.0f%s", v, unit)
	case u == 0 && v < 0.995:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f%s", v, unit)
}

// Time writes nanoseconds: 812ns, 12.3µs, 4.56ms.
func Time(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d >= time.Microsecond:
		return d.Round(100 * time.Nanosecond).String()
	}
	return d.String()
}

// clean leaves out characters that are not printable, which a terminal might obey.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}
