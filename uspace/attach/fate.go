package attach

// This file has the news that a daemon gives a process with a direct port about the other processes
// of its job: that one has ended, or that one is there. So their peers need not find out by
// silence. A process that doubts whether another one lives asks. News is the only answer. A process
// that gets none waits for the peer as long as it would have anyway.

import (
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Incarnation returns the incarnation of the card that is opened on the port with the ticket. Both
// ends compute it, and neither can choose it. It reveals nothing about the ticket, and is never 0.
func (t Ticket) Incarnation() uint32 {
	sum := sha256.Sum256(append([]byte("FUNet incarnation of a direct card"), t[:]...))
	return max(1, binary.LittleEndian.Uint32(sum[:]))
}

// Fate is a message of a daemon that says what became of the process of a node.
//
//	u16 node@16, u16 flags@18 (bit 0: it lives), u32 life@20, u64 order@24
type Fate struct {
	Node  uint16
	Lives bool // the process is there; otherwise it has ended
	_     byte
	Life  uint32 // the incarnation of its card
	Order uint64 // greater in later news of the node
}

// Encode composes the message.
func (f Fate) Encode() []byte { return compose(KindFate|AnswerBit, f) }

// DecodeFate reads the message.
func DecodeFate(b []byte) (Fate, error) {
	f, err := read[Fate](b, KindFate|AnswerBit)
	if err == nil && f.Life == 0 {
		return Fate{}, malformed("what became of a process", "life", 0)
	}
	return f, err
}

// Doubt asks whether the process of a node is still the one with the given incarnation of its card.
//
//	u16 node@16, u16 0@18, u32 life@20
type Doubt struct {
	Node, _ uint16
	Life    uint32
}

// Encode composes the message.
func (d Doubt) Encode() []byte { return compose(KindFate, d) }

// DecodeDoubt reads the message.
func DecodeDoubt(b []byte) (Doubt, error) {
	d, err := read[Doubt](b, KindFate)
	if err == nil && d.Life == 0 {
		return Doubt{}, malformed("a question after a process", "life", 0)
	}
	return d, err
}

// Doubt asks the daemon whether the process of a node lives. It does not wait: without a daemon, or
// without room in the socket, it sends nothing. Any goroutine may call it.
func (p *Port) Doubt(node uint16, life uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.Sendmsg(int(fd), Doubt{Node: node, Life: life}.Encode(), nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
}

// fates passes on news. It belongs to the goroutine that watches.
type fates struct {
	tell  func(Fate)
	order map[uint16]uint64 // of the last news, by node
	nodes uint32
}

// take takes a message. It ignores news that are not of this job, or older than the last.
func (f *fates) take(message []byte) error {
	n, err := DecodeFate(message)
	if err != nil {
		return err
	}
	if uint32(n.Node) < f.nodes && n.Order > f.order[n.Node] {
		f.order[n.Node] = n.Order
		f.tell(n)
	}
	return nil
}
