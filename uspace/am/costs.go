package am

// This file holds the costs of the library's primitives on a modelled processor, in instructions of
// one cycle (thesis 6.1.1). Package timing charges their loads and stores over the bus separately.
//
// The method. The counts are those of unoptimised C with the structure of thesis appendix A, in
// which scalars declared so are in registers. Every operation of the source has one price, listed
// below and the same everywhere. A flow control instruction takes two cycles, but its delay slot
// holds another instruction (6.1.1), so it counts as one. A primitive is the sum over its
// statements. Where the thesis leaves a choice, row cmam_4 of Table 6.1 decided it. Delay slots are
// always filled usefully. The program's own loop around a primitive that sends is not counted. A
// program that waits calls cmam_service, which handles one message. No figure of another row is an
// input. But the whole table was in view when the choices were made, and the rows of replies and of
// n words agreed with them. So these rows are not blind predictions.
const (
	opCost     = 1 // arithmetic, logic, shift, or a load or store that hits the cache
	setCost    = 1 // moving a result into a register variable
	testCost   = 2 // compare and branch
	bigCost    = 2 // building a constant of more than 13 bits
	globalCost = 2 // a global variable; all are far: upper half of the address, and access
	incCost    = 3 // p++ as part of an expression: old value, sum, back
	doubleCost = 2 // a load of a double word (6.1.1)
	callCost   = 4 // call, save, return, restore
	wordCost   = 2 // an argument word: into its register by the caller, into memory by the callee
)

const (
	// nextCost is INC_BY or DEC_BY of a queue index, and placeCost is ADDR: the position of a slot
	// in the queue's memory.
	nextCost  = opCost + opCost + opCost
	placeCost = globalCost + opCost + 2*opCost + setCost
	// varCost is a global variable, loaded through its pointer into a register variable;
	// pointerCost is a global that is the pointer itself.
	varCost     = globalCost + opCost + setCost
	pointerCost = globalCost + setCost

	// Sending: the part before the queue's room is known, with six argument words.
	enterCost = callCost + 6*wordCost + pointerCost + 2*varCost + nextCost + setCost + testCost
	// fullCost is the loop of a full queue, besides its poll and the register.
	fullCost = 2*testCost + 2*varCost + nextCost + setCost
	// headerCost composes the header in the first argument word.
	headerCost = opCost + bigCost + opCost + globalCost + 2*opCost + 2*opCost + opCost
	// storeCost is the cost that goes with the store of a double word from the frame to the slot.
	storeCost     = doubleCost + incCost
	lastStoreCost = doubleCost + setCost
	// publishCost writes the head index back, and makes the register's address.
	publishCost = globalCost + opCost + 2*opCost

	// xferSourceCost is the extra cost of data from memory over constants: the four words of
	// cmam_xfer_4 through a pointer, and the advance of the place.
	xferSourceCost = 4*incCost + opCost + setCost

	// Variable length: four argument words instead of six, and n, arg, and the length field.
	manyCost = -2*wordCost + (2*opCost + setCost) + (opCost + setCost) + 2*opCost
	// chunkCost is one time round the loop that stores two double words.
	chunkCost = testCost + 2*(doubleCost+incCost+opCost+setCost) + opCost + setCost + opCost
	// requestCost composes the request of XFER: five argument words, the length and the mode
	// in the header, and the other three words of the block.
	requestCost = -wordCost + (4*opCost + opCost) + 2*opCost - 2*opCost + 3*2*opCost

	// Receiving. A drain looks at one head register; drains follow each other.
	lookCost        = bigCost + opCost + opCost + setCost // the register in the cache
	drainCost       = callCost + pointerCost + drainSecondCost
	drainSecondCost = 2*pointerCost + opCost + setCost + lookCost + testCost
	// pollCost is the service call up to its knowledge of replies, in a loop that looks at a
	// global. pollSecondCost is the rest, up to its knowledge of requests.
	pollCost = globalCost + opCost + testCost + opCost + callCost + 3*pointerCost + 2*(opCost+setCost) +
		setCost + testCost
	pollRegister   = lookCost + testCost
	pollSecondCost = setCost + opCost + testCost + 2*pointerCost + 2*(opCost+setCost) + testCost
	// takeCost is the part from a message that is there to the call of its handler, with six words.
	takeCost = placeCost + 2*(incCost+2*setCost) + 3*setCost + nextCost + opCost + 2*opCost + 3*opCost +
		opCost + opCost + 3*opCost + globalCost + 2*opCost + callCost + 6*wordCost
	// userCost is a handler of the program that counts.
	userCost = globalCost + 3*opCost

	// Handlers of the library: for four words, for n words and each chunk of four of them, for data
	// into a segment, and for the notice of XFER.
	fourCost   = opCost + 2*doubleCost + callCost + 4*wordCost + userCost
	nCost      = 4*opCost + setCost + opCost + setCost + 2*setCost + 2*varCost + nextCost + 2*opCost + 2*(doubleCost+incCost+opCost) + testCost + 3*opCost + callCost + 2*wordCost + userCost
	nChunkCost = testCost + 2*(incCost+incCost+doubleCost) + 2*opCost + setCost
	findCost   = 3*opCost + globalCost + opCost + opCost + setCost
	xferCost   = findCost + 2*opCost + bigCost + 2*opCost + setCost + 4*3*opCost + 3*2*opCost + 3*opCost + testCost
	mferCost   = -2*opCost + 3*opCost + setCost + findCost + 4*opCost + testCost
	memoryCost = 2*opCost + setCost + 2*opCost // a value of a node's memory, in a handler
	// callsCost is a call on top of the primitive that it sends with: a function with four argument
	// words that counts the call in a global and names a handler. waitCost is the function that
	// waits for it.
	callsCost = callCost + 4*wordCost + globalCost + 3*opCost + globalCost
	waitCost  = callCost + 2*wordCost + globalCost + 2*opCost + testCost
	// roundCost is a round of a barrier: the loop, the partner from two globals, the call that
	// sends a handler's name, and the wait for a place in a table.
	roundCost = testCost + 2*opCost + (3*opCost + setCost) + 2*varCost + globalCost + pointerCost + 2*opCost + waitCost
)
