// Package hub makes a network namespace, or a machine with several NICs, a router of a network
// (package topology): the hub program (bpf/hub.c) on its interfaces, the wiring of its ports, and
// the ways from there.
//
// The journey: [Run] attaches the program to the interface of each port, and has the interfaces
// receive whatever comes. [Forward] tells the program the ways to all stations that begin here. Run
// then follows the state of the links. Where one fails or comes back, it tells the other routers
// (news.go), computes the ways anew and calls Forward again. So does each router that hears of it.
// Labs call Forward for each of their routers (package lab).
//
// Rules:
//
//   - Everything that Run attaches is bound to its descriptors. So nothing of it is left when the
//     process ends, however it ends.
//   - A port to another router is used from the time on at which that router is heard. It counts
//     as down while the router is silent.
//   - Frames whose sender's router does not know of a failure yet are dropped, and counted.
package hub
