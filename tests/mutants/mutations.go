package main

// This file is the mutations. main.go says what each one breaks.

// The links' are caught by tests of package link; some of them by chaos, too, so that chaos is known to notice such.

func unit(test string) []check    { return []check{{folder: engineFolder, test: test}} }
func link(test string) []check    { return []check{{folder: linkFolder, test: test}} }
func library(test string) []check { return []check{{folder: libraryFolder, test: test}} }
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
		` || t.state == transferRetrieved && x.card.block > 0`, ``,
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
		`case s.owner.Halted, s.waiting.head == nil:`, `case s.waiting.head == nil:`,
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
}
