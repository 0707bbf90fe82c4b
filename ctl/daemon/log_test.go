package daemon_test

// This file tests the daemon's log.

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/attach"
)

// kept is a writer for several goroutines that keeps what was written.
type kept struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (k *kept) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.Write(b)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.String()
}

// Rule: a line is one line: the sentence as it is and then the fields. For journald it has a syslog
// level in front and no time, for others the time. Text that it names cannot make it two lines, nor
// command a terminal (NewLog).
func TestLogLines(t *testing.T) {
	for _, c := range []struct {
		format   config.LogFormat
		level    config.LogLevel
		journald bool
		want     string
	}{
		{config.LogText, config.LogInfo, true,
			`^<6>funid: interface eth1 is up interface=eth1\n<4>funid: it  \[31m says why="two words" n=3 g\.a=1\n$`},
		{config.LogText, config.LogInfo, false,
			`^\d{4}-\d\d-\d\dT\S+ funid: interface eth1 is up interface=eth1\n\d{4}-\S+ funid: it .* g\.a=1\n$`},
		{config.LogText, config.LogError, true, `^$`},
		{config.LogText, config.LogDebug, true, `^<7>funid: small\n<6>(?s:.*)$`},
		{config.LogJSON, config.LogWarn, true,
			`^\{"time":"[^"]*","level":"WARN","msg":"it\\n\\u001b\[31m says","why":"two words","n":3,"g":\{"a":1\}\}\n$`},
	} {
		var k kept
		l := daemon.NewLog(&k, c.format, c.level, c.journald)
		l.Debug("small")
		l.Info("interface eth1 is up", "interface", "eth1")
		l.With("why", "two words").With("n", 3).WithGroup("g").Warn("it\n\x1b[31m says", "a", 1)
		if !regexp.MustCompile(c.want).MatchString(k.String()) {
			t.Errorf("%v %v %v: %q, want %s", c.format, c.level, c.journald, k.String(), c.want)
		}
	}
}

// Rule: interfaces are logged with their field; jobs, contexts and refusals at level debug, with
// job, user and process; who takes sentences alone gets those from info on (log.go).
func TestLogFields(t *testing.T) {
	b := newBed(t)
	var k kept
	var alone logged
	daemons := []*running{b.start(0, func(c *daemon.Config) {
		c.Logger = daemon.NewLog(&k, config.LogJSON, config.LogDebug, false)
	}),
		b.start(1, func(c *daemon.Config) { c.Log = alone.add })}
	owners, nodes := group(t, daemons, 0, 1)
	gid := nodes[0].Answer.GID
	_, err := dialIn(t, daemons[0].socket, bob, bob).Job(attach.JobRequest{GID: gid, Token: attach.NewToken(),
		Cards: []uint16{0}})
	if !errors.Is(err, attach.ErrTaken) {
		t.Fatal(err)
	}
	for _, c := range append(owners, nodes...) {
		c.Close()
	}
	until(t, "the end is logged", func() bool { return strings.Contains(k.String(), "has ended") })
	want := map[string]map[string]float64{"is there, of 2 nodes": {"job": float64(gid), "user": 0},
		"has context": {"job": float64(gid), "node": 0, "user": 0}, "refused: ": {"user": bob},
		"has ended": {"job": float64(gid)}}
	interfaces := 0
	for _, line := range strings.Split(strings.TrimSpace(k.String()), "\n") {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if v["interface"] != nil && v["level"] == slog.LevelInfo.String() {
			interfaces++
		}
		for part, fields := range want {
			if !strings.Contains(v["msg"].(string), part) {
				continue
			}
			for name, value := range fields {
				if v[name] != value || v["process"] == nil || v["level"] != slog.LevelDebug.String() {
					t.Errorf("%s: want %s %v", line, name, value)
				}
			}
			delete(want, part)
		}
	}
	if len(want) != 0 || interfaces == 0 {
		t.Errorf("%v, and %d lines about interfaces, in %s", want, interfaces, k.String())
	}
	if !alone.has("interface ", " has ") || alone.has("job ") {
		t.Errorf("%q", alone.text())
	}
}

// Rule: formats and levels are those that there are; the file's keys are taken, and other words
// refused with their line.
func TestLogIsConfigured(t *testing.T) {
	c, _, err := config.Parse("f", []byte("log_format: json\nlog_level: debug\n"))
	if err != nil || c.LogFormat != config.LogJSON || c.LogLevel != config.LogDebug {
		t.Errorf("%v %v: %v", c.LogFormat, c.LogLevel, err)
	}
	if c, _, err = config.Parse("f", nil); err != nil || c.LogFormat != config.LogText || c.LogLevel != config.LogInfo {
		t.Errorf("%v %v: %v", c.LogFormat, c.LogLevel, err)
	}
	for _, text := range []string{"card: 0\nlog_format: xml\n", "card: 0\nlog_level: loud\n"} {
		if _, _, err := config.Parse("f", []byte(text)); !errors.Is(err, config.ErrConfig) ||
			!strings.HasPrefix(err.Error(), "f:2:") {
			t.Errorf("%v", err)
		}
	}
	if _, err := config.ParseLogFormat("xml"); err == nil || err.Error() != `log-format "xml": use text, json` {
		t.Errorf("%v", err)
	}
	if _, err := config.ParseLogLevel("loud"); err == nil ||
		err.Error() != `log-level "loud": use debug, info, warn, error` {
		t.Errorf("%v", err)
	}
}
