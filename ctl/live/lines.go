package live

// This file makes the lines of text: sums, interfaces, and tables.

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// head returns the lines above the tables: the card's sums, and a line for each interface.
func (r *Report) head() []string {
	s := &r.Sums
	lines := []string{
		fmt.Sprintf("card %d of %s, %s: profile %s, polling %s", r.Card, clean(r.Host),
			r.Time.Local().Format(time.TimeOnly), clean(r.Profile), clean(r.Polling)),
		fmt.Sprintf("messages   %5s/s out %5s/s in   bytes %5s/s out %5s/s in", Short(s.MessagesSent),
			Short(s.MessagesReceived), Short(s.BytesSent), Short(s.BytesReceived)),
		fmt.Sprintf("frames     %5s/s out %5s/s in   %s   acknowledgments %s/s", Short(s.FramesSent),
			Short(s.FramesReceived), trains(s.PacketsPerFrame), Short(s.Acknowledgments)),
		fmt.Sprintf("retries    %5s/s frames, %s/s timeouts   returned %s/s, peers lost %s/s", Short(s.Retransmitted),
			Short(s.Timeouts), Short(s.Returned), Short(s.PeersLost)),
		"rejected   " + r.rejected(),
		"round trip " + r.trips(),
		fmt.Sprintf("memory     %sB shared, %s   connections %d, jobs %d, contexts %d", Short(float64(r.SharedBytes)),
			r.memory(), r.Connections, len(r.Jobs), r.attached()),
	}
	if d := r.Direct; d != nil {
		lines = append(lines,
			fmt.Sprintf("direct     %5s/s out %5s/s in   here %s/s, dropped %s/s, refused %s/s   ports %d",
				Short(d.Sent), Short(d.Received), Short(d.Local), Short(d.Dropped), Short(d.Refused), d.Ports))
	}
	for _, l := range r.Interfaces {
		text := fmt.Sprintf("interface  %s: %s, XDP %s, %s, MTU %d", clean(l.Interface), l.State, clean(l.XDPMode),
			clean(l.BindMode), l.MTU)
		if l.Reopened > 0 {
			text += fmt.Sprintf(", opened again %d times", l.Reopened)
		}
		if l.Why != "" {
			text += ": " + clean(l.Why)
		}
		lines = append(lines, text)
	}
	return lines
}

func trains(packets float64) string {
	if packets == 0 {
		return "no packets"
	}
	return fmt.Sprintf("%.1f packets a frame", packets)
}

// rejected returns the sums of rejections, and the most frequent reason now.
func (r *Report) rejected() string {
	var here, there, most float64
	why := ""
	for _, j := range r.Rejections {
		here += j.ByCard
		there += j.ByPeers
		if n := max(j.ByCard, j.ByPeers); n > most {
			most, why = n, "   most: "+clean(j.Reason)
		}
	}
	return fmt.Sprintf("%5s/s here, %s/s by peers%s", Short(here), Short(there), why)
}

func (r *Report) trips() string {
	p := &r.Peers
	if p.Measured == 0 {
		return fmt.Sprintf("of no peer yet; %d of %d greeted", p.Established, p.Known)
	}
	return fmt.Sprintf("median %s, p99 %s, longest %s; %d of %d peers greeted", Time(p.Median), Time(p.P99),
		Time(p.Longest), p.Established, p.Known)
}

func (r *Report) memory() string {
	if r.Locked {
		return clean(r.Memory) + ", locked"
	}
	return clean(r.Memory) + ", not all locked"
}

func (r *Report) table(t Table, o Order, name func(uint32) string) []string {
	cs := columns[t]
	mark := func(i int) string {
		if i == o.Column {
			return "*" + cs[i].title
		}
		return cs[i].title
	}
	wide := make([]column, len(cs)) // with room for the mark
	copy(wide, cs)
	if c := &wide[o.Column]; utf8.RuneCountInString(c.title) == max(c.width, -c.width) {
		if c.width++; c.width <= 0 {
			c.width -= 2
		}
	}
	lines := []string{line(wide, mark)}
	for _, row := range r.rows(t, o, name) {
		lines = append(lines, line(wide, func(i int) string { return row[i].text }))
	}
	if len(lines) == 1 {
		lines = append(lines, "no "+t.Name())
	}
	return lines
}

// WriteTable writes all rows of all tables, for a reader without a screen.
func (r *Report) WriteTable(w io.Writer, name func(uint32) string) error {
	if r.Error != "" {
		_, err := fmt.Fprintln(w, clean(r.Error))
		return err
	}
	lines := r.head()
	for t := range Tables {
		lines = append(append(lines, ""), r.table(t, t.Usual(), name)...)
	}
	if r.LeftOut > 0 {
		lines = append(lines, "", fmt.Sprintf("and %d jobs, contexts and peers more", r.LeftOut))
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

type view struct {
	report *Report // nil: none has come yet
	notice string  // a fault; "": none
	table  Table
	order  [Tables]Order
	from   int // first row of the table
	name   func(uint32) string
}

const keys = "j jobs  c contexts  p peers  x rejections  <> column  r reverse  q quit"

// wrapped bounds the lines of a notice.
const wrapped = 3

// wrap breaks a text between words into lines. The last line has the whole rest.
func wrap(text string, wide int) (lines []string) {
	words := strings.Fields(text)
	for len(words) > 0 {
		l := words[0]
		words = words[1:]
		for len(words) > 0 && (len(lines) == wrapped-1 || utf8.RuneCountInString(l)+
			1+utf8.RuneCountInString(words[0]) <= wide) {
			l += " " + words[0]
			words = words[1:]
		}
		lines = append(lines, l)
	}
	return lines
}

// lines returns at most high lines, each at most wide characters. title is the number of the line
// with the titles, or -1.
func (v *view) lines(wide, high int) (lines []string, title int) {
	title = -1
	notice := v.notice
	if v.report == nil {
		lines = []string{"asking funid"}
	} else {
		lines = v.report.head()
		if v.report.Restarted && notice == "" {
			notice = "funid has begun anew, or its card has: all is counted from 0"
		}
	}
	if notice != "" {
		lines = append(wrap(clean(notice), wide), lines[1:]...)
	}
	if v.report != nil {
		table := v.report.table(v.table, v.order[v.table], v.name)
		// On a low terminal the table has at least a title and three rows, if there are as many
		// lines at all.
		room := max(high-len(lines)-2, 4)
		if keep := max(high-2-room, 1); len(lines) > keep {
			lines = lines[:keep]
		}
		if len(lines)+4 < high {
			lines = append(lines, "")
			room = high - len(lines) - 1
		}
		title = len(lines)
		rows := table[1:]
		rows = rows[min(v.from, max(len(rows)-1, 0)):]
		lines = append(lines, table[0])
		if left := len(rows) - (room - 1); left > 0 && room > 2 {
			rows = append(rows[:room-2:room-2], fmt.Sprintf("(%d more: down)", left+1))
		}
		lines = append(lines, rows...)
	}
	if len(lines) >= high {
		lines = lines[:max(high-1, 0)]
	}
	if title >= len(lines) {
		title = -1
	}
	for len(lines) < high-1 {
		lines = append(lines, "")
	}
	lines = append(lines, keys)
	if len(lines) > high {
		lines = lines[:high]
	}
	for i, l := range lines {
		if utf8.RuneCountInString(l) > wide {
			lines[i] = string([]rune(l)[:max(wide-1, 0)]) + "…"
		}
	}
	return lines, title
}
