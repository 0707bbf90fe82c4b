package main

// This file is the mutations. What each one breaks is said in main.go.

func unit(test string) check    { return check{test: test} }
func chaos(faults string) check { return check{faults: faults} }

var mutations = []mutation{
	{"incarnation", "preprocess.go",
		` && h.DestinationIncarnation == c.cfg.Incarnation && h.SourceIncarnation == p.incarnation`, ``,
		chaos("dup,restart")},
	{"nonce", "greeting.go",
		`forMe && p.nonce != 0 && h.Acks[arctic.Request] == p.nonce`, `forMe`,
		unit("TestReplayedFramesAreNotDelivered")},
	{"duplicate", "preprocess.go",
		`int32(seq-fl.expect) < 0 || fl.isAccepted(seq)`, `int32(seq-fl.expect) < 0`,
		chaos("loss,dup,reorder")},
	{"verdict", "preprocess.go",
		`if fl.isRefused(seq) {`, `if false {`,
		chaos("loss,dup")},
	{"fate", "preprocess.go",
		`c.fate = Fate{Outcome: Accepted}`, ``,
		unit("TestObserve")},
	{"negative", "acknowledge.go",
		`case r.retry&bit != 0 && ln.ctx.detached:`, `case r.retry&bit != 0:`,
		chaos("slow")},
	{"permanent", "acknowledge.go",
		`ln.ctx.returned(ln, r.failReason)`, `ln.ctx.free(ln)`,
		chaos("none")},
	{"halves", "acknowledge.go",
		`case r.retry&bit != 0:
			if !again {`, `case r.retry != 0:
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
		`c.route(g, who.Source) != uint32(h.SourceCard)`, `false`,
		unit("TestForgedSourceNodeIsRejected")},
	{"reserved", "cache.go",
		`l == arctic.Request && i >= t.limit`, `false`,
		unit("TestRepliesPassStalledRequests")},
	{"cumulative", "preprocess.go",
		`inOrder := seq == fl.expect`, `inOrder := seq == fl.expect
	fl.expect = seq`,
		chaos("loss")},
	{"unsent", "acknowledge.go",
		`if ack-f.oldest > f.next-f.oldest && int32(ack-f.oldest) > 0 {`, `if false {`,
		unit("TestAcknowledgmentOfWhatWasNeverSent")},
	{"timer", "transmit.go",
		`c.timers.set(p, f.deadline)`, `_ = p`,
		chaos("loss")},
	{"forgotten", "acknowledge.go",
		`fr.state = lost
			f.flying--
			f.lost++
			found = true`, `f.flying--
			found = true`,
		chaos("loss")},
	{"backoff", "hold.go",
		`case s.hold > c.now:
		c.holds.push(s)`, `case false:`,
		unit("TestStalledReceiverIsNotSwamped")},
	{"tries", "hold.go",
		`a.tryAt = a.nextTry(now, gap)`, ``,
		unit("TestTriesOfAnAccountAreBounded")},
	{"vain", "hold.go",
		`s.hold <= c.now || s.hold <= a.nextTry(c.now, gap)`, `s.hold <= c.now`,
		unit("TestBackOffThatBeginsAnewBooksNoMoreThanItTries")},
	{"traced", "trace.go",
		`if t.put-t.taken == doneTraces {`, `if false {`,
		unit("TestTraceIsBounded")},
	{"seen", "trace.go",
		`return q.at[q.first].time`, `return now`,
		unit("TestTraceSeen")},
	{"removed", "membership.go",
		`		p.Port = noPort`, ``,
		unit("TestPeerRemoved")},
	{"parted", "membership.go",
		`	c.lose(p, arctic.ReasonDeparted)`, ``,
		unit("TestPeerRemoved")},
	{"account", "dispatch.go",
		`case !c.solvent(mine.account):`, `case false:`,
		unit("TestAccountsShareDispatch")},
	{"bytes", "retrieval.go",
		`		a.local -= int(ln.size) + len(ln.block) + packetBytes
`, `		a.local -= packetBytes
`,
		unit("TestBlocksOfAStepAreBounded")},
	{"leak", "acknowledge.go",
		`		} else {
			ln.ctx.free(ln)
		}
	}
	c.passed(f.peer, fr)`, `		}
	}
	c.passed(f.peer, fr)`,
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
		`t.Form == arctic.Last && c.torn(x, f, &t)`, `false`,
		unit("TestTransfersAreNotTornWhereSequencesTurn")},
	{"age", "preprocess.go",
		`h.Age >= Window`, `false`,
		unit("TestMoreUnansweredThanTheWindow")},
	{"given-up", "preprocess.go",
		`c.settle(fl, h.Sequence-uint32(h.Age))`, ``,
		chaos("partition,cut")},
	{"switched", "switch.go",
		`return x.iface.Diverted()`, `x.iface.Diverted()
	return [arctic.Levels][]funi.Slot{}`,
		chaos("slow,switch")},
	{"mode", "dispatch.go",
		`case s.ctx.halted, s.waiting.head == nil:`, `case s.waiting.head == nil:`,
		unit("TestNothingIsDispatchedInContextSwitchMode")},
	{"called", "card.go",
		`	c.touched = c.touched[:0]
`, `	c.touched = c.touched[:0]
	c.TakeCalled()
`,
		unit("TestCalledAfterSwitchIn")},
	{"committed", "context.go",
		`pending = x.saved.pending()`, `pending = false`,
		unit("TestIdleWhileOut")},
	{"void", "preprocess.go",
		`retry: ^uint64(0), `, `retry: 1, `,
		unit("TestWaysThatChange")},
	{"piece", "limit.go",
		`arctic.Packet(ln.data[:ln.size]).Advance(int(ln.piece))`, ``,
		chaos("xfer,narrow")},
	{"silent", "limit.go",
		`fr.retries >= suspected && bytes > leastFrame`, `false`,
		unit("TestNarrowWayIsFoundOut")},
	{"awaited", "route.go",
		`case c.now >= e.until:`, `case false:`,
		unit("TestExpectedNodesThatDoNotCome")},
}
