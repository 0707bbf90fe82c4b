package engine

// This file takes messages for which the process has named memory (Froening's thesis, sections
// 2.4.1, 4.1.5, 4.1.7 and 4.2.5; arctic/send.go, funi/send.go): into the notification ring, its
// receive ring or the buffers that it has posted. As with operations (execute.go), a packet that is
// accepted is carried out, and the process that receives is not called.
//
// A message needs credit, which promises it an entry of the notification ring, and room, if it is
// longer than the entry. Without them it is rejected for now (arctic.ReasonQueueFull), and nothing
// has changed. A message of many packets reserves both with its first packet, for all of it: so
// each further packet has its place. At most funi.MaxReservations of a context are open. Further
// messages of many packets wait at their senders meanwhile, and shorter ones do not.
//
// The entry is made when all data is there, in the order in which messages are complete. Room of
// the receive ring is given out in the order in which messages begin, and taken back in the same
// order. So a message that never ends would stop the ring: a reservation that no packet has come
// for in answerTimeout is given up. Its entry says so (arctic.ReasonBroken), and a packet that
// comes later is refused for good.
//
// Messages that are longer than the buffer posted for them are cut. A sender of many packets hears
// that in the answer to the first, and sends what will be taken. The sender of one packet hears it
// by arctic.ReasonTruncated, which is a reject of a packet that has been taken, once: its frame has
// no other packet, so no other reject can delay it.
//
//	none --begin--> open --all data there--> entry, none
//	                open --silent, closed, memory withdrawn, moved--> entry with a reason, none
//
// Pointers and descriptors: the card keeps its own, and checks what the process says. It reads a
// descriptor once, when a message takes it. One that names no memory of a Keyed segment costs a
// credit and an entry (arctic.ReasonWindow), and the message waits for the next.
//
// A process that receives nothing (funi.OpenReceive) has others wait for ConnectTimeout, as for a
// window that is not present (fault.go). From then on messages to it are refused for good.

