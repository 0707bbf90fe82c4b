// This file has the sizes of an interface's own rings. No program uses them, but drivers restart
// when they change.

package xdp

import "github.com/safchain/ethtool"

// Rings has the numbers of slots of an interface's receive and transmit rings.
type Rings struct{ Rx, Tx uint32 }

// RingsOf returns the sizes that the driver reports (ETHTOOL_GRINGPARAM), in the network namespace
// of the calling thread. They are zero if the driver does not report them.
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
