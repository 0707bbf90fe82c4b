package main

// This file is the mutations. What each one breaks is said in main.go.

func unit(test string) check    { return check{test: test} }
func chaos(faults string) check { return check{faults: faults} }

var mutations = []mutation{
	{"incarnation", "link/arrive.go",
		` && h.Epoch == p.epoch`, ``,
		chaos("dup,restart")},
	{"nonce", "link/handshake.go",
		`if h.nonce != 0 && g.Echo == h.nonce {`, `if h.nonce != 0 {`,
		unit("TestReplayedFramesAreNotDelivered")},
	{"spent", "link/handshake.go",
		`case !h.spent:`, `default:`,
		unit("TestNoEpochTwice")},
	{"redrawn", "link/handshake.go",
		`if what == unproven && h.spent && !same {`, `if what == unproven && h.spent {`,
		unit("TestExactlyOnceAllToAll")},
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
		chaos("loss,dup,reorder")},
	{"verdict", "link/arrive.go",
		`if fl.isRefused(seq) {`, `if false {`,
		chaos("loss,dup")},
	{"fate", "link/arrive.go",
		`e.fate = Fate{Outcome: Accepted}`, ``,
		unit("TestObserve")},
	{"negative", "link/acknowledge.go",
		`case r.Retry&bit != 0 && ln.owner.Ended:`, `case r.Retry&bit != 0:`,
		chaos("slow")},
	{"permanent", "link/acknowledge.go",
		`e.settle(ln, Returned, r.FailReason)`, `e.settle(ln, Delivered, arctic.ReasonNone)`,
		chaos("none")},
	{"halves", "link/acknowledge.go",
		`case r.Retry&bit != 0:
			if !again {`, `case r.Retry != 0:
			if !again {`,
		unit("TestReceiversStallAtRandom")},
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
	{"cumulative", "link/arrive.go",
		`inOrder := seq == fl.rcvNext`, `inOrder := seq == fl.rcvNext
	fl.rcvNext = seq`,
		chaos("loss")},
	{"unsent", "link/acknowledge.go",
		`if ack-f.sndUna > f.sndNext-f.sndUna && int32(ack-f.sndUna) > 0 {`, `if false {`,
		unit("TestAcknowledgmentOfWhatWasNeverSent")},
	{"timer", "link/transmit.go",
		`e.timers.set(p, f.deadline)`, `_ = p`,
		chaos("loss")},
	{"forgotten", "link/acknowledge.go",
		`fr.state = lost
			f.flying--
			f.lost++
			found = true`, `f.flying--
			found = true`,
		chaos("loss")},
	{"backoff", "link/hold.go",
		`case s.hold > e.now:
		e.holds.push(s)`, `case false:`,
		unit("TestStalledReceiverIsNotSwamped")},
	{"tries", "link/hold.go",
		`a.lastTry = a.nextTry(now, gap)`, ``,
		unit("TestTriesOfAnAccountAreBounded")},
	{"vain", "link/hold.go",
		`s.hold <= e.now || s.hold <= a.nextTry(e.now, gap)`, `s.hold <= e.now`,
		unit("TestBackOffThatBeginsAnewBooksNoMoreThanItTries")},
	{"traced", "trace.go",
		`if t.put-t.taken == doneTraces {`, `if false {`,
		unit("TestTraceIsBounded")},
	{"seen", "trace.go",
		`return q.at[q.first].time`, `return now`,
		unit("TestTraceSeen")},
	{"removed", "link/membership.go",
		`		p.Port = noPort`, ``,
		unit("TestPeerRemoved")},
	{"parted", "link/membership.go",
		`	e.lose(p, arctic.ReasonDeparted)`, ``,
		unit("TestPeerRemoved")},
	{"account", "link/dispatch.go",
		`case !e.solvent(mine.account):`, `case false:`,
		unit("TestAccountsShareDispatch")},
	{"bytes", "retrieval.go",
		`		a.local -= int(ln.Size) + len(ln.Block) + packetBytes
`, `		a.local -= packetBytes
`,
		unit("TestBlocksOfAStepAreBounded")},
	{"leak", "link/acknowledge.go",
		`		} else {
			e.settle(ln, Delivered, arctic.ReasonNone)
		}
	}
	e.passed(f.peer, fr)`, `		}
	}
	e.passed(f.peer, fr)`,
		chaos("none")},
	{"fifo", "delivery.go",
		`return q.hold(p)
	}
	return arctic.ReasonQueueFull`, `return q.hold(p)
	}
	return arctic.ReasonNone`,
		chaos("slow")},
	{"tail", "transfer.go",
		`case t.lines == 0:
		x.settle(t)`, `case true:
		x.settle(t)`,
		unit("TestTransfersUnderFaults")},
	{"retired", "transfer.go",
		`	case c.block == 0:
		x.spend(t)`, `	default:
		x.spend(t)`,
		unit("TestSourceIsFreeWhenRetired")},
	{"source", "transfer.go",
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
		unit("TestMoreUnansweredThanTheWindow")},
	{"given-up", "link/arrive.go",
		`e.known(fl, h.Sequence-uint32(h.Age))`, ``,
		chaos("partition,cut")},
	{"switched", "switch.go",
		`return x.iface.Diverted()`, `x.iface.Diverted()
	return [arctic.Levels][]funi.Slot{}`,
		chaos("slow,switch")},
	{"mode", "link/dispatch.go",
		`case s.owner.Halted, s.waiting.head == nil:`, `case s.waiting.head == nil:`,
		unit("TestNothingIsDispatchedInContextSwitchMode")},
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
		unit("TestWaysThatChange")},
	{"piece", "link/limit.go",
		`arctic.Packet(ln.Data[:ln.Size]).Advance(int(ln.piece))`, ``,
		chaos("xfer,narrow")},
	{"silent", "link/limit.go",
		`fr.retries >= suspected && bytes > leastFrame`, `false`,
		unit("TestNarrowWayIsFoundOut")},
	{"awaited", "route.go",
		`case c.now >= e.until:`, `case false:`,
		unit("TestExpectedNodesThatDoNotCome")},
}
