// Package sim runs FUNet in virtual time: cards, networks and programs whose outcome is a function
// of a seed. The cards are those of package engine that ship.
//
// The journey of a run: a World holds one queue of events. A Process runs a program as a coroutine
// until it calls Drive, Wait or Sleep, which put its next turn into the queue. If it has written
// anything for its card, a step of the card goes there too. The step sends frames through a port,
// whose network puts their arrivals into the queue. The network is the Ethernet model or the Arctic
// model. The Ethernet model has bandwidth, delay, bounded queues, and every fault. With a Switch it
// also has the switch of direct ports. The Arctic model has routers with three buffers an input,
// credits and virtual cut-through. An arrival makes the receiving card step, and what the card
// published wakes the process.
//
// Rules:
//   - Time is virtual nanoseconds. Only these take time: a look of a process, a step of a card,
//     bits on a link. On modelled machines (NewPacedCluster) these are instructions, the bus, the
//     card's units, and bits on a link.
//   - Events of the same time happen in the order in which they were queued. Only one program of a
//     world runs at a time, and only the queue decides which one. No other goroutine of the world
//     is ever runnable, no map is iterated, and no clock is read. So a run depends only on its
//     options, on any machine and at any GOMAXPROCS. World.Hash tells two runs apart.
//   - A large Arctic network may be in parts, each in a world of its own (parts.go). They run on
//     several processors, in windows of virtual time too short for one part to affect another. The
//     parts are the same on any number of processors, and so is the run (Cluster.Hash).
//   - A card is stepped only when it asked for a step, a frame arrived, or its process wrote
//     something. So a run that completes also shows that engine.Card.Step returns the right time.
//   - Cards and processes can be destroyed, made anew, paused and slowed down at any
//     event. Frames outlive them.
//   - Steady state does not allocate: frames come from a pool, events from a wheel and a
//     heap that are used again and again.
//
// A World and everything in it belong to one goroutine at a time. Several worlds may run at once.
package sim
