package launch

// This file tests how hosts come to the same group.

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/uspace/attach"
)

// desk is a host that is nothing but a daemon's books.
type desk struct {
	name    string
	card    uint16
	profile string
	taken   map[uint16]bool
	next    uint16
	has     uint16 // the job; 0: none
	asked   []attach.JobRequest
	refuse  error
	direct  error // why jobs of direct ports are refused; nil: they are not
	how     attach.Carriage
}

func (d *desk) String() string { return d.name }
func (d *desk) info() (attach.Info, error) {
	return attach.Info{Card: d.card, Profile: d.profile, Carriage: d.how}, nil
}

func (d *desk) job(r attach.JobRequest) (uint16, error) {
	d.asked = append(d.asked, attach.JobRequest{GID: r.GID, Direct: r.Direct, Token: r.Token,
		Cards: slices.Clone(r.Cards)})
	if d.refuse != nil {
		return 0, d.refuse
	}
	if r.Direct && d.direct != nil {
		return 0, d.direct
	}
	if d.has != 0 {
		return 0, attach.ErrAttached
	}
	gid := r.GID
	for gid == 0 || r.GID == 0 && d.taken[gid] {
		d.next++
		gid = d.next
	}
	if d.taken[gid] {
		return 0, attach.ErrTaken
	}
	d.has = gid
	return gid, nil
}

func (d *desk) absent() ([]int, int, error) { return nil, 0, nil }
func (d *desk) free()                       { d.has = 0 }
func (d *desk) find(string, bool) error     { return nil }
func (d *desk) start(*node) error           { return nil }
func (d *desk) signal(syscall.Signal)       {}
func (d *desk) abandon()                    {}
func (d *desk) close()                      { d.free() }

// TestMakeJob: all hosts get the same GID, the same token and the cards of the nodes in turn,
// whatever GIDs are taken where.
func TestMakeJob(t *testing.T) {
	a := &desk{name: "a", card: 4, profile: "native", taken: map[uint16]bool{1: true, 3: true}}
	b := &desk{name: "b", card: 2, profile: "native", taken: map[uint16]bool{2: true}}
	c := &desk{name: "c", card: 9, profile: "native", taken: map[uint16]bool{4: true, 5: true}}
	token := attach.NewToken()
	gid, _, err := makeJob([]host{a, b, c}, 5, attach.JobRequest{Token: token}, DirectCards, "native")
	if err != nil || gid != 6 {
		t.Fatalf("group %d, %v, want 6", gid, err)
	}
	for _, d := range []*desk{a, b, c} {
		last := d.asked[len(d.asked)-1]
		if d.has != 6 || !last.Token.Equal(token) || !last.Direct ||
			!slices.Equal(last.Cards, []uint16{4, 2, 9, 4, 2}) {
			t.Errorf("%v has group %d and was asked last for %+v", d, d.has, last)
		}
	}
}

// TestMakeJobRefused: an error says which host and why, and no host keeps a group.
func TestMakeJobRefused(t *testing.T) {
	full := map[uint16]bool{}
	for gid := range uint16(2048) {
		full[gid] = true
	}
	for _, c := range []struct {
		why     string
		b       *desk
		gid     uint16
		profile string
		want    error
		says    string
	}{
		{"the GID is taken", &desk{name: "b", card: 1, taken: map[uint16]bool{7: true}}, 7, "", attach.ErrTaken,
			"leave out --gid"},
		{"every GID is taken", &desk{name: "b", card: 1, taken: full}, 0, "", attach.ErrTaken, "tried"},
		{"forbidden", &desk{name: "b", card: 1, refuse: &attach.Refusal{Status: attach.ErrForbidden, Text: "no"}}, 0,
			"", attach.ErrForbidden, "b: no"},
		{"the same card twice", &desk{name: "b", card: 0}, 0, "", ErrHosts, "a and b both have card 0"},
		{"another profile", &desk{name: "b", card: 1, profile: "sbus-arctic"}, 0, "native", ErrHosts,
			"funet profile set native"},
	} {
		a := &desk{name: "a", profile: "native"}
		_, _, err := makeJob([]host{a, c.b}, 2, attach.JobRequest{GID: c.gid, Token: attach.Token{1}},
			DaemonCards, c.profile)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", c.why, err)
		}
		if a.has != 0 || c.b.has != 0 {
			t.Errorf("%s: groups %d and %d are left", c.why, a.has, c.b.has)
		}
	}
}

// TestChooseCards: AutoCards takes direct ports if every host has proven them and none refuses.
// Otherwise the choice names the host that is the reason, and says why. The choice is wanted, that
// is worth a line without being asked for, if a host has direct ports or was to have some.
// DaemonCards and DirectCards are taken as they were asked for.
func TestChooseCards(t *testing.T) {
	proven := attach.Carriage{Configured: attach.CarriageAuto, Chosen: attach.CarriageDirect, Why: "frames"}
	failed := attach.Carriage{Configured: attach.CarriageAuto, Chosen: attach.CarriageDaemon, Why: "no namespaces"}
	off := attach.Carriage{Configured: attach.CarriageDaemon, Chosen: attach.CarriageDaemon}
	refused := &attach.Refusal{Status: attach.ErrNoPort, Text: "pairs have keys"}
	for what, c := range map[string]struct {
		which   Cards
		a, b    attach.Carriage
		profile string
		refuse  error
		direct  bool
		wanted  bool
		says    string
		err     error
	}{
		"both have them": {which: AutoCards, a: proven, b: proven, direct: true, wanted: true,
			says: "direct ports: all hosts"},
		"one has none": {which: AutoCards, a: proven, b: failed, wanted: true,
			says: "no direct ports: b has none: no namespaces"},
		"nobody has them": {which: AutoCards, a: off, b: off, says: "a is not configured"},
		"an older daemon": {which: AutoCards, a: proven, wanted: true, says: "b is not configured"},
		"a profile": {which: AutoCards, a: proven, b: proven, profile: "sbus", wanted: true,
			says: "the card of a has profile sbus"},
		"one refuses": {which: AutoCards, a: proven, b: proven, refuse: refused, wanted: true,
			says: "b: pairs have keys"},
		"one refuses for another": {which: AutoCards, a: proven, b: proven, refuse: attach.ErrKey, err: attach.ErrKey},
		"the daemon's":            {which: DaemonCards, a: proven, b: proven, says: "contexts"},
		"direct or nothing":       {which: DirectCards, a: off, b: off, refuse: refused, err: attach.ErrNoPort},
	} {
		profile := c.profile
		if profile == "" {
			profile = native
		}
		a, b := &desk{name: "a", how: c.a, profile: profile},
			&desk{name: "b", card: 1, how: c.b, direct: c.refuse, profile: profile}
		gid, got, err := makeJob([]host{a, b}, 2, attach.JobRequest{Token: attach.Token{1}}, c.which, "")
		if c.err != nil {
			if !errors.Is(err, c.err) || a.has != 0 || b.has != 0 {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err != nil || got.direct != c.direct || got.wanted != c.wanted || !strings.Contains(got.String(), c.says) ||
			strings.Contains(got.String(), "\n") {
			t.Errorf("%s: %+v, %q, %v", what, got, got, err)
		}
		for _, d := range []*desk{a, b} {
			if d.has != gid || d.asked[len(d.asked)-1].Direct != c.direct {
				t.Errorf("%s: %s has group %d of %d, asked for %+v", what, d.name, d.has, gid, d.asked)
			}
		}
	}
}
