package am

// This file lists the packet types, and dispatches each packet to the program or the library.
//
// Types 0 to 5 are those of thesis appendix A. Types from 6 on are messages of the library's own
// calls. Their first word is the ticket of the call, so that a returned message tells which call
// failed.

import "github.com/funet/funet/uspace/funi"

const (
	typeFour         = 0 // cmam_tag: handler, four words
	typeIndirectFour = 1 // cmam_indirect_tag: object, four words
	typeXfer         = 2 // cmam_xfer_tag: place in a segment, data
	typeN            = 3 // cmam_n_tag: handler, 0 to 20 words
	typeIndirectN    = 4 // cmam_indirect_n_tag: object, 0 to 20 words
	typeMfer         = 5 // cmam_mfer_tag: XFER whose argument is a place in a segment

	typeGet = 6 // request: ticket, address, words, offset, 0
	// request: ticket, address, words, destination, 0; answered by XFER of this type
	typeGetBlock = 7
	typePut      = 8  // request: ticket, address, data
	typePutBlock = 9  // XFER request whose argument is the ticket
	typeData     = 10 // reply: ticket, offset, data
	typeDone     = 11 // reply: ticket, 0 or 1 for an address that is not shared, 0, 0, 0
	// 12 and 13 were the reductions and broadcasts of an earlier version
	typeProbe  = 14 // request without meaning
	typeRound  = 15 // barrier: see barrier.go
	typePutOne = 16 // request: ticket, address, 1 or 2 words, the words
	typeValue  = 17 // reply: ticket, offset, 1 or 2 words, the words

	// Messages of bytes; bytes.go describes the protocol. Lives are the receiver's and the
	// sender's, modulo 32; both are 0 in jobs without Rejoin (member.go).
	typeBytes = 18 // handler 7:0, padding 9:8, lives 14:10 and 31:27; 0 to 80 bytes
	// XFER into memory that the receiver has granted; its argument is a grant's key, or that of a
	// part (below)
	typePart = 19
	// request: id; handler 7:0, lives 14:10 and 31:27, kind 18:16; length in bytes; two words of
	// the kind
	typeReady = 20
	// reply, later request: id; key; address; address of the slots of the sender's lease, or 0
	typeGrant = 21
	typeTaken = 22 // reply, later request: id, or argument of parts; status (remote.go)
	typeAbort = 23 // request: key

	// The argument of a typePart in a slot of a lease: bit 31 is 1; kind 30:28, slot 27:25, number
	// 24:19, bytes less one 18:8, handler 7:0. The argument of a granted transfer: bit 31 is 0; the
	// rest is the key.

	// request: ticket; handler 7:0, padding 9:8, lives 14:10 and 31:27; 0 to 76 bytes
	typeCall = 24
	// reply, of a lost answer request: ticket; padding 9:8, status 31:16; 0 to 76 bytes, of an
	// error code and text
	typeAnswer = 25
	// membership: purpose and lives; the sender's life; three words: see member.go
	typeMember = 27

	// Messages with tags; all are requests. See match.go and pieces.go for the forms.
	// number of the message 31:2, space 1:0; tag; padding 9:8, lives 14:10 and 31:27, form 17:16; 0
	// to 72 bytes, or send, length, and maybe the offer (fetch.go). Those of wide messages are in
	// wide.go and parts.go.
	typeTagged = 26
	// receive; lives 14:10 and 31:27, form 17:16, space 19:18; send, bytes wanted, how many
	// messages were received; in the wide space how many of those came in parts
	typeTold  = 28
	typePiece = 29 // receive; offset in bytes; 76 bytes, the last piece fewer

	typeGetFour = 30 // request: ticket, address, place; answered by typeXfer (getfour.go)
	// reply, later request: handler that is not there, and lives as in typeBytes; level of the
	// message for it (undelivered.go)
	typeUnhandled = 31

	// typeTransfer is the type of a transfer for notice handler 0.
	typeTransfer = 256
)

