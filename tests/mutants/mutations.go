package main

// This file is the mutations. main.go says what each one breaks.

// The links' are caught by tests of package link; some of them by chaos, too, so that chaos is
// known to notice such.

func unit(test string) []check    { return []check{{folder: engineFolder, test: test}} }
func link(test string) []check    { return []check{{folder: linkFolder, test: test}} }
func library(test string) []check { return []check{{folder: libraryFolder, test: test}} }
func rats(test string) []check    { return []check{{folder: ratsFolder, test: test}} }
func rma(test string) []check     { return []check{{folder: rmaFolder, test: test}} }
func virtni(test string) []check  { return []check{{folder: virtniFolder, test: test}} }
func abi(test string) []check     { return []check{{folder: abiFolder, test: test}} }
func board(test string) []check   { return []check{{folder: boardFolder, test: test}} }
func wiring(test string) []check  { return []check{{folder: wiringFolder, test: test}} }
func sim(test string) []check     { return []check{{folder: simFolder, test: test}} }
func scale(test string) []check   { return []check{{folder: scaleFolder, test: test}} }
func turning(test string) []check { return []check{{folder: turnsFolder, test: test}} }
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
		`} else if (h.spent || h.used) && !same {`, `} else if h.spent || h.used {`,
		unit("TestExactlyOnceAllToAll")},
	{"earlier", "link/handshake.go",
		`if Epoch(*self, from) == h.epoch {`, `if false {`,
		link("TestEarlierLivesBeginNothing")},
	{"obituary", "link/fate.go",
		`if p.incarnation != life && p.incarnation != 0 && f.ended == 0 {`, `if false {`,
		link("TestLateNews")},
	{"mourned", "link/greeting.go",
		`if p.removed() || e.over(p) {`, `if p.removed() {`,
		link("TestEndedPeer")},
	{"buried", "link/greeting.go",
		`if e.buried(p, &g) { // it was under way`, `if false {`,
		link("TestGreetingOfTheDead")},
	{"doubted", "link/fate.go",
		`e.cfg.Doubt != nil && f.doubted != p.silentSince && `, `e.cfg.Doubt != nil && `,
		link("TestSilentPeerThatLives")},
	{"vouched", "link/fate.go",
		`if f.vouched == p.silentSince {`, `if false {`,
		link("TestSilentPeerThatLives")},
	{"awoken", "link/peer.go",
		`if e.now-f.movedAt >= e.mayBeSilent(f.peer) && !e.vouchedFor(f.peer) {`,
		`if e.now-f.movedAt >= e.mayBeSilent(f.peer) {`,
		link("TestSilentPeerThatIsHeardAgain")},
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
		`	k.counter++
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
		`int32(seq-fl.rcvNext) < 0 || fl.accepted.has(seq)`, `int32(seq-fl.rcvNext) < 0`,
		link("TestFrameBehindAGapIsTakenOnce")},
	{"verdict", "link/arrive.go",
		`case fl.refused.has(seq):`, `case false:`,
		link("TestRepeatedFrameGetsTheSameAnswer")},
	{"fate", "link/arrive.go",
		`e.Fate, e.answered = Fate{Outcome: Accepted}, nil`, `e.answered = nil`,
		link("TestObserve")},
	{"negative", "link/acknowledge.go",
		`case r.Retry&bit != 0 && ln.Owner.Ended:`, `case r.Retry&bit != 0:`,
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
		`func (r *routes) lookup(gid, node uint16, tag uint64) (*Context, arctic.Reason) {
`, `func (r *routes) lookup(gid, node uint16, tag uint64) (*Context, arctic.Reason) {
	for _, x := range r.table.all {
		if x.node == node {
			gid = x.gid
		}
	}
`,
		chaos("none")},
	{"job", "route.go",
		`if x.tag != tag {`, `if false {`,
		chaos("loss,jobs")},
	{"expected", "route.go",
		`case e.tag != tag:`, `case false && e.tag != tag:`,
		unit("TestOtherJobGetsNothing")},
	{"forged", "preprocess.go",
		`r.of(g, t.First.Source) != uint32(t.Header.SourceCard)`, `false`,
		unit("TestForgedSourceNodeIsRejected")},
	{"reserved", "cache.go",
		`l == arctic.Request && i >= t.limit`, `false`,
		unit("TestRepliesPassStalledRequests")},
	{"cumulative", "link/arrive.go",
		`		if seq != fl.rcvNext {
			fl.accepted.add(seq)
			fl.ahead++
			atOnce = true
		} else if fl.rcvNext++; fl.ahead > 0 {`, `		if fl.rcvNext = seq + 1; fl.ahead > 0 {`,
		link("TestOvertakenFrameIsSentAgain")},
	{"foreseen", "link/arrive.go",
		`fl.predictedIn != e.view || `, ``,
		link("TestForeseenFramesAreSeenAnew")},
	{"series", "link/arrive.go",
		`fl.predicted.Header.Epoch != p.epoch || `, ``,
		link("TestForeseenFramesAreOfThisEpoch")},
	{"inorder", "link/arrive.go",
		`case seq == fl.rcvNext && fl.rejects.head == nil: // in order`, `case fl.rejects.head == nil: // in order`,
		link("TestReplayedFramesAreNotAccepted")},
	{"selected", "link/acknowledge.go",
		`if beyond == 0 || selective>>(beyond-1)&1 == 0 {`, `if beyond == 0 {`,
		link("TestExactlyOnceWhateverHappens")},
	{"unsent", "link/acknowledge.go",
		`if ack-f.sndUna > f.sndNext-f.sndUna && int32(ack-f.sndUna) > 0 {`, `if false {`,
		link("TestAcknowledgmentOfWhatWasNeverSent")},
	{"timer", "link/transmit.go",
		`e.timers.set(p, f.deadline)`, `_ = p`,
		link("TestRetransmissionTimeout")},
	{"forgotten", "link/acknowledge.go",
		`f.loses(fr)
			found = true`, `f.flying--
			found = true`,
		both(link("TestOvertakenFrameIsSentAgain"), chaos("loss"))},
	{"backoff", "link/hold.go",
		`case s.hold > e.now && !(s.held && s.owner.Halted):
		s.list = onHold
		e.holds.push(s)`, `case false:`,
		link("TestBackOffGrows")},
	{"tries", "link/hold.go",
		`a.lastTry = a.nextTry(now, gap)`, ``,
		link("TestTriesOfAnAccountAreBounded")},
	{"vain", "link/hold.go",
		`s.hold <= e.now || s.hold <= a.nextTry(e.now, gap)`, `s.hold <= e.now`,
		link("TestTryAnew")},
	{"lastword", "link/defer.go",
		` && (s.deferredAt == 0 || e.now-s.deferredAt < int64(e.cfg.ConnectTimeout))`, ``,
		link("TestDeferredLastWord")},
	{"strangers", "link/defer.go",
		`return p.defers && !s.met && `, `return p.defers && `,
		link("TestForgedDeferral")},
	{"older", "link/greeting.go",
		`p.Key == nil && g.Flags&arctic.Defers != 0`, `p.Key == nil`,
		link("TestNotDeferred")},
	{"unkeyed", "link/greeting.go",
		`p.Key == nil && g.Flags&arctic.Defers != 0`, `g.Flags&arctic.Defers != 0`,
		link("TestNotDeferred")},
	{"debts", "link/transmit.go",
		`if defers && !e.settleDebts(p) {`, `if false {`,
		link("TestDeferredCarryNothing")},
	{"makeroom", "link/dispatch.go",
		`e.makeRoom(f)`, ``,
		link("TestDeferredHoldUpNobody")},
	{"abreast", "link/dispatch.go",
		`case e.spaces(s):`, `case false:`,
		link("TestDeferredTriesAreBounded")},
	{"lively", "link/defer.go",
		`if o := p.flows[h.Level^1]; o == nil || o.flying+o.lost == 0 {`, `if true {`,
		link("TestDeferralIsNoSignOfLife")},
	{"putoff", "link/defer.go",
		`if f.flying+f.lost == 0 {`, `{`,
		link("TestDeferralIsNoSignOfLife")},
	{"unstill", "link/defer.go",
		`fr.void || s.owner.Halted`, `fr.void`,
		link("TestDeferredHalted")},
	{"finality", "link/defer.go",
		`	fr.state, fr.retries = held, 0
	f.held++
	s.held, s.heldSeq = true, h.Sequence
`, `	f.lost++
	fr.state = lost
	e.reject(f, &Verdict{sequence: h.Sequence, Retry: 1, RetryReason: arctic.ReasonSwitching})
	return
`,
		both(link("TestDeferredExactlyOnce"), chaos("defer,reorder"))},
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
		`func (s *scheduler) visit(a *account) {
	if s.rests(a) {`, `func (s *scheduler) visit(a *account) {
	if false {`,
		unit("TestChargedRest")},
	{"uncharged", "preprocess.go",
		`link.FrameTime + len(t.Packets) + len(t.Block)`, `0`,
		unit("TestAllWorkIsPaid")},
	{"orphan", "account.go",
		`a.contexts == 0 && a.groups == 0 &&`, `a.contexts == 0 &&`,
		unit("TestGroupsThatAreLeftArePaid")},
	{"unbounded", "account.go",
		`	for seen := a.awake`, `	if s.dozing {
		a.local, a.retrieval = 1<<30, 1<<30
	}
	for seen := a.awake`,
		unit("TestAccountsShareAStep")},
	{"bytes", "retrieval.go",
		`cost := int(ln.Size) + len(ln.Block) + packetCost(h.Kind)`, `cost := packetCost(h.Kind)`,
		unit("TestBlocksOfAStepAreBounded")},
	{"kept", "link/acknowledge.go",
		`			} else {
				e.settle(ln, Delivered, arctic.ReasonNone)
			}
		}
		if p.suspect`, `			}
		}
		if p.suspect`,
		both(link("TestAcknowledgmentsRideOnData"), link("TestExactlyOnceWhateverHappens"))},
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
		` || t.state == transferRetrieved && x.card.out.blockOf(t) > 0`, ``,
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
		`t.Form == arctic.Last && d.table.torn(x, train, &t)`, `false`,
		unit("TestTransfersAreNotTornWhereSequencesTurn")},
	{"age", "link/arrive.go",
		`h.Age >= Window`, `false`,
		link("TestMoreUnansweredThanTheWindow")},
	{"window", "link/dispatch.go",
		`if f.sndNext-f.sndUna >= Window {`, `if false {`,
		link("TestNoMoreThanTheWindowBehindALostFrame")},
	{"overtaken", "link/acknowledge.go",
		`	reordered = 3`, `	reordered = 2`,
		link("TestOvertakenFrameIsSentAgain")},
	{"ambiguous", "link/acknowledge.go",
		`if fr.retries == 0 { // else`, `if true { // else`,
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
		`	c.table.touched = c.table.touched[:0]
`, `	c.table.touched = c.table.touched[:0]
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
		`case r.clock.now >= e.until:`, `case false:`,
		unit("TestExpectedNodesThatDoNotCome")},
	{"jump", "../am/agree.go",
		`last+gap`, `last`,
		library("TestAgreeJumps")},
	{"last", "../am/agree.go",
		`if int32(s.number-last) > 0 {`, `if false {`,
		library("TestAgreeJumps")},
	{"view", "../am/agree.go",
		`if !s.is || s.view != k.view {`, `if !s.is {`,
		library("TestAgreeFences")},
	{"fence", "../am/member.go",
		`k.answer(m, memberFence, p.life, 0)`, ``,
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
		`		x.unfetched(g, ErrAborted)
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
		`	if q.Asked() && !x.canAnswer() {
`, `	if q.Asked() && !x.canAnswer() {
		perform(q, e.memory, make([]byte, size))
`,
		unit("TestBusyWindow")},
	{"reread", "execute.go",
		`q.ID, 0, old[:len(e.memory)])`, `q.ID, 0, e.memory)`,
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
		`	case q.node != source:
`, `	case false:
`,
		unit("TestForgedAnswers")},
	{"posted", "response.go",
		`uint64(a.Offset)+uint64(len(a.Data)) > uint64(q.asked) || `, ``,
		unit("TestForgedAnswers")},
	{"entry", "keyslot.go",
		`	r.promised += n
	return true`, `	return true`,
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
		`	} else if q.lines == 0 && q.got < q.total {
		x.card.remote.awaitAnswer(q)
	}`, `	}`,
		unit("TestAnswersThatDoNotCome")},
	{"untold", "switch.go",
		`	x.tellOwed()
`, ``,
		unit("TestCompletionsWhileAway")},
	{"hasty", "receiveunit.go",
		`w.train != nil && !u.timeTrain()`, `false`,
		unit("TestOperationsTakeTheirTime")},
	{"entries", "windowentry.go",
		`	u.operate.move(u.entryWords)
`, ``,
		unit("TestMissesOfTheWindowTableAreFetched")},
	{"stored", "operateunit.go",
		`		u.operate.move(wordsOf(len(a.Data)))
`, ``,
		unit("TestAnswersTakeTheirTime")},
	{"costly", "operateunit.go",
		`u.remote.examine(x, x.remote, h.Source, &q, &e) != arctic.ReasonNone {`,
		`u.remote.examine(x, x.remote, h.Source, &q, &e) != arctic.ReasonNone && e.memory == nil {`,
		unit("TestRefusalsTakeNoTime")},
	{"holds", "link/arrive.go",
		`p.established && p.epoch == t.epoch {`, `p.established && p.epoch == t.epoch || true {`,
		unit("TestWhatEndsBeforeItsTime")},
	{"asleep", "link/park.go",
		` || e.train.open && e.train.flow == f`, ``,
		unit("TestFlowStaysWhileAFrameIsJudged")},
	{"retimed", "link/peer.go",
		`		note(f.deadline)
		if p.lookAt`, `		if p.lookAt`,
		link("TestRetime")},
	{"alternate", "operateunit.go",
		`o.waits = o.line != nil`, `o.waits = false`,
		unit("TestOperationUnitTakesTurns")},
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
		`uint64(w.Offset)+uint64(len(w.Data)) > uint64(len(s.memory))`, `uint64(w.Offset) > uint64(len(s.memory))`,
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
		`		x.card.remote.settleWrites(x) // what was accepted before
`, ``,
		unit("TestCloseBehindWritesThatWait")},
	{"started", "writetime.go",
		`	w.lead += int64(u.times.DMA.Start.Duration(data, 0))
`, ``,
		unit("TestWritesTakeTheStepsOfTheirKind")},
	{"bussed", "writetime.go",
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
		`return !q.bypass && (!w.Block || q.blocks != nil && len(w.Data) <= cap(q.blocks[0]))`,
		`return !q.bypass && !w.Block`,
		unit("TestWritesTakeTheStepsOfTheirKind")},
	{"leftover", "context.go",
		` || l.Takes|l.Behind != 0`, ``,
		unit("TestMessagesTakeNothingOfWrites")},
	{"forgot", "../funi/lost.go",
		`-c.lostAt[n]) < 0 &&`, `-c.lostAt[n]) < 0 && false &&`,
		abi("TestLostMissesNothing")},
	{"again", "execute.go",
		`if !perform(q, e.memory, old[:len(e.memory)]) {`,
		`if !perform(q, e.memory, old[:len(e.memory)]) || u.clock.now%97 == 0 && !perform(q, e.memory, old[:len(e.memory)]) {`,
		chaos("loss,dup,rma")},
	{"recount", "execute.go",
		`	if counted {
		x.count(e.window, q)
`, `	if counted {
		x.count(e.window, q)
		if u.clock.now%97 == 0 {
			x.count(e.window, q)
		}
`,
		chaos("loss,dup,rma")},
	{"prompt", "request.go",
		`return q.counts && q.asked+size == q.total && q.got < q.asked`, `return false`,
		unit("TestCountComesLast")},
	{"unfelt", "execute.go",
		`	if counted || e.signal != nil ||`, `	if e.signal != nil ||`,
		rma("TestUntil")},
	{"homeless", "image.go",
		`n&imageLocked != 0, base
`, `n&imageLocked != 0, 0
`,
		unit("TestMoveTakesAll")},
	{"apart", "../funi/lost.go",
		`if h.completes() {`, `if false {`,
		abi("TestLostOperations")},
	{"suspected", "../rats/send.go",
		`m.handle != 0 && l.To(m.node)`, `m.handle != 0 && m.at <= s.retired && l.To(m.node)`,
		rats("TestLostReturnsBesideALongWrite")},
	{"another", "../rats/endpoint.go",
		" || op != funi.RemotePut &&\n\t\t(op < funi.OpenKeySlot || op > funi.ResetArea)",
		` || op >= funi.Operate && op < funi.OpenKeySlot`,
		rats("TestOthersBlocksThatCameBack")},
	{"pending", "../rma/complete.go",
		`	n.unsettled += lost - n.lost
`, ``,
		rma("TestLostReturnsOfMulticasts")},
	{"doomed", "../rma/complete.go",
		`e.ops.unsettled > 0 && e.open() <= 0`, `e.ops.unsettled > 0`,
		rma("TestLostReturnsOfMulticasts")},
	{"unheard", "../am/undelivered.go",
		`if !ok && e.iface.ReturnsLost() == e.lost {`, `if !ok {`,
		library("TestLostAfterTheLook")},
	{"everybody", "../funi/lost.go",
		`uint32(lostOne) | uint32(node/LostNodes)<<lostShift`, `uint32(node/LostNodes) << lostShift`,
		abi("TestLostTellsWhichNode")},
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
		`if r.guesses.tooMany(h.Source, u.clock.now) {`, `if false {`,
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
		`min(q.total-q.asked, u.inPage(q.address), u.inPage(uint64(q.into)+uint64(q.asked)))`, `q.total - q.asked`,
		unit("TestNoPieceCrossesAPage")},
	{"withheld", "fault.go",
		`u.clock.now-w.missed >= int64(u.cfg.ConnectTimeout)`, `false`,
		unit("TestOwnerThatNeverAnswers")},
	{"unrouted", "routemiss.go",
		`	o.clock.by(routeDue, o.clock.now+int64(o.cfg.ConnectTimeout))
`, ``,
		unit("TestRouteThatNeverComes")},
	{"routed", "route.go",
		`	c.routes.common[node] = route
	c.out.routed()
`, `	c.routes.common[node] = route
`,
		unit("TestPacketsWaitForARoute")},
	{"mute", "fault.go",
		` && r.keySlots[n].credit > 0`, ``,
		unit("TestFaultsAreTheOwners")},
	{"fault", "fault.go",
		`	w.told = true
`, ``,
		unit("TestMiss")},
	{"chain", "chain.go",
		`	if reason := u.deliverMulticast(x, h, m, e.memory); reason != arctic.ReasonNone {
		return reason
	}
	u.sendOn(x, ch, h, m)
	return arctic.ReasonNone
`, `	u.sendOn(x, ch, h, m)
	return u.deliverMulticast(x, h, m, e.memory)
`,
		unit("TestSlowMemberHoldsItsChainOnly")},
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
		`case ch.first && (m.Origin != h.Source || m.Place != 0):`, `case ch.first && m.Place != 0:`,
		unit("TestForgedMulticasts")},
	{"overcounted", "ledger.go",
		`case int(r.Place)+int(r.Left) > g.members:`, `case int(r.Place) >= g.members:`,
		unit("TestForgedReports")},
	{"unfetched", "heldwrite.go",
		`u.slot(w, funi.RemoteDataWord+wordsOf(size))`, `u.slot(w, funi.RemoteDataWord)`,
		unit("TestMulticastsTakeTheirTime")},
	{"unqueued", "chain.go",
		`q.n == 0 && q.bypass`, `q.n == 0`,
		unit("TestMulticastsTakeTheirTime")},
	{"weightless", "chain.go",
		`		u.operate.move(wordsOf(len(m.Data)))
`, ``,
		unit("TestMulticastPutsTakeTheirTime")},
	{"unrecorded", "operateunit.go",
		`		u.timeReport(q, &a)
`, ``,
		unit("TestMulticastPutsTakeTheirTime")},
	{"unproven", "ledger.go",
		`case r.Proof != g.proof:`, `case false:`,
		unit("TestForgedReports")},
	{"twice", "ledger.go",
		`	return set(g.known, from, end)
`, `	set(g.known, from, end)
	return end - from
`,
		both(unit("TestMembersAreCountedOnce"), unit("TestAcknowledgmentOfACopyIsLost"))},
	{"certain", "ledger.go",
		`		if r.Reason.Doubtful() {`, `		if false {`,
		unit("TestDoubtEnds")},
	{"places", "chain.go",
		`		on.Place += n.Members
`, ``,
		unit("TestMulticast")},
	{"owing", "forward.go",
		`		f.before--
`, ``,
		unit("TestMovesUnderFaults")},
	{"home", "forward.go",
		`case f.Node == h.Source && m.routes.of(g, h.Source) == from && m.link.IsPeer(f.Card):`,
		`case m.link.IsPeer(f.Card):`,
		unit("TestForwardsOfOthersAreRefused")},
	{"handed", "image.go",
		`r.areas[n] = a`, `_ = a`,
		unit("TestMoveTakesAll")},
	{"unlisted", "forward.go",
		`if g.mayBeAt(f.Node, f.Card, m.cfg.Card) && g.allArrive() && m.routes.of(g, f.Node) != NoRoute`, `if false`,
		chaos("moves")},
	{"stale", "forward.go",
		`if g.mayBeAt(f.Node, f.Card, m.cfg.Card) && g.allArrive()`, `if g.allArrive()`,
		unit("TestOldNewsOfOtherNodes")},
	{"hops", "forward.go",
		`node == x.node && (i == f.home ||`, `node == x.node && (true ||`,
		unit("TestMissedMoves")},
	{"whole", "forward.go",
		`		ln.Whole()
`, ``,
		unit("TestBlocksFollowInOnePiece")},
	{"return", "life.go",
		`min(b.reached[l], sign.bornAt(b.card, arctic.Level(l)))`, `sign.bornAt(b.card, arctic.Level(l))`,
		unit("TestGoOn")},
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
	{"unwoken", "../funi/card.go",
		`	if c.wrote {`, `	if false {`,
		unit("TestWritesWake")},
	{"premature", "area.go",
		`	holds := x.fifo[h.Level].holdsForm(w)
`, `	holds := x.fifo[h.Level].holdsForm(w)
	x.iface.Wrote()
`,
		unit("TestWritesWake")},
	{"unwatched", "../funi/card.go",
		`v, v&^wakeOnce)`, `v, 0)`,
		unit("TestNoWriteIsMissed")},
	{"lastpiece", "switch.go",
		`!h.Transfer() || h.Words() > most`, `!h.Transfer() || h.Words() > most+4`,
		unit("TestForgedSlots")},
	{"drained", "image.go",
		`			r.ensure(ok)
`, `			_ = ok
`,
		unit("TestForgedSlots")},
	{"halfway", "move.go",
		`		x.remote.wipe() // what the image had in the tables
`, ``,
		unit("TestForgedSlots")},
	{"authority", "request.go",
		`		n.latest = &g.generation
`, ``,
		unit("TestImageSetsNothingOfTheCards")},
	{"trailplaces", "cache.go",
		`firstPath + contextPaths*placesOfPath`, `firstChained`,
		unit("TestTraceOfMembers")},
	{"shared", "cache.go",
		`return t.cfg.Lines + int(index-ownLine)`, `return t.cfg.Lines + int(index-ownLine)%64`,
		unit("TestTraceOfMembers")},
	{"port", "link/arrive.go",
		`case p.Port != port:`, `case false:`,
		link("TestFramesAtAnotherPort")},
	{"porthole", "link/arrive.go",
		`p == nil || !p.established || p.Port != port`, `p == nil || !p.established`,
		link("TestFramesAtAnotherPort")},
	{"freeslot", "retrieval.go",
		`x.passed(l) // it was refused, or opened something`, `x.retrieved(l)`,
		unit("TestAllWorkIsPaid")},
	{"freerefusal", "retrieval.go",
		`				x.passed(l)
				budget--
`, `				x.retrieved(l)
				budget--
`,
		unit("TestNeighbourOfUnpaidWork")},
	{"freemode", "control.go",
		`	x.works(controlBytes)
`, ``,
		unit("TestModesAreDear")},
	{"freebell", "wake.go",
		`payer.works(bellBytes)`, `payer.works(0)`,
		unit("TestAllWorkIsPaid")},
	{"impostor", "ultra.go",
		`e.head != head || e.card`, `(e.head^head)&^(0xffff<<32) != 0 || e.card`,
		unit("TestPathTakesItsOriginAlone")},
	{"earlierpath", "ultra.go",
		`e.head != head || e.card`, `(e.head^head)>>32 != 0 || e.card`,
		unit("TestPathTakesItsOriginAlone")},
	{"enabledearly", "ultrapath.go",
		`a.card, a.number, a.generation, pathAnswering`, `a.card, a.number, a.generation, pathOpen`,
		unit("TestPathIsEnabledAtItsTargetFirst")},
	{"overrun", "ultra.go",
		`!e.memory.Fits(sequence)`, `false`,
		unit("TestPathFull")},
	{"unfinished", "ultrapath.go",
		`	e.region, e.memory, e.told = nil, funi.CardPath{}, true
`, `	e.told = true
`,
		unit("TestPathMemoryIsGivenBack")},
	{"outlived", "ultrapath.go",
		`		case u.clock.now-e.heard < pathTimeout || x.away || x.halted:
`, `		case true:
`,
		unit("TestPathEnds")},
	{"hoardedpaths", "ultra.go",
		`a.paths[direction] >= arctic.MaxPathEnds-t.used`, `t.used == arctic.MaxPathEnds`,
		unit("TestPathsAreShared")},
	{"unacknowledged", "ultra.go",
		`if e.flags[i]&funi.PathAck != 0 {`, `if e.flags[i]&funi.PathAck != 0 && why == arctic.ReasonNone {`,
		unit("TestPathAcknowledges")},
	{"overflow", "trigger.go",
		`	if !e.in && a.stored.n >= storeEntries-s.stored {
		return funi.TriggerFull, 0
	}
`, `	if !e.in && a.stored.n >= storeEntries-s.stored {
		return funi.TriggerDone, n
	}
`,
		unit("TestStoreBufferIsShared")},
	{"hoarded", "trigger.go",
		`a.stored.n >= storeEntries-s.stored`, `s.stored == storeEntries`,
		unit("TestStoreBufferIsShared")},
	{"overissued", "trigger.go",
		`n > room {`, `false {`,
		unit("TestTriggerAnswers")},
	{"overread", "trigger.go",
		`n == 0 || n > r.head-r.tail`, `n == 0`,
		unit("TestTriggerAnswers")},
	{"interrupted", "../funi/trigger.go",
		`turn != c.trigger.turn+1`, `false`,
		unit("TestTriggerAnswers")},
	{"recounted", "barrier.go",
		`	case *word&bit != 0:`, `	case false:`,
		unit("TestBarrierCountsOnce")},
	{"unreached", "barrier.go",
		`b.here == members {`, `b.here >= members-1 {`,
		unit("TestBarrierAtRandom")},
	{"rounds", "barrier.go",
		`	case round != b.round && round != 0:`, `	case false:`,
		virtni("TestBarrierOfANewProcess")},
	{"unissued", "control.go",
		`		if x.entry.in {
			x.card.sched.unstore(x)
		}
`, ``,
		unit("TestTriggersAtRandom")},
	{"passing", "../scoreboard/group.go",
		`			return nil
		}
		if u.room() && (best`, `		}
		if u.room() && (best`,
		board("TestOrder")},
	{"scattered", "../scoreboard/group.go",
		`if u.has(k) {`, `if false {`,
		board("TestSameKeySameUnit")},
	{"cleared", "../scoreboard/group.go",
		`return u.wait.has(k)`, `return false`,
		board("TestOrder")},
	{"indebted", "account.go",
		`quantum * int(step-a.refilled)`, `quantum`,
		unit("TestDebtIsPaidByTime")},
	{"sleepfree", "wake.go",
		`	if x.spends(visitBytes); !x.drowsy() {
		return false
	}
	x.spends(bellBytes)
`, `	if !x.drowsy() {
		return false
	}
`,
		unit("TestFallingAsleepIsPaid")},
	{"sleepresting", "wake.go",
		` || s.rests(x.account) { // no step`, ` { // no step`,
		unit("TestFallingAsleepIsPaid")},
	{"hidden", "wake.go",
		`if b.far == nil {`, `if true {`,
		unit("TestFarBells")},
	{"nearer", "wake.go",
		`	if d.distant {
`, `	if false {
`,
		unit("TestFarBellsFirst")},
	{"unbelled", "wake.go",
		`	if far != nil { // the page may have been without
`, `	if b.contexts == 0 {
`,
		unit("TestFarBellsFirst")},
	{"haltawake", "wake.go",
		`x.modes|x.user<<1&^x.seen == 0`, `x.modes|x.user == 0`,
		unit("TestHaltedContextsSleep")},
	{"shown", "receive.go",
		`case s.Form == arctic.SendLast:
		u.end`, `case e.got > 0:
		u.end`,
		unit("TestSendToRing")},
	{"hastened", "receive.go",
		`s.Form == arctic.SendLast && got != whole`, `false`,
		unit("TestForgedSends")},
	{"leaked", "receive.go",
		`	v.open &^= 1 << ((`, `	_ = 1 << ((`,
		unit("TestSenderDies")},
	{"clipped", "receive.go",
		`	if o.cut {
`, `	if false {
`,
		both(unit("TestSendToPosted"), chaos("sends"))},
	{"uncut", "send.go",
		`t.failed == arctic.ReasonNone && t.put.cut`, `false`,
		both(unit("TestSendToPosted"), chaos("sends"))},
	{"overlong", "send.go",
		` || o.Source == 0 && o.Length > arctic.MaxFastSend:`, `:`,
		unit("TestSendHostile")},
	{"overgiven", "receive.go",
		`		if n > most {
			return false
		}
`, ``,
		unit("TestReceiveHostile")},
	{"undermined", "receive.go",
		`most = min(most, v.table[bits.TrailingZeros64(open)].room.first-v.read)`, `continue`,
		unit("TestForgedSends")},
	{"overposted", "receive.go",
		`		if n > v.units()-(v.write-v.read) {
			return false
		}
`, ``,
		unit("TestReceiveHostile")},
	{"described", "receive.go",
		`x.segments.Memory(address, int(size), funi.Keyed)`, `x.segments.Memory(address, int(size), 0)`,
		unit("TestReceiveHostile")},
	{"overlapped", "receive.go",
		`skipped+units > v.units()-(v.write-v.read)`, `false`,
		both(unit("TestSendWaits"), chaos("sends"))},
	{"stranger", "receive.go",
		`e.source != source || e.key != s.Key`, `e.key != s.Key`,
		unit("TestForgedSends")},
	{"starved", "send.go",
		`	if x.long == nil || x.long.inUse[l] {
		return nil
	}
	for`, `	if true {
		return nil
	}
	for`,
		unit("TestGrantedGoesOn")},
	{"blocked", "link/limit.go",
		`ln.Part || !ln.Packet().IsSend()`, `true`,
		unit("TestSendOverWaysThatChange")},
	{"credited", "receive.go",
		`	x.remote.read(x.iface.NotesTail())
	return v.unread+v.reserved < v.credit
`, `	return true
`,
		unit("TestSendCredit")},
	{"brought", "move.go",
		`	x.breakReservations(func(*room) bool { return true }) // their senders' cards know this one only
`, ``,
		unit("TestMoveDuringSend")},
	{"freetry", "retrieval.go",
		`			o.link.Uses(&a.Account, triedBytes)
`, ``,
		unit("TestAllWorkIsPaid")},
	{"freelook", "retrieval.go",
		`		x.works(triedBytes)
`, ``,
		unit("TestAllWorkIsPaid")},
	{"freeabsence", "preprocess.go",
		`g != nil && g.payer != nil && g.tag == t.Header.Tag`, `false`,
		unit("TestAllWorkIsPaid")},
	{"freeanswer", "step.go",
		`			d.link.SpendsForAnswer()
`, ``,
		unit("TestAllWorkIsPaid")},
	{"freeacknowledgment", "link/transmit.go",
		`	e.spendsFrame(p.answeredFor())
`, ``,
		unit("TestAllWorkIsPaid")},
	{"freerepeat", "link/dispatch.go",
		`		e.Spends(fr.train.Owner.Account, int(fr.size)+FrameTime)
`, ``,
		unit("TestAllWorkIsPaid")},
	{"downup", "../topology/without.go",
		`if !down && s&1 != 0 {`, `if false {`,
		wiring("TestWithout")},
	{"detour", "../topology/topology.go",
		`w.leave(k + to/(step/k)%k) // the receiver chooses: its ways stay apart
			top, step = top+1, step*k`, `w.leave(k + from/(step/k)%k)
			top, step = top+2, step*k*k`,
		wiring("TestReachableAndMinimal")},
	{"updigit", "../topology/large.go",
		`return k + down&(k-1)`, `return k + down>>digit&(k-1)`,
		wiring("TestNextIsTheWay")},
	{"onepage", "link/cards.go",
		`if *page == 0 {`, `if false {`,
		link("TestCardsAreAMap")},
	{"nopeer", "route.go",
		`(node == r.cfg.Card || r.link.IsPeer(node))`, `int(node) < r.link.Cards()+1`,
		unit("TestNodesAreCards")},
	{"tableless", "forward.go",
		`r.cfg.NodesAreCards && i < r.link.Cards()`, `false`,
		unit("TestNodesAreCardsUntilTheyMove")},
	{"tooearly", "../sim/parts.go",
		`min(a.cfg.FlowThrough, words)`, `max(a.cfg.FlowThrough, words)`,
		sim("TestNothingComesTooLate")},
	{"anyorder", "../sim/parts.go",
		`	for _, from := range all {
		p.take(&from.mail[1-phase][p.number])
	}`, `	every := map[*part]bool{}
	for _, from := range all {
		every[from] = true
	}
	for from := range every {
		p.take(&from.mail[1-phase][p.number])
	}`,
		sim("TestPartsAreOneNetwork")},
	{"takentwice", "../sim/scale/program.go",
		`if got[at/64]>>(at%64)&1 != 0 {`, `if false {`,
		scale("TestCheckRefuses")},
	{"around", "../sim/scale/hops.go",
		`max(block-(nodes-distance), 0)`, `0`,
		scale("TestClosedForm")},
	{"unslewed", "../turns/clock.go",
		`min(max(rest, -most), most)`, `min(max(rest, -most), most, 0)`,
		turning("TestClocks")},
	{"orphaned", "../turns/clock.go",
		`now-c.heard > quiet || `, ``,
		turning("TestClocks")},
	{"jumpy", "../turns/clock.go",
		`now >= c.jump && `, ``,
		turning("TestJumps")},
	{"tireless", "../turns/turns.go",
		`g.rests, g.moved = !g.stirs, moved`, `g.rests, g.moved = false, moved`,
		turning("TestIdleGroups")},
	{"forwards", "../turns/turns.go",
		`turn&1 != 0 {`, `false {`,
		turning("TestFairShares")},
	{"brief", "../turns/turns.go",
		`now-t.since > pause {`, `false {`,
		turning("TestSlowSwitch")},
	{"listless", "../turns/turns.go",
		`g.stirs = g.stirs || moved != g.moved`, `g.stirs = moved != g.moved`,
		turning("TestGangs")},
}
