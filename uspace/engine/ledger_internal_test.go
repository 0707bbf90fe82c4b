package engine

// This file holds the rules of what an origin knows of the members of its multicast (ledger.go).

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// ledgerOf is a record with an empty ledger.
func ledgerOf(members int) *request {
	q := &request{of: &Context{remote: new(remote)}}
	q.opensLedger(members, 0)
	return q
}

// Rule: each member is counted once, whatever reports say of it and in whatever order: as known if
// any report knows it, else as doubtful. The multicast is complete when all were reported on, and
// not before (arctic/multicast.go).
func TestMembersAreCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(60, 70),
			rapid.SampledFrom([]int{256, 257, 1000, arctic.MaxMembers})).Draw(t, "members")
		g := ledgerOf(members).ledger
		const has, lacks, doubtful = 1, 2, 3
		want := make([]byte, members)
		learn := func(from, end int, what byte) {
			for i := from; i < end; i++ {
				if want[i] == 0 || want[i] == doubtful {
					want[i] = what
				}
			}
		}
		for range rapid.IntRange(0, 12).Draw(t, "reports") {
			r := arctic.Report{Place: uint16(rapid.IntRange(0, members-1).Draw(t, "place")), Left: 1}
			r.Done = uint16(rapid.IntRange(0, int(r.Place)).Draw(t, "done"))
			r.Reason = rapid.SampledFrom([]arctic.Reason{arctic.ReasonNone, arctic.ReasonChain,
				arctic.ReasonSilent}).Draw(t, "reason")
			at, end := int(r.Place), int(r.Place)+1
			if r.Reason != arctic.ReasonNone {
				end = rapid.IntRange(end, members).Draw(t, "end")
				r.Left = uint16(end - at)
			}
			learn(at-int(r.Done), at, has)
			learn(at, end, map[arctic.Reason]byte{arctic.ReasonNone: has, arctic.ReasonChain: lacks,
				arctic.ReasonSilent: doubtful}[r.Reason])
			ends := g.endsWith(&r)
			if complete := g.takes(&r); complete != !slices.Contains(want, 0) || ends != complete {
				t.Fatalf("complete %v, foreseen %v: %v", complete, ends, want)
			}
		}
		n := [4]int{}
		for _, w := range want {
			n[w]++
		}
		reason, d := g.close(arctic.ReasonGivenUp)
		if d.Delivered != n[has] || d.Failed != n[lacks] || d.Doubtful != n[0]+n[doubtful] ||
			(reason == arctic.ReasonNone) != (n[has] == members) {
			t.Fatalf("%v, %+v; want %d", reason, d, n)
		}
		for _, b := range d.Broken[:d.Named] {
			if b.Reason == arctic.ReasonNone {
				t.Fatalf("named for no reason: %+v", d)
			}
		}
	})
}

// Rule: a member whose copy's acknowledgment was lost for good is doubtful and named, until it or
// one behind it is heard of, earlier or later: then it is neither. Who nobody has heard of stays so
// (arctic/multicast.go).
func TestDoubtEnds(t *testing.T) {
	// of the first to the second, which has two behind it
	lost := arctic.Report{Place: 1, Done: 1, Left: 3, Node: 7, Reason: arctic.ReasonSilent}
	// the third has it
	end := arctic.Report{Place: 2, Done: 2, Left: 1}
	// the fourth, on a branch of the second's
	other := arctic.Report{Place: 3, Left: 1}
	branch := arctic.Report{Place: 4, Left: 1}
	named := funi.Delivery{Delivered: 2, Doubtful: 3, Named: 1,
		Broken: [funi.MaxNamed]funi.Broken{{Node: 7, Reason: arctic.ReasonSilent}}}
	for name, c := range map[string]struct {
		reports []arctic.Report
		reason  arctic.Reason
		want    funi.Delivery
	}{
		"heard of before": {[]arctic.Report{end, other, lost, branch}, arctic.ReasonNone, funi.Delivery{Delivered: 5}},
		"heard of later":  {[]arctic.Report{lost, end, other, branch}, arctic.ReasonNone, funi.Delivery{Delivered: 5}},
		"in part": {[]arctic.Report{end, lost, branch}, arctic.ReasonSilent,
			funi.Delivery{Delivered: 4, Doubtful: 1}},
		"never": {[]arctic.Report{lost, branch}, arctic.ReasonSilent, named},
	} {
		g := ledgerOf(5).ledger
		for i := range c.reports {
			if complete := g.takes(&c.reports[i]); complete != (i == len(c.reports)-1) {
				t.Errorf("%s: complete %v after report %d", name, complete, i)
			}
		}
		if reason, d := g.close(arctic.ReasonNone); reason != c.reason || d != c.want {
			t.Errorf("%s: %v, %+v; want %v, %+v", name, reason, d, c.reason, c.want)
		}
	}
}

// Rule: a context has a bounded number of multicasts to many members under way, and each that is
// complete makes room for another; those to few do not count (ledger.go).
func TestLongLedgersAreBounded(t *testing.T) {
	n := &ledgerOf(shortChain).of.remote.requests
	x := &Context{remote: &remote{requests: *n}}
	var open []*request
	for x.remote.requests.hasLedger(arctic.MaxMembers) {
		q := &request{of: x}
		q.opensLedger(arctic.MaxMembers, 0)
		if open = append(open, q); len(open) > longLedgers {
			t.Fatal("they are not bounded")
		}
	}
	if len(open) != longLedgers || !x.remote.requests.hasLedger(shortChain) {
		t.Fatalf("room for %d", len(open))
	}
	open[1].ledger.takes(&arctic.Report{Place: 9, Done: 9, Left: 1})
	open[1].ledger.close(arctic.ReasonSilent)
	if !x.remote.requests.hasLedger(shortChain + 1) {
		t.Fatal("one that is complete makes no room")
	}
	open[1].opensLedger(shortChain+1, 0)
	if _, d := open[1].ledger.close(arctic.ReasonSilent); d.Delivered != 0 || d.Doubtful != shortChain+1 {
		t.Errorf("the next begins with %+v", d)
	}
}
