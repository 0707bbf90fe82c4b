// Package program runs the programs of uspace/apps on a group, as commands of funet: pingpong,
// matmul, flood, stream, transfer and others. Package ctl/bench uses it to run several of these
// beside other systems.
//
// These are the steps of `funet pingpong --lab 2`:
//
//   - [Run] checks the flags ([Flags]), makes a lab (ctl/lab), and finds the faster XDP mode on it
//     (ctl/rawxdp);
//   - [RunNodes] starts this binary once in the namespace of each host. It passes the flags that a
//     user would pass on real hosts, and the peers file as an open file without a name;
//   - each of these processes calls Run again, without a lab. It opens an embedded card, or
//     attaches to a daemon's, with an endpoint ([Node]). It runs the program and prints one JSON
//     document, which says where it ran ([Place]);
//   - RunNodes decodes these documents, and the command shows node 0's ([Show]).
//
// Rules:
//
//   - Flags are refused before a lab is made or a card is opened.
//   - The first node that fails ends the others, and its last line is the error. The end of the
//     context ends all nodes.
//   - The error that a node is silent also gives the likely cause: a fault that the card, the
//     daemon or the doctor finds on the way there.
//   - The JSON documents are an interface: their names are stable, and contain the units.
//
// A Node belongs to the goroutine that runs the program.
package program
