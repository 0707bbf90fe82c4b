// Package live shows a card at work: rates of cards, jobs, contexts and peers.
//
// The way of a number: the daemon counts (package ctl/daemon, traffic.go). A Source asks for a
// Sample each interval. Between makes a Report, with rates, from two successive Samples
// (report.go). Write makes lines of text from the Report (table.go, lines.go), for all tables or
// the chosen one. Run shows the lines on a terminal until it is told to end (screen.go).
//
// Rules:
//
//   - A number that became smaller, or a card with another incarnation, begins anew: no rate is
//     negative.
//   - No line is longer than the terminal is wide, and there are no more lines than the terminal
//     has; the lines left out are counted.
//   - Text from a daemon is shown without control characters, which a terminal would obey.
//   - When a daemon does not answer, or restarts, the screen says so and asks again. No key waits
//     for an answer.
package live
