// Package gang measures in virtual time what jobs keep of their rate on cards that have room for
// one of them (package turns): where each host takes its turns alone, and where hosts take them
// together (thesis 4.3).
//
// The journey of a measurement: New makes hosts on an Ethernet, whose clocks begin anywhere and run
// up to 100 millionths faster or slower. Each has a card, the engine that ships. Start starts a job
// of a process on each host. In a round each process sends a message to every other one, and waits
// for theirs. Rates lets time pass and counts rounds. [Run] does all this for the cases that it
// lists. The same options give the same figures.
package gang
