// Incast: who sends how much, what is refused, and the report. FUNet itself is the caller's.

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/google/go-cmp/cmp"
)

// Both runs carry as many messages in all; the sides take turns, and the ratio is that of the
// medians.
func TestIncast(t *testing.T) {
	type run struct{ Senders, Messages int }
	var runs []run
	o := IncastOptions{Rounds: 3, Messages: 10_001,
		Funet: func(_ context.Context, _ *lab.Lab, senders, messages int) (GoodputSample, error) {
			runs = append(runs, run{senders, messages})
			return GoodputSample{Gbit: float64(len(runs)), Congestion: Congestion{Rejected: uint64(senders)},
				XDPMode: "generic", BindMode: "copy"}, nil
		}}
	r, err := Incast(t.Context(), newLab(t, lab.Options{Hosts: 3}), o)
	if err != nil {
		t.Fatal(err)
	}
	one, all := run{1, 10_000}, run{2, 5_000}
	if diff := cmp.Diff([]run{one, all, all, one, one, all}, runs); diff != "" {
		t.Error(diff)
	}
	want := &IncastReport{OneToOne: 4, Incast: 3, Ratio: 0.75, Senders: 2, Rounds: 3,
		RoundsOneToOne: []float64{1, 4, 5}, RoundsIncast: []float64{2, 3, 6}, RoundsRatio: []float64{2, 0.75, 1.2},
		OneToOneCongestion: []Congestion{{Rejected: 1}, {Rejected: 1}, {Rejected: 1}},
		IncastCongestion:   []Congestion{{Rejected: 2}, {Rejected: 2}, {Rejected: 2}},
		Messages:           10_000, Words: IncastWords, XDPMode: "generic", BindMode: "copy"}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// Options and the lab are checked before anything runs, and FUNet's failure ends the measurement.
func TestIncastRefuses(t *testing.T) {
	boom := errors.New("boom")
	fails := func(context.Context, *lab.Lab, int, int) (GoodputSample, error) { return GoodputSample{}, boom }
	two, three := newLab(t, lab.Options{Hosts: 2}), newLab(t, lab.Options{Hosts: 3})
	for _, c := range []struct {
		l    *lab.Lab
		o    IncastOptions
		want error
	}{
		{two, IncastOptions{Funet: fails}, ErrOptions},
		{three, IncastOptions{}, ErrOptions},
		{three, IncastOptions{Funet: fails, Rounds: -1}, ErrOptions},
		{three, IncastOptions{Funet: fails, Rounds: Rounds.Most + 1}, ErrOptions},
		{three, IncastOptions{Funet: fails, Messages: IncastMessages.Least - 1}, ErrOptions},
		{three, IncastOptions{Funet: fails, Messages: IncastMessages.Most + 1}, ErrOptions},
		{three, IncastOptions{Funet: fails}, ErrFunet},
	} {
		_, err := Incast(t.Context(), c.l, c.o)
		if !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %v", c.o, err, c.want)
		}
	}
}

// The names and numbers of the JSON form are stable, and so is the table.
func TestIncastReport(t *testing.T) {
	r := &IncastReport{OneToOne: 2, Incast: 1.9, Ratio: 0.95, Senders: 7, Rounds: 2,
		RoundsOneToOne: []float64{1.5, 2.5}, RoundsIncast: []float64{1.8, 2}, RoundsRatio: []float64{1.2, 0.8},
		OneToOneCongestion: []Congestion{{Rejected: 1, Retransmitted: 2, Timeouts: 3, Duplicates: 4}, {Rejected: 5}},
		IncastCongestion:   []Congestion{{}, {Rejected: 6, Retransmitted: 7, Timeouts: 8, Duplicates: 9}},
		Messages:           2_100_000, Words: IncastWords, XDPMode: "generic", BindMode: "copy"}
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "incast.json", append(got, '\n'))
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "incast.txt", b.Bytes())
}
