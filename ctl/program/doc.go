// Package program runs the programs of uspace/apps on a group, as commands of funet: pingpong,
// matmul, flood, stream and transfer. Others run programs of their own on it (ctl/cmam), or
// several of these beside something else (ctl/measure).
//
// The journey of `funet pingpong --lab 2`:
//
//   - [Run] checks the flags ([Flags]), makes a lab (ctl/lab), and finds the faster XDP mode on it
//     (ctl/bench);
//   - [RunNodes] starts this binary once in the namespace of each host, with the flags that a
//     person would use on real hosts, and the peers file as an open file without a name;
//   - each of these processes is in Run again, without a lab. It opens an embedded card, or
//     attaches to a daemon's, with an endpoint ([Node]). It runs the program on it and prints one
//     JSON document, which says where it ran ([Place]);
//   - RunNodes decodes these, and the command shows node 0's ([Show]).
//
// Rules:
//
//   - Flags are refused before a lab is made or a card is opened.
//   - The first node that fails ends the others, and its last line is the error. So does the
//     context.
//   - The error that a node is silent says what is known of why: what the card, the daemon or the
//     doctor finds on the way there.
//   - The JSON documents are an interface: their names are stable, and have the units in them.
//
// A Node belongs to the goroutine that runs the program.
package program
