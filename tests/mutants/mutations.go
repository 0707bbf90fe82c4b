package main

// This file is the mutations. main.go says what each one breaks.

// The links' are caught by tests of package link; some of them by chaos, too, so that chaos is known to notice such.

func unit(test string) []check    { return []check{{folder: engineFolder, test: test}} }
func link(test string) []check    { return []check{{folder: linkFolder, test: test}} }
func library(test string) []check { return []check{{folder: libraryFolder, test: test}} }
func rats(test string) []check    { return []check{{folder: ratsFolder, test: test}} }
func chaos(faults string) []check { return []check{{faults: faults}} }

// both are the checks of a mutation that chaos has to notice as well as a test.
func both(a, b []check) []check { return append(a, b...) }

var mutations = []mutation{
	{"incarnation", "link/arrive.go",
		` && h.Epoch == p.epoch`, ``,
		both(link("TestReplayedFramesAreNotAccepted"), chaos("dup,restart"))},
	{"nonce", "link/handshake.go",
		`if h.nonce != 0 && g.Echo == h.nonce {`, `if true {`,
		link("TestReplayedFramesAreNotAccepted")},
	{"spent", "link/handshake.go",
		`case !h.spent:`, `default:`,
		unit("TestNoEpochTwice")},
	{"redrawn", "link/handshake.go",
		`} else if h.spent && !same {`, `} else if h.spent {`,
		unit("TestExactlyOnceAllToAll")},
	{"earlier", "link/handshake.go",
		`if Epoch(*self, from) == h.epoch {`, `if false {`,
		link("TestEarlierLivesBeginNothing")},
	{"impossible", "link/acknowledge.go",
		`if p.beyond++; p.beyond >= beyondInARow {`, `if false {`,
		unit("TestImpossibleAcknowledgments")},
	{"answered", "link/greeting.go",
		`if p.answers.spend(e.now, answerGap, answersAtOnce) && e.budget.spend(e.now, budgetGap, budgetAtOnce) {`, `{`,
		unit("TestForgedGreetingsAreAnsweredNowAndThen")},
	{"said", "link/limit.go",
		`int(min(p.limit, p.said))`, `int(p.limit)`,
		unit("TestFrameSizesAreAgreedUpon")},
	{"unsealed", "link/arrive.go",
		`if !f.Sealed() && (p.Key == nil || hello) {`, `if !f.Sealed() {`,
		unit("TestNobodyElseChangesAnything")},
	{"replayed", "link/seal.go",
		`if k.seen(uint32(counter)) {`, `if false {`,
		unit("TestNobodyElseChangesAnything")},
	{"counter", "link/seal.go",
		`	s.counter++
`, ``,
		unit("TestOneWantsEncryption")},
	{"unsaid", "link/peer.go",
		`if f.peer.Key != nil && f.sndUna == 0 && f.timeouts&1 == 0 {`, `if false {`,
		link("TestLostGreetingWithAKey")},
	{"open", "link/arrive.go",
		`p.secured.pending = false`, `p.secured.pending = true`,
		link("TestForgedEpochsGetNoAnswerWithAKey")},
	{"signed", "link/greeting.go",
		`g.Key != p.Key.Identity() || !p.Key.VerifyGreeting(f)`, `g.Key != p.Key.Identity()`,
		unit("TestNobodyElseChangesAnything")},
	{"number", "link/greeting.go",
		`if g.Incarnation == p.incarnation && g.Number <= s.number {`, `if false {`,
		unit("TestNobodyElseChangesAnything")},
	{"readable", "link/greeting.go",
		`p.readable = e.cfg.Readable && g.Flags`, `p.readable = g.Flags`,
		unit("TestOneWantsEncryption")},
	{"duplicate", "link/arrive.go",
		`int32(seq-fl.rcvNext) < 0 || fl.isAccepted(seq)`, `int32(seq-fl.rcvNext) < 0`,
		link("TestFrameBehindAGapIsTakenOnce")},
	{"verdict", "link/arrive.go",
		`if fl.isRefused(seq) {`, `if false {`,
		link("TestRepeatedFrameGetsTheSameAnswer")},
	{"fate", "link/arrive.go",
		`e.fate = Fate{Outcome: Accepted}`, ``,
		link("TestObserve")},
	{"negative", "link/acknowledge.go",
		`case r.Retry&bit != 0 && ln.owner.Ended:`, `case r.Retry&bit != 0:`,
		link("TestRejectedForNowTravelsInAnotherFrame")},
	{"permanent", "link/acknowledge.go",
		`e.settle(ln, Returned, r.FailReason)`, `e.settle(ln, Delivered, arctic.ReasonNone)`,
		link("TestEachPacketOfATrainIsAnswered")},
	{"halves", "link/acknowledge.go",
		`case r.Retry&bit != 0:
			if !again {`, `case r.Retry != 0:
			if !again {`,
		link("TestEachPacketOfATrainIsAnswered")},
	{"group", "route.go",
		`func (c *Card) lookup(gid, node uint16, tag uint64) *Context {`, `func (c *Card) lookup(gid, node uint16, tag uint64) *Context {
	for _, x := range c.contexts {
		if x.node == node {
			gid = x.gid
		}
	}`,
		chaos("none")},
	{"job", "route.go",
		`if x.tag != tag {`, `if false {`,
		chaos("loss,jobs")},
	{"expected", "route.go",
		`case e.tag != tag:`, `case false && e.tag != tag:`,
		unit("TestOtherJobGetsNothing")},
	{"forged", "preprocess.go",
		`c.route(g, t.First.Source) != uint32(h.SourceCard)`, `false`,
		unit("TestForgedSourceNodeIsRejected")},
	{"reserved", "cache.go",
		`l == arctic.Request && i >= t.limit`, `false`,
		unit("TestRepliesPassStalledRequests")},
	{"cumulative", "link/flow.go",
		`	if seq != f.rcvNext {
		f.setAccepted(seq)
		return false
	}
	f.rcvNext++`, `	f.rcvNext = seq + 1`,
		link("TestOvertakenFrameIsSentAgain")},
	{"foreseen", "link/arrive.go",
		`fl.predictedIn != e.view || `, ``,
		link("TestForeseenFramesAreSeenAnew")},
	{"series", "link/arrive.go",
		`fl.predicted.Epoch() != p.epoch || `, ``,
		link("TestForeseenFramesAreOfThisEpoch")},
	{"inorder", "link/arrive.go",
		`case seq == fl.rcvNext && fl.rejects.head == nil: // in order`, `case fl.rejects.head == nil: // in order`,
		link("TestReplayedFramesAreNotAccepted")},
	{"only", "link/acknowledge.go",
		`if ack == f.sndNext && ack-f.sndUna == 1 && selective == 0 && e.onlyOne(f) {`, `if ack-f.sndUna == 1 && selective == 0 && e.onlyOne(f) {`,
		link("TestExactlyOnceWhateverHappens")},
	{"unsent", "link/acknowledge.go",
		`if ack-f.sndUna > f.sndNext-f.sndUna && int32(ack-f.sndUna) > 0 {`, `if false {`,
		link("TestAcknowledgmentOfWhatWasNeverSent")},
	{"timer", "link/transmit.go",
		`e.timers.set(p, f.deadline)`, `_ = p`,
		link("TestRetransmissionTimeout")},
	{"forgotten", "link/acknowledge.go",
		`fr.state = lost
			f.flying--
			f.lost++
			found = true`, `f.flying--
			found = true`,
		both(link("TestOvertakenFrameIsSentAgain"), chaos("loss"))},
	{"backoff", "link/hold.go",
		`case s.hold > e.now:
		e.holds.push(s)`, `case false:`,
		link("TestBackOffGrows")},
	{"tries", "link/hold.go",
		`a.lastTry = a.nextTry(now, gap)`, ``,
		link("TestTriesOfAnAccountAreBounded")},
	{"vain", "link/hold.go",
		`s.hold <= e.now || s.hold <= a.nextTry(e.now, gap)`, `s.hold <= e.now`,
		link("TestTryAnew")},
	{"traced", "trace.go",
		`if t.put-t.taken == doneTraces {`, `if false {`,
		unit("TestTraceIsBounded")},
	{"seen", "trace.go",
		`return q.at[q.first].time`, `return now`,
		unit("TestTraceSeen")},
	{"removed", "link/membership.go",
		`		p.Port = noPort`, ``,
		link("TestPeerRemoved")},
	{"parted", "link/membership.go",
		`	e.lose(p, arctic.ReasonDeparted)`, ``,
		link("TestPeerRemoved")},
	{"account", "link/dispatch.go",
		`case !e.solvent(mine.account):`, `case false:`,
		link("TestAccountsShareDispatch")},
	{"insolvent", "link/account.go",
		`	if a.restsUntil > e.now {
		return false`, `	if false {
		return false`,
		link("TestRestingAccount")},
	{"sleepless", "link/account.go",
		`		e.resumes = min(e.resumes, a.restsUntil)
		return
`, `		e.resumes = min(e.resumes, a.restsUntil)
`,
		link("TestRestingAccount")},
	{"restless", "account.go",
		`func (c *Card) visit(a *account) {
	if c.rests(a) {`, `func (c *Card) visit(a *account) {
	if false {`,
		unit("TestChargedRest")},
	{"uncharged", "preprocess.go",
		`link.FrameTime+len(t.Packets)+len(t.Block)`, `0`,
		unit("TestChargeIsBounded")},
	{"bytes", "retrieval.go",
		`		a.local -= int(ln.Size) + len(ln.Block) + packetBytes
`, `		a.local -= packetBytes
`,
		unit("TestBlocksOfAStepAreBounded")},
	{"leak", "link/acknowledge.go",
		`	fr.train = nil
	e.settle(ln, Delivered, arctic.ReasonNone)
`, `	fr.train = nil
`,
		link("TestAcknowledgmentsRideOnData")},
	{"kept", "link/acknowledge.go",
		`		} else {
			e.settle(ln, Delivered, arctic.ReasonNone)
		}
	}
	e.passed(f.peer, fr)`, `		}
	}
	e.passed(f.peer, fr)`,
		link("TestExactlyOnceWhateverHappens")},
	{"fifo", "delivery.go",
		`return q.hold(p)
	}
	return arctic.ReasonQueueFull`, `return q.hold(p)
	}
	return arctic.ReasonNone`,
		chaos("slow")},
	{"tail", "transfer.go",
		`		case t.lines > 0:
		case failed, t.put`, `		case failed, t.put`,
		unit("TestTransfersUnderFaults")},
	{"retired", "transfer.go",
		` || t.state == transferRetrieved && x.card.blockOf(t) > 0`, ``,
		unit("TestSourceIsFreeWhenRetired")},
	{"held", "segments.go",
		`	x.readFrom(s, func(*transfer) { busy = true })
`, ``,
		unit("TestUnregisterBesideAnothersTransfer")},
	{"withdrawn", "segments.go",
		`	x.voidBlocks(func(ln *line) bool { return ln.transfer == t })
`, ``,
		unit("TestWithdrawWithBlocksInFlight")},
	{"source", "packetise.go",
		`t.Data = x.segments.Memory(source&^(arctic.TransferAlign-1), size, funi.Source)`,
		`t.Data = x.segments.Memory(source&^(arctic.TransferAlign-1), size, funi.Destination)`,
		unit("TestTransferViolations")},
	{"destination", "notice.go",
		`x.segments.Memory(t.Address, len(t.Data), funi.Destination)`,
		`x.segments.Memory(t.Address, len(t.Data), funi.Source)`,
		unit("TestTransferViolations")},
	{"unchecked", "notice.go",
		`if memory == nil {`, `if false {`,
		unit("TestTransferViolations")},
	{"life", "notice.go",
		`t.Form == arctic.Last && c.torn(x, train, &t)`, `false`,
		unit("TestTransfersAreNotTornWhereSequencesTurn")},
	{"age", "link/arrive.go",
		`h.Age >= Window`, `false`,
		link("TestMoreUnansweredThanTheWindow")},
	{"window", "link/dispatch.go",
		`if f.sndNext-f.sndUna >= Window {`, `if false {`,
		link("TestNoMoreThanTheWindowBehindALostFrame")},
	{"overtaken", "link/acknowledge.go",
		`const reordered = 3`, `const reordered = 2`,
		link("TestOvertakenFrameIsSentAgain")},
	{"ambiguous", "link/acknowledge.go",
		`if fr.retries == 0 {
		*rtt`, `if true {
		*rtt`,
		link("TestRoundTripTimeOfFramesSentOnce")},
	{"parked", "link/park.go",
		`f.sndNext, f.reached, f.srtt`, `f.sndNext, 0, f.srtt`,
		link("TestLateDuplicateOfAParkedFlow")},
	{"priority", "link/dispatch.go",
		`for _, l := range arctic.ByPriority {
		r := &e.ready[l]`, `for _, l := range [...]arctic.Level{arctic.Request, arctic.Reply} {
		r := &e.ready[l]`,
		link("TestRepliesGoFirst")},
	{"given-up", "link/arrive.go",
		`e.known(fl, oldest)`, ``,
		both(link("TestFramesThatAreAlwaysDroppedComeBack"), chaos("partition,cut"))},
	{"switched", "switch.go",
		`return x.iface.Diverted()`, `x.iface.Diverted()
	return [arctic.Levels][]funi.Slot{}`,
		chaos("slow,switch")},
	{"mode", "link/dispatch.go",
		`case !s.sends(), s.waiting.head == nil:`, `case s.waiting.head == nil:`,
		link("TestHaltedOwner")},
	{"called", "step.go",
		`	c.touched = c.touched[:0]
`, `	c.touched = c.touched[:0]
	c.TakeCalled()
`,
		unit("TestCalledAfterSwitchIn")},
	{"committed", "context.go",
		`pending = x.saved.pending()`, `pending = false`,
		unit("TestIdleWhileOut")},
	{"void", "link/arrive.go",
		`Retry: ^uint64(0), `, `Retry: 1, `,
		link("TestFrameThatHasBecomeTooLong")},
	{"piece", "link/limit.go",
		`arctic.Packet(ln.Data[:ln.Size]).Advance(int(ln.piece))`, ``,
		both(link("TestNarrowWayIsFoundOut"), chaos("xfer,narrow"))},
	{"silent", "link/limit.go",
		`fr.retries >= suspected && bytes > leastFrame`, `false`,
		link("TestNarrowWayIsFoundOut")},
	{"awaited", "route.go",
		`case c.now >= e.until:`, `case false:`,
		unit("TestExpectedNodesThatDoNotCome")},
	{"jump", "../am/agree.go",
		`last+gap`, `last`,
		library("TestAgreeJumps")},
	{"last", "../am/agree.go",
		`if int32(s.number-last) > 0 {`, `if false {`,
		library("TestAgreeJumps")},
	{"view", "../am/agree.go",
		`if !s.is || s.view != m.view {`, `if !s.is {`,
		library("TestAgreeFences")},
	{"fence", "../am/member.go",
		`e.answerMember(m, memberFence, p.life, 0)`, ``,
		library("TestExpelled")},
	{"expelled", "../am/member.go",
		`if m.Words[1] == uint32(k.o.Life) {`, `if true {`,
		library("TestExpelled")},
	{"joined", "../am/member.go",
		`case life != p.life || p.state != present:`, `default:`,
		library("TestHelloRepeated")},
	{"over", "../am/member.go",
		`if life > MaxLife || life < p.life && p.state != unheard {`, `if life > MaxLife {`,
		library("TestHelloRepeated")},
	{"landing", "../am/landing.go",
		`l.closed[n].until <= now; n++`, `now > 0; n++`,
		library("TestMemoryIsHeld")},
	{"fetched", "../am/grant.go",
		`		e.unfetched(g, ErrAborted)
`, ``,
		library("TestFetchedMessageIsCancelled")},
	{"round", "../am/barrier.go",
		`b.lost |= 1 << bits.TrailingZeros(uint(further))`, `_ = further`,
		library("TestRoundOfTheLastBarrierIsToldAgain")},
	{"bounds", "execute.go",
		` || uint64(size) > uint64(len(w.memory))-offset`, ``,
		unit("TestOperationsAreRefused")},
	{"rights", "execute.go",
		`	case w.rights&right == 0:
`, `	case false:
`,
		unit("TestOperationsAreRefused")},
	{"lock", "execute.go",
		`	case w.locked && w.locker != source:
`, `	case false:
`,
		unit("TestOperationsAreRefused")},
	{"unlocked", "execute.go",
		`	case !w.locked || w.life != life:
`, `	case !w.locked:
`,
		unit("TestOperationsAreRefused")},
	{"alignment", "atomics.go",
		`	if at%uintptr(size) != 0 {`, `	if false {`,
		unit("TestOperationsAreRefused")},
	{"suspended", "execute.go",
		`	if w.suspended {
`, `	if false {
`,
		unit("TestSuspendedWindow")},
	{"busy", "execute.go",
		`			r.use.Refused.Busy++
			return arctic.ReasonBusy
		}
	}
	// From`, `			perform(q, memory, make([]byte, size))
			return arctic.ReasonBusy
		}
	}
	// From`,
		unit("TestBusyWindow")},
	{"reread", "execute.go",
		`q.ID, 0, old[:size])`, `q.ID, 0, memory)`,
		unit("TestOperations")},
	{"notifying", "execute.go",
		`		if w.unread >= w.credit {
			if`, `		if false {
			if`,
		unit("TestWindowCredit")},
	{"atomic", "atomics.go",
		`		return atomic.AddUint64(p, a) - a, true`, `		old := *p
		*p = old + a
		return old, true`,
		unit("TestOperationsAreAtomic")},
	{"beside", "atomics.go",
		`all&^(mask<<shift)|uint32(changed)&mask<<shift`, `uint32(changed)&mask<<shift`,
		unit("TestElements")},
	{"generation", "request.go",
		`q.open && q.generation == uint16(id>>16)`, `q.open`,
		unit("TestForgedAnswers")},
	{"responder", "response.go",
		`	case q.node != h.Source:
`, `	case false:
`,
		unit("TestForgedAnswers")},
	{"posted", "response.go",
		`uint64(a.Offset)+uint64(len(a.Data)) > uint64(q.asked) || `, ``,
		unit("TestForgedAnswers")},
	{"entry", "request.go",
		`	r.promised++
	q := `, `	q := `,
		unit("TestOperationBlocksAreRefused")},
	{"early", "transfer.go",
		`		case t.lines > 0:
		case failed, t.put`, `		case t.lines > 0 && (t.put == nil || !t.put.waits()):
		case failed, t.put`,
		unit("TestTrailer")},
	{"revoked", "keyslot.go",
		`	x.keepAnswers(s.memory)
	x.remote.promised`, `	x.remote.promised`,
		unit("TestAnswersKeepWhatTheyHad")},
	{"unanswered", "request.go",
		`	} else if q.lines == 0 {
		x.card.awaitAnswer(q)
	}`, `	}`,
		unit("TestAnswersThatDoNotCome")},
	{"untold", "switch.go",
		`	x.tellOwed()
`, ``,
		unit("TestCompletionsWhileAway")},
	{"calm", "response.go",
		`		x.stir() // it is for`, `		// it is for`,
		unit("TestOperationsOfTheSameCard")},
	{"swaps", "execute.go",
		`		if !q.Fetch { // else`, `		if true { // else`,
		unit("TestWriteThatFetchesIsASwap")},
	{"keyed", "keyslot.go",
		` && r.keySlots[n].key == key`, ``,
		unit("TestPutsAreRefused")},
	{"limit", "area.go",
		`uint64(w.Offset)+uint64(len(w.Data)) > uint64(len(r.keySlots[n].memory))`, `uint64(w.Offset) > uint64(len(r.keySlots[n].memory))`,
		unit("TestPutsAreRefused")},
	{"binding", "area.go",
		`a.credit == 0 || a.keySlot != n`, `a.credit == 0`,
		unit("TestPutsAreRefused")},
	{"delta", "remote.go",
		`			m.count--
`, ``,
		unit("TestPutOfManyPackets")},
	{"zeroing", "keyslot.go",
		`a.counter, a.metadata, ok = 0, 0, true`, `a.metadata, ok = 0, true`,
		unit("TestResetArea")},
	{"credit", "area.go",
		`if counter == 0 && a.unread+ahead == a.credit {`, `if counter == 0 && false {`,
		unit("TestCredit")},
	{"ahead", "heldwrite.go",
		`notifications++`, `_ = before`,
		unit("TestCreditOfWritesThatWait")},
	{"behind", "keyslot.go",
		`		x.card.settleWrites(x) // what was accepted before
`, ``,
		unit("TestCloseBehindWritesThatWait")},
	{"started", "writetime.go",
		`	w.lead += int64(u.card.DMA.Start.Duration(data, 0))
`, ``,
		unit("TestWritesTakeTheStepsOfTheirKind")},
	{"stored", "writetime.go",
		`	if inSlot {
		w.direct`, `	if false {
		w.direct`,
		unit("TestWritesTakeTheStepsOfTheirKind")},
	{"sent", "writetime.go",
		`	if last {
		ln.Behind`, `	if true {
		ln.Behind`,
		unit("TestMessageOfManyBlocks")},
	{"metadata", "writetime.go",
		`	} else {
		words += len(r.Metadata) / arctic.WordSize
	}`, `	}
	words += len(r.Metadata) / arctic.WordSize`,
		unit("TestWritesTakeTheStepsOfTheirKind")},
	{"unhosted", "writetime.go",
		`if each > arctic.MaxRemoteBytes {`, `if false {`,
		unit("TestWritesTakeTheStepsOfTheirKind")},
	{"unwaited", "heldwrite.go",
		`return !q.bypass && (!w.Block || q.blocks != nil && len(w.Data) <= cap(q.blocks[0]))`, `return !q.bypass && !w.Block`,
		unit("TestWritesTakeTheStepsOfTheirKind")},
	{"leftover", "context.go",
		` || l.Takes|l.Behind != 0`, ``,
		unit("TestMessagesTakeNothingOfWrites")},
	{"closed", "keyslot.go",
		`			x.closeKeySlot(&r.keySlots[n])`, `			_ = n`,
		unit("TestOpenAndCloseInOrder")},
	{"within", "keyslot.go",
		`			x.closeKeySlot(k)`, `			_ = k`,
		unit("TestUnregisterClosesKeySlots")},
	{"counted", "link/limit.go",
		`p.CountPiece(ln.Counts && n == len(ln.Block))`, `p.CountPiece(ln.Counts)`,
		unit("TestPutWhoseBlocksGoInPieces")},
	{"unread", "keyslot.go",
		`if r.areas[n].unread != 0 || credit > uint32(len(r.ring))-r.promised {
		return`, `if credit > uint32(len(r.ring))-r.promised {
		return`,
		unit("TestCloseAreaWithUnreadNotifications")},
	{"guessed", "area.go",
		`if r.guesses.tooMany(h.Source, c.now) {`, `if false {`,
		unit("TestGuessedKeys")},
	{"neighbour", "keyslot.go",
		`e.node == node || e.count == 0`, `e.node%guessers == node%guessers || e.count == 0`,
		unit("TestWhoGuessesPays")},
	{"late", "late.go",
		`l.copied, l.replaced, x.calm = true, true, false`, `l.replaced, x.calm = true, false`,
		unit("TestSilentPeerStopsNoOther")},
	{"copied", "segments.go",
		`ln.Block, ln.kept = bytes.Clone(ln.Block), true`, `_, ln.kept = bytes.Clone(ln.Block), true`,
		unit("TestSilentPeerStopsNoOther")},
	{"lateness", "late.go",
		`x.account.late+kept > mostLate`, `false`,
		unit("TestLateWritesAreBounded")},
	{"aside", "remote.go",
		`if n >= room {`, `if n > budget+room {`,
		unit("TestSilentPeerTakesHalfTheLines")},
	{"unresumed", "aside.go",
		`more > share/4`, `more > share/4 && false`,
		unit("TestSilentPeerTakesHalfTheLines")},
	{"unshared", "aside.go",
		`(x.ticket.freeFor(t.level, c.cfg.Lines)+held)/2)`, `(c.cfg.Lines-c.cfg.ReplyLines)/2)`,
		unit("TestSilentPeersStopNoOther")},
	{"replaced", "transfer.go",
		`if !t.late.replaced {`, `if true {`,
		unit("TestSilentPeersStopNoOther")},
	{"repaid", "late.go",
		`t.late.by.late -= t.late.kept`, `_ = t.late.kept`,
		unit("TestLateWritesAreBounded")},
	{"unsendable", "remote.go",
		`x.segments.Memory(source, size, funi.Source)`, `x.segments.Memory(source, size, 0)`,
		unit("TestRequestBlocksAreRefused")},
	{"page", "request.go",
		`min(q.total-q.asked, c.inPage(q.address), c.inPage(uint64(q.into)+uint64(q.asked)))`, `q.total - q.asked`,
		unit("TestNoPieceCrossesAPage")},
	{"withheld", "fault.go",
		`c.now-w.missed >= int64(c.cfg.ConnectTimeout)`, `false`,
		unit("TestOwnerThatNeverAnswers")},
	{"unrouted", "routemiss.go",
		`	c.missesDue = min(c.missesDue, c.now+int64(c.cfg.ConnectTimeout))
`, ``,
		unit("TestRouteThatNeverComes")},
	{"routed", "route.go",
		`	c.routes[node] = route
	c.routed()
`, `	c.routes[node] = route
`,
		unit("TestPacketsWaitForARoute")},
	{"fault", "fault.go",
		`	w.told = true
`, ``,
		unit("TestMiss")},
	{"chain", "chain.go",
		`	if reason := c.deliverMulticast(x, h, m); reason != arctic.ReasonNone {
		return reason
	}
	c.sendOn(x, ch, h, m)
	return arctic.ReasonNone
`, `	c.sendOn(x, ch, h, m)
	return c.deliverMulticast(x, h, m)
`,
		unit("TestMulticastPut")},
	{"loop", "chain.go",
		`m.Left != ch.members`, `false`,
		unit("TestNoChainLoops")},
	{"diamond", "chain.go",
		`!ch.first && h.Source != ch.parent`, `false`,
		unit("TestWaysThatMeet")},
	{"crossing", "link/stream.go",
		`answers + sort(ln.Chain)`, `answers`,
		unit("TestFullChainStopsNoOther")},
	{"unreported", "chain.go",
		`x.detached || reason == arctic.ReasonGivenUp`, `true`,
		unit("TestBrokenChain")},
	{"impatient", "chain.go",
		` + longestWay*int64(c.cfg.MaxHold)`, ``,
		unit("TestWaysThatAreFull")},
	{"posing", "chain.go",
		`case ch.first && (m.Origin != h.Source || m.Done != 0):`, `case ch.first && m.Done != 0:`,
		unit("TestForgedMulticasts")},
	{"overcounted", "chain.go",
		`if q.got+n > q.total {`, `if false {`,
		unit("TestForgedReports")},
	{"unfetched", "heldwrite.go",
		`u.slot(w, funi.RemoteDataWord+wordsOf(int(min(s.Load(funi.RemoteLengthWord), arctic.MaxMulticastWords*arctic.WordSize))))`, `u.slot(w, funi.RemoteDataWord)`,
		unit("TestMulticastsTakeTheirTime")},
	{"unqueued", "chain.go",
		`q.n == 0 && q.bypass`, `q.n == 0`,
		unit("TestMulticastsTakeTheirTime")},
	{"owing", "forward.go",
		`		f.before--
`, ``,
		unit("TestMovesUnderFaults")},
	{"home", "forward.go",
		`case f.Node == h.Source && c.route(g, h.Source) == from && c.link.IsPeer(f.Card):`, `case c.link.IsPeer(f.Card):`,
		unit("TestForwardsOfOthersAreRefused")},
	{"handed", "image.go",
		`r.areas[n] = a`, `_ = a`,
		unit("TestMoveTakesAll")},
	{"unlisted", "forward.go",
		`if g.allArrive() && c.route(g, f.Node) != NoRoute`, `if false`,
		chaos("moves")},
	{"ring", "../rats/write.go",
		`window := s.size - (s.sent - max(s.consumed, s.base))`, `window := s.size`,
		rats("TestStream")},
	{"parts", "../rats/receive.go",
		`p.at == r.next {`, `true {`,
		rats("TestStream")},
	{"boasted", "../rats/receive.go",
		`if p.at+length-max(r.released, r.base) > size || offset+length > size {`, `if false {`,
		rats("FuzzForeignMetadata")},
	{"release", "../rats/receive.go",
		`		r.released = p.to
`, `		r.released = r.next
`,
		rats("TestReleaseOfAPart")},
	{"halfclose", "../rats/write.go",
		`s.ending && !s.final && s.chunk == nil && s.size > 0`, `s.ending && !s.final && s.size > 0`,
		rats("TestStream")},
	{"turns", "../rats/lane.go",
		`	if s.hasTurn {`, `	if true {`,
		rats("TestStreamsTakeTurns")},
	{"others", "../rats/lane.go",
		`l.out+l.others < laneAll`, `true`,
		rats("TestFewLongMessagesToANode")},
	{"borrowed", "../rats/manager.go",
		`later{at: m.iface.Committed(funi.Request), memory: memory`, `later{at: 0, memory: memory`,
		rats("TestStream")},
	{"given", "../rats/heap.go",
		`h.order[at] = uint8(order) | inUse`, `h.order[at] = uint8(order)`,
		rats("TestHeap")},
}