import (
	"math/bits"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// receiver is where a context receives messages.
type receiver struct {
	ctx    *Context
	mode   funi.ReceiveMode
	memory []byte // the ring, or the queue of descriptors
	base   uint32 // its address
	// credit is how many messages may be unread or reserved; 0: the process receives none. unread
	// counts entries of messages in the notification ring, also after receiving has ended.
	credit, unread, reserved uint32
	// Of a ring: read and write count units, modulo 2^32; what lies between is in use. Of a queue:
	// write counts descriptors that were posted, and read those that were taken.
	read, write uint32

	open  uint64                             // bit i: table[i] is in use
	table *[funi.MaxReservations]reservation // nil: there was never a ring or a queue
}

// reservation is the room of a message of many packets.
type reservation struct {
	receiver *receiver
	source   uint16
	key      uint64
	message  funi.SendRequest // its tags and length
	room     room
	got      uint32            // bytes that have come
	silence  item[reservation] // on remoteUnit.reserved
}

// room is the place of a message.
type room struct {
	kind       funi.NoteKind
	memory     []byte    // as much of the message as is taken
	where      [3]uint32 // for the entry
	next       uint32    // receiver.write or read once the room is taken
	first      uint32    // of a ring, receiver.write before
	cut        bool
	descriptor bool // the next descriptor is invalid
}

// credited reports whether the receiver has credit for another entry.
func (v *receiver) credited(x *Context) bool {
	if v.unread+v.reserved < v.credit {
		return true
	}
	x.remote.read(x.iface.NotesTail())
	return v.unread+v.reserved < v.credit
}

// find finds room for a message of the given bytes, or returns why it is refused. It takes nothing.
func (v *receiver) find(x *Context, bytes uint32, o *room) arctic.Reason {
	switch {
	case bytes > arctic.MaxFastSend && v.mode == funi.ReceiveFast:
		return arctic.ReasonNoBuffer
	case !v.credited(x):
		return arctic.ReasonQueueFull
	case bytes <= arctic.MaxFastSend:
		o.kind = funi.NoteFastReceive
		return arctic.ReasonNone
	case v.mode == funi.ReceivePosted:
		return v.findPosted(x, bytes, o)
	}
	o.kind = funi.NoteReceive
	units, size := (bytes+funi.ReceiveUnit-1)/funi.ReceiveUnit, uint32(len(v.memory)/funi.ReceiveUnit)
	if units > size/2 { // even an empty ring may lack room for it, since messages do not wrap
		return arctic.ReasonNoBuffer
	}
	o.first = v.write
	at, skipped := v.write&(size-1), uint32(0)
	if at+units > size {
		at, skipped = 0, size-at
	}
	if skipped+units > v.units()-(v.write-v.read) {
		return arctic.ReasonQueueFull
	}
	o.next = v.write + skipped + units
	o.where = [3]uint32{at, v.write & (size - 1), o.next & (size - 1)}
	from := at * funi.ReceiveUnit
	o.memory = v.memory[from : from+bytes : from+bytes]
	return arctic.ReasonNone
}

// findPosted is find for posted buffers.
func (v *receiver) findPosted(x *Context, bytes uint32, o *room) arctic.Reason {
	if v.read == v.write {
		return arctic.ReasonQueueFull
	}
	o.kind, o.next = funi.NotePostedReceive, v.read+1
	address, size := funi.ReadPosted(v.memory, v.read)
	o.where = [3]uint32{v.read, address, 0}
	if size > 0 {
		o.memory = x.segments.Memory(address, int(size), funi.Keyed)
	}
	if o.memory == nil {
		o.descriptor = true
		return arctic.ReasonQueueFull
	}
	if o.cut = bytes > size; !o.cut {
		o.memory = o.memory[:bytes]
	}
	o.where[2] = uint32(len(o.memory))
	return arctic.ReasonNone
}

// take takes the room that find has found.
func (v *receiver) take(o *room) {
	switch o.kind {
	case funi.NoteReceive:
		v.write = o.next
	case funi.NotePostedReceive:
		v.read = o.next
	}
}

// receives returns where a context receives messages, or why it takes none now.
func (u *remoteUnit) receives(x *Context) (*receiver, arctic.Reason) {
	r := x.remote
	if r == nil {
		return nil, arctic.ReasonNoBuffer
	}
	switch v := r.receiver; {
	case v != nil && v.credit > 0:
		return v, arctic.ReasonNone
	case r.missed == 0:
		r.missed = max(u.clock.now, 1)
	case u.clock.now-r.missed >= int64(u.cfg.ConnectTimeout):
		return nil, arctic.ReasonNoBuffer
	}
	return nil, arctic.ReasonQueueFull
}

// receives makes the receiver take messages as the process has said. memory is the ring or queue.
func (v *receiver) receives(x *Context, o *funi.Receive, memory []byte) {
	v.ctx, v.mode, v.memory, v.base, v.credit = x, o.Mode, memory, o.Base, o.Credit
	v.read, v.write = 0, 0
	if o.Mode == funi.ReceiveFast {
		return
	}
	if v.table == nil {
		v.table = new([funi.MaxReservations]reservation)
		for i := range v.table {
			v.table[i].receiver = v
		}
	}
}

// units returns how many units of the ring, or descriptors of the queue, can be in use.
func (v *receiver) units() uint32 {
	switch v.mode {
	case funi.ReceiveRing:
		return uint32(len(v.memory)/funi.ReceiveUnit) - 1
	case funi.ReceivePosted:
		return uint32(len(v.memory) / funi.PostedBytes)
	}
	return 0
}

// acceptSend takes a packet of a message, with the block behind it if there is one. It returns the
// reason of a reject, or ReasonNone.
func (u *remoteUnit) acceptSend(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) arctic.Reason {
	var s arctic.Send
	if !p.Send(h, &s) || s.Block != (len(block) > 0) || uint64(s.Offset)+uint64(len(block)+len(s.Data)) >
		uint64(s.Total) {
		u.refused(x, h.Source, 0, arctic.ReasonRemoteForm)
		return arctic.ReasonRemoteForm
	}
	if x.drain { // the owner takes the context off the card
		return arctic.ReasonSwitching
	}
	reason := arctic.ReasonNone
	if begins(&s) {
		reason = u.begin(x, h.Source, &s, block)
	} else {
		reason = u.goOn(x, h.Source, &s, block)
	}
	switch {
	case reason == arctic.ReasonNone || reason == arctic.ReasonTruncated:
		u.in.atOnce = u.in.atOnce || s.Ack
		x.took(len(block) + len(s.Data))
	case reason.Permanent():
		u.refused(x, h.Source, 0, reason)
	}
	return reason
}

// begins reports whether a packet is the first of its message.
func begins(s *arctic.Send) bool {
	return s.Form == arctic.SendOpen || s.Form == arctic.SendWhole && s.Offset == 0
}

// begin checks the first packet of a message, and carries it out.
func (u *remoteUnit) begin(x *Context, source uint16, s *arctic.Send, block []byte) arctic.Reason {
	v, reason := u.receives(x)
	if reason != arctic.ReasonNone {
		return reason
	}
	var o room
	reason = u.findRoom(x, v, s, block, &o)
	switch {
	case o.descriptor:
		v.take(&o)
		u.noteMessage(x, source, &funi.SendRequest{}, &o, arctic.ReasonWindow)
		return reason
	case reason != arctic.ReasonNone:
		return reason
	}
	v.take(&o)
	if o.kind == funi.NoteFastReceive {
		r := x.remote
		r.enter(x, noteOfMessage)
		v.unread++
		x.iface.NotifyFast(r.head-1, source, s.UserTag, s.APITag, s.Data)
		u.notedMessage(r)
		return arctic.ReasonNone
	}
	m := funi.SendRequest{UserTag: s.UserTag, APITag: s.APITag, Length: int(s.Total)}
	if s.Form == arctic.SendWhole && len(block)+len(s.Data) == int(s.Total) {
		o.write(x, 0, block, s.Data)
		reason := o.outcome()
		u.noteMessage(x, source, &m, &o, reason)
		return reason
	}
	e := u.reserve(v, source, s.Key, &m, &o)
	if s.Form == arctic.SendWhole { // a frame had room for the beginning only
		e.got = uint32(len(block))
		e.room.write(x, 0, block, nil)
		return arctic.ReasonNone
	}
	taken := uint32(len(o.memory))
	answer := [arctic.WordSize]byte{byte(taken), byte(taken >> 8), byte(taken >> 16), byte(taken >> 24)}
	u.answer(x, x.takeAnswer(), source, s.ID, 0, answer[:])
	return arctic.ReasonNone
}

// findRoom finds what the first packet of a message needs, or returns why it is refused. It takes
// nothing.
func (u *remoteUnit) findRoom(x *Context, v *receiver, s *arctic.Send, block []byte, o *room) arctic.Reason {
	if reason := v.find(x, s.Total, o); reason != arctic.ReasonNone {
		return reason
	}
	switch {
	case s.Form == arctic.SendWhole && len(block)+len(s.Data) == int(s.Total):
		return arctic.ReasonNone
	case v.open == 1<<funi.MaxReservations-1:
		return arctic.ReasonQueueFull
	case s.Form == arctic.SendOpen && !x.canAnswer():
		return arctic.ReasonBusy
	}
	return arctic.ReasonNone
}

// write writes data at an offset of the message: a block, and then bytes of a packet. It leaves out
// what was cut.
func (o *room) write(x *Context, offset uint32, block, data []byte) {
	for _, b := range [2][]byte{block, data} {
		if offset < uint32(len(o.memory)) && len(b) > 0 {
			copy(o.memory[offset:], b)
			x.iface.Wrote()
		}
		offset += uint32(len(b))
	}
}

// outcome returns arctic.ReasonTruncated if the message was cut, or ReasonNone.
func (o *room) outcome() arctic.Reason {
	if o.cut {
		return arctic.ReasonTruncated
	}
	return arctic.ReasonNone
}

// continued finds the reservation that a further packet of a message is for, and returns why the
// packet is refused, or ReasonNone. It changes nothing.
func (v *receiver) continued(source uint16, s *arctic.Send, block []byte) (*reservation, arctic.Reason) {
	if v == nil {
		return nil, arctic.ReasonBroken
	}
	for open := v.open; open != 0; open &= open - 1 {
		e := &v.table[bits.TrailingZeros64(open)]
		if e.source != source || e.key != s.Key {
			continue
		}
		got, whole := e.got+uint32(len(block)+len(ownData(s, block))), uint32(e.message.Length)
		if s.Form != arctic.SendWhole {
			whole = uint32(len(e.room.memory))
		}
		if s.Total != whole || got > whole || s.Form == arctic.SendLast && got != whole ||
			s.Form == arctic.SendWhole && s.Offset != e.got {
			return nil, arctic.ReasonRemoteForm
		}
		return e, arctic.ReasonNone
	}
	return nil, arctic.ReasonBroken
}

// ownData returns the data in a packet that count with it. Those beside a block are the message's
// last, and come with each frame of it.
func ownData(s *arctic.Send, block []byte) []byte {
	if s.Block && s.Offset+uint32(len(block)+len(s.Data)) != s.Total {
		return nil
	}
	return s.Data
}

// goOn checks a further packet of a message, and carries it out. The last makes the entry.
func (u *remoteUnit) goOn(x *Context, source uint16, s *arctic.Send, block []byte) arctic.Reason {
	if x.remote == nil {
		return arctic.ReasonBroken
	}
	e, reason := x.remote.receiver.continued(source, s, block)
	if reason != arctic.ReasonNone {
		return reason
	}
	data := ownData(s, block)
	e.got += uint32(len(block) + len(data))
	e.room.write(x, s.Offset, block, data)
	switch {
	case s.Form == arctic.SendLast:
		u.endReservation(x, e, e.room.outcome())
	case s.Form == arctic.SendWhole && e.got == s.Total:
		reason := e.room.outcome()
		u.endReservation(x, e, reason)
		return reason
	default:
		u.expectMore(e)
	}
	return arctic.ReasonNone
}

// reserve makes a reservation; the caller has made sure that one is free.
func (u *remoteUnit) reserve(v *receiver, source uint16, key uint64, m *funi.SendRequest, o *room) *reservation {
	i := bits.TrailingZeros64(^v.open)
	v.open |= 1 << i
	v.reserved++
	e := &v.table[i]
	e.source, e.key, e.message, e.room, e.got = source, key, *m, *o, 0
	u.expectMore(e)
	return e
}

// expectMore gives a message its full time for its next packet.
func (u *remoteUnit) expectMore(e *reservation) {
	u.reserved.push(&e.silence, e, u.clock.now+u.answerTimeout())
}

// endReservation ends a reservation, and tells the process.
func (u *remoteUnit) endReservation(x *Context, e *reservation, why arctic.Reason) {
	v := e.receiver
	u.reserved.remove(&e.silence)
	v.open &^= 1 << ((uintptr(unsafe.Pointer(e)) - uintptr(unsafe.Pointer(&v.table[0]))) / unsafe.Sizeof(*e))
	v.reserved--
	u.noteMessage(x, e.source, &e.message, &e.room, why)
	e.room.memory = nil
}

// noteMessage puts the entry of a message into the notification ring. The ring has room: it is
// promised to the receiver's credit.
func (u *remoteUnit) noteMessage(x *Context, source uint16, m *funi.SendRequest, o *room, why arctic.Reason) {
	r := x.remote
	r.enter(x, noteOfMessage)
	r.receiver.unread++
	x.iface.NotifyMessage(r.head-1, o.kind, source, m, o.where, why)
	u.notedMessage(r)
}

func (u *remoteUnit) notedMessage(r *remote) {
	u.counters.Notifications++
	r.use.Notified++
	r.use.Messages++
}

// giveUpSilent gives up the reservations for which no packet has come for too long.
func (u *remoteUnit) giveUpSilent() {
	for range givenUpInStep {
		e := u.reserved.overdue()
		if e == nil {
			return
		}
		x := e.receiver.ctx
		u.table.serving = x
		if x.away { // whose packets are rejected for now, until it is back
			u.expectMore(e)
			continue
		}
		x.spends(completionBytes)
		u.endReservation(x, e, arctic.ReasonBroken)
		x.stir()
	}
	u.clock.more = true
}

// breakReservations gives up the reservations whose memory which selects.
func (x *Context) breakReservations(which func(*room) bool) {
	if x.remote == nil || x.remote.receiver == nil {
		return
	}
	v := x.remote.receiver
	for open := v.open; open != 0; open &= open - 1 {
		if e := &v.table[bits.TrailingZeros64(open)]; which(&e.room) {
			x.spends(completionBytes)
			x.card.remote.endReservation(x, e, arctic.ReasonBroken)
			x.stir()
		}
	}
}

// forgetReservations takes the reservations of a context that ends off the card's list.
func (x *Context) forgetReservations() {
	if x.remote == nil || x.remote.receiver == nil {
		return
	}
	v := x.remote.receiver
	for ; v.open != 0; v.open &= v.open - 1 {
		e := &v.table[bits.TrailingZeros64(v.open)]
		x.card.remote.reserved.remove(&e.silence)
		e.room.memory = nil
	}
	v.reserved = 0
}

// openReceive carries out a block of OpenReceive, and reports whether it was valid.
func (x *Context) openReceive(w *funi.Slot) bool {
	var o funi.Receive
	r := x.remote
	if !funi.ReadReceive(w, &o) {
		return false
	}
	memory, ok := x.receiveMemory(&o)
	if !ok {
		return false
	}
	if r.receiver == nil {
		r.receiver = new(receiver)
	}
	v := r.receiver
	r.read(x.iface.NotesTail())
	if v.unread+v.reserved != 0 || o.Credit > uint32(len(r.ring))-(r.promised-v.credit) {
		return false // entries of an earlier ring would point into this one
	}
	r.promised += o.Credit - v.credit
	v.receives(x, &o, memory)
	r.missed = 0
	if o.Mode != funi.ReceiveFast {
		x.makeAnswers()
	}
	x.account.room++ // packets of this card may find room
	return true
}

// receiveMemory returns the memory of a ring or queue, or false if the process may not name it.
func (x *Context) receiveMemory(o *funi.Receive) (memory []byte, ok bool) {
	if !o.Valid() {
		return nil, false
	}
	if o.Mode == funi.ReceiveFast {
		return nil, true
	}
	memory = x.segments.Memory(o.Base, int(o.Bytes), funi.Keyed)
	return memory, memory != nil && uintptr(unsafe.Pointer(unsafe.SliceData(memory)))%funi.ReceiveUnit == 0
}

// closeReceive ends the receiving of messages, and reports whether the context received any. The
// card does not use the memory any more.
func (x *Context) closeReceive() bool {
	v := x.remote.receiver
	if v == nil || v.credit == 0 {
		return false
	}
	x.breakReservations(func(*room) bool { return true })
	x.remote.promised -= v.credit - v.unread
	v.credit, v.mode, v.base, v.memory, v.read, v.write = 0, funi.ReceiveFast, 0, nil, 0, 0
	return true
}

// receiveWithin ends the use of a segment's memory for messages.
func (x *Context) receiveWithin(s funi.Segment) {
	if x.remote == nil || x.remote.receiver == nil {
		return
	}
	if v := x.remote.receiver; v.memory != nil && s.Holds(v.memory) {
		x.closeReceive()
	}
	x.breakReservations(func(o *room) bool { return s.Holds(o.memory) })
}

// giveReceive gives n units of the ring back, or posts n more buffers. It reports whether there are
// so many. Units of a message that is under way are not given back.
func (x *Context) giveReceive(n uint32) bool {
	v := x.remote.receiver
	if v == nil || v.credit == 0 || n == 0 {
		return false
	}
	switch v.mode {
	case funi.ReceiveRing:
		most := v.write - v.read
		for open := v.open; open != 0; open &= open - 1 {
			most = min(most, v.table[bits.TrailingZeros64(open)].room.first-v.read)
		}
		if n > most {
			return false
		}
		v.read += n
	case funi.ReceivePosted:
		if n > v.units()-(v.write-v.read) {
			return false
		}
		v.write += n
	default:
		return false
	}
	x.account.room++
	x.card.clock.more = true
	return true
}

// timeSend notes the words that a packet of a message moves before it is accepted: its data, and
// the entry that it makes (operateunit.go).
func (u *model) timeSend(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) {
	var s arctic.Send
	v := x.remote.receiver
	if !p.Send(h, &s) || s.Block != (len(block) > 0) || v == nil || v.credit == 0 {
		return
	}
	if begins(&s) {
		var o room
		if u.remote.findRoom(x, v, &s, block, &o) != arctic.ReasonNone || s.Form == arctic.SendOpen {
			return
		}
		u.operate.move(wordsOf(min(len(block)+len(s.Data), len(o.memory))))
		u.timeRecord()
		return
	}
	if _, reason := v.continued(h.Source, &s, block); reason != arctic.ReasonNone {
		return
	}
	u.operate.move(wordsOf(len(block) + len(s.Data)))
	if s.Form == arctic.SendLast {
		u.timeRecord()
	}
}
