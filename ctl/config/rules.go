package config

// This file is what users may use, and the defaults of that.

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/cluster"
)

// Defaults of a rule.
const (
	DefaultContexts    = 64
	DefaultJobs        = 64
	DefaultConnections = 256
	DefaultBytes       = 256 << 20
	// DefaultTotal is the ratio of the limit of all users of a rule that names groups to the limit
	// of one of them.
	DefaultTotal = 16
)

// Who names users and groups, by number.
type Who struct{ Users, Groups []uint32 }

// Rule limits what users may use. Zeros stand for the defaults.
type Rule struct {
	Who  // empty: every user
	GIDs []Range
	// What each user may use, subordinate numbers included.
	Contexts    int
	Jobs        int
	Connections int
	Bytes       int64 // of contexts and segments
	// Total limits the use of all these users together. The default is DefaultTotal times the limit
	// of one user for a rule that names groups, and no limit for other rules.
	Total Amounts
}

// Amounts are limits of use.
type Amounts struct {
	Contexts, Jobs, Connections int
	Bytes                       int64 // of contexts and segments
}

// Each returns the limits of one user.
func (r *Rule) Each() Amounts { return Amounts{r.Contexts, r.Jobs, r.Connections, r.Bytes} }

// Allows reports whether the rule includes the GID.
func (r *Rule) Allows(gid uint16) bool {
	return slices.ContainsFunc(r.GIDs, func(g Range) bool { return g.First <= gid && gid <= g.Last })
}

// Range is a range of GIDs, both ends included.
type Range = cluster.Range

// DefaultRule is the rule of a configuration without rules.
func DefaultRule() Rule {
	return Rule{GIDs: []Range{{First: 1, Last: arctic.MaxGID}}, Contexts: DefaultContexts, Jobs: DefaultJobs,
		Connections: DefaultConnections, Bytes: DefaultBytes}
}

// Complete fills in defaults.
func (r *Rule) Complete() error {
	d := DefaultRule()
	if len(r.GIDs) == 0 {
		r.GIDs = d.GIDs
	}
	for _, g := range r.GIDs {
		if g.First < 1 || g.First > g.Last || g.Last > arctic.MaxGID {
			return fmt.Errorf("gids %d to %d; use 1 to %d (0 is the system group)", g.First, g.Last, arctic.MaxGID)
		}
	}
	each := r.Each()
	if err := each.complete(d.Each()); err != nil {
		return err
	}
	r.Contexts, r.Jobs, r.Connections, r.Bytes = each.Contexts, each.Jobs, each.Connections, each.Bytes
	if len(r.Groups) == 0 && r.Total == (Amounts{}) {
		return nil
	}
	if err := r.Total.complete(each.times(DefaultTotal)); err != nil {
		return fmt.Errorf("total: %w", err)
	}
	return nil
}

const (
	mostAmount = 1 << 20 // of contexts, jobs and connections
	MostBytes  = 1 << 46
)

// complete replaces zeros by d.
func (a *Amounts) complete(d Amounts) error {
	for _, v := range []struct {
		name string
		n    *int
		d    int
	}{{"contexts", &a.Contexts, d.Contexts}, {"jobs", &a.Jobs, d.Jobs},
		{"connections", &a.Connections, d.Connections}} {
		if *v.n = cmp.Or(*v.n, v.d); *v.n < 0 || *v.n > mostAmount {
			return fmt.Errorf("%s %d; use 1 to %d", v.name, *v.n, mostAmount)
		}
	}
	if a.Bytes = cmp.Or(a.Bytes, d.Bytes); a.Bytes < 0 || a.Bytes > MostBytes {
		return fmt.Errorf("bytes %d; use 1 to 64 TiB", a.Bytes)
	}
	return nil
}

// times returns n times as much, without overflow.
func (a Amounts) times(n int) Amounts {
	return Amounts{min(n*a.Contexts, mostAmount), min(n*a.Jobs, mostAmount), min(n*a.Connections, mostAmount),
		min(int64(n)*a.Bytes, MostBytes)}
}
