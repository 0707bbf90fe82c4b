package daemon

// This file knows which outages of a link the daemon itself has caused: some drivers reset the link
// when an XDP program comes or goes (igb and its relatives, for about two seconds), and the host
// has no network meanwhile. The reader of the log need not look at the cable then.
//
// The kernel counts how often an interface has lost its carrier (IFLA_CARRIER_DOWN_COUNT, Linux
// 4.16). A loss while the daemon attached or detached the program, or within resetLate of that, is
// the driver's doing.

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// resetLate is how long after the program came or went a driver may still begin to reset the
	// link.
	resetLate = time.Second
	// resetPatience is how long a link may take until it is back, before its cable is suspected: a
	// copper link of 1 Gbit/s negotiates for two to four seconds.
	resetPatience = 15 * time.Second
)

// reset is the state of an outage that a driver makes. The zero value: nothing is expected.
type reset struct {
	began  time.Time // the program came or went; zero: that is settled
	done   time.Time // it had come or gone
	losses uint32    // of the carrier, until then
	lost   bool      // the driver has reset the link
	took   time.Duration
}

// begin expects an outage, because the program comes or goes now. Without a carrier there is none
// to lose. While one goes on another is a part of it.
func (r *reset) begin(at time.Time, carrier bool, losses uint32) {
	switch {
	case !r.began.IsZero():
		r.done = at
	case carrier:
		r.began, r.done, r.losses, r.lost = at, at, losses, false
	}
}

// end follows begin when the program has come or gone, with how often the carrier was lost by then.
func (r *reset) end(at time.Time, losses uint32) {
	if !r.began.IsZero() {
		r.done, r.lost = at, r.lost || losses != r.losses
	}
}

// look takes the state of the link, and returns a sentence about an outage that has just ended, or
// "".
func (r *reset) look(at time.Time, s *seen) (said string) {
	if r.began.IsZero() {
		return ""
	}
	late := at.Sub(r.done) > resetLate
	r.lost = r.lost || s.losses != r.losses && !late
	switch {
	case !s.up, !r.lost && late, at.Sub(r.began) > resetPatience:
		// somebody set it down, nothing was lost, or it is not the driver's doing alone
		r.began = time.Time{}
	case r.lost && s.carrier:
		r.took = at.Sub(r.began)
		r.began = time.Time{}
		return fmt.Sprintf("interface %s: its driver resets the link when the NIC program comes or goes; this time it was back after %.1f s", s.name, r.took.Seconds())
	}
	return ""
}

// outage reports whether a link that has no carrier is being reset.
func (r *reset) outage() bool { return !r.began.IsZero() && r.lost }

// parting is logged when the daemon ends and does not see the link come back.
func (r *reset) parting(name string) string {
	line := fmt.Sprintf("interface %s: its driver resets the link, because the NIC program is gone", name)
	if r.took > 0 {
		line += fmt.Sprintf("; last time it was back after %.1f s", r.took.Seconds())
	}
	return line
}

// before and after are begin and end, now, for an interface by its name. When its state cannot be
// asked for, no outage is expected.
func (r *reset) before(name string) {
	if carrier, losses, err := carrierOf(name); err == nil {
		r.begin(time.Now(), carrier, losses)
	}
}

func (r *reset) after(name string) {
	if _, losses, err := carrierOf(name); err == nil {
		r.end(time.Now(), losses)
	}
}

// carrierOf asks whether an interface has a carrier, and how often it has lost one.
func carrierOf(name string) (carrier bool, losses uint32, err error) {
	q := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	q.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	q.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	answers, err := q.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return false, 0, fmt.Errorf("asking for the carrier of %s: %w", name, err)
	}
	if len(answers) != 1 || len(answers[0]) < unix.SizeofIfInfomsg {
		return false, 0, fmt.Errorf("asking for the carrier of %s: %d answers", name, len(answers))
	}
	attributes, err := nl.ParseRouteAttr(answers[0][unix.SizeofIfInfomsg:])
	if err != nil {
		return false, 0, fmt.Errorf("asking for the carrier of %s: %w", name, err)
	}
	for _, a := range attributes {
		if a.Attr.Type == unix.IFLA_CARRIER_DOWN_COUNT && len(a.Value) >= 4 {
			losses = binary.NativeEndian.Uint32(a.Value)
		}
	}
	return nl.DeserializeIfInfomsg(answers[0]).Flags&unix.IFF_LOWER_UP != 0, losses, nil
}
