// Package topology has the wiring of networks of Arctic routers, and the ways through them. The
// simulator (package sim) and labs with routers in the kernel (package ctl/lab, bpf/hub.c) use the
// same.
//
// # Routes
//
// Route bits are consumed from the lowest. A router of 4 ports takes two of them, a router of 8
// ports takes three, and the packet leaves by the port that they name. A packet has 30 bits, and
// the sender says the whole way (thesis 5.4: "direct routing"). So no packet goes round for ever,
// whatever its route.
//
// # Networks
//
// [Hypercube], [FatTree] and [Butterfly] are the networks that the thesis names (5.4, 7.2.1). The
// ways that [Network.Way] returns are as short as any that packets can take, and no set of packets
// on them can wait for each other in a circle: the graph of channels that depend on each other has
// none (W. J. Dally and C. L. Seitz: Deadlock-free message routing in multiprocessor
// interconnection networks, IEEE Transactions on Computers C-36(5), 1987).
//
// [Large] returns networks of up to 65,536 cards for simulations. Their ways need more than 30
// route bits. So a packet carries its destination, and each router finds the port by it
// ([Network.Next]).
//
// [Network.Without] finds ways anew where wires have failed (thesis 7.2.1: what has failed is
// mapped out).
//
// # Rules
//
// A Network does not change, and any goroutine may use it. Everything is computed from the
// arguments alone.
package topology
