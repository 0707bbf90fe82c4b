// Package trace shows the stages of single packets: where and how long each packet waited on its
// way through the cards.
//
// The journey of a packet's record: the card's thread fills it in (engine.Tracer) for a context
// that a daemon traces (ctl/daemon, trace.go). Batches of records travel through the daemon's
// socket (batch.go), and Follow reads them (client.go). From all records Stages makes a table
// (stages.go) and WriteFile a file for ui.perfetto.dev (perfetto.go). Merge takes the files of two
// hosts and joins their records of the same packet (merge.go).
//
// Rules:
//
//   - A packet is identified by the frame in which it first travelled (cards, incarnation, level,
//     sequence) and by its place in that frame. Two hosts that trace one packet in the same number
//     choose the same packets.
//   - A time is that of the step in which a card did something, on that host's clock. Merge aligns
//     two clocks as NTP does, from the usual time there and back (RFC 5905 section 8), and reports
//     the largest possible error. If packets went only one way, it reports that the clocks are not
//     aligned.
//   - The process trusts neither daemons nor files: any bytes give records or an error.
package trace
