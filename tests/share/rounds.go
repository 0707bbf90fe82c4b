package main

// This file is the order of a run: when the victim is measured, and beside which processes.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// settle is how long an attack goes on before the victim is measured: queues fill, and retries
// grow.
const settle = 200 * time.Millisecond

// run is the state of a run.
type run struct {
	*options
	bed    *bed
	asker  *process
	report *report
	groups []*group
	pairs  []*process // of these groups
	quiet  float64    // of the last window
}

// end ends the victim.
func (r *run) end() {
	killAll(r.pairs)
	for _, g := range r.groups {
		g.end()
	}
}

// measure starts the lab, measures, and ends the lab.
func measure(ctx context.Context, o *options) (_ *report, err error) {
	b, err := newBed(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r := &run{options: o, bed: b, report: newReport(o)}
	defer r.end()
	r.asker, err = r.pair(ctx, false)
	if err == nil && o.Gangs {
		_, err = r.pair(ctx, true)
	}
	if err == nil && o.Gangs {
		err = b.together(ctx)
	}
	if err != nil {
		return nil, err
	}
	for host := range b.sockets {
		n, err := b.connections(host)
		if err != nil {
			return nil, err
		}
		b.quiet = append(b.quiet, n)
	}
	if _, _, err := r.window(ctx, b.nobody); err != nil { // what is allocated once, and caches
		return nil, err
	}
	begin := time.Now()
	for n := range o.Rounds {
		if err := r.round(ctx); err != nil {
			return nil, fmt.Errorf("round %d: %w", n+1, err)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d after %.0f s\n", n+1, o.Rounds, time.Since(begin).Seconds())
	}
	return r.report.finish(), nil
}

// pair makes a group, and starts its two processes on the victim's hosts. It returns the one that
// measures when it is told to; with always that one exchanges without end.
func (r *run) pair(ctx context.Context, always bool) (asker *process, err error) {
	var cards []uint16
	for _, host := range r.bed.victims {
		cards = append(cards, uint16(host))
	}
	g, err := r.bed.found(cards, r.direct())
	if err != nil {
		return nil, err
	}
	r.groups = append(r.groups, g)
	config := victimConfig{GID: g.GID, Token: g.Token, Always: always}
	if r.Card == cardOFI {
		config.Ranks = r.bed.ranks.Path()
	}
	for node, host := range r.bed.victims {
		config.Node, config.Socket = uint16(node), r.bed.sockets[node]
		p, err := start(r.bed.lab, host, "victim", roleVictim, victimUser, r.ownSession(), config)
		if err != nil {
			return nil, err
		}
		r.pairs = append(r.pairs, p)
		if _, err := p.Next(ctx, "ready", patience); err != nil {
			return nil, err
		}
		if node == 0 {
			asker = p
		}
	}
	return asker, nil
}

// round measures the victim once alone, and once beside each of the others.
func (r *run) round(ctx context.Context) error {
	alone, _, err := r.window(ctx, r.bed.nobody)
	if err != nil {
		return fmt.Errorf("alone: %w", err)
	}
	r.report.alone = append(r.report.alone, alone)
	before, _, err := r.window(ctx, r.bed.burners)
	if err != nil {
		return fmt.Errorf("beside computing processes: %w", err)
	}
	r.report.burner = append(r.report.burner, before)
	for i, a := range r.attacks {
		if why := r.report.Attacks[i].NotMeasured; why != "" {
			fmt.Fprintf(os.Stderr, "%-20s not measured: %s\n", a.Name, why)
			continue
		}
		beside, did, err := r.window(ctx, r.bed.attackers(a))
		if err != nil {
			return fmt.Errorf("beside %s: %w", a.Name, err)
		}
		after, _, err := r.window(ctx, r.bed.burners)
		if err != nil {
			return fmt.Errorf("beside computing processes: %w", err)
		}
		r.report.burner = append(r.report.burner, after)
		r.report.add(i, before, beside, after, did)
		fmt.Fprintf(os.Stderr,
			"%-20s %7.0f exchanges/s, %6.0f beside computing processes; p50 %6.0f us, p99 %7.0f us beside %5.0f us; longest %.0f ms, returned %d; %.0f attacks/s\n", a.Name,
			beside.Rate, (before.Rate+after.Rate)/2, beside.P50, beside.P99, (before.P99+after.P99)/2,
			beside.Longest/1000, beside.Returned, did)
		before = after
	}
	return r.controlRound(ctx)
}

// window measures the victim beside a company. did is the rate of the attack, in attacks a second.
func (r *run) window(ctx context.Context, with beside) (w window, did float64, err error) {
	text, did, err := r.tellWindow(ctx, with)
	if err == nil {
		err = json.Unmarshal([]byte(text), &w)
	}
	w.Quiet = r.quiet
	return w, did, err
}

// tellWindow has the asker measure beside a company, and returns its report as text.
func (r *run) tellWindow(ctx context.Context, with beside) (text string, did float64, err error) {
	c, err := with(ctx)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, c.end(ctx)) }()
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return "", 0, context.Cause(ctx)
	}
	begin, done := time.Now(), c.did()
	worked, err := r.bed.worked()
	if err != nil {
		return "", 0, err
	}
	fmt.Fprintf(r.asker.In, "window %d\n", r.Window)
	text, err = r.asker.Next(ctx, "window", r.Window+2*patience)
	if err != nil {
		return "", 0, err
	}
	took := time.Since(begin).Seconds()
	did = float64(c.did()-done) / took
	until, err := r.bed.worked()
	if err != nil {
		return "", 0, err
	}
	r.quiet = (until - worked) / took
	if err := c.alive(); err != nil {
		return "", 0, err
	}
	return text, did, nil
}
