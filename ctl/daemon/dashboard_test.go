package daemon_test

// This file tests that the dashboard asks for metrics that there are.

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/funet/funet/ctl/daemon"
)

// dashboard has the fields of a dashboard that the test reads.
type dashboard struct {
	Panels []struct {
		Type, Title string
		Targets     []struct{ Expr string }
		GridPos     struct{ X, Y, W, H int }
	}
	Templating struct {
		List []struct {
			Name  string
			Query any
		}
	}
}

// Rule: every query of the dashboard is of a metric and of labels that a daemon serves, counters
// under rate and gauges not, and the panels do not cover each other (Dashboard).
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	b := newBed(t)
	path := filepath.Join(b.dir, "metrics.sock")
	b.start(0, func(c *daemon.Config) { c.Metrics = "unix:" + path })
	client := http.Client{Timeout: patience,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
	defer client.CloseIdleConnections()
	r, err := client.Get("http://funid/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)

	var d dashboard
	if err := json.Unmarshal([]byte(daemon.Dashboard), &d); err != nil {
		t.Fatal(err)
	}
	metric := regexp.MustCompile(`(\w+\()?(funid_\w+)(\{[^}]*\})?`)
	label := regexp.MustCompile(`(\w+)=~?"`)
	queries := 0
	covered := map[[2]int]string{}
	for _, p := range d.Panels {
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if covered[at] != "" || at[0] >= 24 {
					t.Errorf("panel %q covers %q, or lies outside", p.Title, covered[at])
				}
				covered[at] = p.Title
			}
		}
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, q := range p.Targets {
			found := metric.FindAllStringSubmatch(q.Expr, -1)
			if len(found) == 0 || strings.Count(q.Expr, "(") != strings.Count(q.Expr, ")") {
				t.Errorf("panel %q: %s", p.Title, q.Expr)
			}
			for _, m := range found {
				queries++
				f := families[m[2]]
				for _, part := range []string{"_bucket", "_sum", "_count"} { // of a histogram
					if h := families[strings.TrimSuffix(m[2], part)]; f == nil && h.GetType().String() == "HISTOGRAM" {
						f = h
					}
				}
				if f == nil {
					t.Errorf("panel %q: there is no metric %s", p.Title, m[2])
					continue
				}
				if counted, rated := f.GetType().String() == "COUNTER" || f.GetType().String() == "HISTOGRAM",
					m[1] == "rate(" || m[1] == "increase("; counted != rated {
					t.Errorf("panel %q: %s is a %v", p.Title, q.Expr, f.GetType())
				}
				for _, l := range label.FindAllStringSubmatch(m[3], -1) {
					served := l[1] == "instance" || l[1] == "job" // Prometheus adds these
					for _, have := range f.GetMetric()[0].GetLabel() {
						served = served || have.GetName() == l[1]
					}
					if !served {
						t.Errorf("panel %q: %s has no label %s", p.Title, m[2], l[1])
					}
				}
			}
		}
	}
	if queries < 20 {
		t.Errorf("%d queries were looked at", queries)
	}
	if families["funid_info"] == nil || !strings.Contains(daemon.Dashboard, "label_values(funid_info, instance)") {
		t.Error("the hosts are asked of a metric that is not there")
	}
}
