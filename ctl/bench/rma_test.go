// Remote writes: what is refused, and the report, with and without UCX. FUNet itself is the
// caller's.

package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// rmaOptions are runs that find the same each time.
func rmaOptions() RMAOptions {
	found := func(figure float64) func(context.Context, *lab.Lab) (RMASample, error) {
		return func(context.Context, *lab.Lab) (RMASample, error) { return RMASample{figure, "generic", "copy"}, nil }
	}
	return RMAOptions{Rounds: 2, Exchanges: 200, Put: found(4), Notify: found(6), PingPong: found(5), Bulk: found(9),
		Transfer: found(10), Rate: found(7e6), Stream: found(1e7),
		Get: found(4.5), Add: found(5.5), Swap: found(5), Gets: found(9.5)}
}

// Rule: ratios are those of each round.
func TestRMA(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	t.Setenv("PATH", t.TempDir())
	r, err := RMA(t.Context(), newLab(t, lab.Options{}), rmaOptions())
	if err != nil {
		t.Fatal(err)
	}
	put, notify := r.Ops[0], r.Ops[1]
	if put.Op != "put" || put.P50 != 4 || put.Ratio != 0.8 || put.ToUCX != nil || len(put.Rounds) != 2 {
		t.Errorf("%+v", put)
	}
	if notify.Op != "put_notify" || notify.P50 != 6 || notify.Ratio != 1.2 || notify.UCX != nil || notify.ToUCX != nil {
		t.Errorf("%+v", notify)
	}
	for i, want := range []RMAOperation{{Op: "get", Ratio: 0.9}, {Op: "add", Ratio: 1.1}, {Op: "swap", Ratio: 1}} {
		if op := r.Ops[2+i]; op.Op != want.Op || op.Ratio != want.Ratio || op.UCX != nil {
			t.Errorf("%+v, want %+v", op, want)
		}
	}
	if r.GetsRatio != 0.95 || r.Gets != 9.5 {
		t.Errorf("gets: %+v", r)
	}
	if r.PingPong != 5 || r.BulkRatio != 0.9 || r.Bulk != 9 || r.Transfer != 10 || r.PutRateRatio != 0.7 ||
		r.PutRate != 7e6 || r.Rate != 1e7 || r.XDPMode != "generic" || r.BindMode != "copy" {
		t.Errorf("%+v", r)
	}
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil || !strings.Contains(b.String(), "ratio 0.900") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// Rule: an absent tool is named and no error, nor is one that fails; FUNet's failure is one, and so
// are options that cannot be.
func TestRMAFails(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	path := func(set func()) *RMAReport {
		set()
		r, err := RMA(t.Context(), l, rmaOptions())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := r.WriteTable(&b); err != nil || !strings.Contains(b.String(), "ucx: "+r.UCXNote) ||
			r.Ops[0].ToUCX != nil {
			t.Errorf("%v: %s", err, b.String())
		}
		return r
	}
	if r := path(func() { fake(t, "echo no such test >&2; exit 3", "ucx_perftest") }); !strings.Contains(r.UCXNote,
		"no such test") {
		t.Error(r.UCXNote)
	}
	if r := path(func() { t.Setenv("PATH", t.TempDir()) }); !strings.Contains(r.UCXNote, "install ucx-utils") {
		t.Error(r.UCXNote)
	}
	boom := errors.New("boom")
	for _, c := range []struct {
		change func(*RMAOptions)
		want   error
	}{
		{func(o *RMAOptions) { o.Rounds = -1 }, ErrOptions},
		{func(o *RMAOptions) { o.Exchanges = Exchanges.Most + 1 }, ErrOptions},
		{func(o *RMAOptions) { o.Notify = nil }, ErrOptions},
		{func(o *RMAOptions) {
			o.Bulk = func(context.Context, *lab.Lab) (RMASample, error) { return RMASample{}, boom }
		}, ErrFunet},
	} {
		o := rmaOptions()
		c.change(&o)
		if r, err := RMA(t.Context(), l, o); r != nil || !errors.Is(err, c.want) {
			t.Errorf("report %v, error %v, want %v", r, err, c.want)
		}
	}
}
