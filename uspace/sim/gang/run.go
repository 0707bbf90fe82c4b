package gang

// This file is the cases that are measured.

import (
	"context"
	"fmt"
	"time"
)

// MinHosts and MaxHosts bound the hosts of a run.
const (
	MinHosts = 2
	MaxHosts = 16
)

const (
	// jobs is how many jobs share the hosts of a case.
	jobs = 2
	// meet is how long clocks have to meet. A card that lies leads no more after lied.
	meet, lied = 5 * time.Second, 40 * time.Second
	// gone is how long it takes to notice that a card is silent. It still counts until then.
	gone = 2700 * time.Millisecond
	// warm is how long jobs go on before they are measured, and measured how long that takes.
	warm, measured = 200 * time.Millisecond, 400 * time.Millisecond
)

// Options are those of Run.
type Options struct {
	Hosts int // MinHosts to MaxHosts
	Seed  uint64
}

// Result is what Run has measured, in virtual time.
type Result struct {
	Hosts int    `json:"hosts"`
	Seed  uint64 `json:"seed"`
	Jobs  int    `json:"jobs"`        // of each case
	Room  int    `json:"room_groups"` // of each card
	// Alone is what a job does without another one.
	Alone float64 `json:"alone_rounds_per_s"`
	Cases []Case  `json:"cases"`
}

// Case is what jobs do beside each other.
type Case struct {
	Name   string    `json:"name"`
	Does   string    `json:"does"`
	Rounds []float64 `json:"rounds_per_s"` // by job
	// Share is the rounds of each job by its part of what one has alone.
	Share []float64 `json:"share_ratio"`
}

// cases lists them.
var cases = []struct {
	name, does string
	config     Config
	prepare    func(context.Context, *Gang) error
}{
	{"alone", "each host takes its turns alone", Config{}, nil},
	{"together", "hosts take turns together", Config{Together: true}, nil},
	{"gone", "together, after the first card's clock fell silent", Config{Together: true},
		func(ctx context.Context, g *Gang) error { g.Die(0); return g.Pass(ctx, gone) }},
	{"liar", "together, while a card tells each host another time", Config{Together: true, Liar: true},
		func(ctx context.Context, g *Gang) error { return g.Pass(ctx, lied) }},
}

// Run measures a job alone, and two in each of the cases.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Hosts < MinHosts || o.Hosts > MaxHosts {
		return nil, fmt.Errorf("gangs on %d hosts: use %d to %d", o.Hosts, MinHosts, MaxHosts)
	}
	r := &Result{Hosts: o.Hosts, Seed: o.Seed, Jobs: jobs, Room: 1}
	alone, err := o.measure(ctx, Config{}, 1, nil)
	if err != nil {
		return nil, err
	}
	r.Alone = alone[0]
	for _, c := range cases {
		rounds, err := o.measure(ctx, c.config, jobs, c.prepare)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.does, err)
		}
		x := Case{Name: c.name, Does: c.does, Rounds: rounds}
		for _, n := range rounds {
			x.Share = append(x.Share, n/(r.Alone/jobs))
		}
		r.Cases = append(r.Cases, x)
	}
	return r, nil
}

// measure returns the rounds a second of jobs on all hosts.
func (o Options) measure(ctx context.Context, c Config, jobs int, prepare func(context.Context, *Gang) error,
) (rounds []float64, err error) {
	c.Hosts, c.Seed = o.Hosts, o.Seed
	g, err := New(c)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if c.Together {
		err = g.Pass(ctx, meet)
	}
	if err == nil && prepare != nil {
		err = prepare(ctx, g)
	}
	var all []int
	for i := range o.Hosts {
		all = append(all, i)
	}
	for range jobs {
		if err == nil {
			err = g.Start(all...)
		}
	}
	if err == nil {
		err = g.Pass(ctx, warm)
	}
	if err != nil {
		return nil, err
	}
	return g.Rates(ctx, measured)
}
