// The sizes of an interface's own rings. No program uses them, but drivers begin anew when they
// change.

package xdp

import "github.com/safchain/ethtool"

// Rings are the slots of the receive and transmit rings of an interface.
type Rings struct{ Rx, Tx uint32 }

// RingsOf asks the driver (ETHTOOL_GRINGPARAM), in the network namespace of the calling thread.
// Zero: it does not say.
func RingsOf(ifname string) Rings {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return Rings{}
	}
	defer e.Close()
	r, err := e.GetRing(ifname)
	if err != nil {
		return Rings{}
	}
	return Rings{r.RxPending, r.TxPending}
}
