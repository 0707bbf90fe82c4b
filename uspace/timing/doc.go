// Package timing is the only model of the times of a modelled machine: of its bus, and of the
// processor's part in talking to the card (thesis 6.1.1 and 6.1.5). The same objects serve in
// virtual time and in real time. A charge lets the clock advance in virtual time, and the processor
// spin in real time. A native card has none of these objects.
//
// The journey of a message through the model:
//
//	CPU   package am charges the instructions of each primitive (Work), and says where it
//	      stores to a slot or a register (Store) and loads from one (Load).
//	Bus   every Store and Load is a transaction, and so is every burst of the card. One
//	      transaction keeps the bus from its arbitration to its last word.
//	card  the units of package engine ask for the bus one burst at a time. A unit is busy
//	      until its last burst has ended, and only then is anything seen of what it did.
//	link  a port serialises frames: package sim's Arctic network does, a word a cycle.
//
// Who waits: the processor has priority over the card. Its stores are buffered: they get the bus in
// the order in which they were issued, and the program goes on at once. A load waits for the bus
// and for its own transaction. So whenever the card gets the bus, everything that the program
// stored before has arrived, and nothing has to be delayed for it. A store to a head register is
// visible to the card when the card can look at it.
//
// The write buffer has no limit, as in the thesis, which charges two cycles for a store
// whatever is under way. It is not unbounded: a program is at most a send queue ahead.
//
// A Bus and its CPU belong to the goroutine that runs card and program. Times are
// nanoseconds of the clock that the card is stepped with.
package timing
