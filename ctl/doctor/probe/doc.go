// Package probe finds out which frames pass between two hosts, before FUNet is blamed. It tries
// frames of FUNet's EtherType and UDP datagrams, short ones and as long as the MTU allows, in both
// directions.
//
// The journey of a probe: Ask, on one host, sends requests with a nonce of its own by both carriers
// (ask.go). An Answerer on the other host counts the requests that it heard (answer.go), and
// answers each request by both carriers, each time with its counts. So each answer, whatever its
// carrier, tells which requests arrive there. The carriers of the answers tell which answers arrive
// back. Ask also broadcasts, on the interface that it was given and nowhere else. This finds a host
// at another address than expected, or a card number that two hosts have.
//
// Frames of probes have version 0 (message.go), which the NIC program leaves to the kernel: they
// reach an AF_PACKET socket whether a card has the interface or not.
//
// A daemon at the other end answers no probes, but it answers hellos (package uspace/port/hello).
// Ask can send hellos too (Target.Hello). A card that answers a hello proves that frames pass
// through its port.
//
// Rules:
//
//   - An answer is no longer than the request, and a request has at most one answer by each
//     carrier, so an answerer never amplifies traffic. By UDP it answers only hosts that it has
//     asked, or addresses of its own subnet.
//   - An answerer answers at most answersPerSecond times a second, and remembers the last
//     mostNonces askers. It drops further requests; the asker asks again.
//   - Nothing is sent on an interface that the caller did not name: UDP sockets are bound to the
//     device.
//   - Bytes from the network may be anything: they decode to a message or are dropped.
//
// Ask and Listen make their sockets in the calling thread's network namespace and need CAP_NET_RAW.
package probe
