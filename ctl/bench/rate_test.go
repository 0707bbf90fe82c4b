// The one-way rate: UDP on a real lab, what the roles refuse, and the report.

package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"golang.org/x/sys/unix"
)

func rateOptions() RateOptions {
	return RateOptions{Rounds: 2, Messages: RateMessages.Least, RoleCommand: []string{roleArg},
		Funet: func(_ context.Context, _ *lab.Lab, messages int) (RateSample, error) {
			return RateSample{PerSecond: float64(messages), XDPMode: "native", BindMode: "copy"}, nil
		}}
}

// UDP is measured on a real lab in each round, and the ratio is that of the medians. What arrives
// is not more than what was sent.
func TestRate(t *testing.T) {
	leavesNothing(t)
	o := rateOptions()
	r, err := Rate(t.Context(), newLab(t, lab.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if r.PerSecond != float64(RateMessages.Least) || r.SendmmsgPerSecond <= 0 || r.SendmmsgOffered <= 0 ||
		r.SendmmsgLost < 0 || r.SendmmsgLost >= 1 {
		t.Errorf("%+v", r)
	}
	if r.Ratio != nanos(r.PerSecond/r.SendmmsgPerSecond) || r.SendmmsgPerSecond != *median(r.RoundsSendmmsg) {
		t.Errorf("ratio or median is wrong: %+v", r)
	}
	for _, rounds := range [][]float64{r.RoundsPerSecond, r.RoundsSendmmsg, r.RoundsOffered, r.RoundsRatio} {
		if len(rounds) != o.Rounds {
			t.Errorf("%d figures, want one of each of %d rounds", len(rounds), o.Rounds)
		}
	}
	if r.XDPMode != "native" || r.BindMode != "copy" || r.Datagrams != RateMessages.Least/perDatagram {
		t.Errorf("%+v", r)
	}
}

// Options are checked before anything runs; a failure of FUNet ends the measurement, and a
// RoleCommand that leads elsewhere is told.
func TestRateRefuses(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	boom := errors.New("boom")
	for _, c := range []struct {
		change func(*RateOptions)
		want   error
	}{
		{func(o *RateOptions) { o.Rounds = -1 }, ErrOptions},
		{func(o *RateOptions) { o.Rounds = Rounds.Most + 1 }, ErrOptions},
		{func(o *RateOptions) { o.Messages = RateMessages.Least - 1 }, ErrOptions},
		{func(o *RateOptions) { o.Messages = RateMessages.Most + 1 }, ErrOptions},
		{func(o *RateOptions) { o.Funet = nil }, ErrOptions},
		{func(o *RateOptions) { o.RoleCommand = nil }, ErrOptions},
		{func(o *RateOptions) {
			o.Funet = func(context.Context, *lab.Lab, int) (RateSample, error) { return RateSample{}, boom }
		}, ErrFunet},
		{func(o *RateOptions) { o.RoleCommand = []string{"-test.run=^$"} }, nil},
	} {
		o := rateOptions()
		c.change(&o)
		_, err := Rate(t.Context(), l, o)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %v", o, err, c.want)
		}
	}
}

// Both ends agree over a socket that loses nothing: all datagrams are counted, none twice, and the
// goodbye is not counted.
func TestDatagrams(t *testing.T) {
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	sender := newDatagrams(&socketLink{fd: fd[0], listener: -1})
	receiver := newDatagrams(&socketLink{fd: fd[1], listener: -1})
	defer sender.close()
	defer receiver.close()
	const n = 10*RateBatch + 1
	var offered count
	sent := make(chan error, 1)
	go func() {
		var err error
		offered, err = sender.sendAll(n)
		sent <- err
	}()
	got, err := receiver.receiveAll(n)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	if got.Arrived != n || got.PerSecond <= 0 || offered.Offered <= 0 {
		t.Errorf("received %+v, offered %+v", got, offered)
	}
}

// A datagram that is not ours is refused: too short, or with a number that was not sent.
func TestDatagramsRefuse(t *testing.T) {
	const n = 5
	long := make([]byte, RatePayload)
	binary.LittleEndian.PutUint64(long, n+1)
	for _, b := range [][]byte{make([]byte, RatePayload-1), long} {
		l, other := ends(t, unix.SOCK_DGRAM)
		if _, err := unix.Write(other, b); err != nil {
			t.Fatal(err)
		}
		if _, err := newDatagrams(l).receiveAll(n); err == nil ||
			!strings.Contains(err.Error(), "with a number up to 5") {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
	// Only a goodbye: there is no rate.
	l, other := ends(t, unix.SOCK_DGRAM)
	binary.LittleEndian.PutUint64(long, n)
	if _, err := unix.Write(other, long); err != nil {
		t.Fatal(err)
	}
	if _, err := newDatagrams(l).receiveAll(n); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("all lost: %v", err)
	}
}

// The names and numbers of the JSON form are stable, and so is the table.
func TestRateReport(t *testing.T) {
	r := &RateReport{PerSecond: 5e6, SendmmsgPerSecond: 5e5, Ratio: 10, SendmmsgOffered: 5.5e5, SendmmsgLost: 0.0909,
		Rounds: 2, RoundsPerSecond: []float64{4e6, 6e6}, RoundsSendmmsg: []float64{5e5, 5e5},
		RoundsOffered: []float64{5e5, 6e5},
		RoundsRatio:   []float64{8, 12}, Messages: 5_000_000, Datagrams: 500_000, Batch: RateBatch, Words: RateWords,
		XDPMode: "generic", BindMode: "copy"}
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "rate.json", append(got, '\n'))
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "rate.txt", b.Bytes())
}
