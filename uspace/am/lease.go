package am

// This file sends messages at once, in a few packets, into slots of memory that the receiver has
// leased to the sender.

import "github.com/funet/funet/uspace/funi"

const (
	// EagerBytes is the largest number of bytes of a message that leaves at once.
	EagerBytes = 2048
	// leaseSlots is how many slots a node leases to another.
	leaseSlots = 8
	leaseBytes = leaseSlots * EagerBytes
	// partWords is the largest number of words of a packet with its data.
	partWords = 16

	partBit         = 1 << 31
	partKindShift   = 28
	partSlotShift   = 25
	partNumberShift = 19
	partNumberMask  = 63
	partBytesShift  = 8
	partBytesMask   = EagerBytes - 1
)

// headWords is how many words of a kind travel before the bytes.
var headWords = [kindMask + 1]int{kindCall: 1, kindAnswer: 2}

// bytePeer is an endpoint's state for another node.
type bytePeer struct {
	// As a receiver of messages of that node.
	leased  *extent // nil: no lease
	slots   [leaseSlots]leasedSlot
	waiting int // for grants
	// As a sender.
	lease  uint32 // address of the slots there; 0: none
	free   uint8  // bit set of free slots
	number [leaseSlots]uint8
	used   [leaseSlots]uint32 // the argument of each slot's last use
	asked  int                // messages announced to the node, and not granted yet
	held   []*send            // messages to be announced to it, in order
}

// leasedSlot is a message that is arriving in a slot.
type leasedSlot struct {
	argument uint32
	left     int // words; 0: none
}

// peer returns the state for a node; there must be memory.
func (x *byteMessages) peer(node int) *bytePeer {
	p := x.peers[node]
	if p == nil {
		p = new(bytePeer)
		x.peers[node] = p
	}
	return p
}

// lease returns the address of the slots leased to a node, or 0 if there is no memory for a lease.
func (x *byteMessages) lease(node int) uint32 {
	l, p := x.landing, x.peer(node)
	if p.leased == nil {
		x, ok := l.leases.take(leaseBytes)
		if !ok {
			return 0
		}
		p.leased = &x
	}
	return l.base + uint32(p.leased.at)
}

// sendEager sends a message at once, if it is short enough, a slot at the receiver is free, and the
// send queue is long enough; otherwise it returns false. m is nil, or the request that it replies
// to. Either all of its packets are sent or, after an error, none.
func (x *byteMessages) sendEager(m *Message, node int, kind, handler uint32, words [2]uint32, g gather,
	size int) (bool, error) {
	if x.peers == nil || x.peers[node] == nil {
		return false, nil
	}
	p := x.peers[node]
	size += 4 * headWords[kind]
	packets := (size + 4*partWords - 1) / (4 * partWords)
	if p.free == 0 || size > EagerBytes || packets >= x.iface.Slots() {
		return false, nil
	}
	level := funi.Request
	if m != nil {
		level = funi.Reply
	}
	if err := x.roomFor(m, node, packets); err != nil || p.free == 0 || x.peers[node] != p {
		return false, err // the slots may have been used, or the lease have ended, meanwhile
	}
	slot := 0
	for p.free>>slot&1 == 0 {
		slot++
	}
	p.free &^= 1 << slot
	p.number[slot]++
	argument :=
		partBit | kind<<partKindShift | uint32(slot)<<partSlotShift | uint32(p.number[slot]&partNumberMask)<<partNumberShift |
			uint32(size-1)<<partBytesShift | handler
	p.used[slot] = argument
	g.setHead(headWords[kind], words[0], words[1])
	address := p.lease + uint32(slot*EagerBytes)
	for at := 0; at < size; at += 4 * partWords {
		n := min(partWords, (size-at+15)/16*4)
		s := x.iface.Reserve(level)
		s.SetTransfer(uint16(node), typePart, funi.Transfer{Destination: address + uint32(at),
			Argument: argument, Words: n})
		data := s[funi.DataWord : funi.DataWord+n]
		clear(data[n-4:])
		g.read(bytesOf(data))
		x.iface.Commit(level)
	}
	return true, nil
}

// roomFor waits until the send queue has room for some packets.
func (x *byteMessages) roomFor(m *Message, node, packets int) error {
	if m == nil {
		if err := x.refusal(node, 0); err != nil {
			return err
		}
		for x.iface.Slots()-1-x.iface.Unsent(funi.Request) < packets {
			if _, err := x.e.Poll(); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := m.reserve(0); err != nil {
		return err
	}
	for x.iface.Slots()-1-x.iface.Unsent(funi.Reply) < packets {
		x.drive()
		if err := x.ended("replying"); err != nil {
			return err
		}
		x.e.service(funi.Reply, burst)
	}
	return nil
}

// leasedArrived counts a part of a message in a slot, and delivers the message with the last part.
func (x *byteMessages) leasedArrived(m *Message, n funi.Notice) {
	if x.peers == nil || x.peers[m.Source] == nil || x.peers[m.Source].leased == nil {
		x.unknown++
		return
	}
	p := x.peers[m.Source]
	slot := int(n.Argument >> partSlotShift & (leaseSlots - 1))
	size := int(n.Argument>>partBytesShift&partBytesMask) + 1
	at := p.leased.at + slot*EagerBytes
	s := &p.slots[slot]
	if s.left == 0 || s.argument != n.Argument {
		s.argument, s.left = n.Argument, (size+15)/16*4
	}
	if n.Words == 0 || n.Words > s.left || n.Address < x.landing.base+uint32(at) ||
		n.Address-x.landing.base-uint32(at) >= EagerBytes {
		x.unknown++
		return
	}
	if s.left -= n.Words; s.left > 0 {
		return
	}
	kind := n.Argument >> partKindShift & kindMask
	heads := headWords[kind]
	if size < 4*heads {
		x.unknown++
		return
	}
	b := x.landing.memory[at : at+size]
	var words [2]uint32
	load(words[:heads], b)
	status := uint32(statusPanicked)
	defer func() { x.taken(m, n.Argument, status) }()
	status = x.deliver(m, kind, n.Argument&handlerMask, words, b[4*heads:])
}

// slotTaken frees a slot whose message was taken, and notes if the message had no handler.
func (x *byteMessages) slotTaken(node int, argument, status uint32) {
	if x.peers == nil || x.peers[node] == nil {
		x.unknown++
		return
	}
	p, slot := x.peers[node], argument>>partSlotShift&(leaseSlots-1)
	if p.lease != 0 && p.used[slot] == argument {
		p.free |= 1 << slot
		if kind := argument >> partKindShift & kindMask; status == statusNoHandler {
			level := funi.Request
			if kind == kindReply {
				level = funi.Reply
			}
			x.noHandler(node, argument&handlerMask, level)
		}
	}
}
