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
}

func (d *desk) String() string { return d.name }
func (d *desk) info() (attach.Info, error) {
	return attach.Info{Card: d.card, Profile: d.profile}, nil
}

func (d *desk) job(r attach.JobRequest) (uint16, error) {
	d.asked = append(d.asked, attach.JobRequest{GID: r.GID, Direct: r.Direct, Token: r.Token, Cards: slices.Clone(r.Cards)})
	if d.refuse != nil {
		return 0, d.refuse
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
func (d *desk) find(string) error           { return nil }
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
	gid, err := makeJob([]host{a, b, c}, 5, attach.JobRequest{Token: token, Direct: true}, "native")
	if err != nil || gid != 6 {
		t.Fatalf("group %d, %v, want 6", gid, err)
	}
	for _, d := range []*desk{a, b, c} {
		last := d.asked[len(d.asked)-1]
		if d.has != 6 || !last.Token.Equal(token) || !slices.Equal(last.Cards, []uint16{4, 2, 9, 4, 2}) {
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
		{"the GID is taken", &desk{name: "b", card: 1, taken: map[uint16]bool{7: true}}, 7, "", attach.ErrTaken, "leave out --gid"},
		{"every GID is taken", &desk{name: "b", card: 1, taken: full}, 0, "", attach.ErrTaken, "tried"},
		{"forbidden", &desk{name: "b", card: 1, refuse: &attach.Refusal{Status: attach.ErrForbidden, Text: "no"}}, 0, "", attach.ErrForbidden, "b: no"},
		{"the same card twice", &desk{name: "b", card: 0}, 0, "", ErrHosts, "a and b both have card 0"},
		{"another profile", &desk{name: "b", card: 1, profile: "sbus-arctic"}, 0, "native", ErrHosts, "funet profile set native"},
	} {
		a := &desk{name: "a", profile: "native"}
		_, err := makeJob([]host{a, c.b}, 2, attach.JobRequest{GID: c.gid, Token: attach.Token{1}}, c.profile)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", c.why, err)
		}
		if a.has != 0 || c.b.has != 0 {
			t.Errorf("%s: groups %d and %d are left", c.why, a.has, c.b.has)
		}
	}
}
