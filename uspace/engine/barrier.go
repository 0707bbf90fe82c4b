package engine

// This file is the barrier (Froening's thesis, sections 2.2.1 and 4.2.7: command 4 of a trigger;
// how it works is left open there). Each of n processes, the nodes 0 to n-1 of a group, says that
// it has reached barrier b. When all have, each gets a notification.
//
// A barrier is a fetch-and-add whose answer waits. The trigger makes an operation on node 0, the
// root: an addition to counter b of key 0, which no window has, with fetch. Its operand is the
// round, how often this process has passed the barrier, and n. The root's card notes the members
// that have reached the round, and answers none of them until it has all. So the packets, the
// record, the place in the ring, and what happens when the root is lost are those of any operation
// (request.go).
//
//   - A member counts once in a round, however often its arrival comes.
//   - An arrival at another round than the root's is refused (arctic.ReasonRequest), and so is one
//     with another n. So a process that takes the place of a dead one, and did not pass the
//     barriers before, releases nobody. The first arrival at a root that knows no round sets it. A
//     process that has moved to another card says 0, the present round, which is always its own.
//   - The next round begins when the last one is complete. A member gets there only by its answer,
//     so a second barrier does not overtake the first.
//   - A dead member is not noticed: those that wait for it wait until their programs end the wait.
//   - A member asks again now and then, because only a packet finds out that the root is gone, or
//     has come to another card. The root answers a member that it has answered in the last round.
//
// The answers of a round leave as lines for answers are free; the others follow when these are.
// What a root knows of its barriers is allocated at their first arrivals, at most maxMembers words
// for all of them. It does not move with the root's process: the next arrivals set the round anew,
// and those that wait are counted when they ask again.

