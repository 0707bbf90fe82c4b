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
	Room  int    `json:"room_groups"` // of each card
	// Alone is what a job on all hosts does without another one, and AlonePair one on two hosts.
	Alone     float64 `json:"alone_rounds_per_s"`
	AlonePair float64 `json:"alone_pair_rounds_per_s"`
	Cases     []Case  `json:"cases"`
}

// Case is what jobs do beside each other.
type Case struct {
	Name   string    `json:"name"`
	Does   string    `json:"does"`
	Nodes  []int     `json:"nodes"`        // of each job, one a host
	Rounds []float64 `json:"rounds_per_s"` // by job
	// Share is the rounds of each job by half of what it has alone: two jobs share each host.
	Share []float64 `json:"share_ratio"`
}

// cases lists them.
var cases = []struct {
	name, does string
	config     Config
	pairs      bool // beside one job on all hosts there is one on each two of them
	prepare    func(context.Context, *Gang) error
}{
	{"alone", "each host takes its turns alone", Config{}, false, nil},
	{"together", "hosts take turns together", Config{Together: true}, false, nil},
	{"gone", "together, after the first card's clock fell silent", Config{Together: true}, false,
		func(ctx context.Context, g *Gang) error { g.Die(0); return g.Pass(ctx, gone) }},
	{"liar", "together, while a card tells each host another time", Config{Together: true, Liar: true}, false,
		func(ctx context.Context, g *Gang) error { return g.Pass(ctx, lied) }},
	{"wide", "together, a job on all hosts beside one on each two", Config{Together: true}, true, nil},
}

// Run measures a job alone, and two in each of the cases.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Hosts < MinHosts || o.Hosts > MaxHosts {
		return nil, fmt.Errorf("gangs on %d hosts: use %d to %d", o.Hosts, MinHosts, MaxHosts)
	}
	r := &Result{Hosts: o.Hosts, Seed: o.Seed, Room: 1}
	all := upTo(0, o.Hosts)
	var halves [][]int
	for i := 0; i+1 < o.Hosts; i += 2 {
		halves = append(halves, upTo(i, i+2))
	}
	alone := func(of []int) (float64, error) {
		rates, err := o.measure(ctx, Config{}, [][]int{of}, nil)
		if err != nil {
			return 0, err
		}
		return rates[0], nil
	}
	var err error
	if r.Alone, err = alone(all); err == nil {
		r.AlonePair, err = alone(halves[0])
	}
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		jobs := [][]int{all, all}
		if c.pairs {
			jobs = append(jobs[:1], halves...)
		}
		rounds, err := o.measure(ctx, c.config, jobs, c.prepare)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.does, err)
		}
		x := Case{Name: c.name, Does: c.does, Rounds: rounds}
		for i, n := range rounds {
			alone := r.Alone
			if i > 0 && c.pairs {
				alone = r.AlonePair
			}
			x.Nodes, x.Share = append(x.Nodes, len(jobs[i])), append(x.Share, 2*n/alone)
		}
		r.Cases = append(r.Cases, x)
	}
	return r, nil
}

// upTo returns the hosts from one up to another.
func upTo(from, to int) (all []int) {
	for ; from < to; from++ {
		all = append(all, from)
	}
	return all
}

// measure returns the rounds a second of jobs, by the hosts of each.
func (o Options) measure(ctx context.Context, c Config, jobs [][]int, prepare func(context.Context, *Gang) error,
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
	for _, on := range jobs {
		if err == nil {
			err = g.Start(on...)
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
