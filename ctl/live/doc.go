// Package live shows what a card does while it does it: rates of cards, jobs, contexts and peers.
//
// The journey of a number: the daemon counts (package ctl/daemon, traffic.go); a Source asks for a Sample each interval;
// Between makes a Report, with rates, of two that follow each other (report.go); Write makes the lines of a table of it
// for people (table.go, lines.go), of all tables or of the one that is chosen, and Run shows it on a terminal until it is
// told to end (screen.go).
//
// Rules:
//
//   - A number that became smaller, or a card with another incarnation, begins anew: no rate is negative.
//   - No line is longer than the terminal is wide, and there are no more than it has; what is left out is counted.
//   - What a daemon says is shown without what a terminal would obey.
//   - A daemon that does not answer, or restarts, is said and asked again; nothing waits for it.
package live
