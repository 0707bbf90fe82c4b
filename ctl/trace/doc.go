// Package trace shows the stages of single packets: how long each waited where on its way through the cards.
//
// The journey of a packet's record: the card's thread fills it in (engine.Tracer) for a context that a daemon has followed
// (ctl/daemon, trace.go); batches of them travel by the daemon's socket (batch.go); Follow reads them (client.go), and of all of them
// Stages makes a table (stages.go), WriteFile a file for ui.perfetto.dev (perfetto.go), in which Merge finds what two hosts
// say of the same packet (merge.go).
//
// Rules:
//
//   - A packet is known by the frame in which it first travelled: cards, incarnation, level, sequence, and its place there. Two
//     hosts that trace one packet of as many choose the same ones.
//   - Times are those of the step in which a card did something, on that host's clock. Merge aligns two clocks as NTP does, from the
//     usual way there and back (RFC 5905 section 8), and says how far they may be off; where packets went only one way
//     it says that they are not aligned.
//   - The process reads what a daemon says, and files, as it reads any bytes.
package trace