// handle dispatches one message.
func (e *Endpoint) handle(l funi.Level, s *funi.Slot) {
	source, typ, words := s.Message()
	if len(words) == 0 {
		e.notice(l, s)
		return
	}
	m, first := &e.message[l], words[0]
	m.Source, m.Words = int(source), words[1:]
	switch typ {
	case typeFour, typeN:
		if e.member != nil {
			e.depth[l] = true
			run := e.member.current(m, typ, first)
			e.depth[l] = false
			if !run {
				return
			}
			first &^= lives
		}
		if first >= Handlers || e.handlers[first] == nil {
			e.unknown++
			e.bytes.tellUnhandled(m, first)
			return
		}
		e.depth[l] = true
		e.handlers[first](m)
	case typeBytes:
		e.depth[l] = true
		e.bytes.arrived(m, first)
	case typeIndirectFour, typeIndirectN:
		o := e.objects.find(first)
		if o == nil {
			e.unknown++
			return
		}
		e.depth[l] = true
		o.Receive(m)
	default:
		e.depth[l] = true
		e.serve(m, typ, first)
	}
	e.depth[l] = false
}

// forms are how many words the library's messages have behind the first.
var forms = [32]struct{ least, most int }{typeXfer: {1, MaxWords}, typeGet: {4, 4}, typeGetBlock: {4, 4},
	typeGetFour: {4, 4}, typePut: {1, MaxWords}, typePutOne: {4, 4}, typeData: {1, MaxWords}, typeValue: {4, 4},
	typeDone: {4, 4}, typeRound: {4, 4}, typeCall: {1, MaxWords}, typeAnswer: {1, MaxWords}, typeReady: {4, 4},
	typeGrant: {3, 3}, typeTaken: {1, 1}, typeAbort: {0, MaxWords}, typeTagged: {2, MaxWords}, typeTold: {4, 5},
	typePiece: {2, MaxWords}, typeUnhandled: {1, 1}, typeProbe: {0, MaxWords}, typeMember: {4, 4}}

// serve dispatches a message of the library; first is its first word, and the message has the
// others. It drops one of another form, or from a node outside the group.
func (e *Endpoint) serve(m *Message, typ uint16, first uint32) {
	if n := len(m.Words); int(typ) >= len(forms) || n < forms[typ].least || n > forms[typ].most || m.Source >= e.nodes {
		e.unknown++
		return
	}
	switch typ {
	case typeXfer:
		e.segments.xferArrived(m, Place(first))
	case typeGet:
		e.calls.get(m, first)
	case typeGetBlock:
		e.calls.getBlock(m, first)
	case typeGetFour:
		e.calls.getFour(m, first)
	case typePut, typePutOne:
		e.calls.put(m, first, carried(m, typ))
	case typeData, typeValue:
		e.calls.take(m, first, carried(m, typ))
	case typeDone:
		e.calls.done(m, first)
	case typeRound:
		e.rounds.arrived(m, first)
	case typeCall:
		e.remote.called(m, first)
	case typeAnswer:
		e.remote.answered(m, first)
	case typeReady:
		e.bytes.readyArrived(m, first)
	case typeGrant:
		e.bytes.grantArrived(m, first)
	case typeTaken:
		e.bytes.takenArrived(m, first)
	case typeAbort:
		e.bytes.abortArrived(m, first)
	case typeTagged:
		e.tags.arrived(m, first)
	case typeTold:
		e.tags.toldArrived(m, first)
	case typePiece:
		e.tags.pieceArrived(m, first)
	case typeUnhandled:
		e.bytes.unhandled(m, first)
	case typeProbe:
	case typeMember:
		if e.member == nil {
			e.refuseMember(m, first)
		} else {
			e.member.arrived(m, first)
		}
	default:
		e.unknown++
	}
}

// notice dispatches a transfer, once all of it has arrived.
func (e *Endpoint) notice(l funi.Level, s *funi.Slot) {
	if !s.Header().Transfer() {
		e.unknown++ // a message without words
		return
	}
	m := &e.message[l]
	m.Source, m.Words = int(s.Source()), nil
	typ := s.Header().Type()
	number := uint32(typ) - typeTransfer
	e.depth[l] = true
	switch {
	case number < Handlers && e.notices[number] != nil:
		e.notices[number](m, s.Notice())
	case typ == typePart:
		e.bytes.partArrived(m, s.Notice())
	case typ == typeMfer:
		e.segments.mferArrived(m, s.Notice())
	case typ == typeGetBlock:
		e.calls.answered(m.Source, s.Notice().Argument)
	case typ == typePutBlock:
		e.calls.finish(m, s.Notice().Argument, answerDone)
	default:
		e.unknown++
	}
	e.depth[l] = false
}
