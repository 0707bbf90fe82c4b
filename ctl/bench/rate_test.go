// The one-way rate: UDP on a real lab, what the roles refuse, and the report.

package bench

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"golang.org/x/sys/unix"
)

// UDP is measured on a real lab in each round, and the ratio is that of the medians. What arrives
// is not more than what was sent. A failure of FUNet ends the measurement, and so does a program
// that plays no role.
func TestRate(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	o := &rate{messages: 100_000}
	r := contest{benchmark: o, rounds: 2, nodes: same(map[string]node{"stream": {Rate: 1e5}})}.must(t, l)
	sendmmsg, lost := r["sendmmsg_msgs_per_s"].(float64), r["sendmmsg_lost_fraction"].(float64)
	if !(sendmmsg > 0) || !(r["sendmmsg_offered_per_s"].(float64) > 0) || lost < 0 || lost >= 1 ||
		len(r["rounds_sendmmsg_msgs_per_s"].([]any)) != 2 || len(r["rounds_sendmmsg_offered_per_s"].([]any)) != 2 {
		t.Errorf("%+v", r)
	}
	says(t, r, map[string]any{"msgs_per_s": 1e5, "rounds_msgs_per_s": []any{1e5, 1e5},
		"ratio_to_sendmmsg": nanos(1e5 / sendmmsg), "sendmmsg_messages": 1e4, "xdp_mode": "generic", "bind_mode": "copy"})
	boom := errors.New("boom")
	for name, c := range map[string]contest{
		"FUNet": {nodes: fails(boom)},
		"role":  {nodes: same(map[string]node{"stream": {Rate: 1e5}}), exe: []string{"/bin/true"}},
	} {
		c.benchmark, c.rounds = o, 1
		_, err := c.play(t, l)
		if err == nil || strings.Contains(err.Error(), "\n") || errors.Is(err, boom) != (name == "FUNet") ||
			!strings.HasPrefix(err.Error(), "measure rates: round 1, ") {
			t.Errorf("%s: %v", name, err)
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
	defer sender.Close()
	defer receiver.Close()
	const n = 10*rateBatch + 1
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
	long := make([]byte, ratePayload)
	binary.LittleEndian.PutUint64(long, n+1)
	for _, b := range [][]byte{make([]byte, ratePayload-1), long} {
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
	o := &rate{messages: 5_000_000, offered: []float64{5e5, 6e5}, lost: []float64{0.0909, 0.0909}}
	r, err := o.report(played(map[string][]float64{"funet": {4e6, 6e6}, "sendmmsg": {5e5, 5e5}}, 2))
	goldens(t, "rate", r, err)
}
