package daemon

// This file recognizes outages of a link that the daemon itself has caused. Some drivers reset the
// link when an XDP program comes or goes (igb and its relatives, for about two seconds), and the
// host has no network meanwhile. The log then says so, and its reader need not look at the cable.
//
// The kernel counts how often an interface has lost its carrier (IFLA_CARRIER_DOWN_COUNT, Linux
// 4.16). A loss is the driver's doing if it comes while the daemon attached or detached the
// program, or within resetLate of that.

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// resetLate is how long after the program came or went a driver may begin a reset.
	resetLate = time.Second
	// resetPatience is how long a link may take to come back before its cable is suspected: a
	// copper link of 1 Gbit/s negotiates for two to four seconds.
	resetPatience = 15 * time.Second
)

// reset is the state of an outage that a driver causes. In the zero value no outage is expected.
type reset struct {
	began  time.Time // when the program began to come or go; zero: no outage is expected
	done   time.Time // when the program had come or gone
	losses uint32    // losses of the carrier until began
	lost   bool      // the driver has reset the link
	took   time.Duration
}

// begin expects an outage, because the program comes or goes now. Without a carrier no outage is
// expected. A call during an outage belongs to that outage.
func (r *reset) begin(at time.Time, carrier bool, losses uint32) {
	switch {
	case !r.began.IsZero():
		r.done = at
	case carrier:
		r.began, r.done, r.losses, r.lost = at, at, losses, false
	}
}

// end follows begin when the program has come or gone, with the count of carrier losses by then.
func (r *reset) end(at time.Time, losses uint32) {
	if !r.began.IsZero() {
		r.done, r.lost = at, r.lost || losses != r.losses
	}
}

// look takes the state of the link. It returns a sentence about an outage that just ended, or "".
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

// outage reports whether a link without a carrier is being reset.
func (r *reset) outage() bool { return !r.began.IsZero() && r.lost }

// parting returns the line for the log of a daemon that ends before the link is back.
func (r *reset) parting(name string) string {
	line := fmt.Sprintf("interface %s: its driver resets the link, because the NIC program is gone", name)
	if r.took > 0 {
		line += fmt.Sprintf("; last time it was back after %.1f s", r.took.Seconds())
	}
	return line
}

// before and after call begin and end, now, for an interface by its name. If the interface's state
// cannot be read, no outage is expected.
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

// carrierOf returns whether an interface has a carrier, and how often it has lost one.
func carrierOf(name string) (carrier bool, losses uint32, err error) {
	q := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	q.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	q.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	answers, err := q.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err == nil && (len(answers) != 1 || len(answers[0]) < unix.SizeofIfInfomsg) {
		err = fmt.Errorf("%d answers", len(answers))
	}
	var attributes []syscall.NetlinkRouteAttr
	if err == nil {
		attributes, err = nl.ParseRouteAttr(answers[0][unix.SizeofIfInfomsg:])
	}
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
