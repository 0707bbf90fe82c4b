package chaos

// This file tests the judge: every broken promise is noticed, and what is excused is
// not called one.

import (
	"reflect"
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// court is an oracle with three members, of nodes 0 to 2.
func court() (*oracle, []*member, *Result) {
	r := &Result{}
	var all []*member
	for i := range 3 {
		all = append(all, &member{number: i, place: place{gid: 1, node: uint16(i), card: i}})
	}
	now := func() int64 { return 0 }
	return &oracle{seed: 1, members: all, result: r, now: now, ghosts: newGhosts(3, now)}, all, r
}

// sent returns a slot as it is received: with a message from member 0 to member 1.
func (o *oracle) sent() funi.Slot {
	var s funi.Slot
	o.sends(&s, o.members[0], 1, 1, funi.Request, 7, 5)
	s[funi.SourceWord] = 0
	return s
}

func TestVerdicts(t *testing.T) {
	came := func(s *funi.Slot) funi.Returned {
		return funi.Returned{Reason: arctic.ReasonSilent, Header: s.Header(), Word: s[funi.PayloadWord]}
	}
	anew := func(s *funi.Slot) funi.Returned {
		return funi.Returned{Reason: arctic.ReasonResynchronised, Header: s.Header(), Word: s[funi.PayloadWord]}
	}
	for _, c := range []struct {
		what string
		want Result
		do   func(o *oracle, m []*member, s *funi.Slot)
	}{
		{"delivered", Result{Delivered: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.arrived(m[1], funi.Request, s)
		}},
		{"reported", Result{ReportedFailed: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.returned(m[0], came(s))
		}},
		{"reported, then delivered", Result{Delivered: 1, ReportedFailed: 1, Both: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.returned(m[0], came(s))
				o.arrived(m[1], funi.Request, s)
			}},
		{"reported because two cards counted anew, which only transfers may", Result{ReportedFailed: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.returned(m[0], anew(s))
			}},
		{"reported because a card has heard the dead, and counted anew", Result{ReportedFailed: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.ghosts.heard[m[1].card] = 1
				o.returned(m[0], anew(s))
			}},
		{"reported anew when the dead were heard long ago", Result{ReportedFailed: 1, Damaged: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				o.ghosts.heard[m[1].card] = 1
				o.ghosts.now = func() int64 { return int64(haunting) + 2 }
				o.returned(m[0], anew(s))
			}},
		{"neither", Result{Lost: 1}, func(*oracle, []*member, *funi.Slot) {}},
		{"neither, but the sender died", Result{Ended: 1}, func(_ *oracle, m []*member, _ *funi.Slot) {
			m[0].deaths++
		}},
		{"neither, but the receiver died", Result{Ended: 1}, func(_ *oracle, m []*member, _ *funi.Slot) {
			m[1].deaths++
		}},
		{"neither, and a third died", Result{Lost: 1}, func(_ *oracle, m []*member, _ *funi.Slot) { m[2].deaths++ }},
		{"delivered twice", Result{Delivered: 1, Duplicated: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.arrived(m[1], funi.Request, s)
			o.arrived(m[1], funi.Request, s)
		}},
		{"delivered to two lives", Result{Delivered: 1, Duplicated: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.arrived(m[1], funi.Request, s)
			m[1].deaths++
			o.arrived(m[1], funi.Request, s)
		}},
		{"reported twice", Result{ReportedFailed: 1, Duplicated: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.returned(m[0], came(s))
			o.returned(m[0], came(s))
		}},
		{"to another", Result{Lost: 1, Misdelivered: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.arrived(m[2], funi.Request, s)
		}},
		{"from another", Result{Lost: 1, Misdelivered: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			s[funi.SourceWord] = 2
			o.arrived(m[1], funi.Request, s)
		}},
		{"back to another", Result{ReportedFailed: 1, Misdelivered: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.returned(m[2], came(s))
		}},
		{"back to another life", Result{ReportedFailed: 1, Misdelivered: 1},
			func(o *oracle, m []*member, s *funi.Slot) {
				m[0].deaths++
				o.returned(m[0], came(s))
			}},
		{"to the next job", Result{Delivered: 1, Misdelivered: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			m[1].deaths, m[1].job = 1, 1
			o.arrived(m[1], funi.Request, s)
		}},
		{"refused by the next job", Result{ReportedFailed: 1, parted: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			m[1].job = 1
			o.returned(m[0], funi.Returned{Reason: arctic.ReasonJob, Header: s.Header(), Word: 1})
		}},
		{"refused by its own job", Result{ReportedFailed: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			m[2].job = 1
			o.returned(m[0], funi.Returned{Reason: arctic.ReasonJob, Header: s.Header(), Word: 1})
		}},
		{"another word", Result{Delivered: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			s[3]++
			o.arrived(m[1], funi.Request, s)
		}},
		{"another type", Result{Delivered: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			s.SetHeader(funi.NewHeader(1, 8, 5))
			o.arrived(m[1], funi.Request, s)
		}},
		{"another level", Result{Delivered: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.arrived(m[1], funi.Reply, s)
		}},
		{"never sent", Result{Lost: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			s[funi.PayloadWord] = 99
			o.arrived(m[1], funi.Request, s)
		}},
		{"without a word", Result{Lost: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			s.SetHeader(funi.NewHeader(1, 7, 0))
			o.arrived(m[1], funi.Request, s)
		}},
		{"back as never sent", Result{Lost: 1, Damaged: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.returned(m[0], funi.Returned{Word: 99})
		}},
		{"failed when nothing was wrong", Result{Stuck: 1}, func(o *oracle, m []*member, s *funi.Slot) {
			o.probes = []int{0, 0}
			o.returned(m[0], came(s))
		}},
	} {
		o, m, r := court()
		s := o.sent()
		c.do(o, m, &s)
		o.account()
		got := *r
		got.Messages, got.Failures = 0, nil
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: judged %+v, want %+v", c.what, got, c.want)
		}
		if r.Failed() != (len(r.Failures) > 0) {
			t.Errorf("%s: failed %v, in words %q", c.what, r.Failed(), r.Failures)
		}
	}
}
