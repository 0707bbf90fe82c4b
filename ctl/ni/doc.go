// Package ni is `funet sim ni`: what the thesis of the Tokyo network interface (Kunisawa,
// University of Tokyo, 1997) says that a remote write takes, out of the bus and the link that its
// profile has.
//
// The journey of a figure. Profile tokyo has the testbed's bus (section 4.3) and the steps of its
// link (4.2). model.go makes a write of them: from memory over the sender's bus in bursts, over the
// link doublet by doublet, and over the receiver's bus into memory. report.go puts each term and
// total beside what the thesis printed, and says what is wrong with those that do not agree.
// traffic.go has the engine carry out the same operations on two machines of the profile in virtual
// time, with and without the entry of the window's table (2.1, 3.3). multicast.go has the packets
// of a chained multicast (2.2.1, 3.3.1.3) beside those of writes to each member, and counted.go
// those that the engine's cards send for both, and the times that they take.
//
// No total is an input. The thesis measured none end to end.
package ni