import (
	"encoding/binary"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// maxMembers is the sum of the members of a root's barriers.
const maxMembers = 1 << 16

// barrierBytes is the size of the operand of an arrival: round and members, 32 bits each.
const barrierBytes = 8

// barrier is what a context knows of a barrier.
type barrier struct {
	// As a member: how often it has passed, and whether it waits.
	passed uint32
	waits  bool

	// As the root. ids has the last request of each member. here are the members that have reached
	// round, with a bit in reached for each. Those of the round before are answered up to next.
	round    uint32 // 0: not known
	complete bool   // a round has been
	members  int    // 0: no arrival has come
	here     int
	next     int
	ids      []uint32
	reached  []uint64
}

// barriers holds the barriers of a context; nil: it has none.
type barriers struct {
	table   [funi.MaxBarriers]barrier
	members int    // of all of which it is the root
	tells   uint32 // bit b: members of barrier b have to be answered
}

func (r *remote) barrier(n uint32) *barrier {
	if r.barriers == nil {
		r.barriers = new(barriers) // once
	}
	return &r.barriers.table[n]
}

// reach carries out a trigger: the process has reached a barrier.
func (u *remoteUnit) reach(x *Context, parameter uint32) funi.TriggerStatus {
	number, members, ok := funi.ReadBarrier(parameter)
	if !ok {
		return funi.TriggerInvalid
	}
	b := x.remote.barrier(number)
	if b.waits {
		return funi.TriggerForbidden // it counts once
	}
	q := x.takeRequest()
	if q == nil {
		return funi.TriggerFull
	}
	q.asks, q.level, q.operation, q.cookie, q.total = true, arctic.Request, arctic.RemoteBarrier, number, barrierBytes
	q.address = uint64(members)
	if b.waits = u.arrive(x, q, b); !b.waits {
		x.untake(q)
		return funi.TriggerFull
	}
	return funi.TriggerDone
}

// untake gives back a record of which no packet has left.
func (x *Context) untake(q *request) {
	r := x.remote
	q.open = false
	r.promised--
	r.use.RequestsOpen--
	r.requests.free = append(r.requests.free, q.index)
}

// arrive sends a member's arrival to the root, or returns false: there is no line for it.
func (u *remoteUnit) arrive(x *Context, q *request, b *barrier) bool {
	ln := x.take(arctic.Request)
	if ln == nil {
		u.counters.SendQueueNoTicket++
		return false
	}
	var operand [barrierBytes]byte
	if b.passed > 0 || !x.remote.moved {
		binary.LittleEndian.PutUint32(operand[:], b.passed+1)
	}
	binary.LittleEndian.PutUint32(operand[4:], uint32(q.address))
	w := arctic.WindowRequest{Operation: arctic.RemoteAdd, Element: arctic.Uint64, Fetch: true,
		Address: uint64(q.cookie), Bytes: barrierBytes, ID: q.id(), Operands: operand[:]}
	ln.Node, ln.typ, ln.Part = q.node, w.Type(), true
	ln.request, ln.argument = 0, q.cookie
	q.asked = 0
	u.model.timeWrite(ln, true, barrierBytes, 0, true)
	ln.asksFor(u, q, barrierBytes)
	words := arctic.PutWindowRequest(ln.Data[arctic.PacketHeaderSize:], &w)
	u.out.launch(x, arctic.Request, ln, arctic.KindRemote, words)
	x.spends(arctic.PacketHeaderSize + operationBytes)
	return true
}

// arriveAgain asks the root again, which may be gone.
func (u *remoteUnit) arriveAgain(x *Context, q *request) {
	if !u.arrive(x, q, x.remote.barrier(q.cookie)) {
		u.awaitAnswer(q)
	}
	x.stir()
}

// arrived takes the arrival of a member, at the root. It returns the reason of a reject.
func (u *remoteUnit) arrived(x *Context, source uint16, q *arctic.WindowRequest) arctic.Reason {
	if q.Operation != arctic.RemoteAdd || !q.Fetch || q.Bytes != barrierBytes || q.Address >= funi.MaxBarriers ||
		x.node != 0 {
		return arctic.ReasonKeySlot
	}
	number := uint32(q.Address)
	b := x.remote.barrier(number)
	round, members := binary.LittleEndian.Uint32(q.Operands), int(binary.LittleEndian.Uint32(q.Operands[4:]))
	if b.members == 0 {
		if members < 1 || members > maxMembers-x.remote.barriers.members {
			return arctic.ReasonRange
		}
		x.makeAnswers()
		x.remote.barriers.members += members
		*b = barrier{passed: b.passed, waits: b.waits, round: round, members: members, next: members,
			ids: make([]uint32, members), reached: make([]uint64, (members+63)/64)} // once
	}
	n := int(source)
	if members != b.members || n >= members {
		return arctic.ReasonRange
	}
	word, bit := &b.reached[n/64], uint64(1)<<(n%64)
	if b.round == 0 {
		b.round = round
	}
	switch {
	case *word&bit == 0 && b.complete && b.ids[n] == q.ID:
		return u.answerMember(x, b, n) // its answer was lost
	case round != b.round && round != 0:
		return arctic.ReasonRequest
	case *word&bit != 0:
		b.ids[n] = q.ID
		return arctic.ReasonNone
	case b.here == members-1 && b.next < members:
		return arctic.ReasonBusy // not all have heard of the round before
	}
	b.ids[n] = q.ID
	*word |= bit
	if b.here++; b.here == members {
		b.round, b.here, b.next, b.complete = max(b.round, 1)+1, 0, 0, true
		clear(b.reached)
		x.remote.barriers.tells |= 1 << number
		u.tellMembers(x)
	}
	return arctic.ReasonNone
}

// tellMembers answers members of complete rounds as long as lines are free.
func (u *remoteUnit) tellMembers(x *Context) {
	s := x.remote.barriers
	for n := range s.table {
		b := &s.table[n]
		if s.tells>>n&1 == 0 {
			continue
		}
		for b.next < b.members && u.answerMember(x, b, b.next) == arctic.ReasonNone {
			b.next++
		}
		if b.next < b.members {
			return
		}
		s.tells &^= 1 << n
	}
}

// answerMember answers a member, or returns arctic.ReasonBusy: no line is free.
func (u *remoteUnit) answerMember(x *Context, b *barrier, n int) arctic.Reason {
	ln := x.takeAnswer()
	if ln == nil {
		return arctic.ReasonBusy
	}
	var data [barrierBytes]byte
	binary.LittleEndian.PutUint32(data[:], b.round-1)
	a := arctic.Response{ID: b.ids[n], Data: data[:]}
	ln.Node, ln.typ, ln.Answer = uint16(n), a.Type(), true
	words := arctic.PutResponse(ln.Data[arctic.PacketHeaderSize:], &a)
	x.spends(arctic.PacketHeaderSize + words*arctic.WordSize + operationBytes)
	u.model.timeWrite(ln, false, barrierBytes, 0, false)
	u.out.launch(x, arctic.Reply, ln, arctic.KindResponse, words)
	u.clock.more, x.calm = true, false
	if x.looping {
		x.stir()
	}
	return arctic.ReasonNone
}

// leaves notes that a member no longer waits: it has passed, or its arrival came to nothing.
func (r *remote) leaves(q *request, reason arctic.Reason) {
	b := r.barrier(q.cookie)
	if b.waits = false; reason == arctic.ReasonNone {
		b.passed = binary.LittleEndian.Uint32(q.answer[:])
	}
}
