// Package lead lets several goroutines share one card, which works for one goroutine at a time. Of
// the goroutines that wait for the card one leads: it polls, with the lock of the group. The others
// are parked, until a poll finds something for them and rouses them.
//
// The journey of a wait: a goroutine takes the lock (Lock), looks, and finds nothing. If no
// goroutine leads, it leads itself: each poll of the card handles what has arrived, and rouses the
// goroutines that wait for it. Otherwise it is parked (Park). A goroutine that wants the lock
// meanwhile ends a sleep of the card, and the leader gives way between two polls.
//
// There are two kinds of groups:
//
//   - Without a keeper (package funet), a leader polls until its own wait is over. It then rouses a
//     parked goroutine, which leads from then on (PassOn). A goroutine that waits alone is never
//     parked. While no goroutine waits, nobody polls.
//   - With a keeper (package socket), a leader polls for a while, and is parked after that. When no
//     goroutine has led for a moment, the keeper takes over, a goroutine of the group. It polls
//     until there is nothing to do, and sleeps on the card's descriptor (keeper.go, rest.go). So
//     arrivals are handled while no goroutine waits, and a process that waits occupies no thread.
package lead
