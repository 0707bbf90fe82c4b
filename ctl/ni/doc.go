// Package ni is `funet sim ni`: the times that a remote write takes by the thesis of the Tokyo
// network interface (Kunisawa, University of Tokyo, 1997). They are computed from the bus and the
// link in its profile.
//
// The journey of a figure: profile tokyo has the testbed's bus (section 4.3) and the steps of its
// link (4.2). model.go makes a write of them: from memory over the sender's bus in bursts, over the
// link doublet by doublet, and over the receiver's bus into memory. report.go compares each term
// and total with the printed one, and explains those that do not agree. traffic.go has the engine
// carry out the same operations on two machines of the profile in virtual time, with and without
// the entry of the window's table (2.1, 3.3). multicast.go compares the packets of a chained
// multicast (2.2.1, 3.3.1.3) with those of writes to each member. counted.go counts the packets
// that the engine's cards send for both, and measures the times.
//
// No total is an input. The thesis measured none end to end.
package ni
