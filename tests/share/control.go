package main

// This file measures requests at a daemon's socket: how long a user waits for a job with an
// attachment and a segment. It measures this alone, beside each attack on requests, and beside
// connections without end. The asker is a process of the victim on host 0. After each answer it
// rests, then asks again.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/tests/attack"
	"github.com/funet/funet/tests/client"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

const (
	roleAsker = "asker"
	// askEvery is how long the asker rests between two jobs.
	askEvery = 5 * time.Millisecond
	// askedSegment is the length of the asker's segment in bytes.
	askedSegment = 64 << 10
	// These are the largest times, in milliseconds, that the asker's requests may take (p50):
	// beside attacks on requests, and beside connections.
	mostRequestP50    = 10
	mostConnectionP50 = 30
)

// asking is the asker's report of one measurement window, in milliseconds.
type asking struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// controlReport is how long the asker's requests take beside an attack: medians over the rounds.
type controlReport struct {
	Name string `json:"name"`
	Does string `json:"does"`
	asking
	MostP50 float64 `json:"most_p50_ms"` // the limit of P50, for Met
	Met     bool    `json:"met"`
	Did     float64 `json:"did_per_s"` // attacks a second

	windows []asking
	did     []float64
}

// controlled returns the attacks beside which requests are measured.
func controlled() []attack.Attack {
	all := attack.Requests()
	i := slices.IndexFunc(attack.Attacks(), func(a attack.Attack) bool { return a.Name == "connections" })
	return append(all, attack.Attacks()[i])
}

// controlRound measures requests once alone, and once beside each of the chosen attacks.
func (r *run) controlRound(ctx context.Context) error {
	if len(r.control) == 0 {
		return nil
	}
	p, err := start(r.bed.lab, 0, "asker", roleAsker, victimUser, false, victimConfig{Socket: r.bed.sockets[0]})
	if err != nil {
		return err
	}
	defer p.kill()
	if _, err := p.Next(ctx, "ready", patience); err != nil {
		return err
	}
	asker := r.asker
	r.asker = p
	defer func() { r.asker = asker }()
	text, _, err := r.tellWindow(ctx, r.bed.nobody)
	if err != nil {
		return fmt.Errorf("requests alone: %w", err)
	}
	var alone asking
	if err := json.Unmarshal([]byte(text), &alone); err != nil {
		return err
	}
	r.report.controlAlone = append(r.report.controlAlone, alone)
	for i, a := range r.control {
		text, did, err := r.tellWindow(ctx, r.bed.attackers(a))
		if err != nil {
			return fmt.Errorf("requests beside %s: %w", a.Name, err)
		}
		var w asking
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			return err
		}
		c := r.report.Control[i]
		c.windows, c.did = append(c.windows, w), append(c.did, did)
		fmt.Fprintf(os.Stderr,
			"%-20s job, attachment and segment take %.1f ms (p50), %.1f ms (p99), alone %.1f ms and %.1f ms; %.0f attacks/s\n", a.Name, w.P50, w.P99, alone.P50, alone.P99, did)
	}
	return nil
}

// finishControl computes the medians, and judges them.
func (r *report) finishControl() {
	r.ControlAlone = summaryOfAsking(r.controlAlone)
	for _, c := range r.Control {
		c.asking, c.Did = summaryOfAsking(c.windows), median(c.did)
		c.Met = c.P50 <= c.MostP50 && c.Did > 0
		r.Met = r.Met && c.Met
	}
}

func summaryOfAsking(all []asking) asking {
	var p50, p99 []float64
	for _, w := range all {
		p50, p99 = append(p50, w.P50), append(p99, w.P99)
	}
	if len(p50) == 0 {
		return asking{}
	}
	return asking{P50: median(p50), P99: median(p99)}
}

// newControl makes the reports of attacks.
func newControl(attacks []attack.Attack) (all []*controlReport) {
	for _, a := range attacks {
		most := float64(mostRequestP50)
		if a.Name == "connections" {
			most = mostConnectionP50
		}
		all = append(all, &controlReport{Name: a.Name, Does: a.Does, MostP50: most})
	}
	return all
}

// ask runs the asker's role until standard input ends.
func ask(c victimConfig) error {
	fmt.Println("ready")
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		var d time.Duration
		if _, err := fmt.Sscanf(s.Text(), "window %d", &d); err != nil {
			return fmt.Errorf("told %.40q: %w", s.Text(), err)
		}
		times := hdrhistogram.New(1, slowest.Nanoseconds(), 3)
		for end := time.Now().Add(d); time.Now().Before(end) || times.TotalCount() == 0; time.Sleep(askEvery) {
			took, err := askOnce(c.Socket)
			if err != nil {
				return err
			}
			_ = times.RecordValue(min(took, slowest).Nanoseconds()) // within what the histogram has
		}
		millis := func(q float64) float64 { return digits(float64(times.ValueAtQuantile(q)) / 1e6) }
		text, err := json.Marshal(asking{P50: millis(50), P99: millis(99)})
		if err != nil {
			return err
		}
		fmt.Printf("window %s\n", text)
	}
	return nil
}

// askOnce makes a job, a context and a segment, returns how long that took, and ends them.
func askOnce(socket string) (took time.Duration, err error) {
	begin := time.Now()
	job, err := client.Dial(socket)
	if err != nil {
		return 0, err
	}
	defer job.Close()
	token := attach.NewToken()
	gid, err := job.Job(attach.JobRequest{Token: token, Cards: []uint16{0}})
	if err != nil {
		return 0, err
	}
	k, err := client.Dial(socket)
	if err != nil {
		return 0, err
	}
	defer k.Close()
	if err := k.Attach(attach.AttachRequest{GID: gid, Slots: 64, Token: token}); err != nil {
		return 0, err
	}
	if _, err := k.Segment(attach.SegmentRequest{Base: 4096, Bytes: askedSegment, Rights: funi.Source}); err != nil {
		return 0, err
	}
	return time.Since(begin), nil
}
