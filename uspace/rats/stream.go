package rats

// This file defines the messages between the two ends of a Stream (HPL-95-86, section 3.2, stream;
// receive.go and write.go are the ends).
//
// The receiver exposes a ring of memory, and the sender writes there as much as fits. A message
// carries its place in the stream and its length, since messages may overtake each other. A short
// message is one packet with up to shortBytes bytes, and many may be in flight at once. A longer
// message has one of longAreas areas for itself until the receiver has seen it, because the deltas
// of two would mix. The receiver reports its progress in credits. These are absolute numbers, so a
// late older one changes nothing.
//
// A sender that has more to write than its ring has room for says so (want), and stops. The
// receiver answers when everything that was sent has arrived. If the reader keeps up and there is
// memory, the receiver puts memory twice as long behind the same key and says so (ring). Otherwise
// it lets the sender continue with the present ring (credit). The old memory is kept until it has
// been read.
//
// Words of metadata, first the kind in bits 31:28:
//
//	data   to the receiver: end 27, end of record 26, length 23:0; place
//	hello  to the receiver, whose seed the sender was made with: 0; key of the sender's end, 2
//	       words; its area
//	want   to the receiver: 0; place up to which was sent
//	abort  either way: 0
//	ring   to the sender: 0; size; key, 2 words; areas, 3 words: the one for short messages and
//	       the others, 16 bits each; place where it begins
//	credit to the sender: answer to want 27; bytes read, short messages seen, long messages seen,
//	       since the beginning
//	done   to the sender: 0. The receiver has got the end of the stream
//
// Any holder of the sender's or the receiver's key can forge these words. So each end accepts only
// messages from its peer's node, and checks every number. An impossible number ends the stream
// (ErrProtocol), and affects nothing else.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	kindShift = 28
	endBit    = 1 << 27
	recordBit = 1 << 26
	answerBit = 1 << 27
	lengthMax = 1<<24 - 1

	kindData   = 1
	kindHello  = 2
	kindWant   = 3
	kindAbort  = 4
	kindRing   = 5
	kindCredit = 6
	kindDone   = 7

	dataWords = 2
	// shortBytes is the longest message of one packet: the packet's 64 bytes without the two words.
	shortBytes = arctic.MaxRemoteBytes - dataWords*arctic.WordSize
	longAreas  = 4 // how many longer messages may be unseen
	// shortCredit is how many records of short messages may be unread. Two are kept for hello and
	// want, the end or abort.
	shortCredit   = 16
	shortReserved = 2
	// controlCredit is how many records at the sender may be unread: four credits for a ring's
	// bytes, two each for short and long messages, a ring, done, abort, and one more.
	controlCredit = 12
	// maxPieces is how many parts of the stream a receiver keeps apart for a reader. Those behind
	// are not seen yet.
	maxPieces = 64
	// longestMessage is how many bytes of a stream are sent before other streams have their turn.
	longestMessage = 32 << 10

	// LeastRing and MostRing bound the sizes of a Stream's ring, which are powers of two, in bytes.
	LeastRing = 1 << 10
	MostRing  = 1 << 20

	// Protocols of seeds.
	protocolSender   = 6
	protocolReceiver = 7
)

var (
	// ErrProtocol reports an impossible message from the other end.
	ErrProtocol = errors.New("rats: the other end does not keep to the protocol")
	// ErrAborted reports that the other end has closed the stream before its end.
	ErrAborted = errors.New("rats: the other end has closed the stream before its end")
	ErrClosed  = errors.New("rats: the stream is closed") // reports that this end was closed
	// ErrRing reports a ring whose length is not a power of two from LeastRing to MostRing bytes.
	ErrRing = errors.New("rats: a stream's ring is a power of two from 1 KiB to 1 MiB long")
)

// Failure is the error of an instance whose message came back.
type Failure struct {
	Node   uint16        // for which it was
	Reason arctic.Reason // NoReason: the card had no room to say
}

func (f *Failure) Error() string {
	if f.Reason == NoReason {
		return fmt.Sprintf("rats: messages to node %d were not delivered, more than the card had room to tell of",
			f.Node)
	}
	return fmt.Sprintf("rats: a message to node %d was not delivered: %v", f.Node, f.Reason)
}

