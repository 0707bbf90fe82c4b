// Package probe finds out what passes between two hosts, before FUNet is blamed for it: frames of
// its EtherType and UDP datagrams, short ones and as long as the MTU allows, in both directions.
//
// The journey of a probe: Ask, on one host, sends requests with a nonce of its own by both carriers
// (ask.go). An Answerer on the other host counts the requests that it heard (answer.go), and
// answers every one by both carriers, each time with its counts. So each answer, whatever its
// carrier, says which requests pass there, and the carriers of the answers say what passes back.
// Ask also broadcasts, on the interface that it was given and nowhere else, to find hosts that are
// not where they were expected: another address, or a card number that two hosts have.
//
// Frames of probes have version 0 (message.go), which the NIC program leaves to the kernel: they
// reach an AF_PACKET socket whether a card has the interface or not.
//
// A daemon at the other end answers no probes, but it answers hellos (package uspace/port/hello),
// and Ask sends those too if told to. A card that answers hellos proves that frames pass, through
// its port.
//
// Rules:
//
//   - An answer is no longer than the request, and a request has at most one answer by each
//     carrier: nobody makes an answerer send more than he sends himself. By UDP it answers only
//     hosts that it has asked, or addresses of its own subnet.
//   - An answerer answers at most answersPerSecond times a second, and remembers the last
//     mostNonces askers. It drops further requests; the asker asks again.
//   - Nothing is sent on an interface that the caller did not name: UDP sockets are bound to the
//     device.
//   - What comes from the network is any bytes: it decodes to a message or is dropped.
//
// Ask and Listen make their sockets in the network namespace of the calling thread and need
// CAP_NET_RAW.
package probe
