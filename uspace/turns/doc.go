// Package turns gives groups turns on a card that has room for few of them (thesis 4.2), at the
// same time on all hosts if they share a clock (4.3).
//
// The journey of a turn: time is cut into turns with numbers. At the beginning of one, Turns puts
// the groups in an order. The first ones that are awake are on the card next, as many as there is
// room for. The others are switched out. Packets in flight are answered first (CTXR1), at most for
// patient; then the switch goes on without the answers, and the engine keeps them when they come.
// Contexts of one group are always together, so that they can answer each other. A group rests
// that has moved no packet in its turn so far and has none to move: it gives way to groups that
// are awake. With room for all groups there are no switches.
//
// Without a Clock each host takes its turns alone. A group that waits goes before one that had a
// turn, and no group leaves the card before the turn ends.
//
// With a Clock hosts agree on the number of the turn. The order of the groups depends on that
// number, on their GIDs and on the numbers of their hosts alone. So hosts with the same groups
// choose the same ones. Hosts with different groups choose the same ones wherever the first ones
// are on both. No host tells another which groups it has. Of two turns in a row the second has the
// order of the first backwards, so that two groups have every other turn each. A group that begins
// to rest gives what is left of the turn to the next one in the order, and takes its place again
// when it wakes.
//
// Groups of about as many hosts, up to a power of two, are a class. The order is first one of
// classes, then one of the groups of each. A group on all hosts would else be the first on all of
// them in few turns, where each of them has a group of its own beside it. As it is, wide groups
// have every other turn on all their hosts, and narrow ones those between. In exchange, groups of
// a class that is rare on a card have more turns there than others.
//
// The clock: the lowest-numbered cards that are heard tell their times, at most mostTellers. While
// most of these times are together, each host brings its clock into their middle, and a third of
// the cards may lie: the lowest and the highest times do not count. Such cards may tell each host
// another time. If most times are not together, as after a start, hosts follow the lowest-numbered
// card. One that leads for 30 s in vain leads no more for a while, because it tells others another
// time. A card that is new listens first, and takes over the time that the others have. When a
// card falls silent, the others go on without it.
//
// Of three cards one may lie: it cannot bring the other two apart, but may keep them from mending
// what their crystals do. It tells each of them that card's own time, so each sees two of three
// agree, and the third drift away. No rule mends that: what a card sees is the same whichever of
// the other two lies, and following the one that is apart would give liars what they lack now.
// Three clocks with one liar among them stay together only if signatures prove lies to others
// (Dolev, Halpern and Strong, Journal of Computer and System Sciences 32, 1986). The hosts' keys
// are no proof, since each host has them. A round trip shows how late a time is, not whether it is
// true. So use a fourth card.
//
// Rules:
//   - Turns and Clock are state machines. They own no goroutine, socket or lock, and time comes in.
//   - Each look looks at a bounded number of contexts that are out.
//   - Whatever the clock is told, a turn takes from 8 to 12 ms. A group that is awake waits at most
//     overdue turns for each group that is awake, and as long again for others that are overdue.
//     Numbers jump at most once in 10 s on average, so that nobody can keep choosing orders in
//     which a group is late.
package turns