// end is the common part of a sender and a receiver.
type end struct {
	instance
	peer     Ticket // control messages go there; Key 0: not known yet
	key      Key    // of this end
	areas    []uint16
	err      error // why the stream is unusable
	abort    bool  // the other end is to be told
	closing  bool  // what was opened is to be closed
	complete bool  // and all that the other end has sent before its end is there
	lingers  bool  // but not before the other end has answered that it has got everything
	dropped  bool
	hello    bool // the other end does not know this one yet
	saidDone bool // the other end was told that this one is closed
	full     bool // something could not be sent since NextReady returned it
}

// Err returns why the instance is unusable; nil: it is not.
func (e *end) Err() error { return e.err }

// fail ends the stream at this end, once.
func (e *end) fail(err error) {
	if e.err == nil {
		e.err = err
		e.m.tell(&e.instance)
		e.answered()
	}
}

// lies ends the stream because of an impossible message of the other end, and tells that end.
func (e *end) lies(what string, n uint32) {
	e.fail(fmt.Errorf("node %d says %s %d: %w", e.peer.Node, what, n, ErrProtocol))
	e.abort = true
	e.m.await(&e.instance)
}

func (e *end) returned(r funi.Returned) {
	if r.Reason == arctic.ReasonNotOpened {
		e.fail(fmt.Errorf("opening a stream's key slot or area: %w", ErrFull))
		return
	}
	e.fail(&Failure{Node: r.Header.Node(), Reason: r.Reason})
}

// suspect ends the stream if one of its messages may have been returned. That message is missing at
// the other end, and only the card could have said which it was.
func (e *end) suspect(l *funi.Lost) {
	if e.peer.Key != 0 && l.To(e.peer.Node) {
		e.fail(&Failure{Node: e.peer.Node})
		e.m.await(&e.instance)
	}
}

// Probe finds out whether the other end's card still knows that end. If not, the instance fails. It
// makes the card answer, by a write of nothing without a record.
func (e *end) Probe() {
	if e.peer.Key != 0 && e.err == nil && (!e.closing || e.lingers) {
		e.send(e.peer, 0, nil, nil, false)
	}
}

// tellAbort tells the other end, if there is one. It returns false if there was no room.
func (e *end) tellAbort() bool {
	kind := uint32(kindAbort)
	if e.complete {
		kind = kindDone
	}
	if e.abort && e.peer.Key != 0 && !e.send(e.peer, 0, nil, []uint32{kind << kindShift}, true) {
		return false
	}
	e.abort = false
	return true
}

// shutAll closes what was opened, as far as there is room, and at the end gives the place back.
func (e *end) shutAll() bool {
	for len(e.areas) > 0 {
		if !e.shut(e.areas[0]) {
			return false
		}
		e.areas = e.areas[1:]
	}
	return true
}

func (e *end) leave() {
	if !e.dropped {
		e.dropped = true
		e.m.drop(&e.instance)
	}
}

// room reports the instance as ready, if something found too little room before and there is room
// now.
func (e *end) room() {
	if e.full {
		e.full = false
		e.m.tell(&e.instance)
	}
}

// begin adds an instance, which is what. It gives memory a key, and opens areas for the key: one
// with a credit, and then others with a credit of 1; none if others is negative. After an error the
// instance closes itself. Its memory is the caller's again if it has no key.
func (e *end) begin(m *Manager, what protocol, memory []byte, credit, others int) error {
	if !m.room(1+others, credit+others) {
		return ErrFull
	}
	if err := m.add(&e.instance, what); err != nil {
		return err
	}
	err := e.openKey(memory, credit, others)
	if err != nil && e.key == 0 {
		e.leave()
	} else if err != nil {
		e.closing = true
		m.await(&e.instance)
	}
	return err
}

// openKey opens the key and the areas of begin, for which there is room (Manager.room).
func (e *end) openKey(memory []byte, credit, others int) (err error) {
	if e.key, err = e.expose(memory); err != nil {
		return err
	}
	for n := range 1 + others {
		if n > 0 {
			credit = 1
		}
		a, err := e.open(e.key, credit, false)
		if err != nil {
			return err
		}
		e.areas = append(e.areas, a)
	}
	return nil
}

// ReceiverSeed and SenderSeed return the seeds of a Stream's ends, for a node, an area and a key
// that were passed on by other means.
func ReceiverSeed(node, area uint16, key uint64) Seed {
	return Seed{Protocol: protocolReceiver, Ticket: Ticket{Node: node, Area: area, Key: key}}
}

// SenderSeed is described with ReceiverSeed.
func SenderSeed(node, area uint16, key uint64) Seed {
	return Seed{Protocol: protocolSender, Ticket: Ticket{Node: node, Area: area, Key: key}}
}
