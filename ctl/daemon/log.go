package daemon

// This file is the daemon's log (log/slog). Each line is a sentence, and fields name its subject:
// interface, card, job (a GID), node, user (a number) and process.
//
//	error  a failure that ends the daemon
//	warn   a problem, and what mends it
//	info   a change: of interfaces, of peers
//	debug  jobs and contexts that begin and end, at most userLines at once, and one more each
//	       userLineEvery: users make them as fast as they like

import (
	"bytes"
	"context"
	"fmt"
	"github.com/funet/funet/ctl/config"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
)

// NewLog makes a log. journald says that journald reads the log.
func NewLog(w io.Writer, format config.LogFormat, level config.LogLevel, journald bool) *slog.Logger {
	if format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.Level(level)}))
	}
	return slog.New(&textLog{w: w, level: slog.Level(level), journald: journald, mu: new(sync.Mutex)})
}

// textLog is a handler that writes "funid: ", the sentence, and then the fields. Lines for journald
// have their syslog level in front, others the time.
type textLog struct {
	w        io.Writer
	level    slog.Level
	journald bool
	fields   string // of WithAttrs
	group    string // of WithGroup, with a point
	mu       *sync.Mutex
}

func (h *textLog) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *textLog) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	if h.journald {
		fmt.Fprintf(&b, "<%d>", syslogLevel(r.Level))
	} else {
		b.WriteString(r.Time.Format(time.RFC3339) + " ")
	}
	b.WriteString("funid: " + oneLine(r.Message) + h.fields)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(logField(h.group, a))
		return true
	})
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.w.Write(b.Bytes())
	return err
}

func (h *textLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	for _, a := range attrs {
		with.fields += logField(h.group, a)
	}
	return &with
}

func (h *textLog) WithGroup(name string) slog.Handler {
	with := *h
	with.group += name + "."
	return &with
}

// logField writes a field. A value with spaces or unprintable characters is written in Go syntax.
func logField(group string, a slog.Attr) string {
	v := a.Value.Resolve().String()
	if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || r == 0x7f }) {
		v = fmt.Sprintf("%q", v)
	}
	return " " + group + a.Key + "=" + v
}

// oneLine makes a sentence that contains foreign text a single line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) { // nor what a terminal would obey
			return ' '
		}
		return r
	}, s)
}

// syslogLevel returns the level of syslog(3).
func syslogLevel(l slog.Level) int {
	switch {
	case l >= slog.LevelError:
		return 3
	case l >= slog.LevelWarn:
		return 4
	case l >= slog.LevelInfo:
		return 6
	}
	return 7
}

type sentences struct{ take func(string) }

func (h sentences) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h sentences) Handle(_ context.Context, r slog.Record) error {
	h.take(r.Message)
	return nil
}

func (h sentences) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h sentences) WithGroup(string) slog.Handler      { return h }

// completeLog derives Logger from Log, or Log from Logger. Without either it discards lines.
func (c *Config) completeLog() {
	switch {
	case c.Logger != nil && c.Log == nil:
		l := c.Logger
		c.Log = func(line string) { l.Info(line) }
	case c.Logger == nil && c.Log != nil:
		c.Logger = slog.New(sentences{c.Log})
	case c.Logger == nil:
		c.Logger = slog.New(slog.DiscardHandler)
		c.Log = func(string) {}
	}
}

const (
	// userLines is how many lines about users may be written at once. One more may be written each
	// userLineEvery.
	userLines     = 100
	userLineEvery = 50 * time.Millisecond
)

// lineLimit bounds the lines that users can cause: lines at once, and one more each every.
type lineLimit struct {
	lines int
	every time.Duration
	mu    sync.Mutex
	paid  time.Time // time until which lines are paid for
	left  int       // lines left out since the last one written
}

// may reports whether one more line may be written, and how many were left out before it.
func (u *lineLimit) may(now time.Time) (ok bool, before int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if most := time.Duration(u.lines) * u.every; u.paid.Before(now.Add(-most)) {
		u.paid = now.Add(-most)
	}
	if u.paid.Add(u.every).After(now) {
		u.left++
		return false, 0
	}
	u.paid = u.paid.Add(u.every)
	before, u.left = u.left, 0
	return true, before
}

// userLine writes a line about what a user's process did, at level debug.
func (d *Daemon) userLine(p *peer, line string, fields ...any) {
	if !d.cfg.Logger.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	ok, before := d.userLog.may(time.Now())
	if !ok {
		return
	}
	if before > 0 {
		d.cfg.Logger.Debug(fmt.Sprintf("%d lines about users were left out", before))
	}
	d.cfg.Logger.Debug(line, append(fields, "user", p.uid, "process", p.pid)...)
}
